//! The format of a slot: the file in which a writer records a checkpoint before the change is made.
//!
//! ```text
//! slot    "windlass undo 1\n"  generation (16)  serial (8)  length (8)  check (16)      frame ...
//! frame   size (8)  serial (8)  moment (8)  size of the body (4)  entries (4)  check (16)  body  entry ...  block ...
//! entry   hash of the content (32)  place of its block (8), 0 for a file among the objects
//! block   size (8)  base: place (8) and hash (32)  same at the front (8)  same at the back (8)  bytes
//! ```
//!
//! The header holds the length up to which the slot has finished checkpoints, and the next serial number. A frame with this number at
//! this offset is a checkpoint whose change is under way. So recording one is one write of the frame, and ending it is one write of
//! the header: with the length after the frame if the change was made, with the old length if not. All other bytes after the length
//! are ignored: they were torn, abandoned, or are older than the last emptying.
//!
//! The check of a frame covers its bytes up to the first block. A block is covered by the hash of the content built from it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use windlass_core::ContentHash;

use super::delta::SharedEnds;
use crate::StoreError;
use crate::log_format::{
    FieldReader, Generation, checksum, new_generation, read_up_to, with_checksum,
};

/// The beginning of every slot, with the version of its format.
const MAGIC: &[u8; 16] = b"windlass undo 1\n";
const CHECKSUM_BYTES: usize = 16;
const SLOT_HEADER_BYTES: usize = 16 + 16 + 8 + 8 + CHECKSUM_BYTES;

/// The unique id of a checkpoint.
pub(super) type CheckpointId = [u8; 16];

/// The header of a slot: the end of its finished checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotHeader {
    /// Random, and new whenever the slot is emptied.
    pub(super) generation: Generation,
    /// The serial number of the next checkpoint. Abandoned ones count.
    pub(super) serial: u64,
    /// The offset of the next frame.
    pub(super) length: u64,
}

impl SlotHeader {
    pub(super) const SIZE: u64 = SLOT_HEADER_BYTES as u64;

    /// The header of an empty slot, with a new generation.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { generation: new_generation()?, serial: 0, length: Self::SIZE })
    }

    /// Returns whether the slot has no finished checkpoint.
    pub(super) fn is_empty(&self) -> bool {
        self.length == Self::SIZE
    }

    /// The bytes of the header, with magic and checksum.
    pub(super) fn bytes(&self) -> [u8; SLOT_HEADER_BYTES] {
        with_checksum::<SLOT_HEADER_BYTES, CHECKSUM_BYTES>(&[
            MAGIC,
            &self.generation,
            &self.serial.to_le_bytes(),
            &self.length.to_le_bytes(),
        ])
    }

    /// Writes the header to a slot in one `pwrite`.
    pub(super) fn write(&self, slot: &File) -> io::Result<()> {
        slot.write_all_at(&self.bytes(), 0)
    }

    /// Parses a header; `None` if magic or checksum do not match.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = FieldReader(bytes.strip_prefix(MAGIC)?);
        let header =
            Self { generation: fields.take()?, serial: fields.number()?, length: fields.number()? };
        (header.bytes() == bytes && header.length >= Self::SIZE).then_some(header)
    }
}

/// The result of reading the header of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderState {
    /// The slot was never used.
    Unused,
    At(SlotHeader),
    /// The magic or the checksum does not match.
    Damaged,
}

/// Reads the header; repeats that if it is damaged, because its owner may be writing it at this moment.
pub(super) fn read_header(slot: &File) -> io::Result<HeaderState> {
    const ATTEMPTS: u32 = 50;
    for _ in 0..ATTEMPTS {
        let mut bytes = [0; SLOT_HEADER_BYTES];
        match read_up_to(slot, &mut bytes, 0)? {
            0 => return Ok(HeaderState::Unused),
            _ => match SlotHeader::parse(&bytes) {
                Some(header) => return Ok(HeaderState::At(header)),
                None => std::thread::yield_now(),
            },
        }
    }
    Ok(HeaderState::Damaged)
}

