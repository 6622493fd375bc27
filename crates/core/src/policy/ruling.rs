//! A rule in force: its decision, its layer, its reason and its end.

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{DecidedBy, Decision, Rule, decision_word};
use crate::Effect;

/// Origin of a rule. Between rules that do not deny, the later layer decides.
///
/// ```
/// use windlass_core::Layer;
/// assert!(Layer::Default < Layer::User && Layer::Session < Layer::Flags);
/// assert_eq!(Layer::Project.to_string(), "project");
/// ```
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Built in.
    Default,
    /// The person's own configuration.
    User,
    /// The workspace, once it is trusted; it may only narrow.
    Project,
    /// A person's answer during a session.
    Session,
    /// The command line or caller of this invocation.
    #[default]
    Flags,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::User => "user",
            Self::Project => "project",
            Self::Session => "session",
            Self::Flags => "flags",
        })
    }
}

/// A rule in force.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use windlass_core::{Decision, Layer, ActiveRule};
/// let now = SystemTime::UNIX_EPOCH;
/// let ruling = ActiveRule::new(Decision::Allow, "exec make".parse()?)
///     .in_layer(Layer::User)
///     .because("the release week")
///     .until(now + Duration::from_secs(60));
/// assert_eq!(ruling.to_string(), "allow exec make");
/// assert!(ruling.holds(Some(now)));
/// assert!(!ruling.holds(Some(now + Duration::from_secs(61))));
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ActiveRule {
    /// Decision: allow, ask or deny.
    pub decision: Decision,
    /// Effects that it is about.
    pub rule: Rule,
    /// Origin of the rule.
    pub layer: Layer,
    /// Reason in the words of its author.
    pub reason: Option<String>,
    /// Time at which the rule ends.
    pub until: Option<SystemTime>,
}

impl ActiveRule {
    /// Makes a rule without an end, from this invocation.
    pub fn new(decision: Decision, rule: Rule) -> Self {
        Self { decision, rule, layer: Layer::default(), reason: None, until: None }
    }

    /// Sets the layer that the rule comes from.
    #[must_use]
    pub fn in_layer(mut self, layer: Layer) -> Self {
        self.layer = layer;
        self
    }

    /// Sets a reason, which is shown with every decision.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the time at which the rule ends.
    #[must_use]
    pub fn until(mut self, end: SystemTime) -> Self {
        self.until = Some(end);
        self
    }

    /// Returns whether the rule is about an effect. A rule that allows does not reach as far as one that denies or asks.
    pub(super) fn is_about(&self, effect: &Effect, workspace: &Path) -> bool {
        match self.decision {
            Decision::Allow => self.rule.matches(effect, workspace),
            Decision::Ask | Decision::Deny => self.rule.restricts(effect, workspace),
        }
    }

    /// Returns whether the rule is in force. If the time is unknown, a rule with an end still denies but does not allow.
    pub fn holds(&self, now: Option<SystemTime>) -> bool {
        match (self.until, now) {
            (None, _) => true,
            (Some(end), Some(now)) => now < end,
            (Some(_), None) => self.decision != Decision::Allow,
        }
    }
}

/// Rules of one layer that have not ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct InForce<'a> {
    pub(super) rulings: &'a [ActiveRule],
    pub(super) now: Option<SystemTime>,
}

impl<'a> InForce<'a> {
    /// Returns the rules that have not ended.
    pub(super) fn iter(self) -> impl Iterator<Item = &'a ActiveRule> {
        self.rulings.iter().filter(move |ruling| ruling.holds(self.now))
    }

    /// Returns the decision of the rule that counts among those that apply: one that denies, in any layer; else the strictest of the last
    /// layer.
    pub(super) fn deciding(
        self,
        applies: impl Fn(&ActiveRule) -> bool,
    ) -> Option<(Decision, DecidedBy)> {
        self.iter()
            .filter(|ruling| applies(ruling))
            .max_by_key(|ruling| (ruling.decision == Decision::Deny, ruling.layer, ruling.decision))
            .map(|ruling| (ruling.decision, DecidedBy::from(ruling)))
    }
}

impl fmt::Display for ActiveRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", decision_word(self.decision), self.rule)
    }
}
