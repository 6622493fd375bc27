//! Matchers of the formats that need more than a prefix and a class of characters.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::super::scan::Cursor;
use super::characters::{self, alphanumeric, base64, base64_url};
use super::{FormatMatch, take_after_anchor};

/// Matches a Slack token, `xoxb-…` or `xapp-…`.
pub(super) fn slack(cursor: &mut Cursor<'_>, anchor: &str) -> Option<FormatMatch> {
    let from = cursor.at();
    if !characters::can_start_token(cursor) {
        return None;
    }
    cursor.advance(anchor.len());
    if anchor == "xox" {
        cursor.eat_if(|byte| matches!(byte, b'a' | b'b' | b'o' | b'p' | b'r' | b's'))?;
        cursor.eat_if(|byte| byte == b'-')?;
    }
    let token = cursor.take_run(base64_url, 24);
    let has_token = token.len() == 24 && token.iter().any(u8::is_ascii_digit);
    (has_token && characters::is_varied(token))
        .then(|| FormatMatch::up_to_cursor(from, cursor).with_tail(base64_url))
}

/// Matches the path of a Slack webhook, `hooks.slack.com/services/T…/B…/…`. Any holder of the address can post.
pub(super) fn slack_webhook(cursor: &mut Cursor<'_>, anchor: &str) -> Option<FormatMatch> {
    let is_path_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'/';
    cursor.advance(anchor.len());
    let from = cursor.at();
    let token = cursor.take_run(is_path_byte, 36);
    (token.len() == 36 && characters::is_varied(token))
        .then(|| FormatMatch::up_to_cursor(from, cursor).with_tail(is_path_byte))
}

/// Matches an API key, `sk-…`, of `OpenAI`, Anthropic and others.
pub(super) fn sk(cursor: &mut Cursor<'_>, anchor: &str) -> Option<FormatMatch> {
    let from = cursor.at();
    if !characters::can_start_token(cursor) || cursor.byte_before(1) == Some(b'-') {
        return None;
    }
    cursor.advance(anchor.len());
    let is_named = [&b"ant-"[..], b"proj-", b"svcacct-", b"admin-", b"or-v1-", b"lf-"];
    if is_named.into_iter().any(|name| cursor.eat(name)) {
        let token = cursor.take_run(base64_url, 24);
        let has_token = token.len() == 24 && token.iter().any(u8::is_ascii_digit);
        return (has_token && characters::is_varied(token))
            .then(|| FormatMatch::up_to_cursor(from, cursor).with_tail(base64_url));
    }
    let token = cursor.take_run(alphanumeric, 32);
    (token.len() == 32 && characters::is_random(token))
        .then(|| FormatMatch::up_to_cursor(from, cursor).with_tail(base64_url))
}

/// Matches a `SendGrid` key: `SG.` and two parts in base64.
pub(super) fn send_grid(cursor: &mut Cursor<'_>, anchor: &str) -> Option<FormatMatch> {
    let from = cursor.at();
    take_after_anchor(cursor, anchor, 22, base64_url)?;
    cursor.eat_if(|byte| byte == b'.')?;
    let token = cursor.take_run(base64_url, 43);
    (token.len() == 43 && characters::is_varied(token))
        .then(|| FormatMatch::up_to_cursor(from, cursor).with_tail(base64_url))
}

/// Matches a Telegram token, `123456789:AA…`: the digits are the id of the bot, the rest is the secret.
pub(super) fn telegram(cursor: &mut Cursor<'_>, _: &str) -> Option<FormatMatch> {
    let is_digit = |by| cursor.byte_before(by).is_some_and(|byte| byte.is_ascii_digit());
    let digits = (1..=12).take_while(|by| is_digit(*by)).count();
    if !(8..=10).contains(&digits) {
        return None;
    }
    cursor.advance(1);
    let from = cursor.at();
    let token = cursor.take_run(base64_url, 36);
    (token.len() == 35 && characters::is_varied(token))
        .then(|| FormatMatch::up_to_cursor(from, cursor))
}

/// Maximum bytes of the header of a JWT.
const MAX_JWT_HEADER_BYTES: usize = 1_024;
/// Maximum bytes of the claims of a JWT that are examined. Longer claims are redacted unexamined.
const MAX_JWT_CLAIMS_BYTES: usize = 1_024;

