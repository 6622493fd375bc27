//! Events: typed messages about what happens, published as it happens. They can be written as JSON and know no protocol.
//!
//! An event about a record carries the number of the record, and is published once the record is safe. Output and progress of a call
//! are not recorded. A slow listener never delays a call: the events that it must not miss wait for it, and of output and progress it
//! may lose some, and can ask how many.

mod bus;
mod outbox;

use std::sync::Arc;
use std::time::SystemTime;

use serde::ser::{Serialize, SerializeMap, Serializer};

pub(crate) use bus::{Bus, EventSubject};
pub use bus::{EventFilter, Subscription};
pub(crate) use outbox::PendingReceipt;

use crate::{
    ApprovalAnswered, ApprovalRequest, CallId, CallResult, Effects, ExplainedDecision, MessageNote,
    QuestionAnswered, QuestionRequest, RequestNote, SessionId, SessionNote, StateNote, TaskNote,
    ToolsChanged, TurnId, utc,
};

/// A message about something that happened.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{EventKind, Output, ToolCall, testing::MockTool};
/// # use windlass_core::{Engine, Toolbox, testing::EmptyHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let greet = MockTool::named("greet").answering(|cx, _| async move {
///     cx.output("hello\n");
///     Ok(Output::text("hello\n"))
/// });
/// # let mut tools = Toolbox::new();
/// # tools.add(greet)?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let mut events = engine.subscribe();
/// engine.call(&engine.new_session(), ToolCall::new("greet", json!({}))).await;
/// let texts = std::iter::from_fn(|| events.try_next()).map(|event| match event.kind {
///     EventKind::Started(started) => format!("{} begins", started.tool),
///     EventKind::Output { delta } => delta.trim_end().to_owned(),
///     EventKind::Finished(result) => format!("{} ends: {}", result.tool, result.outcome.as_str()),
///     other => format!("{other:?}"),
/// });
/// assert_eq!(texts.collect::<Vec<_>>(), ["greet begins", "hello", "greet ends: ok"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The number of its record in the journal. `None` if it is not recorded, or the journal does not number its records.
    pub seq: Option<u64>,
    /// The time when it happened.
    pub at: SystemTime,
    /// The session; `None` for an event that concerns all sessions.
    pub session: Option<SessionId>,
    /// The call, if it is about one.
    pub call: Option<CallId>,
    /// The call that made this call, if it is a nested call.
    pub parent: Option<CallId>,
    /// The kind of the event, with its data.
    pub kind: EventKind,
}

/// The kinds of events.
///
/// ```
/// use windlass_core::EventKind;
/// let output = EventKind::Output { delta: "hello".into() };
/// assert_eq!((output.name(), output.is_recorded()), ("output", false));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EventKind {
    /// A call passed the policy and begins.
    Started(Arc<CallStart>),
    /// A piece of output: only the new text.
    Output {
        /// The new text.
        delta: Arc<str>,
    },
    /// The progress of a call.
    Progress {
        /// The amount that is done.
        done: u64,
        /// The total amount, if known.
        total: Option<u64>,
        /// The progress in words.
        message: Arc<str>,
    },
    /// A person is asked for an approval of a call.
    Approval(Arc<ApprovalRequest>),
    /// A person answered an approval.
    ApprovalAnswered(Arc<ApprovalAnswered>),
    /// A tool asks a person questions.
    Question(Arc<QuestionRequest>),
    /// A person answered the questions of a tool.
    QuestionAnswered(Arc<QuestionAnswered>),
    /// A person, a model or an agent wrote a message.
    Message(Arc<MessageNote>),
    /// A request was sent to a model.
    Request(Arc<RequestNote>),
    /// A value in the state of a session changed.
    State(Arc<StateNote>),
    /// The state of a task changed.
    Task(Arc<TaskNote>),
    /// A warning for a person that is not about a call, such as a toolset that did not load.
    Warning {
        /// The warning in words.
        message: Arc<str>,
    },
    /// The offered tools changed. A front door that has listed them lists them again.
    Tools(Arc<ToolsChanged>),
    /// A call ended. Each call has exactly one such event.
    Finished(Arc<CallResult>),
}

