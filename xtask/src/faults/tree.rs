//! A directory with all that is in it, to be held against another: names, bytes, modes, links.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What is at each path below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tree(BTreeMap<PathBuf, Object>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Object {
    Directory {
        mode: u32,
    },
    File {
        mode: u32,
        bytes: Vec<u8>,
        /// How many names it has, and the first of them in this tree.
        names: u64,
        first: PathBuf,
    },
    Symlink(PathBuf),
    Other,
}

/// Objects with several names that were met already, by device and number.
type Met = HashMap<(u64, u64), PathBuf>;

impl Tree {
    pub(super) fn look(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.add(root, Path::new(""), &mut Met::new())
            .with_context(|| format!("looking at {}", root.display()))?;
        Ok(tree)
    }

    fn add(&mut self, root: &Path, inside: &Path, met: &mut Met) -> Result<()> {
        let path = root.join(inside);
        let metadata = fs::symlink_metadata(&path)?;
        let object = object(&path, inside, &metadata, met)?;
        let is_directory = matches!(object, Object::Directory { .. });
        self.0.insert(inside.to_owned(), object);
        if is_directory {
            let mut names = Vec::new();
            for entry in fs::read_dir(&path)? {
                names.push(entry?.file_name());
            }
            names.sort();
            for name in names {
                self.add(root, &inside.join(name), met)?;
            }
        }
        Ok(())
    }

    /// The same without a directory and all that is in it.
    pub(super) fn without(&self, directory: &Path) -> Self {
        let kept = self.0.iter().filter(|(path, _)| !path.starts_with(directory));
        Self(kept.map(|(path, object)| (path.clone(), object.clone())).collect())
    }

    /// In what this differs from another, in words; `None` if it does not.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let paths = self.0.keys().chain(other.0.keys().filter(|path| !self.0.contains_key(*path)));
        let differences: Vec<String> = paths
            .filter_map(|path| difference(path, self.0.get(path), other.0.get(path)))
            .collect();
        (!differences.is_empty()).then(|| differences.join(", "))
    }
}

fn object(path: &Path, inside: &Path, metadata: &fs::Metadata, met: &mut Met) -> Result<Object> {
    let (kind, mode) = (metadata.file_type(), metadata.mode() & 0o7777);
    Ok(if kind.is_dir() {
        Object::Directory { mode }
    } else if kind.is_symlink() {
        Object::Symlink(fs::read_link(path)?)
    } else if kind.is_file() {
        let first = met.entry((metadata.dev(), metadata.ino()));
        let first = first.or_insert_with(|| inside.to_owned()).clone();
        Object::File { mode, bytes: fs::read(path)?, names: metadata.nlink(), first }
    } else {
        Object::Other
    })
}

fn difference(path: &Path, here: Option<&Object>, there: Option<&Object>) -> Option<String> {
    let path = path.display();
    match (here, there) {
        (Some(here), Some(there)) if here == there => None,
        (Some(Object::File { bytes: a, .. }), Some(Object::File { bytes: b, .. })) if a != b => {
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
        let before = Tree::look(&root).unwrap();
        change(&root).unwrap();
        let after = Tree::look(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(after.difference(&before).as_deref(), expected, "{name}");
    }

    #[test]
    fn every_difference_is_seen() {
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
