//! The table of protected paths: files that other programs execute or obey later.
//!
//! A change to a protected path asks in every mode and with all rules. The sandbox keeps these paths read-only for a program that
//! works on the real directory, and the parts of a workspace that need trust are in them. Names are compared without case. The table
//! knows git directories by the name `.git`; [`git_place`] finds others by examining the tree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::changes::commit;
use crate::{Effects, Files};

/// A row of the table of protected paths.
///
/// ```
/// use windlass_core::{PROTECTED_PLACES, ProtectedScope};
/// let husky = PROTECTED_PLACES.iter().find(|place| place.pattern == ".husky").expect("it is in the table");
/// assert!(husky.is_directory && husky.scope == ProtectedScope::Anywhere);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ProtectedPath {
    /// The path, relative to any directory or to a home directory.
    pub pattern: &'static str,
    /// The directories to which it is relative.
    pub scope: ProtectedScope,
    /// It is a directory and protects everything below it.
    pub is_directory: bool,
    /// The sandbox also prevents its creation, since it takes effect without being trusted first.
    pub when_absent: bool,
    /// The reason to show to people.
    pub reason: &'static str,
}

/// The directories to which the pattern of a row is relative.
///
/// ```
/// use windlass_core::{ProtectedScope, PROTECTED_PLACES};
/// let at_home = PROTECTED_PLACES.iter().filter(|place| place.scope == ProtectedScope::Home);
/// assert!(at_home.clone().any(|place| place.pattern == ".bashrc"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectedScope {
    /// Every directory.
    Anywhere,
    /// A home directory.
    Home,
}

// The reasons of the rows, as people read them.
const HOOKS: &str = "settings and hooks of agents";
const EDITOR: &str = "tasks and settings of an editor";
const OURS: &str = "our configuration";
const SHELL: &str = "a start file of shells";
const STARTED: &str = "programs that start with the session";
/// The reason of everything that git obeys.
pub(crate) const GIT_REASON: &str = "git's hooks and configuration";

/// All protected paths except git directories.
pub const PROTECTED_PLACES: &[ProtectedPath] = &[
    tree(".windlass", OURS).even_absent(),
    file(".mcp.json", OURS).even_absent(),
    file(".aiexclude", "the list of files that are hidden from tools").even_absent(),
    tree(".claude", HOOKS),
    tree(".codex", HOOKS),
    tree(".gemini", HOOKS),
    tree(".cursor", HOOKS),
    tree(".opencode", HOOKS),
    tree(".crush", HOOKS),
    file(".crush.json", HOOKS),
    tree(".qwen", HOOKS),
    tree(".roo", HOOKS),
    tree(".kiro", HOOKS),
    tree(".windsurf", HOOKS),
    tree(".amp", HOOKS),
    file(".hex/settings.json", HOOKS),
    file(".hex/settings.local.json", HOOKS),
    file(".hex/hooks.toml", HOOKS),
    file(".hex/hooks.json", HOOKS),
    tree(".hex/hooks", HOOKS),
    file(".hygge/settings.json", HOOKS),
    file(".hygge/settings.local.json", HOOKS),
    file(".hygge/hooks.toml", HOOKS),
    file(".hygge/hooks.json", HOOKS),
    tree(".hygge/hooks", HOOKS),
    file(".agents/settings.json", HOOKS),
    file(".agents/settings.local.json", HOOKS),
    file(".agents/hooks.toml", HOOKS),
    file(".agents/hooks.json", HOOKS),
    tree(".agents/hooks", HOOKS),
    tree(".husky", "hooks of git"),
    file(".vscode/tasks.json", EDITOR),
    file(".vscode/launch.json", EDITOR),
    file(".vscode/settings.json", EDITOR),
    file(".zed/tasks.json", EDITOR),
    tree(".devcontainer", EDITOR),
    file(".devcontainer.json", EDITOR),
    file(".envrc", "commands that direnv runs"),
    file(".bashrc", SHELL).at_home(),
    file(".bash_profile", SHELL).at_home(),
    file(".bash_login", SHELL).at_home(),
    file(".bash_logout", SHELL).at_home(),
    file(".profile", SHELL).at_home(),
    file(".zshrc", SHELL).at_home(),
    file(".zshenv", SHELL).at_home(),
    file(".zprofile", SHELL).at_home(),
    file(".zlogin", SHELL).at_home(),
    file(".zlogout", SHELL).at_home(),
    file(".kshrc", SHELL).at_home(),
    file(".inputrc", SHELL).at_home(),
    tree(".config/fish", SHELL).at_home(),
    file(".gitconfig", GIT_REASON).at_home(),
    file(".config/git/config", GIT_REASON).at_home(),
    tree(".local/bin", "programs that shells find").at_home(),
    tree(".config/autostart", STARTED).at_home(),
    tree(".config/systemd", STARTED).at_home(),
    file(".pam_environment", STARTED).at_home(),
    file(".xprofile", STARTED).at_home(),
    file(".xinitrc", STARTED).at_home(),
    tree(".ssh", "keys and configuration of SSH").at_home(),
    tree(".config/windlass", OURS).at_home(),
];