impl EventKind {
    /// Returns the name in JSON. An approval and its answer have one name, as have questions and their answers.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::Output { .. } => "output",
            Self::Progress { .. } => "progress",
            Self::Approval(_) | Self::ApprovalAnswered(_) => "approval",
            Self::Question(_) | Self::QuestionAnswered(_) => "question",
            Self::Message(_) => "message",
            Self::Request(_) => "request",
            Self::State(_) => "state",
            Self::Task(_) => "task",
            Self::Warning { .. } => "warning",
            Self::Tools(_) => "tools",
            Self::Finished(_) => "finished",
        }
    }

    /// Returns whether events of this kind have a record in the journal, if there is one.
    pub fn is_recorded(&self) -> bool {
        !matches!(
            self,
            Self::Output { .. } | Self::Progress { .. } | Self::Warning { .. } | Self::Tools(_)
        )
    }

    /// Returns whether a slow listener may lose events of this kind.
    fn may_be_lost(&self) -> bool {
        matches!(self, Self::Output { .. } | Self::Progress { .. })
    }
}

impl From<SessionNote> for EventKind {
    fn from(note: SessionNote) -> Self {
        match note {
            SessionNote::Message(note) => Self::Message(note.into()),
            SessionNote::Request(note) => Self::Request(note.into()),
            SessionNote::State(note) => Self::State(note.into()),
            SessionNote::Task(note) => Self::Task(note.into()),
        }
    }
}

/// The start of a call.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{EventKind, ToolCall};
/// # use windlass_core::{Effects, Engine, EffectKinds, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("look").with_effects(EffectKinds::READ, |_| Effects::read("a.md")))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let mut events = engine.subscribe();
/// engine.call(&engine.new_session(), ToolCall::new("look", json!({}))).await;
/// let EventKind::Started(started) = events.next().await.kind else { panic!("that comes first") };
/// assert_eq!(started.effects.to_string(), "read /w/a.md");
/// assert_eq!(started.decided.to_string(), "allowed by mode ask");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallStart {
    /// The turn of the call.
    pub turn: TurnId,
    /// The tool.
    pub tool: String,
    /// The arguments that the tool gets.
    pub input: serde_json::Value,
    /// The effects, with resolved paths.
    pub effects: Arc<Effects>,
    /// The decision that allows it.
    pub decided: ExplainedDecision,
}

/// Writes one JSON object: `event`, `seq`, `time`, `session`, `call` and `parent`, if present, and the fields of the kind.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{Engine, testing::{EmptyHost, MockTool}};
/// let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
/// let mut events = engine.subscribe();
/// engine.replace_tools("skills", vec![MockTool::named("review").into()]);
/// let line = serde_json::to_value(events.try_next().expect("it is told at once"))?;
/// assert_eq!((&line["event"], &line["added"][0]), (&"tools".into(), &"review".into()));
/// # Ok::<(), serde_json::Error>(())
/// ```
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("event", self.kind.name())?;
        put_entry(&mut map, "seq", self.seq.as_ref())?;
        map.serialize_entry("time", &utc(self.at))?;
        put_entry(&mut map, "session", self.session.as_ref())?;
        put_entry(&mut map, "call", self.call.as_ref())?;
        put_entry(&mut map, "parent", self.parent.as_ref())?;
        write_kind(&self.kind, &mut map)?;
        map.end()
    }
}

/// Adds an entry if there is a value.
fn put_entry<M: SerializeMap>(
    map: &mut M,
    name: &'static str,
    value: Option<&(impl Serialize + ?Sized)>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, value))
}

