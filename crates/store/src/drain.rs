//! From the spools into the database: what the writers said, in the order of time, through the one chain.
//!
//! Whoever looks back drains first, so that nobody sees a journal without what was acknowledged. Any process may drain the spool of
//! any other, alive or dead. The records and how far they came from each spool are written in one transaction, and spools are read
//! only inside of it, so nothing is taken twice however many drain at once. Spools of the dead are emptied afterwards; those of
//! the living by their owners.
//!
//! Where the database cannot be written (no space, no permission, somebody holds it), the same is done to a copy in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use windlass_core::{BODY_VERSION, CallId, RecordsMissing, SessionId};

use crate::StoreError;
use crate::chain::{Chain, Kind};
use crate::connection::Counted;
use crate::database::{Access, Database};
use crate::filling::{Event, Filling};
use crate::frame::{Frame, Mark};
use crate::ledger::Ledger;
use crate::liveness::{Slot, Slots};
use crate::spool::{self, Head};
use crate::tables;
use crate::timestamp::to_nanos;
use crate::wal;

/// The means to drain and to look back.
#[derive(Debug)]
pub(crate) struct Drain {
    database: Database,
    slots: Slots,
    clock: fn() -> SystemTime,
    access: Access,
    /// Opened when it is first needed.
    ledger: Option<Ledger>,
    /// To look back with where there is no ledger.
    reader: Option<Counted>,
}

impl Drain {
    pub(crate) fn new(database: Database, access: Access, clock: fn() -> SystemTime) -> Self {
        let slots = Slots::in_state(&database.dir);
        Self { database, slots, clock, access, ledger: None, reader: None }
    }

    /// A connection that sees everything that was acknowledged.
    pub(crate) fn look(&mut self) -> Result<&Connection, StoreError> {
        if self.access == Access::ReadWrite {
            match self.run(self.database.patience) {
                Err(error) if error.allows_looking_back() => {}
                done => {
                    done?;
                    return Ok(&self.ledger()?.connection);
                }
            }
        }
        let reader = self.connect_to_read()?;
        Ok(self.reader.insert(reader))
    }

    /// Brings all that is in the spools into the database.
    pub(crate) fn run(&mut self, patience: Duration) -> Result<(), StoreError> {
        self.ledger()?;
        let Self { database, slots, clock, ledger: Some(ledger), .. } = self else { return Ok(()) };
        let draining = Draining { database, slots, now: to_nanos(clock()), may_create: true };
        if !draining.is_needed(&ledger.connection)? {
            return Ok(());
        }
        let sources = ledger.transact(clock(), patience, |chain| draining.drain_into(chain))?;
        for source in sources {
            // It is done the next time if not now.
            drop(source.clean_up(slots));
        }
        wal::checkpoint_if_large(&ledger.connection);
        Ok(())
    }

    /// The database, with all that is in the spools.
    pub(crate) fn run_and_look(&mut self, patience: Duration) -> Result<&Connection, StoreError> {
        self.run(patience)?;
        Ok(&self.ledger()?.connection)
    }

