//! A slot: the file in which a writer puts a checkpoint before the change is made, and how it is read.
//!
//! ```text
//! slot    "windlass undo 1\n"  generation (16)  serial (8)  length (8)  check (16)      frame ...
//! frame   size (8)  serial (8)  moment (8)  size of the body (4)  entries (4)  check (16)  body  entry ...  block ...
//! entry   hash of the content (32)  place of its block (8), 0 for a file among the objects
//! block   size (8)  base: place (8) and hash (32)  same at the front (8)  same at the back (8)  bytes
//! ```
//!
//! The header says up to where the slot holds finished checkpoints and which serial number comes next. A frame of just this number
//! at just this place is a checkpoint whose change is under way. So beginning one is one write of the frame, and ending it one
//! write of the header: with the length after the frame if the change was made, with the old length if not. Anything else after
//! the length means nothing: it was torn, taken back, or is of an earlier filling.
//!
//! A frame is covered by its check up to the first block; a block by the hash of the content that it makes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};
use windlass_core::ContentHash;

use super::delta::Common;
use crate::StoreError;
use crate::spool::read_up_to;

const MAGIC: &[u8; 16] = b"windlass undo 1\n";
const CHECK: usize = 16;
const HEADER: usize = 16 + 16 + 8 + 8 + CHECK;

pub(super) type Generation = [u8; 16];

/// Names a checkpoint, among all that there ever are.
pub(super) type Id = [u8; 16];

/// Up to where a slot is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Random, and another whenever the slot is emptied.
    pub(super) generation: Generation,
    /// Of the next checkpoint. Those that were abandoned count.
    pub(super) serial: u64,
    /// Where the next frame goes.
    pub(super) length: u64,
}

impl Header {
    pub(super) const SIZE: u64 = HEADER as u64;

    /// That of a slot without checkpoints.
    pub(super) fn new() -> io::Result<Self> {
        let mut generation = [0; 16];
        // So few bytes are given at once or not at all.
        getrandom(&mut generation, GetRandomFlags::empty())?;
        Ok(Self { generation, serial: 0, length: Self::SIZE })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == Self::SIZE
    }

    pub(super) fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let parts: [&[u8]; 4] =
            [MAGIC, &self.generation, &self.serial.to_le_bytes(), &self.length.to_le_bytes()];
        let check = check(&parts);
        let mut rest = bytes.as_mut_slice();
        for part in parts.into_iter().chain([check.as_slice()]) {
            let (place, after) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = after;
        }
        bytes
    }

    pub(super) fn write(&self, slot: &File) -> io::Result<()> {
        slot.write_all_at(&self.bytes(), 0)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes.strip_prefix(MAGIC)?);
        let header =
            Self { generation: fields.take()?, serial: fields.number()?, length: fields.number()? };
        (header.bytes() == bytes && header.length >= Self::SIZE).then_some(header)
    }
}

/// What the header of a slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The slot was never used.
    Nothing,
    At(Header),
    /// It is not one that we wrote.
    Damaged,
}

/// Reads the header; more than once if it makes no sense, because its owner may be writing it at this moment.
pub(super) fn read_header(slot: &File) -> io::Result<Found> {
    const ATTEMPTS: u32 = 50;
    for _ in 0..ATTEMPTS {
        let mut bytes = [0; HEADER];
        match read_up_to(slot, &mut bytes, 0)? {
            0 => return Ok(Found::Nothing),
            _ => match Header::parse(&bytes) {
                Some(header) => return Ok(Found::At(header)),
                None => std::thread::yield_now(),
            },
        }
    }
    Ok(Found::Damaged)
}

/// The part of a frame that its check covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) place: u64,
    /// Where the next begins.
    pub(super) end: u64,
    pub(super) id: Id,
    pub(super) serial: u64,
    /// By which checkpoints are put in order.
    pub(super) moment: i64,
    /// What was done and by whom.
    pub(super) body: Vec<u8>,
    pub(super) entries: Vec<Entry>,
}

/// Where a content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) hash: ContentHash,
    pub(super) place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A block of the same slot.
    Block(u64),
    /// A file of its own.
    Object,
}

impl Place {
    fn to_number(self) -> u64 {
        match self {
            Self::Block(place) => place,
            Self::Object => 0,
        }
    }

