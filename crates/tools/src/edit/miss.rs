//! Explains why an edit cannot be made: the most similar place in the file, its lines, and the first difference.

mod closest;

use std::fmt::Write as _;

use windlass_core::quote;

use self::closest::{LinePart, most_similar_start};
use super::fold::{indentation, trim_end};
use super::plan::{EditMiss, MAX_MATCHES, MatchStrategy, TextEdit, line_number};
use crate::cut::Cutter;
use crate::redaction_guard;

/// Limit of the shown lines of the most similar place.
const MAX_LINES: usize = 20;
/// Limit of the named line numbers.
const MAX_LINE_NUMBERS: usize = 20;
/// Limit of the shown characters of a line.
const MAX_CHARACTERS: usize = 200;
/// Number of characters by which the start of a part of a line is found.
const START_CHARACTERS: usize = 6;

/// Names of the texts of an edit in a message, for the model that gave them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextNames<'c> {
    /// Name of the searched text.
    pub(crate) old: &'static str,
    /// Name of the new text, with its verb.
    pub(crate) new_is: &'static str,
    /// Cuts the shown lines.
    pub(crate) cutter: Cutter<'c>,
}

impl EditMiss {
    /// Returns the message: the problem, and the next step.
    pub(super) fn explain(
        &self,
        text: &[u8],
        edit: &TextEdit,
        path: &str,
        cutter: Cutter<'_>,
    ) -> String {
        match self {
            Self::Empty => format!(
                "old_string is empty: there is nothing to look for in {path}\nto create or replace a whole file, use `write`"
            ),
            Self::Same => format!(
                "old_string and new_string come to the same: nothing would change in {path}"
            ),
            Self::Ambiguous(lines, strategy) => ambiguous(lines, *strategy, edit, path),
            Self::NotFound => not_found(text, edit, path, cutter),
        }
    }
}

/// Says that the searched text occurs several times, at which lines, and how to make it unique.
fn ambiguous(lines: &[usize], strategy: MatchStrategy, edit: &TextEdit, path: &str) -> String {
    let least = if lines.len() >= MAX_MATCHES { "at least " } else { "" };
    let next = match (strategy, edit.all) {
        (MatchStrategy::Exact, _) => "give more of the lines around it, or set replace_all",
        (_, true) => "replace_all needs it exactly as it is in the file",
        (_, false) => "give more of the lines around it, exactly as they are in the file",
    };
    format!(
        "old_string is in {path} {least}{} times{}: at lines {}\n{next}",
        lines.len(),
        strategy.apart_from(),
        line_numbers(lines)
    )
}

/// Lists line numbers, up to a limit.
pub(crate) fn line_numbers(lines: &[usize]) -> String {
    let mut shown: Vec<String> =
        lines.iter().take(MAX_LINE_NUMBERS).map(ToString::to_string).collect();
    if lines.len() > MAX_LINE_NUMBERS {
        shown.push("…".into());
    }
    shown.join(", ")
}

/// Says that the searched text was not found, with the most similar place.
fn not_found(text: &[u8], edit: &TextEdit, path: &str, cutter: Cutter<'_>) -> String {
    let mut words = format!("old_string was not found in {path}");
    let names = TextNames { old: "old_string", new_is: "new_string is", cutter };
    push_most_similar_place(&mut words, text, edit, names);
    words
}

/// Adds the most similar place and its difference to the searched text; each on a line of its own.
pub(crate) fn push_most_similar_place(
    words: &mut String,
    text: &[u8],
    edit: &TextEdit,
    names: TextNames<'_>,
) {
    if let Some(hint) = frequent_mistake(text, edit, names) {
        push_line(words, &hint);
    }
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').map(trim_return).collect();
    let old: Vec<&[u8]> = edit
        .old
        .trim_end_matches('\n')
        .as_bytes()
        .split(|byte| *byte == b'\n')
        .map(trim_return)
        .collect();
    match most_similar_start(&lines, &old) {
        Some(start) => {
            push_place_and_difference(words, &lines, &old, start, names);
            push_missing_newline(words, text, edit, (&lines, &old, start), names);
        }
        None => push_line(words, "nothing in the file is like it; read the file again"),
    }
}

