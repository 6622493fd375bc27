//! The output as text: matching lines as `path:push_line:text`, context lines as `path-push_line-text`, groups separated by `--`.

use std::fmt::Write as _;

use windlass_core::Output;

use super::first_hits::{FileHits, HitLine, LimitUnit};
use super::query::{Mode, Query};
use crate::format;

/// The output, built file by file.
pub(super) struct GrepAnswer<'a> {
    query: &'a Query,
    text: String,
    matches: usize,
    files: usize,
    /// Files whose search ended at a NUL, with the offset of the NUL.
    stopped: Vec<(String, u64)>,
}

impl<'a> GrepAnswer<'a> {
    pub(super) fn new(query: &'a Query) -> Self {
        Self { query, text: String::new(), matches: 0, files: 0, stopped: Vec::new() }
    }

    /// Adds the hits of a file, unless the limit is reached.
    pub(super) fn add(&mut self, name: &str, hits: &FileHits) {
        if self.is_full() {
            return;
        }
        self.files += 1;
        match self.query.mode {
            Mode::Content => self.add_lines(name, hits),
            Mode::Files => {
                self.matches += 1;
                self.push_line(format_args!("{name}"));
            }
            Mode::Count => {
                self.matches += hits.matches;
                self.push_line(format_args!("{name}:{}", hits.matches));
            }
        }
        if let Some(offset) = hits.binary {
            self.stopped.push((name.to_owned(), offset));
        }
    }

    /// Returns whether the limit is reached. One hit more than the limit may have been found, to know that there are more.
    fn is_full(&self) -> bool {
        let units = match self.query.mode.unit() {
            LimitUnit::Match => self.matches,
            LimitUnit::File => self.files,
        };
        units >= self.query.limit
    }

    /// Adds matching lines and their context, with `--` between groups.
    fn add_lines(&mut self, name: &str, hits: &FileHits) {
        let lines = first_matches(&hits.lines, self.query.limit - self.matches, self.query.after);
        let mut previous = None;
        for line in lines {
            let follows = previous.is_some_and(|number| number + 1 == line.number);
            if self.shows_context() && !follows && !self.text.is_empty() {
                self.text.push_str("--\n");
            }
            let mark = if line.is_match { ':' } else { '-' };
            self.push_line(format_args!("{name}{mark}{}{mark}{}", line.number, line.text));
            self.matches += usize::from(line.is_match);
            previous = Some(line.number);
        }
    }

    /// Returns whether context lines are shown.
    fn shows_context(&self) -> bool {
        self.query.before > 0 || self.query.after > 0
    }

    /// Adds a line of text.
    fn push_line(&mut self, line: std::fmt::Arguments<'_>) {
        let written = self.text.write_fmt(line);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        self.text.push('\n');
    }

    /// Returns the output, with remarks about the limit, binary files and other notes.
    pub(super) fn finish(
        mut self,
        truncated: bool,
        push_notes: impl FnOnce(&mut String),
    ) -> Output {
        self.text.truncate(self.text.trim_end_matches('\n').len());
        if truncated {
            let shown = match self.query.mode.unit() {
                LimitUnit::Match => format::count(self.matches, "match", "matches"),
                LimitUnit::File => format::count(self.files, "file", "files"),
            };
            let how = format!(
                "[the first {shown}; there are more: narrow the pattern, `path` or `glob`, or raise `limit` (now {})]",
                self.query.limit
            );
            format::push_line(&mut self.text, &how);
        }
        for (name, offset) in &self.stopped {
            let note = format!(
                "[{name}: not searched beyond the NUL at byte {offset}: it is binary from there]"
            );
            format::push_line(&mut self.text, &note);
        }
        push_notes(&mut self.text);
        Output::text(self.text)
            .with("matches", self.matches)
            .with("files", self.files)
            .with("truncated", truncated)
    }
}

/// Returns the lines up to match number `limit`, and `after` context lines behind it.
fn first_matches(lines: &[HitLine], limit: usize, after: usize) -> impl Iterator<Item = &HitLine> {
    let last = lines.iter().filter(|line| line.is_match).take(limit).last();
    let last = last.map_or(0, |line| line.number);
    let next = lines.iter().find(|line| line.is_match && line.number > last);
    let end = next.map_or(u64::MAX, |line| line.number).min(last.saturating_add(after as u64 + 1));
    lines.iter().take_while(move |line| line.number < end)
}