    fn from_number(number: u64) -> Self {
        if number == 0 { Self::Object } else { Self::Block(number) }
    }
}

/// What a frame says before its blocks.
pub(super) const PRELUDE: usize = 8 + 8 + 8 + 4 + 4 + CHECK;
pub(super) const ENTRY: usize = 32 + 8;

/// Completes a frame for this place: `bytes` begin with space for the prelude and then have the body.
pub(super) fn complete(
    bytes: &mut Vec<u8>,
    header: &Header,
    size: u64,
    moment: i64,
    entries: &[Entry],
) -> Option<()> {
    let body = u32::try_from(bytes.len().checked_sub(PRELUDE)?).ok()?;
    let count = u32::try_from(entries.len()).ok()?;
    bytes.reserve_exact(entries.len() * ENTRY);
    for entry in entries {
        bytes.extend(entry.hash.as_bytes());
        bytes.extend(entry.place.to_number().to_le_bytes());
    }
    let mut prelude = Vec::with_capacity(PRELUDE);
    prelude.extend(size.to_le_bytes());
    prelude.extend(header.serial.to_le_bytes());
    prelude.extend(moment.to_le_bytes());
    prelude.extend(body.to_le_bytes());
    prelude.extend(count.to_le_bytes());
    let check = frame_check(header.generation, header.length, &prelude, bytes.get(PRELUDE..)?);
    prelude.extend(check);
    bytes.get_mut(..PRELUDE)?.copy_from_slice(&prelude);
    Some(())
}

fn frame_check(generation: Generation, place: u64, prelude: &[u8], rest: &[u8]) -> [u8; CHECK] {
    check(&[&generation, &place.to_le_bytes(), prelude, rest])
}

fn id_of(generation: Generation, serial: u64) -> Id {
    (u128::from_le_bytes(generation).wrapping_add(u128::from(serial))).to_be_bytes()
}

/// A content, or how it differs from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// How many bytes follow.
    pub(super) size: u64,
    pub(super) base: Option<(Entry, Common)>,
}

pub(super) const BLOCK: usize = 8 + 8 + 32 + 8 + 8;

impl Block {
    /// There is no block at the place of the header, so this can mean that there is no base.
    const NO_BASE: u64 = 1;

    pub(super) fn add_to(&self, bytes: &mut Vec<u8>) {
        let (place, hash, common) = match &self.base {
            Some((base, common)) => (base.place.to_number(), *base.hash.as_bytes(), *common),
            None => (Self::NO_BASE, [0; 32], Common { prefix: 0, suffix: 0 }),
        };
        bytes.extend(self.size.to_le_bytes());
        bytes.extend(place.to_le_bytes());
        bytes.extend(hash);
        bytes.extend((common.prefix as u64).to_le_bytes());
        bytes.extend((common.suffix as u64).to_le_bytes());
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (size, place) = (fields.number()?, fields.number()?);
        let hash = ContentHash::from_bytes(fields.take()?);
        let common = Common {
            prefix: usize::try_from(fields.number()?).ok()?,
            suffix: usize::try_from(fields.number()?).ok()?,
        };
        let base = (place != Self::NO_BASE)
            .then_some((Entry { hash, place: Place::from_number(place) }, common));
        let block = Self { size, base };
        let mut written = Vec::with_capacity(BLOCK);
        block.add_to(&mut written);
        (written == bytes).then_some(block)
    }
}

pub(super) fn damaged(path: &Path, why: &str) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), why: why.to_owned() }
}

pub(super) fn damaged_header(path: &Path) -> StoreError {
    damaged(path, "it does not begin as it was written")
}

/// The first fields of a frame.
pub(super) struct Prelude {
    place: u64,
    pub(super) size: u64,
    pub(super) serial: u64,
    moment: i64,
    body: u32,
    entries: u32,
    check: [u8; CHECK],
}