/// Makes the row of a file in any directory.
const fn file(pattern: &'static str, reason: &'static str) -> ProtectedPath {
    let scope = ProtectedScope::Anywhere;
    ProtectedPath { pattern, scope, is_directory: false, when_absent: false, reason }
}

/// Makes the row of a directory with everything below it, in any directory.
const fn tree(pattern: &'static str, reason: &'static str) -> ProtectedPath {
    ProtectedPath { is_directory: true, ..file(pattern, reason) }
}

impl ProtectedPath {
    /// Protects the path from being created too.
    const fn even_absent(self) -> Self {
        Self { when_absent: true, ..self }
    }

    /// Restricts the row to home directories, and protects the path from being created too.
    const fn at_home(self) -> Self {
        Self { scope: ProtectedScope::Home, when_absent: true, ..self }
    }

    /// Returns whether the pattern matches the first names, and all of them if the pattern is a file.
    fn matches_start(&self, names: &[&OsStr]) -> bool {
        let mut names = names.iter();
        let is_there = self
            .pattern
            .split('/')
            .all(|part| names.next().is_some_and(|name| name.eq_ignore_ascii_case(part)));
        is_there && (self.is_directory || names.next().is_none())
    }
}

/// Returns the reason why a change to this path always asks, or `None`. Looks at the name alone.
///
/// ```
/// use std::path::PathBuf;
/// use windlass_core::protected_reason;
/// let homes = [PathBuf::from("/home/ada")];
/// let is_protected = |path: &str| protected_reason(path.as_ref(), &homes).is_some();
/// assert!(is_protected("/w/.git/hooks/pre-commit") && is_protected("/w/sub/.envrc"));
/// assert!(is_protected("/home/ada/.bashrc") && !is_protected("/w/.bashrc"));
/// ```
pub fn protected_reason(path: &Path, homes: &[PathBuf]) -> Option<&'static str> {
    table_reason(path, homes).or_else(|| {
        let (_, part) = named_git_place(&normal_components(path))?;
        (part != GitPart::Other).then_some(GIT_REASON)
    })
}

/// Returns the reason for the rows of the table, without git directories.
pub(crate) fn table_reason(path: &Path, homes: &[PathBuf]) -> Option<&'static str> {
    let all = normal_components(path);
    let anywhere =
        || (0..all.len()).find_map(|start| find_row(all.get(start..)?, ProtectedScope::Anywhere));
    let at_home = || {
        let inside = homes.iter().filter_map(|home| path.strip_prefix(home).ok());
        inside
            .into_iter()
            .find_map(|inside| find_row(&normal_components(inside), ProtectedScope::Home))
    };
    anywhere().or_else(at_home).map(|place| place.reason)
}

/// A file or directory of a git directory.
///
/// ```
/// use windlass_core::{GitPart, git_place};
/// let is_git = |directory: &std::path::Path| directory.ends_with("bare");
/// let place = git_place("/w/bare/hooks/update".as_ref(), &is_git).expect("a hook");
/// assert_eq!((place.directory, place.part), ("/w/bare".into(), GitPart::Hook));
/// assert!(git_place("/w/src/hooks/update".as_ref(), &is_git).is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitPath {
    /// The git directory. For a `.git` itself, its path.
    pub directory: PathBuf,
    /// The kind of the file.
    pub part: GitPart,
}

