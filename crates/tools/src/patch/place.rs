//! Finds the place of a hunk in a text. It touches no file.
//!
//! A line number is only a hint, because its author may have counted wrong or seen an older version; all lines of the hunk must match.
//! Of several matches, the one nearest to the hint is taken; without a hint there must be exactly one. White space may differ only
//! if there is no exact match, and then only at a single place.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use super::hunk::{Hunk, HunkLine};
use crate::edit::fold::{indentation, same_words, words};
use crate::edit::indent::IndentationRule;
use crate::edit::plan::MatchStrategy;

/// A text, split into lines and indexed by their words.
pub(super) struct LineText<'t> {
    pub(super) bytes: &'t [u8],
    /// Range of each line, with its line ending.
    lines: Vec<Range<usize>>,
    /// Lines by a hash of their words, in order. A hunk is looked up by its rarest line, so that thousands of hunks do not each scan the
    /// whole file.
    by_words: HashMap<u64, Vec<usize>>,
}

/// The place of a hunk in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HunkPlace {
    /// First line, counted from 0.
    pub(super) start: usize,
    pub(super) strategy: MatchStrategy,
    /// Rule for the different indentation of the file, if there is one.
    pub(super) indentation_rule: Option<IndentationRule>,
}

/// Reason for which a hunk has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HunkMiss {
    /// Its lines are not in the file.
    NotFound,
    /// Its lines are at this line, counted from 1, where the hunk cannot apply, with the reason.
    Elsewhere(usize, &'static str),
    /// The line that its header names is not in the file.
    NoAnchor(String),
    /// Its lines are at several places: the lines, counted from 1.
    Ambiguous(Vec<usize>, MatchStrategy),
    /// It only adds lines, and has no context that could be checked.
    NoContext,
    /// Its lines are at this line, which has invalid bytes that a new line would lose.
    Unreadable(usize),
}

impl<'t> LineText<'t> {
    /// Splits a text into lines and indexes them.
    pub(super) fn new(bytes: &'t [u8]) -> Self {
        let mut start = 0;
        let mut text = Self { bytes, lines: Vec::new(), by_words: HashMap::new() };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            text.by_words.entry(words_hash(&as_shown(line))).or_default().push(text.lines.len());
            text.lines.push(start..start + line.len());
            start += line.len();
        }
        text
    }

    /// Returns the lines that can match this one, exactly or apart from white space.
    fn lines_with_words_of(&self, line: &str) -> &[usize] {
        self.by_words.get(&words_hash(line)).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of lines.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the position of a line; the length of the text if there is no such line.
    pub(super) fn offset(&self, line: usize) -> usize {
        self.lines.get(line).map_or(self.bytes.len(), |range| range.start)
    }

    /// Returns a line with its ending.
    pub(super) fn line(&self, line: usize) -> &'t [u8] {
        self.lines.get(line).and_then(|range| self.bytes.get(range.clone())).unwrap_or_default()
    }

    /// Returns whether a line has no line feed.
    pub(super) fn lacks_final_line_feed(&self, line: usize) -> bool {
        !self.line(line).ends_with(b"\n")
    }

    /// Returns a line without its ending.
    fn content(&self, line: usize) -> &'t [u8] {
        let line = self.line(line);
        line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Finds the place of a hunk at or after line `floor`, if possible at the line of its header moved by `drift`.
pub(super) fn find_place(
    text: &LineText<'_>,
    hunk: &Hunk,
    floor: usize,
    drift: isize,
) -> Result<HunkPlace, HunkMiss> {
    let search = PlaceSearch { text, hunk, old: hunk.old_lines().collect(), floor };
    let starts = search.allowed_starts()?;
    if search.old.is_empty() {
        return search.insertion_place(&starts);
    }
    for strategy in [MatchStrategy::Exact, MatchStrategy::Whitespace, MatchStrategy::Indentation] {
        let places = search.places(strategy, &starts);
        if !places.is_empty() {
            let place = search.nearest_to_hint(places, strategy, drift)?;
            return search.check_readable(place);
        }
    }
    Err(search.explain_miss())
}

/// The search for the place of one hunk.
struct PlaceSearch<'s> {
    text: &'s LineText<'s>,
    hunk: &'s Hunk,
    old: Vec<&'s HunkLine>,
    floor: usize,
}

