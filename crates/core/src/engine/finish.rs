//! The end of a call: whatever happened becomes one result, redacted, bounded, on record, told once.

use std::fmt::Display;
use std::sync::Arc;

use super::{Call, Shared, bound, budget, provenance, record, redact};
use crate::{
    CallId, CallResult, EventKind, FailureReason, Outcome, Output, SessionId, ToolError, TurnId,
};

pub(super) async fn finish(
    engine: &Shared,
    call: &Call,
    ending: Result<Output, ToolError>,
) -> CallResult {
    let mut result = result(call, ending);
    redact::redact(engine, &mut result.output);
    bound::bound(engine, call, &mut result.output).await;
    budget::end(engine, call, &mut result);
    provenance::mark(call, &mut result.output);
    if let Err(error) = record::finished(engine, call, &result).await {
        // What is not on record is not told: the caller learns only that the record failed.
        result = self::result(call, Err(error));
        engine.recorder.publish(&call.source(), || EventKind::Finished(Arc::new(result.clone())));
    }
    result
}

fn result(call: &Call, ending: Result<Output, ToolError>) -> CallResult {
    let reason = ending.as_ref().err().and_then(ToolError::reason).cloned();
    let (outcome, mut output, code) = match ending {
        Ok(output) if output.is_error => {
            let outcome = output.outcome.unwrap_or(Outcome::Error);
            // A command that ran and whose changes a person or a rule refused.
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

/// Enough of a call to answer for it if its task is lost: at the end of the program, or by a fault of the engine.
pub(super) struct Lost {
    call: CallId,
    session: SessionId,
    turn: TurnId,
    parent_call: Option<CallId>,
    tool_use_id: Option<String>,
    tool: String,
}

impl Lost {
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
