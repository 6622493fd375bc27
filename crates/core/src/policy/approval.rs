//! Asking a person: what they are shown, what they can say, and who asks them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DecidedBy, RiskLevel, Scope};
use crate::{ApprovalId, BoxFuture, CallId, ContentHash, Effects, SessionId};

/// What a person is asked.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{ApprovalRequest, DecidedBy, Kinds, Outcome, ToolCall};
/// # use windlass_core::{Effects, Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("publish").with_effects(Kinds::WRITE, |_| Effects::write("index.html")))?;
/// # let builder = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools);
/// let only_writes = |request: &ApprovalRequest| {
///     matches!(request.by, DecidedBy::Mode { .. }) && Kinds::WRITE.contains(request.effects.kinds())
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
    /// The rule, mode or hook that asks.
    pub by: DecidedBy,
    /// What exactly the answer is for: tool, arguments, real places, directory and confinement in one hash. Anything else asks again.
    pub subject: ContentHash,
    /// How much harm it could do.
    pub risk: RiskLevel,
    /// Who wants it.
    pub asker: Asker,
    /// Where the session has read what somebody else may have written, if it has.
    pub untrusted: Option<String>,
    /// What would become of files, found out by trying it where nothing is changed. Empty if that cannot be known beforehand.
    #[serde(skip)]
    pub changes: Arc<[FileChange]>,
    /// The workspace.
    pub workspace: PathBuf,
    /// Where relative paths of the call start, if not there.
    pub directory: Option<PathBuf>,
    /// When it was asked.
    pub at: SystemTime,
    /// Whether the arguments are as they were given: secrets are taken out of them for people.
    pub(crate) is_whole: bool,
    /// Whether an answer may be remembered: what holds the leash is asked about each time.
    pub can_be_remembered: bool,
}

/// Who wants something: which agent, in which session, below which other.
///
/// ```
/// use windlass_core::{Asker, SessionId};
/// let asker = Asker { agent: Some("reviewer".into()), parent: Some(SessionId::new("s1")), depth: 1 };
/// assert_eq!(asker.to_string(), "agent reviewer, 1 below session s1");
/// assert_eq!(Asker::default().to_string(), "the session's own model");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// The agent's name, if it has one.
    pub agent: Option<String>,
    /// The session that started this one.
    pub parent: Option<SessionId>,
    /// How deep in sub-agents.
    pub depth: u32,
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.agent {
            Some(agent) => write!(f, "agent {}", crate::quote::visible(agent))?,
            None if self.parent.is_some() => f.write_str("a sub-agent")?,
            None => f.write_str("the session's own model")?,
        }
        match &self.parent {
            Some(parent) => write!(f, ", {} below session {parent}", self.depth.max(1)),
            None => Ok(()),
        }
    }
}

/// What a call would make of one file.
///
/// ```
/// use windlass_core::FileChange;
/// let change = FileChange { path: "/w/a.md".into(), verb: "create", before: None, after: Some(b"hello\n".to_vec()) };
/// assert_eq!((change.verb, change.before.is_none()), ("create", true));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: PathBuf,
    /// What would happen to it, in a word.
    pub verb: &'static str,
    /// What is in it now; `None` if it is no file.
    pub before: Option<Vec<u8>>,
    /// What would be in it; `None` if it would be no file.
    pub after: Option<Vec<u8>>,
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
    /// Go ahead, also when this very call comes again.
    AllowFor(Scope),
    /// No, and why.
    Deny(String),
    /// No, and why, also when this very call comes again.
    DenyFor(Scope, String),
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
/// assert!(engine.answer(&request.id, Answer::Deny("not today".into())));
/// assert_eq!(running.await.outcome, Outcome::Denied);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub enum Approvals {
    /// Nobody: "ask" is a denial at once.
    #[default]
    Nobody,
    /// Nobody, because a person said yes to everything beforehand. What is denied stays denied.
    Beforehand,
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
            Self::Beforehand => "Beforehand",
            Self::From(_) => "From(…)",
            Self::Listeners { .. } => "Listeners",
        })
    }
}
