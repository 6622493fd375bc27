//! Stage 10: runs the tool, with a time limit and a way to stop it, and turns its panics into errors.

use std::any::Any;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use super::cache::CacheKey;
use super::{Call, ReadyCall, Shared, record};
use crate::context::{Context, Inner};
use crate::sync::Lock;
use crate::{
    Content, EffectKinds, Grant, MemoryOutputs, Output, Overrides, Resolved, Session, ToolError,
};

/// Runs the planned call until it ends, is stopped or exceeds its time limit. Caches the output of a call that only reads, under `key`;
/// any other call clears the cache. The error of a stopped call includes its partial output.
pub(super) async fn run_tool(
    engine: &Arc<Shared>,
    call: &Call,
    ready: ReadyCall<'_>,
    grant: Grant,
    key: Option<CacheKey>,
) -> Result<Output, ToolError> {
    let only_reads = ready.effects.only_reads();
    let is_held = call.session.proposals().is_some()
        && ready.effects.kinds().intersects(EffectKinds::WRITE.with(EffectKinds::DELETE));
    let began = engine.host.clock().now();
    let cx = Context::new(context_parts(engine, call, ready.kinds, ready.resolved, grant));
    if call.cancel.is_cancelled() {
        return Err(ToolError::cancelled("the call was stopped before it began"));
    }
    let limit = call.overrides.timeout.or_else(|| ready.planned.time_limit());
    let limit = limit.unwrap_or(engine.timeout);
    let clock = &call.lineage.clock;
    clock.restart();
    let ending = tokio::select! {
        biased;
        done = ready.planned.run(&cx) => done,
        never = publish_beginning_when_waiting(engine, call) => match never {},
        () = call.cancel.cancelled() => Err(ToolError::cancelled("the call was stopped")),
        () = clock.expired(limit) => {
            // Work that the tool left running elsewhere (a search on another thread) must stop too.
            call.cancel.cancel();
            Err(ToolError::timed_out(format!("the call was stopped after {} s", limit.as_secs_f64())))
        }
    };
    if call.cancel.is_cancelled() {
        // The tool's work was dropped with its open question. The process may end right after this call, so the book must be free of it now.
        engine.broker.catch_up().await;
    }
    cx.end_output();
    call.lineage.end();
    // A call whose inner calls were stopped with it counts as stopped, whatever it made of their answers.
    let was_stopped = call.cancel.is_cancelled() && call.lineage.has_inner();
    let ending = match ending {
        Ok(_) if was_stopped => Err(ToolError::cancelled("the call was stopped")),
        ending => ending,
    };
    let ending = ending.map(|output| if is_held { note_proposed(output) } else { output });
    if !only_reads {
        engine.cache.clear();
    } else if let (Ok(output), Some(key)) = (&ending, key) {
        engine.cache.put(key, output, cx.take_observed(), began);
    }
    match ending {
        Ok(output) => Ok(output),
        Err(error) => Err(with_partial_output(error, &cx).await),
    }
}

/// Publishes the call's beginning when it is first polled, which is when the tool has to wait for something. Never completes.
async fn publish_beginning_when_waiting(engine: &Shared, call: &Call) -> Infallible {
    record::publish_beginning(engine, call);
    std::future::pending().await
}

/// Makes the context of a trial run: it publishes no events, and its changes become proposals of `session`.
pub(super) fn trial_context(
    engine: &Arc<Shared>,
    call: &Call,
    session: &Arc<Session>,
    ready: &ReadyCall<'_>,
    grant: Grant,
) -> Context {
    Context::new(Inner {
        session: session.clone(),
        cancel: call.cancel.child_token(),
        recorder: Arc::new(engine.recorder.silent()),
        outputs: Arc::new(MemoryOutputs::default()),
        ..context_parts(engine, call, ready.kinds, ready.resolved.clone(), grant)
    })
}

/// Makes the content of a call's context.
fn context_parts(
    engine: &Arc<Shared>,
    call: &Call,
    kinds: EffectKinds,
    resolved: Vec<(PathBuf, Resolved)>,
    grant: Grant,
) -> Inner {
    let input = record::clean_input(engine, call);
    Inner {
        call: call.id.clone(),
        kinds,
        made: call.made.clone(),
        is_whole: *input == call.input,
        turn: call.turn.clone(),
        tool: call.name.clone(),
        session: call.session.clone(),
        grant,
        engine: engine.clone(),
        host: engine.host.clone(),
        session_files: call.files.clone(),
        history: engine.history.clone(),
        outputs: engine.outputs.clone(),
        policy: engine.policy_of(call),
        broker: engine.broker.clone(),
        input: input.into_owned(),
        overrides: Overrides {
            // A tool that stops at the right place gives a better result than a cut afterwards.
            output_bytes: call.overrides.output_bytes.or(Some(engine.output_bytes)),
            ..call.overrides.clone()
        },
        cancel: call.cancel.clone(),
        lineage: call.lineage.clone(),
        recorder: engine.recorder.clone(),
        secrets: engine.secrets.clone(),
        resolved,
        observed: Lock::default(),
        said: Lock::default(),
    }
}

/// Adds a note to the output of a call whose changes became proposals, so that the model knows that no file has changed. Leaves the
/// output of an error as it is.
fn note_proposed(mut output: Output) -> Output {
    if output.is_error {
        return output;
    }
    output.content.push(Content::text("[held as a proposal: the files change when it is applied]"));
    output.with("proposed", true)
}

/// Adds partial output and changes to the error of a call that was stopped or timed out: the output before the message, the changes
/// after it. Any other error stays as it is.
async fn with_partial_output(error: ToolError, cx: &Context) -> ToolError {
    let (mut text, changes) = cx.take_partial().await;
    let is_silent = text.is_empty() && changes.message().is_empty();
    if is_silent || !matches!(error, ToolError::Cancelled(_) | ToolError::TimedOut(_)) {
        return error;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let text = format!("{text}[{}{}]", error.message().text, changes.message());
    match error {
        ToolError::Cancelled(_) => ToolError::cancelled(text),
        _ => ToolError::timed_out(text),
    }
}

/// Turns a panic of a tool into an error of its call alone.
pub(super) fn panic_error(panic: &(dyn Any + Send)) -> ToolError {
    ToolError::panicked(format!("the tool panicked: {}", panic_message(panic)))
}

/// Returns the message of a panic, or a placeholder if it has no text.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a word".to_owned())
}
