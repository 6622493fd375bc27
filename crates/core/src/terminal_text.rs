//! Turns a program's output into readable text: removes terminal sequences and replaces bytes that are not UTF-8.
//!
//! A line that is overwritten again and again, like a progress bar, becomes its last version. Works on pieces of any length; the
//! result does not depend on where the output is cut.

/// Converts a program's output into text, piece by piece.
///
/// ```
/// use windlass_core::TerminalText;
/// let mut text = String::new();
/// let mut plain = TerminalText::default();
/// plain.push(b"\x1b[1;3", &mut text);
/// plain.push(b"1mred\x1b[0m\r\n 10 %\r 99 %\n", &mut text);
/// plain.end(&mut text);
/// assert_eq!(text, "red\n 99 %\n");
/// ```
#[derive(Debug, Default)]
pub struct TerminalText {
    sequence: SequenceState,
    /// The first bytes of an incomplete UTF-8 character.
    pending: Vec<u8>,
    /// A carriage return came last. It may be the first half of a line end, or the line will be overwritten.
    after_return: bool,
    /// Number of bytes at the end of the text that belong to the current line and can still be overwritten.
    line_bytes: usize,
}

/// The position in a terminal sequence.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum SequenceState {
    /// Outside of any sequence.
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// ESC and an intermediate byte: one more ends it.
    Charset,
    /// After ESC [, until a final byte.
    Sequence,
    /// In a string that begins with ESC and one of `]PX^_` and ends with BEL or ESC \.
    String,
    /// After ESC inside of such a string.
    StringEscape,
}

impl TerminalText {
    /// Appends the text of a piece. A later piece can change the end of the text of an earlier one, so pass the same text for all
    /// pieces, or an empty one for each.
    pub fn push(&mut self, bytes: &[u8], text: &mut String) {
        self.line_bytes = self.line_bytes.min(text.len());
        let mut rest = bytes;
        while let Some((&byte, behind)) = rest.split_first() {
            if self.sequence == SequenceState::Text && is_printable(byte) && self.pending.is_empty()
            {
                let run = rest.iter().position(|byte| !is_printable(*byte)).unwrap_or(rest.len());
                let (run, behind) = rest.split_at(run);
                self.write(run, text);
                rest = behind;
                continue;
            }
            if self.sequence == SequenceState::Text
                && is_ignored_control(byte)
                && self.pending.is_empty()
            {
                // Binary output can be millions of them.
                let run =
                    rest.iter().position(|byte| !is_ignored_control(*byte)).unwrap_or(rest.len());
                rest = rest.get(run..).unwrap_or_default();
                continue;
            }
            self.push_byte(byte, text);
            rest = behind;
        }
    }

    /// Ends the output: an incomplete character becomes a replacement character.
    pub fn end(&mut self, text: &mut String) {
        self.flush_incomplete(text);
        self.after_return = false;
    }

    /// Returns whether no terminal sequence, character or carriage return is pending, so that later output does not depend on earlier
    /// bytes.
    pub(crate) fn is_at_boundary(&self) -> bool {
        self.sequence == SequenceState::Text && self.pending.is_empty() && !self.after_return
    }

