//! `password=…`, `"token": "…"`, `API_KEY: …`: values that the name before them tells.
//!
//! The name alone is not enough, or no source file could be read: the value must be a literal, and look as if it had been thrown by
//! dice.

use super::super::scan::Cursor;
use super::Match;
use super::look::{self, base64_url};

/// Shorter values are words.
const SHORTEST: usize = 12;
/// Longer ones are texts.
const LONGEST: usize = 256;

/// The value behind a telling name. The cursor is in the middle of the name.
pub(super) fn value(cursor: &mut Cursor<'_>, anchor: &str) -> Option<Match> {
    cursor.go_on(anchor.len());
    cursor.run(base64_url, 40);
    quote(cursor);
    blanks(cursor);
    separator(cursor)?;
    blanks(cursor);
    let quoted = quote(cursor);
    if super::is_token(cursor) {
        return None;
    }
    let from = cursor.at();
    let of_value = if quoted.is_some() { of_quoted } else { of_bare };
    let value = cursor.run(of_value, LONGEST);
    let found = Match::since(from, cursor);
    if value.len() == LONGEST {
        return is_secret(value).then(|| found.and(of_value));
    }
    let is_literal = match (quoted, cursor.peek()) {
        (Some(quote), next) => next == Some(quote) || next == Some(b'\\'),
        (None, Some(next)) => next.is_ascii_whitespace() || b",;&\"'\\})`<".contains(&next),
        (None, None) => true,
    };
    (is_literal && is_secret(value)).then_some(found)
}

/// `=`, `:`, `:=`, `=>`, `==`, or a type between the two: `: &str =`.
fn separator(cursor: &mut Cursor<'_>) -> Option<()> {
    let first = cursor.eat_if(|byte| matches!(byte, b'=' | b':'))?;
    if first == b'=' {
        cursor.eat_if(|byte| matches!(byte, b'=' | b'>'));
        return Some(());
    }
    if cursor.peek() == Some(b':') {
        return None;
    }
    let mut here = cursor.clone();
    let of_type = |byte: u8| byte.is_ascii_alphanumeric() || b"_& <>[]'?".contains(&byte);
    here.run(of_type, 40);
    let has_type = here.eat_if(|byte| byte == b'=').is_some();
    cursor.learn(&here);
    if has_type {
        cursor.follow(&here);
    }
    Some(())
}

/// Characters of a value between quotation marks.
fn of_quoted(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"'`\\".contains(&byte)
}

/// Characters of a value without them.
fn of_bare(byte: u8) -> bool {
    base64_url(byte) || b".~+/=!@#%^*?".contains(&byte)
}

/// Whether a text that is all of a value is one to be taken out.
pub(super) fn is_value(text: &str) -> bool {
    text.len() <= LONGEST && text.bytes().all(of_quoted) && is_secret(text.as_bytes())
}

fn blanks(cursor: &mut Cursor<'_>) {
    cursor.run(|byte| matches!(byte, b' ' | b'\t'), 8);
}

/// Passes a quotation mark, also one behind a backslash.
fn quote(cursor: &mut Cursor<'_>) -> Option<u8> {
    let mut here = cursor.clone();
    here.run(|byte| byte == b'\\', 2);
    let quote = here.eat_if(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    match quote {
        Some(_) => cursor.follow(&here),
        None => cursor.learn(&here),
    }
    quote
}

fn is_secret(value: &[u8]) -> bool {
    let is_place = [&b"/"[..], b"./", b"../", b"~/", b"$", b"http"]
        .iter()
        .any(|begin| value.starts_with(begin));
    let is_placeholder = value.windows(7).any(|window| window == b"[secret");
    value.len() >= SHORTEST && !is_place && !is_placeholder && look::is_random(value)
}
