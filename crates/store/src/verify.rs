//! Verifies the journal: every record follows from the one before it, and the last one matches the anchors. The tables derived from
//! the journal are compared with it in the same pass.
//!
//! All records are read once, in order, on raw bytes: a record that no longer is valid text can still be named.

mod rows;

use std::collections::HashMap;
use std::fmt;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _};
use windlass_core::{CallId, SessionId};

use crate::anchor::{self, Anchored};
use crate::chain::{COLUMNS, ChainHead, StoredKind, StoredRecord};
use crate::database::Database;
use crate::last_record_anchor::LastRecordAnchor;
use crate::{Store, StoreError};

use rows::DerivedRows;
pub use rows::{RowFault, WrongRow, WrongRows};

/// The result for an intact journal.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Verified {
    /// The number of records.
    pub records: u64,
    /// The hash of the last record, in hexadecimal. Kept elsewhere, it proves later that no record before it was changed.
    pub head: String,
}

/// The first record that differs from its written form.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BrokenRecord {
    /// Its number.
    pub seq: u64,
    /// Its session, if known.
    pub session: Option<SessionId>,
    /// Its call, if known.
    pub call: Option<CallId>,
    /// The fault of the record.
    pub fault: RecordFault,
}

/// The fault of a record.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordFault {
    /// It does not match its hash: a field was changed, or the record was moved.
    Changed,
    /// Its body does not match its body hash.
    BodyChanged,
    /// Its body is gone, though its session was not deleted.
    BodyRemoved,
    /// It is missing, though later records are there.
    Removed,
    /// It was inserted before the first record.
    Inserted,
    /// It and all later records up to this number were cut off.
    CutOff(u64),
    /// The records up to here were rewritten: the anchor has another hash for this one.
    Rewritten,
    /// The anchor outside the state directory has another hash here, or a higher last number: the state directory was replaced by an older
    /// copy.
    OlderCopy(u64),
    /// The record that the last-record anchor outside the state directory names is not in the journal.
    LastMissing,
    /// There is no anchor, so later records may have been cut off.
    NoAnchor,
    /// This record notes that earlier records were missing, or the anchor was, when it was written.
    LossNoted,
    /// The database cannot be read here.
    Unreadable(String),
}

/// The reason that a journal was not verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A record is broken.
    #[error("{0}")]
    Broken(BrokenRecord),
    /// All records are intact, but derived tables differ from them.
    #[error("{0}")]
    Rows(WrongRows),
    /// The journal could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl fmt::Display for BrokenRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}", self.seq)?;
        match (&self.session, &self.call) {
            (Some(session), Some(call)) => write!(f, " (session {session}, call {call})")?,
            (Some(session), None) => write!(f, " (session {session})")?,
            _ => {}
        }
        match &self.fault {
            RecordFault::Changed => f.write_str(" was changed or moved: it does not match its hash"),
            RecordFault::BodyChanged => f.write_str(" was changed: its body does not match its hash"),
            RecordFault::BodyRemoved => f.write_str(" has lost its body, and its session was not deleted"),
            RecordFault::Removed => f.write_str(" was removed"),
            RecordFault::Inserted => f.write_str(" was inserted before the first"),
            RecordFault::CutOff(last) if *last == self.seq => f.write_str(" was cut off at the end"),
            RecordFault::CutOff(last) => write!(f, " was cut off at the end, with all up to {last}"),
            RecordFault::Rewritten => f.write_str(" is not the one that journal.head was written for"),
            RecordFault::OlderCopy(last) => write!(
                f,
                " is missing or another one, though the anchor outside of the state directory has seen all up to {last}: \
                 the state was put back from an older copy, or cut off together with journal.head",
            ),
            RecordFault::LastMissing => f.write_str(
                " would be the next, and a record is missing that a writer left: \
                 the state was put back from an older copy, or cut off together with journal.head",
            ),
            RecordFault::NoAnchor => f.write_str(
                " is the last, but journal.head is missing or unreadable: what followed may have been cut off",
            ),
            RecordFault::LossNoted => f.write_str(
                " notes that records before it had been cut off, or lost in a power failure, when it was written",
            ),
            RecordFault::Unreadable(why) => write!(f, " cannot be read: {why}"),
        }
    }
}

