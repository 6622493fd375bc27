//! The writing side of a slot: what a process holds while a checkpoint is under way, and keeps for the next one.
//!
//! What it has written it knows by hash, so a content is written once in a filling of the slot: what a file becomes in one call is
//! what it was before the next. A content that is much like another is written as what differs.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use windlass_core::{ContentHash, NewCheckpoint, Opened};

use super::objects::Objects;
use super::plan::{Known, Parts, Plan};
use super::slot::{self, BLOCK, Entry, Found, Header, Place, read_header};
use super::view::{View, open_frame};
use crate::liveness::{Slot, Slots};
use crate::{StoreError, filesystem};

/// How pens write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Whether a checkpoint is to survive a loss of power.
    pub(super) sync: bool,
    /// Contents that are longer than this get files of their own.
    pub(super) large: u64,
    /// How large a slot grows before it is to be drained.
    pub(super) limit: u64,
    /// What one checkpoint may take.
    pub(super) quota: u64,
}

/// A slot that this process holds.
#[derive(Debug)]
pub(super) struct Pen {
    slot: Slot,
    path: PathBuf,
    manner: Manner,
    header: Header,
    /// How long the file is, with what is there after the length.
    space: u64,
    /// Whether the header is still to be written.
    is_new: bool,
    /// Whether the header in the file may be another than the one here.
    is_broken: bool,
    known: HashMap<ContentHash, Known>,
    under_way: Option<UnderWay>,
    /// Bytes of large contents that were recorded since the slot was emptied.
    large_bytes: u64,
    /// With more bytes or checkpoints than these it is to be drained.
    full_at: (u64, u64),
    /// Kept for its space.
    buffer: Vec<u8>,
}

/// A checkpoint that was recorded and not yet ended.
#[derive(Debug)]
struct UnderWay {
    end: u64,
}

impl Pen {
    /// Whoever looks back waits for as many as there are in all slots.
    const MAX_CHECKPOINTS: u64 = 2000;
    /// What an emptied slot keeps of its space.
    const KEPT: u64 = 1 << 20;
    /// Space is taken in pieces of this length.
    const SPACE: u64 = 64 << 10;
    /// More than this is not kept for the next record.
    const MAX_SPARE: usize = 1 << 20;

    /// Takes the first slot that nobody has. One that was left in the middle of a change is for those who put that right; one
    /// that is damaged is for the person.
    pub(super) fn take(slots: &Slots, manner: Manner) -> Result<Self, StoreError> {
        for number in 0..u32::MAX {
            let (slot, path) = (slots.open(number)?, slots.spool(number));
            let failed = |why| StoreError::file("read", &path, why);
            // Looked at before it is locked: who looks for what was left must not find it locked by somebody who passes by.
            let Some(found) = look(&slot.file, &path).map_err(failed)? else { continue };
            if !slots.try_lock(&slot)? || look(&slot.file, &path).map_err(failed)? != Some(found) {
                continue;
            }
            let Some(space) = space_at(&slot.file, &path).map_err(failed)? else { continue };
            let is_new = found == Free::New;
            let header = match found {
                Free::Used(header) => header,
                Free::New => begin(slots, manner)?,
            };
            return Ok(Self {
                slot,
                path,
                manner,
                header,
                space,
                is_new,
                is_broken: false,
                known: HashMap::new(),
                under_way: None,
                large_bytes: 0,
                full_at: (manner.limit, Self::MAX_CHECKPOINTS),
                buffer: Vec::new(),
            });
        }
        Err(slots.exhausted())
    }

    pub(super) fn number(&self) -> u32 {
        self.slot.number
    }

    pub(super) fn header(&self) -> Header {
        self.header
    }

