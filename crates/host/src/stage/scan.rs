//! What was in the workspace at one moment, and what is different at another: for programs that work on it without a stage.
//!
//! By stamps, not by content: ten thousand files take some milliseconds, and nothing is read. So what was there cannot be brought
//! back, and a file that was written with the bytes it had counts as changed.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{Attributes, ChangedTo, FileKind, Fingerprint, ProcessChange, Stat};

use super::entries::Entries;
use super::found::by_bytes;
use crate::isolate::copy::link_target;
use crate::isolate::tree::Tree;
use crate::kernel::{NAME_ONLY, descriptor_path, stat_child};

/// What a repository holds many of and never changes.
const LEFT_OUT: [&[u8]; 2] = [b"objects", b"lfs"];

/// What was in a workspace at one moment.
///
/// ```
/// use windlass_host::Scan;
/// # let ground = tempfile::tempdir()?;
/// # let workspace = ground.path();
/// let before = Scan::of(workspace, &[])?;
/// // A program does this:
/// std::fs::write(workspace.join("new.txt"), "hello")?;
///
/// let changes = before.difference(&Scan::of(workspace, &[])?);
/// assert_eq!(changes.len(), 1);
/// assert_eq!(changes[0].path, workspace.join("new.txt"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Scan {
    workspace: PathBuf,
    /// By the bytes of their relative paths.
    things: Vec<(PathBuf, Thing)>,
}

#[derive(Debug)]
struct Thing {
    kind: FileKind,
    mode: u32,
    fingerprint: Fingerprint,
    /// Where a link points to.
    target: Option<PathBuf>,
}

impl Scan {
    /// Looks at everything in a workspace, but for the directories told and the objects of repositories.
    pub fn of(workspace: &Path, exclude: &[PathBuf]) -> io::Result<Self> {
        Self::look(workspace, exclude, false)
    }

    /// The same after a program has run. A directory of ours that its mode keeps from being listed is opened: the program could
    /// have hidden something in it.
    pub(crate) fn after(workspace: &Path, exclude: &[PathBuf]) -> io::Result<Self> {
        Self::look(workspace, exclude, true)
    }

    fn look(workspace: &Path, exclude: &[PathBuf], opens: bool) -> io::Result<Self> {
        let tree = Tree::open(workspace).map_err(io::Error::other)?;
        let inside = |path: &'_ PathBuf| path.strip_prefix(workspace).unwrap_or(path).to_owned();
        let mut scanner = Scanner {
            tree: &tree,
            exclude: exclude.iter().map(inside).collect(),
            opens,
            entries: Entries::new(),
            waiting: vec![PathBuf::new()],
            things: Vec::new(),
        };
        while let Some(path) = scanner.waiting.pop() {
            scanner
                .scan(&path)
                .map_err(|errno| io::Error::other(tree.failed("list", &path, errno)))?;
        }
        let mut things = scanner.things;
        things.sort_unstable_by(|(one, _), (other, _)| by_bytes(one, other));
        Ok(Self { workspace: workspace.to_owned(), things })
    }

    /// How many things were seen.
    pub fn len(&self) -> usize {
        self.things.len()
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// What is different later: first what is gone, what is in a directory before it; then the rest, the other way round.
    pub fn difference(&self, later: &Self) -> Vec<ProcessChange> {
        let mut gone = Vec::new();
        let mut made = Vec::new();
        let (mut before, mut now) = (self.things.iter().peekable(), later.things.iter().peekable());
        loop {
            let order = match (before.peek(), now.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((one, _)), Some((other, _))) => by_bytes(one, other),
            };
            let old = if order.is_le() { before.next() } else { None };
            let new = if order.is_ge() { now.next() } else { None };
            let change = |path: &Path, to| ProcessChange {
                path: self.workspace.join(path),
                before: old.map(|(_, thing)| thing.fingerprint),
                to,
            };
            match (old, new) {
                (Some((path, _)), None) => gone.push(change(path, ChangedTo::Nothing)),
                (None, Some((path, thing))) => made.push(change(path, thing.as_new())),
                (Some((_, old)), Some((path, thing))) => {
                    made.extend(thing.compared_with(old).map(|to| change(path, to)));
                }
                (None, None) => {}
            }
        }
        gone.reverse();
        gone.append(&mut made);
        gone
    }
}

