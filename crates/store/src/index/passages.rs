//! Splits a document into passages, the units that a search returns.

/// A passage ends at the first empty line or heading after this many bytes.
const TARGET_BYTES: usize = 800;

/// The longest passage. A line that is longer becomes several.
const MAX_BYTES: usize = 2_000;

/// Splits a text into passages, each with the number of its first line, counted from 1.
pub(super) fn passages(text: &str) -> Vec<(u64, &str)> {
    let mut all = Vec::new();
    let (mut begin, mut line_of_begin) = (0, 1);
    let (mut at, mut number) = (0, 1);
    for line in text.split_inclusive('\n') {
        let length = at - begin;
        let can_split_here = line.trim().is_empty() || line.starts_with('#');
        if length + line.len() > MAX_BYTES || (length >= TARGET_BYTES && can_split_here) {
            push(&mut all, line_of_begin, text.get(begin..at));
            (begin, line_of_begin) = (at, number);
        }
        at += line.len();
        number += 1;
    }
    push(&mut all, line_of_begin, text.get(begin..));
    all
}

/// Adds a passage without its outer empty lines; a very long line becomes several passages.
fn push<'t>(all: &mut Vec<(u64, &'t str)>, line: u64, text: Option<&'t str>) {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return };
    let empty = text.split_inclusive('\n').take_while(|line| line.trim().is_empty());
    let (count, bytes) = empty.fold((0, 0), |(count, bytes), line| (count + 1, bytes + line.len()));
    let line = line + count;
    let mut rest = text.get(bytes..).unwrap_or_default().trim_end();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(MAX_BYTES));
        all.push((line, piece));
        rest = more;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_counted_and_long_ones_cut() {
        assert_eq!(passages(""), []);
        assert_eq!(passages("\n\n"), []);
        assert_eq!(passages("\n\na\nb\n"), [(3, "a\nb")]);
        let part = "word\n".repeat(200);
        let text = format!("{part}\n# Next\n{part}");
        let lines: Vec<u64> = passages(&text).iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 202]);
        let long = "\u{fc}".repeat(2_500);
        assert_eq!(
            passages(&long).iter().map(|(_, text)| text.len()).collect::<Vec<_>>(),
            [2_000, 2_000, 1_000]
        );
    }

    proptest! {
        #[test]
        fn every_word_is_in_a_passage_of_its_line(lines in prop::collection::vec("[a-z\u{fc} #]{0,60}", 0..200)) {
            let text = lines.join("\n");
            let found = passages(&text);
            let words = found.iter().flat_map(|(_, text)| text.split_whitespace());
            prop_assert!(words.eq(text.split_whitespace()));
            for (line, passage) in found {
                let first = lines[usize::try_from(line).unwrap() - 1].trim_end();
                prop_assert_eq!(passage.lines().next().unwrap_or_default().trim_end(), first);
            }
        }
    }
}
