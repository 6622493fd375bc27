//! Reads a slot: its frames, and the contents that their entries name.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use windlass_core::{self as core, ContentHash};

use super::objects::Objects;
use super::slot::{
    BLOCK_HEADER_BYTES, BlockHeader, ContentEntry, ContentPlace, FRAME_HEADER_BYTES, Frame,
    FrameHeader, HeaderState, SlotHeader, damaged, damaged_header, read_header,
};
use crate::StoreError;
use crate::log_format::{Generation, read_from, read_up_to};
use crate::writer_slots::WriterSlots;

/// The result of opening a slot for reading.
pub(super) enum OpenedSlot {
    /// The slot was never used, or another process has just renamed it.
    Unused,
    Filled(File, SlotHeader),
    Damaged(StoreError),
}

/// Opens a slot and reads its header.
pub(super) fn open_slot(path: &Path) -> Result<OpenedSlot, StoreError> {
    match File::open(path).and_then(|slot| Ok((read_header(&slot)?, slot))) {
        Ok((HeaderState::Unused, _)) => Ok(OpenedSlot::Unused),
        Ok((HeaderState::At(header), slot)) => Ok(OpenedSlot::Filled(slot, header)),
        Ok((HeaderState::Damaged, _)) => Ok(OpenedSlot::Damaged(damaged_header(path))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(OpenedSlot::Unused),
        Err(why) => Err(StoreError::file("read", path, why)),
    }
}

/// Reads a slot up to an end before which no writer changes it.
#[derive(Debug)]
pub(super) struct SlotReader<'a> {
    slot: &'a File,
    path: &'a Path,
    generation: Generation,
    end: u64,
    /// The number of bytes that each read fetches at least.
    read_ahead: u64,
    /// The bytes of the last read.
    window: Vec<u8>,
    /// Their offset.
    window_at: u64,
    /// The content that was rebuilt last, with the offset of its block: it is often the base of the next.
    last_content: Option<(u64, Vec<u8>)>,
}

impl<'a> SlotReader<'a> {
    /// The read-ahead for many frames, so that small frames do not cost a system call each.
    const READ_AHEAD_BYTES: u64 = 256 << 10;
    /// The read-ahead for one frame or content.
    const ONE_CONTENT_READ_AHEAD_BYTES: u64 = 4 << 10;
    /// No frame that we write has more bytes before its blocks.
    const MAX_CHECKED_BYTES: u64 = 1 << 30;

    /// A reader for many frames, up to `end`.
    pub(super) fn new(slot: &'a File, path: &'a Path, generation: Generation, end: u64) -> Self {
        let read_ahead = Self::READ_AHEAD_BYTES;
        Self {
            slot,
            path,
            generation,
            end,
            read_ahead,
            window: Vec::new(),
            window_at: 0,
            last_content: None,
        }
    }

    /// A reader for one content, with little read-ahead.
    pub(super) fn without_read_ahead(
        slot: &'a File,
        path: &'a Path,
        generation: Generation,
        end: u64,
    ) -> Self {
        Self {
            read_ahead: Self::ONE_CONTENT_READ_AHEAD_BYTES,
            ..Self::new(slot, path, generation, end)
        }
    }

    /// A reader up to the end of the file, for frames after the header's length.
    pub(super) fn to_end_of_file(
        slot: &'a File,
        path: &'a Path,
        header: &SlotHeader,
    ) -> io::Result<Self> {
        Ok(Self::new(slot, path, header.generation, slot.metadata()?.len()))
    }

    /// Reads the frame at this offset; `None` if there is no intact one.
    pub(super) fn frame(&mut self, offset: u64) -> io::Result<Option<Frame>> {
        let generation = self.generation;
        let Some((frame_header, checked_size)) = self.frame_header(offset)? else {
            return Ok(None);
        };
        let Some(bytes) = self.bytes(offset, checked_size)? else { return Ok(None) };
        let frame = frame_header.frame(generation, bytes);
        if checked_size > Self::READ_AHEAD_BYTES {
            // The frame has a copy of these bytes now.
            self.window = Vec::new();
        }
        Ok(frame)
    }

