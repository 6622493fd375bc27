//! One writing transaction after another: begin, find the end of the chain, write, commit, move the anchor.
//!
//! The end is read inside the transaction, where no other process can move it; so the chain is one, however many write. Before the
//! first record, and whenever others have written in between, the end is compared with the anchor: records that are missing then
//! are put on the record as lost, because the anchor will move past them.

use std::time::{Duration, SystemTime};

use crate::StoreError;
use crate::chain::{Chain, Head};
use crate::connection::Counted;
use crate::database::{Database, patiently};
use crate::head::{Anchor, Anchored};
use crate::tables;
use crate::timestamp::to_nanos;
use crate::transaction::Transaction;

/// A connection that writes to the journal.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) connection: Counted,
    database: Database,
    anchor: Anchor,
    /// Where this ledger left the chain.
    left_at: Option<Head>,
}

impl Ledger {
    pub(crate) fn open(database: &Database) -> Result<Self, StoreError> {
        let connection = database.open_or_create()?;
        let anchor = database.open_anchor()?;
        Ok(Self { connection, database: database.clone(), anchor, left_at: None })
    }

    /// Writes all that `write` appends, or nothing.
    pub(crate) fn transact<T>(
        &mut self,
        now: SystemTime,
        patience: Duration,
        write: impl FnOnce(&mut Chain<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let failed = |error: rusqlite::Error| self.database.error("write to", &error);
        let transaction =
            patiently(patience, || Transaction::begin(&self.connection)).map_err(failed)?;
        let mut chain = Chain::at_end(&self.connection).map_err(failed)?;
        let before = chain.head;
        let lost = match self.left_at {
            Some(head) if head == chain.head => false,
            _ => self.note_loss(&mut chain, now)?,
        };
        let result = write(&mut chain)?;
        let head = chain.head;
        transaction.commit().map_err(failed)?;
        self.left_at = Some(head);
        if head != before {
            self.move_anchor(head, lost)?;
        }
        Ok(result)
    }

    /// Compares the chain with its anchor; whether something is missing, which is then on the record.
    fn note_loss(&self, chain: &mut Chain<'_>, now: SystemTime) -> Result<bool, StoreError> {
        let guard = self.anchor.lock().map_err(|why| self.anchor_error("lock", why))?;
        let anchored = guard.read().map_err(|why| self.anchor_error("read", why))?;
        drop(guard);
        let failed = |error: rusqlite::Error| self.database.error("write to", &error);
        let body = match anchored {
            Anchored::At(Head::START) => return Ok(false),
            Anchored::At(head) => match chain.hash_of(head.seq).map_err(failed)? {
                Some(hash) if hash == head.hash => return Ok(false),
                _ => serde_json::json!({ "anchored": head.seq, "found": chain.head.seq }),
            },
            Anchored::Missing | Anchored::Unreadable => {
                serde_json::json!({ "anchored": null, "found": chain.head.seq })
            }
        };
        tables::note_loss(chain, to_nanos(now), &body.to_string()).map_err(failed)?;
        Ok(true)
    }

    fn move_anchor(&self, head: Head, lost: bool) -> Result<(), StoreError> {
        let moved = if lost { self.anchor.reset(head) } else { self.anchor.advance(head) };
        moved.map_err(|why| self.anchor_error("write", why))
    }

    fn anchor_error(&self, doing: &'static str, why: std::io::Error) -> StoreError {
        StoreError::file(doing, &self.database.head, why)
    }
}
