//! Moves a file to another path: the same object with all its attributes. A directory moves with all its content, to a free path only.
//! it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use windlass_core::{
    Altered, ExpectedState, FileError, FileErrorKind, FileKind, Fingerprint, Resolved, Stat,
};

use super::parents::Parents;
use super::target::Target;
use super::{altered_whole, stale_if_missing, stat_failed, sync_failed};
use crate::files::LocalFiles;
use crate::kernel::{error_kind, file_error, stat_child};

/// Moves an object that is still the one that was seen to a free path, or over the file that was seen there.
pub(super) fn move_here(
    files: &LocalFiles,
    to: &Resolved,
    expect: ExpectedState,
    from: &Resolved,
    seen: Fingerprint,
) -> Result<Altered, FileError> {
    if from.path == to.path {
        return Err(file_error("move", from, FileErrorKind::Exists));
    }
    let moved = match expect {
        ExpectedState::Absent => move_to_free_place(files, to, from, seen),
        ExpectedState::Same(there) => move_over(files, to, there, from, seen),
    };
    moved.map(altered_whole).map_err(|failed| match failed {
        MoveError::Destination(kind) => file_error("write", to, kind),
        MoveError::Source(kind) => file_error("move", from, kind),
    })
}

/// Error about one of the two paths of a move.
enum MoveError {
    Source(FileErrorKind),
    Destination(FileErrorKind),
}

/// Moves an object to a path at which nothing exists.
fn move_to_free_place(
    files: &LocalFiles,
    to: &Resolved,
    from: &Resolved,
    seen: Fingerprint,
) -> Result<Stat, MoveError> {
    let Some(name) = to.path.file_name() else {
        return Err(MoveError::Destination(FileErrorKind::NotRegular(FileKind::Directory)));
    };
    let parents = Parents::open_or_create(&files.resolver, to)
        .map_err(|errno| MoveError::Destination(error_kind(errno)))?;
    let source = Target::open(&files.resolver, from, seen).map_err(MoveError::Source)?;
    let _locked = match source.check_unchanged().map_err(MoveError::Source)?.stat.kind {
        FileKind::Directory => None,
        _ => lock_source(&source).map_err(MoveError::Source)?,
    };
    rename_to_free(source.directory(), source.name, parents.directory(), name)
        .map_err(rename_error)?;
    parents.sync(files.durability).map_err(|errno| MoveError::Source(sync_failed(errno)))?;
    finish_move(files, &source, parents.directory(), name)
}

/// Moves a file over another file.
fn move_over(
    files: &LocalFiles,
    to: &Resolved,
    there: Fingerprint,
    from: &Resolved,
    seen: Fingerprint,
) -> Result<Stat, MoveError> {
    if there.is_same_object(&seen) {
        // For two names of one file, the kernel's rename would do nothing.
        return Err(MoveError::Destination(FileErrorKind::Exists));
    }
    let target = Target::open(&files.resolver, to, there).map_err(MoveError::Destination)?;
    target.check_unchanged_file().map_err(MoveError::Destination)?;
    let source = Target::open(&files.resolver, from, seen).map_err(MoveError::Source)?;
    let _locked = lock_source(&source).map_err(MoveError::Source)?;
    let _target_locked = target.lock().map_err(MoveError::Destination)?;
    target.check_unchanged().map_err(MoveError::Destination)?;
    rustix::fs::renameat(source.directory(), source.name, target.directory(), target.name)
        .map_err(rename_error)?;
    sync_source_directory(files, target.directory())?;
    finish_move(files, &source, target.directory(), target.name)
}

/// Checks the source, locks it against other processes, and checks it again. The lock lasts while the returned handle is open.
fn lock_source(source: &Target<'_>) -> Result<Option<std::fs::File>, FileErrorKind> {
    let locked = match source.check_unchanged()?.stat.kind {
        FileKind::File => source.lock()?,
        FileKind::Symlink => None,
        other => return Err(FileErrorKind::NotRegular(other)),
    };
    source.check_unchanged()?;
    Ok(locked)
}

/// Syncs the old directory, and returns facts about the moved object.
fn finish_move(
    files: &LocalFiles,
    source: &Target<'_>,
    directory: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<Stat, MoveError> {
    sync_source_directory(files, source.directory())?;
    stat_child(directory, name).map_err(|errno| MoveError::Destination(stat_failed(errno)))
}

/// Syncs a directory.
fn sync_source_directory(files: &LocalFiles, directory: BorrowedFd<'_>) -> Result<(), MoveError> {
    let settled = files.durability.sync_directory(directory);
    settled.map_err(|errno| MoveError::Source(sync_failed(errno)))
}

/// Renames an object to a name that must be free.
fn rename_to_free(
    from: BorrowedFd<'_>,
    name: &OsStr,
    to: BorrowedFd<'_>,
    new_name: &OsStr,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
        // Some file systems cannot refuse a taken name. A hard link can only be made under a free name.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(from, name, to, new_name, AtFlags::empty())?;
            rustix::fs::unlinkat(from, name, AtFlags::empty())
        }
        renamed => renamed,
    }
}

/// Converts the error of a rename.
fn rename_error(errno: Errno) -> MoveError {
    match errno {
        Errno::XDEV => MoveError::Source(FileErrorKind::Io(io::Error::other(
            "the new place is on another file system; create the file there and remove this one",
        ))),
        Errno::EXIST => MoveError::Destination(FileErrorKind::Exists),
        other => MoveError::Source(stale_if_missing(other)),
    }
}