    /// Brings everything into the file of the database, and leaves the WAL empty.
    pub(crate) fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.run(self.database.patience)?;
        wal::checkpoint_and_truncate(&self.ledger()?.connection);
        Ok(())
    }

    /// How far a spool is drained.
    pub(crate) fn position(&self, slot: u32) -> Option<Mark> {
        let connection = &self.ledger.as_ref()?.connection;
        positions(connection).ok()?.get(&slot).copied()
    }

    /// Leaves the database for others, so that they can open it quickly.
    pub(crate) fn rest(&mut self) {
        if let Some(ledger) = self.ledger.take() {
            wal::checkpoint_at_rest(&ledger.connection);
        }
    }

    /// What a session said is overwritten: on pages that stay in use always, on pages that become free for this once, because
    /// that costs writes; the checkpoint leaves no copy in the WAL, and spools are overwritten where they are drained.
    pub(crate) fn delete(&mut self, session: &SessionId) -> Result<(), StoreError> {
        self.run(self.database.patience)?;
        self.overwrite_deleted("ON")?;
        let (now, database) = ((self.clock)(), self.database.clone());
        let running = self.ledger()?.transact(now, database.patience, |chain| {
            let deleted = tables::running(chain, session.as_str()).and_then(|running| {
                if running.is_none() {
                    tables::delete(chain, session.as_str(), to_nanos(now))?;
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
        wal::checkpoint_and_truncate(&self.ledger()?.connection);
        self.wipe_drained()
    }

    fn ledger(&mut self) -> Result<&mut Ledger, StoreError> {
        match &mut self.ledger {
            Some(ledger) => Ok(ledger),
            none => Ok(none.insert(Ledger::open(&self.database)?)),
        }
    }

    fn overwrite_deleted(&mut self, switch: &str) -> Result<(), StoreError> {
        self.ledger()?
            .connection
            .execute_batch(&format!("PRAGMA secure_delete = {switch}"))
            .map_err(|error| self.database.error("delete from", &error))
    }

    fn wipe_drained(&self) -> Result<(), StoreError> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        for (number, drained) in self.draining().positions(&ledger.connection)? {
            let (path, slot) = (self.slots.head(number), self.slots.open(number)?);
            let wiped = match spool::open_head_if_there(&path) {
                Ok(Some(head)) => spool::wipe(&slot.file, &head, drained),
                missing => missing.map(drop),
            };
            wiped.map_err(|why| StoreError::file("overwrite", &self.slots.spool(number), why))?;
        }
        Ok(())
    }

    fn connect_to_read(&self) -> Result<Counted, StoreError> {
        let draining = self.draining();
        if !self.database.exists()? && !self.slots.list()?.is_empty() {
            return draining.in_memory(None);
        }
        let (connection, access) = self.database.connect_to_read()?;
        if draining.is_needed(&connection)? {
            return draining.in_memory(Some(access));
        }
        Ok(connection)
    }

    fn draining(&self) -> Draining<'_> {
        let (database, slots, now) = (&self.database, &self.slots, to_nanos((self.clock)()));
        Draining { database, slots, now, may_create: false }
    }
}

/// One pass over all spools.
#[derive(Clone, Copy)]
struct Draining<'a> {
    database: &'a Database,
    slots: &'a Slots,
    now: i64,
    /// Whether files may be made, to lock them.
    may_create: bool,
}

impl Draining<'_> {
    /// Whether there is anything to drain, to empty or to close. It takes no lock on the database.
    fn is_needed(&self, connection: &Connection) -> Result<bool, StoreError> {
        let positions = self.positions(connection)?;
        for number in self.slots.list()? {
            let at_rest = self
                .is_at_rest(number, positions.get(&number))
                .map_err(|why| StoreError::file("read", &self.slots.spool(number), why))?;
            if !at_rest {
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

    fn is_at_rest(&self, number: u32, drained: Option<&Mark>) -> io::Result<bool> {
        let spool = match File::open(self.slots.spool(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            spool => spool?,
        };
        let head = spool::look_at_head(&self.slots.head(number))?;
        let is_empty = spool.metadata()?.len() == 0;
        Ok(match head {
            Head::Empty => is_empty,
            // A drained spool is at rest while its owner lives; after that it is to be emptied.
            Head::At(mark) => drained == Some(&mark) && spool.try_lock_shared().is_err(),
            Head::Unreadable => false,
        })
    }

    fn drain_into(&self, chain: &mut Chain<'_>) -> Result<Vec<Source>, StoreError> {
        let positions = self.positions(chain.connection)?;
        let mut numbers = self.slots.list()?;
        numbers.extend(self.slots_with_open_calls(chain.connection)?);
        let mut sources = Vec::with_capacity(numbers.len());
        for number in numbers {
            sources.push(Source::read(self.slots, number, positions.get(&number).copied())?);
        }
        self.write(chain, &sources).map_err(|error| self.database.error("write to", &error))?;
        Ok(sources)
    }

    fn write(&self, chain: &mut Chain<'_>, sources: &[Source]) -> rusqlite::Result<()> {
        write_merged(chain, sources)?;
        tables::write_begun(chain)?;
        for source in sources {
            if source.is_dead {
                tables::close_left_behind(chain, source.slot.number, self.now)?;
            }
            if let Some(end) = source.filling.end {
                set_position(chain.connection, source.slot.number, &end)?;
            }
        }
        Ok(())
    }

    /// A copy of the database with what is in the spools.
    fn in_memory(&self, access: Option<Access>) -> Result<Counted, StoreError> {
        let failed = |error: rusqlite::Error| self.database.error("read", &error);
        let copy = self.database.copy_in_memory(access).map_err(failed)?;
        let mut chain = Chain::at_end(&copy).map_err(failed)?;
        self.drain_into(&mut chain)?;
        Ok(copy)
    }

    fn positions(&self, connection: &Connection) -> Result<HashMap<u32, Mark>, StoreError> {
        self.database
            .patiently(|| positions(connection))
            .map_err(|error| self.database.error("read", &error))
    }

    /// The writers that have begun calls and not ended them.
    fn slots_with_open_calls(&self, connection: &Connection) -> Result<Vec<u32>, StoreError> {
        let numbers: rusqlite::Result<Vec<u32>> = self.database.patiently(|| {
            connection
                .prepare_cached("SELECT DISTINCT slot FROM open_calls")?
                .query_map([], |row| row.get(0))?
                .collect()
        });
        let mut numbers = numbers.map_err(|error| self.database.error("read", &error))?;
        numbers.retain(|number| self.may_create || self.slots.spool(*number).exists());
        Ok(numbers)
    }
}

fn positions(connection: &Connection) -> rusqlite::Result<HashMap<u32, Mark>> {
    connection
        .prepare_cached("SELECT slot, generation, bytes, hash FROM spools")?
        .query_map([], |row| {
            let mark = Mark { generation: row.get(1)?, bytes: row.get(2)?, hash: row.get(3)? };
            Ok((row.get(0)?, mark))
        })?
        .collect()
}

fn set_position(connection: &Connection, slot: u32, mark: &Mark) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO spools (slot, generation, bytes, hash) VALUES (?, ?, ?, ?)",
        )?
        .execute((slot, &mark.generation, mark.bytes, &mark.hash))
        .map(drop)
}

/// Writes what all spools say in the order of time, without changing the order inside of each.
fn write_merged(chain: &mut Chain<'_>, sources: &[Source]) -> rusqlite::Result<()> {
    let mut queues: Vec<_> = sources
        .iter()
        .map(|source| (source.slot.number, source.filling.events().peekable()))
        .collect();
    loop {
        let next = queues
            .iter_mut()
            .filter_map(|(slot, queue)| Some((queue.peek()?.at(), *slot, queue)))
            .min_by_key(|(at, slot, _)| (*at, *slot));
        let Some((_, slot, queue)) = next else { return Ok(()) };
        if let Some(event) = queue.next() {
            write(chain, slot, &event)?;
        }
    }
}

fn write(chain: &mut Chain<'_>, slot: u32, event: &Event<'_>) -> rusqlite::Result<()> {
    match event {
        Event::Said(Frame::Taken { at }) => tables::close_left_behind(chain, slot, *at),
        Event::Said(Frame::Announced(announcement)) => tables::announce(chain, announcement),
        Event::Said(Frame::Started(start)) => tables::start(chain, slot, start),
        Event::Said(Frame::Finished(finish)) => tables::finish(chain, finish),
        Event::Said(Frame::JobEnded(end)) => tables::remark(chain, Kind::JobEnded, end),
        Event::Said(Frame::Recovered(told)) => tables::remark(chain, Kind::Recovered, told),
        Event::Said(Frame::Noted(kind, note)) => tables::note(chain, *kind, note),
        Event::Lost { at, anchored, found } => {
            let missing = RecordsMissing {
                version: BODY_VERSION,
                spool: Some(slot),
                anchored: *anchored,
                found: *found,
                outside: false,
            };
            tables::note_loss(chain, *at, &missing)
        }
    }
}

/// A spool that is being drained.
struct Source {
    slot: Slot,
    /// Nobody had it, so this process has it now.
    is_dead: bool,
    head: Option<File>,
    filling: Filling,
}

impl Source {
    fn read(slots: &Slots, number: u32, drained: Option<Mark>) -> Result<Self, StoreError> {
        let slot = slots.open(number)?;
        let is_dead = slots.try_lock(&slot)?;
        let (path, head) = (slots.spool(number), slots.head(number));
        let head =
            spool::open_head_if_there(&head).map_err(|why| StoreError::file("open", &head, why))?;
        let filling = Filling::read(&slot.file, head.as_ref(), drained, is_dead)
            .map_err(|why| StoreError::file("read", &path, why))?;
        Ok(Self { slot, is_dead, head, filling })
    }

    /// After the commit: empties what nobody owns, and writes a head where there was none.
    fn clean_up(self, slots: &Slots) -> io::Result<()> {
        match &self.filling.end {
            _ if self.is_dead => spool::empty(&self.slot.file, self.head.as_ref()),
            Some(end) if self.filling.needs_head => {
                spool::write_head(&spool::open_head(&slots.head(self.slot.number))?, end)
            }
            _ => Ok(()),
        }
    }
}