    /// Reads the header of the frame at this offset, with the size that its checksum covers; `None` if it does not fit before the end.
    fn frame_header(&mut self, offset: u64) -> io::Result<Option<(FrameHeader, u64)>> {
        let end = self.end;
        let Some(bytes) = self.bytes(offset, FRAME_HEADER_BYTES as u64)? else { return Ok(None) };
        let Some(frame_header) = FrameHeader::parse(offset, bytes) else { return Ok(None) };
        let checked_size = frame_header.checked_size();
        let fits = checked_size <= Self::MAX_CHECKED_BYTES
            && checked_size <= frame_header.size
            && offset.checked_add(frame_header.size).is_some_and(|after| after <= end);
        Ok(fits.then_some((frame_header, checked_size)))
    }

    /// Opens the content of an entry and checks its hash.
    pub(super) fn open(
        &mut self,
        entry: &ContentEntry,
        objects: &Objects,
    ) -> Result<core::OpenedContent, StoreError> {
        match entry.place {
            ContentPlace::Block(_) => self.content(entry, objects).map(core::OpenedContent::Bytes),
            ContentPlace::Object => objects.open(&entry.hash),
        }
    }

    /// Reads the content of an entry and checks its hash.
    pub(super) fn content(
        &mut self,
        entry: &ContentEntry,
        objects: &Objects,
    ) -> Result<Vec<u8>, StoreError> {
        let bytes = self.rebuild(entry, objects)?;
        if ContentHash::of(&bytes) == entry.hash {
            return Ok(bytes);
        }
        Err(match entry.place {
            ContentPlace::Block(offset) => self.damaged(offset),
            ContentPlace::Object => objects.damaged(&entry.hash),
        })
    }

    /// Rebuilds a content: follows its bases to one that is whole, then applies the deltas.
    fn rebuild(&mut self, entry: &ContentEntry, objects: &Objects) -> Result<Vec<u8>, StoreError> {
        let mut deltas = Vec::new();
        let mut at = *entry;
        let mut bytes = loop {
            let offset = match at.place {
                ContentPlace::Object => break objects.read(&at.hash)?,
                ContentPlace::Block(offset) => offset,
            };
            if let Some((_, bytes)) =
                self.last_content.take_if(|(last_content, _)| *last_content == offset)
            {
                break bytes;
            }
            let (block, bytes) = self.block(offset)?;
            match block.base {
                None => break bytes,
                Some((base, shared_ends)) => {
                    // A block comes after its base, so this ends.
                    if matches!(base.place, ContentPlace::Block(below) if below >= offset) {
                        return Err(self.damaged(offset));
                    }
                    deltas.push((offset, shared_ends, bytes));
                    at = base;
                }
            }
        };
        while let Some((offset, shared_ends, middle)) = deltas.pop() {
            bytes = shared_ends.apply(&bytes, &middle).ok_or_else(|| self.damaged(offset))?;
        }
        if let ContentPlace::Block(offset) = entry.place {
            self.last_content = Some((offset, bytes.clone()));
        }
        Ok(bytes)
    }

    /// Reads the block at this offset: its header and bytes.
    pub(super) fn block(&mut self, offset: u64) -> Result<(BlockHeader, Vec<u8>), StoreError> {
        let path = self.path;
        let failed = |why| StoreError::file("read", path, why);
        let head = self.bytes(offset, BLOCK_HEADER_BYTES as u64).map_err(failed)?;
        let Some(block) = head.and_then(BlockHeader::parse) else {
            return Err(self.damaged(offset));
        };
        let after = offset.saturating_add(BLOCK_HEADER_BYTES as u64);
        match self.bytes(after, block.size).map_err(failed)? {
            Some(bytes) => Ok((block, bytes.to_vec())),
            None => Err(self.damaged(offset)),
        }
    }

    /// The error for a failed read.
    pub(super) fn failed(&self, why: io::Error) -> StoreError {
        StoreError::file("read", self.path, why)
    }

    /// The error for damaged bytes at this offset.
    pub(super) fn damaged(&self, offset: u64) -> StoreError {
        damaged(self.path, &format!("the bytes at offset {offset} were changed"))
    }

