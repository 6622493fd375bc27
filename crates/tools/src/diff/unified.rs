//! A unified diff of two texts for a model, of bounded size, that applies as a patch.
//!
//! Its text has no escapes or colours: a line of the diff is what an `edit` would have to name. For people there is
//! [`render`](super::render()).

use std::fmt::Write as _;

use super::window::DiffWindow;
use super::{Diff, DiffHunk, DiffLine, split_ending};
use crate::cut::Cutter;

/// Limit of shown bytes of a diff.
const MAX_BYTES: usize = 16_000;
/// Limit of shown characters of a line.
const MAX_CHARACTERS: usize = 400;

/// A unified diff as text, with the numbers of changed lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnifiedDiff {
    /// Hunks as in `diff -u`, without a header; a last line counts the changes that are left out, if there are any.
    pub(crate) text: String,
    /// Number of new lines.
    pub(crate) added: usize,
    /// Number of removed lines.
    pub(crate) removed: usize,
}

/// Returns the unified diff of two texts.
pub(crate) fn unified_diff(before: &str, after: &str, cutter: Cutter<'_>) -> UnifiedDiff {
    let window = DiffWindow::of(before, after);
    let diff = Diff::between(window.before, window.after);
    let text = diff_text(&diff, window.skipped, cutter);
    UnifiedDiff { text, added: diff.added(), removed: diff.removed() }
}

/// Returns the text of a diff; `skipped` lines come before the compared texts.
fn diff_text(diff: &Diff<'_>, skipped: usize, cutter: Cutter<'_>) -> String {
    let mut text = String::new();
    let mut left = diff.blocks.len();
    for hunk in diff.hunks() {
        let start = text.len();
        left -= hunk.blocks.len();
        push_line(&mut text, format_args!("{}", hunk.header_after(skipped)));
        push_hunk_lines(&mut text, &hunk, diff.show_carriage_returns, cutter);
        if text.len() > MAX_BYTES {
            text.truncate(last_line_end(&text, start.max(MAX_BYTES)));
            push_line(
                &mut text,
                format_args!("[the diff is cut here; {left} more places changed]"),
            );
            break;
        }
    }
    text
}

/// Adds the lines of a hunk. Stops once the text is far above its limit.
fn push_hunk_lines(
    text: &mut String,
    hunk: &DiffHunk<'_>,
    show_carriage_returns: bool,
    cutter: Cutter<'_>,
) {
    for line in hunk.lines() {
        if text.len() > 2 * MAX_BYTES {
            return;
        }
        push_diff_line(text, &line, show_carriage_returns, cutter);
    }
}

/// Adds a line with its sign, cut to the limit of characters.
fn push_diff_line(
    text: &mut String,
    line: &DiffLine<'_>,
    show_carriage_returns: bool,
    cutter: Cutter<'_>,
) {
    let (content, ending) = split_ending(line.text);
    text.push(line.kind.sign());
    match cutter.beginning(content, MAX_CHARACTERS) {
        Some(beginning) => {
            text.push_str(&beginning);
            text.push_str("… [cut]");
        }
        None => text.push_str(content),
    }
    if ending == "\r\n" && show_carriage_returns {
        text.push('␍');
    }
    text.push('\n');
    if ending.is_empty() {
        text.push_str("\\ No newline at end of file\n");
    }
}

/// Returns the position after the last line feed at or before `at`.
fn last_line_end(text: &str, at: usize) -> usize {
    memchr::memrchr(b'\n', text.as_bytes().get(..at).unwrap_or_default()).map_or(0, |at| at + 1)
}

/// Adds formatted text and a line feed.
fn push_line(text: &mut String, words: std::fmt::Arguments<'_>) {
    let written = writeln!(text, "{words}");
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(before: &str, after: &str, expected: &str) {
        assert_eq!(
            unified_diff(before, after, Cutter::PLAIN).text,
            expected,
            "{before:?} → {after:?}"
        );
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
    fn diff_text_is_bounded() {
        let after: String =
            (0..100_000).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
        let changes = unified_diff("", &after, Cutter::PLAIN);
        assert!(changes.text.len() < MAX_BYTES + 100, "{}", changes.text.len());
        assert!(changes.text.ends_with("\n[the diff is cut here; 0 more places changed]\n"));
        assert_eq!((changes.added, changes.removed), (100_000, 0));
        let changes = unified_diff("a\n", &format!("{}\n", "é".repeat(500)), Cutter::PLAIN);
        assert_eq!(changes.text, format!("@@ -1 +1 @@\n-a\n+{}… [cut]\n", "é".repeat(400)));
    }

    /// Applies the diff to the old text, as `patch` does.
    fn apply(before: &str, diff: &str) -> Vec<String> {
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
            let changes = unified_diff(&text(&before), &text(&after), Cutter::PLAIN);
            prop_assert_eq!(apply(&text(&before), &changes.text), after);
        }
    }
}
