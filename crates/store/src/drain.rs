//! Moves records from the spools into the database, in the order of time, through the one chain.
//!
//! Every query drains first, so that it sees all acknowledged records. Any process may drain the spool of any other, running or
//! not. The records and the drained position of each spool are written in one transaction, and spools are read only inside of it, so no
//! record is taken twice, however many processes drain at once. Spools without a living owner are emptied afterwards; a living
//! owner empties its own.
//!
//! Where the database cannot be written (no space, no permission, locked by another process), a copy in memory is drained into.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use windlass_core::{BODY_VERSION, CallId, RecordsMissing, SessionId};

use crate::StoreError;
use crate::chain::{Chain, StoredKind};
use crate::chain_writer::ChainWriter;
use crate::connection::CountedConnection;
use crate::database::{Access, Database};
use crate::frame::{Frame, SpoolPosition};
use crate::spool::{self, SpoolHead};
use crate::spool_contents::{SpoolContents, SpoolEvent};
use crate::tables;
use crate::timestamp::to_nanos;
use crate::wal;
use crate::writer_slots::{WriterSlot, WriterSlots};

/// The connections of a store to its database: for draining, and for queries.
#[derive(Debug)]
pub(crate) struct Drain {
    database: Database,
    slots: WriterSlots,
    clock: fn() -> SystemTime,
    access: Access,
    /// Opened by the first drain.
    chain_writer: Option<ChainWriter>,
    /// The connection for queries where the database cannot be written.
    reader: Option<CountedConnection>,
}

impl Drain {
    pub(crate) fn new(database: Database, access: Access, clock: fn() -> SystemTime) -> Self {
        let slots = WriterSlots::in_state(&database.dir);
        Self { database, slots, clock, access, chain_writer: None, reader: None }
    }

    /// Drains, and returns a connection that sees every acknowledged record. Falls back to a read-only connection or a copy in memory where
    /// the database cannot be written.
    pub(crate) fn connection_to_read(&mut self) -> Result<&Connection, StoreError> {
        if self.access == Access::ReadWrite {
            match self.drain_spools(self.database.patience) {
                Err(error) if error.allows_looking_back() => {}
                done => {
                    done?;
                    return Ok(&self.chain_writer()?.connection);
                }
            }
        }
        let reader = self.connect_to_read()?;
        Ok(self.reader.insert(reader))
    }

    /// Drains all spools into the database, if there is anything to drain. Then empties those without a living owner, and checkpoints a
    /// large WAL.
    pub(crate) fn drain_spools(&mut self, patience: Duration) -> Result<(), StoreError> {
        self.chain_writer()?;
        let Self { database, slots, clock, chain_writer: Some(chain_writer), .. } = self else {
            return Ok(());
        };
        let pass = DrainPass { database, slots, now: to_nanos(clock()), may_create: true };
        if !pass.is_needed(&chain_writer.connection)? {
            return Ok(());
        }
        let spools = chain_writer.transact(clock(), patience, |chain| pass.drain_into(chain))?;
        for spool in spools {
            // A spool that cannot be emptied now is emptied after the next drain.
            drop(spool.clean_up(slots));
        }
        wal::checkpoint_if_large(&chain_writer.connection);
        Ok(())
    }

    /// Drains all spools and returns the connection that wrote.
    pub(crate) fn drain_and_connect(
        &mut self,
        patience: Duration,
    ) -> Result<&Connection, StoreError> {
        self.drain_spools(patience)?;
        Ok(&self.chain_writer()?.connection)
    }

