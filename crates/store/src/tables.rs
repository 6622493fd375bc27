//! The tables beside the journal, kept in step with it inside the same transaction: sessions, calls, and calls that have not ended.

use rusqlite::OptionalExtension as _;
use windlass_core::{Outcome, Record, RecordKind, SessionId};

use crate::chain::{Chain, Entry, Kind};
use crate::liveness::Slot;
use crate::timestamp::to_nanos;

/// A session that begins or goes on.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) at: i64,
    pub(crate) session: SessionId,
    pub(crate) workspace: String,
    pub(crate) parent: Option<SessionId>,
}

/// What the records of one transaction change in `sessions`: one update for each session, however many records, and none where
/// calls only began.
#[derive(Debug, Default)]
pub(crate) struct Touched(Vec<(SessionId, i64, u64)>);

impl Touched {
    fn add(&mut self, session: &SessionId, at: i64, calls: u64) {
        match self.0.iter_mut().find(|(id, ..)| id == session) {
            Some((_, last, count)) => {
                *last = at.max(*last);
                *count += calls;
            }
            None => self.0.push((session.clone(), at, calls)),
        }
    }

    pub(crate) fn write(self, chain: &Chain<'_>) -> rusqlite::Result<()> {
        let mut statement = chain.connection.prepare_cached(
            "INSERT INTO sessions (id, workspace, created, last, calls) VALUES (?1, '', ?2, ?2, ?3) \
             ON CONFLICT DO UPDATE SET last = max(last, excluded.last), calls = calls + excluded.calls \
             WHERE excluded.calls > 0",
        )?;
        for (session, at, calls) in self.0 {
            statement.execute((session.as_str(), at, calls))?;
        }
        Ok(())
    }
}

/// Records that a session began, unless it is known with this workspace.
pub(crate) fn announce(chain: &mut Chain<'_>, session: &Announcement) -> rusqlite::Result<()> {
    let Announcement { at, session: id, workspace, parent } = session;
    let (id, parent) = (id.as_str(), parent.as_ref().map(SessionId::as_str));
    let known: Option<String> = chain
        .connection
        .prepare_cached("SELECT workspace FROM sessions WHERE id = ?")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    if known.as_deref() == Some(workspace) {
        return Ok(());
    }
    let body = serde_json::json!({ "workspace": workspace, "parent": parent }).to_string();
    let kind = Kind::SessionStarted;
    chain.append(&Entry { at: *at, kind, body: &body, ..of_session(id) })?;
    chain
        .connection
        .prepare_cached(
            "INSERT INTO sessions (id, workspace, parent, created, last, calls) VALUES (?1, ?2, ?3, ?4, ?4, 0) \
             ON CONFLICT DO UPDATE SET workspace = excluded.workspace, parent = coalesce(parent, excluded.parent)",
        )?
        .execute((id, workspace, parent, at))?;
    Ok(())
}

/// Records a step of a call.
pub(crate) fn record(
    chain: &mut Chain<'_>,
    touched: &mut Touched,
    slot: &Slot,
    record: &Record,
) -> rusqlite::Result<()> {
    let at = to_nanos(record.at);
    match record.kind {
        RecordKind::Started => {
            touched.add(&record.session, at, 0);
            start(chain, slot, record, at)
        }
        RecordKind::Finished(outcome) => {
            touched.add(&record.session, at, 1);
            finish(chain, &Finish::of(record, at, outcome))
        }
    }
}

fn start(chain: &mut Chain<'_>, slot: &Slot, record: &Record, at: i64) -> rusqlite::Result<()> {
    let (id, session) = (record.call.as_str(), record.session.as_str());
    let (turn, tool) = (record.turn.as_str(), record.tool.as_str());
    let entry = Entry { at, session, turn, call: id, tool, kind: Kind::Started, ..of_session("") };
    let seq = chain.append(&Entry { body: &record.body, ..entry })?;
    chain
        .connection
        .prepare_cached(
            "INSERT OR REPLACE INTO open_calls (id, session, turn, tool, started, slot, process) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute((id, session, turn, tool, seq, slot.number, std::process::id()))?;
    Ok(())
}

/// The end of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finish<'a> {
    pub(crate) at: i64,
    pub(crate) session: &'a str,
    pub(crate) turn: &'a str,
    pub(crate) call: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) outcome: Outcome,
    pub(crate) body: &'a str,
}