/// The part of a frame that its check covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// The offset of the frame in the slot.
    pub(super) offset: u64,
    /// The offset of the next frame.
    pub(super) end: u64,
    pub(super) id: CheckpointId,
    pub(super) serial: u64,
    /// The time that orders checkpoints, in nanoseconds since 1970.
    pub(super) moment: i64,
    /// The encoded origin and changes.
    pub(super) body: Vec<u8>,
    pub(super) entries: Vec<ContentEntry>,
}

/// A content of a checkpoint, by hash, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentEntry {
    pub(super) hash: ContentHash,
    pub(super) place: ContentPlace,
}

/// The place of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentPlace {
    /// A block at this offset of the same slot.
    Block(u64),
    /// A file among the objects.
    Object,
}

impl ContentPlace {
    /// The number on disk: the offset, or 0 for an object.
    fn to_number(self) -> u64 {
        match self {
            Self::Block(offset) => offset,
            Self::Object => 0,
        }
    }

    /// Reads the number on disk.
    fn from_number(number: u64) -> Self {
        if number == 0 { Self::Object } else { Self::Block(number) }
    }
}

/// The length of the fixed fields at the beginning of a frame.
pub(super) const FRAME_HEADER_BYTES: usize = 8 + 8 + 8 + 4 + 4 + CHECKSUM_BYTES;
/// The length of an entry.
pub(super) const ENTRY_BYTES: usize = 32 + 8;

/// Completes the bytes of a frame for the end of this slot: they begin with space for the frame header, followed by the body. Appends the
/// entries and fills in the frame header; `None` if the frame is too long.
pub(super) fn complete_frame(
    bytes: &mut Vec<u8>,
    header: &SlotHeader,
    size: u64,
    moment: i64,
    entries: &[ContentEntry],
) -> Option<()> {
    let body = u32::try_from(bytes.len().checked_sub(FRAME_HEADER_BYTES)?).ok()?;
    let count = u32::try_from(entries.len()).ok()?;
    bytes.reserve_exact(entries.len() * ENTRY_BYTES);
    for entry in entries {
        bytes.extend(entry.hash.as_bytes());
        bytes.extend(entry.place.to_number().to_le_bytes());
    }
    let mut frame_header = Vec::with_capacity(FRAME_HEADER_BYTES);
    frame_header.extend(size.to_le_bytes());
    frame_header.extend(header.serial.to_le_bytes());
    frame_header.extend(moment.to_le_bytes());
    frame_header.extend(body.to_le_bytes());
    frame_header.extend(count.to_le_bytes());
    let checksum = frame_check(
        header.generation,
        header.length,
        &frame_header,
        bytes.get(FRAME_HEADER_BYTES..)?,
    );
    frame_header.extend(checksum);
    bytes.get_mut(..FRAME_HEADER_BYTES)?.copy_from_slice(&frame_header);
    Some(())
}

/// The checksum of a frame, which covers its generation and offset too.
fn frame_check(
    generation: Generation,
    offset: u64,
    frame_header: &[u8],
    rest: &[u8],
) -> [u8; CHECKSUM_BYTES] {
    checksum(&[&generation, &offset.to_le_bytes(), frame_header, rest])
}

/// The id of a checkpoint: its generation plus its serial number.
fn checkpoint_id(generation: Generation, serial: u64) -> CheckpointId {
    (u128::from_le_bytes(generation).wrapping_add(u128::from(serial))).to_be_bytes()
}

/// The header of a block, whose bytes are a whole content, or a delta from the content of a base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHeader {
    /// The number of bytes after the header.
    pub(super) size: u64,
    pub(super) base: Option<(ContentEntry, SharedEnds)>,
}

/// The length of a block header.
pub(super) const BLOCK_HEADER_BYTES: usize = 8 + 8 + 32 + 8 + 8;