/// The kinds of files in a git directory.
///
/// ```
/// use windlass_core::{GitPart, git_place};
/// let part = |path: &str| git_place(path.as_ref(), &|_| false).map(|place| place.part);
/// assert_eq!(part("/w/.git/config"), Some(GitPart::Config));
/// assert_eq!(part("/w/.git"), Some(GitPart::Pointer));
/// assert_eq!(part("/w/.git/HEAD"), Some(GitPart::Other));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitPart {
    /// `config` or `config.worktree`.
    Config,
    /// The directory `hooks`, or a file in it.
    Hook,
    /// A file that says where a git directory is: `commondir`, `gitdir`, or a `.git` that is a file.
    Pointer,
    /// Any other file.
    Other,
}

/// Finds the git directory that a path belongs to: by the name `.git` and, for file names that git obeys, by calling
/// `is_git_directory` for the directories above.
///
/// ```
/// use windlass_core::{GitPart, git_place};
/// let place = git_place("/w/.git/modules/sub/config".as_ref(), &|_| false).expect("a configuration");
/// assert_eq!(place.part, GitPart::Config);
/// ```
pub fn git_place(path: &Path, is_git_directory: &dyn Fn(&Path) -> bool) -> Option<GitPath> {
    let all = normal_components(path);
    let named = named_git_place(&all);
    let above = |depth: usize| path.ancestors().nth(depth).map(Path::to_owned);
    if let Some((depth, part)) = named.filter(|(_, part)| *part != GitPart::Other) {
        return Some(GitPath { directory: above(depth)?, part });
    }
    // This runs for every change, so it walks the directories above once.
    for (depth, directory) in (1..=all.len()).zip(path.ancestors().skip(1)) {
        let part = git_part(all.get(all.len() - depth..)?);
        if part != GitPart::Other && is_git_directory(directory) {
            return Some(GitPath { directory: directory.to_owned(), part });
        }
    }
    let (depth, part) = named?;
    Some(GitPath { directory: above(depth)?, part })
}

/// Returns whether a directory is a git directory: it has a `HEAD`, and objects and refs or a `commondir`.
pub(crate) fn is_git_directory(directory: &Path, is_there: &dyn Fn(&Path) -> bool) -> bool {
    let has = |name: &str| is_there(&directory.join(name));
    has("HEAD") && ((has("objects") && has("refs")) || has("commondir"))
}

/// Finds the paths that these effects change and that git obeys although no `.git` is in their names. Blocking.
pub(crate) fn unnamed_git_places(effects: &Effects, files: &dyn Files) -> Vec<PathBuf> {
    let changed = effects.iter().filter_map(|effect| Some(&effect.changed_path()?.path));
    let is_there = |path: &Path| files.stat(&commit::recorded_path(files, path)).is_ok();
    let is_git = |directory: &Path| is_git_directory(directory, &is_there);
    let is_obeyed = |path: &&PathBuf| {
        git_place(path, &is_git).is_some_and(|place| place.part != GitPart::Other)
    };
    changed.filter(is_obeyed).cloned().collect()
}

/// Lists the paths that a sandbox keeps read-only in a workspace with these git directories, relative to the workspace. The flag of
/// each says if it is a directory.
///
/// ```
/// use windlass_core::protected_entries;
/// let entries = protected_entries(&[".git".into()], false);
/// assert!(entries.contains(&(".git/hooks".into(), true)));
/// assert!(!entries.contains(&(".bashrc".into(), false)));
/// ```
pub fn protected_entries(git_directories: &[PathBuf], is_home: bool) -> Vec<(PathBuf, bool)> {
    const OBEYED: [(&str, bool); 5] = [
        ("hooks", true),
        ("config", false),
        ("config.worktree", false),
        ("commondir", false),
        ("gitdir", false),
    ];
    let of_git = git_directories.iter().flat_map(|directory| {
        OBEYED.map(|(name, is_directory)| (directory.join(name), is_directory))
    });
    let rows = PROTECTED_PLACES
        .iter()
        .filter(|place| is_home || place.scope == ProtectedScope::Anywhere)
        .map(|place| (PathBuf::from(place.pattern), place.is_directory));
    of_git.chain(rows).collect()
}

