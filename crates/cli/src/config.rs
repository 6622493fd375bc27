//! Configuration: one table of keys, read in layers, each value with the place that it came from.
//!
//! The layers are: defaults, the person's own file, the workspace's file (only after `windlass trust`, and only to narrow), the file
//! of `--config`, the flags. A later layer replaces a value; lists of rules add up, because no layer may take back a denial.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use toml::Value;
use windlass::{Author, CommandFile, HookFile, HookShape};
use windlass_core::{
    Backend, Confinement, Decision, Layer, Level, Mode, NetworkAccess, Ruling, nearest,
};

use crate::rules;

use crate::trust::{ClosedGate, Trusted};

use crate::secrets::Place;

/// A configuration key: what it is called, what it takes, what it means.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
    /// What a workspace may do with it.
    pub(crate) in_workspace: InWorkspace,
}

/// The kind of value that a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Mode,
    Level,
    Backend,
    Hosts,
    Number,
    Rules,
    Names,
    Places,
}

/// What a workspace's own file may do with a key: never more than narrow what the person allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InWorkspace {
    /// Nothing.
    Never,
    /// Add to the list.
    Add,
    /// Make the number smaller.
    Lower,
    /// Choose a mode that allows less.
    Stricter,
}

/// Every key, in the order of the manual.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "mode",
        takes: Takes::Mode,
        default: "\"ask\"",
        about: "What happens where no rule decides: ask, auto, plan, deny or yolo.",
        in_workspace: InWorkspace::Stricter,
    },
    Key {
        name: "allow",
        takes: Takes::Rules,
        default: "[]",
        about: "Rules that allow, such as \"write docs/**\".",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "ask",
        takes: Takes::Rules,
        default: "[]",
        about: "Rules that ask, also where the mode would allow.",
        in_workspace: InWorkspace::Add,
    },
    Key {
        name: "deny",
        takes: Takes::Rules,
        default: "[]",
        about: "Rules that deny; they win over all others. A rule may be a table with `rule`, `reason` and `until` (a date).",
        in_workspace: InWorkspace::Add,
    },
    Key {
        name: "provenance",
        takes: Takes::Number,
        default: "1",
        about: "1: once a session has read from the web, an MCP server or outside the workspace, what could carry data out asks, whatever the rules allow. 0: it does not.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "budget_calls",
        takes: Takes::Number,
        default: "0",
        about: "Calls that a session may make, with those of its sub-agents; 0: any number.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "budget_seconds",
        takes: Takes::Number,
        default: "0",
        about: "Seconds that the calls of a session may take in all; 0: any number.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "budget_network_megabytes",
        takes: Takes::Number,
        default: "0",
        about: "Megabytes that programs of a session may move through the proxy of `--net HOSTS` in all; 0: any number.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "budget_output_megabytes",
        takes: Takes::Number,
        default: "0",
        about: "Megabytes of text that the calls of a session may answer in all; 0: any number.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "budget_repeats",
        takes: Takes::Number,
        default: "0",
        about: "How often one call may give one answer while nothing changes: half-way the model is told, then such calls are refused; 0: any number.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "without",
        takes: Takes::Names,
        default: "[]",
        about: "Tools that are not offered.",
        in_workspace: InWorkspace::Add,
    },
    Key {
        name: "not_secret",
        takes: Takes::Names,
        default: "[]",
        about: "Files that may be read although their names look secret: globs, relative to the workspace or absolute, as in `tests/**/*.pem`.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "secrets",
        takes: Takes::Places,
        default: "{}",
        about: "Values that are never shown, by name and where they are: { NAME = \"env:VARIABLE\" } or \"file:/PATH\". A command uses one as {{secret NAME}}.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "sandbox",
        takes: Takes::Level,
        default: "\"workspace\"",
        about: "How programs run: off, read-only, workspace or staged.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "sandbox_backend",
        takes: Takes::Backend,
        default: "\"namespaces\"",
        about: "What the sandbox is made of: namespaces (the whole of it; where we may make none, bubblewrap is asked for one if it is installed, and where there is none programs are refused), bubblewrap (the same, always with its namespace), landlock (Landlock and a filter of system calls: holds less, and says so) or auto (namespaces, else landlock).",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "net",
        takes: Takes::Hosts,
        default: "\"none\"",
        about: "Whom programs can talk to: none, full, or hosts separated by commas.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "env",
        takes: Takes::Names,
        default: "[]",
        about: "Variables that programs get besides the usual: names to pass on, or \"NAME=value\".",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "pass_through",
        takes: Takes::Names,
        default: "[]",
        about: "Names of build directories, besides the usual: if git ignores one, its changes are kept without history.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "hidden",
        takes: Takes::Names,
        default: "[]",
        about: "Files and directories that nobody may read, as if by a rule `deny read PATH`.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "sockets",
        takes: Takes::Names,
        default: "[]",
        about: "Sockets of the machine that programs can connect to (docker, ssh-agent): absolute paths. Whoever can talk to one can do what it does.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "protected",
        takes: Takes::Names,
        default: "[]",
        about: "Places of the workspace, besides the usual, that programs cannot change.",
        in_workspace: InWorkspace::Add,
    },
    Key {
        name: "memory_megabytes",
        takes: Takes::Number,
        default: "4096",
        about: "Memory that a program may use, with all that it starts.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "processes",
        takes: Takes::Number,
        default: "512",
        about: "Processes that a program may start.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "soft_limit",
        takes: Takes::Number,
        default: "0",
        about: "Seconds after which a command that still runs goes on as a job; 0: it does not.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "timeout",
        takes: Takes::Number,
        default: "600",
        about: "Seconds after which a call is stopped.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "output_bytes",
        takes: Takes::Number,
        default: "50000",
        about: "Bytes of text that a model gets of one result; the rest is kept under output:CALL.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "at_once",
        takes: Takes::Number,
        default: "10",
        about: "Calls of a session that run at the same time, with those of sessions below it.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "cache_entries",
        takes: Takes::Number,
        default: "100",
        about: "Answers that are kept to be served again; 0 switches the cache off.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "cache_seconds",
        takes: Takes::Number,
        default: "300",
        about: "How long an answer may be served again.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "undo_megabytes",
        takes: Takes::Number,
        default: "2048",
        about: "How much is kept of what was there before changes; the oldest goes first.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "undo_days",
        takes: Takes::Number,
        default: "30",
        about: "How long changes can be undone.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "sync",
        takes: Takes::Number,
        default: "1",
        about: "1: a change counts as made when the disk has it. 0: when the kernel has it, which a kill cannot undo but a loss of power can.",
        in_workspace: InWorkspace::Never,
    },
];

