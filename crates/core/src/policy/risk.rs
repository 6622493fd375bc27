//! The risk of a call, in one word for the person who is asked.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::situation::ProgramAccess;
use crate::{Effect, Effects, Reach};

/// The harm that a call could do.
///
/// ```
/// use windlass_core::RiskLevel;
/// assert!(RiskLevel::High > RiskLevel::Low);
/// assert_eq!(RiskLevel::Medium.to_string(), "medium");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    /// It only reads, or its changes can be undone.
    Low,
    /// It runs a program in the sandbox, removes files, or contacts another machine.
    Medium,
    /// It may have effects beyond the workspace that cannot be undone.
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

/// Returns the risk of the most dangerous effect.
pub(super) fn highest_risk(
    effects: &Effects,
    programs: ProgramAccess,
    is_inside: &dyn Fn(&Path) -> bool,
    is_protected: &dyn Fn(&Effect) -> bool,
) -> RiskLevel {
    let one = |effect| match risk_of_effect(effect, programs, is_inside) {
        _ if is_protected(effect) => RiskLevel::High,
        risk => risk,
    };
    effects.iter().map(one).max().unwrap_or(RiskLevel::Low)
}

/// Returns the risk of one effect.
fn risk_of_effect(
    effect: &Effect,
    programs: ProgramAccess,
    is_inside: &dyn Fn(&Path) -> bool,
) -> RiskLevel {
    match effect {
        Effect::Write(at) | Effect::Delete(at) if !is_inside(&at.path) => RiskLevel::High,
        Effect::Delete(at) if at.reach == Reach::Tree => RiskLevel::Medium,
        Effect::Read(_) | Effect::State(_) | Effect::Ask | Effect::Write(_) | Effect::Delete(_) => {
            RiskLevel::Low
        }
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
    fn risk_of_single_effects() {
        let exec = || Effects::from(Effect::Exec(CommandLine::words(["make"])));
        let confined = ProgramAccess { confined: true, connected: false };
        let loose = ProgramAccess { confined: false, ..confined };
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
            let is_protected = |effect: &Effect| match effect {
                Effect::Write(at) => crate::protected_reason(&at.path, &[]).is_some(),
                _ => false,
            };
            let risk =
                highest_risk(&effects, programs, &|path| path.starts_with("/w"), &is_protected);
            assert_eq!(risk, expected, "{effects}");
        }
    }
}
