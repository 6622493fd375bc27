//! Reading a slot: frames, and the contents that their entries name.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use windlass_core::{self as core, ContentHash};

use super::objects::Objects;
use super::slot::{
    BLOCK, Block, Entry, Found, Frame, Generation, Header, PRELUDE, Place, Prelude, damaged,
    damaged_header, read_header,
};
use crate::StoreError;
use crate::liveness::Slots;
use crate::spool::{read_from, read_up_to};

/// A slot as it is found.
pub(super) enum Opened {
    /// It was never used, or somebody has just set it aside.
    Nothing,
    Filled(File, Header),
    Damaged(StoreError),
}

pub(super) fn open_slot(path: &Path) -> Result<Opened, StoreError> {
    match File::open(path).and_then(|slot| Ok((read_header(&slot)?, slot))) {
        Ok((Found::Nothing, _)) => Ok(Opened::Nothing),
        Ok((Found::At(header), slot)) => Ok(Opened::Filled(slot, header)),
        Ok((Found::Damaged, _)) => Ok(Opened::Damaged(damaged_header(path))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Opened::Nothing),
        Err(why) => Err(StoreError::file("read", path, why)),
    }
}

/// A slot as somebody reads it, up to an end before which nothing changes any more.
#[derive(Debug)]
pub(super) struct View<'a> {
    slot: &'a File,
    path: &'a Path,
    generation: Generation,
    end: u64,
    /// How much is read at once.
    ahead: u64,
    /// What was read last, and from where.
    window: Vec<u8>,
    window_at: u64,
    /// The content that was made last, and the place of its block: often it is the base of the next.
    last: Option<(u64, Vec<u8>)>,
}

impl<'a> View<'a> {
    /// So much is read at once, so that small frames do not cost a system call each.
    const MANY_FRAMES: u64 = 256 << 10;
    /// So much, if there is one frame at most.
    const ONE_FRAME: u64 = 4 << 10;
    /// No frame that we write has more before its blocks.
    const MAX_META: u64 = 1 << 30;

    pub(super) fn new(slot: &'a File, path: &'a Path, generation: Generation, end: u64) -> Self {
        let ahead = Self::MANY_FRAMES;
        Self { slot, path, generation, end, ahead, window: Vec::new(), window_at: 0, last: None }
    }

    /// A view for one content: nothing is read ahead.
    pub(super) fn of_one(slot: &'a File, path: &'a Path, generation: Generation, end: u64) -> Self {
        Self { ahead: Self::ONE_FRAME, ..Self::new(slot, path, generation, end) }
    }

    /// A view that ends with the file: also for what may follow after the length.
    pub(super) fn whole(slot: &'a File, path: &'a Path, header: &Header) -> io::Result<Self> {
        Ok(Self::new(slot, path, header.generation, slot.metadata()?.len()))
    }

    /// The frame at this place, if there is one.
    pub(super) fn frame(&mut self, place: u64) -> io::Result<Option<Frame>> {
        let generation = self.generation;
        let Some((prelude, meta)) = self.prelude(place)? else { return Ok(None) };
        let Some(bytes) = self.bytes(place, meta)? else { return Ok(None) };
        let frame = prelude.frame(generation, bytes);
        if meta > Self::MANY_FRAMES {
            // It is in the frame now, and takes as much space again here.
            self.window = Vec::new();
        }
        Ok(frame)
    }

    fn prelude(&mut self, place: u64) -> io::Result<Option<(Prelude, u64)>> {
        let end = self.end;
        let Some(bytes) = self.bytes(place, PRELUDE as u64)? else { return Ok(None) };
        let Some(prelude) = Prelude::parse(place, bytes) else { return Ok(None) };
        let meta = prelude.meta();
        let fits = meta <= Self::MAX_META
            && meta <= prelude.size
            && place.checked_add(prelude.size).is_some_and(|after| after <= end);
        Ok(fits.then_some((prelude, meta)))
    }

    /// Opens the content of an entry, which is what its hash says.
    pub(super) fn open(
        &mut self,
        entry: &Entry,
        objects: &Objects,
    ) -> Result<core::Opened, StoreError> {
        match entry.place {
            Place::Block(_) => self.content(entry, objects).map(core::Opened::Bytes),
            Place::Object => objects.open(&entry.hash),
        }
    }

    /// The content of an entry, which is what its hash says.
    pub(super) fn content(
        &mut self,
        entry: &Entry,
        objects: &Objects,
    ) -> Result<Vec<u8>, StoreError> {
        let bytes = self.make(entry, objects)?;
        if ContentHash::of(&bytes) == entry.hash {
            return Ok(bytes);
        }
        Err(match entry.place {
            Place::Block(place) => self.damaged(place),
            Place::Object => objects.damaged(&entry.hash),
        })
    }

