//! Secrets by value: finds known values as they are, and in the forms in which programs pass them on.
//!
//! The first four bytes of every form are an anchor. The rest is decoded while it is compared, since most forms have many spellings: a
//! byte may be itself or `%2f` or `%2F` or `\/` or `\u002f`, and base64 and hex may be broken into lines. In base64 a value has three
//! forms, depending on its position in a longer text. The characters that it shares with its neighbours belong to no form and stay;
//! they reveal four bits.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::scan::{Anchors, Cursor, SecretMatch, SecretRules, empty_class};

/// Number of bytes of an anchor.
const ANCHOR_BYTES: usize = 4;
/// Minimum bytes of a line of a longer value that is redacted by itself.
const MIN_LINE_BYTES: usize = 16;

/// Known values, prepared for the search.
#[derive(Debug)]
pub(super) struct KnownValues {
    anchors: Anchors,
    /// For each anchor: the forms that may begin there, the longest first.
    forms: Vec<Vec<ValueForm>>,
    /// The placeholders of the values, then the other placeholders. None is ever taken for a secret.
    placeholders: Vec<String>,
}

/// One form in which a value may be written.
#[derive(Debug)]
struct ValueForm {
    encoding: Encoding,
    bytes: Box<[u8]>,
    /// The index of its placeholder.
    placeholder: usize,
}

/// The encoding of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// Unencoded.
    Plain,
    /// In a URL: some bytes, or all, as `%2F`.
    Percent,
    /// In JSON, source code or a shell: `\/`, `\n`, `\u002f`, `\x2f`.
    Escaped,
    /// Between single quotation marks of a shell: `'\''`.
    Quoted,
    /// Base64 of either alphabet. The bytes of the form are in the standard alphabet.
    Base64,
    /// Hexadecimal digits, in either case, with or without `:`.
    Hex,
    /// A placeholder, which stays.
    Placeholder,
}

impl KnownValues {
    /// Prepares values, given with their placeholders. `others` are further placeholders that stay.
    pub(super) fn new<'v>(
        values: impl Iterator<Item = (String, &'v str)>,
        others: impl Iterator<Item = String>,
    ) -> Self {
        let mut by_anchor: BTreeMap<[u8; ANCHOR_BYTES], Vec<ValueForm>> = BTreeMap::new();
        let mut placeholders = Vec::new();
        for (placeholder, value) in values {
            for (encoding, bytes) in forms(value.as_bytes()) {
                for anchor in anchors(encoding, &bytes) {
                    let (bytes, placeholder) = (bytes.clone(), placeholders.len());
                    by_anchor.entry(anchor).or_default().push(ValueForm {
                        encoding,
                        bytes,
                        placeholder,
                    });
                }
            }
            placeholders.push(placeholder);
        }
        if !placeholders.is_empty() {
            placeholders.extend(others);
        }
        for (at, placeholder) in placeholders.iter().enumerate() {
            let bytes: Box<[u8]> = placeholder.as_bytes().into();
            for anchor in anchors(Encoding::Plain, &bytes) {
                let form = ValueForm {
                    encoding: Encoding::Placeholder,
                    bytes: bytes.clone(),
                    placeholder: at,
                };
                by_anchor.entry(anchor).or_default().push(form);
            }
        }
        for forms in by_anchor.values_mut() {
            // One value may be the prefix of another.
            forms.sort_by_key(|form| std::cmp::Reverse(form.bytes.len()));
        }
        let anchors = Anchors::new(&by_anchor.keys().collect::<Vec<_>>());
        Self { anchors, forms: by_anchor.into_values().collect(), placeholders }
    }
}

