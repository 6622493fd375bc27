//! The page that a diff is written on: with or without colours, of bounded length, without characters that control a terminal.

use std::fmt::Write as _;

use windlass_core::quote;

use crate::format;

/// Default limit of shown lines.
const DEFAULT_MAX_LINES: usize = 500;
/// Default limit of shown characters of a line.
const DEFAULT_MAX_CHARACTERS: usize = 400;
/// Limit of changed lines on one page that are compared word by word. Lines after them are shown without marks.
const MAX_PAIRED_LINES: usize = 50_000;
/// Number of characters shown before the first difference of a line whose beginning is left out.
const CHARACTERS_BEFORE_DIFFERENCE: usize = 40;

/// Output with or without colours.
///
/// ```
/// use windlass_tools::diff::{Diff, DiffFormat, DiffStyle, render};
///
/// let diff = Diff::between("a\n", "b\n");
/// assert!(!render(&diff, &DiffFormat::of(DiffStyle::Plain)).contains('\x1b'));
/// assert!(render(&diff, &DiffFormat::of(DiffStyle::Colour)).contains("\x1b[31m-a\x1b[0m"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffStyle {
    /// Characters only, without escape sequences.
    Plain,
    /// ANSI escape sequences: old lines red, new lines green, differing words inverse.
    Colour,
}

/// The format of a rendered diff.
///
/// ```
/// use windlass_tools::diff::{Diff, DiffFormat, render};
///
/// let diff = Diff::between("let a = 1;\n", "let a = 2;\n");
/// let look = DiffFormat::plain().words(true).numbers(true);
/// assert_eq!(render(&diff, &look), "@@ -1 +1 @@\n1 1 ~let a = [-1-]{+2+};\n");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffFormat {
    /// Colours or plain text.
    pub(super) style: DiffStyle,
    /// True if differing words are marked.
    pub(super) words: bool,
    /// True if lines are numbered.
    pub(super) numbers: bool,
    max_lines: usize,
    max_characters: usize,
}

impl DiffFormat {
    /// Returns a format without colours, word marks or line numbers: a unified diff.
    pub const fn plain() -> Self {
        Self {
            style: DiffStyle::Plain,
            words: false,
            numbers: false,
            max_lines: DEFAULT_MAX_LINES,
            max_characters: DEFAULT_MAX_CHARACTERS,
        }
    }

    /// Returns the format for a terminal: with colours, word marks and line numbers.
    pub const fn colour() -> Self {
        Self { style: DiffStyle::Colour, words: true, numbers: true, ..Self::plain() }
    }

    /// Returns the default format of a style.
    pub const fn of(style: DiffStyle) -> Self {
        match style {
            DiffStyle::Plain => Self::plain(),
            DiffStyle::Colour => Self::colour(),
        }
    }

    /// Sets whether differing words are marked: inverse in colour, `[-old-]{+new+}` in plain text. Plain text then shows an old and a
    /// new line that are similar as one line, with `~` before it.
    #[must_use]
    pub const fn words(mut self, marked: bool) -> Self {
        self.words = marked;
        self
    }

    /// Sets whether line numbers of the old and of the new text stand before the lines.
    #[must_use]
    pub const fn numbers(mut self, shown: bool) -> Self {
        self.numbers = shown;
        self
    }

    /// Sets the number of shown lines. Default: 500.
    #[must_use]
    pub const fn max_lines(mut self, lines: usize) -> Self {
        self.max_lines = lines;
        self
    }

    /// Shows all lines, and all of each line, so that a person can decide on a change.
    #[must_use]
    pub const fn whole(mut self) -> Self {
        self.max_lines = usize::MAX;
        self.max_characters = usize::MAX;
        self
    }
}

/// The part that a text plays in a diff; it decides the colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextRole {
    Heading,
    Hunk,
    Aside,
    Kept,
    Removed,
    Added,
}

impl TextRole {
    /// Returns the ANSI code of the colour; `None` for text without colour.
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Heading => Some("1"),
            Self::Hunk => Some("36"),
            Self::Aside => Some("2"),
            Self::Kept => None,
            Self::Removed => Some("31"),
            Self::Added => Some("32"),
        }
    }
}

/// A part of a line: in both texts (`Kept`), or in one of them only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinePiece<'a> {
    pub(super) role: TextRole,
    pub(super) text: &'a str,
}

/// A line of a hunk as it is shown: sign, line numbers, text and ending.
#[derive(Debug)]
pub(super) struct PageRow<'a> {
    pub(super) sign: char,
    pub(super) role: TextRole,
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
    pub(super) pieces: Vec<LinePiece<'a>>,
    /// Number of bytes at the end of the line that are blanks and are shown as `␠` and `␉`.
    pub(super) marked_blanks: usize,
    pub(super) ending: ShownEnding,
}

/// The visible mark at the end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShownEnding {
    /// The ending is not shown.
    Usual,
    /// A carriage return is shown.
    Return,
    /// A remark says that the text ends without a line feed.
    Missing,
}

