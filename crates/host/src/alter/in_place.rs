//! Overwrites the content of a file that must stay the same object.
//!
//! If that fails, the old bytes are put back. A crash in the middle can leave a mixture; the undo history has the old content.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{Altered, Attributes, ContentSource, FileErrorKind};

use super::content;
use super::file::NewFile;
use super::stat_failed;
use super::target::{OldObject, Target};
use super::temporary::{TemporaryFile, TemporaryStyle, as_errno};
use crate::attributes;
use crate::durability::SyncPolicy;
use crate::files::LocalFiles;
use crate::kernel::{FOR_READING, error_kind, open_child, stat};
use crate::resolver::same_object;

/// Flags to open a regular file for reading and writing.
const FOR_WRITING: OFlags = FOR_READING.union(OFlags::RDWR);

/// Maximum bytes of old content that are kept in memory.
const MAX_BYTES_IN_MEMORY: u64 = 1 << 20;

/// Overwrites a file that was just checked to be the one that was seen. It is locked if `reader` could be opened.
pub(super) fn write(
    files: &LocalFiles,
    target: &Target<'_>,
    old: &OldObject,
    reader: Option<&File>,
    new: &NewFile<'_>,
) -> Result<Altered, FileErrorKind> {
    let before = reader.map(|reader| SavedContent::save(reader, old.stat.len, target.directory()));
    let before = before.transpose().map_err(|why| error_kind(as_errno(&why)))?;
    target.check_unchanged()?;
    let file = open_for_writing(target, old, reader, new).map_err(error_kind)?;
    if !same_object(&stat(&file).map_err(error_kind)?, &old.stat) {
        return Err(FileErrorKind::Stale);
    }
    if let Err(why) = overwrite(&file, old, new, files.durability) {
        if let Some(before) = before {
            before.restore(&file, old, files.durability);
        }
        return Err(error_kind(as_errno(&why)));
    }
    let stat = stat(&file).map_err(stat_failed)?;
    Ok(Altered { stat: Some(stat), in_place: true })
}

/// Opens the file for writing. A restored file may be read-only; then the owner's right to write is added for a moment.
fn open_for_writing(
    target: &Target<'_>,
    old: &OldObject,
    reader: Option<&File>,
    new: &NewFile<'_>,
) -> Result<File, Errno> {
    let open = || open_child(target.directory(), target.name, FOR_WRITING);
    let opened = match (open(), reader) {
        (Err(Errno::ACCESS), Some(reader)) if new.attributes.is_some() => {
            attributes::give_mode(reader, old.stat.mode, old.stat.mode | 0o200)?;
            open().inspect_err(|_| {
                let _ = attributes::give_mode(reader, old.stat.mode | 0o200, old.stat.mode);
            })
        }
        (opened, _) => opened,
    };
    opened.map(File::from)
}

/// Writes the new content and attributes, and waits until the disk has them.
fn overwrite(
    file: &File,
    old: &OldObject,
    new: &NewFile<'_>,
    durability: SyncPolicy,
) -> io::Result<()> {
    let len = content::write(file, new.content)?;
    file.set_len(len)?;
    if let Some(told) = new.attributes {
        let mode = Some(told.mode.unwrap_or(old.stat.mode));
        let now = rustix::fs::fstat(file)?;
        attributes::give(file, &now, &Attributes { mode, ..told.clone() })?;
    }
    give_time(file, old, new.modified())?;
    Ok(durability.sync_file(file)?)
}

/// Sets the modification time. Only the owner may choose it; for others it is the present time of the kernel's clock.
fn give_time(file: &File, old: &OldObject, modified: Option<i64>) -> Result<(), Errno> {
    match attributes::give_time(file, modified) {
        Err(Errno::PERM) => wait_for_new_time(file, old),
        given => given,
    }
}

/// Waits until the kernel's clock gives the file another time than before, because the clock can stand still for milliseconds. Otherwise a
/// program that saw the old file could take the new one for unchanged.
fn wait_for_new_time(file: &File, old: &OldObject) -> Result<(), Errno> {
    const TRIES: usize = 100;
    const TICK: Duration = Duration::from_millis(1);
    for _ in 0..TRIES {
        if stat(file)?.fingerprint != old.stat.fingerprint {
            return Ok(());
        }
        sleep(TICK);
        attributes::give_present_time(file)?;
    }
    Ok(())
}

/// The old content of a file.
enum SavedContent {
    Memory(Vec<u8>),
    /// An unnamed file, which shares the blocks of the old one where the file system can.
    Disk(File),
}

impl SavedContent {
    /// Saves the content: large content to an unnamed file if possible, other content to memory.
    fn save(reader: &File, len: u64, directory: BorrowedFd<'_>) -> io::Result<Self> {
        if len > MAX_BYTES_IN_MEMORY
            && let Ok(copy) = TemporaryFile::create(
                directory,
                Mode::from_raw_mode(0o600),
                TemporaryStyle::Unnamed,
                None,
            )
        {
            content::copy(reader, &copy.file)?;
            return Ok(Self::Disk(copy.file.try_clone()?));
        }
        Ok(Self::Memory(ContentSource::File(reader).read()?.into_owned()))
    }

    /// Restores content, mode and owner as far as possible. The caller reports the error that made this necessary.
    fn restore(&self, file: &File, old: &OldObject, durability: SyncPolicy) {
        let source = match self {
            Self::Memory(bytes) => ContentSource::Bytes(bytes),
            Self::Disk(copy) => ContentSource::File(copy),
        };
        drop(content::write(file, source).and_then(|len| file.set_len(len)));
        let (mode, owner) = (Some(old.stat.mode), Some(old.owner));
        let wanted = Attributes { mode, owner, ..Attributes::default() };
        let _ = rustix::fs::fstat(file).and_then(|now| attributes::give(file, &now, &wanted));
        let _ = attributes::give_time(file, None);
        let _ = durability.sync_file(file);
    }
}
