//! A file in place of another: all of the new bytes or all of the old ones, whatever happens.
//!
//! New content goes to a temporary file in the same directory, to the disk, and then under the final name, by one rename. What is
//! there is compared with what was expected before anything is written and once more right before the rename.
//!
//! A file with other names (hard links) is replaced under this name only: the others may be outside of the workspace. A file of an
//! owner whom we cannot give the new one to keeps its inode and is written in place instead, if it has no other name.

use std::fs::File;

use rustix::fs::Mode;
use rustix::io::Errno;
use windlass_core::{Altered, Attributes, FileErrorKind, Fingerprint, Resolved, Source};

use super::file::New;
use super::target::{Old, Target};
use super::temporary::{Style, Temporary};
use super::{in_place, unconfirmed, unseen, whole};
use crate::attributes::{self, Extended};
use crate::files::LocalFiles;
use crate::kernel::{meaning, stat};

/// Replaces a file that is still what it was when it was seen.
pub(super) fn replace(
    files: &LocalFiles,
    path: &Resolved,
    seen: Fingerprint,
    new: &New<'_>,
    style: Style,
) -> Result<Altered, FileErrorKind> {
    let target = Target::open(&files.resolver, path, seen)?;
    let old = target.look_at_file()?;
    let reader = target.lock()?;
    let extended = reader.as_ref().map(Extended::read).transpose().map_err(meaning)?;
    let extended = extended.unwrap_or_default();
    let mode = first_mode(&old, &extended);
    let adopted = Temporary::adopt(target.directory(), &path.path, new.content, new.attributes);
    let mut temporary = match adopted.map_err(meaning)? {
        Some(adopted) => adopted,
        None => {
            Temporary::create(target.directory(), mode, style, new.temporary).map_err(meaning)?
        }
    };
    let made = rustix::fs::fstat(&temporary.file).map_err(meaning)?;
    if new.attributes.is_none() && !is_plainly_ours(&old, &made) {
        target.check_writable()?;
    }
    if !give_owner(&old, new, &temporary.file, &made).map_err(meaning)? {
        if old.stat.links > 1 {
            return Err(FileErrorKind::Permission);
        }
        // What has its content since before may be gone with its name.
        let content =
            if temporary.is_adopted() { Source::File(&temporary.file) } else { new.content };
        return in_place::write(files, &target, &old, reader.as_ref(), &New { content, ..*new });
    }
    temporary.fill(new.content).map_err(meaning)?;
    give_rest(&old, &extended, new, &temporary.file, made).map_err(meaning)?;
    temporary.settle(files.durability).map_err(meaning)?;
    temporary.get_ready().map_err(meaning)?;
    target.look()?;
    temporary.replace(target.name).map_err(meaning)?;
    files.durability.settle_directory(target.directory()).map_err(unconfirmed)?;
    stat(&temporary.file).map(whole).map_err(unseen)
}

/// Whether the old file belongs to whoever the new one, which we made, belongs to, and they may write it. Then nobody need be
/// asked.
fn is_plainly_ours(old: &Old, made: &rustix::fs::Stat) -> bool {
    old.owner.0 == made.st_uid && old.stat.mode & 0o200 != 0
}

/// The final mode from the beginning saves a call of the kernel. But as long as the file has another group than it will have, or
/// lacks its list of rights, the bits for group and others must not tell different people apart.
fn first_mode(old: &Old, extended: &Extended) -> Mode {
    let (group, others) = (old.stat.mode >> 3 & 0o7, old.stat.mode & 0o7);
    let early = group == others && extended.is_empty();
    Mode::from_raw_mode(if early { old.stat.mode & 0o777 } else { 0o600 })
}

/// The owner that is told, as far as our rights go; the old one otherwise. Whether it could be given.
fn give_owner(
    old: &Old,
    new: &New<'_>,
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

/// All but the owner, which it has.
fn give_rest(
    old: &Old,
    extended: &Extended,
    new: &New<'_>,
    file: &File,
    mut made: rustix::fs::Stat,
) -> Result<(), Errno> {
    let same_owner = (made.st_uid, made.st_gid) == old.owner;
    if extended.give(file)? || !same_owner || new.attributes.is_some() {
        // The mode may be another by now.
        made = rustix::fs::fstat(file)?;
    }
    let told = new.attributes.cloned().unwrap_or_default();
    let mode = Some(told.mode.unwrap_or(old.stat.mode));
    attributes::give(file, &made, &Attributes { mode, owner: None, ..told })?;
    attributes::give_time(file, new.modified())
}