    /// Whether it can be used again.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_broken && self.under_way.is_none()
    }

    /// Whether it is to be drained before it is used again.
    pub(super) fn is_full(&self) -> bool {
        self.weight() > self.full_at.0 || self.header.serial > self.full_at.1
    }

    /// What could not be drained now is tried again when as much has come to it.
    pub(super) fn put_drain_off(&mut self) {
        let Manner { limit, .. } = self.manner;
        self.full_at = (self.weight() + limit, self.header.serial + Self::MAX_CHECKPOINTS);
    }

    fn weight(&self) -> u64 {
        self.header.length + self.large_bytes
    }

    /// Writes down what is about to be done.
    pub(super) fn record(
        &mut self,
        moment: i64,
        new: &NewCheckpoint<'_>,
        objects: &Objects,
    ) -> Result<(), StoreError> {
        let buffer = std::mem::take(&mut self.buffer);
        let plan = Plan::new(new, &self.known, self.manner.large, buffer);
        let mut plan = plan.map_err(|why| self.failed(why))?;
        let (bytes, quota) = (plan.space(), self.manner.quota);
        if bytes > quota {
            return Err(StoreError::OverQuota { call: new.origin.call.clone(), bytes, quota });
        }
        // Held until the slot says that the files are needed.
        let _lock = plan.keep_large(objects)?;
        let parts = plan.lay_out(&self.header, moment).ok_or_else(|| self.failed(too_long()))?;
        let written = self.write(&plan, &parts);
        let buffer = std::mem::take(&mut plan.buffer);
        self.buffer = if buffer.capacity() > Self::MAX_SPARE { Vec::new() } else { buffer };
        let space = match written {
            Ok(space) => space,
            Err(why) => {
                self.take_back();
                return Err(self.failed(why));
            }
        };
        let end = parts.end;
        self.space = space;
        self.is_new = false;
        self.known.extend(plan.added(&parts));
        self.under_way = Some(UnderWay { end });
        self.large_bytes += parts.large_bytes;
        Ok(())
    }

    /// Writes a frame, a piece at a time, and waits for the disk. Returns how long the file is then.
    fn write(&self, plan: &Plan<'_>, parts: &Parts) -> io::Result<u64> {
        if self.is_new {
            self.header.write(&self.slot.file)?;
        }
        let mut pieces = Pieces::new(&self.slot.file, self.header.length);
        pieces.add(&plan.buffer)?;
        let mut head = Vec::with_capacity(BLOCK);
        for part in plan.blocks(parts) {
            head.clear();
            part.block.add_to(&mut head);
            pieces.add(&head)?;
            plan.write_block(&part, |bytes| pieces.add(bytes))?;
        }
        let space = self.take_space(&mut pieces, parts.end)?;
        pieces.finish()?;
        if self.manner.sync {
            self.slot.file.sync_data()?;
        }
        Ok(space)
    }

    /// Lengthens the last write to take space for many frames at once, if it takes any: then the others do not make the file
    /// system write its own records while they wait for the disk. How long the file is then.
    fn take_space(&self, pieces: &mut Pieces<'_>, end: u64) -> io::Result<u64> {
        if end <= self.space {
            return Ok(self.space);
        }
        let missing = end.next_multiple_of(Self::SPACE) - end;
        match usize::try_from(missing) {
            Ok(count) if self.manner.sync => {
                pieces.add(&vec![0; count])?;
                Ok(end + missing)
            }
            _ => Ok(end),
        }
    }

    /// After a failure: what there is of the frame must not be taken for a checkpoint, and a disk without space is glad of each
    /// byte.
    fn take_back(&mut self) {
        if self.is_new {
            self.is_broken = self.slot.file.set_len(0).is_err();
            return;
        }
        if self.slot.file.set_len(self.header.length).is_ok() {
            self.space = self.header.length;
        }
        drop(self.end_with(self.header));
    }

    /// The change is made.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        let Some(UnderWay { end }) = self.under_way.take() else { return Ok(()) };
        self.end_with(Header { length: end, ..self.header })
    }

    /// The change was taken back.
    pub(super) fn abandon(&mut self) -> Result<(), StoreError> {
        if self.under_way.take().is_none() {
            return Ok(());
        }
        // What its blocks hold is written over. That an object is kept is asked again.
        let length = self.header.length;
        self.known.retain(|_, known| matches!(known.place, Place::Block(at) if at < length));
        self.end_with(self.header)
    }

    fn end_with(&mut self, header: Header) -> Result<(), StoreError> {
        let header = Header { serial: header.serial + 1, ..header };
        if let Err(why) = header.write(&self.slot.file) {
            self.is_broken = true;
            return Err(self.failed(why));
        }
        self.header = header;
        Ok(())
    }

    /// Opens a content that this pen wrote: of a finished checkpoint, or of the one that is under way.
    pub(super) fn open(
        &self,
        hash: &ContentHash,
        objects: &Objects,
    ) -> Option<Result<Opened, StoreError>> {
        let Known { place, .. } = *self.known.get(hash)?;
        let Header { generation, length, .. } = self.header;
        let end = self.under_way.as_ref().map_or(length, |under_way| under_way.end);
        let mut view = View::of_one(&self.slot.file, &self.path, generation, end);
        Some(view.open(&Entry { hash: *hash, place }, objects))
    }

    /// Empties the slot, all of which is drained.
    pub(super) fn empty(&mut self) -> Result<(), StoreError> {
        // As long as it is not known which header the file has.
        self.is_broken = true;
        self.header = slot::empty(&self.slot.file, Self::KEPT).map_err(|why| self.failed(why))?;
        self.space = self.space.min(Self::KEPT);
        self.is_broken = false;
        self.known.clear();
        self.large_bytes = 0;
        self.full_at = (self.manner.limit, Self::MAX_CHECKPOINTS);
        Ok(())
    }

    /// Removes what was left of earlier checkpoints after the length.
    pub(super) fn trim(&mut self) -> Result<(), StoreError> {
        self.slot.file.set_len(self.header.length).map_err(|why| self.failed(why))?;
        self.space = self.header.length;
        Ok(())
    }

    fn failed(&self, why: io::Error) -> StoreError {
        StoreError::file("record the change in", &self.path, why)
    }
}

