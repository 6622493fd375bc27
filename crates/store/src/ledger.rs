//! One writing transaction after another: begin, find the end of the chain, write, commit, move the anchor.
//!
//! The end is read inside the transaction, where no other process can move it; so the chain is one, however many write. Before the
//! first record, and whenever others have written in between, the end is compared with the anchor: records that are missing then
//! are put on the record as lost, because the anchor will move past them.

use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use crate::StoreError;
use crate::chain::{Chain, Head};
use crate::connection::Counted;
use crate::database::{Database, patiently};
use crate::head::{Anchor, Anchored};
use crate::tables;
use crate::timestamp::to_nanos;

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
    /// Pages that a running writer lets the WAL gather (32 MiB). It costs nobody time while the database is open.
    const WAL_WHILE_RUNNING: u64 = 8192;
    /// Pages that are left for the next process to read through at its first statement, when no other has the database open.
    const WAL_AT_REST: u64 = 128;

    pub(crate) fn open(database: &Database) -> Result<Self, StoreError> {
        let (connection, anchor) = database.open_or_create()?;
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

    /// If the WAL has gathered much, brings it into the database and begins it anew. This waits for the disk.
    pub(crate) fn checkpoint_if_large(&mut self) {
        let is_large = |wal: Wal| wal.pages.saturating_sub(wal.done) >= Self::WAL_WHILE_RUNNING;
        if self.checkpoint("NOOP").is_some_and(is_large) {
            self.checkpoint("PASSIVE");
            self.begin_wal();
        }
    }

    /// Leaves a WAL that the next process can open quickly.
    pub(crate) fn checkpoint_at_rest(&mut self) {
        if self.checkpoint("NOOP").is_some_and(|wal| wal.pages >= Self::WAL_AT_REST) {
            self.checkpoint_and_truncate();
        }
    }

    /// The first step does most of the work while others may write; the second, which keeps them out, has little left to do.
    pub(crate) fn checkpoint_and_truncate(&mut self) {
        self.checkpoint("PASSIVE");
        self.checkpoint("TRUNCATE");
        self.begin_wal();
    }

    /// The first transaction in a new WAL waits for the disk, so it had better be one that nobody waits for: this one writes
    /// what is there already.
    fn begin_wal(&self) {
        let written = Transaction::begin(&self.connection).and_then(|transaction| {
            self.connection.execute_batch(Database::SAME_LAYOUT)?;
            transaction.commit()
        });
        // Then somebody else does it, who may have to wait.
        drop(written);
    }

    /// Runs a checkpoint and says how the WAL is then. It waits for nobody; if it fails, all stays in the WAL for another time.
    fn checkpoint(&self, mode: &str) -> Option<Wal> {
        self.connection
            .prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))
            .and_then(|mut statement| {
                statement.query_row([], |row| Ok(Wal { pages: row.get(1)?, done: row.get(2)? }))
            })
            .ok()
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

/// How many pages the WAL has, and how many of them are in the database already.
struct Wal {
    pages: u64,
    done: u64,
}

/// A transaction that has the write lock; undone unless it is committed. Its statements are kept prepared, as rusqlite's are not.
struct Transaction<'connection>(&'connection Connection);

impl<'connection> Transaction<'connection> {
    fn begin(connection: &'connection Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Self(connection))
    }

    fn commit(self) -> rusqlite::Result<()> {
        self.0.prepare_cached("COMMIT")?.execute([]).map(drop)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // After a commit, and after errors that SQLite undid itself, there is none. If undoing fails, the next one cannot begin
        // and says so.
        if !self.0.is_autocommit() {
            drop(self.0.execute_batch("ROLLBACK"));
        }
    }
}
