//! The edit engine: finds the bytes that an edit changes in a text. It touches no file.
//!
//! The searched text must match exactly, apart from line endings. If it does not, white space may differ, then indentation; but then only
//! if exactly one place matches, because a wrong guess is worse than none. If all lines differ in indentation by one rule, the new
//! lines are adapted by it; otherwise they stay as given.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::fold::{FoldMode, FoldedText};
use super::indent;
use crate::document::{LineEnding, Replacement};

/// Limit of the matches that are collected if only one may be replaced.
pub(crate) const MAX_MATCHES: usize = 1_000;

/// A searched text and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextEdit {
    pub(crate) old: String,
    pub(crate) new: String,
    /// True if every match is replaced rather than the only one.
    pub(crate) all: bool,
}

/// The way in which a searched text matched; later variants are looser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MatchStrategy {
    /// The bytes are equal.
    Exact,
    /// White space differs: line endings, or blanks between words or at either end of a line.
    Whitespace,
    /// Whole lines have other indentation, all by one rule.
    Indentation,
}

impl MatchStrategy {
    /// Returns the name in metadata.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Whitespace => "whitespace",
            Self::Indentation => "indentation",
        }
    }

    /// Returns the ignored difference, as an addition to "`old_string` is in the file".
    pub(crate) fn apart_from(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::Whitespace => ", apart from white space",
            Self::Indentation => ", apart from indentation",
        }
    }
}

/// The replacements of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditPlan {
    pub(crate) strategy: MatchStrategy,
    /// Replacements in order, without overlaps.
    pub(crate) replacements: Vec<Replacement>,
}

/// Reason for which an edit cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EditMiss {
    /// The searched text is empty.
    Empty,
    /// The searched text was not found.
    NotFound,
    /// The searched text was found more than once: the lines, counted from 1, and the strategy.
    Ambiguous(Vec<usize>, MatchStrategy),
    /// The edit would change nothing.
    Same,
}

/// Finds the replacements of an edit. `text` is UTF-8 that may contain invalid bytes.
pub(crate) fn plan(text: &[u8], edit: &TextEdit) -> Result<EditPlan, EditMiss> {
    if edit.old.is_empty() {
        return Err(EditMiss::Empty);
    }
    let found = find_matches(text, edit)?;
    let replacements: Vec<Replacement> = found
        .places
        .into_iter()
        .map(|(range, new)| Replacement {
            with: with_line_endings(text, &range, edit, &new),
            range,
        })
        .collect();
    let changes = |replacement: &Replacement| {
        text.get(replacement.range.clone()) != Some(replacement.with.as_bytes())
    };
    if edit.old == edit.new || !replacements.iter().any(changes) {
        return Err(EditMiss::Same);
    }
    Ok(EditPlan { strategy: found.strategy, replacements })
}

/// Matches of one strategy, each with its new text.
struct Matches<'e> {
    strategy: MatchStrategy,
    places: Vec<(Range<usize>, Cow<'e, str>)>,
}

/// Tries the strategies in order; the first that matches decides.
fn find_matches<'e>(text: &[u8], edit: &'e TextEdit) -> Result<Matches<'e>, EditMiss> {
    let strategies = [
        find_exact,
        find_ignoring_line_endings,
        find_ignoring_blanks,
        find_lines_ignoring_indentation,
    ];
    strategies
        .iter()
        .find_map(|strategy| strategy(text, edit))
        .ok_or(EditMiss::NotFound)
        .and_then(|found| found.require_unique(text, edit))
}

impl Matches<'_> {
    /// Returns the matches if there is one, or if all may be replaced; otherwise the edit is ambiguous.
    fn require_unique(self, text: &[u8], edit: &TextEdit) -> Result<Self, EditMiss> {
        let is_loose =
            self.strategy != MatchStrategy::Exact && !self.differs_in_endings_only(text, edit);
        if self.places.len() == 1 || edit.all && !is_loose {
            return Ok(self);
        }
        let lines = self.places.iter().map(|(range, _)| line_number(text, range.start)).collect();
        Err(EditMiss::Ambiguous(lines, self.strategy))
    }

    /// Returns whether all matches differ from the searched text only in line endings.
    fn differs_in_endings_only(&self, text: &[u8], edit: &TextEdit) -> bool {
        let searched = LineEnding::Lf.unify(&edit.old);
        self.places.iter().all(|(range, _)| {
            let found = text.get(range.clone()).unwrap_or_default();
            FoldedText::new(FoldMode::LineEndings, found).bytes() == searched.as_bytes()
        })
    }
}