impl SecretRules for KnownValues {
    fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    fn match_at(&self, anchor: usize, cursor: &mut Cursor<'_>) -> Option<SecretMatch<'_>> {
        for form in self.forms.get(anchor)? {
            let mut here = cursor.clone();
            let is_here = form.eat_form(&mut here);
            cursor.note_need(&here);
            if is_here {
                let placeholder = self.placeholders.get(form.placeholder).map(String::as_str);
                let placeholder = placeholder.filter(|_| form.encoding != Encoding::Placeholder);
                return Some(SecretMatch {
                    secret: cursor.at()..here.at(),
                    placeholder,
                    tail: empty_class,
                });
            }
        }
        None
    }
}

/// Returns all forms of a value, and its long lines.
fn forms(value: &[u8]) -> Vec<(Encoding, Box<[u8]>)> {
    let mut forms: Vec<(Encoding, Box<[u8]>)> =
        [Encoding::Plain, Encoding::Percent, Encoding::Escaped, Encoding::Quoted, Encoding::Hex]
            .into_iter()
            .filter(|encoding| *encoding != Encoding::Quoted || value.contains(&b'\''))
            .map(|encoding| (encoding, value.into()))
            .collect();
    for before in 0..3 {
        let form = base64_core(value, before);
        // The beginning may be at the end of a line and then cannot be found as an anchor. The rest is enough.
        let rest =
            form.get(ANCHOR_BYTES..).filter(|rest| rest.len() >= ANCHOR_BYTES).map(Box::from);
        forms.extend([Some(form), rest].into_iter().flatten().map(|form| (Encoding::Base64, form)));
    }
    let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let is_long = |line: &&[u8]| line.len() >= MIN_LINE_BYTES && line.len() < value.len();
    let lines = lines.filter(is_long).filter(|line| !line.starts_with(b"-----"));
    forms.extend(lines.map(|line| (Encoding::Plain, line.into())));
    forms
}

/// Returns the base64 characters that depend on the value alone, if `before` bytes (modulo 3) are before it.
fn base64_core(value: &[u8], before: usize) -> Box<[u8]> {
    let padded = [&[0; 2][..before.min(2)], value].concat();
    let text = STANDARD_NO_PAD.encode(&padded);
    let from = (before * 8).div_ceil(6);
    let to = padded.len() * 8 / 6;
    text.as_bytes().get(from..to).unwrap_or_default().into()
}

/// Returns the anchors of a form: all its possible first bytes.
fn anchors(encoding: Encoding, bytes: &[u8]) -> BTreeSet<[u8; ANCHOR_BYTES]> {
    let mut anchors = BTreeSet::new();
    let mut collect =
        |spellings: fn(u8) -> Vec<Vec<u8>>| collect_spellings(bytes, spellings, &[], &mut anchors);
    match encoding {
        Encoding::Plain | Encoding::Placeholder => collect(|byte| vec![vec![byte]]),
        Encoding::Percent => collect(percent_spellings),
        Encoding::Escaped => collect(escaped_spellings),
        Encoding::Quoted => collect(|byte| match byte {
            b'\'' => vec![b"'\\''".to_vec(), b"'\"'\"'".to_vec()],
            other => vec![vec![other]],
        }),
        Encoding::Base64 => {
            collect(|byte| vec![vec![byte]]);
            collect(|byte| vec![vec![url_safe(byte)]]);
        }
        Encoding::Hex => {
            for between in ["", ":", " ", "-"] {
                let pairs = bytes.iter().map(|byte| format!("{byte:02x}"));
                let text = pairs.take(ANCHOR_BYTES).collect::<Vec<_>>().join(between);
                let (lower, upper) = (text.as_bytes(), text.to_ascii_uppercase());
                anchors.extend([lower, upper.as_bytes()].map(first_anchor).into_iter().flatten());
            }
        }
    }
    anchors
}

/// Returns the first bytes as an anchor, if there are enough.
fn first_anchor(bytes: &[u8]) -> Option<[u8; ANCHOR_BYTES]> {
    bytes.first_chunk().copied()
}

/// Collects the anchors of all spellings of a text whose bytes can be written in several ways.
fn collect_spellings(
    bytes: &[u8],
    spellings: fn(u8) -> Vec<Vec<u8>>,
    prefix: &[u8],
    into: &mut BTreeSet<[u8; ANCHOR_BYTES]>,
) {
    if let Some(anchor) = first_anchor(prefix) {
        into.insert(anchor);
        return;
    }
    let Some((byte, rest)) = bytes.split_first() else { return };
    for spelling in spellings(*byte) {
        collect_spellings(rest, spellings, &[prefix, &*spelling].concat(), into);
    }
}

/// Returns the spellings of a byte in a URL.
fn percent_spellings(byte: u8) -> Vec<Vec<u8>> {
    let mut spellings =
        vec![vec![byte], format!("%{byte:02x}").into_bytes(), format!("%{byte:02X}").into_bytes()];
    if byte == b' ' {
        spellings.push(b"+".to_vec());
    }
    spellings
}

/// Returns the spellings of a byte in JSON, source code or a shell.
fn escaped_spellings(byte: u8) -> Vec<Vec<u8>> {
    let mut spellings = vec![format!("\\u{byte:04x}").into_bytes()];
    spellings.push(format!("\\x{byte:02x}").into_bytes());
    spellings.push(format!("\\x{byte:02X}").into_bytes());
    if byte != b'\\' {
        spellings.push(vec![byte]);
    }
    if let Some(letter) = escape_letter(byte) {
        spellings.push(vec![b'\\', letter]);
    } else if !byte.is_ascii_alphanumeric() {
        spellings.push(vec![b'\\', byte]);
    }
    spellings
}

/// Returns the letter that stands for a control character behind a backslash.
fn escape_letter(byte: u8) -> Option<u8> {
    let letters = [(b'\n', b'n'), (b'\r', b'r'), (b'\t', b't'), (8, b'b'), (12, b'f')];
    letters.into_iter().find(|(control, _)| *control == byte).map(|(_, letter)| letter)
}

/// Translates a base64 character to the URL-safe alphabet.
fn url_safe(byte: u8) -> u8 {
    match byte {
        b'+' => b'-',
        b'/' => b'_',
        other => other,
    }
}

impl ValueForm {
    /// Passes the form, if it is at the cursor. Returns whether it is.
    fn eat_form(&self, cursor: &mut Cursor<'_>) -> bool {
        match self.encoding {
            Encoding::Plain | Encoding::Placeholder => cursor.eat(&self.bytes),
            Encoding::Percent => self.bytes.iter().all(|byte| eat_percent(cursor, *byte)),
            Encoding::Escaped => self.bytes.iter().all(|byte| eat_escaped(cursor, *byte)),
            Encoding::Quoted => self.bytes.iter().all(|byte| match byte {
                b'\'' => cursor.eat(b"'\\''") || cursor.eat(b"'\"'\"'"),
                other => cursor.eat(&[*other]),
            }),
            Encoding::Base64 => self.bytes.iter().enumerate().all(|(at, byte)| {
                if at > 0 {
                    eat_break(cursor);
                }
                cursor.eat_if(|here| here == *byte || here == url_safe(*byte)).is_some()
            }),
            Encoding::Hex => self.bytes.iter().enumerate().all(|(at, byte)| {
                if at > 0 {
                    eat_break(cursor);
                    let _ = cursor.eat_if(|here| matches!(here, b':' | b' ' | b'-'));
                }
                eat_hex(cursor, *byte)
            }),
        }
    }
}

/// Passes a line break in a wrapped text, if there is one.
fn eat_break(cursor: &mut Cursor<'_>) {
    if cursor.peek() == Some(b'\\') {
        let _ = cursor.eat(b"\\r");
        let _ = cursor.eat(b"\\n");
    }
    let _ = cursor.eat_if(|here| here == b'\r');
    let _ = cursor.eat_if(|here| here == b'\n');
}

/// Passes two hexadecimal digits with the value of a byte. Returns whether they are there.
fn eat_hex(cursor: &mut Cursor<'_>, byte: u8) -> bool {
    let is_digit = |here: u8, value: u8| char::from(here).to_digit(16) == Some(value.into());
    cursor.eat_if(|here| is_digit(here, byte >> 4)).is_some()
        && cursor.eat_if(|here| is_digit(here, byte & 15)).is_some()
}

/// Passes a byte, percent-encoded or as it is. Returns whether it is there.
fn eat_percent(cursor: &mut Cursor<'_>, byte: u8) -> bool {
    let mut here = cursor.clone();
    let is_encoded = here.peek() == Some(b'%') && here.eat(b"%") && eat_hex(&mut here, byte);
    cursor.note_need(&here);
    if is_encoded {
        cursor.continue_from(&here);
        return true;
    }
    cursor.eat_if(|here| here == byte || (byte == b' ' && here == b'+')).is_some()
}

/// Passes a byte, escaped or as it is. Returns whether it is there.
fn eat_escaped(cursor: &mut Cursor<'_>, byte: u8) -> bool {
    if cursor.peek() != Some(b'\\') {
        return cursor.eat_if(|here| here == byte).is_some();
    }
    cursor.advance(1);
    let letter = escape_letter(byte);
    match cursor.peek() {
        Some(b'u') => cursor.eat(b"u00") && eat_hex(cursor, byte),
        Some(b'x') => cursor.eat(b"x") && eat_hex(cursor, byte),
        Some(here) if Some(here) == letter => cursor.eat(&[here]),
        Some(here) if here == byte && !byte.is_ascii_alphanumeric() => cursor.eat(&[here]),
        _ => false,
    }
}
