//! Formats parts of tool outputs: paths that work in the next call, sizes, counts and notes about entries that were left out.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use windlass_core::{Context, SkippedPath, ToolError, WalkReport, quote};

/// The start directory of a walk, under the name that a model can use again.
pub(crate) struct Root(PathBuf);

impl Root {
    /// Names a path relative to the directory where relative paths of this call start; a path elsewhere is absolute.
    pub(crate) fn of(cx: &Context, path: &Path) -> Result<Self, ToolError> {
        let resolved = cx.files().resolve(path)?;
        if cx.overrides().work_dir.is_none() {
            return Ok(Self(resolved.inside.unwrap_or(resolved.path)));
        }
        let base = cx.files().resolve(Path::new("."))?.path;
        Ok(Self(resolved.path.strip_prefix(base).map(Path::to_owned).unwrap_or(resolved.path)))
    }

    /// Names a recorded path relative to `base`. It is already resolved, so no link is followed.
    pub(crate) fn recorded(base: &Path, path: &Path) -> Self {
        Self(path.strip_prefix(base).unwrap_or(path).to_owned())
    }

    /// Returns the path of an entry below the root; the root's own path if `below` is empty.
    pub(crate) fn join(&self, below: &Path) -> PathBuf {
        if below.as_os_str().is_empty() { self.0.clone() } else { self.0.join(below) }
    }

    /// Returns the path of an entry below the root as quoted text; `.` if it is empty.
    pub(crate) fn show(&self, below: &Path) -> String {
        match self.join(below) {
            path if path.as_os_str().is_empty() => ".".to_owned(),
            path => quote::path(&path).into_owned(),
        }
    }
}

/// Formats a number of bytes, rounded down.
///
/// ```
/// use windlass_tools::format_size;
/// assert_eq!([812, 1229, 35 << 20].map(format_size), ["812 B", "1.2 KiB", "35 MiB"]);
/// ```
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Calculates in tenths of a unit to avoid floating point, and rounds down: the result is never larger than the file.
    let (mut unit, mut tenths) = (0, u128::from(bytes) * 10 / 1024);
    while tenths >= 10_240 {
        (unit, tenths) = (unit + 1, tenths / 1024);
    }
    let unit = UNITS.get(unit).copied().unwrap_or_default();
    if tenths < 100 {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    } else {
        format!("{} {unit}", tenths / 10)
    }
}

/// Returns the first characters of a text, with `…` if it is longer.
pub(crate) fn short(text: &str, characters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// Formats a number with its noun: `1 file`, `2 files`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Returns a note for a file that was written in place or that had hard links; empty otherwise. `links` is its number of names.
pub(crate) fn how_written(links: u64, in_place: bool) -> String {
    if in_place {
        return "\nnote: written in place, since its owner must keep it".to_owned();
    }
    match links {
        0 | 1 => String::new(),
        2 => "\nnote: the file had another name (a hard link), which keeps the old content"
            .to_owned(),
        links => format!(
            "\nnote: the file had {} other names (hard links), which keep the old content",
            links - 1
        ),
    }
}

/// Notes about entries that were left out of an output, each with a reason. Only the first are kept; the others are counted.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    kept: Vec<SkippedPath>,
    /// Number of notes that were not kept.
    more: usize,
}

impl Notes {
    /// Limit of notes that are kept during a walk.
    const MAX_KEPT: usize = 200;
    /// Limit of notes in an output.
    const MAX_SHOWN: usize = 10;

    /// Adds a note, or counts it if there are too many.
    pub(crate) fn add(&mut self, path: &Path, why: String) {
        if self.kept.len() < Self::MAX_KEPT {
            self.kept.push(SkippedPath { path: path.to_owned(), why });
        } else {
            self.more += 1;
        }
    }

    /// Returns whether nothing was left out.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.more == 0
    }

    /// Adds the notes of another walk.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.kept.append(&mut other.kept);
        self.more += other.more;
    }

    /// Drops the notes about paths that sort behind this one.
    pub(crate) fn end_at(&mut self, last: &Path) {
        self.kept.retain(|note| note.path <= *last);
        self.more = 0;
    }

    /// Appends a line for each note to a text, sorted by path.
    pub(crate) fn push_to(mut self, text: &mut String, root: &Root) {
        self.kept.sort_by(|a, b| a.path.cmp(&b.path));
        for SkippedPath { path, why } in self.kept.iter().take(Self::MAX_SHOWN) {
            push_line(text, &format!("[left out: {}: {why}]", root.show(path)));
        }
        let more = self.more + self.kept.len().saturating_sub(Self::MAX_SHOWN);
        if more > 0 {
            push_line(text, &format!("[left out: {more} more]"));
        }
    }
}

impl From<WalkReport> for Notes {
    fn from(report: WalkReport) -> Self {
        Self { kept: report.notes, more: 0 }
    }
}

/// Appends a line, after a line break if the text does not end with one.
pub(crate) fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_formatted() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1229, "1.2 KiB"),
            (10 * 1024, "10 KiB"),
            (1024 * 1024 - 1, "1023 KiB"),
            (1024 * 1024, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "15 EiB"),
        ] {
            assert_eq!(size(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn notes_are_sorted_and_limited() {
        let root = Root(PathBuf::from("src"));
        let text = |names: &[&str]| {
            let mut notes = Notes::default();
            for name in names {
                let mut one = Notes::default();
                one.add(Path::new(name), "no".into());
                notes.merge(one);
            }
            let mut text = String::from("a\nb");
            notes.push_to(&mut text, &root);
            text
        };
        assert_eq!(text(&[]), "a\nb");
        assert_eq!(text(&["z", ""]), "a\nb\n[left out: src: no]\n[left out: src/z: no]");
        assert_eq!(text(&["x"; 25]).lines().count(), 13);
        assert!(text(&["x"; 25]).ends_with("[left out: 15 more]"));
        let mut many = Notes::default();
        (0..1000).for_each(|_| many.add(Path::new("x"), "no".into()));
        assert_eq!((many.kept.len(), many.more), (200, 800));
    }
}