/// Finds exact matches. A match that splits a CRLF does not count.
fn find_exact<'e>(text: &[u8], edit: &'e TextEdit) -> Option<Matches<'e>> {
    let ranges = occurrences(text, edit.old.as_bytes(), edit.all);
    let is_half =
        |at: usize| at > 0 && text.get(at - 1) == Some(&b'\r') && text.get(at) == Some(&b'\n');
    if ranges.iter().any(|range| is_half(range.start) || is_half(range.end)) {
        return None;
    }
    matches_at(MatchStrategy::Exact, ranges, edit)
}

/// Finds matches that differ only in line endings.
fn find_ignoring_line_endings<'e>(text: &[u8], edit: &'e TextEdit) -> Option<Matches<'e>> {
    if !edit.old.contains(['\n', '\r']) {
        return None;
    }
    matches_at(MatchStrategy::Whitespace, find_folded(FoldMode::LineEndings, text, edit), edit)
}

/// Finds matches that differ only in line endings and in blanks between words or at the end of a line.
fn find_ignoring_blanks<'e>(text: &[u8], edit: &'e TextEdit) -> Option<Matches<'e>> {
    matches_at(MatchStrategy::Whitespace, find_folded(FoldMode::Whitespace, text, edit), edit)
}

/// Finds whole lines that differ in white space. Matches with one rule for the indentation come first.
fn find_lines_ignoring_indentation<'e>(text: &[u8], edit: &'e TextEdit) -> Option<Matches<'e>> {
    let lines = indent::find_lines(text, &edit.old);
    let shifted: Vec<_> = lines
        .iter()
        .filter_map(|place| {
            let new = place.indentation_rule.as_ref()?.apply(&edit.new);
            Some((place.range.clone(), Cow::Owned(new)))
        })
        .collect();
    if shifted.is_empty() {
        let ranges = lines.into_iter().map(|place| place.range).collect();
        return matches_at(MatchStrategy::Whitespace, ranges, edit);
    }
    Some(Matches { strategy: MatchStrategy::Indentation, places: shifted })
}

/// Makes the matches of some ranges, all with the given new text; `None` if there are no ranges.
fn matches_at(
    strategy: MatchStrategy,
    ranges: Vec<Range<usize>>,
    edit: &TextEdit,
) -> Option<Matches<'_>> {
    let places: Vec<_> =
        ranges.into_iter().map(|range| (range, Cow::Borrowed(edit.new.as_str()))).collect();
    (!places.is_empty()).then_some(Matches { strategy, places })
}

/// Returns the ranges of matches after folding.
fn find_folded(fold: FoldMode, text: &[u8], edit: &TextEdit) -> Vec<Range<usize>> {
    let searched = FoldedText::new(fold, edit.old.as_bytes());
    if searched.bytes().iter().all(u8::is_ascii_whitespace) {
        return Vec::new();
    }
    let folded = FoldedText::new(fold, text);
    occurrences(folded.bytes(), searched.bytes(), edit.all)
        .into_iter()
        .map(|range| folded.original(range))
        .collect()
}

/// Returns the ranges of `searched`. If all are replaced, ranges do not overlap; otherwise overlapping ones count, too.
fn occurrences(text: &[u8], searched: &[u8], all: bool) -> Vec<Range<usize>> {
    let finder = memmem::Finder::new(searched);
    let step = if all { searched.len() } else { 1 };
    let max_count = if all { usize::MAX } else { MAX_MATCHES };
    let mut from = 0;
    std::iter::from_fn(|| {
        let start = from + finder.find(text.get(from..)?)?;
        from = start + step;
        Some(start..start + searched.len())
    })
    .take(max_count)
    .collect()
}

/// Returns the new text with the line endings of the text that it replaces, or of the line that contains it.
///
/// New text that contains CRLF, or replaces searched text with CRLF, is not adapted.
fn with_line_endings(text: &[u8], range: &Range<usize>, edit: &TextEdit, new: &str) -> String {
    if !new.contains('\n') || new.contains("\r\n") || edit.old.contains("\r\n") {
        return new.to_owned();
    }
    let replaced = text.get(range.clone()).unwrap_or_default();
    let mut endings = memchr::memchr_iter(b'\n', replaced).map(|at| LineEnding::at(replaced, at));
    let mut ending = endings.next().unwrap_or_else(|| nearest_line_ending(text, range));
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

/// Returns the ending of the line that contains a range, or of the line before it if there is none.
fn nearest_line_ending(text: &[u8], range: &Range<usize>) -> LineEnding {
    let after = text.get(range.end..).unwrap_or_default();
    let before = text.get(..range.start).unwrap_or_default();
    match memchr::memchr(b'\n', after) {
        Some(at) => LineEnding::at(text, range.end + at),
        None => {
            memchr::memrchr(b'\n', before).map_or(LineEnding::Lf, |at| LineEnding::at(text, at))
        }
    }
}

/// Returns the number of the line that contains a position, counted from 1.
pub(crate) fn line_number(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', text.get(..at).unwrap_or_default()).count() + 1
}
