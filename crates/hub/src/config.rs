//! Configuration: one table of keys, read in layers, each value with its source.
//!
//! The layers are: defaults, the person's own file, the workspace's file (only after `windlass trust`, and only to narrow), the
//! file of `--config`, the flags. A later layer replaces a value; lists of rules add up, because no layer may take back a denial.

mod keys;
mod layers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use toml::Value;
use windlass::Mode;
use windlass::hooks::{HookFile, HookFileError, HookShape};
use windlass::policy::{ActiveRule, Decision, Layer, Resource};
use windlass::process::{Backend, Confinement, NetworkAccess, SandboxLevel, Shell};
use windlass::tool::{Author, CommandFile};

pub use self::keys::{InWorkspace, KEYS, Key, KeyKind, UnknownKey, key};
use crate::error::with_causes;
use crate::rules;
use crate::secrets::SecretSource;
use crate::trust::{DenyEveryCall, Trusted};

/// Key of the example calls for tests of the file, written as `[[example]]`. It is not a setting.
const EXAMPLES_KEY: &str = "example";

/// Error about a configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file holds JSON, according to its name.
    #[error("{}: JSON configuration names MCP servers, and this version starts none; use TOML", .0.display())]
    Json(PathBuf),
    /// A file is not TOML.
    #[error("the configuration {} is not TOML", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// The reason, with its place in the file.
        source: Box<toml::de::Error>,
    },
    /// A file has an unknown key.
    #[error("in {}{}", path.display(), line_suffix(*line))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The line of the key.
        line: Option<usize>,
        /// The key.
        source: UnknownKey,
    },
    /// A file has a value that its key does not take.
    #[error("`{key}` in {}{}: {why}", path.display(), line_suffix(*line))]
    WrongValue {
        /// The key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The line of the key.
        line: Option<usize>,
        /// The reason.
        why: String,
    },
    /// A file has a hook that cannot be understood.
    #[error(transparent)]
    WrongHook(#[from] HookFileError),
    /// An override has a value that its key does not take.
    #[error("{why}")]
    WrongOverride {
        /// The key.
        key: &'static str,
        /// The reason.
        why: String,
    },
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// No layer sets the value.
    Default,
    /// A file.
    File(PathBuf),
    /// The overrides of [`HubSettings`](crate::HubSettings), such as the flags of the command line.
    Flag,
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", windlass::quote::path(path)),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// A tool name that a key contains.
#[derive(Debug, Clone)]
pub(crate) struct NamedTool {
    pub(crate) tool: String,
    pub(crate) key: &'static str,
    pub(crate) source: ConfigSource,
}

/// One value of a key, or one more entry of a list.
#[derive(Debug, Clone)]
struct Setting {
    key: &'static str,
    value: Value,
    source: ConfigSource,
    layer: Layer,
}

/// The configuration in force: the values of all layers, and the tools and hooks that come with them.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("config.toml");
/// std::fs::write(&file, "mode = \"plan\"\n")?;
/// let config = windlass_hub::Config::of_file(&file)?;
/// assert_eq!(config.mode()?, windlass::Mode::Plan);
/// let (value, said) = config.explain(windlass_hub::key("mode")?);
/// assert_eq!((value.as_str(), said.len()), ("\"plan\"", 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Config {
    settings: Vec<Setting>,
    /// Command tools of the workspace, as they were when a person trusted them.
    pub(crate) command_tools: Vec<CommandFile>,
    /// Files that may contain hooks, those of earlier layers first.
    pub(crate) hook_files: Vec<HookFile>,
    /// Files of the workspace that a person has trusted.
    pub(crate) trusted: Option<Trusted>,
    /// True if the workspace changed since it was trusted: then only those of its hooks run that can refuse.
    pub(crate) only_gates: bool,
    /// Hook that denies every call, if a gate of the workspace changed.
    pub(crate) closed: Option<DenyEveryCall>,
    warnings: Vec<String>,
    examples: Vec<Value>,
}

