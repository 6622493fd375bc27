//! A hunk of a diff: changes near each other, line by line, with the unchanged lines around them.

use std::ops::Range;

use super::words::{self, LinePair};
use super::{CONTEXT, ChangedBlock, lines_in};

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
pub struct DiffHunk<'a> {
    /// All lines of the old text.
    pub(super) before: &'a [&'a str],
    /// All lines of the new text.
    pub(super) after: &'a [&'a str],
    /// Blocks of the diff that belong to this hunk.
    pub(super) blocks: &'a [ChangedBlock],
    /// First line of the old text that the context may contain: the end of the change before.
    pub(super) context_floor: usize,
    /// End of the lines of the old text that the context may contain: the start of the change after.
    pub(super) context_ceiling: usize,
}

/// One line of a hunk.
///
/// ```
/// use windlass_tools::diff::{Diff, DiffLineKind};
///
/// let diff = Diff::between("let a = 1;\n", "let a = 2;\n");
/// let lines: Vec<_> = diff.hunks().flat_map(|hunk| hunk.marked_lines()).collect();
/// assert_eq!(lines[0].kind, DiffLineKind::Removed { before: 1 });
/// assert_eq!(lines[1].text, "let a = 2;\n");
/// assert_eq!(&lines[1].text[lines[1].words[0].clone()], "2");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine<'a> {
    /// Kind of the line and its line numbers.
    pub kind: DiffLineKind,
    /// The line with its ending: a line feed, both characters of a CRLF, or nothing.
    pub text: &'a str,
    /// Byte ranges of the text that differ from the paired line. Empty if no line is similar enough for a pair: then the whole line is
    /// new or removed.
    pub words: Vec<Range<usize>>,
}

/// Kind of a line: kept, removed or added, with its line numbers, counted from 1.
///
/// ```
/// use windlass_tools::diff::{Diff, DiffLineKind};
///
/// let diff = Diff::between("a\n", "new\na\n");
/// let kinds: Vec<_> = diff.hunks().flat_map(|hunk| hunk.lines()).map(|line| line.kind).collect();
/// assert_eq!(kinds, [DiffLineKind::Added { after: 1 }, DiffLineKind::Kept { before: 1, after: 2 }]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffLineKind {
    /// The line is in both texts.
    Kept {
        /// Line number in the old text.
        before: usize,
        /// Line number in the new text.
        after: usize,
    },
    /// The line is in the old text only.
    Removed {
        /// Line number in the old text.
        before: usize,
    },
    /// The line is in the new text only.
    Added {
        /// Line number in the new text.
        after: usize,
    },
}

impl DiffLineKind {
    /// Returns the sign that stands before such a line in a diff.
    pub fn sign(self) -> char {
        match self {
            Self::Kept { .. } => ' ',
            Self::Removed { .. } => '-',
            Self::Added { .. } => '+',
        }
    }

    /// Returns the line numbers in the old and in the new text.
    pub fn numbers(self) -> (Option<usize>, Option<usize>) {
        match self {
            Self::Kept { before, after } => (Some(before), Some(after)),
            Self::Removed { before } => (Some(before), None),
            Self::Added { after } => (None, Some(after)),
        }
    }
}

impl<'a> DiffHunk<'a> {
    /// Returns the range of its lines in the old text, counted from 0.
    pub fn before(&self) -> Range<usize> {
        let (Some(first), Some(last)) = (self.blocks.first(), self.blocks.last()) else {
            return 0..0;
        };
        first.before.start - self.leading_context()..last.before.end + self.trailing_context()
    }

    /// Returns the range of its lines in the new text, counted from 0.
    pub fn after(&self) -> Range<usize> {
        let (Some(first), Some(last)) = (self.blocks.first(), self.blocks.last()) else {
            return 0..0;
        };
        first.after.start - self.leading_context()..last.after.end + self.trailing_context()
    }

    /// Returns the header as `diff -u` writes it: `@@ -1,3 +1,3 @@`.
    pub fn header(&self) -> String {
        self.header_after(0)
    }

    /// Returns the header if `skipped` lines come before the compared texts.
    pub(super) fn header_after(&self, skipped: usize) -> String {
        let shifted =
            |range: Range<usize>| format_range(&(range.start + skipped..range.end + skipped));
        format!("@@ -{} +{} @@", shifted(self.before()), shifted(self.after()))
    }

    /// Returns the lines without word marks: [`DiffLine::words`] is empty.
    pub fn lines(&self) -> impl Iterator<Item = DiffLine<'a>> + use<'a> {
        self.sections().flat_map(|section| section.lines(Vec::new()))
    }

    /// Returns the lines, with the words marked that differ between paired lines.
    pub fn marked_lines(&self) -> impl Iterator<Item = DiffLine<'a>> + use<'a> {
        self.sections().flat_map(|section| section.lines(section.pairs()))
    }