impl BlockHeader {
    /// No block can have this offset, so it means that there is no base.
    const NO_BASE: u64 = 1;

    /// Appends the bytes of the header.
    pub(super) fn add_to(&self, bytes: &mut Vec<u8>) {
        let (offset, hash, shared_ends) = match &self.base {
            Some((base, shared_ends)) => {
                (base.place.to_number(), *base.hash.as_bytes(), *shared_ends)
            }
            None => (Self::NO_BASE, [0; 32], SharedEnds { prefix: 0, suffix: 0 }),
        };
        bytes.extend(self.size.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.extend(hash);
        bytes.extend((shared_ends.prefix as u64).to_le_bytes());
        bytes.extend((shared_ends.suffix as u64).to_le_bytes());
    }

    /// Parses a header; `None` if writing it gives other bytes.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = FieldReader(bytes);
        let (size, offset) = (fields.number()?, fields.number()?);
        let hash = ContentHash::from_bytes(fields.take()?);
        let shared_ends = SharedEnds {
            prefix: usize::try_from(fields.number()?).ok()?,
            suffix: usize::try_from(fields.number()?).ok()?,
        };
        let base = (offset != Self::NO_BASE).then_some((
            ContentEntry { hash, place: ContentPlace::from_number(offset) },
            shared_ends,
        ));
        let block = Self { size, base };
        let mut written = Vec::with_capacity(BLOCK_HEADER_BYTES);
        block.add_to(&mut written);
        (written == bytes).then_some(block)
    }
}

/// The error for a damaged file.
pub(super) fn damaged(path: &Path, why: &str) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), why: why.to_owned() }
}

/// The error for a slot with a damaged header.
pub(super) fn damaged_header(path: &Path) -> StoreError {
    damaged(path, "its header does not match its checksum")
}

/// The fixed fields at the beginning of a frame.
pub(super) struct FrameHeader {
    offset: u64,
    pub(super) size: u64,
    pub(super) serial: u64,
    moment: i64,
    body: u32,
    entries: u32,
    checksum: [u8; CHECKSUM_BYTES],
}

impl FrameHeader {
    /// Parses the fields, without checking the checksum.
    pub(super) fn parse(offset: u64, bytes: &[u8]) -> Option<Self> {
        let mut fields = FieldReader(bytes);
        Some(Self {
            offset,
            size: fields.number()?,
            serial: fields.number()?,
            moment: i64::from_le_bytes(fields.take()?),
            body: u32::from_le_bytes(fields.take()?),
            entries: u32::from_le_bytes(fields.take()?),
            checksum: fields.take()?,
        })
    }

    /// The number of bytes that the checksum covers, with the frame header itself.
    pub(super) fn checked_size(&self) -> u64 {
        FRAME_HEADER_BYTES as u64
            + u64::from(self.body)
            + u64::from(self.entries) * ENTRY_BYTES as u64
    }

    /// Parses a frame; `None` if the checksum does not match.
    pub(super) fn frame(&self, generation: Generation, bytes: &[u8]) -> Option<Frame> {
        let (frame_header, rest) = bytes.split_at_checked(FRAME_HEADER_BYTES)?;
        let covered = frame_header.get(..FRAME_HEADER_BYTES - CHECKSUM_BYTES)?;
        if frame_check(generation, self.offset, covered, rest) != self.checksum {
            return None;
        }
        let (body, entries) = rest.split_at_checked(usize::try_from(self.body).ok()?)?;
        let entries = entries.chunks_exact(ENTRY_BYTES).map(parse_entry);
        Some(Frame {
            offset: self.offset,
            end: self.offset + self.size,
            id: checkpoint_id(generation, self.serial),
            serial: self.serial,
            moment: self.moment,
            body: body.to_vec(),
            entries: entries.collect::<Option<_>>()?,
        })
    }
}

