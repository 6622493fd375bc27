//! A directory held by a handle. Paths below it are opened without following links.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{FileError, FileErrorKind, Fingerprint};

use crate::kernel::{FOR_LISTING, Lookup, error_kind, stat};

/// A directory with everything below it.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    root: OwnedFd,
    pub(crate) lookup: Lookup,
}

impl Tree {
    /// Opens a directory.
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let root = rustix::fs::open(path, FOR_LISTING, Mode::empty())
            .map_err(|errno| FileError::new("open", path, error_kind(errno)))?;
        Ok(Self { path: path.to_owned(), root, lookup: Lookup::available() })
    }

    /// Returns the handle of the directory itself.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Opens the object at a path below the directory, or the directory itself if the path is empty.
    pub(crate) fn open_below(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.lookup.open(self.root.as_fd(), path, flags)
    }

    /// Opens a directory below it for listing.
    pub(crate) fn directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.open_below(path, FOR_LISTING)
    }

    /// Returns the fingerprint of the directory itself.
    pub(crate) fn identity(&self) -> Result<Fingerprint, FileError> {
        stat(&self.root)
            .map(|stat| stat.fingerprint)
            .map_err(|errno| FileError::new("look at", &self.path, error_kind(errno)))
    }

    /// Returns an error about a path below it, for an error number.
    pub(crate) fn errno_error(&self, doing: &'static str, path: &Path, errno: Errno) -> FileError {
        self.file_error(doing, path, error_kind(errno))
    }

    /// Returns an error about a path below it.
    pub(crate) fn file_error(
        &self,
        doing: &'static str,
        path: &Path,
        kind: FileErrorKind,
    ) -> FileError {
        FileError::new(doing, self.path.join(path), kind)
    }
}

/// Returns the names in a directory without `.` and `..`.
pub(crate) fn names(directory: impl AsFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}