impl Prelude {
    pub(super) fn parse(place: u64, bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            place,
            size: fields.number()?,
            serial: fields.number()?,
            moment: i64::from_le_bytes(fields.take()?),
            body: u32::from_le_bytes(fields.take()?),
            entries: u32::from_le_bytes(fields.take()?),
            check: fields.take()?,
        })
    }

    /// How much the check covers, with the prelude itself.
    pub(super) fn meta(&self) -> u64 {
        PRELUDE as u64 + u64::from(self.body) + u64::from(self.entries) * ENTRY as u64
    }

    /// The frame that these bytes are, if they are as they were written.
    pub(super) fn frame(&self, generation: Generation, bytes: &[u8]) -> Option<Frame> {
        let (prelude, rest) = bytes.split_at_checked(PRELUDE)?;
        let covered = prelude.get(..PRELUDE - CHECK)?;
        if frame_check(generation, self.place, covered, rest) != self.check {
            return None;
        }
        let (body, entries) = rest.split_at_checked(usize::try_from(self.body).ok()?)?;
        let entries = entries.chunks_exact(ENTRY).map(parse_entry);
        Some(Frame {
            place: self.place,
            end: self.place + self.size,
            id: id_of(generation, self.serial),
            serial: self.serial,
            moment: self.moment,
            body: body.to_vec(),
            entries: entries.collect::<Option<_>>()?,
        })
    }
}

fn parse_entry(bytes: &[u8]) -> Option<Entry> {
    let mut fields = Fields(bytes);
    let hash = ContentHash::from_bytes(fields.take()?);
    Some(Entry { hash, place: Place::from_number(fields.number()?) })
}

fn check(parts: &[&[u8]]) -> [u8; CHECK] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut check = [0; CHECK];
    hasher.finalize_xof().fill(&mut check);
    check
}

/// Fields of fixed size.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn take<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

/// Makes a slot as if it had never been used, but for some space that is kept: writing to it again does not wait for the file
/// system's own records.
pub(super) fn empty(slot: &File, kept: u64) -> io::Result<Header> {
    let header = Header::new()?;
    header.write(slot)?;
    if slot.metadata()?.len() > kept {
        slot.set_len(kept.max(Header::SIZE))?;
    }
    Ok(header)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const HEADER_HERE: Header =
        Header { generation: [7; 16], serial: 3, length: Header::SIZE };

    pub(in super::super) fn file_with(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    pub(in super::super) fn frame(entries: &[Entry]) -> Vec<u8> {
        let mut bytes = vec![0; PRELUDE];
        bytes.extend(b"the body");
        let size = (bytes.len() + entries.len() * ENTRY) as u64;
        complete(&mut bytes, &HEADER_HERE, size, -5, entries).unwrap();
        bytes
    }

    pub(in super::super) fn entries() -> [Entry; 2] {
        let entry = |text: &[u8], place| Entry { hash: ContentHash::of(text), place };
        [entry(b"a", Place::Block(12)), entry(b"b", Place::Object)]
    }

    #[test]
    fn a_header_is_read_as_it_was_written_or_not_at_all() {
        assert_eq!(read_header(&file_with(b"")).unwrap(), Found::Nothing);
        let bytes = HEADER_HERE.bytes();
        assert_eq!(read_header(&file_with(&bytes)).unwrap(), Found::At(HEADER_HERE));
        for at in 0..bytes.len() {
            let mut changed = bytes;
            changed[at] ^= 4;
            assert_eq!(read_header(&file_with(&changed)).unwrap(), Found::Damaged, "{at}");
            if at > 0 {
                assert_eq!(read_header(&file_with(&bytes[..at])).unwrap(), Found::Damaged, "{at}");
            }
        }
        let short = Header { length: Header::SIZE - 1, ..HEADER_HERE };
        assert_eq!(read_header(&file_with(&short.bytes())).unwrap(), Found::Damaged);
    }

    #[test]
    fn ids_are_of_one_checkpoint_each() {
        let ids: std::collections::HashSet<Id> =
            (0..100).flat_map(|serial| [[1; 16], [255; 16]].map(|of| id_of(of, serial))).collect();
        assert_eq!(ids.len(), 200);
    }

    #[test]
    fn blocks_come_back_as_they_were() {
        let base = (entries()[0], Common { prefix: 4, suffix: 9 });
        for block in [Block { size: 7, base: None }, Block { size: 0, base: Some(base) }] {
            let mut bytes = Vec::new();
            block.add_to(&mut bytes);
            assert_eq!(bytes.len(), BLOCK);
            assert_eq!(Block::parse(&bytes), Some(block));
            assert_eq!(Block::parse(&bytes[1..]), None);
        }
    }
}
