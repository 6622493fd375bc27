//! Stage 6: the policy's decision, and a person's where it asks.

use super::{Call, Ready, Shared, record};
use crate::{ApprovalRequest, Decision, Event, Grant, ToolError, Verdict};

pub(super) fn decide(engine: &Shared, call: &Call, ready: &Ready<'_>) -> Verdict {
    engine.policy().decide(&call.name, ready.effects.clone(), engine.host.files().workspace())
}

/// Turns the verdict into the right to run, or into a denial that says what would allow it.
pub(super) async fn settle(
    engine: &Shared,
    call: &Call,
    verdict: &Verdict,
) -> Result<Grant, ToolError> {
    if let Some(grant) = verdict.grant() {
        return Ok(grant);
    }
    if verdict.decision() == Decision::Deny {
        let error = ToolError::denied(verdict.refusal());
        return Err(match verdict.remedy() {
            Some(remedy) => error.hint(remedy),
            None => error,
        });
    }
    let request = ApprovalRequest {
        id: engine.broker.next_id(),
        call: call.id.clone(),
        session: call.session.id().clone(),
        tool: call.name.clone(),
        input: record::clean_input(engine, call),
        effects: engine.secrets.redact_effects(verdict.effects()),
        rule: verdict.rule().to_owned(),
    };
    let announce =
        |request: &ApprovalRequest| engine.events.publish(&Event::Approval(request.clone().into()));
    tokio::select! {
        biased;
        () = call.cancel.cancelled() => Err(ToolError::cancelled("the call was stopped before anybody answered")),
        answer = engine.broker.ask(verdict, request, announce) => answer,
    }
}
