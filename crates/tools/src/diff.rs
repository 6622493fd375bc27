//! Diffs: the lines and words that differ between two texts, and how they are shown to a model or a person.
//!
//! A [`Diff`] knows which lines took the place of which, and nothing more. Hunks, numbers and words are worked out while they are
//! asked for, so that a bounded view of a large diff costs what it shows. Only the part between the first and the last difference
//! is compared: an edit of one line in a large file costs little.
//!
//! ```
//! use windlass_tools::diff::{Diff, DiffFormat, render};
//!
//! let diff = Diff::between("one\ntwo\nthree\n", "one\n2\nthree\n");
//! assert_eq!((diff.added(), diff.removed()), (1, 1));
//! assert_eq!(render(&diff, &DiffFormat::plain()), "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
//! ```

mod conflict;
mod file;
mod hunk;
mod merge;
mod page;
mod render;
mod unified;
mod window;
mod words;

use std::collections::HashSet;
use std::ops::Range;

use imara_diff::{Algorithm, InternedInput};

pub use conflict::{ThreeWay, ThreeWayNames, render_conflict, three_way};
pub use file::{FileReport, FileVersion, render_file};
pub use hunk::{DiffHunk, DiffLine, DiffLineKind};
pub use merge::{MergeRegion, MergeRegionKind, MergeResult, merge};
pub use page::{DiffFormat, DiffStyle};
pub use render::render;
pub(crate) use unified::unified_diff;

/// Number of unchanged lines on either side of a change.
const CONTEXT: usize = 3;
/// Limit of lines on both sides together. Above it, the lines between the first and the last difference count as replaced.
const MAX_COMPARED_LINES: usize = 100_000;

/// Limit of lines on both sides together for the histogram algorithm. Its diffs read better, but many changes take it quadratic time.
const MAX_HISTOGRAM_LINES: usize = 40_000;

/// The difference between two texts, line by line.
///
/// ```
/// use windlass_tools::diff::Diff;
///
/// let diff = Diff::between("a\nb\n", "a\nc\nd\n");
/// assert_eq!((diff.added(), diff.removed()), (2, 1));
/// assert_eq!(diff.hunks().count(), 1);
/// assert!(Diff::between("a\n", "a\n").is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct Diff<'a> {
    /// Lines of the old text, with their line endings.
    before: Vec<&'a str>,
    /// Lines of the new text, with their line endings.
    after: Vec<&'a str>,
    blocks: Vec<ChangedBlock>,
    /// True if carriage returns are shown, because a change replaces one line ending by another.
    show_carriage_returns: bool,
    /// True if blanks at the ends of changed lines are shown, because two lines differ in them alone.
    show_trailing_blanks: bool,
}

/// Lines of the old text and the lines of the new text that replace them; one of the ranges may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChangedBlock {
    before: Range<usize>,
    after: Range<usize>,
}

impl<'a> Diff<'a> {
    /// Compares two texts.
    pub fn between(before: &'a str, after: &'a str) -> Self {
        let (before, after) = (lines(before), lines(after));
        let blocks = changed_blocks(&before, &after);
        let show_carriage_returns = blocks.iter().any(|block| {
            let old = LineEndingKinds::of(lines_in(&before, &block.before));
            let new = LineEndingKinds::of(lines_in(&after, &block.after));
            old != new && old != LineEndingKinds::default() && new != LineEndingKinds::default()
        });
        let removed = blocks.iter().flat_map(|block| lines_in(&before, &block.before));
        let added = blocks.iter().flat_map(|block| lines_in(&after, &block.after));
        let show_trailing_blanks = differ_in_trailing_blanks(removed, added);
        Self { before, after, blocks, show_carriage_returns, show_trailing_blanks }
    }

    /// Returns whether the texts are equal.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the number of new lines.
    pub fn added(&self) -> usize {
        self.blocks.iter().map(|block| block.after.len()).sum()
    }

    /// Returns the number of removed lines.
    pub fn removed(&self) -> usize {
        self.blocks.iter().map(|block| block.before.len()).sum()
    }

