//! The settings of a hub: plain data that a front door fills from its flags, its requests or its tests.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass::Mode;
use windlass::people::{Attendant, Requester};
use windlass::process::SandboxLevel;
use windlass::session::{SessionId, SessionLimits};
use windlass::tool::{Predicate, Role};

/// Everything that a front door chooses for the engines of a hub.
///
/// ```
/// use windlass::Mode;
/// use windlass_hub::{ConfigOverrides, People, HubSettings};
/// let overrides = ConfigOverrides { mode: Some(Mode::Plan), ..ConfigOverrides::default() };
/// let settings = HubSettings { overrides, people: People::NoAttendant, ..HubSettings::new("/var/lib/agent") };
/// assert!(settings.places.home.is_none(), "a library does not look for directories itself");
/// ```
#[derive(Debug, Clone)]
pub struct HubSettings {
    /// Directory of sessions, journal, outputs, trust and undo history. All workspaces of a hub share it.
    pub state: PathBuf,
    /// True to keep an anchor outside the state directory, in [`Places::data`]: a file that records the end of the journal. With
    /// it, a state directory that was replaced by an older copy is noticed. A temporary state directory needs no anchor.
    pub has_anchor: bool,
    /// Directories and environment of the person.
    pub places: Places,
    /// An extra configuration file, which overrides those of the person and of the workspace.
    pub config_file: Option<PathBuf>,
    /// Values that override all files.
    pub overrides: ConfigOverrides,
    /// People who answer approvals and questions.
    pub people: People,
    /// Way in which calls are recorded.
    pub recording: Recording,
    /// Receives warnings that a person should see and that no call caused.
    pub on_warning: OnWarning,
}

impl HubSettings {
    /// Creates settings with a state directory: calls are recorded, no person is asked, and the person's directories are unknown.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self {
            state: state.into(),
            has_anchor: true,
            places: Places::default(),
            config_file: None,
            overrides: ConfigOverrides::default(),
            people: People::NoAttendant,
            recording: Recording::Whole,
            on_warning: OnWarning::default(),
        }
    }
}

/// Directories of the person, and the environment. The library does not look them up: its front door passes them in.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Home directory.
    pub home: Option<PathBuf>,
    /// Directory of the person's own `config.toml`, `hooks.json` and `tools/`.
    pub config: Option<PathBuf>,
    /// Directory for data that must stay outside the state directory, such as anchors.
    pub data: Option<PathBuf>,
    /// Environment variables, which are searched for secrets.
    pub environment: Environment,
}

impl Places {
    /// Returns the directory of the person's own command tools.
    pub fn command_tools(&self) -> Option<PathBuf> {
        self.config.as_ref().map(|config| config.join("tools"))
    }
}

/// Environment variables. Their values may be secret, so `Debug` does not show them.
///
/// ```
/// let environment = windlass_hub::Environment::new([("TOKEN".into(), "hunter2hunter2".into())]);
/// assert_eq!(format!("{environment:?}"), "Environment(1 variable)");
/// ```
#[derive(Clone, Default)]
pub struct Environment(Arc<[(String, String)]>);

impl Environment {
    /// Collects variables. Leaves out a variable whose name or value is not UTF-8.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(variables.into_iter().filter_map(text).collect())
    }

    /// Iterates over the names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(f, "Environment({count} variable{})", if count == 1 { "" } else { "s" })
    }
}

/// Values that override all configuration files, such as the flags of a command line.
#[derive(Debug, Clone, Default)]
pub struct ConfigOverrides {
    /// Mode, which decides where no rule does.
    pub mode: Option<Mode>,
    /// Level of the sandbox.
    pub sandbox: Option<SandboxLevel>,
    /// Hosts that programs may reach, in the syntax of the key `net`.
    pub net: Option<String>,
    /// Rules that allow. A rule that does not parse is an error.
    pub allow: Vec<String>,
    /// Rules that deny. A rule that does not parse is an error.
    pub deny: Vec<String>,
}

/// People who are asked about calls.
#[derive(Clone)]
pub enum People {
    /// No person: a call that needs an answer is denied.
    NoAttendant,
    /// No person, because one has approved everything in advance. Denied calls stay denied.
    Beforehand,
    /// The people at this front door.
    Attendant(Arc<dyn Attendant>),
}

impl fmt::Debug for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAttendant => "NoAttendant",
            Self::Beforehand => "Beforehand",
            Self::Attendant(_) => "Attendant",
        })
    }
}

/// Way in which calls are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// Calls are recorded, and the spool is drained into the database at the end.
    Whole,
    /// Calls are recorded. For programs with few calls: the spool is drained at the end only if it is large or there is no database
    /// yet.
    Brief,
    /// No calls are made: neither the journal nor the hooks are opened.
    Off,
}

/// Function that receives warnings for a person.
#[derive(Clone, Default)]
pub struct OnWarning(Option<Arc<Listener>>);

/// Function that is called with each warning.
type Listener = dyn Fn(&str) + Send + Sync;

impl OnWarning {
    /// Creates a receiver that calls this function with each warning.
    pub fn call(function: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(function)))
    }

    /// Passes a warning to the function, if there is one.
    pub(crate) fn report(&self, warning: &str) {
        if let Some(function) = &self.0 {
            function(warning);
        }
    }

    /// Returns whether there is a function.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for OnWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnWarning({})", if self.is_set() { "set" } else { "none" })
    }
}

/// Everything that a front door chooses for one session.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Session to continue; created if it does not exist. Default: a new session.
    pub id: Option<SessionId>,
    /// Agent that makes the calls. Default: the session's own model.
    pub asker: Requester,
    /// Tools that the session offers.
    pub tools: ToolChoice,
    /// True to hold file changes as proposals instead of making them.
    pub proposals: bool,
    /// True if the program ends after one call, and its jobs with it.
    pub is_for_one_call: bool,
}

/// Tools that a session offers, apart from those that the configuration leaves out.
///
/// ```
/// use windlass_hub::ToolChoice;
/// let choice = ToolChoice { without: vec!["bash".into()], ..ToolChoice::default() };
/// # drop(choice);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ToolChoice {
    /// Offers only these tools; an empty list offers none.
    pub only: Option<Vec<String>>,
    /// Offers all tools but these.
    pub without: Vec<String>,
    /// Restricts the tools to those of a role.
    pub role: Option<Role>,
}

impl ToolChoice {
    /// Returns the rights of a session with this choice, also without the tools in `also_without`.
    pub(crate) fn limits(self, also_without: &[String]) -> SessionLimits {
        let mut without = also_without.to_vec();
        without.extend(self.without);
        let only = self.only.map_or(Predicate::All, Predicate::allow);
        let role = self.role.unwrap_or(Role::Coder).limits();
        let without = if without.is_empty() { Predicate::All } else { Predicate::deny(without) };
        SessionLimits { tools: only.and(without).and(role.tools), ..role }
    }
}

/// Resolves the links in the existing part of a path, so that a directory has the same path before and after its creation.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(below)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return if below.as_os_str().is_empty() { real } else { real.join(below) };
        }
    }
    path.to_owned()
}
