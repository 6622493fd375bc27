//! The bodies of records of a session that are not about the beginning or end of a call: approvals, questions, messages, requests to a
//! model, state and tasks.
//!
//! The row of such a record in the journal names no call, since the record may come before, between and after calls. The body names
//! the call that it is about, if there is one.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BODY_VERSION, RecordKind};
use crate::{
    Approval, ApprovalId, ApprovalRequest, ApprovalState, CallId, DecidedBy, Effects, Principal,
    Question, QuestionAnswer, QuestionId, QuestionRequest, Requester, RiskLevel, Scope, Secrets,
    TurnId,
};

/// The version of a body without a version number. These bodies exist since version 2.
fn current_version() -> u32 {
    BODY_VERSION
}

/// Returns the text with secrets redacted.
fn redacted_text(text: &str, secrets: &Secrets) -> String {
    secrets.redact(text).into_owned()
}

/// The body of the record of an approval that a person is asked for.
///
/// ```
/// use windlass_core::ApprovalAsked;
/// let body = r#"{"v":2,"id":"a1","call":"c1","tool":"bash","input":{"command":"make"},"effects":[],"by":{"by":"mode","mode":"ask"},"risk":"low"}"#;
/// let asked: ApprovalAsked = serde_json::from_str(body)?;
/// assert_eq!((asked.id.as_str(), asked.by.to_string()), ("a1", "mode ask".to_owned()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAsked {
    /// The version of the body.
    #[serde(rename = "v", default = "current_version")]
    pub version: u32,
    /// The approval.
    pub id: ApprovalId,
    /// The call that waits for the approval.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The arguments, without secrets.
    #[serde(default)]
    pub input: Value,
    /// The effects, with resolved paths.
    #[serde(default)]
    pub effects: Effects,
    /// The rule, mode or hook that asks.
    pub by: DecidedBy,
    /// The harm that the call could do.
    pub risk: RiskLevel,
    /// The agent behind the call.
    #[serde(default)]
    pub asker: Requester,
    /// The call has run already; the approval is about the changes that it made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_run: bool,
}

impl ApprovalAsked {
    /// Makes the body from a request.
    pub(crate) fn of(request: &ApprovalRequest) -> Self {
        Self {
            version: BODY_VERSION,
            id: request.id.clone(),
            call: request.call.clone(),
            tool: request.tool.clone(),
            input: request.input.clone(),
            effects: (*request.effects).clone(),
            by: request.by.clone(),
            risk: request.risk,
            asker: request.asker.clone(),
            has_run: request.has_run,
        }
    }
}

/// The body of the record of an answer to an approval.
///
/// ```
/// use windlass_core::ApprovalAnswered;
/// let body = r#"{"v":2,"id":"a1","tool":"bash","allowed":false,"scope":"once","reason":"not now"}"#;
/// let answered: ApprovalAnswered = serde_json::from_str(body)?;
/// assert_eq!((answered.allowed, answered.reason.as_deref()), (false, Some("not now")));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAnswered {
    /// The version of the body.
    #[serde(rename = "v", default = "current_version")]
    pub version: u32,
    /// The approval.
    pub id: ApprovalId,
    /// The call that asked; `None` if an older version asked for the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The tool.
    pub tool: String,
    /// The answer is yes.
    pub allowed: bool,
    /// The scope in which the answer holds.
    pub scope: Scope,
    /// The principal that answered.
    #[serde(default)]
    pub who: Principal,
    /// The reason, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The arguments with which the answer replaces those of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

impl ApprovalAnswered {
    /// Makes the body from an answered approval, with secrets redacted.
    pub(crate) fn of(approval: &Approval, secrets: &Secrets) -> Self {
        let denied = match &approval.settled {
            ApprovalState::Denied(why) => Some(why),
            ApprovalState::Allowed | ApprovalState::Pending => None,
        };
        let mut input = approval.edited.clone();
        if let Some(input) = &mut input {
            secrets.redact_json(input);
        }
        Self {
            version: BODY_VERSION,
            id: approval.id.clone(),
            call: approval.call.clone(),
            tool: approval.tool.clone(),
            allowed: approval.settled == ApprovalState::Allowed,
            scope: approval.scope,
            who: approval.who.clone().unwrap_or_default(),
            reason: approval.reason.as_ref().or(denied).map(|why| redacted_text(why, secrets)),
            input,
        }
    }
}

