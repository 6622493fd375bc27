//! The door to the files of this machine.

use std::path::{Path, PathBuf};

use windlass_core::{
    Change, FileError, FileErrorKind, Files, Fingerprint, OpenFile, Resolved, Stat, Visitor,
    WalkOptions, WalkReport, Written,
};

use crate::kernel::{Lookup, meaning};
use crate::locks::Locks;
use crate::resolver::Resolver;
use crate::temporary::as_errno;
use crate::{ancestry, change, nearest, remove, rename, walk};

/// The files of this machine, seen from one workspace.
#[derive(Debug)]
pub struct LocalFiles {
    resolver: Resolver,
    locks: Locks,
}

impl LocalFiles {
    /// Takes hold of a workspace: a directory that exists.
    pub fn open(workspace: &Path) -> Result<Self, FileError> {
        Self::open_with(workspace, Lookup::available())
    }

    pub(crate) fn open_with(workspace: &Path, lookup: Lookup) -> Result<Self, FileError> {
        Ok(Self { resolver: Resolver::open(workspace, lookup)?, locks: Locks::default() })
    }
}

impl Files for LocalFiles {
    fn workspace(&self) -> &Path {
        self.resolver.workspace()
    }

    fn resolve(&self, path: &Path) -> Result<Resolved, FileError> {
        self.resolver.resolve(path)
    }

    fn stat(&self, path: &Resolved) -> Result<Stat, FileError> {
        self.resolver.stat(path)
    }

    fn open(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        self.resolver.read(path)
    }

    fn walk<'a>(
        &self,
        root: &Resolved,
        options: &WalkOptions<'a>,
        visitors: &(dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a),
    ) -> Result<WalkReport, FileError> {
        walk::walk(&self.resolver, root, options, visitors)
    }

    fn change(&self, path: &Resolved, change: &Change<'_>) -> Result<Written, FileError> {
        change::change(&self.resolver, &self.locks, path, change)
    }

    fn remove(&self, path: &Resolved, expect: Fingerprint) -> Result<(), FileError> {
        remove::file(&self.resolver, &self.locks, path, expect)
    }

    fn rename(
        &self,
        from: &Resolved,
        expect: Fingerprint,
        to: &Resolved,
    ) -> Result<Stat, FileError> {
        rename::rename(&self.resolver, &self.locks, from, expect, to)
    }

    fn remove_directory(&self, path: &Resolved) -> Result<(), FileError> {
        remove::directory(&self.resolver, path)
    }

    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError> {
        ancestry::excluded_by(&self.resolver, path).map_err(|unusable| {
            let kind = match meaning(as_errno(&unusable.why)) {
                FileErrorKind::Io(_) => FileErrorKind::Io(unusable.why),
                kind => kind,
            };
            FileError::new("read", unusable.path, kind)
        })
    }

    fn nearest(&self, path: &Path) -> Option<PathBuf> {
        nearest::nearest(&self.resolver, path)
    }
}
