//! Compares the tables beside the journal with the chain: `sessions`, `calls` and `open_calls`.
//!
//! The tables are derived from the records, so the records say which rows there must be. While the chain is read, the rows of `calls`
//! are looked up one by one; sessions and calls that are open at the end are collected and compared afterwards. The columns `slot` and
//! `process` of `open_calls` are in no record and are not compared.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row};
use windlass_core::SessionBegun;

use crate::chain::{StoredKind, StoredRecord, bytes};

/// Rows of derived tables that differ from the records.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct WrongRows {
    /// The first of them, at most [`WrongRows::MOST_NAMED`].
    pub rows: Vec<WrongRow>,
    /// The number of all wrong rows.
    pub count: u64,
}

/// A row of a derived table that differs from the records.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct WrongRow {
    /// The table: `sessions`, `calls` or `open_calls`.
    pub table: &'static str,
    /// The session of the row.
    pub session: String,
    /// The call of the row; none in `sessions`.
    pub call: Option<String>,
    /// The record that the row belongs to: the end of a call, or its beginning if it is open.
    pub seq: Option<u64>,
    /// The difference from the records.
    pub fault: RowFault,
}

/// The difference between a row and the records.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowFault {
    /// The records demand the row, and it is not there.
    Missing,
    /// The row is there, and no record demands it.
    Surplus,
    /// These columns differ from the records.
    Changed(Vec<&'static str>),
}

impl WrongRows {
    /// The number of rows that are named; more are counted.
    pub const MOST_NAMED: usize = 100;

    /// Counts a wrong row, and keeps it if it is one of the first.
    fn add(&mut self, row: WrongRow) {
        self.count += 1;
        if self.rows.len() < Self::MOST_NAMED {
            self.rows.push(row);
        }
    }
}

impl fmt::Display for WrongRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, row) in self.rows.iter().enumerate() {
            write!(f, "{}{row}", if at == 0 { "" } else { "\n" })?;
        }
        let more = self.count.saturating_sub(self.rows.len() as u64);
        if more > 0 { write!(f, "\nand {more} more rows") } else { Ok(()) }
    }
}

impl fmt::Display for WrongRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, session, .. } = self;
        match &self.call {
            Some(call) => write!(f, "the row of call {call} (session {session}) in `{table}`")?,
            None => write!(f, "the row of session {session} in `{table}`")?,
        }
        match &self.fault {
            RowFault::Missing => f.write_str(" was removed")?,
            RowFault::Surplus => f.write_str(" was added: no record demands it")?,
            RowFault::Changed(columns) => write!(f, " was changed: {}", columns.join(", "))?,
        }
        match self.seq {
            Some(seq) => write!(f, " (record {seq})"),
            None => Ok(()),
        }
    }
}

/// The rows that the records read so far demand, and the wrong rows found so far.
pub(super) struct DerivedRows<'a> {
    connection: &'a Connection,
    calls: CachedStatement<'a>,
    /// Deleted sessions, with the number of the latest deletion of each.
    deleted: HashMap<Vec<u8>, i64>,
    sessions: BTreeMap<Vec<u8>, SessionFacts>,
    open: BTreeMap<Vec<u8>, OpenCallFacts>,
    /// The number of rows of `calls` that are demanded and there.
    found_calls: u64,
    wrong: WrongRows,
}

/// The columns that a row of `sessions` must have.
#[derive(PartialEq, Eq)]
struct SessionFacts {
    workspace: Vec<u8>,
    parent: Option<Vec<u8>>,
    created: i64,
}

/// The columns that a row of `open_calls` must have.
struct OpenCallFacts {
    session: Vec<u8>,
    turn: Vec<u8>,
    tool: Vec<u8>,
    started: i64,
}

