//! Keeps the changes of a command when the approval of them is answered after its call has ended.
//!
//! The command is not run again. Its changes wait on their stage, and the answer commits exactly these, as a call of its own: recorded,
//! and with a checkpoint, so that they can be undone.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Engine;
use crate::context::{effects_of_changes, list_changes, show_held};
use crate::policy::StagedChanges;
use crate::{
    AnyTool, Approval, ApprovalId, BoxFuture, CallResult, CheckpointQuery, Context, Decision,
    Effect, EffectKinds, Effects, FailureReason, HeldDiff, Outcome, Output, PlanContext, Planned,
    PlannedCall, ProcessChanges, Session, ToolError, ToolSpec,
};

impl Engine {
    /// Returns the changes of a command that wait for this approval, or `None` if none wait.
    pub async fn held_changes(&self, id: &ApprovalId) -> Result<Option<HeldDiff>, ToolError> {
        let (host, id) = (self.0.host.clone(), id.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let Some(processes) = host.processes() else { return Ok(None) };
            let Some((held, built)) = processes.look_at_held(&id)? else { return Ok(None) };
            let (files, changed_since) = show_held(&held, host.files());
            Ok(Some(HeldDiff { files, built, changed_since }))
        });
        let found = reading.await.map_err(|error| ToolError::internal(error.to_string()))?;
        found.map_err(|error| held_unreadable(&error))
    }

    /// Commits the changes that wait for this approval. If that fails, the changes stay held and the approval opens again.
    pub(super) async fn keep_held(
        &self,
        session: &Arc<Session>,
        approval: Approval,
    ) -> Result<Option<CallResult>, ToolError> {
        let changes = self.take_held(&approval.id).await?.ok_or_else(|| {
            ToolError::failed(format!(
                "what the command of `{}` changed is not held any more",
                approval.id
            ))
            .hint("the model has to run the command again")
        })?;
        let changes = Arc::new(changes);
        let committed = self.commit_held(session, &approval, changes.clone()).await;
        if committed.as_ref().is_ok_and(|result| self.has_committed(result)) {
            // Used up only now: if this process is killed before, another one finds the approval and the stage.
            self.0
                .broker
                .use_up_held(&approval.id)
                .await
                .map_err(|why| super::answers::approvals_unusable(&why))?;
            session.allow(&approval.rules);
            release(&changes);
            return committed.map(Some);
        }
        // Nothing was committed: the changes stay held, and the approval can be answered again.
        self.0
            .broker
            .reopen(&approval.id)
            .await
            .map_err(|why| super::answers::approvals_unusable(&why))?;
        committed.map(Some)
    }

    /// Returns whether a call committed the changes, also if it was cut short after that.
    fn has_committed(&self, result: &CallResult) -> bool {
        let is_in_history = || {
            let found = self.0.history.checkpoints(&CheckpointQuery::Call(result.call.clone()));
            found.is_ok_and(|found| !found.is_empty())
        };
        match result.outcome {
            Outcome::Ok => true,
            // The history may list changes that could not be rolled back.
            Outcome::Error | Outcome::Denied => false,
            Outcome::Fault | Outcome::TimedOut | Outcome::Cancelled => is_in_history(),
        }
    }

    /// Commits held changes as a call that a person makes. Fails if a rule denies them by now.
    async fn commit_held(
        &self,
        session: &Arc<Session>,
        approval: &Approval,
        changes: Arc<ProcessChanges>,
    ) -> Result<CallResult, ToolError> {
        let effects = Arc::new(effects_of_changes(&changes));
        self.check_denies(session, &effects).map_err(|error| stays_open(error, &approval.id))?;
        let input = approval.input.clone().unwrap_or_else(|| json!({}));
        let tool =
            KeepChanges { tool: approval.tool.clone(), id: approval.id.clone(), effects, changes };
        Ok(self.act_for_person(session, tool, input).await)
    }

    /// Drops the changes that wait for an approval, if there are any.
    pub(super) async fn drop_held(&self, id: &ApprovalId) -> Result<(), ToolError> {
        if let Some(changes) = self.take_held(id).await? {
            release(&changes);
        }
        Ok(())
    }

    /// Takes the held changes of an approval from the host; `None` if there are none.
    async fn take_held(&self, id: &ApprovalId) -> Result<Option<ProcessChanges>, ToolError> {
        let (host, id) = (self.0.host.clone(), id.clone());
        let reading = tokio::task::spawn_blocking(move || match host.processes() {
            Some(processes) => processes.held_changes(&id),
            None => Ok(None),
        });
        let found = reading.await.map_err(|error| ToolError::internal(error.to_string()))?;
        found.map_err(|error| held_unreadable(&error))
    }

    /// Fails if a rule denies the changes by now.
    fn check_denies(
        &self,
        session: &Arc<Session>,
        effects: &Arc<Effects>,
    ) -> Result<(), ToolError> {
        let policy = session.narrowed(&self.0.policy());
        let files = self.0.host.files();
        let situation = super::situation(&*self.0.host, files, session);
        let (workspace, usual) = (files.workspace(), StagedChanges::Decided);
        let verdict = policy.decide_changes(effects, workspace, usual, &situation, &|_| None);
        match verdict.decision() {
            Decision::Deny => Err(verdict.denial(None)),
            Decision::Allow | Decision::Ask => Ok(()),
        }
    }
}

