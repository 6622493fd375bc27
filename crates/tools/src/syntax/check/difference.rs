//! The one stretch in which two texts differ: from the first difference to the last.

use std::ops::Range;

use tree_sitter::{InputEdit, Point};

/// What became of what, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Difference {
    /// Where it begins in both texts.
    pub(super) start: usize,
    /// Where it ends in the old text.
    pub(super) before_end: usize,
    /// Where it ends in the new text.
    pub(super) after_end: usize,
}

impl Difference {
    pub(super) fn between(before: &str, after: &str) -> Self {
        let (old, new) = (before.as_bytes(), after.as_bytes());
        let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let start = before.floor_char_boundary(same);
        let most = old.len().min(new.len()) - start;
        let same =
            old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
        let before_end = before.ceil_char_boundary(old.len() - same);
        Self { start, before_end, after_end: new.len() - (old.len() - before_end) }
    }

    /// Where a byte of the old text behind the difference is in the new one.
    pub(super) fn shift(&self, at: usize) -> usize {
        at - self.before_end + self.after_end
    }

    /// Whether something in the new text begins in a line that is not as it was.
    pub(super) fn touches(&self, after: &str, at: usize) -> bool {
        line_around(after, self.start).start <= at && at <= line_around(after, self.after_end).end
    }

    /// The same for the old text.
    pub(super) fn touched(&self, before: &str, at: usize) -> bool {
        line_around(before, self.start).start <= at
            && at <= line_around(before, self.before_end).end
    }

    /// The way back, from the new text to the old one, for a tree of the new one.
    pub(super) fn undone(&self, before: &str, after: &str) -> InputEdit {
        InputEdit {
            start_byte: self.start,
            old_end_byte: self.after_end,
            new_end_byte: self.before_end,
            start_position: point(after, self.start),
            old_end_position: point(after, self.after_end),
            new_end_position: point(before, self.before_end),
        }
    }
}

fn point(text: &str, at: usize) -> Point {
    let row = memchr::memchr_iter(b'\n', text.as_bytes().get(..at).unwrap_or_default()).count();
    Point { row, column: at - line_around(text, at).start }
}

/// The line at a byte, without its end.
pub(super) fn line_around(text: &str, at: usize) -> Range<usize> {
    let at = text.floor_char_boundary(at);
    let (head, tail) = text.split_at(at);
    let start = memchr::memrchr(b'\n', head.as_bytes()).map_or(0, |end| end + 1);
    start..at + memchr::memchr(b'\n', tail.as_bytes()).unwrap_or(tail.len())
}

/// Line and column of a byte as people count them, the column in characters.
pub(super) fn place(text: &str, at: usize) -> (usize, usize) {
    let at = text.floor_char_boundary(at);
    let before = text.get(..at).unwrap_or_default();
    let line = memchr::memchr_iter(b'\n', before.as_bytes()).count() + 1;
    let start = memchr::memrchr(b'\n', before.as_bytes()).map_or(0, |end| end + 1);
    (line, before.get(start..).unwrap_or_default().chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn differences() {
        for (before, after, start, before_end, after_end) in [
            ("", "", 0, 0, 0),
            ("", "ab", 0, 0, 2),
            ("ab", "", 0, 2, 0),
            ("abc", "axc", 1, 2, 2),
            ("aa", "aaa", 2, 2, 3),
            ("aaa", "aa", 2, 3, 2),
            // `é` and `è` begin with the same byte, `é` and `ĩ` end with the same byte.
            ("xéy", "xèy", 1, 3, 3),
            ("xéy", "xĩy", 1, 3, 3),
        ] {
            let expected = Difference { start, before_end, after_end };
            assert_eq!(Difference::between(before, after), expected, "{before:?} → {after:?}");
        }
    }

    #[test]
    fn places() {
        let text = "a\r\nbéc\n";
        for (at, expected) in
            [(0, (1, 1)), (3, (2, 1)), (4, (2, 2)), (6, (2, 3)), (8, (3, 1)), (99, (3, 1))]
        {
            assert_eq!(place(text, at), expected, "{at}");
        }
    }

    proptest! {
        #[test]
        fn a_difference_put_in_gives_the_new_text(before in "[aé日\n]{0,12}", after in "[aé日\n]{0,12}") {
            let it = Difference::between(&before, &after);
            let text = format!("{}{}{}", &before[..it.start], &after[it.start..it.after_end], &before[it.before_end..]);
            prop_assert_eq!(text, after);
        }
    }
}
