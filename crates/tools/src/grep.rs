//! `grep`: which lines of which files match, by ripgrep's own engine in this process.
//!
//! Nothing is handed to a program, so a pattern is never an option. The files are searched by several threads, and the answer is
//! in the order of paths and lines all the same: see [`found`] for how that goes together with stopping early.

mod answer;
mod buffer;
mod chunks;
mod excerpt;
mod found;
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
    About, CallId, Context, Effects, Kinds, Output, Planned, PlannedTool, Scene, ToolError,
    WalkSettings, quote,
};

use crate::format::{self, Root};
use crate::parameter_defaults::here;
use answer::Answer;
use found::Found;
use query::{Mode, Query};
use scanner::Scanner;
use visitor::{Search, Searching, Tally};

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
    /// Return matching lines, only paths, or the number of matching lines in each file.
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

fn two_hundred() -> usize {
    200
}

impl PlannedTool for Grep {
    const NAME: &'static str = "grep";
    const KINDS: Kinds = Kinds::READ.with(Kinds::STATE);
    type Args = Args;

    fn about(&self) -> About {
        About::titled("Search contents")
    }

    type Plan = Texts;

    fn plan(&self, args: Args, _: &Scene<'_>) -> Result<Planned<Texts>, ToolError> {
        let (effects, plan) = match kept_call(&args.path) {
            Some(call) => (Effects::state("output"), Texts::Kept(call, args)),
            None => (Effects::read_tree(&args.path), Texts::Files(args)),
        };
        Ok(Planned { effects, plan })
    }

    async fn call(&self, cx: &Context, texts: Texts) -> Result<Output, ToolError> {
        cx.blocking(move |cx| match texts {
            Texts::Kept(call, args) => search_kept(cx, &args, &call),
            Texts::Files(args) => search_files(cx, &args),
        })
        .await?
    }
}

/// The texts that a call searches.
pub(crate) enum Texts {
    /// The output of a call that was kept.
    Kept(CallId, Args),
    /// Files.
    Files(Args),
}

/// The call whose kept output is to be searched, if it is one.
fn kept_call(path: &Path) -> Option<CallId> {
    path.to_str()?.strip_prefix("output:").map(CallId::new)
}

fn search_files(cx: &Context, args: &Args) -> Result<Output, ToolError> {
    let root = Root::of(cx, &args.path)?;
    let query = Query::new(args, root.join(Path::new("")))?;
    let search = Search {
        cx,
        query: &query,
        found: Found::new(query.limit, query.mode.unit()),
        tally: Mutex::default(),
    };
    let settings = WalkSettings { ignore_files: !args.all, ..WalkSettings::default() };
    let report = cx
        .files()
        .walk(&args.path, settings, &|| Box::new(Searching::new(&search)))
        .map_err(|error| explain_path(args, error))?;
    let mut tally = search.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    tally.notes.merge(report.into());
    let (files, truncated) = search.found.finish();
    if files.is_empty() {
        return Ok(nothing(args, &query, &root, tally));
    }
    if truncated && let Some((last, _)) = files.last() {
        // Whether something behind the last match was looked at depends on the threads.
        tally.notes.end_at(last);
    }
    let mut answer = Answer::new(&query);
    for (path, hits) in &files {
        answer.add(&root.show(path), hits);
    }
    Ok(answer.finish(truncated, |text| tally.notes.push_to(text, &root)))
}

/// A pattern where a path belongs is a frequent slip.
fn explain_path(args: &Args, error: ToolError) -> ToolError {
    match args.path.to_str() {
        Some(path) if path.contains('*') => error.hint("a pattern for names belongs in `glob`"),
        _ => error,
    }
}

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
        return Ok(no_match(format!("no match for `{}` in output:{call}", shown_pattern(args))));
    }
    let truncated = query.mode == Mode::Content && hits.is_enough(query.limit);
    let mut answer = Answer::new(&query);
    answer.add(&format!("output:{call}"), &hits);
    Ok(answer.finish(truncated, |_| {}))
}

/// Says what was searched, and what was not.
fn nothing(args: &Args, query: &Query, root: &Root, tally: Tally) -> Output {
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
    no_match(text)
}

fn no_match(text: String) -> Output {
    Output::error(text).with("matches", 0).with("files", 0).with("truncated", false)
}

fn shown_pattern(args: &Args) -> String {
    quote::visible(&args.pattern).into_owned()
}
