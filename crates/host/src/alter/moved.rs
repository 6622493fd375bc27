//! Gives a file another place: the same object, with all that belongs to it. A directory gets one where nothing is, with all that is in
//! it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use windlass_core::{
    Altered, Expect, FileError, FileErrorKind, FileKind, Fingerprint, Resolved, Stat,
};

use super::parents::Parents;
use super::target::Target;
use super::{stale_if_missing, unconfirmed, unseen, whole};
use crate::files::LocalFiles;
use crate::kernel::{meaning, refusal, stat_child};

/// Moves a file that is still what it was when it was seen to a place where nothing is, or over what was seen there.
pub(super) fn move_here(
    files: &LocalFiles,
    to: &Resolved,
    expect: Expect,
    from: &Resolved,
    seen: Fingerprint,
) -> Result<Altered, FileError> {
    if from.path == to.path {
        return Err(refusal("move", from, FileErrorKind::Exists));
    }
    let moved = match expect {
        Expect::Absent => move_to_free_place(files, to, from, seen),
        Expect::Same(there) => move_over(files, to, there, from, seen),
    };
    moved.map(whole).map_err(|failed| match failed {
        Failed::There(kind) => refusal("write", to, kind),
        Failed::Here(kind) => refusal("move", from, kind),
    })
}

/// Which of the two places an error is about.
enum Failed {
    Here(FileErrorKind),
    There(FileErrorKind),
}

fn move_to_free_place(
    files: &LocalFiles,
    to: &Resolved,
    from: &Resolved,
    seen: Fingerprint,
) -> Result<Stat, Failed> {
    let Some(name) = to.path.file_name() else {
        return Err(Failed::There(FileErrorKind::NotRegular(FileKind::Directory)));
    };
    let parents =
        Parents::make(&files.resolver, to).map_err(|errno| Failed::There(meaning(errno)))?;
    let source = Target::open(&files.resolver, from, seen).map_err(Failed::Here)?;
    let _locked = match source.look().map_err(Failed::Here)?.stat.kind {
        FileKind::Directory => None,
        _ => prepare(&source).map_err(Failed::Here)?,
    };
    rename_to_free(source.directory(), source.name, parents.directory(), name)
        .map_err(not_moved)?;
    parents.settle(files.durability).map_err(|errno| Failed::Here(unconfirmed(errno)))?;
    finish(files, &source, parents.directory(), name)
}

fn move_over(
    files: &LocalFiles,
    to: &Resolved,
    there: Fingerprint,
    from: &Resolved,
    seen: Fingerprint,
) -> Result<Stat, Failed> {
    if there.is_same_object(&seen) {
        // Two names of one file: the kernel's rename would do nothing.
        return Err(Failed::There(FileErrorKind::Exists));
    }
    let target = Target::open(&files.resolver, to, there).map_err(Failed::There)?;
    target.look_at_file().map_err(Failed::There)?;
    let source = Target::open(&files.resolver, from, seen).map_err(Failed::Here)?;
    let _locked = prepare(&source).map_err(Failed::Here)?;
    let _target_locked = target.lock().map_err(Failed::There)?;
    target.look().map_err(Failed::There)?;
    rustix::fs::renameat(source.directory(), source.name, target.directory(), target.name)
        .map_err(not_moved)?;
    settle(files, target.directory())?;
    finish(files, &source, target.directory(), target.name)
}

/// Locks what is to be moved, and looks at it for the last time. What can be locked against other processes stays locked as long
/// as the handle is held.
fn prepare(source: &Target<'_>) -> Result<Option<std::fs::File>, FileErrorKind> {
    let locked = match source.look()?.stat.kind {
        FileKind::File => source.lock()?,
        FileKind::Symlink => None,
        other => return Err(FileErrorKind::NotRegular(other)),
    };
    source.look()?;
    Ok(locked)
}

fn finish(
    files: &LocalFiles,
    source: &Target<'_>,
    directory: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<Stat, Failed> {
    settle(files, source.directory())?;
    stat_child(directory, name).map_err(|errno| Failed::There(unseen(errno)))
}

fn settle(files: &LocalFiles, directory: BorrowedFd<'_>) -> Result<(), Failed> {
    let settled = files.durability.settle_directory(directory);
    settled.map_err(|errno| Failed::Here(unconfirmed(errno)))
}

/// Takes a new name, which nothing may have.
fn rename_to_free(
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

fn not_moved(errno: Errno) -> Failed {
    match errno {
        Errno::XDEV => Failed::Here(FileErrorKind::Io(io::Error::other(
            "the new place is on another file system; create the file there and remove this one",
        ))),
        Errno::EXIST => Failed::There(FileErrorKind::Exists),
        other => Failed::Here(stale_if_missing(other)),
    }
}