    /// Appends printable ASCII, tabs and line ends. After a carriage return without a line end, removes the current line first.
    fn write(&mut self, run: &[u8], text: &mut String) {
        let ends_line = run.first() == Some(&b'\n');
        if std::mem::take(&mut self.after_return) && !ends_line {
            text.truncate(text.len() - self.line_bytes.min(text.len()));
            self.line_bytes = 0;
        }
        text.push_str(std::str::from_utf8(run).unwrap_or_default());
        self.line_bytes = match run.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => run.len() - at - 1,
            None => self.line_bytes + run.len(),
        };
    }

    /// Processes one byte: appends text or advances in a terminal sequence.
    fn push_byte(&mut self, byte: u8, text: &mut String) {
        self.sequence = match (self.sequence, byte) {
            (SequenceState::Text, _) => return self.push_text_byte(byte, text),
            (SequenceState::Escape, b' '..=b'/') => SequenceState::Charset,
            (SequenceState::Escape, b'[') | (SequenceState::Sequence, 0x20..=0x3f) => {
                SequenceState::Sequence
            }
            (SequenceState::String, 0x1b) => SequenceState::StringEscape,
            (SequenceState::String | SequenceState::StringEscape, byte)
                if byte != 0x07 && byte != b'\\' =>
            {
                SequenceState::String
            }
            (SequenceState::Escape, b']' | b'P' | b'X' | b'^' | b'_')
            | (SequenceState::String, b'\\') => SequenceState::String,
            _ => SequenceState::Text,
        };
    }

    /// Processes one byte outside of any sequence.
    fn push_text_byte(&mut self, byte: u8, text: &mut String) {
        if !byte.is_ascii() {
            return self.push_utf8_byte(byte, text);
        }
        self.flush_incomplete(text);
        match byte {
            0x1b => self.sequence = SequenceState::Escape,
            b'\r' => self.after_return = true,
            0x08 => self.backspace(text),
            _ if is_printable(byte) => self.write(&[byte], text),
            // Bells, NULs and the rest of the control characters say nothing.
            _ => {}
        }
    }

    /// Processes one byte of a UTF-8 character and appends the character once it is complete.
    fn push_utf8_byte(&mut self, byte: u8, text: &mut String) {
        if byte >= 0xc0 || self.pending.is_empty() {
            self.flush_incomplete(text);
        }
        self.pending.push(byte);
        match std::str::from_utf8(&self.pending) {
            Ok(character) => {
                // The second half of the control characters: some terminals take them for sequences.
                let is_control = character.chars().all(char::is_control);
                let character = if is_control { String::new() } else { character.to_owned() };
                self.pending.clear();
                self.write_character(&character, text);
            }
            Err(error) if error.error_len().is_some() || self.pending.len() >= 4 => {
                self.flush_incomplete(text);
            }
            Err(_) => {}
        }
    }

    /// Appends a replacement character for the bytes of an incomplete character, if there are any.
    fn flush_incomplete(&mut self, text: &mut String) {
        if !self.pending.is_empty() {
            self.pending.clear();
            self.write_character("\u{fffd}", text);
        }
    }

    /// Appends a character. After a carriage return, removes the current line first.
    fn write_character(&mut self, character: &str, text: &mut String) {
        if !character.is_empty() && std::mem::take(&mut self.after_return) {
            text.truncate(text.len() - self.line_bytes.min(text.len()));
            self.line_bytes = 0;
        }
        text.push_str(character);
        self.line_bytes += character.len();
    }

    /// Removes the last character of the current line.
    fn backspace(&mut self, text: &mut String) {
        if self.line_bytes > 0
            && let Some(last) = text.pop()
        {
            self.line_bytes -= last.len_utf8().min(self.line_bytes);
        }
    }
}

/// Returns whether a byte is printable ASCII, a tab or a line end.
fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\t')
}

/// Returns whether a byte is a control character without effect on the text: bells, NULs and others.
fn is_ignored_control(byte: u8) -> bool {
    matches!(byte, 0..=0x07 | 0x0b | 0x0c | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)
}

/// Converts the whole output of a program into text.
///
/// ```
/// assert_eq!(windlass_core::plain(b"a\xffb\x07\0"), "a\u{fffd}b");
/// ```
pub fn plain(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut plain = TerminalText::default();
    plain.push(bytes, &mut text);
    plain.end(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminal_sequences_are_removed() {
        for (printed, text) in [
            (&b"plain\n"[..], "plain\n"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07after", "after"),
            (b"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"\x1bPq...\x1b\\x", "x"),
            (b"\x1b(Bascii", "ascii"),
            (b"\x1b7\x1b8\x1bMx", "x"),
            (b"1 %\r2 %\r100 %\n", "100 %\n"),
            (b"line\r\nnext\r\n", "line\nnext\n"),
            (b"line\r\r\nnext", "line\nnext"),
            (b"abc\x08\x08xy", "axy"),
            (b"\x08a", "a"),
            (b"caf\xc3\xa9", "caf\u{e9}"),
            (b"caf\xe9!", "caf\u{fffd}!"),
            (b"\xf0\x9f\x98", "\u{fffd}"),
            (b"\xf0\x9f\x98\x80", "\u{1f600}"),
            (b"\xc2\x9b31mx", "31mx"),
            (b"a\0b\x07c", "abc"),
            (b"end\x1b", "end"),
            (b"end\r", "end"),
        ] {
            assert_eq!(plain(printed), text, "{}", printed.escape_ascii());
        }
    }

    /// Generates output with terminal sequences, line ends and parts of characters.
    fn any_output() -> impl Strategy<Value = Vec<u8>> {
        let pieces = prop_oneof![
            Just(b"\x1b[3".to_vec()),
            Just(b"\x1b".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\x08".to_vec()),
            Just("\u{e9}".as_bytes().to_vec()),
            Just(b"\xe2\x82".to_vec()),
            prop::collection::vec(any::<u8>(), 0..4),
        ];
        prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn the_text_does_not_depend_on_the_cuts(any_output in any_output(), size in 1usize..7) {
            let mut text = String::new();
            let mut pieces = TerminalText::default();
            for piece in any_output.chunks(size) {
                pieces.push(piece, &mut text);
            }
            pieces.end(&mut text);
            prop_assert_eq!(&text, &plain(&any_output));
            let is_clean = |c: char| c == '\n' || c == '\t' || !c.is_control();
            prop_assert!(text.chars().all(is_clean));
            prop_assert_eq!(plain(text.as_bytes()), text);
        }
    }
}
