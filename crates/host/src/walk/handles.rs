//! The open directory handles of a walk, limited in number.
//!
//! A directory that waits to be listed is best opened from its parent's handle. But any number of parents can have directories
//! waiting, and a process may have only so many open files: beyond a limit a directory is opened again from the root.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::kernel::{FOR_LISTING, Lookup, open_child};

/// Maximum handles that are kept open for waiting directories. Far below the usual limit of 1,024 open files.
const MAX_KEPT_HANDLES: usize = 128;

/// Opens directories of a walk and counts the open ones.
pub(super) struct DirectoryHandles {
    root: OwnedFd,
    lookup: Lookup,
    open: Arc<AtomicUsize>,
}

/// An open directory, counted as long as it is open.
pub(super) struct DirectoryHandle {
    descriptor: OwnedFd,
    open: Arc<AtomicUsize>,
}

impl DirectoryHandles {
    pub(super) fn new(root: OwnedFd, lookup: Lookup) -> Self {
        Self { root, lookup, open: Arc::default() }
    }

    /// Opens the root once more: a directory has one reading position per open handle.
    pub(super) fn open_root(&self) -> Result<Arc<DirectoryHandle>, Errno> {
        self.open_from_root(Path::new(""))
    }

    /// Opens a directory by its parent's handle.
    pub(super) fn open_child(
        &self,
        parent: &DirectoryHandle,
        name: &CStr,
    ) -> Result<Arc<DirectoryHandle>, Errno> {
        let name = OsStr::from_bytes(name.to_bytes());
        Ok(self.count(open_child(parent.as_fd(), name, FOR_LISTING)?))
    }

    /// Opens a directory by its path from the root.
    pub(super) fn open_from_root(&self, path: &Path) -> Result<Arc<DirectoryHandle>, Errno> {
        Ok(self.count(self.lookup.open(self.root.as_fd(), path, FOR_LISTING)?))
    }

    /// Returns a clone of the handle to keep for later, or `None` if too many are open.
    pub(super) fn keep(&self, handle: &Arc<DirectoryHandle>) -> Option<Arc<DirectoryHandle>> {
        (self.open.load(Ordering::Relaxed) < MAX_KEPT_HANDLES).then(|| Arc::clone(handle))
    }

    /// Wraps a descriptor so that it is counted while it is open.
    fn count(&self, descriptor: OwnedFd) -> Arc<DirectoryHandle> {
        self.open.fetch_add(1, Ordering::Relaxed);
        Arc::new(DirectoryHandle { descriptor, open: Arc::clone(&self.open) })
    }
}

impl AsFd for DirectoryHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for DirectoryHandle {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}