/// The body of the record of questions that a tool asks a person.
///
/// ```
/// use windlass_core::QuestionAsked;
/// let body = r#"{"v":2,"id":"q1","call":"c1","tool":"ask","questions":[]}"#;
/// assert_eq!(serde_json::from_str::<QuestionAsked>(body)?.id.as_str(), "q1");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAsked {
    /// The version of the body.
    #[serde(rename = "v", default = "current_version")]
    pub version: u32,
    /// The set of questions.
    pub id: QuestionId,
    /// The call that waits for the answer.
    pub call: CallId,
    /// The tool that asks.
    pub tool: String,
    /// The questions.
    #[serde(default)]
    pub questions: Vec<Question>,
}

impl QuestionAsked {
    /// Makes the body from a request.
    pub(crate) fn of(request: &QuestionRequest) -> Self {
        Self {
            version: BODY_VERSION,
            id: request.id.clone(),
            call: request.call.clone(),
            tool: request.tool.clone(),
            questions: request.questions.clone(),
        }
    }
}

/// The body of the record of an answer to questions.
///
/// ```
/// use windlass_core::QuestionAnswered;
/// let body = r#"{"v":2,"id":"q1","call":"c1","tool":"ask","answer":{"selections":[{"selected":["yes"]}]}}"#;
/// let answered: QuestionAnswered = serde_json::from_str(body)?;
/// assert_eq!(answered.answer.selections[0].selected, ["yes"]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    /// The version of the body.
    #[serde(rename = "v", default = "current_version")]
    pub version: u32,
    /// The set of questions.
    pub id: QuestionId,
    /// The call that asked.
    pub call: CallId,
    /// The tool that asked.
    pub tool: String,
    /// The answer.
    pub answer: QuestionAnswer,
}

impl QuestionAnswered {
    /// Makes the body with secrets redacted; `None` if the questions are not answered.
    pub(crate) fn of(request: &QuestionRequest, secrets: &Secrets) -> Option<Self> {
        let mut answer = request.answer.clone()?;
        for selection in &mut answer.selections {
            selection.other = selection.other.as_ref().map(|text| redacted_text(text, secrets));
        }
        Some(Self {
            version: BODY_VERSION,
            id: request.id.clone(),
            call: request.call.clone(),
            tool: request.tool.clone(),
            answer,
        })
    }
}

/// The author of a message.
///
/// ```
/// use windlass_core::MessageAuthor;
/// assert_eq!(serde_json::to_string(&MessageAuthor::Person)?, r#""person""#);
/// assert_eq!(MessageAuthor::Model.to_string(), "model");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageAuthor {
    /// A person.
    Person,
    /// The model of the session.
    Model,
    /// Another agent.
    Agent,
    /// The program itself, such as a summary that replaces older messages.
    System,
}

impl fmt::Display for MessageAuthor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Person => "person",
            Self::Model => "model",
            Self::Agent => "agent",
            Self::System => "system",
        })
    }
}

/// The body of the record of a message in a session.
///
/// ```
/// use windlass_core::{MessageNote, MessageAuthor};
/// let note = MessageNote::new(MessageAuthor::Person, "make it green");
/// assert_eq!(serde_json::to_string(&note)?, r#"{"v":2,"role":"person","text":"make it green"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageNote {
    /// The version of the body.
    #[serde(rename = "v", default = "current_version")]
    pub version: u32,
    /// The author.
    pub role: MessageAuthor,
    /// The name of the author, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text.
    pub text: String,
    /// The turn that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
}

impl MessageNote {
    /// Makes a message of an author without a name.
    pub fn new(role: MessageAuthor, text: impl Into<String>) -> Self {
        Self { version: BODY_VERSION, role, name: None, text: text.into(), turn: None }
    }
}

/// The body of the record of one request to a model.
///
/// ```
/// use serde_json::json;
/// use windlass_core::RequestNote;
/// let note = RequestNote {
///     messages: vec![json!({"role": "user", "content": "hello"})],
///     tools: vec!["read".into()],
///     ..RequestNote::new("claude")
/// };
/// assert_eq!(serde_json::to_value(&note)?["tools"], json!(["read"]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestNote {
    /// The version of the body.
    #[serde(rename = "v", default = "current_version")]
    pub version: u32,
    /// The model.
    pub model: String,
    /// The system instructions.
    #[serde(default)]
    pub system: Value,
    /// The messages in Anthropic's format, with the ids of calls as in the results.
    #[serde(default)]
    pub messages: Vec<Value>,
    /// The names of the tools on offer.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The turn that the request asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
}

impl RequestNote {
    /// Makes an empty request to a model.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            version: BODY_VERSION,
            model: model.into(),
            system: Value::Null,
            messages: Vec::new(),
            tools: Vec::new(),
            turn: None,
        }
    }
}