    /// Returns each block with the kept lines before it; the last section holds the kept lines after the last block.
    pub(super) fn sections(self) -> impl Iterator<Item = HunkSection<'a>> + use<'a> {
        let (old, new) = (self.before(), self.after());
        let last = ChangedBlock { before: old.end..old.end, after: new.end..new.end };
        let mut kept = (old.start, new.start);
        self.blocks.iter().cloned().chain([last]).map(move |block| {
            let (before, after) = kept;
            kept = (block.before.end, block.after.end);
            HunkSection {
                kept: lines_in(self.before, &(before..block.before.start)),
                removed: lines_in(self.before, &block.before),
                added: lines_in(self.after, &block.after),
                before,
                after,
            }
        })
    }

    /// Returns the number of unchanged lines before the first change.
    fn leading_context(&self) -> usize {
        let start = self.blocks.first().map_or(self.context_floor, |block| block.before.start);
        (start - self.context_floor).min(CONTEXT)
    }

    /// Returns the number of unchanged lines after the last change.
    fn trailing_context(&self) -> usize {
        let end = self.blocks.last().map_or(self.context_ceiling, |block| block.before.end);
        (self.context_ceiling - end).min(CONTEXT)
    }
}

/// Kept lines, and the block of changed lines after them.
#[derive(Debug, Clone, Copy)]
pub(super) struct HunkSection<'a> {
    pub(super) kept: &'a [&'a str],
    pub(super) removed: &'a [&'a str],
    pub(super) added: &'a [&'a str],
    /// Number of lines before this section in the old text.
    before: usize,
    /// Number of lines before this section in the new text.
    after: usize,
}

impl<'a> HunkSection<'a> {
    /// Returns the pairs of removed and added lines that are similar, in order.
    pub(super) fn pairs(&self) -> Vec<LinePair> {
        words::pair_lines(self.removed, self.added)
    }

    /// Returns the kept, removed and added lines in this order, with the marks of the pairs.
    pub(super) fn lines(
        self,
        pairs: Vec<LinePair>,
    ) -> impl Iterator<Item = DiffLine<'a>> + use<'a> {
        let (old, new) = split_marks(pairs);
        self.kept().chain(self.removed(old)).chain(self.added(new))
    }

    /// Returns the kept lines.
    pub(super) fn kept(self) -> impl Iterator<Item = DiffLine<'a>> + use<'a> {
        let Self { kept, before, after, .. } = self;
        (1..).zip(kept).map(move |(nth, text)| {
            let kind = DiffLineKind::Kept { before: before + nth, after: after + nth };
            DiffLine { kind, text, words: Vec::new() }
        })
    }

    /// Returns the removed lines with their marks.
    pub(super) fn removed(self, marks: WordMarks) -> impl Iterator<Item = DiffLine<'a>> + use<'a> {
        let first = self.before + self.kept.len() + 1;
        with_marks(self.removed, marks).map(move |(nth, text, words)| {
            let kind = DiffLineKind::Removed { before: first + nth };
            DiffLine { kind, text, words }
        })
    }

    /// Returns the added lines with their marks.
    pub(super) fn added(self, marks: WordMarks) -> impl Iterator<Item = DiffLine<'a>> + use<'a> {
        let first = self.after + self.kept.len() + 1;
        with_marks(self.added, marks).map(move |(nth, text, words)| {
            let kind = DiffLineKind::Added { after: first + nth };
            DiffLine { kind, text, words }
        })
    }
}

/// Byte ranges of differing words, by the position of the line; in order.
pub(super) type WordMarks = Vec<(usize, Vec<Range<usize>>)>;

/// Splits pairs into the marks of the old lines and those of the new lines.
pub(super) fn split_marks(pairs: Vec<LinePair>) -> (WordMarks, WordMarks) {
    pairs.into_iter().map(|pair| ((pair.before, pair.removed), (pair.after, pair.added))).unzip()
}

/// Returns each line with its position and its marks.
fn with_marks<'a>(
    lines: &'a [&'a str],
    marks: WordMarks,
) -> impl Iterator<Item = (usize, &'a str, Vec<Range<usize>>)> {
    let mut marks = marks.into_iter().peekable();
    lines.iter().enumerate().map(move |(nth, text)| {
        let words = marks.next_if(|(line, _)| *line == nth).map(|(_, words)| words);
        (nth, *text, words.unwrap_or_default())
    })
}

/// Formats a range as `diff -u` does: `START,COUNT`, without the count if it is 1.
fn format_range(range: &Range<usize>) -> String {
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
    fn lines_have_their_line_numbers() {
        let before = "a\nb\nc\nd\n";
        let after = "a\nx\ny\nc\nd\ne\n";
        let diff = Diff::between(before, after);
        let lines: Vec<String> = diff
            .hunks()
            .flat_map(|hunk| hunk.lines())
            .map(|line| match line.kind {
                DiffLineKind::Kept { before, after } => {
                    format!("{before} {after} {}", line.text.trim())
                }
                DiffLineKind::Removed { before } => format!("{before} - {}", line.text.trim()),
                DiffLineKind::Added { after } => format!("- {after} {}", line.text.trim()),
            })
            .collect();
        assert_eq!(lines, ["1 1 a", "2 - b", "- 2 x", "- 3 y", "3 4 c", "4 5 d", "- 6 e"]);
    }
}
