//! The table of configuration keys.

use windlass::tool::nearest;

/// A configuration key.
#[derive(Debug)]
pub struct Key {
    /// Name of the key in configuration files.
    pub name: &'static str,
    /// Kind of its value.
    pub takes: KeyKind,
    /// Default value, as TOML.
    pub default: &'static str,
    /// Description for people, in one sentence or more.
    pub about: &'static str,
    /// Changes that a workspace's file may make to it.
    pub in_workspace: InWorkspace,
}

/// The kind of value that a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A mode, such as `ask`.
    Mode,
    /// A level of the sandbox, such as `workspace`.
    Level,
    /// A backend of the sandbox, such as `namespaces`.
    Backend,
    /// A program, or a list of a program and its arguments.
    Shell,
    /// Hosts that programs may reach, or `none`, or `full`.
    Hosts,
    /// A whole number, 0 or more.
    Number,
    /// `true` or `false`.
    Switch,
    /// A list of rules.
    Rules,
    /// A list of strings.
    Names,
    /// A table of names and sources of secrets.
    Places,
}

/// Changes that a workspace's own file may make to a key. It can only narrow what the person allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InWorkspace {
    /// No changes.
    Never,
    /// Adds entries to the list.
    Add,
    /// Makes the number smaller.
    Lower,
    /// Chooses a mode that allows less.
    Stricter,
}

