//! A part of a diff as people read it: changes near each other, line by line, with the unchanged lines around them.

use std::ops::Range;

use super::words::{self, Pair};
use super::{Block, CONTEXT, part};

/// Changes near each other, with the unchanged lines around and between them.
///
/// ```
/// use windlass_tools::diff::Diff;
///
/// let diff = Diff::between("a\nb\nc\n", "a\nB\nc\n");
/// let hunk = diff.hunks().next().unwrap();
/// assert_eq!(hunk.header(), "@@ -1,3 +1,3 @@");
/// assert_eq!(hunk.lines().count(), 4);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Hunk<'a> {
    pub(super) before: &'a [&'a str],
    pub(super) after: &'a [&'a str],
    pub(super) blocks: &'a [Block],
    /// The lines that its context may use: those up to the neighbouring changes.
    pub(super) floor: usize,
    pub(super) ceiling: usize,
}

/// One line of a hunk.
///
/// ```
/// use windlass_tools::diff::{Diff, LineKind};
///
/// let diff = Diff::between("let a = 1;\n", "let a = 2;\n");
/// let lines: Vec<_> = diff.hunks().flat_map(|hunk| hunk.marked_lines()).collect();
/// assert_eq!(lines[0].kind, LineKind::Removed { before: 1 });
/// assert_eq!(lines[1].text, "let a = 2;\n");
/// assert_eq!(&lines[1].text[lines[1].words[0].clone()], "2");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    /// Whether it is old, new or both, and where.
    pub kind: LineKind,
    /// The line with its end: a line feed, both characters of a CRLF, or nothing.
    pub text: &'a str,
    /// The bytes of the text that differ from the line that it took the place of, or that took its place. Empty if no such line
    /// is like it: then all of it is new, or gone.
    pub words: Vec<Range<usize>>,
}

/// Whether a line was kept, removed or added, with its numbers, counted from 1.
///
/// ```
/// use windlass_tools::diff::{Diff, LineKind};
///
/// let diff = Diff::between("a\n", "new\na\n");
/// let kinds: Vec<_> = diff.hunks().flat_map(|hunk| hunk.lines()).map(|line| line.kind).collect();
/// assert_eq!(kinds, [LineKind::Added { after: 1 }, LineKind::Kept { before: 1, after: 2 }]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// In both texts.
    Kept {
        /// Its number in the old text.
        before: usize,
        /// Its number in the new text.
        after: usize,
    },
    /// In the old text only.
    Removed {
        /// Its number there.
        before: usize,
    },
    /// In the new text only.
    Added {
        /// Its number there.
        after: usize,
    },
}

impl LineKind {
    /// The sign that stands before such a line in a diff.
    pub fn sign(self) -> char {
        match self {
            Self::Kept { .. } => ' ',
            Self::Removed { .. } => '-',
            Self::Added { .. } => '+',
        }
    }

    /// Its numbers in the old and in the new text.
    pub fn numbers(self) -> (Option<usize>, Option<usize>) {
        match self {
            Self::Kept { before, after } => (Some(before), Some(after)),
            Self::Removed { before } => (Some(before), None),
            Self::Added { after } => (None, Some(after)),
        }
    }
}

impl<'a> Hunk<'a> {
    /// Its lines in the old text, counted from 0.
    pub fn before(&self) -> Range<usize> {
        let (Some(first), Some(last)) = (self.blocks.first(), self.blocks.last()) else {
            return 0..0;
        };
        first.before.start - self.lead()..last.before.end + self.trail()
    }

    /// Its lines in the new text, counted from 0.
    pub fn after(&self) -> Range<usize> {
        let (Some(first), Some(last)) = (self.blocks.first(), self.blocks.last()) else {
            return 0..0;
        };
        first.after.start - self.lead()..last.after.end + self.trail()
    }

    /// Where it is, as `diff -u` says it.
    pub fn header(&self) -> String {
        self.header_after(0)
    }

    /// The same where so many lines come before all that was compared.
    pub(super) fn header_after(&self, skipped: usize) -> String {
        let shifted = |range: Range<usize>| place(&(range.start + skipped..range.end + skipped));
        format!("@@ -{} +{} @@", shifted(self.before()), shifted(self.after()))
    }

    /// Its lines, without a look at the words: [`Line::words`] is empty.
    pub fn lines(&self) -> impl Iterator<Item = Line<'a>> + use<'a> {
        self.sections().flat_map(|section| section.lines(Vec::new()))
    }

    /// Its lines, with the words that differ between lines that are like each other.
    pub fn marked_lines(&self) -> impl Iterator<Item = Line<'a>> + use<'a> {
        self.sections().flat_map(|section| section.lines(section.pairs()))
    }