/// Not a setting: the calls by which a file can be tested, written as `[[example]]`.
const EXAMPLES: &str = "example";

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    File(PathBuf),
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", windlass_core::quote::path(path)),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// One value, or one more entry of a list.
#[derive(Debug, Clone)]
struct Setting {
    key: &'static str,
    value: Value,
    source: Source,
    layer: Layer,
}

/// The configuration in force.
#[derive(Debug, Default)]
pub(crate) struct Config {
    settings: Vec<Setting>,
    /// The command tools of the workspace, as they were when a person trusted them.
    pub(crate) command_tools: Vec<CommandFile>,
    /// The files that may have hooks in them, the earlier layers first.
    pub(crate) hook_files: Vec<HookFile>,
    /// What a person has trusted of the workspace.
    pub(crate) trusted: Option<Trusted>,
    /// The workspace is not as it was trusted: of its hooks, only those that can refuse act.
    pub(crate) only_gates: bool,
    /// Denies every call, because a gate of the workspace changed.
    pub(crate) closed: Option<ClosedGate>,
    /// What was left out and why, for a person to read.
    pub(crate) warnings: Vec<String>,
    /// What the files say about themselves, for `windlass policy test`: nobody else looks into these.
    pub(crate) examples: Vec<Value>,
}

impl Config {
    /// Adds a file that a person wrote. One that does not exist adds nothing, unless it was asked for by name.
    pub(crate) fn add_file(&mut self, path: &Path, required: bool, layer: Layer) -> Result<()> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => {
                return Ok(());
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot read the configuration {}", path.display()));
            }
        };
        let parsed = parse(&text, path, layer)?;
        self.settings.extend(parsed.settings);
        self.examples.extend(parsed.examples);
        self.hook_files.push(HookFile {
            path: path.to_owned(),
            text,
            author: Author::Person,
            shape: HookShape::Windlass,
        });
        Ok(())
    }

    /// Adds the workspace's file, which somebody else may have written: it may only narrow.
    pub(crate) fn add_workspace(&mut self, text: &str, path: &Path) -> Result<()> {
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

    /// Sets a value from the command line.
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        let (value, source, layer) = (value.into(), Source::Flag, Layer::Flags);
        self.settings.push(Setting { key, value, source, layer });
    }

    fn narrows(&self, setting: &Setting) -> Result<bool> {
        let Some(key) = KEYS.iter().find(|key| key.name == setting.key) else { return Ok(false) };
        Ok(match key.in_workspace {
            InWorkspace::Never => false,
            InWorkspace::Add => true,
            InWorkspace::Lower => {
                setting.value.as_integer().is_some_and(|number| number <= self.number_of(key.name))
            }
            InWorkspace::Stricter => {
                strictness(mode_of(&setting.value)?) >= strictness(self.mode()?)
            }
        })
    }

    /// What happens where no rule decides.
    pub(crate) fn mode(&self) -> Result<Mode> {
        self.last("mode").map_or(Ok(Mode::default()), |setting| mode_of(&setting.value))
    }

    /// How programs run.
    pub(crate) fn confinement(&self) -> Result<Confinement> {
        let level = self.last("sandbox").map(|setting| level_of(&setting.value)).transpose()?;
        let network = self.last("net").map(|setting| network_of(&setting.value)).transpose()?;
        let backend =
            self.last("sandbox_backend").map(|setting| backend_of(&setting.value)).transpose()?;
        Ok(Confinement {
            level: level.unwrap_or_default(),
            network: network.unwrap_or_default(),
            backend: backend.unwrap_or_default(),
        })
    }

    /// Every rule, with the layer that it came from. One that does not parse is a warning, never the end.
    pub(crate) fn rules(&mut self) -> Vec<Ruling> {
        let mut rulings = Vec::new();
        for (key, decision) in
            [("allow", Decision::Allow), ("ask", Decision::Ask), ("deny", Decision::Deny)]
        {
            for setting in self.settings.iter().filter(|setting| setting.key == key) {
                for ruling in rules::rulings(&setting.value, decision, setting.layer) {
                    match ruling {
                        Ok(ruling) => rulings.push(ruling),
                        Err(error) => self.warnings.push(format!("{error:#} ({})", setting.source)),
                    }
                }
            }
        }
        rulings
    }

    /// The entries of a list of names, from all layers.
    pub(crate) fn names(&self, key: &str) -> Vec<String> {
        self.settings
            .iter()
            .filter(|setting| setting.key == key)
            .flat_map(|setting| strings(&setting.value))
            .collect()
    }

    /// The entries of a table of places, from all layers; a later layer replaces what an earlier one says of a name.
    pub(crate) fn places(&self, key: &str) -> BTreeMap<String, Place> {
        let settings = self.settings.iter().filter(|setting| setting.key == key);
        settings.filter_map(|setting| places_of(&setting.value).ok()).flatten().collect()
    }

    /// A number.
    pub(crate) fn number(&self, key: &'static str) -> u64 {
        u64::try_from(self.number_of(key)).unwrap_or(0)
    }

    fn number_of(&self, name: &str) -> i64 {
        let default = || {
            KEYS.iter()
                .find(|key| key.name == name)
                .and_then(|key| key.default.parse().ok())
                .unwrap_or(0)
        };
        self.last(name).and_then(|setting| setting.value.as_integer()).unwrap_or_else(default)
    }

    fn last(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().rev().find(|setting| setting.key == key)
    }

    /// The value in force as TOML, and every place that had a say, the deciding one last.
    pub(crate) fn explain(&self, key: &Key) -> (String, Vec<(String, Source)>) {
        let mut said = vec![(key.default.to_owned(), Source::Default)];
        said.extend(
            self.settings
                .iter()
                .filter(|setting| setting.key == key.name)
                .map(|setting| (setting.value.to_string(), setting.source.clone())),
        );
        let value = match key.takes {
            Takes::Rules => {
                let lists = self.settings.iter().filter(|setting| setting.key == key.name);
                let texts = lists.flat_map(|setting| rules::texts(&setting.value));
                Value::Array(texts.map(Value::String).collect()).to_string()
            }
            Takes::Names => {
                Value::Array(self.names(key.name).into_iter().map(Value::String).collect())
                    .to_string()
            }
            Takes::Places => {
                let places = self.places(key.name).into_iter();
                let table: toml::Table =
                    places.map(|(name, place)| (name, place.to_string().into())).collect();
                Value::Table(table).to_string()
            }
            Takes::Mode | Takes::Level | Takes::Backend | Takes::Hosts | Takes::Number => {
                said.last().map_or_else(String::new, |(value, _)| value.clone())
            }
        };
        (value, said)
    }
}

