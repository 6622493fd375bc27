//! Modes: the decision about effects that no rule is about.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::nearest::unknown_name_message;

/// The decision about effects that no rule is about.
///
/// ```
/// use windlass_core::Mode;
/// assert_eq!("auto".parse(), Ok(Mode::Auto));
/// assert!("sudo".parse::<Mode>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Ask a person.
    #[default]
    Ask,
    /// Allow effects inside the workspace.
    Auto,
    /// Allow reads only.
    Plan,
    /// Deny everything.
    Deny,
    /// Allow everything but the hard denies.
    Yolo,
}

impl Mode {
    /// Every mode, by the name that options and configuration use.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("ask", Self::Ask),
        ("auto", Self::Auto),
        ("plan", Self::Plan),
        ("deny", Self::Deny),
        ("yolo", Self::Yolo),
    ];
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, mode)| *mode)
            .ok_or_else(|| unknown_name_message("mode", text, &Self::NAMES.map(|(name, _)| name)))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            Self::NAMES.iter().find(|(_, mode)| mode == self).map_or("ask", |(name, _)| name),
        )
    }
}
