//! Parses and writes git's configuration syntax.
//!
//! The parser is lenient: a line that git would refuse is skipped, and so are settings with characters that cannot be written back safely.
//! All values are written with quotes.

use std::iter::Peekable;
use std::str::Chars;

/// One setting. Section and key are in lower case, as git compares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) section: String,
    pub(super) subsection: Option<String>,
    pub(super) key: String,
    /// Value; `None` for a key alone, which means true.
    pub(super) value: Option<String>,
}

impl Setting {
    /// Returns whether this is the setting `section.key`, without a subsection.
    pub(super) fn is(&self, section: &str, key: &str) -> bool {
        self.section == section && self.subsection.is_none() && self.key == key
    }

    /// Returns whether git would read the same setting back.
    fn is_writable(&self) -> bool {
        let is_text = |c: char| c != char::REPLACEMENT_CHARACTER && !c.is_control();
        let is_value = |c: char| is_text(c) || matches!(c, '\n' | '\t' | '\u{8}');
        self.subsection.iter().all(|name| name.chars().all(is_text))
            && self.value.iter().all(|value| value.chars().all(is_value))
    }
}

/// Returns the settings of a configuration file, in order.
pub(super) fn parse(text: &str) -> Vec<Setting> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = Parser { rest: text.chars().peekable() };
    let mut settings = Vec::new();
    let mut header: Option<(String, Option<String>)> = None;
    while let Some(c) = parser.peek() {
        if is_blank(c) {
            parser.next();
        } else if c == '[' {
            parser.next();
            header = parser.header();
            if header.is_none() {
                parser.skip_line();
            }
        } else if let Some((key, value)) = parser.setting() {
            let Some((section, subsection)) = header.clone() else { continue };
            settings.push(Setting { section, subsection, key, value });
        } else {
            parser.skip_line();
        }
    }
    settings.retain(Setting::is_writable);
    settings
}

/// Returns the text of a configuration file with these settings.
pub(super) fn write(settings: &[Setting]) -> String {
    let mut text = String::new();
    let mut last = None;
    for setting in settings {
        let header = (&setting.section, &setting.subsection);
        if last != Some(header) {
            write_header(&mut text, &setting.section, setting.subsection.as_deref());
            last = Some(header);
        }
        text.push('\t');
        text.push_str(&setting.key);
        if let Some(value) = &setting.value {
            text.push_str(" = \"");
            value.chars().for_each(|c| write_escaped(&mut text, c));
            text.push('"');
        }
        text.push('\n');
    }
    text
}

/// Writes the header of a section.
fn write_header(text: &mut String, section: &str, subsection: Option<&str>) {
    text.push('[');
    text.push_str(section);
    if let Some(name) = subsection {
        text.push_str(" \"");
        text.push_str(&name.replace('\\', "\\\\").replace('"', "\\\""));
        text.push('"');
    }
    text.push_str("]\n");
}

/// Writes a character of a quoted value.
fn write_escaped(text: &mut String, c: char) {
    match c {
        '"' => text.push_str("\\\""),
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\t' => text.push_str("\\t"),
        '\u{8}' => text.push_str("\\b"),
        _ => text.push(c),
    }
}

/// Returns whether git takes a character for a blank; a form feed is none.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// A position in a configuration file.
struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
}

/// A function that gives up never goes past the end of the current line.
impl Parser<'_> {
    /// Returns the next character, with `\r\n` as one line end.
    fn peek(&mut self) -> Option<char> {
        if self.rest.peek() == Some(&'\r') {
            let mut ahead = self.rest.clone();
            ahead.next();
            if ahead.peek() == Some(&'\n') {
                self.rest = ahead;
            }
        }
        self.rest.peek().copied()
    }

    /// Consumes the next character.
    fn next(&mut self) -> Option<char> {
        self.peek()?;
        self.rest.next()
    }

    /// Skips the rest of the line, with its end.
    fn skip_line(&mut self) {
        while self.next().is_some_and(|c| c != '\n') {}
    }

    /// Skips blanks within the line.
    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|c| is_blank(c) && c != '\n') {
            self.next();
        }
    }

    /// Reads a word in lower case.
    fn word(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek().filter(|c| is_part(*c)) {
            word.push(c.to_ascii_lowercase());
            self.next();
        }
        word
    }

    /// Reads a section header after its opening bracket.
    fn header(&mut self) -> Option<(String, Option<String>)> {
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
        if name.is_empty() {
            return None;
        }
        let has_blank = self.peek().is_some_and(is_blank);
        self.skip_blanks();
        let subsection = match self.peek()? {
            ']' if !has_blank => None,
            '"' if has_blank => Some(self.subsection()?),
            _ => return None,
        };
        if self.peek() != Some(']') {
            return None;
        }
        self.next();
        match (name.split_once('.'), subsection) {
            // The old form of a subsection: `[section.name]`.
            (Some((section, old)), None) => Some((section.to_owned(), Some(old.to_owned()))),
            (Some(_), Some(_)) => None,
            (None, subsection) => Some((name, subsection)),
        }
    }

    /// Reads the quoted name of a subsection.
    fn subsection(&mut self) -> Option<String> {
        let mut name = String::new();
        self.next();
        loop {
            let mut c = self.peek().filter(|c| *c != '\n')?;
            self.next();
            match c {
                '"' => return Some(name),
                '\\' => {
                    c = self.peek().filter(|c| *c != '\n')?;
                    self.next();
                }
                _ => {}
            }
            name.push(c);
        }
    }

    /// Reads a key and its value.
    fn setting(&mut self) -> Option<(String, Option<String>)> {
        self.peek().filter(char::is_ascii_alphabetic)?;
        let key = self.word(|c| c.is_ascii_alphanumeric() || c == '-');
        self.word(|c| c == ' ' || c == '\t');
        match self.peek() {
            None | Some('\n') => Some((key, None)),
            Some('=') => {
                self.next();
                Some((key, Some(self.value()?)))
            }
            // Git refuses a comment here.
            Some(_) => None,
        }
    }

    /// Reads a value up to the end of the line, without quotes and comments.
    fn value(&mut self) -> Option<String> {
        let mut value = String::new();
        // Length without blanks at the end.
        let mut kept = 0;
        let mut is_quoted = false;
        loop {
            let c = self.peek();
            match c {
                None | Some('\n') if is_quoted => return None,
                None | Some('\n') => break,
                Some('#' | ';') if !is_quoted => {
                    self.skip_line();
                    break;
                }
                Some('"') => is_quoted = !is_quoted,
                Some('\\') => {
                    self.next();
                    value.push_str(self.escaped()?);
                }
                Some(c) if is_blank(c) && !is_quoted => {
                    // Git drops blanks at the beginning, even after an empty pair of quotes.
                    if !value.is_empty() {
                        value.push(c);
                    }
                }
                Some(c) => value.push(c),
            }
            self.next();
            if is_quoted || !c.is_some_and(is_blank) {
                kept = value.len();
            }
        }
        value.truncate(kept);
        Some(value)
    }

    /// Returns the text for a backslash and the next character: empty at the end of a line, which continues in the next.
    fn escaped(&mut self) -> Option<&'static str> {
        match self.peek() {
            None | Some('\n') => Some(""),
            Some('n') => Some("\n"),
            Some('t') => Some("\t"),
            Some('b') => Some("\u{8}"),
            Some('"') => Some("\""),
            Some('\\') => Some("\\"),
            Some(_) => None,
        }
    }
}
