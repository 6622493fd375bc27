//! The edit engine: from a text and what is to be replaced in it to the very bytes that change. It touches no file.
//!
//! What is looked for must be there exactly; line endings never stand in the way. Failing that, white space may differ, and
//! failing that, indentation: but then only where one place alone is meant, since a guess that is wrong is worse than none. Where all
//! lines are indented otherwise by one rule, the new ones are, too; else they stay as they were given.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::fold::{Fold, Folded};
use super::indent;
use crate::document::{LineEnding, Replacement};

/// So many places are looked at if only one can be meant.
pub(crate) const MAX_CANDIDATES: usize = 1_000;

/// What to replace by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) old: String,
    pub(crate) new: String,
    /// Every place rather than the only one.
    pub(crate) all: bool,
}

/// How what was looked for was found; the later, the looser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strategy {
    /// To the byte.
    Exact,
    /// White space differs: line endings, blanks between words or at either end of a line.
    Whitespace,
    /// Whole lines are indented otherwise, all of them alike.
    Indentation,
}

impl Strategy {
    /// The name in metadata.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Whitespace => "whitespace",
            Self::Indentation => "indentation",
        }
    }

    /// What was not looked at, as an addition to "it is there".
    pub(crate) fn apart_from(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::Whitespace => ", apart from white space",
            Self::Indentation => ", apart from indentation",
        }
    }
}

/// What an edit comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) strategy: Strategy,
    /// In order, apart.
    pub(crate) replacements: Vec<Replacement>,
}

/// Why an edit comes to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Miss {
    /// There is nothing to look for.
    Empty,
    /// It is not there.
    NotFound,
    /// It is there more than once: the lines, counted from 1, and how it was found.
    Ambiguous(Vec<usize>, Strategy),
    /// It would change nothing.
    Same,
}

/// Finds what an edit changes. `text` is UTF-8 in which there may be invalid bytes.
pub(crate) fn plan(text: &[u8], edit: &Edit) -> Result<Plan, Miss> {
    if edit.old.is_empty() {
        return Err(Miss::Empty);
    }
    let found = find(text, edit)?;
    let replacements: Vec<Replacement> = found
        .places
        .into_iter()
        .map(|(range, new)| Replacement { with: with_endings(text, &range, edit, &new), range })
        .collect();
    let changes = |replacement: &Replacement| {
        text.get(replacement.range.clone()) != Some(replacement.with.as_bytes())
    };
    if edit.old == edit.new || !replacements.iter().any(changes) {
        return Err(Miss::Same);
    }
    Ok(Plan { strategy: found.strategy, replacements })
}

/// Places, each with what comes there.
struct Found<'e> {
    strategy: Strategy,
    places: Vec<(Range<usize>, Cow<'e, str>)>,
}

fn find<'e>(text: &[u8], edit: &'e Edit) -> Result<Found<'e>, Miss> {
    let strategies = [find_exact, find_whatever_ending, find_whatever_blanks, find_lines];
    strategies
        .iter()
        .find_map(|strategy| strategy(text, edit))
        .ok_or(Miss::NotFound)
        .and_then(|found| found.decide(text, edit))
}

impl Found<'_> {
    /// One place, or all that were asked for.
    fn decide(self, text: &[u8], edit: &Edit) -> Result<Self, Miss> {
        let is_loose =
            self.strategy != Strategy::Exact && !self.differs_in_endings_only(text, edit);
        if self.places.len() == 1 || edit.all && !is_loose {
            return Ok(self);
        }
        let lines = self.places.iter().map(|(range, _)| line_number(text, range.start)).collect();
        Err(Miss::Ambiguous(lines, self.strategy))
    }

    fn differs_in_endings_only(&self, text: &[u8], edit: &Edit) -> bool {
        let wanted = LineEnding::Lf.unify(&edit.old);
        self.places.iter().all(|(range, _)| {
            let found = text.get(range.clone()).unwrap_or_default();
            Folded::new(Fold::LineEndings, found).bytes() == wanted.as_bytes()
        })
    }
}

/// To the byte; but a line feed without its carriage return is only a half of what ends a line.
fn find_exact<'e>(text: &[u8], edit: &'e Edit) -> Option<Found<'e>> {
    let ranges = occurrences(text, edit.old.as_bytes(), edit.all);
    let is_half =
        |at: usize| at > 0 && text.get(at - 1) == Some(&b'\r') && text.get(at) == Some(&b'\n');
    if ranges.iter().any(|range| is_half(range.start) || is_half(range.end)) {
        return None;
    }
    found(Strategy::Exact, ranges, edit)
}

