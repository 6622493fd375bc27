//! Collects everything about the object at a path: what a change must know so that it can be undone.
//!
//! A link is read, not followed, and an object that is neither file, link nor directory is never opened. Every write does this
//! first, so the usual case, a regular file with nothing special about it, takes four system calls.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{FileErrorKind, FileKind, FoundBody, FoundEntry, Resolved, Stat};

use crate::attributes;
use crate::kernel::{
    FOR_LISTING, FOR_READING, NAME_ONLY, error_kind, open_child, stat, stat_child, stat_from,
};
use crate::resolver::{PathResolver, same_object};

/// Returns facts, attributes and content of the object at a path; `None` if nothing exists there.
pub(crate) fn inspect(
    resolver: &PathResolver,
    path: &Resolved,
) -> Result<Option<FoundEntry>, FileErrorKind> {
    if let Some(found) = inspect_regular_file(resolver, path) {
        return Ok(Some(found));
    }
    match inspect_from_parent(resolver, path) {
        // An object that is to be changed or undone is inspected whatever its mode: its owner could give it another mode.
        Err(Errno::ACCESS) => match inspect_as_owner(resolver, path) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(_) => {
                describe_unlistable(resolver, path).map(Some).map_err(|_| error_kind(Errno::ACCESS))
            }
        },
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(error_kind(errno)),
    }
}

/// Handles the usual case: a regular file that is still the same object once it is open. `None` if the path needs the careful way.
fn inspect_regular_file(resolver: &PathResolver, path: &Resolved) -> Option<FoundEntry> {
    let (from, place) = resolver.handle_and_path(path).ok()?;
    let seen = stat_child(from, place).ok().filter(|seen| seen.kind == FileKind::File)?;
    let handle = resolver.open_place(path, FOR_READING).ok()?;
    let raw = rustix::fs::fstat(&handle).ok()?;
    let stat = stat_from(&raw);
    let same = stat.kind == FileKind::File && same_object(&stat, &seen);
    let attributes = attributes::read(&handle, &raw).ok()?;
    same.then(|| FoundEntry { stat, attributes, body: FoundBody::File(handle.into()) })
}

/// Inspects an object by the handle of its parent directory and an `O_PATH` handle, which names the object without opening it.
fn inspect_from_parent(resolver: &PathResolver, path: &Resolved) -> Result<FoundEntry, Errno> {
    let is_tmp_itself = resolver.tmp_of(path).is_some()
        && resolver.handle_and_path(path).is_ok_and(|(_, way)| way.as_os_str().is_empty());
    let (Some(name), false) = (path.path.file_name(), is_tmp_itself) else {
        // The root directory and the root of the session's `/tmp` have no parent here and can only be directories.
        let handle = resolver.open_place(path, FOR_LISTING)?;
        let raw = rustix::fs::fstat(&handle)?;
        return inspect_directory(&handle, &raw);
    };
    let parent = resolver.open_parent(path, NAME_ONLY | OFlags::DIRECTORY)?;
    let named = rustix::fs::openat(&parent, name, NAME_ONLY | OFlags::NOFOLLOW, Mode::empty())?;
    inspect_named(parent.as_fd(), name, &named)
}

/// Inspects the object behind an `O_PATH` handle, by its name in the parent directory.
fn inspect_named(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    named: &OwnedFd,
) -> Result<FoundEntry, Errno> {
    let raw = rustix::fs::fstat(named)?;
    let stat = stat_from(&raw);
    let body = match stat.kind {
        FileKind::File => {
            let (handle, raw) = open_same(parent, name, &raw, FOR_READING)?;
            let attributes = attributes::read(&handle, &raw)?;
            let body = FoundBody::File(handle.into());
            return Ok(FoundEntry { stat: stat_from(&raw), attributes, body });
        }
        FileKind::Directory => {
            let (handle, raw) = open_same(parent, name, &raw, FOR_LISTING)?;
            return inspect_directory(&handle, &raw);
        }
        FileKind::Symlink => FoundBody::Symlink(read_link(named)?),
        FileKind::Fifo | FileKind::Socket | FileKind::Device => FoundBody::Other,
    };
    Ok(FoundEntry { stat, attributes: attributes::plain(&raw), body })
}