/// Matches a JWT: three parts in base64, the first of which is JSON that names an algorithm.
pub(super) fn jwt(cursor: &mut Cursor<'_>, _: &str) -> Option<FormatMatch> {
    let from = cursor.at();
    if !characters::can_start_token(cursor) {
        return None;
    }
    let header = cursor.take_run(base64_url, MAX_JWT_HEADER_BYTES);
    if header.len() < 16 || cursor.peek() != Some(b'.') {
        return None;
    }
    let header = URL_SAFE_NO_PAD.decode(header).ok()?;
    let header: serde_json::Value = serde_json::from_slice(&header).ok()?;
    header.get("alg")?;
    cursor.advance(1);
    let claims = cursor.take_run(base64_url, MAX_JWT_CLAIMS_BYTES);
    if claims.len() == MAX_JWT_CLAIMS_BYTES {
        return Some(
            FormatMatch::up_to_cursor(from, cursor)
                .with_tail(|byte| base64_url(byte) || byte == b'.'),
        );
    }
    cursor.eat_if(|byte| byte == b'.')?;
    let signature = cursor.take_run(base64_url, 16);
    (claims.len() >= 4 && signature.len() == 16)
        .then(|| FormatMatch::up_to_cursor(from, cursor).with_tail(base64_url))
}

/// Maximum bytes of a key that are examined. The rest, as far as it is base64, is redacted unexamined.
const MAX_KEY_BYTES: usize = 32 << 10;
/// Maximum bytes of one line. A key may be on a single line.
const MAX_LINE_BYTES: usize = 16 << 10;

/// Matches a PEM block with a private key, up to its end marker or, without one, as far as the lines look like a key. Lines may have
/// numbers or names before them, and be joined by `\n`.
pub(super) fn private_key(cursor: &mut Cursor<'_>, anchor: &str) -> Option<FormatMatch> {
    let from = cursor.at();
    cursor.advance(anchor.len());
    let label = cursor.take_run(is_label_byte, 40);
    let is_private = label.ends_with(b"PRIVATE KEY") || label.ends_with(b"PRIVATE KEY BLOCK");
    if !is_private || !cursor.eat(b"-----") {
        return None;
    }
    let (mut found, mut end, mut other_lines) = (0, cursor.at(), 0);
    while cursor.at() - from < MAX_KEY_BYTES && eat_line_end(cursor) {
        match PemLine::read(cursor) {
            PemLine::End(letters) => {
                return (found + letters >= 40).then(|| FormatMatch::up_to_cursor(from, cursor));
            }
            PemLine::Body(letters) => {
                found += letters;
                (end, other_lines) = (cursor.at(), 0);
            }
            PemLine::Header if found < 40 => end = cursor.at(),
            // The last line may be short and have a name before it. Then the end marker is next.
            PemLine::Header | PemLine::Other if other_lines == 0 && found >= 40 => other_lines = 1,
            PemLine::Header | PemLine::Other => break,
        }
    }
    let is_long = cursor.at() - from >= MAX_KEY_BYTES;
    let is_line_byte = |byte: u8| base64(byte) || matches!(byte, b'\n' | b'\r');
    let tail = if is_long { is_line_byte } else { super::empty_class };
    (found >= 40).then_some(FormatMatch { secret: from..end, tail })
}

/// A line of a PEM block.
enum PemLine {
    /// A line of a key, with the number of its base64 characters.
    Body(usize),
    /// A header `Name: value`, or an empty line.
    Header,
    /// The end marker of the block, with the number of base64 characters before it.
    End(usize),
    /// Any other line.
    Other,
}

impl PemLine {
    /// Passes a line and classifies it.
    fn read(cursor: &mut Cursor<'_>) -> Self {
        let from = cursor.at();
        while cursor.at() - from < MAX_LINE_BYTES {
            match cursor.peek() {
                Some(b'-') if cursor.eat(b"-----END ") => {
                    let letters =
                        cursor.passed_since(from).iter().filter(|byte| base64(**byte)).count();
                    cursor.take_run(is_label_byte, 40);
                    cursor.eat(b"-----");
                    return Self::End(letters.saturating_sub(3));
                }
                None | Some(b'\n' | b'\r' | b'\\' | b'"' | b'\'') => break,
                Some(_) => cursor.advance(1),
            }
        }
        Self::classify(cursor.passed_since(from).trim_ascii())
    }

    /// Classifies a line without an end marker.
    fn classify(line: &[u8]) -> Self {
        // A placeholder is no header: to redact a text a second time must not remove more.
        if line.windows(7).any(|part| part == b"[secret") {
            return Self::Other;
        }
        let count = line.iter().rev().take_while(|byte| base64(**byte)).count();
        let (before, letters) = line.split_at(line.len() - count);
        let is_number = |byte: &u8| byte.is_ascii_digit() || b"\t:|>#".contains(byte);
        let is_key = count >= 20 || letters.ends_with(b"=") || characters::is_mixed(letters);
        if line.is_empty() || line.windows(2).any(|pair| pair == b": ") {
            Self::Header
        } else if count >= 40 || (is_key && before.iter().all(is_number)) {
            Self::Body(count)
        } else {
            Self::Other
        }
    }
}

