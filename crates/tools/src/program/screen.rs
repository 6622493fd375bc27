//! The screen of a program with a terminal, as a person would see it.
//!
//! The terminal is emulated afterwards from the last part of the output. Full-screen programs draw their whole screen again and again, so
//! nothing older is missed. Lines that scrolled off the top come before the screen.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use vt100::{Parser, Screen};
use windlass_core::{TerminalSize, plain};

/// Bytes at the end of the output that are emulated.
pub(super) const MAX_DRAWN_BYTES: u64 = 256 << 10;
/// Limit of lines above the screen.
const MAX_SCROLLBACK_LINES: usize = 2_000;

/// Returns the lines on the screen and those that scrolled off it while `new` was printed.
pub(super) fn lines(before: &[u8], new: &[u8], size: TerminalSize) -> Vec<String> {
    // The emulator may panic, because programs print arbitrary bytes.
    let drawn = catch_unwind(AssertUnwindSafe(|| emulate(before, new, size)));
    drawn.unwrap_or_else(|_| plain(new).lines().map(str::to_owned).collect())
}

/// Emulates a terminal and returns its lines, without blank ones at both ends.
fn emulate(before: &[u8], new: &[u8], size: TerminalSize) -> Vec<String> {
    let at_least_one = |count| NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN);
    let mut parser =
        Parser::new(at_least_one(size.rows), at_least_one(size.columns), MAX_SCROLLBACK_LINES);
    parser.process(before);
    let seen = parser.screen().scrollback_len();
    parser.process(new);
    // A full scrollback has dropped its oldest lines, so all of the others may be new.
    let screen = parser.screen_mut();
    let seen = if screen.scrollback_len() == MAX_SCROLLBACK_LINES { 0 } else { seen };
    let mut lines = lines_from(screen, seen);
    let used = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
    lines.truncate(used);
    let blank = lines.iter().position(|line| !line.is_empty()).unwrap_or(0);
    lines.split_off(blank)
}

/// Returns every line from a row on, counted from the oldest in the scrollback. Wrapped lines are joined.
fn lines_from(screen: &mut Screen, mut next: usize) -> Vec<String> {
    let (rows, columns) = screen.size();
    let (rows, above) = (usize::from(rows.get()), screen.scrollback_len());
    let mut lines: Vec<String> = Vec::new();
    let mut is_continued = false;
    while next < above + rows {
        let offset = above.saturating_sub(next);
        screen.set_scrollback(offset);
        let top = above - offset;
        for (at, row) in (0u16..).zip(screen.rows(0, columns.get())).skip(next - top) {
            match lines.last_mut().filter(|_| is_continued) {
                Some(line) => line.push_str(&row),
                None => lines.push(row),
            }
            is_continued = screen.row_wrapped(at);
        }
        next = top + rows;
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: TerminalSize = TerminalSize { columns: 10, rows: 4 };

    #[test]
    fn screen_shows_the_final_lines() {
        for (printed, expected) in [
            ("", &[][..]),
            ("one\r\ntwo\r\n", &["one", "two"]),
            ("10 %\r50 %\r100 %\r\n", &["100 %"]),
            ("abc\x1b[2Dx\r\n", &["axc"]),
            ("a\r\nb\r\n\x1b[H\x1b[2Jnew", &["new"]),
            ("1\r\n2\r\n3\r\n4\r\n5\r\n6", &["1", "2", "3", "4", "5", "6"]),
            ("0123456789abc\r\nx", &["0123456789abc", "x"]),
            ("shell\r\n\x1b[?1049h\x1b[Hmenu\x1b[4;1Hlast", &["menu", "", "", "last"]),
            ("shell\r\n\x1b[?1049hmenu\x1b[?1049l", &["shell"]),
            ("\x1b[31mred\x1b[0m caf\u{e9}", &["red caf\u{e9}"]),
        ] {
            assert_eq!(lines(b"", printed.as_bytes(), SIZE), expected, "{printed:?}");
        }
    }

    #[test]
    fn old_scrollback_is_not_repeated() {
        let before = b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n";
        assert_eq!(lines(before, b"7\r\n8\r\n", SIZE), ["4", "5", "6", "7", "8"]);
    }

    #[test]
    fn long_output_scrolls_completely() {
        let expected: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
        let printed = expected.join("\r\n") + "\r\n";
        assert_eq!(lines(b"", printed.as_bytes(), SIZE), expected);
        let many = lines(b"", printed.repeat(10).as_bytes(), SIZE);
        assert_eq!(many.len(), MAX_SCROLLBACK_LINES + 3);
        assert_eq!(many.last().map(String::as_str), Some("999"));
    }

    fn terminal_output() -> impl Strategy<Value = Vec<u8>> {
        let pieces = prop_oneof![
            "\u{1b}\\[[0-9;?]{0,6}[@-~]".prop_map(String::into_bytes),
            "\u{1b}[@-_]".prop_map(String::into_bytes),
            "[\u{300}\u{4e2d}\u{1f600}a-z ]{0,12}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..6),
            Just(b"\r\n".to_vec()),
        ];
        prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_can_be_drawn(before in terminal_output(), new in terminal_output(), columns in 0u16..12, rows in 0u16..6) {
            let lines = emulate(&before, &new, TerminalSize { columns, rows });
            prop_assert!(lines.iter().all(|line| !line.contains('\n') && line.trim_end() == line));
        }
    }
}
