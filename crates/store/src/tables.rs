//! The tables beside the journal, kept in step with it inside the same transaction: sessions, calls, and calls that have not ended.
//! They are derived from the record and can be told from it again.
//!
//! Nearly every call ends in the transaction in which it began. Such a call never gets a row among those that have not ended: what
//! begins is kept in memory ([`Beside`]) and gets its row when the transaction is about to end, or when rows are asked for.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;
use windlass_core::{BODY_VERSION, CallFinished, Outcome, RecordsMissing, SessionBegun, SessionId};

use crate::chain::{Chain, Entry, Kind};

/// A session that begins or goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Announcement<'a> {
    pub(crate) at: i64,
    pub(crate) session: &'a str,
    pub(crate) workspace: &'a str,
    pub(crate) parent: Option<&'a str>,
    /// The identity behind it as JSON, if it is not the person of this machine.
    pub(crate) principal: Option<&'a str>,
}

/// Records that a session began, unless it is known with this workspace.
pub(crate) fn announce(chain: &mut Chain<'_>, session: &Announcement<'_>) -> rusqlite::Result<()> {
    let Announcement { at, session: id, workspace, parent, principal } = *session;
    let known: Option<String> = chain
        .connection
        .prepare_cached("SELECT workspace FROM sessions WHERE id = ?")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    if known.as_deref() == Some(workspace) {
        return Ok(());
    }
    let body = text(&SessionBegun {
        version: BODY_VERSION,
        workspace: workspace.into(),
        parent: parent.map(SessionId::new),
        principal: principal.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
    });
    let kind = Kind::SessionStarted;
    chain.append(&Entry { at, kind, body: &body, ..of_session(id) })?;
    chain
        .connection
        .prepare_cached(
            "INSERT INTO sessions (id, workspace, parent, created) VALUES (?, ?, ?, ?) \
             ON CONFLICT DO UPDATE SET workspace = excluded.workspace, parent = coalesce(parent, excluded.parent)",
        )?
        .execute((id, workspace, parent, at))?;
    Ok(())
}

/// The numbers of the records of session `?1` after record `?2`.
pub(crate) const NUMBERS: &str = "
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

/// Rows that a transaction has not written to the tables yet, and its knowledge of the tables.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// The calls that began and have no row, by id.
    begun: HashMap<String, Begun>,
    /// The ids of the calls that have a row, once they were asked for.
    with_row: Option<HashSet<String>>,
    /// A session that has a row.
    session: Option<String>,
}

/// A call that began in a transaction.
#[derive(Debug)]
struct Begun {
    session: String,
    turn: String,
    tool: String,
    started: u64,
    slot: u32,
    process: u32,
}

/// Records that a call of the writer with this number began.
pub(crate) fn start(chain: &mut Chain<'_>, slot: u32, start: &Start<'_>) -> rusqlite::Result<()> {
    let Start { at, session, turn, call, tool, process, body } = *start;
    let (kind, outcome) = (Kind::Started, None);
    let started = chain.append(&Entry { at, session, turn, call, tool, kind, outcome, body })?;
    let is_replaced = match &mut chain.beside.with_row {
        Some(with_row) => with_row.remove(call),
        none => none.insert(ids_with_row(chain.connection)?).remove(call),
    };
    if is_replaced {
        take_row(chain.connection, call)?;
    }
    let [session_of, turn, tool] = [session, turn, tool].map(str::to_owned);
    let begun = Begun { session: session_of, turn, tool, started, slot, process };
    chain.beside.begun.insert(call.to_owned(), begun);
    ensure_session(chain, session, at)
}

