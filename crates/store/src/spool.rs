//! The spool of a writer: where its records are safe before they are in the database.
//!
//! Its owner alone writes to it, so writing takes no lock: one `pwrite` for all records that are at hand, and one for the head, a
//! small file beside it that says how far the spool is filled and what hash it has there. What is before the head was
//! acknowledged; what is missing of it is a loss. What is after it was never acknowledged: a kill between the two writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::StoreError;
use crate::frame::{Frame, Frames, Generation, Mark, generation_of, header};
use crate::head::read_start;
use crate::liveness::{Slot, Slots, open_to_write_if_allowed};

/// A spool as its owner has it.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(crate) slot: Slot,
    head: File,
    /// Where the next frame goes; nowhere yet if the spool is empty.
    end: Option<Mark>,
    /// Kept for its space.
    buffer: Vec<u8>,
}

impl Spool {
    /// More than this is not kept for the next records.
    const MAX_SPARE: usize = 1 << 20;

    /// Takes over the first spool that nobody has. One that is not as its head says is left to be drained.
    pub(crate) fn take(slots: &Slots) -> Result<Self, StoreError> {
        for number in 0..u32::MAX {
            let Some(slot) = slots.try_take(number)? else { continue };
            let path = slots.head(number);
            let head = open_head(&path).map_err(|why| StoreError::file("open", &path, why))?;
            let found = find_end(&slot.file, &head)
                .map_err(|why| StoreError::file("read", &slots.spool(number), why))?;
            if let Found::Continue(end) = found {
                return Ok(Self { slot, head, end, buffer: Vec::new() });
            }
        }
        Err(slots.exhausted())
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> u64 {
        self.end.map_or(0, |end| end.bytes)
    }

    /// Adds these frames, or none of them.
    pub(crate) fn append<'a>(&mut self, frames: impl Iterator<Item = Frame<'a>>) -> io::Result<()> {
        self.buffer.clear();
        let (place, begin) = match self.end {
            Some(end) => (end.bytes, end),
            None => (0, self.begin()?),
        };
        let end = frames.fold(begin, |mark, frame| frame.add_to(&mut self.buffer, mark));
        let written = self
            .slot
            .file
            .write_all_at(&self.buffer, place)
            .and_then(|()| write_head(&self.head, &end));
        if self.buffer.capacity() > Self::MAX_SPARE {
            self.buffer = Vec::new();
        }
        match written {
            Ok(()) => self.end = Some(end),
            // What there is of it is not acknowledged and will be written over; a disk without space is glad of each byte.
            Err(_) => drop(self.slot.file.set_len(place)),
        }
        written
    }

    /// Empties a spool that is drained up to this mark, if that is its end.
    pub(crate) fn empty_if_drained(&mut self, drained: Mark) {
        if self.end == Some(drained) && empty(&self.slot.file, Some(&self.head)).is_ok() {
            self.end = None;
        }
    }

    /// A new generation. The head goes first: frames without a head are a loss.
    fn begin(&mut self) -> io::Result<Mark> {
        let generation = new_generation()?;
        let begin = Mark::begin(generation);
        write_head(&self.head, &begin)?;
        self.buffer.extend(header(generation));
        Ok(begin)
    }
}

/// What a new owner finds.
enum Found {
    /// A spool in order, that ends here if it is not empty.
    Continue(Option<Mark>),
    /// Something that has to be drained first, because a loss has to be put on the record.
    Damaged,
}

fn find_end(spool: &File, head: &File) -> io::Result<Found> {
    let length = spool.metadata()?.len();
    Ok(match read_head(head)? {
        Head::Empty if length == 0 => Found::Continue(None),
        Head::At(mark) if !mark.has_frames() && length == 0 => Found::Continue(None),
        Head::At(mark) if mark.bytes == length && is_of(spool, mark)? => {
            Found::Continue(Some(mark))
        }
        Head::At(mark) if mark.bytes < length && is_of(spool, mark)? => {
            Found::Continue(Some(end_beyond(spool, mark, length)?))
        }
        _ => Found::Damaged,
    })
}

fn is_of(spool: &File, mark: Mark) -> io::Result<bool> {
    let start = read_from(spool, 0, Mark::HEADER)?;
    Ok(generation_of(&start) == Some(mark.generation))
}

/// The former owner was killed between two writes: whole frames stay, part of one goes.
fn end_beyond(spool: &File, mark: Mark, length: u64) -> io::Result<Mark> {
    let rest = read_from(spool, mark.bytes, length)?;
    let mut frames = Frames::after(mark, &rest);
    frames.by_ref().for_each(drop);
    spool.set_len(frames.mark.bytes)?;
    Ok(frames.mark)
}

