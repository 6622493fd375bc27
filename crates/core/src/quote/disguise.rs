//! Reveals disguises in texts that a person decides on: look-alike spaces, blanks and blank lines that push the rest out of sight, and
//! marks piled up on one character.

use std::fmt::Write as _;

/// Maximum blanks in a row that are shown. So many are an indentation or a table.
const MAX_BLANKS: usize = 60;
/// Minimum equal blank lines after the first one that are written as a number. Fewer leave the rest on the screen.
const MIN_COUNTED_BLANK_LINES: usize = 8;
/// Maximum marks on one character that are shown. So many occur in writing.
const MAX_MARKS: usize = 3;

/// Escapes disguises in a text that is [visible](super::visible) already: a look-alike space as `\u{a0}`, many blanks or blank lines
/// as their number (`\x20{500}`, `\n{40}`), and marks that pile up on one character as their codes. Each line stays a line. Colours
/// stay.
///
/// ```
/// use windlass_core::quote::undisguised;
/// assert_eq!(undisguised("ls\u{a0}-l"), r"ls\u{a0}-l");
/// assert_eq!(undisguised(&format!("ls{}; rm x", " ".repeat(500))), r"ls\x20{500}; rm x");
/// assert_eq!(undisguised(&format!("ls{}rm x", "\n".repeat(40))), "ls\n\\n{39}\nrm x");
/// assert_eq!(undisguised("a  b\n\nc"), "a  b\n\nc");
/// ```
pub fn undisguised(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        let mut more = 0;
        if is_blank(line) {
            while lines.next_if_eq(&line).is_some() {
                more += 1;
            }
        }
        if more >= MIN_COUNTED_BLANK_LINES {
            append(&mut shown, format_args!("{line}\\n{{{}}}", more + 1));
        } else {
            for _ in 0..more {
                push_line(&mut shown, line);
                shown.push('\n');
            }
            push_line(&mut shown, line);
        }
        if lines.peek().is_some() {
            shown.push('\n');
        }
    }
    shown
}

/// Returns whether a line is blank, except perhaps for a bar or the sign of a diff.
fn is_blank(line: &str) -> bool {
    line.chars().all(|c| c == '\t' || c == ' ' || matches!(c, '+' | '-' | '|'))
        && line.trim().len() <= 1
}

/// Appends a line with its disguises escaped.
fn push_line(shown: &mut String, line: &str) {
    let (mut blanks, mut marks) = ((' ', 0), 0);
    for c in line.chars() {
        if c != blanks.0 || !is_blank_character(c) {
            push_blanks(shown, &mut blanks);
        }
        marks = if is_mark(c) { marks + 1 } else { 0 };
        match c {
            ' ' | '\t' => blanks = (c, blanks.1 + 1),
            c if is_lookalike_space(c) || marks > MAX_MARKS => {
                append(shown, format_args!("\\u{{{:x}}}", u32::from(c)));
            }
            c => shown.push(c),
        }
    }
    push_blanks(shown, &mut blanks);
}

fn is_blank_character(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// Appends the counted blanks, or their number if there are many, and resets the count.
fn push_blanks(shown: &mut String, (blank, count): &mut (char, usize)) {
    if *count > MAX_BLANKS {
        append(shown, format_args!("\\x{:02x}{{{count}}}", u32::from(*blank)));
    } else {
        shown.extend(std::iter::repeat_n(*blank, *count));
    }
    *count = 0;
}

/// Returns whether a character looks like a space and is none for programs.
fn is_lookalike_space(c: char) -> bool {
    c.is_whitespace() && !c.is_ascii()
}

/// Returns whether a character is a mark that is drawn onto the character before it.
fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}')
}

/// Appends formatted text.
fn append(text: &mut String, more: std::fmt::Arguments<'_>) {
    let written = text.write_fmt(more);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disguises_are_escaped_and_other_texts_stay() {
        let pile = format!("a{}b", "\u{301}".repeat(6));
        let indented = format!("{}x", " ".repeat(40));
        for (text, expected) in [
            ("", ""),
            ("plain text, cafe\u{301}\tand a tab\n", "plain text, cafe\u{301}\tand a tab\n"),
            (&indented, &*indented),
            ("a\u{a0}b\u{3000}c\u{202f}d", r"a\u{a0}b\u{3000}c\u{202f}d"),
            (&pile, "a\u{301}\u{301}\u{301}\\u{301}\\u{301}\\u{301}b"),
            (&"\t".repeat(70), r"\x09{70}"),
            (&"+\n".repeat(30), "+\\n{30}\n"),
            (&format!("{}x", "\n".repeat(4)), "\n\n\n\nx"),
            ("\x1b[32m+\x1b[0m x", "\x1b[32m+\x1b[0m x"),
        ] {
            assert_eq!(undisguised(text), expected, "{text:?}");
            assert_eq!(undisguised(expected), expected, "{text:?}, twice");
        }
    }
}
