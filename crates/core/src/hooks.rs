//! What a person puts before, after and around the calls: the moments at which a hook is told, what it is told, what it can answer.
//!
//! Only the data is here. The engine decides when a hook is asked and what its answer is worth: a hook can always make things
//! stricter; it can make them milder only where a person would have been asked, and only if it is the person's own.

mod answer;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;

pub use answer::{Heard, HookAnswer, HookVerdict};

use crate::{BoxFuture, CallId, DecidedBy, Effects, Output, Secrets, Session, ToolError};

/// Is told what happens, and may have a say in it.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{BoxFuture, Happening, Hook, HookAnswer, HookEvent, Outcome, ToolError};
/// # use windlass_core::{Engine, ToolCall, Toolbox, testing::{EmptyHost, MockTool}};
///
/// struct NoForce;
///
/// impl Hook for NoForce {
///     fn name(&self) -> &str {
///         "no-force"
///     }
///     fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
///         let answer = match event.what {
///             Happening::PreTool(call) if call.input["force"] == true => HookAnswer::deny("nothing is forced here"),
///             _ => HookAnswer::go_on(),
///         };
///         Box::pin(std::future::ready(Ok(answer)))
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("push"))?;
/// # let builder = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools);
///
/// let engine = builder.hook(Arc::new(NoForce)).build();
/// let result = engine.call(&engine.new_session(), ToolCall::new("push", json!({"force": true}))).await;
/// assert_eq!(result.outcome, Outcome::Denied);
/// # Ok(())
/// # }
/// ```
pub trait Hook: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Whether it wants to be told of this. Asked often, so it must be quick.
    fn hears(&self, event: &HookEvent<'_>) -> bool {
        let _ = event;
        true
    }

    /// Whether it must have agreed: if it fails, what it was asked about does not happen. What is no gate only warns.
    fn is_gate(&self, moment: Moment) -> bool {
        moment.is_gate()
    }

    /// Whether it speaks for the person, so that it can say yes where they would be asked.
    fn may_allow(&self) -> bool {
        true
    }

    /// How long it may take. Then it has failed, and its future is dropped.
    fn time_limit(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// Is told of something it hears; the error is why it could not answer.
    fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>>;
}

/// What a hook is told.
///
/// ```
/// use windlass_core::{Happening, HookEvent};
///
/// fn line(event: HookEvent<'_>) -> String {
///     let what = match event.what {
///         Happening::PreTool(call) => format!("{} {}", call.tool, call.input),
///         other => other.moment().to_string(),
///     };
///     format!("{} {what}", event.session.id())
/// }
/// # use windlass_core::{Secrets, Session, SessionId};
/// # let (session, secrets) = (Session::new(SessionId::new("s1")), Secrets::default());
/// # let what = Happening::SessionStart;
/// let event = HookEvent { session: &session, workspace: "/w".as_ref(), secrets: &secrets, what };
/// assert_eq!(line(event), "s1 session_start");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct HookEvent<'a> {
    /// Where it happens.
    pub session: &'a Session,
    /// In which workspace.
    pub workspace: &'a Path,
    /// What must be taken out before anything of this leaves the process.
    pub secrets: &'a Secrets,
    /// What happens.
    pub what: Happening<'a>,
}

/// What happens, with what there is to know about it.
///
/// ```
/// use windlass_core::{Happening, Moment};
/// let what = Happening::PromptSubmit { text: "mend the tests" };
/// assert_eq!((what.moment(), what.text()), (Moment::PromptSubmit, Some("mend the tests")));
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Happening<'a> {
    /// A session begins.
    SessionStart,
    /// A session is over.
    SessionEnd,
    /// A person has said what they want.
    PromptSubmit {
        /// In these words.
        text: &'a str,
    },
    /// A call is about to be decided on.
    PreTool(HookCall<'a>),
    /// A call has run; nobody has seen its output yet.
    PostTool(HookCall<'a>, &'a Output),
    /// A person is about to be asked.
    PermissionRequest {
        /// About this call.
        call: HookCall<'a>,
        /// Because of this rule or mode.
        by: &'a DecidedBy,
    },
    /// A person is told something.
    Notification {
        /// In these words.
        text: &'a str,
    },
    /// An agent believes that it is done.
    Stop,
    /// A sub-agent believes that it is done.
    SubagentStop,
    /// The conversation is about to be shortened.
    PreCompact,
    /// A message is about to go to the model.
    PreMessage {
        /// What it says.
        text: &'a str,
    },
    /// A message has come from the model.
    PostMessage {
        /// What it says.
        text: &'a str,
    },
}