impl Thing {
    fn of(stat: Stat, target: Option<PathBuf>) -> Self {
        Self { kind: stat.kind, mode: stat.mode, fingerprint: stat.fingerprint, target }
    }

    fn as_new(&self) -> ChangedTo {
        let mode = Some(self.mode);
        match (self.kind, &self.target) {
            (FileKind::Directory, _) => {
                ChangedTo::Directory(Attributes { mode, ..Attributes::default() })
            }
            (FileKind::Symlink, Some(target)) => {
                ChangedTo::Symlink(target.clone(), Attributes::default())
            }
            _ => {
                let modified = Some(self.fingerprint.modified);
                let attributes = Attributes { mode, modified, ..Attributes::default() };
                ChangedTo::File(PathBuf::new(), attributes)
            }
        }
    }

    /// What became of it; `None` if nothing did.
    fn compared_with(&self, before: &Self) -> Option<ChangedTo> {
        if self.kind != before.kind {
            return Some(self.as_new());
        }
        let other_mode = (self.mode != before.mode).then_some(self.mode);
        let attributes = || {
            let attributes = Attributes { mode: Some(self.mode), ..Attributes::default() };
            Some(ChangedTo::Attributes(attributes))
        };
        match self.kind {
            FileKind::Directory => other_mode.and_then(|_| attributes()),
            FileKind::Symlink => (self.target != before.target).then(|| self.as_new()),
            _ if self.fingerprint == before.fingerprint => None,
            // Its mode, its names, or what is attached to it.
            _ if self.has_same_stamp(before) => attributes(),
            _ => Some(self.as_new()),
        }
    }

    /// Whether it is the same file with content that nobody seems to have written to.
    fn has_same_stamp(&self, before: &Self) -> bool {
        let (now, before) = (&self.fingerprint, &before.fingerprint);
        now.is_same_object(before) && now.len == before.len && now.modified == before.modified
    }
}

struct Scanner<'a> {
    tree: &'a Tree,
    /// Relative to the workspace.
    exclude: HashSet<PathBuf>,
    /// Directories that cannot be listed are opened.
    opens: bool,
    entries: Entries,
    waiting: Vec<PathBuf>,
    things: Vec<(PathBuf, Thing)>,
}

impl Scanner<'_> {
    /// Lets the owner of a directory list it, and opens it.
    fn open_up(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let named = self.tree.at(path, NAME_ONLY | OFlags::DIRECTORY)?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&named)?.st_mode & 0o7777);
        rustix::fs::chmod(descriptor_path(&named), mode | Mode::RWXU)?;
        self.tree.directory(path)
    }

    fn scan(&mut self, path: &Path) -> Result<(), Errno> {
        let opened = match self.tree.directory(path) {
            Err(Errno::ACCESS) if self.opens => self.open_up(path),
            opened => opened,
        };
        let directory = match opened {
            // It went away while we looked, or nobody but its owner may look.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(()),
            opened => opened?,
        };
        let mut directories = Vec::new();
        let mut is_repository = false;
        let (things, exclude) = (&mut self.things, &self.exclude);
        self.entries.each(directory.as_fd(), |name, kind| {
            is_repository |= name == "HEAD";
            if !matches!(kind, FileKind::File | FileKind::Symlink | FileKind::Directory) {
                return;
            }
            let path = path.join(name);
            if kind == FileKind::Directory {
                if !exclude.contains(&path) {
                    directories.push(path);
                }
                return;
            }
            // What cannot be looked at went away meanwhile.
            let Ok(stat) = stat_child(&directory, name) else { return };
            let target = match stat.kind {
                FileKind::Symlink => link_target(&directory, name).ok(),
                _ => None,
            };
            things.push((path, Thing::of(stat, target)));
        })?;
        is_repository &= path.components().any(|part| part.as_os_str() == ".git");
        for path in directories {
            let name = path.file_name().unwrap_or_default();
            if is_repository && LEFT_OUT.contains(&name.as_bytes()) {
                continue;
            }
            if let Ok(stat) = stat_child(&directory, name) {
                self.things.push((path.clone(), Thing::of(stat, None)));
                self.waiting.push(path);
            }
        }
        Ok(())
    }
}