impl Config {
    /// Reads one file, without any other layer.
    pub fn of_file(path: &Path) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.add_file(path, true, Layer::User)?;
        Ok(config)
    }

    /// Returns sentences for a person about the parts that were left out, with reasons.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds warnings for the person.
    pub(crate) fn warn(&mut self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.extend(warnings);
    }

    /// Returns the example calls as they are written in the files, unchecked.
    pub fn examples(&self) -> &[Value] {
        &self.examples
    }

    /// Returns the command tools of the workspace, as they were when a person trusted them.
    pub fn command_tools(&self) -> &[CommandFile] {
        &self.command_tools
    }

    /// Adds a file that a person wrote. A missing file adds nothing, unless it is required.
    pub(crate) fn add_file(
        &mut self,
        path: &Path,
        required: bool,
        layer: Layer,
    ) -> Result<(), ConfigError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !required => return Ok(()),
            Err(source) => return Err(ConfigError::Unreadable { path: path.to_owned(), source }),
        };
        let parsed = parse(&text, path, layer)?;
        self.settings.extend(parsed.settings);
        self.examples.extend(parsed.examples);
        self.add_hook_file(HookFile {
            path: path.to_owned(),
            text,
            author: Author::Person,
            shape: HookShape::Windlass,
        })
    }

    /// Adds a file that may contain hooks. A hook that cannot be understood could be a gate, so it is an error, like a wrong rule.
    fn add_hook_file(&mut self, file: HookFile) -> Result<(), ConfigError> {
        file.check()?;
        self.hook_files.push(file);
        Ok(())
    }

    /// Adds the workspace's file. Other people may have written it, so it may only narrow.
    pub(crate) fn add_workspace(&mut self, text: &str, path: &Path) -> Result<(), ConfigError> {
        let parsed = parse(text, path, Layer::Project)?;
        self.examples.extend(parsed.examples);
        for setting in parsed.settings {
            if self.narrows(&setting)? {
                self.settings.push(setting);
            } else {
                let (key, path) = (setting.key, path.display());
                self.warnings.push(format!(
                    "`{key}` in {path} is left out: a workspace may only narrow what is allowed"
                ));
            }
        }
        Ok(())
    }

    /// Sets a value that overrides those of all files.
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        let (value, source, layer) = (value.into(), ConfigSource::Flag, Layer::Flags);
        self.settings.push(Setting { key, value, source, layer });
    }

    /// Returns whether a setting of a workspace only narrows what is allowed so far.
    fn narrows(&self, setting: &Setting) -> Result<bool, ConfigError> {
        let Some(key) = KEYS.iter().find(|key| key.name == setting.key) else { return Ok(false) };
        Ok(match key.in_workspace {
            InWorkspace::Never => false,
            InWorkspace::Add => true,
            InWorkspace::Lower => {
                setting.value.as_integer().is_some_and(|number| number <= self.number_of(key.name))
            }
            InWorkspace::Stricter => {
                let mode = parse_mode(&setting.value).map_err(wrong_override("mode"))?;
                strictness(mode) >= strictness(self.mode()?)
            }
        })
    }

    /// Returns the mode, which decides where no rule does.
    pub fn mode(&self) -> Result<Mode, ConfigError> {
        self.parsed("mode", parse_mode)
    }

    /// Returns the confinement of programs.
    pub fn confinement(&self) -> Result<Confinement, ConfigError> {
        Ok(Confinement {
            level: self.parsed("sandbox", parse_level)?,
            network: self.parsed("net", parse_network)?,
            backend: self.parsed("sandbox_backend", parse_backend)?,
        })
    }

    /// Returns the shell for commands.
    pub fn shell(&self) -> Result<Shell, ConfigError> {
        self.parsed("shell", parse_shell)
    }

    /// Returns the parsed value of a key, or the default of its type.
    fn parsed<T: Default>(
        &self,
        key: &'static str,
        parse: fn(&Value) -> Result<T, ValueError>,
    ) -> Result<T, ConfigError> {
        self.last_setting(key)
            .map_or_else(|| Ok(T::default()), |it| parse(&it.value).map_err(wrong_override(key)))
    }

    /// Returns every rule with the layer that it came from.
    pub fn rules(&self) -> Vec<ActiveRule> {
        self.rulings().map(|(_, ruling)| ruling).collect()
    }

    /// Iterates over every rule with the setting that contains it.
    fn rulings(&self) -> impl Iterator<Item = (&Setting, ActiveRule)> {
        let decisions =
            [("allow", Decision::Allow), ("ask", Decision::Ask), ("deny", Decision::Deny)];
        decisions.into_iter().flat_map(move |(key, decision)| {
            let settings = self.settings.iter().filter(move |setting| setting.key == key);
            settings.flat_map(move |setting| {
                let rulings = rules::rulings(&setting.value, decision, setting.layer);
                rulings.into_iter().map(move |ruling| (setting, ruling))
            })
        })
    }

    /// Returns the tool names in the configuration, each with its key and source.
    pub(crate) fn named_tools(&self) -> Vec<NamedTool> {
        let without = self.settings.iter().filter(|setting| setting.key == "without");
        let without = without.flat_map(|setting| {
            strings(&setting.value).into_iter().map(move |tool| (setting, tool))
        });
        let in_rules = self.rulings().filter_map(|(setting, ruling)| {
            let tool = matches!(ruling.rule.resource(), Resource::Tool(_))
                .then(|| ruling.rule.to_string())?;
            Some((setting, tool.strip_prefix("tool ")?.to_owned()))
        });
        let named = without.chain(in_rules);
        named
            .map(|(setting, tool)| NamedTool {
                tool,
                key: setting.key,
                source: setting.source.clone(),
            })
            .collect()
    }

    /// Returns the entries of a list of names, from all layers.
    pub(crate) fn names(&self, key: &str) -> Vec<String> {
        self.settings
            .iter()
            .filter(|setting| setting.key == key)
            .flat_map(|setting| strings(&setting.value))
            .collect()
    }

    /// Returns the entries of a table of secrets, from all layers. A later layer replaces an entry of the same name.
    pub(crate) fn secret_sources(&self, key: &str) -> BTreeMap<String, SecretSource> {
        let settings = self.settings.iter().filter(|setting| setting.key == key);
        settings.filter_map(|setting| parse_secret_sources(&setting.value).ok()).flatten().collect()
    }

    /// Returns a number, or its default.
    pub(crate) fn number(&self, key: &'static str) -> u64 {
        u64::try_from(self.number_of(key)).unwrap_or(0)
    }

    /// Returns whether a switch is on.
    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.last_setting(key).and_then(|setting| setting.value.as_bool()).unwrap_or(false)
    }

    /// Returns a number, or the default of its key.
    fn number_of(&self, name: &str) -> i64 {
        let default = || {
            KEYS.iter()
                .find(|key| key.name == name)
                .and_then(|key| key.default.parse().ok())
                .unwrap_or(0)
        };
        self.last_setting(name)
            .and_then(|setting| setting.value.as_integer())
            .unwrap_or_else(default)
    }

    /// Returns the last setting of a key, which overrides all earlier ones.
    fn last_setting(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().rev().find(|setting| setting.key == key)
    }

    /// Returns the value in force as TOML, and all values with their sources, the deciding one last.
    pub fn explain(&self, key: &Key) -> (String, Vec<(String, ConfigSource)>) {
        let mut said = vec![(key.default.to_owned(), ConfigSource::Default)];
        said.extend(
            self.settings
                .iter()
                .filter(|setting| setting.key == key.name)
                .map(|setting| (setting.value.to_string(), setting.source.clone())),
        );
        let value = match key.takes {
            KeyKind::Rules => {
                let lists = self.settings.iter().filter(|setting| setting.key == key.name);
                let texts = lists.flat_map(|setting| rules::texts(&setting.value));
                Value::Array(texts.map(Value::String).collect()).to_string()
            }
            KeyKind::Names => {
                Value::Array(self.names(key.name).into_iter().map(Value::String).collect())
                    .to_string()
            }
            KeyKind::Places => {
                let places = self.secret_sources(key.name).into_iter();
                let table: toml::Table =
                    places.map(|(name, place)| (name, place.to_string().into())).collect();
                Value::Table(table).to_string()
            }
            KeyKind::Mode
            | KeyKind::Level
            | KeyKind::Backend
            | KeyKind::Hosts
            | KeyKind::Shell
            | KeyKind::Number
            | KeyKind::Switch => said.last().map_or_else(String::new, |(value, _)| value.clone()),
        };
        (value, said)
    }
}