    /// Returns the changes in order, each with up to three unchanged lines on either side.
    pub fn hunks(&self) -> impl Iterator<Item = DiffHunk<'_>> {
        self.hunks_of(0..self.blocks.len())
    }

    /// Returns the hunks of some of the blocks.
    fn hunks_of(&self, blocks: Range<usize>) -> impl Iterator<Item = DiffHunk<'_>> {
        let Range { mut start, end } = blocks;
        std::iter::from_fn(move || {
            let count = blocks_in_first_hunk(self.blocks.get(start..end)?)?;
            let hunk = self.hunk(start..start + count);
            start += count;
            hunk
        })
    }

    /// Makes one hunk of these blocks; `None` if the range is out of bounds.
    fn hunk(&self, blocks: Range<usize>) -> Option<DiffHunk<'_>> {
        let previous = blocks.start.checked_sub(1).and_then(|at| self.blocks.get(at));
        let next = self.blocks.get(blocks.end);
        Some(DiffHunk {
            before: &self.before,
            after: &self.after,
            blocks: self.blocks.get(blocks)?,
            context_floor: previous.map_or(0, |block| block.before.end),
            context_ceiling: next.map_or(self.before.len(), |block| block.before.start),
        })
    }
}

/// Splits a text into lines with their line endings.
fn lines(text: &str) -> Vec<&str> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1);
    let last = (!text.is_empty() && !text.ends_with('\n')).then_some(text.len());
    ends.chain(last).filter_map(|end| text.get(std::mem::replace(&mut start, end)..end)).collect()
}

/// Returns the lines of a range; none if the range is out of bounds.
fn lines_in<'a>(lines: &'a [&'a str], range: &Range<usize>) -> &'a [&'a str] {
    lines.get(range.clone()).unwrap_or_default()
}

/// Splits a line into its content and its ending: a line feed, both characters of a CRLF, or nothing.
fn split_ending(line: &str) -> (&str, &str) {
    let content =
        line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
    line.split_at(content.len())
}

/// Splits a line into its content and the blanks at its end, without its ending.
fn split_trailing_blanks(line: &str) -> (&str, &str) {
    let content = split_ending(line).0;
    content.split_at(content.trim_end_matches([' ', '\t']).len())
}

/// Returns whether an added line differs from a removed one in the blanks at its end alone.
fn differ_in_trailing_blanks<'a>(
    removed: impl Iterator<Item = &'a &'a str> + Clone,
    added: impl Iterator<Item = &'a &'a str> + Clone,
) -> bool {
    let has_blanks = |line: &&str| !split_trailing_blanks(line).1.is_empty();
    if !removed.clone().chain(added.clone()).any(has_blanks) {
        return false;
    }
    let removed: HashSet<(&str, &str)> = removed.map(|line| split_trailing_blanks(line)).collect();
    let contents: HashSet<&str> = removed.iter().map(|(content, _)| *content).collect();
    let mut added = added.map(|line| split_trailing_blanks(line));
    added.any(|line| contents.contains(line.0) && !removed.contains(&line))
}

/// The line endings that occur in some lines.
#[derive(Debug, Default, PartialEq, Eq)]
struct LineEndingKinds {
    crlf: bool,
    lf: bool,
}

impl LineEndingKinds {
    /// Finds the line endings that occur in some lines.
    fn of(lines: &[&str]) -> Self {
        let has = |wanted: &str| lines.iter().any(|line| split_ending(line).1 == wanted);
        Self { crlf: has("\r\n"), lf: has("\n") }
    }
}

/// Returns the blocks that differ, in order.
fn changed_blocks(before: &[&str], after: &[&str]) -> Vec<ChangedBlock> {
    let start = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (old, new) =
        (before.get(start..).unwrap_or_default(), after.get(start..).unwrap_or_default());
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_end, new_end) = (before.len() - end, after.len() - end);
    let (old, new) = (lines_in(before, &(start..old_end)), lines_in(after, &(start..new_end)));
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    if old.is_empty() || new.is_empty() || old.len() + new.len() > MAX_COMPARED_LINES {
        return vec![ChangedBlock { before: start..old_end, after: start..new_end }];
    }
    compare_changed_lines(old, new, start)
}

