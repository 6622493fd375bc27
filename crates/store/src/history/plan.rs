//! What a frame will hold: how each content is told, and where it goes.
//!
//! What is known by its hash is not written again; what is much like another is told by what differs; what is large gets a file.
//! Contents are read twice, to find out how they are told and to write them: no more than two of them are in memory at once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io;

use windlass_core::{ContentHash, NewCheckpoint, NewContent, Source};

use super::delta::Common;
use super::encoding::encode;
use super::objects::{Objects, changed_meanwhile};
use super::slot::{BLOCK, Block, ENTRY, Entry, Header, PRELUDE, Place, complete};
use crate::StoreError;

/// The longest way from a content to one that is whole.
pub(super) const MAX_DEPTH: u32 = 16;

/// A content that is in the slot, or among the objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) place: Place,
    /// How many others it takes to tell it.
    pub(super) depth: u32,
}

/// What a frame will be.
pub(super) struct Plan<'a> {
    /// Space for the prelude, then the body; in the end all before the blocks.
    pub(super) buffer: Vec<u8>,
    new: &'a [NewContent<'a>],
    /// How each content is told.
    forms: Vec<Form>,
    /// Where each content is, by its hash, if another may be told by it.
    numbers: HashMap<ContentHash, usize>,
    /// The content that was read last: often the base of the next.
    last: Option<(usize, Cow<'a, [u8]>)>,
}

/// How a content of a frame is told.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// It is there already.
    Known(Known),
    Whole {
        length: usize,
    },
    /// By what differs from the content of this number.
    Delta {
        base: usize,
        depth: u32,
        common: Common,
        length: usize,
    },
    Large,
}

impl Form {
    /// Returns whether another content may be told by this one: three quarters of that are in it.
    fn can_be_base(&self) -> bool {
        match self {
            Self::Known(_) | Self::Large => true,
            Self::Whole { length } | Self::Delta { length, .. } => {
                *length >= Plan::SHORTEST_DELTA / 4 * 3
            }
        }
    }
}

/// The places of the contents of a frame, whose blocks follow the buffer.
pub(super) struct Parts {
    entries: Vec<Entry>,
    /// Where it ends.
    pub(super) end: u64,
    /// How much went to files.
    pub(super) large_bytes: u64,
}

/// A block, and the part of a content that it has.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) block: Block,
    content: usize,
    common: Common,
}

const NOTHING_COMMON: Common = Common { prefix: 0, suffix: 0 };

impl<'a> Plan<'a> {
    /// What is shorter is not worth a delta.
    const SHORTEST_DELTA: usize = 4 << 10;

    /// A plan for a slot in which these contents are known. The buffer is used for its space.
    pub(super) fn new(
        new: &'a NewCheckpoint<'a>,
        known: &HashMap<ContentHash, Known>,
        large: u64,
        mut buffer: Vec<u8>,
    ) -> io::Result<Self> {
        buffer.clear();
        buffer.resize(PRELUDE, 0);
        encode(&mut buffer, new.origin, new.changes, new.without_history);
        let count = new.contents.len();
        let mut plan = Self {
            buffer,
            new: new.contents,
            forms: Vec::with_capacity(count),
            numbers: HashMap::new(),
            last: None,
        };
        for (number, content) in new.contents.iter().enumerate() {
            let form = match known.get(&content.hash) {
                Some(known) => Form::Known(*known),
                None => plan.form(number, content, large)?,
            };
            plan.forms.push(form);
            if form.can_be_base() {
                plan.numbers.insert(content.hash, number);
            }
        }
        Ok(plan)
    }

    fn form(&mut self, number: usize, content: &NewContent<'a>, large: u64) -> io::Result<Form> {
        let length = content.source.length()?;
        // A change of a long text is short, if both are in memory already.
        let is_at_hand = matches!(content.source, Source::Bytes(_));
        if length > large && !is_at_hand {
            return Ok(Form::Large);
        }
        let (Some((base, depth)), true) =
            (self.base(content, large)?, length >= Self::SHORTEST_DELTA as u64)
        else {
            return Ok(whole(length, large));
        };
        let bytes = self.read(number)?;
        let common = Common::of(&self.read(base)?, &bytes);
        self.last = Some((number, bytes.clone()));
        let size = common.middle(&bytes).len();
        let is_worth_it = size <= bytes.len() / 4 && size as u64 <= large;
        Ok(if is_worth_it {
            Form::Delta { base, depth, common, length: bytes.len() }
        } else {
            whole(bytes.len() as u64, large)
        })
    }

    /// The content that another is probably much like, if it can be told by that one, and how far that is from one that is whole.
    fn base(&self, content: &NewContent<'a>, large: u64) -> io::Result<Option<(usize, u32)>> {
        let Some(number) = content.base.and_then(|base| self.numbers.get(&base).copied()) else {
            return Ok(None);
        };
        let (Some(base), Some(form)) = (self.new.get(number), self.forms.get(number)) else {
            return Ok(None);
        };
        let depth = match form {
            Form::Known(known) => known.depth,
            Form::Whole { .. } | Form::Large => 0,
            Form::Delta { depth, .. } => *depth,
        } + 1;
        let is_at_hand = matches!(base.source, Source::Bytes(_));
        let can_be_read = is_at_hand || base.source.length()? <= large;
        Ok((can_be_read && depth <= MAX_DEPTH).then_some((number, depth)))
    }

