//! What became of one file: created, deleted, moved, changed; in which lines, or how large it was and is where it has no lines.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use windlass_core::{FileKind, quote};

use super::page::{Ink, Look, painted};
use super::{Diff, render};
use crate::encoding::TextEncoding;
use crate::shown;

/// How many digits of a hash are shown.
const HASH_DIGITS: usize = 12;
/// The permission bits worth a word where a file is new: who may run it, and as whom.
const NOTABLE_MODE: u32 = 0o7111;

/// A file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// What it is.
    pub kind: FileKind,
    /// Its permission bits, if they are known.
    pub mode: Option<u32>,
    /// Its bytes; of a symbolic link, the path that it leads to; of a directory, none.
    pub content: &'a [u8],
}

impl<'a> Version<'a> {
    /// A regular file with these bytes.
    pub fn of(path: &'a Path, content: &'a [u8]) -> Self {
        Self { path, kind: FileKind::File, mode: None, content }
    }
}

/// What became of a file, ready to be shown.
///
/// ```
/// use std::path::Path;
/// use windlass_tools::diff::{Look, Version, render_file};
///
/// let (path, look) = (Path::new("a.txt"), Look::plain());
/// let report = render_file(None, Some(&Version::of(path, b"new\n")), &look);
/// assert_eq!(report.to_string(), "created a.txt: +1 -0\n@@ -0,0 +1 @@\n+new\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    /// One line without its end: what was done to which file, how many lines are new and how many are gone.
    pub headline: String,
    /// The hunks; empty if no line changed, or if it has no lines.
    pub body: String,
    /// How many lines are new.
    pub added: usize,
    /// How many lines are gone.
    pub removed: usize,
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.headline, self.body)
    }
}

/// Compares a file with itself at another moment; `None` if it was, or is, not there.
///
/// ```
/// use std::path::Path;
/// use windlass_tools::diff::{Look, Version, render_file};
///
/// let old = Version { mode: Some(0o644), ..Version::of(Path::new("run"), b"a\n") };
/// let new = Version { path: Path::new("bin/run"), mode: Some(0o755), ..old };
/// let headline = |old, new| render_file(old, new, &Look::plain()).headline;
/// assert_eq!(headline(Some(&old), Some(&new)), "moved run to bin/run: mode 644 → 755");
/// assert_eq!(headline(Some(&old), None), "deleted run: +0 -1");
/// let binary = Version { content: b"\0\x01", ..old };
/// assert_eq!(headline(None, Some(&binary)), "created run: binary, 2 B 7b7015bb92cf");
/// ```
pub fn render_file(
    before: Option<&Version<'_>>,
    after: Option<&Version<'_>>,
    look: &Look,
) -> FileReport {
    let mut report =
        FileReport { headline: String::new(), body: String::new(), added: 0, removed: 0 };
    let mut facts = Vec::new();
    facts.extend(kinds(before, after));
    facts.extend(contents(before, after, look, &mut report));
    facts.extend(modes(before, after));
    let is_same = facts.is_empty();
    let headline = painted(*look, Ink::Heading, &action(before, after, is_same));
    let colon = if is_same { "" } else { ": " };
    report.headline = format!("{headline}{colon}{}", facts.join(", "));
    report
}

fn action(before: Option<&Version<'_>>, after: Option<&Version<'_>>, is_same: bool) -> String {
    let name = |version: &Version<'_>| quote::path(version.path).into_owned();
    match (before, after) {
        (None, None) => "never there".into(),
        (None, Some(new)) => format!("created {}", name(new)),
        (Some(old), None) => format!("deleted {}", name(old)),
        (Some(old), Some(new)) if old.path != new.path => {
            format!("moved {} to {}", name(old), name(new))
        }
        (Some(old), Some(_)) if is_same => format!("unchanged {}", name(old)),
        (Some(old), Some(_)) => format!("changed {}", name(old)),
    }
}

/// What it is, where that is not a regular file.
fn kinds(before: Option<&Version<'_>>, after: Option<&Version<'_>>) -> Option<String> {
    let (old, new) = (before.map(describe), after.map(describe));
    match (old, new) {
        (Some(old), Some(new)) => (old != new).then(|| format!("{old} → {new}")),
        (Some(one), None) | (None, Some(one)) => (!before.or(after)?.is_file()).then_some(one),
        (None, None) => None,
    }
}

fn describe(version: &Version<'_>) -> String {
    match version.kind {
        FileKind::Symlink => {
            let target = quote::path(quote::path_of_bytes(version.content));
            format!("{} to {target}", version.kind)
        }
        kind => kind.to_string(),
    }
}