/// Returns whether an entry of a directory is a protected path or has one in it, by its name alone.
///
/// ```
/// use windlass_core::begins_protected_place;
/// assert!(begins_protected_place(".envrc".as_ref()) && begins_protected_place(".vscode".as_ref()));
/// assert!(!begins_protected_place(".bashrc".as_ref()), "outside a home directory it is a file like others");
/// ```
pub fn begins_protected_place(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".") && rows_starting_with(name).next().is_some()
}

/// Lists the protected paths that are at or below an entry of a directory.
///
/// ```
/// use windlass_core::protected_beginning_with;
/// let editor = protected_beginning_with("sub/.vscode".as_ref());
/// assert!(editor.contains(&"sub/.vscode/tasks.json".into()));
/// ```
pub fn protected_beginning_with(entry: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (entry.parent(), entry.file_name()) else {
        return Vec::new();
    };
    let path = |place: &ProtectedPath| match place.pattern.split_once('/') {
        Some((_, rest)) => directory.join(name).join(rest),
        None => entry.to_owned(),
    };
    rows_starting_with(name).map(path).collect()
}

/// Iterates over the rows for any directory whose first name is this one.
fn rows_starting_with(name: &OsStr) -> impl Iterator<Item = &'static ProtectedPath> {
    let matches_start = |place: &&ProtectedPath| {
        let first = place.pattern.split('/').next().unwrap_or_default();
        place.scope == ProtectedScope::Anywhere && name.eq_ignore_ascii_case(first)
    };
    PROTECTED_PLACES.iter().filter(matches_start)
}

/// Returns whether an entry of [`protected_entries`] must not be created either. An empty `commondir` would break a repository.
///
/// ```
/// use windlass_core::is_protected_when_absent;
/// assert!(is_protected_when_absent(".git/config".as_ref()));
/// assert!(!is_protected_when_absent(".git/commondir".as_ref()));
/// ```
pub fn is_protected_when_absent(entry: &Path) -> bool {
    let is_row = |place: &ProtectedPath| place.when_absent && Path::new(place.pattern) == entry;
    let part = entry.file_name().map_or(GitPart::Other, |name| git_part(&[name]));
    matches!(part, GitPart::Config | GitPart::Hook) || PROTECTED_PLACES.iter().any(is_row)
}

/// Finds the row of a scope that matches the first names.
fn find_row(names: &[&OsStr], scope: ProtectedScope) -> Option<&'static ProtectedPath> {
    // All patterns begin with a dot, most names do not.
    names.first().filter(|name| name.as_bytes().starts_with(b"."))?;
    PROTECTED_PLACES.iter().find(|place| place.scope == scope && place.matches_start(names))
}

/// A kind of files that git writes for itself and that people do not review one by one.
///
/// ```
/// use windlass_core::{GitRecord, git_record};
/// let record = |path: &'static str| git_record(path.as_ref());
/// assert_eq!(record("/w/.git/objects/ab"), Some(GitRecord::ObjectDirectory));
/// assert_eq!(record(".git/logs/HEAD"), Some(GitRecord::Reference));
/// assert_eq!(record(".git/config"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitRecord {
    /// An object, or a pack of objects with its tables.
    Object,
    /// A directory for objects or packs.
    ObjectDirectory,
    /// The index, a reference or its log.
    Reference,
}

/// Returns the kind of git's own files that a path is in a `.git` directory. Returns `None` for files that git obeys, such as its
/// configuration, and for files among its objects whose names git would not give.
///
/// ```
/// use windlass_core::{GitRecord, git_record};
/// let record = |path: &'static str| git_record(path.as_ref());
/// let pack = "/w/.git/objects/pack/pack-4b825dc642cb6eb9a060e54bf8d69288fbee4904.idx";
/// assert_eq!(record(pack), Some(GitRecord::Object));
/// assert_eq!(record("/w/.git/objects/ab/run.sh"), None, "no object has such a name");
/// assert_eq!(record("/w/.git/objects/info/alternates"), None, "it says where git looks for objects");
/// ```
pub fn git_record(path: &Path) -> Option<GitRecord> {
    const REFERENCES: &[&str] = &[
        "refs",
        "logs",
        "index",
        "HEAD",
        "ORIG_HEAD",
        "FETCH_HEAD",
        "packed-refs",
        "COMMIT_EDITMSG",
    ];
    let mut inside = path.iter().skip_while(|part| *part != ".git").skip(1);
    let first = inside.next()?;
    if first == "objects" {
        return object_record(inside.next()?, inside.next(), inside.next().is_some());
    }
    REFERENCES.iter().any(|name| first == *name).then_some(GitRecord::Reference)
}