    /// The bytes of a content that is not large, which must be what its hash says.
    fn read(&self, number: usize) -> io::Result<Cow<'a, [u8]>> {
        if let Some((_, bytes)) = self.last.as_ref().filter(|(last, _)| *last == number) {
            return Ok(bytes.clone());
        }
        let content = self.new.get(number).ok_or_else(changed_meanwhile)?;
        let bytes = content.source.read()?;
        let is_at_hand = matches!(content.source, Source::Bytes(_));
        if is_at_hand || ContentHash::of(&bytes) == content.hash {
            Ok(bytes)
        } else {
            Err(changed_meanwhile())
        }
    }

    /// The space that it adds to what is kept.
    pub(super) fn space(&self) -> u64 {
        let space = |(new, form): (&NewContent<'a>, &Form)| match form {
            Form::Known(_) => 0,
            Form::Whole { length } => *length as u64,
            Form::Delta { common, length, .. } => {
                length.saturating_sub(common.prefix + common.suffix) as u64
            }
            Form::Large => new.source.space().unwrap_or(0),
        };
        self.new.iter().zip(&self.forms).map(space).sum()
    }

    /// Writes the files that large contents get; the lock that keeps them from being removed.
    pub(super) fn keep_large(&self, objects: &Objects) -> Result<Option<File>, StoreError> {
        let is_object = |form: &Form| {
            matches!(form, Form::Large | Form::Known(Known { place: Place::Object, .. }))
        };
        if !self.forms.iter().any(is_object) {
            return Ok(None);
        }
        let lock = objects.lock()?;
        for (content, form) in self.new.iter().zip(&self.forms) {
            if is_object(form) {
                // One that was known may have been dropped by now.
                objects.keep(&content.hash, content.source)?;
            }
        }
        Ok(Some(lock))
    }

    /// Gives each content its place and completes the buffer.
    pub(super) fn lay_out(&mut self, header: &Header, moment: i64) -> Option<Parts> {
        let mut at = header.length + (self.buffer.len() + self.forms.len() * ENTRY) as u64;
        let mut entries: Vec<Entry> = Vec::with_capacity(self.forms.len());
        let mut large_bytes = 0;
        for (content, form) in self.new.iter().zip(&self.forms) {
            let place = match *form {
                Form::Known(known) => known.place,
                Form::Large => {
                    large_bytes += content.source.space().unwrap_or(0);
                    Place::Object
                }
                Form::Whole { length } => take(&mut at, length, NOTHING_COMMON)?,
                Form::Delta { common, length, .. } => take(&mut at, length, common)?,
            };
            entries.push(Entry { hash: content.hash, place });
        }
        complete(&mut self.buffer, header, at - header.length, moment, &entries)?;
        Some(Parts { entries, end: at, large_bytes })
    }

    /// The blocks of the frame, in their order.
    pub(super) fn blocks(&self, parts: &Parts) -> impl Iterator<Item = Part> {
        self.forms.iter().enumerate().filter_map(|(content, form)| {
            let (base, common, length) = match *form {
                Form::Known(_) | Form::Large => return None,
                Form::Whole { length } => (None, NOTHING_COMMON, length),
                Form::Delta { base, common, length, .. } => {
                    (Some((*parts.entries.get(base)?, common)), common, length)
                }
            };
            let size = block_size(length, common)?;
            Some(Part { block: Block { size, base }, content, common })
        })
    }

    /// The contents that are known with the frame.
    pub(super) fn added(&self, parts: &Parts) -> impl Iterator<Item = (ContentHash, Known)> {
        parts.entries.iter().zip(&self.forms).filter_map(|(entry, form)| {
            let depth = match form {
                Form::Known(_) => return None,
                Form::Whole { .. } | Form::Large => 0,
                Form::Delta { depth, .. } => *depth,
            };
            Some((entry.hash, Known { place: entry.place, depth }))
        })
    }

    /// Hands on the bytes of a block, which must be as many as were planned.
    pub(super) fn write_block(
        &self,
        part: &Part,
        write: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let bytes = self.read(part.content)?;
        let middle = part.common.middle(&bytes);
        if middle.len() as u64 == part.block.size {
            write(middle)
        } else {
            Err(changed_meanwhile())
        }
    }
}

/// The place of the next block, which goes on behind it.
fn take(at: &mut u64, length: usize, common: Common) -> Option<Place> {
    let place = Place::Block(*at);
    *at += BLOCK as u64 + block_size(length, common)?;
    Some(place)
}

/// The number of bytes in a block of a content of this length.
fn block_size(length: usize, common: Common) -> Option<u64> {
    Some(length.checked_sub(common.prefix + common.suffix)? as u64)
}

fn whole(length: u64, large: u64) -> Form {
    match usize::try_from(length) {
        Ok(length) if length as u64 <= large => Form::Whole { length },
        _ => Form::Large,
    }
}
