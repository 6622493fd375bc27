//! Predicates: the tools that a session may see and call. Listings and calls use the same check.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::nearest::unknown_name_message;
use crate::{EffectKinds, SandboxLevel, Session, SessionLimits};

/// A condition in code on the name and kinds of a tool, and on the session.
type Condition = dyn Fn(&str, EffectKinds, &Session) -> bool + Send + Sync;

/// A set of tools, as a condition on name, kinds of effects and session.
///
/// ```
/// use windlass_core::{EffectKinds, Predicate, Session, SessionId};
/// let session = Session::new(SessionId::new("s"));
/// let only = Predicate::allow(["read", "bash"]).and(!Predicate::allow(["bash"]));
/// assert!(only.admits("read", EffectKinds::READ, &session));
/// assert!(!only.admits("bash", EffectKinds::EXEC, &session));
/// assert!(!Predicate::allow([""; 0]).admits("read", EffectKinds::READ, &session), "an empty list means none");
/// ```
#[derive(Clone, Default)]
pub enum Predicate {
    /// Every tool.
    #[default]
    All,
    /// No tool.
    None,
    /// Tools with these names.
    Allow(BTreeSet<String>),
    /// Tools whose effects stay within these kinds.
    Within(EffectKinds),
    /// Tools that both predicates admit.
    And(Box<Predicate>, Box<Predicate>),
    /// Tools that one of the predicates admits.
    Or(Box<Predicate>, Box<Predicate>),
    /// Tools that the predicate does not admit.
    Not(Box<Predicate>),
    /// Tools for which a function of name, kinds and session returns true.
    By(Arc<Condition>),
}

impl Predicate {
    /// Admits tools with these names and no others.
    pub fn allow<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self::Allow(names.into_iter().map(Into::into).collect())
    }

    /// Admits all tools but those with these names.
    pub fn deny<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        !Self::allow(names)
    }

    /// Admits tools by a condition in code.
    pub fn by(
        condition: impl Fn(&str, EffectKinds, &Session) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::By(Arc::new(condition))
    }

    /// Admits tools that both admit.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, only) | (only, Self::All) => only,
            (a, b) => Self::And(Box::new(a), Box::new(b)),
        }
    }

    /// Admits tools that either admits.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::Or(Box::new(self), Box::new(other))
    }

    /// Returns whether a tool is admitted in a session.
    pub fn admits(&self, name: &str, kinds: EffectKinds, session: &Session) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Allow(names) => names.contains(name),
            Self::Within(limit) => limit.contains(kinds),
            Self::And(a, b) => a.admits(name, kinds, session) && b.admits(name, kinds, session),
            Self::Or(a, b) => a.admits(name, kinds, session) || b.admits(name, kinds, session),
            Self::Not(inner) => !inner.admits(name, kinds, session),
            Self::By(condition) => condition(name, kinds, session),
        }
    }
}

impl std::ops::Not for Predicate {
    type Output = Self;
    fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("All"),
            Self::None => f.write_str("None"),
            Self::Allow(names) => f.debug_tuple("Allow").field(names).finish(),
            Self::Within(kinds) => f.debug_tuple("Within").field(&kinds.names()).finish(),
            Self::And(a, b) => f.debug_tuple("And").field(a).field(b).finish(),
            Self::Or(a, b) => f.debug_tuple("Or").field(a).field(b).finish(),
            Self::Not(inner) => f.debug_tuple("Not").field(inner).finish(),
            Self::By(_) => f.write_str("By(…)"),
        }
    }
}

