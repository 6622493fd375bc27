//! From the slots into the database: finished checkpoints, and their contents made small.
//!
//! Any process may drain any slot, of the living and of the dead. Slots are read inside of the transaction that also says how far
//! each is drained, so nothing is taken twice; and a slot is emptied, by its owner or by whoever finds it without one, only after
//! that. Then the limits are kept: what is too old goes, and the oldest as long as there is too much.

use std::fs::File;
use std::io;
use std::path::Path;

use rusqlite::Connection;
use windlass_core::SessionId;

use super::HistorySettings;
use super::catalog::{self, Entering, NewRow, Position, UNDO, Use};
use super::compress::Press;
use super::encoding::decode_origin;
use super::gathering::{Failure, Gathering};
use super::objects::Objects;
use super::pen::empty_left;
use super::reading::Reading;
use super::slot::{Entry, Found, Frame, Header, read_header};
use super::view::{Opened, View, open_frame, open_slot, set_aside};
use crate::connection::Counted;
use crate::database::Database;
use crate::liveness::Slots;
use crate::timestamp::to_nanos;
use crate::transaction::Transaction;
use crate::{StoreError, wal};

pub(super) const NANOS_PER_HOUR: i64 = 3_600_000_000_000;

/// The means to drain and to look back.
#[derive(Debug)]
pub(super) struct Drain {
    database: Database,
    slots: Slots,
    objects: Objects,
    settings: HistorySettings,
    /// Opened when it is first needed.
    connection: Option<Counted>,
}

impl Drain {
    pub(super) fn new(
        dir: &Path,
        slots: Slots,
        objects: Objects,
        settings: HistorySettings,
    ) -> Result<Self, StoreError> {
        let database = Database::of_layout(&UNDO, dir, settings.patience)?;
        Ok(Self { database, slots, objects, settings, connection: None })
    }

