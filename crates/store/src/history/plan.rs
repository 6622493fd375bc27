//! What a frame will hold: how each content is told, and where it goes.
//!
//! What is known by its hash is not written again; what is much like another is told by what differs; what is large gets a file.

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
    /// Space for the prelude, then the body; in the end all but long contents.
    pub(super) buffer: Vec<u8>,
    pub(super) contents: Vec<Cow<'a, [u8]>>,
    new: &'a [NewContent<'a>],
    /// How each content is told.
    forms: Vec<Form>,
    /// What is known with it.
    pub(super) added: Vec<(ContentHash, Known)>,
}

/// How a content of a frame is told.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// It is there already.
    Known(Known),
    Whole,
    /// By what differs from the content of this number.
    Delta {
        base: usize,
        depth: u32,
        common: Common,
    },
    Large,
}

/// A frame in parts: a buffer, and long contents that go between.
pub(super) struct Parts {
    /// Up to where the buffer goes before which long content.
    pub(super) long: Vec<(usize, Long)>,
    /// Where it ends.
    pub(super) end: u64,
    /// How much went to files.
    pub(super) large_bytes: u64,
}

/// A part of a content.
#[derive(Clone, Copy)]
pub(super) struct Long {
    content: usize,
    common: Common,
}

impl Long {
    pub(super) fn of<'a>(&self, contents: &'a [Cow<'_, [u8]>]) -> &'a [u8] {
        contents.get(self.content).map(|content| self.common.middle(content)).unwrap_or_default()
    }
}

const NOTHING_COMMON: Common = Common { prefix: 0, suffix: 0 };

impl<'a> Plan<'a> {
    /// Contents that are longer than this are written from where they are; the others with all that is short in one write.
    const COPIED: usize = 64 << 10;
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
        encode(&mut buffer, new.origin, new.changes);
        let count = new.contents.len();
        let mut plan = Self {
            buffer,
            contents: Vec::with_capacity(count),
            new: new.contents,
            forms: Vec::with_capacity(count),
            added: Vec::new(),
        };
        for content in new.contents {
            let form = known.get(&content.hash).copied().map(Form::Known);
            let (bytes, is_large) = read(content, large, form.is_some())?;
            let form = form.or_else(|| plan.delta(content, &bytes, large));
            plan.contents.push(bytes);
            plan.forms.push(form.unwrap_or(if is_large { Form::Large } else { Form::Whole }));
        }
        Ok(plan)
    }

    fn delta(&self, content: &NewContent<'a>, bytes: &[u8], large: u64) -> Option<Form> {
        if bytes.len() < Self::SHORTEST_DELTA {
            return None;
        }
        let wanted = content.base?;
        let base = self.new.iter().take(self.forms.len()).position(|base| base.hash == wanted)?;
        let depth = match self.forms.get(base)? {
            Form::Known(known) => known.depth,
            Form::Whole | Form::Large => 0,
            Form::Delta { depth, .. } => *depth,
        } + 1;
        if depth > MAX_DEPTH {
            return None;
        }
        let common = Common::of(self.contents.get(base)?, bytes);
        let size = common.middle(bytes).len();
        let is_worth_it = size <= bytes.len() / 4 && size as u64 <= large;
        is_worth_it.then_some(Form::Delta { base, depth, common })
    }

    /// How much it adds to what is kept.
    pub(super) fn size(&self) -> u64 {
        let sizes =
            self.new.iter().zip(&self.forms).zip(&self.contents).map(|((new, form), bytes)| {
                match form {
                    Form::Known(_) => 0,
                    Form::Whole => bytes.len() as u64,
                    Form::Delta { common, .. } => common.middle(bytes).len() as u64,
                    Form::Large => new.source.length().unwrap_or(0),
                }
            });
        sizes.sum()
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

    /// Gives each content its place and fills the buffer.
    pub(super) fn lay_out(&mut self, header: &Header, moment: i64) -> Option<Parts> {
        let mut at = header.length + (self.buffer.len() + self.forms.len() * ENTRY) as u64;
        let mut entries: Vec<Entry> = Vec::with_capacity(self.forms.len());
        let mut blocks = Vec::with_capacity(self.forms.len());
        let mut large_bytes = 0;
        for (number, (content, form)) in self.new.iter().zip(&self.forms).enumerate() {
            let bytes = self.contents.get(number)?;
            let (common, base, depth) = match *form {
                Form::Known(known) => {
                    entries.push(Entry { hash: content.hash, place: known.place });
                    continue;
                }
                Form::Large => {
                    let known = Known { place: Place::Object, depth: 0 };
                    entries.push(Entry { hash: content.hash, place: known.place });
                    self.added.push((content.hash, known));
                    large_bytes += content.source.length().unwrap_or(0);
                    continue;
                }
                Form::Whole => (NOTHING_COMMON, None, 0),
                Form::Delta { base, depth, common } => {
                    (common, Some((*entries.get(base)?, common)), depth)
                }
            };
            let place = Place::Block(at);
            entries.push(Entry { hash: content.hash, place });
            self.added.push((content.hash, Known { place, depth }));
            let size = common.middle(bytes).len() as u64;
            blocks.push((Block { size, base }, Long { content: number, common }));
            at += BLOCK as u64 + size;
        }
        complete(&mut self.buffer, header, at - header.length, moment, &entries)?;
        let mut long = Vec::new();
        for (block, part) in blocks {
            block.add_to(&mut self.buffer);
            let bytes = part.of(&self.contents);
            if bytes.len() > Self::COPIED {
                long.push((self.buffer.len(), part));
            } else {
                self.buffer.extend_from_slice(bytes);
            }
        }
        Some(Parts { long, end: at, large_bytes })
    }
}

/// The bytes of a content, as far as they are needed in memory, and whether there are too many of them for a slot.
fn read<'a>(
    content: &NewContent<'a>,
    large: u64,
    is_known: bool,
) -> io::Result<(Cow<'a, [u8]>, bool)> {
    const NOTHING: Cow<'static, [u8]> = Cow::Borrowed(&[]);
    if let Source::Bytes(bytes) = content.source {
        return Ok((Cow::Borrowed(bytes), bytes.len() as u64 > large));
    }
    if is_known {
        return Ok((NOTHING, false));
    }
    if content.source.length()? > large {
        return Ok((NOTHING, true));
    }
    let bytes = content.source.read()?;
    if ContentHash::of(&bytes) == content.hash {
        Ok((bytes, false))
    } else {
        Err(changed_meanwhile())
    }
}