/// The key of that name.
pub(crate) fn key(name: &str) -> Result<&'static Key> {
    KEYS.iter().find(|key| key.name == name).with_context(|| {
        let near = nearest(name, KEYS.iter().map(|key| key.name));
        near.map_or_else(
            || format!("there is no configuration key `{name}`: `windlass config show` lists them"),
            |near| format!("there is no configuration key `{name}`; did you mean `{near}`?"),
        )
    })
}

/// What is in a file.
#[derive(Debug)]
struct Parsed {
    settings: Vec<Setting>,
    examples: Vec<Value>,
}

fn parse(text: &str, path: &Path, layer: Layer) -> Result<Parsed> {
    let mut table: toml::Table = text
        .parse()
        .with_context(|| format!("the configuration {} is not TOML", path.display()))?;
    let examples = match table.remove(EXAMPLES) {
        Some(Value::Array(examples)) => examples,
        Some(other) => vec![other],
        None => Vec::new(),
    };
    let mut settings = Vec::new();
    // Hooks are read by whoever knows them.
    for (name, value) in table.into_iter().filter(|(name, _)| name != "hooks") {
        let key = key(&name).with_context(|| format!("in {}", path.display()))?;
        check(key, &value).with_context(|| format!("`{name}` in {}", path.display()))?;
        let source = Source::File(path.to_owned());
        settings.push(Setting { key: key.name, value, source, layer });
    }
    Ok(Parsed { settings, examples })
}

