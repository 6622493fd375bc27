//! What changed between two texts, as a unified diff of bounded size.
//!
//! Only the part between the first and the last difference is compared: an edit of one line in a large file costs little. A
//! carriage return is shown only where the line endings are what changed.

use std::fmt::Write as _;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// How many unchanged lines stand around a change.
const CONTEXT: usize = 3;
/// How many bytes of a diff are shown.
const MAX_BYTES: usize = 16_000;
/// How many characters of one line are shown.
const MAX_CHARACTERS: usize = 400;
/// How many lines are compared; above it, the whole middle counts as replaced.
const MAX_LINES: usize = 400_000;

/// A diff, ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Hunks as in `diff -u`, without a header; the last line says what was left out, if anything.
    pub(crate) text: String,
    /// How many lines are new.
    pub(crate) added: usize,
    /// How many lines are gone.
    pub(crate) removed: usize,
}

/// The difference between two texts.
pub(crate) fn unified(before: &str, after: &str) -> Changes {
    let (before, after) = (lines(before), lines(after));
    let blocks = compare(&before, &after);
    let show_returns = blocks.iter().any(|block| {
        let kinds = |lines: &[&str], range: &Range<usize>| {
            endings(lines.get(range.clone()).unwrap_or_default())
        };
        let (old, new) = (kinds(&before, &block.before), kinds(&after, &block.after));
        old != new && old != Endings::default() && new != Endings::default()
    });
    let sides = Sides { before: &before, after: &after, show_returns };
    let mut changes = Changes {
        text: String::new(),
        added: blocks.iter().map(|block| block.after.len()).sum(),
        removed: blocks.iter().map(|block| block.before.len()).sum(),
    };
    sides.push_hunks(&mut changes.text, &blocks);
    changes
}

/// Lines that were replaced by others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    before: Range<usize>,
    after: Range<usize>,
}

/// Lines with their ends.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Which line endings occur.
#[derive(Debug, Default, PartialEq, Eq)]
struct Endings {
    crlf: bool,
    lf: bool,
}

fn endings(lines: &[&str]) -> Endings {
    let crlf = lines.iter().any(|line| line.ends_with("\r\n"));
    let lf = lines.iter().any(|line| line.ends_with('\n') && !line.ends_with("\r\n"));
    Endings { crlf, lf }
}

/// The blocks that differ, in order.
fn compare(before: &[&str], after: &[&str]) -> Vec<Block> {
    let start = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (old, new) =
        (before.get(start..).unwrap_or_default(), after.get(start..).unwrap_or_default());
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_end, new_end) = (before.len() - end, after.len() - end);
    let (old, new) = (
        before.get(start..old_end).unwrap_or_default(),
        after.get(start..new_end).unwrap_or_default(),
    );
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    if old.is_empty() || new.is_empty() || old.len() + new.len() > MAX_LINES {
        return vec![Block { before: start..old_end, after: start..new_end }];
    }
    compare_middle(old, new, start)
}

fn compare_middle(old: &[&str], new: &[&str], start: usize) -> Vec<Block> {
    let mut input = InternedInput::default();
    input.update_before(old.iter().copied());
    input.update_after(new.iter().copied());
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let shifted = |range: Range<u32>| start + range.start as usize..start + range.end as usize;
    diff.hunks()
        .map(|hunk| Block { before: shifted(hunk.before), after: shifted(hunk.after) })
        .collect()
}

struct Sides<'a> {
    before: &'a [&'a str],
    after: &'a [&'a str],
    show_returns: bool,
}

impl Sides<'_> {
    fn push_hunks(&self, text: &mut String, blocks: &[Block]) {
        let mut left = blocks;
        while let Some(count) = hunk_len(left) {
            let (hunk, rest) = left.split_at(count);
            let start = text.len();
            self.push_hunk(text, hunk);
            if text.len() > MAX_BYTES {
                text.truncate(line_end(text, start.max(MAX_BYTES)));
                push_line(
                    text,
                    format_args!("[the diff is cut here; {} more places changed]", rest.len()),
                );
                return;
            }
            left = rest;
        }
    }

    /// Blocks near each other, with the lines around and between them.
    fn push_hunk(&self, text: &mut String, hunk: &[Block]) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return };
        let lead = first.before.start.min(CONTEXT);
        let trail = (self.before.len() - last.before.end).min(CONTEXT);
        let before = first.before.start - lead..last.before.end + trail;
        let after = first.after.start - lead..last.after.end + trail;
        push_line(text, format_args!("@@ -{} +{} @@", place(&before), place(&after)));
        let mut at = before.start;
        for block in hunk {
            self.push_lines(text, ' ', self.before, at..block.before.start);
            self.push_lines(text, '-', self.before, block.before.clone());
            self.push_lines(text, '+', self.after, block.after.clone());
            at = block.before.end;
        }
        self.push_lines(text, ' ', self.before, at..before.end);
    }

    fn push_lines(&self, text: &mut String, sign: char, lines: &[&str], range: Range<usize>) {
        for line in lines.get(range).unwrap_or_default() {
            if text.len() > 2 * MAX_BYTES {
                return;
            }
            self.push(text, sign, line);
        }
    }

    fn push(&self, text: &mut String, sign: char, line: &str) {
        let (line, closed) = match line.strip_suffix('\n') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let (line, returned) = match line.strip_suffix('\r') {
            Some(line) if closed => (line, true),
            _ => (line, false),
        };
        text.push(sign);
        match line.char_indices().nth(MAX_CHARACTERS) {
            Some((end, _)) => {
                text.push_str(line.get(..end).unwrap_or_default());
                text.push_str("… [cut]");
            }
            None => text.push_str(line),
        }
        if returned && self.show_returns {
            text.push('␍');
        }
        text.push('\n');
        if !closed {
            text.push_str("\\ No newline at end of file\n");
        }
    }
}

