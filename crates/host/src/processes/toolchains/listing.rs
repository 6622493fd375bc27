//! Remembers the names of entries in a few directories.
//!
//! Most of the table is absent on any machine. To list a home directory once costs a few system calls; to check each directory of the table
//! costs one each.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum entries of a directory that is listed.
const MAX_ENTRIES: usize = 4096;

/// Names in a directory; `None` if they are too many or unknown.
type Names = Option<HashSet<OsString>>;

/// Listings of directories, read on first use.
#[derive(Debug, Default)]
pub(super) struct Listings {
    names: RefCell<HashMap<PathBuf, Names>>,
}

impl Listings {
    /// Returns false if the path, which is below `root`, certainly does not exist.
    pub(super) fn may_exist(&self, root: &Path, path: &Path) -> bool {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return true };
        if path == root || !path.starts_with(root) {
            return true;
        }
        if !self.may_exist(root, parent) {
            return false;
        }
        let mut known = self.names.borrow_mut();
        if let Some(names) = known.get(parent) {
            return names.as_ref().is_none_or(|names| names.contains(name));
        }
        let names = list(parent);
        let is_there = names.as_ref().is_none_or(|names| names.contains(name));
        known.insert(parent.to_owned(), names);
        is_there
    }
}

/// Lists a directory; `None` if it cannot be read or has too many entries.
fn list(directory: &Path) -> Names {
    let mut names = HashSet::new();
    // A directory that may be entered need not be readable.
    for entry in fs::read_dir(directory).ok()? {
        if names.len() == MAX_ENTRIES {
            return None;
        }
        names.insert(entry.ok()?.file_name());
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_paths_are_distinguished_from_others() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        fs::create_dir(root.join("many")).unwrap();
        for number in 0..=MAX_ENTRIES {
            fs::write(root.join(format!("many/{number}")), "").unwrap();
        }
        let listings = Listings::default();
        for (path, expected) in [
            ("", true),
            ("a", true),
            ("a/b", true),
            ("a/c", false),
            ("c/d/e", false),
            ("many/x", true),
            ("/elsewhere", true),
        ] {
            let path = if path.is_empty() { root.to_owned() } else { root.join(path) };
            for _ in 0..2 {
                assert_eq!(listings.may_exist(root, &path), expected, "{}", path.display());
            }
        }
        fs::write(root.join("late"), "").unwrap();
        assert!(!listings.may_exist(root, &root.join("late")), "the root was listed twice");
    }
}
