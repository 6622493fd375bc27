//! Unfinished checkpoints: their writers died in the middle of the change, by a kill or a loss of power.
//!
//! Recovery reads the files to find out which part of the change was made. Meanwhile the slot stays locked, so that no other process
//! recovers the same checkpoint at the same time.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use windlass_core::{CallId, ContentHash, HistoryError, OpenedContent, Origin, RecordedChange};

use super::encoding::{Body, decode, decode_origin};
use super::objects::Objects;
use super::slot::{
    ContentEntry, ContentPlace, Frame, HeaderState, SlotHeader, damaged, damaged_header,
    read_header,
};
use super::slot_reader::{SlotReader, read_unfinished_frame};
use crate::StoreError;
use crate::writer_slots::WriterSlots;

/// A checkpoint that was left in the middle of its change. Dropping it leaves it for a later recovery.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// let history = windlass_store::UndoHistory::open(state)?;
/// for left in history.unfinished()? {
///     let is_made = left.changes.iter().all(|change| change.path.exists());
///     if is_made { left.finish()? } else { left.abandon()? }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Unfinished {
    /// The call that made the change.
    pub origin: Origin,
    /// The planned changes, in the order in which they are made.
    pub changes: Vec<RecordedChange>,
    /// Locked until it is closed.
    slot: File,
    path: PathBuf,
    header: SlotHeader,
    end: u64,
    entries: Vec<ContentEntry>,
    objects: Objects,
}

impl Unfinished {
    /// Locks a slot with an unfinished checkpoint and reads that; `None` if there is none or its owner lives. An incomplete frame is
    /// discarded.
    pub(super) fn find(
        slots: &WriterSlots,
        objects: &Objects,
        number: u32,
    ) -> Result<Option<Self>, StoreError> {
        let path = slots.file(number);
        let failed = |why| StoreError::file("read", &path, why);
        // Most slots have no unfinished checkpoint, which is found without a lock.
        let opened = match File::open(&path) {
            // Another process has just renamed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        if read_unfinished(&opened, &path)?.is_none() {
            return Ok(None);
        }
        let slot = slots.open(number)?;
        if !slots.try_lock(&slot)? {
            return Ok(None);
        }
        let Some((header, frame)) = read_unfinished(&slot.file, &path)? else { return Ok(None) };
        if !is_complete(&slot.file, &path, &header, &frame, objects)? {
            write_next_header(&slot.file, header)
                .map_err(|why| StoreError::file("write", &path, why))?;
            return Ok(None);
        }
        let Frame { end, body, entries, offset, .. } = frame;
        let Some(Body { origin, changes, .. }) = decode(&body) else {
            return Err(damaged(&path, &format!("the bytes at offset {offset} cannot be parsed")));
        };
        let objects = objects.clone();
        let slot = slot.file;
        Ok(Some(Self { origin, changes, slot, path, header, end, entries, objects }))
    }

    /// Opens a content of the checkpoint.
    pub fn content(&self, hash: &ContentHash) -> Result<OpenedContent, HistoryError> {
        let entry = self.entries.iter().find(|entry| entry.hash == *hash);
        let entry = entry.ok_or(HistoryError::Dropped(*hash))?;
        let mut reader = SlotReader::without_read_ahead(
            &self.slot,
            &self.path,
            self.header.generation,
            self.end,
        );
        Ok(reader.open(entry, &self.objects)?)
    }

    /// Ends the checkpoint as made: it becomes part of the history.
    pub fn finish(self) -> Result<(), HistoryError> {
        self.write_end(SlotHeader { length: self.end, ..self.header })
    }

    /// Ends the checkpoint as not made: it is not part of the history.
    pub fn abandon(self) -> Result<(), HistoryError> {
        self.write_end(self.header)
    }

    /// Ends the checkpoint with this header.
    fn write_end(&self, header: SlotHeader) -> Result<(), HistoryError> {
        let ended = write_next_header(&self.slot, header);
        Ok(ended.map_err(|why| StoreError::file("write", &self.path, why))?)
    }
}

/// Returns whether a slot has a checkpoint of this call that is under way or unfinished.
pub(super) fn is_of_call(
    slots: &WriterSlots,
    number: u32,
    call: &CallId,
) -> Result<bool, StoreError> {
    let path = slots.file(number);
    let slot = match File::open(&path) {
        // Another process has just renamed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened.map_err(|why| StoreError::file("read", &path, why))?,
    };
    let frame = read_unfinished(&slot, &path)?.map(|(_, frame)| frame);
    let origin = frame.and_then(|frame| decode_origin(&frame.body));
    Ok(origin.is_some_and(|origin| origin.call == *call))
}

/// Writes a header with the next serial number.
fn write_next_header(slot: &File, header: SlotHeader) -> io::Result<()> {
    SlotHeader { serial: header.serial + 1, ..header }.write(slot)
}

/// Reads the header and the frame of the checkpoint that has not ended, if there is one.
fn read_unfinished(slot: &File, path: &Path) -> Result<Option<(SlotHeader, Frame)>, StoreError> {
    let failed = |why| StoreError::file("read", path, why);
    let header = match read_header(slot).map_err(failed)? {
        HeaderState::Unused => return Ok(None),
        HeaderState::At(header) => header,
        HeaderState::Damaged => return Err(damaged_header(path)),
    };
    let frame = read_unfinished_frame(slot, path, &header).map_err(failed)?;
    Ok(frame.map(|frame| (header, frame)))
}

/// Returns whether a frame was written completely. If not, it was never acknowledged, and no file was changed. A content that cannot be
/// read because of an error of the system may be complete: that error is returned.
fn is_complete(
    slot: &File,
    path: &Path,
    header: &SlotHeader,
    frame: &Frame,
    objects: &Objects,
) -> Result<bool, StoreError> {
    let reader = SlotReader::to_end_of_file(slot, path, header);
    let mut reader = reader.map_err(|why| StoreError::file("read", path, why))?;
    let is_new = |entry: &&ContentEntry| matches!(entry.place, ContentPlace::Block(at) if at >= frame.offset);
    for entry in frame.entries.iter().filter(is_new) {
        match reader.content(entry, objects) {
            Ok(_) => {}
            Err(error @ StoreError::File { .. }) => return Err(error),
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}