/// Writes the fields of a kind of event.
fn write_kind<M: SerializeMap>(kind: &EventKind, map: &mut M) -> Result<(), M::Error> {
    match kind {
        EventKind::Started(started) => write_started(started, map),
        EventKind::Output { delta } => map.serialize_entry("delta", &**delta),
        EventKind::Progress { done, total, message } => {
            map.serialize_entry("done", done)?;
            map.serialize_entry("total", total)?;
            map.serialize_entry("message", &**message)
        }
        EventKind::Approval(request) => write_approval(request, map),
        EventKind::ApprovalAnswered(answered) => write_approval_answered(answered, map),
        EventKind::Question(request) => {
            map.serialize_entry("state", "asked")?;
            map.serialize_entry("id", &request.id)?;
            map.serialize_entry("tool", &request.tool)?;
            map.serialize_entry("questions", &request.questions)
        }
        EventKind::QuestionAnswered(answered) => {
            map.serialize_entry("state", "answered")?;
            map.serialize_entry("id", &answered.id)?;
            map.serialize_entry("tool", &answered.tool)?;
            map.serialize_entry("answers", &answered.answer.selections)?;
            map.serialize_entry("who", &answered.answer.who)
        }
        EventKind::Message(note) => {
            map.serialize_entry("role", &note.role)?;
            put_entry(map, "name", note.name.as_ref())?;
            put_entry(map, "turn", note.turn.as_ref())?;
            map.serialize_entry("text", &note.text)
        }
        EventKind::Request(note) => {
            // The messages are in the record. Here they would repeat the conversation in each event.
            map.serialize_entry("model", &note.model)?;
            put_entry(map, "turn", note.turn.as_ref())?;
            map.serialize_entry("messages", &note.messages.len())?;
            map.serialize_entry("tools", &note.tools)
        }
        EventKind::State(note) => {
            map.serialize_entry("key", &note.key)?;
            map.serialize_entry("value", &note.value)
        }
        EventKind::Task(note) => {
            map.serialize_entry("task", &note.task)?;
            map.serialize_entry("state", &note.state)?;
            put_entry(map, "text", note.text.as_ref())
        }
        EventKind::Warning { message } => map.serialize_entry("message", &**message),
        EventKind::Tools(change) => {
            map.serialize_entry("generation", &change.generation)?;
            map.serialize_entry("owner", &*change.owner)?;
            map.serialize_entry("added", &change.added)?;
            map.serialize_entry("removed", &change.removed)?;
            map.serialize_entry("changed", &change.changed)
        }
        EventKind::Finished(result) => write_finished(result, map),
    }
}

/// Writes the fields of the start of a call.
fn write_started<M: SerializeMap>(started: &CallStart, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("turn", &started.turn)?;
    map.serialize_entry("tool", &started.tool)?;
    map.serialize_entry("input", &started.input)?;
    map.serialize_entry("effects", &effect_texts(&started.effects))?;
    map.serialize_entry("decided_by", &started.decided.to_string())
}

/// Writes the fields of an approval.
fn write_approval<M: SerializeMap>(request: &ApprovalRequest, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("state", "asked")?;
    map.serialize_entry("id", &request.id)?;
    map.serialize_entry("tool", &request.tool)?;
    map.serialize_entry("input", &request.input)?;
    map.serialize_entry("effects", &effect_texts(&request.effects))?;
    map.serialize_entry("rule", &request.by.to_string())?;
    map.serialize_entry("risk", &request.risk)?;
    put_entry(map, "agent", request.asker.agent.as_ref())
}

/// Writes the fields of an answer to an approval.
fn write_approval_answered<M: SerializeMap>(
    answered: &ApprovalAnswered,
    map: &mut M,
) -> Result<(), M::Error> {
    map.serialize_entry("state", "answered")?;
    map.serialize_entry("id", &answered.id)?;
    map.serialize_entry("tool", &answered.tool)?;
    map.serialize_entry("allowed", &answered.allowed)?;
    map.serialize_entry("scope", &answered.scope)?;
    map.serialize_entry("who", &answered.who)?;
    put_entry(map, "reason", answered.reason.as_ref())?;
    put_entry(map, "input", answered.input.as_ref())
}

/// Writes the fields of the end of a call.
fn write_finished<M: SerializeMap>(result: &CallResult, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("turn", &result.turn)?;
    put_entry(map, "tool_use_id", result.tool_use_id.as_ref())?;
    map.serialize_entry("tool", &result.tool)?;
    map.serialize_entry("outcome", &result.outcome)?;
    put_entry(map, "code", result.code.as_ref())?;
    let millis = u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX);
    map.serialize_entry("duration_ms", &millis)?;
    map.serialize_entry("is_error", &result.output.is_error)?;
    map.serialize_entry("content", &result.output.content)?;
    map.serialize_entry("metadata", &result.output.metadata)
}

/// Formats each effect as text.
fn effect_texts(effects: &Effects) -> Vec<String> {
    effects.iter().map(ToString::to_string).collect()
}
