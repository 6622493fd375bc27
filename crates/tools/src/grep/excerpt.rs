//! A line of the output: the whole line if it is short, otherwise the part around the match.

use std::borrow::Cow;

use crate::cut::Cutter;

/// Number of shown characters of a line.
const MAX_CHARACTERS: usize = 400;
/// Number of them before the match, if there are as many.
const CHARACTERS_BEFORE_MATCH: usize = 100;
/// Largest length of a UTF-8 character in bytes.
const MAX_CHARACTER_BYTES: usize = 4;

/// Returns the line without its ending, cut to [`MAX_CHARACTERS`] characters around the byte `at`, with `…` in place of the rest.
pub(super) fn excerpt(line: &[u8], at: impl FnOnce(&[u8]) -> usize, cutter: Cutter<'_>) -> String {
    let line = without_line_ending(line);
    if line.len() <= MAX_CHARACTERS {
        return String::from_utf8_lossy(line).into_owned();
    }
    excerpt_around(line, at(line).min(line.len()), cutter)
}

/// Returns the line without its line feed and carriage return.
fn without_line_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the part of a long line around the byte `at`.
fn excerpt_around(line: &[u8], at: usize, cutter: Cutter<'_>) -> String {
    // Decodes more bytes than needed, then cuts by characters, because a line can have a hundred million of them.
    const BYTES_AROUND: usize = MAX_CHARACTERS * MAX_CHARACTER_BYTES + Cutter::CONTEXT_BYTES;
    let from = next_character_boundary(line, at.saturating_sub(BYTES_AROUND));
    let to = next_character_boundary(line, line.len().min(at + BYTES_AROUND));
    let head = decode_range(line, from..at);
    let place = head.len();
    let (text, place) = cutter.around(head + decode_range(line, at..to), place);
    let (head, tail) = text.split_at(place);
    let (before, after) = (head.chars().count(), tail.chars().count());
    let tail_width = after.min(MAX_CHARACTERS - before.min(CHARACTERS_BEFORE_MATCH));
    let head_width = before.min(MAX_CHARACTERS - tail_width);
    let mut text = String::with_capacity(MAX_CHARACTERS * 2);
    if from > 0 || head_width < before {
        text.push('…');
    }
    text.extend(head.chars().skip(before - head_width));
    text.extend(tail.chars().take(tail_width));
    if to < line.len() || tail_width < after {
        text.push('…');
    }
    text
}

/// Decodes a range of bytes; invalid bytes become U+FFFD.
fn decode_range(line: &[u8], range: std::ops::Range<usize>) -> Cow<'_, str> {
    String::from_utf8_lossy(line.get(range).unwrap_or_default())
}

/// Returns the next position that is not inside a character.
fn next_character_boundary(line: &[u8], at: usize) -> usize {
    let rest = line.get(at..).unwrap_or_default();
    let inside =
        rest.iter().take(MAX_CHARACTER_BYTES - 1).take_while(|byte| **byte & 0xc0 == 0x80).count();
    at + inside
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(line: &str, at: usize, expected: &str) {
        assert_eq!(excerpt(line.as_bytes(), |_| at, Cutter::PLAIN), expected);
    }

    #[test]
    fn short_lines_are_whole() {
        for (line, expected) in [
            ("", ""),
            ("\n", ""),
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a\r", "a"),
            ("a\n\n", "a\n"),
            ("\tä ", "\tä "),
        ] {
            check(line, 0, expected);
        }
        check(&"ä".repeat(400), 0, &"ä".repeat(400));
        assert_eq!(excerpt(b"caf\xe9\n", |_| 0, Cutter::PLAIN), "caf\u{fffd}");
    }

    #[test]
    fn long_lines_are_cut_around_the_match() {
        let long = |before: usize, after: usize| {
            (format!("{}MATCH{}", "ä".repeat(before), "ö".repeat(after)), before * 2)
        };
        for (before, after, cut_before, cut_after) in [
            (0, 1000, 0, 395),
            (50, 1000, 50, 345),
            (1000, 1000, 100, 295),
            (1000, 0, 395, 0),
            (1000, 20, 375, 20),
            (300, 95, 300, 95),
        ] {
            let (line, at) = long(before, after);
            let expected = format!(
                "{}{}MATCH{}{}",
                if cut_before < before { "…" } else { "" },
                "ä".repeat(cut_before),
                "ö".repeat(cut_after),
                if cut_after < after { "…" } else { "" },
            );
            check(&line, at, &expected);
        }
    }

    proptest! {
        #[test]
        fn excerpt_is_short_and_splits_no_character(text in "[aä€𝄞]{0,900}", at in 0usize..4_000) {
            let shown = excerpt(text.as_bytes(), |_| at, Cutter::PLAIN);
            prop_assert!(shown.chars().count() <= MAX_CHARACTERS + 2);
            let at_boundary = text.is_char_boundary(at.min(text.len()));
            prop_assert!(!at_boundary || !shown.contains(char::REPLACEMENT_CHARACTER));
        }

        #[test]
        fn any_bytes_are_accepted(line in proptest::collection::vec(any::<u8>(), 0..3000), at in 0usize..3100) {
            prop_assert!(excerpt(&line, |_| at, Cutter::PLAIN).chars().count() <= MAX_CHARACTERS + 2);
        }
    }
}
