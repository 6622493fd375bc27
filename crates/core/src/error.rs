//! What can go wrong with a call, and whose move it is.
//!
//! Two failures are never mixed. A *normal* failure (no such file, exit code 1) is an answer that the model reads: an
//! [`Output`](crate::Output) with `is_error`, or [`ToolError::Failed`], its form for the `?` operator. Everything else here is a
//! *fault*: the call itself could not be carried out, and the stable [`code`](ToolError::code) says why.

use std::borrow::Cow;
use std::fmt;

use crate::{ApprovalId, QuestionId};

/// Why a call did not produce an output.
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
    Failed(Message),
    /// The arguments do not fit the tool.
    #[error("{0}")]
    InvalidArgs(Message),
    /// No tool of that name is offered here.
    #[error("{0}")]
    UnknownTool(Message),
    /// The tool opened a door that its effects did not declare: a bug in the tool.
    #[error("{0}")]
    UndeclaredEffect(Message),
    /// A rule or a person said no.
    #[error("{0}")]
    Denied(Message),
    /// Somebody stopped the call.
    #[error("{0}")]
    Cancelled(Message),
    /// The time limit passed.
    #[error("{0}")]
    TimedOut(Message),
    /// The machine refused something that the call needs.
    #[error("{0}")]
    HostFailed(Message),
    /// The journal could not take the record, so nothing was done.
    #[error("{0}")]
    JournalFailed(Message),
    /// A limit of the engine: too many calls, too much input.
    #[error("{0}")]
    Busy(Message),
    /// The tool panicked; its siblings go on.
    #[error("{0}")]
    Panicked(Message),
    /// A fault in Windlass itself.
    #[error("{0}")]
    Internal(Message),
}

/// What was tried and why it failed, and what to do next.
///
/// ```
/// use windlass_core::{Message, ToolError};
/// let error = ToolError::failed("cannot read a.txt: no such file").hint("did you mean `b.txt`?");
/// let Message { text, hint, .. } = error.message();
/// assert_eq!(text, "cannot read a.txt: no such file");
/// assert_eq!(hint.as_deref(), Some("did you mean `b.txt`?"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What was tried, on what, and why it failed.
    pub text: Cow<'static, str>,
    /// What to do next.
    pub hint: Option<Cow<'static, str>>,
    /// The cause, where code acts on it.
    pub reason: Option<Box<FailureReason>>,
}

/// A cause of failure that code acts on: texts are for people and models.
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

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.hint {
            Some(hint) => write!(f, "\n{hint}"),
            None => Ok(()),
        }
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Message {
    fn from(text: T) -> Self {
        Self { text: text.into(), hint: None, reason: None }
    }
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $function:ident $variant:ident $code:literal;)*) => {
        impl ToolError {
            $($(#[$doc])*
            pub fn $function(message: impl Into<Message>) -> Self {
                Self::$variant(message.into())
            })*

            /// The stable name of this kind of error, for programs: in `metadata.code` and in the journal.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $code,)*
                }
            }

            /// What was said, and what to do next.
            pub fn message(&self) -> &Message {
                match self {
                    $(Self::$variant(message) => message,)*
                }
            }

            /// Another error of the same kind.
            #[must_use]
            pub fn same_kind(&self, message: impl Into<Message>) -> Self {
                match self {
                    $(Self::$variant(_) => Self::$variant(message.into()),)*
                }
            }

            fn message_mut(&mut self) -> &mut Message {
                match self {
                    $(Self::$variant(message) => message,)*
                }
            }
        }
    };
}

constructors! {
    /// A normal failure that the model should read.
    failed Failed "failed";
    /// The arguments do not fit.
    invalid_args InvalidArgs "invalid_args";
    /// No such tool.
    unknown_tool UnknownTool "unknown_tool";
    /// A door was opened without being declared.
    undeclared_effect UndeclaredEffect "undeclared_effect";
    /// Not allowed.
    denied Denied "denied";
    /// Stopped.
    cancelled Cancelled "cancelled";
    /// Too slow.
    timed_out TimedOut "timed_out";
    /// The machine refused.
    host_failed HostFailed "host_failed";
    /// The record could not be written.
    journal_failed JournalFailed "journal_failed";
    /// Too much at once.
    busy Busy "busy";
    /// The tool panicked.
    panicked Panicked "panicked";
    /// Our own fault.
    internal Internal "internal";
}

impl ToolError {
    /// Adds what to do next.
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

    /// The cause, where code acts on it.
    pub fn reason(&self) -> Option<&FailureReason> {
        self.message().reason.as_deref()
    }

    /// The same error in other words.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.message_mut().text = text.into();
        self
    }

    /// The same error, with what it meant for the whole before it.
    #[must_use]
    pub fn with_context(self, context: &str) -> Self {
        let text = format!("{context}: {}", self.message().text);
        self.with_text(text)
    }

    /// Whether this is a fault rather than an answer for the model.
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}
