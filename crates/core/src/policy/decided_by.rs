//! The cause of a decision, as a type. Code matches on it; its words are only for people and models.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ActiveRule, Decision, Layer, Mode, decision_word};
use crate::{ApprovalId, Principal, Scope};

/// The rule, mode, hook or person that decided about a call.
///
/// Its text is what people and models read; it is the same in verdicts, questions, events and the journal.
///
/// ```
/// use windlass_core::{DecidedBy, Decision, Effects, Mode, Policy};
/// let verdict = Policy::new(Mode::Ask).decide("write", Effects::write("/w/a.md"), "/w".as_ref());
/// assert_eq!(verdict.decided_by(), &DecidedBy::Mode { mode: Mode::Ask });
/// assert_eq!(verdict.decided_by().to_string(), "mode ask");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DecidedBy {
    /// The mode, because no rule is about the effect.
    Mode {
        /// The mode.
        mode: Mode,
    },
    /// A rule of a person, of a workspace or of the defaults.
    Rule {
        /// Allow, ask or deny.
        decision: Decision,
        /// The rule as it was written, without the decision.
        rule: String,
        /// The layer that holds the rule.
        layer: Layer,
        /// The reason that was written beside the rule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A denial that no rule, mode or person can lift: a file of secrets, a system directory.
    HardDeny {
        /// The reason.
        reason: String,
    },
    /// A question that is asked each time, whatever the rules and the mode say.
    AlwaysAsk {
        /// The reason.
        reason: String,
    },
    /// A tool whose author says that a person has to agree to each call.
    NeedsPerson,
    /// A hook that wants a person to be asked, or that answered in place of one.
    Hook {
        /// The name of the hook.
        name: String,
        /// The reason it gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The answer of a person.
    Approval {
        /// The question.
        id: ApprovalId,
        /// The time for which a remembered answer counts; `None` for an answer to this very question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<Scope>,
        /// The person who answered, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<Principal>,
    },
    /// The budget of the session, which is used up.
    Budget,
    /// A person who agreed to everything in advance (`--yes`).
    Beforehand,
    /// The person who made the call: an undo, or the application of a proposal.
    Person,
    /// The sandbox level `staged`: changes are kept only after a person has seen them.
    Staged,
    /// The command itself, which was allowed to change files when it started.
    Command,
    /// A trial run in which nothing can change.
    Trial,
    /// A record of a version that kept only words.
    Words {
        /// The words of the record.
        text: String,
    },
}

impl DecidedBy {
    /// Returns whether a hard deny decided.
    pub fn is_hard_deny(&self) -> bool {
        matches!(self, Self::HardDeny { .. })
    }

    /// Returns whether a person is asked each time, so that no answer is remembered.
    pub fn is_always_ask(&self) -> bool {
        matches!(self, Self::AlwaysAsk { .. } | Self::NeedsPerson)
    }

    /// Returns whether no rule is about the effect, so that the mode decided, or the person who made the call.
    pub(crate) fn is_without_rule(&self) -> bool {
        matches!(self, Self::Mode { .. } | Self::Person)
    }

    /// Replaces each free text in it, so that secrets can be redacted before it is shown or stored.
    #[must_use]
    pub(crate) fn map_texts(mut self, clean: impl Fn(&str) -> String) -> Self {
        let texts: [Option<&mut String>; 2] = match &mut self {
            Self::Rule { rule, reason, .. } => [Some(rule), reason.as_mut()],
            Self::Hook { name, reason } => [Some(name), reason.as_mut()],
            Self::HardDeny { reason } | Self::AlwaysAsk { reason } => [Some(reason), None],
            Self::Words { text } => [Some(text), None],
            Self::Mode { .. }
            | Self::NeedsPerson
            | Self::Approval { .. }
            | Self::Budget
            | Self::Beforehand
            | Self::Person
            | Self::Staged
            | Self::Command
            | Self::Trial => [None, None],
        };
        for text in texts.into_iter().flatten() {
            *text = clean(text);
        }
        self
    }
}

impl From<&ActiveRule> for DecidedBy {
    fn from(ruling: &ActiveRule) -> Self {
        Self::Rule {
            decision: ruling.decision,
            rule: ruling.rule.to_string(),
            layer: ruling.layer,
            reason: ruling.reason.clone(),
        }
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_reason = |f: &mut fmt::Formatter<'_>, reason: &Option<String>| match reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        };
        match self {
            Self::Mode { mode } => write!(f, "mode {mode}"),
            Self::Rule { decision, rule, reason, .. } => {
                write!(f, "{} {rule}", decision_word(*decision))?;
                with_reason(f, reason)
            }
            Self::HardDeny { reason } => write!(f, "hard deny: {reason}"),
            Self::AlwaysAsk { reason } => write!(f, "always asked: {reason}"),
            Self::NeedsPerson => f.write_str("the tool, which needs a person"),
            Self::Hook { name, reason } => {
                write!(f, "the hook {name}")?;
                with_reason(f, reason)
            }
            Self::Approval { id, scope, .. } => {
                write!(f, "approval {id}")?;
                scope.map_or(Ok(()), |scope| write!(f, " ({scope})"))
            }
            Self::Budget => f.write_str("the budget of the session"),
            Self::Beforehand => f.write_str("approved beforehand"),
            Self::Person => f.write_str("the person who made the call"),
            Self::Staged => f.write_str("sandbox staged"),
            Self::Command => f.write_str("the command"),
            Self::Trial => f.write_str("a trial"),
            Self::Words { text } => f.write_str(text),
        }
    }
}

/// A decision with its cause, and who settled it where a person had to.
///
/// ```
/// use windlass_core::{DecidedBy, ExplainedDecision, Decision, Mode};
/// let asked = ExplainedDecision {
///     decision: Decision::Ask,
///     by: DecidedBy::Mode { mode: Mode::Ask },
///     settled_by: Some(DecidedBy::Beforehand),
/// };
/// assert_eq!(asked.to_string(), "approved beforehand");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedDecision {
    /// The decision of the policy: allow, ask or deny.
    pub decision: Decision,
    /// The cause of that decision.
    pub by: DecidedBy,
    /// The person or hook that let the call run where the policy asks; `None` if it allows, or if the call did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_by: Option<DecidedBy>,
}