/// Recognises frequent mistakes: a redaction placeholder, an edit made before, line numbers, or escapes in the searched text.
fn frequent_mistake(text: &[u8], edit: &TextEdit, names: TextNames<'_>) -> Option<String> {
    let place = |wanted: &str| {
        let at =
            memchr::memmem::find(text, wanted.as_bytes()).filter(|_| !wanted.trim().is_empty())?;
        Some(line_number(text, at))
    };
    if let Some(word) = redaction_guard::mentioned(&edit.old) {
        return Some(format!(
            "the text holds {word}, which stands for something that was taken out of what was shown: leave that line out, and give those around it"
        ));
    }
    // Very short texts occur in any file.
    if edit.old != edit.new
        && edit.new.trim().len() > 3
        && let Some(line) = place(&edit.new)
    {
        return Some(format!(
            "{} there already, at line {line}: was this edit made before?",
            names.new_is
        ));
    }
    if let Some(line) = without_numbers(&edit.old).and_then(|plain| place(&plain)) {
        return Some(format!(
            "without the line numbers that `read` puts before each line it is there, at line {line}"
        ));
    }
    let unescaped = edit.old.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"");
    (unescaped != edit.old).then(|| place(&unescaped)).flatten().map(|line| {
        format!("with its escapes (`\\n`, `\\t`, `\\\"`) resolved it is there, at line {line}")
    })
}

/// Returns the text without the `NUMBER⇥` before each line; `None` if a line has none.
fn without_numbers(text: &str) -> Option<String> {
    text.split_inclusive('\n')
        .map(|line| {
            let (number, rest) = line.split_once('\t')?;
            number.trim_start().parse::<u64>().ok().map(|_| rest)
        })
        .collect()
}

/// Adds the lines of the most similar place and the first difference.
fn push_place_and_difference(
    words: &mut String,
    lines: &[&[u8]],
    old: &[&[u8]],
    start: usize,
    names: TextNames<'_>,
) {
    let end = (start + old.len()).min(lines.len());
    let shown = end.min(start + MAX_LINES);
    push_line(words, &format!("the closest place is lines {}-{end}:", start + 1));
    for (at, line) in lines.iter().enumerate().take(shown).skip(start) {
        push_line(
            words,
            &format!("{}\t{}", at + 1, cut_line(&String::from_utf8_lossy(line), names.cutter)),
        );
    }
    if shown < end {
        push_line(words, &format!("… {} more lines", end - shown));
    }
    // A searched text of one line may be a part of a longer line.
    let from = |line: &[u8]| if let [part] = old { start_of_part(line, part) } else { 0 };
    let difference =
        old.iter().enumerate().find_map(|(nth, old_line)| match lines.get(start + nth) {
            Some(line) if LinePart::of(nth, old.len()).is_in(line, old_line) => None,
            Some(line) => {
                Some(describe_difference(start + nth + 1, line, old_line, names, from(line)))
            }
            None => Some(format!("the file ends before line {} of {}", nth + 1, names.old)),
        });
    if let Some(difference) = difference {
        push_line(words, &difference);
    }
}

/// Explains a match of all lines in which only the newline at the end of the searched text is missing in the file.
fn push_missing_newline(
    words: &mut String,
    text: &[u8],
    edit: &TextEdit,
    (lines, old, start): (&[&[u8]], &[&[u8]], usize),
    names: TextNames<'_>,
) {
    let is_there = |(nth, old_line): (usize, &&[u8])| {
        lines
            .get(start + nth)
            .is_some_and(|line| LinePart::of(nth, old.len()).is_in(line, old_line))
    };
    if !edit.old.ends_with('\n') || !old.iter().enumerate().all(is_there) {
        return;
    }
    let is_last = start + old.len() == lines.len();
    let what = if is_last && !text.ends_with(b"\n") {
        "the file ends there without a newline"
    } else {
        "other text follows there in the file"
    };
    push_line(words, &format!("{} ends with a newline; {what}", names.old));
}

/// Describes the first difference between a line of the file, from character `start` on, and a searched line.
fn describe_difference(
    number: usize,
    line: &[u8],
    old: &[u8],
    names: TextNames<'_>,
    start: usize,
) -> String {
    let name = names.old;
    if trim_end(line) == trim_end(old) {
        return format!(
            "line {number} ends with {} in the file, with {} in {name}",
            describe_blanks(line.get(trim_end(line).len()..).unwrap_or_default()),
            describe_blanks(old.get(trim_end(old).len()..).unwrap_or_default())
        );
    }
    if line.trim_ascii() == old.trim_ascii() {
        return format!(
            "line {number} is indented by {} in the file, by {} in {name}",
            describe_blanks(indentation(line)),
            describe_blanks(indentation(old))
        );
    }
    let (line, old) = (String::from_utf8_lossy(line), String::from_utf8_lossy(old));
    let same = line.chars().skip(start).zip(old.chars()).take_while(|(a, b)| a == b).count();
    format!(
        "line {number} differs from character {} on\n  in the file:   {}\n  {:<15}{}",
        start + same + 1,
        around(&line, start + same, names.cutter),
        format!("in {name}:"),
        around(&old, same, names.cutter)
    )
}

