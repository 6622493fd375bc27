//! Secrets by value: as they are, and in the forms in which programs pass them on.
//!
//! For every form the first four bytes of it are an anchor. What follows is compared on the spot, since most forms are many: a
//! byte may be itself or `%2f` or `%2F` or `\/` or `\u002f`, base64 and hex may be broken into lines. In base64 a value looks in
//! three ways, by its place in a longer text; the characters that it shares with its neighbours are not a part of any form, and
//! stay. They tell four bits.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::scan::{Anchors, Cursor, Found, Rules, nothing};

/// How much of a form is its anchor.
const ANCHOR: usize = 4;
/// Shorter lines of a longer value are not taken out by themselves.
const SHORTEST_LINE: usize = 16;

/// Values to look for.
#[derive(Debug)]
pub(super) struct Known {
    anchors: Anchors,
    /// For each anchor, what may begin there, the longest first.
    forms: Vec<Vec<Form>>,
    /// What takes the place of each value, and of what is found by its format: not to be taken for anything else.
    placeholders: Vec<String>,
}

/// One way in which a value may be written.
#[derive(Debug)]
struct Form {
    coding: Coding,
    bytes: Box<[u8]>,
    /// Which placeholder takes its place.
    placeholder: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// As it is.
    Plain,
    /// In an address: some bytes, or all, as `%2F`.
    Percent,
    /// In a text of JSON, a program or a shell: `\/`, `\n`, `\u002f`, `\x2f`.
    Escaped,
    /// Between the single quotation marks of a shell: `'\''`.
    Quoted,
    /// Base64, of either alphabet; here the bytes are those of the standard one.
    Base64,
    /// Hexadecimal digits, in either case, with or without `:`.
    Hex,
    /// One of our own placeholders, which stays.
    Placeholder,
}

impl Known {
    /// Values by what takes their place; `others` are placeholders besides.
    pub(super) fn new<'v>(
        values: impl Iterator<Item = (String, &'v str)>,
        others: impl Iterator<Item = String>,
    ) -> Self {
        let mut by_anchor: BTreeMap<[u8; ANCHOR], Vec<Form>> = BTreeMap::new();
        let mut placeholders = Vec::new();
        for (placeholder, value) in values {
            for (coding, bytes) in forms(value.as_bytes()) {
                for anchor in anchors(coding, &bytes) {
                    let (bytes, placeholder) = (bytes.clone(), placeholders.len());
                    by_anchor.entry(anchor).or_default().push(Form { coding, bytes, placeholder });
                }
            }
            placeholders.push(placeholder);
        }
        if !placeholders.is_empty() {
            placeholders.extend(others);
        }
        for (at, placeholder) in placeholders.iter().enumerate() {
            let bytes: Box<[u8]> = placeholder.as_bytes().into();
            for anchor in anchors(Coding::Plain, &bytes) {
                let form =
                    Form { coding: Coding::Placeholder, bytes: bytes.clone(), placeholder: at };
                by_anchor.entry(anchor).or_default().push(form);
            }
        }
        for forms in by_anchor.values_mut() {
            // One value may be the beginning of another.
            forms.sort_by_key(|form| std::cmp::Reverse(form.bytes.len()));
        }
        let anchors = Anchors::new(&by_anchor.keys().collect::<Vec<_>>());
        Self { anchors, forms: by_anchor.into_values().collect(), placeholders }
    }
}

