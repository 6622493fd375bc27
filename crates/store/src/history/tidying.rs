//! The files of large contents: made small when they are new, and removed when nobody needs them.

use std::collections::HashSet;
use std::path::Path;

use windlass_core::ContentHash;

use super::catalog;
use super::drain::{Draining, NANOS_PER_HOUR};
use super::slot::{Entry, Header, Place};
use super::view::{Opened, View, open_slot};
use crate::StoreError;

impl Draining<'_> {
    /// Makes large contents small that are new, where that is worth it.
    pub(super) fn compress(&self) -> Result<(), StoreError> {
        let new = self.read(catalog::new_files)?;
        if new.is_empty() {
            return Ok(());
        }
        // They are not to be removed at the same time.
        let _lock = self.objects.lock()?;
        let sizes: Vec<_> =
            new.iter().map(|hash| (hash, self.objects.compress(hash).ok().flatten())).collect();
        self.transact(|entering| {
            for (hash, size) in sizes {
                entering.settle(hash, size).map_err(|error| self.failed(&error))?;
            }
            Ok(())
        })
    }

    /// Removes files that nobody holds any more. Those that a slot still names, where somebody may count on them, stay until it
    /// is emptied.
    pub(super) fn remove_gone(&self) -> Result<(), StoreError> {
        let gone = self.read(catalog::gone)?;
        if gone.is_empty() {
            return Ok(());
        }
        let Some(_lock) = self.objects.try_lock_to_remove()? else { return Ok(()) };
        let (in_slots, in_catalog) = self.needed()?;
        for hash in gone {
            if in_slots.contains(&hash) {
                continue;
            }
            if !in_catalog.contains(&hash) {
                self.objects.remove(&hash)?;
            }
            let removed = catalog::set_removed(self.connection, &hash);
            removed.map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    /// Looks for files that nobody needs: of changes that were never made, and of those who were killed while writing.
    pub(super) fn sweep_once_a_day(&self) -> Result<(), StoreError> {
        let swept = self.read(catalog::totals)?.swept;
        if self.now.saturating_sub(swept) < 24 * NANOS_PER_HOUR || !self.objects.exists() {
            return Ok(());
        }
        let Some(_lock) = self.objects.try_lock_to_remove()? else { return Ok(()) };
        let (in_slots, in_catalog) = self.needed()?;
        self.objects.sweep(|hash| in_slots.contains(hash) || in_catalog.contains(hash))?;
        catalog::set_swept(self.connection, self.now).map_err(|error| self.failed(&error))
    }

    /// The files that slots name, and those that the catalog does. The slots are looked at first: what is drained meanwhile is in
    /// the catalog then.
    fn needed(&self) -> Result<(HashSet<ContentHash>, HashSet<ContentHash>), StoreError> {
        let mut in_slots = HashSet::new();
        for number in self.slots.list()? {
            add_named_in_slot(&self.slots.spool(number), &mut in_slots)?;
        }
        Ok((in_slots, self.read(catalog::files)?.into_iter().collect()))
    }
}

/// All of a slot, also what is drained: what its owner writes next may be told by it.
fn add_named_in_slot(path: &Path, needed: &mut HashSet<ContentHash>) -> Result<(), StoreError> {
    let (slot, header) = match open_slot(path)? {
        Opened::Nothing => return Ok(()),
        Opened::Filled(slot, header) => (slot, header),
        Opened::Damaged(error) => return Err(error),
    };
    let failed = |why| StoreError::file("read", path, why);
    let mut view = View::whole(&slot, path, &header).map_err(failed)?;
    let mut place = Header::SIZE;
    while let Some(frame) = view.frame(place).map_err(failed)? {
        let is_large = |entry: &&Entry| entry.place == Place::Object;
        needed.extend(frame.entries.iter().filter(is_large).map(|entry| entry.hash));
        place = frame.end;
    }
    if place < header.length {
        return Err(view.damaged(place));
    }
    Ok(())
}
