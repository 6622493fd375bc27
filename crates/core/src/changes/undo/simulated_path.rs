//! Simulated paths: the state that each path has now, and its state after the changes that were undone so far.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::changes::hard_links::{self, FileIdentities, FileIdentity};
use crate::changes::state::{InspectedPath, LatestStamps};
use crate::{FileError, FileState, Fingerprint};

/// A path, its present state, and its state after the changes that were undone so far.
pub(super) struct SimulatedPath {
    pub(super) path: PathBuf,
    pub(super) now: InspectedPath,
    pub(super) then: FileState,
    /// True if no change of the path was simulated yet: `then` is its present state.
    pub(super) is_untouched: bool,
    /// True if a conflict was found at the path.
    pub(super) has_conflict: bool,
    /// True if each later change of the file gives it another fingerprint.
    is_conclusive: bool,
}

impl SimulatedPath {
    /// Returns whether the path is a hard link of this file, and remains one.
    pub(super) fn stays(&self, file: FileIdentity, identities: &FileIdentities) -> bool {
        self.remaining_file(identities) == Some(file)
    }

    /// Returns the file of which the path is a hard link, if it remains one.
    pub(super) fn remaining_file(&self, identities: &FileIdentities) -> Option<FileIdentity> {
        let file = identities.file_of(&self.now.state)?;
        (identities.file_of(&self.then) == Some(file)).then_some(file)
    }

    /// Returns whether the path must become another file without a change of the present one: the present file has other hard
    /// links, or it differs in its attributes only and would stand for two files in the record.
    pub(super) fn is_apart(&self, identities: &FileIdentities) -> bool {
        let (now, then) = (&self.now.state, &self.then);
        let files = identities.file_of(now).zip(identities.file_of(then));
        let is_shared = hard_links::link_count(now) > 1;
        files.is_some_and(|(is, was)| is != was) && (is_shared || now.hash() == then.hash())
    }

    /// Returns the present fingerprint, if no change can leave it unchanged.
    pub(super) fn proof(&self) -> Option<Fingerprint> {
        self.now.fingerprint.filter(|_| self.is_conclusive)
    }
}

/// All simulated paths, in the order in which the changes mention them.
pub(super) struct SimulatedPaths<'c> {
    all: Vec<SimulatedPath>,
    /// Index of each path in `all`.
    indexes: HashMap<Cow<'c, Path>, usize>,
    stamps: LatestStamps,
}

impl<'c> SimulatedPaths<'c> {
    /// Allocates exactly `count` entries: a vector that grows can take twice the memory.
    pub(super) fn with_capacity(count: usize) -> Self {
        let (all, indexes) = (Vec::with_capacity(count), HashMap::with_capacity(count));
        Self { all, indexes, stamps: LatestStamps::default() }
    }

    pub(super) fn all(&self) -> &[SimulatedPath] {
        &self.all
    }

    pub(super) fn all_mut(&mut self) -> &mut [SimulatedPath] {
        &mut self.all
    }

    /// Returns the simulated path for a path, if a change mentions it.
    pub(super) fn at(&self, path: &Path) -> Option<&SimulatedPath> {
        self.all.get(*self.indexes.get(path)?)
    }

    /// Returns the simulated path for a path, for changes.
    pub(super) fn at_mut(&mut self, path: &Path) -> Option<&mut SimulatedPath> {
        self.all.get_mut(*self.indexes.get(path)?)
    }

    /// Returns the index of a path. Adds the path, with the state that `inspect` reads, if it is new.
    pub(super) fn index_of(
        &mut self,
        path: &'c Path,
        inspect: impl FnOnce() -> Result<InspectedPath, FileError>,
    ) -> Result<usize, FileError> {
        if let Some(at) = self.indexes.get(path) {
            return Ok(*at);
        }
        let now = inspect()?;
        let then = now.state.clone();
        let is_conclusive = now.fingerprint.is_some_and(|seen| self.stamps.note(seen));
        self.indexes.insert(Cow::Borrowed(path), self.all.len());
        let (path, is_untouched, has_conflict) = (path.to_owned(), true, false);
        self.all.push(SimulatedPath { path, now, then, is_untouched, has_conflict, is_conclusive });
        Ok(self.all.len() - 1)
    }

    /// Adds a path that no recorded change mentions.
    pub(super) fn add(&mut self, path: PathBuf, now: InspectedPath, then: FileState) {
        self.indexes.insert(Cow::Owned(path.clone()), self.all.len());
        let (is_untouched, has_conflict, is_conclusive) = (false, false, false);
        self.all.push(SimulatedPath { path, now, then, is_untouched, has_conflict, is_conclusive });
    }
}
