//! Creates an isolated copy of the workspace, for programs that write directly.
//!
//! A tool's changes go through [`Files`](windlass_core::Files), one by one and recorded. A program that writes on its own gets a tree of
//! its own instead, and afterwards a list of its changes. This module creates the tree, finds the changes and removes the tree; the caller
//! decides what becomes of the changes.
//!
//! The tree is copied from the workspace, even where git provides the worktree. So it has the exact bytes, modes and times of the
//! workspace, committed or not, and no filter or hook of a repository ever runs.

pub(crate) mod copy;
mod git;
pub(crate) mod manifest;
pub(crate) mod remove_tree;
pub(crate) mod tree;

use std::collections::HashSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use windlass_core::{
    Entry, FileError, FileErrorKind, SkippedPath, Visitor, Walk, WalkOptions, quote,
};

use crate::alter::as_errno;
use crate::kernel::{Lookup, error_kind};
use crate::resolver::PathResolver;
use crate::walk::walk;
use copy::Selection;
use manifest::Manifest;
use tree::Tree;

/// Way to create an isolated copy.
///
/// `windlass replay` uses [`Isolation::Copy`] and [`Isolation::CopyWithoutIgnored`]. The other two are for programs that embed this crate;
/// no command of Windlass uses them.
///
/// ```
/// use windlass_host::Isolation;
/// let how = if std::env::args().any(|argument| argument == "--everything") {
///     Isolation::Copy
/// } else {
///     Isolation::Auto
/// };
/// assert_eq!(how, Isolation::Auto);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// A [`GitWorktree`](Self::GitWorktree) where git can create one, otherwise a [`Copy`](Self::Copy). The default for a program that
    /// embeds this crate and does not know whether the workspace is a repository.
    #[default]
    Auto,
    /// A git worktree at the checked-out commit, with all tracked files, and files that are neither tracked nor ignored, as they are in the
    /// workspace. For embedding programs whose command commits, or that do not need ignored build output: git commands in it use the
    /// workspace's repository. The workspace must be the top of a repository with a commit.
    GitWorktree,
    /// A copy of the whole tree, ignored files and the repository included.
    Copy,
    /// The same without the files that `.gitignore`, `.ignore`, `.rgignore` and `.aiexclude` hide.
    CopyWithoutIgnored,
}

/// An isolated copy of the workspace. It is removed on drop, unless it is kept.
///
/// ```
/// use windlass_host::{Isolated, IsolatedChangeKind, Isolation};
/// # let ground = tempfile::tempdir()?;
/// # let (workspace, at) = (ground.path().join("workspace"), ground.path().join("second"));
/// # std::fs::create_dir(&workspace)?;
/// std::fs::write(workspace.join("notes.md"), "first")?;
/// let isolated = Isolated::create(&workspace, &at, Isolation::Copy)?;
///
/// // A program writes in the copy:
/// std::fs::write(isolated.path().join("notes.md"), "second")?;
///
/// let changes = isolated.changes()?;
/// assert_eq!(changes.len(), 1);
/// assert_eq!(changes[0].path.to_str(), Some("notes.md"));
/// assert_eq!(changes[0].kind, IsolatedChangeKind::Changed);
/// assert_eq!(std::fs::read_to_string(workspace.join("notes.md"))?, "first");
/// isolated.remove()?;
/// assert!(!at.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Isolated {
    path: PathBuf,
    how: Isolation,
    workspace: Tree,
    manifest: Manifest,
    notes: Vec<SkippedPath>,
    /// Directory in which git keeps its data about the worktree.
    registration: Option<PathBuf>,
    is_removed_on_drop: bool,
}

/// Change of one object in an isolated copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolatedChange {
    /// Path relative to the workspace.
    pub path: PathBuf,
    /// Kind of change.
    pub kind: IsolatedChangeKind,
}

/// Kind of change of an object in an isolated copy. A move is a deletion and a creation.
///
/// ```
/// use windlass_host::IsolatedChangeKind;
/// assert_eq!(IsolatedChangeKind::ModeChanged.to_string(), "changed in mode");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolatedChangeKind {
    /// The object is new.
    Created,
    /// A file has other content, or a link points elsewhere.
    Changed,
    /// Only its permission bits changed.
    ModeChanged,
    /// Its kind changed, for example from a directory to a file.
    KindChanged,
    /// The object is gone.
    Deleted,
}

impl std::fmt::Display for IsolatedChangeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::ModeChanged => "changed in mode",
            Self::KindChanged => "changed in kind",
            Self::Deleted => "deleted",
        })
    }
}

impl Isolated {
    /// Creates an isolated copy at a path where nothing exists, in an existing directory.
    pub fn create(workspace: &Path, at: &Path, how: Isolation) -> Result<Self, FileError> {
        let resolver = PathResolver::open(workspace, Lookup::available())?;
        let at = std::path::absolute(at).map_err(|why| failed("make", at, &why))?;
        match how {
            Isolation::GitWorktree => Self::create_worktree(&resolver, &at),
            Isolation::Copy => Self::create_copy(&resolver, &at, Isolation::Copy),
            Isolation::CopyWithoutIgnored => {
                Self::create_copy(&resolver, &at, Isolation::CopyWithoutIgnored)
            }
            Isolation::Auto => match Self::create_worktree(&resolver, &at) {
                Ok(isolated) => Ok(isolated),
                // Git may fail for many reasons; none of them prevents a copy.
                Err(_) => Self::create_copy(&resolver, &at, Isolation::Copy),
            },
        }
    }

