//! Gives a file another place: the same object, with all that belongs to it, under a name that nothing had.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use windlass_core::{FileError, FileErrorKind, FileKind, Fingerprint, Resolved, Stat};

use crate::change::{stale_if_missing, sync_directory, with_seen};
use crate::kernel::{meaning, refusal, stat_child};
use crate::locks::Locks;
use crate::parents::Parents;
use crate::resolver::Resolver;

/// Moves a regular file that is still what it was when it was seen.
pub(crate) fn rename(
    resolver: &Resolver,
    locks: &Locks,
    from: &Resolved,
    seen: Fingerprint,
    to: &Resolved,
) -> Result<Stat, FileError> {
    if from.path == to.path {
        return Err(refusal("move", from, FileErrorKind::Exists));
    }
    // Always in the same order, so that two who move between the same places do not wait for each other.
    let _first = locks.hold((&from.path).min(&to.path));
    let _second = locks.hold((&from.path).max(&to.path));
    let (Some(parent), Some(name)) = (to.path.parent(), to.path.file_name()) else {
        return Err(refusal("write", to, FileErrorKind::NotRegular(FileKind::Directory)));
    };
    let parents =
        Parents::make(resolver, parent).map_err(|errno| refusal("write", to, meaning(errno)))?;
    move_to(resolver, from, seen, &parents, name).map_err(|kind| match kind {
        FileErrorKind::Exists => refusal("write", to, kind),
        kind => refusal("move", from, kind),
    })
}

fn move_to(
    resolver: &Resolver,
    from: &Resolved,
    seen: Fingerprint,
    parents: &Parents,
    new_name: &OsStr,
) -> Result<Stat, FileErrorKind> {
    with_seen(resolver, from, seen, |directory, name| {
        become_new(directory.as_fd(), name, parents.directory(), new_name).map_err(moved_not)?;
        parents.settle().map_err(unconfirmed)?;
        sync_directory(directory).map_err(unconfirmed)?;
        stat_child(parents.directory(), new_name).map_err(meaning)
    })
}

/// Takes a new name, which nothing may have.
fn become_new(
    from: BorrowedFd<'_>,
    name: &OsStr,
    to: BorrowedFd<'_>,
    new_name: &OsStr,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
        // Some file systems cannot promise that. A second name can only be a new one too.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(from, name, to, new_name, AtFlags::empty())?;
            rustix::fs::unlinkat(from, name, AtFlags::empty())
        }
        renamed => renamed,
    }
}

fn moved_not(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::XDEV => FileErrorKind::Io(io::Error::other(
            "the new place is on another file system; create the file there and remove this one",
        )),
        Errno::EXIST => FileErrorKind::Exists,
        other => stale_if_missing(other),
    }
}

fn unconfirmed(errno: Errno) -> FileErrorKind {
    FileErrorKind::Io(io::Error::other(format!(
        "it is moved, but the disk did not confirm it ({errno})"
    )))
}
