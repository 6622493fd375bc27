//! The writer of a slot. A process holds it while a checkpoint is under way, and keeps it for the next one.
//!
//! It remembers the hashes of the contents it has written, so a content is written once until the slot is emptied: the content after
//! one call is the content before the next. A content that is similar to another is written as a delta.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use windlass_core::{ContentHash, NewCheckpoint, OpenedContent};

use super::frame_plan::{FrameLayout, FramePlan, Known};
use super::objects::Objects;
use super::slot::{
    self, BLOCK_HEADER_BYTES, ContentEntry, ContentPlace, HeaderState, SlotHeader, read_header,
};
use super::slot_reader::{SlotReader, read_unfinished_frame};
use crate::writer_slots::{WriterSlot, WriterSlots};
use crate::{StoreError, filesystem};

/// The settings of slot writers.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotSettings {
    /// A checkpoint survives a loss of power: the writer waits for the disk.
    pub(super) sync: bool,
    /// Contents that are longer than this get files of their own.
    pub(super) large: u64,
    /// The length at which a slot is to be drained.
    pub(super) drain_at: u64,
    /// The space that one checkpoint may take.
    pub(super) quota: u64,
}

/// A locked slot that this process writes to.
#[derive(Debug)]
pub(super) struct SlotWriter {
    slot: WriterSlot,
    path: PathBuf,
    slot_settings: SlotSettings,
    header: SlotHeader,
    /// The length of the file, with the bytes after the header's length.
    space: u64,
    /// The header has not been written yet.
    is_new: bool,
    /// The header in the file may differ from `header`.
    is_broken: bool,
    /// The contents in the slot, or among the objects, by hash.
    known: HashMap<ContentHash, Known>,
    under_way: Option<UnderWay>,
    /// The bytes of object files that were recorded since the slot was emptied.
    object_bytes: u64,
    /// The slot is full with more bytes or checkpoints than these.
    full_at: (u64, u64),
    /// The bytes of the last frame; kept to reuse the allocation.
    buffer: Vec<u8>,
}

/// A checkpoint that was recorded and not yet ended.
#[derive(Debug)]
struct UnderWay {
    /// The offset after its frame.
    end: u64,
}

impl SlotWriter {
    /// A slot with more checkpoints is full: a query has to drain all of them.
    const MAX_CHECKPOINTS: u64 = 2000;
    /// An emptied slot keeps a file of at most this length.
    const KEPT_BYTES: u64 = 1 << 20;
    /// The file grows by multiples of this length.
    const SPACE_BYTES: u64 = 64 << 10;
    /// A buffer with more capacity than this is freed after a record.
    const MAX_BUFFER_BYTES: usize = 1 << 20;

    /// Locks the first free slot. Skips a slot with an unfinished checkpoint, which is for recovery, and a damaged one, which a query
    /// reports.
    pub(super) fn take(
        slots: &WriterSlots,
        slot_settings: SlotSettings,
    ) -> Result<Self, StoreError> {
        slots.take_first(|slot, path| {
            let failed = |why| StoreError::file("read", path, why);
            // The state is read before the lock is tried: a search for unfinished checkpoints must not find a slot locked only for this
            // check.
            let Some(found) = read_state(&slot.file, path).map_err(failed)? else {
                return Ok(None);
            };
            if !slots.try_lock(&slot)?
                || read_state(&slot.file, path).map_err(failed)? != Some(found)
            {
                return Ok(None);
            }
            let length = length_if_named(&slot.file, path).map_err(failed)?;
            let Some(space) = length else { return Ok(None) };
            let is_new = found == FreeSlot::New;
            let header = match found {
                FreeSlot::Used(header) => header,
                FreeSlot::New => begin_new_slot(slots, slot_settings)?,
            };
            Ok(Some(Self {
                slot,
                path: path.to_owned(),
                slot_settings,
                header,
                space,
                is_new,
                is_broken: false,
                known: HashMap::new(),
                under_way: None,
                object_bytes: 0,
                full_at: (slot_settings.drain_at, Self::MAX_CHECKPOINTS),
                buffer: Vec::new(),
            }))
        })
    }

    pub(super) fn number(&self) -> u32 {
        self.slot.number
    }

    pub(super) fn header(&self) -> SlotHeader {
        self.header
    }

