//! Removes a file that is still what it was when it was seen, or a directory that nothing is in.
//!
//! The kernel removes a name, not an object: between the last look and the removal there is a moment in which another program that
//! knows no locks could put something else there. It is as short as it can be made.

use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::io;
use windlass_core::{FileError, FileErrorKind, Fingerprint, Resolved};

use crate::change::{stale_if_missing, sync_directory, with_seen};
use crate::kernel::{meaning, refusal};
use crate::locks::Locks;
use crate::parents::open_directory;
use crate::resolver::Resolver;

/// Removes a regular file.
pub(crate) fn file(
    resolver: &Resolver,
    locks: &Locks,
    path: &Resolved,
    seen: Fingerprint,
) -> Result<(), FileError> {
    let _held = locks.hold(&path.path);
    remove_file(resolver, path, seen).map_err(|kind| refusal("remove", path, kind))
}

fn remove_file(
    resolver: &Resolver,
    path: &Resolved,
    seen: Fingerprint,
) -> Result<(), FileErrorKind> {
    with_seen(resolver, path, seen, |directory, name| {
        rustix::fs::unlinkat(directory, name, AtFlags::empty()).map_err(stale_if_missing)?;
        sync_directory(directory).map_err(unconfirmed)
    })
}

/// Removes an empty directory.
pub(crate) fn directory(resolver: &Resolver, path: &Resolved) -> Result<(), FileError> {
    remove_directory(resolver, path).map_err(|kind| refusal("remove", path, kind))
}

fn remove_directory(resolver: &Resolver, path: &Resolved) -> Result<(), FileErrorKind> {
    let (Some(parent), Some(name)) = (path.path.parent(), path.path.file_name()) else {
        return Err(FileErrorKind::Permission);
    };
    let parent = resolver.resolved(parent.to_owned(), true);
    let directory = open_directory(resolver, &parent).map_err(meaning)?;
    rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR).map_err(meaning)?;
    sync_directory(&directory).map_err(unconfirmed)
}

fn unconfirmed(errno: Errno) -> FileErrorKind {
    FileErrorKind::Io(io::Error::other(format!(
        "it is removed, but the disk did not confirm it ({errno})"
    )))
}
