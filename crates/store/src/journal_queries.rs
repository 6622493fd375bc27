//! Queries on the journal, for commands such as `sessions` and `log`. They also return records that were tampered with;
//! [`Store::verify`] finds those.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{OptionalExtension as _, Row};
use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use windlass_core::{CallId, Outcome, SessionId, TurnId};

use crate::chain::{COLUMNS, StoredRecord};
use crate::frame::parse_outcome;
use crate::tables::SESSION_RECORD_NUMBERS;
use crate::timestamp::from_nanos;
use crate::{Store, StoreError, StoredKind, utc};

/// One record of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRow {
    /// Its number, counted from 1 over the whole store.
    pub seq: u64,
    /// The time of the record.
    pub at: SystemTime,
    /// Its session, if any.
    pub session: Option<SessionId>,
    /// Its turn, if any.
    pub turn: Option<TurnId>,
    /// Its call, if any.
    pub call: Option<CallId>,
    /// Its tool, if any.
    pub tool: Option<String>,
    /// The kind of the record.
    pub kind: StoredKind,
    /// The outcome of the call, if this is its end.
    pub outcome: Option<Outcome>,
    /// The details, as the text of a JSON object; none if the session was deleted.
    pub body: Option<String>,
    /// Its hash, in hexadecimal.
    pub hash: String,
}

impl JournalRow {
    /// The body as one of the types of bodies, such as [`CallFinished`](windlass_core::CallFinished); `None` if the session was deleted
    /// or the text is not of that type.
    ///
    /// ```
    /// # use windlass_store::JournalRow;
    /// use windlass_core::CallFinished;
    /// fn duration(row: &JournalRow) -> Option<u64> {
    ///     row.body_as::<CallFinished<'_>>()?.duration_us
    /// }
    /// ```
    pub fn body_as<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.body.as_deref()?).ok()
    }

    /// Reads a row with the columns [`COLUMNS`].
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let StoredRecord { fields, hash, body } = StoredRecord::read(row)?;
        Ok(Self {
            seq: fields.seq.try_into().unwrap_or_default(),
            at: from_nanos(fields.at),
            session: text(fields.session).map(SessionId::new),
            turn: text(fields.turn).map(TurnId::new),
            call: text(fields.call).map(CallId::new),
            tool: text(fields.tool),
            kind: StoredKind::parse(fields.kind),
            outcome: fields.outcome.and_then(parse_outcome),
            body: body.map(|body| String::from_utf8_lossy(body).into_owned()),
            hash: hexadecimal(hash),
        })
    }
}

/// The form of `--json` and of exports: missing fields are left out, and the body is an object, not a string.
impl Serialize for JournalRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("at", &utc(self.at))?;
        if let Some(session) = &self.session {
            map.serialize_entry("session", session)?;
        }
        if let Some(turn) = &self.turn {
            map.serialize_entry("turn", turn)?;
        }
        if let Some(call) = &self.call {
            map.serialize_entry("call", call)?;
        }
        if let Some(tool) = &self.tool {
            map.serialize_entry("tool", tool)?;
        }
        map.serialize_entry("kind", &self.kind)?;
        if let Some(outcome) = &self.outcome {
            map.serialize_entry("outcome", outcome)?;
        }
        if let Some(body) = &self.body {
            match serde_json::from_str::<serde_json::Value>(body) {
                Ok(value) => map.serialize_entry("body", &value)?,
                Err(_) => map.serialize_entry("body", body)?,
            }
        }
        map.serialize_entry("hash", &self.hash)?;
        map.end()
    }
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// Its workspace; none if it was never announced.
    pub workspace: Option<PathBuf>,
    /// The session that started it, if it is a sub-agent's.
    pub parent: Option<SessionId>,
    /// The time of its first record.
    #[serde(serialize_with = "serialize_utc")]
    pub created: SystemTime,
    /// The time of its latest record.
    #[serde(serialize_with = "serialize_utc")]
    pub last: SystemTime,
    /// The number of ended calls.
    pub calls: u64,
    /// The number of calls that have begun and not ended.
    pub running: u64,
}

impl SessionRow {
    /// SQL: the latest `?2` sessions for which a condition on `?1` holds.
    fn select(condition: &str) -> String {
        format!(
            "WITH found AS (
                SELECT id, workspace, parent, created, max(
                    coalesce((SELECT max(finished) FROM calls WHERE session = sessions.id), 0),
                    coalesce((SELECT max(started) FROM open_calls WHERE session = sessions.id), 0),
                    coalesce((SELECT max(seq) FROM journal WHERE call = '' AND session = sessions.id), 0)) AS latest
                FROM sessions WHERE {condition} ORDER BY latest DESC LIMIT ?2)
             SELECT id, workspace, parent, created,
                coalesce((SELECT at FROM journal WHERE seq = latest), created),
                (SELECT count(*) FROM calls WHERE session = found.id),
                (SELECT count(*) FROM open_calls WHERE session = found.id)
             FROM found ORDER BY latest DESC"
        )
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let workspace: String = row.get(1)?;
        Ok(Self {
            id: SessionId::new(row.get::<_, String>(0)?),
            workspace: (!workspace.is_empty()).then(|| workspace.into()),
            parent: row.get::<_, Option<String>>(2)?.map(SessionId::new),
            created: from_nanos(row.get(3)?),
            last: from_nanos(row.get(4)?),
            calls: row.get(5)?,
            running: row.get(6)?,
        })
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CallRow {
    /// Its id.
    pub id: CallId,
    /// Its session.
    pub session: SessionId,
    /// Its tool.
    pub tool: String,
    /// The number of the record of its beginning, if it began.
    pub started: Option<u64>,
    /// The number of the record of its end, if it ended.
    pub finished: Option<u64>,
    /// Its outcome, if it ended.
    pub outcome: Option<Outcome>,
}

/// A filter for the list of sessions.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionFilter<'a> {
    /// Only those of this workspace.
    pub workspace: Option<&'a Path>,
    /// At most this many, the latest.
    pub limit: Option<usize>,
}

