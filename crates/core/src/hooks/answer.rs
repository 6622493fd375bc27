//! What a hook can answer, and what becomes of all the answers.

use serde_json::Value;

use crate::Output;

/// What a hook wants to happen.
///
/// ```
/// use serde_json::{Value, json};
/// use windlass_core::HookAnswer;
///
/// fn at_most_100(input: &Value) -> HookAnswer {
///     match input["limit"].as_u64() {
///         Some(limit) if limit > 100 => HookAnswer::go_on().with_input(json!({"limit": 100})).with_context("100 are enough"),
///         _ => HookAnswer::go_on(),
///     }
/// }
/// assert_eq!(at_most_100(&json!({"limit": 7})), HookAnswer::go_on());
/// assert_eq!(at_most_100(&json!({"limit": 700})).input, Some(json!({"limit": 100})));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookAnswer {
    /// Whether it may happen.
    pub verdict: HookVerdict,
    /// Arguments to go on with: the call is looked at from the beginning.
    pub input: Option<Value>,
    /// Words to go on with.
    pub text: Option<String>,
    /// What a call has answered, instead of what it did.
    pub output: Option<Output>,
    /// What a model should know besides.
    pub context: Option<String>,
    /// What a person should know.
    pub message: Option<String>,
}

/// Whether something may happen, as far as a hook is concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HookVerdict {
    /// Nothing special.
    #[default]
    GoOn,
    /// Nobody needs to be asked. It overrides no rule that denies, and counts only from a hook of the person's own.
    Allow,
    /// A person is to be asked; the text says why.
    Ask(String),
    /// It does not happen; the text says why.
    Deny(String),
    /// It does not happen, and the session is over; the text says why.
    Stop(String),
}

impl HookAnswer {
    /// Nothing special.
    pub fn go_on() -> Self {
        Self::default()
    }

    /// Nobody needs to be asked.
    pub fn allow() -> Self {
        Self { verdict: HookVerdict::Allow, ..Self::default() }
    }

    /// A person is to be asked.
    pub fn ask(why: impl Into<String>) -> Self {
        Self { verdict: HookVerdict::Ask(why.into()), ..Self::default() }
    }

    /// It does not happen.
    pub fn deny(why: impl Into<String>) -> Self {
        Self { verdict: HookVerdict::Deny(why.into()), ..Self::default() }
    }

    /// The session is over.
    pub fn stop(why: impl Into<String>) -> Self {
        Self { verdict: HookVerdict::Stop(why.into()), ..Self::default() }
    }

    /// With other arguments.
    #[must_use]
    pub fn with_input(mut self, input: Value) -> Self {
        self.input = Some(input);
        self
    }

    /// With other words.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// With another output.
    #[must_use]
    pub fn with_output(mut self, output: Output) -> Self {
        self.output = Some(output);
        self
    }

    /// With something that a model should know.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }
}

/// What all hooks together said of something that is not a call.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{Engine, Heard, testing::EmptyHost};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
/// let session = engine.new_session();
/// assert_eq!(engine.session_started(&session).await, Heard::default(), "nobody had anything to say");
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Heard {
    /// Words to go on with, if one changed them.
    pub text: Option<String>,
    /// What a model should know besides, each marked with the hook that it comes from.
    pub context: Vec<String>,
    /// Why it should not happen: the message is not sent, the agent does not stop yet.
    pub refused: Option<String>,
    /// Why the session is over.
    pub stopped: Option<String>,
}
