//! Moves the contents of one checkpoint from a slot into the catalog: those that are not there yet are read, checked and compressed,
//! one after another.

use super::catalog::{CatalogWriter, NewContentRow, StorageForm};
use super::compress::Compressor;
use super::frame_plan::MAX_DEPTH;
use super::objects::Objects;
use super::slot::{ContentEntry, ContentPlace};
use super::slot_reader::SlotReader;
use crate::StoreError;

/// The reason that a frame was not drained.
pub(super) enum DrainFailure {
    /// The frame is damaged or unreadable; other slots can still be drained.
    Slot(StoreError),
    /// The catalog could not be written.
    Database(rusqlite::Error),
}

impl From<StoreError> for DrainFailure {
    fn from(error: StoreError) -> Self {
        Self::Slot(error)
    }
}

impl From<rusqlite::Error> for DrainFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Adds the contents of one checkpoint that are not in the catalog yet.
pub(super) struct ContentDrain<'a, 'reader> {
    pub(super) objects: &'a Objects,
    pub(super) reader: &'a mut SlotReader<'reader>,
    pub(super) compressor: &'a mut Compressor,
}

impl ContentDrain<'_, '_> {
    /// Adds a content and its bases, unless they are in the catalog. Returns the number of deltas between it and a whole content.
    pub(super) fn add(
        &mut self,
        entry: &ContentEntry,
        catalog_writer: &mut CatalogWriter<'_>,
    ) -> Result<u32, DrainFailure> {
        if let Some(depth) = catalog_writer.depth(&entry.hash)? {
            return Ok(depth);
        }
        let row = match entry.place {
            ContentPlace::Object => self.object_row(entry).map_err(DrainFailure::from),
            ContentPlace::Block(place) => self.block_row(entry, place, catalog_writer),
        };
        let row = match row {
            // A damaged content is marked as lost, so that the rest of the checkpoint is kept.
            Err(DrainFailure::Slot(StoreError::Damaged { .. })) => NewContentRow::lost(entry.hash),
            row => row?,
        };
        catalog_writer.add_content(&row)?;
        Ok(row.depth)
    }

    /// The row of a content in a block: compressed, and whole if its delta would be too deep.
    fn block_row(
        &mut self,
        entry: &ContentEntry,
        place: u64,
        catalog_writer: &mut CatalogWriter<'_>,
    ) -> Result<NewContentRow, DrainFailure> {
        // This checks the hash, and so the bases too.
        let whole = self.reader.content(entry, self.objects)?;
        let (block, bytes) = self.reader.block(place)?;
        let base = match block.base {
            Some((base, common)) => {
                let depth = self.add(&base, catalog_writer)? + 1;
                (depth <= MAX_DEPTH).then_some((base.hash, common, depth))
            }
            None => None,
        };
        let length = whole.len() as u64;
        let (kept, base, depth) = match base {
            Some((hash, common, depth)) => (bytes, Some((hash, common)), depth),
            None => (whole, None, 0),
        };
        let (form, body) = match self.compressor.compress_if_smaller(&kept) {
            Some(smaller) => (StorageForm::Compressed, smaller),
            None => (StorageForm::Plain, kept),
        };
        let stored = body.len() as u64;
        let (hash, body) = (entry.hash, Some(body));
        Ok(NewContentRow { hash, form, length, stored, depth, base, body })
    }

    /// The row of a content in an object file.
    fn object_row(&self, entry: &ContentEntry) -> Result<NewContentRow, StoreError> {
        let hash = entry.hash;
        let stored = self.objects.size(&hash)?.ok_or_else(|| self.objects.missing(&hash))?;
        let (form, length) = (StorageForm::NewFile, stored);
        Ok(NewContentRow { hash, form, length, stored, depth: 0, base: None, body: None })
    }
}
