//! What characters and words look like: of a word, by chance, or by dice.

use super::super::scan::Cursor;

pub(super) fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

pub(super) fn capitals(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

pub(super) fn hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

pub(super) fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The characters of URL-safe base64, and of most tokens.
pub(super) fn base64_url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

pub(super) fn base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Whether a word can begin where the cursor is. What is before it may be an escape, `\n` or `%20` or `\u0020`, whose last letter is
/// no part of it.
pub(super) fn is_beginning(cursor: &Cursor<'_>) -> bool {
    let Some(before) = cursor.behind(1) else { return true };
    if !before.is_ascii_alphanumeric() {
        return true;
    }
    let is_hex = |by| cursor.behind(by).is_some_and(|byte| byte.is_ascii_hexdigit());
    let is_letter = matches!(before, b'n' | b'r' | b't') && cursor.behind(2) == Some(b'\\');
    let is_percent = is_hex(1) && is_hex(2) && cursor.behind(3) == Some(b'%');
    let is_code =
        (1..=4).all(is_hex) && cursor.behind(5) == Some(b'u') && cursor.behind(6) == Some(b'\\');
    is_letter || is_percent || is_code
}

/// Whether it is not the same few characters again and again, as examples are.
pub(super) fn is_varied(token: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in token {
        if let Some(seen) = seen.get_mut(usize::from(*byte)) {
            *seen = true;
        }
    }
    seen.iter().filter(|seen| **seen).count() >= 8
}

/// Words that tell an example.
const EXAMPLES: &[&[u8]] = &[
    b"example",
    b"your",
    b"xxxx",
    b"placeholder",
    b"dummy",
    b"changeme",
    b"redacted",
    b"1234567890",
];

/// Whether a value was thrown by dice rather than written: letters and digits that change places often.
pub(super) fn is_random(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_example = EXAMPLES.iter().any(|word| contains(&lower, word));
    !is_example && !is_uuid(value) && changes(value) >= 3.max(value.len() / 8) && bits(value) >= 2.9
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// How often letters give way to digits, digits to letters, small letters to capitals.
fn changes(value: &[u8]) -> usize {
    let changes = |pair: &[u8; 2]| match pair {
        [a, b] if a.is_ascii_digit() => b.is_ascii_alphabetic(),
        [a, b] if a.is_ascii_lowercase() => b.is_ascii_digit() || b.is_ascii_uppercase(),
        [a, b] if a.is_ascii_uppercase() => b.is_ascii_digit(),
        _ => false,
    };
    let has_digit = value.iter().any(u8::is_ascii_digit);
    if has_digit { value.array_windows().filter(|pair| changes(pair)).count() } else { 0 }
}

/// How many bits a character tells, by how often each occurs.
#[expect(clippy::cast_precision_loss, reason = "values have a few hundred characters")]
fn bits(value: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let all = value.len() as f64;
    let share = |count: &u32| f64::from(*count) / all;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

fn is_uuid(value: &[u8]) -> bool {
    let is_right = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    value.len() == 36 && value.iter().enumerate().all(is_right)
}

/// Whether there are letters and something else.
pub(super) fn is_mixed(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_alphabetic)
        && value.iter().any(|byte| !byte.is_ascii_alphabetic())
}
