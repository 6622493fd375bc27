//! Makes names and texts safe to show: every byte is visible, and reversible if necessary.
//!
//! A file name may hold any byte except NUL and `/`. A name that is not plain text is written as bash would quote it,
//! `$'caf\xe9.txt'`, and accepted in that form, so that a model can reach every file.

mod disguise;
mod unassigned;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub use disguise::undisguised;

/// Returns a path as text: unchanged if every character is visible and the text cannot be misread, otherwise in bash's `$'…'` form.
///
/// Blanks at the ends can be misread, and names that look like our own words about a file, such as `x (mode 755)`.
///
/// ```
/// use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};
/// use windlass_core::quote;
/// assert_eq!(quote::path(Path::new("src/lib.rs")), "src/lib.rs");
/// let odd = Path::new(OsStr::from_bytes(b"caf\xe9.txt"));
/// assert_eq!(quote::path(odd), r"$'caf\xe9.txt'");
/// assert_eq!(quote::unpath(&quote::path(odd)), odd);
/// ```
pub fn path(path: &Path) -> Cow<'_, str> {
    let bytes = path.as_os_str().as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with("$'") && is_visible(text) && !can_be_misread(text) => {
            Cow::Borrowed(text)
        }
        _ => Cow::Owned(escape(bytes)),
    }
}

/// Beginnings of our own words about a file, as they stand behind its name in lists of changes.
const OWN_WORDS: &[&str] = &[
    " (+",
    " (a link to ",
    " (another name of ",
    " (attribute ",
    " (binary, ",
    " (its content ",
    " (mode ",
    " (no name of ",
    " (too long ",
    ": +",
    ": binary, ",
    ": empty",
    ": mode ",
];

/// Returns whether a reader of a list of changes may take an end of the name for something else.
fn can_be_misread(text: &str) -> bool {
    text.starts_with(char::is_whitespace)
        || text.ends_with(char::is_whitespace)
        || (text.contains([':', '(']) && OWN_WORDS.iter().any(|words| text.contains(words)))
}

/// Returns whether all characters are visible.
fn is_visible(text: &str) -> bool {
    // Most names are plain ASCII. A loop over all bytes without an early exit takes a few machine instructions.
    let is_plain = text.bytes().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'));
    is_plain || !text.chars().any(is_invisible)
}

/// Returns the path that a text names: the reverse of [`path`].
///
/// ```
/// use windlass_core::quote::unpath;
/// assert_eq!(unpath("src/lib.rs").as_os_str(), "src/lib.rs");
/// assert_eq!(unpath(r"$'two\nlines'").as_os_str(), "two\nlines");
/// ```
pub fn unpath(text: &str) -> PathBuf {
    match text.strip_prefix("$'").and_then(|rest| rest.strip_suffix('\'')).and_then(unescape) {
        Some(bytes) => PathBuf::from(std::ffi::OsString::from_vec(bytes)),
        None => PathBuf::from(text),
    }
}

/// Escapes control, bidirectional and zero-width characters, except line ends and tabs, so that a person sees them.
///
/// ```
/// assert_eq!(windlass_core::quote::visible("a\u{202e}b\x1b[1m"), "a\\u{202e}b\\x1b[1m");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_invisible(c) && c != '\n' && c != '\t') {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if is_invisible(c) => push_escaped(&mut shown, c),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Returns whether a terminal may show nothing for a character, or something else than is there: C0 and C1 controls, bidirectional
/// marks, format characters, fillers, everything that Unicode lets a program ignore (variation selectors and tags among it, in which
/// whole texts have been hidden), private use, unassigned code points and noncharacters.
///
/// Does not cover spaces, which [`undisguised`] escapes, characters that look like others, combining marks, and assigned characters
/// that the font of a terminal lacks. An emoji with the variation selector U+FE0F is written with its escape.
///
/// ```
/// use windlass_core::quote::is_invisible;
/// assert!(is_invisible('\u{202e}'), "what follows would be read from right to left");
/// assert!(is_invisible('\u{378}') && is_invisible('\u{fe00}') && is_invisible('\u{10ffff}'));
/// assert!(!is_invisible('é') && !is_invisible(' '));
/// ```
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{16fe4}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..)
        || (c >= '\u{378}' && unassigned::is_unassigned(c))
}

/// Appends the escape of a character: `\x1b` or `\u{202e}`.
fn push_escaped(text: &mut String, c: char) {
    let code = u32::from(c);
    let written =
        if code < 0x80 { write!(text, "\\x{code:02x}") } else { write!(text, "\\u{{{code:x}}}") };
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

/// Writes bytes in bash's `$'…'` form.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::from("$'");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => text.extend(['\\', c]),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                // Bytes, not code points: bash's \u depends on the locale, \x does not.
                c if is_invisible(c) || (c.is_whitespace() && !c.is_ascii()) => {
                    push_bytes(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                c => text.push(c),
            }
        }
        push_bytes(&mut text, chunk.invalid());
    }
    text.push('\'');
    text
}