/// Releases the stage of the changes, which drops what is on it.
fn release(changes: &ProcessChanges) {
    if let Some(stage) = &changes.stage {
        stage.release();
    }
}

/// Makes the error for held changes that cannot be read.
fn held_unreadable(error: &std::io::Error) -> ToolError {
    ToolError::host_failed(format!("what the command changed cannot be read: {error}"))
}

/// Adds to an error that the changes stay held and the approval stays open.
fn stays_open(error: ToolError, id: &ApprovalId) -> ToolError {
    error.with_context(&format!(
        "what the command changed is not kept yet: it is held on, and `{id}` stays open (`windlass policy deny {id}` drops it)"
    ))
}

/// Adds the same to an error, with advice for the person who answers if the files changed since the command ran.
fn with_advice_for_person(error: ToolError, id: &ApprovalId) -> ToolError {
    let is_stale = error.reason() == Some(&FailureReason::Stale);
    let error = stays_open(error, id);
    if !is_stale {
        return error;
    }
    error.hint(format!(
        "put back what the command found (`windlass policy diff {id}` shows it) and approve it again, or deny it and let the command run again"
    ))
}

/// Tool that commits the changes of a stage, under the name of the tool that ran the command.
struct KeepChanges {
    tool: String,
    id: ApprovalId,
    effects: Arc<Effects>,
    changes: Arc<ProcessChanges>,
}

impl AnyTool for KeepChanges {
    fn name(&self) -> &str {
        &self.tool
    }

    fn kinds(&self) -> EffectKinds {
        EffectKinds::WRITE.with(EffectKinds::DELETE)
    }

    fn spec(&self) -> ToolSpec {
        let description = "Keep what a command changed.";
        ToolSpec::new(self.tool.clone(), description, json!({"type": "object"}), self.kinds())
    }

    fn plan<'a>(
        &'a self,
        _: Value,
        scene: &PlanContext<'_>,
    ) -> Result<Planned<Box<dyn PlannedCall + 'a>>, ToolError> {
        let planned = KeepChangesCall { id: self.id.clone(), changes: self.changes.clone() };
        // Files that tools may not see are not declared: the command did not see them, and the person was asked about them by name.
        let is_seen =
            |effect: &&Effect| !effect.changed_path().is_some_and(|it| scene.is_hidden(&it.path));
        let effects = self.effects.iter().filter(is_seen).cloned().collect();
        Ok(Planned { effects, plan: Box::new(planned) })
    }
}

/// Planned call of [`KeepChanges`].
struct KeepChangesCall {
    id: ApprovalId,
    changes: Arc<ProcessChanges>,
}

impl PlannedCall for KeepChangesCall {
    fn run<'a>(self: Box<Self>, cx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let committed = cx.make_real(self.changes.clone(), true).await;
            let committed = committed.map_err(|error| with_advice_for_person(error, &self.id))?;
            let listed = list_changes(&self.changes, cx.files().workspace());
            let mut text = format!("what the command changed is kept now; it\n{listed}");
            for note in committed.notes() {
                text.extend(["\n", &note]);
            }
            Ok(Output::text(text).with("changed_count", self.changes.changes.len()))
        })
    }
}
