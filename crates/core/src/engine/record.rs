//! Stage 13: every call on record before anybody hears of it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Call, Shared};
use crate::{
    CallResult, Effects, Event, Grant, JournalError, Origin, Record, RecordKind, Started, ToolError,
};

/// Writes down that the call begins. A call that leaves traces waits until that is safe; one that only looks goes on, and the
/// end of the call waits for both records.
pub(super) async fn started(
    engine: &Shared,
    call: &mut Call,
    effects: &Arc<Effects>,
    grant: &Grant,
) -> Result<(), ToolError> {
    if engine.journal.is_some() {
        let effects = engine.secrets.redact_effects(effects);
        let decided_by = engine.secrets.redact(grant.decided_by());
        let body = json!({"input": clean_input(engine, call), "effects": &*effects, "decided_by": decided_by});
        *call.begun.lock() = append(engine, call, RecordKind::Started, body.to_string());
    }
    call.started = true;
    let heard = engine.events.is_heard();
    if heard || effects.kinds().has_side_effects() {
        safe(call).await?;
    }
    if heard {
        engine.events.publish(&Event::Started(
            Started {
                call: call.id.clone(),
                session: call.session.id().clone(),
                turn: call.turn.clone(),
                tool: call.name.clone(),
                input: clean_input(engine, call),
                effects: engine.secrets.redact_effects(effects),
                decided_by: engine.secrets.redact(grant.decided_by()).into_owned(),
            }
            .into(),
        ));
    }
    Ok(())
}

/// Writes down how the call ended; the error is why that could not be done.
pub(super) async fn finished(
    engine: &Shared,
    call: &Call,
    result: &CallResult,
) -> Result<(), ToolError> {
    if engine.journal.is_none() {
        return Ok(());
    }
    let mut body = Map::new();
    if !call.started {
        body.insert("input".into(), clean_input(engine, call));
    }
    body.insert("content".into(), json!(result.output.content));
    body.insert("metadata".into(), Value::Object(result.output.metadata.clone()));
    body.insert(
        "duration_us".into(),
        json!(u64::try_from(result.duration.as_micros()).unwrap_or(u64::MAX)),
    );
    if let Some(mut news) = call.session.take_news() {
        // A file with a secret in its name is not recalled: a session that goes on has to read it again.
        engine.secrets.redact_json(&mut news);
        body.insert("seen".into(), news);
    }
    let written =
        append(engine, call, RecordKind::Finished(result.outcome), Value::Object(body).to_string());
    safe(call).await?;
    *call.begun.lock() = written;
    safe(call).await
}

/// Puts a record of a job on the journal, if there is one, once its call may have ended.
pub(crate) async fn job_ended(
    engine: &Shared,
    origin: Origin,
    mut body: Value,
) -> Result<(), JournalError> {
    let Some(journal) = engine.journal.as_ref() else { return Ok(()) };
    engine.secrets.redact_json(&mut body);
    let Origin { call, session, turn, tool, .. } = origin;
    let (at, kind) = (engine.host.clock().now(), RecordKind::JobEnded);
    journal.append(Record { at, session, turn, call, tool, kind, body: body.to_string() }).await
}

fn append(
    engine: &Shared,
    call: &Call,
    kind: RecordKind,
    body: String,
) -> Option<crate::BoxFuture<'static, Result<(), crate::JournalError>>> {
    let journal = engine.journal.as_ref()?;
    Some(journal.append(Record {
        at: engine.host.clock().now(),
        session: call.session.id().clone(),
        turn: call.turn.clone(),
        call: call.id.clone(),
        tool: call.name.clone(),
        kind,
        body,
    }))
}

/// Waits until what was last written is safe.
async fn safe(call: &Call) -> Result<(), ToolError> {
    let written = call.begun.lock().take();
    match written {
        Some(written) => written.await.map_err(|error| {
            ToolError::journal_failed(format!("the call could not be put on record: {error}"))
                .hint("make room or give another place with --state")
        }),
        None => Ok(()),
    }
}

/// The arguments as they may be shown and stored.
pub(super) fn clean_input(engine: &Shared, call: &Call) -> Value {
    let mut input = call.input.clone();
    engine.secrets.redact_json(&mut input);
    input
}