fn find_whatever_ending<'e>(text: &[u8], edit: &'e Edit) -> Option<Found<'e>> {
    if !edit.old.contains(['\n', '\r']) {
        return None;
    }
    found(Strategy::Whitespace, find_folded(Fold::LineEndings, text, edit), edit)
}

fn find_whatever_blanks<'e>(text: &[u8], edit: &'e Edit) -> Option<Found<'e>> {
    found(Strategy::Whitespace, find_folded(Fold::Whitespace, text, edit), edit)
}

/// Whole lines, however each of them is indented. Those that are all shifted alike come first.
fn find_lines<'e>(text: &[u8], edit: &'e Edit) -> Option<Found<'e>> {
    let lines = indent::find(text, &edit.old);
    let shifted: Vec<_> = lines
        .iter()
        .filter_map(|place| {
            let new = place.shift.as_ref()?.apply(&edit.new);
            Some((place.range.clone(), Cow::Owned(new)))
        })
        .collect();
    if shifted.is_empty() {
        let ranges = lines.into_iter().map(|place| place.range).collect();
        return found(Strategy::Whitespace, ranges, edit);
    }
    Some(Found { strategy: Strategy::Indentation, places: shifted })
}

fn found(strategy: Strategy, ranges: Vec<Range<usize>>, edit: &Edit) -> Option<Found<'_>> {
    let places: Vec<_> =
        ranges.into_iter().map(|range| (range, Cow::Borrowed(edit.new.as_str()))).collect();
    (!places.is_empty()).then_some(Found { strategy, places })
}

fn find_folded(fold: Fold, text: &[u8], edit: &Edit) -> Vec<Range<usize>> {
    let wanted = Folded::new(fold, edit.old.as_bytes());
    if wanted.bytes().iter().all(u8::is_ascii_whitespace) {
        return Vec::new();
    }
    let folded = Folded::new(fold, text);
    occurrences(folded.bytes(), wanted.bytes(), edit.all)
        .into_iter()
        .map(|range| folded.original(range))
        .collect()
}

/// Where `wanted` is. All places are apart if all are to be replaced; if one is, each counts that could be meant.
fn occurrences(text: &[u8], wanted: &[u8], all: bool) -> Vec<Range<usize>> {
    let finder = memmem::Finder::new(wanted);
    let step = if all { wanted.len() } else { 1 };
    let most = if all { usize::MAX } else { MAX_CANDIDATES };
    let mut from = 0;
    std::iter::from_fn(|| {
        let start = from + finder.find(text.get(from..)?)?;
        from = start + step;
        Some(start..start + wanted.len())
    })
    .take(most)
    .collect()
}

/// The new text with lines ended as those that it replaces, or as the line that it stands in.
///
/// A text that itself says how its lines end is taken at its word.
fn with_endings(text: &[u8], range: &Range<usize>, edit: &Edit, new: &str) -> String {
    if !new.contains('\n') || new.contains("\r\n") || edit.old.contains("\r\n") {
        return new.to_owned();
    }
    let replaced = text.get(range.clone()).unwrap_or_default();
    let mut endings = memchr::memchr_iter(b'\n', replaced).map(|at| LineEnding::at(replaced, at));
    let mut ending = endings.next().unwrap_or_else(|| ending_near(text, range));
    let mut adapted = String::with_capacity(new.len() + 16);
    for line in new.split_inclusive('\n') {
        match line.strip_suffix('\n') {
            Some(line) => {
                adapted.push_str(line);
                adapted.push_str(ending.as_str());
                ending = endings.next().unwrap_or(ending);
            }
            None => adapted.push_str(line),
        }
    }
    adapted
}

/// How the line ends in which a range is, or the one before it.
fn ending_near(text: &[u8], range: &Range<usize>) -> LineEnding {
    let after = text.get(range.end..).unwrap_or_default();
    let before = text.get(..range.start).unwrap_or_default();
    match memchr::memchr(b'\n', after) {
        Some(at) => LineEnding::at(text, range.end + at),
        None => {
            memchr::memrchr(b'\n', before).map_or(LineEnding::Lf, |at| LineEnding::at(text, at))
        }
    }
}

/// The number of the line that a place is in, counted from 1.
pub(crate) fn line_number(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', text.get(..at).unwrap_or_default()).count() + 1
}