fn modes(before: Option<&Version<'_>>, after: Option<&Version<'_>>) -> Option<String> {
    let after = after?;
    let new = after.mode?;
    let Some(before) = before else {
        return (new & NOTABLE_MODE != 0 && after.is_file()).then(|| format!("mode {new:o}"));
    };
    // What became something else has other bits anyway.
    let old = before.mode.filter(|old| *old != new && before.kind == after.kind)?;
    Some(format!("mode {old:o} → {new:o}"))
}

/// What differs in the bytes: lines where all is text, sizes and hashes otherwise.
fn contents(
    before: Option<&Version<'_>>,
    after: Option<&Version<'_>>,
    look: &Look,
    report: &mut FileReport,
) -> Vec<String> {
    let (old, new) = (before.and_then(Version::bytes), after.and_then(Version::bytes));
    if old == new {
        return Vec::new();
    }
    let (Some(old_text), Some(new_text)) = (Text::of(old), Text::of(new)) else {
        return vec![sizes(old, new)];
    };
    let diff = Diff::between(&old_text.text, &new_text.text);
    (report.added, report.removed) = (diff.added(), diff.removed());
    report.body = render(&diff, look);
    let encodings = old_text.encoding.zip(new_text.encoding).filter(|(old, new)| old != new);
    let encodings = encodings.map(|(old, new)| format!("{} → {}", name(old), name(new)));
    // A program may read the bytes in another way than a person who sees characters.
    let encodings = encodings.or_else(|| {
        let alone = old_text.encoding.xor(new_text.encoding)?;
        (!alone.is_utf8() || alone.has_bom()).then(|| name(alone))
    });
    let lines = if !diff.is_empty() {
        let added = painted(*look, Ink::Added, &format!("+{}", report.added));
        let removed = painted(*look, Ink::Removed, &format!("-{}", report.removed));
        Some(format!("{added} {removed}"))
    } else if old.is_none() || new.is_none() {
        Some("empty".into())
    } else if old_text.encoding == new_text.encoding {
        Some(format!("bytes that are no characters, {}", sizes(old, new)))
    } else {
        None
    };
    lines.into_iter().chain(encodings).collect()
}

impl<'a> Version<'a> {
    fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }

    /// What it holds, if it is a regular file.
    pub(super) fn bytes(&self) -> Option<&'a [u8]> {
        self.is_file().then_some(self.content)
    }
}

/// `binary, 12 KiB 5f0e1a2b3c4d → 13 KiB 77aa01b2c3d4`
fn sizes(old: Option<&[u8]>, new: Option<&[u8]>) -> String {
    let one = |bytes: &[u8]| {
        let hash = blake3::hash(bytes).to_hex();
        let digits = hash.get(..HASH_DIGITS).unwrap_or_default();
        format!("{} {digits}", shown::size(bytes.len() as u64))
    };
    let both: Vec<String> = old.into_iter().chain(new).map(one).collect();
    format!("binary, {}", both.join(" → "))
}

/// The bytes of a file as text.
pub(super) struct Text<'a> {
    pub(super) text: Cow<'a, str>,
    /// `None` if there are no bytes to tell it by.
    encoding: Option<TextEncoding>,
}

impl<'a> Text<'a> {
    /// `None` if they are not text; what is not there is an empty text.
    pub(super) fn of(bytes: Option<&'a [u8]>) -> Option<Self> {
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
            return Some(Self { text: Cow::Borrowed(""), encoding: None });
        };
        let encoding = TextEncoding::detect(bytes)?;
        let body = bytes.get(encoding.mark().len()..).unwrap_or_default();
        let text = if encoding.is_utf8() { spelled_out(body) } else { encoding.decode(body) };
        Some(Self { text, encoding: Some(encoding) })
    }

    /// Whether nothing speaks against both being in one encoding.
    pub(super) fn may_be_encoded_as(&self, other: &Self) -> bool {
        self.encoding.zip(other.encoding).is_none_or(|(one, other)| one == other)
    }
}

/// The text with bytes that are no characters written as `\xff`, so that two of them are not taken for the same.
fn spelled_out(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let chunks = bytes.utf8_chunks().flat_map(|chunk| {
        [Cow::Borrowed(chunk.valid()), Cow::Owned(chunk.invalid().escape_ascii().to_string())]
    });
    Cow::Owned(chunks.collect())
}