impl ExplainedDecision {
    /// Makes a denial with this cause.
    pub(crate) fn denied(by: DecidedBy) -> Self {
        Self { decision: Decision::Deny, by, settled_by: None }
    }

    /// Returns the cause that counted in the end: the person or hook that settled the call, or else the cause of the decision.
    pub fn cause(&self) -> &DecidedBy {
        self.settled_by.as_ref().unwrap_or(&self.by)
    }
}

impl fmt::Display for ExplainedDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.settled_by, self.decision) {
            (Some(hook @ DecidedBy::Hook { .. }), _) => {
                write!(f, "allowed by {hook}, where {} asks", self.by)
            }
            (Some(by @ DecidedBy::Person), _) => write!(f, "allowed by {by}"),
            (Some(by), _) => write!(f, "{by}"),
            (None, Decision::Allow) => write!(f, "allowed by {}", self.by),
            (None, Decision::Ask) => write!(f, "asked by {}", self.by),
            (None, Decision::Deny) => write!(f, "denied by {}", self.by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(DecidedBy, &'static str)> {
        let rule = |reason: Option<&str>| DecidedBy::Rule {
            decision: Decision::Deny,
            rule: "write a".into(),
            layer: Layer::User,
            reason: reason.map(str::to_owned),
        };
        let hook = |reason: Option<&str>| DecidedBy::Hook {
            name: "gate".into(),
            reason: reason.map(str::to_owned),
        };
        let approval = |scope| DecidedBy::Approval {
            id: ApprovalId::new("a1"),
            scope,
            who: Some(Principal::default()),
        };
        vec![
            (DecidedBy::Mode { mode: Mode::Auto }, "mode auto"),
            (rule(None), "deny write a"),
            (rule(Some("frozen")), "deny write a (frozen)"),
            (
                DecidedBy::HardDeny { reason: "a file of secrets".into() },
                "hard deny: a file of secrets",
            ),
            (DecidedBy::AlwaysAsk { reason: "git runs it".into() }, "always asked: git runs it"),
            (DecidedBy::NeedsPerson, "the tool, which needs a person"),
            (hook(None), "the hook gate"),
            (hook(Some("late")), "the hook gate (late)"),
            (approval(None), "approval a1"),
            (approval(Some(Scope::Once)), "approval a1 (once)"),
            (DecidedBy::Budget, "the budget of the session"),
            (DecidedBy::Beforehand, "approved beforehand"),
            (DecidedBy::Person, "the person who made the call"),
            (DecidedBy::Staged, "sandbox staged"),
            (DecidedBy::Command, "the command"),
            (DecidedBy::Trial, "a trial"),
            (DecidedBy::Words { text: "allowed by mode ask".into() }, "allowed by mode ask"),
        ]
    }

    #[test]
    fn each_cause_has_its_words_and_survives_serialization() {
        for (by, words) in all() {
            assert_eq!(by.to_string(), words);
            let text = serde_json::to_string(&by).expect("JSON");
            assert_eq!(serde_json::from_str::<DecidedBy>(&text).expect("a cause"), by, "{text}");
        }
    }

    #[test]
    fn free_texts_can_be_replaced() {
        for (by, words) in all() {
            let cleaned = by.clone().map_texts(|text| text.replace("secrets", "[secret]"));
            assert_eq!(cleaned.to_string(), words.replace("secrets", "[secret]"));
        }
    }
}
