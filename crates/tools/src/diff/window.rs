//! The window of two texts that a diff compares: from a few lines before the first difference to a few lines after the last.
//!
//! Most edits touch a few lines of a file. Equal text around them is skipped as fast as memory can be compared, without splitting it
//! into lines.

use memchr::{memchr, memchr_iter, memrchr};

use super::CONTEXT;

/// Number of equal lines kept on either side: the context, the rest of a partly equal line, and one line that may belong to the
/// change or to its context.
const MARGIN: usize = CONTEXT + 2;

/// Parts of two texts that contain all their differences. Both start and end at line boundaries.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DiffWindow<'a> {
    pub(super) before: &'a str,
    pub(super) after: &'a str,
    /// Number of lines before the window, equal in both texts.
    pub(super) skipped: usize,
}

impl<'a> DiffWindow<'a> {
    /// Finds the window of two texts.
    pub(super) fn of(before: &'a str, after: &'a str) -> Self {
        let same =
            common_len(before.as_bytes(), after.as_bytes(), |text, at, len| text.get(at..at + len));
        let start = window_start(before.as_bytes(), same);
        let (old, new) = (rest(before, start), rest(after, start));
        // Bytes that are equal from the start are not counted from the end as well.
        let beyond = |text: &'a str| text.as_bytes().get(same..).unwrap_or_default();
        let end = skippable_tail_len(beyond(before), beyond(after));
        Self {
            before: old.get(..old.len() - end).unwrap_or(old),
            after: new.get(..new.len() - end).unwrap_or(new),
            skipped: memchr_iter(b'\n', before.as_bytes().get(..start).unwrap_or_default()).count(),
        }
    }
}

/// Returns the text from a byte on.
fn rest(text: &str, from: usize) -> &str {
    text.get(from..).unwrap_or(text)
}

/// Returns the start of the window: a few lines before the first difference.
fn window_start(before: &[u8], difference: usize) -> usize {
    let mut start = difference;
    // The line of the difference, and the lines before it.
    for _ in 0..MARGIN {
        match before.get(..start.saturating_sub(1)).and_then(|before| memrchr(b'\n', before)) {
            Some(end) => start = end + 1,
            None => return 0,
        }
    }
    start
}

/// Returns the number of equal bytes at the end that can be skipped; a few lines after the last difference stay.
fn skippable_tail_len(before: &[u8], after: &[u8]) -> usize {
    let same = common_len(before, after, |text, at, len| {
        let end = text.len().checked_sub(at)?;
        text.get(end.checked_sub(len)?..end)
    });
    let mut left = same;
    for _ in 0..MARGIN {
        let tail = before.get(before.len() - left..).unwrap_or_default();
        match memchr(b'\n', tail) {
            Some(end) => left -= end + 1,
            None => return 0,
        }
    }
    left
}

/// Returns the number of bytes that two texts share, counted from one end. `take` returns `len` bytes at a distance from that end.
fn common_len(
    before: &[u8],
    after: &[u8],
    take: impl for<'t> Fn(&'t [u8], usize, usize) -> Option<&'t [u8]>,
) -> usize {
    let shorter = before.len().min(after.len());
    let mut same = 0;
    for step in [4096, 64, 1] {
        while same + step <= shorter && take(before, same, step) == take(after, same, step) {
            same += step;
        }
    }
    same
}

#[cfg(test)]
mod tests {
    use super::super::Diff;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_far_from_a_change_is_skipped() {
        let lines = |from: u32, to: u32| {
            (from..to).map(|n| n.to_string() + "\n").collect::<Vec<_>>().concat()
        };
        let before = lines(0, 3000);
        let after = format!("{}new\n{}", lines(0, 1500), lines(1501, 3000));
        let window = DiffWindow::of(&before, &after);
        assert_eq!(window.skipped, 1495);
        assert_eq!(window.before, lines(1495, 1505));
        for (a, b) in [("", ""), ("a", "b"), ("a\n", "a\n"), ("", "a\nb\n"), ("ä\n", "ö\n")] {
            assert_eq!(DiffWindow::of(a, b), DiffWindow { before: a, after: b, skipped: 0 });
        }
    }

    proptest! {
        /// The diff is the same with and without a window.
        #[test]
        fn diff_is_the_same_with_a_window(
            head in proptest::collection::vec("[ab]{0,2}\n", 0..40),
            (old, new) in ("[abä\n]{0,30}", "[abä\n]{0,30}"),
            tail in proptest::collection::vec("[ab]{0,2}\n", 0..40),
            end in "[ab]{0,2}",
        ) {
            let text = |middle: &str| format!("{}{middle}{}{end}", head.concat(), tail.concat());
            let (before, after) = (text(&old), text(&new));
            let window = DiffWindow::of(&before, &after);
            let whole = Diff::between(&before, &after);
            let lines_in = Diff::between(window.before, window.after);
            let places = |diff: &Diff<'_>, skipped: usize| -> Vec<_> {
                diff.hunks()
                    .map(|hunk| {
                        let lines: Vec<String> = hunk.lines().map(|line| format!("{}{}", line.kind.sign(), line.text)).collect();
                        (hunk.before().start + skipped, hunk.after().start + skipped, lines)
                    })
                    .collect()
            };
            prop_assert_eq!(places(&whole, 0), places(&lines_in, window.skipped));
        }
    }
}
