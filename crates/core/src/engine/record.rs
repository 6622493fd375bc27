//! Stage 13: every call on record before anybody hears of it.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::{Call, Shared};
use crate::recorder::{Appended, body_json};
use crate::{
    BODY_VERSION, CallExtended, CallFinished, CallId, CallResult, CallStarted, Decided, Effects,
    EventKind, Grant, JobEnded, JournalError, ModelCall, Origin, Record, RecordKind, Started,
    ToolError,
};

/// The characters of an id or name from outside that a record keeps.
const MAX_NAME: usize = 200;

/// Writes down that the call begins. A call that leaves traces waits until that is safe; one that only looks goes on, and the
/// end of the call waits for both records. Listeners hear of the beginning when it is safe, whichever of the two it is: see
/// [`tell_beginning`].
pub(super) async fn started(
    engine: &Shared,
    call: &mut Call,
    effects: &Arc<Effects>,
    grant: &Grant,
) -> Result<(), ToolError> {
    call.started = true;
    let source = call.source();
    if !engine.recorder.is_observed(&source) {
        return Ok(());
    }
    let clean = Clean {
        input: clean_input(engine, call),
        effects: engine.secrets.redact_effects(effects),
        decided: engine.secrets.redact_decided(grant.decided()),
    };
    let body = if engine.recorder.has_journal() {
        body_json(&CallStarted {
            version: BODY_VERSION,
            input: Cow::Borrowed(&*clean.input),
            effects: Cow::Borrowed(&*clean.effects),
            decided: clean.decided.clone(),
            principal: call.session.principal().clone(),
            parent_call: call.parent(),
            made: clean_made(engine, call),
        })
    } else {
        String::new()
    };
    let (turn, tool) = (call.turn.clone(), call.name.clone());
    let event = || {
        let Clean { input, effects, decided } = clean;
        let input = input.into_owned();
        EventKind::Started(Arc::new(Started { turn, tool, input, effects, decided }))
    };
    let record = record(engine, call, RecordKind::Started, body);
    let appended = engine.recorder.append(record, None, &source, event);
    if effects.kinds().has_side_effects() {
        safe(appended).await?;
        engine.recorder.publish_ready();
    } else {
        *call.begun.lock() = appended;
    }
    Ok(())
}

/// Has a beginning that was not waited for told, once it is clear that the call takes longer than one step. The end of a quicker one
/// makes both records safe at once; another thread at the first of them would only be in its way.
pub(super) fn tell_beginning(engine: &Shared, call: &Call) {
    engine.recorder.start_pump(call.begun.lock().as_ref());
}

/// The facts of a call, without secrets.
struct Clean<'c> {
    input: Cow<'c, Value>,
    effects: Arc<Effects>,
    decided: Decided,
}

/// Writes down how the call ended, and tells it; the error is why that could not be done.
pub(super) async fn finished(
    engine: &Shared,
    call: &Call,
    result: &CallResult,
) -> Result<(), ToolError> {
    let body = if engine.recorder.has_journal() {
        body_json(&finished_body(engine, call, result))
    } else {
        String::new()
    };
    let record = record(engine, call, RecordKind::Finished(result.outcome), body);
    let begun = call.begun.lock().take();
    let event = || EventKind::Finished(Arc::new(result.clone()));
    let appended = engine.recorder.append(record, begun, &call.source(), event);
    let safe = safe(appended).await;
    engine.recorder.publish_ready();
    safe
}

fn finished_body<'a>(engine: &Shared, call: &'a Call, result: &'a CallResult) -> CallFinished<'a> {
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
        news.retain(|path| engine.secrets.is_secret_free(path));
    }
    if !call.started {
        body.input = Some(clean_input(engine, call));
        body.decided = call.decided.as_ref().map(|decided| engine.secrets.redact_decided(decided));
        body.principal = call.session.principal().clone();
        body.parent_call = call.parent();
        body.made = clean_made(engine, call);
    }
    body
}

/// Puts a record of a job on the journal, if there is one, once its call may have ended.
pub(crate) async fn job_ended(
    engine: &Shared,
    origin: Origin,
    body: &JobEnded,
) -> Result<(), JournalError> {
    let Origin { session, turn, tool, .. } = origin;
    let call = CallId::new("");
    let (at, kind) = (engine.host.clock().now(), RecordKind::JobEnded);
    let record = Record { at, session, turn, call, tool, kind, body: body_json(body) };
    match engine.recorder.append_without_event(record) {
        Some(appended) => appended.safe().await,
        None => Ok(()),
    }
}

/// Puts a decision about a running call on the journal, if there is one, and waits until it is safe.
pub(crate) async fn extended(
    engine: &Shared,
    origin: Origin,
    body: &CallExtended,
) -> Result<(), ToolError> {
    let Origin { session, turn, tool, .. } = origin;
    let call = CallId::new("");
    let (at, kind) = (engine.host.clock().now(), RecordKind::Extended);
    let record = Record { at, session, turn, call, tool, kind, body: body_json(body) };
    let Some(appended) = engine.recorder.append_without_event(record) else { return Ok(()) };
    appended.safe().await.map_err(|error| {
        ToolError::journal_failed(format!("the decision could not be put on record: {error}"))
    })
}

fn record(engine: &Shared, call: &Call, kind: RecordKind, body: String) -> Record {
    Record {
        at: engine.host.clock().now(),
        session: call.session.id().clone(),
        turn: call.turn.clone(),
        call: call.id.clone(),
        tool: call.name.clone(),
        kind,
        body,
    }
}

/// Waits until a record is safe.
async fn safe(appended: Option<Appended>) -> Result<(), ToolError> {
    let Some(appended) = appended else { return Ok(()) };
    appended.safe().await.map_err(|error| {
        ToolError::journal_failed(format!("the call could not be put on record: {error}"))
            .hint("make room or give another place with --state")
    })
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
pub(super) fn clean_input<'c>(engine: &Shared, call: &'c Call) -> Cow<'c, Value> {
    engine.secrets.redacted_json(&call.input)
}
