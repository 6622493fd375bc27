//! The merge of two changes of one text, line by line.
//!
//! Two changes are independent if at least one unchanged line is between them, as in git. Where they meet, their order is unknown,
//! so that is a conflict, unless both sides did the same.

use std::ops::Range;

use super::{ChangedBlock, Diff, lines_in};

/// The result of merging two changes of one text.
///
/// ```
/// use windlass_tools::diff::{MergeResult, merge};
///
/// assert_eq!(merge("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n").text.as_deref(), Some("A\nb\nC\n"));
/// let MergeResult { text, conflicts } = merge("a\n", "b\n", "c\n");
/// assert_eq!((text, conflicts), (None, 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeResult {
    /// Text with both changes; `None` if there are conflicts.
    pub text: Option<String>,
    /// Number of regions that both sides changed differently.
    pub conflicts: usize,
}

/// Merges two changes of one text, if they are in different places or the same.
///
/// ```
/// use windlass_tools::diff::merge;
///
/// let base = "one\ntwo\nthree\n";
/// let (theirs, ours) = ("one\ntwo\nthree\nfour\n", "1\ntwo\nthree\n");
/// assert_eq!(merge(base, theirs, ours).text.unwrap(), "1\ntwo\nthree\nfour\n");
/// assert_eq!(merge(base, base, ours).text.unwrap(), ours);
/// ```
pub fn merge(base: &str, theirs: &str, ours: &str) -> MergeResult {
    let (theirs, ours) = (Diff::between(base, theirs), Diff::between(base, ours));
    let regions = regions(&theirs, &ours);
    let conflicts = count_conflicts(&regions);
    MergeResult { text: (conflicts == 0).then(|| merged_text(&theirs, &ours, &regions)), conflicts }
}

/// A range of lines that at least one side changed.
///
/// ```
/// use windlass_tools::diff::{ThreeWayNames, MergeRegionKind, three_way};
///
/// let conflict = three_way("a\nb\nc\n", "a\nb\nC\nd\n", "A\nb\nc\n", ThreeWayNames::default());
/// let [ours, theirs] = conflict.regions() else { panic!("two regions") };
/// assert_eq!((ours.kind, ours.base.clone()), (MergeRegionKind::Ours, 0..1));
/// assert_eq!((theirs.kind, theirs.theirs.clone()), (MergeRegionKind::Theirs, 2..4));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRegion {
    /// The side that changed the lines.
    pub kind: MergeRegionKind,
    /// Lines in the base, counted from 0.
    pub base: Range<usize>,
    /// The same lines in their text.
    pub theirs: Range<usize>,
    /// The same lines in our text.
    pub ours: Range<usize>,
    /// Blocks of their diff that are in this region.
    pub(super) their_blocks: Range<usize>,
    /// Blocks of our diff that are in this region.
    pub(super) our_blocks: Range<usize>,
}

/// The side that changed the lines of a region.
///
/// ```
/// use windlass_tools::diff::{ThreeWayNames, MergeRegionKind, three_way};
///
/// for (theirs, ours, kind) in [
///     ("b\n", "a\n", MergeRegionKind::Theirs),
///     ("a\n", "b\n", MergeRegionKind::Ours),
///     ("b\n", "b\n", MergeRegionKind::Same),
///     ("b\n", "c\n", MergeRegionKind::Conflict),
/// ] {
///     assert_eq!(three_way("a\n", theirs, ours, ThreeWayNames::default()).regions()[0].kind, kind);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeRegionKind {
    /// Only their side changed.
    Theirs,
    /// Only our side changed.
    Ours,
    /// Both sides made the same change.
    Same,
    /// Both sides made different changes.
    Conflict,
}

/// Returns the number of regions in conflict.
pub(super) fn count_conflicts(regions: &[MergeRegion]) -> usize {
    regions.iter().filter(|region| region.kind == MergeRegionKind::Conflict).count()
}

/// Returns the regions that either side changed, in order. Both diffs must have the same base.
pub(super) fn regions(theirs: &Diff<'_>, ours: &Diff<'_>) -> Vec<MergeRegion> {
    let (mut their_next, mut our_next) = (0, 0);
    std::iter::from_fn(|| {
        let starts = [theirs.blocks.get(their_next), ours.blocks.get(our_next)];
        let start = starts.into_iter().flatten().map(|block| block.before.start).min()?;
        let (their_first, our_first) = (their_next, our_next);
        let mut end = start;
        // A block of one side may reach the next block of the other side, and so on.
        while absorb_block(&theirs.blocks, &mut their_next, &mut end)
            || absorb_block(&ours.blocks, &mut our_next, &mut end)
        {}
        Some(region_of(theirs, ours, start..end, their_first..their_next, our_first..our_next))
    })
    .collect()
}

