//! The effects of one call, as data.
//!
//! Effects are not a promise but a ration: permission, scheduling, caching, undo, the sandbox profile and the audit record are all
//! derived from them, and the doors of the [`Context`](crate::Context) open for nothing else.

mod command;

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

pub use command::{
    CommandLine, CommandRisk, CommandSearch, OnlyReads, SimpleCommand, program_name,
};
use serde::{Deserialize, Serialize};

use crate::quote::visible;

/// One thing that a call needs, such as to read a path or to run a command.
///
/// ```
/// use windlass_core::{Effect, Effects};
/// let effects = Effects::read("src").and(Effect::State("todo".into()));
/// assert_eq!(effects.to_string(), "read src, state todo");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Read files.
    Read(PathPattern),
    /// Create or change files.
    Write(PathPattern),
    /// Remove files.
    Delete(PathPattern),
    /// Run a program.
    Exec(CommandLine),
    /// Send requests to a host on the network.
    Net {
        /// Scheme, host and port, such as `https://docs.rs:443`.
        origin: String,
        /// The HTTP method, or `CONNECT`.
        method: String,
    },
    /// Use a secret by its name. Its value never passes through the model.
    Secret(String),
    /// Ask a person.
    Ask,
    /// Start a sub-agent.
    Agent(String),
    /// Call a tool of an MCP server.
    Mcp {
        /// The server's name in the configuration.
        server: String,
        /// The tool's name on that server.
        tool: String,
    },
    /// Run a plugin.
    Plugin(String),
    /// Use the session's own state: todo list, memory, kept outputs.
    State(String),
}

/// The files that an effect applies to.
///
/// ```
/// use windlass_core::PathPattern;
/// let tree = PathPattern::tree("/w/src");
/// assert!(tree.covers("/w/src/lib.rs".as_ref()));
/// assert!(!tree.covers("/w/src2".as_ref()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPattern {
    /// The path as the model wrote it; absolute and resolved after the effects stage.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// The extent: the path alone, or everything below it too.
    pub reach: Reach,
}

/// The extent of a [`PathPattern`].
///
/// ```
/// use windlass_core::{PathPattern, Reach};
/// assert_eq!(PathPattern::file("a").reach, Reach::Exact);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// This very file or directory. A link stands for its target.
    Exact,
    /// The directory entry of this name. A link stands for itself.
    Entry,
    /// A directory and everything below it.
    Tree,
}

impl PathPattern {
    /// Makes the pattern of one file. A link stands for its target.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), reach: Reach::Exact }
    }

    /// Makes the pattern of one directory entry. A link stands for itself.
    pub fn entry(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), reach: Reach::Entry }
    }

    /// Makes the pattern of a directory and everything below it.
    pub fn tree(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), reach: Reach::Tree }
    }

    /// Returns whether the pattern matches `path`. Both paths must be absolute and normal.
    pub fn covers(&self, path: &Path) -> bool {
        match self.reach {
            Reach::Exact | Reach::Entry => self.path == path,
            Reach::Tree => path.starts_with(&self.path),
        }
    }

    /// Returns whether one path is equal to the other or below it, so that an effect on one could matter to the other. A file and a
    /// path below a directory of the same name overlap too, since only one of the two can exist.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.path.starts_with(&other.path) || other.path.starts_with(&self.path)
    }
}

/// All effects of one call.
///
/// ```
/// use windlass_core::Effects;
/// let a = Effects::read("/w/a.txt");
/// let b = Effects::write("/w/a.txt");
/// assert!(!a.conflicts(&a), "two reads run together");
/// assert!(a.conflicts(&b), "a read and a write of one file do not");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Effects(Vec<Effect>);

impl Effects {
    /// Makes the effects of a call that only computes: none.
    pub fn none() -> Self {
        Self::default()
    }

    /// Makes the effect of reading one file.
    pub fn read(path: impl Into<PathBuf>) -> Self {
        Effect::Read(PathPattern::file(path)).into()
    }

    /// Makes the effect of reading a directory and everything below it.
    pub fn read_tree(path: impl Into<PathBuf>) -> Self {
        Effect::Read(PathPattern::tree(path)).into()
    }

    /// Makes the effect of creating or changing one file.
    pub fn write(path: impl Into<PathBuf>) -> Self {
        Effect::Write(PathPattern::file(path)).into()
    }

    /// Makes the effect of removing one file.
    pub fn delete(path: impl Into<PathBuf>) -> Self {
        Effect::Delete(PathPattern::file(path)).into()
    }

    /// Makes the effect of using a part of the session's state.
    pub fn state(key: impl Into<String>) -> Self {
        Effect::State(key.into()).into()
    }

