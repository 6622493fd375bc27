//! Reads single values: texts with and without quotes, numbers, booleans and null.

use serde_json::Number;

use super::YamlReader;
use crate::command_tool::DefinitionError;
use crate::command_tool::node::{NodeValue, SourcePosition};

/// First characters of YAML syntax that is not supported, each with a message.
const UNSUPPORTED_STARTS: &[(char, &str)] = &[
    ('&', "anchors are not known here"),
    ('*', "aliases are not known here"),
    ('!', "tags are not known here"),
    ('%', "directives are not known here"),
    ('@', "no text begins with `@`"),
    ('`', "no text begins with a backtick"),
    ('|', "`|` begins a text of several lines, behind a key"),
    ('>', "`>` begins a text of several lines, behind a key"),
];

/// Words that some YAML parsers read as booleans and others as texts.
const AMBIGUOUS_WORDS: &[&str] = &["yes", "no", "on", "off"];

/// Returns the length of the key at the beginning of a line, up to its colon; `None` if there is no key.
pub(super) fn key_length(line: &str) -> Option<usize> {
    let from = match line.chars().next()? {
        quote @ ('"' | '\'') => {
            let end = end_of_quoted(line, quote)?;
            let spaces = line.get(end..)?;
            end + spaces.len() - spaces.trim_start_matches(' ').len()
        }
        '[' | '{' | '#' => return None,
        _ => return find_colon(without_comment(line)),
    };
    line.get(from..).is_some_and(is_colon).then_some(from)
}

/// Returns whether a text begins with a colon that ends a key.
fn is_colon(rest: &str) -> bool {
    rest == ":" || rest.starts_with(": ") || rest.starts_with(":\t")
}

/// Returns the index of the colon that ends a key.
pub(super) fn find_colon(text: &str) -> Option<usize> {
    text.match_indices(':').map(|(at, _)| at).find(|at| text.get(*at..).is_some_and(is_colon))
}

/// Returns the index behind the closing quote of a quoted text.
fn end_of_quoted(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote == '"' {
            chars.next();
        } else if c == quote {
            match chars.peek() {
                Some((_, '\'')) if quote == '\'' => drop(chars.next()),
                _ => return Some(at + 1),
            }
        }
    }
    None
}

/// Returns a text without its comment and the spaces before that.
pub(super) fn without_comment(text: &str) -> &str {
    let comment = text.match_indices('#').map(|(at, _)| at).find(|at| {
        text.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with([' ', '\t']))
    });
    text.get(..comment.unwrap_or(text.len())).unwrap_or_default().trim_end_matches([' ', '\t'])
}

/// Checks that a text may stand without quotes. Returns it without trailing spaces.
pub(super) fn plain_text(text: &str, at: SourcePosition) -> Result<&str, DefinitionError> {
    let text = text.trim_end_matches([' ', '\t']);
    let Some(first) = text.chars().next() else { return Err(at.error("a value is missing here")) };
    if let Some((_, why)) = UNSUPPORTED_STARTS.iter().find(|(c, _)| *c == first) {
        return Err(at.error(format!("{why}; a text that begins like this is put in quotes")));
    }
    let second = text.chars().nth(1);
    let is_indicator = matches!(first, ',' | '[' | ']' | '{' | '}' | '#' | '"' | '\'')
        || (matches!(first, '-' | '?' | ':') && second.is_none_or(|c| c == ' ' || c == '\t'));
    if is_indicator {
        return Err(at.error(format!("no text begins with `{first}`: put it in quotes")));
    }
    Ok(text)
}