/// Takes the next block into the region if it starts at or before `end`, and moves `end` behind it. Returns false if it starts later.
fn absorb_block(blocks: &[ChangedBlock], next: &mut usize, end: &mut usize) -> bool {
    match blocks.get(*next) {
        Some(block) if block.before.start <= *end => {
            *next += 1;
            *end = block.before.end.max(*end);
            true
        }
        _ => false,
    }
}

/// Makes the region of these base lines and blocks, and finds out which side changed it.
fn region_of(
    theirs: &Diff<'_>,
    ours: &Diff<'_>,
    base: Range<usize>,
    their_blocks: Range<usize>,
    our_blocks: Range<usize>,
) -> MergeRegion {
    let their_lines = lines_in_new_text(&theirs.blocks, &their_blocks, &base);
    let our_lines = lines_in_new_text(&ours.blocks, &our_blocks, &base);
    let kind = match (their_blocks.is_empty(), our_blocks.is_empty()) {
        (_, true) => MergeRegionKind::Theirs,
        (true, _) => MergeRegionKind::Ours,
        _ if lines_in(&theirs.after, &their_lines) == lines_in(&ours.after, &our_lines) => {
            MergeRegionKind::Same
        }
        _ => MergeRegionKind::Conflict,
    };
    MergeRegion { kind, base, theirs: their_lines, ours: our_lines, their_blocks, our_blocks }
}

/// Maps lines of the base to lines of the new text; `within` are the blocks inside these lines.
fn lines_in_new_text(
    blocks: &[ChangedBlock],
    within: &Range<usize>,
    base: &Range<usize>,
) -> Range<usize> {
    let after = |blocks: Option<&[ChangedBlock]>, line: usize| match blocks
        .and_then(<[ChangedBlock]>::last)
    {
        Some(block) => block.after.end + (line - block.before.end),
        None => line,
    };
    after(blocks.get(..within.start), base.start)..after(blocks.get(..within.end), base.end)
}

