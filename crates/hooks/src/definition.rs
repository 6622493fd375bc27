//! One hook, as every file ends in it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use windlass_core::{Author, Level, Moment};

use super::{HookMatcher, Pin};

/// A program that is told of one kind of event.
///
/// ```
/// use windlass_core::{Author, Moment};
/// use windlass_hooks::{HookFile, HookShape};
/// let text = "[[hooks]]\nevent = \"pre_tool\"\ncommand = [\"./check.sh\"]\nmatch = { tool = \"bash\" }\n";
/// let file = HookFile { path: "config.toml".into(), text: text.into(), author: Author::Person, shape: HookShape::Windlass };
/// let (hooks, warnings) = file.read();
/// assert_eq!((hooks.len(), hooks[0].moment, warnings.len()), (1, Moment::PreTool, 0));
/// assert_eq!(hooks[0].command.to_string(), "./check.sh");
/// ```
#[derive(Debug, Clone)]
pub struct HookDefinition {
    /// What messages call it: the name that it was given or its command, and its file.
    pub name: String,
    /// The name that it was given.
    pub given_name: Option<String>,
    /// The file that it is in.
    pub path: PathBuf,
    /// Who wrote that.
    pub author: Author,
    /// In whose words it is told, and answers.
    pub shape: HookShape,
    /// When it is told.
    pub moment: Moment,
    /// Of what.
    pub matcher: HookMatcher,
    /// What runs.
    pub command: HookCommand,
    /// Variables besides the usual.
    pub environment: Vec<(String, String)>,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether it must have agreed; what is usual for the event if not given.
    pub gate: Option<bool>,
    /// Whether its answer counts.
    pub is_heard: bool,
    /// How it is confined.
    pub sandbox: Level,
    /// Files of the workspace that it names, as they were when a person trusted them.
    pub pins: Vec<Pin>,
    /// Why it cannot run; a gate then refuses, and says so.
    pub unusable: Option<String>,
}

impl HookDefinition {
    /// How long a hook may take if nobody says otherwise.
    pub const USUAL_TIMEOUT: Duration = Duration::from_secs(5);
    /// How long a hook may take at most.
    pub const LONGEST_TIMEOUT: Duration = Duration::from_mins(1);

    /// Whether it can keep something from happening: it is told before, and heard, or must have agreed.
    pub fn can_refuse(&self) -> bool {
        self.gate.unwrap_or(false) || (self.moment.is_gate() && self.is_heard)
    }
}

/// What a hook runs. It is fixed by the file: nothing that a model says becomes a part of it.
///
/// ```
/// use windlass_hooks::HookCommand;
/// assert_eq!(HookCommand::Words(vec!["jq".into(), ".tool_input".into()]).to_string(), "jq .tool_input");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookCommand {
    /// A program and its arguments.
    Words(Vec<String>),
    /// A text for the shell.
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

/// In whose words a hook is written.
///
/// ```
/// use windlass_hooks::HookShape;
/// assert_eq!(HookShape::Claude.to_string(), "Claude Code");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookShape {
    /// Ours.
    Windlass,
    /// Those of Claude Code: other names of tools and arguments; plain text is no fault.
    Claude,
    /// Those of Hex: what it knows comes in variables, too.
    Hex,
    /// Those of Hygge: every exit code but 0 is a no.
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