impl PlaceSearch<'_> {
    /// Returns the lines from which on the hunk may start: those of its anchors, or `floor` without anchors.
    fn allowed_starts(&self) -> Result<Vec<usize>, HunkMiss> {
        let mut anchors = self.hunk.anchors.iter();
        let Some(first) = anchors.next() else { return Ok(vec![self.floor]) };
        let mut starts = self.lines_like(first, self.floor);
        if starts.is_empty() {
            // Several hunks of one function may all name the function, which is then above `floor`.
            starts = self.lines_like(first, 0);
        }
        let mut last = first;
        for anchor in anchors {
            let next = |from: &usize| self.lines_like(anchor, from + 1).first().copied();
            starts = starts.iter().filter_map(next).collect();
            starts.dedup();
            last = anchor;
        }
        if starts.is_empty() { Err(HunkMiss::NoAnchor(last.clone())) } else { Ok(starts) }
    }

    /// Returns the lines from `from` on that match an anchor: lines equal to it apart from blanks at both ends; if there are none, lines
    /// that begin with it; if there are none, lines that contain it.
    fn lines_like(&self, anchor: &str, from: usize) -> Vec<usize> {
        let equal = self.text.lines_with_words_of(anchor).iter().copied();
        let anchor = anchor.trim().as_bytes();
        let is_equal = |at: &usize| self.text.content(*at).trim_ascii() == anchor;
        let equal: Vec<usize> = equal.filter(|at| *at >= from).filter(is_equal).collect();
        if !equal.is_empty() {
            return equal;
        }
        let ways = [
            |line: &[u8], anchor: &[u8]| line.starts_with(anchor),
            |line: &[u8], anchor: &[u8]| memchr::memmem::find(line, anchor).is_some(),
        ];
        ways.iter()
            .map(|way| {
                let is_like = |at: &usize| way(self.text.content(*at).trim_ascii(), anchor);
                (from..self.text.len()).filter(is_like).collect::<Vec<_>>()
            })
            .find(|lines| !lines.is_empty())
            .unwrap_or_default()
    }

    /// Returns the place of a hunk that only adds lines and has no context.
    fn insertion_place(&self, starts: &[usize]) -> Result<HunkPlace, HunkMiss> {
        let exact =
            |start| Ok(HunkPlace { start, strategy: MatchStrategy::Exact, indentation_rule: None });
        if self.hunk.ends_file() || self.text.len() == 0 {
            return exact(self.text.len());
        }
        match starts {
            _ if self.hunk.anchors.is_empty() => Err(HunkMiss::NoContext),
            [start] if *start + 1 >= self.floor => exact(start + 1),
            [start] => Err(HunkMiss::Elsewhere(start + 1, "before those of the hunk before it")),
            _ => Err(ambiguous_miss(starts, MatchStrategy::Exact)),
        }
    }

    /// Returns every place at which the old lines match; behind each anchor only the first.
    fn places(&self, strategy: MatchStrategy, starts: &[usize]) -> Vec<HunkPlace> {
        let is_blank = |line: &&HunkLine| line.text.trim().is_empty();
        if strategy != MatchStrategy::Exact && self.old.iter().all(is_blank) {
            return Vec::new();
        }
        let first = starts.first().copied().unwrap_or_default().max(self.floor);
        let places = self.all_places(strategy, first);
        if self.hunk.anchors.is_empty() {
            return places.collect();
        }
        let places: Vec<_> = places.collect();
        let mut chosen: Vec<_> = starts
            .iter()
            .filter_map(|start| places.iter().find(|place| place.start >= *start).cloned())
            .collect();
        chosen.dedup();
        chosen
    }

    /// Returns every place from a line on at which the old lines match.
    fn all_places(&self, strategy: MatchStrategy, from: usize) -> impl Iterator<Item = HunkPlace> {
        let first_impossible_start = self.first_impossible_start();
        let from = if self.hunk.ends_file() {
            from.max(first_impossible_start.saturating_sub(1))
        } else {
            from
        };
        self.candidates(from..first_impossible_start).filter_map(move |at| self.place(strategy, at))
    }

    /// Returns the first line at which the hunk is too long to start.
    fn first_impossible_start(&self) -> usize {
        (self.text.len() + 1).saturating_sub(self.old.len())
    }

    /// Returns the lines of a range at which the hunk can start, derived from the lines that match its rarest line.
    fn candidates(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        let rarest = (0..)
            .zip(&self.old)
            .map(|(nth, line)| (nth, self.text.lines_with_words_of(&line.text)))
            .min_by_key(|(_, lines)| lines.len());
        let (nth, lines) = rarest.unwrap_or_default();
        let first = lines.partition_point(|at| *at < range.start + nth);
        let lines = lines.get(first..).unwrap_or_default();
        lines.iter().map(move |at| at - nth).take_while(move |at| range.contains(at))
    }

    /// Returns the place that starts at a line, if the old lines match there.
    fn place(&self, strategy: MatchStrategy, start: usize) -> Option<HunkPlace> {
        let is_same = match strategy {
            MatchStrategy::Exact => Self::is_same,
            MatchStrategy::Whitespace => Self::is_same_after_indentation,
            MatchStrategy::Indentation => Self::has_same_words,
        };
        let mut lines = (start..).zip(&self.old);
        if !lines.all(|(at, line)| is_same(self, at, line)) {
            return None;
        }
        let indentation_rule = match strategy {
            MatchStrategy::Indentation => Some(self.indentation_rule(start)?),
            MatchStrategy::Exact | MatchStrategy::Whitespace => None,
        };
        Some(HunkPlace { start, strategy, indentation_rule })
    }

    /// Returns whether two lines are equal apart from white space after the indentation.
    fn is_same_after_indentation(&self, at: usize, line: &HunkLine) -> bool {
        indentation(self.text.content(at)) == indentation(line.text.as_bytes())
            && self.has_same_words(at, line)
    }

    /// Returns whether two lines are equal apart from white space.
    fn has_same_words(&self, at: usize, line: &HunkLine) -> bool {
        same_words(self.text.content(at), line.text.as_bytes())
    }

    /// Returns the rule for the indentation of the file at a line.
    fn indentation_rule(&self, at: usize) -> Option<IndentationRule> {
        let pairs: Vec<(&[u8], &[u8])> = self
            .old
            .iter()
            .enumerate()
            .map(|(nth, line)| (line.text.as_bytes(), self.text.content(at + nth)))
            .collect();
        IndentationRule::between(&pairs)
    }

    /// Returns whether a line of the file equals a line of the hunk. Line endings count only if the hunk shows them.
    fn is_same(&self, at: usize, line: &HunkLine) -> bool {
        let raw = self.text.line(at);
        let content = match raw.strip_suffix(b"\n") {
            Some(content) if !self.hunk.shows_carriage_returns() => {
                content.strip_suffix(b"\r").unwrap_or(content)
            }
            content => content.unwrap_or(raw),
        };
        let ends_so = !self.hunk.shows_missing_line_feed()
            || line.open == self.text.lacks_final_line_feed(at);
        ends_so && (content == line.text.as_bytes() || as_shown(content) == line.text)
    }

    /// Returns the place nearest to the hint; several equally near places are an error.
    fn nearest_to_hint(
        &self,
        places: Vec<HunkPlace>,
        strategy: MatchStrategy,
        drift: isize,
    ) -> Result<HunkPlace, HunkMiss> {
        let hint = self.hunk.at.filter(|_| strategy == MatchStrategy::Exact);
        let distance = |place: &HunkPlace| {
            hint.map(|at| place.start.abs_diff(at.saturating_add_signed(drift)))
        };
        let nearest = places.iter().map(distance).min().flatten();
        let mut nearest_places: Vec<HunkPlace> =
            places.into_iter().filter(|place| distance(place) == nearest).collect();
        match (nearest_places.pop(), nearest_places.is_empty()) {
            (Some(only), true) => Ok(only),
            (last, _) => {
                let starts: Vec<usize> =
                    nearest_places.iter().chain(&last).map(|place| place.start).collect();
                Err(ambiguous_miss(&starts, strategy))
            }
        }
    }

    /// Refuses a place with invalid bytes if new lines have U+FFFD: the bytes were shown as such and would be lost.
    fn check_readable(&self, place: HunkPlace) -> Result<HunkPlace, HunkMiss> {
        let lost = self.hunk.new_lines().any(|line| {
            line.sign == super::hunk::LineSign::Add
                && line.text.contains(char::REPLACEMENT_CHARACTER)
        });
        let broken = (place.start..place.start + self.old.len())
            .find(|at| std::str::from_utf8(self.text.line(*at)).is_err());
        match broken {
            Some(at) if lost => Err(HunkMiss::Unreadable(at + 1)),
            _ => Ok(place),
        }
    }

    /// Returns the miss for a hunk without a place; its lines may be where the hunk cannot apply.
    fn explain_miss(&self) -> HunkMiss {
        let mut candidates = self.candidates(0..self.first_impossible_start());
        let Some(start) = candidates.find(|at| self.place(MatchStrategy::Exact, *at).is_some())
        else {
            return HunkMiss::NotFound;
        };
        let why = if start < self.floor {
            "before those of the hunk before it"
        } else if self.hunk.ends_file() {
            "not at the end of the file"
        } else {
            "before the line that its header names"
        };
        HunkMiss::Elsewhere(start + 1, why)
    }
}

/// Returns a line with invalid bytes as U+FFFD, as it was shown.
fn as_shown(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line)
}

/// Returns a hash that is equal for lines that differ only in white space.
fn words_hash(line: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for byte in words(line.trim_end_matches('\n').as_bytes()) {
        byte.hash(&mut hasher);
    }
    hasher.finish()
}

/// Makes the miss for several places, with lines counted from 1.
fn ambiguous_miss(starts: &[usize], strategy: MatchStrategy) -> HunkMiss {
    HunkMiss::Ambiguous(starts.iter().map(|at| at + 1).collect(), strategy)
}
