//! Proving that the journal is whole: every record follows from the one before it, and the last one is where the anchor says. The tables
//! derived from the journal are compared with it in the same pass.
//!
//! All records are read once, in order, on raw bytes: a record that no longer is valid text can still be named.

mod rows;

use std::collections::HashMap;
use std::fmt;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _};
use windlass_core::{CallId, SessionId};

use crate::chain::{COLUMNS, Head, Kind, Stored};
use crate::database::Database;
use crate::head::{self, Anchored};
use crate::witness::Witness;
use crate::{Store, StoreError};

use rows::Derived;
pub use rows::{RowFault, WrongRow, WrongRows};

/// A journal that is whole.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Verified {
    /// How many records it has.
    pub records: u64,
    /// The hash of the last, in hexadecimal: kept elsewhere, it proves later that nothing before it was changed.
    pub head: String,
}

/// The first record that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Broken {
    /// Its number.
    pub seq: u64,
    /// Its session, as far as it can be told.
    pub session: Option<SessionId>,
    /// Its call, as far as it can be told.
    pub call: Option<CallId>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It does not match its hash: one of its fields was changed, or it stood elsewhere.
    Changed,
    /// Its body is not the one it was written with.
    BodyChanged,
    /// Its body is gone, though its session was not deleted.
    BodyRemoved,
    /// It is not there, though later ones are.
    Removed,
    /// It stands before the first.
    Inserted,
    /// It and what followed, up to this number, were cut off at the end.
    CutOff(u64),
    /// The records up to here were written anew: this one is another than the anchor saw.
    Rewritten,
    /// The anchor outside of the state directory has seen another record here, or all up to this number: the state was put back from an
    /// older copy.
    OlderCopy(u64),
    /// A record that was safe when its writer closed, as a file outside of the state directory says, is nowhere in the journal.
    LastMissing,
    /// There is no anchor, so nobody can tell whether records after this one were cut off.
    NoAnchor,
    /// When this record was written, earlier ones were found cut off, or the anchor gone.
    LossNoted,
    /// The database is damaged here.
    Unreadable(String),
}

/// Why a journal could not be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// It is not whole.
    #[error("{0}")]
    Broken(Broken),
    /// It is whole, but tables beside it do not say what it says.
    #[error("{0}")]
    Rows(WrongRows),
    /// It could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}", self.seq)?;
        match (&self.session, &self.call) {
            (Some(session), Some(call)) => write!(f, " (session {session}, call {call})")?,
            (Some(session), None) => write!(f, " (session {session})")?,
            _ => {}
        }
        match &self.fault {
            Fault::Changed => f.write_str(" was changed or moved: it does not match its hash"),
            Fault::BodyChanged => f.write_str(" was changed: its body does not match its hash"),
            Fault::BodyRemoved => f.write_str(" has lost its body, and its session was not deleted"),
            Fault::Removed => f.write_str(" was removed"),
            Fault::Inserted => f.write_str(" was inserted before the first"),
            Fault::CutOff(last) if *last == self.seq => f.write_str(" was cut off at the end"),
            Fault::CutOff(last) => write!(f, " was cut off at the end, with all up to {last}"),
            Fault::Rewritten => f.write_str(" is not the one that journal.head was written for"),
            Fault::OlderCopy(last) => write!(
                f,
                " is missing or another one, though the anchor outside of the state directory has seen all up to {last}: \
                 the state was put back from an older copy, or cut off together with journal.head",
            ),
            Fault::LastMissing => f.write_str(
                " would be the next, and a record is missing that a writer left: \
                 the state was put back from an older copy, or cut off together with journal.head",
            ),
            Fault::NoAnchor => f.write_str(
                " is the last, but journal.head is missing or unreadable: what followed may have been cut off",
            ),
            Fault::LossNoted => f.write_str(
                " notes that records before it had been cut off, or lost in a power failure, when it was written",
            ),
            Fault::Unreadable(why) => write!(f, " cannot be read: {why}"),
        }
    }
}

impl Store {
    /// Reads the whole journal and says whether it is as it was written, or which record is the first that is not.
    pub fn verify(&self) -> Result<Verified, VerifyError> {
        // The witness before all spools are drained: what it speaks of is in one of them by then.
        let witness =
            self.database.outside.as_deref().and_then(|path| Witness::read(&Witness::path(path)));
        self.look(|connection| {
            // One view of the journal for all that follows.
            let view = self
                .database
                .patiently(|| connection.unchecked_transaction())
                .map_err(|error| self.database.error("read", &error))?;
            // The anchor first: what is written meanwhile can only be ahead of it.
            let anchored = head::look(&self.database.head)
                .map_err(|why| StoreError::file("read", &self.database.head, why))?;
            let outside = match &self.database.outside {
                // One that cannot be read says nothing.
                Some(path) => head::look(path).unwrap_or(Anchored::Missing).unless_empty(),
                None => Anchored::Missing,
            };
            Verifier::new(&self.database, &view, anchored, outside, witness)?.run()
        })
    }
}

struct Verifier<'a> {
    database: &'a Database,
    connection: &'a Connection,
    anchored: Anchored,
    outside: Anchored,
    /// A record that must be there and was not found yet.
    witness: Option<Witness>,
    derived: Derived<'a>,
    head: Head,
}

