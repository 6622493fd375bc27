//! The connection that writes to the journal. Each transaction begins, finds the end of the chain, writes, commits and moves the anchors.
//!
//! The end is read inside the transaction, where no other process can move it; so there is one chain for all processes. Before the
//! first record, and whenever another process has written in between, the end is compared with the anchors: if records are missing, the
//! loss is recorded, because the anchors will move past them.

use std::time::{Duration, SystemTime};

use windlass_core::{BODY_VERSION, RecordsMissing};

use crate::StoreError;
use crate::anchor::{Anchor, Anchored};
use crate::chain::{Chain, ChainHead};
use crate::connection::CountedConnection;
use crate::database::{Database, patiently};
use crate::tables;
use crate::timestamp::to_nanos;
use crate::transaction::Transaction;

/// A connection that writes to the journal.
#[derive(Debug)]
pub(crate) struct ChainWriter {
    pub(crate) connection: CountedConnection,
    database: Database,
    anchor: Anchor,
    /// The anchor outside the state directory, if the settings name one.
    outside: Option<Anchor>,
    /// The head of the chain after the last transaction of this connection.
    left_at: Option<ChainHead>,
}

impl ChainWriter {
    /// Opens or creates the database and opens its anchors.
    pub(crate) fn open(database: &Database) -> Result<Self, StoreError> {
        let connection = database.open_or_create()?;
        let anchor = database.open_anchor()?;
        let outside = database.open_outside_anchor();
        Ok(Self { connection, database: database.clone(), anchor, outside, left_at: None })
    }

    /// Runs `write` in one transaction and moves the anchors; on an error nothing is written.
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

    /// Compares the chain with its anchors. If records are missing, appends a record of the loss and returns true.
    fn note_loss(&self, chain: &mut Chain<'_>, now: SystemTime) -> Result<bool, StoreError> {
        let failed = |error: rusqlite::Error| self.database.error("write to", &error);
        let guard = self.anchor.lock().map_err(|why| self.anchor_error("lock", why))?;
        let anchored = guard.read().map_err(|why| self.anchor_error("read", why))?;
        drop(guard);
        let found = chain.head.seq;
        let (anchored_end, outside) =
            if let Some(anchored_end) = missing_end(chain, anchored).map_err(failed)? {
                (anchored_end, false)
            } else if let Some(anchored_end) =
                missing_end(chain, self.outside_anchored()).map_err(failed)?
            {
                (anchored_end, true)
            } else {
                return Ok(false);
            };
        let missing = RecordsMissing {
            version: BODY_VERSION,
            spool: None,
            anchored: anchored_end.seq(),
            found,
            outside,
        };
        tables::append_loss(chain, to_nanos(now), &missing).map_err(failed)?;
        Ok(true)
    }

    /// Reads the outside anchor. A missing, empty or unreadable file counts as the anchor of an empty journal.
    fn outside_anchored(&self) -> Anchored {
        let read = self.outside.as_ref().and_then(|anchor| anchor.lock().ok()?.read().ok());
        match read.map(Anchored::unless_empty) {
            Some(Anchored::Missing) | None => Anchored::At(ChainHead::START),
            Some(other) => other,
        }
    }

    /// Moves both anchors to this head, backward only after a loss.
    fn move_anchor(&self, head: ChainHead, lost: bool) -> Result<(), StoreError> {
        let set = |anchor: &Anchor| if lost { anchor.reset(head) } else { anchor.advance(head) };
        if let Some(outside) = &self.outside {
            // An outside anchor that cannot be written stays behind, which is allowed.
            drop(set(outside));
        }
        set(&self.anchor).map_err(|why| self.anchor_error("write", why))
    }

    /// The error for a failed operation on the anchor.
    fn anchor_error(&self, doing: &'static str, why: std::io::Error) -> StoreError {
        StoreError::file(doing, &self.database.anchor_path, why)
    }
}

/// The last record that an anchor names, if that record is not in the chain.
enum AnchoredEnd {
    At(u64),
    Unknown,
}

impl AnchoredEnd {
    /// The number of the anchored record, if it is known.
    fn seq(&self) -> Option<u64> {
        match self {
            Self::At(seq) => Some(*seq),
            Self::Unknown => None,
        }
    }
}

/// Compares a chain with an anchor: `None` if the chain holds the anchored record, else the end that the anchor names.
fn missing_end(chain: &Chain<'_>, anchored: Anchored) -> rusqlite::Result<Option<AnchoredEnd>> {
    Ok(match anchored {
        Anchored::At(ChainHead::START) => None,
        Anchored::At(head) => match chain.hash_of(head.seq)? {
            Some(hash) if hash == head.hash => None,
            _ => Some(AnchoredEnd::At(head.seq)),
        },
        Anchored::Missing | Anchored::Empty | Anchored::Unreadable => Some(AnchoredEnd::Unknown),
    })
}
