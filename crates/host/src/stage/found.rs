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
    pub(super) built: Vec<PathBuf>,
    /// The names of each file that has several: its path, and whether something was there.
    pub(super) linked: HashMap<(u64, u64), Vec<(PathBuf, bool)>>,
}

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
        let absolute = |Change { path, before, to }| ProcessChange {
            path: workspace.join(path),
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

    /// A file with several names, all of them new, is told as that: the first is the file, the others are more names for it.
    fn link_names(&mut self, workspace: &Path) {
        for mut names in std::mem::take(&mut self.linked).into_values() {
            if names.iter().any(|(_, was_there)| *was_there) {
                continue;
            }
            names.sort_unstable_by(|(one, _), (other, _)| by_bytes(one, other));
            let mut names = names.into_iter().map(|(path, _)| path);
            let Some(first) = names.next() else { continue };
            for path in names {
                let at = self.made.binary_search_by(|change| by_bytes(&change.path, &path));
                if let Some(change) = at.ok().and_then(|at| self.made.get_mut(at)) {
                    change.to = ChangedTo::Linked(workspace.join(&first));
                }
            }
        }
    }
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
