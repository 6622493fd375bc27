//! Opens the parent directory of a new object, and creates missing directories one by one without following links.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::Resolved;

use crate::durability::SyncPolicy;
use crate::kernel::{FOR_LISTING, NAME_ONLY, open_child};
use crate::resolver::PathResolver;

/// A directory, and the directories that were created for it. Those are removed on drop if they are still empty.
#[derive(Debug)]
pub(super) struct Parents {
    directory: OwnedFd,
    /// Created directories, the highest first: the handle of the parent, and the name in it.
    made: Vec<(OwnedFd, OsString)>,
}

impl Parents {
    /// Opens the parent directory of a path, and creates the missing directories above it.
    pub(super) fn open_or_create(resolver: &PathResolver, path: &Resolved) -> Result<Self, Errno> {
        let mut missing = Vec::new();
        for ancestor in path.path.ancestors().skip(1) {
            let opened = open_directory(resolver, path, ancestor);
            match (opened, ancestor.file_name()) {
                (Ok(directory), _) => {
                    return Self { directory, made: Vec::new() }.create_missing(missing);
                }
                (Err(Errno::NOENT), Some(name)) => missing.push(name.to_owned()),
                (Err(errno), _) => return Err(errno),
            }
        }
        Err(Errno::NOENT)
    }

    /// Creates the missing directories below the current one. The names are in reverse order.
    fn create_missing(mut self, mut missing: Vec<OsString>) -> Result<Self, Errno> {
        while let Some(name) = missing.pop() {
            let made = rustix::fs::mkdirat(&self.directory, &name, Mode::from_raw_mode(0o777));
            let child = match made {
                // Another process created it first: if it is a directory it is used, but never removed by us.
                Ok(()) | Err(Errno::EXIST) => open_created(self.directory.as_fd(), &name),
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

    /// Returns the handle of the parent directory.
    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Waits until the disk has the directory and everything created for it.
    pub(super) fn sync(&self, durability: SyncPolicy) -> Result<(), Errno> {
        durability.sync_directory(&self.directory)?;
        self.made.iter().rev().try_for_each(|(above, _)| durability.sync_directory(above))
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        while let Some((above, name)) = self.made.pop() {
            // The kernel removes only empty directories, so neither our file nor another program's is lost.
            let _ = rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR);
        }
    }
}

/// Opens the parent directory of a path so that names in it can be changed, and synced if it is readable.
pub(super) fn open_parent(resolver: &PathResolver, path: &Resolved) -> Result<OwnedFd, Errno> {
    let parent = path.path.parent().ok_or(Errno::ACCESS)?;
    open_directory(resolver, path, parent)
}

/// Opens the directory of a path, or one further up, in the same way.
fn open_directory(
    resolver: &PathResolver,
    path: &Resolved,
    directory: &Path,
) -> Result<OwnedFd, Errno> {
    let (from, way) = resolver.handle_and_path_above(path, directory)?;
    match resolver.lookup().open(from, way, FOR_LISTING) {
        Err(Errno::ACCESS) => resolver.lookup().open(from, way, NAME_ONLY | OFlags::DIRECTORY),
        opened => opened,
    }
}

/// Opens a directory that was just created.
pub(super) fn open_created(directory: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    match open_child(directory, name, FOR_LISTING) {
        // A umask can take the right to read our own directory.
        Err(Errno::ACCESS) => open_child(directory, name, NAME_ONLY | OFlags::DIRECTORY),
        opened => opened,
    }
}
