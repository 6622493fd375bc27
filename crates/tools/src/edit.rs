//! `edit`: replaces text in a file and leaves every other byte unchanged.
//!
//! The file need not have been read before: the searched text must be in the file, which proves that the model knows it. Several edits of
//! one call are applied in order, each to the result of the one before, and all or none are written. A binary file, such as one with NUL
//! bytes, is edited only at an exact match.

pub(crate) mod fold;
pub(crate) mod indent;
pub(crate) mod miss;
pub(crate) mod plan;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    ContentHash, Context, Effect, EffectKinds, Effects, Output, PathPattern, PlanContext, Planned,
    PlannedTool, Stat, ToolDetails, ToolError, Unseen, quote,
};

use self::plan::{EditMiss, EditPlan, MatchStrategy, TextEdit};
use crate::cut::Cutter;
use crate::diff;
use crate::document::{self, Document};
use crate::format::{self, Root};
use crate::{redaction_guard, syntax};

/// The `edit` tool.
pub(crate) struct Edit;

/// Replace text in a file: one replacement, or several `edits` of which all are made or none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// File to change.
    path: PathBuf,
    /// Text to find; must occur once.
    #[serde(default)]
    old_string: Option<String>,
    /// Replacement.
    #[serde(default)]
    new_string: Option<String>,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
    /// Several replacements, applied in order; use instead of `old_string` and `new_string`.
    #[serde(default)]
    edits: Option<Vec<EditArgs>>,
}

// One of several edits. A doc comment here would cost every list of tools a line that says nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditArgs {
    /// Text to find.
    old_string: String,
    /// Replacement.
    new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

impl PlannedTool for Edit {
    const NAME: &'static str = "edit";
    const KINDS: EffectKinds = EffectKinds::READ.with(EffectKinds::WRITE);
    type Args = Args;
    type Plan = EditRequest;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Edit a file")
    }

    fn plan(&self, args: Args, _: &PlanContext<'_>) -> Result<Planned<EditRequest>, ToolError> {
        document::check_path_given(&args.path)?;
        let path = args.path.clone();
        let effects = Effects::read(&path).and(Effect::Write(PathPattern::file(&path)));
        Ok(Planned { effects, plan: EditRequest { path, edits: args.edits()? } })
    }

    async fn call(&self, cx: &Context, request: EditRequest) -> Result<Output, ToolError> {
        let EditRequest { path, edits } = request;
        cx.blocking(move |cx| document::retry_if_stale(|| edit_file(cx, &path, &edits))).await?
    }

    fn copy_for_trial(&self, request: &EditRequest) -> Option<EditRequest> {
        Some(request.clone())
    }
}

/// The edits of one call. Their positions are found in the file when the call runs.
#[derive(Clone)]
pub(crate) struct EditRequest {
    path: PathBuf,
    edits: Vec<TextEdit>,
}

impl Args {
    /// Returns the edits of either form of arguments; refuses an incomplete or ambiguous combination.
    fn edits(self) -> Result<Vec<TextEdit>, ToolError> {
        match (self.old_string, self.new_string, self.edits) {
            (Some(old), Some(new), None) => Ok(vec![TextEdit { old, new, all: self.replace_all }]),
            (Some(_), None, None) => Err(ToolError::invalid_args("`new_string` is missing")
                .hint("give \"\" to remove old_string")),
            (None, _, None) => Err(ToolError::invalid_args("`old_string` is missing")
                .hint("give old_string and new_string, or edits")),
            (None, None, Some(edits)) if edits.is_empty() => {
                Err(ToolError::invalid_args("`edits` is empty"))
            }
            (None, None, Some(_)) if self.replace_all => Err(ToolError::invalid_args(
                "`replace_all` beside `edits` does not say which edit it means",
            )
            .hint("give it inside of the edits that should replace every occurrence")),
            (None, None, Some(edits)) => Ok(edits.into_iter().map(EditArgs::into_edit).collect()),
            (_, _, Some(_)) => {
                Err(ToolError::invalid_args("both `edits` and a single edit are given")
                    .hint("put old_string and new_string into edits"))
            }
        }
    }
}

impl EditArgs {
    /// Converts the arguments to an edit.
    fn into_edit(self) -> TextEdit {
        TextEdit { old: self.old_string, new: self.new_string, all: self.replace_all }
    }
}

/// Applies the edits to the file, writes it, and reports the difference.
fn edit_file(cx: &Context, path: &Path, edits: &[TextEdit]) -> Result<Output, ToolError> {
    let name = Root::of(cx, path)?.show(Path::new(""));
    let (bytes, stat) = document::load(cx, path)?;
    let before = Document::parse_any(bytes);
    let (after, done) = apply(&before, edits, &name, Cutter::of(cx))?;
    if after.bytes() == before.bytes() {
        return Ok(unchanged(&name));
    }
    redaction_guard::check(cx, &name, &before.to_text(), &after.to_text())?;
    let place = cx.files().resolve(path)?.path;
    let had_changed = has_changed_since_read(cx, &place, &stat, before.bytes());
    let altered = cx.files().replace(path, after.bytes(), &stat, before.bytes())?;
    let notes = EditNotes { had_changed, how: format::how_written(stat.links, altered.in_place) };
    Ok(report(&name, &before, &after, &done, &notes, Cutter::of(cx)))
}

