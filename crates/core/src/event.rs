//! Events: what happens, told as it happens. They are typed, can be written as JSON, and know no protocol.
//!
//! An event about something that goes on record carries the number of its record, and is published once that record is safe.
//! Output and progress of a call are not on record. A slow listener never holds up a call: the events that it must not miss wait
//! for it, and of output and progress it may lose some, and is told how much.

mod bus;
mod outbox;

use std::sync::Arc;
use std::time::SystemTime;

use serde::ser::{Serialize, SerializeMap, Serializer};

pub(crate) use bus::{Bus, Place};
pub use bus::{Filter, Subscription};
pub(crate) use outbox::Written;

use crate::{
    ApprovalAnswered, ApprovalRequest, CallId, CallResult, Decided, Effects, MessageNote,
    QuestionAnswered, QuestionRequest, RequestNote, SessionId, SessionNote, StateNote, TaskNote,
    ToolsChanged, TurnId, utc,
};

/// Something that happened.
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
/// let told = std::iter::from_fn(|| events.try_next()).map(|event| match event.kind {
///     EventKind::Started(started) => format!("{} begins", started.tool),
///     EventKind::Output { delta } => delta.trim_end().to_owned(),
///     EventKind::Finished(result) => format!("{} ends: {}", result.tool, result.outcome.as_str()),
///     other => format!("{other:?}"),
/// });
/// assert_eq!(told.collect::<Vec<_>>(), ["greet begins", "hello", "greet ends: ok"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The number of its record in the journal. `None` if it is not on record, or the journal does not number its records.
    pub seq: Option<u64>,
    /// The time when it happened.
    pub at: SystemTime,
    /// The session; `None` for what concerns all sessions.
    pub session: Option<SessionId>,
    /// The call.
    pub call: Option<CallId>,
    /// The call that made this call, if another call did.
    pub parent: Option<CallId>,
    /// The thing that happened.
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
    Started(Arc<Started>),
    /// A piece of output: what is new, never the whole again.
    Output {
        /// The new text.
        delta: Arc<str>,
    },
    /// The progress of a call.
    Progress {
        /// The part that is done.
        done: u64,
        /// The whole, if known.
        total: Option<u64>,
        /// The progress in words.
        message: Arc<str>,
    },
    /// A person is asked whether a call may run.
    Approval(Arc<ApprovalRequest>),
    /// A person answered whether a call may run.
    ApprovalAnswered(Arc<ApprovalAnswered>),
    /// A person is asked what a tool wants to know.
    Question(Arc<QuestionRequest>),
    /// A person answered what a tool wanted to know.
    QuestionAnswered(Arc<QuestionAnswered>),
    /// A person, a model or an agent said something.
    Message(Arc<MessageNote>),
    /// A model was sent a request.
    Request(Arc<RequestNote>),
    /// State of a session changed.
    State(Arc<StateNote>),
    /// A task came to another state.
    Task(Arc<TaskNote>),
    /// Something that is not the fault of a call, for a person to know: a toolset that did not load.
    Warning {
        /// The warning in words.
        message: Arc<str>,
    },
    /// The tools on offer changed: a front door that listed them lists them again.
    Tools(Arc<ToolsChanged>),
    /// The end of a call: exactly one for each.
    Finished(Arc<CallResult>),
}

impl EventKind {
    /// The name in JSON. An approval and its answer have one name, as have questions and their answers.
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

    /// Returns whether a slow listener may lose it.
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

/// A call that begins.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{EventKind, ToolCall};
/// # use windlass_core::{Effects, Engine, Kinds, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("look").with_effects(Kinds::READ, |_| Effects::read("a.md")))?;
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
pub struct Started {
    /// Its turn.
    pub turn: TurnId,
    /// The tool.
    pub tool: String,
    /// The arguments as they will be used.
    pub input: serde_json::Value,
    /// The effects, paths resolved.
    pub effects: Arc<Effects>,
    /// The decision that lets it run.
    pub decided: Decided,
}

/// One JSON object: `event`, `seq`, `time`, `session`, `call`, `parent`, as far as there are such, and the fields of the kind.
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
        put(&mut map, "seq", self.seq.as_ref())?;
        map.serialize_entry("time", &utc(self.at))?;
        put(&mut map, "session", self.session.as_ref())?;
        put(&mut map, "call", self.call.as_ref())?;
        put(&mut map, "parent", self.parent.as_ref())?;
        write_kind(&self.kind, &mut map)?;
        map.end()
    }
}

/// Adds an entry if there is a value.
fn put<M: SerializeMap>(
    map: &mut M,
    name: &'static str,
    value: Option<&(impl Serialize + ?Sized)>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, value))
}

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
            put(map, "name", note.name.as_ref())?;
            put(map, "turn", note.turn.as_ref())?;
            map.serialize_entry("text", &note.text)
        }
        EventKind::Request(note) => {
            // The messages are in the record. They would repeat the conversation in each event.
            map.serialize_entry("model", &note.model)?;
            put(map, "turn", note.turn.as_ref())?;
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
            put(map, "text", note.text.as_ref())
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

fn write_started<M: SerializeMap>(started: &Started, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("turn", &started.turn)?;
    map.serialize_entry("tool", &started.tool)?;
    map.serialize_entry("input", &started.input)?;
    map.serialize_entry("effects", &in_words(&started.effects))?;
    map.serialize_entry("decided_by", &started.decided.to_string())
}

fn write_approval<M: SerializeMap>(request: &ApprovalRequest, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("state", "asked")?;
    map.serialize_entry("id", &request.id)?;
    map.serialize_entry("tool", &request.tool)?;
    map.serialize_entry("input", &request.input)?;
    map.serialize_entry("effects", &in_words(&request.effects))?;
    map.serialize_entry("rule", &request.by.to_string())?;
    map.serialize_entry("risk", &request.risk)?;
    put(map, "agent", request.asker.agent.as_ref())
}

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
    put(map, "reason", answered.reason.as_ref())?;
    put(map, "input", answered.input.as_ref())
}

fn write_finished<M: SerializeMap>(result: &CallResult, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("turn", &result.turn)?;
    put(map, "tool_use_id", result.tool_use_id.as_ref())?;
    map.serialize_entry("tool", &result.tool)?;
    map.serialize_entry("outcome", &result.outcome)?;
    put(map, "code", result.code.as_ref())?;
    let millis = u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX);
    map.serialize_entry("duration_ms", &millis)?;
    map.serialize_entry("is_error", &result.output.is_error)?;
    map.serialize_entry("content", &result.output.content)?;
    map.serialize_entry("metadata", &result.output.metadata)
}

fn in_words(effects: &Effects) -> Vec<String> {
    effects.iter().map(ToString::to_string).collect()
}
