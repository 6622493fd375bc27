//! A rule in force: what it decides, who laid it down, why, and until when.

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{DecidedBy, Decision, Rule, decision_word};
use crate::Effect;

/// Who laid a rule down; of two that do not deny, the later layer decides.
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
    /// We did.
    Default,
    /// The person, in their own configuration.
    User,
    /// The workspace, once it is trusted; it may only narrow.
    Project,
    /// The person, in the course of a session.
    Session,
    /// Whoever made this very invocation.
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
/// use windlass_core::{Decision, Layer, Ruling};
/// let now = SystemTime::UNIX_EPOCH;
/// let ruling = Ruling::new(Decision::Allow, "exec make".parse()?)
///     .in_layer(Layer::User)
///     .because("the release week")
///     .until(now + Duration::from_secs(60));
/// assert_eq!(ruling.to_string(), "allow exec make");
/// assert!(ruling.holds(Some(now)));
/// assert!(!ruling.holds(Some(now + Duration::from_secs(61))));
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Ruling {
    /// What it decides.
    pub decision: Decision,
    /// About what.
    pub rule: Rule,
    /// Who laid it down.
    pub layer: Layer,
    /// Why, in their words.
    pub reason: Option<String>,
    /// When it ends.
    pub until: Option<SystemTime>,
}

impl Ruling {
    /// A rule without an end, from this invocation.
    pub fn new(decision: Decision, rule: Rule) -> Self {
        Self { decision, rule, layer: Layer::default(), reason: None, until: None }
    }

    /// Laid down by somebody else.
    #[must_use]
    pub fn in_layer(mut self, layer: Layer) -> Self {
        self.layer = layer;
        self
    }

    /// With a reason, which is told with every decision.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// With an end.
    #[must_use]
    pub fn until(mut self, end: SystemTime) -> Self {
        self.until = Some(end);
        self
    }

    /// Returns whether it is about an effect. One that allows does not reach as far as one that denies or asks.
    pub(super) fn is_about(&self, effect: &Effect, workspace: &Path) -> bool {
        match self.decision {
            Decision::Allow => self.rule.matches(effect, workspace),
            Decision::Ask | Decision::Deny => self.rule.restricts(effect, workspace),
        }
    }

    /// Whether it is in force. Where nobody knows the time, what ends allows nothing and still denies.
    pub fn holds(&self, now: Option<SystemTime>) -> bool {
        match (self.until, now) {
            (None, _) => true,
            (Some(end), Some(now)) => now < end,
            (Some(_), None) => self.decision != Decision::Allow,
        }
    }
}

/// The rules that have not ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct InForce<'a> {
    pub(super) rulings: &'a [Ruling],
    pub(super) now: Option<SystemTime>,
}

impl<'a> InForce<'a> {
    pub(super) fn iter(self) -> impl Iterator<Item = &'a Ruling> {
        self.rulings.iter().filter(move |ruling| ruling.holds(self.now))
    }

    /// The one that decides among those that apply: one that denies, wherever it stands; else one of the last layer, and there the
    /// strictest.
    pub(super) fn deciding(
        self,
        applies: impl Fn(&Ruling) -> bool,
    ) -> Option<(Decision, DecidedBy)> {
        self.iter()
            .filter(|ruling| applies(ruling))
            .max_by_key(|ruling| (ruling.decision == Decision::Deny, ruling.layer, ruling.decision))
            .map(|ruling| (ruling.decision, DecidedBy::from(ruling)))
    }
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", decision_word(self.decision), self.rule)
    }
}