    /// Drains all spools, moves the WAL into the database file and truncates the WAL.
    pub(crate) fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.drain_spools(self.database.patience)?;
        wal::checkpoint_and_truncate(&self.chain_writer()?.connection);
        Ok(())
    }

    /// Returns the position up to which a spool is drained; `None` without a writing connection, for a spool that was never drained,
    /// or after an error.
    pub(crate) fn position(&self, slot: u32) -> Option<SpoolPosition> {
        let connection = &self.chain_writer.as_ref()?.connection;
        positions(connection).ok()?.get(&slot).copied()
    }

    /// Closes the writing connection, after a checkpoint if the WAL is large, so that the next process opens it quickly.
    pub(crate) fn disconnect(&mut self) {
        if let Some(chain_writer) = self.chain_writer.take() {
            wal::checkpoint_before_close(&chain_writer.connection);
        }
    }

    /// Deletes the bodies of a session's records and its derived rows; fails if one of its calls is running. The bytes are overwritten:
    /// also on pages that become free (only here, because that costs writes); the WAL is truncated, and drained parts of spools are zeroed.
    pub(crate) fn delete(&mut self, session: &SessionId) -> Result<(), StoreError> {
        self.drain_spools(self.database.patience)?;
        self.overwrite_deleted("ON")?;
        let (now, database) = ((self.clock)(), self.database.clone());
        let running = self.chain_writer()?.transact(now, database.patience, |chain| {
            let deleted = tables::running_call(chain, session.as_str()).and_then(|running| {
                if running.is_none() {
                    tables::delete_session(chain, session.as_str(), to_nanos(now))?;
                }
                Ok(running)
            });
            deleted.map_err(|error| database.error("delete from", &error))
        });
        self.overwrite_deleted("FAST")?;
        if let Some((call, process)) = running? {
            let (session, call) = (session.clone(), CallId::new(call));
            return Err(StoreError::Running { session, call, process });
        }
        wal::checkpoint_and_truncate(&self.chain_writer()?.connection);
        self.wipe_drained()
    }

    /// Returns the writing connection, opened if there is none.
    fn chain_writer(&mut self) -> Result<&mut ChainWriter, StoreError> {
        match &mut self.chain_writer {
            Some(chain_writer) => Ok(chain_writer),
            none => Ok(none.insert(ChainWriter::open(&self.database)?)),
        }
    }

    /// Sets SQLite's `secure_delete` to this value.
    fn overwrite_deleted(&mut self, switch: &str) -> Result<(), StoreError> {
        self.chain_writer()?
            .connection
            .execute_batch(&format!("PRAGMA secure_delete = {switch}"))
            .map_err(|error| self.database.error("delete from", &error))
    }

    /// Overwrites the drained part of every spool with zeros. Does nothing without a writing connection.
    fn wipe_drained(&self) -> Result<(), StoreError> {
        let Some(chain_writer) = &self.chain_writer else { return Ok(()) };
        for (number, drained) in self.pass().positions(&chain_writer.connection)? {
            let (path, slot) = (self.slots.head(number), self.slots.open(number)?);
            let wiped = match spool::open_head_if_there(&path) {
                Ok(Some(head)) => spool::overwrite_drained(&slot.file, &head, drained),
                missing => missing.map(drop),
            };
            wiped.map_err(|why| StoreError::file("overwrite", &self.slots.file(number), why))?;
        }
        Ok(())
    }

    /// Returns a read-only connection, or a drained copy in memory if spools hold records that are not in the database.
    fn connect_to_read(&self) -> Result<CountedConnection, StoreError> {
        let pass = self.pass();
        if !self.database.exists()? && !self.slots.list()?.is_empty() {
            return pass.drain_into_memory(None);
        }
        let (connection, access) = self.database.connect_to_read()?;
        if pass.is_needed(&connection)? {
            return pass.drain_into_memory(Some(access));
        }
        Ok(connection)
    }

    /// Returns a pass that creates no files.
    fn pass(&self) -> DrainPass<'_> {
        let (database, slots, now) = (&self.database, &self.slots, to_nanos((self.clock)()));
        DrainPass { database, slots, now, may_create: false }
    }
}

/// One pass over all spools.
#[derive(Clone, Copy)]
struct DrainPass<'a> {
    database: &'a Database,
    slots: &'a WriterSlots,
    now: i64,
    /// Allows the pass to create spool files, in order to lock them.
    may_create: bool,
}