impl<'a> Happening<'a> {
    /// Which kind of moment this is.
    pub fn moment(&self) -> Moment {
        match self {
            Self::SessionStart => Moment::SessionStart,
            Self::SessionEnd => Moment::SessionEnd,
            Self::PromptSubmit { .. } => Moment::PromptSubmit,
            Self::PreTool(_) => Moment::PreTool,
            Self::PostTool(..) => Moment::PostTool,
            Self::PermissionRequest { .. } => Moment::PermissionRequest,
            Self::Notification { .. } => Moment::Notification,
            Self::Stop => Moment::Stop,
            Self::SubagentStop => Moment::SubagentStop,
            Self::PreCompact => Moment::PreCompact,
            Self::PreMessage { .. } => Moment::PreMessage,
            Self::PostMessage { .. } => Moment::PostMessage,
        }
    }

    /// The call that it is about, if it is about one.
    pub fn call(&self) -> Option<HookCall<'a>> {
        match self {
            Self::PreTool(call)
            | Self::PostTool(call, _)
            | Self::PermissionRequest { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// The words that it is about, if it is about some.
    pub fn text(&self) -> Option<&'a str> {
        match self {
            Self::PromptSubmit { text }
            | Self::Notification { text }
            | Self::PreMessage { text }
            | Self::PostMessage { text } => Some(text),
            _ => None,
        }
    }

    /// The same about other words; unchanged if it is not about words.
    pub(crate) fn with_text(self, text: &'a str) -> Self {
        match self {
            Self::PromptSubmit { .. } => Self::PromptSubmit { text },
            Self::Notification { .. } => Self::Notification { text },
            Self::PreMessage { .. } => Self::PreMessage { text },
            Self::PostMessage { .. } => Self::PostMessage { text },
            other => other,
        }
    }
}

/// The call that a hook is told of.
///
/// ```
/// use serde_json::json;
/// use windlass_core::{CallId, Effects, HookCall, Kinds};
///
/// fn changes_files(told: HookCall<'_>) -> bool {
///     told.effects.kinds().intersects(Kinds::WRITE | Kinds::DELETE)
/// }
///
/// let (id, input, effects) = (CallId::new("c1"), json!({"path": "a.md"}), Effects::write("/w/a.md"));
/// assert!(changes_files(HookCall { id: &id, tool: "write", input: &input, effects: &effects }));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct HookCall<'a> {
    /// The call.
    pub id: &'a CallId,
    /// The tool.
    pub tool: &'a str,
    /// Its arguments.
    pub input: &'a Value,
    /// What it would do, paths resolved.
    pub effects: &'a Effects,
}

/// A kind of moment at which hooks are told.
///
/// ```
/// use windlass_core::Moment;
/// assert_eq!("pre_tool".parse(), Ok(Moment::PreTool));
/// assert!(Moment::PreTool.is_gate() && !Moment::PostTool.is_gate());
/// assert!("PreTool".parse::<Moment>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// [`Happening::SessionStart`].
    SessionStart,
    /// [`Happening::SessionEnd`].
    SessionEnd,
    /// [`Happening::PromptSubmit`].
    PromptSubmit,
    /// [`Happening::PreTool`].
    PreTool,
    /// [`Happening::PostTool`].
    PostTool,
    /// [`Happening::PermissionRequest`].
    PermissionRequest,
    /// [`Happening::Notification`].
    Notification,
    /// [`Happening::Stop`].
    Stop,
    /// [`Happening::SubagentStop`].
    SubagentStop,
    /// [`Happening::PreCompact`].
    PreCompact,
    /// [`Happening::PreMessage`].
    PreMessage,
    /// [`Happening::PostMessage`].
    PostMessage,
}

impl Moment {
    /// Every moment, by the name that configuration uses.
    pub const NAMES: [(&'static str, Self); 12] = [
        ("session_start", Self::SessionStart),
        ("session_end", Self::SessionEnd),
        ("prompt_submit", Self::PromptSubmit),
        ("pre_tool", Self::PreTool),
        ("post_tool", Self::PostTool),
        ("permission_request", Self::PermissionRequest),
        ("notification", Self::Notification),
        ("stop", Self::Stop),
        ("subagent_stop", Self::SubagentStop),
        ("pre_compact", Self::PreCompact),
        ("pre_message", Self::PreMessage),
        ("post_message", Self::PostMessage),
    ];

    /// Whether something waits for the hooks to agree, unless one says that it need not.
    pub fn is_gate(self) -> bool {
        matches!(self, Self::PreTool | Self::PermissionRequest | Self::PromptSubmit)
    }

    /// Whether one hook may change what the next one is told, so that they run one after the other.
    pub(crate) fn is_in_turn(self) -> bool {
        self.is_gate() || matches!(self, Self::PostTool | Self::PreMessage | Self::PostMessage)
    }
}

impl FromStr for Moment {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, moment)| *moment).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name);
            crate::nearest(text, names).map_or_else(
                || format!("there is no event `{text}`: it is one of {}", names.join(", ")),
                |near| format!("there is no event `{text}`; did you mean `{near}`?"),
            )
        })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, moment)| moment == self);
        f.write_str(name.map_or("event", |(name, _)| name))
    }
}
