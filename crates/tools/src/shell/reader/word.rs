//! Reads one word: what is quoted and what is not, and whether it means itself.

use super::Reader;
use crate::shell::syntax::{List, Word};

impl Reader<'_> {
    /// A word, if one is next. What is run to make it goes to `inside`.
    pub(super) fn word(&mut self, inside: &mut Vec<List>) -> Option<Word> {
        let begin = self.at;
        let mut word = Word::default();
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' => break,
                b'<' | b'>' => {
                    self.check_descriptor(&word);
                    break;
                }
                b'\\' => self.escaped(&mut word),
                b'\'' => self.single_quoted(&mut word),
                b'"' => self.double_quoted(&mut word, inside),
                b'$' => self.dollar(&mut word, inside, false),
                b'`' => self.stop("it runs a command to make a word"),
                _ => self.plain(&mut word, byte),
            }
        }
        if self.at == begin {
            return None;
        }
        let raw = self.text.get(begin..self.at).unwrap_or_default();
        if has_braces(raw) {
            self.note("it expands braces");
            word.is_open = true;
        }
        // Where reading has stopped, the word may have gone on.
        word.is_open |= self.has_stopped;
        Some(word)
    }

    /// `{name}>file` puts a number into a variable, and a number may be one although a joined line lies in it.
    fn check_descriptor(&mut self, word: &Word) {
        let is_number = !word.is_quoted
            && !word.text.is_empty()
            && word.text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number || (word.text.starts_with('{') && word.text.ends_with('}')) {
            self.stop("it names a descriptor in an unusual way");
        }
    }

    fn plain(&mut self, word: &mut Word, byte: u8) {
        match byte {
            b'*' | b'?' => {
                word.pattern.get_or_insert(word.text.len());
            }
            b'[' => {
                let rest = self.text.get(self.at + 1..).unwrap_or_default();
                let ends = rest.iter().position(|byte| b" \t\n;|&()<>".contains(byte));
                let rest = rest.get(..ends.unwrap_or(rest.len())).unwrap_or_default();
                if rest.contains(&b']') {
                    word.pattern.get_or_insert(word.text.len());
                }
            }
            // Also behind `=` and `:` in what looks like an assignment.
            b'~' if word.text.is_empty() && !word.is_quoted && self.is_home() => {
                self.at += 1;
                return word.leave_hole("HOME", true, self.at);
            }
            b'~' if word.text.is_empty() || word.text.ends_with(['=', ':']) => {
                self.note("it expands the home directory");
                word.is_open = true;
            }
            b'_' | b'-' | b'.' | b'/' | b',' | b':' | b'@' | b'%' | b'+' | b'=' | b'^' | b']'
            | b'{' | b'}' | b'!' | b'~' | b'#' => {}
            byte if byte.is_ascii_alphanumeric() => {}
            _ => return self.wide(word),
        }
        word.text.push(char::from(byte));
        self.at += 1;
    }

    /// Whether the tilde that is next stands alone or before a slash, and so for the home directory.
    fn is_home(&self) -> bool {
        self.peek_at(1).is_none_or(|byte| b"/ \t\n;|&()<>".contains(&byte))
    }

    /// A character that is not ASCII: a letter means itself, whatever could be taken for a blank or not be seen does not.
    fn wide(&mut self, word: &mut Word) {
        match self.character() {
            Some(c) if c.is_alphanumeric() => {
                word.text.push(c);
                self.at += c.len_utf8();
            }
            _ => self.stop("it has a character that is no plain text"),
        }
    }

    fn character(&self) -> Option<char> {
        let rest = self.text.get(self.at..)?;
        let rest = rest.get(..4).unwrap_or(rest);
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(rest.get(..error.valid_up_to())?).ok()?,
        };
        valid.chars().next()
    }

    fn escaped(&mut self, word: &mut Word) {
        match self.peek_at(1) {
            Some(b'\n') => self.join_lines(),
            Some(byte) if (0x20..0x7f).contains(&byte) => {
                word.is_quoted = true;
                word.text.push(char::from(byte));
                self.at += 2;
            }
            _ => self.stop("it ends in a backslash, or quotes what cannot be seen"),
        }
    }

    fn single_quoted(&mut self, word: &mut Word) {
        word.is_quoted = true;
        self.at += 1;
        while let Some(byte) = self.peek() {
            if byte == b'\'' {
                self.at += 1;
                return;
            }
            self.quoted_character(word);
        }
        self.stop("a quote has no end");
    }

    fn double_quoted(&mut self, word: &mut Word, inside: &mut Vec<List>) {
        word.is_quoted = true;
        self.at += 1;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    return;
                }
                b'`' => self.stop("it runs a command to make a word"),
                b'$' => self.dollar(word, inside, true),
                b'\\' => match self.peek_at(1) {
                    Some(b'\n') => self.join_lines(),
                    Some(byte @ (b'$' | b'`' | b'"' | b'\\')) => {
                        word.text.push(char::from(byte));
                        self.at += 2;
                    }
                    _ => {
                        word.text.push('\\');
                        self.at += 1;
                    }
                },
                _ => self.quoted_character(word),
            }
        }
        self.stop("a quote has no end");
    }

    /// One character between quotes, where all but control characters mean themselves.
    fn quoted_character(&mut self, word: &mut Word) {
        match self.character() {
            Some('\n') if !self.waiting.is_empty() => {
                self.stop("a quote spans lines although a here-document follows");
            }
            Some(c) if !c.is_control() || matches!(c, '\n' | '\t') => {
                word.text.push(c);
                self.at += c.len_utf8();
            }
            _ => self.stop("it has a control character"),
        }
    }

    /// A dollar sign: itself before what can begin no expansion, or else the reason why the word is not known.
    fn dollar(&mut self, word: &mut Word, inside: &mut Vec<List>, is_quoted: bool) {
        let next = self.peek_at(1);
        let is_itself = match next {
            None => true,
            Some(b'"') => is_quoted,
            Some(byte) => b" \t\n|);&<>/.,:%^]}=+~".contains(&byte),
        };
        if is_itself {
            word.text.push('$');
            self.at += 1;
            return;
        }
        let begin = self.at + 1;
        match next {
            Some(b'{') => return self.braced_variable(word, is_quoted),
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                self.at += 1;
                while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                    self.at += 1;
                }
                let name = self.text.get(begin..self.at).unwrap_or_default();
                let name = String::from_utf8_lossy(name).into_owned();
                return word.leave_hole(&name, is_quoted, begin);
            }
            _ => word.is_open = true,
        }
        match next {
            Some(b'(') if self.peek_at(2) == Some(b'(') => self.stop("it calculates"),
            Some(b'(') if !self.waiting.is_empty() => {
                self.stop("a command lies before a here-document");
            }
            Some(b'(') => {
                self.note("it runs a command to make a word");
                self.at += 2;
                let list = self.list(&[]);
                inside.push(list);
                if self.waiting.is_empty() {
                    self.expect_operator(")");
                } else {
                    self.stop("a here-document lies in a word");
                }
            }
            Some(b'0'..=b'9' | b'?' | b'#' | b'@' | b'*' | b'$' | b'!' | b'-') => {
                self.note("it expands a variable");
                self.at += 2;
            }
            _ => self.stop("it quotes or calculates with a dollar sign"),
        }
    }

    /// `${name}`, and nothing else in the braces.
    fn braced_variable(&mut self, word: &mut Word, is_quoted: bool) {
        let mut end = self.at + 2;
        while self.text.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            end += 1;
        }
        let name = self.text.get(self.at + 2..end).unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        if self.text.get(end) != Some(&b'}') {
            word.is_open = true;
            return self.stop("it expands a variable");
        }
        let column = self.at + 1;
        self.at = end + 1;
        if super::is_name(&name) {
            word.leave_hole(&name, is_quoted, column);
        } else {
            // `${1}` and the like.
            word.is_open = true;
            self.note("it expands a variable");
        }
    }
}

/// Whether a word, as written, could be more than one by its braces: `{a,b}`, `{1..3}`. Between quotes they mean themselves.
fn has_braces(raw: &[u8]) -> bool {
    let bare = unquoted(raw);
    let Some(open) = bare.iter().position(|byte| *byte == b'{') else { return false };
    let rest = bare.get(open..).unwrap_or_default();
    rest.contains(&b',') || rest.windows(2).any(|pair| pair == b"..")
}

/// What of a word, as written, is not quoted.
fn unquoted(raw: &[u8]) -> Vec<u8> {
    let mut bare = Vec::new();
    let mut bytes = raw.iter().copied();
    let mut quote = None;
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None | Some(b'"'), b'\\') => drop(bytes.next()),
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (None, byte) => bare.push(byte),
            _ => {}
        }
    }
    bare
}
