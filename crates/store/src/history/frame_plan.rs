//! The plan of a frame: the form and the place of each content.
//!
//! A content with a known hash is not written again; one that is similar to another is written as a delta; a large one gets a file.
//! Contents are read twice, to choose their form and to write them, so that at most two of them are in memory at once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io;

use windlass_core::{ContentHash, ContentSource, NewCheckpoint, NewContent};

use super::delta::SharedEnds;
use super::encoding::encode;
use super::objects::{Objects, changed_meanwhile};
use super::slot::{
    BLOCK_HEADER_BYTES, BlockHeader, ContentEntry, ContentPlace, ENTRY_BYTES, FRAME_HEADER_BYTES,
    SlotHeader, complete_frame,
};
use crate::StoreError;

/// The most deltas between a content and a whole one.
pub(super) const MAX_DEPTH: u32 = 16;

/// A content that is already in the slot, or among the objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) place: ContentPlace,
    /// The number of deltas between it and a whole content.
    pub(super) depth: u32,
}

/// The plan of a frame.
pub(super) struct FramePlan<'a> {
    /// Space for the frame header, then the body; in the end all bytes before the blocks.
    pub(super) buffer: Vec<u8>,
    new: &'a [NewContent<'a>],
    /// The form of each content.
    planned: Vec<PlannedContent>,
    /// The number of each content that can be the base of a delta, by hash.
    numbers: HashMap<ContentHash, usize>,
    /// The content that was read last, which is often the base of the next.
    last_read: Option<(usize, Cow<'a, [u8]>)>,
}

/// The form in which a content of a frame is written.
#[derive(Debug, Clone, Copy)]
enum PlannedContent {
    /// It is already in the slot or among the objects.
    Known(Known),
    /// As a block with all its bytes.
    Whole { length: usize },
    /// As a delta from the content with this number.
    Delta { base: usize, depth: u32, shared_ends: SharedEnds, length: usize },
    /// As a file among the objects.
    Large,
}

impl PlannedContent {
    /// Returns whether this content is long enough to be the base of a delta.
    fn can_be_base(&self) -> bool {
        match self {
            Self::Known(_) | Self::Large => true,
            Self::Whole { length } | Self::Delta { length, .. } => {
                *length >= FramePlan::MIN_DELTA_BYTES / 4 * 3
            }
        }
    }
}

/// The places of the contents of a frame, whose blocks follow the buffer.
pub(super) struct FrameLayout {
    entries: Vec<ContentEntry>,
    /// The offset after the frame.
    pub(super) end: u64,
    /// The bytes written to object files.
    pub(super) object_bytes: u64,
}

/// A block to write, and the part of a content that it holds.
#[derive(Clone, Copy)]
pub(super) struct PlannedBlock {
    pub(super) header: BlockHeader,
    content: usize,
    shared_ends: SharedEnds,
}

/// The shared ends of a whole content.
const NO_SHARED_ENDS: SharedEnds = SharedEnds { prefix: 0, suffix: 0 };

impl<'a> FramePlan<'a> {
    /// Shorter contents are not written as deltas.
    const MIN_DELTA_BYTES: usize = 4 << 10;

    /// Plans a frame for a slot in which these contents are known. `buffer` is reused for its allocation.
    pub(super) fn new(
        new: &'a NewCheckpoint<'a>,
        known: &HashMap<ContentHash, Known>,
        large: u64,
        mut buffer: Vec<u8>,
    ) -> io::Result<Self> {
        buffer.clear();
        buffer.resize(FRAME_HEADER_BYTES, 0);
        encode(&mut buffer, new.origin, new.changes, new.without_history);
        let count = new.contents.len();
        let mut plan = Self {
            buffer,
            new: new.contents,
            planned: Vec::with_capacity(count),
            numbers: HashMap::new(),
            last_read: None,
        };
        for (number, content) in new.contents.iter().enumerate() {
            let planned_content = match known.get(&content.hash) {
                Some(known) => PlannedContent::Known(*known),
                None => plan.plan_content(number, content, large)?,
            };
            plan.planned.push(planned_content);
            if planned_content.can_be_base() {
                plan.numbers.insert(content.hash, number);
            }
        }
        Ok(plan)
    }

