//! What a program printed, as text that can be read: no terminal sequences, no bytes that are no characters.
//!
//! A line that was written over again and again, as progress bars are, is what it was in the end. Works on pieces, wherever they
//! are cut.

/// Turns what a program printed into text.
///
/// ```
/// use windlass_core::Plain;
/// let mut text = String::new();
/// let mut plain = Plain::default();
/// plain.push(b"\x1b[1;3", &mut text);
/// plain.push(b"1mred\x1b[0m\r\n 10 %\r 99 %\n", &mut text);
/// plain.end(&mut text);
/// assert_eq!(text, "red\n 99 %\n");
/// ```
#[derive(Debug, Default)]
pub struct Plain {
    state: State,
    /// The beginning of a character.
    pending: Vec<u8>,
    /// Whether a carriage return came that may be the end of a line.
    returned: bool,
    /// How many bytes of the line that is being written are in the text already and can still be taken back.
    line: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// ESC and an intermediate byte: one more ends it.
    Charset,
    /// ESC [ …
    Sequence,
    /// ESC ], P, X, ^ or _ …: ended by BEL or ESC \.
    String,
    /// ESC inside of such a string.
    StringEscape,
}

impl Plain {
    /// Adds what a piece is as text. What a piece says about the end of an earlier one is kept in mind, so one text must be
    /// given for all pieces, or an empty one for each.
    pub fn push(&mut self, bytes: &[u8], text: &mut String) {
        self.line = self.line.min(text.len());
        let mut rest = bytes;
        while let Some((&byte, behind)) = rest.split_first() {
            if self.state == State::Text && is_plain(byte) && self.pending.is_empty() {
                let run = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
                let (run, behind) = rest.split_at(run);
                self.write(run, text);
                rest = behind;
                continue;
            }
            if self.state == State::Text && says_nothing(byte) && self.pending.is_empty() {
                // Binary output can be millions of them.
                let run = rest.iter().position(|byte| !says_nothing(*byte)).unwrap_or(rest.len());
                rest = rest.get(run..).unwrap_or_default();
                continue;
            }
            self.byte(byte, text);
            rest = behind;
        }
    }

    /// The end: a character that is not whole will not become so.
    pub fn end(&mut self, text: &mut String) {
        self.give_up(text);
        self.returned = false;
    }

    /// Whether nothing that came changes what comes: no sequence and no character has begun.
    pub(crate) fn is_settled(&self) -> bool {
        self.state == State::Text && self.pending.is_empty() && !self.returned
    }

    /// Printable ASCII, tabs and line ends of their own.
    fn write(&mut self, run: &[u8], text: &mut String) {
        let ends_line = run.first() == Some(&b'\n');
        if std::mem::take(&mut self.returned) && !ends_line {
            text.truncate(text.len() - self.line.min(text.len()));
            self.line = 0;
        }
        text.push_str(std::str::from_utf8(run).unwrap_or_default());
        self.line = match run.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => run.len() - at - 1,
            None => self.line + run.len(),
        };
    }

    fn byte(&mut self, byte: u8, text: &mut String) {
        self.state = match (self.state, byte) {
            (State::Text, _) => return self.text(byte, text),
            (State::Escape, b' '..=b'/') => State::Charset,
            (State::Escape, b'[') | (State::Sequence, 0x20..=0x3f) => State::Sequence,
            (State::String, 0x1b) => State::StringEscape,
            (State::String | State::StringEscape, byte) if byte != 0x07 && byte != b'\\' => {
                State::String
            }
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') | (State::String, b'\\') => {
                State::String
            }
            _ => State::Text,
        };
    }

    fn text(&mut self, byte: u8, text: &mut String) {
        if !byte.is_ascii() {
            return self.part_of_character(byte, text);
        }
        self.give_up(text);
        match byte {
            0x1b => self.state = State::Escape,
            b'\r' => self.returned = true,
            0x08 => self.back(text),
            _ if is_plain(byte) => self.write(&[byte], text),
            // Bells, NULs and the rest of the control characters say nothing.
            _ => {}
        }
    }

    fn part_of_character(&mut self, byte: u8, text: &mut String) {
        if byte >= 0xc0 || self.pending.is_empty() {
            self.give_up(text);
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
                self.give_up(text);
            }
            Err(_) => {}
        }
    }

    /// What began as a character and is none.
    fn give_up(&mut self, text: &mut String) {
        if !self.pending.is_empty() {
            self.pending.clear();
            self.write_character("\u{fffd}", text);
        }
    }

    fn write_character(&mut self, character: &str, text: &mut String) {
        if !character.is_empty() && std::mem::take(&mut self.returned) {
            text.truncate(text.len() - self.line.min(text.len()));
            self.line = 0;
        }
        text.push_str(character);
        self.line += character.len();
    }

    /// Backspace.
    fn back(&mut self, text: &mut String) {
        if self.line > 0
            && let Some(last) = text.pop()
        {
            self.line -= last.len_utf8().min(self.line);
        }
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\t')
}

/// Bells, NULs and the rest of the control characters that no line is made of.
fn says_nothing(byte: u8) -> bool {
    matches!(byte, 0..=0x07 | 0x0b | 0x0c | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)
}

/// All that a program printed, as text.
///
/// ```
/// assert_eq!(windlass_core::plain(b"a\xffb\x07\0"), "a\u{fffd}b");
/// ```
pub fn plain(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut plain = Plain::default();
    plain.push(bytes, &mut text);
    plain.end(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_terminals_understand_is_taken_out() {
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

    fn printed() -> impl Strategy<Value = Vec<u8>> {
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
        fn where_it_is_cut_does_not_matter(printed in printed(), size in 1usize..7) {
            let mut text = String::new();
            let mut pieces = Plain::default();
            for piece in printed.chunks(size) {
                pieces.push(piece, &mut text);
            }
            pieces.end(&mut text);
            prop_assert_eq!(&text, &plain(&printed));
            let is_clean = |c: char| c == '\n' || c == '\t' || !c.is_control();
            prop_assert!(text.chars().all(is_clean));
            prop_assert_eq!(plain(text.as_bytes()), text);
        }
    }
}
