//! A name in a directory, and what must be there.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;
use windlass_core::{FileErrorKind, FileKind, Fingerprint, Resolved, Stat};

use super::locks::lock_between_processes;
use super::parents::open_parent;
use super::stale_if_missing;
use crate::kernel::{FOR_READING, meaning, open_child, stat, stat_from};
use crate::resolver::Resolver;

/// Something that was seen and is to be changed.
#[derive(Debug)]
pub(super) struct Target<'a> {
    directory: OwnedFd,
    pub(super) name: &'a OsStr,
    pub(super) seen: Fingerprint,
}

/// What was found in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Old {
    pub(super) stat: Stat,
    /// The numbers of user and group.
    pub(super) owner: (u32, u32),
}

impl<'a> Target<'a> {
    /// Takes hold of the directory in which something was seen.
    pub(super) fn open(
        resolver: &Resolver,
        path: &'a Resolved,
        seen: Fingerprint,
    ) -> Result<Self, FileErrorKind> {
        // Only `/` has none, and nobody may change it.
        let Some(name) = path.path.file_name() else { return Err(FileErrorKind::Permission) };
        let directory = open_parent(resolver, path).map_err(stale_if_missing)?;
        Ok(Self { directory, name, seen })
    }

    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Makes sure that what is there is still what was seen. A directory is, whatever came or went in it.
    pub(super) fn look(&self) -> Result<Old, FileErrorKind> {
        let raw = rustix::fs::statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(stale_if_missing)?;
        let old = Old { stat: stat_from(&raw), owner: (raw.st_uid, raw.st_gid) };
        self.check(&old.stat)?;
        Ok(old)
    }

    /// The same, for what must be a regular file.
    pub(super) fn look_at_file(&self) -> Result<Old, FileErrorKind> {
        let old = self.look()?;
        match old.stat.kind {
            FileKind::File => Ok(old),
            other => Err(FileErrorKind::NotRegular(other)),
        }
    }

    fn check(&self, now: &Stat) -> Result<(), FileErrorKind> {
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

    /// A rename needs no right to the file itself. That it is read-only still means something.
    pub(super) fn check_writable(&self) -> Result<(), FileErrorKind> {
        let access =
            rustix::fs::accessat(&self.directory, self.name, Access::WRITE_OK, AtFlags::EACCESS);
        match access {
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(meaning(errno)),
            _ => Ok(()),
        }
    }

    /// Opens the regular file and locks it against other processes, if it can be opened for that. Whoever held the lock may have
    /// changed it: it is held against what was seen once more.
    pub(super) fn lock(&self) -> Result<Option<File>, FileErrorKind> {
        match open_child(self.directory(), self.name, FOR_READING) {
            Ok(file) => {
                lock_between_processes(&file).map_err(FileErrorKind::Io)?;
                self.check(&stat(&file).map_err(meaning)?)?;
                Ok(Some(file.into()))
            }
            Err(Errno::ACCESS | Errno::PERM) => Ok(None),
            Err(errno) => Err(stale_if_missing(errno)),
        }
    }
}
