//! `grep`: which lines of which files match, by ripgrep's own engine in this process.
//!
//! Nothing is handed to a program, so a pattern is never an option. The files are searched by several threads, and the answer is
//! in the order of paths and lines all the same: see [`found`] for how that goes together with stopping early.

mod excerpt;
mod found;
mod query;
mod visitor;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    CallId, Context, Effects, Kinds, Output, Tool, ToolError, WalkSettings, quote,
};

use crate::shown::{self, Root};
use found::{Found, Hits, Line, Unit};
use query::{Mode, Query};
use visitor::{Engine, Search, Searching, Tally};

pub(crate) struct Grep;

/// Search the lines of files with a regular expression (ripgrep's syntax). Answers `path:line:text`, in the order of paths.
/// Binary and ignored files are left out.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "they are the model's options, one by one")]
pub(crate) struct Args {
    /// Regular expression to look for.
    pattern: String,
    /// File or directory to search, or `output:CALL` for a kept output.
    #[serde(default = "here")]
    path: PathBuf,
    /// Only files like this, such as `*.rs` or `src/**/*.{ts,tsx}`; `!` in front excludes.
    glob: Option<String>,
    /// Only files of this type, such as `rust`, `py`, `ts`.
    #[serde(rename = "type")]
    file_type: Option<String>,
    /// Matching lines, paths of files with a match, or how many lines match per file.
    #[serde(default)]
    mode: Mode,
    /// Upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// The pattern is plain text.
    #[serde(default)]
    literal: bool,
    /// A match may go over several lines.
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
    /// Lines to show on both sides.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    context: usize,
    /// Also what `.gitignore` and the like hide.
    #[serde(default)]
    all: bool,
    /// Most matching lines (or files) to return.
    #[serde(default = "two_hundred")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: usize,
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

fn two_hundred() -> usize {
    200
}

impl Tool for Grep {
    const NAME: &'static str = "grep";
    const KINDS: Kinds = Kinds::READ.with(Kinds::STATE);
    type Args = Args;

    fn effects(&self, args: &Args) -> Effects {
        match kept_call(&args.path) {
            Some(_) => Effects::state("output"),
            None => Effects::read_tree(&args.path),
        }
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        cx.blocking(move |cx| match kept_call(&args.path) {
            Some(call) => search_kept(cx, &args, &call),
            None => search_files(cx, &args),
        })
        .await?
    }
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
        found: Found::new(query.limit, unit(query.mode)),
        tally: Mutex::default(),
    };
    let settings = WalkSettings { ignore_files: !args.all, ..WalkSettings::default() };
    let report = cx.files().walk(&args.path, settings, &|| Box::new(Searching::new(&search)))?;
    let mut tally = search.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    tally.notes.extend(report.notes);
    let (files, truncated) = search.found.finish();
    if files.is_empty() {
        return Ok(nothing(args, &query, &root, tally));
    }
    if truncated && let Some((last, _)) = files.last() {
        // Whether something behind the last match was looked at depends on the threads.
        tally.notes.retain(|note| note.path <= *last);
    }
    let named = files.into_iter().map(|(path, hits)| (root.show(&path), hits));
    let mut answer = Answer::new(&query);
    named.for_each(|(name, hits)| answer.add(&name, &hits));
    Ok(answer.finish(truncated, |text| shown::push_notes(text, &root, tally.notes)))
}