/// Returns the kind of a file or directory below `objects`. Others than objects, such as `info/alternates`, say where git looks for
/// objects, or are no business of git.
fn object_record(directory: &OsStr, name: Option<&OsStr>, is_deeper: bool) -> Option<GitRecord> {
    let is_loose = is_hex(directory.as_bytes(), &[2]);
    if is_deeper || !(is_loose || directory == "pack") {
        return None;
    }
    let Some(name) = name else { return Some(GitRecord::ObjectDirectory) };
    // The directory has the first two digits of a hash with SHA-1 or SHA-256.
    let is_object =
        if is_loose { is_hex(name.as_bytes(), &[38, 62]) } else { is_pack(name.as_bytes()) };
    is_object.then_some(GitRecord::Object)
}

/// Returns whether a file has the name of a pack or of one of its tables: `pack-HASH.idx`.
fn is_pack(name: &[u8]) -> bool {
    const ENDINGS: [&[u8]; 5] = [b"pack", b"idx", b"rev", b"bitmap", b"mtimes"];
    let Some(rest) = name.strip_prefix(b"pack-") else { return false };
    let mut parts = rest.splitn(2, |byte| *byte == b'.');
    parts.next().is_some_and(|hash| is_hex(hash, &[40, 64]))
        && parts.next().is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Returns whether a name consists of hexadecimal digits as git writes them, and has one of these lengths.
fn is_hex(name: &[u8], lengths: &[usize]) -> bool {
    lengths.contains(&name.len()) && name.iter().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

/// Splits a path into its normal components.
fn normal_components(path: &Path) -> Vec<&OsStr> {
    let name = |part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

/// Classifies a path below its innermost `.git`. Returns the number of names below the git directory, and the kind of the file.
fn named_git_place(names: &[&OsStr]) -> Option<(usize, GitPart)> {
    let at = names.iter().rposition(|name| name.eq_ignore_ascii_case(".git"))?;
    let inside = names.get(at + 1..)?;
    if inside.is_empty() {
        return Some((0, GitPart::Pointer));
    }
    let [first, below @ ..] = inside else { return None };
    let has_nested = ["modules", "worktrees"].iter().any(|name| first.eq_ignore_ascii_case(name));
    let nested =
        below.len().checked_sub(1).filter(|_| has_nested).and_then(|_| nested_git_place(below));
    Some(nested.unwrap_or((inside.len(), git_part(inside))))
}

/// Does the same below `modules` or `worktrees`. Names of modules may contain slashes, and so may names of branches: `hooks/a`.
fn nested_git_place(names: &[&OsStr]) -> Option<(usize, GitPart)> {
    for start in 1..names.len() {
        let is_refs =
            |name: &&OsStr| ["refs", "logs"].iter().any(|refs| name.eq_ignore_ascii_case(refs));
        if names.get(start).is_some_and(is_refs) {
            return None;
        }
        let tail = names.get(start..)?;
        let part = git_part(tail);
        if part != GitPart::Other {
            return Some((tail.len(), part));
        }
    }
    None
}

/// Classifies a path relative to a git directory.
fn git_part(tail: &[&OsStr]) -> GitPart {
    let is =
        |name: &OsStr, known: &[&str]| known.iter().any(|known| name.eq_ignore_ascii_case(known));
    match tail {
        [name] if is(name, &["config", "config.worktree"]) => GitPart::Config,
        [name] if is(name, &["commondir", "gitdir"]) => GitPart::Pointer,
        [name, ..] if is(name, &["hooks"]) => GitPart::Hook,
        _ => GitPart::Other,
    }
}

#[cfg(test)]
mod tests;
