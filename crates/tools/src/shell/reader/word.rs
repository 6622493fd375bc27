//! Reads one word with its quotes, globs, variables and command substitutions.

use super::Reader;
use crate::shell::syntax::{List, Word};

impl Reader<'_> {
    /// Reads a word if one is next. Its command substitutions are added to `substitutions`.
    pub(super) fn word(&mut self, substitutions: &mut Vec<List>) -> Option<Word> {
        let begin = self.at;
        let mut word = Word::default();
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' => break,
                b'<' | b'>' => {
                    self.check_descriptor(&word);
                    break;
                }
                b'\\' => self.backslash_escape(&mut word),
                b'\'' => self.single_quoted(&mut word),
                b'"' => self.double_quoted(&mut word, substitutions),
                b'$' => self.dollar_sign(&mut word, substitutions, false),
                b'`' => self.stop("it runs a command substitution"),
                _ => self.plain_byte(&mut word, byte),
            }
        }
        if self.at == begin {
            return None;
        }
        let raw = self.text.get(begin..self.at).unwrap_or_default();
        if may_expand_braces(raw) {
            self.mark_unclear("it expands braces");
            word.is_incomplete = true;
        }
        // If reading has stopped, the word may be longer.
        word.is_incomplete |= self.has_stopped;
        Some(word)
    }

    /// Stops if the word before a redirection is an unusual descriptor: `{name}>file`, or a number, which may contain a joined line.
    fn check_descriptor(&mut self, word: &Word) {
        let is_number = !word.is_quoted
            && !word.text.is_empty()
            && word.text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number || (word.text.starts_with('{') && word.text.ends_with('}')) {
            self.stop("it names a file descriptor in an unusual way");
        }
    }

    /// Reads an unquoted byte, which may begin a glob pattern or the home directory.
    fn plain_byte(&mut self, word: &mut Word, byte: u8) {
        match byte {
            b'*' | b'?' => {
                word.glob_at.get_or_insert(word.text.len());
            }
            b'[' => {
                let rest = self.text.get(self.at + 1..).unwrap_or_default();
                let ends = rest.iter().position(|byte| b" \t\n;|&()<>".contains(byte));
                let rest = rest.get(..ends.unwrap_or(rest.len())).unwrap_or_default();
                if rest.contains(&b']') {
                    word.glob_at.get_or_insert(word.text.len());
                }
            }
            // Also behind `=` and `:` in what looks like an assignment.
            b'~' if word.text.is_empty() && !word.is_quoted && self.is_home_tilde() => {
                self.at += 1;
                return word.push_variable_ref("HOME", true, self.at);
            }
            b'~' if word.text.is_empty() || word.text.ends_with(['=', ':']) => {
                self.mark_unclear("it expands the home directory");
                word.is_incomplete = true;
            }
            b'_' | b'-' | b'.' | b'/' | b',' | b':' | b'@' | b'%' | b'+' | b'=' | b'^' | b']'
            | b'{' | b'}' | b'!' | b'~' | b'#' => {}
            byte if byte.is_ascii_alphanumeric() => {}
            _ => return self.non_ascii_character(word),
        }
        word.text.push(char::from(byte));
        self.at += 1;
    }

    /// Returns whether the tilde that is next stands for the home directory: alone or before a slash.
    fn is_home_tilde(&self) -> bool {
        self.peek_at(1).is_none_or(|byte| b"/ \t\n;|&()<>".contains(&byte))
    }

    /// Reads a character that is not ASCII. Stops unless it is a letter or digit, because blanks and invisible characters are ambiguous.
    fn non_ascii_character(&mut self, word: &mut Word) {
        match self.next_character() {
            Some(c) if c.is_alphanumeric() => {
                word.text.push(c);
                self.at += c.len_utf8();
            }
            _ => self.stop("it has an invisible or special character"),
        }
    }

    /// Returns the next character, if the bytes are valid UTF-8.
    fn next_character(&self) -> Option<char> {
        let rest = self.text.get(self.at..)?;
        let rest = rest.get(..4).unwrap_or(rest);
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(rest.get(..error.valid_up_to())?).ok()?,
        };
        valid.chars().next()
    }

    /// Reads a backslash and the printable character that it quotes, or joins two lines.
    fn backslash_escape(&mut self, word: &mut Word) {
        match self.peek_at(1) {
            Some(b'\n') => self.join_lines(),
            Some(byte) if (0x20..0x7f).contains(&byte) => {
                word.is_quoted = true;
                word.text.push(char::from(byte));
                self.at += 2;
            }
            _ => self.stop("a backslash stands at the end or before an invisible character"),
        }
    }

    /// Reads text between single quotes.
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

    /// Reads text between double quotes, with variables and command substitutions.
    fn double_quoted(&mut self, word: &mut Word, substitutions: &mut Vec<List>) {
        word.is_quoted = true;
        self.at += 1;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    return;
                }
                b'`' => self.stop("it runs a command substitution"),
                b'$' => self.dollar_sign(word, substitutions, true),
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

    /// Reads one literal character between quotes. Stops at control characters.
    fn quoted_character(&mut self, word: &mut Word) {
        match self.next_character() {
            Some('\n') if !self.pending_heredocs.is_empty() => {
                self.stop("a quote spans lines although a here-document follows");
            }
            Some(c) if !c.is_control() || matches!(c, '\n' | '\t') => {
                word.text.push(c);
                self.at += c.len_utf8();
            }
            _ => self.stop("it has a control character"),
        }
    }

    /// Reads a dollar sign: a literal one, a variable or a command substitution. Stops at other expansions.
    fn dollar_sign(&mut self, word: &mut Word, substitutions: &mut Vec<List>, is_quoted: bool) {
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
                return word.push_variable_ref(&name, is_quoted, begin);
            }
            _ => word.is_incomplete = true,
        }
        match next {
            Some(b'(') if self.peek_at(2) == Some(b'(') => self.stop("it uses arithmetic"),
            Some(b'(') if !self.pending_heredocs.is_empty() => {
                self.stop("a command substitution stands before a here-document");
            }
            Some(b'(') => {
                self.mark_unclear("it runs a command substitution");
                self.at += 2;
                let list = self.list(&[]);
                substitutions.push(list);
                if self.pending_heredocs.is_empty() {
                    self.expect_operator(")");
                } else {
                    self.stop("a here-document begins inside a command substitution");
                }
            }
            Some(b'0'..=b'9' | b'?' | b'#' | b'@' | b'*' | b'$' | b'!' | b'-') => {
                self.mark_unclear("it expands a variable");
                self.at += 2;
            }
            _ => self.stop("it uses an expansion or quotation with `$` that is not known here"),
        }
    }

    /// Reads `${name}`. Stops if there is anything else in the braces.
    fn braced_variable(&mut self, word: &mut Word, is_quoted: bool) {
        let mut end = self.at + 2;
        while self.text.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            end += 1;
        }
        let name = self.text.get(self.at + 2..end).unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        if self.text.get(end) != Some(&b'}') {
            word.is_incomplete = true;
            return self.stop("it expands a variable");
        }
        let column = self.at + 1;
        self.at = end + 1;
        if super::is_name(&name) {
            word.push_variable_ref(&name, is_quoted, column);
        } else {
            // `${1}` and the like.
            word.is_incomplete = true;
            self.mark_unclear("it expands a variable");
        }
    }
}

/// Returns whether a word, as written, contains a brace expansion outside of quotes: `{a,b}`, `{1..3}`.
fn may_expand_braces(raw: &[u8]) -> bool {
    let bare = unquoted(raw);
    let Some(open) = bare.iter().position(|byte| *byte == b'{') else { return false };
    let rest = bare.get(open..).unwrap_or_default();
    rest.contains(&b',') || rest.windows(2).any(|pair| pair == b"..")
}

/// Returns the bytes of a word that are not quoted.
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
