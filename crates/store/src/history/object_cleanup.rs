//! Cleanup of object files: compresses new ones and removes those that no checkpoint needs.

use std::collections::HashSet;
use std::path::Path;

use windlass_core::ContentHash;

use super::catalog;
use super::drain::{DrainPass, NANOS_PER_HOUR};
use super::slot::{ContentEntry, ContentPlace, SlotHeader};
use super::slot_reader::{OpenedSlot, SlotReader, open_slot};
use crate::StoreError;

impl DrainPass<'_> {
    /// Compresses new object files, where that saves space.
    pub(super) fn compress(&self) -> Result<(), StoreError> {
        let new = self.read(catalog::uncompressed_objects)?;
        if new.is_empty() {
            return Ok(());
        }
        // The lock keeps them from being removed meanwhile.
        let _lock = self.objects.lock()?;
        let sizes: Vec<_> =
            new.iter().map(|hash| (hash, self.objects.compress(hash).ok().flatten())).collect();
        self.transact(|catalog_writer| {
            for (hash, size) in sizes {
                catalog_writer
                    .set_compressed_size(hash, size)
                    .map_err(|error| self.failed(&error))?;
            }
            Ok(())
        })
    }

    /// Removes object files that no checkpoint holds any more. Those that a slot still names stay until the slot is emptied.
    pub(super) fn remove_orphaned(&self) -> Result<(), StoreError> {
        let gone = self.read(catalog::orphaned_objects)?;
        if gone.is_empty() {
            return Ok(());
        }
        let Some(_lock) = self.objects.try_lock_to_remove()? else { return Ok(()) };
        let (in_slots, in_catalog) = self.hashes_in_use()?;
        for hash in gone {
            if in_slots.contains(&hash) {
                continue;
            }
            if !in_catalog.contains(&hash) {
                self.objects.remove(&hash)?;
            }
            let removed = catalog::set_object_removed(self.connection, &hash);
            removed.map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    /// Once a day, removes all object files that are not in use: those of abandoned checkpoints and of killed processes.
    pub(super) fn sweep_once_a_day(&self) -> Result<(), StoreError> {
        let swept = self.read(catalog::totals)?.swept;
        if self.now.saturating_sub(swept) < 24 * NANOS_PER_HOUR || !self.objects.exists() {
            return Ok(());
        }
        let Some(_lock) = self.objects.try_lock_to_remove()? else { return Ok(()) };
        let (in_slots, in_catalog) = self.hashes_in_use()?;
        self.objects.sweep(|hash| in_slots.contains(hash) || in_catalog.contains(hash))?;
        catalog::set_swept(self.connection, self.now).map_err(|error| self.failed(&error))
    }

    /// The hashes of the object files that slots name, and of those that the catalog names. Slots are read first: a checkpoint that is
    /// drained meanwhile is then found in the catalog.
    fn hashes_in_use(&self) -> Result<(HashSet<ContentHash>, HashSet<ContentHash>), StoreError> {
        let mut in_slots = HashSet::new();
        for number in self.slots.list()? {
            add_named_in_slot(&self.slots.file(number), &mut in_slots)?;
        }
        Ok((in_slots, self.read(catalog::object_hashes)?.into_iter().collect()))
    }
}

/// Adds the hashes of all object files that a slot names, also of drained frames: later contents may have them as base.
fn add_named_in_slot(
    path: &Path,
    hashes_in_use: &mut HashSet<ContentHash>,
) -> Result<(), StoreError> {
    let (slot, header) = match open_slot(path)? {
        OpenedSlot::Unused => return Ok(()),
        OpenedSlot::Filled(slot, header) => (slot, header),
        OpenedSlot::Damaged(error) => return Err(error),
    };
    let failed = |why| StoreError::file("read", path, why);
    let mut reader = SlotReader::to_end_of_file(&slot, path, &header).map_err(failed)?;
    let mut place = SlotHeader::SIZE;
    while let Some(frame) = reader.frame(place).map_err(failed)? {
        let is_large = |entry: &&ContentEntry| entry.place == ContentPlace::Object;
        hashes_in_use.extend(frame.entries.iter().filter(is_large).map(|entry| entry.hash));
        place = frame.end;
    }
    if place < header.length {
        return Err(reader.damaged(place));
    }
    Ok(())
}
