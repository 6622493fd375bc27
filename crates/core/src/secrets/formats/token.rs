//! Formats that need a look of their own.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::super::scan::Cursor;
use super::look::{self, alphanumeric, base64, base64_url};
use super::{Match, follows};

/// `xoxb-…` and its kin.
pub(super) fn slack(cursor: &mut Cursor<'_>, anchor: &str) -> Option<Match> {
    let from = cursor.at();
    if !look::is_beginning(cursor) {
        return None;
    }
    cursor.go_on(anchor.len());
    if anchor == "xox" {
        cursor.eat_if(|byte| matches!(byte, b'a' | b'b' | b'o' | b'p' | b'r' | b's'))?;
        cursor.eat_if(|byte| byte == b'-')?;
    }
    let token = cursor.run(base64_url, 24);
    let is_token = token.len() == 24 && token.iter().any(u8::is_ascii_digit);
    (is_token && look::is_varied(token)).then(|| Match::since(from, cursor).and(base64_url))
}

/// `hooks.slack.com/services/T…/B…/…`: who has the address may write.
pub(super) fn slack_webhook(cursor: &mut Cursor<'_>, anchor: &str) -> Option<Match> {
    let of_path = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'/';
    cursor.go_on(anchor.len());
    let from = cursor.at();
    let token = cursor.run(of_path, 36);
    (token.len() == 36 && look::is_varied(token)).then(|| Match::since(from, cursor).and(of_path))
}

/// `sk-…`: `OpenAI`, Anthropic, and others after them.
pub(super) fn sk(cursor: &mut Cursor<'_>, anchor: &str) -> Option<Match> {
    let from = cursor.at();
    if !look::is_beginning(cursor) || cursor.behind(1) == Some(b'-') {
        return None;
    }
    cursor.go_on(anchor.len());
    let is_named = [&b"ant-"[..], b"proj-", b"svcacct-", b"admin-", b"or-v1-", b"lf-"];
    if is_named.into_iter().any(|name| cursor.eat(name)) {
        let token = cursor.run(base64_url, 24);
        let is_token = token.len() == 24 && token.iter().any(u8::is_ascii_digit);
        return (is_token && look::is_varied(token))
            .then(|| Match::since(from, cursor).and(base64_url));
    }
    let token = cursor.run(alphanumeric, 32);
    (token.len() == 32 && look::is_random(token))
        .then(|| Match::since(from, cursor).and(base64_url))
}

/// `SG.` and two parts of base64.
pub(super) fn send_grid(cursor: &mut Cursor<'_>, anchor: &str) -> Option<Match> {
    let from = cursor.at();
    follows(cursor, anchor, 22, base64_url)?;
    cursor.eat_if(|byte| byte == b'.')?;
    let token = cursor.run(base64_url, 43);
    (token.len() == 43 && look::is_varied(token))
        .then(|| Match::since(from, cursor).and(base64_url))
}

/// `123456789:AA…`: the digits are the name of the bot, what follows is the secret.
pub(super) fn telegram(cursor: &mut Cursor<'_>, _: &str) -> Option<Match> {
    let is_digit = |by| cursor.behind(by).is_some_and(|byte| byte.is_ascii_digit());
    let digits = (1..=12).take_while(|by| is_digit(*by)).count();
    if !(8..=10).contains(&digits) {
        return None;
    }
    cursor.go_on(1);
    let from = cursor.at();
    let token = cursor.run(base64_url, 36);
    (token.len() == 35 && look::is_varied(token)).then(|| Match::since(from, cursor))
}

/// How much of the parts of a JWT is looked at; the rest belongs to it unseen.
const JWT_HEADER: usize = 1_024;
const JWT_CLAIMS: usize = 1_024;

