//! The settings of a hub: plain data, which a front door fills from its flags, its requests or its tests.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass::Mode;
use windlass::people::{Asker, Attendant};
use windlass::process::Level;
use windlass::session::{Limits, SessionId};
use windlass::tool::{Predicate, Role};

/// Everything that a front door chooses for the engines of a hub.
///
/// ```
/// use windlass::Mode;
/// use windlass_hub::{ConfigOverrides, People, Settings};
/// let overrides = ConfigOverrides { mode: Some(Mode::Plan), ..ConfigOverrides::default() };
/// let settings = Settings { overrides, people: People::Nobody, ..Settings::new("/var/lib/agent") };
/// assert!(settings.places.home.is_none(), "a library does not look for directories itself");
/// ```
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory of sessions, journal, outputs, trust and undo history. All workspaces of a hub share it.
    pub state: PathBuf,
    /// Keep a file outside of the state directory that says how far the journal came, in [`Places::data`]. With it, a state that is
    /// put back from an older copy is noticed. A state directory that is thrown away needs none.
    pub has_anchor: bool,
    /// The person's directories and environment.
    pub places: Places,
    /// One more configuration file, over those of the person and of the workspace.
    pub config_file: Option<PathBuf>,
    /// Values over all files.
    pub overrides: ConfigOverrides,
    /// The people who are asked.
    pub people: People,
    /// The record of calls.
    pub recording: Recording,
    /// Is told what a person should know and what is not the fault of a call.
    pub on_warning: OnWarning,
}

impl Settings {
    /// Settings with a state directory: calls are recorded, no person is asked, and nothing is known of the person's directories.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self {
            state: state.into(),
            has_anchor: true,
            places: Places::default(),
            config_file: None,
            overrides: ConfigOverrides::default(),
            people: People::Nobody,
            recording: Recording::Whole,
            on_warning: OnWarning::default(),
        }
    }
}

/// The directories of the person, and the environment. A library does not look for them: its front door hands them over.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The home directory.
    pub home: Option<PathBuf>,
    /// The directory of the person's own `config.toml`, `hooks.json` and `tools/`.
    pub config: Option<PathBuf>,
    /// The directory of what is kept outside of the state directory on purpose.
    pub data: Option<PathBuf>,
    /// The environment, in which secrets are looked for.
    pub environment: Environment,
}

impl Places {
    /// The directory of the person's own command tools.
    pub fn command_tools(&self) -> Option<PathBuf> {
        self.config.as_ref().map(|config| config.join("tools"))
    }
}

/// Variables of the environment. Their values may be secret, so that they are never shown.
///
/// ```
/// let environment = windlass_hub::Environment::new([("TOKEN".into(), "hunter2hunter2".into())]);
/// assert_eq!(format!("{environment:?}"), "Environment(1 variable)");
/// ```
#[derive(Clone, Default)]
pub struct Environment(Arc<[(String, String)]>);

impl Environment {
    /// Takes variables. One whose name or value is not UTF-8 is left out.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(variables.into_iter().filter_map(text).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

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

/// Values over all configuration files: the flags of a command line, say.
#[derive(Debug, Clone, Default)]
pub struct ConfigOverrides {
    /// The mode, which decides where no rule does.
    pub mode: Option<Mode>,
    /// The level of the sandbox.
    pub sandbox: Option<Level>,
    /// The hosts that programs can talk to, as the key `net` writes them.
    pub net: Option<String>,
    /// Rules that allow. One that does not parse is a warning.
    pub allow: Vec<String>,
    /// Rules that deny. One that does not parse is a warning.
    pub deny: Vec<String>,
}

/// The people who are asked about calls.
#[derive(Clone)]
pub enum People {
    /// None: what needs a person is denied.
    Nobody,
    /// None, because a person has approved everything in advance. What is denied stays denied.
    Beforehand,
    /// Those at this front door.
    Attendant(Arc<dyn Attendant>),
}

impl fmt::Debug for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Beforehand => "Beforehand",
            Self::Attendant(_) => "Attendant",
        })
    }
}

/// The record of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// Calls are recorded.
    Whole,
    /// Calls are recorded, and there are so few that the journal's database is not opened for them.
    Brief,
    /// No call is made: neither the journal nor the hooks are opened.
    Off,
}

/// A function that is told what a person should know.
#[derive(Clone, Default)]
pub struct OnWarning(Option<Arc<Listener>>);

type Listener = dyn Fn(&str) + Send + Sync;

impl OnWarning {
    /// Calls this function with each warning.
    pub fn call(function: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(function)))
    }

    pub(crate) fn tell(&self, warning: &str) {
        if let Some(function) = &self.0 {
            function(warning);
        }
    }

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
    /// The session to go on with; it begins if there is none of that name. Default: a new one.
    pub id: Option<SessionId>,
    /// The agent that calls are made for. Default: the session's own model.
    pub asker: Asker,
    /// The tools on offer.
    pub tools: ToolChoice,
    /// Hold changes of files as proposals instead of making them.
    pub proposals: bool,
    /// The program ends after one call, and its jobs with it.
    pub is_for_one_call: bool,
}

/// The tools that a session offers, besides what the configuration leaves out.
///
/// ```
/// use windlass_hub::ToolChoice;
/// let choice = ToolChoice { without: vec!["bash".into()], ..ToolChoice::default() };
/// # drop(choice);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ToolChoice {
    /// These alone; an empty list means none.
    pub only: Option<Vec<String>>,
    /// All but these.
    pub without: Vec<String>,
    /// Those of a role.
    pub role: Option<Role>,
}

impl ToolChoice {
    /// The rights of a session with this choice, without tools of a list of others.
    pub(crate) fn limits(self, also_without: &[String]) -> Limits {
        let mut without = also_without.to_vec();
        without.extend(self.without);
        let only = self.only.map_or(Predicate::All, Predicate::allow);
        let role = self.role.unwrap_or(Role::Coder).limits();
        let without = if without.is_empty() { Predicate::All } else { Predicate::deny(without) };
        Limits { tools: only.and(without).and(role.tools), ..role }
    }
}

/// A path without links, as far as it is there: so that a directory has one name before and after it is made.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(below)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return if below.as_os_str().is_empty() { real } else { real.join(below) };
        }
    }
    path.to_owned()
}
