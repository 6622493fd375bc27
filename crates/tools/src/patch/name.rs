//! File names in patches: with a prefix such as `a/`, before a tab, perhaps quoted as git does.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use windlass_core::quote;

/// A file name of a header, as bytes, because it need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PatchName {
    bytes: Vec<u8>,
    /// True if the name was quoted, so that it is not interpreted further.
    quoted: bool,
}

impl PatchName {
    /// Parses the name behind `---`, `+++`, `rename from` and so on; a time may follow after a tab.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('\r');
        let name = if let Some((bytes, _)) = unquote(text) {
            Self { bytes, quoted: true }
        } else {
            let plain = text.split('\t').next().unwrap_or_default().trim();
            Self { bytes: plain.as_bytes().to_vec(), quoted: false }
        };
        (!name.bytes.is_empty()).then_some(name)
    }

    /// Parses the two names of `diff --git`; `None` if their boundary is ambiguous.
    pub(super) fn parse_pair(text: &str) -> Option<(Self, Self)> {
        let text = text.trim_end_matches('\r').trim();
        if let Some((bytes, rest)) = unquote(text) {
            return Some((Self { bytes, quoted: true }, Self::parse(rest.trim())?));
        }
        if let Some(at) = text.find(" \"") {
            let (old, new) = text.split_at(at);
            return Some((Self::parse(old)?, Self::parse(new.trim())?));
        }
        // Names may contain spaces; without a rename, both have the same length.
        let (old, new) = text.split_at_checked(text.len() / 2)?;
        let (old, new) = (Self::parse(old)?, Self::parse(new.strip_prefix(' ')?)?);
        let is_same = strip_pair(&old, &new).is_some_and(|(old, new)| old == new) || old == new;
        if is_same {
            return Some((old, new));
        }
        let mut words = text.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some(old), Some(new), None) => Some((Self::parse(old)?, Self::parse(new)?)),
            _ => None,
        }
    }

    /// Returns whether the name is `/dev/null`, which stands for a missing file.
    pub(super) fn is_dev_null(&self) -> bool {
        !self.quoted && self.bytes == b"/dev/null"
    }

    /// Returns the path in the form that tools take.
    pub(super) fn path(&self) -> PathBuf {
        let path = Path::new(OsStr::from_bytes(&self.bytes));
        if self.quoted { PathBuf::from(quote::path(path).into_owned()) } else { path.to_owned() }
    }

    /// Returns the side and the name without its prefix, if that is one of `sides`.
    fn strip_side(&self, sides: &[u8]) -> Option<(u8, Self)> {
        match self.bytes.as_slice() {
            [side, b'/', rest @ ..] if sides.contains(side) && !rest.is_empty() => {
                Some((*side, Self { bytes: rest.to_vec(), quoted: self.quoted }))
            }
            _ => None,
        }
    }
}

/// Returns both names without the prefixes that distinguish the sides, if they have any.
pub(super) fn without_prefixes(old: PatchName, new: PatchName) -> (PatchName, PatchName) {
    match (old.is_dev_null(), new.is_dev_null()) {
        (true, false) => {
            let new = new.strip_side(b"b").map_or(new, |(_, name)| name);
            (old, new)
        }
        (false, true) => {
            let old = old.strip_side(b"a").map_or(old, |(_, name)| name);
            (old, new)
        }
        _ => strip_pair(&old, &new).unwrap_or((old, new)),
    }
}

/// Removes `a/` and `b/`, or two different letters of git's if the rest of both names is equal.
fn strip_pair(old: &PatchName, new: &PatchName) -> Option<(PatchName, PatchName)> {
    let (old_side, old) = old.strip_side(b"aciow")?;
    let (new_side, new) = new.strip_side(b"bciow")?;
    let is_pair = (old_side, new_side) == (b'a', b'b') || old_side != new_side && old == new;
    is_pair.then_some((old, new))
}

/// Parses a name in quotes as git writes it, and returns what follows.
fn unquote(text: &str) -> Option<(Vec<u8>, &str)> {
    let text = text.trim_start().strip_prefix('"')?;
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    loop {
        match left {
            [b'"', ..] => return Some((bytes, text.get(text.len() - left.len() + 1..)?)),
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                left = rest;
            }
            [b'\\', escaped, rest @ ..] => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'a' => 7,
                    b'b' => 8,
                    b'v' => 11,
                    b'f' => 12,
                    b'"' | b'\\' => *escaped,
                    _ => return None,
                });
                left = rest;
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                left = rest;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> PatchName {
        PatchName::parse(text).unwrap()
    }

    #[test]
    fn prefixes() {
        for (old, new, expected) in [
            ("a/x", "b/x", ("x", "x")),
            ("a/x", "b/y", ("x", "y")),
            ("a/x", "a/x", ("a/x", "a/x")),
            ("x", "x", ("x", "x")),
            ("i/x", "w/x", ("x", "x")),
            ("i/x", "w/y", ("i/x", "w/y")),
            ("a/b/x", "b/b/x", ("b/x", "b/x")),
            ("/dev/null", "b/x", ("/dev/null", "x")),
            ("a/x", "/dev/null", ("x", "/dev/null")),
            ("/dev/null", "a/x", ("/dev/null", "a/x")),
            ("a/x\t2026-01-01 00:00:00", "b/x\t2026-01-02", ("x", "x")),
            (r#""a/x\ty""#, r#""b/x\ty""#, (r"$'x\ty'", r"$'x\ty'")),
            (r#""a/caf\351""#, r#""b/caf\351""#, (r"$'caf\xe9'", r"$'caf\xe9'")),
            (r#""a/caf\303\251""#, r#""b/caf\303\251""#, ("café", "café")),
        ] {
            let (a, b) = without_prefixes(name(old), name(new));
            assert_eq!((a.path(), b.path()), (expected.0.into(), expected.1.into()), "{old} {new}");
        }
    }

    #[test]
    fn both_names_of_git() {
        for (text, expected) in [
            ("a/x b/x", Some(("x", "x"))),
            ("a/x y b/x y", Some(("x y", "x y"))),
            ("a/x b/y", Some(("x", "y"))),
            ("x x", Some(("x", "x"))),
            (r#""a/\tx" "b/\tx""#, Some((r"$'\tx'", r"$'\tx'"))),
            (r#"a/x "b/\tx""#, Some(("x", r"$'\tx'"))),
            ("a/x y b/z", None),
            ("é", None),
        ] {
            let names = PatchName::parse_pair(text).map(|(old, new)| without_prefixes(old, new));
            let paths = names.map(|(old, new)| (old.path(), new.path()));
            assert_eq!(paths, expected.map(|(a, b)| (a.into(), b.into())), "{text}");
        }
    }
}
