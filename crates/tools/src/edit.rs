//! `edit`: replaces text in a file, and leaves every other byte as it is.
//!
//! The file need not have been read before: what is looked for must be there, and that is proof enough. Several edits of one
//! call see each other's results, in order, and are made all or none. What is no text, such as a file with NUL bytes, is edited
//! where exactly these bytes are.

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
    About, ContentHash, Context, Effect, Effects, Kinds, Output, PathPattern, Planned, PlannedTool,
    Scene, Stat, ToolError, Unseen, quote,
};

use self::plan::{Edit as Wanted, Miss, Plan, Strategy};
use crate::cut::Cutter;
use crate::diff;
use crate::document::{self, Document};
use crate::format::{self, Root};
use crate::{redaction_guard, syntax};

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
    edits: Option<Vec<One>>,
}

// One of several edits. A doc comment here would cost every list of tools a line that says nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct One {
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
    const KINDS: Kinds = Kinds::READ.with(Kinds::WRITE);
    type Args = Args;
    type Plan = Wish;

    fn about(&self) -> About {
        About::titled("Edit a file")
    }

    fn plan(&self, args: Args, _: &Scene<'_>) -> Result<Planned<Wish>, ToolError> {
        document::check_path_given(&args.path)?;
        let path = args.path.clone();
        let effects = Effects::read(&path).and(Effect::Write(PathPattern::file(&path)));
        Ok(Planned { effects, plan: Wish { path, edits: args.edits()? } })
    }

    async fn call(&self, cx: &Context, wish: Wish) -> Result<Output, ToolError> {
        let Wish { path, edits } = wish;
        cx.blocking(move |cx| document::even_if_stale(|| edit(cx, &path, &edits))).await?
    }

    fn copy_for_trial(&self, wish: &Wish) -> Option<Wish> {
        Some(wish.clone())
    }
}

/// The edits of one call. Where each of them belongs is found in the file when the call runs.
#[derive(Clone)]
pub(crate) struct Wish {
    path: PathBuf,
    edits: Vec<Wanted>,
}

impl Args {
    /// The edits, in either form.
    fn edits(self) -> Result<Vec<Wanted>, ToolError> {
        match (self.old_string, self.new_string, self.edits) {
            (Some(old), Some(new), None) => Ok(vec![Wanted { old, new, all: self.replace_all }]),
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
            (None, None, Some(edits)) => Ok(edits.into_iter().map(One::wanted).collect()),
            (_, _, Some(_)) => {
                Err(ToolError::invalid_args("both `edits` and a single edit are given")
                    .hint("put old_string and new_string into edits"))
            }
        }
    }
}

impl One {
    fn wanted(self) -> Wanted {
        Wanted { old: self.old_string, new: self.new_string, all: self.replace_all }
    }
}

fn edit(cx: &Context, path: &Path, edits: &[Wanted]) -> Result<Output, ToolError> {
    let name = Root::of(cx, path)?.show(Path::new(""));
    let (bytes, stat) = document::load(cx, path)?;
    let before = Document::parse_any(bytes);
    let (after, done) = apply(&before, edits, &name, Cutter::of(cx))?;
    if after.bytes() == before.bytes() {
        return Ok(unchanged(&name));
    }
    redaction_guard::check(cx, &name, &before.to_text(), &after.to_text())?;
    let place = cx.files().resolve(path)?.path;
    let had_changed = has_changed(cx, &place, &stat, before.bytes());
    let altered = cx.files().replace(path, after.bytes(), &stat, before.bytes())?;
    let notes = Notes { had_changed, how: format::how_written(stat.links, altered.in_place) };
    Ok(report(&name, &before, &after, &done, &notes, Cutter::of(cx)))
}

/// The answer where edits take back each other: nothing is written, and there is nothing to undo.
fn unchanged(name: &str) -> Output {
    Output::text(format!("unchanged {name}: the edits come to what is there already"))
        .with("path", name)
        .with("replacements", 0)
        .with("strategy", Strategy::Exact.as_str())
        .with("diff", "")
}

/// Whether the file is not what the session last saw of it. What the times say is enough if they are the same.
fn has_changed(cx: &Context, place: &Path, stat: &Stat, bytes: &[u8]) -> bool {
    let seen = |hash| cx.session().has_seen(place, stat.fingerprint, hash);
    seen(None) == Err(Unseen::Changed) && seen(Some(ContentHash::of(bytes))) == Err(Unseen::Changed)
}

/// What else there is to say.
struct Notes {
    /// The file was not as the session had last seen it; the place of the edit was found all the same.
    had_changed: bool,
    /// How the file was written, if that is worth a note.
    how: String,
}

impl std::fmt::Display for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.had_changed {
            f.write_str("\nnote: the file had changed since this session read it")?;
        }
        f.write_str(&self.how)
    }
}

/// The file after all edits, and how each was made.
fn apply(
    before: &Document,
    edits: &[Wanted],
    name: &str,
    cutter: Cutter<'_>,
) -> Result<(Document, Vec<(Strategy, usize)>), ToolError> {
    let mut current = Cow::Borrowed(before);
    let mut done = Vec::with_capacity(edits.len());
    for (at, edit) in edits.iter().enumerate() {
        let Plan { strategy, replacements } = plan_in(&current, edit).map_err(|miss| {
            refusal(&miss, current.text(), edit, name, (at, edits.len()), cutter)
        })?;
        let bytes = current
            .splice(&replacements)
            .map_err(|error| error.explain(name, current.encoding()))?;
        current = Cow::Owned(current.with_bytes(bytes));
        done.push((strategy, replacements.len()));
    }
    Ok((current.into_owned(), done))
}

/// In what is no text every byte counts: nobody knows which of them are blanks.
fn plan_in(document: &Document, edit: &Wanted) -> Result<Plan, Miss> {
    match plan::plan(document.text(), edit) {
        Ok(plan) if plan.strategy != Strategy::Exact && !document.is_text() => Err(Miss::NotFound),
        planned => planned,
    }
}

fn refusal(
    miss: &Miss,
    text: &[u8],
    edit: &Wanted,
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
        Miss::Empty => ToolError::invalid_args(words),
        _ => ToolError::failed(words),
    }
}

fn report(
    name: &str,
    before: &Document,
    after: &Document,
    done: &[(Strategy, usize)],
    notes: &Notes,
    cutter: Cutter<'_>,
) -> Output {
    let replacements: usize = done.iter().map(|(_, count)| count).sum();
    let loosest = done.iter().map(|(strategy, _)| *strategy).max().unwrap_or(Strategy::Exact);
    let (before, after) = (before.to_text(), after.to_text());
    let changes = diff::unified(&before, &after, cutter);
    let error = syntax::new_error(&quote::unpath(name), &before, &after);
    let mut text = format!(
        "edited {name}: {}, {}{}\n",
        format::count(replacements, "replacement", "replacements"),
        how(done),
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

/// How what was looked for was found, where it was not exactly so.
fn how(done: &[(Strategy, usize)]) -> String {
    let words = |strategy: Strategy| match strategy {
        Strategy::Exact => "found exactly",
        Strategy::Whitespace => "found apart from white space",
        Strategy::Indentation => "found apart from indentation, new lines indented to fit",
    };
    if let [(strategy, _)] = done {
        return words(*strategy).into();
    }
    let loose: Vec<String> = (1..)
        .zip(done)
        .filter(|(_, (strategy, _))| *strategy != Strategy::Exact)
        .map(|(number, (strategy, _))| format!("edit {number} {}", words(*strategy)))
        .collect();
    if loose.is_empty() { "all found exactly".into() } else { loose.join(", ") }
}
