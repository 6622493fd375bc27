//! One hook, independent of the file format it was written in.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use windlass_core::{Author, HookPoint, SandboxLevel};

use super::{HookMatcher, Pin};

/// A program that runs at one kind of event.
///
/// ```
/// use windlass_core::{Author, HookPoint};
/// use windlass_hooks::{HookFile, HookShape};
/// let text = "[[hooks]]\nevent = \"pre_tool\"\ncommand = [\"./check.sh\"]\nmatch = { tool = \"bash\" }\n";
/// let file = HookFile { path: "config.toml".into(), text: text.into(), author: Author::Person, shape: HookShape::Windlass };
/// let (hooks, warnings) = file.read();
/// assert_eq!((hooks.len(), hooks[0].point, warnings.len()), (1, HookPoint::PreTool, 0));
/// assert_eq!(hooks[0].command.to_string(), "./check.sh");
/// ```
#[derive(Debug, Clone)]
pub struct HookDefinition {
    /// Name in messages: the given name or the command, and the file.
    pub name: String,
    /// Name that the file gives to the hook.
    pub given_name: Option<String>,
    /// File that defines the hook.
    pub path: PathBuf,
    /// Author of the file.
    pub author: Author,
    /// Format of the hook's input and answer.
    pub shape: HookShape,
    /// Hook point at which it runs.
    pub point: HookPoint,
    /// Filter for the events at which it runs.
    pub matcher: HookMatcher,
    /// Command that it runs.
    pub command: HookCommand,
    /// Environment variables besides the usual ones.
    pub environment: Vec<(String, String)>,
    /// Maximum time that it may take.
    pub timeout: Duration,
    /// True if the event needs the hook's agreement; `None` for the default of the event.
    pub gate: Option<bool>,
    /// True if its answer counts.
    pub is_heard: bool,
    /// Confinement of the program.
    pub sandbox: SandboxLevel,
    /// Files of the workspace that it reaches, as they were when a person trusted them.
    pub pins: Vec<Pin>,
    /// Reason why it cannot run. A gate then refuses with this reason.
    pub unusable: Option<String>,
}

impl HookDefinition {
    /// Time limit of a hook that sets none.
    pub const USUAL_TIMEOUT: Duration = Duration::from_secs(5);
    /// Maximum time limit of a hook.
    pub const LONGEST_TIMEOUT: Duration = Duration::from_mins(1);

    /// Returns whether the hook can prevent an event: it is a gate, or it runs before the event and its answer counts.
    pub fn can_refuse(&self) -> bool {
        self.gate.unwrap_or(false) || (self.point.is_gate() && self.is_heard)
    }
}

/// Command of a hook. The file fixes it: no text of a model becomes part of it.
///
/// ```
/// use windlass_hooks::HookCommand;
/// assert_eq!(HookCommand::Words(vec!["jq".into(), ".tool_input".into()]).to_string(), "jq .tool_input");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookCommand {
    /// A program and its arguments.
    Words(Vec<String>),
    /// A shell script.
    Shell(String),
}

impl fmt::Display for HookCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(&words.join(" ")),
            Self::Shell(text) => f.write_str(text),
        }
    }
}

/// Format that a hook is written for.
///
/// ```
/// use windlass_hooks::HookShape;
/// assert_eq!(HookShape::Claude.to_string(), "Claude Code");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookShape {
    /// Our own format.
    Windlass,
    /// Claude Code's format: other names of tools and arguments; plain text as output is not an error.
    Claude,
    /// Hex's format: passes data in environment variables, too.
    Hex,
    /// Hygge's format: every exit code but 0 denies.
    Hygge,
}

impl fmt::Display for HookShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Windlass => "Windlass",
            Self::Claude => "Claude Code",
            Self::Hex => "Hex",
            Self::Hygge => "Hygge",
        })
    }
}
