//! Other attributes for the same file or directory, by its handle: never through a link.

use std::fs::File;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{Altered, Attributes, Expect, FileErrorKind, FileKind, Resolved};

use super::target::{Old, Target};
use super::{stale_if_missing, unconfirmed, unseen};
use crate::attributes;
use crate::files::LocalFiles;
use crate::kernel::{
    FOR_LISTING, FOR_READING, NAME_ONLY, descriptor_path, meaning, open_child, reopen, stat,
    stat_child,
};

/// Changes the attributes of what is still what was seen.
pub(super) fn change(
    files: &LocalFiles,
    path: &Resolved,
    expect: Expect,
    wanted: &Attributes,
) -> Result<Altered, FileErrorKind> {
    let Expect::Same(seen) = expect else {
        // What is expected not to be there has none.
        return Err(match files.resolver.pin(path) {
            Ok(_) => FileErrorKind::Exists,
            Err(errno) => meaning(errno),
        });
    };
    let target = Target::open(&files.resolver, path, seen)?;
    let old = target.look()?;
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
    let raw = rustix::fs::fstat(&handle).map_err(meaning)?;
    let before = attributes::read(&handle, &raw).map_err(meaning)?;
    let before = Attributes { mode: Some(old.stat.mode), ..before };
    give(&handle, &old, wanted).map_err(|errno| {
        // The first error is the one to tell, whether or not this helps.
        let _ = give(&handle, &old, &before);
        meaning(errno)
    })?;
    files.durability.settle_directory(&handle).map_err(unconfirmed)?;
    let stat = stat(&handle).map_err(unseen)?;
    Ok(Altered { stat: Some(stat), in_place: true })
}

/// Returns whether nothing but a time is said, which is all that a symlink has.
fn is_time_only(wanted: &Attributes) -> bool {
    *wanted == Attributes { modified: wanted.modified, ..Attributes::default() }
}

/// Sets the time of a symlink itself.
fn change_symlink(
    files: &LocalFiles,
    target: &Target<'_>,
    modified: Option<i64>,
) -> Result<Altered, FileErrorKind> {
    if let Some(modified) = modified {
        let times = attributes::times(modified);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(target.directory(), target.name, &times, flags).map_err(meaning)?;
    }
    files.durability.settle_directory(target.directory()).map_err(unconfirmed)?;
    let stat = stat_child(target.directory(), target.name).map_err(unseen)?;
    Ok(Altered { stat: Some(stat), in_place: true })
}

fn give(handle: &File, old: &Old, wanted: &Attributes) -> Result<(), Errno> {
    let mode = Some(wanted.mode.unwrap_or(old.stat.mode));
    let now = rustix::fs::fstat(handle)?;
    attributes::give(handle, &now, &Attributes { mode, ..wanted.clone() })?;
    match wanted.modified {
        Some(modified) => attributes::give_time(handle, Some(modified)),
        None => Ok(()),
    }
}

/// Opens exactly what was found. If its own mode forbids that, it is allowed for a moment: the mode is given last.
fn open(target: &Target<'_>, old: &Old, flags: OFlags) -> Result<File, FileErrorKind> {
    let opened = match open_child(target.directory(), target.name, flags) {
        Err(Errno::ACCESS) => open_forbidden(target, old, flags).map_err(meaning)?,
        opened => opened.map_err(stale_if_missing)?,
    };
    let now = stat(&opened).map_err(meaning)?;
    if !now.fingerprint.is_same_object(&old.stat.fingerprint) {
        return Err(FileErrorKind::Stale);
    }
    Ok(opened.into())
}

fn open_forbidden(
    target: &Target<'_>,
    old: &Old,
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