impl<'a> Finish<'a> {
    fn of(record: &'a Record, at: i64, outcome: Outcome) -> Self {
        Self {
            at,
            session: record.session.as_str(),
            turn: record.turn.as_str(),
            call: record.call.as_str(),
            tool: &record.tool,
            outcome,
            body: &record.body,
        }
    }
}

fn finish(chain: &mut Chain<'_>, finish: &Finish<'_>) -> rusqlite::Result<()> {
    let Finish { at, session, turn, call, tool, outcome, body } = *finish;
    let outcome = Some(outcome.as_str());
    let kind = Kind::Finished;
    let seq = chain.append(&Entry { at, session, turn, call, tool, kind, outcome, body })?;
    let started: Option<u64> = chain
        .connection
        .prepare_cached("DELETE FROM open_calls WHERE id = ? RETURNING started")?
        .query_row([call], |row| row.get(0))
        .optional()?;
    chain
        .connection
        .prepare_cached(
            "INSERT OR REPLACE INTO calls (id, session, tool, started, finished, outcome) VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute((call, session, tool, started, seq, outcome))?;
    Ok(())
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
pub(crate) fn close_left_behind(
    chain: &mut Chain<'_>,
    slot: &Slot,
    at: i64,
) -> rusqlite::Result<()> {
    let mut touched = Touched::default();
    for open in left_behind(chain, slot)? {
        let body = serde_json::json!({
            "interrupted": true,
            "process": open.process,
            "text": format!("process {} ended before this call did; what it had done by then stays done", open.process),
        });
        touched.add(&SessionId::new(open.session.as_str()), at, 1);
        finish(
            chain,
            &Finish {
                at,
                session: &open.session,
                turn: &open.turn,
                call: &open.call,
                tool: &open.tool,
                outcome: Outcome::Cancelled,
                body: &body.to_string(),
            },
        )?;
    }
    touched.write(chain)
}

fn left_behind(chain: &Chain<'_>, slot: &Slot) -> rusqlite::Result<Vec<Open>> {
    chain
        .connection
        .prepare("SELECT id, session, turn, tool, process FROM open_calls WHERE slot = ? ORDER BY started")?
        .query_map([slot.number], |row| {
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
pub(crate) fn running(chain: &Chain<'_>, session: &str) -> rusqlite::Result<Option<(String, u32)>> {
    chain
        .connection
        .prepare("SELECT id, process FROM open_calls WHERE session = ? LIMIT 1")?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Removes what is derived from the records of a session and empties their bodies; the records stay in the chain.
pub(crate) fn delete(chain: &mut Chain<'_>, session: &str, at: i64) -> rusqlite::Result<()> {
    chain.append(&Entry { at, kind: Kind::SessionDeleted, body: "{}", ..of_session(session) })?;
    let last = chain.head.seq;
    let run = |sql: &str| chain.connection.prepare(sql)?.execute((session, last));
    run(
        "DELETE FROM calls WHERE id IN (SELECT call FROM journal WHERE session = ?1 AND seq < ?2)",
    )?;
    run("UPDATE journal SET body = NULL WHERE session = ?1 AND seq < ?2")?;
    chain.connection.prepare("DELETE FROM sessions WHERE id = ?")?.execute([session])?;
    Ok(())
}

fn of_session(session: &str) -> Entry<'_> {
    let (turn, call, tool) = ("", "", "");
    Entry { at: 0, session, turn, call, tool, kind: Kind::Unknown, outcome: None, body: "" }
}