fn name(encoding: TextEncoding) -> String {
    format!("{}{}", encoding.name(), if encoding.has_bom() { " with BOM" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(before: Option<Version<'_>>, after: Option<Version<'_>>) -> FileReport {
        render_file(before.as_ref(), after.as_ref(), &Look::plain())
    }

    fn file(path: &'static str, content: &'static [u8]) -> Version<'static> {
        Version::of(Path::new(path), content)
    }

    fn with_mode(mode: u32, content: &'static [u8]) -> Version<'static> {
        Version { mode: Some(mode), ..file("f", content) }
    }

    fn of_kind(kind: FileKind, content: &'static [u8]) -> Version<'static> {
        Version { kind, ..file("f", content) }
    }

    #[test]
    fn headlines() {
        for (before, after, expected) in [
            (None, None, "never there"),
            (None, Some(file("f", b"a\nb\n")), "created f: +2 -0"),
            (None, Some(file("f", b"")), "created f: empty"),
            (Some(file("f", b"a\n")), None, "deleted f: +0 -1"),
            (Some(file("f", b"a\n")), Some(file("f", b"a\n")), "unchanged f"),
            (Some(file("f", b"a\n")), Some(file("f", b"b\nc\n")), "changed f: +2 -1"),
            (Some(file("f", b"a\n")), Some(file("f", b"")), "changed f: +0 -1"),
            (Some(file("f", b"a\n")), Some(file("d/g", b"a\n")), "moved f to d/g"),
            (Some(file("f", b"a\n")), Some(file("d/g", b"b\n")), "moved f to d/g: +1 -1"),
            (Some(file("a\n\x1bb", b"a\n")), None, "deleted $'a\\n\\x1bb': +0 -1"),
            // Modes.
            (
                Some(with_mode(0o644, b"a\n")),
                Some(with_mode(0o755, b"a\n")),
                "changed f: mode 644 → 755",
            ),
            (
                Some(with_mode(0o644, b"a\n")),
                Some(with_mode(0o600, b"")),
                "changed f: +0 -1, mode 644 → 600",
            ),
            (Some(with_mode(0o644, b"a\n")), Some(file("f", b"a\n")), "unchanged f"),
            (None, Some(with_mode(0o644, b"a\n")), "created f: +1 -0"),
            (None, Some(with_mode(0o755, b"a\n")), "created f: +1 -0, mode 755"),
            // Bytes.
            (Some(file("f", b"\0\x01")), None, "deleted f: binary, 2 B 7b7015bb92cf"),
            (
                Some(file("f", b"a\n")),
                Some(file("f", b"\0\x01")),
                "changed f: binary, 2 B 81c4b7f7e054 → 2 B 7b7015bb92cf",
            ),
            // Encodings.
            (
                Some(file("f", b"a\n")),
                Some(file("f", b"\xef\xbb\xbfa\n")),
                "changed f: UTF-8 → UTF-8 with BOM",
            ),
            (
                Some(file("f", b"a\n")),
                Some(file("f", b"\xff\xfeb\0\n\0")),
                "changed f: +1 -1, UTF-8 → UTF-16LE with BOM",
            ),
            (None, Some(file("f", b"\xff\xfeb\0\n\0")), "created f: +1 -0, UTF-16LE with BOM"),
            // What is no regular file.
            (None, Some(of_kind(FileKind::Directory, b"")), "created f: a directory"),
            (None, Some(of_kind(FileKind::Symlink, b"to")), "created f: a symbolic link to to"),
            (
                Some(of_kind(FileKind::Symlink, b"a")),
                Some(of_kind(FileKind::Symlink, b"b")),
                "changed f: a symbolic link to a → a symbolic link to b",
            ),
            (
                Some(file("f", b"a\n")),
                Some(of_kind(FileKind::Symlink, b"b")),
                "changed f: a file → a symbolic link to b, +0 -1",
            ),
        ] {
            assert_eq!(report(before, after).headline, expected);
        }
    }

    #[test]
    fn bytes_that_are_no_characters_are_told_apart() {
        let long = "plain words in UTF-8: é à ü ö ß ñ\n".repeat(20);
        let version = |byte: u8| [long.as_bytes(), b"a", &[byte], b"\n"].concat();
        let (old, new) = (version(0xfe), version(0xff));
        let path = Path::new("f");
        let report = report(Some(Version::of(path, &old)), Some(Version::of(path, &new)));
        assert_eq!(report.headline, "changed f: +1 -1");
        assert!(report.body.ends_with("-a\\xfe\n+a\\xff\n"), "{}", report.body);
    }

    #[test]
    fn in_colour() {
        let (old, new) = (file("f", b"a\n"), file("f", b"b\n"));
        let report = render_file(Some(&old), Some(&new), &Look::colour());
        assert_eq!(
            report.headline.replace('\x1b', "␛"),
            "␛[1mchanged f␛[0m: ␛[32m+1␛[0m ␛[31m-1␛[0m"
        );
    }
}
