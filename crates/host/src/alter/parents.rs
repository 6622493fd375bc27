//! The directory in which something new will be, made if it is missing, one component at a time and through no link.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::Resolved;

use crate::durability::Settling;
use crate::kernel::{FOR_LISTING, NAME_ONLY, open_child};
use crate::resolver::Resolver;

/// A directory, and those above it that were made for it. They are removed again if nothing was put into them.
#[derive(Debug)]
pub(super) struct Parents {
    directory: OwnedFd,
    /// Each with the name of what was made in it, the highest first.
    made: Vec<(OwnedFd, OsString)>,
}

impl Parents {
    /// Opens the directory that something is or will be in, and makes what is missing of it.
    pub(super) fn make(resolver: &Resolver, path: &Resolved) -> Result<Self, Errno> {
        let mut missing = Vec::new();
        for ancestor in path.path.ancestors().skip(1) {
            let opened = open_directory(resolver, path, ancestor);
            match (opened, ancestor.file_name()) {
                (Ok(directory), _) => return Self { directory, made: Vec::new() }.add(missing),
                (Err(Errno::NOENT), Some(name)) => missing.push(name.to_owned()),
                (Err(errno), _) => return Err(errno),
            }
        }
        Err(Errno::NOENT)
    }

    fn add(mut self, mut missing: Vec<OsString>) -> Result<Self, Errno> {
        while let Some(name) = missing.pop() {
            let made = rustix::fs::mkdirat(&self.directory, &name, Mode::from_raw_mode(0o777));
            let child = match made {
                // Somebody else was faster: it serves as well, if it is a directory, and is not ours to remove.
                Ok(()) | Err(Errno::EXIST) => open_made(self.directory.as_fd(), &name),
                Err(errno) => Err(errno),
            };
            if made.is_ok() && child.is_err() {
                let _ = rustix::fs::unlinkat(&self.directory, &name, AtFlags::REMOVEDIR);
            }
            let above = std::mem::replace(&mut self.directory, child?);
            if made.is_ok() {
                self.made.push((above, name));
            }
        }
        Ok(self)
    }

    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Waits until the disk has the directory and all that was made for it.
    pub(super) fn settle(&self, durability: Settling) -> Result<(), Errno> {
        durability.settle_directory(&self.directory)?;
        self.made.iter().rev().try_for_each(|(above, _)| durability.settle_directory(above))
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        while let Some((above, name)) = self.made.pop() {
            // The kernel removes no directory that something is in: neither our file nor another's.
            let _ = rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR);
        }
    }
}

/// Opens the directory that something is in so that names in it can be changed, and the change made durable if we may read it.
pub(super) fn open_parent(resolver: &Resolver, path: &Resolved) -> Result<OwnedFd, Errno> {
    let parent = path.path.parent().ok_or(Errno::ACCESS)?;
    open_directory(resolver, path, parent)
}

/// The same for any directory above it.
fn open_directory(
    resolver: &Resolver,
    path: &Resolved,
    directory: &Path,
) -> Result<OwnedFd, Errno> {
    let (from, way) = resolver.place_around(path, directory)?;
    match resolver.lookup().open(from, way, FOR_LISTING) {
        Err(Errno::ACCESS) => resolver.lookup().open(from, way, NAME_ONLY | OFlags::DIRECTORY),
        opened => opened,
    }
}

pub(super) fn open_made(directory: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    match open_child(directory, name, FOR_LISTING) {
        // A umask can take the right to read our own directory.
        Err(Errno::ACCESS) => open_child(directory, name, NAME_ONLY | OFlags::DIRECTORY),
        opened => opened,
    }
}
