//! A report of the change of one file: created, deleted, moved or changed, with the lines that changed, or sizes and hashes if it is
//! not text.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use windlass_core::{FileKind, quote};

use super::page::{DiffFormat, TextRole, paint};
use super::{Diff, render};
use crate::encoding::TextEncoding;
use crate::format;

/// Number of shown digits of a hash.
const HASH_DIGITS: usize = 12;
/// Permission bits that are shown for a new file: execute bits, set-user-ID and set-group-ID, sticky bit.
const NOTABLE_MODE: u32 = 0o7111;

/// A file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion<'a> {
    /// Path of the file.
    pub path: &'a Path,
    /// Kind of the file.
    pub kind: FileKind,
    /// Permission bits, if they are known.
    pub mode: Option<u32>,
    /// Bytes of a file, target path of a symbolic link; empty for a directory.
    pub content: &'a [u8],
}

impl<'a> FileVersion<'a> {
    /// Makes a version of a regular file with these bytes.
    pub fn of(path: &'a Path, content: &'a [u8]) -> Self {
        Self { path, kind: FileKind::File, mode: None, content }
    }
}

/// The change of a file as text for a reader.
///
/// ```
/// use std::path::Path;
/// use windlass_tools::diff::{DiffFormat, FileVersion, render_file};
///
/// let (path, look) = (Path::new("a.txt"), DiffFormat::plain());
/// let report = render_file(None, Some(&FileVersion::of(path, b"new\n")), &look);
/// assert_eq!(report.to_string(), "created a.txt: +1 -0\n@@ -0,0 +1 @@\n+new\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    /// One line without its line feed: the action, the path, and the numbers of new and removed lines.
    pub headline: String,
    /// Hunks; empty if no line changed or if the file is not text.
    pub body: String,
    /// Number of new lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.headline, self.body)
    }
}

/// Compares two versions of a file; `None` stands for a missing file.
///
/// ```
/// use std::path::Path;
/// use windlass_tools::diff::{DiffFormat, FileVersion, render_file};
///
/// let old = FileVersion { mode: Some(0o644), ..FileVersion::of(Path::new("run"), b"a\n") };
/// let new = FileVersion { path: Path::new("bin/run"), mode: Some(0o755), ..old };
/// let headline = |old, new| render_file(old, new, &DiffFormat::plain()).headline;
/// assert_eq!(headline(Some(&old), Some(&new)), "moved run to bin/run: mode 644 → 755");
/// assert_eq!(headline(Some(&old), None), "deleted run: +0 -1");
/// let binary = FileVersion { content: b"\0\x01", ..old };
/// assert_eq!(headline(None, Some(&binary)), "created run: binary, 2 B 7b7015bb92cf");
/// ```
pub fn render_file(
    before: Option<&FileVersion<'_>>,
    after: Option<&FileVersion<'_>>,
    look: &DiffFormat,
) -> FileReport {
    let mut report =
        FileReport { headline: String::new(), body: String::new(), added: 0, removed: 0 };
    let mut facts = Vec::new();
    facts.extend(kind_fact(before, after));
    facts.extend(content_facts(before, after, look, &mut report));
    facts.extend(mode_fact(before, after));
    let is_same = facts.is_empty();
    let headline = paint(*look, TextRole::Heading, &action_and_path(before, after, is_same));
    let colon = if is_same { "" } else { ": " };
    report.headline = format!("{headline}{colon}{}", facts.join(", "));
    report
}

