//! A line as it is shown: whole if it is short, otherwise the part around the match.

use std::borrow::Cow;

use crate::cut::Cutter;

/// How many characters of a line are shown.
const WIDTH: usize = 400;
/// How many of them stand before the match, where there are enough.
const BEFORE: usize = 100;
/// The longest a character can be, in bytes.
const LONGEST: usize = 4;

/// The line without its end, cut to [`WIDTH`] characters around the byte `at`; `…` stands for what was cut.
pub(super) fn excerpt(line: &[u8], at: impl FnOnce(&[u8]) -> usize, cutter: Cutter<'_>) -> String {
    let line = without_end(line);
    if line.len() <= WIDTH {
        return String::from_utf8_lossy(line).into_owned();
    }
    around(line, at(line).min(line.len()), cutter)
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn around(line: &[u8], at: usize, cutter: Cutter<'_>) -> String {
    // Some bytes too many, decoded, then cut by characters: a line can have a hundred million of them.
    const REACH: usize = WIDTH * LONGEST + Cutter::CONTEXT_BYTES;
    let from = boundary(line, at.saturating_sub(REACH));
    let to = boundary(line, line.len().min(at + REACH));
    let head = decode(line, from..at);
    let place = head.len();
    let (text, place) = cutter.around(head + decode(line, at..to), place);
    let (head, tail) = text.split_at(place);
    let (before, after) = (head.chars().count(), tail.chars().count());
    let tail_width = after.min(WIDTH - before.min(BEFORE));
    let head_width = before.min(WIDTH - tail_width);
    let mut text = String::with_capacity(WIDTH * 2);
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

fn decode(line: &[u8], range: std::ops::Range<usize>) -> Cow<'_, str> {
    String::from_utf8_lossy(line.get(range).unwrap_or_default())
}

/// The next place that is not in the middle of a character.
fn boundary(line: &[u8], at: usize) -> usize {
    let rest = line.get(at..).unwrap_or_default();
    let inside = rest.iter().take(LONGEST - 1).take_while(|byte| **byte & 0xc0 == 0x80).count();
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
        fn never_too_long_and_never_torn(text in "[aä€𝄞]{0,900}", at in 0usize..4_000) {
            let shown = excerpt(text.as_bytes(), |_| at, Cutter::PLAIN);
            prop_assert!(shown.chars().count() <= WIDTH + 2);
            let at_boundary = text.is_char_boundary(at.min(text.len()));
            prop_assert!(!at_boundary || !shown.contains(char::REPLACEMENT_CHARACTER));
        }

        #[test]
        fn any_bytes_will_do(line in proptest::collection::vec(any::<u8>(), 0..3000), at in 0usize..3100) {
            prop_assert!(excerpt(&line, |_| at, Cutter::PLAIN).chars().count() <= WIDTH + 2);
        }
    }
}