    /// Each block with the kept lines before it; at the end, the kept lines after the last.
    pub(super) fn sections(self) -> impl Iterator<Item = Section<'a>> + use<'a> {
        let (old, new) = (self.before(), self.after());
        let last = Block { before: old.end..old.end, after: new.end..new.end };
        let mut kept = (old.start, new.start);
        self.blocks.iter().cloned().chain([last]).map(move |block| {
            let (before, after) = kept;
            kept = (block.before.end, block.after.end);
            Section {
                kept: part(self.before, &(before..block.before.start)),
                removed: part(self.before, &block.before),
                added: part(self.after, &block.after),
                before,
                after,
            }
        })
    }

    /// How many unchanged lines come first.
    fn lead(&self) -> usize {
        let start = self.blocks.first().map_or(self.floor, |block| block.before.start);
        (start - self.floor).min(CONTEXT)
    }

    /// How many unchanged lines come last.
    fn trail(&self) -> usize {
        let end = self.blocks.last().map_or(self.ceiling, |block| block.before.end);
        (self.ceiling - end).min(CONTEXT)
    }
}

/// Lines that stayed, and lines after them that were replaced by others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section<'a> {
    pub(super) kept: &'a [&'a str],
    pub(super) removed: &'a [&'a str],
    pub(super) added: &'a [&'a str],
    /// Where it begins in the texts, counted from 0.
    before: usize,
    after: usize,
}

impl<'a> Section<'a> {
    /// The lines that took each other's place, in order.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        words::pairs(self.removed, self.added)
    }

    pub(super) fn lines(self, pairs: Vec<Pair>) -> impl Iterator<Item = Line<'a>> + use<'a> {
        let (old, new) = marks(pairs);
        self.kept().chain(self.removed(old)).chain(self.added(new))
    }

    pub(super) fn kept(self) -> impl Iterator<Item = Line<'a>> + use<'a> {
        let Self { kept, before, after, .. } = self;
        (1..).zip(kept).map(move |(nth, text)| {
            let kind = LineKind::Kept { before: before + nth, after: after + nth };
            Line { kind, text, words: Vec::new() }
        })
    }

    pub(super) fn removed(self, marks: Marks) -> impl Iterator<Item = Line<'a>> + use<'a> {
        let first = self.before + self.kept.len() + 1;
        marked(self.removed, marks).map(move |(nth, text, words)| {
            let kind = LineKind::Removed { before: first + nth };
            Line { kind, text, words }
        })
    }

    pub(super) fn added(self, marks: Marks) -> impl Iterator<Item = Line<'a>> + use<'a> {
        let first = self.after + self.kept.len() + 1;
        marked(self.added, marks).map(move |(nth, text, words)| {
            let kind = LineKind::Added { after: first + nth };
            Line { kind, text, words }
        })
    }
}

/// The words that differ, of some lines, by the position of the line.
pub(super) type Marks = Vec<(usize, Vec<Range<usize>>)>;

/// What differs in the old lines of pairs, and in the new ones.
pub(super) fn marks(pairs: Vec<Pair>) -> (Marks, Marks) {
    pairs.into_iter().map(|pair| ((pair.before, pair.removed), (pair.after, pair.added))).unzip()
}

/// Each line with its position and its own marks.
fn marked<'a>(
    lines: &'a [&'a str],
    marks: Marks,
) -> impl Iterator<Item = (usize, &'a str, Vec<Range<usize>>)> {
    let mut marks = marks.into_iter().peekable();
    lines.iter().enumerate().map(move |(nth, text)| {
        let words = marks.next_if(|(line, _)| *line == nth).map(|(_, words)| words);
        (nth, *text, words.unwrap_or_default())
    })
}

/// A range as `diff -u` writes it: `START,COUNT`, the count left out if it is 1.
fn place(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        len => format!("{},{len}", range.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Diff;
    use super::*;

    #[test]
    fn lines_know_their_numbers() {
        let before = "a\nb\nc\nd\n";
        let after = "a\nx\ny\nc\nd\ne\n";
        let diff = Diff::between(before, after);
        let lines: Vec<String> = diff
            .hunks()
            .flat_map(|hunk| hunk.lines())
            .map(|line| match line.kind {
                LineKind::Kept { before, after } => {
                    format!("{before} {after} {}", line.text.trim())
                }
                LineKind::Removed { before } => format!("{before} - {}", line.text.trim()),
                LineKind::Added { after } => format!("- {after} {}", line.text.trim()),
            })
            .collect();
        assert_eq!(lines, ["1 1 a", "2 - b", "- 2 x", "- 3 y", "3 4 c", "4 5 d", "- 6 e"]);
    }
}
