//! What was found on a stage, and the order in which it is told: one in which it can be done again.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use windlass_core::{ChangedTo, ProcessChange, Stat};

use super::Delta;

/// What was found so far. Paths are relative to the workspace.
#[derive(Default)]
pub(super) struct Found {
    /// Directories that are there and let their owner write from now on.
    pub(super) opened: Vec<Change>,
    pub(super) removed: Vec<Change>,
    pub(super) made: Vec<Change>,
    /// Directories that are there and do not let their owner write any more.
    pub(super) closed: Vec<Change>,
    pub(super) notes: Vec<String>,
    pub(super) conflicts: Vec<PathBuf>,
    /// Directories that somebody else seems to have moved to where they are: a conflict if anything below them changed.
    pub(super) moved: Vec<PathBuf>,
    pub(super) built: Vec<PathBuf>,
    /// The names of each file that has several, with what was there.
    pub(super) linked: HashMap<(u64, u64), Vec<Name>>,
}

/// A name of a file, and what was there before.
pub(super) type Name = (PathBuf, Option<Stat>);

/// What became of one object.
pub(super) struct Change {
    pub(super) path: PathBuf,
    pub(super) before: Option<Stat>,
    pub(super) to: ChangedTo,
}

impl Found {
    pub(super) fn into_delta(mut self, workspace: &Path) -> Delta {
        for group in [&mut self.opened, &mut self.removed, &mut self.made, &mut self.closed] {
            group.sort_unstable_by(|one, other| by_bytes(&one.path, &other.path));
        }
        self.removed.reverse();
        self.closed.reverse();
        self.link_names(workspace);
        self.notes.sort_unstable();
        self.tell_moved();
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

    /// Directories that were moved in matter where something in them changed.
    fn tell_moved(&mut self) {
        let groups = [&self.opened, &self.removed, &self.made, &self.closed];
        let is_used = |directory: &Path| {
            let mut changes = groups.iter().copied().flatten();
            changes.any(|change| change.path.starts_with(directory))
        };
        let moved = std::mem::take(&mut self.moved);
        self.conflicts.extend(moved.into_iter().filter(|directory| is_used(directory)));
    }

    /// A file with several names is told as that: one of them is the file, the others are more names for it.
    fn link_names(&mut self, workspace: &Path) {
        for mut names in std::mem::take(&mut self.linked).into_values() {
            names.sort_unstable_by(|(one, _), (other, _)| by_bytes(one, other));
            // One that was there and is as it was, if there is one: it stays the file that it is. Otherwise the first to be made.
            let stays = |(path, before): &Name| before.is_some() && self.place_of(path).is_err();
            let carrier = names.iter().position(stays).unwrap_or(0);
            let (carrier, there) = names.remove(carrier);
            for (path, before) in names {
                self.link(path, before, &workspace.join(&carrier), there);
            }
        }
    }

    /// Makes a path another name of the file at `carrier`, where `there` was, unless it is one already.
    fn link(&mut self, path: PathBuf, before: Option<Stat>, carrier: &Path, there: Option<Stat>) {
        let to = ChangedTo::Linked(carrier.to_owned());
        let same = |(one, other): (Stat, Stat)| one.fingerprint.is_same_object(&other.fingerprint);
        match self.place_of(&path) {
            Ok(at) => {
                if let Some(change) = self.made.get_mut(at) {
                    change.to = to;
                }
            }
            Err(_) if before.zip(there).is_some_and(same) => {}
            Err(at) => self.made.insert(at, Change { path, before, to }),
        }
    }

    /// Returns the index of a path among what is made, or the one that it would have.
    fn place_of(&self, path: &Path) -> Result<usize, usize> {
        self.made.binary_search_by(|change| by_bytes(&change.path, path))
    }
}

/// A path below a directory, without spare room: one is held for each of many files.
pub(super) fn join(directory: &Path, path: &Path) -> PathBuf {
    let length = directory.as_os_str().len() + 1 + path.as_os_str().len();
    let mut joined = PathBuf::with_capacity(length);
    joined.push(directory);
    joined.push(path);
    joined
}

fn all_absolute(workspace: &Path, mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_unstable_by(|one, other| by_bytes(one, other));
    paths.dedup();
    paths.into_iter().map(|path| workspace.join(path)).collect()
}

/// By name, and a directory before all that is in it.
pub(super) fn by_bytes(one: &Path, other: &Path) -> Ordering {
    one.as_os_str().as_bytes().cmp(other.as_os_str().as_bytes())
}