/// Makes a spool as if it had never been used. The head goes last: frames without a head are a loss.
pub(crate) fn empty(spool: &File, head: Option<&File>) -> io::Result<()> {
    let Some(head) = head else { return spool.set_len(0) };
    head.try_lock()?;
    let emptied = spool.set_len(0).and_then(|()| head.set_len(0));
    head.unlock()?;
    emptied
}

/// Overwrites what is drained: the owner only writes after it, and nobody reads before. The lock keeps the spool from being
/// emptied meanwhile, and filled with something else.
pub(crate) fn wipe(spool: &File, head: &File, drained: Mark) -> io::Result<()> {
    head.lock()?;
    let wiped = if is_of(spool, drained)? { fill_with_zeros(spool, drained.bytes) } else { Ok(()) };
    head.unlock()?;
    wiped
}

fn fill_with_zeros(spool: &File, end: u64) -> io::Result<()> {
    let zeros = [0; 4096];
    let end = end.min(spool.metadata()?.len());
    let mut at = Mark::HEADER;
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(zeros.len()).min(zeros.len());
        spool.write_all_at(zeros.get(..length).unwrap_or_default(), at)?;
        at += length as u64;
    }
    Ok(())
}

/// The bytes of a spool between two places, as far as there are any.
pub(crate) fn read_from(spool: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    let read = read_up_to(spool, &mut bytes, from)?;
    bytes.truncate(read);
    Ok(bytes)
}

pub(crate) fn read_up_to(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<usize> {
    let mut total = 0;
    while !buffer.is_empty() {
        match file.read_at(buffer, at) {
            Ok(0) => break,
            Ok(read) => {
                buffer = buffer.get_mut(read..).unwrap_or_default();
                at += read as u64;
                total += read;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(total)
}

/// What the head of a spool says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// There is none, or it says nothing: the spool was never used, or emptied.
    Empty,
    /// The spool reaches at least this place.
    At(Mark),
    /// It is not one that we wrote.
    Unreadable,
}

/// Generation, place and hash, and a checksum: so that a head read while it is written is not believed.
const HEAD: usize = 16 + 8 + 32 + 8;

pub(crate) fn open_head(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The head of a spool that may never have been used, or that may not be written.
pub(crate) fn open_head_if_there(path: &Path) -> io::Result<Option<File>> {
    match open_to_write_if_allowed(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// What the head at this path says, for those who only look.
pub(crate) fn look_at_head(path: &Path) -> io::Result<Head> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Head::Empty),
        opened => read_head(&opened?),
    }
}

pub(crate) fn write_head(head: &File, mark: &Mark) -> io::Result<()> {
    head.write_all_at(&head_bytes(mark), 0)
}

pub(crate) fn read_head(head: &File) -> io::Result<Head> {
    let mut bytes = [0; HEAD + 1];
    let length = read_start(head, &mut bytes)?;
    Ok(match bytes.get(..length).unwrap_or_default() {
        [] => Head::Empty,
        bytes => parse_head(bytes).map_or(Head::Unreadable, Head::At),
    })
}

fn head_bytes(mark: &Mark) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    let parts: [&[u8]; 3] = [&mark.generation, &mark.bytes.to_le_bytes(), &mark.hash];
    let mut rest = bytes.as_mut_slice();
    for part in parts.into_iter().chain([checksum(&parts).as_slice()]) {
        let (place, after) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = after;
    }
    bytes
}

fn parse_head(bytes: &[u8]) -> Option<Mark> {
    let (generation, rest) = bytes.split_first_chunk()?;
    let (place, rest) = rest.split_first_chunk()?;
    let (hash, _) = rest.split_first_chunk()?;
    let mark = Mark { generation: *generation, bytes: u64::from_le_bytes(*place), hash: *hash };
    (head_bytes(&mark) == bytes).then_some(mark)
}

fn checksum(parts: &[&[u8]]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut sum = [0; 8];
    hasher.finalize_xof().fill(&mut sum);
    sum
}

fn new_generation() -> io::Result<Generation> {
    let mut generation = [0; 16];
    // So few bytes are given at once or not at all.
    getrandom(&mut generation, GetRandomFlags::empty())?;
    Ok(generation)
}

/// Which files a spool has.
impl Slots {
    pub(crate) fn spool(&self, number: u32) -> PathBuf {
        self.dir().join(number.to_string())
    }

    pub(crate) fn head(&self, number: u32) -> PathBuf {
        self.dir().join(format!("{number}.head"))
    }
}
