//! The page that a diff is written on: with or without colours, of bounded length, and no character in it that acts on a terminal.

use std::fmt::Write as _;

use windlass_core::quote;

use crate::format;

/// How many lines of hunks are shown unless more are asked for.
const MAX_LINES: usize = 500;
/// How many characters of a line are shown unless more are asked for.
const MAX_CHARACTERS: usize = 400;
/// How many characters stand before the first difference in a line whose beginning is left out.
const LEAD: usize = 40;

/// With colours, or without.
///
/// ```
/// use windlass_tools::diff::{Diff, Look, Style, render};
///
/// let diff = Diff::between("a\n", "b\n");
/// assert!(!render(&diff, &Look::of(Style::Plain)).contains('\x1b'));
/// assert!(render(&diff, &Look::of(Style::Colour)).contains("\x1b[31m-a\x1b[0m"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Characters only.
    Plain,
    /// ANSI sequences: old lines red, new ones green, the words that differ inverse.
    Colour,
}

/// How a diff is to look.
///
/// ```
/// use windlass_tools::diff::{Diff, Look, render};
///
/// let diff = Diff::between("let a = 1;\n", "let a = 2;\n");
/// let look = Look::plain().words(true).numbers(true);
/// assert_eq!(render(&diff, &look), "@@ -1 +1 @@\n1 1 ~let a = [-1-]{+2+};\n");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub(super) style: Style,
    pub(super) words: bool,
    pub(super) numbers: bool,
    max_lines: usize,
    max_characters: usize,
}

impl Look {
    /// Without colours, words or numbers: a unified diff.
    pub const fn plain() -> Self {
        Self {
            style: Style::Plain,
            words: false,
            numbers: false,
            max_lines: MAX_LINES,
            max_characters: MAX_CHARACTERS,
        }
    }

    /// For a terminal: with colours, words and numbers.
    pub const fn colour() -> Self {
        Self { style: Style::Colour, words: true, numbers: true, ..Self::plain() }
    }

    /// The usual look in this style.
    pub const fn of(style: Style) -> Self {
        match style {
            Style::Plain => Self::plain(),
            Style::Colour => Self::colour(),
        }
    }

    /// Whether words that differ are marked: inverse in colour, `[-old-]{+new+}` in plain text. There, an old and a new line that
    /// are like each other become one line, with `~` before it.
    #[must_use]
    pub const fn words(mut self, marked: bool) -> Self {
        self.words = marked;
        self
    }

    /// Whether the numbers of the lines stand before them, in the old text and in the new one.
    #[must_use]
    pub const fn numbers(mut self, shown: bool) -> Self {
        self.numbers = shown;
        self
    }

    /// How many lines are shown. Default: 500.
    #[must_use]
    pub const fn max_lines(mut self, lines: usize) -> Self {
        self.max_lines = lines;
        self
    }

    /// Leaves out nothing: all lines, and all of each line. For whoever has to decide on a change.
    #[must_use]
    pub const fn whole(mut self) -> Self {
        self.max_lines = usize::MAX;
        self.max_characters = usize::MAX;
        self
    }
}

/// What something is, and so how it is painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Heading,
    Hunk,
    Aside,
    Kept,
    Removed,
    Added,
}

impl Ink {
    /// The ANSI code; `None` for what is left as it is.
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

/// A part of a line: common to both texts (`Kept`), or in one of them only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) ink: Ink,
    pub(super) text: &'a str,
}

/// A line of a hunk as it is shown.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) sign: char,
    pub(super) ink: Ink,
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
    pub(super) pieces: Vec<Piece<'a>>,
    pub(super) ending: Ending,
}

/// What is shown of the end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// As everywhere.
    Usual,
    /// A carriage return that matters.
    Return,
    /// The text ends without a line feed.
    Missing,
}

/// What is written down so far, and what had to be left out.
#[derive(Debug)]
pub(super) struct Page {
    look: Look,
    text: String,
    /// How many more lines of hunks may follow.
    room: usize,
    /// How many digits a line number has.
    digits: usize,
    left_out: Count,
    places_left_out: usize,
}

/// How many lines are new, and how many are gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) added: usize,
    pub(super) removed: usize,
}

impl Page {
    /// An empty page for texts of at most so many lines.
    pub(super) fn new(look: Look, lines: usize) -> Self {
        let digits = lines.max(1).ilog10() as usize + 1;
        Self {
            look,
            text: String::new(),
            room: look.max_lines,
            digits,
            left_out: Count::default(),
            places_left_out: 0,
        }
    }

    /// The text, with a last line that says what is not in it.
    pub(super) fn finish(mut self) -> String {
        if self.places_left_out > 0 {
            let places = format::count(self.places_left_out, "more place", "more places");
            let Count { added, removed } = self.left_out;
            self.push_line(Ink::Aside, &format!("[left out: {places}, +{added} -{removed}]"));
        }
        self.text
    }

    pub(super) fn look(&self) -> Look {
        self.look
    }

    /// Whether so many lines of hunks can follow.
    pub(super) fn has_room(&self, lines: usize) -> bool {
        self.room >= lines
    }

    /// Notes that changed lines of one place are not shown.
    pub(super) fn leave_out(&mut self, count: Count) {
        if count != Count::default() {
            self.places_left_out += 1;
            self.left_out.added += count.added;
            self.left_out.removed += count.removed;
        }
    }

    /// Adds a whole line of one kind.
    pub(super) fn push_line(&mut self, ink: Ink, words: &str) {
        self.push(ink, &quote::visible(words));
        self.text.push('\n');
    }

