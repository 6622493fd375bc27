//! Classes of characters, and tests of randomness for tokens.

use super::super::scan::Cursor;

pub(super) fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Capital letters and digits.
pub(super) fn upper_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

/// Digits and small letters of hexadecimal numbers.
pub(super) fn lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Letters, digits and underscores.
pub(super) fn word_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The characters of URL-safe base64, and of most tokens.
pub(super) fn base64_url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The characters of standard base64.
pub(super) fn base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Returns whether a token can begin at the cursor: no letter or digit is before it, except as the end of an escape such as `\n`,
/// `%20` or `\u0020`.
pub(super) fn can_start_token(cursor: &Cursor<'_>) -> bool {
    let Some(before) = cursor.byte_before(1) else { return true };
    if !before.is_ascii_alphanumeric() {
        return true;
    }
    let is_hex = |by| cursor.byte_before(by).is_some_and(|byte| byte.is_ascii_hexdigit());
    let is_letter = matches!(before, b'n' | b'r' | b't') && cursor.byte_before(2) == Some(b'\\');
    let is_percent = is_hex(1) && is_hex(2) && cursor.byte_before(3) == Some(b'%');
    let is_code = (1..=4).all(is_hex)
        && cursor.byte_before(5) == Some(b'u')
        && cursor.byte_before(6) == Some(b'\\');
    is_letter || is_percent || is_code
}

/// Returns whether a token has at least 8 different bytes. Examples often repeat fewer.
pub(super) fn is_varied(token: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in token {
        if let Some(seen) = seen.get_mut(usize::from(*byte)) {
            *seen = true;
        }
    }
    seen.iter().filter(|seen| **seen).count() >= 8
}

/// Words that mark an example.
const EXAMPLE_WORDS: &[&[u8]] = &[
    b"example",
    b"your",
    b"xxxx",
    b"placeholder",
    b"dummy",
    b"changeme",
    b"redacted",
    b"1234567890",
];

/// Returns whether a value looks random: letters and digits alternate often, the entropy is high, and it is no example or UUID.
pub(super) fn is_random(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_example = EXAMPLE_WORDS.iter().any(|word| contains(&lower, word));
    !is_example
        && !is_uuid(value)
        && class_changes(value) >= 3.max(value.len() / 8)
        && entropy_per_byte(value) >= 2.9
}

/// Returns whether a text has a word in it.
fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// Counts changes from letter to digit, from digit to letter and from small letter to capital. Returns 0 for a value without digits.
fn class_changes(value: &[u8]) -> usize {
    let changes_class = |pair: &[u8; 2]| match pair {
        [a, b] if a.is_ascii_digit() => b.is_ascii_alphabetic(),
        [a, b] if a.is_ascii_lowercase() => b.is_ascii_digit() || b.is_ascii_uppercase(),
        [a, b] if a.is_ascii_uppercase() => b.is_ascii_digit(),
        _ => false,
    };
    let has_digit = value.iter().any(u8::is_ascii_digit);
    if has_digit { value.array_windows().filter(|pair| changes_class(pair)).count() } else { 0 }
}

/// Returns the entropy in bits per byte, by the frequency of each byte.
#[expect(clippy::cast_precision_loss, reason = "values have a few hundred characters")]
fn entropy_per_byte(value: &[u8]) -> f64 {
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

/// Returns whether a value has the form of a UUID.
fn is_uuid(value: &[u8]) -> bool {
    let is_right = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    value.len() == 36 && value.iter().enumerate().all(is_right)
}

/// Returns whether there are letters and other characters.
pub(super) fn is_mixed(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_alphabetic)
        && value.iter().any(|byte| !byte.is_ascii_alphabetic())
}
