//! A diff of two texts, rendered for a person.
//!
//! Every character of the texts is visible: control characters, changes of text direction and characters without width are escaped.
//! Changes that are not shown are counted in the last line.

use std::ops::Range;

use super::hunk::{HunkSection, split_marks};
use super::page::{
    DiffFormat, DiffPage, DiffStyle, LineCounts, LinePiece, PageRow, ShownEnding, TextRole,
};
use super::words::LinePair;
use super::{Diff, DiffHunk, DiffLine, DiffLineKind, split_ending, split_trailing_blanks};

/// Renders the hunks of a diff, without a header for the file.
///
/// ```
/// use windlass_tools::diff::{Diff, DiffFormat, render};
///
/// let diff = Diff::between("safe\n", "sa\u{202e}fe\n");
/// assert_eq!(render(&diff, &DiffFormat::plain()), "@@ -1 +1 @@\n-safe\n+sa\\u{202e}fe\n");
/// assert_eq!(render(&diff, &DiffFormat::plain().max_lines(0)), "[left out: 1 more place, +1 -1]\n");
/// ```
pub fn render(diff: &Diff<'_>, look: &DiffFormat) -> String {
    let mut page = DiffPage::new(*look, diff.before.len().max(diff.after.len()));
    push_hunks(&mut page, diff, 0..diff.blocks.len());
    page.finish()
}

/// Adds the hunks of some blocks of a diff to a page.
pub(super) fn push_hunks(page: &mut DiffPage, diff: &Diff<'_>, blocks: Range<usize>) {
    for hunk in diff.hunks_of(blocks) {
        push_hunk(page, hunk, EndMarks::of(diff));
    }
}

/// The ends of lines that are made visible.
#[derive(Debug, Clone, Copy)]
struct EndMarks {
    carriage_returns: bool,
    trailing_blanks: bool,
}

impl EndMarks {
    /// Returns the marks that the lines of a diff need.
    fn of(diff: &Diff<'_>) -> Self {
        Self {
            carriage_returns: diff.show_carriage_returns,
            trailing_blanks: diff.show_trailing_blanks,
        }
    }
}

/// Adds the header and the lines of a hunk; without room for two lines, only counts it as left out.
fn push_hunk(page: &mut DiffPage, hunk: DiffHunk<'_>, marks: EndMarks) {
    // A header alone says nothing.
    if !page.has_room(2) {
        hunk.sections().for_each(|section| page.leave_out(section.count()));
        return;
    }
    page.push_header(&hunk.header());
    for section in hunk.sections() {
        push_section(page, section, marks);
    }
}

/// Adds the lines of a section; lines that do not fit are counted as left out.
fn push_section(page: &mut DiffPage, section: HunkSection<'_>, marks: EndMarks) {
    if !page.has_room(1) {
        page.leave_out(section.count());
        return;
    }
    let format = page.format();
    // Pairs are needed also without word marks: a long line is cut around its differences.
    let is_paired = page.take_paired(section.removed.len() + section.added.len());
    let pairs = if is_paired { section.pairs() } else { Vec::new() };
    let mut left_out = LineCounts::default();
    let mut push = |entry: RowContent<'_>| {
        if page.has_room(1) {
            page.push_row(&entry.row(marks));
        } else {
            left_out = left_out.plus(entry.count());
        }
    };
    if format.style == DiffStyle::Plain && format.words {
        joined_rows(section, pairs).for_each(&mut push);
    } else {
        section.lines(pairs).map(RowContent::Line).for_each(&mut push);
    }
    page.leave_out(left_out);
}

impl HunkSection<'_> {
    /// Returns the numbers of added and removed lines.
    fn count(&self) -> LineCounts {
        LineCounts { added: self.added.len(), removed: self.removed.len() }
    }
}

impl LineCounts {
    /// Adds up two counts.
    fn plus(self, other: Self) -> Self {
        Self { added: self.added + other.added, removed: self.removed + other.removed }
    }
}

/// The content of one row.
enum RowContent<'a> {
    /// One line of a text.
    Line(DiffLine<'a>),
    /// An old line and the new line that replaces it, shown as one row.
    Changed(DiffLine<'a>, DiffLine<'a>),
}

