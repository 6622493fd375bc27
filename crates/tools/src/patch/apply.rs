//! Turns hunks into replacements of bytes in a text. It touches no file.
//!
//! Lines that a hunk keeps are not rewritten: their white space, line endings and invalid bytes stay. New lines get the line ending of
//! the lines that they replace, or of their neighbours. A last line without a line feed stays so, unless the hunk says otherwise.

use super::hunk::{Hunk, HunkLine, LineSign};
use super::place::{HunkMiss, HunkPlace, LineText, find_place};
use crate::document::{LineEnding, Replacement};
use crate::edit::plan::MatchStrategy;

/// The result of applying hunks to a text.
#[derive(Debug, Default)]
pub(super) struct AppliedHunks {
    /// Replacements in order, without overlaps.
    pub(super) replacements: Vec<Replacement>,
    /// The place of each hunk, in order; hunks after the last permitted miss have no entry.
    pub(super) places: Vec<Result<HunkPlace, HunkMiss>>,
}

/// Matches each hunk behind the one before, and collects its replacements; stops after `max_misses` hunks without a place.
pub(super) fn apply(text: &[u8], hunks: &[Hunk], max_misses: usize) -> AppliedHunks {
    let text = LineText::new(text);
    let mut applied = AppliedHunks::default();
    let (mut floor, mut drift, mut misses) = (0, 0, 0);
    for hunk in hunks {
        if misses == max_misses {
            break;
        }
        let found = find_place(&text, hunk, floor, drift);
        if let Ok(place) = &found {
            if let Some(at) = hunk.at {
                drift = place.start.cast_signed() - at.cast_signed();
            }
            floor = place.start + hunk.old_lines().count();
            HunkWriter { text: &text, hunk, place }.push_to(&mut applied.replacements);
        }
        misses += usize::from(found.is_err());
        applied.places.push(found);
    }
    applied
}

/// Makes the replacements of one matched hunk.
struct HunkWriter<'w> {
    text: &'w LineText<'w>,
    hunk: &'w Hunk,
    place: &'w HunkPlace,
}

/// Removed and added lines without a kept line between them.
#[derive(Default)]
struct ChangedRun<'w> {
    start: usize,
    removed: usize,
    added: Vec<&'w HunkLine>,
}

impl HunkWriter<'_> {
    /// Adds the replacements of all runs of the hunk.
    fn push_to(&self, replacements: &mut Vec<Replacement>) {
        let mut run = ChangedRun { start: self.place.start, ..ChangedRun::default() };
        for line in &self.hunk.lines {
            match line.sign {
                LineSign::Remove => run.removed += 1,
                LineSign::Add => run.added.push(line),
                LineSign::Keep => {
                    let next = run.start + run.removed + 1;
                    replacements.extend(self.replacement(&run));
                    run = ChangedRun { start: next, ..ChangedRun::default() };
                }
            }
        }
        replacements.extend(self.replacement(&run));
    }

    /// Returns the replacement of a run; `None` if the run is empty.
    fn replacement(&self, run: &ChangedRun<'_>) -> Option<Replacement> {
        if run.removed == 0 && run.added.is_empty() {
            return None;
        }
        let end = run.start + run.removed;
        let range = self.text.offset(run.start)..self.text.offset(end);
        Some(Replacement { range, with: self.new_lines(run) })
    }

    /// Returns the new lines of a run with their endings.
    fn new_lines(&self, run: &ChangedRun<'_>) -> String {
        let end = run.start + run.removed;
        let mut endings = (run.start..end).filter_map(|at| self.ending(at));
        let mut ending = endings.next().unwrap_or_else(|| self.nearest_ending(run.start, end));
        let mut new = String::new();
        let is_behind_open =
            run.removed == 0 && self.last_line_lacks_line_feed() && end == self.text.len();
        if is_behind_open {
            new.push_str(ending.as_str());
        }
        for (nth, line) in (1..).zip(&run.added) {
            self.push_content(&mut new, line);
            let is_last = nth == run.added.len() && end == self.text.len();
            if !(is_last && self.lacks_line_feed(line)) {
                new.push_str(if self.uses_endings_of_hunk() { "\n" } else { ending.as_str() });
            }
            ending = endings.next().unwrap_or(ending);
        }
        new
    }

    /// Adds the content of a new line, with the indentation of the file.
    fn push_content(&self, new: &mut String, line: &HunkLine) {
        let content = match line.text.strip_suffix('\r') {
            Some(content) if !self.uses_endings_of_hunk() => content,
            _ => &line.text,
        };
        match &self.place.indentation_rule {
            Some(indentation_rule) => new.push_str(&indentation_rule.apply(content)),
            None => new.push_str(content),
        }
    }

    /// Returns whether new lines end as the hunk says: the hunk shows line endings, and those of its old lines match the file.
    fn uses_endings_of_hunk(&self) -> bool {
        self.hunk.shows_carriage_returns() && self.place.strategy == MatchStrategy::Exact
    }

    /// Returns whether a new last line has no line feed.
    fn lacks_line_feed(&self, line: &HunkLine) -> bool {
        if self.hunk.shows_missing_line_feed() {
            line.open
        } else {
            self.last_line_lacks_line_feed()
        }
    }

    /// Returns whether the last line of the file has no line feed.
    fn last_line_lacks_line_feed(&self) -> bool {
        self.text.len().checked_sub(1).is_some_and(|last| self.text.lacks_final_line_feed(last))
    }

    /// Returns the ending of a line; `None` if it has no line feed or does not exist.
    fn ending(&self, at: usize) -> Option<LineEnding> {
        let line = self.text.line(at);
        let feed = line.len().checked_sub(1).filter(|_| line.ends_with(b"\n"))?;
        Some(LineEnding::at(line, feed))
    }

    /// Returns the ending of the line before, or else of the line behind.
    fn nearest_ending(&self, start: usize, end: usize) -> LineEnding {
        let before = start.checked_sub(1).and_then(|at| self.ending(at));
        // If the last line has no line feed, the line before it decides.
        let earlier = || start.checked_sub(2).and_then(|at| self.ending(at));
        before.or_else(|| self.ending(end)).or_else(earlier).unwrap_or(LineEnding::Lf)
    }
}