    /// Goes down to a content that is whole, or known, and up again.
    fn make(&mut self, entry: &Entry, objects: &Objects) -> Result<Vec<u8>, StoreError> {
        let mut deltas = Vec::new();
        let mut at = *entry;
        let mut bytes = loop {
            let place = match at.place {
                Place::Object => break objects.read(&at.hash)?,
                Place::Block(place) => place,
            };
            if let Some((_, bytes)) = self.last.take_if(|(last, _)| *last == place) {
                break bytes;
            }
            let (block, bytes) = self.block(place)?;
            match block.base {
                None => break bytes,
                Some((base, common)) => {
                    // A block comes after its base, so this ends.
                    if matches!(base.place, Place::Block(below) if below >= place) {
                        return Err(self.damaged(place));
                    }
                    deltas.push((place, common, bytes));
                    at = base;
                }
            }
        };
        while let Some((place, common, middle)) = deltas.pop() {
            bytes = common.apply(&bytes, &middle).ok_or_else(|| self.damaged(place))?;
        }
        if let Place::Block(place) = entry.place {
            self.last = Some((place, bytes.clone()));
        }
        Ok(bytes)
    }

    /// A block and its bytes.
    pub(super) fn block(&mut self, place: u64) -> Result<(Block, Vec<u8>), StoreError> {
        let path = self.path;
        let failed = |why| StoreError::file("read", path, why);
        let head = self.bytes(place, BLOCK as u64).map_err(failed)?;
        let Some(block) = head.and_then(Block::parse) else { return Err(self.damaged(place)) };
        let after = place.saturating_add(BLOCK as u64);
        match self.bytes(after, block.size).map_err(failed)? {
            Some(bytes) => Ok((block, bytes.to_vec())),
            None => Err(self.damaged(place)),
        }
    }

    pub(super) fn failed(&self, why: io::Error) -> StoreError {
        StoreError::file("read", self.path, why)
    }

    pub(super) fn damaged(&self, place: u64) -> StoreError {
        damaged(self.path, &format!("what stands at byte {place} is not what was written there"))
    }

    /// Bytes before the end.
    fn bytes(&mut self, place: u64, size: u64) -> io::Result<Option<&[u8]>> {
        let Some(after) = place.checked_add(size).filter(|after| *after <= self.end) else {
            return Ok(None);
        };
        let window_end = self.window_at + self.window.len() as u64;
        if place < self.window_at || after > window_end {
            let to = after.max(place.saturating_add(self.ahead)).min(self.end);
            self.window = read_from(self.slot, place, to)?;
            self.window_at = place;
        }
        let begin = usize::try_from(place - self.window_at).map_err(io::Error::other)?;
        let size = usize::try_from(size).map_err(io::Error::other)?;
        Ok(self.window.get(begin..).and_then(|bytes| bytes.get(..size)))
    }
}

/// The checkpoint that is under way according to a header. Whether there is one is asked by everybody who starts, so it takes one
/// read if not.
pub(super) fn open_frame(slot: &File, path: &Path, header: &Header) -> io::Result<Option<Frame>> {
    let mut start = [0; PRELUDE];
    let read = read_up_to(slot, &mut start, header.length)?;
    match start.get(..read).and_then(|bytes| Prelude::parse(header.length, bytes)) {
        Some(prelude) if prelude.serial == header.serial => {
            let mut view = View { ahead: View::ONE_FRAME, ..View::whole(slot, path, header)? };
            view.frame(header.length)
        }
        _ => Ok(None),
    }
}

/// Gives a damaged slot another name, unless its owner lives or something in it is to be put right first; the error then names
/// that. All that was in order is drained.
pub(super) fn set_aside(slots: &Slots, number: u32, error: StoreError) -> StoreError {
    let StoreError::Damaged { path, why } = error else { return error };
    let aside = try_to_set_aside(slots, number).ok().flatten();
    StoreError::Damaged { path: aside.unwrap_or(path), why }
}

fn try_to_set_aside(slots: &Slots, number: u32) -> Result<Option<PathBuf>, StoreError> {
    let path = slots.spool(number);
    let failed = |why| StoreError::file("set aside", &path, why);
    let Some(slot) = slots.try_take(number)? else { return Ok(None) };
    if let Found::At(header) = read_header(&slot.file).map_err(failed)?
        && open_frame(&slot.file, &path, &header).map_err(failed)?.is_some()
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
    fn a_frame_is_under_way_at_its_place_with_its_number_in_its_generation_alone() {
        let bytes = [HEADER_HERE.bytes().as_slice(), &frame(&entries())].concat();
        let file = file_with(&bytes);
        let path = Path::new("slot");
        let found = open_frame(&file, path, &HEADER_HERE).unwrap().unwrap();
        assert_eq!((found.body.as_slice(), found.moment), (b"the body".as_slice(), -5));
        assert_eq!((found.entries, found.end), (entries().to_vec(), bytes.len() as u64));
        let others = [
            Header { generation: [8; 16], ..HEADER_HERE },
            Header { serial: 2, ..HEADER_HERE },
            Header { serial: 4, ..HEADER_HERE },
            Header { length: HEADER_HERE.length + 1, ..HEADER_HERE },
            Header { length: bytes.len() as u64, ..HEADER_HERE },
        ];
        for header in others {
            assert_eq!(open_frame(&file, path, &header).unwrap(), None, "{header:?}");
        }
    }
}