    /// Adds an effect.
    #[must_use]
    pub fn and(mut self, effect: Effect) -> Self {
        self.0.push(effect);
        self
    }

    /// Iterates over the effects in the order of declaration.
    pub fn iter(&self) -> std::slice::Iter<'_, Effect> {
        self.0.iter()
    }

    /// Returns whether the call has no effects.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the shell of the first command that runs in another shell than bash.
    pub fn shell(&self) -> Option<&str> {
        self.iter().find_map(|effect| match effect {
            Effect::Exec(command) => command.shell.as_deref(),
            _ => None,
        })
    }

    /// Returns the set of kinds that occur.
    pub fn kinds(&self) -> EffectKinds {
        self.0.iter().fold(EffectKinds::NONE, |kinds, effect| kinds | effect.kind())
    }

    /// Returns whether all effects are reads of files, so that the same files give the same result.
    pub fn only_reads(&self) -> bool {
        EffectKinds::READ.contains(self.kinds())
    }

    /// Returns whether the order of the two calls could matter. Such calls must not run at the same time.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.0.iter().any(|a| other.0.iter().any(|b| a.conflicts(b)))
    }

    /// Replaces every path by the result of `resolve`. Stops at the first error.
    pub(crate) fn try_map_paths<E>(
        mut self,
        mut resolve: impl FnMut(PathPattern, EffectKinds) -> Result<PathPattern, E>,
    ) -> Result<Self, E> {
        for effect in &mut self.0 {
            let kind = effect.kind();
            let patterns: Vec<&mut PathPattern> = match effect {
                Effect::Read(pattern) | Effect::Write(pattern) | Effect::Delete(pattern) => {
                    vec![pattern]
                }
                Effect::Exec(command) => command.patterns_mut().collect(),
                Effect::Net { .. }
                | Effect::Secret(_)
                | Effect::Ask
                | Effect::Agent(_)
                | Effect::Mcp { .. }
                | Effect::Plugin(_)
                | Effect::State(_) => continue,
            };
            for pattern in patterns {
                let taken = std::mem::replace(pattern, PathPattern::file(PathBuf::new()));
                *pattern = resolve(taken, kind)?;
            }
        }
        Ok(self)
    }
}

impl From<Effect> for Effects {
    fn from(effect: Effect) -> Self {
        Self(vec![effect])
    }
}

impl FromIterator<Effect> for Effects {
    fn from_iter<I: IntoIterator<Item = Effect>>(effects: I) -> Self {
        Self(effects.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Effects {
    type Item = &'a Effect;
    type IntoIter = std::slice::Iter<'a, Effect>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, effect) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{effect}")?;
        }
        Ok(())
    }
}

impl Effect {
    /// Returns the kind of this effect.
    pub fn kind(&self) -> EffectKinds {
        match self {
            Self::Read(_) => EffectKinds::READ,
            Self::Write(_) => EffectKinds::WRITE,
            Self::Delete(_) => EffectKinds::DELETE,
            Self::Exec(_) => EffectKinds::EXEC,
            Self::Net { .. } => EffectKinds::NET,
            Self::Secret(_) => EffectKinds::SECRET,
            Self::Ask => EffectKinds::ASK,
            Self::Agent(_) => EffectKinds::AGENT,
            Self::Mcp { .. } => EffectKinds::MCP,
            Self::Plugin(_) => EffectKinds::PLUGIN,
            Self::State(_) => EffectKinds::STATE,
        }
    }

    /// Returns the path of a read, write or deletion.
    pub fn path(&self) -> Option<&PathPattern> {
        match self {
            Self::Read(at) | Self::Write(at) | Self::Delete(at) => Some(at),
            Self::Exec(_)
            | Self::Net { .. }
            | Self::Secret(_)
            | Self::Ask
            | Self::Agent(_)
            | Self::Mcp { .. }
            | Self::Plugin(_)
            | Self::State(_) => None,
        }
    }

    /// Returns the path of a write or deletion.
    pub fn changed_path(&self) -> Option<&PathPattern> {
        self.path().filter(|_| !matches!(self, Self::Read(_)))
    }

    /// Returns the resource that this effect uses, as far as the order of calls depends on it.
    pub(crate) fn footprint(&self) -> Footprint<'_> {
        match self {
            Self::Read(at) => Footprint::Files { at, changes: false },
            Self::Write(at) | Self::Delete(at) => Footprint::Files { at, changes: true },
            Self::Exec(command) => Footprint::Workspace { only_reads: command.only_reads() },
            Self::Plugin(_) | Self::Mcp { .. } => Footprint::Workspace { only_reads: false },
            Self::State(key) => Footprint::State(key),
            Self::Ask => Footprint::Person,
            // The other side orders requests; a sub-agent's calls are ordered one by one.
            Self::Net { .. } | Self::Secret(_) | Self::Agent(_) => Footprint::None,
        }
    }

