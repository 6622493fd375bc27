//! Approvals: requests to a person to allow something while the call runs.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Context;
use crate::engine::{asker, confinement_text};
use crate::people::{CallLocation, Permission, approval_subject};
use crate::{ApprovalRequest, ContentHash, Effects, ToolError, Verdict};

impl Context {
    /// Makes the request to allow the effects of a verdict.
    pub(super) fn approval_request(&self, verdict: &Verdict) -> ApprovalRequest {
        let inner = &self.0;
        let workspace = inner.session_files.get().workspace();
        ApprovalRequest {
            id: inner.broker.next_approval(),
            call: inner.call.clone(),
            session: inner.session.id().clone(),
            tool: inner.tool.clone(),
            input: inner.input.clone(),
            effects: inner.secrets.redact_effects(verdict.effects()),
            by: inner.secrets.redact_cause(verdict.decided_by()),
            subject: self.subject_of(verdict.effects()),
            risk: inner.policy.risk_in(verdict.effects(), inner.session_files.get()),
            asker: asker(&inner.session, &inner.overrides),
            untrusted: inner.session.untrusted(),
            changes: [].into(),
            built: Vec::new(),
            confinement: confinement_text(&*inner.host, &inner.session),
            offers: Vec::new(),
            workspace: workspace.to_owned(),
            directory: inner.overrides.work_dir.clone(),
            at: inner.host.clock().now(),
            is_whole: inner.is_whole,
            can_be_remembered: inner.is_whole && !verdict.is_asked_always(),
            denies: inner.policy.deny_rules(),
            rights: inner.session.rights().digest(),
            made: inner.made.clone(),
            ran: None,
            ended: None,
            has_run: false,
            call_subject: None,
            can_wait: true,
        }
    }

    /// Computes the subject of this call with these effects.
    pub(super) fn subject_of(&self, effects: &Effects) -> ContentHash {
        let inner = &self.0;
        let workspace = inner.session_files.get().workspace();
        let directory = inner.overrides.work_dir.as_deref().unwrap_or(workspace);
        let place = CallLocation { workspace, directory: &workspace.join(directory) };
        let confinement_text = confinement_text(&*inner.host, &inner.session);
        approval_subject(&inner.tool, &inner.input, effects, place, &confinement_text)
    }

    /// Sends the request to the attendants of the session and waits for the answer. The time limit of the call is suspended
    /// meanwhile.
    pub(super) async fn ask_people(
        &self,
        verdict: &Verdict,
        request: ApprovalRequest,
        stopped: &CancellationToken,
    ) -> Result<Permission, ToolError> {
        let inner = &self.0;
        let source = self.source();
        let announce =
            |request: &Arc<ApprovalRequest>| inner.recorder.approval_asked(request, &source);
        let _asking = inner.lineage.clock.pause_while_asking();
        tokio::select! {
            biased;
            () = stopped.cancelled() => {
                inner.broker.catch_up().await;
                Err(unanswered_error())
            }
            answer = inner.broker.ask(verdict, request, &inner.session, announce) => answer,
        }
    }
}

/// Makes the error of a call that was stopped while an approval was pending.
pub(super) fn unanswered_error() -> ToolError {
    ToolError::cancelled("the call was stopped before a person answered")
}
