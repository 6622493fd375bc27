//! One writing transaction after another: begin, find the end of the chain, write, commit, move the anchor.
//!
//! The end is read inside the transaction, where no other process can move it; so the chain is one, however many write. Before the
//! first record, and whenever others have written in between, the end is compared with the anchor: records that are missing then
//! are put on the record as lost, because the anchor will move past them.

use std::time::{Duration, SystemTime};

use windlass_core::{BODY_VERSION, RecordsMissing};

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
    /// The anchor outside of the state directory, if there is one.
    outside: Option<Anchor>,
    /// Where this ledger left the chain.
    left_at: Option<Head>,
}

impl Ledger {
    pub(crate) fn open(database: &Database) -> Result<Self, StoreError> {
        let connection = database.open_or_create()?;
        let anchor = database.open_anchor()?;
        let outside = database.open_outside_anchor();
        Ok(Self { connection, database: database.clone(), anchor, outside, left_at: None })
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

    /// Compares the chain with its anchors; whether something is missing, which is then on the record.
    fn note_loss(&self, chain: &mut Chain<'_>, now: SystemTime) -> Result<bool, StoreError> {
        let failed = |error: rusqlite::Error| self.database.error("write to", &error);
        let guard = self.anchor.lock().map_err(|why| self.anchor_error("lock", why))?;
        let anchored = guard.read().map_err(|why| self.anchor_error("read", why))?;
        drop(guard);
        let found = chain.head.seq;
        let (reached, outside) = if let Some(reached) =
            passed_by(chain, anchored).map_err(failed)?
        {
            (reached, false)
        } else if let Some(reached) = passed_by(chain, self.outside_anchored()).map_err(failed)? {
            (reached, true)
        } else {
            return Ok(false);
        };
        let missing = RecordsMissing {
            version: BODY_VERSION,
            spool: None,
            anchored: reached.seq(),
            found,
            outside,
        };
        tables::note_loss(chain, to_nanos(now), &missing).map_err(failed)?;
        Ok(true)
    }

    /// What the anchor outside says. One that is not there, was never written or cannot be read says that nothing was recorded.
    fn outside_anchored(&self) -> Anchored {
        let read = self.outside.as_ref().and_then(|anchor| anchor.lock().ok()?.read().ok());
        match read.map(Anchored::unless_empty) {
            Some(Anchored::Missing) | None => Anchored::At(Head::START),
            Some(other) => other,
        }
    }

    fn move_anchor(&self, head: Head, lost: bool) -> Result<(), StoreError> {
        let set = |anchor: &Anchor| if lost { anchor.reset(head) } else { anchor.advance(head) };
        if let Some(outside) = &self.outside {
            // Where it cannot be written, it stays behind, which is no fault.
            drop(set(outside));
        }
        set(&self.anchor).map_err(|why| self.anchor_error("write", why))
    }

    fn anchor_error(&self, doing: &'static str, why: std::io::Error) -> StoreError {
        StoreError::file(doing, &self.database.head, why)
    }
}

/// How far an anchor has seen a journal come that is not this chain.
enum Reached {
    At(u64),
    Unknown,
}

impl Reached {
    fn seq(&self) -> Option<u64> {
        match self {
            Self::At(seq) => Some(*seq),
            Self::Unknown => None,
        }
    }
}

/// Compares a chain with an anchor; `None` if it reached the anchored record.
fn passed_by(chain: &Chain<'_>, anchored: Anchored) -> rusqlite::Result<Option<Reached>> {
    Ok(match anchored {
        Anchored::At(Head::START) => None,
        Anchored::At(head) => match chain.hash_of(head.seq)? {
            Some(hash) if hash == head.hash => None,
            _ => Some(Reached::At(head.seq)),
        },
        Anchored::Missing | Anchored::Empty | Anchored::Unreadable => Some(Reached::Unknown),
    })
}
