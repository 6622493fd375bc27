//! The answer as text: lines as `path:line:text`, those around them as `path-line-text`, groups apart by `--`.

use std::fmt::Write as _;

use windlass_core::Output;

use super::found::{Hits, Line, Unit};
use super::query::{Mode, Query};
use crate::format;

/// The answer, file by file.
pub(super) struct Answer<'a> {
    query: &'a Query,
    text: String,
    matches: usize,
    files: usize,
    /// Files whose search a NUL ended.
    stopped: Vec<(String, u64)>,
}

impl<'a> Answer<'a> {
    pub(super) fn new(query: &'a Query) -> Self {
        Self { query, text: String::new(), matches: 0, files: 0, stopped: Vec::new() }
    }

    pub(super) fn add(&mut self, name: &str, hits: &Hits) {
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
        let units = match self.query.mode.unit() {
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

    pub(super) fn finish(
        mut self,
        truncated: bool,
        push_notes: impl FnOnce(&mut String),
    ) -> Output {
        self.text.truncate(self.text.trim_end_matches('\n').len());
        if truncated {
            let shown = match self.query.mode.unit() {
                Unit::Match => format::count(self.matches, "match", "matches"),
                Unit::File => format::count(self.files, "file", "files"),
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

/// The lines up to the last match that is shown, and as many after it as were asked for.
fn first_matches(lines: &[Line], limit: usize, after: usize) -> impl Iterator<Item = &Line> {
    let last = lines.iter().filter(|line| line.is_match).take(limit).last();
    let last = last.map_or(0, |line| line.number);
    let next = lines.iter().find(|line| line.is_match && line.number > last);
    let end = next.map_or(u64::MAX, |line| line.number).min(last.saturating_add(after as u64 + 1));
    lines.iter().take_while(move |line| line.number < end)
}
