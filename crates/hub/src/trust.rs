//! Trust in workspaces: a person trusts the content of all files in a workspace that could act, not its name.
//!
//! Until a workspace is trusted, nothing in it is even parsed: the paths of files alone decide which ones matter, and their hashes
//! decide whether they are trusted. A file acts only with the content that was hashed here, never with a content that was read
//! later. A change of one byte, an added file or a removed file requires trust again, and is named in the request. Until then, the
//! restrictions of the trusted files stay in force, from copies in the state directory.

mod acting_files;
mod contents;
mod held_restrictions;
mod known;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use windlass::changes::ContentHash;
use windlass::files::{FileError, Files};
use windlass::hooks::{
    HookDefinition, HookFile, HookShape, PINNABLE, Pin, named_files, reached_files,
};
use windlass::host::{Host as _, LocalHost};
use windlass::quote;
use windlass::tool::{Author, CommandFile};

pub(crate) use contents::TrustedContents;
pub(crate) use held_restrictions::DenyEveryCall;
pub use known::TrustedWorkspaces;

/// Error: the files of a workspace that need trust cannot be read, or trust cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The workspace cannot be used.
    #[error(transparent)]
    Workspace(#[from] FileError),
    /// A file of the state directory cannot be used.
    #[error("{tried}")]
    State {
        /// The attempt that failed.
        tried: String,
        /// The reason.
        source: io::Error,
    },
}

impl TrustError {
    /// Returns a conversion of I/O errors to errors about the state directory; `tried` describes the attempt.
    fn state(tried: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::State { tried, source }
    }
}

/// Role of a file that could act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActingFileRole {
    /// The configuration of the workspace.
    Config,
    /// A command tool.
    CommandTool,
    /// A file that defines hooks.
    Hooks(HookShape),
    /// A list of MCP servers.
    McpServers,
    /// A part of a skill.
    Skill,
    /// A part of a plugin.
    Plugin,
    /// A script that a hook reaches.
    Script,
}

impl ActingFileRole {
    /// Returns the heading of a group of such files, for people.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Config => "configuration: it may only narrow what is allowed",
            Self::CommandTool => "command tools: each call needs permission to run its command",
            Self::Hooks(_) => {
                "hooks: programs that are told of calls, and can refuse or change them"
            }
            Self::McpServers => "MCP servers: programs that bring tools",
            Self::Skill => "skills: texts that a model may be given, and what they come with",
            Self::Plugin => "plugins",
            Self::Script => {
                "scripts that the hooks name: run only for as long as they stay as they are"
            }
        }
    }

    /// Returns whether this version uses such files.
    fn acts(self) -> bool {
        matches!(self, Self::Config | Self::CommandTool | Self::Hooks(_))
    }
}

/// A file that could act, with its content.
#[derive(Debug)]
pub struct Acting {
    /// Its role.
    pub role: ActingFileRole,
    /// Its path, relative to the workspace.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Acting {
    /// Returns the hash of the content.
    fn hash(&self) -> ContentHash {
        ContentHash::of(&self.bytes)
    }

    /// Returns its content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Returns the file as a possible command tool.
    pub fn to_command_file(&self, workspace: &Path) -> CommandFile {
        CommandFile { path: workspace.join(&self.path), text: self.text() }
    }

    /// Returns the file as a possible hook file; `None` if files of its role have no hooks.
    pub fn to_hook_file(&self) -> Option<HookFile> {
        let shape = match self.role {
            ActingFileRole::Hooks(shape) => shape,
            ActingFileRole::Config => HookShape::Windlass,
            _ => return None,
        };
        let (path, text) = (self.path.clone(), self.text());
        Some(HookFile { path, text, author: Author::Workspace, shape })
    }
}

/// All files in a workspace that could act.
///
/// ```
/// use windlass_hub::trust::{ActingFiles, TrustedWorkspaces};
/// # let folder = tempfile::tempdir().unwrap();
/// # let (workspace, state) = (folder.path().join("work"), folder.path().join("state"));
/// # std::fs::create_dir_all(workspace.join(".windlass")).unwrap();
/// std::fs::write(workspace.join(".windlass/config.toml"), "mode = \"plan\"\n").unwrap();
/// let found = ActingFiles::in_workspace(&workspace)?;
/// assert!(found.acts() && TrustedWorkspaces::load(&state).get(&workspace).is_none());
/// TrustedWorkspaces::trust(&state, &workspace, &found)?;
/// let trusted = TrustedWorkspaces::load(&state).get(&workspace).expect("it is trusted now");
/// assert!(trusted.changes(&workspace, &found)?.is_empty());
/// # Ok::<(), windlass_hub::trust::TrustError>(())
/// ```
#[derive(Debug, Default)]
pub struct ActingFiles {
    /// The files.
    pub files: Vec<Acting>,
    /// Files that define gates, and files that gates reach. Filled by [`Self::add_scripts`].
    gates: BTreeSet<PathBuf>,
    /// Files that the workspace's own hooks reach, and paths at which such a file could appear.
    reached: BTreeSet<PathBuf>,
    /// Paths that hooks name but at which no file exists.
    pub absent: Vec<PathBuf>,
    /// Hooks of the workspace that cannot be pinned.
    pub unaccepted: Vec<Unaccepted>,
    /// Warnings about files that could not be read.
    pub warnings: Vec<String>,
}

