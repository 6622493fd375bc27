//! The place in a file that comes closest to what was looked for and is not there.
//!
//! First what a person would take for it, then where most of its lines are, then where the line is that is most like its longest.

use std::collections::HashMap;

use windlass_core::quote;

/// How many lines are held against each other letter by letter.
const MAX_COMPARED: usize = 20_000;
/// How much of a line is compared.
const MAX_PAIRS: usize = 1_000;

/// The line, counted from 0, where the place begins that has most in common with what was looked for.
pub(super) fn closest(lines: &[&[u8]], old: &[&[u8]]) -> Option<usize> {
    by_looks(lines, old).or_else(|| by_equal_lines(lines, old)).or_else(|| by_likeness(lines, old))
}

/// The first place that a person would take for what was looked for: it differs in characters that nobody sees, or tells apart.
fn by_looks(lines: &[&[u8]], old: &[&[u8]]) -> Option<usize> {
    let old: Vec<String> = old.iter().map(|line| looks(line)).collect();
    if old.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    let lines: Vec<String> = lines.iter().take(MAX_COMPARED).map(|line| looks(line)).collect();
    lines.windows(old.len()).position(|place| {
        old.iter().zip(place).enumerate().all(|(nth, (old, line))| {
            Part::of(nth, old.len()).is_in(line.as_bytes(), old.as_bytes())
        })
    })
}

/// A line as a person sees it: one kind of blank, of quote and of dash, and nothing invisible.
fn looks(line: &[u8]) -> String {
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

/// Which part of a line of the file a line of what was looked for must be. It may begin and end in the middle of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Any,
    End,
    All,
    Beginning,
}

impl Part {
    /// For this one of so many lines.
    pub(super) fn of(nth: usize, count: usize) -> Self {
        match (nth, count) {
            (_, 1) => Self::Any,
            (0, _) => Self::End,
            _ if nth + 1 == count => Self::Beginning,
            _ => Self::All,
        }
    }

    pub(super) fn is_in(self, line: &[u8], old: &[u8]) -> bool {
        match self {
            Self::Any => memchr::memmem::find(line, old).is_some(),
            Self::End => line.ends_with(old),
            Self::All => line == old,
            Self::Beginning => line.starts_with(old),
        }
    }
}

/// Lines that are equal but for white space around them vote for where the place would begin; long lines count more.
fn by_equal_lines(lines: &[&[u8]], old: &[&[u8]]) -> Option<usize> {
    let mut wanted: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (at, line) in old.iter().enumerate().filter(|(_, line)| line.trim_ascii().len() > 1) {
        wanted.entry(line.trim_ascii()).or_default().push(at);
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        for nth in wanted.get(line.trim_ascii()).into_iter().flatten().take(8) {
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

/// The line that is most like the longest line that was looked for.
fn by_likeness(lines: &[&[u8]], old: &[&[u8]]) -> Option<usize> {
    let (nth, longest) = old.iter().enumerate().max_by_key(|(_, line)| line.trim_ascii().len())?;
    let wanted = Pairs::of(longest);
    // What is all on one line may be a part of a longer one.
    let is_part = old.len() == 1;
    let like = |line: &[u8]| {
        let line = Pairs::of(line);
        if is_part {
            wanted.likeness(&line).max(wanted.part_of(&line))
        } else {
            wanted.likeness(&line)
        }
    };
    lines
        .iter()
        .enumerate()
        .take(MAX_COMPARED)
        .map(|(at, line)| (like(line), at))
        .filter(|(likeness, _)| *likeness >= 50)
        .max_by_key(|(likeness, at)| (*likeness, std::cmp::Reverse(*at)))
        .map(|(_, at)| at.saturating_sub(nth))
}

/// The pairs of neighbouring letters of a line, sorted.
struct Pairs(Vec<[u8; 2]>);

impl Pairs {
    fn of(line: &[u8]) -> Self {
        let line = line.trim_ascii();
        let line = line.get(..MAX_PAIRS).unwrap_or(line);
        let mut pairs: Vec<[u8; 2]> = line.array_windows().copied().collect();
        pairs.sort_unstable();
        Self(pairs)
    }

    /// How much two lines have in common, from 0 to 100.
    fn likeness(&self, other: &Self) -> usize {
        (200 * self.common(other)).checked_div(self.0.len() + other.0.len()).unwrap_or(0)
    }

    /// How much of this line is in the other, from 0 to 100. Little counts for nothing: any long line has a few pairs of it.
    fn part_of(&self, other: &Self) -> usize {
        let share = (100 * self.common(other)).checked_div(self.0.len()).unwrap_or(0);
        if share >= 85 && self.0.len() >= 7 { share - 10 } else { 0 }
    }

    /// How many pairs are in both.
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
