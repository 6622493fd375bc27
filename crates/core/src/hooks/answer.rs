//! The answer of one hook, and the combined answers of all hooks.

use serde_json::Value;

use crate::Output;

/// The answer of a hook to an event.
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
    /// Decision about the event.
    pub verdict: HookVerdict,
    /// Arguments to use instead. The call is then checked from the beginning.
    pub input: Option<Value>,
    /// Text to use instead.
    pub text: Option<String>,
    /// Output to use instead of the one that the call gave.
    pub output: Option<Output>,
    /// Text to add for the model.
    pub context: Option<String>,
    /// Text for a person.
    pub message: Option<String>,
}

/// The decision of a hook about an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HookVerdict {
    /// No objection.
    #[default]
    GoOn,
    /// No person needs to be asked. It overrides no rule that denies, and counts only from a hook of the person's own configuration.
    Allow,
    /// A person must be asked, for this reason.
    Ask(String),
    /// The event must not happen, for this reason.
    Deny(String),
    /// The event must not happen and the session ends, for this reason.
    Stop(String),
}

impl HookAnswer {
    /// Makes an answer without objection or change.
    pub fn go_on() -> Self {
        Self::default()
    }

    /// Makes an answer that no person needs to be asked.
    pub fn allow() -> Self {
        Self { verdict: HookVerdict::Allow, ..Self::default() }
    }

    /// Makes an answer that a person must be asked.
    pub fn ask(why: impl Into<String>) -> Self {
        Self { verdict: HookVerdict::Ask(why.into()), ..Self::default() }
    }

    /// Makes an answer that the event must not happen.
    pub fn deny(why: impl Into<String>) -> Self {
        Self { verdict: HookVerdict::Deny(why.into()), ..Self::default() }
    }

    /// Makes an answer that ends the session.
    pub fn stop(why: impl Into<String>) -> Self {
        Self { verdict: HookVerdict::Stop(why.into()), ..Self::default() }
    }

    /// Sets the arguments to use instead.
    #[must_use]
    pub fn with_input(mut self, input: Value) -> Self {
        self.input = Some(input);
        self
    }

    /// Sets the text to use instead.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Sets the output to use instead.
    #[must_use]
    pub fn with_output(mut self, output: Output) -> Self {
        self.output = Some(output);
        self
    }

    /// Sets a text to add for the model.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }
}

/// The combined answers of all hooks to an event that is not a call.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{Engine, HookOutcome, testing::EmptyHost};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
/// let session = engine.new_session();
/// assert_eq!(engine.session_started(&session).await, HookOutcome::default(), "there are no hooks");
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct HookOutcome {
    /// Text to use instead, if a hook changed it.
    pub text: Option<String>,
    /// Texts to add for the model, each marked with the name of its hook.
    pub context: Vec<String>,
    /// Reason why it must not happen: the message is not sent, the agent does not stop yet.
    pub refused: Option<String>,
    /// Reason why the session is over.
    pub stopped: Option<String>,
}