impl Rules for Known {
    fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    fn judge(&self, anchor: usize, cursor: &mut Cursor<'_>) -> Option<Found<'_>> {
        for form in self.forms.get(anchor)? {
            let mut here = cursor.clone();
            let is_here = form.is_at(&mut here);
            cursor.learn(&here);
            if is_here {
                let says = self.placeholders.get(form.placeholder).map(String::as_str);
                let says = says.filter(|_| form.coding != Coding::Placeholder);
                return Some(Found { secret: cursor.at()..here.at(), says, goes_on: nothing });
            }
        }
        None
    }
}

/// All forms of a value.
fn forms(value: &[u8]) -> Vec<(Coding, Box<[u8]>)> {
    let mut forms: Vec<(Coding, Box<[u8]>)> =
        [Coding::Plain, Coding::Percent, Coding::Escaped, Coding::Quoted, Coding::Hex]
            .into_iter()
            .filter(|coding| *coding != Coding::Quoted || value.contains(&b'\''))
            .map(|coding| (coding, value.into()))
            .collect();
    for before in 0..3 {
        let form = base64(value, before);
        // The beginning may be at the end of a line, and then it is not there as an anchor; the rest is enough.
        let rest = form.get(ANCHOR..).filter(|rest| rest.len() >= ANCHOR).map(Box::from);
        forms.extend([Some(form), rest].into_iter().flatten().map(|form| (Coding::Base64, form)));
    }
    let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let is_long = |line: &&[u8]| line.len() >= SHORTEST_LINE && line.len() < value.len();
    let lines = lines.filter(is_long).filter(|line| !line.starts_with(b"-----"));
    forms.extend(lines.map(|line| (Coding::Plain, line.into())));
    forms
}

/// What is the same in base64 wherever the value has this many bytes (and any multiple of three more) before it.
fn base64(value: &[u8], before: usize) -> Box<[u8]> {
    let padded = [&[0; 2][..before.min(2)], value].concat();
    let text = STANDARD_NO_PAD.encode(&padded);
    let from = (before * 8).div_ceil(6);
    let to = padded.len() * 8 / 6;
    text.as_bytes().get(from..to).unwrap_or_default().into()
}

/// The first bytes that a form may have.
fn anchors(coding: Coding, bytes: &[u8]) -> BTreeSet<[u8; ANCHOR]> {
    let mut anchors = BTreeSet::new();
    let mut collect = |ways: fn(u8) -> Vec<Vec<u8>>| spell(bytes, ways, &[], &mut anchors);
    match coding {
        Coding::Plain | Coding::Placeholder => collect(|byte| vec![vec![byte]]),
        Coding::Percent => collect(percent),
        Coding::Escaped => collect(escaped),
        Coding::Quoted => collect(|byte| match byte {
            b'\'' => vec![b"'\\''".to_vec(), b"'\"'\"'".to_vec()],
            other => vec![vec![other]],
        }),
        Coding::Base64 => {
            collect(|byte| vec![vec![byte]]);
            collect(|byte| vec![vec![url_safe(byte)]]);
        }
        Coding::Hex => {
            for between in ["", ":", " ", "-"] {
                let pairs = bytes.iter().map(|byte| format!("{byte:02x}"));
                let text = pairs.take(ANCHOR).collect::<Vec<_>>().join(between);
                let (lower, upper) = (text.as_bytes(), text.to_ascii_uppercase());
                anchors.extend([lower, upper.as_bytes()].map(first).into_iter().flatten());
            }
        }
    }
    anchors
}

fn first(bytes: &[u8]) -> Option<[u8; ANCHOR]> {
    bytes.first_chunk().copied()
}

/// All beginnings of a text each of whose bytes may be written in several ways.
fn spell(
    bytes: &[u8],
    ways: fn(u8) -> Vec<Vec<u8>>,
    begun: &[u8],
    into: &mut BTreeSet<[u8; ANCHOR]>,
) {
    if let Some(anchor) = first(begun) {
        into.insert(anchor);
        return;
    }
    let Some((byte, rest)) = bytes.split_first() else { return };
    for way in ways(*byte) {
        spell(rest, ways, &[begun, &*way].concat(), into);
    }
}

fn percent(byte: u8) -> Vec<Vec<u8>> {
    let mut ways =
        vec![vec![byte], format!("%{byte:02x}").into_bytes(), format!("%{byte:02X}").into_bytes()];
    if byte == b' ' {
        ways.push(b"+".to_vec());
    }
    ways
}

fn escaped(byte: u8) -> Vec<Vec<u8>> {
    let mut ways = vec![format!("\\u{byte:04x}").into_bytes()];
    ways.push(format!("\\x{byte:02x}").into_bytes());
    ways.push(format!("\\x{byte:02X}").into_bytes());
    if byte != b'\\' {
        ways.push(vec![byte]);
    }
    if let Some(letter) = letter_of(byte) {
        ways.push(vec![b'\\', letter]);
    } else if !byte.is_ascii_alphanumeric() {
        ways.push(vec![b'\\', byte]);
    }
    ways
}

/// The letter that stands for a control character behind a backslash.
fn letter_of(byte: u8) -> Option<u8> {
    let letters = [(b'\n', b'n'), (b'\r', b'r'), (b'\t', b't'), (8, b'b'), (12, b'f')];
    letters.into_iter().find(|(control, _)| *control == byte).map(|(_, letter)| letter)
}

fn url_safe(byte: u8) -> u8 {
    match byte {
        b'+' => b'-',
        b'/' => b'_',
        other => other,
    }
}

impl Form {
    /// Whether this is where the cursor is, which passes it.
    fn is_at(&self, cursor: &mut Cursor<'_>) -> bool {
        match self.coding {
            Coding::Plain | Coding::Placeholder => cursor.eat(&self.bytes),
            Coding::Percent => self.bytes.iter().all(|byte| eat_percent(cursor, *byte)),
            Coding::Escaped => self.bytes.iter().all(|byte| eat_escaped(cursor, *byte)),
            Coding::Quoted => self.bytes.iter().all(|byte| match byte {
                b'\'' => cursor.eat(b"'\\''") || cursor.eat(b"'\"'\"'"),
                other => cursor.eat(&[*other]),
            }),
            Coding::Base64 => self.bytes.iter().enumerate().all(|(at, byte)| {
                if at > 0 {
                    eat_break(cursor);
                }
                cursor.eat_if(|here| here == *byte || here == url_safe(*byte)).is_some()
            }),
            Coding::Hex => self.bytes.iter().enumerate().all(|(at, byte)| {
                if at > 0 {
                    eat_break(cursor);
                    let _ = cursor.eat_if(|here| matches!(here, b':' | b' ' | b'-'));
                }
                eat_hex(cursor, *byte)
            }),
        }
    }
}

/// The end of a line, where a text was wrapped.
fn eat_break(cursor: &mut Cursor<'_>) {
    if cursor.peek() == Some(b'\\') {
        let _ = cursor.eat(b"\\r");
        let _ = cursor.eat(b"\\n");
    }
    let _ = cursor.eat_if(|here| here == b'\r');
    let _ = cursor.eat_if(|here| here == b'\n');
}

fn eat_hex(cursor: &mut Cursor<'_>, byte: u8) -> bool {
    let is_digit = |here: u8, value: u8| char::from(here).to_digit(16) == Some(value.into());
    cursor.eat_if(|here| is_digit(here, byte >> 4)).is_some()
        && cursor.eat_if(|here| is_digit(here, byte & 15)).is_some()
}

fn eat_percent(cursor: &mut Cursor<'_>, byte: u8) -> bool {
    let mut here = cursor.clone();
    let is_encoded = here.peek() == Some(b'%') && here.eat(b"%") && eat_hex(&mut here, byte);
    cursor.learn(&here);
    if is_encoded {
        cursor.follow(&here);
        return true;
    }
    cursor.eat_if(|here| here == byte || (byte == b' ' && here == b'+')).is_some()
}

fn eat_escaped(cursor: &mut Cursor<'_>, byte: u8) -> bool {
    if cursor.peek() != Some(b'\\') {
        return cursor.eat_if(|here| here == byte).is_some();
    }
    cursor.go_on(1);
    let letter = letter_of(byte);
    match cursor.peek() {
        Some(b'u') => cursor.eat(b"u00") && eat_hex(cursor, byte),
        Some(b'x') => cursor.eat(b"x") && eat_hex(cursor, byte),
        Some(here) if Some(here) == letter => cursor.eat(&[here]),
        Some(here) if here == byte && !byte.is_ascii_alphanumeric() => cursor.eat(&[here]),
        _ => false,
    }
}
