//! Finds a canary in the output of a program, however the program wrote it.
//!
//! Programs break lines, print in columns and encode. So output is searched without its white space, for fragments of the canary in
//! every encoding that a reader of the table produces. A fragment of twelve letters is short enough to be whole in a line of sixteen
//! bytes (`hexdump -C`) and long enough never to appear by chance.

use std::collections::{BTreeSet, HashMap};

use super::world::Canary;

/// Length of a canary. Lower-case letters alone match no format of a secret, so redaction leaves it.
pub(super) const CANARY_LENGTH: usize = 40;
const FRAGMENT_LENGTH: usize = 12;
const FRAGMENT_STEP: usize = 4;

/// All encoded forms of a canary, prepared once for many outputs.
#[derive(Debug)]
pub(super) struct Fingerprints(Vec<(&'static str, String)>);

type Encoding = (&'static str, fn(&[u8]) -> String);

const ENCODINGS: &[Encoding] = &[
    ("text", |bytes| letters(bytes.iter().copied())),
    ("reversed text", |bytes| letters(bytes.iter().rev().copied())),
    ("upper case", |bytes| letters(bytes.to_ascii_uppercase().into_iter())),
    ("rot13", |bytes| letters(bytes.iter().map(|byte| (byte - b'a' + 13) % 26 + b'a'))),
    ("hex", |bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
    ("upper-case hex", |bytes| bytes.iter().map(|byte| format!("{byte:02X}")).collect()),
    ("hex words", |bytes| byte_pairs_as_words(bytes).map(|word| format!("{word:04x}")).collect()),
    ("octal", |bytes| bytes.iter().map(|byte| format!("{byte:03o}")).collect()),
    ("octal words", |bytes| byte_pairs_as_words(bytes).map(|word| format!("{word:06o}")).collect()),
    ("decimal", |bytes| bytes.iter().map(u8::to_string).collect()),
];

impl Fingerprints {
    pub(super) fn of(canary: &str) -> Self {
        let bytes = canary.as_bytes();
        let mut found = Vec::new();
        for start in (0..=bytes.len() - FRAGMENT_LENGTH).step_by(FRAGMENT_STEP) {
            for (name, encode) in ENCODINGS {
                found.push((*name, encode(&bytes[start..start + FRAGMENT_LENGTH])));
            }
            // Words may begin at the other parity.
            let odd = &bytes[start + 1..start + FRAGMENT_LENGTH - 1];
            found.push((
                "hex words",
                byte_pairs_as_words(odd).map(|word| format!("{word:04x}")).collect(),
            ));
            found.push((
                "octal words",
                byte_pairs_as_words(odd).map(|word| format!("{word:06o}")).collect(),
            ));
        }
        found.extend((0..3).map(|skip| ("base64", base_encoded(&bytes[skip..], 6, BASE64))));
        found.extend((0..5).map(|skip| ("base32", base_encoded(&bytes[skip..], 5, BASE32))));
        Self(found)
    }

    /// Returns the encoding in which an output contains the canary. The caller has removed white space with `without_white_space`.
    pub(super) fn found_in(&self, output: &str) -> Option<&'static str> {
        self.0.iter().find(|(_, fragment)| output.contains(fragment)).map(|(name, _)| *name)
    }
}

/// Finds many canaries in one pass over an output.
#[derive(Debug, Default)]
pub(super) struct FragmentIndex {
    /// Fragments and the places of their canaries, by the first bytes of the fragment.
    fragments: HashMap<[u8; PREFIX], Vec<(String, String)>>,
}

const PREFIX: usize = 8;

impl FragmentIndex {
    pub(super) fn of<'c>(canaries: impl Iterator<Item = &'c Canary>) -> Self {
        let mut index = Self::default();
        for canary in canaries {
            let place = canary.path.display().to_string();
            for (_, fragment) in &canary.fingerprints.0 {
                let prefix = *fragment.as_bytes().first_chunk().expect("a long fragment");
                index.fragments.entry(prefix).or_default().push((fragment.clone(), place.clone()));
            }
        }
        index
    }

    /// Returns the index of each canary that an output contains.
    pub(super) fn found_in(&self, output: &str) -> BTreeSet<String> {
        let output = without_white_space(output);
        let bytes = output.as_bytes();
        let known =
            |rest: &'_ [u8]| rest.first_chunk().and_then(|prefix| self.fragments.get(prefix));
        let places = (0..bytes.len()).flat_map(|at| {
            let rest = &bytes[at..];
            let found = known(rest).into_iter().flatten();
            found.filter(move |(fragment, _)| rest.starts_with(fragment.as_bytes()))
        });
        places.map(|(_, place)| place.clone()).collect()
    }
}

/// Removes the white space and zero bytes that programs put between characters.
pub(super) fn without_white_space(output: &str) -> String {
    output.chars().filter(|c| !c.is_whitespace() && *c != '\0').collect()
}

fn letters(bytes: impl Iterator<Item = u8>) -> String {
    bytes.map(char::from).collect()
}

/// Pairs of bytes, the low one first, as `od` and `hexdump` show them.
fn byte_pairs_as_words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
}

const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Fifteen bytes in digits of so many bits: a multiple of both bases' groups, so there is no padding.
fn base_encoded(bytes: &[u8], width: usize, alphabet: &[u8]) -> String {
    let bits: Vec<u8> =
        bytes[..15].iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let value = |digit: &[u8]| digit.iter().fold(0, |value, bit| value << 1 | usize::from(*bit));
    letters(bits.chunks(width).map(|digit| alphabet[value(digit)]))
}

#[test]
fn canary_is_found_in_every_encoding() {
    let fingerprints = Fingerprints::of("qwertyuiopasdfghjklzxcvbnmqazwsxedcrfvtg");
    for (output, expected) in [
        ("1  qwerty\nuiopas\n", Some("text")),
        ("bvcxzlkjhgfdsapoiuytrewq", Some("reversed text")),
        ("QWERTYUIOPASDFGH", Some("upper case")),
        ("djreglhvbcnfqstu", Some("rot13")),
        ("71 77 65 72 74 79 75 69 6f 70 61 73", Some("hex")),
        ("7177657274797569 6F706173", Some("upper-case hex")),
        ("7771 7265 7974 6975 706f 7361", Some("hex words")),
        ("161 167 145 162 164 171 165 151 157 160 141 163", Some("octal")),
        ("073561 071145 074564 064565 070157 071541", Some("octal words")),
        (" 070440 062567 072162 072571 067551 060560 062163 063546", Some("octal words")),
        ("113 119 101 114 116 121 117 105 111 112  97 115", Some("decimal")),
        ("cXdlcnR5dWlvcGFzZGZnaGpr", Some("base64")),
        ("IHF3ZXJ0eXVpb3Bhc2RmZ2hqa2x6eGN2", Some("base64")),
        ("EBYXOZLSOR4XK2LPOBQXGZDGM5UGU23MPJ4GG5TC", Some("base32")),
        ("qwertyuiopa", None),
        ("cat: .env: No such file or directory", None),
    ] {
        assert_eq!(fingerprints.found_in(&without_white_space(output)), expected, "{output}");
    }
}
