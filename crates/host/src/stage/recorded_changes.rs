//! Collects the changes found on a stage, and sorts them into an order in which they can be applied.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use windlass_core::{ChangedTo, ProcessChange, Stat};

use super::Delta;

/// Changes found so far. Paths are relative to the workspace.
#[derive(Default)]
pub(super) struct RecordedChanges {
    /// Existing directories that become writable for their owner.
    pub(super) opened: Vec<Change>,
    /// Removed objects.
    pub(super) removed: Vec<Change>,
    /// New and changed objects.
    pub(super) made: Vec<Change>,
    /// Existing directories that become read-only for their owner.
    pub(super) closed: Vec<Change>,
    /// Sentences for the delta's notes.
    pub(super) notes: Vec<String>,
    /// Paths that another program changed meanwhile.
    pub(super) conflicts: Vec<PathBuf>,
    /// Directories that another program seems to have moved here: a conflict if anything below them changed.
    pub(super) moved: Vec<PathBuf>,
    /// Changed build directories.
    pub(super) built: Vec<PathBuf>,
    /// Names of each file with hard links, by device and inode, with the objects that were there before.
    pub(super) linked: HashMap<(u64, u64), Vec<LinkedName>>,
}

/// A name of a file, and facts about the object that was there before.
pub(super) type LinkedName = (PathBuf, Option<Stat>);

/// Change of one object.
pub(super) struct Change {
    pub(super) path: PathBuf,
    pub(super) before: Option<Stat>,
    pub(super) to: ChangedTo,
}

impl RecordedChanges {
    /// Sorts the changes, adds hard links and conflicts, and makes all paths absolute.
    pub(super) fn into_delta(mut self, workspace: &Path) -> Delta {
        for group in [&mut self.opened, &mut self.removed, &mut self.made, &mut self.closed] {
            group.sort_unstable_by(|one, other| by_bytes(&one.path, &other.path));
        }
        self.removed.reverse();
        self.closed.reverse();
        self.link_all_names(workspace);
        self.notes.sort_unstable();
        self.add_moved_conflicts();
        let absolute = |Change { path, before, to }| ProcessChange {
            path: join(workspace, &path),
            before: before.map(|before| before.fingerprint),
            to,
        };
        let groups = [self.opened, self.removed, self.made, self.closed];
        Delta {
            changes: groups.into_iter().flatten().map(absolute).collect(),
            notes: self.notes,
            conflicts: all_absolute(workspace, self.conflicts),
            built: all_absolute(workspace, self.built),
        }
    }

    /// Adds a conflict for each moved directory below which something changed.
    fn add_moved_conflicts(&mut self) {
        let groups = [&self.opened, &self.removed, &self.made, &self.closed];
        let is_used = |directory: &Path| {
            let mut changes = groups.iter().copied().flatten();
            changes.any(|change| change.path.starts_with(directory))
        };
        let moved = std::mem::take(&mut self.moved);
        self.conflicts.extend(moved.into_iter().filter(|directory| is_used(directory)));
    }

    /// Turns all but one name of each file with hard links into links to that one.
    fn link_all_names(&mut self, workspace: &Path) {
        for mut names in std::mem::take(&mut self.linked).into_values() {
            names.sort_unstable_by(|(one, _), (other, _)| by_bytes(one, other));
            // Chooses a name that existed and is unchanged, which remains the file; otherwise the first one.
            let stays =
                |(path, before): &LinkedName| before.is_some() && self.made_index(path).is_err();
            let carrier = names.iter().position(stays).unwrap_or(0);
            let (carrier, there) = names.remove(carrier);
            for (path, before) in names {
                self.link_name(path, before, &workspace.join(&carrier), there);
            }
        }
    }

    /// Makes a path a hard link to the file at `carrier`, where `there` was before, unless it is one already.
    fn link_name(
        &mut self,
        path: PathBuf,
        before: Option<Stat>,
        carrier: &Path,
        there: Option<Stat>,
    ) {
        let to = ChangedTo::Linked(carrier.to_owned());
        let same = |(one, other): (Stat, Stat)| one.fingerprint.is_same_object(&other.fingerprint);
        match self.made_index(&path) {
            Ok(at) => {
                if let Some(change) = self.made.get_mut(at) {
                    change.to = to;
                }
            }
            Err(_) if before.zip(there).is_some_and(same) => {}
            Err(at) => self.made.insert(at, Change { path, before, to }),
        }
    }

    /// Returns the index of a path among the new and changed objects, or the index at which it would be inserted.
    fn made_index(&self, path: &Path) -> Result<usize, usize> {
        self.made.binary_search_by(|change| by_bytes(&change.path, path))
    }
}

/// Joins two paths without spare capacity, because one is kept for each of many files.
pub(super) fn join(directory: &Path, path: &Path) -> PathBuf {
    let length = directory.as_os_str().len() + 1 + path.as_os_str().len();
    let mut joined = PathBuf::with_capacity(length);
    joined.push(directory);
    joined.push(path);
    joined
}

/// Returns the absolute paths, sorted and without duplicates.
fn all_absolute(workspace: &Path, mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_unstable_by(|one, other| by_bytes(one, other));
    paths.dedup();
    paths.into_iter().map(|path| workspace.join(path)).collect()
}

/// Compares paths by their bytes, so that a directory comes before its content.
pub(super) fn by_bytes(one: &Path, other: &Path) -> Ordering {
    one.as_os_str().as_bytes().cmp(other.as_os_str().as_bytes())
}