/// Gives a row to every call that began and has not ended.
pub(crate) fn write_begun(chain: &mut Chain<'_>) -> rusqlite::Result<()> {
    let mut begun: Vec<(String, Begun)> = chain.beside.begun.drain().collect();
    begun.sort_by_key(|(_, begun)| begun.started);
    for (call, Begun { session, turn, tool, started, slot, process }) in begun {
        chain
            .connection
            .prepare_cached(
                "INSERT OR REPLACE INTO open_calls (id, session, turn, tool, started, slot, process) \
                 VALUES (?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute((&call, session, turn, tool, started, slot, process))?;
        if let Some(with_row) = &mut chain.beside.with_row {
            with_row.insert(call);
        }
    }
    Ok(())
}

fn ids_with_row(connection: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut statement = connection.prepare_cached("SELECT id FROM open_calls")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Removes the row of a call that has not ended; the number of the record with which it began.
fn take_row(connection: &Connection, call: &str) -> rusqlite::Result<Option<u64>> {
    connection
        .prepare_cached("DELETE FROM open_calls WHERE id = ? RETURNING started")?
        .query_row([call], |row| row.get(0))
        .optional()
}

/// A session that nobody announced is known by its first record.
fn ensure_session(chain: &mut Chain<'_>, session: &str, at: i64) -> rusqlite::Result<()> {
    if chain.beside.session.as_deref() == Some(session) {
        return Ok(());
    }
    chain
        .connection
        .prepare_cached(
            "INSERT OR IGNORE INTO sessions (id, workspace, created) VALUES (?, '', ?)",
        )?
        .execute((session, at))?;
    chain.beside.session = Some(session.to_owned());
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

/// Records that a call ended.
pub(crate) fn finish(chain: &mut Chain<'_>, finish: &Finish<'_>) -> rusqlite::Result<()> {
    let Finish { at, session, turn, call, tool, outcome, body } = *finish;
    let outcome = Some(outcome.as_str());
    let kind = Kind::Finished;
    let seq = chain.append(&Entry { at, session, turn, call, tool, kind, outcome, body })?;
    let started = match chain.beside.begun.remove(call) {
        Some(begun) => Some(begun.started),
        None => take_row(chain.connection, call)?,
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

/// A record that no table tells of: the end of a job, which may come long after that of its call, or a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remark<'a> {
    pub(crate) at: i64,
    pub(crate) session: &'a str,
    pub(crate) turn: &'a str,
    pub(crate) call: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) body: &'a str,
}

/// Records something that no table tells of.
pub(crate) fn remark(
    chain: &mut Chain<'_>,
    kind: Kind,
    remark: &Remark<'_>,
) -> rusqlite::Result<()> {
    let Remark { at, session, turn, call, tool, body } = *remark;
    let outcome = None;
    chain.append(&Entry { at, session, turn, call, tool, kind, outcome, body }).map(drop)
}

/// Records something of a session that is neither the beginning nor the end of a call.
pub(crate) fn note(chain: &mut Chain<'_>, kind: Kind, note: &Remark<'_>) -> rusqlite::Result<()> {
    remark(chain, kind, note)?;
    ensure_session(chain, note.session, note.at)
}

/// A call that has begun and not ended.
#[derive(Debug)]
struct Open {
    call: String,
    session: String,
    turn: String,
    tool: String,
    process: u32,
}

/// Ends the calls that the former holder of this slot left open.
pub(crate) fn close_left_behind(chain: &mut Chain<'_>, slot: u32, at: i64) -> rusqlite::Result<()> {
    write_begun(chain)?;
    for open in left_behind(chain, slot)? {
        finish(
            chain,
            &Finish {
                at,
                session: &open.session,
                turn: &open.turn,
                call: &open.call,
                tool: &open.tool,
                outcome: Outcome::Cancelled,
                body: &text(&CallFinished::interrupted(open.process)),
            },
        )?;
    }
    Ok(())
}

fn left_behind(chain: &Chain<'_>, slot: u32) -> rusqlite::Result<Vec<Open>> {
    chain
        .connection
        .prepare("SELECT id, session, turn, tool, process FROM open_calls WHERE slot = ? ORDER BY started")?
        .query_map([slot], |row| {
            Ok(Open {
                call: row.get(0)?,
                session: row.get(1)?,
                turn: row.get(2)?,
                tool: row.get(3)?,
                process: row.get(4)?,
            })
        })?
        .collect()
}

/// A call of this session that has not ended, and in which process it runs.
pub(crate) fn running(
    chain: &mut Chain<'_>,
    session: &str,
) -> rusqlite::Result<Option<(String, u32)>> {
    write_begun(chain)?;
    chain
        .connection
        .prepare("SELECT id, process FROM open_calls WHERE session = ? LIMIT 1")?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Removes what is derived from the records of a session and empties their bodies; the records stay in the chain.
pub(crate) fn delete(chain: &mut Chain<'_>, session: &str, at: i64) -> rusqlite::Result<()> {
    chain.append(&Entry { at, kind: Kind::SessionDeleted, body: "{}", ..of_session(session) })?;
    let deletion = chain.head.seq;
    chain
        .connection
        .prepare(&format!("UPDATE journal SET body = NULL WHERE seq IN ({NUMBERS}) AND seq < ?3"))?
        .execute((session, 0, deletion))?;
    for table in ["calls WHERE session", "sessions WHERE id"] {
        chain.connection.prepare(&format!("DELETE FROM {table} = ?"))?.execute([session])?;
    }
    Ok(())
}

/// Puts it on the record that something is missing before.
pub(crate) fn note_loss(
    chain: &mut Chain<'_>,
    at: i64,
    missing: &RecordsMissing,
) -> rusqlite::Result<()> {
    let body = &text(missing);
    chain.append(&Entry { at, kind: Kind::TailLost, body, ..of_session("") }).map(drop)
}

/// A body as it is stored. The bodies written here hold nothing that JSON cannot.
fn text(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_else(|_| "{}".to_owned())
}

fn of_session(session: &str) -> Entry<'_> {
    let (turn, call, tool) = ("", "", "");
    Entry { at: 0, session, turn, call, tool, kind: Kind::Unknown, outcome: None, body: "" }
}