/// Returns the text with the changes of both sides; of a conflict, theirs.
pub(super) fn merged_text(theirs: &Diff<'_>, ours: &Diff<'_>, regions: &[MergeRegion]) -> String {
    let mut lines: Vec<&str> = Vec::with_capacity(theirs.after.len() + ours.added());
    let mut at = 0;
    for region in regions {
        lines.extend(lines_in(&theirs.before, &(at..region.base.start)));
        lines.extend(match region.kind {
            MergeRegionKind::Ours => lines_in(&ours.after, &region.ours),
            _ => lines_in(&theirs.after, &region.theirs),
        });
        at = region.base.end;
    }
    lines.extend(lines_in(&theirs.before, &(at..theirs.before.len())));
    lines.concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Merges in both directions; expects the merged text or the number of conflicts.
    fn check(base: &str, theirs: &str, ours: &str, expected: Result<&str, usize>) {
        let expected = MergeResult {
            text: expected.ok().map(str::to_owned),
            conflicts: expected.err().unwrap_or_default(),
        };
        assert_eq!(merge(base, theirs, ours), expected, "{base:?}: {theirs:?}, {ours:?}");
        assert_eq!(merge(base, ours, theirs), expected, "{base:?}: {ours:?}, {theirs:?}");
    }

    #[test]
    fn independent_changes_are_merged() {
        check("", "", "", Ok(""));
        check("a\n", "a\n", "b\n", Ok("b\n"));
        check("a\nb\nc\n", "x\nb\nc\n", "a\nb\ny\n", Ok("x\nb\ny\n"));
        check("a\nb\nc\n", "new\na\nb\nc\n", "a\nb\nc\nmore\n", Ok("new\na\nb\nc\nmore\n"));
        check("a\nb\nc\n", "b\nc\n", "a\nb\n", Ok("b\n"));
        check("a\nb\nc\n", "", "a\nb\nc\n", Ok(""));
        // The same in both, once.
        check("a\nb\nc\n", "a\nx\nc\n", "a\nx\nc\n", Ok("a\nx\nc\n"));
        check("a\nb\nc\n", "a\nx\nc\n", "a\nx\nc\nd\n", Ok("a\nx\nc\nd\n"));
        // Without a final line feed.
        check("a\nb\nc", "x\nb\nc", "a\nb\nc\n", Ok("x\nb\nc\n"));
        check("a\nb\nc\n", "a\nb\nc", "a\nb\nc\nd\n", Err(1));
        check("a\r\nb\r\nc\r\n", "x\r\nb\r\nc\r\n", "a\r\nb\r\n", Ok("x\r\nb\r\n"));
    }

    #[test]
    fn touching_changes_are_conflicts() {
        check("a\n", "b\n", "c\n", Err(1));
        check("", "b\n", "c\n", Err(1));
        // Changes of neighbouring lines, and two insertions at one place: their order is unknown.
        check("a\nb\n", "x\nb\n", "a\ny\n", Err(1));
        check("a\nb\n", "a\nx\nb\n", "a\ny\nb\n", Err(1));
        check("a\nb\nc\n", "a\nx\nb\nc\n", "a\ny\nc\n", Err(1));
        // One long change of ours over two of theirs is one conflict; two apart are two.
        check("1\n2\n3\n4\n5\n", "1\nx\n3\ny\n5\n", "1\nz\n5\n", Err(1));
        check("1\n2\n3\n4\n5\n", "x\n2\n3\n4\ny\n", "z\n2\n3\n4\nw\n", Err(2));
        // One side deleted the line that the other changed.
        check("a\nb\nc\n", "", "a\nx\nc\n", Err(1));
    }

    /// Texts of a few lines that are often equal.
    fn text() -> impl Strategy<Value = String> {
        "([abc]\n){0,12}[ab]?"
    }

    /// For each line of a base, in turn: the side that changes it (0 none, 1 theirs, 2 ours), and the number of its new lines.
    fn changes() -> impl Strategy<Value = Vec<(u8, usize)>> {
        proptest::collection::vec((0u8..3, 0usize..3), 1..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn unchanged_side_adds_nothing(base in text(), changed in text()) {
            let expected = MergeResult { text: Some(changed.clone()), conflicts: 0 };
            prop_assert_eq!(merge(&base, &base, &changed), expected.clone());
            prop_assert_eq!(merge(&base, &changed, &base), expected.clone());
            prop_assert_eq!(merge(&base, &changed, &changed), expected);
        }

        #[test]
        fn merge_is_the_same_with_sides_exchanged(base in text(), theirs in text(), ours in text()) {
            prop_assert_eq!(merge(&base, &theirs, &ours), merge(&base, &ours, &theirs));
        }

        /// Every line of the base is different, so that each change can be read in one way only.
        #[test]
        fn independent_changes_are_both_made(changes in changes()) {
            let (mut base, mut theirs, mut ours, mut both) =
                (String::new(), String::new(), String::new(), String::new());
            for (at, (who, count)) in changes.iter().enumerate() {
                let old = format!("line {at}\nkept {at}\n");
                let new = format!("{}kept {at}\n", format!("new {at}\n").repeat(*count));
                base += &old;
                theirs += if *who == 1 { &new } else { &old };
                ours += if *who == 2 { &new } else { &old };
                both += if *who == 0 { &old } else { &new };
            }
            prop_assert_eq!(merge(&base, &theirs, &ours), MergeResult { text: Some(both), conflicts: 0 });
        }

        /// The regions cover all that either side changed, in order, and each side's text is the base with its regions replaced.
        #[test]
        fn regions_cover_all_changes(base in text(), theirs in text(), ours in text()) {
            let (their_diff, our_diff) = (Diff::between(&base, &theirs), Diff::between(&base, &ours));
            let regions = regions(&their_diff, &our_diff);
            let lines = super::super::lines(&base);
            let rebuilt = |diff: &Diff<'_>, side: fn(&MergeRegion) -> &Range<usize>| {
                let (mut text, mut at) = (String::new(), 0);
                for region in &regions {
                    text.extend(lines[at..region.base.start].iter().copied());
                    text.extend(diff.after[side(region).clone()].iter().copied());
                    at = region.base.end;
                }
                text.extend(lines[at..].iter().copied());
                text
            };
            prop_assert_eq!(rebuilt(&their_diff, |region| &region.theirs), theirs);
            prop_assert_eq!(rebuilt(&our_diff, |region| &region.ours), ours);
            let apart = regions.windows(2).all(|two| two[0].base.end < two[1].base.start);
            prop_assert!(apart);
        }
    }
}