/// A choice of tools by name that can be saved and loaded.
///
/// ```
/// use windlass_core::{EffectKinds, Session, SessionId, ToolSelection};
/// let session = Session::new(SessionId::new("s"));
/// let saved = r#"{"disabled": ["bash"]}"#;
/// let selection: ToolSelection = serde_json::from_str(saved)?;
/// assert!(selection.predicate().admits("read", EffectKinds::READ, &session), "without a list, all are enabled");
/// assert!(!selection.predicate().admits("bash", EffectKinds::EXEC, &session));
/// let none: ToolSelection = serde_json::from_str(r#"{"enabled": []}"#)?;
/// assert!(!none.predicate().admits("read", EffectKinds::READ, &session), "an empty list means none");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolSelection {
    /// The only tools that are offered: all if it is not set, none if it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<BTreeSet<String>>,
    /// Tools that are not offered.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub disabled: BTreeSet<String>,
}

impl ToolSelection {
    /// Selects these tools and no others.
    ///
    /// ```
    /// use windlass_core::ToolSelection;
    /// let selection = ToolSelection::only(["read", "grep"]);
    /// assert_eq!(serde_json::to_string(&selection)?, r#"{"enabled":["grep","read"]}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn only<N: Into<String>>(tools: impl IntoIterator<Item = N>) -> Self {
        let enabled = Some(tools.into_iter().map(Into::into).collect());
        Self { enabled, ..Self::default() }
    }

    /// Selects all tools but these.
    ///
    /// ```
    /// use windlass_core::ToolSelection;
    /// let selection = ToolSelection::all_but(["bash"]);
    /// assert_eq!(serde_json::to_string(&selection)?, r#"{"disabled":["bash"]}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn all_but<N: Into<String>>(tools: impl IntoIterator<Item = N>) -> Self {
        let disabled = tools.into_iter().map(Into::into).collect();
        Self { disabled, ..Self::default() }
    }

    /// Returns the condition that a tool is selected.
    pub fn predicate(&self) -> Predicate {
        let enabled = self.enabled.clone().map_or(Predicate::All, Predicate::Allow);
        if self.disabled.is_empty() {
            return enabled;
        }
        enabled.and(!Predicate::Allow(self.disabled.clone()))
    }
}

/// A named set of tools, defined by their effects rather than by a list of names that could become outdated.
///
/// ```
/// use windlass_core::{EffectKinds, Role, Session, SessionId};
/// let session = Session::new(SessionId::new("s"));
/// let explorer: Role = "explorer".parse()?;
/// assert!(!explorer.predicate().admits("write", EffectKinds::WRITE, &session));
/// assert!("boss".parse::<Role>().is_err(), "an unknown role has no rights at all");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Reads, and changes nothing.
    Explorer,
    /// Reads, and runs programs whose changes are dropped.
    Planner,
    /// May use everything.
    Coder,
}

impl Role {
    /// Every role, by name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("explorer", Self::Explorer),
        ("planner", Self::Planner),
        ("coder", Self::Coder),
        ("full", Self::Coder),
    ];

    /// Tools that run programs of the model's choice, or manage them.
    const RUN_PROGRAMS: [&'static str; 5] = ["bash", "test", "jobs", "output", "kill"];

    /// Returns the tools of this role.
    pub fn predicate(self) -> Predicate {
        let looking = EffectKinds::READ | EffectKinds::STATE | EffectKinds::ASK | EffectKinds::NET;
        match self {
            Self::Explorer => Predicate::Within(looking),
            Self::Planner => Predicate::Within(looking).or(Predicate::allow(Self::RUN_PROGRAMS)),
            Self::Coder => Predicate::All,
        }
    }

    /// Returns the limits of a session in this role.
    ///
    /// ```
    /// use windlass_core::{SandboxLevel, Role};
    /// assert_eq!(Role::Planner.limits().sandbox, Some(SandboxLevel::Discard), "plans run tests, and nothing stays");
    /// ```
    pub fn limits(self) -> SessionLimits {
        let sandbox = (self == Self::Planner).then_some(SandboxLevel::Discard);
        SessionLimits { sandbox, ..SessionLimits::from(self.predicate()) }
    }
}

impl FromStr for Role {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, role)| *role)
            .ok_or_else(|| unknown_name_message("role", text, &Self::NAMES.map(|(name, _)| name)))
    }
}
