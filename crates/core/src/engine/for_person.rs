//! Calls that a person makes: undoing changes, applying proposals, returning to a checkpoint.
//!
//! Such a call passes every stage, and is published and recorded like any other. Three things differ, because the person has just said
//! what they want: its tool need not be on offer to models, it asks for no approval, and it is not shown to hooks, which watch models.

use std::sync::Arc;

use serde_json::Value;

use super::{Call, CallPosition, Engine, Shared};
use crate::toolbox::Slot;
use crate::{
    CallResult, DecidedBy, Decision, Grant, Policy, Session, ToolCall, ToolError, ToolHandle,
};
use crate::{TurnId, Verdict, id, quote};

/// Authority of a person over one call: the tool that they use, and the policy that decides.
pub(super) struct ForPerson {
    slot: Arc<Slot>,
    policy: Arc<Policy>,
}

impl Engine {
    /// Makes a call in the name of a person, with a tool that need not be on offer to models. The call is scheduled, published as
    /// [`EventKind::Started`](crate::EventKind::Started) and [`EventKind::Finished`](crate::EventKind::Finished), and recorded like any
    /// other. The rules and the mode of the engine do not bind it, and no approval is asked, because the person has just said what they
    /// want. Hard denies hold, and so do the rights and the budget of the session.
    ///
    /// Only the program that embeds the engine can call this. No tool can: a [`Context`](crate::Context) does not lead here.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde_json::json;
    /// use windlass_core::{Effects, Engine, EffectKinds, Mode, Outcome, Policy, testing::{EmptyHost, MockTool}};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let policy = Policy::new(Mode::Plan);
    /// let engine = Engine::builder(Arc::new(EmptyHost::default())).policy(policy).build();
    /// let mut events = engine.subscribe();
    /// let restore = MockTool::named("restore").with_effects(EffectKinds::STATE, |_| Effects::state("files"));
    /// let result = engine.act_for_person(&engine.new_session(), restore, json!({})).await;
    /// assert_eq!(result.outcome, Outcome::Ok);
    /// assert_eq!(events.next().await.kind.name(), "started");
    /// # }
    /// ```
    pub async fn act_for_person(
        &self,
        session: &Arc<Session>,
        tool: impl Into<ToolHandle>,
        input: Value,
    ) -> CallResult {
        let tool = tool.into();
        let call = ToolCall::new(tool.name(), input);
        let turn = TurnId::new(id::mint('t', &*self.0.ids));
        let ticket = self.0.scheduler.reserve_one();
        let around = CallPosition { place: ticket.place(), cx: None };
        let mut call = self.new_call(session, turn, call, around);
        let policy = Arc::new(self.0.policy().for_person());
        call.for_person = Some(ForPerson { slot: Arc::new(Slot::new(tool)), policy });
        self.spawn_call(call, ticket).await
    }
}

impl Shared {
    /// Returns the policy that decides about a call: that of the engine or of a person's call, narrowed by the rights of the session.
    pub(super) fn policy_of(&self, call: &Call) -> Arc<Policy> {
        match &call.for_person {
            Some(person) => call.session.narrowed(&person.policy),
            None => call.session.narrowed(&self.policy()),
        }
    }
}

impl ForPerson {
    /// Returns the tool, or fails if the rights of the session leave it out.
    pub(super) fn tool(&self, call: &Call) -> Result<Arc<Slot>, ToolError> {
        let kinds = self.slot.tool.kinds();
        if call.session.predicate().admits(&call.name, kinds, &call.session) {
            return Ok(self.slot.clone());
        }
        let name = quote::visible(&call.name);
        Err(ToolError::unknown_tool(format!("there is no tool `{name}`"))
            .hint("the rights of this session leave it out"))
    }
}

/// Returns the grant of a call that a person makes and that would ask: they have agreed by making it.
pub(super) fn grant_for_person(call: &Call, verdict: &Verdict) -> Option<Grant> {
    let is_theirs = call.for_person.is_some() && verdict.decision() == Decision::Ask;
    is_theirs.then(|| verdict.grant_by_person(DecidedBy::Person))
}
