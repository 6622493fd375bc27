//! An undo that leaves out paths that its caller may not write.
//!
//! A path may have become hidden after it was changed. Taking back the change would write to it, so a model's undo leaves it as it
//! is, together with every change that depends on it: the other end of a move, another hard link of the same file, a directory that
//! contains it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{UndoPlan, UndoStep};
use crate::FileState;

impl UndoPlan {
    /// Leaves out the paths that `is_hidden` and the paths that depend on them. They are in [`UndoPlan::left_out`] afterwards, and
    /// the plan can only be performed as long as no other path in it becomes hidden.
    pub fn leave_out_hidden(&mut self, is_hidden: impl Fn(&Path) -> bool) {
        self.spares_hidden = true;
        let mut left: HashSet<PathBuf> = self
            .ways
            .iter()
            .map(|way| &way.path)
            .chain(self.ways.iter().filter_map(|way| way.moved_from.as_ref()))
            .chain(self.conflicts.iter().map(|conflict| &conflict.path))
            .filter(|path| is_hidden(path))
            .cloned()
            .collect();
        if left.is_empty() {
            return;
        }
        while let Some(more) = self.dependents(&left) {
            left.extend(more);
        }
        // The time of a directory follows the changes of names in it, and is not worth reporting.
        let is_time = |path: &&PathBuf| {
            self.ways.iter().any(|way| way.path == **path && way.is_directory_time())
        };
        self.left_out = left.iter().filter(|path| !is_time(path)).cloned().collect();
        self.left_out.sort();
        self.conflicts.retain(|conflict| !left.contains(&conflict.path));
        let mut proofs = std::mem::take(&mut self.proofs).into_iter();
        self.ways.retain(|way| {
            let proof = proofs.next().flatten();
            let stays = !left.contains(&way.path);
            if stays {
                self.proofs.push(proof);
            }
            stays
        });
    }

    /// Returns the paths that cannot be taken back without those in `left`, and are not in it yet; `None` if there are none.
    fn dependents(&self, left: &HashSet<PathBuf>) -> Option<Vec<PathBuf>> {
        let needs = |way: &UndoStep| {
            let other = [way.moved_from.as_ref(), way.linked_with.as_ref()];
            other.into_iter().flatten().any(|path| left.contains(path))
                || self.removes_parent_of(way, left)
        };
        let more: Vec<PathBuf> = self
            .ways
            .iter()
            .filter(|way| left.contains(&way.path) || needs(way))
            .flat_map(|way| std::iter::once(&way.path).chain(way.moved_from.as_ref()))
            .filter(|path| !left.contains(*path))
            .cloned()
            .collect();
        (!more.is_empty()).then_some(more)
    }

    /// Returns whether the undo would remove or replace a directory that contains a path which is left out.
    fn removes_parent_of(&self, way: &UndoStep, left: &HashSet<PathBuf>) -> bool {
        let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
        let is_there =
            |below: &UndoStep| below.now != FileState::Absent && left.contains(&below.path);
        is_directory(&way.now)
            && !is_directory(&way.then)
            && self.ways.iter().any(|below| {
                is_there(below) && below.path != way.path && below.path.starts_with(&way.path)
            })
    }
}