impl<'a> DerivedRows<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        deleted: HashMap<Vec<u8>, i64>,
    ) -> rusqlite::Result<Self> {
        let calls = connection.prepare_cached(
            "SELECT started, id, tool, outcome FROM calls WHERE session = ? AND finished = ?",
        )?;
        let wrong = WrongRows { rows: Vec::new(), count: 0 };
        let (sessions, open) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { connection, calls, deleted, sessions, open, found_calls: 0, wrong })
    }

    /// Returns whether a session was deleted after this record.
    pub(super) fn was_deleted(&self, session: &[u8], seq: i64) -> bool {
        self.deleted.get(session).is_some_and(|last| *last > seq)
    }

    /// Updates the demanded rows for a record, as `tables` did when it was written.
    pub(super) fn apply(&mut self, stored: &StoredRecord<'_>) -> rusqlite::Result<()> {
        let fields = &stored.fields;
        match StoredKind::parse(fields.kind) {
            StoredKind::SessionStarted => self.apply_session_start(stored),
            StoredKind::Started => {
                let facts = OpenCallFacts {
                    session: fields.session.to_vec(),
                    turn: fields.turn.to_vec(),
                    tool: fields.tool.to_vec(),
                    started: fields.seq,
                };
                self.open.insert(fields.call.to_vec(), facts);
                self.ensure_session(stored);
            }
            StoredKind::Finished => {
                let started = self.open.remove(fields.call).map(|open| open.started);
                if started.is_none() {
                    self.ensure_session(stored);
                }
                if !self.was_deleted(fields.session, fields.seq) {
                    self.compare_call(stored, started)?;
                }
            }
            StoredKind::SessionDeleted => {
                self.sessions.remove(fields.session);
            }
            kind if kind.is_note() => self.ensure_session(stored),
            _ => {}
        }
        Ok(())
    }

    /// Adds or updates the row of a session that began or went on.
    fn apply_session_start(&mut self, stored: &StoredRecord<'_>) {
        let begun: SessionBegun<'_> =
            stored.body.and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default();
        let workspace = begun.workspace.as_bytes().to_vec();
        let parent = begun.parent.map(|parent| parent.as_str().as_bytes().to_vec());
        if let Some(known) = self.sessions.get_mut(stored.fields.session) {
            known.workspace = workspace;
            known.parent = known.parent.take().or(parent);
        } else {
            let facts = SessionFacts { workspace, parent, created: stored.fields.at };
            self.sessions.insert(stored.fields.session.to_vec(), facts);
        }
    }

    /// Adds the row of a session that was not announced.
    fn ensure_session(&mut self, stored: &StoredRecord<'_>) {
        if !self.sessions.contains_key(stored.fields.session) {
            let created = stored.fields.at;
            let facts = SessionFacts { workspace: Vec::new(), parent: None, created };
            self.sessions.insert(stored.fields.session.to_vec(), facts);
        }
    }

    /// Compares the row of an ended call with its record.
    fn compare_call(
        &mut self,
        stored: &StoredRecord<'_>,
        started: Option<i64>,
    ) -> rusqlite::Result<()> {
        let fields = &stored.fields;
        let key = (String::from_utf8_lossy(fields.session), fields.seq);
        let differences = self
            .calls
            .query_row((key.0.as_ref(), key.1), |row| {
                Ok(changed_columns(&[
                    ("started", row.get::<_, Option<i64>>(0)? == started),
                    ("id", bytes(row, 1)? == Some(fields.call)),
                    ("tool", bytes(row, 2)? == Some(fields.tool)),
                    ("outcome", bytes(row, 3)? == fields.outcome),
                ]))
            })
            .optional()?;
        let fault = match differences {
            None => RowFault::Missing,
            Some(columns) => {
                self.found_calls += 1;
                if columns.is_empty() {
                    return Ok(());
                }
                RowFault::Changed(columns)
            }
        };
        self.wrong.add(wrong_row(
            "calls",
            fields.session,
            Some(fields.call),
            Some(fields.seq),
            fault,
        ));
        Ok(())
    }

    /// Compares the remaining rows after the last record; returns all wrong rows.
    pub(super) fn finish(mut self) -> rusqlite::Result<WrongRows> {
        self.find_surplus_calls()?;
        self.compare_sessions()?;
        self.compare_open()?;
        Ok(self.wrong)
    }

    /// Finds rows of `calls` without a record. Reads them only if there are more rows than the records demand.
    fn find_surplus_calls(&mut self) -> rusqlite::Result<()> {
        let count: u64 =
            self.connection.query_row("SELECT count(*) FROM calls", [], |row| row.get(0))?;
        if count == self.found_calls {
            return Ok(());
        }
        let mut statement = self.connection.prepare(
            "SELECT calls.session, calls.id, calls.finished, journal.seq FROM calls LEFT JOIN journal \
             ON journal.seq = calls.finished AND journal.kind = 'finished' AND journal.session = calls.session",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (session, finished) = (bytes(row, 0)?.unwrap_or_default(), row.get(2)?);
            let is_demanded = row.get::<_, Option<i64>>(3)?.is_some();
            if !is_demanded || self.was_deleted(session, finished) {
                let fault = RowFault::Surplus;
                self.wrong.add(wrong_row("calls", session, bytes(row, 1)?, Some(finished), fault));
            }
        }
        Ok(())
    }

    /// Compares all rows of `sessions`.
    fn compare_sessions(&mut self) -> rusqlite::Result<()> {
        let mut statement =
            self.connection.prepare("SELECT id, workspace, parent, created FROM sessions")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id = bytes(row, 0)?.unwrap_or_default();
            let fault = match self.sessions.remove(id) {
                None => RowFault::Surplus,
                Some(facts) => match session_differences(row, &facts)? {
                    columns if columns.is_empty() => continue,
                    columns => RowFault::Changed(columns),
                },
            };
            self.wrong.add(wrong_row("sessions", id, None, None, fault));
        }
        for id in self.sessions.keys() {
            self.wrong.add(wrong_row("sessions", id, None, None, RowFault::Missing));
        }
        Ok(())
    }

    /// Compares all rows of `open_calls`.
    fn compare_open(&mut self) -> rusqlite::Result<()> {
        let mut statement =
            self.connection.prepare("SELECT id, session, turn, tool, started FROM open_calls")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id = bytes(row, 0)?.unwrap_or_default();
            let (fault, seq) = match self.open.remove(id) {
                None => (RowFault::Surplus, None),
                Some(facts) => match open_differences(row, &facts)? {
                    columns if columns.is_empty() => continue,
                    columns => (RowFault::Changed(columns), Some(facts.started)),
                },
            };
            let session = bytes(row, 1)?.unwrap_or_default();
            self.wrong.add(wrong_row("open_calls", session, Some(id), seq, fault));
        }
        for (id, facts) in &self.open {
            let (seq, fault) = (Some(facts.started), RowFault::Missing);
            self.wrong.add(wrong_row("open_calls", &facts.session, Some(id), seq, fault));
        }
        Ok(())
    }
}

