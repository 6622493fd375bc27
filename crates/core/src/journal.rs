//! The records of a session. The engine appends a record before it publishes the event.

mod body;
mod notes;
mod receipt;

use std::time::SystemTime;

pub(crate) use body::UNTRUSTED;
pub use body::{
    BODY_VERSION, CallExtended, CallFinished, CallStarted, JobChange, JobEnded, ModelCallPosition,
    ProvenanceFacts, RecordsMissing, Recovery, ResumedCallFacts, SessionBegun,
};
pub use notes::{
    ApprovalAnswered, ApprovalAsked, MessageAuthor, MessageNote, QuestionAnswered, QuestionAsked,
    RequestNote, SessionNote, StateNote, TaskNote, TaskState,
};
pub use receipt::RecordReceipt;

use crate::sync::Lock;
use crate::{BoxFuture, CallId, Outcome, SessionId, TurnId};

/// One entry of the journal.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Engine, Outcome, RecordKind, ToolCall, testing::MemoryJournal};
/// # use windlass_core::{Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("ping"))?;
/// # let builder = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools);
/// let journal = Arc::new(MemoryJournal::default());
/// let engine = builder.journal(journal.clone()).build();
/// engine.call(&engine.new_session(), ToolCall::new("ping", json!({}))).await;
/// let records = journal.records();
/// assert_eq!((records[0].tool.as_str(), records[0].kind), ("ping", RecordKind::Started));
/// assert_eq!(records[1].kind, RecordKind::Finished(Outcome::Ok));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The time.
    pub at: SystemTime,
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The call that begins or ends. Empty in records of other kinds: these belong to the session, and name a call in their body if
    /// they are about one.
    pub call: CallId,
    /// The tool, under the name that the call used.
    pub tool: String,
    /// The kind of the record.
    pub kind: RecordKind,
    /// The body as JSON text. Its type depends on the kind, such as [`CallStarted`]. Secrets are redacted.
    pub body: String,
}

/// The kind of a record.
///
/// ```
/// use windlass_core::{Outcome, RecordKind};
/// assert_eq!(RecordKind::Started.as_str(), "started");
/// assert_eq!(RecordKind::Finished(Outcome::Denied).as_str(), "finished");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// A call passed the policy and is about to begin.
    Started,
    /// A call ended, even if it had never begun.
    Finished(Outcome),
    /// A job that a call had started ended, and had changed files.
    JobEnded,
    /// A running call asked for effects beyond its plan, and these were decided on.
    Extended,
    /// Changes that a killed process had left unfinished were repaired.
    Recovered,
    /// A person is asked for an approval of a call.
    Approval,
    /// A person answered an approval.
    ApprovalAnswered,
    /// A tool asks a person questions.
    Question,
    /// A person answered the questions of a tool.
    QuestionAnswered,
    /// A person, a model or an agent wrote a message.
    Message,
    /// A request was sent to a model.
    Request,
    /// A value in the state of the session changed.
    State,
    /// The state of a task changed.
    Task,
}

impl RecordKind {
    /// Returns the name in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Finished(_) => "finished",
            Self::JobEnded => "job_ended",
            Self::Extended => "extended",
            Self::Recovered => "recovered",
            Self::Approval => "approval",
            Self::ApprovalAnswered => "approval_answered",
            Self::Question => "question",
            Self::QuestionAnswered => "question_answered",
            Self::Message => "message",
            Self::Request => "request",
            Self::State => "state",
            Self::Task => "task",
        }
    }
}

/// The reason why a record could not be written, in words.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct JournalError(pub String);