/// Every key, in the order of the manual.
pub const KEYS: &[Key] = &[
    Key {
        name: "mode",
        takes: KeyKind::Mode,
        default: "\"ask\"",
        about: "What happens where no rule decides: ask, auto, plan, deny or yolo.",
        in_workspace: InWorkspace::Stricter,
    },
    Key {
        name: "allow",
        takes: KeyKind::Rules,
        default: "[]",
        about: "Rules that allow, such as \"write docs/**\".",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "ask",
        takes: KeyKind::Rules,
        default: "[]",
        about: "Rules that ask, also where the mode would allow.",
        in_workspace: InWorkspace::Add,
    },
    Key {
        name: "deny",
        takes: KeyKind::Rules,
        default: "[]",
        about: "Rules that deny; they win over all others. A rule may be a table with `rule`, `reason` and `until` (a date).",
        in_workspace: InWorkspace::Add,
    },
    Key {
        name: "ask_before",
        takes: KeyKind::Switch,
        default: "false",
        about: "true: in the mode `ask`, a command that may change something asks before it runs. false: where the whole sandbox is there and the network is off, it runs on a copy of the workspace first, and a person is asked whether what it changed is kept.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "provenance",
        takes: KeyKind::Number,
        default: "1",
        about: "1: once a session has read from the web, an MCP server or outside the workspace, what could carry data out asks, whatever the rules allow. 0: it does not.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "budget_calls",
        takes: KeyKind::Number,
        default: "0",
        about: "Calls that a session may make, with those of its sub-agents; 0: any number.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "budget_seconds",
        takes: KeyKind::Number,
        default: "0",
        about: "Seconds that the calls of a session may take in all; 0: any number.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "budget_network_megabytes",
        takes: KeyKind::Number,
        default: "0",
        about: "Megabytes that programs of a session may move through the proxy of `--net HOSTS` in all; 0: any number.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "budget_output_megabytes",
        takes: KeyKind::Number,
        default: "0",
        about: "Megabytes of text that the calls of a session may answer in all; 0: any number.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "budget_repeats",
        takes: KeyKind::Number,
        default: "0",
        about: "How often one call may give one answer while nothing changes: half-way the model is told, then such calls are refused; 0: any number.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "without",
        takes: KeyKind::Names,
        default: "[]",
        about: "Tools that are not offered.",
        in_workspace: InWorkspace::Add,
    },
    Key {
        name: "not_secret",
        takes: KeyKind::Names,
        default: "[]",
        about: "Files that may be read although their names look secret: globs, relative to the workspace or absolute, as in `tests/**/*.pem`.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "secrets",
        takes: KeyKind::Places,
        default: "{}",
        about: "Values that are never shown, by name and where they are: { NAME = \"env:VARIABLE\" } or \"file:/PATH\". A command uses one as {{secret NAME}}.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "sandbox",
        takes: KeyKind::Level,
        default: "\"workspace\"",
        about: "How programs run: off, read-only, workspace, staged (a person is asked about each change) or discard (nothing that they change is kept).",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "sandbox_backend",
        takes: KeyKind::Backend,
        default: "\"namespaces\"",
        about: "What the sandbox is made of: namespaces (the whole of it; where we may make none, bubblewrap is asked for one if it is installed, and where there is none programs are refused), bubblewrap (the same, always with its namespace), landlock (Landlock and a filter of system calls: holds less, and says so) or auto (namespaces, else landlock).",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "net",
        takes: KeyKind::Hosts,
        default: "\"none\"",
        about: "Whom programs can talk to: none, full, or hosts separated by commas.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "shell",
        takes: KeyKind::Shell,
        default: "\"bash\"",
        about: "The shell for commands: its path or name, or a list of it and the arguments before the command, as in [\"/usr/bin/node\", \"-e\"]. Commands are understood if it is bash, sh, dash, ash or busybox without arguments; for any other a command counts as not understood. Hooks are run by bash.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "env",
        takes: KeyKind::Names,
        default: "[]",
        about: "Variables that programs get besides the usual: names to pass on, or \"NAME=value\".",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "pass_through",
        takes: KeyKind::Names,
        default: "[]",
        about: "Names of build directories, besides the usual: if git ignores one, its changes are kept without history.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "hidden",
        takes: KeyKind::Names,
        default: "[]",
        about: "Files and directories that no tool or program may read, as if by a rule `deny read PATH`.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "sockets",
        takes: KeyKind::Names,
        default: "[]",
        about: "Sockets of the machine that programs can connect to (docker, ssh-agent): absolute paths. A program that can talk to one can do what its server does.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "protected",
        takes: KeyKind::Names,
        default: "[]",
        about: "Places of the workspace, besides the usual, that programs cannot change.",
        in_workspace: InWorkspace::Add,
    },
    Key {
        name: "memory_megabytes",
        takes: KeyKind::Number,
        default: "4096",
        about: "Memory that a program may use, with all that it starts.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "processes",
        takes: KeyKind::Number,
        default: "512",
        about: "Processes that a program may start.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "soft_limit",
        takes: KeyKind::Number,
        default: "0",
        about: "Seconds after which a command that still runs goes on as a job; 0: it does not.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "timeout",
        takes: KeyKind::Number,
        default: "600",
        about: "Seconds after which a call is stopped.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "output_bytes",
        takes: KeyKind::Number,
        default: "50000",
        about: "Bytes of text that a model gets of one result; the rest is kept under output:CALL.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "at_once",
        takes: KeyKind::Number,
        default: "10",
        about: "Calls of a session that run at the same time, with those of sessions below it.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "cache_entries",
        takes: KeyKind::Number,
        default: "100",
        about: "Answers that are kept to be served again; 0 switches the cache off.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "cache_seconds",
        takes: KeyKind::Number,
        default: "300",
        about: "How long an answer may be served again.",
        in_workspace: InWorkspace::Lower,
    },
    Key {
        name: "undo_megabytes",
        takes: KeyKind::Number,
        default: "2048",
        about: "How much is kept of what was there before changes; the oldest goes first.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "undo_days",
        takes: KeyKind::Number,
        default: "30",
        about: "How long changes can be undone.",
        in_workspace: InWorkspace::Never,
    },
    Key {
        name: "sync",
        takes: KeyKind::Number,
        default: "1",
        about: "1: a change counts as made when the disk has it. 0: when the kernel has it, which a kill cannot undo but a loss of power can.",
        in_workspace: InWorkspace::Never,
    },
];

/// Error about a name that is not a configuration key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no configuration key `{name}`{}", self.advice())]
pub struct UnknownKey {
    /// The unknown name.
    pub name: String,
    /// The key with the most similar name.
    pub nearest: Option<&'static str>,
}

impl UnknownKey {
    /// Returns the end of the error message: the similar key, or where to find all keys.
    fn advice(&self) -> String {
        match self.nearest {
            Some(near) => format!("; did you mean `{near}`?"),
            None => ": `windlass config show` lists them".to_owned(),
        }
    }
}

/// Returns the key of this name.
///
/// ```
/// assert_eq!(windlass_hub::key("mode")?.default, "\"ask\"");
/// assert_eq!(windlass_hub::key("mod").unwrap_err().nearest, Some("mode"));
/// # Ok::<(), windlass_hub::UnknownKey>(())
/// ```
pub fn key(name: &str) -> Result<&'static Key, UnknownKey> {
    KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
        let nearest = nearest(name, KEYS.iter().map(|key| key.name));
        UnknownKey { name: name.to_owned(), nearest }
    })
}