/// Returns the action and the path: `created a.txt`, `moved a to b`, `unchanged a`.
fn action_and_path(
    before: Option<&FileVersion<'_>>,
    after: Option<&FileVersion<'_>>,
    is_same: bool,
) -> String {
    let name = |version: &FileVersion<'_>| quote::path(version.path).into_owned();
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

/// Describes a kind that changed, or a single version that is not a regular file.
fn kind_fact(before: Option<&FileVersion<'_>>, after: Option<&FileVersion<'_>>) -> Option<String> {
    let (old, new) = (before.map(describe_kind), after.map(describe_kind));
    match (old, new) {
        (Some(old), Some(new)) => (old != new).then(|| format!("{old} → {new}")),
        (Some(one), None) | (None, Some(one)) => (!before.or(after)?.is_file()).then_some(one),
        (None, None) => None,
    }
}

/// Names the kind of a version, with the target of a symbolic link.
fn describe_kind(version: &FileVersion<'_>) -> String {
    match version.kind {
        FileKind::Symlink => {
            let target = quote::path(quote::path_of_bytes(version.content));
            format!("{} to {target}", version.kind)
        }
        kind => kind.to_string(),
    }
}

/// Describes permission bits that changed, or notable bits of a new file.
fn mode_fact(before: Option<&FileVersion<'_>>, after: Option<&FileVersion<'_>>) -> Option<String> {
    let after = after?;
    let new = after.mode?;
    let Some(before) = before else {
        return (new & NOTABLE_MODE != 0 && after.is_file()).then(|| format!("mode {new:o}"));
    };
    // A file that changed its kind has other bits anyway.
    let old = before.mode.filter(|old| *old != new && before.kind == after.kind)?;
    Some(format!("mode {old:o} → {new:o}"))
}

/// Describes the changed content and fills the line counts and the body of the report: lines if both are text, sizes and hashes otherwise.
fn content_facts(
    before: Option<&FileVersion<'_>>,
    after: Option<&FileVersion<'_>>,
    look: &DiffFormat,
    report: &mut FileReport,
) -> Vec<String> {
    let (old, new) = (before.and_then(FileVersion::bytes), after.and_then(FileVersion::bytes));
    if old == new {
        return Vec::new();
    }
    let (Some(old_text), Some(new_text)) = (DecodedText::of(old), DecodedText::of(new)) else {
        return vec![sizes_and_hashes(old, new)];
    };
    let diff = Diff::between(&old_text.text, &new_text.text);
    (report.added, report.removed) = (diff.added(), diff.removed());
    report.body = render(&diff, look);
    let encodings = old_text.encoding.zip(new_text.encoding).filter(|(old, new)| old != new);
    let encodings =
        encodings.map(|(old, new)| format!("{} → {}", encoding_label(old), encoding_label(new)));
    // A program may read the bytes in another encoding than a person who sees characters.
    let encodings = encodings.or_else(|| {
        let alone = old_text.encoding.xor(new_text.encoding)?;
        (!alone.is_utf8() || alone.has_bom()).then(|| encoding_label(alone))
    });
    let lines = if !diff.is_empty() {
        let added = paint(*look, TextRole::Added, &format!("+{}", report.added));
        let removed = paint(*look, TextRole::Removed, &format!("-{}", report.removed));
        Some(format!("{added} {removed}"))
    } else if old.is_none() || new.is_none() {
        Some("empty".into())
    } else if old_text.encoding == new_text.encoding {
        Some(format!("bytes that are no characters, {}", sizes_and_hashes(old, new)))
    } else {
        None
    };
    lines.into_iter().chain(encodings).collect()
}

impl<'a> FileVersion<'a> {
    /// Returns whether this version is a regular file.
    fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }

    /// Returns the bytes of a regular file, `None` for other kinds.
    pub(super) fn bytes(&self) -> Option<&'a [u8]> {
        self.is_file().then_some(self.content)
    }
}

/// Returns text such as `binary, 12 KiB 5f0e1a2b3c4d → 13 KiB 77aa01b2c3d4`.
fn sizes_and_hashes(old: Option<&[u8]>, new: Option<&[u8]>) -> String {
    let one = |bytes: &[u8]| {
        let hash = blake3::hash(bytes).to_hex();
        let digits = hash.get(..HASH_DIGITS).unwrap_or_default();
        format!("{} {digits}", format::size(bytes.len() as u64))
    };
    let both: Vec<String> = old.into_iter().chain(new).map(one).collect();
    format!("binary, {}", both.join(" → "))
}

/// The content of a file, decoded as text.
pub(super) struct DecodedText<'a> {
    pub(super) text: Cow<'a, str>,
    /// Encoding of the bytes; `None` for an empty file.
    encoding: Option<TextEncoding>,
}