/// Three parts of base64, the first of which is JSON that names an algorithm.
pub(super) fn jwt(cursor: &mut Cursor<'_>, _: &str) -> Option<Match> {
    let from = cursor.at();
    if !look::is_beginning(cursor) {
        return None;
    }
    let header = cursor.run(base64_url, JWT_HEADER);
    if header.len() < 16 || cursor.peek() != Some(b'.') {
        return None;
    }
    let header = URL_SAFE_NO_PAD.decode(header).ok()?;
    let header: serde_json::Value = serde_json::from_slice(&header).ok()?;
    header.get("alg")?;
    cursor.go_on(1);
    let claims = cursor.run(base64_url, JWT_CLAIMS);
    if claims.len() == JWT_CLAIMS {
        return Some(Match::since(from, cursor).and(|byte| base64_url(byte) || byte == b'.'));
    }
    cursor.eat_if(|byte| byte == b'.')?;
    let signature = cursor.run(base64_url, 16);
    (claims.len() >= 4 && signature.len() == 16).then(|| Match::since(from, cursor).and(base64_url))
}

/// Longer keys are not looked through to their end: what of them is base64 goes, unseen.
const LONGEST_KEY: usize = 32 << 10;
/// A line of one may be all of it.
const LONGEST_LINE: usize = 16 << 10;

/// A block of PEM with a private key in it: to its end or, if that is not there, as far as it looks like one. Lines may have numbers
/// or names before them, and be joined by `\n`.
pub(super) fn private_key(cursor: &mut Cursor<'_>, anchor: &str) -> Option<Match> {
    let from = cursor.at();
    cursor.go_on(anchor.len());
    let label = cursor.run(of_label, 40);
    let is_private = label.ends_with(b"PRIVATE KEY") || label.ends_with(b"PRIVATE KEY BLOCK");
    if !is_private || !cursor.eat(b"-----") {
        return None;
    }
    let (mut found, mut end, mut strange) = (0, cursor.at(), 0);
    while cursor.at() - from < LONGEST_KEY && eat_line_end(cursor) {
        match Line::pass(cursor) {
            Line::End(letters) => {
                return (found + letters >= 40).then(|| Match::since(from, cursor));
            }
            Line::Body(letters) => {
                found += letters;
                (end, strange) = (cursor.at(), 0);
            }
            Line::Header if found < 40 => end = cursor.at(),
            // The last line may be short and have a name before it: then the end is next.
            Line::Header | Line::Other if strange == 0 && found >= 40 => strange = 1,
            Line::Header | Line::Other => break,
        }
    }
    let is_long = cursor.at() - from >= LONGEST_KEY;
    let of_lines = |byte: u8| base64(byte) || matches!(byte, b'\n' | b'\r');
    let goes_on = if is_long { of_lines } else { super::nothing };
    (found >= 40).then_some(Match { secret: from..end, goes_on })
}

/// A line of a PEM block.
enum Line {
    /// So many characters of a key.
    Body(usize),
    /// `Name: value`, or nothing.
    Header,
    /// The end of the block, behind so many more.
    End(usize),
    Other,
}

impl Line {
    fn pass(cursor: &mut Cursor<'_>) -> Self {
        let from = cursor.at();
        while cursor.at() - from < LONGEST_LINE {
            match cursor.peek() {
                Some(b'-') if cursor.eat(b"-----END ") => {
                    let letters = cursor.since(from).iter().filter(|byte| base64(**byte)).count();
                    cursor.run(of_label, 40);
                    cursor.eat(b"-----");
                    return Self::End(letters.saturating_sub(3));
                }
                None | Some(b'\n' | b'\r' | b'\\' | b'"' | b'\'') => break,
                Some(_) => cursor.go_on(1),
            }
        }
        Self::of(cursor.since(from).trim_ascii())
    }

    fn of(line: &[u8]) -> Self {
        // What was taken out already is no header: a text that is looked at twice must not lose more.
        if line.windows(7).any(|part| part == b"[secret") {
            return Self::Other;
        }
        let count = line.iter().rev().take_while(|byte| base64(**byte)).count();
        let (before, letters) = line.split_at(line.len() - count);
        let is_number = |byte: &u8| byte.is_ascii_digit() || b"\t:|>#".contains(byte);
        let is_key = count >= 20 || letters.ends_with(b"=") || look::is_mixed(letters);
        if line.is_empty() || line.windows(2).any(|pair| pair == b": ") {
            Self::Header
        } else if count >= 40 || (is_key && before.iter().all(is_number)) {
            Self::Body(count)
        } else {
            Self::Other
        }
    }
}