/// Lists an open directory and reads its attributes.
fn inspect_directory(handle: &OwnedFd, raw: &rustix::fs::Stat) -> Result<FoundEntry, Errno> {
    let mut names = Vec::new();
    // Duplicates the handle instead of opening the directory by name again, which its mode may forbid.
    for entry in rustix::fs::Dir::new(rustix::io::fcntl_dupfd_cloexec(handle, 0)?)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(FoundEntry {
        stat: stat_from(raw),
        attributes: attributes::read(handle, raw)?,
        body: FoundBody::Directory(names),
    })
}

/// Returns facts about an object that the mode of a directory above it hides from its owner.
pub(crate) fn stat_as_owner(resolver: &PathResolver, path: &Resolved) -> Result<Stat, Errno> {
    stat(open_as_owner(resolver, path, NAME_ONLY | OFlags::NOFOLLOW)?)
}

/// Opens a path despite the modes of the directories on the way, as far as their owner could.
fn open_as_owner(
    resolver: &PathResolver,
    path: &Resolved,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let (from, place) = resolver.handle_and_path(path)?;
    windlass_sandbox::open_as_owner(from, place, flags.bits())
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Inspects an object that its own mode, or that of a directory above it, hides from its owner.
fn inspect_as_owner(resolver: &PathResolver, path: &Resolved) -> Result<FoundEntry, Errno> {
    let open = |flags| open_as_owner(resolver, path, flags);
    let named = open(NAME_ONLY | OFlags::NOFOLLOW)?;
    let raw = rustix::fs::fstat(&named)?;
    let stat = stat_from(&raw);
    let opened = |flags: OFlags| {
        let handle = open(flags)?;
        let raw = rustix::fs::fstat(&handle)?;
        if same_object(&stat_from(&raw), &stat) { Ok((handle, raw)) } else { Err(Errno::LOOP) }
    };
    let body = match stat.kind {
        FileKind::File => {
            let (handle, raw) = opened(FOR_READING)?;
            let attributes = attributes::read(&handle, &raw)?;
            let body = FoundBody::File(handle.into());
            return Ok(FoundEntry { stat: stat_from(&raw), attributes, body });
        }
        FileKind::Directory => {
            let (handle, raw) = opened(FOR_LISTING)?;
            return inspect_directory(&handle, &raw);
        }
        FileKind::Symlink => FoundBody::Symlink(read_link(&named)?),
        FileKind::Fifo | FileKind::Socket | FileKind::Device => FoundBody::Other,
    };
    Ok(FoundEntry { stat, attributes: attributes::plain(&raw), body })
}

/// Describes a directory that we have no way to list: leaves out its entries and extended attributes.
fn describe_unlistable(resolver: &PathResolver, path: &Resolved) -> Result<FoundEntry, Errno> {
    let named = resolver.open_place(path, NAME_ONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY)?;
    let raw = rustix::fs::fstat(&named)?;
    let body = FoundBody::Directory(Vec::new());
    Ok(FoundEntry { stat: stat_from(&raw), attributes: attributes::plain(&raw), body })
}

/// Opens a directory entry, and fails if it is no longer the object `named`.
fn open_same(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    named: &rustix::fs::Stat,
    flags: OFlags,
) -> Result<(OwnedFd, rustix::fs::Stat), Errno> {
    let handle = open_child(parent, name, flags)?;
    let raw = rustix::fs::fstat(&handle)?;
    if same_object(&stat_from(&raw), &stat_from(named)) {
        Ok((handle, raw))
    } else {
        Err(Errno::LOOP)
    }
}

/// Returns the target of a symbolic link.
fn read_link(link: &OwnedFd) -> Result<PathBuf, Errno> {
    let target = rustix::fs::readlinkat(link, Path::new(""), Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}
