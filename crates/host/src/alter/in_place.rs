//! New content for a file that must stay the same object: the bytes are written over the old ones.
//!
//! The old bytes are put back if that fails. A crash in the middle can leave a mixture; what was there is in the history.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{Altered, Attributes, FileErrorKind, Source};

use super::content;
use super::file::New;
use super::target::{Old, Target};
use super::temporary::{Style, Temporary, as_errno};
use super::unseen;
use crate::attributes;
use crate::durability::Settling;
use crate::files::LocalFiles;
use crate::kernel::{FOR_READING, meaning, open_child, stat};
use crate::resolver::same_object;

const FOR_WRITING: OFlags = FOR_READING.union(OFlags::RDWR);

/// Up to here the old bytes are kept in memory.
const IN_MEMORY: u64 = 1 << 20;

/// Writes over a file that was just found to be what was seen, and is locked if `reader` could be opened.
pub(super) fn write(
    files: &LocalFiles,
    target: &Target<'_>,
    old: &Old,
    reader: Option<&File>,
    new: &New<'_>,
) -> Result<Altered, FileErrorKind> {
    let before = reader.map(|reader| Before::keep(reader, old.stat.len, target.directory()));
    let before = before.transpose().map_err(|why| meaning(as_errno(&why)))?;
    target.look()?;
    let file = open(target, old, reader, new).map_err(meaning)?;
    if !same_object(&stat(&file).map_err(meaning)?, &old.stat) {
        return Err(FileErrorKind::Stale);
    }
    if let Err(why) = overwrite(&file, old, new, files.durability) {
        if let Some(before) = before {
            before.put_back(&file, old, files.durability);
        }
        return Err(meaning(as_errno(&why)));
    }
    let stat = stat(&file).map_err(unseen)?;
    Ok(Altered { stat: Some(stat), in_place: true })
}

/// Opens it for writing. What is brought back may be read-only; that we may write it for a moment is then ours to say.
fn open(
    target: &Target<'_>,
    old: &Old,
    reader: Option<&File>,
    new: &New<'_>,
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

fn overwrite(file: &File, old: &Old, new: &New<'_>, durability: Settling) -> io::Result<()> {
    let len = content::write(file, new.content)?;
    file.set_len(len)?;
    if let Some(told) = new.attributes {
        let mode = Some(told.mode.unwrap_or(old.stat.mode));
        let now = rustix::fs::fstat(file)?;
        attributes::give(file, &now, &Attributes { mode, ..told.clone() })?;
    }
    give_time(file, old, new.modified())?;
    Ok(durability.settle_file(file)?)
}

/// Only its owner may tell when a file was changed; for others it is now, by the kernel's own clock.
fn give_time(file: &File, old: &Old, modified: Option<i64>) -> Result<(), Errno> {
    match attributes::give_time(file, modified) {
        Err(Errno::PERM) => wait_for_new_time(file, old),
        given => given,
    }
}

/// That clock can stand still for milliseconds. Whoever saw the file before must not take it for the same now.
fn wait_for_new_time(file: &File, old: &Old) -> Result<(), Errno> {
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

/// What was in the file.
enum Before {
    Memory(Vec<u8>),
    /// In a file without a name, which shares the old one's blocks where the file system can.
    Disk(File),
}

impl Before {
    fn keep(reader: &File, len: u64, directory: BorrowedFd<'_>) -> io::Result<Self> {
        if len > IN_MEMORY
            && let Ok(copy) =
                Temporary::create(directory, Mode::from_raw_mode(0o600), Style::Unnamed, None)
        {
            content::copy(reader, &copy.file)?;
            return Ok(Self::Disk(copy.file.try_clone()?));
        }
        Ok(Self::Memory(Source::File(reader).read()?.into_owned()))
    }

    /// The error that led here is the one to tell, whether or not this helps.
    fn put_back(&self, file: &File, old: &Old, durability: Settling) {
        let source = match self {
            Self::Memory(bytes) => Source::Bytes(bytes),
            Self::Disk(copy) => Source::File(copy),
        };
        drop(content::write(file, source).and_then(|len| file.set_len(len)));
        let (mode, owner) = (Some(old.stat.mode), Some(old.owner));
        let wanted = Attributes { mode, owner, ..Attributes::default() };
        let _ = rustix::fs::fstat(file).and_then(|now| attributes::give(file, &now, &wanted));
        let _ = attributes::give_time(file, None);
        let _ = durability.settle_file(file);
    }
}
