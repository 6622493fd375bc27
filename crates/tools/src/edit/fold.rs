//! Text with invisible differences folded away, and a map back to the original bytes.
//!
//! The file and the searched text are both folded; a match in the folded file is then mapped to the file itself. Only the start of each
//! line is stored: positions inside a line are found by folding that line again.

use std::ops::Range;

/// The differences that a search ignores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldMode {
    /// Ignores the carriage return at the end of a line.
    LineEndings,
    /// Also ignores white space at the end of a line and the amount of white space between words. Indentation counts.
    Whitespace,
}

/// A folded text with a map to its original.
pub(super) struct FoldedText<'a> {
    fold: FoldMode,
    original: &'a [u8],
    bytes: Vec<u8>,
    /// Start of each line: (position in the folded bytes, position in the original).
    lines: Vec<(usize, usize)>,
}

impl<'a> FoldedText<'a> {
    /// Folds a text.
    pub(super) fn new(fold: FoldMode, original: &'a [u8]) -> Self {
        let mut folded =
            Self { fold, original, bytes: Vec::with_capacity(original.len()), lines: Vec::new() };
        let mut start = 0;
        for line in original.split_inclusive(|byte| *byte == b'\n') {
            folded.lines.push((folded.bytes.len(), start));
            fold_line(fold, line, &mut |byte, _| folded.bytes.push(byte));
            start += line.len();
        }
        folded
    }

    /// Returns the folded bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Maps a range of folded bytes to the original. The range must not be empty.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        let start = self.origin(range.start).start;
        let end = self.origin(range.end.saturating_sub(1)).end;
        start..end.max(start)
    }

    /// Maps one folded byte to its range in the original.
    fn origin(&self, at: usize) -> Range<usize> {
        let line = self.lines.partition_point(|(folded, _)| *folded <= at).saturating_sub(1);
        let (folded, start) = self.lines.get(line).copied().unwrap_or_default();
        let end = self.lines.get(line + 1).map_or(self.original.len(), |(_, start)| *start);
        let mut left = at - folded;
        let mut found = 0..0;
        fold_line(self.fold, self.original.get(start..end).unwrap_or_default(), &mut |_, range| {
            if left == 0 {
                found = range;
            }
            left = left.wrapping_sub(1);
        });
        start + found.start..start + found.end
    }
}

/// Calls `emit` with each folded byte of a line and its range in the line.
fn fold_line(fold: FoldMode, line: &[u8], emit: &mut dyn FnMut(u8, Range<usize>)) {
    let (content, closed) = match line.strip_suffix(b"\n") {
        Some(content) => (content, true),
        None => (line, false),
    };
    let content = match fold {
        FoldMode::LineEndings if closed => content.strip_suffix(b"\r").unwrap_or(content),
        FoldMode::LineEndings => content,
        FoldMode::Whitespace => trim_end(content),
    };
    match fold {
        FoldMode::LineEndings => emit_all(content, 0, emit),
        FoldMode::Whitespace => emit_words(content, emit),
    }
    if closed {
        emit(b'\n', content.len()..line.len());
    }
}

/// Emits bytes unchanged; `start` is their position in the line.
fn emit_all(bytes: &[u8], start: usize, emit: &mut dyn FnMut(u8, Range<usize>)) {
    for (at, byte) in bytes.iter().enumerate() {
        emit(*byte, start + at..start + at + 1);
    }
}

/// Emits the indentation unchanged, then words with one space between them.
fn emit_words(content: &[u8], emit: &mut dyn FnMut(u8, Range<usize>)) {
    let indentation = indentation(content).len();
    emit_all(content.get(..indentation).unwrap_or_default(), 0, emit);
    let mut at = indentation;
    while let Some(byte) = content.get(at) {
        let run = content.iter().skip(at).take_while(|byte| is_blank(**byte)).count();
        let len = run.max(1);
        emit(if run > 0 { b' ' } else { *byte }, at..at + len);
        at += len;
    }
}

/// Returns the spaces and tabs at the start of a line.
pub(crate) fn indentation(line: &[u8]) -> &[u8] {
    let len = line.iter().take_while(|byte| is_blank(**byte)).count();
    line.get(..len).unwrap_or_default()
}

/// Returns the line without white space and carriage returns at its end.
pub(super) fn trim_end(line: &[u8]) -> &[u8] {
    let blank = line.iter().rev().take_while(|byte| is_blank(**byte) || **byte == b'\r').count();
    line.get(..line.len() - blank).unwrap_or_default()
}

/// Returns whether a byte is a space or a tab.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Returns whether two lines are equal apart from their white space: indentation, trailing blanks, and the amount between words.
pub(crate) fn same_words(a: &[u8], b: &[u8]) -> bool {
    words(a).eq(words(b))
}

/// Returns the bytes of a line without white space at either end, and with one space for each run of blanks inside.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let line = trim_start(trim_end(line));
    let after_blank = std::iter::once(false).chain(line.iter().map(|byte| is_blank(*byte)));
    line.iter().zip(after_blank).filter_map(|(byte, after_blank)| match is_blank(*byte) {
        true if after_blank => None,
        true => Some(b' '),
        false => Some(*byte),
    })
}

/// Returns the line without its indentation.
fn trim_start(line: &[u8]) -> &[u8] {
    line.get(indentation(line).len()..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold_text(fold: FoldMode, text: &str) -> String {
        String::from_utf8(FoldedText::new(fold, text.as_bytes()).bytes().to_vec()).unwrap()
    }

    #[test]
    fn ignored_differences_are_folded_away() {
        for (text, endings, whitespace) in [
            ("", "", ""),
            ("a\r\nb\n", "a\nb\n", "a\nb\n"),
            ("a\r", "a\r", "a"),
            ("\t a \t b  \r\n", "\t a \t b  \n", "\t a b\n"),
            ("  \n x", "  \n x", "\n x"),
        ] {
            assert_eq!(fold_text(FoldMode::LineEndings, text), endings, "{text:?}");
            assert_eq!(fold_text(FoldMode::Whitespace, text), whitespace, "{text:?}");
        }
    }

    #[test]
    fn positions_map_back_to_the_original() {
        let text = "one\r\n  two   three \r\nfour";
        let folded = FoldedText::new(FoldMode::Whitespace, text.as_bytes());
        let bytes = std::str::from_utf8(folded.bytes()).unwrap();
        for (part, original) in [
            ("one", "one"),
            ("one\n", "one\r\n"),
            ("two three", "two   three"),
            ("three\nfour", "three \r\nfour"),
            ("\n  two", "\r\n  two"),
        ] {
            let start = bytes.find(part).unwrap();
            assert_eq!(&text[folded.original(start..start + part.len())], original, "{part:?}");
        }
    }

    #[test]
    fn lines_are_compared_by_words() {
        for (a, b, same) in [
            ("  a  b ", "\ta b", true),
            ("a b", "ab", false),
            ("", "   ", true),
            ("a", "a b", false),
            ("a\t=\t1\r", "a = 1", true),
        ] {
            assert_eq!(same_words(a.as_bytes(), b.as_bytes()), same, "{a:?} {b:?}");
        }
    }
}
