//! How much harm a call could do, in one word for the person who is asked.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::situation::Programs;
use crate::{Effect, Effects, Reach};

/// How much harm a call could do.
///
/// ```
/// use windlass_core::RiskLevel;
/// assert!(RiskLevel::High > RiskLevel::Low);
/// assert_eq!(RiskLevel::Medium.to_string(), "medium");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    /// It looks, or changes what can be undone.
    Low,
    /// It runs something in the sandbox, removes files, or talks to somebody.
    Medium,
    /// What it does may reach beyond the workspace, and cannot be taken back.
    High,
}

impl fmt::Display for RiskLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// The risk of the most dangerous effect.
pub(super) fn of(effects: &Effects, workspace: &std::path::Path, programs: Programs) -> RiskLevel {
    effects.iter().map(|effect| of_one(effect, workspace, programs)).max().unwrap_or(RiskLevel::Low)
}

fn of_one(effect: &Effect, workspace: &std::path::Path, programs: Programs) -> RiskLevel {
    match effect {
        Effect::Read(_) | Effect::State(_) | Effect::Ask => RiskLevel::Low,
        Effect::Write(at) | Effect::Delete(at) if !at.path.starts_with(workspace) => {
            RiskLevel::High
        }
        _ if super::protected::protected(effect).is_some() => RiskLevel::High,
        Effect::Delete(at) if at.reach == Reach::Tree => RiskLevel::Medium,
        Effect::Write(_) | Effect::Delete(_) => RiskLevel::Low,
        Effect::Exec(_) if !programs.confined || programs.connected => RiskLevel::High,
        Effect::Secret(_) | Effect::Plugin(_) => RiskLevel::High,
        Effect::Exec(_) | Effect::Net { .. } | Effect::Mcp { .. } | Effect::Agent(_) => {
            RiskLevel::Medium
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;

    #[test]
    fn what_is_how_risky() {
        let exec = || Effects::from(Effect::Exec(CommandLine::words(["make"])));
        let confined = Programs { confined: true, connected: false };
        let loose = Programs { confined: false, ..confined };
        for (effects, programs, expected) in [
            (Effects::read("/etc/passwd"), confined, RiskLevel::Low),
            (Effects::write("/w/a"), confined, RiskLevel::Low),
            (Effects::write("/w/.git/hooks/x"), confined, RiskLevel::High),
            (Effects::write("/etc/a"), confined, RiskLevel::High),
            (exec(), confined, RiskLevel::Medium),
            (exec(), loose, RiskLevel::High),
            (Effects::read("/w/a").and(Effect::Secret("KEY".into())), confined, RiskLevel::High),
            (Effects::none(), confined, RiskLevel::Low),
        ] {
            assert_eq!(of(&effects, "/w".as_ref(), programs), expected, "{effects}");
        }
    }
}