impl ActingFiles {
    /// Reads all files of a workspace that could act, except scripts of hooks.
    pub fn in_workspace(workspace: &Path) -> Result<Self, TrustError> {
        if acting_files::has_no_candidates(workspace) {
            return Ok(Self::default());
        }
        let host = LocalHost::open(workspace)?;
        Ok(acting_files::scan(host.files()))
    }

    /// Adds the files of the workspace that hooks reach: hooks of the workspace and of the person. Call it only when a person
    /// reviews the workspace, because it parses the hooks.
    pub fn add_scripts(
        &mut self,
        workspace: &Path,
        persons: &[HookDefinition],
    ) -> Result<(), TrustError> {
        let host = LocalHost::open(workspace)?;
        let own: Vec<HookFile> = self.files.iter().filter_map(Acting::to_hook_file).collect();
        for file in own {
            for (at, hook) in file.read().0.iter().enumerate() {
                self.add_reached(host.files(), at, hook);
            }
        }
        let of_persons = persons.iter().flat_map(|hook| named_by_person(hook, workspace));
        for path in self.reached.iter().cloned().chain(of_persons).collect::<Vec<_>>() {
            if self.absent.contains(&path) || self.files.iter().any(|file| file.path == path) {
                continue;
            }
            match Pin::take(host.files(), &path) {
                Ok((Pin { hash: None, .. }, _)) => self.absent.push(path),
                Ok((_, bytes)) => {
                    self.files.push(Acting { role: ActingFileRole::Script, path, bytes });
                }
                Err(why) => self.warnings.push(format!("not covered: {why}")),
            }
        }
        Ok(())
    }

    /// Adds the files that one hook of the workspace reaches, or the reason why it cannot be pinned.
    fn add_reached(&mut self, files: &dyn Files, at: usize, hook: &HookDefinition) {
        if hook.can_refuse() {
            self.gates.insert(hook.path.clone());
        }
        match reached_files(hook, files) {
            Ok(pins) => {
                let paths = pins.into_iter().map(|pin| pin.path);
                for path in paths {
                    if hook.can_refuse() {
                        self.gates.insert(path.clone());
                    }
                    self.reached.insert(path);
                }
            }
            Err(why) => self.unaccepted.push(Unaccepted {
                file: quoted_path(&hook.path),
                at,
                hook: hook.name.clone(),
                is_gate: hook.can_refuse(),
                why: why.to_string(),
            }),
        }
    }

    /// Returns whether the workspace has any file that this version would use.
    pub fn acts(&self) -> bool {
        self.files.iter().any(|file| file.role.acts())
    }

    /// Returns the hash of each file, by its path in quoted form.
    fn hashes(&self) -> BTreeMap<String, ContentHash> {
        let hash = |file: &Acting| (quoted_path(&file.path), file.hash());
        self.files.iter().map(hash).collect()
    }
}

/// Returns a path in the quoted form in which it is stored.
fn quoted_path(path: &Path) -> String {
    quote::path(path).into_owned()
}

/// A hook of the workspace that cannot be pinned.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Unaccepted {
    /// The file that defines it.
    file: String,
    /// Its index among the hooks of the file.
    at: usize,
    /// Its name.
    pub hook: String,
    /// True if it can refuse. It then refuses everything until it can be pinned.
    pub is_gate: bool,
    /// Reason why it cannot be pinned.
    pub why: String,
}

impl fmt::Display for Unaccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it cannot be pinned: {}; {PINNABLE}", self.why)
    }
}

/// Returns the files of the workspace that a hook of the person names. Only a word with a slash counts as a path here.
fn named_by_person(hook: &HookDefinition, workspace: &Path) -> Vec<PathBuf> {
    let mut named = named_files(&hook.command, workspace);
    let text = hook.command.to_string();
    named.retain(|path| {
        let path = path.to_string_lossy();
        path.contains('/') || text.contains(&format!("/{path}"))
    });
    named
}

