//! `password=…`, `"token": "…"`, `API_KEY: …`: values that are assigned to a name that suggests a secret.
//!
//! The name alone is not enough, since no source file could be read then. The value must be a literal and look random.

use super::super::scan::Cursor;
use super::FormatMatch;
use super::characters::{self, base64_url};

/// Minimum bytes of a secret value. Shorter values are words.
const MIN_VALUE_BYTES: usize = 12;
/// Maximum bytes of a value that are examined. Longer values are texts.
const MAX_VALUE_BYTES: usize = 256;

/// Matches the value that is assigned to a name. The cursor is in the middle of the name.
pub(super) fn match_value(cursor: &mut Cursor<'_>, anchor: &str) -> Option<FormatMatch> {
    cursor.advance(anchor.len());
    cursor.take_run(base64_url, 40);
    eat_quote(cursor);
    eat_blanks(cursor);
    eat_separator(cursor)?;
    eat_blanks(cursor);
    let quoted = eat_quote(cursor);
    if super::is_token_start(cursor) {
        return None;
    }
    let from = cursor.at();
    let is_value_byte = if quoted.is_some() { is_quoted_value_byte } else { is_bare_value_byte };
    let value = cursor.take_run(is_value_byte, MAX_VALUE_BYTES);
    let found = FormatMatch::up_to_cursor(from, cursor);
    if value.len() == MAX_VALUE_BYTES {
        return looks_secret(value).then(|| found.with_tail(is_value_byte));
    }
    let is_literal = match (quoted, cursor.peek()) {
        (Some(quote), next) => next == Some(quote) || next == Some(b'\\'),
        (None, Some(next)) => next.is_ascii_whitespace() || b",;&\"'\\})`<".contains(&next),
        (None, None) => true,
    };
    (is_literal && looks_secret(value)).then_some(found)
}

/// Passes `=`, `:`, `:=`, `=>`, `==`, or a type between the two: `: &str =`. Returns `None` if there is no separator.
fn eat_separator(cursor: &mut Cursor<'_>) -> Option<()> {
    let first = cursor.eat_if(|byte| matches!(byte, b'=' | b':'))?;
    if first == b'=' {
        cursor.eat_if(|byte| matches!(byte, b'=' | b'>'));
        return Some(());
    }
    if cursor.peek() == Some(b':') {
        return None;
    }
    let mut here = cursor.clone();
    let is_type_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_& <>[]'?".contains(&byte);
    here.take_run(is_type_byte, 40);
    let has_type = here.eat_if(|byte| byte == b'=').is_some();
    cursor.note_need(&here);
    if has_type {
        cursor.continue_from(&here);
    }
    Some(())
}

/// Returns whether a byte may stand in a value between quotation marks.
fn is_quoted_value_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"'`\\".contains(&byte)
}

/// Returns whether a byte may stand in a value without quotation marks.
fn is_bare_value_byte(byte: u8) -> bool {
    base64_url(byte) || b".~+/=!@#%^*?".contains(&byte)
}

/// Returns whether a text that is a whole value looks like a secret.
pub(super) fn is_secret_value(text: &str) -> bool {
    text.len() <= MAX_VALUE_BYTES
        && text.bytes().all(is_quoted_value_byte)
        && looks_secret(text.as_bytes())
}

/// Passes blanks and tabs, at most 8.
fn eat_blanks(cursor: &mut Cursor<'_>) {
    cursor.take_run(|byte| matches!(byte, b' ' | b'\t'), 8);
}

/// Passes a quotation mark, also one behind a backslash, and returns it.
fn eat_quote(cursor: &mut Cursor<'_>) -> Option<u8> {
    let mut here = cursor.clone();
    here.take_run(|byte| byte == b'\\', 2);
    let quote = here.eat_if(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    match quote {
        Some(_) => cursor.continue_from(&here),
        None => cursor.note_need(&here),
    }
    quote
}

/// Returns whether a value is long enough, is no path, variable, address or placeholder, and looks random.
fn looks_secret(value: &[u8]) -> bool {
    let is_location = [&b"/"[..], b"./", b"../", b"~/", b"$", b"http"]
        .iter()
        .any(|begin| value.starts_with(begin));
    let is_placeholder = value.windows(7).any(|window| window == b"[secret");
    value.len() >= MIN_VALUE_BYTES
        && !is_location
        && !is_placeholder
        && characters::is_random(value)
}