    /// Returns whether the order of the two effects could matter.
    ///
    /// A process, a plugin or a remote tool may touch any file of the workspace, so it conflicts with every file effect and with its
    /// own kind. A command that only reads conflicts with nothing that only reads. Network requests do not conflict: the other side
    /// orders them. An undo depends on which change is the last, so it conflicts with all that changes files.
    pub fn conflicts(&self, other: &Self) -> bool {
        use Footprint::{Files, None, Person, State, Workspace};
        match (self.footprint(), other.footprint()) {
            (Files { at: a, changes: one }, Files { at: b, changes: two }) => {
                (one || two) && a.overlaps(b)
            }
            (Workspace { only_reads: one }, Workspace { only_reads: two }) => !(one && two),
            (Workspace { only_reads }, Files { changes, .. })
            | (Files { changes, .. }, Workspace { only_reads }) => changes || !only_reads,
            (State(a), State(b)) => a == b,
            (State(key), Files { changes, .. }) | (Files { changes, .. }, State(key)) => {
                changes && key == UNDO_STATE
            }
            (State(key), Workspace { .. }) | (Workspace { .. }, State(key)) => key == UNDO_STATE,
            (Person, Person) => true,
            (None, _)
            | (_, None)
            | (Person, Files { .. } | Workspace { .. } | State(_))
            | (Files { .. } | Workspace { .. } | State(_), Person) => false,
        }
    }
}

/// The resource that an effect uses and that calls share.
#[derive(Clone, Copy)]
pub(crate) enum Footprint<'a> {
    /// The files that a pattern matches.
    Files { at: &'a PathPattern, changes: bool },
    /// Any file of the workspace.
    Workspace { only_reads: bool },
    /// The entry of the session's state with this key.
    State(&'a str),
    /// The person.
    Person,
    /// Nothing that calls share.
    None,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind().name();
        match self {
            Self::Read(pattern) | Self::Write(pattern) | Self::Delete(pattern) => {
                write!(f, "{name} {}", crate::quote::path(&pattern.path))?;
                match pattern.reach {
                    Reach::Exact | Reach::Entry => Ok(()),
                    Reach::Tree => f.write_str("/**"),
                }
            }
            Self::Exec(command) => {
                write!(f, "{name} {}", visible(&command.text))?;
                match &command.shell {
                    Some(shell) => write!(f, " (in {})", visible(shell)),
                    None => Ok(()),
                }
            }
            Self::Net { origin, method } => {
                write!(f, "{name} {} {}", visible(method), visible(origin))
            }
            Self::Ask => f.write_str(name),
            Self::Mcp { server, tool } => {
                write!(f, "{name} {}/{}", visible(server), visible(tool))
            }
            Self::Secret(what) | Self::Agent(what) | Self::Plugin(what) | Self::State(what) => {
                write!(f, "{name} {}", visible(what))
            }
        }
    }
}

/// A set of kinds of effects. A tool declares the kinds that its calls can have at most.
///
/// ```
/// use windlass_core::EffectKinds;
/// let kinds = EffectKinds::READ | EffectKinds::STATE;
/// assert!(kinds.contains(EffectKinds::READ));
/// assert!(!kinds.contains(EffectKinds::WRITE));
/// assert_eq!(kinds.names(), ["read", "state"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectKinds(u16);

impl EffectKinds {
    /// No effects at all.
    pub const NONE: Self = Self(0);
    /// [`Effect::Read`].
    pub const READ: Self = Self(1);
    /// [`Effect::Write`].
    pub const WRITE: Self = Self(1 << 1);
    /// [`Effect::Delete`].
    pub const DELETE: Self = Self(1 << 2);
    /// [`Effect::Exec`].
    pub const EXEC: Self = Self(1 << 3);
    /// [`Effect::Net`].
    pub const NET: Self = Self(1 << 4);
    /// [`Effect::Secret`].
    pub const SECRET: Self = Self(1 << 5);
    /// [`Effect::Ask`].
    pub const ASK: Self = Self(1 << 6);
    /// [`Effect::Agent`].
    pub const AGENT: Self = Self(1 << 7);
    /// [`Effect::Mcp`].
    pub const MCP: Self = Self(1 << 8);
    /// [`Effect::Plugin`].
    pub const PLUGIN: Self = Self(1 << 9);
    /// [`Effect::State`].
    pub const STATE: Self = Self(1 << 10);
    /// All kinds.
    pub const ALL: Self = Self((1 << 11) - 1);