/// How many of the blocks are so near each other that they share a hunk; `None` if there are none.
fn hunk_len(blocks: &[Block]) -> Option<usize> {
    let near = |pair: &[Block]| match pair {
        [a, b] => b.before.start - a.before.end <= 2 * CONTEXT,
        _ => false,
    };
    (!blocks.is_empty()).then(|| 1 + blocks.windows(2).take_while(|pair| near(pair)).count())
}

/// The last end of a line at or before `at`.
fn line_end(text: &str, at: usize) -> usize {
    memchr::memrchr(b'\n', text.as_bytes().get(..at).unwrap_or_default()).map_or(0, |at| at + 1)
}

/// A range as `diff -u` writes it: `START,COUNT`, the count left out if it is 1.
fn place(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        len => format!("{},{len}", range.start + 1),
    }
}

fn push_line(text: &mut String, words: std::fmt::Arguments<'_>) {
    let written = writeln!(text, "{words}");
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(before: &str, after: &str, expected: &str) {
        assert_eq!(unified(before, after).text, expected, "{before:?} → {after:?}");
    }

    #[test]
    fn hunks() {
        check("", "", "");
        check("a\n", "a\n", "");
        check("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n");
        check("a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n");
        check("a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
        check("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
        let numbers = |changed: &[usize]| -> String {
            (1..=20)
                .map(|n| if changed.contains(&n) { "x\n".into() } else { format!("{n}\n") })
                .collect()
        };
        check(
            &numbers(&[]),
            &numbers(&[5, 12, 20]),
            "@@ -2,14 +2,14 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n 9\n 10\n 11\n-12\n+x\n 13\n 14\n 15\n\
             @@ -17,4 +17,4 @@\n 17\n 18\n 19\n-20\n+x\n",
        );
    }

    #[test]
    fn carriage_returns_are_shown_where_they_change() {
        check("a\r\nb\r\n", "a\r\nc\r\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        check("a\r\n", "a\n", "@@ -1 +1 @@\n-a␍\n+a\n");
    }

    #[test]
    fn a_diff_is_bounded() {
        let after: String =
            (0..100_000).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
        let changes = unified("", &after);
        assert!(changes.text.len() < MAX_BYTES + 100, "{}", changes.text.len());
        assert!(changes.text.ends_with("\n[the diff is cut here; 0 more places changed]\n"));
        assert_eq!((changes.added, changes.removed), (100_000, 0));
        let changes = unified("a\n", &format!("{}\n", "é".repeat(500)));
        assert_eq!(changes.text, format!("@@ -1 +1 @@\n-a\n+{}… [cut]\n", "é".repeat(400)));
    }

    /// What `patch` would make of it.
    fn applied(before: &str, diff: &str) -> Vec<String> {
        let old: Vec<&str> = before.lines().collect();
        let mut new: Vec<String> = Vec::new();
        let mut at = 0;
        for line in diff.lines() {
            if let Some(header) = line.strip_prefix("@@ -") {
                let start: usize = header.split([',', ' ']).next().unwrap().parse().unwrap();
                let empty = header.split(' ').next().unwrap().ends_with(",0");
                let start = if empty { start } else { start - 1 };
                new.extend(old[at..start].iter().map(ToString::to_string));
                at = start;
                continue;
            }
            let (sign, text) = line.split_at(1);
            assert!(sign == "+" || old[at] == text, "{line} is not at {at}");
            at += usize::from(sign != "+");
            if sign != "-" {
                new.push(text.into());
            }
        }
        new.extend(old[at..].iter().map(ToString::to_string));
        new
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]
        #[test]
        fn a_diff_applied_gives_the_new_text(
            before in proptest::collection::vec("[abc]", 0..30),
            after in proptest::collection::vec("[abc]", 0..30),
        ) {
            let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
            let changes = unified(&text(&before), &text(&after));
            prop_assert_eq!(applied(&text(&before), &changes.text), after);
        }
    }
}