fn check(key: &Key, value: &Value) -> Result<()> {
    let is_list = || value.as_array().is_some_and(|list| list.iter().all(Value::is_str));
    match key.takes {
        Takes::Mode => mode_of(value).map(drop),
        Takes::Level => level_of(value).map(drop),
        Takes::Backend => backend_of(value).map(drop),
        Takes::Hosts => network_of(value).map(drop),
        Takes::Places => places_of(value).map(drop),
        Takes::Number if value.as_integer().is_some_and(|number| number >= 0) => Ok(()),
        Takes::Number => bail!("it must be a whole number, 0 or more"),
        Takes::Rules => rules::check(value),
        Takes::Names if is_list() => Ok(()),
        Takes::Names => bail!("it must be a list of texts, such as [\"…\"]"),
    }
}

fn mode_of(value: &Value) -> Result<Mode> {
    let text = value.as_str().context("a mode is a text: ask, auto, plan, deny or yolo")?;
    text.parse().map_err(anyhow::Error::msg)
}

fn level_of(value: &Value) -> Result<Level> {
    let text =
        value.as_str().context("a sandbox is a text: off, read-only, workspace or staged")?;
    text.parse().map_err(anyhow::Error::msg)
}

fn backend_of(value: &Value) -> Result<Backend> {
    let text =
        value.as_str().context("a back-end is a text: namespaces, bubblewrap, landlock or auto")?;
    text.parse().map_err(anyhow::Error::msg)
}

fn network_of(value: &Value) -> Result<NetworkAccess> {
    let text = value.as_str().context("a network is a text: none, full, or hosts")?;
    let network: NetworkAccess = text.parse()?;
    if let NetworkAccess::Hosts(hosts) = &network {
        windlass::check_hosts(hosts)?;
    }
    Ok(network)
}

fn places_of(value: &Value) -> Result<BTreeMap<String, Place>> {
    let table =
        value.as_table().context("it must be a table, such as { NAME = \"env:VARIABLE\" }")?;
    let place = |(name, place): (&String, &Value)| {
        let text = place.as_str().with_context(|| format!("`{name}` must be a text"))?;
        Ok((name.clone(), text.parse().with_context(|| format!("`{name}` is not known"))?))
    };
    table.iter().map(place).collect()
}

/// From allowing everything to allowing nothing.
fn strictness(mode: Mode) -> u8 {
    match mode {
        Mode::Yolo => 0,
        Mode::Auto => 1,
        Mode::Ask => 2,
        Mode::Plan => 3,
        Mode::Deny => 4,
    }
}

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
            ("mode = 3", "a mode is a text"),
            ("mode = \"sudo\"", "unknown mode `sudo`"),
            ("sandbox_backend = \"bwrap\"", "one of namespaces, bubblewrap, landlock, auto"),
            ("sandbox_backend = 1", "a back-end is a text"),
            ("timeout = \"x\"", "whole number"),
            ("deny = \"x\"", "list of rules"),
            ("= 3", "is not TOML"),
            ("secrets = [\"A\"]", "it must be a table"),
            ("secrets = { A = 1 }", "`A` must be a text"),
            ("secrets = { A = \"x\" }", "env:NAME or file:PATH"),
            ("secrets = { A = \"command:pass\" }", "env:NAME or file:PATH"),
        ] {
            let error = parse(text, Path::new("c.toml"), Layer::User).expect_err(text);
            assert!(format!("{error:#}").contains(why), "{error:#}");
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

    #[test]
    fn a_rule_that_does_not_parse_is_a_warning() {
        let mut config = Config::default();
        config.set("deny", vec!["fly me", "read x"]);
        assert_eq!(config.rules().len(), 1);
        assert!(config.warnings[0].contains("fly me"));
    }
}