    const NAMES: [&'static str; 11] = [
        "read", "write", "delete", "exec", "net", "secret", "ask", "agent", "mcp", "plugin",
        "state",
    ];

    /// Returns the union of both sets. For constants, where `|` cannot be used.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether any of `other` is in this set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the names of the kinds, as rules spell them.
    pub fn names(self) -> Vec<&'static str> {
        (0..Self::NAMES.len())
            .filter(|at| self.0 & (1 << at) != 0)
            .map(|at| Self::NAMES[at])
            .collect()
    }

    /// Returns the kind with this name.
    ///
    /// ```
    /// use windlass_core::EffectKinds;
    /// assert_eq!((EffectKinds::named("exec"), EffectKinds::named("fly")), (Some(EffectKinds::EXEC), None));
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|at| Self(1 << at))
    }

    /// Returns the name of the lowest kind in the set, or `none` for an empty set.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.get(self.0.trailing_zeros() as usize).copied().unwrap_or("none")
    }

    /// Returns whether calls of these kinds can have effects outside of their result. The journal must hold the start of such a call
    /// before it begins.
    pub const fn has_side_effects(self) -> bool {
        !Self(Self::READ.0 | Self::STATE.0 | Self::ASK.0).contains(self)
    }
}

impl std::ops::BitOr for EffectKinds {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

/// The key of [`Effect::State`] for calls that undo changes.
pub(crate) const UNDO_STATE: &str = "undo";

/// Removes `.` and `..` from a path by its text alone. A first step only: the host's resolver decides where a path leads.
///
/// ```
/// use windlass_core::normalize;
/// assert_eq!(normalize("/w/a/../b/./c".as_ref()), std::path::Path::new("/w/b/c"));
/// ```
pub fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::with_capacity(path.as_os_str().len());
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// Returns whether a resolved path is a directory or below it. Compares the bytes first, since that decides most cases without
/// splitting the paths.
pub(crate) fn is_within(path: &Path, directory: &Path) -> bool {
    let rest = path.as_os_str().as_bytes().strip_prefix(directory.as_os_str().as_bytes());
    matches!(rest, Some([] | [b'/', ..])) || path.starts_with(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_within_its_directories_only() {
        for (path, directory, within) in [
            ("/w", "/w", true),
            ("/w/a/b", "/w", true),
            ("/w/a", "/w/", true),
            ("/w/a", "/", true),
            ("/w//a", "/w/a", true),
            ("/wa", "/w", false),
            ("/w", "/w/a", false),
        ] {
            assert_eq!(is_within(path.as_ref(), directory.as_ref()), within, "{path} {directory}");
        }
    }

    #[test]
    fn effects_on_the_same_thing_conflict() {
        let read = |path: &str| Effects::read(path);
        let write = |path: &str| Effects::write(path);
        let exec = || Effects::from(Effect::Exec(CommandLine::words(["ls"])));
        let only_reads = || {
            let ls = SimpleCommand::new(["ls"]).reading(OnlyReads::Always);
            Effects::from(Effect::Exec(CommandLine::understood("ls", [ls])))
        };
        let net =
            || Effects::from(Effect::Net { origin: "https://a".into(), method: "GET".into() });
        for (a, b, conflict) in [
            (read("/a"), read("/a"), false),
            (read("/a"), write("/a"), true),
            (write("/a"), write("/b"), false),
            (write("/a"), write("/a"), true),
            (Effects::read_tree("/w"), write("/w/x/y"), true),
            (Effects::read_tree("/w"), write("/w2"), false),
            (exec(), read("/a"), true),
            (exec(), exec(), true),
            (only_reads(), read("/a"), false),
            (only_reads(), only_reads(), false),
            (only_reads(), exec(), true),
            (only_reads(), write("/a"), true),
            (net(), net(), false),
            (net(), write("/a"), false),
            (Effects::state("todo"), Effects::state("todo"), true),
            (Effects::state("todo"), Effects::state("memory"), false),
            (Effects::none(), exec(), false),
            (Effects::state("undo"), write("/a"), true),
            (Effects::state("undo"), exec(), true),
            (Effects::state("undo"), read("/a"), false),
            (Effects::state("todo"), write("/a"), false),
        ] {
            assert_eq!(a.conflicts(&b), conflict, "{a} | {b}");
            assert_eq!(b.conflicts(&a), conflict, "{b} | {a}");
        }
    }
}
