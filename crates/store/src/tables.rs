//! The tables derived from the journal: `sessions`, `calls`, and `open_calls` for calls that have not ended. They are updated in the
//! transaction that appends the records, and could be rebuilt from the records.
//!
//! Nearly every call ends in the transaction in which it began. Such a call never gets a row in `open_calls`: started calls are kept in
//! memory ([`TableCache`]) and get their rows before the transaction ends, or before the rows are queried.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;
use windlass_core::{BODY_VERSION, CallFinished, Outcome, RecordsMissing, SessionBegun, SessionId};

use crate::chain::{Chain, NewRecord, StoredKind};

/// The announcement of a session that begins or goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Announcement<'a> {
    pub(crate) at: i64,
    pub(crate) session: &'a str,
    pub(crate) workspace: &'a str,
    pub(crate) parent: Option<&'a str>,
    /// The principal as JSON, if it is not the person of this machine.
    pub(crate) principal: Option<&'a str>,
}

/// Appends a `session_started` record, unless the session is known with this workspace, and updates its row.
pub(crate) fn append_session_start(
    chain: &mut Chain<'_>,
    session: &Announcement<'_>,
) -> rusqlite::Result<()> {
    let Announcement { at, session: id, workspace, parent, principal } = *session;
    let known: Option<String> = chain
        .connection
        .prepare_cached("SELECT workspace FROM sessions WHERE id = ?")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    if known.as_deref() == Some(workspace) {
        return Ok(());
    }
    let body = json(&SessionBegun {
        version: BODY_VERSION,
        workspace: workspace.into(),
        parent: parent.map(SessionId::new),
        principal: principal.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default(),
    });
    let kind = StoredKind::SessionStarted;
    chain.append(&NewRecord { at, kind, body: &body, ..session_record(id) })?;
    chain
        .connection
        .prepare_cached(
            "INSERT INTO sessions (id, workspace, parent, created) VALUES (?, ?, ?, ?) \
             ON CONFLICT DO UPDATE SET workspace = excluded.workspace, parent = coalesce(parent, excluded.parent)",
        )?
        .execute((id, workspace, parent, at))?;
    Ok(())
}

/// SQL: the numbers of the records of session `?1` after record `?2`.
pub(crate) const SESSION_RECORD_NUMBERS: &str = "
    SELECT seq FROM journal WHERE call = '' AND session = ?1 AND seq > ?2
    UNION SELECT finished FROM calls WHERE session = ?1 AND finished > ?2
    UNION SELECT started FROM calls WHERE session = ?1 AND finished > ?2 AND started > ?2
    UNION SELECT started FROM open_calls WHERE session = ?1 AND started > ?2";

/// The beginning of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start<'a> {
    pub(crate) at: i64,
    pub(crate) session: &'a str,
    pub(crate) turn: &'a str,
    pub(crate) call: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) process: u32,
    pub(crate) body: &'a str,
}

/// Pending rows of a transaction, and cached contents of the tables.
#[derive(Debug, Default)]
pub(crate) struct TableCache {
    /// Started calls without a row in `open_calls`, by id.
    started_calls: HashMap<String, StartedCall>,
    /// The ids in `open_calls`, once they were read.
    open_call_ids: Option<HashSet<String>>,
    /// A session that is known to have a row.
    known_session: Option<String>,
}

/// A call that began in this transaction.
#[derive(Debug)]
struct StartedCall {
    session: String,
    turn: String,
    tool: String,
    started: u64,
    slot: u32,
    process: u32,
}

/// Appends the beginning of a call of the writer with this slot number.
pub(crate) fn append_call_start(
    chain: &mut Chain<'_>,
    slot: u32,
    start: &Start<'_>,
) -> rusqlite::Result<()> {
    let Start { at, session, turn, call, tool, process, body } = *start;
    let (kind, outcome) = (StoredKind::Started, None);
    let started =
        chain.append(&NewRecord { at, session, turn, call, tool, kind, outcome, body })?;
    let is_replaced = match &mut chain.table_cache.open_call_ids {
        Some(open_call_ids) => open_call_ids.remove(call),
        none => none.insert(read_open_call_ids(chain.connection)?).remove(call),
    };
    if is_replaced {
        remove_open_call(chain.connection, call)?;
    }
    let [session_of, turn, tool] = [session, turn, tool].map(str::to_owned);
    let started_call = StartedCall { session: session_of, turn, tool, started, slot, process };
    chain.table_cache.started_calls.insert(call.to_owned(), started_call);
    ensure_session(chain, session, at)
}