fn of_label(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
}

/// The end of a line, as it is or written as `\n`.
fn eat_line_end(cursor: &mut Cursor<'_>) -> bool {
    let from = cursor.at();
    while cursor.at() - from < 8 {
        let is_end = match cursor.peek() {
            Some(b'\n' | b'\r') => cursor.eat_if(|_| true).is_some(),
            Some(b'\\') => {
                let mut here = cursor.clone();
                here.run(|byte| byte == b'\\', 4);
                let is_end = here.eat_if(|byte| matches!(byte, b'n' | b'r')).is_some();
                if is_end {
                    cursor.follow(&here);
                } else {
                    cursor.learn(&here);
                }
                is_end
            }
            // One line, as in a variable of the environment.
            Some(b' ') => cursor.eat_if(|_| true).is_some(),
            _ => false,
        };
        if !is_end {
            break;
        }
        // A blank before a line is looked at as a part of the line.
        if cursor.behind(1) == Some(b'n') || cursor.behind(1) == Some(b'\n') {
            break;
        }
    }
    cursor.at() > from
}

/// `AccountKey=` in a connection string.
pub(super) fn azure(cursor: &mut Cursor<'_>, anchor: &str) -> Option<Match> {
    cursor.go_on(anchor.len());
    let from = cursor.at();
    let key = cursor.run(base64, 40);
    (key.len() == 40 && look::is_varied(key)).then(|| Match::since(from, cursor).and(base64))
}

/// Passwords that everybody has.
const COMMON: &[&[u8]] = &[
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

/// `scheme://user:PASSWORD@host`.
pub(super) fn url_password(cursor: &mut Cursor<'_>, anchor: &str) -> Option<Match> {
    let of_part = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'_' | b'-' | b'.' | b'~' | b'%' | b'!' | b'*' | b'+' | b'=' | b'^' | b'#' | b'?'
            )
    };
    if !cursor.behind(1).is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    cursor.go_on(anchor.len());
    let user = cursor.run(of_part, 64);
    cursor.eat_if(|byte| byte == b':')?;
    let from = cursor.at();
    let of_password =
        |byte| of_part(byte) || matches!(byte, b'/' | b':' | b'$' | b'&' | b',' | b';');
    let password = cursor.run(of_password, 256);
    let found = Match::since(from, cursor);
    cursor.eat_if(|byte| byte == b'@')?;
    let has_host = cursor.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'[');
    let lower = password.to_ascii_lowercase();
    let is_common = COMMON.contains(&&*lower) || password == user || !look::is_mixed(password);
    // What begins with a number is a port, and the rest a path.
    let is_port = password.first().is_some_and(u8::is_ascii_digit) && password.contains(&b'/');
    let is_variable = password.starts_with(b"$") || password.starts_with(b"%(");
    (has_host && password.len() >= 6 && !is_common && !is_port && !is_variable).then_some(found)
}

/// `Bearer …`.
pub(super) fn bearer(cursor: &mut Cursor<'_>, anchor: &str) -> Option<Match> {
    if !cursor.behind(1).is_some_and(|byte| matches!(byte, b'b' | b'B')) {
        return None;
    }
    cursor.go_on(anchor.len());
    if super::is_token(cursor) {
        return None;
    }
    let from = cursor.at();
    let of_token = |byte: u8| base64_url(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=');
    let token = cursor.run(of_token, 20);
    (token.len() == 20 && look::is_random(token)).then(|| Match::since(from, cursor).and(of_token))
}

/// `Basic` and, in base64, a name and a password.
pub(super) fn basic(cursor: &mut Cursor<'_>, anchor: &str) -> Option<Match> {
    if !cursor.behind(1).is_some_and(|byte| matches!(byte, b'b' | b'B')) {
        return None;
    }
    cursor.go_on(anchor.len());
    let from = cursor.at();
    let text = cursor.run(base64, 512);
    let plain = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()?;
    let is_text = plain.iter().all(|byte| (b' '..=b'~').contains(byte));
    (is_text && plain.len() >= 6 && plain.contains(&b':')).then(|| Match::since(from, cursor))
}
