//! Finds the place of a hunk in a text. It touches no file.
//!
//! A line number is a hint, since whoever wrote it may have counted wrong or seen an older file; the lines themselves are what
//! counts, all of them. Where they are at several places, the one nearest to the hint is meant; without a hint there must be only
//! one. White space may differ only where nothing fits exactly, and then, too, only at one place.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use super::hunk::{Hunk, Line};
use crate::edit::fold::{indentation, same_words, words};
use crate::edit::indent::IndentationRule;
use crate::edit::plan::MatchStrategy;

/// A text, cut into lines.
pub(super) struct Text<'t> {
    pub(super) bytes: &'t [u8],
    /// Each with its end.
    lines: Vec<Range<usize>>,
    /// The lines that have the same words, in order, by a hash of these: a hunk is looked for where its rarest line is, so that
    /// thousands of hunks do not each walk through the file.
    by_words: HashMap<u64, Vec<usize>>,
}

/// Where a hunk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The first line, counted from 0.
    pub(super) start: usize,
    pub(super) strategy: MatchStrategy,
    /// How the file is indented otherwise.
    pub(super) indentation_rule: Option<IndentationRule>,
}

/// Why a hunk has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Miss {
    /// Its lines are not there.
    NotFound,
    /// Its lines are at this line, counted from 1, where they cannot be meant; and why not.
    Elsewhere(usize, &'static str),
    /// The line that its header names is not there.
    NoAnchor(String),
    /// It could be at any of these lines, counted from 1.
    Ambiguous(Vec<usize>, MatchStrategy),
    /// It only adds lines, and nothing says where in a way that could be checked.
    NoContext,
    /// The lines are there, but one of them has bytes that are no characters, and a new line would lose them: its number.
    Unreadable(usize),
}

impl<'t> Text<'t> {
    pub(super) fn new(bytes: &'t [u8]) -> Self {
        let mut start = 0;
        let mut text = Self { bytes, lines: Vec::new(), by_words: HashMap::new() };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            text.by_words.entry(words_hash(&shown(line))).or_default().push(text.lines.len());
            text.lines.push(start..start + line.len());
            start += line.len();
        }
        text
    }

    /// The lines that may be this one, be it exactly or apart from white space.
    fn lines_with_words_of(&self, line: &str) -> &[usize] {
        self.by_words.get(&words_hash(line)).map_or(&[], Vec::as_slice)
    }

    /// How many lines there are.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Where a line begins; the end of the text if there is no such line.
    pub(super) fn offset(&self, line: usize) -> usize {
        self.lines.get(line).map_or(self.bytes.len(), |range| range.start)
    }

    /// A line with its end.
    pub(super) fn line(&self, line: usize) -> &'t [u8] {
        self.lines.get(line).and_then(|range| self.bytes.get(range.clone())).unwrap_or_default()
    }

    /// Whether no line feed ends it.
    pub(super) fn is_open(&self, line: usize) -> bool {
        !self.line(line).ends_with(b"\n")
    }

    /// A line without its end.
    fn content(&self, line: usize) -> &'t [u8] {
        let line = self.line(line);
        line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// The place of a hunk at or after the line `floor`, if possible where its header says, moved by `drift`.
pub(super) fn find(
    text: &Text<'_>,
    hunk: &Hunk,
    floor: usize,
    drift: isize,
) -> Result<Place, Miss> {
    let search = Search { text, hunk, old: hunk.old_lines().collect(), floor };
    let starts = search.starts()?;
    if search.old.is_empty() {
        return search.insertion(&starts);
    }
    for strategy in [MatchStrategy::Exact, MatchStrategy::Whitespace, MatchStrategy::Indentation] {
        let places = search.places(strategy, &starts);
        if !places.is_empty() {
            let place = search.decide(places, strategy, drift)?;
            return search.check_readable(place);
        }
    }
    Err(search.why_not())
}

struct Search<'s> {
    text: &'s Text<'s>,
    hunk: &'s Hunk,
    old: Vec<&'s Line>,
    floor: usize,
}