/// Returns whether a byte may stand in the label of a PEM block.
fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
}

/// Passes the end of a line, as a line break or written as `\n`. Returns whether it was there.
fn eat_line_end(cursor: &mut Cursor<'_>) -> bool {
    let from = cursor.at();
    while cursor.at() - from < 8 {
        let is_end = match cursor.peek() {
            Some(b'\n' | b'\r') => cursor.eat_if(|_| true).is_some(),
            Some(b'\\') => {
                let mut here = cursor.clone();
                here.take_run(|byte| byte == b'\\', 4);
                let is_end = here.eat_if(|byte| matches!(byte, b'n' | b'r')).is_some();
                if is_end {
                    cursor.continue_from(&here);
                } else {
                    cursor.note_need(&here);
                }
                is_end
            }
            // All lines may be on one, as in an environment variable.
            Some(b' ') => cursor.eat_if(|_| true).is_some(),
            _ => false,
        };
        if !is_end {
            break;
        }
        // A blank before a line belongs to that line.
        if cursor.byte_before(1) == Some(b'n') || cursor.byte_before(1) == Some(b'\n') {
            break;
        }
    }
    cursor.at() > from
}

/// Matches the key behind `AccountKey=` in a connection string of Azure.
pub(super) fn azure(cursor: &mut Cursor<'_>, anchor: &str) -> Option<FormatMatch> {
    cursor.advance(anchor.len());
    let from = cursor.at();
    let key = cursor.take_run(base64, 40);
    (key.len() == 40 && characters::is_varied(key))
        .then(|| FormatMatch::up_to_cursor(from, cursor).with_tail(base64))
}

/// Common example passwords.
const COMMON_PASSWORDS: &[&[u8]] = &[
    b"password",
    b"passwd",
    b"secret",
    b"postgres",
    b"example",
    b"changeme",
    b"username",
    b"default",
    b"token",
];

/// Matches the password in `scheme://user:PASSWORD@host`.
pub(super) fn url_password(cursor: &mut Cursor<'_>, anchor: &str) -> Option<FormatMatch> {
    let is_user_byte = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'_' | b'-' | b'.' | b'~' | b'%' | b'!' | b'*' | b'+' | b'=' | b'^' | b'#' | b'?'
            )
    };
    if !cursor.byte_before(1).is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    cursor.advance(anchor.len());
    let user = cursor.take_run(is_user_byte, 64);
    cursor.eat_if(|byte| byte == b':')?;
    let from = cursor.at();
    let is_password_byte =
        |byte| is_user_byte(byte) || matches!(byte, b'/' | b':' | b'$' | b'&' | b',' | b';');
    let password = cursor.take_run(is_password_byte, 256);
    let found = FormatMatch::up_to_cursor(from, cursor);
    cursor.eat_if(|byte| byte == b'@')?;
    let has_host = cursor.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'[');
    let lower = password.to_ascii_lowercase();
    let is_common =
        COMMON_PASSWORDS.contains(&&*lower) || password == user || !characters::is_mixed(password);
    // A password that begins with a digit and has a slash is a port and a path.
    let is_port = password.first().is_some_and(u8::is_ascii_digit) && password.contains(&b'/');
    let is_variable = password.starts_with(b"$") || password.starts_with(b"%(");
    (has_host && password.len() >= 6 && !is_common && !is_port && !is_variable).then_some(found)
}

/// Matches the token behind `Bearer `.
pub(super) fn bearer(cursor: &mut Cursor<'_>, anchor: &str) -> Option<FormatMatch> {
    if !cursor.byte_before(1).is_some_and(|byte| matches!(byte, b'b' | b'B')) {
        return None;
    }
    cursor.advance(anchor.len());
    if super::is_token_start(cursor) {
        return None;
    }
    let from = cursor.at();
    let is_token_byte =
        |byte: u8| base64_url(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=');
    let token = cursor.take_run(is_token_byte, 20);
    (token.len() == 20 && characters::is_random(token))
        .then(|| FormatMatch::up_to_cursor(from, cursor).with_tail(is_token_byte))
}

/// Matches the base64 text behind `Basic `, if it holds a name and a password.
pub(super) fn basic(cursor: &mut Cursor<'_>, anchor: &str) -> Option<FormatMatch> {
    if !cursor.byte_before(1).is_some_and(|byte| matches!(byte, b'b' | b'B')) {
        return None;
    }
    cursor.advance(anchor.len());
    let from = cursor.at();
    let text = cursor.take_run(base64, 512);
    let plain = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()?;
    let is_text = plain.iter().all(|byte| (b' '..=b'~').contains(byte));
    (is_text && plain.len() >= 6 && plain.contains(&b':'))
        .then(|| FormatMatch::up_to_cursor(from, cursor))
}