    /// Chooses the form of a content that is not known.
    fn plan_content(
        &mut self,
        number: usize,
        content: &NewContent<'a>,
        large: u64,
    ) -> io::Result<PlannedContent> {
        let length = content.source.length()?;
        // A large content that is in memory may still become a short delta.
        let is_in_memory = matches!(content.source, ContentSource::Bytes(_));
        if length > large && !is_in_memory {
            return Ok(PlannedContent::Large);
        }
        let (Some((base, depth)), true) =
            (self.base(content, large)?, length >= Self::MIN_DELTA_BYTES as u64)
        else {
            return Ok(whole_or_large(length, large));
        };
        let bytes = self.read(number)?;
        let shared_ends = SharedEnds::of(&self.read(base)?, &bytes);
        self.last_read = Some((number, bytes.clone()));
        let size = shared_ends.middle(&bytes).len();
        let is_small_enough = size <= bytes.len() / 4 && size as u64 <= large;
        Ok(if is_small_enough {
            PlannedContent::Delta { base, depth, shared_ends, length: bytes.len() }
        } else {
            whole_or_large(bytes.len() as u64, large)
        })
    }

    /// The number of the base for a delta of this content, and the depth of that delta; `None` if there is no usable base.
    fn base(&self, content: &NewContent<'a>, large: u64) -> io::Result<Option<(usize, u32)>> {
        let Some(number) = content.base.and_then(|base| self.numbers.get(&base).copied()) else {
            return Ok(None);
        };
        let (Some(base), Some(planned_content)) = (self.new.get(number), self.planned.get(number))
        else {
            return Ok(None);
        };
        let depth = match planned_content {
            PlannedContent::Known(known) => known.depth,
            PlannedContent::Whole { .. } | PlannedContent::Large => 0,
            PlannedContent::Delta { depth, .. } => *depth,
        } + 1;
        let is_in_memory = matches!(base.source, ContentSource::Bytes(_));
        let can_be_read = is_in_memory || base.source.length()? <= large;
        Ok((can_be_read && depth <= MAX_DEPTH).then_some((number, depth)))
    }