/// Queries.
impl Store {
    /// An export reads records in batches of this many.
    const EXPORT_BATCH: usize = 1000;

    /// The sessions, the latest first.
    pub fn sessions(&self, filter: SessionFilter<'_>) -> Result<Vec<SessionRow>, StoreError> {
        let workspace = filter.workspace.map(Path::to_string_lossy);
        let sql = SessionRow::select("?1 IS NULL OR workspace = ?1");
        self.read(|connection| {
            connection
                .prepare(&sql)?
                .query_map((workspace.as_deref(), sql_limit(filter.limit)), SessionRow::read)?
                .collect()
        })
    }

    /// One session.
    pub fn session(&self, id: &SessionId) -> Result<SessionRow, StoreError> {
        let sql = SessionRow::select("id = ?1");
        self.read(|connection| {
            connection.prepare(&sql)?.query_row((id.as_str(), 1), SessionRow::read).optional()
        })?
        .ok_or_else(|| StoreError::UnknownSession(id.clone()))
    }

    /// The call with this id, ended or open. Scans the table of calls, which has no index on the id.
    pub fn call(&self, id: &CallId) -> Result<Option<CallRow>, StoreError> {
        self.read(|connection| {
            connection
                .prepare(
                    "SELECT id, session, tool, started, finished, outcome FROM calls WHERE id = ?1 \
                     UNION ALL SELECT id, session, tool, started, NULL, NULL FROM open_calls WHERE id = ?1",
                )?
                .query_row([id.as_str()], |row| {
                    Ok(CallRow {
                        id: CallId::new(row.get::<_, String>(0)?),
                        session: SessionId::new(row.get::<_, String>(1)?),
                        tool: row.get(2)?,
                        started: row.get(3)?,
                        finished: row.get(4)?,
                        outcome: row
                            .get::<_, Option<String>>(5)?
                            .and_then(|name| parse_outcome(name.as_bytes())),
                    })
                })
                .optional()
        })
    }

    /// The records after a number, oldest first, of one session or of all. To follow the journal, call again with the last number.
    pub fn records(
        &self,
        session: Option<&SessionId>,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<JournalRow>, StoreError> {
        let condition = match session {
            Some(_) => format!("seq IN ({SESSION_RECORD_NUMBERS})"),
            None => "?1 IS NULL AND seq > ?2".to_owned(),
        };
        let sql = format!("SELECT {COLUMNS} FROM journal WHERE {condition} ORDER BY seq LIMIT ?3");
        let session = session.map(SessionId::as_str);
        self.read(|connection| {
            connection
                .prepare_cached(&sql)?
                .query_map((session, after_seq, sql_limit(Some(limit))), JournalRow::read)?
                .collect()
        })
    }

    /// The number of the last record, 0 if there is none.
    pub fn last_seq(&self) -> Result<u64, StoreError> {
        self.read(|connection| {
            connection.query_row("SELECT coalesce(max(seq), 0) FROM journal", [], |row| row.get(0))
        })
    }

    /// Writes the records of a session as JSON lines and returns their count.
    pub fn export_session(
        &self,
        session: &SessionId,
        out: &mut dyn io::Write,
    ) -> Result<u64, StoreError> {
        self.session(session)?;
        let failed = |why| StoreError::file("export from", &self.database.path, why);
        let numbers = self.numbers_of(session)?;
        for batch in numbers.chunks(Self::EXPORT_BATCH) {
            for row in self.rows_of(batch)? {
                serde_json::to_writer(&mut *out, &row).map_err(|error| failed(error.into()))?;
                out.write_all(b"\n").map_err(failed)?;
            }
        }
        Ok(numbers.len() as u64)
    }

    /// The numbers of all records of a session, in order.
    fn numbers_of(&self, session: &SessionId) -> Result<Vec<u64>, StoreError> {
        self.read(|connection| {
            connection
                .prepare(&format!("SELECT * FROM ({SESSION_RECORD_NUMBERS}) ORDER BY 1"))?
                .query_map((session.as_str(), 0), |row| row.get(0))?
                .collect()
        })
    }

    /// The records with these numbers.
    fn rows_of(&self, numbers: &[u64]) -> Result<Vec<JournalRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM journal WHERE seq = ?");
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            numbers.iter().map(|number| statement.query_row([number], JournalRow::read)).collect()
        })
    }

    /// The calls of a session that have ended.
    pub(crate) fn calls_of(&self, session: &SessionId) -> Result<Vec<CallId>, StoreError> {
        self.read(|connection| {
            connection
                .prepare("SELECT id FROM calls WHERE session = ?")?
                .query_map([session.as_str()], |row| Ok(CallId::new(row.get::<_, String>(0)?)))?
                .collect()
        })
    }
}

/// A text column; `None` if it is empty.
fn text(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Formats a hash in hexadecimal; it may have been tampered with and have any length.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A limit for SQL; SQLite takes a negative limit for none.
fn sql_limit(limit: Option<usize>) -> i64 {
    limit.and_then(|limit| limit.try_into().ok()).unwrap_or(-1)
}

/// Serializes a time as text in UTC.
fn serialize_utc<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&utc(*at))
}
