//! Calls that a person makes: taking back changes, applying proposals, coming back to a snapshot.
//!
//! Such a call passes every stage, and is told and recorded like any other. Three things differ, because the person has just said what
//! they want: the tool is one that models are not offered, nothing is asked, and hooks, which watch over models, are not told.

use std::sync::Arc;

use serde_json::Value;

use super::{Around, Call, Engine, Shared};
use crate::toolbox::Slot;
use crate::{CallResult, DecidedBy, Decision, Grant, Handle, Policy, Session, ToolCall, ToolError};
use crate::{TurnId, Verdict, id, quote};

/// The authority of a person over one call: the tool that they use, and the policy that decides.
pub(super) struct ForPerson {
    slot: Arc<Slot>,
    policy: Arc<Policy>,
}

impl Engine {
    /// Makes a call in the name of a person, with a tool that need not be on offer to models. The call is scheduled, told as
    /// [`EventKind::Started`](crate::EventKind::Started) and [`EventKind::Finished`](crate::EventKind::Finished), and recorded like any other. The rules and the
    /// mode of the engine do not bind it, and nothing is asked: the person has just said what they want. Hard denies hold, and so do the
    /// rights and the budget of the session.
    ///
    /// Only the program that embeds the engine can call this. No tool can: a [`Context`](crate::Context) does not lead here.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde_json::json;
    /// use windlass_core::{Effects, Engine, Kinds, Mode, Outcome, Policy, testing::{EmptyHost, MockTool}};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let policy = Policy::new(Mode::Plan);
    /// let engine = Engine::builder(Arc::new(EmptyHost::default())).policy(policy).build();
    /// let mut events = engine.subscribe();
    /// let restore = MockTool::named("restore").with_effects(Kinds::STATE, |_| Effects::state("files"));
    /// let result = engine.act_for_person(&engine.new_session(), restore, json!({})).await;
    /// assert_eq!(result.outcome, Outcome::Ok);
    /// assert_eq!(events.next().await.kind.name(), "started");
    /// # }
    /// ```
    pub async fn act_for_person(
        &self,
        session: &Arc<Session>,
        tool: impl Into<Handle>,
        input: Value,
    ) -> CallResult {
        let tool = tool.into();
        let call = ToolCall::new(tool.name(), input);
        let turn = TurnId::new(id::mint('t', &*self.0.ids));
        let ticket = self.0.scheduler.reserve_one();
        let around = Around { place: ticket.place(), cx: None };
        let mut call = self.receive(session, turn, call, around);
        let policy = Arc::new(self.0.policy().for_person());
        call.for_person = Some(ForPerson { slot: Arc::new(Slot::new(tool)), policy });
        self.begin(call, ticket).await
    }
}

impl Shared {
    /// The policy that decides about a call: the engine's or that of a person's call, narrowed by the rights of the session.
    pub(super) fn policy_of(&self, call: &Call) -> Arc<Policy> {
        match &call.for_person {
            Some(person) => call.session.narrowed(&person.policy),
            None => call.session.narrowed(&self.policy()),
        }
    }
}

impl ForPerson {
    /// The tool, unless the session may not use it.
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

/// The right to run where a person would have to be asked: they have agreed by making the call.
pub(super) fn agreed(call: &Call, verdict: &Verdict) -> Option<Grant> {
    let is_theirs = call.for_person.is_some() && verdict.decision() == Decision::Ask;
    is_theirs.then(|| verdict.grant_by_person(DecidedBy::Beforehand))
}