/// Appends each byte as `\x…`.
fn push_bytes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let written = write!(text, "\\x{byte:02x}");
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
}

/// Decodes the inside of bash's `$'…'` form. Returns `None` for an unknown escape.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let [kind, tail @ ..] = rest else { return None };
        rest = tail;
        match kind {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'\'' | b'\\' | b'"' => bytes.push(*kind),
            b'x' => {
                let digits =
                    rest.iter().take(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
                bytes.push(parse_byte(&rest[..digits], 16)?);
                rest = &rest[digits..];
            }
            b'0'..=b'7' => {
                let more =
                    rest.iter().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let octal: Vec<u8> =
                    std::iter::once(*kind).chain(rest[..more].iter().copied()).collect();
                bytes.push(parse_byte(&octal, 8)?);
                rest = &rest[more..];
            }
            _ => return None,
        }
    }
    Some(bytes)
}

/// Parses digits as the value of a byte.
fn parse_byte(digits: &[u8], radix: u32) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

/// Returns the path with these bytes, for hosts that read directories.
///
/// ```
/// use windlass_core::quote::{path, path_of_bytes};
/// assert_eq!(path(path_of_bytes(b"caf\xe9")), r"$'caf\xe9'");
/// ```
pub fn path_of_bytes(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Serializes paths in the form of [`path()`], so that no byte of a name is lost.
pub(crate) mod serde_path {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::path(path))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        String::deserialize(from).map(|text| super::unpath(&text))
    }
}

/// Serializes a list of paths in the form of [`path()`].
pub(crate) mod serde_paths {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| super::path(path)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        Ok(texts.iter().map(|text| super::unpath(text)).collect())
    }
}

/// Serializes a path that may be missing in the form of [`path()`].
pub(crate) mod serde_optional_path {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    #[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(super::path).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        Ok(text.as_deref().map(super::unpath))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_that_a_terminal_may_not_show_are_invisible() {
        let hidden = [
            // Controls and format characters.
            "\0\x1b\x7f\u{85}\u{ad}\u{61c}\u{200b}\u{202e}\u{2066}\u{feff}\u{fffb}",
            // What may be ignored: fillers, variation selectors, tags.
            "\u{34f}\u{115f}\u{17b4}\u{180b}\u{180f}\u{3164}\u{fe00}\u{fe0f}\u{ffa0}\u{fff0}\u{1bca0}\u{1d173}\u{e0001}\u{e0100}",
            // Private use.
            "\u{e000}\u{f8ff}\u{f0000}\u{10fffd}",
            // Unassigned, and noncharacters.
            "\u{378}\u{379}\u{fdd0}\u{ffff}\u{1fffe}\u{40000}\u{dffff}\u{10ffff}",
        ];
        for c in hidden.concat().chars() {
            assert!(is_invisible(c), "{c:?}");
            assert!(!visible(&format!("a{c}b")).contains(c) || c == '\n', "{c:?}");
            let name = format!("a{c}b");
            assert!(!path(Path::new(&name)).contains(c), "{c:?}");
        }
        for c in "aé ß€Ωж語한あ\u{301}\u{377}\u{fffd}\u{fffc}😀🧑".chars() {
            assert!(!is_invisible(c), "{c:?}");
        }
    }

    #[test]
    fn names_that_would_be_misread_are_quoted() {
        for (name, expected) in [
            ("a b", "a b"),
            ("Copy (1)", "Copy (1)"),
            ("Copy (1).txt", "Copy (1).txt"),
            ("1: a", "1: a"),
            (" a", "$' a'"),
            ("a ", "$'a '"),
            ("a\u{a0}", "$'a\\xc2\\xa0'"),
            ("\u{3000}a", "$'\\xe3\\x80\\x80a'"),
            (" ", "$' '"),
            ("x (mode 755)", "$'x (mode 755)'"),
            ("x (+1 -0)", "$'x (+1 -0)'"),
            ("x (a link to y)", "$'x (a link to y)'"),
            ("x: +1 -0", "$'x: +1 -0'"),
        ] {
            let text = path(Path::new(name));
            assert_eq!(text, expected, "{name:?}");
            assert_eq!(unpath(&text), Path::new(name));
        }
    }

    proptest! {
        #[test]
        fn any_name_survives_a_round_trip(name in proptest::collection::vec(1u8.., 1..40)) {
            let original = path_of_bytes(&name);
            let text = path(original);
            prop_assert!(!text.chars().any(is_invisible));
            prop_assert_eq!(unpath(&text), original);
        }

        #[test]
        fn visible_text_stays_visible(text in ".{0,60}") {
            let shown = visible(&text).into_owned();
            prop_assert_eq!(visible(&shown).into_owned(), shown);
        }
    }
}
