//! `grep`: finds lines that match a pattern, with ripgrep's engine in this process.
//!
//! No program is started, so a pattern is never an option. Several threads search files, and the output is nevertheless in the
//! order of paths and lines: [`first_hits`] explains how the search can stop early in spite of that.

mod answer;
mod buffer;
mod chunks;
mod excerpt;
mod first_hits;
mod query;
mod scanner;
#[cfg(test)]
mod tests;
mod visitor;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    CallId, Context, EffectKinds, Effects, Output, PlanContext, Planned, PlannedTool, ToolDetails,
    ToolError, WalkSettings, quote,
};

use crate::format::{self, Root};
use crate::parameter_defaults::here;
use answer::GrepAnswer;
use first_hits::FirstHits;
use query::{Mode, Query};
use scanner::Scanner;
use visitor::{SearchTally, TreeSearch, TreeSearcher};

/// The `grep` tool.
pub(crate) struct Grep;

/// Search files for a regular expression (ripgrep syntax). Matches come as `path:line:text`; ignored and binary files are skipped.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "they are the model's options, one by one")]
pub(crate) struct Args {
    /// Regular expression.
    pattern: String,
    /// File or directory to search, or `output:CALL` for a kept output.
    #[serde(default = "here")]
    path: PathBuf,
    /// Search only matching files: `*.rs`, `src/**/*.{ts,tsx}`; a leading `!` excludes.
    glob: Option<String>,
    /// Search only files of this type: `rust`, `py`, `ts` …
    #[serde(rename = "type")]
    file_type: Option<String>,
    /// Return matching lines, paths only, or the number of lines per file.
    #[serde(default)]
    mode: Mode,
    /// Ignore case.
    #[serde(default)]
    ignore_case: bool,
    /// Treat `pattern` as plain text.
    #[serde(default)]
    literal: bool,
    /// Let matches span lines.
    #[serde(default)]
    multiline: bool,
    /// Match whole words only.
    #[serde(default)]
    word: bool,
    /// Lines to show before each match.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    before: usize,
    /// Lines to show after each match.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    after: usize,
    /// Lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    context: usize,
    /// Include ignored files.
    #[serde(default)]
    all: bool,
    /// Maximum number of matches, or of files.
    #[serde(default = "two_hundred")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: usize,
}

/// Returns the default of `limit`.
fn two_hundred() -> usize {
    200
}

impl PlannedTool for Grep {
    const NAME: &'static str = "grep";
    const KINDS: EffectKinds = EffectKinds::READ.with(EffectKinds::STATE);
    type Args = Args;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Search contents")
    }

    type Plan = SearchedText;

    fn plan(&self, args: Args, _: &PlanContext<'_>) -> Result<Planned<SearchedText>, ToolError> {
        let (effects, plan) = match kept_call(&args.path) {
            Some(call) => (Effects::state("output"), SearchedText::Kept(call, args)),
            None => (Effects::read_tree(&args.path), SearchedText::Files(args)),
        };
        Ok(Planned { effects, plan })
    }

    async fn call(&self, cx: &Context, searched: SearchedText) -> Result<Output, ToolError> {
        cx.blocking(move |cx| match searched {
            SearchedText::Kept(call, args) => search_kept(cx, &args, &call),
            SearchedText::Files(args) => search_files(cx, &args),
        })
        .await?
    }
}

/// The texts that a call searches.
pub(crate) enum SearchedText {
    /// The kept output of a call.
    Kept(CallId, Args),
    /// Files below a path.
    Files(Args),
}

/// Returns the call of a path such as `output:CALL`.
fn kept_call(path: &Path) -> Option<CallId> {
    path.to_str()?.strip_prefix("output:").map(CallId::new)
}

/// Searches the files of a tree.
fn search_files(cx: &Context, args: &Args) -> Result<Output, ToolError> {
    let root = Root::of(cx, &args.path)?;
    let query = Query::new(args, root.join(Path::new("")))?;
    let search = TreeSearch {
        cx,
        query: &query,
        hits: FirstHits::new(query.limit, query.mode.unit()),
        tally: Mutex::default(),
    };
    let settings = WalkSettings { ignore_files: !args.all, ..WalkSettings::default() };
    let report = cx
        .files()
        .walk(&args.path, settings, &|| Box::new(TreeSearcher::new(&search)))
        .map_err(|error| hint_at_glob(args, error))?;
    let mut tally = search.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    tally.notes.merge(report.into());
    let (files, truncated) = search.hits.finish();
    if files.is_empty() {
        return Ok(report_no_match(args, &query, &root, tally));
    }
    if truncated && let Some((last, _)) = files.last() {
        // Threads may or may not have reached files behind the last match, so notes about these are dropped.
        tally.notes.end_at(last);
    }
    let mut answer = GrepAnswer::new(&query);
    for (path, hits) in &files {
        answer.add(&root.show(path), hits);
    }
    Ok(answer.finish(truncated, |text| tally.notes.push_to(text, &root)))
}

/// Adds a hint if the path looks like a pattern, which is a frequent mistake.
fn hint_at_glob(args: &Args, error: ToolError) -> ToolError {
    match args.path.to_str() {
        Some(path) if path.contains('*') => error.hint("a pattern for names belongs in `glob`"),
        _ => error,
    }
}

/// Searches the kept output of a call.
fn search_kept(cx: &Context, args: &Args, call: &CallId) -> Result<Output, ToolError> {
    let query = Query::new(args, PathBuf::new())?;
    let Some(text) = cx.kept_output(call)? else {
        return Err(ToolError::failed(format!("there is no kept output of the call `{call}`"))
            .hint("an answer that was cut names the output that was kept"));
    };
    let hits = Scanner::new(cx, &query)
        .search_kept(&text)
        .map_err(|error| ToolError::failed(format!("cannot search output:{call}: {error}")))?;
    if hits.matches == 0 {
        return Ok(no_match_output(format!(
            "no match for `{}` in output:{call}",
            shown_pattern(args)
        )));
    }
    let truncated = query.mode == Mode::Content && hits.is_enough(query.limit);
    let mut answer = GrepAnswer::new(&query);
    answer.add(&format!("output:{call}"), &hits);
    Ok(answer.finish(truncated, |_| {}))
}

/// Says which files were searched without a match, and which were not searched.
fn report_no_match(args: &Args, query: &Query, root: &Root, tally: SearchTally) -> Output {
    let files = format::count(tally.searched, "file", "files");
    let place = root.show(Path::new(""));
    let mut text = match tally.searched {
        0 if query.is_filtered() => format!("no file in {place} fits `glob` and `type`"),
        0 => format!("there is no file to search in {place}"),
        _ => format!("no match for `{}` in {place} ({files})", shown_pattern(args)),
    };
    if !args.all {
        text.push_str("; ignored files are searched with `all:true`");
    }
    if tally.binary > 0 {
        let binary = format::count(tally.binary, "binary file", "binary files");
        format::push_line(&mut text, &format!("[left out: {binary}]"));
    }
    tally.notes.push_to(&mut text, root);
    no_match_output(text)
}

/// Returns an error output with the metadata of a search without a match.
fn no_match_output(text: String) -> Output {
    Output::error(text).with("matches", 0).with("files", 0).with("truncated", false)
}

/// Returns the pattern with invisible characters escaped.
fn shown_pattern(args: &Args) -> String {
    quote::visible(&args.pattern).into_owned()
}
