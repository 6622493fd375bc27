//! From a text and hunks to the very bytes that change. It touches no file.
//!
//! Lines that a hunk keeps are not written: whatever their white space, ending or broken bytes, they stay. New lines end as those
//! that they replace, or as their neighbours; and a last line without a line feed stays one, unless the hunk says otherwise.

use super::hunk::{Hunk, Line, Sign};
use super::place::{Miss, Place, Text, find};
use crate::document::{LineEnding, Replacement};
use crate::edit::plan::MatchStrategy;

/// What hunks come to.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// In order, apart.
    pub(super) replacements: Vec<Replacement>,
    /// Where each hunk is, in their order; without those behind the last miss that was allowed.
    pub(super) places: Vec<Result<Place, Miss>>,
}

/// Finds each hunk behind the one before, and what it changes; until `most_misses` of them have no place.
pub(super) fn apply(text: &[u8], hunks: &[Hunk], most_misses: usize) -> Applied {
    let text = Text::new(text);
    let mut applied = Applied::default();
    let (mut floor, mut drift, mut misses) = (0, 0, 0);
    for hunk in hunks {
        if misses == most_misses {
            break;
        }
        let found = find(&text, hunk, floor, drift);
        if let Ok(place) = &found {
            if let Some(at) = hunk.at {
                drift = place.start.cast_signed() - at.cast_signed();
            }
            floor = place.start + hunk.old_lines().count();
            Writer { text: &text, hunk, place }.push_to(&mut applied.replacements);
        }
        misses += usize::from(found.is_err());
        applied.places.push(found);
    }
    applied
}

struct Writer<'w> {
    text: &'w Text<'w>,
    hunk: &'w Hunk,
    place: &'w Place,
}

/// Lines that are removed and added with none kept between them.
#[derive(Default)]
struct Run<'w> {
    start: usize,
    removed: usize,
    added: Vec<&'w Line>,
}

impl Writer<'_> {
    fn push_to(&self, replacements: &mut Vec<Replacement>) {
        let mut run = Run { start: self.place.start, ..Run::default() };
        for line in &self.hunk.lines {
            match line.sign {
                Sign::Remove => run.removed += 1,
                Sign::Add => run.added.push(line),
                Sign::Keep => {
                    let next = run.start + run.removed + 1;
                    replacements.extend(self.replacement(&run));
                    run = Run { start: next, ..Run::default() };
                }
            }
        }
        replacements.extend(self.replacement(&run));
    }

    fn replacement(&self, run: &Run<'_>) -> Option<Replacement> {
        if run.removed == 0 && run.added.is_empty() {
            return None;
        }
        let end = run.start + run.removed;
        let range = self.text.offset(run.start)..self.text.offset(end);
        Some(Replacement { range, with: self.new_lines(run) })
    }

    fn new_lines(&self, run: &Run<'_>) -> String {
        let end = run.start + run.removed;
        let mut endings = (run.start..end).filter_map(|at| self.ending(at));
        let mut ending = endings.next().unwrap_or_else(|| self.ending_near(run.start, end));
        let mut new = String::new();
        let is_behind_open = run.removed == 0 && self.is_last_open() && end == self.text.len();
        if is_behind_open {
            new.push_str(ending.as_str());
        }
        for (nth, line) in (1..).zip(&run.added) {
            self.push_content(&mut new, line);
            let is_last = nth == run.added.len() && end == self.text.len();
            if !(is_last && self.stays_open(line)) {
                new.push_str(if self.is_verbatim() { "\n" } else { ending.as_str() });
            }
            ending = endings.next().unwrap_or(ending);
        }
        new
    }

    fn push_content(&self, new: &mut String, line: &Line) {
        let content = match line.text.strip_suffix('\r') {
            Some(content) if !self.is_verbatim() => content,
            _ => &line.text,
        };
        match &self.place.indentation_rule {
            Some(indentation_rule) => new.push_str(&indentation_rule.apply(content)),
            None => new.push_str(content),
        }
    }

    /// Whether lines end as the hunk says: it tells, and what it says of the old lines is true.
    fn is_verbatim(&self) -> bool {
        self.hunk.tells_returns() && self.place.strategy == MatchStrategy::Exact
    }

    /// Whether no line feed ends a new last line.
    fn stays_open(&self, line: &Line) -> bool {
        if self.hunk.tells_open() { line.open } else { self.is_last_open() }
    }

    fn is_last_open(&self) -> bool {
        self.text.len().checked_sub(1).is_some_and(|last| self.text.is_open(last))
    }

    /// How a line ends; `None` if it is open, or not there.
    fn ending(&self, at: usize) -> Option<LineEnding> {
        let line = self.text.line(at);
        let feed = line.len().checked_sub(1).filter(|_| line.ends_with(b"\n"))?;
        Some(LineEnding::at(line, feed))
    }

    /// How the line before ends, or else the one behind.
    fn ending_near(&self, start: usize, end: usize) -> LineEnding {
        let before = start.checked_sub(1).and_then(|at| self.ending(at));
        // The last line may be open: then the one before it tells.
        let earlier = || start.checked_sub(2).and_then(|at| self.ending(at));
        before.or_else(|| self.ending(end)).or_else(earlier).unwrap_or(LineEnding::Lf)
    }
}