/// The columns of a row of `sessions` that differ from the records.
fn session_differences(row: &Row<'_>, facts: &SessionFacts) -> rusqlite::Result<Vec<&'static str>> {
    Ok(changed_columns(&[
        ("workspace", bytes(row, 1)? == Some(&facts.workspace)),
        ("parent", bytes(row, 2)? == facts.parent.as_deref()),
        ("created", row.get::<_, i64>(3)? == facts.created),
    ]))
}

/// The columns of a row of `open_calls` that differ from the records.
fn open_differences(row: &Row<'_>, facts: &OpenCallFacts) -> rusqlite::Result<Vec<&'static str>> {
    Ok(changed_columns(&[
        ("session", bytes(row, 1)? == Some(&facts.session)),
        ("turn", bytes(row, 2)? == Some(&facts.turn)),
        ("tool", bytes(row, 3)? == Some(&facts.tool)),
        ("started", row.get::<_, i64>(4)? == facts.started),
    ]))
}

/// The names of the columns that are not the same.
fn changed_columns(columns: &[(&'static str, bool)]) -> Vec<&'static str> {
    columns.iter().filter(|(_, is_same)| !is_same).map(|(column, _)| *column).collect()
}

/// Describes a wrong row.
fn wrong_row(
    table: &'static str,
    session: &[u8],
    call: Option<&[u8]>,
    seq: Option<i64>,
    fault: RowFault,
) -> WrongRow {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    WrongRow {
        table,
        session: text(session),
        call: call.map(text),
        seq: seq.and_then(|seq| seq.try_into().ok()),
        fault,
    }
}