/// Returns the character of a line at which the searched text starts, by its first characters; 0 if they are not found.
fn start_of_part(line: &[u8], old: &[u8]) -> usize {
    let (line, old) = (String::from_utf8_lossy(line), String::from_utf8_lossy(old));
    let head = old.char_indices().nth(START_CHARACTERS).map_or(&*old, |(end, _)| &old[..end]);
    let at = line.find(head).filter(|_| head.chars().count() == START_CHARACTERS).unwrap_or(0);
    line[..at].chars().count()
}

/// Describes white space: `2 spaces`, `1 tab`, `no describe_blanks`, or the escaped bytes.
fn describe_blanks(bytes: &[u8]) -> String {
    let count = |one: &str| {
        if bytes.len() == 1 { format!("1 {one}") } else { format!("{} {one}s", bytes.len()) }
    };
    match bytes.first() {
        None => "no blanks".into(),
        Some(b' ') if bytes.iter().all(|byte| *byte == b' ') => count("space"),
        Some(b'\t') if bytes.iter().all(|byte| *byte == b'\t') => count("tab"),
        _ => format!("`{}`", bytes.escape_ascii()),
    }
}

/// Returns the part of a line around a character, with invisible characters escaped.
fn around(line: &str, at: usize, cutter: Cutter<'_>) -> String {
    let place = line.char_indices().nth(at).map_or(line.len(), |(place, _)| place);
    let (line, place) = cutter.around(line.into(), place);
    let at = line.get(..place).unwrap_or_default().chars().count();
    let start = at.saturating_sub(MAX_CHARACTERS / 2);
    let part: String = line.chars().skip(start).take(MAX_CHARACTERS).collect();
    let (before, after) = (
        if start > 0 { "…" } else { "" },
        if line.chars().nth(start + MAX_CHARACTERS).is_some() { "…" } else { "" },
    );
    format!("{before}{}{after}", escape_invisible(&part))
}

