//! What a drain brings from a slot into the catalog: the contents of a checkpoint that are not there yet, read, checked and made
//! small one after another.

use super::catalog::{Entering, Form, NewContentRow};
use super::compress::Press;
use super::objects::Objects;
use super::plan::MAX_DEPTH;
use super::slot::{Entry, Place};
use super::view::View;
use crate::StoreError;

/// Why a frame could not be drained.
pub(super) enum Failure {
    /// It is not as it was written; the others are not concerned.
    Slot(StoreError),
    Database(rusqlite::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Slot(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Adds the contents of one checkpoint that are not in the catalog yet.
pub(super) struct Gathering<'a, 'view> {
    pub(super) objects: &'a Objects,
    pub(super) view: &'a mut View<'view>,
    pub(super) press: &'a mut Press,
}

impl Gathering<'_, '_> {
    /// Adds a content and those that it is told by, unless they are there; how far it is from one that is whole.
    pub(super) fn add(
        &mut self,
        entry: &Entry,
        entering: &mut Entering<'_>,
    ) -> Result<u32, Failure> {
        if let Some(depth) = entering.depth(&entry.hash)? {
            return Ok(depth);
        }
        let row = match entry.place {
            Place::Object => self.large(entry).map_err(Failure::from),
            Place::Block(place) => self.block(entry, place, entering),
        };
        let row = match row {
            // The rest of the checkpoint is worth keeping.
            Err(Failure::Slot(StoreError::Damaged { .. })) => NewContentRow::lost(entry.hash),
            row => row?,
        };
        entering.add_content(&row)?;
        Ok(row.depth)
    }

    fn block(
        &mut self,
        entry: &Entry,
        place: u64,
        entering: &mut Entering<'_>,
    ) -> Result<NewContentRow, Failure> {
        // If this is what its hash says, so is what it is told by.
        let whole = self.view.content(entry, self.objects)?;
        let (block, bytes) = self.view.block(place)?;
        let base = match block.base {
            Some((base, common)) => {
                let depth = self.add(&base, entering)? + 1;
                (depth <= MAX_DEPTH).then_some((base.hash, common, depth))
            }
            None => None,
        };
        let length = whole.len() as u64;
        let (kept, base, depth) = match base {
            Some((hash, common, depth)) => (bytes, Some((hash, common)), depth),
            None => (whole, None, 0),
        };
        let (form, body) = match self.press.shrink(&kept) {
            Some(smaller) => (Form::Compressed, smaller),
            None => (Form::Plain, kept),
        };
        let stored = body.len() as u64;
        let (hash, body) = (entry.hash, Some(body));
        Ok(NewContentRow { hash, form, length, stored, depth, base, body })
    }

    fn large(&self, entry: &Entry) -> Result<NewContentRow, StoreError> {
        let hash = entry.hash;
        let stored = self.objects.size(&hash)?.ok_or_else(|| self.objects.missing(&hash))?;
        let (form, length) = (Form::NewFile, stored);
        Ok(NewContentRow { hash, form, length, stored, depth: 0, base: None, body: None })
    }
}
