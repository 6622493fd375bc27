//! Hooks: programs of a person that run at points before, after and around calls, the data that they get, and their answers.
//!
//! This file has only the data. The engine decides when a hook is asked and how its answer counts: a hook can always make a decision
//! stricter; it can allow a call only where a person would be asked, and only if it belongs to the person's own configuration.

mod answer;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;

pub use answer::{HookAnswer, HookOutcome, HookVerdict};

use crate::{BoxFuture, CallId, DecidedBy, Effects, Output, Secrets, Session, ToolError};

/// A hook: gets events, and may influence them by its answers.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{BoxFuture, HookPayload, Hook, HookAnswer, HookEvent, Outcome, ToolError};
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
///             HookPayload::PreTool(call) if call.input["force"] == true => HookAnswer::deny("nothing is forced here"),
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
    /// Returns its name, for messages.
    fn name(&self) -> &str;

    /// Returns whether it wants this event. Called often, so it must be fast.
    fn wants(&self, event: &HookEvent<'_>) -> bool {
        let _ = event;
        true
    }

    /// Returns whether it must agree at this moment: if it fails, the event does not happen. The failure of any other hook is a warning.
    fn is_gate(&self, point: HookPoint) -> bool {
        point.is_gate()
    }

    /// Returns whether it may allow calls in place of the person.
    fn may_allow(&self) -> bool {
        true
    }

    /// Returns its time limit. After that it counts as failed, and its future is dropped.
    fn time_limit(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// Handles an event that it wants. The error says why it could not answer.
    fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>>;
}

/// The event that a hook gets.
///
/// ```
/// use windlass_core::{HookPayload, HookEvent};
///
/// fn line(event: HookEvent<'_>) -> String {
///     let what = match event.what {
///         HookPayload::PreTool(call) => format!("{} {}", call.tool, call.input),
///         other => other.point().to_string(),
///     };
///     format!("{} {what}", event.session.id())
/// }
/// # use windlass_core::{Secrets, Session, SessionId};
/// # let (session, secrets) = (Session::new(SessionId::new("s1")), Secrets::default());
/// # let what = HookPayload::SessionStart;
/// let event = HookEvent { session: &session, workspace: "/w".as_ref(), secrets: &secrets, what };
/// assert_eq!(line(event), "s1 session_start");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct HookEvent<'a> {
    /// Session of the event.
    pub session: &'a Session,
    /// Workspace of the session.
    pub workspace: &'a Path,
    /// Secrets to redact before any of this leaves the process.
    pub secrets: &'a Secrets,
    /// Content of the event.
    pub what: HookPayload<'a>,
}

/// An event with its data.
///
/// ```
/// use windlass_core::{HookPayload, HookPoint};
/// let what = HookPayload::PromptSubmit { text: "mend the tests" };
/// assert_eq!((what.point(), what.text()), (HookPoint::PromptSubmit, Some("mend the tests")));
/// ```
#[derive(Debug, Clone, Copy)]
pub enum HookPayload<'a> {
    /// A session begins.
    SessionStart,
    /// A session is over.
    SessionEnd,
    /// A person has written a message.
    PromptSubmit {
        /// Text of the message.
        text: &'a str,
    },
    /// A call is about to be decided on.
    PreTool(HookCall<'a>),
    /// A call has run; the model has not seen its output yet.
    PostTool(HookCall<'a>, &'a Output),
    /// A person is about to be asked.
    PermissionRequest {
        /// Call that would ask.
        call: HookCall<'a>,
        /// Rule or mode that asks.
        by: &'a DecidedBy,
    },
    /// A person is being notified.
    Notification {
        /// Text of the notification.
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
        /// Text of the message.
        text: &'a str,
    },
    /// A message has come from the model.
    PostMessage {
        /// Text of the message.
        text: &'a str,
    },
}

