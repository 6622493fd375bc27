//! `windlass log export`: the journal for other programs, as JSON lines or as OpenTelemetry spans.
//!
//! Spans are told in the form of OTLP/JSON, one request a line, as collectors read it from files: a session is a trace, a turn is a
//! span, and each of its calls a span below. The ids are hashes of ours, so that exporting again gives the same spans.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::ValueEnum;
use serde_json::{Value, json};
use windlass::Outcome;
use windlass::journal::{CallFinished, CallStarted, JournalRow, Kind, Store};
use windlass::policy::Secrets;
use windlass::session::{CallId, SessionId, TurnId};

use crate::options::Global;
use crate::setup;

/// How many records are fetched at a time.
const PORTION: usize = 1_000;
/// A span that is part of nothing remote.
const INTERNAL: u8 = 1;
const STATUS_OK: u8 = 1;
const STATUS_ERROR: u8 = 2;

/// The forms in which the journal can be exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Jsonl,
    Otlp,
}

pub(super) fn run(
    global: &Global,
    store: &Store,
    session: Option<&SessionId>,
    format: ExportFormat,
) -> Result<ExitCode> {
    let secrets = setup::hub(global)?.secrets(&global.workspace)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match format {
        ExportFormat::Jsonl => each_portion(store, session, &secrets, |rows| {
            for row in &rows {
                serde_json::to_writer(&mut out, row)?;
                writeln!(out)?;
            }
            Ok(())
        })?,
        ExportFormat::Otlp => {
            let mut spans = Spans::default();
            each_portion(store, session, &secrets, |rows| {
                let told: Vec<Value> = rows.iter().filter_map(|row| spans.take(row)).collect();
                write_request(&mut out, &told)
            })?;
            let turns: Vec<Value> =
                spans.turns.iter().map(|(turn, span)| told_turn(turn, *span)).collect();
            for portion in turns.chunks(PORTION) {
                write_request(&mut out, portion)?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn each_portion(
    store: &Store,
    session: Option<&SessionId>,
    secrets: &Secrets,
    mut tell: impl FnMut(Vec<JournalRow>) -> Result<()>,
) -> Result<()> {
    let mut after = 0;
    loop {
        let mut rows = store.records(session, after, PORTION)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.seq;
        for row in &mut rows {
            clean(row, secrets);
        }
        tell(rows)?;
    }
}

/// Takes secrets out of what a record says: those that were not known when it was written, and names of workspaces.
pub(super) fn clean(row: &mut JournalRow, secrets: &Secrets) {
    let Some(body) = &mut row.body else { return };
    match serde_json::from_str::<Value>(body) {
        Ok(mut value) => {
            secrets.redact_json(&mut value);
            *body = value.to_string();
        }
        Err(_) => *body = secrets.redact(body).into_owned(),
    }
}

fn write_request(out: &mut impl Write, spans: &[Value]) -> Result<()> {
    if spans.is_empty() {
        return Ok(());
    }
    let scope = json!({"name": "windlass", "version": env!("CARGO_PKG_VERSION")});
    let resource = json!({"attributes": [text("service.name", "windlass")]});
    let request = json!({"resourceSpans": [
        {"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]},
    ]});
    serde_json::to_writer(&mut *out, &request)?;
    writeln!(out)?;
    Ok(())
}

/// What is known of calls that have begun, and of turns.
#[derive(Default)]
struct Spans {
    begun: HashMap<CallId, (SystemTime, Option<CallStarted<'static>>)>,
    turns: BTreeMap<(SessionId, TurnId), Span>,
}

/// From when to when.
#[derive(Clone, Copy)]
struct Span {
    from: SystemTime,
    to: SystemTime,
}

impl Spans {
    /// Learns from a record; the span of a call that has ended.
    fn take(&mut self, row: &JournalRow) -> Option<Value> {
        let (session, turn, call) = (row.session.clone()?, row.turn.clone()?, row.call.clone()?);
        match row.kind {
            Kind::Started => {
                self.begun.insert(call, (row.at, row.body_as()));
                None
            }
            Kind::Finished => {
                let begun = self.begun.remove(&call);
                let body: CallFinished<'_> = row.body_as().unwrap_or_default();
                let duration = body.duration_us.unwrap_or(0);
                let before = std::time::Duration::from_micros(duration);
                let from = begun.as_ref().map_or_else(
                    || row.at.checked_sub(before).unwrap_or(row.at),
                    |(from, _)| *from,
                );
                let span = Span { from, to: row.at.max(from) };
                let begun = begun.and_then(|(_, body)| body);
                let told = told_call(row, &call, (&session, &turn), span, begun.as_ref(), &body);
                let whole = self.turns.entry((session, turn)).or_insert(span);
                whole.from = whole.from.min(span.from);
                whole.to = whole.to.max(span.to);
                Some(told)
            }
            _ => None,
        }
    }
}

fn told_call(
    row: &JournalRow,
    call: &CallId,
    (session, turn): (&SessionId, &TurnId),
    span: Span,
    begun: Option<&CallStarted<'_>>,
    body: &CallFinished<'_>,
) -> Value {
    let tool = row.tool.as_deref().unwrap_or_default();
    let outcome = row.outcome.unwrap_or(Outcome::Fault);
    let mut attributes = vec![
        text("tool.name", tool),
        text("outcome", outcome.as_str()),
        text("session.id", session.as_str()),
        text("windlass.turn", turn.as_str()),
        text("windlass.call", call.as_str()),
    ];
    if let Some(micros) = body.duration_us {
        attributes.push(number("duration_us", micros));
    }
    if let Some(begun) = begun {
        attributes.push(text("decided_by", &begun.decided.to_string()));
        let effects = begun.effects.iter().map(|effect| json!({"stringValue": effect.to_string()}));
        let values: Vec<Value> = effects.collect();
        attributes.push(json!({"key": "effects", "value": {"arrayValue": {"values": values}}}));
    }
    json!({
        "traceId": trace_id(session), "spanId": hash(&["call", call.as_str()], 16),
        "parentSpanId": turn_span_id(session, turn), "name": tool, "kind": INTERNAL,
        "startTimeUnixNano": nanos(span.from), "endTimeUnixNano": nanos(span.to),
        "attributes": attributes, "status": status(outcome, body),
    })
}

/// A normal failure is one for whoever reads traces, too.
fn status(outcome: Outcome, body: &CallFinished<'_>) -> Value {
    if outcome == Outcome::Ok {
        return json!({"code": STATUS_OK});
    }
    let said = body.first_line().unwrap_or(outcome.as_str());
    json!({"code": STATUS_ERROR, "message": said})
}

fn told_turn((session, turn): &(SessionId, TurnId), span: Span) -> Value {
    json!({
        "traceId": trace_id(session), "spanId": turn_span_id(session, turn),
        "name": "turn", "kind": INTERNAL,
        "startTimeUnixNano": nanos(span.from), "endTimeUnixNano": nanos(span.to),
        "attributes": [text("session.id", session.as_str()), text("windlass.turn", turn.as_str())],
        "status": {},
    })
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Numbers of 64 bits are texts in this encoding.
fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn nanos(at: SystemTime) -> String {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn trace_id(session: &SessionId) -> String {
    hash(&["session", session.as_str()], 32)
}

fn turn_span_id(session: &SessionId, turn: &TurnId) -> String {
    hash(&["turn", session.as_str(), turn.as_str()], 16)
}

/// The first digits of a hash, in hexadecimal.
fn hash(parts: &[&str], digits: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().chars().take(digits).collect()
}
