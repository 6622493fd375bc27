//! The ways in which a call can fail, and whose move it is then.
//!
//! Two failures are never mixed. A *normal* failure (no such file, exit code 1) is an answer that the model reads: an
//! [`Output`](crate::Output) with `is_error`, or [`ToolError::Failed`], its form for the `?` operator. Everything else here is a
//! *fault*: the call itself could not be carried out, and the stable [`code`](ToolError::code) says why.

use std::borrow::Cow;
use std::fmt;

use crate::{ApprovalId, QuestionId};

/// The reason why a call did not produce an output.
///
/// ```
/// use windlass_core::ToolError;
/// let error = ToolError::invalid_args("`limit` is 0").hint("give a number from 1 to 10000");
/// assert_eq!(error.code(), "invalid_args");
/// assert!(error.is_fault());
/// assert!(!ToolError::failed("no such file").is_fault());
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A normal failure, for the model to read and act on. The engine turns it into an output with `is_error`.
    #[error("{0}")]
    Failed(ErrorMessage),
    /// The arguments do not fit the tool.
    #[error("{0}")]
    InvalidArgs(ErrorMessage),
    /// No tool of that name is offered here.
    #[error("{0}")]
    UnknownTool(ErrorMessage),
    /// The tool opened a door that its effects did not declare: a bug in the tool.
    #[error("{0}")]
    UndeclaredEffect(ErrorMessage),
    /// A rule or a person denied the call.
    #[error("{0}")]
    Denied(ErrorMessage),
    /// A person or the caller cancelled the call.
    #[error("{0}")]
    Cancelled(ErrorMessage),
    /// The call exceeded its time limit.
    #[error("{0}")]
    TimedOut(ErrorMessage),
    /// The machine refused something that the call needs.
    #[error("{0}")]
    HostFailed(ErrorMessage),
    /// The journal could not take the record, so nothing was done.
    #[error("{0}")]
    JournalFailed(ErrorMessage),
    /// A limit of the engine is reached: too many calls, too much input.
    #[error("{0}")]
    Busy(ErrorMessage),
    /// The tool panicked; its siblings go on.
    #[error("{0}")]
    Panicked(ErrorMessage),
    /// A fault in Windlass itself.
    #[error("{0}")]
    Internal(ErrorMessage),
}

/// A text that says what was tried and why it failed, with a hint and a cause.
///
/// ```
/// use windlass_core::{ErrorMessage, ToolError};
/// let error = ToolError::failed("cannot read a.txt: no such file").hint("did you mean `b.txt`?");
/// let ErrorMessage { text, hint, .. } = error.message();
/// assert_eq!(text, "cannot read a.txt: no such file");
/// assert_eq!(hint.as_deref(), Some("did you mean `b.txt`?"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorMessage {
    /// The text: what was tried, on what, and why it failed.
    pub text: Cow<'static, str>,
    /// The hint: what to do next.
    pub hint: Option<Cow<'static, str>>,
    /// The cause, if code acts on it.
    pub reason: Option<Box<FailureReason>>,
}

/// A cause of failure that code acts on. Texts are for people and models.
///
/// ```
/// use windlass_core::{FailureReason, ToolError};
/// let error = ToolError::failed("a.txt changed since it was read").because(FailureReason::Stale);
/// assert_eq!(error.with_context("2 edits").reason(), Some(&FailureReason::Stale));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureReason {
    /// A file changed since it was read.
    Stale,
    /// A person can still answer this approval after the call has ended.
    WaitsForApproval(ApprovalId),
    /// A person can still answer these questions after the call has ended.
    WaitsForQuestion(QuestionId),
}

impl FailureReason {
    /// The field of a result's metadata that names what the call waits for, and its id.
    ///
    /// ```
    /// use windlass_core::{ApprovalId, FailureReason};
    /// let waits = FailureReason::WaitsForApproval(ApprovalId::new("a7"));
    /// assert_eq!(waits.metadata(), Some(("approval", "a7")));
    /// ```
    pub fn metadata(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Stale => None,
            Self::WaitsForApproval(id) => Some(("approval", id.as_str())),
            Self::WaitsForQuestion(id) => Some(("question", id.as_str())),
        }
    }
}

impl fmt::Display for ErrorMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.hint {
            Some(hint) => write!(f, "\n{hint}"),
            None => Ok(()),
        }
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for ErrorMessage {
    fn from(text: T) -> Self {
        Self { text: text.into(), hint: None, reason: None }
    }
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $function:ident $variant:ident $code:literal;)*) => {
        impl ToolError {
            $($(#[$doc])*
            pub fn $function(message: impl Into<ErrorMessage>) -> Self {
                Self::$variant(message.into())
            })*

            /// The stable name of this kind of error, for programs: in `metadata.code` and in the journal.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $code,)*
                }
            }

            /// Returns the text, hint and cause of this error.
            pub fn message(&self) -> &ErrorMessage {
                match self {
                    $(Self::$variant(message) => message,)*
                }
            }

            /// Makes an error of the same kind with another message.
            #[must_use]
            pub fn same_kind(&self, message: impl Into<ErrorMessage>) -> Self {
                match self {
                    $(Self::$variant(_) => Self::$variant(message.into()),)*
                }
            }

            /// Returns the message, to change it.
            fn message_mut(&mut self) -> &mut ErrorMessage {
                match self {
                    $(Self::$variant(message) => message,)*
                }
            }
        }
    };
}

constructors! {
    /// Makes a normal failure that the model should read.
    failed Failed "failed";
    /// Makes the fault for arguments that do not fit the tool.
    invalid_args InvalidArgs "invalid_args";
    /// Makes the fault for a tool that is not offered.
    unknown_tool UnknownTool "unknown_tool";
    /// Makes the fault for a door that was opened without a declared effect.
    undeclared_effect UndeclaredEffect "undeclared_effect";
    /// Makes the fault for a call that a rule or a person denied.
    denied Denied "denied";
    /// Makes the fault for a cancelled call.
    cancelled Cancelled "cancelled";
    /// Makes the fault for a call that exceeded its time limit.
    timed_out TimedOut "timed_out";
    /// Makes the fault for something that the machine refused.
    host_failed HostFailed "host_failed";
    /// Makes the fault for a record that could not be written.
    journal_failed JournalFailed "journal_failed";
    /// Makes the fault for a limit of the engine.
    busy Busy "busy";
    /// Makes the fault for a tool that panicked.
    panicked Panicked "panicked";
    /// Makes the fault for a bug in Windlass itself.
    internal Internal "internal";
}

impl ToolError {
    /// Adds a hint: what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.message_mut().hint = Some(hint.into());
        self
    }

    /// Adds the cause, for code that acts on it.
    #[must_use]
    pub fn because(mut self, reason: FailureReason) -> Self {
        self.message_mut().reason = Some(Box::new(reason));
        self
    }

    /// Returns the cause, if code acts on it.
    pub fn reason(&self) -> Option<&FailureReason> {
        self.message().reason.as_deref()
    }

    /// Replaces the text and keeps the hint and the cause.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.message_mut().text = text.into();
        self
    }

    /// Puts `context` and a colon before the text.
    #[must_use]
    pub fn with_context(self, context: &str) -> Self {
        let text = format!("{context}: {}", self.message().text);
        self.with_text(text)
    }

    /// Returns whether this is a fault and not a normal failure that the model reads.
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}