/// Writes the rows of all started calls to `open_calls`.
pub(crate) fn write_open_calls(chain: &mut Chain<'_>) -> rusqlite::Result<()> {
    let mut calls: Vec<(String, StartedCall)> = chain.table_cache.started_calls.drain().collect();
    calls.sort_by_key(|(_, call)| call.started);
    for (call, StartedCall { session, turn, tool, started, slot, process }) in calls {
        chain
            .connection
            .prepare_cached(
                "INSERT OR REPLACE INTO open_calls (id, session, turn, tool, started, slot, process) \
                 VALUES (?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute((&call, session, turn, tool, started, slot, process))?;
        if let Some(open_call_ids) = &mut chain.table_cache.open_call_ids {
            open_call_ids.insert(call);
        }
    }
    Ok(())
}

/// Reads all ids in `open_calls`.
fn read_open_call_ids(connection: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut statement = connection.prepare_cached("SELECT id FROM open_calls")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Removes the row of an open call; returns the number of its first record, if there was a row.
fn remove_open_call(connection: &Connection, call: &str) -> rusqlite::Result<Option<u64>> {
    connection
        .prepare_cached("DELETE FROM open_calls WHERE id = ? RETURNING started")?
        .query_row([call], |row| row.get(0))
        .optional()
}

/// Adds the row of a session, without a workspace, if it has none: a session may have records without an announcement.
fn ensure_session(chain: &mut Chain<'_>, session: &str, at: i64) -> rusqlite::Result<()> {
    if chain.table_cache.known_session.as_deref() == Some(session) {
        return Ok(());
    }
    chain
        .connection
        .prepare_cached(
            "INSERT OR IGNORE INTO sessions (id, workspace, created) VALUES (?, '', ?)",
        )?
        .execute((session, at))?;
    chain.table_cache.known_session = Some(session.to_owned());
    Ok(())
}

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finish<'a> {
    pub(crate) at: i64,
    pub(crate) session: &'a str,
    pub(crate) turn: &'a str,
    pub(crate) call: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) outcome: Outcome,
    pub(crate) body: &'a str,
}

/// Appends the end of a call and moves its row from `open_calls` to `calls`.
pub(crate) fn append_call_end(chain: &mut Chain<'_>, finish: &Finish<'_>) -> rusqlite::Result<()> {
    let Finish { at, session, turn, call, tool, outcome, body } = *finish;
    let outcome = Some(outcome.as_str());
    let kind = StoredKind::Finished;
    let seq = chain.append(&NewRecord { at, session, turn, call, tool, kind, outcome, body })?;
    let started = match chain.table_cache.started_calls.remove(call) {
        Some(started_call) => Some(started_call.started),
        None => remove_open_call(chain.connection, call)?,
    };
    chain
        .connection
        .prepare_cached(
            "INSERT INTO calls (session, finished, started, id, tool, outcome) VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute((session, seq, started, call, tool, outcome))?;
    match started {
        Some(_) => Ok(()),
        None => ensure_session(chain, session, at),
    }
}

/// A record without a row in a table: the end of a job, which may come long after that of its call, a recovery, or a note of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlainRecord<'a> {
    pub(crate) at: i64,
    pub(crate) session: &'a str,
    pub(crate) turn: &'a str,
    pub(crate) call: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) body: &'a str,
}

