//! Asking a person: who is asked, how the answer comes back, and what happens when nobody answers.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{Grant, Verdict};
use crate::sync::Lock;
use crate::{BoxFuture, CallId, Effects, SessionId, ToolError};

/// Names one pending question.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{Answer, ApprovalId};
/// # use windlass_core::{Engine, testing::EmptyHost};
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
/// assert_eq!(ApprovalId(7).to_string(), "7");
/// assert!(!engine.answer(ApprovalId(7), Answer::Allow), "nobody waits for this one");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ApprovalId(pub u64);

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a person is asked.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{ApprovalRequest, Kinds, Outcome, ToolCall};
/// # use windlass_core::{Effects, Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("publish").with_effects(Kinds::WRITE, |_| Effects::write("index.html")))?;
/// # let builder = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools);
/// let only_writes = |request: &ApprovalRequest| {
///     request.rule == "mode ask" && Kinds::WRITE.contains(request.effects.kinds())
/// };
/// let engine = builder.approver(only_writes).build();
/// let result = engine.call(&engine.new_session(), ToolCall::new("publish", json!({}))).await;
/// assert_eq!(result.outcome, Outcome::Ok);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct ApprovalRequest {
    /// To be named in the answer.
    pub id: ApprovalId,
    /// Which call waits for it.
    pub call: CallId,
    /// Of which session.
    pub session: SessionId,
    /// The tool.
    pub tool: String,
    /// Its arguments, as they will be used.
    pub input: Value,
    /// What it will do, paths resolved.
    pub effects: Arc<Effects>,
    /// Which rule or mode asks.
    pub rule: String,
}

/// What a person said.
///
/// ```
/// use windlass_core::Answer;
/// assert_ne!(Answer::Allow, Answer::Deny("not now".into()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Go ahead.
    Allow,
    /// No, and why.
    Deny(String),
}

/// Somebody, or something, that answers for a person. A closure from request to `bool` is one.
///
/// ```
/// use windlass_core::{ApprovalRequest, Approver};
/// fn takes(_: impl Approver) {}
/// takes(|request: &ApprovalRequest| request.tool == "read");
/// ```
pub trait Approver: Send + Sync + 'static {
    /// Answers, in its own time.
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer>;
}

impl<F: Fn(&ApprovalRequest) -> bool + Send + Sync + 'static> Approver for F {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        let answer =
            if self(request) { Answer::Allow } else { Answer::Deny("the person said no".into()) };
        Box::pin(std::future::ready(answer))
    }
}

/// Who answers when a verdict asks.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use std::time::Duration;
/// use windlass_core::{Answer, Approvals, Event, Outcome, ToolCall};
/// # use windlass_core::{Effects, Engine, Kinds, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("publish").with_effects(Kinds::WRITE, |_| Effects::write("index.html")))?;
/// # let builder = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools);
/// let engine = builder.approvals(Approvals::Listeners { timeout: Duration::from_secs(60) }).build();
/// let mut events = engine.subscribe();
/// let (_, running) = engine.start(&engine.new_session(), ToolCall::new("publish", json!({})));
/// let Event::Approval(request) = events.next().await else { panic!("that comes first") };
/// assert!(engine.answer(request.id, Answer::Deny("not today".into())));
/// assert_eq!(running.await.outcome, Outcome::Denied);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub enum Approvals {
    /// Nobody: "ask" is a denial at once.
    #[default]
    Nobody,
    /// This one.
    From(Arc<dyn Approver>),
    /// Whoever listens to the events and calls [`Engine::answer`](crate::Engine::answer) in time.
    Listeners {
        /// No answer after this is a denial.
        timeout: Duration,
    },
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::From(_) => "From(…)",
            Self::Listeners { .. } => "Listeners",
        })
    }
}

/// Keeps the questions that are open, and turns answers into grants.
#[derive(Debug, Default)]
pub(crate) struct Broker {
    approvals: Approvals,
    next: AtomicU64,
    open: Lock<HashMap<ApprovalId, oneshot::Sender<Answer>>>,
}

impl Broker {
    pub(crate) fn new(approvals: Approvals) -> Self {
        Self { approvals, ..Self::default() }
    }

    pub(crate) fn next_id(&self) -> ApprovalId {
        ApprovalId(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Asks. `announce` tells the listeners and says how many there are.
    pub(crate) async fn ask(
        &self,
        verdict: &Verdict,
        request: ApprovalRequest,
        announce: impl FnOnce(&ApprovalRequest) -> usize,
    ) -> Result<Grant, ToolError> {
        let answer = match &self.approvals {
            Approvals::Nobody => Answer::Deny("nobody is there to ask".into()),
            Approvals::From(approver) => {
                announce(&request);
                approver.ask(&request).await
            }
            Approvals::Listeners { timeout } => self.wait(&request, *timeout, announce).await,
        };
        match answer {
            Answer::Allow => {
                Ok(Grant::new(verdict.effects().clone(), format!("approval {}", request.id)))
            }
            Answer::Deny(why) => {
                let error = ToolError::denied(format!("{}: {why}", verdict.refusal()));
                Err(match verdict.remedy() {
                    Some(remedy) => error.hint(remedy),
                    None => error,
                })
            }
        }
    }

    async fn wait(
        &self,
        request: &ApprovalRequest,
        timeout: Duration,
        announce: impl FnOnce(&ApprovalRequest) -> usize,
    ) -> Answer {
        let (sender, receiver) = oneshot::channel();
        self.open.lock().insert(request.id, sender);
        // Whatever happens, also if this future is dropped, the question does not stay open.
        let _closing = Closing { broker: self, id: request.id };
        if announce(request) == 0 {
            return Answer::Deny("nobody is listening".into());
        }
        match tokio::time::timeout(timeout, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Answer::Deny("the one who was asked went away".into()),
            Err(_) => Answer::Deny(format!("no answer within {} s", timeout.as_secs())),
        }
    }

    /// Takes an answer; `false` if nobody waits for it (any more).
    pub(crate) fn answer(&self, id: ApprovalId, answer: Answer) -> bool {
        self.open.lock().remove(&id).is_some_and(|sender| sender.send(answer).is_ok())
    }
}

struct Closing<'a> {
    broker: &'a Broker,
    id: ApprovalId,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.broker.open.lock().remove(&self.id);
    }
}
