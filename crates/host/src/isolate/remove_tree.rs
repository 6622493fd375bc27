//! Removes a whole tree of ours, regardless of the modes of its directories and of its depth.
//!
//! A directory that is not empty is moved right below the root before it is emptied. So only one handle is open at a time and no path gets
//! long. The move is harmless, because everything here is about to be removed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::tree::names;
use crate::kernel::{FOR_LISTING, NAME_ONLY, descriptor_path};

/// Removes a directory with everything in it, without following links. Succeeds if it does not exist.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let root = match open_writable(CWD, path.as_os_str()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut clearing = TreeRemoval { root: root.as_fd(), waiting: Vec::new(), number: 0 };
    clearing.remove_entries(None)?;
    while let Some(name) = clearing.waiting.pop() {
        clearing.remove_entries(Some(&open_writable(&root, &name)?))?;
        ignore_missing(rustix::fs::unlinkat(&root, &name, AtFlags::REMOVEDIR))?;
    }
    ignore_missing(rustix::fs::rmdir(path))?;
    Ok(())
}

/// State of a removal.
struct TreeRemoval<'a> {
    root: BorrowedFd<'a>,
    /// Names of directories in the root that are not empty yet.
    waiting: Vec<OsString>,
    /// Number for the next name of a moved directory.
    number: u64,
}

impl TreeRemoval<'_> {
    /// Removes the entries of a directory (`None`: the root). Directories with content are moved to the root and emptied later.
    fn remove_entries(&mut self, directory: Option<&OwnedFd>) -> Result<(), Errno> {
        let at = directory.map_or(self.root, AsFd::as_fd);
        for name in names(at)? {
            match rustix::fs::unlinkat(at, &name, AtFlags::empty()) {
                // The error for a directory depends on the system.
                Err(Errno::ISDIR | Errno::PERM) => {}
                removed => {
                    ignore_missing(removed)?;
                    continue;
                }
            }
            match rustix::fs::unlinkat(at, &name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) if directory.is_none() => {
                    self.waiting.push(name);
                }
                Err(Errno::NOTEMPTY | Errno::EXIST) => self.move_to_root(at, &name)?,
                removed => ignore_missing(removed)?,
            }
        }
        Ok(())
    }

    /// Moves a directory to the root under a new name.
    fn move_to_root(&mut self, from: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        // The kernel writes to a directory that gets another parent, so it must be writable.
        drop(open_writable(from, name)?);
        loop {
            let own = OsString::from(format!("removed-{}", self.number));
            self.number += 1;
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(from, name, self.root, &own, flags) {
                Err(Errno::EXIST) => {}
                moved => {
                    moved?;
                    self.waiting.push(own);
                    return Ok(());
                }
            }
        }
    }
}

/// Opens a directory, and gives us the rights to list and empty it.
fn open_writable(from: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let from = from.as_fd();
    let directory = match rustix::fs::openat(from, name, FOR_LISTING, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let flags = NAME_ONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let named = rustix::fs::openat(from, name, flags, Mode::empty())?;
            rustix::fs::chmodat(CWD, descriptor_path(&named), Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(from, name, FOR_LISTING, Mode::empty())?
        }
        opened => opened?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        rustix::fs::fchmod(&directory, Mode::RWXU)?;
    }
    Ok(directory)
}

/// Treats a missing object as removed.
fn ignore_missing(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}