    /// Returns whether the slot can take another checkpoint.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_broken && self.under_way.is_none()
    }

    /// Returns whether the slot is to be drained before it is used again.
    pub(super) fn is_full(&self) -> bool {
        self.bytes_to_drain() > self.full_at.0 || self.header.serial > self.full_at.1
    }

    /// Asks for no further drain until as much again has been written.
    pub(super) fn put_drain_off(&mut self) {
        let SlotSettings { drain_at, .. } = self.slot_settings;
        self.full_at =
            (self.bytes_to_drain() + drain_at, self.header.serial + Self::MAX_CHECKPOINTS);
    }

    /// The bytes of the slot and of its object files.
    fn bytes_to_drain(&self) -> u64 {
        self.header.length + self.object_bytes
    }

    /// Records a checkpoint: writes its frame and waits for the disk. Fails if it exceeds the quota.
    pub(super) fn record(
        &mut self,
        moment: i64,
        new: &NewCheckpoint<'_>,
        objects: &Objects,
    ) -> Result<(), StoreError> {
        let buffer = std::mem::take(&mut self.buffer);
        let plan = FramePlan::new(new, &self.known, self.slot_settings.large, buffer);
        let mut plan = plan.map_err(|why| self.failed(why))?;
        let (bytes, quota) = (plan.space(), self.slot_settings.quota);
        if bytes > quota {
            return Err(StoreError::OverQuota { call: new.origin.call.clone(), bytes, quota });
        }
        // Held until the slot names the files.
        let _lock = plan.keep_objects(objects)?;
        let layout = plan.lay_out(&self.header, moment).ok_or_else(|| self.failed(too_long()))?;
        let written = self.write(&plan, &layout);
        let buffer = std::mem::take(&mut plan.buffer);
        self.buffer = if buffer.capacity() > Self::MAX_BUFFER_BYTES { Vec::new() } else { buffer };
        let space = match written {
            Ok(space) => space,
            Err(why) => {
                self.discard_frame();
                return Err(self.failed(why));
            }
        };
        let end = layout.end;
        self.space = space;
        self.is_new = false;
        self.known.extend(plan.added(&layout));
        self.under_way = Some(UnderWay { end });
        self.object_bytes += layout.object_bytes;
        Ok(())
    }

    /// Writes a frame and waits for the disk. Returns the length of the file.
    fn write(&self, plan: &FramePlan<'_>, layout: &FrameLayout) -> io::Result<u64> {
        if self.is_new {
            self.header.write(&self.slot.file)?;
        }
        let mut output = BufferedWriter::new(&self.slot.file, self.header.length);
        output.add(&plan.buffer)?;
        let mut head = Vec::with_capacity(BLOCK_HEADER_BYTES);
        for block in plan.blocks(layout) {
            head.clear();
            block.header.add_to(&mut head);
            output.add(&head)?;
            plan.write_block(&block, |bytes| output.add(bytes))?;
        }
        let space = self.reserve_space(&mut output, layout.end)?;
        output.finish()?;
        if self.slot_settings.sync {
            self.slot.file.sync_data()?;
        }
        Ok(space)
    }

    /// Extends the last write with zeros if the file grows, so that later frames fit without growing it: growing makes the file system
    /// write metadata at each sync. Returns the length of the file.
    fn reserve_space(&self, output: &mut BufferedWriter<'_>, end: u64) -> io::Result<u64> {
        if end <= self.space {
            return Ok(self.space);
        }
        let missing = end.next_multiple_of(Self::SPACE_BYTES) - end;
        match usize::try_from(missing) {
            Ok(count) if self.slot_settings.sync => {
                output.add(&vec![0; count])?;
                Ok(end + missing)
            }
            _ => Ok(end),
        }
    }

    /// Cuts off a frame that could not be written, so that it is not taken for a checkpoint and a full disk gets its space back.
    fn discard_frame(&mut self) {
        if self.is_new {
            self.is_broken = self.slot.file.set_len(0).is_err();
            return;
        }
        if self.slot.file.set_len(self.header.length).is_ok() {
            self.space = self.header.length;
        }
        drop(self.write_header(self.header));
    }

    /// Ends the checkpoint as made: the header's length moves after its frame.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        let Some(UnderWay { end }) = self.under_way.take() else { return Ok(()) };
        self.write_header(SlotHeader { length: end, ..self.header })
    }

    /// Ends the checkpoint as not made: the header's length stays.
    pub(super) fn abandon(&mut self) -> Result<(), StoreError> {
        if self.under_way.take().is_none() {
            return Ok(());
        }
        // Its blocks will be overwritten, and its objects may be removed.
        let length = self.header.length;
        self.known.retain(|_, known| matches!(known.place, ContentPlace::Block(at) if at < length));
        self.write_header(self.header)
    }

    /// Writes the header with the next serial number.
    fn write_header(&mut self, header: SlotHeader) -> Result<(), StoreError> {
        let header = SlotHeader { serial: header.serial + 1, ..header };
        if let Err(why) = header.write(&self.slot.file) {
            self.is_broken = true;
            return Err(self.failed(why));
        }
        self.header = header;
        Ok(())
    }

    /// Opens a content that this writer wrote, of a finished checkpoint or of the one under way; `None` if it did not write it.
    pub(super) fn open(
        &self,
        hash: &ContentHash,
        objects: &Objects,
    ) -> Option<Result<OpenedContent, StoreError>> {
        let Known { place, .. } = *self.known.get(hash)?;
        let SlotHeader { generation, length, .. } = self.header;
        let end = self.under_way.as_ref().map_or(length, |under_way| under_way.end);
        let mut reader =
            SlotReader::without_read_ahead(&self.slot.file, &self.path, generation, end);
        Some(reader.open(&ContentEntry { hash: *hash, place }, objects))
    }

    /// Empties the slot, all of whose checkpoints are drained.
    pub(super) fn empty(&mut self) -> Result<(), StoreError> {
        // Until the new header is written, the header in the file is unknown.
        self.is_broken = true;
        self.header =
            slot::empty_slot(&self.slot.file, Self::KEPT_BYTES).map_err(|why| self.failed(why))?;
        self.space = self.space.min(Self::KEPT_BYTES);
        self.is_broken = false;
        self.known.clear();
        self.object_bytes = 0;
        self.full_at = (self.slot_settings.drain_at, Self::MAX_CHECKPOINTS);
        Ok(())
    }

    /// Cuts off bytes of earlier checkpoints after the header's length.
    pub(super) fn cut_off_leftovers(&mut self) -> Result<(), StoreError> {
        self.slot.file.set_len(self.header.length).map_err(|why| self.failed(why))?;
        self.space = self.header.length;
        Ok(())
    }

    /// The error for a failed write.
    fn failed(&self, why: io::Error) -> StoreError {
        StoreError::file("record the change in", &self.path, why)
    }
}

