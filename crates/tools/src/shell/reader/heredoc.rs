//! Here-documents: input for a command that stands in the script, up to a line with a chosen word.

use super::Reader;

/// The word that ends a here-document.
#[derive(Debug)]
pub(super) struct Delimiter {
    text: Vec<u8>,
    /// True if the word is quoted: then nothing in the document is expanded.
    is_quoted: bool,
    /// True for `<<-`, which removes tabs at the beginning of lines.
    strips_tabs: bool,
}

impl Reader<'_> {
    /// Reads the word behind `<<`: letters, digits and underscores, quoted or not.
    pub(super) fn heredoc_delimiter(&mut self, strips_tabs: bool) {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"' | b'\\'));
        self.at += usize::from(quote.is_some());
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            self.at += 1;
        }
        let text = self.text.get(begin..self.at).unwrap_or_default().to_vec();
        if let Some(quote @ (b'\'' | b'"')) = quote {
            if self.peek() != Some(quote) {
                return self.stop("the delimiter of a here-document is unusual");
            }
            self.at += 1;
        }
        let is_whole = self.peek().is_none_or(|byte| b" \t\n;|&)<>".contains(&byte));
        if text.is_empty() || !is_whole {
            return self.stop("the delimiter of a here-document is unusual");
        }
        self.pending_heredocs.push(Delimiter { text, is_quoted: quote.is_some(), strips_tabs });
    }

    /// Skips the lines of a here-document. Stops if they contain an expansion.
    pub(super) fn skip_here_document(&mut self, delimiter: &Delimiter) {
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
                return self.stop("a here-document contains an expansion");
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