impl Search<'_> {
    /// The lines from which the hunk may begin: those of its anchors, if it has some.
    fn starts(&self) -> Result<Vec<usize>, Miss> {
        let mut anchors = self.hunk.anchors.iter();
        let Some(first) = anchors.next() else { return Ok(vec![self.floor]) };
        let mut starts = self.lines_like(first, self.floor);
        if starts.is_empty() {
            // Several hunks of one function may all name it.
            starts = self.lines_like(first, 0);
        }
        let mut last = first;
        for anchor in anchors {
            let next = |from: &usize| self.lines_like(anchor, from + 1).first().copied();
            starts = starts.iter().filter_map(next).collect();
            starts.dedup();
            last = anchor;
        }
        if starts.is_empty() { Err(Miss::NoAnchor(last.clone())) } else { Ok(starts) }
    }

    /// The lines from `from` on that are meant by an anchor: equal to it but for blanks around, or else beginning with it, or else
    /// containing it.
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

    /// Where lines come that replace none and have none around them.
    fn insertion(&self, starts: &[usize]) -> Result<Place, Miss> {
        let exact =
            |start| Ok(Place { start, strategy: MatchStrategy::Exact, indentation_rule: None });
        if self.hunk.ends_file() || self.text.len() == 0 {
            return exact(self.text.len());
        }
        match starts {
            _ if self.hunk.anchors.is_empty() => Err(Miss::NoContext),
            [start] if *start + 1 >= self.floor => exact(start + 1),
            [start] => Err(Miss::Elsewhere(start + 1, "before those of the hunk before it")),
            _ => Err(ambiguous(starts, MatchStrategy::Exact)),
        }
    }

    /// Every place where the old lines are; of those behind one anchor only the first.
    fn places(&self, strategy: MatchStrategy, starts: &[usize]) -> Vec<Place> {
        let is_blank = |line: &&Line| line.text.trim().is_empty();
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

    fn all_places(&self, strategy: MatchStrategy, from: usize) -> impl Iterator<Item = Place> {
        let past = self.past();
        let from = if self.hunk.ends_file() { from.max(past.saturating_sub(1)) } else { from };
        self.candidates(from..past).filter_map(move |at| self.place(strategy, at))
    }

    /// The first line at which the hunk cannot begin any more.
    fn past(&self) -> usize {
        (self.text.len() + 1).saturating_sub(self.old.len())
    }

    /// The lines of a range at which the hunk can begin, by where its rarest line is.
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

    /// The place that begins at a line, if the old lines are there.
    fn place(&self, strategy: MatchStrategy, start: usize) -> Option<Place> {
        let is_same = match strategy {
            MatchStrategy::Exact => Self::is_same,
            MatchStrategy::Whitespace => Self::is_same_but_blanks,
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
        Some(Place { start, strategy, indentation_rule })
    }

    fn is_same_but_blanks(&self, at: usize, line: &Line) -> bool {
        indentation(self.text.content(at)) == indentation(line.text.as_bytes())
            && self.has_same_words(at, line)
    }

    fn has_same_words(&self, at: usize, line: &Line) -> bool {
        same_words(self.text.content(at), line.text.as_bytes())
    }

    fn indentation_rule(&self, at: usize) -> Option<IndentationRule> {
        let pairs: Vec<(&[u8], &[u8])> = self
            .old
            .iter()
            .enumerate()
            .map(|(nth, line)| (line.text.as_bytes(), self.text.content(at + nth)))
            .collect();
        IndentationRule::between(&pairs)
    }

    /// Whether a line of the file is one of the hunk. Line endings count only where the hunk tells them.
    fn is_same(&self, at: usize, line: &Line) -> bool {
        let raw = self.text.line(at);
        let content = match raw.strip_suffix(b"\n") {
            Some(content) if !self.hunk.tells_returns() => {
                content.strip_suffix(b"\r").unwrap_or(content)
            }
            content => content.unwrap_or(raw),
        };
        let ends_so = !self.hunk.tells_open() || line.open == self.text.is_open(at);
        ends_so && (content == line.text.as_bytes() || shown(content) == line.text)
    }

    fn decide(
        &self,
        places: Vec<Place>,
        strategy: MatchStrategy,
        drift: isize,
    ) -> Result<Place, Miss> {
        let hint = self.hunk.at.filter(|_| strategy == MatchStrategy::Exact);
        let distance =
            |place: &Place| hint.map(|at| place.start.abs_diff(at.saturating_add_signed(drift)));
        let nearest = places.iter().map(distance).min().flatten();
        let mut meant: Vec<Place> =
            places.into_iter().filter(|place| distance(place) == nearest).collect();
        match (meant.pop(), meant.is_empty()) {
            (Some(only), true) => Ok(only),
            (last, _) => {
                let starts: Vec<usize> =
                    meant.iter().chain(&last).map(|place| place.start).collect();
                Err(ambiguous(&starts, strategy))
            }
        }
    }

    /// A line that cannot be shown as it is cannot be written as it is either.
    fn check_readable(&self, place: Place) -> Result<Place, Miss> {
        let lost = self.hunk.new_lines().any(|line| {
            line.sign == super::hunk::Sign::Add && line.text.contains(char::REPLACEMENT_CHARACTER)
        });
        let broken = (place.start..place.start + self.old.len())
            .find(|at| std::str::from_utf8(self.text.line(*at)).is_err());
        match broken {
            Some(at) if lost => Err(Miss::Unreadable(at + 1)),
            _ => Ok(place),
        }
    }

    /// Its lines may be where they cannot be meant.
    fn why_not(&self) -> Miss {
        let mut candidates = self.candidates(0..self.past());
        let Some(start) = candidates.find(|at| self.place(MatchStrategy::Exact, *at).is_some())
        else {
            return Miss::NotFound;
        };
        let why = if start < self.floor {
            "before those of the hunk before it"
        } else if self.hunk.ends_file() {
            "not at the end of the file"
        } else {
            "before the line that its header names"
        };
        Miss::Elsewhere(start + 1, why)
    }
}

/// A line as it is shown: what is no character as U+FFFD.
fn shown(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line)
}

/// A hash that is the same for lines which are equal but for white space.
fn words_hash(line: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for byte in words(line.trim_end_matches('\n').as_bytes()) {
        byte.hash(&mut hasher);
    }
    hasher.finish()
}

/// Lines that are counted from 0 become lines for people.
fn ambiguous(starts: &[usize], strategy: MatchStrategy) -> Miss {
    Miss::Ambiguous(starts.iter().map(|at| at + 1).collect(), strategy)
}