impl Store {
    /// Reads the whole journal and compares it with its hashes, anchors and derived tables. Fails with the first broken record.
    pub fn verify(&self) -> Result<Verified, VerifyError> {
        // Read before all spools are drained: the record it names is in one of them by then.
        let last_record_anchor = self
            .database
            .outside_anchor_path
            .as_deref()
            .and_then(|path| LastRecordAnchor::read(&LastRecordAnchor::path(path)));
        self.with_drained_connection(|connection| {
            // One snapshot of the journal for all queries below.
            let view = self
                .database
                .patiently(|| connection.unchecked_transaction())
                .map_err(|error| self.database.error("read", &error))?;
            // The anchor is read first: records written meanwhile can only be ahead of it.
            let anchored = anchor::read_at(&self.database.anchor_path)
                .map_err(|why| StoreError::file("read", &self.database.anchor_path, why))?;
            let outside_anchored = match &self.database.outside_anchor_path {
                // An unreadable outside anchor is ignored.
                Some(path) => anchor::read_at(path).unwrap_or(Anchored::Missing).unless_empty(),
                None => Anchored::Missing,
            };
            Verifier::new(&self.database, &view, anchored, outside_anchored, last_record_anchor)?
                .run()
        })
    }
}

/// The state of one pass over the journal.
struct Verifier<'a> {
    database: &'a Database,
    connection: &'a Connection,
    anchored: Anchored,
    outside_anchored: Anchored,
    /// The record that the last-record anchor names, until it is found.
    last_record_anchor: Option<LastRecordAnchor>,
    derived_rows: DerivedRows<'a>,
    head: ChainHead,
}

impl<'a> Verifier<'a> {
    fn new(
        database: &'a Database,
        connection: &'a Connection,
        anchored: Anchored,
        outside_anchored: Anchored,
        last_record_anchor: Option<LastRecordAnchor>,
    ) -> Result<Self, StoreError> {
        let failed = |error: rusqlite::Error| database.error("read", &error);
        let deleted = database.patiently(|| deleted_sessions(connection)).map_err(failed)?;
        let derived_rows = DerivedRows::new(connection, deleted).map_err(failed)?;
        let head = ChainHead::START;
        Ok(Self {
            database,
            connection,
            anchored,
            outside_anchored,
            last_record_anchor,
            derived_rows,
            head,
        })
    }