/// Writes successive bytes from an offset of a file, in few system calls.
struct BufferedWriter<'a> {
    file: &'a File,
    at: u64,
    waiting: Vec<u8>,
}

impl<'a> BufferedWriter<'a> {
    /// The buffer holds at most this much. Longer bytes are written directly.
    const MAX_BUFFERED_BYTES: usize = 256 << 10;

    fn new(file: &'a File, at: u64) -> Self {
        Self { file, at, waiting: Vec::new() }
    }

    /// Buffers bytes, or writes them if they are long.
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.waiting.len() + bytes.len() > Self::MAX_BUFFERED_BYTES {
            self.write()?;
        }
        if bytes.len() > Self::MAX_BUFFERED_BYTES {
            self.file.write_all_at(bytes, self.at)?;
            self.at += bytes.len() as u64;
        } else {
            self.waiting.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Writes the buffer.
    fn write(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.waiting, self.at)?;
        self.at += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Writes the rest.
    fn finish(mut self) -> io::Result<()> {
        self.write()
    }
}

/// A slot that a new owner can write to: a new file, or one with this header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FreeSlot {
    New,
    Used(SlotHeader),
}

/// Reads the state of a slot for a new owner; `None` if it is damaged or has an unfinished checkpoint.
fn read_state(slot: &File, path: &Path) -> io::Result<Option<FreeSlot>> {
    Ok(match read_header(slot)? {
        HeaderState::Unused => Some(FreeSlot::New),
        HeaderState::Damaged => None,
        HeaderState::At(header) => {
            let left = read_unfinished_frame(slot, path, &header)?;
            left.is_none().then_some(FreeSlot::Used(header))
        }
    })
}

/// The length of a slot, if the path still names it: a damaged slot is renamed.
fn length_if_named(slot: &File, path: &Path) -> io::Result<Option<u64>> {
    let named = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        named => named?,
    };
    let held = slot.metadata()?;
    Ok(((named.dev(), named.ino()) == (held.dev(), held.ino())).then_some(held.len()))
}

/// Empties a slot without an owner.
pub(super) fn empty_left(slot: &File) -> io::Result<()> {
    slot::empty_slot(slot, SlotWriter::KEPT_BYTES).map(drop)
}

/// Prepares the first use of a slot: refuses network file systems, syncs the directories, and makes a header.
fn begin_new_slot(
    slots: &WriterSlots,
    slot_settings: SlotSettings,
) -> Result<SlotHeader, StoreError> {
    filesystem::refuse_network(slots.dir())?;
    // The directories of the slots and of the history, and the state directory.
    let directories = if slot_settings.sync { 3 } else { 0 };
    for directory in slots.dir().ancestors().take(directories) {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|why| StoreError::file("make safe", directory, why))?;
    }
    SlotHeader::new().map_err(|why| StoreError::file("begin", slots.dir(), why))
}

/// The error for a frame that is too long.
fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "the list of changes has more than 4 GiB")
}
