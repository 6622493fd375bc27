//! A name in a directory, and the object that is expected there.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;
use windlass_core::{FileErrorKind, FileKind, Fingerprint, Resolved, Stat};

use super::locks::lock_between_processes;
use super::parents::open_parent;
use super::stale_if_missing;
use crate::kernel::{FOR_READING, error_kind, open_child, stat, stat_from};
use crate::resolver::PathResolver;

/// An object that was seen and is to be changed: its directory, name and fingerprint.
#[derive(Debug)]
pub(super) struct Target<'a> {
    directory: OwnedFd,
    pub(super) name: &'a OsStr,
    pub(super) seen: Fingerprint,
}

/// Facts about the object that is there now.
#[derive(Debug, Clone, Copy)]
pub(super) struct OldObject {
    pub(super) stat: Stat,
    /// Numbers of user and group.
    pub(super) owner: (u32, u32),
}

impl<'a> Target<'a> {
    /// Opens the directory in which the object was seen.
    pub(super) fn open(
        resolver: &PathResolver,
        path: &'a Resolved,
        seen: Fingerprint,
    ) -> Result<Self, FileErrorKind> {
        // Only `/` has no name, and it cannot be replaced.
        let Some(name) = path.path.file_name() else { return Err(FileErrorKind::Permission) };
        let directory = open_parent(resolver, path).map_err(stale_if_missing)?;
        Ok(Self { directory, name, seen })
    }

    /// Returns the handle of the parent directory.
    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Checks that the object is still the one that was seen, and returns facts about it. A directory may have other entries now.
    pub(super) fn check_unchanged(&self) -> Result<OldObject, FileErrorKind> {
        let raw = rustix::fs::statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(stale_if_missing)?;
        let old = OldObject { stat: stat_from(&raw), owner: (raw.st_uid, raw.st_gid) };
        self.compare(&old.stat)?;
        Ok(old)
    }

    /// Does the same, and fails if the object is not a regular file.
    pub(super) fn check_unchanged_file(&self) -> Result<OldObject, FileErrorKind> {
        let old = self.check_unchanged()?;
        match old.stat.kind {
            FileKind::File => Ok(old),
            other => Err(FileErrorKind::NotRegular(other)),
        }
    }

    /// Compares facts with the fingerprint that was seen.
    fn compare(&self, now: &Stat) -> Result<(), FileErrorKind> {
        let same = match now.kind {
            FileKind::Directory => now.fingerprint.is_same_object(&self.seen),
            _ => now.fingerprint == self.seen,
        };
        match now.kind {
            _ if same => Ok(()),
            FileKind::Symlink => Err(FileErrorKind::Changed),
            _ => Err(FileErrorKind::Stale),
        }
    }

    /// Fails if the file is read-only for us. A rename would need no right to the file, but its mode still counts.
    pub(super) fn check_writable(&self) -> Result<(), FileErrorKind> {
        let access =
            rustix::fs::accessat(&self.directory, self.name, Access::WRITE_OK, AtFlags::EACCESS);
        match access {
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(error_kind(errno)),
            _ => Ok(()),
        }
    }

    /// Opens the regular file and locks it against other processes; `None` if it is not readable. Checks it again afterwards, because the
    /// previous holder of the lock may have changed it.
    pub(super) fn lock(&self) -> Result<Option<File>, FileErrorKind> {
        match open_child(self.directory(), self.name, FOR_READING) {
            Ok(file) => {
                lock_between_processes(&file).map_err(FileErrorKind::Io)?;
                self.compare(&stat(&file).map_err(error_kind)?)?;
                Ok(Some(file.into()))
            }
            Err(Errno::ACCESS | Errno::PERM) => Ok(None),
            Err(errno) => Err(stale_if_missing(errno)),
        }
    }
}