    /// Adds the header of a hunk.
    pub(super) fn push_header(&mut self, header: &str) {
        self.room = self.room.saturating_sub(1);
        self.push_line(Ink::Hunk, header);
    }

    /// Adds a line of a hunk.
    pub(super) fn push_row(&mut self, row: &Row<'_>) {
        self.room = self.room.saturating_sub(1);
        if self.look.numbers {
            self.push_numbers(row.before, row.after);
        }
        self.begin(row.ink);
        self.text.push(row.sign);
        let cut = Cut::of(&row.pieces, self.look.max_characters);
        self.text.push_str(if cut.front { "…" } else { "" });
        for piece in &cut.pieces {
            self.push_piece(*piece);
        }
        self.text.push_str(if cut.back { "… [cut]" } else { "" });
        self.text.push_str(if row.ending == Ending::Return { "␍" } else { "" });
        self.end(row.ink);
        self.text.push('\n');
        if row.ending == Ending::Missing {
            self.push_line(Ink::Aside, "\\ No newline at end of file");
        }
    }

    fn push_numbers(&mut self, before: Option<usize>, after: Option<usize>) {
        let number = |number: Option<usize>| number.map(|number| number.to_string());
        let (before, after) =
            (number(before).unwrap_or_default(), number(after).unwrap_or_default());
        let digits = self.digits;
        self.push(Ink::Aside, &format!("{before:>digits$} {after:>digits$}"));
        self.text.push(' ');
    }

    fn push_piece(&mut self, piece: Piece<'_>) {
        let text = quote::visible(piece.text);
        if !self.look.words || piece.ink == Ink::Kept {
            self.text.push_str(&text);
            return;
        }
        let (open, close) = match (self.look.style, piece.ink) {
            (Style::Colour, _) => ("\x1b[7m", "\x1b[27m"),
            (Style::Plain, Ink::Removed) => ("[-", "-]"),
            (Style::Plain, _) => ("{+", "+}"),
        };
        self.text.push_str(open);
        // What differs must be seen, also if it is a tab.
        self.text.push_str(&text.replace('\t', "␉"));
        self.text.push_str(close);
    }

    /// Adds text of one kind; what is not visible in it must have been spelled out.
    fn push(&mut self, ink: Ink, text: &str) {
        self.begin(ink);
        self.text.push_str(text);
        self.end(ink);
    }

    fn begin(&mut self, ink: Ink) {
        if let (Style::Colour, Some(code)) = (self.look.style, ink.code()) {
            let written = write!(self.text, "\x1b[{code}m");
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
    }

    fn end(&mut self, ink: Ink) {
        if self.look.style == Style::Colour && ink.code().is_some() {
            self.text.push_str("\x1b[0m");
        }
    }
}

/// Text of one kind, by itself.
pub(super) fn painted(look: Look, ink: Ink, text: &str) -> String {
    let mut page = Page::new(look, 0);
    page.push(ink, &quote::visible(text));
    page.text
}

/// The pieces of a line that are shown, such that the first difference is among them.
struct Cut<'a> {
    front: bool,
    pieces: Vec<Piece<'a>>,
    back: bool,
}

impl<'a> Cut<'a> {
    fn of(pieces: &[Piece<'a>], max: usize) -> Self {
        let bytes: usize = pieces.iter().map(|piece| piece.text.len()).sum();
        if bytes <= max {
            return Self { front: false, pieces: pieces.to_vec(), back: false };
        }
        let mut cut = Self { front: false, pieces: Vec::with_capacity(pieces.len()), back: false };
        let mut room = max;
        for (nth, piece) in pieces.iter().enumerate() {
            let mut text = piece.text;
            if nth == 0 && pieces.len() > 1 && piece.ink == Ink::Kept && is_longer(text, max / 2) {
                text = last_characters(text, LEAD);
                cut.front = true;
            }
            let Some((end, _)) = text.char_indices().nth(room) else {
                room -= text.chars().count();
                cut.pieces.push(Piece { text, ..*piece });
                continue;
            };
            let text = text.get(..end).unwrap_or_default();
            cut.back = true;
            cut.pieces.extend((!text.is_empty()).then_some(Piece { text, ..*piece }));
            break;
        }
        cut
    }
}

fn is_longer(text: &str, characters: usize) -> bool {
    text.chars().nth(characters).is_some()
}

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
        let check = |pieces: &[(Ink, &str)], expected: &str| {
            let pieces: Vec<Piece<'_>> =
                pieces.iter().map(|(ink, text)| Piece { ink: *ink, text }).collect();
            let mut page = Page::new(Look::plain().words(true), 1);
            page.push_row(&Row {
                sign: '~',
                ink: Ink::Kept,
                before: None,
                after: None,
                pieces,
                ending: Ending::Usual,
            });
            assert_eq!(page.finish(), expected);
        };
        check(&[(Ink::Kept, "short")], "~short\n");
        check(&[(Ink::Kept, &"é".repeat(400))], &format!("~{}\n", "é".repeat(400)));
        check(&[(Ink::Kept, &long)], &format!("~{}… [cut]\n", "é".repeat(400)));
        check(
            &[(Ink::Kept, &long), (Ink::Removed, "x"), (Ink::Added, "y")],
            &format!("~…{}[-x-]{{+y+}}\n", "é".repeat(40)),
        );
        check(
            &[(Ink::Kept, &long), (Ink::Added, "y"), (Ink::Kept, &long)],
            &format!("~…{}{{+y+}}{}… [cut]\n", "é".repeat(40), "é".repeat(359)),
        );
        check(
            &[(Ink::Kept, "a"), (Ink::Added, &long)],
            &format!("~a{{+{}+}}… [cut]\n", "é".repeat(399)),
        );
    }
}
