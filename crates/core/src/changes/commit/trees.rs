//! Renames a directory as a whole if a commit moves everything in it.
//!
//! The steps of a commit are about single objects: a directory is made, each file is moved into it, and the old directory is
//! removed. If nothing else happens to a directory, one rename replaces these steps, and the directory keeps its inode. The record
//! is the same, so undo and recovery need not know: before the rename none of these steps is performed, after it all of them are. Empty
//! directories in it may already have been removed by their own steps, and are made at the new path by theirs.
//!
//! Everything in the directory is compared with the expected state right before the rename and right after it. If another program
//! changed something in between, the directory gets its old name again and the steps are performed one by one: the one whose object
//! was changed fails.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{CommitStep, recorded_path};
use crate::{
    Alteration, Altered, Attributes, ExpectedState, FileError, Files, Fingerprint, FoundBody,
    FoundEntry, Resolved, Stat, TargetState,
};

/// Directories that the steps may move as a whole, and the results of the steps that a rename performed instead.
pub(super) struct TreeMoves<'s> {
    steps: &'s [CommitStep<'s>],
    /// For each step that makes a directory which may have been moved: the old path of the directory.
    origins: HashMap<usize, &'s Path>,
    /// Steps that make a directory, by path.
    made: HashMap<&'s Path, usize>,
    /// Steps that remove an object, by path.
    removed: HashMap<&'s Path, usize>,
    /// Steps that move a file, by new path.
    moved: HashMap<&'s Path, usize>,
    /// Results of the steps that a rename performed, by index.
    done: HashMap<usize, Altered>,
    /// Index after the last step that a rename performed or, after an error, may have performed.
    end: usize,
}

/// The steps of one directory tree, and the objects in it.
#[derive(Default)]
struct MovedTree {
    /// Steps that the rename performs, without the one that makes the top directory.
    steps: Vec<usize>,
    /// Objects in the tree, by relative path, with the step that puts each there.
    objects: Vec<(PathBuf, usize)>,
}

impl<'s> TreeMoves<'s> {
    /// Finds directories that the steps may move as a whole.
    pub(super) fn among(steps: &'s [CommitStep<'s>]) -> Self {
        let mut trees = Self {
            steps,
            origins: HashMap::new(),
            made: HashMap::new(),
            removed: HashMap::new(),
            moved: HashMap::new(),
            done: HashMap::new(),
            end: 0,
        };
        if !steps.iter().any(|step| origin(step).is_some()) {
            return trees;
        }
        for (number, step) in steps.iter().enumerate() {
            let path = step.path.path.as_path();
            match (step.to, step.expect) {
                (TargetState::Directory { .. }, ExpectedState::Absent) => {
                    trees.made.insert(path, number)
                }
                (TargetState::Nothing, ExpectedState::Same(_)) => {
                    trees.removed.insert(path, number)
                }
                _ => None,
            };
        }
        trees.find_origins();
        trees
    }

    /// Indexes the moved files, and finds candidates: a file that is moved under the same name may have come with its directory, and so
    /// on upwards while the names stay the same.
    fn find_origins(&mut self) {
        let steps = self.steps;
        for (number, step) in steps.iter().enumerate() {
            let Some((from, _)) = origin(step) else { continue };
            self.moved.insert(&step.path.path, number);
            let (mut old, mut new) = (from, step.path.path.as_path());
            while old.file_name() == new.file_name()
                && let (Some(left), Some(here)) = (old.parent(), new.parent())
                && let (Some(made), true) = (self.made.get(here), self.removed.contains_key(left))
                && self.origins.insert(*made, left).is_none()
            {
                (old, new) = (left, here);
            }
        }
        if self.origins.is_empty() {
            self.moved = HashMap::new();
        }
    }

    /// Takes the result of a step that a rename performed; `None` if the step is still to be performed.
    pub(super) fn take_done(&mut self, number: usize) -> Option<Altered> {
        self.done.remove(&number)
    }

    /// Returns the index after the last step that a rename performed or, after an error, may have performed.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// Renames the old directory to the path of a step that makes a directory, if everything in it is exactly what the steps put
    /// into the new one. Tries this once for each step. `Ok` also if nothing was renamed: then the steps are performed one by one.
    /// After an error the directory may be at either path.
    pub(super) fn move_whole(&mut self, files: &dyn Files, number: usize) -> Result<(), FileError> {
        let Some((from, step)) = self.origins.remove(&number).zip(self.steps.get(number)) else {
            return Ok(());
        };
        let Some((seen, tree)) = self.read_tree(files, from, number) else { return Ok(()) };
        let (old, new) = (recorded_path(files, from), &step.path);
        let end = self.end.max(tree.steps.iter().max().map_or(number, |last| *last) + 1);
        if let Err(error) = rename(files, &old, new, seen) {
            let stays = files.stat(&old).is_ok_and(|found| found.fingerprint.is_same_object(&seen));
            if stays {
                return Ok(());
            }
            self.end = end;
            return Err(error);
        }
        match self.inspect_moved(files, &new.path, number, &tree) {
            Some(found) => {
                let nothing = || Altered { stat: None, in_place: false };
                self.done.extend(tree.steps.iter().map(|step| (*step, nothing())));
                self.done.extend(found);
                self.end = end;
                Ok(())
            }
            // The single steps will find out and report what is different.
            None => rename(files, new, &old, seen).inspect_err(|_| self.end = end),
        }
    }

    /// Reads a directory that may be moved, with all below it. `None` if it contains an object that no step moves to its new path.
    fn read_tree(
        &self,
        files: &dyn Files,
        top: &Path,
        number: usize,
    ) -> Option<(Fingerprint, MovedTree)> {
        let mut tree = MovedTree::default();
        let seen = self.read_directory(files, top, Path::new(""), number, &mut tree)?;
        let mut at = 0;
        while let Some((inside, number)) = tree.objects.get(at).cloned() {
            at += 1;
            if self.steps.get(number).is_some_and(makes_directory) {
                self.read_directory(files, top, &inside, number, &mut tree)?;
            }
        }
        Some((seen, tree))
    }

    /// Reads one directory, without those below it, and adds its objects and steps. `None` if the directory itself or an object in it
    /// does not match the steps.
    fn read_directory(
        &self,
        files: &dyn Files,
        top: &Path,
        inside: &Path,
        number: usize,
        tree: &mut MovedTree,
    ) -> Option<Fingerprint> {
        let (here, new) = (below(top, inside), self.steps.get(number)?);
        let FoundEntry { stat, attributes, body } =
            files.inspect(&recorded_path(files, &here)).ok()??;
        let FoundBody::Directory(names) = body else { return None };
        let removed = self.removed.get(here.as_path())?;
        let ExpectedState::Same(seen) = self.steps.get(*removed)?.expect else { return None };
        if !seen.is_same_object(&stat.fingerprint) || !has_wanted_attributes(&attributes, &new.to) {
            return None;
        }
        tree.steps.push(*removed);
        for name in names {
            let there = new.path.path.join(&name);
            let number = if let Some(number) = self.made.get(there.as_path()) {
                *number
            } else {
                let number = *self.moved.get(there.as_path())?;
                let (from, seen) = origin(self.steps.get(number)?)?;
                let is_it = from == here.join(&name)
                    && files.stat(&recorded_path(files, from)).ok()?.fingerprint == seen;
                is_it.then_some(number)?
            };
            tree.steps.push(number);
            tree.objects.push((inside.join(&name), number));
        }
        Some(stat.fingerprint)
    }

    /// Inspects each object after the rename, and returns the results of the steps that put them there. `None` if a file is not the one
    /// that was moved, or an object is missing or was added.
    fn inspect_moved(
        &self,
        files: &dyn Files,
        top: &Path,
        number: usize,
        tree: &MovedTree,
    ) -> Option<HashMap<usize, Altered>> {
        let mut found = HashMap::with_capacity(tree.objects.len() + 1);
        let names = |path: &Path| match files.inspect(&recorded_path(files, path)) {
            Ok(Some(FoundEntry { stat, body: FoundBody::Directory(names), .. })) => {
                Some((stat, names.len()))
            }
            _ => None,
        };
        let (stat, mut count) = names(top)?;
        found.insert(number, stat);
        for (inside, number) in &tree.objects {
            let path = top.join(inside);
            let stat = match origin(self.steps.get(*number)?) {
                None => {
                    let (stat, more) = names(&path)?;
                    count += more;
                    stat
                }
                Some((_, seen)) => {
                    let stat = files.stat(&recorded_path(files, &path)).ok()?;
                    (stat.fingerprint == seen).then_some(stat)?
                }
            };
            found.insert(*number, stat);
        }
        let whole = |stat: Stat| Altered { stat: Some(stat), in_place: false };
        // Any further object came into the directory while it was moved.
        (count == tree.objects.len())
            .then(|| found.into_iter().map(|(step, stat)| (step, whole(stat))).collect())
    }
}

