//! Stage 13: puts every call on record before anyone can see its result.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::{Call, Shared};
use crate::recorder::{Appended, body_json};
use crate::{
    BODY_VERSION, CallExtended, CallFinished, CallId, CallResult, CallStart, CallStarted, Effects,
    EventKind, ExplainedDecision, Grant, JobEnded, JournalError, ModelCallPosition, Origin, Record,
    RecordKind, ToolError,
};

/// Maximum number of characters that a record keeps of an id or name from outside.
const MAX_NAME_CHARS: usize = 200;

/// Records that the call begins. A call with side effects waits until the record is safe. One that only reads goes on, and its end
/// waits for both records. Listeners get the event once the record is safe; see [`publish_beginning`].
pub(super) async fn record_started(
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
    let clean = RedactedFacts {
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
        let RedactedFacts { input, effects, decided } = clean;
        let input = input.into_owned();
        EventKind::Started(Arc::new(CallStart { turn, tool, input, effects, decided }))
    };
    let record = new_record(engine, call, RecordKind::Started, body);
    let appended = engine.recorder.append(record, None, &source, event);
    if effects.kinds().has_side_effects() {
        wait_until_safe(appended).await?;
        engine.recorder.publish_ready();
    } else {
        *call.begun.lock() = appended;
    }
    Ok(())
}

/// Has the recorder publish a beginning that nothing waited for, once the call takes longer than one step. The end of a quick call
/// makes both records safe at once, and an earlier write of the first would only slow it down.
pub(super) fn publish_beginning(engine: &Shared, call: &Call) {
    engine.recorder.start_pump(call.begun.lock().as_ref());
}

/// Arguments, effects and decision of a call, without secrets.
struct RedactedFacts<'c> {
    input: Cow<'c, Value>,
    effects: Arc<Effects>,
    decided: ExplainedDecision,
}

/// Records how the call ended, and publishes it. The error says why it could not be recorded.
pub(super) async fn record_finished(
    engine: &Shared,
    call: &Call,
    result: &CallResult,
) -> Result<(), ToolError> {
    let body = if engine.recorder.has_journal() {
        body_json(&finished_body(engine, call, result))
    } else {
        String::new()
    };
    let record = new_record(engine, call, RecordKind::Finished(result.outcome), body);
    let begun = call.begun.lock().take();
    let event = || EventKind::Finished(Arc::new(result.clone()));
    let appended = engine.recorder.append(record, begun, &call.source(), event);
    let safe = wait_until_safe(appended).await;
    engine.recorder.publish_ready();
    safe
}

/// Makes the body of the record about the end of a call, with the facts about its beginning if those were not recorded.
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
        // A file with a secret in its name is not recorded as seen: a resumed session has to read it again.
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

/// Adds the record of a job's end to the journal, if there is one, and waits until it is safe.
pub(crate) async fn record_job_end(
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

/// Adds a decision about a running call to the journal, if there is one, and waits until it is safe.
pub(crate) async fn record_extension(
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

/// Makes a record about a call, with the current time.
fn new_record(engine: &Shared, call: &Call, kind: RecordKind, body: String) -> Record {
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

/// Waits until a record is safe, if there is one.
async fn wait_until_safe(appended: Option<Appended>) -> Result<(), ToolError> {
    let Some(appended) = appended else { return Ok(()) };
    appended.safe().await.map_err(|error| {
        ToolError::journal_failed(format!("the call could not be put on record: {error}"))
            .hint("make room or give another place with --state")
    })
}

/// Returns the ids of the call in the conversation of a model, shortened and without secrets. They come from outside.
fn clean_made(engine: &Shared, call: &Call) -> ModelCallPosition {
    let clean = |text: &Option<String>| {
        text.as_deref()
            .map(|text| engine.secrets.redact(text).chars().take(MAX_NAME_CHARS).collect())
    };
    let ModelCallPosition { tool_use_id, message, model } = &call.made;
    ModelCallPosition {
        tool_use_id: clean(tool_use_id),
        message: clean(message),
        model: clean(model),
    }
}

/// Returns the arguments without secrets.
pub(super) fn clean_input<'c>(engine: &Shared, call: &'c Call) -> Cow<'c, Value> {
    engine.secrets.redacted_json(&call.input)
}