    /// Reads a content that is not large; fails if its hash does not match, because the file was changed meanwhile.
    fn read(&self, number: usize) -> io::Result<Cow<'a, [u8]>> {
        if let Some((_, bytes)) =
            self.last_read.as_ref().filter(|(last_read, _)| *last_read == number)
        {
            return Ok(bytes.clone());
        }
        let content = self.new.get(number).ok_or_else(changed_meanwhile)?;
        let bytes = content.source.read()?;
        let is_in_memory = matches!(content.source, ContentSource::Bytes(_));
        if is_in_memory || ContentHash::of(&bytes) == content.hash {
            Ok(bytes)
        } else {
            Err(changed_meanwhile())
        }
    }

    /// The space that the frame adds to the history.
    pub(super) fn space(&self) -> u64 {
        let space =
            |(new, planned_content): (&NewContent<'a>, &PlannedContent)| match planned_content {
                PlannedContent::Known(_) => 0,
                PlannedContent::Whole { length } => *length as u64,
                PlannedContent::Delta { shared_ends, length, .. } => {
                    length.saturating_sub(shared_ends.prefix + shared_ends.suffix) as u64
                }
                PlannedContent::Large => new.source.space().unwrap_or(0),
            };
        self.new.iter().zip(&self.planned).map(space).sum()
    }

    /// Writes the object files of large contents; returns the lock that keeps them from being removed.
    pub(super) fn keep_objects(&self, objects: &Objects) -> Result<Option<File>, StoreError> {
        let is_object = |planned_content: &PlannedContent| {
            matches!(
                planned_content,
                PlannedContent::Large
                    | PlannedContent::Known(Known { place: ContentPlace::Object, .. })
            )
        };
        if !self.planned.iter().any(is_object) {
            return Ok(None);
        }
        let lock = objects.lock()?;
        for (content, planned_content) in self.new.iter().zip(&self.planned) {
            if is_object(planned_content) {
                // The file of a known content may have been removed meanwhile.
                objects.keep(&content.hash, content.source)?;
            }
        }
        Ok(Some(lock))
    }

    /// Gives each content its place and completes the buffer.
    pub(super) fn lay_out(&mut self, header: &SlotHeader, moment: i64) -> Option<FrameLayout> {
        let mut at = header.length + (self.buffer.len() + self.planned.len() * ENTRY_BYTES) as u64;
        let mut entries: Vec<ContentEntry> = Vec::with_capacity(self.planned.len());
        let mut object_bytes = 0;
        for (content, planned_content) in self.new.iter().zip(&self.planned) {
            let place = match *planned_content {
                PlannedContent::Known(known) => known.place,
                PlannedContent::Large => {
                    object_bytes += content.source.space().unwrap_or(0);
                    ContentPlace::Object
                }
                PlannedContent::Whole { length } => next_place(&mut at, length, NO_SHARED_ENDS)?,
                PlannedContent::Delta { shared_ends, length, .. } => {
                    next_place(&mut at, length, shared_ends)?
                }
            };
            entries.push(ContentEntry { hash: content.hash, place });
        }
        complete_frame(&mut self.buffer, header, at - header.length, moment, &entries)?;
        Some(FrameLayout { entries, end: at, object_bytes })
    }

    /// The blocks of the frame, in their order.
    pub(super) fn blocks(&self, layout: &FrameLayout) -> impl Iterator<Item = PlannedBlock> {
        self.planned.iter().enumerate().filter_map(|(content, planned_content)| {
            let (base, shared_ends, length) = match *planned_content {
                PlannedContent::Known(_) | PlannedContent::Large => return None,
                PlannedContent::Whole { length } => (None, NO_SHARED_ENDS, length),
                PlannedContent::Delta { base, shared_ends, length, .. } => {
                    (Some((*layout.entries.get(base)?, shared_ends)), shared_ends, length)
                }
            };
            let size = block_size(length, shared_ends)?;
            Some(PlannedBlock { header: BlockHeader { size, base }, content, shared_ends })
        })
    }

    /// The contents that the frame adds to the known ones.
    pub(super) fn added(&self, layout: &FrameLayout) -> impl Iterator<Item = (ContentHash, Known)> {
        layout.entries.iter().zip(&self.planned).filter_map(|(entry, planned_content)| {
            let depth = match planned_content {
                PlannedContent::Known(_) => return None,
                PlannedContent::Whole { .. } | PlannedContent::Large => 0,
                PlannedContent::Delta { depth, .. } => *depth,
            };
            Some((entry.hash, Known { place: entry.place, depth }))
        })
    }

    /// Passes the bytes of a block to `write`; fails if their number differs from the plan, because the file was changed meanwhile.
    pub(super) fn write_block(
        &self,
        block: &PlannedBlock,
        write: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let bytes = self.read(block.content)?;
        let middle = block.shared_ends.middle(&bytes);
        if middle.len() as u64 == block.header.size {
            write(middle)
        } else {
            Err(changed_meanwhile())
        }
    }
}

/// The place of a block at offset `at`, which moves after the block.
fn next_place(at: &mut u64, length: usize, shared_ends: SharedEnds) -> Option<ContentPlace> {
    let place = ContentPlace::Block(*at);
    *at += BLOCK_HEADER_BYTES as u64 + block_size(length, shared_ends)?;
    Some(place)
}

/// The number of bytes in a block of a content of this length.
fn block_size(length: usize, shared_ends: SharedEnds) -> Option<u64> {
    Some(length.checked_sub(shared_ends.prefix + shared_ends.suffix)? as u64)
}

/// The form of a content that is not a delta.
fn whole_or_large(length: u64, large: u64) -> PlannedContent {
    match usize::try_from(length) {
        Ok(length) if length as u64 <= large => PlannedContent::Whole { length },
        _ => PlannedContent::Large,
    }
}
