//! Implements the file door ([`Files`]) on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use windlass_core::{
    Alteration, Altered, Batch, ContentHash, Entry, FileError, FileErrorKind, Files, FoundEntry,
    OpenFile, Resolved, SessionId, Stat, Visitor, Walk, WalkOptions, WalkReport,
};

use crate::alter::as_errno;
use crate::alter::locks::Locks;
use crate::batch::LocalBatch;
use crate::durability::{Durability, SyncPolicy};
use crate::kernel::{Lookup, errno_file_error, error_kind, file_error};
use crate::resolver::{PathResolver, is_session_tmp};
use crate::session_tmp::SessionTmp;
use crate::temporary::TemporaryDirectories;
use crate::{alter, ancestry, inspect, nearest, walk};

/// The files of this machine, as one workspace sees them.
#[derive(Debug)]
pub struct LocalFiles {
    pub(crate) resolver: Arc<PathResolver>,
    pub(crate) locks: Arc<Locks>,
    pub(crate) durability: SyncPolicy,
}

impl LocalFiles {
    /// Opens a workspace, which must be an existing directory. Each change waits for the disk.
    pub fn open(workspace: &Path) -> Result<Self, FileError> {
        Self::open_with(workspace, Durability::Disk)
    }

    /// Opens a workspace like [`Self::open`], with the given durability of changes.
    pub fn open_with(workspace: &Path, durability: Durability) -> Result<Self, FileError> {
        Self::open_by(workspace, Lookup::available(), durability)
    }

    /// Opens a workspace with a given way of path lookup.
    pub(crate) fn open_by(
        workspace: &Path,
        lookup: Lookup,
        durability: Durability,
    ) -> Result<Self, FileError> {
        let resolver = Arc::new(PathResolver::open(workspace, lookup)?);
        Ok(Self { resolver, locks: Arc::default(), durability: SyncPolicy::each(durability) })
    }

    /// Returns the same files with the `/tmp` of a session, whose directory is inside the state directory `state`.
    ///
    /// ```
    /// use windlass_core::{Files as _, SessionId};
    /// # let (workspace, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// let files = windlass_host::LocalFiles::open(workspace.path())?;
    /// let files = files.with_session_tmp(state.path(), &SessionId::new("s1"));
    /// assert!(!files.resolve("/tmp/note".as_ref())?.exists);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_session_tmp(&self, state: &Path, session: &SessionId) -> Self {
        let directories = TemporaryDirectories::new(Some(state.to_owned()));
        self.in_session(Arc::new(directories), session)
    }

    /// Returns the same files with the `/tmp` of a session.
    pub(crate) fn in_session(
        &self,
        directories: Arc<TemporaryDirectories>,
        session: &SessionId,
    ) -> Self {
        let tmp = SessionTmp::new(directories, session.clone());
        Self {
            resolver: Arc::new(self.resolver.with_tmp(tmp)),
            locks: self.locks.clone(),
            durability: self.durability,
        }
    }

    /// Returns the same files, with the wait for the disk left to the end of a batch.
    pub(crate) fn in_batch(&self) -> Self {
        Self { durability: self.durability.in_batch(), ..self.another_handle() }
    }

    /// Returns another handle on the same files.
    pub(crate) fn another_handle(&self) -> Self {
        Self {
            resolver: self.resolver.clone(),
            locks: self.locks.clone(),
            durability: self.durability,
        }
    }
}

impl Files for LocalFiles {
    fn workspace(&self) -> &Path {
        self.resolver.workspace()
    }

    fn session_tmp(&self) -> Option<&SessionId> {
        self.resolver.tmp().map(|tmp| &tmp.session)
    }

    fn resolve(&self, path: &Path) -> Result<Resolved, FileError> {
        self.resolver.resolve(path)
    }

    fn stat(&self, path: &Resolved) -> Result<Stat, FileError> {
        match self.resolver.stat(path) {
            Err(FileError { kind: FileErrorKind::Permission, .. }) => {
                inspect::stat_as_owner(&self.resolver, path)
                    .map_err(|_| errno_file_error("look at", path, Errno::ACCESS))
            }
            seen => seen,
        }
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
        let is_tmp = |path: &Path| is_session_tmp(path, self.workspace());
        if self.resolver.tmp().is_none() || is_tmp(&root.path) || root.inside.is_some() {
            return walk::walk(&self.resolver, root, options, visitors);
        }
        let outside = || -> Box<dyn Visitor + '_> {
            Box::new(TmpSkippingVisitor { root: &root.path, is_tmp: &is_tmp, inner: visitors() })
        };
        walk::walk(&self.resolver, root, options, &outside)
    }

    fn hash_index_entries(&self, index: &[u8]) -> Option<ContentHash> {
        crate::stage::hash_index_entries(index)
    }

    fn inspect(&self, path: &Resolved) -> Result<Option<FoundEntry>, FileError> {
        inspect::inspect(&self.resolver, path).map_err(|kind| file_error("look at", path, kind))
    }

    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError> {
        alter::alter(self, path, alteration)
    }

    fn new_file_mode(&self, directory: &Resolved) -> Result<Option<u32>, FileError> {
        alter::new_file_mode(&self.resolver, directory)
            .map_err(|errno| errno_file_error("look at", directory, errno))
    }

    fn batch(&self, contents: &[&Path]) -> Result<Option<Box<dyn Batch + '_>>, FileError> {
        Ok(Some(Box::new(LocalBatch::begin(self, contents)?)))
    }

    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError> {
        ancestry::excluded_by(&self.resolver, path).map_err(|unusable| {
            let kind = match error_kind(as_errno(&unusable.why)) {
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

/// Visitor that keeps a walk that began outside the workspace and `/tmp` out of the machine's own `/tmp`.
struct TmpSkippingVisitor<'w, 'v> {
    root: &'w Path,
    is_tmp: &'w (dyn Fn(&Path) -> bool + Sync),
    inner: Box<dyn Visitor + 'v>,
}

impl Visitor for TmpSkippingVisitor<'_, '_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        if (self.is_tmp)(&self.root.join(entry.path)) {
            Walk::Skip
        } else {
            self.inner.visit(entry)
        }
    }
}
