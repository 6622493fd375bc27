//! The spool of a writer: the file that keeps its records until they are in the database.
//!
//! Its owner alone writes to it, so writing takes no lock: one `pwrite` for all queued records, and one for the head, a small file
//! beside it with the position up to which the spool is filled and the hash there. Frames before the head's position were
//! acknowledged; if they are missing, that is a loss. Frames after it were never acknowledged: a kill came between the two writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::anchor::read_start;
use crate::frame::{Frame, Frames, SpoolPosition, generation_of, header};
use crate::log_format::{FieldReader, new_generation, read_from, with_checksum};
use crate::writer_slots::{WriterSlot, WriterSlots, open_to_write_if_allowed};

/// A locked spool that this process writes to.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(crate) slot: WriterSlot,
    head: File,
    /// The position of the next frame; `None` if the spool is empty.
    end: Option<SpoolPosition>,
    /// The bytes of the last append; kept to reuse the allocation.
    buffer: Vec<u8>,
}

impl Spool {
    /// A buffer with more capacity than this is freed after an append.
    const MAX_BUFFER_BYTES: usize = 1 << 20;

    /// Locks the first spool that no process holds, and cuts off an incomplete frame at its end. Skips a spool that does not match its
    /// head: it has to be drained first.
    pub(crate) fn take(slots: &WriterSlots) -> Result<Self, StoreError> {
        slots.take_first(|slot, path| {
            if !slots.try_lock(&slot)? {
                return Ok(None);
            }
            let head_path = slots.head(slot.number);
            let head =
                open_head(&head_path).map_err(|why| StoreError::file("open", &head_path, why))?;
            let found =
                find_end(&slot.file, &head).map_err(|why| StoreError::file("read", path, why))?;
            Ok(match found {
                SpoolState::Continue(end) => Some(Self { slot, head, end, buffer: Vec::new() }),
                SpoolState::Damaged => None,
            })
        })
    }

    /// Returns the length of the spool in bytes, 0 if it is empty.
    pub(crate) fn len(&self) -> u64 {
        self.end.map_or(0, |end| end.bytes)
    }

    /// Appends all of these frames and then moves the head; on an error none of them is acknowledged.
    pub(crate) fn append<'a>(&mut self, frames: impl Iterator<Item = Frame<'a>>) -> io::Result<()> {
        self.buffer.clear();
        let (offset, begin) = match self.end {
            Some(end) => (end.bytes, end),
            None => (0, self.begin_generation()?),
        };
        let end = frames.fold(begin, |position, frame| frame.add_to(&mut self.buffer, position));
        let written = self
            .slot
            .file
            .write_all_at(&self.buffer, offset)
            .and_then(|()| write_head(&self.head, &end));
        if self.buffer.capacity() > Self::MAX_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        match written {
            Ok(()) => self.end = Some(end),
            // These bytes are not acknowledged and will be overwritten; cutting them off frees space on a full disk.
            Err(_) => drop(self.slot.file.set_len(offset)),
        }
        written
    }

    /// Empties the spool if it is drained up to its end. It stays as it is while a drain locks the head.
    pub(crate) fn empty_if_drained(&mut self, drained: SpoolPosition) {
        if self.end != Some(drained) {
            return;
        }
        let emptied = empty(&self.slot.file, Some(&self.head));
        // If only the head could not be truncated, a frame at the old offset would stand behind a hole.
        let is_empty = || self.slot.file.metadata().is_ok_and(|file| file.len() == 0);
        if emptied.is_ok() || is_empty() {
            self.end = None;
        }
    }

    /// Starts a new generation: writes the head and puts the header into the buffer. The head goes first, because frames without a head
    /// count as a loss.
    fn begin_generation(&mut self) -> io::Result<SpoolPosition> {
        let generation = new_generation()?;
        let begin = SpoolPosition::begin(generation);
        write_head(&self.head, &begin)?;
        self.buffer.extend(header(generation));
        Ok(begin)
    }
}

/// The state of a spool that a new owner has locked.
enum SpoolState {
    /// The spool matches its head and ends here; `None` if it is empty.
    Continue(Option<SpoolPosition>),
    /// The spool does not match its head: it has to be drained first, so that the loss is recorded.
    Damaged,
}

/// Compares a spool with its head; cuts off an incomplete frame after the head's position.
fn find_end(spool: &File, head: &File) -> io::Result<SpoolState> {
    let length = spool.metadata()?.len();
    Ok(match read_head(head)? {
        SpoolHead::Empty if length == 0 => SpoolState::Continue(None),
        SpoolHead::At(position) if !position.has_frames() && length == 0 => {
            SpoolState::Continue(None)
        }
        SpoolHead::At(position)
            if position.bytes == length && has_generation_of(spool, position)? =>
        {
            SpoolState::Continue(Some(position))
        }
        SpoolHead::At(position)
            if position.bytes < length && has_generation_of(spool, position)? =>
        {
            SpoolState::Continue(Some(find_end_after_head(spool, position, length)?))
        }
        _ => SpoolState::Damaged,
    })
}

/// Returns whether a spool has the generation of this position.
fn has_generation_of(spool: &File, position: SpoolPosition) -> io::Result<bool> {
    let start = read_from(spool, 0, SpoolPosition::HEADER)?;
    Ok(generation_of(&start) == Some(position.generation))
}

/// Finds the end of a spool that goes on after its head, because the former owner was killed between two writes. Whole frames stay; part
/// of a frame is cut off.
fn find_end_after_head(
    spool: &File,
    position: SpoolPosition,
    length: u64,
) -> io::Result<SpoolPosition> {
    let rest = read_from(spool, position.bytes, length)?;
    let mut frames = Frames::after(position, &rest);
    frames.by_ref().for_each(drop);
    spool.set_len(frames.position.bytes)?;
    Ok(frames.position)
}

