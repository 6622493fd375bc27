//! The door to the files of this machine.

use std::path::{Path, PathBuf};

use windlass_core::{
    Alteration, Altered, FileError, FileErrorKind, Files, Found, OpenFile, Resolved, Stat, Visitor,
    WalkOptions, WalkReport,
};

use crate::alter::as_errno;
use crate::alter::locks::Locks;
use crate::durability::Durability;
use crate::kernel::{Lookup, meaning, refusal};
use crate::resolver::Resolver;
use crate::{alter, ancestry, look, nearest, walk};

/// The files of this machine, seen from one workspace.
#[derive(Debug)]
pub struct LocalFiles {
    pub(crate) resolver: Resolver,
    pub(crate) locks: Locks,
    pub(crate) durability: Durability,
}

impl LocalFiles {
    /// Takes hold of a workspace: a directory that exists. Changes wait for the disk.
    pub fn open(workspace: &Path) -> Result<Self, FileError> {
        Self::open_with(workspace, Durability::Disk)
    }

    /// The same, with changes that survive as much as is told.
    pub fn open_with(workspace: &Path, durability: Durability) -> Result<Self, FileError> {
        Self::open_by(workspace, Lookup::available(), durability)
    }

    pub(crate) fn open_by(
        workspace: &Path,
        lookup: Lookup,
        durability: Durability,
    ) -> Result<Self, FileError> {
        let resolver = Resolver::open(workspace, lookup)?;
        Ok(Self { resolver, locks: Locks::default(), durability })
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

    fn look(&self, path: &Resolved) -> Result<Option<Found>, FileError> {
        look::look(&self.resolver, path).map_err(|kind| refusal("look at", path, kind))
    }

    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError> {
        alter::alter(self, path, alteration)
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
