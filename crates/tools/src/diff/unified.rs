//! The difference between two texts as a model sees it: a unified diff of bounded size, which applies as a patch.
//!
//! Nothing in it is escaped or coloured: what it shows is what an `edit` would have to name. For people there is
//! [`render`](super::render()).

use std::fmt::Write as _;

use super::window::Window;
use super::{Diff, Hunk, Line, split_ending};
use crate::cut::Cutter;

/// How many bytes of a diff are shown.
const MAX_BYTES: usize = 16_000;
/// How many characters of one line are shown.
const MAX_CHARACTERS: usize = 400;

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
pub(crate) fn unified(before: &str, after: &str, cutter: Cutter<'_>) -> Changes {
    let window = Window::of(before, after);
    let diff = Diff::between(window.before, window.after);
    let text = text_of(&diff, window.skipped, cutter);
    Changes { text, added: diff.added(), removed: diff.removed() }
}

/// The text of a diff of what comes after so many lines.
fn text_of(diff: &Diff<'_>, skipped: usize, cutter: Cutter<'_>) -> String {
    let mut text = String::new();
    let mut left = diff.blocks.len();
    for hunk in diff.hunks() {
        let start = text.len();
        left -= hunk.blocks.len();
        push_line(&mut text, format_args!("{}", hunk.header_after(skipped)));
        push_lines(&mut text, &hunk, diff.show_returns, cutter);
        if text.len() > MAX_BYTES {
            text.truncate(line_end(&text, start.max(MAX_BYTES)));
            push_line(
                &mut text,
                format_args!("[the diff is cut here; {left} more places changed]"),
            );
            break;
        }
    }
    text
}

/// Stops where it is plain that not all of it will be shown.
fn push_lines(text: &mut String, hunk: &Hunk<'_>, show_returns: bool, cutter: Cutter<'_>) {
    for line in hunk.lines() {
        if text.len() > 2 * MAX_BYTES {
            return;
        }
        push(text, &line, show_returns, cutter);
    }
}

fn push(text: &mut String, line: &Line<'_>, show_returns: bool, cutter: Cutter<'_>) {
    let (content, ending) = split_ending(line.text);
    text.push(line.kind.sign());
    match cutter.beginning(content, MAX_CHARACTERS) {
        Some(beginning) => {
            text.push_str(&beginning);
            text.push_str("… [cut]");
        }
        None => text.push_str(content),
    }
    if ending == "\r\n" && show_returns {
        text.push('␍');
    }
    text.push('\n');
    if ending.is_empty() {
        text.push_str("\\ No newline at end of file\n");
    }
}

/// The last end of a line at or before `at`.
fn line_end(text: &str, at: usize) -> usize {
    memchr::memrchr(b'\n', text.as_bytes().get(..at).unwrap_or_default()).map_or(0, |at| at + 1)
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
        assert_eq!(unified(before, after, Cutter::PLAIN).text, expected, "{before:?} → {after:?}");
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
        let changes = unified("", &after, Cutter::PLAIN);
        assert!(changes.text.len() < MAX_BYTES + 100, "{}", changes.text.len());
        assert!(changes.text.ends_with("\n[the diff is cut here; 0 more places changed]\n"));
        assert_eq!((changes.added, changes.removed), (100_000, 0));
        let changes = unified("a\n", &format!("{}\n", "é".repeat(500)), Cutter::PLAIN);
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
            let changes = unified(&text(&before), &text(&after), Cutter::PLAIN);
            prop_assert_eq!(applied(&text(&before), &changes.text), after);
        }
    }
}
