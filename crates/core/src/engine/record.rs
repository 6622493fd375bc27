//! Stage 13: every call on record before anybody hears of it.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::{Call, Shared};
use crate::{
    BODY_VERSION, CallExtended, CallFinished, CallId, CallResult, CallStarted, Effects, Event,
    Grant, JobEnded, JournalError, ModelCall, Origin, Record, RecordKind, Started, ToolError,
};

/// The characters of an id or name from outside that a record keeps.
const MAX_NAME: usize = 200;

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
        let body = CallStarted {
            version: BODY_VERSION,
            input: Cow::Owned(clean_input(engine, call)),
            effects: Cow::Borrowed(&*effects),
            decided: engine.secrets.redact_decided(grant.decided()),
            principal: call.session.principal().clone(),
            parent_call: call.parent(),
            made: clean_made(engine, call),
        };
        *call.begun.lock() = append(engine, call, RecordKind::Started, &body);
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
                parent_call: call.parent(),
                tool: call.name.clone(),
                input: clean_input(engine, call),
                effects: engine.secrets.redact_effects(effects),
                decided: engine.secrets.redact_decided(grant.decided()),
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
    let mut body = CallFinished {
        version: BODY_VERSION,
        content: Cow::Borrowed(&result.output.content),
        metadata: Cow::Borrowed(&result.output.metadata),
        duration_us: Some(u64::try_from(result.duration.as_micros()).unwrap_or(u64::MAX)),
        seen: call.session.take_news(),
        ..CallFinished::default()
    };
    if let Some(news) = &mut body.seen {
        // A file with a secret in its name is not recalled: a session that goes on has to read it again.
        engine.secrets.redact_json(news);
    }
    if !call.started {
        body.input = Some(Cow::Owned(clean_input(engine, call)));
        body.decided = call.decided.as_ref().map(|decided| engine.secrets.redact_decided(decided));
        body.principal = call.session.principal().clone();
        body.parent_call = call.parent();
        body.made = clean_made(engine, call);
    }
    let written = append(engine, call, RecordKind::Finished(result.outcome), &body);
    safe(call).await?;
    *call.begun.lock() = written;
    safe(call).await
}

/// Puts a record of a job on the journal, if there is one, once its call may have ended.
pub(crate) async fn job_ended(
    engine: &Shared,
    origin: Origin,
    body: &JobEnded,
) -> Result<(), JournalError> {
    let Some(journal) = engine.journal.as_ref() else { return Ok(()) };
    let Origin { session, turn, tool, .. } = origin;
    let call = CallId::new("");
    let (at, kind) = (engine.host.clock().now(), RecordKind::JobEnded);
    journal.append(Record { at, session, turn, call, tool, kind, body: text(body) }).await
}

/// Puts a decision about a running call on the journal, if there is one, and waits until it is safe.
pub(crate) async fn extended(
    engine: &Shared,
    origin: Origin,
    body: &CallExtended,
) -> Result<(), ToolError> {
    let Some(journal) = engine.journal.as_ref() else { return Ok(()) };
    let Origin { session, turn, tool, .. } = origin;
    let call = CallId::new("");
    let (at, kind) = (engine.host.clock().now(), RecordKind::Extended);
    let record = Record { at, session, turn, call, tool, kind, body: text(body) };
    journal.append(record).await.map_err(|error| {
        ToolError::journal_failed(format!("the decision could not be put on record: {error}"))
    })
}

fn append(
    engine: &Shared,
    call: &Call,
    kind: RecordKind,
    body: &impl Serialize,
) -> Option<crate::BoxFuture<'static, Result<(), crate::JournalError>>> {
    let journal = engine.journal.as_ref()?;
    Some(journal.append(Record {
        at: engine.host.clock().now(),
        session: call.session.id().clone(),
        turn: call.turn.clone(),
        call: call.id.clone(),
        tool: call.name.clone(),
        kind,
        body: text(body),
    }))
}

/// A body as it is stored. Bodies are maps with keys of text: there is nothing in them that cannot be written as JSON.
fn text(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_else(|_| "{}".to_owned())
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

/// The place of the call in a conversation, as it may be stored. Its texts come from outside.
fn clean_made(engine: &Shared, call: &Call) -> ModelCall {
    let clean = |text: &Option<String>| {
        text.as_deref().map(|text| engine.secrets.redact(text).chars().take(MAX_NAME).collect())
    };
    let ModelCall { tool_use_id, message, model } = &call.made;
    ModelCall { tool_use_id: clean(tool_use_id), message: clean(message), model: clean(model) }
}

/// The arguments as they may be shown and stored.
pub(super) fn clean_input(engine: &Shared, call: &Call) -> Value {
    let mut input = call.input.clone();
    engine.secrets.redact_json(&mut input);
    input
}
