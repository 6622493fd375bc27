//! Simulated paths: the state that each path has now, and its state after the changes that were undone so far.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::changes::hard_links::{self, Identities, Object};
use crate::changes::state::{Seen, Stamps};
use crate::{FileError, FileState, Fingerprint};

/// A path, its present state, and its state after the changes that were undone so far.
pub(super) struct SimulatedPath {
    pub(super) path: PathBuf,
    pub(super) now: Seen,
    pub(super) then: FileState,
    /// True if no change of the path was simulated yet: `then` is its present state.
    pub(super) is_fresh: bool,
    /// True if a conflict was found at the path.
    pub(super) is_stuck: bool,
    /// True if each later change of the file gives it another fingerprint.
    is_settled: bool,
}

impl SimulatedPath {
    /// Returns whether the path is a hard link of this file, and remains one.
    pub(super) fn stays(&self, file: Object, identities: &Identities) -> bool {
        self.staying(identities) == Some(file)
    }

    /// Returns the file of which the path is a hard link, if it remains one.
    pub(super) fn staying(&self, identities: &Identities) -> Option<Object> {
        let file = identities.file_of(&self.now.state)?;
        (identities.file_of(&self.then) == Some(file)).then_some(file)
    }

    /// Returns whether the path must become another file without a change of the present one: the present file has other hard
    /// links, or it differs in its attributes only and would stand for two files in the record.
    pub(super) fn is_apart(&self, identities: &Identities) -> bool {
        let (now, then) = (&self.now.state, &self.then);
        let files = identities.file_of(now).zip(identities.file_of(then));
        let is_shared = hard_links::links(now) > 1;
        files.is_some_and(|(is, was)| is != was) && (is_shared || now.hash() == then.hash())
    }

    /// Returns the present fingerprint, if no change can leave it unchanged.
    pub(super) fn settled(&self) -> Option<Fingerprint> {
        self.now.fingerprint.filter(|_| self.is_settled)
    }
}

/// All simulated paths, in the order in which the changes mention them.
pub(super) struct SimulatedPaths<'c> {
    all: Vec<SimulatedPath>,
    /// Index of each path in `all`.
    places: HashMap<Cow<'c, Path>, usize>,
    stamps: Stamps,
}

impl<'c> SimulatedPaths<'c> {
    /// Allocates exactly `count` entries: a vector that grows can take twice the memory.
    pub(super) fn with_capacity(count: usize) -> Self {
        let (all, places) = (Vec::with_capacity(count), HashMap::with_capacity(count));
        Self { all, places, stamps: Stamps::default() }
    }

    pub(super) fn all(&self) -> &[SimulatedPath] {
        &self.all
    }

    pub(super) fn all_mut(&mut self) -> &mut [SimulatedPath] {
        &mut self.all
    }

    pub(super) fn at(&self, path: &Path) -> Option<&SimulatedPath> {
        self.all.get(*self.places.get(path)?)
    }

    pub(super) fn at_mut(&mut self, path: &Path) -> Option<&mut SimulatedPath> {
        self.all.get_mut(*self.places.get(path)?)
    }

    /// Returns the index of a path. Adds the path, with the state that `look` reads, if it is new.
    pub(super) fn place_of(
        &mut self,
        path: &'c Path,
        look: impl FnOnce() -> Result<Seen, FileError>,
    ) -> Result<usize, FileError> {
        if let Some(at) = self.places.get(path) {
            return Ok(*at);
        }
        let now = look()?;
        let then = now.state.clone();
        let is_settled = now.fingerprint.is_some_and(|seen| self.stamps.note(seen));
        self.places.insert(Cow::Borrowed(path), self.all.len());
        let (path, is_fresh, is_stuck) = (path.to_owned(), true, false);
        self.all.push(SimulatedPath { path, now, then, is_fresh, is_stuck, is_settled });
        Ok(self.all.len() - 1)
    }

    /// Adds a path that no recorded change mentions.
    pub(super) fn add(&mut self, path: PathBuf, now: Seen, then: FileState) {
        self.places.insert(Cow::Owned(path.clone()), self.all.len());
        let (is_fresh, is_stuck, is_settled) = (false, false, false);
        self.all.push(SimulatedPath { path, now, then, is_fresh, is_stuck, is_settled });
    }
}
