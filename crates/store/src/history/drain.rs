//! Moves finished checkpoints from the slots into the database, with their contents compressed.
//!
//! Any process may drain any slot, whether its owner lives or not. Slots are read inside the transaction that also stores their
//! drained positions, so no checkpoint is taken twice. A slot is emptied only after that, by its owner or, without a living owner, by
//! any process. Then the limits are applied: checkpoints that are too old are dropped, and the oldest ones while the quota is exceeded.

use std::fs::File;
use std::io;
use std::path::Path;

use rusqlite::Connection;
use windlass_core::SessionId;

use super::HistorySettings;
use super::catalog::{self, CacheUse, CatalogWriter, NewCheckpointRow, SlotPosition, UNDO};
use super::catalog_reader::CatalogReader;
use super::compress::Compressor;
use super::content_drain::{ContentDrain, DrainFailure};
use super::encoding::decode_origin;
use super::objects::Objects;
use super::slot::{ContentEntry, Frame, HeaderState, SlotHeader, read_header};
use super::slot_reader::{OpenedSlot, SlotReader, open_slot, read_unfinished_frame, set_aside};
use super::slot_writer::empty_left;
use crate::connection::CountedConnection;
use crate::database::Database;
use crate::timestamp::to_nanos;
use crate::transaction::Transaction;
use crate::writer_slots::WriterSlots;
use crate::{StoreError, wal};

pub(super) const NANOS_PER_HOUR: i64 = 3_600_000_000_000;

/// The connection to the catalog, for draining and for queries.
#[derive(Debug)]
pub(super) struct Drain {
    database: Database,
    slots: WriterSlots,
    objects: Objects,
    settings: HistorySettings,
    /// Opened by the first drain or query.
    connection: Option<CountedConnection>,
}

impl Drain {
    pub(super) fn new(
        dir: &Path,
        slots: WriterSlots,
        objects: Objects,
        settings: HistorySettings,
    ) -> Result<Self, StoreError> {
        let database = Database::of_layout(&UNDO, dir, settings.patience)?;
        Ok(Self { database, slots, objects, settings, connection: None })
    }