/// Returns the output for edits that cancel each other: nothing is written, and there is nothing to undo.
fn unchanged(name: &str) -> Output {
    Output::text(format!("unchanged {name}: the edits come to what is there already"))
        .with("path", name)
        .with("replacements", 0)
        .with("strategy", MatchStrategy::Exact.as_str())
        .with("diff", "")
}

/// Returns whether the file changed since the session last read it. The hash is computed only if the fingerprint differs.
fn has_changed_since_read(cx: &Context, place: &Path, stat: &Stat, bytes: &[u8]) -> bool {
    let seen = |hash| cx.session().has_seen(place, stat.fingerprint, hash);
    seen(None) == Err(Unseen::Changed) && seen(Some(ContentHash::of(bytes))) == Err(Unseen::Changed)
}

/// Remarks at the end of the output.
struct EditNotes {
    /// True if the file changed since the session last read it; the edit was applied nevertheless.
    had_changed: bool,
    /// Remark about hard links or a write in place; empty if there is none.
    how: String,
}

impl std::fmt::Display for EditNotes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.had_changed {
            f.write_str("\nnote: the file had changed since this session read it")?;
        }
        f.write_str(&self.how)
    }
}

/// Applies all edits to a document. Returns the new document, with the strategy and the number of replacements of each edit.
fn apply(
    before: &Document,
    edits: &[TextEdit],
    name: &str,
    cutter: Cutter<'_>,
) -> Result<(Document, Vec<(MatchStrategy, usize)>), ToolError> {
    let mut current = Cow::Borrowed(before);
    let mut done = Vec::with_capacity(edits.len());
    for (at, edit) in edits.iter().enumerate() {
        let EditPlan { strategy, replacements } = plan_in(&current, edit).map_err(|miss| {
            miss_error(&miss, current.text(), edit, name, (at, edits.len()), cutter)
        })?;
        let bytes = current
            .splice(&replacements)
            .map_err(|error| error.explain(name, current.encoding()))?;
        current = Cow::Owned(current.with_bytes(bytes));
        done.push((strategy, replacements.len()));
    }
    Ok((current.into_owned(), done))
}

/// Plans an edit. In a binary file only an exact match counts, because the meaning of its bytes is unknown.
fn plan_in(document: &Document, edit: &TextEdit) -> Result<EditPlan, EditMiss> {
    match plan::plan(document.text(), edit) {
        Ok(plan) if plan.strategy != MatchStrategy::Exact && !document.is_text() => {
            Err(EditMiss::NotFound)
        }
        planned => planned,
    }
}

/// Returns the error for an edit that cannot be made, with its number if there are several.
fn miss_error(
    miss: &EditMiss,
    text: &[u8],
    edit: &TextEdit,
    name: &str,
    (at, all): (usize, usize),
    cutter: Cutter<'_>,
) -> ToolError {
    let words = miss.explain(text, edit, name, cutter);
    let words = if all > 1 {
        format!("edit {} of {all}, nothing was changed: {words}", at + 1)
    } else {
        words
    };
    match miss {
        EditMiss::Empty => ToolError::invalid_args(words),
        _ => ToolError::failed(words),
    }
}

/// Returns the output for edits that were made.
fn report(
    name: &str,
    before: &Document,
    after: &Document,
    done: &[(MatchStrategy, usize)],
    notes: &EditNotes,
    cutter: Cutter<'_>,
) -> Output {
    let replacements: usize = done.iter().map(|(_, count)| count).sum();
    let loosest = done.iter().map(|(strategy, _)| *strategy).max().unwrap_or(MatchStrategy::Exact);
    let (before, after) = (before.to_text(), after.to_text());
    let changes = diff::unified_diff(&before, &after, cutter);
    let error = syntax::new_error(&quote::unpath(name), &before, &after);
    let mut text = format!(
        "edited {name}: {}, {}{}\n",
        format::count(replacements, "replacement", "replacements"),
        match_remark(done),
        syntax::note(error.as_ref())
    );
    text.push_str(&changes.text);
    text.push_str(&notes.to_string());
    let output = Output::text(text)
        .with("path", name)
        .with("replacements", replacements)
        .with("strategy", loosest.as_str())
        .with("diff", changes.text);
    syntax::attach(output, error)
}

/// Says how each searched text was found: exactly, or with a difference in white space.
fn match_remark(done: &[(MatchStrategy, usize)]) -> String {
    let words = |strategy: MatchStrategy| match strategy {
        MatchStrategy::Exact => "found exactly",
        MatchStrategy::Whitespace => "found apart from white space",
        MatchStrategy::Indentation => "found apart from indentation, new lines indented to fit",
    };
    if let [(strategy, _)] = done {
        return words(*strategy).into();
    }
    let loose: Vec<String> = (1..)
        .zip(done)
        .filter(|(_, (strategy, _))| *strategy != MatchStrategy::Exact)
        .map(|(number, (strategy, _))| format!("edit {number} {}", words(*strategy)))
        .collect();
    if loose.is_empty() { "all found exactly".into() } else { loose.join(", ") }
}
