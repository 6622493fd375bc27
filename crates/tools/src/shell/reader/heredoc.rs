//! Here-documents: text for a command, from the next line up to one that holds a chosen word.

use super::Reader;

/// The word that ends a here-document.
#[derive(Debug)]
pub(super) struct Delimiter {
    text: Vec<u8>,
    /// Whether nothing in the document is expanded.
    is_quoted: bool,
    /// Whether tabs at the beginning of lines do not count.
    strips_tabs: bool,
}

impl Reader<'_> {
    /// Reads the word behind `<<`: letters and digits, quoted or not.
    pub(super) fn delimiter(&mut self, strips_tabs: bool) {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"' | b'\\'));
        self.at += usize::from(quote.is_some());
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            self.at += 1;
        }
        let text = self.text.get(begin..self.at).unwrap_or_default().to_vec();
        if let Some(quote @ (b'\'' | b'"')) = quote {
            if self.peek() != Some(quote) {
                return self.stop("the end of a here-document is an unusual word");
            }
            self.at += 1;
        }
        let is_whole = self.peek().is_none_or(|byte| b" \t\n;|&)<>".contains(&byte));
        if text.is_empty() || !is_whole {
            return self.stop("the end of a here-document is an unusual word");
        }
        self.waiting.push(Delimiter { text, is_quoted: quote.is_some(), strips_tabs });
    }

    /// Passes over a here-document, whose first line is next.
    pub(super) fn here_document(&mut self, delimiter: &Delimiter) {
        loop {
            let Some(rest) = self.text.get(self.at..).filter(|rest| !rest.is_empty()) else {
                return self.stop("a here-document has no end");
            };
            let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let line = rest.get(..length).unwrap_or_default();
            let tabs = line.iter().take_while(|byte| **byte == b'\t').count();
            let stripped = if delimiter.strips_tabs { line.get(tabs..) } else { Some(line) };
            let is_end = stripped == Some(delimiter.text.as_slice());
            if !is_end && !delimiter.is_quoted && line.iter().any(|byte| b"$`\\".contains(byte)) {
                return self.stop("a here-document expands something");
            }
            if line.iter().any(|byte| *byte < b' ' && *byte != b'\t') {
                return self.stop("it has a control character");
            }
            self.at = (self.at + length + 1).min(self.text.len());
            if is_end {
                return;
            }
        }
    }
}
