//! The span in which two texts differ: from the first difference to the last.

use std::ops::Range;

use tree_sitter::{InputEdit, Point};

/// The span that a change replaced, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangedSpan {
    /// Start of the span in both texts.
    pub(super) start: usize,
    /// End of the span in the old text.
    pub(super) before_end: usize,
    /// End of the span in the new text.
    pub(super) after_end: usize,
}

impl ChangedSpan {
    /// Finds the span in which two texts differ.
    pub(super) fn between(before: &str, after: &str) -> Self {
        let (old, new) = (before.as_bytes(), after.as_bytes());
        let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let start = before.floor_char_boundary(same);
        let max_len = old.len().min(new.len()) - start;
        let same = old
            .iter()
            .rev()
            .zip(new.iter().rev())
            .take(max_len)
            .take_while(|(a, b)| a == b)
            .count();
        let before_end = before.ceil_char_boundary(old.len() - same);
        Self { start, before_end, after_end: new.len() - (old.len() - before_end) }
    }

    /// Maps a position behind the span in the old text to the new text.
    pub(super) fn shift(&self, at: usize) -> usize {
        at - self.before_end + self.after_end
    }

    /// Returns whether a position of the new text is in a changed line.
    pub(super) fn touches_new_line(&self, after: &str, at: usize) -> bool {
        line_around(after, self.start).start <= at && at <= line_around(after, self.after_end).end
    }

    /// Returns whether a position of the old text is in a changed line.
    pub(super) fn touches_old_line(&self, before: &str, at: usize) -> bool {
        line_around(before, self.start).start <= at
            && at <= line_around(before, self.before_end).end
    }

    /// Returns the edit that turns a tree of the new text back into one of the old text.
    pub(super) fn reverse_edit(&self, before: &str, after: &str) -> InputEdit {
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

/// Returns row and column of a byte, counted from 0, the column in bytes.
fn point(text: &str, at: usize) -> Point {
    let row = memchr::memchr_iter(b'\n', text.as_bytes().get(..at).unwrap_or_default()).count();
    Point { row, column: at - line_around(text, at).start }
}

/// Returns the range of the line that contains a byte, without its ending.
pub(super) fn line_around(text: &str, at: usize) -> Range<usize> {
    let at = text.floor_char_boundary(at);
    let (head, tail) = text.split_at(at);
    let start = memchr::memrchr(b'\n', head.as_bytes()).map_or(0, |end| end + 1);
    start..at + memchr::memchr(b'\n', tail.as_bytes()).unwrap_or(tail.len())
}

/// Returns line and column of a byte, counted from 1, the column in characters.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
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
    fn spans_of_differences() {
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
            let expected = ChangedSpan { start, before_end, after_end };
            assert_eq!(ChangedSpan::between(before, after), expected, "{before:?} → {after:?}");
        }
    }

    #[test]
    fn lines_and_columns() {
        let text = "a\r\nbéc\n";
        for (at, expected) in
            [(0, (1, 1)), (3, (2, 1)), (4, (2, 2)), (6, (2, 3)), (8, (3, 1)), (99, (3, 1))]
        {
            assert_eq!(line_and_column(text, at), expected, "{at}");
        }
    }

    proptest! {
        #[test]
        fn span_put_into_the_old_text_gives_the_new_text(before in "[aé日\n]{0,12}", after in "[aé日\n]{0,12}") {
            let it = ChangedSpan::between(&before, &after);
            let text = format!("{}{}{}", &before[..it.start], &after[it.start..it.after_end], &before[it.before_end..]);
            prop_assert_eq!(text, after);
        }
    }
}
