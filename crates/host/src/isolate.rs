//! A second place that looks like the workspace, for programs that write directly.
//!
//! A tool's changes go through [`Files`](windlass_core::Files), one by one and on the record. A program that is let loose on a tree
//! gets a tree of its own instead, and afterwards there is a list of what it did. This module makes the tree, tells what changed in
//! it and takes it away; what becomes of the changes is for others to decide.
//!
//! The tree is made by copying from the workspace, also where git provides the frame: so it has the very bytes, modes and times of
//! the workspace, committed or not, and no filter or hook that a repository asks for ever runs.

pub(crate) mod clear;
pub(crate) mod copy;
mod git;
pub(crate) mod manifest;
pub(crate) mod tree;

use std::collections::HashSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use windlass_core::{Entry, FileError, FileErrorKind, Note, Visitor, Walk, WalkOptions, quote};

use crate::alter::as_errno;
use crate::kernel::{Lookup, meaning};
use crate::resolver::Resolver;
use crate::walk::walk;
use copy::Selection;
use manifest::Manifest;
use tree::Tree;

/// How a second place is made.
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
    /// A worktree where git can make one, a copy of everything elsewhere.
    #[default]
    Auto,
    /// A worktree of git's at the commit that is checked out, with all that is tracked or neither tracked nor ignored as it is in
    /// the workspace. The workspace must be the top of a repository with a commit.
    GitWorktree,
    /// A copy of the whole tree, ignored files and the repository included.
    Copy,
    /// The same, but for what `.gitignore`, `.ignore`, `.rgignore` and `.aiexclude` hide.
    CopyWithoutIgnored,
}

/// A second place that looks like the workspace. It is gone when this is dropped, unless it is kept.
///
/// ```
/// use windlass_host::{Isolated, IsolatedChangeKind, Isolation};
/// # let ground = tempfile::tempdir()?;
/// # let (workspace, at) = (ground.path().join("workspace"), ground.path().join("second"));
/// # std::fs::create_dir(&workspace)?;
/// std::fs::write(workspace.join("notes.md"), "first")?;
/// let isolated = Isolated::create(&workspace, &at, Isolation::Copy)?;
///
/// // Some program does this:
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
    notes: Vec<Note>,
    /// Where git keeps what it knows about a worktree.
    registration: Option<PathBuf>,
    removable: bool,
}

/// What happened to one object in a second place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolatedChange {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What happened.
    pub kind: IsolatedChangeKind,
}