/// Returns the value of a text without quotes: null, a boolean, a number or a text. Ambiguous ones are errors.
pub(super) fn parse_plain(text: &str, at: SourcePosition) -> Result<NodeValue, DefinitionError> {
    match text {
        "~" | "null" | "Null" | "NULL" => return Ok(NodeValue::Null),
        "true" | "True" | "TRUE" => return Ok(NodeValue::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(NodeValue::Bool(false)),
        _ => {}
    }
    if AMBIGUOUS_WORDS.contains(&text.to_ascii_lowercase().as_str()) {
        return Err(at.error(format!(
            "`{text}` is a truth to some and a text to others: write `true` or `false`, or put it in quotes"
        )));
    }
    if let Some(number) = number(text) {
        return Ok(NodeValue::Number { number, spelling: text.to_owned() });
    }
    if looks_like_number(text) {
        return Err(at.error(format!(
            "`{text}` is a number to some: write it as JSON does, or put it in quotes"
        )));
    }
    Ok(NodeValue::Text(text.to_owned()))
}

/// Parses a number as JSON does.
fn number(text: &str) -> Option<Number> {
    let begins = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    begins.then(|| serde_json::from_str(text).ok()).flatten()
}

/// Returns whether some YAML parser reads a text as a number: by a sign, base, separator, or colons of a time.
fn looks_like_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    let lower = digits.to_ascii_lowercase();
    let of_base = |prefix: &str| {
        let rest = lower.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.bytes().all(|c| c.is_ascii_hexdigit() || c == b'_'))
    };
    let has_digit = digits.starts_with(|c: char| c.is_ascii_digit())
        || (digits.starts_with('.') && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit));
    let is_of_number =
        |c: char| c.is_ascii_digit() || matches!(c, '.' | '_' | ':' | 'e' | 'E' | '+' | '-');
    // All parsers read dates and versions as texts: `2026-01-31`, `1.2.3`.
    let dashes = lower.matches('-').count() > lower.matches("e-").count();
    let dots = lower.matches('.').count() > 1;
    matches!(lower.as_str(), ".inf" | ".nan")
        || ["0x", "0o", "0b"].into_iter().any(of_base)
        || (has_digit && digits.chars().all(is_of_number) && !dashes && !dots)
}

impl YamlReader<'_> {
    /// Reads a text in quotes, which must end on its line.
    pub(super) fn quoted(&mut self) -> Result<String, DefinitionError> {
        let start = self.position();
        let line = self.rest();
        let mut chars = line.chars();
        let quote = chars.next().unwrap_or('"');
        let mut text = String::new();
        loop {
            let at = line.len() - chars.as_str().len();
            let here = SourcePosition {
                column: start.column + line.get(..at).map_or(0, |before| before.chars().count()),
                ..start
            };
            match chars.next() {
                None => {
                    return Err(start.error(
                        "no quote ends the text on this line; a text of several lines begins with `|`",
                    ));
                }
                Some('\'') if quote == '\'' && chars.as_str().starts_with('\'') => {
                    chars.next();
                    text.push('\'');
                }
                Some(c) if c == quote => break,
                Some('\\') if quote == '"' => text.push(parse_escape(&mut chars, here)?),
                Some(c) => text.push(c),
            }
        }
        self.at += line.len() - chars.as_str().len();
        Ok(text)
    }
}

/// Reads the characters behind a backslash and returns the one that they mean.
fn parse_escape(
    chars: &mut std::str::Chars<'_>,
    at: SourcePosition,
) -> Result<char, DefinitionError> {
    let wrong = || at.error("no character is written like this");
    Ok(match chars.next().ok_or_else(wrong)? {
        c @ ('"' | '\\' | '/' | ' ') => c,
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' | '\t' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        'x' => char::from_u32(parse_hex(chars, 2).ok_or_else(wrong)?).ok_or_else(wrong)?,
        'U' => char::from_u32(parse_hex(chars, 8).ok_or_else(wrong)?).ok_or_else(wrong)?,
        'u' => {
            let first = parse_hex(chars, 4).ok_or_else(wrong)?;
            if !(0xd800..0xdc00).contains(&first) {
                return char::from_u32(first).ok_or_else(wrong);
            }
            // JSON writes a character beyond U+FFFF as two surrogates.
            *chars = chars.as_str().strip_prefix("\\u").ok_or_else(wrong)?.chars();
            let second = parse_hex(chars, 4)
                .filter(|half| (0xdc00..0xe000).contains(half))
                .ok_or_else(wrong)?;
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            char::from_u32(code).ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    })
}

/// Reads a fixed number of hexadecimal digits.
fn parse_hex(chars: &mut std::str::Chars<'_>, digits: usize) -> Option<u32> {
    let text = chars.as_str().get(..digits)?;
    let value =
        text.bytes().all(|c| c.is_ascii_hexdigit()).then(|| u32::from_str_radix(text, 16).ok())?;
    *chars = chars.as_str().get(digits..)?.chars();
    value
}