/// Text written so far, with the number of changes that were left out.
#[derive(Debug)]
pub(super) struct DiffPage {
    look: DiffFormat,
    text: String,
    /// Number of lines of hunks that may still follow.
    lines_left: usize,
    /// Number of changed lines whose words may still be compared.
    paired_lines_left: usize,
    /// Width of a line number in digits.
    digits: usize,
    /// New and removed lines that are not shown.
    left_out: LineCounts,
    /// Number of changed places that are not shown or not fully shown.
    places_left_out: usize,
}

/// Numbers of new and of removed lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LineCounts {
    pub(super) added: usize,
    pub(super) removed: usize,
}

impl DiffPage {
    /// Makes an empty page for texts of at most `lines` lines.
    pub(super) fn new(look: DiffFormat, lines: usize) -> Self {
        let digits = lines.max(1).ilog10() as usize + 1;
        Self {
            look,
            text: String::new(),
            lines_left: look.max_lines,
            paired_lines_left: MAX_PAIRED_LINES,
            digits,
            left_out: LineCounts::default(),
            places_left_out: 0,
        }
    }

    /// Returns the text. A last line counts the changes that are not shown.
    pub(super) fn finish(mut self) -> String {
        if self.places_left_out > 0 {
            let places = format::count(self.places_left_out, "more place", "more places");
            let LineCounts { added, removed } = self.left_out;
            self.push_line(TextRole::Aside, &format!("[left out: {places}, +{added} -{removed}]"));
        }
        self.text
    }

    /// Returns the format of the page.
    pub(super) fn format(&self) -> DiffFormat {
        self.look
    }

    /// Returns whether so many lines of hunks can follow.
    pub(super) fn has_room(&self, lines: usize) -> bool {
        self.lines_left >= lines
    }

    /// Takes so many lines from those whose words may be compared. Returns false if fewer are left.
    pub(super) fn take_paired(&mut self, lines: usize) -> bool {
        let left = self.paired_lines_left.checked_sub(lines);
        self.paired_lines_left = left.unwrap_or(self.paired_lines_left);
        left.is_some()
    }

    /// Counts changed lines of one place that are not shown.
    pub(super) fn leave_out(&mut self, count: LineCounts) {
        if count != LineCounts::default() {
            self.places_left_out += 1;
            self.left_out.added += count.added;
            self.left_out.removed += count.removed;
        }
    }

    /// Adds a whole line in one colour, with invisible characters escaped.
    pub(super) fn push_line(&mut self, role: TextRole, words: &str) {
        self.push(role, &quote::visible(words));
        self.text.push('\n');
    }

    /// Adds the header of a hunk.
    pub(super) fn push_header(&mut self, header: &str) {
        self.lines_left = self.lines_left.saturating_sub(1);
        self.push_line(TextRole::Hunk, header);
    }

    /// Adds a line of a hunk, cut to the limit of characters.
    pub(super) fn push_row(&mut self, row: &PageRow<'_>) {
        self.lines_left = self.lines_left.saturating_sub(1);
        if self.look.numbers {
            self.push_numbers(row.before, row.after);
        }
        self.begin_colour(row.role);
        self.text.push(row.sign);
        let cut = CutRow::of(&row.pieces, self.look.max_characters);
        self.text.push_str(if cut.front { "…" } else { "" });
        let blanks = if cut.back { 0 } else { row.marked_blanks };
        let mut left: usize = cut.pieces.iter().map(|piece| piece.text.len()).sum();
        for piece in &cut.pieces {
            left -= piece.text.len();
            let text = piece.text.len() - blanks.saturating_sub(left).min(piece.text.len());
            self.push_piece(*piece, text);
        }
        self.text.push_str(if cut.back { "… [cut]" } else { "" });
        self.text.push_str(if row.ending == ShownEnding::Return { "␍" } else { "" });
        self.end_colour(row.role);
        self.text.push('\n');
        if row.ending == ShownEnding::Missing {
            self.push_line(TextRole::Aside, "\\ No newline at end of file");
        }
    }

    /// Adds the line numbers, padded to equal width.
    fn push_numbers(&mut self, before: Option<usize>, after: Option<usize>) {
        let number = |number: Option<usize>| number.map(|number| number.to_string());
        let (before, after) =
            (number(before).unwrap_or_default(), number(after).unwrap_or_default());
        let digits = self.digits;
        self.push(TextRole::Aside, &format!("{before:>digits$} {after:>digits$}"));
        self.text.push(' ');
    }