impl<'a> RowContent<'a> {
    /// Returns the numbers of added and removed lines in this row.
    fn count(&self) -> LineCounts {
        match self {
            Self::Line(DiffLine { kind: DiffLineKind::Kept { .. }, .. }) => LineCounts::default(),
            Self::Line(DiffLine { kind: DiffLineKind::Removed { .. }, .. }) => {
                LineCounts { added: 0, removed: 1 }
            }
            Self::Line(DiffLine { kind: DiffLineKind::Added { .. }, .. }) => {
                LineCounts { added: 1, removed: 0 }
            }
            Self::Changed(..) => LineCounts { added: 1, removed: 1 },
        }
    }

    /// Makes the row that the page shows.
    fn row(&self, marks: EndMarks) -> PageRow<'a> {
        match self {
            Self::Line(line) => row_of_line(line, marks),
            Self::Changed(old, new) => PageRow {
                sign: '~',
                role: TextRole::Kept,
                before: old.kind.numbers().0,
                after: new.kind.numbers().1,
                pieces: join_pieces(old, new),
                // The blanks that differ stand between the marks of words.
                marked_blanks: 0,
                ending: shown_ending(new.text, marks),
            },
        }
    }
}

/// Makes the row of a single line.
fn row_of_line<'a>(line: &DiffLine<'a>, marks: EndMarks) -> PageRow<'a> {
    let role = match line.kind {
        DiffLineKind::Kept { .. } => TextRole::Kept,
        DiffLineKind::Removed { .. } => TextRole::Removed,
        DiffLineKind::Added { .. } => TextRole::Added,
    };
    let (before, after) = line.kind.numbers();
    let ending = shown_ending(line.text, marks);
    let is_changed = role != TextRole::Kept;
    let marked_blanks = if marks.trailing_blanks && is_changed {
        split_trailing_blanks(line.text).1.len()
    } else {
        0
    };
    let pieces = line_pieces(line, role);
    PageRow { sign: line.kind.sign(), role, before, after, pieces, marked_blanks, ending }
}

/// Returns the mark for the ending of a line.
fn shown_ending(line: &str, marks: EndMarks) -> ShownEnding {
    match split_ending(line).1 {
        "" => ShownEnding::Missing,
        "\r\n" if marks.carriage_returns => ShownEnding::Return,
        _ => ShownEnding::Usual,
    }
}

/// Splits a line into pieces; its differing words get the role, the rest is `Kept`.
fn line_pieces<'a>(line: &DiffLine<'a>, role: TextRole) -> Vec<LinePiece<'a>> {
    let content = split_ending(line.text).0;
    let mut pieces = Vec::with_capacity(2 * line.words.len() + 1);
    let mut push = |role: TextRole, range: Range<usize>| {
        let text = content.get(range).unwrap_or_default();
        pieces.extend((!text.is_empty()).then_some(LinePiece { role, text }));
    };
    let mut at = 0;
    for word in &line.words {
        push(TextRole::Kept, at..word.start);
        push(role, word.clone());
        at = word.end;
    }
    push(TextRole::Kept, at..content.len());
    pieces
}

/// Joins the pieces of two lines to one line: common text once, removed text before added text.
fn join_pieces<'a>(old: &DiffLine<'a>, new: &DiffLine<'a>) -> Vec<LinePiece<'a>> {
    let (old, new) = (line_pieces(old, TextRole::Removed), line_pieces(new, TextRole::Added));
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    let mut pieces = Vec::new();
    loop {
        pieces.extend(old.next_if(|piece| piece.role == TextRole::Removed));
        pieces.extend(new.next_if(|piece| piece.role == TextRole::Added));
        let (Some(kept), Some(same)) = (old.peek_mut(), new.peek_mut()) else { break };
        // If a piece of one side is shorter, the difference is on that side only.
        let len = kept.text.len().min(same.text.len());
        let (Some((common, old_rest)), Some((_, new_rest))) =
            (kept.text.split_at_checked(len), same.text.split_at_checked(len))
        else {
            break;
        };
        pieces.push(LinePiece { role: TextRole::Kept, text: common });
        (kept.text, same.text) = (old_rest, new_rest);
        old.next_if(|piece| piece.text.is_empty());
        new.next_if(|piece| piece.text.is_empty());
    }
    pieces
}