/// Compares the lines between the first and the last difference; `start` is the number of equal lines before them.
fn compare_changed_lines(old: &[&str], new: &[&str], start: usize) -> Vec<ChangedBlock> {
    let mut input = InternedInput::default();
    input.update_before(old.iter().copied());
    input.update_after(new.iter().copied());
    let is_large = old.len() + new.len() > MAX_HISTOGRAM_LINES;
    let algorithm = if is_large { Algorithm::Myers } else { Algorithm::Histogram };
    let mut diff = imara_diff::Diff::compute(algorithm, &input);
    diff.postprocess_lines(&input);
    let shifted = |range: Range<u32>| start + range.start as usize..start + range.end as usize;
    diff.hunks()
        .map(|hunk| ChangedBlock { before: shifted(hunk.before), after: shifted(hunk.after) })
        .collect()
}

/// Returns the number of blocks at the front that are near enough to each other for one hunk; `None` if there are none.
fn blocks_in_first_hunk(blocks: &[ChangedBlock]) -> Option<usize> {
    let near = |pair: &[ChangedBlock]| match pair {
        [a, b] => b.before.start - a.before.end <= 2 * CONTEXT,
        _ => false,
    };
    (!blocks.is_empty()).then(|| 1 + blocks.windows(2).take_while(|pair| near(pair)).count())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hunk_headers_name_the_lines() {
        for (before, after, expected) in [
            ("", "", &[][..]),
            ("", "a\n", &["@@ -0,0 +1 @@"]),
            ("a\n", "", &["@@ -1 +0,0 @@"]),
            ("a", "a\n", &["@@ -1 +1 @@"]),
            ("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n", &["@@ -2,7 +2,7 @@"]),
            (
                "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
                "x\n2\n3\n4\n5\n6\n7\n8\ny\n",
                &["@@ -1,4 +1,4 @@", "@@ -6,4 +6,4 @@"],
            ),
        ] {
            let diff = Diff::between(before, after);
            let headers: Vec<String> = diff.hunks().map(|hunk| hunk.header()).collect();
            assert_eq!(headers, expected, "{before:?} → {after:?}");
        }
    }

    /// Selecting only some of the changes does not let their context reach into the others.
    #[test]
    fn context_ends_where_another_change_begins() {
        let diff = Diff::between("1\n2\n3\n4\n5\n", "1\nx\n3\ny\n5\n");
        let hunks: Vec<DiffHunk<'_>> = diff.hunks_of(0..1).chain(diff.hunks_of(1..2)).collect();
        let headers: Vec<String> = hunks.iter().map(DiffHunk::header).collect();
        assert_eq!(headers, ["@@ -1,3 +1,3 @@", "@@ -3,3 +3,3 @@"]);
    }

    /// Applies the diff to the old text, and checks the texts and positions of its lines.
    fn apply_and_check(before: &str, diff: &Diff<'_>, marked: bool) -> String {
        let old = lines(before);
        let (mut text, mut at) = (String::new(), 0);
        for hunk in diff.hunks() {
            text.extend(old[at..hunk.before().start].iter().copied());
            at = hunk.before().end;
            let lines: Vec<DiffLine<'_>> =
                if marked { hunk.marked_lines().collect() } else { hunk.lines().collect() };
            for line in lines {
                match line.kind {
                    DiffLineKind::Kept { before, .. } | DiffLineKind::Removed { before } => {
                        assert_eq!(line.text, old[before - 1]);
                    }
                    DiffLineKind::Added { .. } => {}
                }
                if !matches!(line.kind, DiffLineKind::Removed { .. }) {
                    text.push_str(line.text);
                }
                for word in line.words {
                    assert!(line.text.get(word).is_some_and(|word| !word.is_empty()));
                }
            }
        }
        text.extend(old[at..].iter().copied());
        text
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]
        #[test]
        fn a_diff_applied_gives_the_new_text(
            before in "([abé _]{0,6}(\n|\r\n)){0,30}[ab]{0,2}",
            after in "([abé _]{0,6}(\n|\r\n)){0,30}[ab]{0,2}",
        ) {
            let diff = Diff::between(&before, &after);
            prop_assert_eq!(diff.is_empty(), before == after);
            prop_assert_eq!(apply_and_check(&before, &diff, false), after.clone());
            prop_assert_eq!(apply_and_check(&before, &diff, true), after);
        }
    }
}