impl<'a> HookPayload<'a> {
    /// Returns the kind of the event.
    pub fn point(&self) -> HookPoint {
        match self {
            Self::SessionStart => HookPoint::SessionStart,
            Self::SessionEnd => HookPoint::SessionEnd,
            Self::PromptSubmit { .. } => HookPoint::PromptSubmit,
            Self::PreTool(_) => HookPoint::PreTool,
            Self::PostTool(..) => HookPoint::PostTool,
            Self::PermissionRequest { .. } => HookPoint::PermissionRequest,
            Self::Notification { .. } => HookPoint::Notification,
            Self::Stop => HookPoint::Stop,
            Self::SubagentStop => HookPoint::SubagentStop,
            Self::PreCompact => HookPoint::PreCompact,
            Self::PreMessage { .. } => HookPoint::PreMessage,
            Self::PostMessage { .. } => HookPoint::PostMessage,
        }
    }

    /// Returns the call of the event, if it has one.
    pub fn call(&self) -> Option<HookCall<'a>> {
        match self {
            Self::PreTool(call)
            | Self::PostTool(call, _)
            | Self::PermissionRequest { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// Returns the text of the event, if it has one.
    pub fn text(&self) -> Option<&'a str> {
        match self {
            Self::PromptSubmit { text }
            | Self::Notification { text }
            | Self::PreMessage { text }
            | Self::PostMessage { text } => Some(text),
            _ => None,
        }
    }

    /// Returns the event with another text; unchanged if it has none.
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

/// A call as hooks see it.
///
/// ```
/// use serde_json::json;
/// use windlass_core::{CallId, Effects, HookCall, EffectKinds};
///
/// fn changes_files(told: HookCall<'_>) -> bool {
///     told.effects.kinds().intersects(EffectKinds::WRITE | EffectKinds::DELETE)
/// }
///
/// let (id, input, effects) = (CallId::new("c1"), json!({"path": "a.md"}), Effects::write("/w/a.md"));
/// assert!(changes_files(HookCall { id: &id, tool: "write", input: &input, effects: &effects }));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct HookCall<'a> {
    /// Id of the call.
    pub id: &'a CallId,
    /// Name of the tool.
    pub tool: &'a str,
    /// Arguments of the call.
    pub input: &'a Value,
    /// Effects of the call, with resolved paths.
    pub effects: &'a Effects,
}

/// A kind of event: the hook point at which a hook runs.
///
/// ```
/// use windlass_core::HookPoint;
/// assert_eq!("pre_tool".parse(), Ok(HookPoint::PreTool));
/// assert!(HookPoint::PreTool.is_gate() && !HookPoint::PostTool.is_gate());
/// assert!("PreTool".parse::<HookPoint>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookPoint {
    /// [`HookPayload::SessionStart`].
    SessionStart,
    /// [`HookPayload::SessionEnd`].
    SessionEnd,
    /// [`HookPayload::PromptSubmit`].
    PromptSubmit,
    /// [`HookPayload::PreTool`].
    PreTool,
    /// [`HookPayload::PostTool`].
    PostTool,
    /// [`HookPayload::PermissionRequest`].
    PermissionRequest,
    /// [`HookPayload::Notification`].
    Notification,
    /// [`HookPayload::Stop`].
    Stop,
    /// [`HookPayload::SubagentStop`].
    SubagentStop,
    /// [`HookPayload::PreCompact`].
    PreCompact,
    /// [`HookPayload::PreMessage`].
    PreMessage,
    /// [`HookPayload::PostMessage`].
    PostMessage,
}

impl HookPoint {
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

    /// Returns whether the event waits until the hooks have agreed. A hook can opt out by [`Hook::is_gate`].
    pub fn is_gate(self) -> bool {
        matches!(self, Self::PreTool | Self::PermissionRequest | Self::PromptSubmit)
    }

    /// Returns whether one hook may change the data for the next one, so that they run one after the other.
    pub(crate) fn is_in_turn(self) -> bool {
        self.is_gate() || matches!(self, Self::PostTool | Self::PreMessage | Self::PostMessage)
    }
}

impl FromStr for HookPoint {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, point)| *point).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name);
            crate::nearest(text, names).map_or_else(
                || format!("there is no event `{text}`: it is one of {}", names.join(", ")),
                |near| format!("there is no event `{text}`; did you mean `{near}`?"),
            )
        })
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, point)| point == self);
        f.write_str(name.map_or("event", |(name, _)| name))
    }
}
