//! One writing transaction after another: begin, find the end of the chain, write, commit, move the anchor.
//!
//! The end is read inside the transaction, where no other process can move it; so the chain is one, however many write. Before the
//! first record, and whenever others have written in between, the end is compared with the anchor: records that are missing then
//! are put on the record as lost, because the anchor will move past them.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::StoreError;
use crate::chain::{Chain, Entry, Head, Kind};
use crate::database::{Database, patiently};
use crate::head::{Anchor, Anchored};
use crate::timestamp::to_nanos;

/// How many pages the WAL has, and how many of them are in the database already.
struct Wal {
    pages: u64,
    done: u64,
}

/// A connection that writes to the journal.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) connection: Connection,
    database: Database,
    anchor: Anchor,
    /// Where this ledger left the chain.
    left_at: Option<Head>,
    /// Transactions until the size of the WAL is looked at again.
    until_look: u32,
}

impl Ledger {
    /// Pages that a running writer lets the WAL gather (32 MiB). It costs nobody time while the database is open.
    const WAL_WHILE_RUNNING: u64 = 8192;
    /// Pages that are left for the next process to read through at its first statement, when no other has the database open.
    const WAL_AT_REST: u64 = 128;
    /// How often to look.
    const LOOK_EVERY: u32 = 64;

    pub(crate) fn new(database: Database, connection: Connection, anchor: Anchor) -> Self {
        Self { connection, database, anchor, left_at: None, until_look: Self::LOOK_EVERY }
    }

    pub(crate) fn open(database: &Database) -> Result<Self, StoreError> {
        let (connection, anchor) = database.open_or_create()?;
        Ok(Self::new(database.clone(), connection, anchor))
    }

    /// Writes all that `write` appends, or nothing.
    pub(crate) fn transact<T>(
        &mut self,
        now: SystemTime,
        patience: Duration,
        write: impl FnOnce(&mut Chain<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let failed = |error: rusqlite::Error| self.database.error("write to", &error);
        let transaction = self.begin(patience).map_err(failed)?;
        let mut chain = Chain::at_end(&transaction).map_err(failed)?;
        let lost = match self.left_at {
            Some(head) if head == chain.head => false,
            _ => self.note_loss(&mut chain, now)?,
        };
        let result = write(&mut chain).map_err(failed)?;
        let head = chain.head;
        transaction.commit().map_err(failed)?;
        self.left_at = Some(head);
        self.until_look = self.until_look.saturating_sub(1);
        self.move_anchor(head, lost)?;
        Ok(result)
    }

    /// Whether the WAL has gathered so much that it should be emptied. It is looked at once in a while.
    pub(crate) fn is_large(&mut self) -> bool {
        if self.until_look > 0 {
            return false;
        }
        self.until_look = Self::LOOK_EVERY;
        self.wal_pages("NOOP").is_some_and(|wal| wal.pages - wal.done >= Self::WAL_WHILE_RUNNING)
    }

    /// Brings what is in the WAL into the database, so that the next transaction can begin it anew. This waits for the disk.
    pub(crate) fn checkpoint_if_large(&mut self) {
        self.until_look = 0;
        if self.is_large() {
            self.wal_pages("PASSIVE");
        }
    }

    /// Leaves a WAL that the next process can open quickly.
    pub(crate) fn checkpoint_at_rest(&mut self) {
        if self.wal_pages("NOOP").is_some_and(|wal| wal.pages >= Self::WAL_AT_REST) {
            self.checkpoint_and_truncate();
        }
    }

    /// The first step does most of the work while others may write; the second, which keeps them out, has little left to do.
    pub(crate) fn checkpoint_and_truncate(&mut self) {
        self.wal_pages("PASSIVE");
        self.wal_pages("TRUNCATE");
    }

    /// Runs a checkpoint and says how the WAL is then. It waits for nobody; if it fails, all stays in the WAL for another time.
    fn wal_pages(&self, mode: &str) -> Option<Wal> {
        self.connection
            .prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))
            .and_then(|mut statement| {
                statement.query_row([], |row| Ok(Wal { pages: row.get(1)?, done: row.get(2)? }))
            })
            .ok()
    }

    fn begin(&self, patience: Duration) -> rusqlite::Result<Transaction<'_>> {
        patiently(patience, || {
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
        })
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
        let (at, body) = (to_nanos(now), body.to_string());
        let (session, turn, call, tool) = ("", "", "", "");
        let kind = Kind::TailLost;
        let entry = Entry { at, session, turn, call, tool, kind, outcome: None, body: &body };
        chain.append(&entry).map_err(failed)?;
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
