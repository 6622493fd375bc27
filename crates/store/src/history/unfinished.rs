//! Checkpoints whose writers are gone in the middle of the change: killed, or without power.
//!
//! Whether the change was made, or how much of it, only a look at the files tells; that is for others. Meanwhile the slot is
//! held locked, so that nobody else puts the same things right at the same time.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use windlass_core::{CallId, ContentHash, HistoryError, Opened, Origin, RecordedChange};

use super::encoding::{Body, decode, decode_origin};
use super::objects::Objects;
use super::slot::{Entry, Found, Frame, Header, Place, damaged, damaged_header, read_header};
use super::view::{View, open_frame};
use crate::StoreError;
use crate::liveness::Slots;

/// A checkpoint that was left in the middle of its change. Dropped without a word, it is left for the next who looks.
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
    /// Whose change it is.
    pub origin: Origin,
    /// What was to be changed, in the order in which it is done.
    pub changes: Vec<RecordedChange>,
    /// Locked until it is closed.
    slot: File,
    path: PathBuf,
    header: Header,
    end: u64,
    entries: Vec<Entry>,
    objects: Objects,
}

impl Unfinished {
    /// What was left in this slot, if anything was.
    pub(super) fn find(
        slots: &Slots,
        objects: &Objects,
        number: u32,
    ) -> Result<Option<Self>, StoreError> {
        let path = slots.spool(number);
        let failed = |why| StoreError::file("read", &path, why);
        // Most have nothing, which is seen without a lock.
        let opened = match File::open(&path) {
            // Somebody has just set it aside.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        if look(&opened, &path)?.is_none() {
            return Ok(None);
        }
        let slot = slots.open(number)?;
        if !slots.try_lock(&slot)? {
            return Ok(None);
        }
        let Some((header, frame)) = look(&slot.file, &path)? else { return Ok(None) };
        if !is_whole(&slot.file, &path, &header, &frame, objects)? {
            end(&slot.file, header).map_err(|why| StoreError::file("write", &path, why))?;
            return Ok(None);
        }
        let Frame { end, body, entries, place, .. } = frame;
        let Some(Body { origin, changes, .. }) = decode(&body) else {
            return Err(damaged(
                &path,
                &format!("what stands at byte {place} cannot be understood"),
            ));
        };
        let objects = objects.clone();
        let slot = slot.file;
        Ok(Some(Self { origin, changes, slot, path, header, end, entries, objects }))
    }

    /// Opens bytes that came with it.
    pub fn content(&self, hash: &ContentHash) -> Result<Opened, HistoryError> {
        let entry = self.entries.iter().find(|entry| entry.hash == *hash);
        let entry = entry.ok_or(HistoryError::Dropped(*hash))?;
        let mut view = View::of_one(&self.slot, &self.path, self.header.generation, self.end);
        Ok(view.open(entry, &self.objects)?)
    }

    /// The change is made: it is part of the history.
    pub fn finish(self) -> Result<(), HistoryError> {
        self.end_with(Header { length: self.end, ..self.header })
    }

    /// The change was taken back, or never begun: nothing of it is kept.
    pub fn abandon(self) -> Result<(), HistoryError> {
        self.end_with(self.header)
    }

    fn end_with(&self, header: Header) -> Result<(), HistoryError> {
        let ended = end(&self.slot, header);
        Ok(ended.map_err(|why| StoreError::file("write", &self.path, why))?)
    }
}

/// Tells whether a checkpoint of a call is under way in a slot, or was left there.
pub(super) fn is_of(slots: &Slots, number: u32, call: &CallId) -> Result<bool, StoreError> {
    let path = slots.spool(number);
    let slot = match File::open(&path) {
        // Another process has just set it aside.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened.map_err(|why| StoreError::file("read", &path, why))?,
    };
    let frame = look(&slot, &path)?.map(|(_, frame)| frame);
    let origin = frame.and_then(|frame| decode_origin(&frame.body));
    Ok(origin.is_some_and(|origin| origin.call == *call))
}

fn end(slot: &File, header: Header) -> io::Result<()> {
    Header { serial: header.serial + 1, ..header }.write(slot)
}

fn look(slot: &File, path: &Path) -> Result<Option<(Header, Frame)>, StoreError> {
    let failed = |why| StoreError::file("read", path, why);
    let header = match read_header(slot).map_err(failed)? {
        Found::Nothing => return Ok(None),
        Found::At(header) => header,
        Found::Damaged => return Err(damaged_header(path)),
    };
    let frame = open_frame(slot, path, &header).map_err(failed)?;
    Ok(frame.map(|frame| (header, frame)))
}

/// Whether all of a frame was written. If not, it was never acknowledged, and nothing was changed. What cannot be read now may well
/// be whole.
fn is_whole(
    slot: &File,
    path: &Path,
    header: &Header,
    frame: &Frame,
    objects: &Objects,
) -> Result<bool, StoreError> {
    let whole = View::whole(slot, path, header);
    let mut view = whole.map_err(|why| StoreError::file("read", path, why))?;
    let is_new = |entry: &&Entry| matches!(entry.place, Place::Block(at) if at >= frame.place);
    for entry in frame.entries.iter().filter(is_new) {
        match view.content(entry, objects) {
            Ok(_) => {}
            Err(error @ StoreError::File { .. }) => return Err(error),
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}