    /// Drains all finished checkpoints and returns a reader of the catalog; `None` if there never was a checkpoint.
    ///
    /// This does not wait for the disk, so slots are not emptied: after a loss of power they are drained again.
    pub(super) fn drain_for_query(&mut self) -> Result<Option<CatalogReader<'_>>, StoreError> {
        if self.connection.is_none() && !self.database.exists()? && !self.has_frames()? {
            return Ok(None);
        }
        let pass = self.pass()?;
        if pass.has_undrained()? {
            let result = pass.drain_all(|_| Ok(()))?;
            pass.set_damaged_aside(result)?;
        }
        if pass.is_over_limits()? {
            // After a failure a later drain applies the limits.
            drop(pass.drain_durably());
        }
        Ok(self.catalog_reader())
    }

    /// A reader of the catalog without a drain; `None` if the database is not open.
    pub(super) fn catalog_reader(&self) -> Option<CatalogReader<'_>> {
        let Self { database, connection, .. } = self;
        connection.as_deref().map(|connection| CatalogReader { database, connection })
    }

    /// Drains all finished checkpoints so that they survive a loss of power, applies the limits, and empties slots without an owner.
    pub(super) fn drain_all(&mut self) -> Result<(), StoreError> {
        let pass = self.pass()?;
        let result = pass.drain_durably()?;
        // Damaged slots stay, so that a query reports them.
        pass.empty_idle_slots(&result.slots);
        Ok(())
    }

    /// Compresses object files and removes those that are not needed. A step that fails is repeated by the next call.
    pub(super) fn tidy(&mut self) {
        let Ok(pass) = self.pass() else { return };
        drop(pass.compress());
        drop(pass.remove_orphaned());
        drop(pass.sweep_once_a_day());
        wal::checkpoint_if_large(pass.connection);
    }

    /// The drained position of a slot.
    pub(super) fn position(&self, slot: u32) -> Option<SlotPosition> {
        catalog::positions(self.connection.as_ref()?).ok()?.get(&slot).copied()
    }

    /// Closes the connection, after a checkpoint if the WAL is large, so that the next process opens it quickly.
    pub(super) fn disconnect(&mut self) {
        if let Some(connection) = self.connection.take() {
            wal::checkpoint_before_close(&connection);
        }
    }

    /// Removes all checkpoints of a session.
    pub(super) fn forget(&mut self, session: &SessionId) -> Result<(), StoreError> {
        match self.drain_for_query()? {
            Some(_) => self.pass()?.forget(session),
            None => Ok(()),
        }
    }

    /// A pass over all slots; opens the database if it is not open.
    fn pass(&mut self) -> Result<DrainPass<'_>, StoreError> {
        let Self { database, slots, objects, settings, connection } = self;
        let connection = match connection {
            Some(connection) => connection,
            none => {
                let opened = database.open_or_create()?;
                let bounded = catalog::set_cache_size(&opened, CacheUse::Read);
                bounded.map_err(|error| database.error("open", &error))?;
                none.insert(opened)
            }
        };
        let now = to_nanos((settings.clock)());
        Ok(DrainPass { database, slots, objects, settings, connection, now })
    }

    /// Returns whether any slot holds a finished checkpoint or is damaged.
    fn has_frames(&self) -> Result<bool, StoreError> {
        for number in self.slots.list()? {
            match open_slot(&self.slots.file(number))? {
                OpenedSlot::Unused => {}
                OpenedSlot::Filled(_, header) if header.is_empty() => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// One pass over all slots.
#[derive(Clone, Copy)]
pub(super) struct DrainPass<'a> {
    pub(super) database: &'a Database,
    pub(super) slots: &'a WriterSlots,
    pub(super) objects: &'a Objects,
    pub(super) settings: &'a HistorySettings,
    pub(super) connection: &'a Connection,
    pub(super) now: i64,
}

/// The result of a pass.
#[derive(Default)]
struct DrainResult {
    /// The drained position of each slot.
    slots: Vec<(u32, SlotPosition)>,
    /// Damaged slots.
    damaged: Vec<(u32, StoreError)>,
}

impl DrainPass<'_> {
    /// Returns whether a slot holds undrained checkpoints or is damaged. Takes no lock on the database.
    fn has_undrained(&self) -> Result<bool, StoreError> {
        let positions = self.read(catalog::positions)?;
        for number in self.slots.list()? {
            let is_undrained = match open_slot(&self.slots.file(number))? {
                OpenedSlot::Unused => false,
                OpenedSlot::Filled(_, header) => {
                    !header.is_empty() && positions.get(&number) != Some(&header.into())
                }
                OpenedSlot::Damaged(_) => true,
            };
            if is_undrained {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether the quota is exceeded or the oldest checkpoint is too old.
    fn is_over_limits(&self) -> Result<bool, StoreError> {
        let is_too_old = |oldest| oldest < self.age_limit();
        Ok(self.read(catalog::totals)?.stored > self.settings.quota
            || self.read(catalog::oldest)?.is_some_and(is_too_old))
    }

    /// Drains and applies the limits, and waits for the disk. Afterwards the drained part of slots and unreferenced files are not needed.
    fn drain_durably(&self) -> Result<DrainResult, StoreError> {
        let switch = |how: &str| {
            let sql = format!("PRAGMA synchronous = {how}");
            self.connection.execute_batch(&sql).map_err(|error| self.failed(&error))
        };
        if self.settings.sync {
            switch("FULL")?;
        }
        let result = self.drain_all(|catalog_writer| {
            let dropped = catalog_writer.drop_oldest(self.age_limit(), self.settings.quota);
            dropped.map_err(|error| self.failed(&error))
        });
        switch("NORMAL")?;
        result
    }

    /// Drains all slots, and runs `finish` in the same transaction.
    fn drain_all(
        &self,
        finish: impl FnOnce(&mut CatalogWriter<'_>) -> Result<(), StoreError>,
    ) -> Result<DrainResult, StoreError> {
        let set_cache =
            |of| catalog::set_cache_size(self.connection, of).map_err(|error| self.failed(&error));
        set_cache(CacheUse::Drain)?;
        let result = self.transact(|catalog_writer| {
            let mut result = DrainResult::default();
            let positions = self.read(catalog::positions)?;
            let mut compressor = Compressor::new();
            for number in self.slots.list()? {
                let drained = positions.get(&number).copied();
                self.drain_slot(number, drained, catalog_writer, &mut compressor, &mut result)?;
            }
            finish(catalog_writer)?;
            Ok(result)
        });
        set_cache(CacheUse::Read)?;
        result
    }

    /// Runs a query on the catalog.
    pub(super) fn read<T>(
        &self,
        query: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let read = || query(self.connection);
        self.database.patiently(read).map_err(|error| self.database.error("read", &error))
    }

    /// Runs a transaction on the catalog; on an error nothing is written.
    pub(super) fn transact<T>(
        &self,
        write: impl FnOnce(&mut CatalogWriter<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let failed = |error: rusqlite::Error| self.failed(&error);
        let transaction =
            self.database.patiently(|| Transaction::begin(self.connection)).map_err(failed)?;
        let mut catalog_writer = CatalogWriter::new(self.connection);
        let result = write(&mut catalog_writer)?;
        catalog_writer.write_totals().map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(result)
    }

    /// Drains the finished checkpoints of one slot, up to the first damaged one.
    fn drain_slot(
        &self,
        number: u32,
        drained: Option<SlotPosition>,
        catalog_writer: &mut CatalogWriter<'_>,
        compressor: &mut Compressor,
        result: &mut DrainResult,
    ) -> Result<(), StoreError> {
        let path = self.slots.file(number);
        let (slot, header) = match open_slot(&path)? {
            OpenedSlot::Unused => return Ok(()),
            OpenedSlot::Filled(slot, header) => (slot, header),
            OpenedSlot::Damaged(error) => {
                result.damaged.push((number, error));
                return Ok(());
            }
        };
        let mut position = match drained {
            Some(drained) if drained.generation == header.generation => drained,
            _ => SlotPosition { bytes: SlotHeader::SIZE, ..header.into() },
        };
        let mut reader = SlotReader::new(&slot, &path, header.generation, header.length);
        while position.bytes < header.length {
            match self.drain_frame(position.bytes, &mut reader, catalog_writer, compressor) {
                Ok(after) => position.bytes = after,
                Err(DrainFailure::Database(error)) => return Err(self.failed(&error)),
                Err(DrainFailure::Slot(error)) => {
                    result.damaged.push((number, error));
                    break;
                }
            }
        }
        catalog::set_position(self.connection, number, position)
            .map_err(|error| self.failed(&error))?;
        result.slots.push((number, position));
        Ok(())
    }

    /// Drains the checkpoint at this offset, whole or not at all; returns the offset of the next.
    fn drain_frame(
        &self,
        offset: u64,
        reader: &mut SlotReader<'_>,
        catalog_writer: &mut CatalogWriter<'_>,
        compressor: &mut Compressor,
    ) -> Result<u64, DrainFailure> {
        let frame = reader.frame(offset).map_err(|why| reader.failed(why))?;
        let frame = frame.ok_or_else(|| reader.damaged(offset))?;
        let origin = decode_origin(&frame.body).ok_or_else(|| reader.damaged(offset))?;
        let contents: Vec<u8> =
            frame.entries.iter().flat_map(|entry| *entry.hash.as_bytes()).collect();
        let Frame { moment, id, body, .. } = &frame;
        let row = NewCheckpointRow {
            moment: *moment,
            id: *id,
            origin: &origin,
            contents: &contents,
            body,
        };
        let savepoint = catalog_writer.savepoint()?;
        let added = self.add_checkpoint(&row, &frame.entries, reader, catalog_writer, compressor);
        catalog_writer.end_savepoint(savepoint, added.is_ok())?;
        added.map(|()| frame.end)
    }

    /// Adds a checkpoint and its contents, one content in memory at a time; does nothing if the checkpoint is there.
    fn add_checkpoint(
        &self,
        row: &NewCheckpointRow<'_>,
        entries: &[ContentEntry],
        reader: &mut SlotReader<'_>,
        catalog_writer: &mut CatalogWriter<'_>,
        compressor: &mut Compressor,
    ) -> Result<(), DrainFailure> {
        if !catalog_writer.add_checkpoint_row(row)? {
            return Ok(());
        }
        let mut content_drain = ContentDrain { objects: self.objects, reader, compressor };
        for entry in entries {
            content_drain.add(entry, catalog_writer)?;
            catalog_writer.add_holder(&entry.hash)?;
        }
        Ok(())
    }

    /// The moment before which checkpoints are too old, at least one hour ago.
    fn age_limit(&self) -> i64 {
        let age = i64::try_from(self.settings.age.as_nanos()).unwrap_or(i64::MAX);
        self.now.saturating_sub(age.max(NANOS_PER_HOUR))
    }

    /// Empties drained slots without an owner. A slot that cannot be emptied is emptied by its next owner.
    fn empty_idle_slots(&self, drained: &[(u32, SlotPosition)]) {
        for (number, position) in drained {
            drop(self.empty_if_idle(*number, *position));
        }
    }

    /// Empties a slot without an owner if it is drained to its end.
    fn empty_if_idle(&self, number: u32, position: SlotPosition) -> Result<(), StoreError> {
        let is_drained =
            |header: &SlotHeader| SlotPosition::from(*header) == position && !header.is_empty();
        self.with_idle_slot(number, is_drained, |slot, _| empty_left(slot))
    }

    /// Locks a slot and runs `act`, if no process holds the slot, its header `is_meant` and it has no unfinished checkpoint.
    fn with_idle_slot(
        &self,
        number: u32,
        is_meant: impl Fn(&SlotHeader) -> bool,
        act: impl FnOnce(&File, SlotHeader) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let path = self.slots.file(number);
        let failed = |why| StoreError::file("empty", &path, why);
        let slot = self.slots.open(number)?;
        let read_idle_header = || match read_header(&slot.file)? {
            HeaderState::At(header) if is_meant(&header) => {
                let left = read_unfinished_frame(&slot.file, &path, &header)?;
                Ok(left.is_none().then_some(header))
            }
            _ => Ok(None),
        };
        // The header is read before the lock is tried: a search for unfinished checkpoints must not find a slot locked only for this check.
        if read_idle_header().map_err(failed)?.is_some()
            && self.slots.try_lock(&slot)?
            && let Some(header) = read_idle_header().map_err(failed)?
        {
            act(&slot.file, header).map_err(failed)?;
        }
        Ok(())
    }

    /// Renames damaged slots and returns the first error, so that each damage is reported once and stops no later query.
    fn set_damaged_aside(&self, result: DrainResult) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for (number, error) in result.damaged {
            outcome = outcome.and(Err(set_aside(self.slots, number, error)));
        }
        outcome
    }

    /// Removes all checkpoints of a session and overwrites their bytes.
    fn forget(&self, session: &SessionId) -> Result<(), StoreError> {
        let switch = |how: &str| {
            let sql = format!("PRAGMA secure_delete = {how}");
            self.connection.execute_batch(&sql).map_err(|error| self.failed(&error))
        };
        switch("ON")?;
        let forgotten = self.transact(|catalog_writer| {
            catalog_writer.forget(session.as_str()).map_err(|error| self.failed(&error))
        });
        switch("FAST")?;
        forgotten?;
        wal::checkpoint_and_truncate(self.connection);
        for number in self.slots.list()? {
            self.trim_if_idle(number)?;
        }
        self.remove_orphaned()
    }

    /// Cuts off the bytes after the length of a slot without an owner. A slot with a living owner is overwritten when it is filled again.
    fn trim_if_idle(&self, number: u32) -> Result<(), StoreError> {
        self.with_idle_slot(number, |_| true, |slot, header| slot.set_len(header.length))
    }

    /// The store error for a failed write.
    pub(super) fn failed(&self, error: &rusqlite::Error) -> StoreError {
        self.database.error("write to", error)
    }
}
