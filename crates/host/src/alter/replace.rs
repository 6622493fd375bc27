//! Replaces a file by another one. Whatever happens, the file has all of the new bytes or all of the old ones.
//!
//! New content goes to a temporary file in the same directory, to the disk, and then under the final name by one rename. The existing file
//! is compared with the expected one before anything is written, and again right before the rename.
//!
//! Only this name of a file with hard links is replaced, because the other names may be outside of the workspace. If the new file cannot be
//! given to the old owner, the old file keeps its inode and is overwritten in place, unless it has hard links.

use std::fs::File;

use rustix::fs::Mode;
use rustix::io::Errno;
use windlass_core::{Altered, Attributes, ContentSource, FileErrorKind, Fingerprint, Resolved};

use super::file::NewFile;
use super::target::{OldObject, Target};
use super::temporary::{TemporaryFile, TemporaryStyle};
use super::{altered_whole, in_place, stat_failed, sync_failed};
use crate::attributes::{self, Extended};
use crate::files::LocalFiles;
use crate::kernel::{error_kind, stat};

/// Replaces a file that is still the one that was seen.
pub(super) fn replace(
    files: &LocalFiles,
    path: &Resolved,
    seen: Fingerprint,
    new: &NewFile<'_>,
    style: TemporaryStyle,
) -> Result<Altered, FileErrorKind> {
    let target = Target::open(&files.resolver, path, seen)?;
    let old = target.check_unchanged_file()?;
    let reader = target.lock()?;
    let extended = reader.as_ref().map(Extended::read).transpose().map_err(error_kind)?;
    let extended = extended.unwrap_or_default();
    let mode = temporary_mode(&old, &extended);
    let adopted = TemporaryFile::adopt(target.directory(), &path.path, new.content, new.attributes);
    let mut temporary = match adopted.map_err(error_kind)? {
        Some(adopted) => adopted,
        None => TemporaryFile::create(target.directory(), mode, style, new.temporary)
            .map_err(error_kind)?,
    };
    let made = rustix::fs::fstat(&temporary.file).map_err(error_kind)?;
    if new.attributes.is_none() && !is_owned_and_writable(&old, &made) {
        target.check_writable()?;
    }
    if !give_owner(&old, new, &temporary.file, &made).map_err(error_kind)? {
        if old.stat.links > 1 {
            return Err(FileErrorKind::Permission);
        }
        // An adopted file may be gone from its path, so its content is read from the handle.
        let content =
            if temporary.is_adopted() { ContentSource::File(&temporary.file) } else { new.content };
        return in_place::write(
            files,
            &target,
            &old,
            reader.as_ref(),
            &NewFile { content, ..*new },
        );
    }
    temporary.write_content(new.content).map_err(error_kind)?;
    give_rest(&old, &extended, new, &temporary.file, made).map_err(error_kind)?;
    temporary.sync(files.durability).map_err(error_kind)?;
    temporary.ensure_named().map_err(error_kind)?;
    target.check_unchanged()?;
    temporary.rename_over(target.name).map_err(error_kind)?;
    files.durability.sync_directory(target.directory()).map_err(sync_failed)?;
    stat(&temporary.file).map(altered_whole).map_err(stat_failed)
}

/// Returns whether the old file has the same owner as the new one, and the owner may write it. Then no access check is needed.
fn is_owned_and_writable(old: &OldObject, made: &rustix::fs::Stat) -> bool {
    old.owner.0 == made.st_uid && old.stat.mode & 0o200 != 0
}

/// Returns the mode with which the new file is created. Setting the final mode at once saves a system call. It is unsafe while the file
/// still lacks its final group or list of rights and the bits of group and others differ; then only the owner has access.
fn temporary_mode(old: &OldObject, extended: &Extended) -> Mode {
    let (group, others) = (old.stat.mode >> 3 & 0o7, old.stat.mode & 0o7);
    let early = group == others && extended.is_empty();
    Mode::from_raw_mode(if early { old.stat.mode & 0o777 } else { 0o600 })
}

/// Gives the new file the wanted owner, or the old one if that is not permitted. Returns whether one of them could be given.
fn give_owner(
    old: &OldObject,
    new: &NewFile<'_>,
    file: &File,
    made: &rustix::fs::Stat,
) -> Result<bool, Errno> {
    let told = new.attributes.and_then(|attributes| attributes.owner);
    if let Some(told) = told
        && attributes::give_owner(file, made, told)?
    {
        return Ok(true);
    }
    attributes::give_owner(file, made, old.owner)
}

/// Gives the new file its extended attributes, mode and time. It has its owner already.
fn give_rest(
    old: &OldObject,
    extended: &Extended,
    new: &NewFile<'_>,
    file: &File,
    mut made: rustix::fs::Stat,
) -> Result<(), Errno> {
    let same_owner = (made.st_uid, made.st_gid) == old.owner;
    if extended.give(file)? || !same_owner || new.attributes.is_some() {
        // Extended attributes or a new owner may have changed the mode.
        made = rustix::fs::fstat(file)?;
    }
    let told = new.attributes.cloned().unwrap_or_default();
    let mode = Some(told.mode.unwrap_or(old.stat.mode));
    attributes::give(file, &made, &Attributes { mode, owner: None, ..told })?;
    attributes::give_time(file, new.modified())
}