/// Returns the lines of a section; paired old and new lines become one row.
fn joined_rows<'a>(
    section: HunkSection<'a>,
    pairs: Vec<LinePair>,
) -> impl Iterator<Item = RowContent<'a>> {
    let ending = |lines: &[&'a str], at: usize| lines.get(at).map(|line| split_ending(line).1);
    let places: Vec<(usize, usize)> = pairs
        .iter()
        .map(|pair| (pair.before, pair.after))
        // One row cannot show two different endings.
        .filter(|(old, new)| ending(section.removed, *old) == ending(section.added, *new))
        .collect();
    let mut places = places.into_iter().peekable();
    let (old, new) = split_marks(pairs);
    let mut removed = section.removed(old).enumerate().peekable();
    let mut added = section.added(new).enumerate().peekable();
    let changed = std::iter::from_fn(move || {
        let (before, after) = places.peek().copied().unwrap_or((usize::MAX, usize::MAX));
        let alone = removed
            .next_if(|(at, _)| *at < before)
            .or_else(|| added.next_if(|(at, _)| *at < after));
        if let Some((_, line)) = alone {
            return Some(RowContent::Line(line));
        }
        places.next()?;
        let ((_, old), (_, new)) = (removed.next()?, added.next()?);
        Some(RowContent::Changed(old, new))
    });
    section.kept().map(RowContent::Line).chain(changed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use windlass_core::quote;

    use super::*;

    const BEFORE: &str = "use std::fmt;\nfn read_file(path: &str) {\n    let size = 10;\n    open(path, size);\n    close(path);\n}\n";
    const AFTER: &str = "use std::fmt;\nfn write_file(path: &str) {\n    let size = 20;\n    let buffer = Vec::new();\n    open(path, size);\n}\n";

    fn shown(before: &str, after: &str, look: DiffFormat) -> String {
        render(&Diff::between(before, after), &look).replace('\x1b', "␛")
    }

    #[test]
    fn plain() {
        insta::assert_snapshot!(shown(BEFORE, AFTER, DiffFormat::plain()), @"
        @@ -1,6 +1,6 @@
         use std::fmt;
        -fn read_file(path: &str) {
        -    let size = 10;
        +fn write_file(path: &str) {
        +    let size = 20;
        +    let buffer = Vec::new();
             open(path, size);
        -    close(path);
         }
        ");
        insta::assert_snapshot!(shown(BEFORE, AFTER, DiffFormat::plain().numbers(true)), @"
        @@ -1,6 +1,6 @@
        1 1  use std::fmt;
        2   -fn read_file(path: &str) {
        3   -    let size = 10;
          2 +fn write_file(path: &str) {
          3 +    let size = 20;
          4 +    let buffer = Vec::new();
        4 5      open(path, size);
        5   -    close(path);
        6 6  }
        ");
        insta::assert_snapshot!(shown(BEFORE, AFTER, DiffFormat::plain().words(true)), @"
        @@ -1,6 +1,6 @@
         use std::fmt;
        ~fn [-read-]{+write+}_file(path: &str) {
        ~    let size = [-10-]{+20+};
        +    let buffer = Vec::new();
             open(path, size);
        -    close(path);
         }
        ");
    }

    #[test]
    fn colour() {
        insta::assert_snapshot!(shown(BEFORE, AFTER, DiffFormat::colour()), @"
        ␛[36m@@ -1,6 +1,6 @@␛[0m
        ␛[2m1 1␛[0m  use std::fmt;
        ␛[2m2  ␛[0m ␛[31m-fn ␛[7mread␛[27m_file(path: &str) {␛[0m
        ␛[2m3  ␛[0m ␛[31m-    let size = ␛[7m10␛[27m;␛[0m
        ␛[2m  2␛[0m ␛[32m+fn ␛[7mwrite␛[27m_file(path: &str) {␛[0m
        ␛[2m  3␛[0m ␛[32m+    let size = ␛[7m20␛[27m;␛[0m
        ␛[2m  4␛[0m ␛[32m+    let buffer = Vec::new();␛[0m
        ␛[2m4 5␛[0m      open(path, size);
        ␛[2m5  ␛[0m ␛[31m-    close(path);␛[0m
        ␛[2m6 6␛[0m  }
        ");
    }

    #[test]
    fn paired_lines_are_shown_as_one_row() {
        for (before, after, expected) in [
            ("f(a)\n", "f(a, b)\n", "~f(a{+, b+})\n"),
            ("f(a, b)\n", "f(a)\n", "~f(a[-, b-])\n"),
            ("one two three\n", "zero one three\n", "~{+zero +}one [-two -]three\n"),
            ("\tx();\n", "    x();\n", "~[-␉-]{+    +}x();\n"),
            ("x();\n", "x(); \n", "~x();{+ +}\n"),
            ("x(1);", "x(2);", "~x([-1-]{+2+});\n\\ No newline at end of file\n"),
            ("x(1);\r\n", "x(2);\r\n", "~x([-1-]{+2+});\n"),
            // Both lines are shown if their endings differ.
            ("x(1);\r\n", "x(2);\n", "-x([-1-]);␍\n+x({+2+});\n"),
            ("x(1);\n", "x(1);", "-x(1);\n+x(1);\n\\ No newline at end of file\n"),
            // Dissimilar lines stay separate, in order.
            (
                "alpha;\nlet b = 1;\nomega();\n",
                "let b = 2;\nnothing else\n",
                "-alpha;\n~let b = [-1-]{+2+};\n-omega();\n+nothing else\n",
            ),
        ] {
            let text = shown(before, after, DiffFormat::plain().words(true));
            let (_, lines) = text.split_once('\n').unwrap();
            assert_eq!(lines, expected, "{before:?} → {after:?}");
        }
    }

    #[test]
    fn blanks_at_the_end_are_shown_if_lines_differ_in_them_alone() {
        for (before, after, expected) in [
            ("hello\n", "hello \n", "-hello\n+hello␠\n"),
            ("hello \t\n", "hello\n", "-hello␠␉\n+hello\n"),
            ("a\n", "a \r\n", "-a\n+a␠␍\n"),
            ("a", "a ", "-a\n\\ No newline at end of file\n+a␠\n\\ No newline at end of file\n"),
            ("\n", "  \n", "-\n+␠␠\n"),
            ("k \na\nb\n", "k \nb \na\n", " k \n+b␠\n a\n-b\n"),
            // Not the only difference.
            ("a\n", "b \n", "-a\n+b \n"),
            ("", "a \n", "+a \n"),
            ("a b\n", "a  b\n", "-a b\n+a  b\n"),
        ] {
            let text = shown(before, after, DiffFormat::plain());
            assert_eq!(text.split_once('\n').unwrap().1, expected, "{before:?} → {after:?}");
        }
        let text = shown("hello\n", "hello \n", DiffFormat::colour().numbers(false));
        assert!(text.ends_with("␛[32m+hello␛[7m␠␛[27m␛[0m\n"), "{text}");
        let text = shown("hello\n", "hello \n", DiffFormat::plain().words(true));
        assert!(text.ends_with("~hello{+ +}\n"), "{text}");
        let wide = format!("{} \n", "x".repeat(500));
        let text = shown(wide.trim_end(), &wide, DiffFormat::plain());
        assert!(!text.contains('␠') || text.contains("x␠\n"), "{text}");
    }

    #[test]
    fn invisible_characters_are_escaped() {
        let after = "a\x1b[31m\u{200b}\u{2066}\0\x08\rb\n";
        for (look, expected) in [
            (DiffFormat::plain(), "+a\\x1b[31m\\u{200b}\\u{2066}\\x00\\x08\\x0db\n"),
            (
                DiffFormat::colour().numbers(false),
                "␛[32m+a\\x1b[31m\\u{200b}\\u{2066}\\x00\\x08\\x0db␛[0m\n",
            ),
        ] {
            let text = shown("", after, look);
            assert_eq!(text.split_once('\n').unwrap().1, expected);
        }
        let text = shown("let a = 1;\n", "let a = 1\u{200b};\n", DiffFormat::plain().words(true));
        assert_eq!(text, "@@ -1 +1 @@\n~let a = 1{+\\u{200b}+};\n");
    }

    #[test]
    fn left_out_changes_are_counted() {
        let numbers = |changed: &[usize]| -> String {
            (1..=30)
                .map(|n| if changed.contains(&n) { "x\n".into() } else { format!("{n}\n") })
                .collect()
        };
        let (before, after) = (numbers(&[]), numbers(&[5, 15, 25]));
        for (lines, expected) in [
            (100, None),
            (0, Some("[left out: 3 more places, +3 -3]")),
            (1, Some("[left out: 3 more places, +3 -3]")),
            (4, Some("[left out: 3 more places, +3 -3]")),
            (5, Some("[left out: 3 more places, +3 -2]")),
            (6, Some("[left out: 2 more places, +2 -2]")),
            (9, Some("[left out: 2 more places, +2 -2]")),
            (14, Some("[left out: 2 more places, +2 -1]")),
        ] {
            let text = shown(&before, &after, DiffFormat::plain().max_lines(lines));
            let last = text.lines().last().filter(|line| line.starts_with('['));
            assert_eq!(last, expected, "{lines} lines\n{text}");
            let shown = text.lines().filter(|line| !line.starts_with('[')).count();
            assert!(shown <= lines, "{shown}");
            let words =
                self::shown(&before, &after, DiffFormat::plain().words(true).max_lines(lines));
            assert_eq!(words, text, "nothing here is alike");
        }
        let text = shown("", &"a\n".repeat(10_000), DiffFormat::plain());
        assert!(text.ends_with("[left out: 1 more place, +9501 -0]\n"), "{text}");
        let text = shown("", &"a\n".repeat(10_000), DiffFormat::plain().whole());
        assert_eq!(text.lines().count(), 10_001);
    }

    #[test]
    fn difference_far_in_a_long_line_is_shown() {
        let line =
            |word: &str| format!("{}{word}{}\n", "some words ".repeat(300), " more".repeat(300));
        for look in [DiffFormat::plain(), DiffFormat::plain().words(true), DiffFormat::colour()] {
            let text = shown(&line("old"), &line("new"), look);
            assert!(text.contains("old") && text.contains("new"), "{text}");
            assert!(text.len() < 1_200, "{text}");
        }
        let text = shown(&line("old"), &line("new"), DiffFormat::plain().whole());
        assert!(!text.contains('…'), "{text}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// No character of a text controls the terminal.
        #[test]
        fn every_character_is_visible(
            before in "([ab]|\\PC|\\p{Cc}|\u{200b}|\u{202e}|\n){0,40}",
            after in "([ab]|\\PC|\\p{Cc}|\u{200b}|\u{202e}|\n){0,40}",
        ) {
            let diff = Diff::between(&before, &after);
            for look in [DiffFormat::plain(), DiffFormat::plain().words(true), DiffFormat::colour()] {
                let mut text = render(&diff, &look);
                for own in ["0", "2", "7", "27", "31", "32", "36"] {
                    text = text.replace(&format!("\x1b[{own}m"), "");
                }
                let hidden = text.chars().find(|c| quote::is_invisible(*c) && !"\n\t".contains(*c));
                prop_assert_eq!(hidden, None, "{:?}", text);
            }
        }

        /// One row of two lines holds the text of both.
        #[test]
        fn joined_row_holds_the_text_of_both_lines(old in "[abé _.]{0,20}", new in "[abé _.]{0,20}") {
            let diff = Diff::between(&old, &new);
            for hunk in diff.hunks() {
                let lines: Vec<DiffLine<'_>> = hunk.marked_lines().collect();
                let [a, b] = &lines[..] else { continue };
                // Lines without a pair have no marks, and are never joined.
                if a.words.is_empty() && b.words.is_empty() {
                    continue;
                }
                let woven = join_pieces(a, b);
                let side = |other: TextRole| -> String {
                    woven.iter().filter(|piece| piece.role != other).map(|piece| piece.text).collect()
                };
                prop_assert_eq!(side(TextRole::Added), old.clone());
                prop_assert_eq!(side(TextRole::Removed), new.clone());
            }
        }
    }
}