/// Stores records, in the order of the calls of [`Journal::append`].
///
/// ```
/// use std::sync::Mutex;
/// use windlass_core::{BoxFuture, Journal, JournalError, RecordReceipt, Record};
/// # use windlass_core::{CallId, RecordKind, SessionId, TurnId};
///
/// /// One line for each record.
/// #[derive(Default)]
/// struct Lines(Mutex<String>);
///
/// impl Journal for Lines {
///     fn append(&self, record: Record) -> BoxFuture<'static, Result<RecordReceipt, JournalError>> {
///         let mut lines = self.0.lock().unwrap();
///         lines.push_str(&format!("{} {}\n", record.tool, record.kind.as_str()));
///         let number = lines.lines().count() as u64;
///         Box::pin(std::future::ready(Ok(RecordReceipt::numbered(number))))
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), JournalError> {
/// # let record = Record {
/// #     at: std::time::SystemTime::UNIX_EPOCH,
/// #     session: SessionId::new("s1"),
/// #     turn: TurnId::new("t1"),
/// #     call: CallId::new("c1"),
/// #     tool: "read".into(),
/// #     kind: RecordKind::Started,
/// #     body: "{}".into(),
/// # };
///
/// let lines = Lines::default();
/// assert_eq!(lines.append(record).await?.number().await, Some(1));
/// assert_eq!(*lines.0.lock().unwrap(), "read started\n");
/// # Ok(())
/// # }
/// ```
pub trait Journal: Send + Sync {
    /// Takes a record at once. The future ends when the record is safe; dropping the future does not take the record back.
    ///
    /// The receipt gives the number of the record. The numbers of the records that one process appends grow in the order of the calls.
    fn append(&self, record: Record) -> BoxFuture<'static, Result<RecordReceipt, JournalError>>;
}

/// Keeps whole outputs whose text was too long for the model.
///
/// ```
/// use windlass_core::{CallId, JournalError, Outputs, SessionId};
///
/// /// Keeps no outputs.
/// struct Nothing;
///
/// impl Outputs for Nothing {
///     fn keep(&self, _: &SessionId, _: &CallId, _: &str) -> Result<(), JournalError> {
///         Ok(())
///     }
///     fn get(&self, _: &CallId) -> Result<Option<String>, JournalError> {
///         Ok(None)
///     }
/// }
///
/// let call = CallId::new("c1");
/// Nothing.keep(&SessionId::new("s1"), &call, "a long text")?;
/// assert_eq!(Nothing.get(&call)?, None);
/// # Ok::<(), JournalError>(())
/// ```
pub trait Outputs: Send + Sync {
    /// Keeps the text of a call.
    fn keep(&self, session: &SessionId, call: &CallId, text: &str) -> Result<(), JournalError>;
    /// Keeps the text of a call, which `next` returns in pieces until it returns `None`.
    fn keep_pieces(
        &self,
        session: &SessionId,
        call: &CallId,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), JournalError> {
        let mut text = String::new();
        while let Some(piece) = next() {
            text.push_str(&piece);
        }
        self.keep(session, call, &text)
    }
    /// Returns the text of a call, if it is still kept.
    fn get(&self, call: &CallId) -> Result<Option<String>, JournalError>;
}

/// Keeps outputs in memory as long as the process lives. Embedders without a store get this one.
///
/// ```
/// use windlass_core::{CallId, MemoryOutputs, Outputs, SessionId};
/// let outputs = MemoryOutputs::default();
/// outputs.keep(&SessionId::new("s"), &CallId::new("c"), "all of it")?;
/// assert_eq!(outputs.get(&CallId::new("c"))?.as_deref(), Some("all of it"));
/// # Ok::<(), windlass_core::JournalError>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryOutputs(Lock<std::collections::VecDeque<(CallId, String)>>);

impl MemoryOutputs {
    /// Maximum bytes of all kept texts. The oldest texts are dropped above this.
    const MAX_BYTES: usize = 64 << 20;
}

impl Outputs for MemoryOutputs {
    fn keep(&self, _: &SessionId, call: &CallId, text: &str) -> Result<(), JournalError> {
        let mut kept = self.0.lock();
        kept.push_back((call.clone(), text.to_owned()));
        let mut bytes: usize = kept.iter().map(|(_, text)| text.len()).sum();
        while bytes > Self::MAX_BYTES && kept.len() > 1 {
            bytes -= kept.pop_front().map_or(0, |(_, text)| text.len());
        }
        Ok(())
    }

    fn get(&self, call: &CallId) -> Result<Option<String>, JournalError> {
        Ok(self.0.lock().iter().find(|(kept, _)| kept == call).map(|(_, text)| text.clone()))
    }
}