impl DrainPass<'_> {
    /// Returns whether there is a spool to drain or to empty, or an open call of a dead writer. Takes no lock on the database.
    fn is_needed(&self, connection: &Connection) -> Result<bool, StoreError> {
        let positions = self.positions(connection)?;
        for number in self.slots.list()? {
            let settled = self
                .is_settled(number, positions.get(&number))
                .map_err(|why| StoreError::file("read", &self.slots.file(number), why))?;
            if !settled {
                return Ok(true);
            }
        }
        for number in self.slots_with_open_calls(connection)? {
            if self.slots.try_take(number)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a spool holds nothing to drain and need not be emptied.
    fn is_settled(&self, number: u32, drained: Option<&SpoolPosition>) -> io::Result<bool> {
        let spool = match File::open(self.slots.file(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            spool => spool?,
        };
        let head = spool::read_head_at(&self.slots.head(number))?;
        let is_empty = spool.metadata()?.len() == 0;
        Ok(match head {
            SpoolHead::Empty => is_empty,
            // A drained spool stays as it is while its owner lives; after that it is to be emptied.
            SpoolHead::At(position) => {
                drained == Some(&position) && spool.try_lock_shared().is_err()
            }
            SpoolHead::Unreadable => false,
        })
    }

    /// Reads all spools and appends their records to the chain; returns the spools that were read.
    fn drain_into(&self, chain: &mut Chain<'_>) -> Result<Vec<DrainedSpool>, StoreError> {
        let positions = self.positions(chain.connection)?;
        let mut numbers = self.slots.list()?;
        numbers.extend(self.slots_with_open_calls(chain.connection)?);
        let mut spools = Vec::with_capacity(numbers.len());
        for number in numbers {
            spools.push(DrainedSpool::read(self.slots, number, positions.get(&number).copied())?);
        }
        self.append_spools(chain, &spools)
            .map_err(|error| self.database.error("write to", &error))?;
        Ok(spools)
    }

    /// Appends the records of these spools, closes calls of dead writers, and stores the drained positions.
    fn append_spools(
        &self,
        chain: &mut Chain<'_>,
        spools: &[DrainedSpool],
    ) -> rusqlite::Result<()> {
        append_merged(chain, spools)?;
        tables::write_open_calls(chain)?;
        for spool in spools {
            if spool.is_owner_dead {
                tables::close_open_calls(chain, spool.slot.number, self.now)?;
            }
            if let Some(end) = spool.contents.end {
                set_position(chain.connection, spool.slot.number, &end)?;
            }
        }
        Ok(())
    }

    /// Returns a copy of the database in memory into which all spools are drained.
    fn drain_into_memory(&self, access: Option<Access>) -> Result<CountedConnection, StoreError> {
        let failed = |error: rusqlite::Error| self.database.error("read", &error);
        let copy = self.database.copy_in_memory(access).map_err(failed)?;
        let mut chain = Chain::at_end(&copy).map_err(failed)?;
        self.drain_into(&mut chain)?;
        Ok(copy)
    }

    /// Returns the drained position of each spool, read with retries.
    fn positions(
        &self,
        connection: &Connection,
    ) -> Result<HashMap<u32, SpoolPosition>, StoreError> {
        self.database
            .patiently(|| positions(connection))
            .map_err(|error| self.database.error("read", &error))
    }

    /// Returns the numbers of the writers that have calls in `open_calls`. A pass that creates no files leaves out those without a spool.
    fn slots_with_open_calls(&self, connection: &Connection) -> Result<Vec<u32>, StoreError> {
        let numbers: rusqlite::Result<Vec<u32>> = self.database.patiently(|| {
            connection
                .prepare_cached("SELECT DISTINCT slot FROM open_calls")?
                .query_map([], |row| row.get(0))?
                .collect()
        });
        let mut numbers = numbers.map_err(|error| self.database.error("read", &error))?;
        numbers.retain(|number| self.may_create || self.slots.file(*number).exists());
        Ok(numbers)
    }
}

/// Returns the drained position of each spool.
fn positions(connection: &Connection) -> rusqlite::Result<HashMap<u32, SpoolPosition>> {
    connection
        .prepare_cached("SELECT slot, generation, bytes, hash FROM spools")?
        .query_map([], |row| {
            let position =
                SpoolPosition { generation: row.get(1)?, bytes: row.get(2)?, hash: row.get(3)? };
            Ok((row.get(0)?, position))
        })?
        .collect()
}

/// Stores the drained position of a spool.
fn set_position(
    connection: &Connection,
    slot: u32,
    position: &SpoolPosition,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO spools (slot, generation, bytes, hash) VALUES (?, ?, ?, ?)",
        )?
        .execute((slot, &position.generation, position.bytes, &position.hash))
        .map(drop)
}

/// Appends the events of all spools in the order of time; the order inside each spool is kept.
fn append_merged(chain: &mut Chain<'_>, spools: &[DrainedSpool]) -> rusqlite::Result<()> {
    let mut queues: Vec<_> = spools
        .iter()
        .map(|spool| (spool.slot.number, spool.contents.events().peekable()))
        .collect();
    loop {
        let next = queues
            .iter_mut()
            .filter_map(|(slot, queue)| Some((queue.peek()?.at(), *slot, queue)))
            .min_by_key(|(at, slot, _)| (*at, *slot));
        let Some((_, slot, queue)) = next else { return Ok(()) };
        if let Some(event) = queue.next() {
            append_event(chain, slot, &event)?;
        }
    }
}

/// Appends one event to the chain and to the derived tables.
fn append_event(chain: &mut Chain<'_>, slot: u32, event: &SpoolEvent<'_>) -> rusqlite::Result<()> {
    match event {
        SpoolEvent::Frame(Frame::Taken { at }) => tables::close_open_calls(chain, slot, *at),
        SpoolEvent::Frame(Frame::Announced(announcement)) => {
            tables::append_session_start(chain, announcement)
        }
        SpoolEvent::Frame(Frame::Started(start)) => tables::append_call_start(chain, slot, start),
        SpoolEvent::Frame(Frame::Finished(finish)) => tables::append_call_end(chain, finish),
        SpoolEvent::Frame(Frame::JobEnded(end)) => {
            tables::append_plain_record(chain, StoredKind::JobEnded, end)
        }
        SpoolEvent::Frame(Frame::Recovered(recovered)) => {
            tables::append_plain_record(chain, StoredKind::Recovered, recovered)
        }
        SpoolEvent::Frame(Frame::Noted(kind, note)) => tables::append_note(chain, *kind, note),
        SpoolEvent::Loss { at, anchored, found } => {
            let missing = RecordsMissing {
                version: BODY_VERSION,
                spool: Some(slot),
                anchored: *anchored,
                found: *found,
                outside: false,
            };
            tables::append_loss(chain, *at, &missing)
        }
    }
}

/// A spool that is being drained, with the contents to drain.
struct DrainedSpool {
    slot: WriterSlot,
    /// No process held its lock, so this process holds it now.
    is_owner_dead: bool,
    head: Option<File>,
    contents: SpoolContents,
}

impl DrainedSpool {
    /// Opens a spool, tries to lock it, and reads its undrained frames.
    fn read(
        slots: &WriterSlots,
        number: u32,
        drained: Option<SpoolPosition>,
    ) -> Result<Self, StoreError> {
        let slot = slots.open(number)?;
        let is_owner_dead = slots.try_lock(&slot)?;
        let (path, head) = (slots.file(number), slots.head(number));
        let head =
            spool::open_head_if_there(&head).map_err(|why| StoreError::file("open", &head, why))?;
        let contents = SpoolContents::read(&slot.file, head.as_ref(), drained, is_owner_dead)
            .map_err(|why| StoreError::file("read", &path, why))?;
        Ok(Self { slot, is_owner_dead, head, contents })
    }

    /// After the commit: empties the spool if its owner is dead, or writes its head if that was unreadable.
    fn clean_up(self, slots: &WriterSlots) -> io::Result<()> {
        match &self.contents.end {
            _ if self.is_owner_dead => spool::empty(&self.slot.file, self.head.as_ref()),
            Some(end) if self.contents.needs_head => {
                spool::write_head(&spool::open_head(&slots.head(self.slot.number))?, end)
            }
            _ => Ok(()),
        }
    }
}
