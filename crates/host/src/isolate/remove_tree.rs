//! Removes a whole tree that is ours, whatever modes its directories were left with and however deep it is.
//!
//! A directory that is not empty is brought right below the root before it is emptied. So one handle is open at a time, no path
//! gets long, and nothing is lost on the way: what is moved is about to be removed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::tree::names;
use crate::kernel::{FOR_LISTING, NAME_ONLY, descriptor_path};

/// Removes a directory and all that is in it, following no link. That it is not there is as good.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let root = match open_up(CWD, path.as_os_str()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut clearing = Clearing { root: root.as_fd(), waiting: Vec::new(), number: 0 };
    clearing.empty(None)?;
    while let Some(name) = clearing.waiting.pop() {
        clearing.empty(Some(&open_up(&root, &name)?))?;
        present(rustix::fs::unlinkat(&root, &name, AtFlags::REMOVEDIR))?;
    }
    present(rustix::fs::rmdir(path))?;
    Ok(())
}

struct Clearing<'a> {
    root: BorrowedFd<'a>,
    /// The names of directories in the root that are not empty.
    waiting: Vec<OsString>,
    /// How many names were given.
    number: u64,
}

impl Clearing<'_> {
    /// Removes what is in a directory, the root for `None`, but for directories in which something is: they wait in the root then.
    fn empty(&mut self, directory: Option<&OwnedFd>) -> Result<(), Errno> {
        let at = directory.map_or(self.root, AsFd::as_fd);
        for name in names(at)? {
            match rustix::fs::unlinkat(at, &name, AtFlags::empty()) {
                // Which of the two it is when it is a directory depends on the system.
                Err(Errno::ISDIR | Errno::PERM) => {}
                removed => {
                    present(removed)?;
                    continue;
                }
            }
            match rustix::fs::unlinkat(at, &name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) if directory.is_none() => {
                    self.waiting.push(name);
                }
                Err(Errno::NOTEMPTY | Errno::EXIST) => self.bring_up(at, &name)?,
                removed => present(removed)?,
            }
        }
        Ok(())
    }

    fn bring_up(&mut self, from: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        // A directory that goes elsewhere is written to: it has another parent then.
        drop(open_up(from, name)?);
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

/// Opens a directory that can be listed and emptied from now on.
fn open_up(from: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
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

fn present(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}