/// What can happen to an object in a second place. A move is a deletion and a creation.
///
/// ```
/// use windlass_host::IsolatedChangeKind;
/// assert_eq!(IsolatedChangeKind::ModeChanged.to_string(), "changed in mode");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolatedChangeKind {
    /// It was not there.
    Created,
    /// A file has other content, or a link points elsewhere.
    Changed,
    /// Only its permission bits are others.
    ModeChanged,
    /// It is another kind of thing: a file where a directory was, or the like.
    KindChanged,
    /// It is not there any more.
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
    /// Makes a second place `at` a path at which nothing is yet, in a directory that exists.
    pub fn create(workspace: &Path, at: &Path, how: Isolation) -> Result<Self, FileError> {
        let resolver = Resolver::open(workspace, Lookup::available())?;
        let at = std::path::absolute(at).map_err(|why| failed("make", at, &why))?;
        match how {
            Isolation::GitWorktree => Self::by_worktree(&resolver, &at),
            Isolation::Copy => Self::by_copy(&resolver, &at, Isolation::Copy),
            Isolation::CopyWithoutIgnored => {
                Self::by_copy(&resolver, &at, Isolation::CopyWithoutIgnored)
            }
            Isolation::Auto => match Self::by_worktree(&resolver, &at) {
                Ok(isolated) => Ok(isolated),
                // There are many reasons why git cannot, and none why a copy should not be made.
                Err(_) => Self::by_copy(&resolver, &at, Isolation::Copy),
            },
        }
    }

    fn by_worktree(resolver: &Resolver, at: &Path) -> Result<Self, FileError> {
        let repository = git::Repository::find(resolver.workspace())?;
        // Before the worktree is there: it may be inside the workspace.
        let selection = repository.selection()?;
        let workspace = Tree::open(resolver.workspace())?;
        let registration = repository.add_worktree(at)?;
        let mut isolated = Self::begin(workspace, at, Isolation::GitWorktree, Some(registration));
        repository.fill_index(at)?;
        isolated.fill(&selection)?;
        Ok(isolated)
    }

    fn by_copy(resolver: &Resolver, at: &Path, how: Isolation) -> Result<Self, FileError> {
        let selection = match how {
            Isolation::CopyWithoutIgnored => visible(resolver)?,
            _ => Selection::Everything,
        };
        let workspace = Tree::open(resolver.workspace())?;
        let made = std::fs::DirBuilder::new().mode(0o700).create(at);
        made.map_err(|why| failed("make", at, &why))?;
        let mut isolated = Self::begin(workspace, at, how, None);
        isolated.fill(&selection)?;
        Ok(isolated)
    }

    /// From here on it is removed again if anything fails.
    fn begin(workspace: Tree, at: &Path, how: Isolation, registration: Option<PathBuf>) -> Self {
        Self {
            path: at.to_owned(),
            how,
            workspace,
            manifest: Manifest::default(),
            notes: Vec::new(),
            registration,
            removable: true,
        }
    }

    fn fill(&mut self, selection: &Selection) -> Result<(), FileError> {
        self.path =
            std::fs::canonicalize(&self.path).map_err(|why| failed("find", &self.path, &why))?;
        let tree = Tree::open(&self.path)?;
        let copied = copy::copy(&self.workspace, &tree, selection)?;
        self.notes = copied.notes;
        self.manifest = Manifest::of(&tree, copied.sources)?;
        Ok(())
    }

    /// Where it is: absolute, with no link in it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it was made; never [`Isolation::Auto`].
    pub fn how(&self) -> Isolation {
        self.how
    }

    /// What could not be copied, and why: FIFOs, sockets, devices and what we may not read.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// What happened in it since it was made, by path. The repository's own directory is left out.
    ///
    /// A file that was written with the bytes it had is not changed. To tell that, it is held against the workspace's; if that one
    /// has changed too, a file that was written counts as changed.
    pub fn changes(&self) -> Result<Vec<IsolatedChange>, FileError> {
        self.manifest.compare(&Tree::open(&self.path)?, &self.workspace)
    }

    /// Leaves it where it is. A worktree stays known to git.
    #[must_use = "this is where it is"]
    pub fn keep(mut self) -> PathBuf {
        self.removable = false;
        self.path.clone()
    }

    /// Removes it, with all that is in it.
    pub fn remove(mut self) -> Result<(), FileError> {
        self.clear()
    }

    fn clear(&mut self) -> Result<(), FileError> {
        if !std::mem::take(&mut self.removable) {
            return Ok(());
        }
        clear::remove_tree(&self.path).map_err(|why| failed("remove", &self.path, &why))?;
        if let Some(registration) = self.registration.take() {
            git::forget_worktree(&registration, &self.path)
                .map_err(|why| failed("remove", &registration, &why))?;
        }
        Ok(())
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        // Whoever wants to know whether it worked calls `remove`.
        drop(self.clear());
    }
}

/// What a walk shows, and the repository.
fn visible(resolver: &Resolver) -> Result<Selection, FileError> {
    let root = resolver.resolved(resolver.workspace().to_owned(), true);
    let options = WalkOptions {
        max_depth: usize::MAX,
        ignore_files: true,
        version_control: false,
        threads: 0,
        hidden: &|_| false,
        left_out: &|_, _| {},
        cancelled: &|| false,
    };
    let paths = Mutex::new(HashSet::new());
    let report = walk(resolver, &root, &options, &|| Box::new(Collector(&paths)))?;
    // A directory whose rules cannot be read is not shown at all; a copy without it would be no copy.
    if let Some(note) = report.notes.first() {
        let why = format!("{}: {}", quote::path(&note.path), note.why);
        let kind = FileErrorKind::Io(std::io::Error::other(why));
        return Err(FileError::new("copy", resolver.workspace(), kind));
    }
    let paths = paths.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Selection::Only { paths, whole: vec![".git".into()] })
}

struct Collector<'a>(&'a Mutex<HashSet<PathBuf>>);

impl Visitor for Collector<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(entry.path.to_owned());
        Walk::Continue
    }
}

fn failed(doing: &'static str, path: &Path, why: &std::io::Error) -> FileError {
    FileError::new(doing, path, meaning(as_errno(why)))
}