/// Pins a hook to the trusted files. A hook of the workspace is pinned to all files that the workspace's hooks reach.
pub(crate) fn pin_hook(hook: &mut HookDefinition, workspace: &Path, trusted: Option<&Trusted>) {
    let paths: Vec<PathBuf> = match (hook.author, trusted) {
        (Author::Workspace, Some(trusted)) => {
            trusted.reached.iter().map(|path| quote::unpath(path)).collect()
        }
        _ => named_by_person(hook, workspace),
    };
    let pin = |path: PathBuf| {
        let hash = trusted.and_then(|trusted| trusted.hash(&path));
        Pin { path, hash }
    };
    hook.pins = paths.into_iter().map(pin).collect();
}

/// Files of one workspace that a person has trusted, with their hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trusted {
    /// Hashes of the files with a role, by path.
    files: BTreeMap<String, ContentHash>,
    /// Hashes of the scripts that hooks reach, by path.
    scripts: BTreeMap<String, ContentHash>,
    /// Paths of files that define gates or that gates reach.
    gates: BTreeSet<String>,
    /// Paths that the workspace's own hooks reach, also those at which no file existed.
    reached: BTreeSet<String>,
    /// Hooks of the workspace that cannot be pinned.
    unaccepted: Vec<Unaccepted>,
}

/// A file that differs from the trusted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its path relative to the workspace, in quoted form.
    pub path: String,
    /// `added`, `changed` or `removed`.
    how: &'static str,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path, self.how)
    }
}

/// Returns the changes in one line.
pub fn listed<'a>(changes: impl IntoIterator<Item = &'a Change>) -> String {
    let changes: Vec<String> = changes.into_iter().map(Change::to_string).collect();
    changes.join(", ")
}

impl Trusted {
    /// Returns the trusted form of the files that were found.
    fn of(found: &ActingFiles) -> Self {
        let is_script = |path: &String| {
            found
                .files
                .iter()
                .any(|file| file.role == ActingFileRole::Script && quoted_path(&file.path) == *path)
        };
        let (scripts, files) = found.hashes().into_iter().partition(|(path, _)| is_script(path));
        let names =
            |paths: &BTreeSet<PathBuf>| paths.iter().map(|path| quoted_path(path)).collect();
        let (gates, reached) = (names(&found.gates), names(&found.reached));
        Self { files, scripts, gates, reached, unaccepted: found.unaccepted.clone() }
    }

    /// Returns the reason why a hook of the workspace cannot be used, found by its file and its index there.
    pub(crate) fn refusal(&self, file: &Path, at: usize) -> Option<&Unaccepted> {
        let file = quoted_path(file);
        self.unaccepted.iter().find(|hook| hook.at == at && hook.file == file)
    }

    /// Returns the trusted hash of a file or script.
    fn hash(&self, path: &Path) -> Option<ContentHash> {
        let name = quoted_path(path);
        self.files.get(&name).or_else(|| self.scripts.get(&name)).copied()
    }

    /// Returns the trusted content of a file; `None` if the file did not exist or its copy is missing.
    pub fn copy(&self, state: &Path, path: &Path) -> Option<Vec<u8>> {
        TrustedContents::in_state(state).get(self.hash(path)?)
    }

    /// Returns the files that differ from the trusted ones, in the order of paths.
    pub fn changes(
        &self,
        workspace: &Path,
        found: &ActingFiles,
    ) -> Result<Vec<Change>, TrustError> {
        let mut now = found.hashes();
        if !self.scripts.is_empty() || !self.reached.is_empty() {
            let host = LocalHost::open(workspace)?;
            for path in self.scripts.keys().chain(&self.reached) {
                if let Ok((Pin { hash: Some(hash), .. }, _)) =
                    Pin::take(host.files(), &quote::unpath(path))
                {
                    now.insert(path.clone(), hash);
                }
            }
        }
        let before = |path: &String| self.files.get(path).or_else(|| self.scripts.get(path));
        let change = |path: &String, how| Change { path: path.clone(), how };
        let mut changes: Vec<Change> = now
            .iter()
            .filter_map(|(path, hash)| match before(path) {
                None => Some(change(path, "added")),
                Some(before) => (before != hash).then(|| change(path, "changed")),
            })
            .collect();
        let all = self.files.keys().chain(self.scripts.keys());
        let gone = all.filter(|path| !now.contains_key(*path));
        changes.extend(gone.map(|path| change(path, "removed")));
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }
}

#[cfg(test)]
mod tests;
