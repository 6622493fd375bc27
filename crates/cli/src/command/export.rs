//! `windlass log export`: the journal for other programs, as JSON lines or as OpenTelemetry spans.
//!
//! Spans have the form of OTLP/JSON, one request per line, as collectors read it from files: a session is a trace, a turn is a span, and
//! each of its calls a span below it. Their ids are hashes of our ids, so that exporting again gives the same spans.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::ValueEnum;
use serde_json::{Value, json};
use windlass::Outcome;
use windlass::journal::{CallFinished, CallStarted, JournalRow, Store, StoredKind};
use windlass::policy::Secrets;
use windlass::session::{CallId, SessionId, TurnId};

use crate::options::Global;
use crate::setup;

/// The number of records that are read from the journal at a time.
const PAGE_SIZE: usize = 1_000;
/// The OTLP span kind of work inside one program.
const INTERNAL: u8 = 1;
/// The OTLP status code of a success.
const STATUS_OK: u8 = 1;
/// The OTLP status code of a failure.
const STATUS_ERROR: u8 = 2;

/// The forms in which the journal can be exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Jsonl,
    Otlp,
}

/// Prints the records of the journal, or of one session, in this format, without secrets.
pub(super) fn run(
    global: &Global,
    store: &Store,
    session: Option<&SessionId>,
    format: ExportFormat,
) -> Result<ExitCode> {
    let secrets = setup::hub(global)?.secrets(&global.workspace)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match format {
        ExportFormat::Jsonl => for_each_page(store, session, &secrets, |rows| {
            for row in &rows {
                serde_json::to_writer(&mut out, row)?;
                writeln!(out)?;
            }
            Ok(())
        })?,
        ExportFormat::Otlp => {
            let mut spans = Spans::default();
            for_each_page(store, session, &secrets, |rows| {
                let ended: Vec<Value> = rows.iter().filter_map(|row| spans.add(row)).collect();
                write_request(&mut out, &ended)
            })?;
            let turns: Vec<Value> =
                spans.turns.iter().map(|(turn, span)| turn_span(turn, *span)).collect();
            for portion in turns.chunks(PAGE_SIZE) {
                write_request(&mut out, portion)?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Calls a function with each page of records, without secrets.
fn for_each_page(
    store: &Store,
    session: Option<&SessionId>,
    secrets: &Secrets,
    mut handle: impl FnMut(Vec<JournalRow>) -> Result<()>,
) -> Result<()> {
    let mut after = 0;
    loop {
        let mut rows = store.records(session, after, PAGE_SIZE)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.seq;
        for row in &mut rows {
            redact_record(row, secrets);
        }
        handle(rows)?;
    }
}

/// Redacts secrets in a record's body: those that were not known when it was written, and those in names of workspaces.
pub(super) fn redact_record(row: &mut JournalRow, secrets: &Secrets) {
    let Some(body) = &mut row.body else { return };
    match serde_json::from_str::<Value>(body) {
        Ok(mut value) => {
            secrets.redact_json(&mut value);
            *body = value.to_string();
        }
        Err(_) => *body = secrets.redact(body).into_owned(),
    }
}

/// Writes spans as one OTLP request on one line; nothing if there are none.
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

/// Collects the spans of calls and turns from records.
#[derive(Default)]
struct Spans {
    /// The start time and the body of each call that has begun and not ended.
    begun: HashMap<CallId, (SystemTime, Option<CallStarted<'static>>)>,
    /// The span of each turn, from its first call to its last.
    turns: BTreeMap<(SessionId, TurnId), Span>,
}

/// The start and the end of a span.
#[derive(Clone, Copy)]
struct Span {
    from: SystemTime,
    to: SystemTime,
}

impl Spans {
    /// Adds a record. Returns the span of a call if the record is its end.
    fn add(&mut self, row: &JournalRow) -> Option<Value> {
        let (session, turn, call) = (row.session.clone()?, row.turn.clone()?, row.call.clone()?);
        match row.kind {
            StoredKind::Started => {
                self.begun.insert(call, (row.at, row.body_as()));
                None
            }
            StoredKind::Finished => {
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
                let call_span =
                    call_span(row, &call, (&session, &turn), span, begun.as_ref(), &body);
                let whole = self.turns.entry((session, turn)).or_insert(span);
                whole.from = whole.from.min(span.from);
                whole.to = whole.to.max(span.to);
                Some(call_span)
            }
            _ => None,
        }
    }
}

/// Returns the OTLP span of a call.
fn call_span(
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

/// Returns the OTLP status of a call: every outcome but `ok` is an error, with the first line of the result.
fn status(outcome: Outcome, body: &CallFinished<'_>) -> Value {
    if outcome == Outcome::Ok {
        return json!({"code": STATUS_OK});
    }
    let said = body.first_line().unwrap_or(outcome.as_str());
    json!({"code": STATUS_ERROR, "message": said})
}

/// Returns the OTLP span of a turn.
fn turn_span((session, turn): &(SessionId, TurnId), span: Span) -> Value {
    json!({
        "traceId": trace_id(session), "spanId": turn_span_id(session, turn),
        "name": "turn", "kind": INTERNAL,
        "startTimeUnixNano": nanos(span.from), "endTimeUnixNano": nanos(span.to),
        "attributes": [text("session.id", session.as_str()), text("windlass.turn", turn.as_str())],
        "status": {},
    })
}

/// Returns an OTLP attribute with a text value.
fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Returns an OTLP attribute with a number, which OTLP/JSON encodes as a string.
fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

/// Returns a time in nanoseconds since 1970, as a string.
fn nanos(at: SystemTime) -> String {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

/// Returns the trace id of a session.
fn trace_id(session: &SessionId) -> String {
    hash(&["session", session.as_str()], 32)
}

/// Returns the span id of a turn.
fn turn_span_id(session: &SessionId, turn: &TurnId) -> String {
    hash(&["turn", session.as_str(), turn.as_str()], 16)
}

/// Returns the first hexadecimal digits of a hash of the parts.
fn hash(parts: &[&str], digits: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().chars().take(digits).collect()
}