/// Renames the directory with the fingerprint `seen` to a free path.
fn rename(
    files: &dyn Files,
    from: &Resolved,
    to: &Resolved,
    seen: Fingerprint,
) -> Result<(), FileError> {
    let (expect, to_be) = (ExpectedState::Absent, TargetState::Moved { from, seen });
    files.alter(to, &Alteration { expect, to: to_be, temporary: None }).map(drop)
}

/// Joins a path that may be empty.
fn below(top: &Path, inside: &Path) -> PathBuf {
    if inside.as_os_str().is_empty() { top.to_owned() } else { top.join(inside) }
}

/// For a step that moves a file to a free path, returns the old path and the fingerprint. `None` for other steps, and if the path gets a
/// file of its own.
fn origin<'s>(step: &CommitStep<'s>) -> Option<(&'s Path, Fingerprint)> {
    match (step.to, step.expect) {
        (TargetState::Moved { from, seen }, ExpectedState::Absent) if !step.is_apart => {
            Some((&from.path, seen))
        }
        _ => None,
    }
}

/// Returns whether a directory has the mode, owner and extended attributes that a step sets. Those that it does not set may differ, and
/// so may the time, which is set at the end.
fn has_wanted_attributes(found: &Attributes, to: &TargetState<'_>) -> bool {
    let TargetState::Directory { attributes } = to else { return false };
    attributes.is_none_or(|wanted| {
        let is = |mode: Option<u32>| mode.map(|mode| mode & 0o7777);
        (wanted.mode.is_none() || is(wanted.mode) == is(found.mode))
            && (wanted.owner.is_none() || wanted.owner == found.owner)
            && (wanted.extended.is_none() || wanted.extended == found.extended)
    })
}

/// Returns whether a step makes a directory at a free path, without a second change.
fn makes_directory(step: &CommitStep<'_>) -> bool {
    matches!((step.to, step.expect), (TargetState::Directory { .. }, ExpectedState::Absent))
        && step.rewrite.is_none()
}