/// Truncates a spool and its head, if there is one. The head goes last, because frames without a head count as a loss. Fails at once if
/// the head is locked.
pub(crate) fn empty(spool: &File, head: Option<&File>) -> io::Result<()> {
    let Some(head) = head else { return spool.set_len(0) };
    head.try_lock()?;
    let emptied = spool.set_len(0).and_then(|()| head.set_len(0));
    head.unlock()?;
    emptied
}

/// Overwrites the drained part of a spool with zeros, unless the spool was emptied or refilled since. The owner only writes after that
/// part, and no reader reads it. The lock on the head keeps the owner from emptying and refilling the spool meanwhile.
pub(crate) fn overwrite_drained(
    spool: &File,
    head: &File,
    drained: SpoolPosition,
) -> io::Result<()> {
    head.lock()?;
    let wiped = if has_generation_of(spool, drained)? {
        fill_with_zeros(spool, drained.bytes)
    } else {
        Ok(())
    };
    head.unlock()?;
    wiped
}

/// Writes zeros from the header up to `end`, at most to the end of the file.
fn fill_with_zeros(spool: &File, end: u64) -> io::Result<()> {
    let zeros = [0; 4096];
    let end = end.min(spool.metadata()?.len());
    let mut at = SpoolPosition::HEADER;
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(zeros.len()).min(zeros.len());
        spool.write_all_at(zeros.get(..length).unwrap_or_default(), at)?;
        at += length as u64;
    }
    Ok(())
}

/// Content of the head file of a spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpoolHead {
    /// There is no head file, or it is empty: the spool was never used, or emptied.
    Empty,
    /// The spool reaches at least this position.
    At(SpoolPosition),
    /// The checksum or the length does not match.
    Unreadable,
}

/// Length of a head file: generation, offset, hash, and a checksum that detects a read during a write.
const HEAD_BYTES: usize = 16 + 8 + 32 + HEAD_CHECKSUM_BYTES;
const HEAD_CHECKSUM_BYTES: usize = 8;

/// Opens a head file, created empty if there is none.
pub(crate) fn open_head(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Opens a head file, read-only if it may not be written; `None` if there is none.
pub(crate) fn open_head_if_there(path: &Path) -> io::Result<Option<File>> {
    match open_to_write_if_allowed(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Reads the head file at this path; a missing file is an empty head.
pub(crate) fn read_head_at(path: &Path) -> io::Result<SpoolHead> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(SpoolHead::Empty),
        opened => read_head(&opened?),
    }
}

/// Writes the head in one `pwrite`.
pub(crate) fn write_head(head: &File, position: &SpoolPosition) -> io::Result<()> {
    head.write_all_at(&head_bytes(position), 0)
}

/// Reads an open head file.
pub(crate) fn read_head(head: &File) -> io::Result<SpoolHead> {
    let mut bytes = [0; HEAD_BYTES + 1];
    let length = read_start(head, &mut bytes)?;
    Ok(match bytes.get(..length).unwrap_or_default() {
        [] => SpoolHead::Empty,
        bytes => parse_head(bytes).map_or(SpoolHead::Unreadable, SpoolHead::At),
    })
}

/// Returns the bytes of a head file, with the checksum.
fn head_bytes(position: &SpoolPosition) -> [u8; HEAD_BYTES] {
    let SpoolPosition { generation, bytes, hash } = position;
    with_checksum::<HEAD_BYTES, HEAD_CHECKSUM_BYTES>(&[generation, &bytes.to_le_bytes(), hash])
}

/// Parses the bytes of a head file; `None` if their number or the checksum is wrong.
fn parse_head(bytes: &[u8]) -> Option<SpoolPosition> {
    let mut fields = FieldReader(bytes);
    let position =
        SpoolPosition { generation: fields.take()?, bytes: fields.number()?, hash: fields.take()? };
    (head_bytes(&position) == bytes).then_some(position)
}

impl WriterSlots {
    /// Returns the path of the head file of a spool.
    pub(crate) fn head(&self, number: u32) -> PathBuf {
        self.dir().join(format!("{number}.head"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_head_are_the_same_in_every_version() {
        let position = SpoolPosition { generation: [7; 16], bytes: 1_234_567, hash: [9; 32] };
        let bytes = head_bytes(&position);
        assert_eq!(parse_head(&bytes), Some(position));
        assert_eq!(parse_head(&bytes[1..]), None);
        assert_eq!(
            blake3::hash(&bytes).to_hex().as_str(),
            "7da64b2aaff313dedb76fb7648a431158df618734fd952e01a405be285cad440"
        );
    }

    #[test]
    fn a_head_that_cannot_be_truncated_leaves_no_hole_in_the_spool() {
        let state = tempfile::tempdir().unwrap();
        let slots = WriterSlots::in_state(state.path());
        let mut spool = Spool::take(&slots).unwrap();
        spool.append(std::iter::empty()).unwrap();
        let drained = spool.end.unwrap();
        let head_path = slots.head(spool.slot.number);
        spool.head = File::open(&head_path).unwrap();
        spool.empty_if_drained(drained);
        assert_eq!(spool.slot.file.metadata().unwrap().len(), 0);
        spool.head = open_head(&head_path).unwrap();
        spool.append(std::iter::empty()).unwrap();
        let end = find_end(&spool.slot.file, &spool.head).unwrap();
        assert!(matches!(end, SpoolState::Continue(found) if found == spool.end));
    }
}
