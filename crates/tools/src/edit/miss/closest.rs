//! Finds the place in a file that is most similar to a searched text that is not in the file.
//!
//! The first attempt compares lines as a person sees them; the second finds the place with most equal lines; the last finds the line most
//! similar to the longest searched line.

use std::collections::HashMap;

use windlass_core::quote;

/// Limit of the lines that are compared character by character.
const MAX_COMPARED_LINES: usize = 20_000;
/// Limit of the bytes of a line that are compared.
const MAX_COMPARED_BYTES: usize = 1_000;

/// Returns the first line, counted from 0, of the place that is most similar to the searched lines.
pub(super) fn most_similar_start(lines: &[&[u8]], old: &[&[u8]]) -> Option<usize> {
    find_by_appearance(lines, old)
        .or_else(|| find_by_equal_lines(lines, old))
        .or_else(|| find_by_similarity(lines, old))
}

/// Returns the first place that looks equal to a person: it differs only in invisible characters, or in ones that look alike.
fn find_by_appearance(lines: &[&[u8]], old: &[&[u8]]) -> Option<usize> {
    let old: Vec<String> = old.iter().map(|line| as_seen(line)).collect();
    if old.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    let lines: Vec<String> =
        lines.iter().take(MAX_COMPARED_LINES).map(|line| as_seen(line)).collect();
    lines.windows(old.len()).position(|place| {
        old.iter().zip(place).enumerate().all(|(nth, (old, line))| {
            LinePart::of(nth, old.len()).is_in(line.as_bytes(), old.as_bytes())
        })
    })
}

/// Returns a line as a person sees it: one kind of blank, quote and dash, and no invisible characters.
fn as_seen(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    line.chars()
        .filter(|c| *c == '\t' || !quote::is_invisible(*c))
        .map(|c| match c {
            '\u{2018}' | '\u{2019}' => '\'',
            '\u{201c}' | '\u{201d}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            c if c.is_whitespace() => ' ',
            c => c,
        })
        .collect()
}

/// The part of a line of the file that a searched line must be. The first and last searched lines may be parts of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinePart {
    /// The searched line is anywhere in the line: it is the only one.
    Any,
    /// The searched line is the end of the line: it is the first one.
    End,
    /// The searched line is the whole line.
    All,
    /// The searched line is the beginning of the line: it is the last one.
    Beginning,
}

impl LinePart {
    /// Returns the part for searched line `nth` of `count`.
    pub(super) fn of(nth: usize, count: usize) -> Self {
        match (nth, count) {
            (_, 1) => Self::Any,
            (0, _) => Self::End,
            _ if nth + 1 == count => Self::Beginning,
            _ => Self::All,
        }
    }

    /// Returns whether a line of the file contains the searched line in this part.
    pub(super) fn is_in(self, line: &[u8], old: &[u8]) -> bool {
        match self {
            Self::Any => memchr::memmem::find(line, old).is_some(),
            Self::End => line.ends_with(old),
            Self::All => line == old,
            Self::Beginning => line.starts_with(old),
        }
    }
}

/// Finds the start with most votes: each line that is equal apart from white space around it votes for a start; long lines count more.
fn find_by_equal_lines(lines: &[&[u8]], old: &[&[u8]]) -> Option<usize> {
    let mut searched: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (at, line) in old.iter().enumerate().filter(|(_, line)| line.trim_ascii().len() > 1) {
        searched.entry(line.trim_ascii()).or_default().push(at);
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        for nth in searched.get(line.trim_ascii()).into_iter().flatten().take(8) {
            if let Some(start) = at.checked_sub(*nth) {
                *votes.entry(start).or_default() += line.trim_ascii().len().min(40);
            }
        }
    }
    votes
        .into_iter()
        .max_by_key(|(start, votes)| (*votes, std::cmp::Reverse(*start)))
        .map(|(start, _)| start)
}

/// Finds the line that is most similar to the longest searched line, and returns the start that belongs to it.
fn find_by_similarity(lines: &[&[u8]], old: &[&[u8]]) -> Option<usize> {
    let (nth, longest) = old.iter().enumerate().max_by_key(|(_, line)| line.trim_ascii().len())?;
    let searched = BytePairs::of(longest);
    // A searched text of one line may be a part of a longer line.
    let is_part = old.len() == 1;
    let like = |line: &[u8]| {
        let line = BytePairs::of(line);
        if is_part {
            searched.likeness(&line).max(searched.share_in(&line))
        } else {
            searched.likeness(&line)
        }
    };
    lines
        .iter()
        .enumerate()
        .take(MAX_COMPARED_LINES)
        .map(|(at, line)| (like(line), at))
        .filter(|(likeness, _)| *likeness >= 50)
        .max_by_key(|(likeness, at)| (*likeness, std::cmp::Reverse(*at)))
        .map(|(_, at)| at.saturating_sub(nth))
}

/// The pairs of neighbouring bytes of a line, sorted.
struct BytePairs(Vec<[u8; 2]>);

impl BytePairs {
    /// Collects the pairs of the first bytes of a line.
    fn of(line: &[u8]) -> Self {
        let line = line.trim_ascii();
        let line = line.get(..MAX_COMPARED_BYTES).unwrap_or(line);
        let mut pairs: Vec<[u8; 2]> = line.array_windows().copied().collect();
        pairs.sort_unstable();
        Self(pairs)
    }

    /// Returns the similarity of two lines, from 0 to 100.
    fn likeness(&self, other: &Self) -> usize {
        (200 * self.common(other)).checked_div(self.0.len() + other.0.len()).unwrap_or(0)
    }

    /// Returns the share of this line that is in the other, from 0 to 100. A low share counts as 0, because any long line has a few of its
    /// pairs.
    fn share_in(&self, other: &Self) -> usize {
        let share = (100 * self.common(other)).checked_div(self.0.len()).unwrap_or(0);
        if share >= 85 && self.0.len() >= 7 { share - 10 } else { 0 }
    }

    /// Returns the number of pairs that are in both.
    fn common(&self, other: &Self) -> usize {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0;
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            match x.cmp(y) {
                std::cmp::Ordering::Less => drop(a.next()),
                std::cmp::Ordering::Greater => drop(b.next()),
                std::cmp::Ordering::Equal => {
                    common += 1;
                    a.next();
                    b.next();
                }
            }
        }
        common
    }
}