    /// Creates a git worktree and fills it.
    fn create_worktree(resolver: &PathResolver, at: &Path) -> Result<Self, FileError> {
        let repository = git::Repository::find(resolver.workspace())?;
        // Asked before the worktree exists, because it may be inside the workspace.
        let selection = repository.selection()?;
        let workspace = Tree::open(resolver.workspace())?;
        let registration = repository.add_worktree(at)?;
        let mut isolated = Self::wrap(workspace, at, Isolation::GitWorktree, Some(registration));
        repository.fill_index(at)?;
        isolated.copy_selected(&selection)?;
        Ok(isolated)
    }

    /// Creates a directory and copies the selected files into it.
    fn create_copy(resolver: &PathResolver, at: &Path, how: Isolation) -> Result<Self, FileError> {
        let selection = match how {
            Isolation::CopyWithoutIgnored => visible_paths(resolver)?,
            _ => Selection::Everything,
        };
        let workspace = Tree::open(resolver.workspace())?;
        let made = std::fs::DirBuilder::new().mode(0o700).create(at);
        made.map_err(|why| failed("make", at, &why))?;
        let mut isolated = Self::wrap(workspace, at, how, None);
        isolated.copy_selected(&selection)?;
        Ok(isolated)
    }

    /// Wraps an empty copy. From now on it is removed if anything fails.
    fn wrap(workspace: Tree, at: &Path, how: Isolation, registration: Option<PathBuf>) -> Self {
        Self {
            path: at.to_owned(),
            how,
            workspace,
            manifest: Manifest::default(),
            notes: Vec::new(),
            registration,
            is_removed_on_drop: true,
        }
    }

    /// Copies the selected files, and records their state.
    fn copy_selected(&mut self, selection: &Selection) -> Result<(), FileError> {
        self.path =
            std::fs::canonicalize(&self.path).map_err(|why| failed("find", &self.path, &why))?;
        let tree = Tree::open(&self.path)?;
        let copied = copy::copy(&self.workspace, &tree, selection)?;
        self.notes = copied.notes;
        self.manifest = Manifest::record(&tree, copied.sources)?;
        Ok(())
    }

    /// Returns its path: absolute, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the way in which it was created; never [`Isolation::Auto`].
    pub fn how(&self) -> Isolation {
        self.how
    }

    /// Returns the paths that could not be copied, with reasons: FIFOs, sockets, devices and unreadable files.
    pub fn notes(&self) -> &[SkippedPath] {
        &self.notes
    }

    /// Returns the changes in it since it was created, by path. The repository's own directory is left out.
    ///
    /// A file that was written with the same bytes is not changed. To find that out, it is compared with the workspace's file; if that one
    /// has changed too, the written file counts as changed.
    pub fn changes(&self) -> Result<Vec<IsolatedChange>, FileError> {
        self.manifest.compare(&Tree::open(&self.path)?, &self.workspace)
    }

    /// Leaves it in place and returns its path. A worktree stays registered with git.
    #[must_use = "this is the path of the copy"]
    pub fn keep(mut self) -> PathBuf {
        self.is_removed_on_drop = false;
        self.path.clone()
    }

    /// Removes it with everything in it.
    pub fn remove(mut self) -> Result<(), FileError> {
        self.remove_once()
    }

    /// Removes the tree and the registration of the worktree, once.
    fn remove_once(&mut self) -> Result<(), FileError> {
        if !std::mem::take(&mut self.is_removed_on_drop) {
            return Ok(());
        }
        remove_tree::remove_tree(&self.path).map_err(|why| failed("remove", &self.path, &why))?;
        if let Some(registration) = self.registration.take() {
            git::forget_worktree(&registration, &self.path)
                .map_err(|why| failed("remove", &registration, &why))?;
        }
        Ok(())
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        // A caller who needs the error calls `remove`.
        drop(self.remove_once());
    }
}

/// Returns the paths that a walk shows, and the repository.
fn visible_paths(resolver: &PathResolver) -> Result<Selection, FileError> {
    let root = resolver.resolved(resolver.workspace().to_owned(), true);
    let paths = Mutex::new(HashSet::new());
    let report =
        walk(resolver, &root, &WalkOptions::default(), &|| Box::new(PathCollector(&paths)))?;
    // A directory whose ignore rules cannot be read is not shown at all, so the copy would be incomplete.
    if let Some(note) = report.notes.first() {
        let why = format!("{}: {}", quote::path(&note.path), note.why);
        let kind = FileErrorKind::Io(std::io::Error::other(why));
        return Err(FileError::new("copy", resolver.workspace(), kind));
    }
    let paths = paths.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Selection::Only { paths, whole: vec![".git".into()] })
}

/// Visitor that collects all paths.
struct PathCollector<'a>(&'a Mutex<HashSet<PathBuf>>);

impl Visitor for PathCollector<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(entry.path.to_owned());
        Walk::Continue
    }
}

/// Returns an error about a path for an I/O error.
fn failed(doing: &'static str, path: &Path, why: &std::io::Error) -> FileError {
    FileError::new(doing, path, error_kind(as_errno(why)))
}