    /// Checks all records, then the anchors, then the derived rows.
    fn run(mut self) -> Result<Verified, VerifyError> {
        let failed = |error: rusqlite::Error| self.database.error("read", &error);
        let sql = format!("SELECT {COLUMNS} FROM journal NOT INDEXED ORDER BY seq");
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        loop {
            match rows.next() {
                Ok(Some(row)) => {
                    let stored =
                        StoredRecord::read(row).map_err(|error| self.unreadable(&error))?;
                    self.check_record(&stored)?;
                    self.derived_rows.apply(&stored).map_err(|error| self.unreadable(&error))?;
                }
                Ok(None) => return self.check_end(),
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
    }

    /// Checks that a record follows from the one before it and matches the anchors.
    fn check_record(&mut self, stored: &StoredRecord<'_>) -> Result<(), VerifyError> {
        let seq = self.head.seq + 1;
        if stored.fields.seq > seq.cast_signed() {
            return Err(self.missing(seq, RecordFault::Removed));
        }
        let fault = self.fault_of(stored, seq);
        if let Some(fault) = fault {
            return Err(broken_record(stored, fault));
        }
        let hash =
            stored.hash.try_into().map_err(|_| broken_record(stored, RecordFault::Changed))?;
        self.head = ChainHead { seq, hash };
        let is_other = |anchored| matches!(anchored, Anchored::At(anchor) if anchor.seq == seq && anchor.hash != hash);
        if is_other(self.anchored) {
            return Err(broken_record(stored, RecordFault::Rewritten));
        }
        if is_other(self.outside_anchored) {
            return Err(broken_record(stored, RecordFault::OlderCopy(seq)));
        }
        let is_last_record = |last_record_anchor: LastRecordAnchor| {
            last_record_anchor.at == stored.fields.at
                && last_record_anchor == LastRecordAnchor::of_fields(&stored.fields)
        };
        if self.last_record_anchor.is_some_and(is_last_record) {
            self.last_record_anchor = None;
        }
        Ok(())
    }

    /// The fault of a record that should have this number.
    fn fault_of(&self, stored: &StoredRecord<'_>, seq: u64) -> Option<RecordFault> {
        let fields = &stored.fields;
        if fields.seq != seq.cast_signed() {
            return Some(RecordFault::Inserted);
        }
        if fields.hash(&self.head.hash) != stored.hash {
            return Some(RecordFault::Changed);
        }
        match stored.body {
            Some(body) if blake3::hash(body).as_bytes() != fields.body_hash => {
                Some(RecordFault::BodyChanged)
            }
            None if !self.was_deleted(stored) => Some(RecordFault::BodyRemoved),
            _ if StoredKind::parse(fields.kind) == StoredKind::TailLost => {
                Some(RecordFault::LossNoted)
            }
            _ => None,
        }
    }

    /// Returns whether the session of a record was deleted after it.
    fn was_deleted(&self, stored: &StoredRecord<'_>) -> bool {
        self.derived_rows.was_deleted(stored.fields.session, stored.fields.seq)
    }

    /// Checks that the last record is not behind an anchor, then the derived tables.
    fn check_end(self) -> Result<Verified, VerifyError> {
        match self.anchored {
            Anchored::At(anchor) if anchor.seq > self.head.seq => {
                Err(self.missing(self.head.seq + 1, RecordFault::CutOff(anchor.seq)))
            }
            Anchored::At(_) => match self.outside_anchored {
                Anchored::At(outside_anchored) if outside_anchored.seq > self.head.seq => {
                    Err(self
                        .missing(self.head.seq + 1, RecordFault::OlderCopy(outside_anchored.seq)))
                }
                _ if self.last_record_anchor.is_some() => {
                    Err(self.missing(self.head.seq + 1, RecordFault::LastMissing))
                }
                _ => self.check_rows(),
            },
            Anchored::Missing | Anchored::Empty | Anchored::Unreadable => {
                Err(self.missing(self.head.seq, RecordFault::NoAnchor))
            }
        }
    }

    /// Reports rows of derived tables that differ from the records.
    fn check_rows(self) -> Result<Verified, VerifyError> {
        let Self { database, derived_rows, head, .. } = self;
        let wrong = derived_rows.finish().map_err(|error| database.error("read", &error))?;
        if wrong.count > 0 {
            return Err(VerifyError::Rows(wrong));
        }
        let hash = blake3::Hash::from_bytes(head.hash).to_hex().to_string();
        Ok(Verified { records: head.seq, head: hash })
    }

    /// The error for a missing record; its session and call are looked up in the table of calls.
    fn missing(&self, seq: u64, fault: RecordFault) -> VerifyError {
        let whose = self
            .connection
            .prepare("SELECT session, id FROM calls WHERE started = ?1 OR finished = ?1")
            .and_then(|mut statement| {
                statement
                    .query_row([seq], |row| {
                        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
                    })
                    .optional()
            });
        let (session, call) = whose.ok().flatten().unzip();
        let (session, call) = (session.map(SessionId::new), call.map(CallId::new));
        VerifyError::Broken(BrokenRecord { seq, session, call, fault })
    }

    /// The error for a record that SQLite cannot read.
    fn unreadable(&self, error: &rusqlite::Error) -> VerifyError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None => {
                self.missing(self.head.seq + 1, RecordFault::Unreadable(error.to_string()))
            }
            Some(_) => self.database.error("read", error).into(),
        }
    }
}

/// The error for a record with this fault.
fn broken_record(stored: &StoredRecord<'_>, fault: RecordFault) -> VerifyError {
    let name =
        |bytes: &[u8]| (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned());
    VerifyError::Broken(BrokenRecord {
        seq: stored.fields.seq.try_into().unwrap_or_default(),
        session: name(stored.fields.session).map(SessionId::new),
        call: name(stored.fields.call).map(CallId::new),
        fault,
    })
}

/// The deleted sessions, with the number of the latest deletion of each.
fn deleted_sessions(connection: &Connection) -> rusqlite::Result<HashMap<Vec<u8>, i64>> {
    connection
        .prepare(
            "SELECT CAST(session AS BLOB), max(seq) FROM journal \
             WHERE call = '' AND kind = 'session_deleted' GROUP BY session",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}
