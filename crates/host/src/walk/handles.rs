//! The open directories of a walk, of which there are never too many.
//!
//! A directory that waits to be listed is best opened from its parent's handle. But a tree can have any number of parents with
//! directories still waiting, and a process only so many open files: beyond a budget a directory is found again from the root.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::kernel::{FOR_LISTING, Lookup, open_child};

/// How many directories may be kept open for those that wait. Far below the usual limit of 1,024 open files.
const BUDGET: usize = 128;

pub(super) struct Handles {
    root: OwnedFd,
    lookup: Lookup,
    open: Arc<AtomicUsize>,
}

/// An open directory.
pub(super) struct Handle {
    descriptor: OwnedFd,
    open: Arc<AtomicUsize>,
}

impl Handles {
    pub(super) fn new(root: OwnedFd, lookup: Lookup) -> Self {
        Self { root, lookup, open: Arc::default() }
    }

    /// The root, opened once more: a directory has one reading position per open handle.
    pub(super) fn open_root(&self) -> Result<Arc<Handle>, Errno> {
        self.open_from_root(Path::new(""))
    }

    /// A directory by its parent's handle.
    pub(super) fn open_child(&self, parent: &Handle, name: &CStr) -> Result<Arc<Handle>, Errno> {
        let name = OsStr::from_bytes(name.to_bytes());
        Ok(self.count(open_child(parent.as_fd(), name, FOR_LISTING)?))
    }

    /// A directory by its path from the root.
    pub(super) fn open_from_root(&self, path: &Path) -> Result<Arc<Handle>, Errno> {
        Ok(self.count(self.lookup.open(self.root.as_fd(), path, FOR_LISTING)?))
    }

    /// The handle to keep for later, as long as there are few.
    pub(super) fn keep(&self, handle: &Arc<Handle>) -> Option<Arc<Handle>> {
        (self.open.load(Ordering::Relaxed) < BUDGET).then(|| Arc::clone(handle))
    }

    fn count(&self, descriptor: OwnedFd) -> Arc<Handle> {
        self.open.fetch_add(1, Ordering::Relaxed);
        Arc::new(Handle { descriptor, open: Arc::clone(&self.open) })
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}
