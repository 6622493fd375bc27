//! A directory by handle, and paths below it that lead through no link.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{FileError, FileErrorKind, Fingerprint};

use crate::kernel::{FOR_LISTING, Lookup, meaning, stat};

/// A directory and all that is below it.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    root: OwnedFd,
    pub(crate) lookup: Lookup,
}

impl Tree {
    /// Takes hold of a directory.
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let root = rustix::fs::open(path, FOR_LISTING, Mode::empty())
            .map_err(|errno| FileError::new("open", path, meaning(errno)))?;
        Ok(Self { path: path.to_owned(), root, lookup: Lookup::available() })
    }

    /// The handle of the directory itself.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// What is below it at a path, itself if the path is empty.
    pub(crate) fn at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.lookup.open(self.root.as_fd(), path, flags)
    }

    /// A directory below it, to be listed.
    pub(crate) fn directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.at(path, FOR_LISTING)
    }

    /// Which directory it is.
    pub(crate) fn identity(&self) -> Result<Fingerprint, FileError> {
        stat(&self.root)
            .map(|stat| stat.fingerprint)
            .map_err(|errno| FileError::new("look at", &self.path, meaning(errno)))
    }

    /// An error about a path below it.
    pub(crate) fn failed(&self, doing: &'static str, path: &Path, errno: Errno) -> FileError {
        self.refused(doing, path, meaning(errno))
    }

    pub(crate) fn refused(
        &self,
        doing: &'static str,
        path: &Path,
        kind: FileErrorKind,
    ) -> FileError {
        FileError::new(doing, self.path.join(path), kind)
    }
}

/// The names in a directory, but for itself and its parent.
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
