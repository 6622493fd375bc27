//! Answers of people to approvals, and the reasons why one does not count.

use super::BookError;
use serde_json::Value;

use super::Scope;
use crate::Principal;

/// The reason that the model gets if a person denied a call without one.
const DEFAULT_REFUSAL: &str = "the person said no";

/// A person's answer to an approval.
///
/// ```
/// use windlass_core::{Answer, Principal, Scope};
/// let yes = Answer::allow_for(Scope::Session).because("only in this branch");
/// assert!(yes.is_yes() && yes.scope == Scope::Session);
/// let no = Answer::deny("not now").by(Principal::Person { name: Some("Ada".into()) });
/// assert_eq!(no.who.to_string(), "person Ada");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    is_yes: bool,
    /// Calls that it counts for.
    pub scope: Scope,
    /// Reason, for the model to read.
    pub reason: Option<String>,
    /// Other arguments for the call. They are decided on again: the answer covers effects that ask, never denied ones.
    pub input: Option<Value>,
    /// Rules, of those that were offered, to add to the session.
    pub rules: Vec<String>,
    /// Identity that answered.
    pub who: Principal,
}

impl Answer {
    /// Allows this call.
    pub fn allow() -> Self {
        Self::allow_for(Scope::Once)
    }

    /// Allows this very call, also when it is made again.
    pub fn allow_for(scope: Scope) -> Self {
        let (rules, who) = (Vec::new(), Principal::default());
        Self { is_yes: true, scope, reason: None, input: None, rules, who }
    }

    /// Allows the call with other arguments.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_core::Answer;
    /// let edited = Answer::allow_edited(json!({"command": "rm -r build"}));
    /// assert!(edited.is_yes());
    /// ```
    pub fn allow_edited(input: Value) -> Self {
        Self { input: Some(input), ..Self::allow() }
    }

    /// Denies this call.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::deny_for(Scope::Once, reason)
    }

    /// Denies this very call, also when it is made again.
    pub fn deny_for(scope: Scope, reason: impl Into<String>) -> Self {
        let reason = Some(reason.into()).filter(|reason| !reason.is_empty());
        let (rules, who) = (Vec::new(), Principal::default());
        Self { is_yes: false, scope, reason, input: None, rules, who }
    }

    /// Adds a rule of those that were [offered](crate::ApprovalRequest::offers): the session then allows everything that it covers.
    ///
    /// ```
    /// use windlass_core::Answer;
    /// let yes = Answer::allow().with_rule("write src/**");
    /// assert_eq!(yes.rules, ["write src/**"]);
    /// ```
    #[must_use]
    pub fn with_rule(mut self, rule: impl Into<String>) -> Self {
        self.rules.push(rule.into());
        self
    }

    /// Adds a reason for the model to read.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Names the identity that answers.
    #[must_use]
    pub fn by(mut self, who: Principal) -> Self {
        self.who = who;
        self
    }

    /// Returns whether the call is allowed.
    pub fn is_yes(&self) -> bool {
        self.is_yes
    }

    /// Returns the reason of a denial.
    pub(super) fn why_not(&self) -> &str {
        self.reason.as_deref().unwrap_or(DEFAULT_REFUSAL)
    }
}

/// The reply of an attendant that was to ask a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttendantReply<A> {
    /// The person answered.
    Answered(A),
    /// The person cannot be asked now. The question stays on record and can be answered later; the call ends as denied.
    Deferred,
    /// The person cannot be asked through this attendant, for this reason.
    Unavailable(String),
}

/// The reason why an answer does not count.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{Answer, AnswerError, ApprovalId};
/// # use windlass_core::{Engine, testing::EmptyHost};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
/// let answered = engine.answer(&ApprovalId::new("a7"), Answer::allow()).await;
/// assert_eq!(answered, Err(AnswerError::Unknown));
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// There is no such question, or it was withdrawn.
    #[error("there is no such question: it was never asked, or was taken back")]
    Unknown,
    /// Another answer came first.
    #[error("the question is answered already: the first answer counts")]
    Answered,
    /// The question expired before an answer came.
    #[error("the question expired: the model has to make the call again")]
    Expired,
    /// The answer does not fit the question.
    #[error("the answer does not fit the question: {0}")]
    Unfit(String),
    /// The record cannot be read or written.
    #[error("the record of questions cannot be used: {0}")]
    Record(#[from] BookError),
}
