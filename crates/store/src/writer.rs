//! What the pen writes with: one transaction for all that is handed to it.

use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use windlass_core::{CallId, JournalError, Record, SessionId};

use crate::StoreError;
use crate::database::Database;
use crate::ledger::Ledger;
use crate::liveness::{Slot, Slots};
use crate::tables::{self, Announcement};
use crate::timestamp::to_nanos;

/// One record to write, and who waits for it.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) record: Record,
    pub(crate) waiter: oneshot::Sender<Result<(), JournalError>>,
}

/// The means to write.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) ledger: Ledger,
    /// Sessions that are not written yet.
    pub(crate) announcements: Vec<Announcement>,
    database: Database,
    clock: fn() -> SystemTime,
    /// Its number, once it has written a call.
    slot: Option<Slot>,
    /// Whether the calls that an earlier holder of the number left open are closed.
    inherited_closed: bool,
}

impl Writer {
    pub(crate) fn new(ledger: Ledger, database: Database, clock: fn() -> SystemTime) -> Self {
        let announcements = Vec::new();
        Self { ledger, announcements, database, clock, slot: None, inherited_closed: false }
    }

    /// Writes all of these, or none.
    pub(crate) fn write(&mut self, items: &[Item], patience: Duration) -> Result<(), StoreError> {
        let slot = match &mut self.slot {
            Some(slot) => slot,
            none => none.insert(Slots::in_state(&self.database.dir).take()?),
        };
        let now = (self.clock)();
        self.ledger.transact(now, patience, |chain| {
            if !self.inherited_closed {
                tables::close_left_behind(chain, slot, to_nanos(now))?;
            }
            for announcement in &self.announcements {
                tables::announce(chain, announcement)?;
            }
            for item in items {
                tables::record(chain, slot, &item.record)?;
            }
            Ok(())
        })?;
        self.inherited_closed = true;
        self.announcements.clear();
        Ok(())
    }

    /// What a session said is overwritten: on pages that stay in use always, on pages that become free for this once, because
    /// that costs writes; and the checkpoint leaves no copy in the WAL.
    pub(crate) fn delete(&mut self, session: &SessionId) -> Result<(), StoreError> {
        self.overwrite_deleted("ON")?;
        let now = (self.clock)();
        let running = self.ledger.transact(now, self.database.patience, |chain| {
            let running = tables::running(chain, session.as_str())?;
            if running.is_none() {
                tables::delete(chain, session.as_str(), to_nanos(now))?;
            }
            Ok(running)
        });
        self.overwrite_deleted("FAST")?;
        if let Some((call, process)) = running? {
            let (session, call) = (session.clone(), CallId::new(call));
            return Err(StoreError::Running { session, call, process });
        }
        self.ledger.checkpoint_and_truncate();
        Ok(())
    }

    fn overwrite_deleted(&self, switch: &str) -> Result<(), StoreError> {
        self.ledger
            .connection
            .execute_batch(&format!("PRAGMA secure_delete = {switch}"))
            .map_err(|error| self.database.error("delete from", &error))
    }
}