    /// Adds a part of a line, with marks around it if it differs and words are marked. The blanks after its first `length` bytes are
    /// shown.
    fn push_piece(&mut self, piece: LinePiece<'_>, length: usize) {
        let (text, blanks) = piece.text.split_at_checked(length).unwrap_or((piece.text, ""));
        let mut text = quote::visible(text);
        if !blanks.is_empty() {
            text.to_mut().push_str(&blanks.replace(' ', "␠").replace('\t', "␉"));
        }
        if !self.look.words || piece.role == TextRole::Kept {
            self.text.push_str(&text);
            return;
        }
        let (open, close) = match (self.look.style, piece.role) {
            (DiffStyle::Colour, _) => ("\x1b[7m", "\x1b[27m"),
            (DiffStyle::Plain, TextRole::Removed) => ("[-", "-]"),
            (DiffStyle::Plain, _) => ("{+", "+}"),
        };
        self.text.push_str(open);
        // A tab that differs must be visible.
        self.text.push_str(&text.replace('\t', "␉"));
        self.text.push_str(close);
    }

    /// Adds text in one colour. The caller must have escaped invisible characters.
    fn push(&mut self, role: TextRole, text: &str) {
        self.begin_colour(role);
        self.text.push_str(text);
        self.end_colour(role);
    }

    /// Starts the colour of a role, if the page has colours.
    fn begin_colour(&mut self, role: TextRole) {
        if let (DiffStyle::Colour, Some(code)) = (self.look.style, role.code()) {
            let written = write!(self.text, "\x1b[{code}m");
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
    }

    /// Ends the colour of a role, if the page has colours.
    fn end_colour(&mut self, role: TextRole) {
        if self.look.style == DiffStyle::Colour && role.code().is_some() {
            self.text.push_str("\x1b[0m");
        }
    }
}

/// Returns a text in one colour, with invisible characters escaped.
pub(super) fn paint(look: DiffFormat, role: TextRole, text: &str) -> String {
    let mut page = DiffPage::new(look, 0);
    page.push(role, &quote::visible(text));
    page.text
}

/// The parts of a line that are shown within the limit, including its first difference.
struct CutRow<'a> {
    /// True if the beginning of the line is left out.
    front: bool,
    pieces: Vec<LinePiece<'a>>,
    /// True if the end of the line is left out.
    back: bool,
}

impl<'a> CutRow<'a> {
    /// Cuts the pieces to `max` characters; a long common beginning is cut first.
    fn of(pieces: &[LinePiece<'a>], max: usize) -> Self {
        let bytes: usize = pieces.iter().map(|piece| piece.text.len()).sum();
        if bytes <= max {
            return Self { front: false, pieces: pieces.to_vec(), back: false };
        }
        let mut cut = Self { front: false, pieces: Vec::with_capacity(pieces.len()), back: false };
        let mut room = max;
        for (nth, piece) in pieces.iter().enumerate() {
            let mut text = piece.text;
            if nth == 0
                && pieces.len() > 1
                && piece.role == TextRole::Kept
                && is_longer(text, max / 2)
            {
                text = last_characters(text, CHARACTERS_BEFORE_DIFFERENCE);
                cut.front = true;
            }
            let Some((end, _)) = text.char_indices().nth(room) else {
                room -= text.chars().count();
                cut.pieces.push(LinePiece { text, ..*piece });
                continue;
            };
            let text = text.get(..end).unwrap_or_default();
            cut.back = true;
            cut.pieces.extend((!text.is_empty()).then_some(LinePiece { text, ..*piece }));
            break;
        }
        cut
    }
}

/// Returns whether a text has more than `characters` characters.
fn is_longer(text: &str, characters: usize) -> bool {
    text.chars().nth(characters).is_some()
}

/// Returns the last `count` characters of a text.
fn last_characters(text: &str, count: usize) -> &str {
    let start = text.char_indices().rev().take(count).last().map_or(text.len(), |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_its_first_difference() {
        let long = "é".repeat(500);
        let check = |pieces: &[(TextRole, &str)], expected: &str| {
            let pieces: Vec<LinePiece<'_>> =
                pieces.iter().map(|(role, text)| LinePiece { role: *role, text }).collect();
            let mut page = DiffPage::new(DiffFormat::plain().words(true), 1);
            page.push_row(&PageRow {
                sign: '~',
                role: TextRole::Kept,
                before: None,
                after: None,
                pieces,
                marked_blanks: 0,
                ending: ShownEnding::Usual,
            });
            assert_eq!(page.finish(), expected);
        };
        check(&[(TextRole::Kept, "short")], "~short\n");
        check(&[(TextRole::Kept, &"é".repeat(400))], &format!("~{}\n", "é".repeat(400)));
        check(&[(TextRole::Kept, &long)], &format!("~{}… [cut]\n", "é".repeat(400)));
        check(
            &[(TextRole::Kept, &long), (TextRole::Removed, "x"), (TextRole::Added, "y")],
            &format!("~…{}[-x-]{{+y+}}\n", "é".repeat(40)),
        );
        check(
            &[(TextRole::Kept, &long), (TextRole::Added, "y"), (TextRole::Kept, &long)],
            &format!("~…{}{{+y+}}{}… [cut]\n", "é".repeat(40), "é".repeat(359)),
        );
        check(
            &[(TextRole::Kept, "a"), (TextRole::Added, &long)],
            &format!("~a{{+{}+}}… [cut]\n", "é".repeat(399)),
        );
    }
}