/// Appends a record without a row in a table.
pub(crate) fn append_plain_record(
    chain: &mut Chain<'_>,
    kind: StoredKind,
    record: &PlainRecord<'_>,
) -> rusqlite::Result<()> {
    let PlainRecord { at, session, turn, call, tool, body } = *record;
    let outcome = None;
    chain.append(&NewRecord { at, session, turn, call, tool, kind, outcome, body }).map(drop)
}

/// Appends a note of a session, and gives the session a row if it has none.
pub(crate) fn append_note(
    chain: &mut Chain<'_>,
    kind: StoredKind,
    note: &PlainRecord<'_>,
) -> rusqlite::Result<()> {
    append_plain_record(chain, kind, note)?;
    ensure_session(chain, note.session, note.at)
}

/// A row of `open_calls`.
#[derive(Debug)]
struct OpenCall {
    call: String,
    session: String,
    turn: String,
    tool: String,
    process: u32,
}

/// Ends the open calls of the former holder of this slot as cancelled.
pub(crate) fn close_open_calls(chain: &mut Chain<'_>, slot: u32, at: i64) -> rusqlite::Result<()> {
    write_open_calls(chain)?;
    for open in open_calls_of(chain, slot)? {
        append_call_end(
            chain,
            &Finish {
                at,
                session: &open.session,
                turn: &open.turn,
                call: &open.call,
                tool: &open.tool,
                outcome: Outcome::Cancelled,
                body: &json(&CallFinished::interrupted(open.process)),
            },
        )?;
    }
    Ok(())
}

/// The open calls of a slot, in the order of their beginnings.
fn open_calls_of(chain: &Chain<'_>, slot: u32) -> rusqlite::Result<Vec<OpenCall>> {
    chain
        .connection
        .prepare("SELECT id, session, turn, tool, process FROM open_calls WHERE slot = ? ORDER BY started")?
        .query_map([slot], |row| {
            Ok(OpenCall {
                call: row.get(0)?,
                session: row.get(1)?,
                turn: row.get(2)?,
                tool: row.get(3)?,
                process: row.get(4)?,
            })
        })?
        .collect()
}

/// The id and the process of an open call of this session, if there is one.
pub(crate) fn running_call(
    chain: &mut Chain<'_>,
    session: &str,
) -> rusqlite::Result<Option<(String, u32)>> {
    write_open_calls(chain)?;
    chain
        .connection
        .prepare("SELECT id, process FROM open_calls WHERE session = ? LIMIT 1")?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Removes a session's rows from `calls` and `sessions` and the bodies of its records, and appends a `session_deleted` record. The
/// records stay in the chain.
pub(crate) fn delete_session(
    chain: &mut Chain<'_>,
    session: &str,
    at: i64,
) -> rusqlite::Result<()> {
    chain.append(&NewRecord {
        at,
        kind: StoredKind::SessionDeleted,
        body: "{}",
        ..session_record(session)
    })?;
    let deletion = chain.head.seq;
    chain
        .connection
        .prepare(&format!(
            "UPDATE journal SET body = NULL WHERE seq IN ({SESSION_RECORD_NUMBERS}) AND seq < ?3"
        ))?
        .execute((session, 0, deletion))?;
    for table in ["calls WHERE session", "sessions WHERE id"] {
        chain.connection.prepare(&format!("DELETE FROM {table} = ?"))?.execute([session])?;
    }
    Ok(())
}

/// Appends a record that records before it are missing.
pub(crate) fn append_loss(
    chain: &mut Chain<'_>,
    at: i64,
    missing: &RecordsMissing,
) -> rusqlite::Result<()> {
    let body = &json(missing);
    chain
        .append(&NewRecord { at, kind: StoredKind::TailLost, body, ..session_record("") })
        .map(drop)
}

/// A body as JSON. The bodies written here cannot fail to serialize.
fn json(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_else(|_| "{}".to_owned())
}

/// A record of a session without turn, call or body; the caller sets the other fields.
fn session_record(session: &str) -> NewRecord<'_> {
    let (turn, call, tool) = ("", "", "");
    NewRecord {
        at: 0,
        session,
        turn,
        call,
        tool,
        kind: StoredKind::Unknown,
        outcome: None,
        body: "",
    }
}
