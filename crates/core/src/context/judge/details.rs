//! Describes changes of a file other than the lines of its text: mode, extended attributes, and the size and hash of a long
//! content.

use std::cell::Cell;
use std::path::Path;

use crate::{Attributes, ContentHash, ContentSource, FoundBody, FoundEntry, quote};

/// Maximum bytes that are hashed for one judgement: a person is waiting, and a sparse file can have any length.
pub(super) const MAX_HASHED_BYTES: u64 = 256 << 20;
/// Number of digits of a hash that are shown.
const HASH_DIGITS: usize = 12;
/// Maximum bytes of an attribute's value that are shown.
const MAX_VALUE_BYTES: usize = 64;

/// Describes the change of mode of a file with new content, if the mode changed.
pub(super) fn mode_change(old: &Attributes, new: &Attributes) -> Option<String> {
    let (old, new) = (old.mode? & 0o7777, new.mode? & 0o7777);
    (old != new).then(|| format!("mode {old:o} → {new:o}"))
}

/// Describes sizes and hashes of the old and the new content, if one of them is too long to be shown. Takes hashed bytes from
/// `budget`.
pub(super) fn describe_long_content(
    old: Option<&FoundEntry>,
    staged: Option<&Path>,
    shown_bytes: u64,
    budget: &Cell<u64>,
) -> Option<String> {
    let old = old.and_then(|old| match &old.body {
        FoundBody::File(file) => Some((old.stat.len, ContentSource::File(file))),
        _ => None,
    });
    let new = staged.and_then(|staged| {
        let facts = staged.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((facts.len(), ContentSource::At(staged)))
    });
    let is_long = [&old, &new].into_iter().flatten().any(|(bytes, _)| *bytes > shown_bytes);
    is_long.then(|| {
        let both = [old, new].into_iter().flatten();
        let described: Vec<String> =
            both.map(|(bytes, source)| size_and_hash(bytes, source, budget)).collect();
        format!("too long to be shown: {}", described.join(" → "))
    })
}

/// Describes a content by its size, and by its hash if the budget suffices.
fn size_and_hash(bytes: u64, source: ContentSource<'_>, budget: &Cell<u64>) -> String {
    let hash = budget.get().checked_sub(bytes).and_then(|left| {
        budget.set(left);
        ContentHash::of_source(source).ok()
    });
    match hash.map(|hash| hash.to_string()) {
        Some(hash) => format!("{bytes} bytes {}", hash.get(..HASH_DIGITS).unwrap_or(&hash)),
        None => format!("{bytes} bytes"),
    }
}

/// Describes each extended attribute that changes. Leaves out security labels and the overlay's own marks, which are not the
/// person's.
pub(super) fn attribute_changes(old: Option<&Attributes>, new: &Attributes) -> Vec<String> {
    let Some(new) = &new.extended else { return Vec::new() };
    let none = Vec::new();
    let old = old.and_then(|old| old.extended.as_ref()).unwrap_or(&none);
    let set = new
        .iter()
        .filter(|one| Attributes::is_told(one.0.as_bytes()) && !old.contains(one))
        .map(|(name, value)| format!("attribute {} = {}", quote::visible(name), shown(value)));
    let removed = old
        .iter()
        .filter(|(name, _)| {
            Attributes::is_told(name.as_bytes()) && new.iter().all(|(other, _)| other != name)
        })
        .map(|(name, _)| format!("attribute {} removed", quote::visible(name)));
    set.chain(removed).collect()
}

/// Describes an attribute's value: the text if it is short, its size otherwise.
fn shown(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if value.len() <= MAX_VALUE_BYTES => format!("\"{}\"", text.escape_debug()),
        _ => format!("{} bytes", value.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn having(pairs: &[(&str, &[u8])]) -> Attributes {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec()));
        Attributes { extended: Some(pairs.collect()), ..Attributes::default() }
    }

    #[test]
    fn attributes_that_change_are_named() {
        let old = having(&[("user.a", b"1"), ("user.b", b"2"), ("security.x", b"s")]);
        let new = having(&[("user.a", b"1"), ("user.c", b"\xff"), ("user.d", b"\x1b")]);
        let told = [
            "attribute user.c = 1 bytes",
            "attribute user.d = \"\\u{1b}\"",
            "attribute user.b removed",
        ];
        assert_eq!(attribute_changes(Some(&old), &new), told);
        assert_eq!(
            attribute_changes(None, &having(&[("user.a", b"x")])),
            ["attribute user.a = \"x\""]
        );
        assert!(attribute_changes(Some(&old), &Attributes::default()).is_empty(), "they stay");
    }

    #[test]
    fn a_long_content_has_a_size_and_a_hash() {
        let folder = tempfile::tempdir().expect("a folder");
        let (short, long) = (folder.path().join("short"), folder.path().join("long"));
        std::fs::write(&short, "abc").expect("a file");
        std::fs::write(&long, "abcdef").expect("a file");
        let budget = Cell::new(6);
        assert_eq!(describe_long_content(None, Some(&short), 3, &budget), None);
        let hash = ContentHash::of(b"abcdef").to_string();
        let told = format!("too long to be shown: 6 bytes {}", &hash[..HASH_DIGITS]);
        assert_eq!(describe_long_content(None, Some(&long), 3, &budget), Some(told));
        let told = "too long to be shown: 6 bytes".to_owned();
        assert_eq!(
            describe_long_content(None, Some(&long), 3, &budget),
            Some(told),
            "the budget is spent"
        );
    }
}