impl<'a> DecodedText<'a> {
    /// Decodes bytes; `None` if they are not text. A missing or empty file is an empty text.
    pub(super) fn of(bytes: Option<&'a [u8]>) -> Option<Self> {
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
            return Some(Self { text: Cow::Borrowed(""), encoding: None });
        };
        let encoding = TextEncoding::detect(bytes)?;
        let body = bytes.get(encoding.mark().len()..).unwrap_or_default();
        let text =
            if encoding.is_utf8() { escape_invalid_bytes(body) } else { encoding.decode(body) };
        Some(Self { text, encoding: Some(encoding) })
    }

    /// Returns whether both texts can have the same encoding: the encodings are equal, or one is unknown.
    pub(super) fn may_be_encoded_as(&self, other: &Self) -> bool {
        self.encoding.zip(other.encoding).is_none_or(|(one, other)| one == other)
    }
}

/// Returns UTF-8 with invalid bytes written as `\xff`, so that different bytes stay different.
fn escape_invalid_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let chunks = bytes.utf8_chunks().flat_map(|chunk| {
        [Cow::Borrowed(chunk.valid()), Cow::Owned(chunk.invalid().escape_ascii().to_string())]
    });
    Cow::Owned(chunks.collect())
}

/// Returns the name of an encoding, with a remark if it has a byte order mark.
fn encoding_label(encoding: TextEncoding) -> String {
    format!("{}{}", encoding.name(), if encoding.has_bom() { " with BOM" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(before: Option<FileVersion<'_>>, after: Option<FileVersion<'_>>) -> FileReport {
        render_file(before.as_ref(), after.as_ref(), &DiffFormat::plain())
    }

    fn file(path: &'static str, content: &'static [u8]) -> FileVersion<'static> {
        FileVersion::of(Path::new(path), content)
    }

    fn with_mode(mode: u32, content: &'static [u8]) -> FileVersion<'static> {
        FileVersion { mode: Some(mode), ..file("f", content) }
    }

    fn version_of_kind(kind: FileKind, content: &'static [u8]) -> FileVersion<'static> {
        FileVersion { kind, ..file("f", content) }
    }

    #[test]
    fn headline_names_action_and_changes() {
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
            // Other kinds than regular files.
            (None, Some(version_of_kind(FileKind::Directory, b"")), "created f: a directory"),
            (
                None,
                Some(version_of_kind(FileKind::Symlink, b"to")),
                "created f: a symbolic link to to",
            ),
            (
                Some(version_of_kind(FileKind::Symlink, b"a")),
                Some(version_of_kind(FileKind::Symlink, b"b")),
                "changed f: a symbolic link to a → a symbolic link to b",
            ),
            (
                Some(file("f", b"a\n")),
                Some(version_of_kind(FileKind::Symlink, b"b")),
                "changed f: a file → a symbolic link to b, +0 -1",
            ),
        ] {
            assert_eq!(report(before, after).headline, expected);
        }
    }

    #[test]
    fn different_invalid_bytes_are_shown_as_a_change() {
        let long = "plain words in UTF-8: é à ü ö ß ñ\n".repeat(20);
        let version = |byte: u8| [long.as_bytes(), b"a", &[byte], b"\n"].concat();
        let (old, new) = (version(0xfe), version(0xff));
        let path = Path::new("f");
        let report = report(Some(FileVersion::of(path, &old)), Some(FileVersion::of(path, &new)));
        assert_eq!(report.headline, "changed f: +1 -1");
        assert!(report.body.ends_with("-a\\xfe\n+a\\xff\n"), "{}", report.body);
    }

    #[test]
    fn in_colour() {
        let (old, new) = (file("f", b"a\n"), file("f", b"b\n"));
        let report = render_file(Some(&old), Some(&new), &DiffFormat::colour());
        assert_eq!(
            report.headline.replace('\x1b', "␛"),
            "␛[1mchanged f␛[0m: ␛[32m+1␛[0m ␛[31m-1␛[0m"
        );
    }
}
