//! How what a walk found is written down: names that work in the next call, sizes, and what had to be left out.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use windlass_core::{Context, Note, ToolError, WalkReport, quote};

/// Where a walk began, under the name that a model can use again.
pub(crate) struct Root(PathBuf);

impl Root {
    /// Relative to where relative paths of this call start, absolute if it is elsewhere.
    pub(crate) fn of(cx: &Context, path: &Path) -> Result<Self, ToolError> {
        let resolved = cx.files().resolve(path)?;
        if cx.overrides().work_dir.is_none() {
            return Ok(Self(resolved.inside.unwrap_or(resolved.path)));
        }
        let base = cx.files().resolve(Path::new("."))?.path;
        Ok(Self(resolved.path.strip_prefix(base).map(Path::to_owned).unwrap_or(resolved.path)))
    }

    /// The same for a path on record: it is real already, and no link is followed. `base` is where relative paths start.
    pub(crate) fn recorded(base: &Path, path: &Path) -> Self {
        Self(path.strip_prefix(base).unwrap_or(path).to_owned())
    }

    /// The path of something below the root; the root's own if `below` is empty.
    pub(crate) fn join(&self, below: &Path) -> PathBuf {
        if below.as_os_str().is_empty() { self.0.clone() } else { self.0.join(below) }
    }

    /// The same as text.
    pub(crate) fn show(&self, below: &Path) -> String {
        match self.join(below) {
            path if path.as_os_str().is_empty() => ".".to_owned(),
            path => quote::path(&path).into_owned(),
        }
    }
}

/// A number of bytes for people: `812 B`, `1.2 KiB`, `34 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // In tenths of a unit, so that no floating point is needed; rounded down, never up to a size that the file has not.
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

/// The beginning of a text, with a sign where more of it was left out.
pub(crate) fn short(text: &str, characters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A note on how a file that had so many names was written, if that is worth one.
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

/// What had to be left out, and why: the first of many, and how many more.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    kept: Vec<Note>,
    more: usize,
}

impl Notes {
    /// How many are kept while a walk goes on.
    const KEPT: usize = 200;
    /// How many are shown.
    const SHOWN: usize = 10;

    pub(crate) fn add(&mut self, path: &Path, why: String) {
        if self.kept.len() < Self::KEPT {
            self.kept.push(Note { path: path.to_owned(), why });
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.more == 0
    }

    pub(crate) fn merge(&mut self, mut other: Self) {
        self.kept.append(&mut other.kept);
        self.more += other.more;
    }

    /// Drops those behind this path.
    pub(crate) fn end_at(&mut self, last: &Path) {
        self.kept.retain(|note| note.path <= *last);
        self.more = 0;
    }

    /// Adds a line for each to a text, in the order of paths.
    pub(crate) fn push_to(mut self, text: &mut String, root: &Root) {
        self.kept.sort_by(|a, b| a.path.cmp(&b.path));
        for Note { path, why } in self.kept.iter().take(Self::SHOWN) {
            push_line(text, &format!("[left out: {}: {why}]", root.show(path)));
        }
        let more = self.more + self.kept.len().saturating_sub(Self::SHOWN);
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

/// Adds a line, after a line break if one is missing.
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
    fn sizes() {
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
    fn notes_are_sorted_and_few() {
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