/// Parses an entry.
fn parse_entry(bytes: &[u8]) -> Option<ContentEntry> {
    let mut fields = FieldReader(bytes);
    let hash = ContentHash::from_bytes(fields.take()?);
    Some(ContentEntry { hash, place: ContentPlace::from_number(fields.number()?) })
}

/// Empties a slot by a header with a new generation. The file keeps at most `kept` bytes, so that writing to it again does not wait for
/// file system metadata.
pub(super) fn empty_slot(slot: &File, kept: u64) -> io::Result<SlotHeader> {
    let header = SlotHeader::new()?;
    header.write(slot)?;
    if slot.metadata()?.len() > kept {
        slot.set_len(kept.max(SlotHeader::SIZE))?;
    }
    Ok(header)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const HEADER_HERE: SlotHeader =
        SlotHeader { generation: [7; 16], serial: 3, length: SlotHeader::SIZE };

    pub(in super::super) fn file_with(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    pub(in super::super) fn frame(entries: &[ContentEntry]) -> Vec<u8> {
        let mut bytes = vec![0; FRAME_HEADER_BYTES];
        bytes.extend(b"the body");
        let size = (bytes.len() + entries.len() * ENTRY_BYTES) as u64;
        complete_frame(&mut bytes, &HEADER_HERE, size, -5, entries).unwrap();
        bytes
    }

    pub(in super::super) fn entries() -> [ContentEntry; 2] {
        let entry = |text: &[u8], place| ContentEntry { hash: ContentHash::of(text), place };
        [entry(b"a", ContentPlace::Block(12)), entry(b"b", ContentPlace::Object)]
    }

    #[test]
    fn a_changed_or_cut_header_is_damaged() {
        assert_eq!(read_header(&file_with(b"")).unwrap(), HeaderState::Unused);
        let bytes = HEADER_HERE.bytes();
        assert_eq!(read_header(&file_with(&bytes)).unwrap(), HeaderState::At(HEADER_HERE));
        for at in 0..bytes.len() {
            let mut changed = bytes;
            changed[at] ^= 4;
            assert_eq!(read_header(&file_with(&changed)).unwrap(), HeaderState::Damaged, "{at}");
            if at > 0 {
                assert_eq!(
                    read_header(&file_with(&bytes[..at])).unwrap(),
                    HeaderState::Damaged,
                    "{at}"
                );
            }
        }
        let short = SlotHeader { length: SlotHeader::SIZE - 1, ..HEADER_HERE };
        assert_eq!(read_header(&file_with(&short.bytes())).unwrap(), HeaderState::Damaged);
    }

    #[test]
    fn the_bytes_of_a_slot_are_the_same_in_every_version() {
        let mut bytes = [&HEADER_HERE.bytes()[..], &frame(&entries())].concat();
        let base = (entries()[0], SharedEnds { prefix: 4, suffix: 9 });
        BlockHeader { size: 7, base: Some(base) }.add_to(&mut bytes);
        assert_eq!(
            blake3::hash(&bytes).to_hex().as_str(),
            "8f21676b57dbc030b61a4a02323bf41106007a1150e52cfc1ec0813f1c1e071e"
        );
    }

    #[test]
    fn ids_of_checkpoints_are_unique() {
        let ids: std::collections::HashSet<CheckpointId> = (0..100)
            .flat_map(|serial| [[1; 16], [255; 16]].map(|of| checkpoint_id(of, serial)))
            .collect();
        assert_eq!(ids.len(), 200);
    }

    #[test]
    fn blocks_come_back_as_they_were() {
        let base = (entries()[0], SharedEnds { prefix: 4, suffix: 9 });
        for block in
            [BlockHeader { size: 7, base: None }, BlockHeader { size: 0, base: Some(base) }]
        {
            let mut bytes = Vec::new();
            block.add_to(&mut bytes);
            assert_eq!(bytes.len(), BLOCK_HEADER_BYTES);
            assert_eq!(BlockHeader::parse(&bytes), Some(block));
            assert_eq!(BlockHeader::parse(&bytes[1..]), None);
        }
    }
}