/// Writes one after another to a place in a file, in few calls.
struct Pieces<'a> {
    file: &'a File,
    at: u64,
    waiting: Vec<u8>,
}

impl<'a> Pieces<'a> {
    /// More is not held back. What is longer is written from where it is.
    const MOST: usize = 256 << 10;

    fn new(file: &'a File, at: u64) -> Self {
        Self { file, at, waiting: Vec::new() }
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.waiting.len() + bytes.len() > Self::MOST {
            self.write()?;
        }
        if bytes.len() > Self::MOST {
            self.file.write_all_at(bytes, self.at)?;
            self.at += bytes.len() as u64;
        } else {
            self.waiting.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.waiting, self.at)?;
        self.at += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.write()
    }
}

/// A slot that can be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Free {
    New,
    Used(Header),
}

/// What a slot is to a new owner; nothing if it cannot be written to.
fn look(slot: &File, path: &Path) -> io::Result<Option<Free>> {
    Ok(match read_header(slot)? {
        Found::Nothing => Some(Free::New),
        Found::Damaged => None,
        Found::At(header) => {
            let left = open_frame(slot, path, &header)?;
            left.is_none().then_some(Free::Used(header))
        }
    })
}

/// How long a slot is, if it still has its name: one that is damaged is set aside.
fn space_at(slot: &File, path: &Path) -> io::Result<Option<u64>> {
    let named = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        named => named?,
    };
    let held = slot.metadata()?;
    Ok(((named.dev(), named.ino()) == (held.dev(), held.ino())).then_some(held.len()))
}

/// Empties the slot of somebody who is gone.
pub(super) fn empty_left(slot: &File) -> io::Result<()> {
    slot::empty(slot, Pen::KEPT).map(drop)
}

/// The first time that a slot is used: its name is made safe.
fn begin(slots: &Slots, manner: Manner) -> Result<Header, StoreError> {
    filesystem::refuse_network(slots.dir())?;
    // The slots, the history, the state directory.
    let directories = if manner.sync { 3 } else { 0 };
    for directory in slots.dir().ancestors().take(directories) {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|why| StoreError::file("make safe", directory, why))?;
    }
    Header::new().map_err(|why| StoreError::file("begin", slots.dir(), why))
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "the list of changes has more than 4 GiB")
}