/// The body of the record of a changed value in the state of a session, such as its todo list.
///
/// ```
/// use serde_json::json;
/// use windlass_core::StateNote;
/// let note = StateNote::new("todo", json!([{"text": "test"}]));
/// assert_eq!((note.key.as_str(), note.call), ("todo", None));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateNote {
    /// The version of the body.
    #[serde(rename = "v", default = "current_version")]
    pub version: u32,
    /// The key of the value.
    pub key: String,
    /// The new value; null if it was removed.
    #[serde(default)]
    pub value: Value,
    /// The call that changed it, if a call did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

impl StateNote {
    /// Makes a change that no call made.
    pub fn new(key: impl Into<String>, value: Value) -> Self {
        Self { version: BODY_VERSION, key: key.into(), value, call: None }
    }

    /// Sets the call that made the change.
    #[must_use]
    pub fn of_call(mut self, call: CallId) -> Self {
        self.call = Some(call);
        self
    }
}

/// The state of a task.
///
/// ```
/// use windlass_core::TaskState;
/// assert_eq!(serde_json::to_string(&TaskState::InputRequired)?, r#""input_required""#);
/// assert!(TaskState::Failed.is_end() && !TaskState::Working.is_end());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It has not begun.
    Submitted,
    /// It is being worked on.
    Working,
    /// It waits for input from a person.
    InputRequired,
    /// It succeeded.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl TaskState {
    /// Returns the name in records and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether the task has ended.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The body of the record of the state of a task. A task is work that a session does for others: a sub-agent, or a client.
///
/// ```
/// use windlass_core::{TaskNote, TaskState};
/// let note = TaskNote::new("k1", TaskState::Working);
/// assert_eq!(serde_json::to_string(&note)?, r#"{"v":2,"task":"k1","state":"working"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskNote {
    /// The version of the body.
    #[serde(rename = "v", default = "current_version")]
    pub version: u32,
    /// The id of the task.
    pub task: String,
    /// The state.
    pub state: TaskState,
    /// The reason of the state, or the result, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The call that started it, if a call did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

impl TaskNote {
    /// Makes the body for a task that no call started.
    pub fn new(task: impl Into<String>, state: TaskState) -> Self {
        Self { version: BODY_VERSION, task: task.into(), state, text: None, call: None }
    }
}

/// An entry that a front door or an agent records with [`Engine::record`](crate::Engine::record).
///
/// ```
/// use windlass_core::{MessageNote, RecordKind, SessionNote, MessageAuthor};
/// let note = SessionNote::from(MessageNote::new(MessageAuthor::Model, "done"));
/// assert_eq!(note.kind(), RecordKind::Message);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SessionNote {
    /// A message.
    Message(MessageNote),
    /// A request to a model.
    Request(RequestNote),
    /// A changed value of the state.
    State(StateNote),
    /// The state of a task.
    Task(TaskNote),
}

impl SessionNote {
    /// Returns the kind of its record.
    pub fn kind(&self) -> RecordKind {
        match self {
            Self::Message(_) => RecordKind::Message,
            Self::Request(_) => RecordKind::Request,
            Self::State(_) => RecordKind::State,
            Self::Task(_) => RecordKind::Task,
        }
    }

    /// Returns the call that it is about.
    pub fn call(&self) -> Option<&CallId> {
        match self {
            Self::Message(_) | Self::Request(_) => None,
            Self::State(note) => note.call.as_ref(),
            Self::Task(note) => note.call.as_ref(),
        }
    }

    /// Returns the note with secrets redacted.
    pub(crate) fn redacted(mut self, secrets: &Secrets) -> Self {
        match &mut self {
            Self::Message(note) => {
                note.text = redacted_text(&note.text, secrets);
                note.name = note.name.as_ref().map(|name| redacted_text(name, secrets));
            }
            Self::Request(note) => {
                secrets.redact_json(&mut note.system);
                note.messages.iter_mut().for_each(|message| secrets.redact_json(message));
            }
            Self::State(note) => secrets.redact_json(&mut note.value),
            Self::Task(note) => {
                note.text = note.text.as_ref().map(|text| redacted_text(text, secrets));
            }
        }
        self
    }

    /// Returns the turn that it belongs to.
    pub fn turn(&self) -> Option<&TurnId> {
        match self {
            Self::Message(note) => note.turn.as_ref(),
            Self::Request(note) => note.turn.as_ref(),
            Self::State(_) | Self::Task(_) => None,
        }
    }
}

impl From<MessageNote> for SessionNote {
    fn from(note: MessageNote) -> Self {
        Self::Message(note)
    }
}

impl From<RequestNote> for SessionNote {
    fn from(note: RequestNote) -> Self {
        Self::Request(note)
    }
}

impl From<StateNote> for SessionNote {
    fn from(note: StateNote) -> Self {
        Self::State(note)
    }
}

impl From<TaskNote> for SessionNote {
    fn from(note: TaskNote) -> Self {
        Self::Task(note)
    }
}
