//! Makes a call from the record of its approval, after the call that asked has ended.

use std::sync::Arc;

use serde_json::json;

use super::answers::approvals_unusable;
use super::{Call, Engine, Shared};
use crate::{
    Answer, Approval, ApprovalId, ApprovalState, CallResult, Grant, Inquiry as _, InquiryState,
    ModelCallPosition, Overrides, Scope, Session, ToolCall, ToolError, quote,
};

/// Uses up the answer that lets a call run, right before it runs. If the process is killed before this, [`Engine::resume`] can use the
/// answer; if it is killed after this, the call is not made again.
pub(super) async fn use_answer(
    engine: &Shared,
    call: &mut Call,
    grant: &Grant,
) -> Result<(), ToolError> {
    match call.resumed.take() {
        Some(id) => Box::pin(engine.broker.use_once(&id)).await,
        None => engine.broker.use_up(grant).await,
    }
}

impl Engine {
    /// Makes the call of an approval once it has been answered, without asking the model again. A refusal comes back as a denial; an
    /// answer counts once. The call asks again if it is no longer the one that was approved, such as when a path now leads elsewhere. It
    /// runs in its original work directory; the session says who makes it ([`Session::on_behalf_of`]).
    ///
    /// If the call that asked still waits, in this process or another, it uses the answer itself. Then this waits for that call and
    /// returns `None`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde_json::json;
    /// use windlass_core::{Answer, ApprovalId, ApprovalRequest, Attendant, BoxFuture, Outcome, AttendantReply, ToolCall};
    /// # use windlass_core::{Effects, Engine, EffectKinds, Toolbox, testing::{EmptyHost, MockTool}};
    ///
    /// /// Leaves every decision to a person who comes later.
    /// struct Later;
    ///
    /// impl Attendant for Later {
    ///     fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
    ///         Box::pin(std::future::ready(AttendantReply::Deferred))
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut tools = Toolbox::new();
    /// # tools.add(MockTool::named("publish").with_effects(EffectKinds::WRITE, |_| Effects::write("index.html")))?;
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).attendant(Later).build();
    /// let session = engine.new_session();
    /// let result = engine.call(&session, ToolCall::new("publish", json!({}))).await;
    /// assert_eq!(result.outcome, Outcome::Denied);
    /// let id = ApprovalId::new(result.output.metadata["approval"].as_str().unwrap_or_default());
    /// engine.answer(&id, Answer::allow()).await?;
    /// let result = engine.resume(&session, &id).await?.ok_or("another call used the answer")?;
    /// assert_eq!(result.outcome, Outcome::Ok);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resume(
        &self,
        session: &Arc<Session>,
        id: &ApprovalId,
    ) -> Result<Option<CallResult>, ToolError> {
        let claimed = self.0.broker.claim(id).await;
        let (_claim, was_held) = claimed.map_err(|why| approvals_unusable(&why))?;
        self.resume_claimed(session, id, was_held).await
    }

    /// Answers an approval and makes its call, like [`Engine::answer`] followed by [`Engine::resume`]; no other process can resume the
    /// call in between.
    pub async fn answer_and_resume(
        &self,
        session: &Arc<Session>,
        id: &ApprovalId,
        answer: Answer,
    ) -> Result<Option<CallResult>, ToolError> {
        let claim = self.0.broker.try_claim(id).await.map_err(|why| approvals_unusable(&why))?;
        let answered = self.answer(id, answer).await;
        answered.map_err(|error| ToolError::failed(format!("`{id}`: {error}")))?;
        match claim {
            Some(_claim) => self.resume_claimed(session, id, false).await,
            None => self.resume(session, id).await,
        }
    }

    /// Makes the call of an approval whose claim the caller holds. `was_held` says that a waiting call held the claim before.
    async fn resume_claimed(
        &self,
        session: &Arc<Session>,
        id: &ApprovalId,
        was_held: bool,
    ) -> Result<Option<CallResult>, ToolError> {
        let found = self.approvals().await?.into_iter().find(|one| one.id == *id);
        let Some(mut approval) = found else {
            if was_held {
                return Ok(None);
            }
            return Err(ToolError::failed(format!("there is no question `{id}` on record"))
                .hint("`windlass policy approvals` lists them"));
        };
        self.check_resumed(session, &approval)?;
        self.0.broker.journal_answer(&mut approval).await;
        if approval.has_run {
            if approval.settled == ApprovalState::Allowed {
                return self.keep_held(session, approval).await;
            }
            self.drop_held(id).await?;
        }
        // A remembered answer was used by the call that waited.
        if was_held && approval.input.is_none() && approval.scope != Scope::Once {
            return Ok(None);
        }
        let input = approval.edited.clone().or_else(|| approval.input.clone());
        // A refusal needs no arguments.
        let is_denied = matches!(approval.settled, ApprovalState::Denied(_));
        let input = input.or_else(|| (is_denied && approval.has_run).then(|| json!({})));
        let Some(input) = input else {
            return Err(ToolError::failed(format!(
                "the call of `{id}` cannot be made from the record: its arguments are not kept, or it was made"
            ))
            .hint("the model has to make it again"));
        };
        let overrides = Overrides { work_dir: approval.directory.clone(), ..Overrides::default() };
        let ModelCallPosition { tool_use_id, message, model } = approval.made.clone();
        let call = ToolCall {
            id: tool_use_id,
            message,
            model,
            ..ToolCall::new(approval.tool.clone(), input)
        }
        .with_overrides(overrides);
        // A refusal ends the call whatever the rules say now, and a call with edited arguments cannot be matched to its answer by subject.
        let is_carried =
            approval.edited.is_some() || matches!(approval.settled, ApprovalState::Denied(_));
        let is_for_once = approval.scope == Scope::Once;
        let answer = is_carried.then(|| Box::new(approval));
        let result = self.start_answered(session, call, answer).1.await;
        if !is_for_once {
            // A rule may have allowed the call, so that it ran without the answer.
            self.0.broker.mark_made(id).await.map_err(|why| approvals_unusable(&why))?;
        } else if is_carried {
            // No other call can match this answer, so it would stay unused if this call was denied.
            self.revoke(id).await?;
        }
        Ok(Some(result))
    }

    /// Fails if a call may not be made from the record: its approval is open or expired, or belongs to another session or workspace.
    fn check_resumed(&self, session: &Session, approval: &Approval) -> Result<(), ToolError> {
        let id = &approval.id;
        let workspace = self.0.host.files().workspace();
        let state = approval.state(self.0.host.clock().now());
        let why = if state == InquiryState::Open {
            format!("`{id}` is not answered yet")
        } else if state == InquiryState::Expired {
            format!("`{id}` has expired")
        } else if approval.session != *session.id() {
            format!("`{id}` was asked in session {}, not in {}", approval.session, session.id())
        } else if approval.workspace != workspace {
            let (its, this) = (quote::path(&approval.workspace), quote::path(workspace));
            format!("`{id}` was asked in the workspace {its}, not in {this}")
        } else if approval.edited.is_some() && approval.rights != Some(session.rights().digest()) {
            format!(
                "the arguments of `{id}` were changed, and the session has other rights now than when it asked"
            )
        } else {
            return Ok(());
        };
        Err(ToolError::failed(format!("the call cannot be made: {why}")))
    }
}