    /// The bytes at an offset; `None` if they reach past the end.
    fn bytes(&mut self, offset: u64, size: u64) -> io::Result<Option<&[u8]>> {
        let Some(after) = offset.checked_add(size).filter(|after| *after <= self.end) else {
            return Ok(None);
        };
        let window_end = self.window_at + self.window.len() as u64;
        if offset < self.window_at || after > window_end {
            let to = after.max(offset.saturating_add(self.read_ahead)).min(self.end);
            self.window = read_from(self.slot, offset, to)?;
            self.window_at = offset;
        }
        let begin = usize::try_from(offset - self.window_at).map_err(io::Error::other)?;
        let size = usize::try_from(size).map_err(io::Error::other)?;
        Ok(self.window.get(begin..).and_then(|bytes| bytes.get(..size)))
    }
}

/// Reads the frame of the checkpoint that is under way or unfinished according to a header, if there is one. If there is none, this takes
/// one read, because every process that starts does it.
pub(super) fn read_unfinished_frame(
    slot: &File,
    path: &Path,
    header: &SlotHeader,
) -> io::Result<Option<Frame>> {
    let mut start = [0; FRAME_HEADER_BYTES];
    let read = read_up_to(slot, &mut start, header.length)?;
    match start.get(..read).and_then(|bytes| FrameHeader::parse(header.length, bytes)) {
        Some(frame_header) if frame_header.serial == header.serial => {
            let mut reader = SlotReader {
                read_ahead: SlotReader::ONE_CONTENT_READ_AHEAD_BYTES,
                ..SlotReader::to_end_of_file(slot, path, header)?
            };
            reader.frame(header.length)
        }
        _ => Ok(None),
    }
}

/// Renames a damaged slot, unless its owner lives or it has an unfinished checkpoint; the error then has the new path. Its intact
/// checkpoints are drained already.
pub(super) fn set_aside(slots: &WriterSlots, number: u32, error: StoreError) -> StoreError {
    let StoreError::Damaged { path, why } = error else { return error };
    let aside = try_to_set_aside(slots, number).ok().flatten();
    StoreError::Damaged { path: aside.unwrap_or(path), why }
}

/// Renames a damaged slot and returns the new path; `None` if it may not be renamed.
fn try_to_set_aside(slots: &WriterSlots, number: u32) -> Result<Option<PathBuf>, StoreError> {
    let path = slots.file(number);
    let failed = |why| StoreError::file("set aside", &path, why);
    let Some(slot) = slots.try_take(number)? else { return Ok(None) };
    if let HeaderState::At(header) = read_header(&slot.file).map_err(failed)?
        && read_unfinished_frame(&slot.file, &path, &header).map_err(failed)?.is_some()
    {
        return Ok(None);
    }
    let names = (1..u32::MAX).map(|count| slots.dir().join(format!("{number}.damaged-{count}")));
    let Some(aside) = names.into_iter().find(|name| !name.exists()) else { return Ok(None) };
    std::fs::rename(&path, &aside).map_err(failed)?;
    Ok(Some(aside))
}

#[cfg(test)]
mod tests {
    use super::super::slot::tests::{HEADER_HERE, entries, file_with, frame};
    use super::*;

    #[test]
    fn an_unfinished_frame_matches_offset_serial_and_generation() {
        let bytes = [HEADER_HERE.bytes().as_slice(), &frame(&entries())].concat();
        let file = file_with(&bytes);
        let path = Path::new("slot");
        let found = read_unfinished_frame(&file, path, &HEADER_HERE).unwrap().unwrap();
        assert_eq!((found.body.as_slice(), found.moment), (b"the body".as_slice(), -5));
        assert_eq!((found.entries, found.end), (entries().to_vec(), bytes.len() as u64));
        let others = [
            SlotHeader { generation: [8; 16], ..HEADER_HERE },
            SlotHeader { serial: 2, ..HEADER_HERE },
            SlotHeader { serial: 4, ..HEADER_HERE },
            SlotHeader { length: HEADER_HERE.length + 1, ..HEADER_HERE },
            SlotHeader { length: bytes.len() as u64, ..HEADER_HERE },
        ];
        for header in others {
            assert_eq!(read_unfinished_frame(&file, path, &header).unwrap(), None, "{header:?}");
        }
    }
}