impl<'a> Verifier<'a> {
    fn new(
        database: &'a Database,
        connection: &'a Connection,
        anchored: Anchored,
        outside: Anchored,
        witness: Option<Witness>,
    ) -> Result<Self, StoreError> {
        let failed = |error: rusqlite::Error| database.error("read", &error);
        let deleted = database.patiently(|| deleted_sessions(connection)).map_err(failed)?;
        let derived = Derived::new(connection, deleted).map_err(failed)?;
        let head = Head::START;
        Ok(Self { database, connection, anchored, outside, witness, derived, head })
    }

    fn run(mut self) -> Result<Verified, VerifyError> {
        let failed = |error: rusqlite::Error| self.database.error("read", &error);
        let sql = format!("SELECT {COLUMNS} FROM journal NOT INDEXED ORDER BY seq");
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        loop {
            match rows.next() {
                Ok(Some(row)) => {
                    let stored = Stored::read(row).map_err(|error| self.unreadable(&error))?;
                    self.check(&stored)?;
                    self.derived.learn(&stored).map_err(|error| self.unreadable(&error))?;
                }
                Ok(None) => return self.check_end(),
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
    }

    /// Checks that a record follows from those before it.
    fn check(&mut self, stored: &Stored<'_>) -> Result<(), VerifyError> {
        let seq = self.head.seq + 1;
        if stored.fields.seq > seq.cast_signed() {
            return Err(self.missing(seq, Fault::Removed));
        }
        let fault = self.fault_of(stored, seq);
        if let Some(fault) = fault {
            return Err(named(stored, fault));
        }
        let hash = stored.hash.try_into().map_err(|_| named(stored, Fault::Changed))?;
        self.head = Head { seq, hash };
        let is_other = |anchored| matches!(anchored, Anchored::At(anchor) if anchor.seq == seq && anchor.hash != hash);
        if is_other(self.anchored) {
            return Err(named(stored, Fault::Rewritten));
        }
        if is_other(self.outside) {
            return Err(named(stored, Fault::OlderCopy(seq)));
        }
        let is_it = |witness: Witness| {
            witness.at == stored.fields.at && witness == Witness::of_fields(&stored.fields)
        };
        if self.witness.is_some_and(is_it) {
            self.witness = None;
        }
        Ok(())
    }

    fn fault_of(&self, stored: &Stored<'_>, seq: u64) -> Option<Fault> {
        let fields = &stored.fields;
        if fields.seq != seq.cast_signed() {
            return Some(Fault::Inserted);
        }
        if fields.hash(&self.head.hash) != stored.hash {
            return Some(Fault::Changed);
        }
        match stored.body {
            Some(body) if blake3::hash(body).as_bytes() != fields.body_hash => {
                Some(Fault::BodyChanged)
            }
            None if !self.was_deleted(stored) => Some(Fault::BodyRemoved),
            _ if Kind::parse(fields.kind) == Kind::TailLost => Some(Fault::LossNoted),
            _ => None,
        }
    }

    fn was_deleted(&self, stored: &Stored<'_>) -> bool {
        self.derived.was_deleted(stored.fields.session, stored.fields.seq)
    }

    fn check_end(self) -> Result<Verified, VerifyError> {
        match self.anchored {
            Anchored::At(anchor) if anchor.seq > self.head.seq => {
                Err(self.missing(self.head.seq + 1, Fault::CutOff(anchor.seq)))
            }
            Anchored::At(_) => match self.outside {
                Anchored::At(outside) if outside.seq > self.head.seq => {
                    Err(self.missing(self.head.seq + 1, Fault::OlderCopy(outside.seq)))
                }
                _ if self.witness.is_some() => {
                    Err(self.missing(self.head.seq + 1, Fault::LastMissing))
                }
                _ => self.check_rows(),
            },
            Anchored::Missing | Anchored::Empty | Anchored::Unreadable => {
                Err(self.missing(self.head.seq, Fault::NoAnchor))
            }
        }
    }

    fn check_rows(self) -> Result<Verified, VerifyError> {
        let Self { database, derived, head, .. } = self;
        let wrong = derived.finish().map_err(|error| database.error("read", &error))?;
        if wrong.count > 0 {
            return Err(VerifyError::Rows(wrong));
        }
        let hash = blake3::Hash::from_bytes(head.hash).to_hex().to_string();
        Ok(Verified { records: head.seq, head: hash })
    }

    /// A record that is not there; the table of calls may still know whose it was.
    fn missing(&self, seq: u64, fault: Fault) -> VerifyError {
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
        VerifyError::Broken(Broken { seq, session, call, fault })
    }

    fn unreadable(&self, error: &rusqlite::Error) -> VerifyError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None => {
                self.missing(self.head.seq + 1, Fault::Unreadable(error.to_string()))
            }
            Some(_) => self.database.error("read", error).into(),
        }
    }
}

fn named(stored: &Stored<'_>, fault: Fault) -> VerifyError {
    let name =
        |bytes: &[u8]| (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned());
    VerifyError::Broken(Broken {
        seq: stored.fields.seq.try_into().unwrap_or_default(),
        session: name(stored.fields.session).map(SessionId::new),
        call: name(stored.fields.call).map(CallId::new),
        fault,
    })
}

fn deleted_sessions(connection: &Connection) -> rusqlite::Result<HashMap<Vec<u8>, i64>> {
    connection
        .prepare(
            "SELECT CAST(session AS BLOB), max(seq) FROM journal \
             WHERE call = '' AND kind = 'session_deleted' GROUP BY session",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}