/// Escapes every white space except the space, and all invisible characters.
fn escape_invisible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in quote::visible(text).chars() {
        match c {
            '\t' => shown.push_str("\\t"),
            c if c.is_whitespace() && c != ' ' => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Returns a line, cut to the limit of characters.
fn cut_line(line: &str, cutter: Cutter<'_>) -> String {
    match cutter.beginning(line, MAX_CHARACTERS) {
        Some(beginning) => format!("{beginning}…"),
        None => line.to_owned(),
    }
}

/// Returns the line without a carriage return at its end.
fn trim_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Adds a line to the message.
fn push_line(words: &mut String, line: &str) {
    let written = write!(words, "\n{line}");
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::super::plan::plan;
    use super::*;

    /// Returns the explanation for an edit that cannot be made.
    fn explain_miss(text: &str, old: &str, new: &str) -> String {
        let edit = TextEdit { old: old.into(), new: new.into(), all: false };
        plan(text.as_bytes(), &edit).unwrap_err().explain(
            text.as_bytes(),
            &edit,
            "f",
            Cutter::PLAIN,
        )
    }

    #[test]
    fn most_similar_place_is_shown() {
        let text = "fn one() {\n    let a = 1;\n    a + 1\n}\n\nfn two() {\n    let b = 2;\n    b + 2\n}\n";
        insta::assert_snapshot!(explain_miss(text, "fn two() {\n    let b = 3;\n    b + 2\n}", "x"), @"
        old_string was not found in f
        the closest place is lines 6-9:
        6	fn two() {
        7	    let b = 2;
        8	    b + 2
        9	}
        line 7 differs from character 13 on
          in the file:       let b = 2;
          in old_string:     let b = 3;
        ");
        insta::assert_snapshot!(explain_miss(text, "let  a := 1", "x"), @"
        old_string was not found in f
        the closest place is lines 2-2:
        2	    let a = 1;
        line 2 differs from character 1 on
          in the file:       let a = 1;
          in old_string: let  a := 1
        ");
        let long =
            "one\nThis tool runs the calls of language models on your own machine, and is quick.\n";
        insta::assert_snapshot!(explain_miss(long, "runs the call of language", "x"), @"
        old_string was not found in f
        the closest place is lines 2-2:
        2	This tool runs the calls of language models on your own machine, and is quick.
        line 2 differs from character 24 on
          in the file:   This tool runs the calls of language models on your own machine, and is quick.
          in old_string: runs the call of language
        ");
        insta::assert_snapshot!(explain_miss(text, "fn three(): unit", "x"), @"
        old_string was not found in f
        nothing in the file is like it; read the file again
        ");
        insta::assert_snapshot!(explain_miss("aa\n\tbb\nxx\n", "aa\n    bb\n  xy\n", "y"), @"
        old_string was not found in f
        the closest place is lines 1-3:
        1	aa
        2		bb
        3	xx
        line 2 is indented by 1 tab in the file, by 4 spaces in old_string
        ");
    }

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, old, differs) in [
            ("x\na\u{a0}b\n", "a b", [r"  in the file:   a\u{a0}b", "  in old_string: a b"]),
            (
                "f\u{200b}oo(1)\nbar\n",
                "foo(1)\nbar",
                [r"  in the file:   f\u{200b}oo(1)", "  in old_string: foo(1)"],
            ),
            (
                "say \u{201c}hi\u{201d}\n",
                "\"hi\"",
                ["  in the file:   say “hi”", "  in old_string: \"hi\""],
            ),
        ] {
            let words = explain_miss(text, old, "q");
            for line in differs {
                assert!(words.lines().any(|one| one == line), "{line}: {words}");
            }
        }
    }

    #[test]
    fn searched_part_of_a_line_does_not_count_as_a_difference() {
        let text = "a\n  let x = 1;\n  let y = 2;\nend\n";
        insta::assert_snapshot!(explain_miss(text, "let x = 1;\n  let z = 2;\nend", "q"), @"
        old_string was not found in f
        the closest place is lines 2-4:
        2	  let x = 1;
        3	  let y = 2;
        4	end
        line 3 differs from character 7 on
          in the file:     let y = 2;
          in old_string:   let z = 2;
        ");
    }

    #[test]
    fn missing_newline_is_named() {
        for (text, old, last) in [
            (
                "a\nb",
                "b\n",
                "old_string ends with a newline; the file ends there without a newline",
            ),
            (
                "a\nb\nc\n",
                "a\nb\n\n",
                "old_string ends with a newline; other text follows there in the file",
            ),
            ("ab\n", "a\n", "old_string ends with a newline; other text follows there in the file"),
        ] {
            let words = explain_miss(text, old, "q");
            assert_eq!(words.lines().last(), Some(last), "{words}");
        }
    }

    #[test]
    fn common_mistakes_are_named() {
        for (text, old, new, expected) in [
            (
                "fn b() {}\n",
                "fn a() {}",
                "fn b() {}",
                "new_string is there already, at line 1: was this edit made before?",
            ),
            (
                "x\na b\nc\n",
                "2\ta b\n3\tc",
                "d",
                "without the line numbers that `read` puts before each line it is there, at line 2",
            ),
            (
                "say(\"hi\")\n\tok\n",
                "say(\\\"hi\\\")\\n\\tok",
                "d",
                "with its escapes (`\\n`, `\\t`, `\\\"`) resolved it is there, at line 1",
            ),
        ] {
            let words = explain_miss(text, old, new);
            assert_eq!(words.lines().nth(1), Some(expected), "{words}");
        }
    }

    #[test]
    fn ambiguity_names_the_lines() {
        for (text, old, expected) in [
            (
                "a\nb\na\n",
                "a",
                "old_string is in f 2 times: at lines 1, 3\ngive more of the lines around it, or set replace_all",
            ),
            (
                "x  y\nx   y\n",
                "x y",
                "old_string is in f 2 times, apart from white space: at lines 1, 2\ngive more of the lines around it, exactly as they are in the file",
            ),
            (
                " a\n b\n  a\n  b\n",
                "a\nb",
                "old_string is in f 2 times, apart from indentation: at lines 1, 3\ngive more of the lines around it, exactly as they are in the file",
            ),
        ] {
            assert_eq!(explain_miss(text, old, "z"), expected);
        }
    }

    #[test]
    fn unchanged_text_is_reported_after_not_found() {
        assert!(explain_miss("a\n", "b", "b").starts_with("old_string was not found in f"));
        assert!(
            explain_miss("a\n", "a", "a").starts_with("old_string and new_string come to the same")
        );
        assert!(explain_miss("a\n", "", "x").contains("use `write`"));
    }
}
