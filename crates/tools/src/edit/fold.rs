//! Text with differences taken out that a reader does not see, and the way back to the real bytes.
//!
//! Both the file and what is looked for are folded; a place that is found in the folded file is then turned into the place in
//! the file itself. Only the beginning of each line is remembered: the rest is found by folding that one line again.

use std::ops::Range;

/// What does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// Whether a line ends with a carriage return.
    LineEndings,
    /// Also white space at the end of a line, and how much of it there is between words. Indentation counts.
    Whitespace,
}

/// A folded text.
pub(super) struct Folded<'a> {
    fold: Fold,
    original: &'a [u8],
    bytes: Vec<u8>,
    /// Where each line begins: folded, and in the original.
    lines: Vec<(usize, usize)>,
}

impl<'a> Folded<'a> {
    pub(super) fn new(fold: Fold, original: &'a [u8]) -> Self {
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

    /// The folded bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of the original that a part of the folded ones stands for. It must not be empty.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        let start = self.origin(range.start).start;
        let end = self.origin(range.end.saturating_sub(1)).end;
        start..end.max(start)
    }

    /// The bytes that one folded byte stands for.
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

/// Gives out the folded bytes of a line, each with the bytes of the line that it stands for.
fn fold_line(fold: Fold, line: &[u8], emit: &mut dyn FnMut(u8, Range<usize>)) {
    let (content, closed) = match line.strip_suffix(b"\n") {
        Some(content) => (content, true),
        None => (line, false),
    };
    let content = match fold {
        Fold::LineEndings if closed => content.strip_suffix(b"\r").unwrap_or(content),
        Fold::LineEndings => content,
        Fold::Whitespace => trim_end(content),
    };
    match fold {
        Fold::LineEndings => emit_all(content, 0, emit),
        Fold::Whitespace => emit_words(content, emit),
    }
    if closed {
        emit(b'\n', content.len()..line.len());
    }
}

fn emit_all(bytes: &[u8], start: usize, emit: &mut dyn FnMut(u8, Range<usize>)) {
    for (at, byte) in bytes.iter().enumerate() {
        emit(*byte, start + at..start + at + 1);
    }
}

/// The indentation as it is, then words with one space between them.
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

/// The spaces and tabs that a line begins with.
pub(crate) fn indentation(line: &[u8]) -> &[u8] {
    let len = line.iter().take_while(|byte| is_blank(**byte)).count();
    line.get(..len).unwrap_or_default()
}

/// The line without white space at its end.
pub(super) fn trim_end(line: &[u8]) -> &[u8] {
    let blank = line.iter().rev().take_while(|byte| is_blank(**byte) || **byte == b'\r').count();
    line.get(..line.len() - blank).unwrap_or_default()
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Whether two lines are the same but for indentation, white space at the end and its amount in between.
pub(crate) fn same_words(a: &[u8], b: &[u8]) -> bool {
    words(a).eq(words(b))
}

/// A line without white space around it, and with one space wherever there are blanks.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let line = trim_start(trim_end(line));
    let after_blank = std::iter::once(false).chain(line.iter().map(|byte| is_blank(*byte)));
    line.iter().zip(after_blank).filter_map(|(byte, after_blank)| match is_blank(*byte) {
        true if after_blank => None,
        true => Some(b' '),
        false => Some(*byte),
    })
}

fn trim_start(line: &[u8]) -> &[u8] {
    line.get(indentation(line).len()..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(fold: Fold, text: &str) -> String {
        String::from_utf8(Folded::new(fold, text.as_bytes()).bytes().to_vec()).unwrap()
    }

    #[test]
    fn what_does_not_count_is_gone() {
        for (text, endings, whitespace) in [
            ("", "", ""),
            ("a\r\nb\n", "a\nb\n", "a\nb\n"),
            ("a\r", "a\r", "a"),
            ("\t a \t b  \r\n", "\t a \t b  \n", "\t a b\n"),
            ("  \n x", "  \n x", "\n x"),
        ] {
            assert_eq!(folded(Fold::LineEndings, text), endings, "{text:?}");
            assert_eq!(folded(Fold::Whitespace, text), whitespace, "{text:?}");
        }
    }

    #[test]
    fn places_are_found_again() {
        let text = "one\r\n  two   three \r\nfour";
        let folded = Folded::new(Fold::Whitespace, text.as_bytes());
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
    fn words_are_compared() {
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
