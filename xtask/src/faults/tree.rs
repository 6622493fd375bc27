//! The content of a directory tree, for comparison: names, bytes, modes, links.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The entry at each path below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tree(BTreeMap<PathBuf, Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Directory {
        mode: u32,
    },
    File {
        mode: u32,
        bytes: Vec<u8>,
        /// The number of hard links, and the first path in this tree.
        names: u64,
        first: PathBuf,
    },
    Symlink(PathBuf),
    Other,
}

/// The first path of each file that was read, by device and inode.
type SeenInodes = HashMap<(u64, u64), PathBuf>;

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.add(root, Path::new(""), &mut SeenInodes::new())
            .with_context(|| format!("looking at {}", root.display()))?;
        Ok(tree)
    }

    fn add(&mut self, root: &Path, inside: &Path, seen_inodes: &mut SeenInodes) -> Result<()> {
        let path = root.join(inside);
        let metadata = fs::symlink_metadata(&path)?;
        let object = object(&path, inside, &metadata, seen_inodes)?;
        let is_directory = matches!(object, Entry::Directory { .. });
        self.0.insert(inside.to_owned(), object);
        if is_directory {
            let mut names = Vec::new();
            for entry in fs::read_dir(&path)? {
                names.push(entry?.file_name());
            }
            names.sort();
            for name in names {
                self.add(root, &inside.join(name), seen_inodes)?;
            }
        }
        Ok(())
    }

    /// A copy without a directory and its content.
    pub(super) fn without(&self, directory: &Path) -> Self {
        let kept = self.0.iter().filter(|(path, _)| !path.starts_with(directory));
        Self(kept.map(|(path, object)| (path.clone(), object.clone())).collect())
    }

    /// Describes the differences from another tree; `None` if there are none.
    pub(super) fn describe_difference(&self, other: &Self) -> Option<String> {
        let paths = self.0.keys().chain(other.0.keys().filter(|path| !self.0.contains_key(*path)));
        let differences: Vec<String> = paths
            .filter_map(|path| describe_difference(path, self.0.get(path), other.0.get(path)))
            .collect();
        (!differences.is_empty()).then(|| differences.join(", "))
    }
}

/// Reads the entry at a path.
fn object(
    path: &Path,
    inside: &Path,
    metadata: &fs::Metadata,
    seen_inodes: &mut SeenInodes,
) -> Result<Entry> {
    let (kind, mode) = (metadata.file_type(), metadata.mode() & 0o7777);
    Ok(if kind.is_dir() {
        Entry::Directory { mode }
    } else if kind.is_symlink() {
        Entry::Symlink(fs::read_link(path)?)
    } else if kind.is_file() {
        let first = seen_inodes.entry((metadata.dev(), metadata.ino()));
        let first = first.or_insert_with(|| inside.to_owned()).clone();
        Entry::File { mode, bytes: fs::read(path)?, names: metadata.nlink(), first }
    } else {
        Entry::Other
    })
}

fn describe_difference(path: &Path, here: Option<&Entry>, there: Option<&Entry>) -> Option<String> {
    let path = path.display();
    match (here, there) {
        (Some(here), Some(there)) if here == there => None,
        (Some(Entry::File { bytes: a, .. }), Some(Entry::File { bytes: b, .. })) if a != b => {
            Some(format!("{path} has other bytes ({} instead of {})", a.len(), b.len()))
        }
        (Some(_), Some(_)) => Some(format!("{path} has another mode, kind or number of names")),
        (Some(_), None) => Some(format!("{path} is there")),
        (None, _) => Some(format!("{path} is missing")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::faults::scenario;

    /// A change of a workspace.
    type Change = fn(&Path) -> std::io::Result<()>;

    fn check(name: &str, change: Change, expected: Option<&str>) {
        let root = std::env::temp_dir().join(format!("xtask-tree-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        scenario::make_workspace(&root, 10).unwrap();
        let before = Tree::read(&root).unwrap();
        change(&root).unwrap();
        let after = Tree::read(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(after.describe_difference(&before).as_deref(), expected, "{name}");
    }

    #[test]
    fn every_difference_is_found() {
        check("none", |_| Ok(()), None);
        check("made", |root| fs::write(root.join("x"), ""), Some("x is there"));
        check("gone", |root| fs::remove_dir(root.join("empty")), Some("empty is missing"));
        check(
            "bytes",
            |root| fs::write(root.join("docs/old.md"), "# New"),
            Some("docs/old.md has other bytes (5 instead of 6)"),
        );
        check(
            "mode",
            |root| fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o711)),
            Some("run.sh has another mode, kind or number of names"),
        );
        check(
            "link",
            |root| {
                fs::remove_file(root.join("latest"))?;
                symlink("run.sh", root.join("latest"))
            },
            Some("latest has another mode, kind or number of names"),
        );
        check(
            "names",
            |root| {
                fs::remove_file(root.join("linked/b.txt"))?;
                fs::copy(root.join("linked/a.txt"), root.join("linked/b.txt")).map(drop)
            },
            Some(
                "linked/a.txt has another mode, kind or number of names, \
                 linked/b.txt has another mode, kind or number of names",
            ),
        );
    }
}