fn search_kept(cx: &Context, args: &Args, call: &CallId) -> Result<Output, ToolError> {
    let query = Query::new(args, PathBuf::new())?;
    let Some(text) = cx.kept_output(call)? else {
        return Err(ToolError::failed(format!("there is no kept output of the call `{call}`"))
            .hint("an answer that was cut names the output that was kept"));
    };
    let hits = Engine::new(cx, &query)
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

/// What `limit` counts.
fn unit(mode: Mode) -> Unit {
    match mode {
        Mode::Content => Unit::Match,
        Mode::Files | Mode::Count => Unit::File,
    }
}

/// Says what was searched, and what was not.
fn nothing(args: &Args, query: &Query, root: &Root, tally: Tally) -> Output {
    let files = shown::count(tally.searched, "file", "files");
    let place = root.show(Path::new(""));
    let mut text = match tally.searched {
        0 if query.is_filtered() => format!("no file in {place} fits `glob` and `type`"),
        0 => format!("there is no file to search in {place}"),
        _ => format!("no match for `{}` in {files} of {place}", shown_pattern(args)),
    };
    if !args.all {
        text.push_str("; ignored files are searched with `all:true`");
    }
    if tally.binary > 0 {
        let binary = shown::count(tally.binary, "binary file", "binary files");
        shown::push_line(&mut text, &format!("[left out: {binary}]"));
    }
    shown::push_notes(&mut text, root, tally.notes);
    no_match(text)
}

fn no_match(text: String) -> Output {
    Output::error(text).with("matches", 0).with("files", 0).with("truncated", false)
}

fn shown_pattern(args: &Args) -> String {
    quote::visible(&args.pattern).into_owned()
}

/// The answer, file by file.
struct Answer<'a> {
    query: &'a Query,
    text: String,
    matches: usize,
    files: usize,
    /// Files whose search a NUL ended.
    stopped: Vec<(String, u64)>,
}

impl<'a> Answer<'a> {
    fn new(query: &'a Query) -> Self {
        Self { query, text: String::new(), matches: 0, files: 0, stopped: Vec::new() }
    }

    fn add(&mut self, name: &str, hits: &Hits) {
        if self.is_full() {
            return;
        }
        self.files += 1;
        match self.query.mode {
            Mode::Content => self.add_lines(name, hits),
            Mode::Files => {
                self.matches += 1;
                self.line(format_args!("{name}"));
            }
            Mode::Count => {
                self.matches += hits.matches;
                self.line(format_args!("{name}:{}", hits.matches));
            }
        }
        if let Some(offset) = hits.binary {
            self.stopped.push((name.to_owned(), offset));
        }
    }

    /// One more than the limit may have been found: that is how it is known that there are more.
    fn is_full(&self) -> bool {
        let units = match unit(self.query.mode) {
            Unit::Match => self.matches,
            Unit::File => self.files,
        };
        units >= self.query.limit
    }

    fn add_lines(&mut self, name: &str, hits: &Hits) {
        let lines = first_matches(&hits.lines, self.query.limit - self.matches, self.query.after);
        let mut previous = None;
        for line in lines {
            let follows = previous.is_some_and(|number| number + 1 == line.number);
            if self.shows_context() && !follows && !self.text.is_empty() {
                self.text.push_str("--\n");
            }
            let mark = if line.is_match { ':' } else { '-' };
            self.line(format_args!("{name}{mark}{}{mark}{}", line.number, line.text));
            self.matches += usize::from(line.is_match);
            previous = Some(line.number);
        }
    }

    fn shows_context(&self) -> bool {
        self.query.before > 0 || self.query.after > 0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let written = self.text.write_fmt(line);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        self.text.push('\n');
    }

    fn finish(mut self, truncated: bool, push_notes: impl FnOnce(&mut String)) -> Output {
        self.text.truncate(self.text.trim_end_matches('\n').len());
        if truncated {
            let shown = match unit(self.query.mode) {
                Unit::Match => shown::count(self.matches, "match", "matches"),
                Unit::File => shown::count(self.files, "file", "files"),
            };
            let how = format!(
                "[the first {shown}; there are more: narrow the pattern, `path` or `glob`, or raise `limit` (now {})]",
                self.query.limit
            );
            shown::push_line(&mut self.text, &how);
        }
        for (name, offset) in &self.stopped {
            let note = format!(
                "[{name}: not searched beyond the NUL at byte {offset}: it is binary from there]"
            );
            shown::push_line(&mut self.text, &note);
        }
        push_notes(&mut self.text);
        Output::text(self.text)
            .with("matches", self.matches)
            .with("files", self.files)
            .with("truncated", truncated)
    }
}

/// The lines up to the last match that is shown, and as many after it as were asked for.
fn first_matches(lines: &[Line], limit: usize, after: usize) -> impl Iterator<Item = &Line> {
    let last = lines.iter().filter(|line| line.is_match).take(limit).last();
    let last = last.map_or(0, |line| line.number);
    let next = lines.iter().find(|line| line.is_match && line.number > last);
    let end = next.map_or(u64::MAX, |line| line.number).min(last.saturating_add(after as u64 + 1));
    lines.iter().take_while(move |line| line.number < end)
}