    /// Something to look back with that has all finished checkpoints; nothing if there never was one.
    ///
    /// This waits for no disk, so slots stay as they are: without power, they are drained again.
    pub(super) fn look(&mut self) -> Result<Option<Reading<'_>>, StoreError> {
        if self.connection.is_none() && !self.database.exists()? && !self.has_frames()? {
            return Ok(None);
        }
        let draining = self.draining()?;
        if draining.has_news()? {
            let drained = draining.run(|_| Ok(()))?;
            draining.report(drained)?;
        }
        if draining.is_over_limits()? {
            // If it cannot be now, then later.
            drop(draining.run_durably());
        }
        Ok(self.reading())
    }

    /// Something to look back with, as far as slots are drained; nothing if the database is not open.
    pub(super) fn reading(&self) -> Option<Reading<'_>> {
        let Self { database, connection, .. } = self;
        connection.as_deref().map(|connection| Reading { database, connection })
    }

    /// Brings all finished checkpoints into the database, safe from a loss of power, and keeps the limits.
    pub(super) fn run(&mut self) -> Result<(), StoreError> {
        let draining = self.draining()?;
        let drained = draining.run_durably()?;
        // What is damaged is left for those who look back, to be told.
        draining.empty_left(&drained.slots);
        Ok(())
    }

    /// Makes files small and removes those that nobody needs. What fails is done the next time.
    pub(super) fn tidy(&mut self) {
        let Ok(draining) = self.draining() else { return };
        drop(draining.compress());
        drop(draining.remove_gone());
        drop(draining.sweep_once_a_day());
        wal::checkpoint_if_large(draining.connection);
    }

    /// Up to where a slot is drained.
    pub(super) fn position(&self, slot: u32) -> Option<Position> {
        catalog::positions(self.connection.as_ref()?).ok()?.get(&slot).copied()
    }

    /// Leaves the database for others, so that they can open it quickly.
    pub(super) fn rest(&mut self) {
        if let Some(connection) = self.connection.take() {
            wal::checkpoint_at_rest(&connection);
        }
    }

    /// Removes all of a session.
    pub(super) fn forget(&mut self, session: &SessionId) -> Result<(), StoreError> {
        match self.look()? {
            Some(_) => self.draining()?.forget(session),
            None => Ok(()),
        }
    }

    fn draining(&mut self) -> Result<Draining<'_>, StoreError> {
        let Self { database, slots, objects, settings, connection } = self;
        let connection = match connection {
            Some(connection) => connection,
            none => {
                let opened = database.open_or_create()?;
                let bounded = catalog::hold_pages(&opened, Use::Read);
                bounded.map_err(|error| database.error("open", &error))?;
                none.insert(opened)
            }
        };
        let now = to_nanos((settings.clock)());
        Ok(Draining { database, slots, objects, settings, connection, now })
    }

    /// Whether any slot holds a finished checkpoint, or cannot tell.
    fn has_frames(&self) -> Result<bool, StoreError> {
        for number in self.slots.list()? {
            match open_slot(&self.slots.spool(number))? {
                Opened::Nothing => {}
                Opened::Filled(_, header) if header.is_empty() => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// One pass over all slots.
#[derive(Clone, Copy)]
pub(super) struct Draining<'a> {
    pub(super) database: &'a Database,
    pub(super) slots: &'a Slots,
    pub(super) objects: &'a Objects,
    pub(super) settings: &'a HistorySettings,
    pub(super) connection: &'a Connection,
    pub(super) now: i64,
}

/// What a pass did.
#[derive(Default)]
struct Drained {
    /// Up to where the slots are drained.
    slots: Vec<(u32, Position)>,
    /// Slots that are not in order.
    damaged: Vec<(u32, StoreError)>,
}

impl Draining<'_> {
    /// Whether there is anything to drain. It takes no lock on the database.
    fn has_news(&self) -> Result<bool, StoreError> {
        let positions = self.read(catalog::positions)?;
        for number in self.slots.list()? {
            let is_new = match open_slot(&self.slots.spool(number))? {
                Opened::Nothing => false,
                Opened::Filled(_, header) => {
                    !header.is_empty() && positions.get(&number) != Some(&header.into())
                }
                Opened::Damaged(_) => true,
            };
            if is_new {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_over_limits(&self) -> Result<bool, StoreError> {
        let is_too_old = |oldest| oldest < self.age_limit();
        Ok(self.read(catalog::totals)?.stored > self.settings.quota
            || self.read(catalog::oldest)?.is_some_and(is_too_old))
    }

    /// Drains and keeps the limits, and waits for the disk. Afterwards nothing depends on the slots and files that are not named
    /// any more.
    fn run_durably(&self) -> Result<Drained, StoreError> {
        let switch = |how: &str| {
            let sql = format!("PRAGMA synchronous = {how}");
            self.connection.execute_batch(&sql).map_err(|error| self.failed(&error))
        };
        if self.settings.sync {
            switch("FULL")?;
        }
        let drained = self.run(|entering| {
            let dropped = entering.drop_oldest(self.age_limit(), self.settings.quota);
            dropped.map_err(|error| self.failed(&error))
        });
        switch("NORMAL")?;
        drained
    }

    /// Drains, and does something more in the same transaction.
    fn run(
        &self,
        finish: impl FnOnce(&mut Entering<'_>) -> Result<(), StoreError>,
    ) -> Result<Drained, StoreError> {
        let hold =
            |of| catalog::hold_pages(self.connection, of).map_err(|error| self.failed(&error));
        hold(Use::Drain)?;
        let drained = self.transact(|entering| {
            let mut drained = Drained::default();
            let positions = self.read(catalog::positions)?;
            let mut press = Press::new();
            for number in self.slots.list()? {
                let done = positions.get(&number).copied();
                self.drain_slot(number, done, entering, &mut press, &mut drained)?;
            }
            finish(entering)?;
            Ok(drained)
        });
        hold(Use::Read)?;
        drained
    }

    pub(super) fn read<T>(
        &self,
        query: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let read = || query(self.connection);
        self.database.patiently(read).map_err(|error| self.database.error("read", &error))
    }

    /// Runs a transaction; all of it or nothing.
    pub(super) fn transact<T>(
        &self,
        write: impl FnOnce(&mut Entering<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let failed = |error: rusqlite::Error| self.failed(&error);
        let transaction =
            self.database.patiently(|| Transaction::begin(self.connection)).map_err(failed)?;
        let mut entering = Entering::new(self.connection);
        let result = write(&mut entering)?;
        entering.close().map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(result)
    }

    fn drain_slot(
        &self,
        number: u32,
        done: Option<Position>,
        entering: &mut Entering<'_>,
        press: &mut Press,
        drained: &mut Drained,
    ) -> Result<(), StoreError> {
        let path = self.slots.spool(number);
        let (slot, header) = match open_slot(&path)? {
            Opened::Nothing => return Ok(()),
            Opened::Filled(slot, header) => (slot, header),
            Opened::Damaged(error) => {
                drained.damaged.push((number, error));
                return Ok(());
            }
        };
        let mut position = match done {
            Some(done) if done.generation == header.generation => done,
            _ => Position { bytes: Header::SIZE, ..header.into() },
        };
        let mut view = View::new(&slot, &path, header.generation, header.length);
        while position.bytes < header.length {
            match self.drain_frame(position.bytes, &mut view, entering, press) {
                Ok(after) => position.bytes = after,
                Err(Failure::Database(error)) => return Err(self.failed(&error)),
                Err(Failure::Slot(error)) => {
                    drained.damaged.push((number, error));
                    break;
                }
            }
        }
        catalog::set_position(self.connection, number, position)
            .map_err(|error| self.failed(&error))?;
        drained.slots.push((number, position));
        Ok(())
    }

    /// Drains one checkpoint, or nothing of it; where the next begins.
    fn drain_frame(
        &self,
        place: u64,
        view: &mut View<'_>,
        entering: &mut Entering<'_>,
        press: &mut Press,
    ) -> Result<u64, Failure> {
        let frame = view.frame(place).map_err(|why| view.failed(why))?;
        let frame = frame.ok_or_else(|| view.damaged(place))?;
        let origin = decode_origin(&frame.body).ok_or_else(|| view.damaged(place))?;
        let contents: Vec<u8> =
            frame.entries.iter().flat_map(|entry| *entry.hash.as_bytes()).collect();
        let Frame { moment, id, body, .. } = &frame;
        let row = NewRow { moment: *moment, id: *id, origin: &origin, contents: &contents, body };
        let mark = entering.mark()?;
        let entered = self.enter(&row, &frame.entries, view, entering, press);
        entering.settle_mark(mark, entered.is_ok())?;
        entered.map(|()| frame.end)
    }

    /// Adds a checkpoint and its contents, one after another: no two of them are in memory at once.
    fn enter(
        &self,
        row: &NewRow<'_>,
        entries: &[Entry],
        view: &mut View<'_>,
        entering: &mut Entering<'_>,
        press: &mut Press,
    ) -> Result<(), Failure> {
        if !entering.add(row)? {
            return Ok(());
        }
        let mut gathering = Gathering { objects: self.objects, view, press };
        for entry in entries {
            gathering.add(entry, entering)?;
            entering.hold(&entry.hash)?;
        }
        Ok(())
    }

    /// What was made before this is too old. The last hour never is.
    fn age_limit(&self) -> i64 {
        let age = i64::try_from(self.settings.age.as_nanos()).unwrap_or(i64::MAX);
        self.now.saturating_sub(age.max(NANOS_PER_HOUR))
    }

    /// Empties slots that nobody has. What fails is done by those who take them.
    fn empty_left(&self, drained: &[(u32, Position)]) {
        for (number, position) in drained {
            drop(self.empty_if_left(*number, *position));
        }
    }

    fn empty_if_left(&self, number: u32, position: Position) -> Result<(), StoreError> {
        let is_drained =
            |header: &Header| Position::from(*header) == position && !header.is_empty();
        self.if_left(number, is_drained, |slot, _| empty_left(slot))
    }

    /// Does something to a slot that nobody has and that was not left in the middle of a change.
    fn if_left(
        &self,
        number: u32,
        is_meant: impl Fn(&Header) -> bool,
        act: impl FnOnce(&File, Header) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let path = self.slots.spool(number);
        let failed = |why| StoreError::file("empty", &path, why);
        let slot = self.slots.open(number)?;
        let look = || match read_header(&slot.file)? {
            Found::At(header) if is_meant(&header) => {
                let left = open_frame(&slot.file, &path, &header)?;
                Ok(left.is_none().then_some(header))
            }
            _ => Ok(None),
        };
        // Looked at before it is locked: who looks for what was left must not find it locked by somebody who passes by.
        if look().map_err(failed)?.is_some()
            && self.slots.try_lock(&slot)?
            && let Some(header) = look().map_err(failed)?
        {
            act(&slot.file, header).map_err(failed)?;
        }
        Ok(())
    }

    /// Sets aside what is damaged, so that it is told once and keeps nobody from going on.
    fn report(&self, drained: Drained) -> Result<(), StoreError> {
        let mut result = Ok(());
        for (number, error) in drained.damaged {
            result = result.and(Err(set_aside(self.slots, number, error)));
        }
        result
    }

    fn forget(&self, session: &SessionId) -> Result<(), StoreError> {
        let switch = |how: &str| {
            let sql = format!("PRAGMA secure_delete = {how}");
            self.connection.execute_batch(&sql).map_err(|error| self.failed(&error))
        };
        switch("ON")?;
        let forgotten = self.transact(|entering| {
            entering.forget(session.as_str()).map_err(|error| self.failed(&error))
        });
        switch("FAST")?;
        forgotten?;
        wal::checkpoint_and_truncate(self.connection);
        for number in self.slots.list()? {
            self.trim_if_left(number)?;
        }
        self.remove_gone()
    }

    /// Cuts off what emptied slots keep of their space, with the bytes that are still in it. Those of others that live are
    /// overwritten when they are filled again.
    fn trim_if_left(&self, number: u32) -> Result<(), StoreError> {
        self.if_left(number, |_| true, |slot, header| slot.set_len(header.length))
    }

    pub(super) fn failed(&self, error: &rusqlite::Error) -> StoreError {
        self.database.error("write to", error)
    }
}
