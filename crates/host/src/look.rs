//! All there is to know about what is at a place: what a change must know before it can be taken back.
//!
//! A link is read, not followed, and what is neither file, link nor directory is never opened. It is on the way of every write, so
//! the usual case, a regular file with nothing special about it, takes four calls of the kernel.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{FileErrorKind, FileKind, Found, FoundBody, Resolved, Stat};

use crate::attributes;
use crate::kernel::{
    FOR_LISTING, FOR_READING, NAME_ONLY, meaning, open_child, stat, stat_child, stat_from,
};
use crate::resolver::{Resolver, same_object};

/// What is at a place; `None` if nothing is.
pub(crate) fn look(resolver: &Resolver, path: &Resolved) -> Result<Option<Found>, FileErrorKind> {
    if let Some(found) = look_at_file(resolver, path) {
        return Ok(Some(found));
    }
    match look_closely(resolver, path) {
        // What is to be changed or taken back is looked at whatever its mode; who owns it could give it another.
        Err(Errno::ACCESS) => match look_as_owner(resolver, path) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(_) => unlisted(resolver, path).map(Some).map_err(|_| meaning(Errno::ACCESS)),
        },
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(meaning(errno)),
    }
}

/// The usual case: there is a regular file, and what is then opened is that very file. `None` if it takes a closer look.
fn look_at_file(resolver: &Resolver, path: &Resolved) -> Option<Found> {
    let (from, place) = resolver.place(path).ok()?;
    let seen = stat_child(from, place).ok().filter(|seen| seen.kind == FileKind::File)?;
    let handle = resolver.open_place(path, FOR_READING).ok()?;
    let raw = rustix::fs::fstat(&handle).ok()?;
    let stat = stat_from(&raw);
    let same = stat.kind == FileKind::File && same_object(&stat, &seen);
    let attributes = attributes::read(&handle, &raw).ok()?;
    same.then(|| Found { stat, attributes, body: FoundBody::File(handle.into()) })
}

/// By the handle of its directory, and one that names the object without opening it.
fn look_closely(resolver: &Resolver, path: &Resolved) -> Result<Found, Errno> {
    let is_tmp_itself = resolver.tmp_of(path).is_some()
        && resolver.place(path).is_ok_and(|(_, way)| way.as_os_str().is_empty());
    let (Some(name), false) = (path.path.file_name(), is_tmp_itself) else {
        // The root of all, and that of the session's files, has no directory, and cannot be anything else.
        let handle = resolver.open_place(path, FOR_LISTING)?;
        let raw = rustix::fs::fstat(&handle)?;
        return directory(&handle, &raw);
    };
    let parent = resolver.open_parent(path, NAME_ONLY | OFlags::DIRECTORY)?;
    let named = rustix::fs::openat(&parent, name, NAME_ONLY | OFlags::NOFOLLOW, Mode::empty())?;
    describe(parent.as_fd(), name, &named)
}

fn describe(parent: BorrowedFd<'_>, name: &OsStr, named: &OwnedFd) -> Result<Found, Errno> {
    let raw = rustix::fs::fstat(named)?;
    let stat = stat_from(&raw);
    let body = match stat.kind {
        FileKind::File => {
            let (handle, raw) = open_same(parent, name, &raw, FOR_READING)?;
            let attributes = attributes::read(&handle, &raw)?;
            let body = FoundBody::File(handle.into());
            return Ok(Found { stat: stat_from(&raw), attributes, body });
        }
        FileKind::Directory => {
            let (handle, raw) = open_same(parent, name, &raw, FOR_LISTING)?;
            return directory(&handle, &raw);
        }
        FileKind::Symlink => FoundBody::Symlink(target(named)?),
        FileKind::Fifo | FileKind::Socket | FileKind::Device => FoundBody::Other,
    };
    Ok(Found { stat, attributes: attributes::plain(&raw), body })
}

fn directory(handle: &OwnedFd, raw: &rustix::fs::Stat) -> Result<Found, Errno> {
    let mut names = Vec::new();
    // Not by its name once more, which its mode may forbid.
    for entry in rustix::fs::Dir::new(rustix::io::fcntl_dupfd_cloexec(handle, 0)?)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(Found {
        stat: stat_from(raw),
        attributes: attributes::read(handle, raw)?,
        body: FoundBody::Directory(names),
    })
}

/// Facts about what the mode of a directory above it keeps from its owner.
pub(crate) fn stat_as_owner(resolver: &Resolver, path: &Resolved) -> Result<Stat, Errno> {
    stat(open_as_owner(resolver, path, NAME_ONLY | OFlags::NOFOLLOW)?)
}

fn open_as_owner(resolver: &Resolver, path: &Resolved, flags: OFlags) -> Result<OwnedFd, Errno> {
    let (from, place) = resolver.place(path)?;
    windlass_sandbox::open_as_owner(from, place, flags.bits())
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// The same of what its mode, or that of a directory above it, keeps from its owner.
fn look_as_owner(resolver: &Resolver, path: &Resolved) -> Result<Found, Errno> {
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
            return Ok(Found { stat: stat_from(&raw), attributes, body });
        }
        FileKind::Directory => {
            let (handle, raw) = opened(FOR_LISTING)?;
            return directory(&handle, &raw);
        }
        FileKind::Symlink => FoundBody::Symlink(target(&named)?),
        FileKind::Fifo | FileKind::Socket | FileKind::Device => FoundBody::Other,
    };
    Ok(Found { stat, attributes: attributes::plain(&raw), body })
}

/// A directory that cannot be listed by anything we can do: what is in it, and what it has besides, is left out.
fn unlisted(resolver: &Resolver, path: &Resolved) -> Result<Found, Errno> {
    let named = resolver.open_place(path, NAME_ONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY)?;
    let raw = rustix::fs::fstat(&named)?;
    let body = FoundBody::Directory(Vec::new());
    Ok(Found { stat: stat_from(&raw), attributes: attributes::plain(&raw), body })
}

/// Opens a name that must still be of the object that was named.
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

fn target(link: &OwnedFd) -> Result<PathBuf, Errno> {
    let target = rustix::fs::readlinkat(link, Path::new(""), Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}
