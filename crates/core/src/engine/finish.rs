//! The end of a call: its ending becomes one result, redacted, bounded, recorded, and published once.

use std::fmt::Display;
use std::sync::Arc;

use super::{Call, Shared, bound, budget, provenance, record, redact};
use crate::{
    CallId, CallResult, EventKind, FailureReason, Outcome, Output, SessionId, ToolError, TurnId,
};

/// Turns the ending of a call into its result: redacts and bounds it, counts it in the budget, records and publishes it. If the record
/// fails, the result is that failure.
pub(super) async fn finish(
    engine: &Shared,
    call: &Call,
    ending: Result<Output, ToolError>,
) -> CallResult {
    let mut result = call_result(call, ending);
    redact::redact_output(engine, &mut result.output);
    bound::bound_output(engine, call, &mut result.output).await;
    budget::end_call(engine, call, &mut result);
    provenance::mark_untrusted(call, &mut result.output);
    if let Err(error) = record::record_finished(engine, call, &result).await {
        // A result that is not on record is not shown: the caller only gets the failure of the record.
        result = call_result(call, Err(error));
        engine.recorder.publish(&call.source(), || EventKind::Finished(Arc::new(result.clone())));
    }
    result
}

/// Makes the result of a call from the output or error of its stages, not yet redacted or bounded.
fn call_result(call: &Call, ending: Result<Output, ToolError>) -> CallResult {
    let reason = ending.as_ref().err().and_then(ToolError::reason).cloned();
    let (outcome, mut output, code) = match ending {
        Ok(output) if output.is_error => {
            let outcome = output.outcome.unwrap_or(Outcome::Error);
            // The command ran, and a person or a rule refused its changes.
            let code = (outcome == Outcome::Denied).then_some("denied");
            (outcome, output, code)
        }
        Ok(output) => (Outcome::Ok, output, None),
        Err(error) => {
            let outcome = match &error {
                ToolError::Failed(_) => Outcome::Error,
                ToolError::Denied(_) => Outcome::Denied,
                ToolError::TimedOut(_) => Outcome::TimedOut,
                ToolError::Cancelled(_) => Outcome::Cancelled,
                _ => Outcome::Fault,
            };
            let code = error.is_fault().then(|| error.code());
            (outcome, Output::error(error.to_string()), code)
        }
    };
    if let Some(code) = code {
        output.metadata.insert("code".into(), code.into());
    }
    if let Some((key, id)) = reason.as_ref().and_then(FailureReason::metadata) {
        output.metadata.insert(key.into(), id.into());
    }
    output.metadata.insert("turn".into(), call.turn.as_str().into());
    CallResult {
        call: call.id.clone(),
        session: call.session.id().clone(),
        turn: call.turn.clone(),
        parent_call: call.parent(),
        tool_use_id: call.made.tool_use_id.clone(),
        tool: call.name.clone(),
        outcome,
        output,
        code,
        duration: call.began.elapsed(),
    }
}

/// Data of a call for its result if its task is lost: at the end of the program, or by a fault of the engine.
pub(super) struct LostCall {
    call: CallId,
    session: SessionId,
    turn: TurnId,
    parent_call: Option<CallId>,
    tool_use_id: Option<String>,
    tool: String,
}

impl LostCall {
    /// Copies the data of a call.
    pub(super) fn of(call: &Call) -> Self {
        Self {
            call: call.id.clone(),
            session: call.session.id().clone(),
            turn: call.turn.clone(),
            parent_call: call.parent(),
            tool_use_id: call.made.tool_use_id.clone(),
            tool: call.name.clone(),
        }
    }

    /// Makes the result of a lost call: a fault with this reason.
    pub(super) fn result(self, why: &dyn Display) -> CallResult {
        let error = ToolError::internal(format!("the call was lost: {why}"));
        CallResult {
            output: Output::error(error.to_string())
                .with("code", error.code())
                .with("turn", self.turn.as_str()),
            call: self.call,
            session: self.session,
            turn: self.turn,
            parent_call: self.parent_call,
            tool_use_id: self.tool_use_id,
            tool: self.tool,
            outcome: Outcome::Fault,
            code: Some(error.code()),
            duration: std::time::Duration::ZERO,
        }
    }
}