/// Returns a converter of a reason into the error about an override.
fn wrong_override(key: &'static str) -> impl FnOnce(ValueError) -> ConfigError {
    move |error| ConfigError::WrongOverride { key, why: error.to_string() }
}

/// Reason why a value cannot be used for its key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ValueError(String);

impl ValueError {
    /// Creates an error with this reason.
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

/// Parsed content of a file.
#[derive(Debug)]
struct ParsedFile {
    settings: Vec<Setting>,
    examples: Vec<Value>,
}

/// Parses a configuration file and checks its keys and values.
fn parse(text: &str, path: &Path, layer: Layer) -> Result<ParsedFile, ConfigError> {
    let mut table: toml::Table = text.parse().map_err(|source| ConfigError::NotToml {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    let examples = match table.remove(EXAMPLES_KEY) {
        Some(Value::Array(examples)) => examples,
        Some(other) => vec![other],
        None => Vec::new(),
    };
    let mut settings = Vec::new();
    // The `hooks` table is read by the hooks crate.
    for (name, value) in table.into_iter().filter(|(name, _)| name != "hooks") {
        let place = || (path.to_owned(), line_of(text, &name));
        let key = key(&name).map_err(|source| {
            let (path, line) = place();
            ConfigError::UnknownKey { path, line, source }
        })?;
        check_value(key, &value).map_err(|error| {
            let (path, line) = place();
            ConfigError::WrongValue { key: key.name, path, line, why: error.to_string() }
        })?;
        let source = ConfigSource::File(path.to_owned());
        settings.push(Setting { key: key.name, value, source, layer });
    }
    Ok(ParsedFile { settings, examples })
}

/// Returns the line of a key, counted from 1.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = toml::de::DeTable::parse(text).ok()?;
    let (found, _) = table.get_ref().iter().find(|(name, _)| name.get_ref() == key)?;
    let before = text.get(..found.span().start)?;
    Some(before.matches('\n').count() + 1)
}

/// Returns the line for an error message.
fn line_suffix(line: Option<usize>) -> String {
    line.map(|line| format!(", line {line}")).unwrap_or_default()
}

/// Checks that a value is one that the key takes.
fn check_value(key: &Key, value: &Value) -> Result<(), ValueError> {
    let is_list = || value.as_array().is_some_and(|list| list.iter().all(Value::is_str));
    match key.takes {
        KeyKind::Mode => parse_mode(value).map(drop),
        KeyKind::Level => parse_level(value).map(drop),
        KeyKind::Backend => parse_backend(value).map(drop),
        KeyKind::Hosts => parse_network(value).map(drop),
        KeyKind::Shell => parse_shell(value).map(drop),
        KeyKind::Places => parse_secret_sources(value).map(drop),
        KeyKind::Number if value.as_integer().is_some_and(|number| number >= 0) => Ok(()),
        KeyKind::Number => Err(ValueError::new("it must be a whole number, 0 or more")),
        KeyKind::Switch if value.is_bool() => Ok(()),
        KeyKind::Switch => Err(ValueError::new("it must be true or false")),
        KeyKind::Rules => rules::check(value),
        KeyKind::Names if is_list() => Ok(()),
        KeyKind::Names => Err(ValueError::new("it must be a list of texts, such as [\"…\"]")),
    }
}

/// Parses a mode.
fn parse_mode(value: &Value) -> Result<Mode, ValueError> {
    const FORM: &str = "a mode is a text: ask, auto, plan, deny or yolo";
    let text = value.as_str().ok_or_else(|| ValueError::new(FORM))?;
    text.parse().map_err(ValueError::new)
}

/// Parses a level of the sandbox.
fn parse_level(value: &Value) -> Result<SandboxLevel, ValueError> {
    const FORM: &str = "a sandbox is a text: off, read-only, workspace or staged";
    let text = value.as_str().ok_or_else(|| ValueError::new(FORM))?;
    text.parse().map_err(ValueError::new)
}

/// Parses a backend of the sandbox.
fn parse_backend(value: &Value) -> Result<Backend, ValueError> {
    const FORM: &str = "a back-end is a text: namespaces, bubblewrap, landlock or auto";
    let text = value.as_str().ok_or_else(|| ValueError::new(FORM))?;
    text.parse().map_err(ValueError::new)
}

/// Parses the hosts that programs may reach, and checks their names.
fn parse_network(value: &Value) -> Result<NetworkAccess, ValueError> {
    let text = value.as_str();
    let text = text.ok_or_else(|| ValueError::new("a network is a text: none, full, or hosts"))?;
    let Ok(network) = text.parse::<NetworkAccess>();
    if let NetworkAccess::Hosts(hosts) = &network {
        windlass::process::check_hosts(hosts)
            .map_err(|error| ValueError::new(with_causes(&error)))?;
    }
    Ok(network)
}

/// Parses a shell: a program, or a list of a program and its arguments.
fn parse_shell(value: &Value) -> Result<Shell, ValueError> {
    const FORM: &str = "a shell is a text such as \"/usr/bin/zsh\", or a list of texts: the program and its arguments";
    if let Some(program) = value.as_str().filter(|program| !program.is_empty()) {
        return Ok(Shell::new(program));
    }
    let words = value.as_array().ok_or_else(|| ValueError::new(FORM))?;
    let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
    match words.ok_or_else(|| ValueError::new(FORM))?.split_first() {
        Some((program, arguments)) if !program.is_empty() => {
            Ok(Shell::new(*program).with_arguments(arguments.iter().copied()))
        }
        _ => Err(ValueError::new(FORM)),
    }
}

/// Parses a table of names and sources of secrets.
fn parse_secret_sources(value: &Value) -> Result<BTreeMap<String, SecretSource>, ValueError> {
    const FORM: &str = "it must be a table, such as { NAME = \"env:VARIABLE\" }";
    let table = value.as_table().ok_or_else(|| ValueError::new(FORM))?;
    let source = |(name, source): (&String, &Value)| {
        let text =
            source.as_str().ok_or_else(|| ValueError::new(format!("`{name}` must be a text")))?;
        let source = text
            .parse()
            .map_err(|error| ValueError::new(format!("`{name}` is not known: {error}")))?;
        Ok((name.clone(), source))
    };
    table.iter().map(source).collect()
}

/// Ranks modes from the most permissive (0) to the strictest.
fn strictness(mode: Mode) -> u8 {
    match mode {
        Mode::Yolo => 0,
        Mode::Auto => 1,
        Mode::Ask => 2,
        Mode::Plan => 3,
        Mode::Deny => 4,
    }
}

/// Returns the strings of a list.
fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_workspace(text: &str) -> Config {
        let mut config = Config::default();
        config.set("mode", "auto");
        config.add_workspace(text, Path::new("w.toml")).expect("parses");
        config
    }

    #[test]
    fn a_workspace_may_only_narrow() {
        for (text, kept) in [
            ("mode = \"plan\"", true),
            ("mode = \"yolo\"", false),
            ("allow = [\"exec rm\"]", false),
            ("deny = [\"read x\"]", true),
            ("timeout = 5", true),
            ("timeout = 5000", false),
            ("not_secret = [\"/w/.env\"]", false),
            ("sandbox_backend = \"landlock\"", false),
            ("shell = \"/usr/bin/zsh\"", false),
        ] {
            let config = with_workspace(text);
            assert_eq!(config.warnings.is_empty(), kept, "{text}: {:?}", config.warnings);
        }
        assert_eq!(with_workspace("mode = \"yolo\"").mode().expect("a mode"), Mode::Auto);
        assert_eq!(with_workspace("timeout = 5").number("timeout"), 5);
    }

    #[test]
    fn wrong_files_say_what_is_wrong() {
        for (text, why) in [
            ("mod = \"ask\"", "did you mean `mode`?"),
            ("# first\n\nmod = \"ask\"", "in c.toml, line 3: there is no configuration key `mod`"),
            ("mode = 3", "a mode is a text"),
            ("mode = \"sudo\"", "unknown mode `sudo`"),
            ("mode = \"yolow\"", "did you mean `yolo`?"),
            ("sandbox = \"workspce\"", "did you mean `workspace`?"),
            (
                "deny = [\"exce rm\"]",
                "`deny` in c.toml, line 1: `exce rm` is not a rule: there is no effect `exce`; did you mean `exec`?",
            ),
            ("ask = [{ rule = \"wirte a\" }]", "did you mean `write`?"),
            ("sandbox_backend = \"bwrap\"", "one of namespaces, bubblewrap, landlock, auto"),
            ("sandbox_backend = 1", "a back-end is a text"),
            ("timeout = \"x\"", "whole number"),
            ("deny = \"x\"", "list of rules"),
            ("= 3", "is not TOML"),
            ("shell = 1", "a shell is a text"),
            ("shell = []", "the program and its arguments"),
            ("shell = [\"\"]", "the program and its arguments"),
            ("shell = [1]", "a list of texts"),
            ("secrets = [\"A\"]", "it must be a table"),
            ("secrets = { A = 1 }", "`A` must be a text"),
            ("secrets = { A = \"x\" }", "env:NAME or file:PATH"),
            ("secrets = { A = \"command:pass\" }", "env:NAME or file:PATH"),
        ] {
            let error = parse(text, Path::new("c.toml"), Layer::User).expect_err(text);
            let told = with_causes(&error);
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn examples_are_kept_and_not_looked_into() {
        let text = "mode = \"plan\"\n[[example]]\ntool = \"read\"\n[[example]]\nwrong = 1\n";
        let config = with_workspace(text);
        assert_eq!((config.examples.len(), config.mode().expect("a mode")), (2, Mode::Plan));
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        assert_eq!(with_workspace("example = 3").examples.len(), 1);
    }
}
