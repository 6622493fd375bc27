//! Changes the attributes of an existing file or directory by its handle, never through a link.

use std::fs::File;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{Altered, Attributes, ExpectedState, FileErrorKind, FileKind, Resolved};

use super::target::{OldObject, Target};
use super::{stale_if_missing, stat_failed, sync_failed};
use crate::attributes;
use crate::files::LocalFiles;
use crate::kernel::{
    FOR_LISTING, FOR_READING, NAME_ONLY, descriptor_path, error_kind, open_child, reopen, stat,
    stat_child,
};

/// Changes the attributes of an object that is still the one that was seen.
pub(super) fn change(
    files: &LocalFiles,
    path: &Resolved,
    expect: ExpectedState,
    wanted: &Attributes,
) -> Result<Altered, FileErrorKind> {
    let ExpectedState::Same(seen) = expect else {
        // The caller expects no object, so there is none whose attributes could change.
        return Err(match files.resolver.pin(path) {
            Ok(_) => FileErrorKind::Exists,
            Err(errno) => error_kind(errno),
        });
    };
    let target = Target::open(&files.resolver, path, seen)?;
    let old = target.check_unchanged()?;
    let handle = match old.stat.kind {
        FileKind::File => match target.lock()? {
            Some(file) => file,
            None => open(&target, &old, FOR_READING)?,
        },
        FileKind::Directory => open(&target, &old, FOR_LISTING)?,
        FileKind::Symlink if is_time_only(wanted) => {
            return change_symlink(files, &target, wanted.modified);
        }
        other => return Err(FileErrorKind::NotRegular(other)),
    };
    let raw = rustix::fs::fstat(&handle).map_err(error_kind)?;
    let before = attributes::read(&handle, &raw).map_err(error_kind)?;
    let before = Attributes { mode: Some(old.stat.mode), ..before };
    set_attributes(&handle, &old, wanted).map_err(|errno| {
        // The first error is reported, whether or not this repair succeeds.
        let _ = set_attributes(&handle, &old, &before);
        error_kind(errno)
    })?;
    files.durability.sync_directory(&handle).map_err(sync_failed)?;
    let stat = stat(&handle).map_err(stat_failed)?;
    Ok(Altered { stat: Some(stat), in_place: true })
}

/// Returns whether only a time is to be set, which is the only attribute that can be set on a symbolic link.
fn is_time_only(wanted: &Attributes) -> bool {
    *wanted == Attributes { modified: wanted.modified, ..Attributes::default() }
}

/// Sets the modification time of a symbolic link itself.
fn change_symlink(
    files: &LocalFiles,
    target: &Target<'_>,
    modified: Option<i64>,
) -> Result<Altered, FileErrorKind> {
    if let Some(modified) = modified {
        let times = attributes::times(modified);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(target.directory(), target.name, &times, flags)
            .map_err(error_kind)?;
    }
    files.durability.sync_directory(target.directory()).map_err(sync_failed)?;
    let stat = stat_child(target.directory(), target.name).map_err(stat_failed)?;
    Ok(Altered { stat: Some(stat), in_place: true })
}

/// Sets the mode (the old one, if none is wanted) and all other wanted attributes.
fn set_attributes(handle: &File, old: &OldObject, wanted: &Attributes) -> Result<(), Errno> {
    let mode = Some(wanted.mode.unwrap_or(old.stat.mode));
    let now = rustix::fs::fstat(handle)?;
    attributes::give(handle, &now, &Attributes { mode, ..wanted.clone() })?;
    match wanted.modified {
        Some(modified) => attributes::give_time(handle, Some(modified)),
        None => Ok(()),
    }
}

/// Opens exactly the object that was found. If its mode forbids that, adds the right to read for a moment; the final mode is set last.
fn open(target: &Target<'_>, old: &OldObject, flags: OFlags) -> Result<File, FileErrorKind> {
    let opened = match open_child(target.directory(), target.name, flags) {
        Err(Errno::ACCESS) => open_unreadable(target, old, flags).map_err(error_kind)?,
        opened => opened.map_err(stale_if_missing)?,
    };
    let now = stat(&opened).map_err(error_kind)?;
    if !now.fingerprint.is_same_object(&old.stat.fingerprint) {
        return Err(FileErrorKind::Stale);
    }
    Ok(opened.into())
}

/// Adds the owner's right to read, and opens the object.
fn open_unreadable(
    target: &Target<'_>,
    old: &OldObject,
    flags: OFlags,
) -> Result<std::os::fd::OwnedFd, Errno> {
    let handle = open_child(target.directory(), target.name, NAME_ONLY)?;
    if !stat(&handle)?.fingerprint.is_same_object(&old.stat.fingerprint) {
        return Err(Errno::LOOP);
    }
    let mode = Mode::from_raw_mode(old.stat.mode | 0o400);
    rustix::fs::chmodat(CWD, descriptor_path(&handle), mode, AtFlags::empty())?;
    reopen(&handle, flags)
}
