//! Paths in thought: what is really there, and what would be after the changes that were gone through so far.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::names::{self, Identities, Object};
use crate::state::{Seen, Stamps};
use crate::{FileError, FileState, Fingerprint};

/// A path in thought.
pub(super) struct Thought {
    pub(super) path: PathBuf,
    pub(super) now: Seen,
    pub(super) then: FileState,
    /// Whether nothing was thought of it yet: `then` is what is there.
    pub(super) is_fresh: bool,
    /// A conflict was found.
    pub(super) is_stuck: bool,
    /// Whether each later change of what is there gives it another fingerprint.
    is_settled: bool,
}

impl Thought {
    /// Whether it is a name of this file, and remains one.
    pub(super) fn stays(&self, file: Object, identities: &Identities) -> bool {
        self.staying(identities) == Some(file)
    }

    /// The file that it is a name of, and remains one.
    pub(super) fn staying(&self, identities: &Identities) -> Option<Object> {
        let file = identities.file_of(&self.now.state)?;
        (identities.file_of(&self.then) == Some(file)).then_some(file)
    }

    /// Whether it is a name of one file, would be one of another, and must not become that by a change of what is there: the file
    /// that is there has other names, or differs in its attributes only and would stand for two files in the record.
    pub(super) fn is_apart(&self, identities: &Identities) -> bool {
        let (now, then) = (&self.now.state, &self.then);
        let files = identities.file_of(now).zip(identities.file_of(then));
        let is_shared = names::links(now) > 1;
        files.is_some_and(|(is, was)| is != was) && (is_shared || now.hash() == then.hash())
    }

    /// The fingerprint of what is there, if nothing can be changed there without giving it another.
    pub(super) fn settled(&self) -> Option<Fingerprint> {
        self.now.fingerprint.filter(|_| self.is_settled)
    }
}

/// All paths in thought, in the order in which they came up.
pub(super) struct Thoughts<'c> {
    all: Vec<Thought>,
    /// The place of each path among them.
    places: HashMap<Cow<'c, Path>, usize>,
    stamps: Stamps,
}

impl<'c> Thoughts<'c> {
    /// With room for so many: a list that grows is twice as long as it needs to be.
    pub(super) fn with_capacity(count: usize) -> Self {
        let (all, places) = (Vec::with_capacity(count), HashMap::with_capacity(count));
        Self { all, places, stamps: Stamps::default() }
    }

    pub(super) fn all(&self) -> &[Thought] {
        &self.all
    }

    pub(super) fn all_mut(&mut self) -> &mut [Thought] {
        &mut self.all
    }

    pub(super) fn at(&self, path: &Path) -> Option<&Thought> {
        self.all.get(*self.places.get(path)?)
    }

    pub(super) fn at_mut(&mut self, path: &Path) -> Option<&mut Thought> {
        self.all.get_mut(*self.places.get(path)?)
    }

    /// The place of a path among all, which is looked at when it first comes up.
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
        self.all.push(Thought { path, now, then, is_fresh, is_stuck, is_settled });
        Ok(self.all.len() - 1)
    }

    /// Adds a path that no change on record is about.
    pub(super) fn add(&mut self, path: PathBuf, now: Seen, then: FileState) {
        self.places.insert(Cow::Owned(path.clone()), self.all.len());
        let (is_fresh, is_stuck, is_settled) = (false, false, false);
        self.all.push(Thought { path, now, then, is_fresh, is_stuck, is_settled });
    }
}
