//! Compares the workspace at two moments, for programs that work on it without a stage.
//!
//! The comparison is by time stamps, not by content: ten thousand files take some milliseconds, and no file is read. So old content cannot
//! be restored, and a file that was written with the same bytes counts as changed.

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
use super::recorded_changes::by_bytes;
use crate::isolate::copy::link_target;
use crate::isolate::tree::Tree;
use crate::kernel::{NAME_ONLY, descriptor_path, stat_child};

/// Directories of a repository with many files that are never changed.
const SKIPPED_NAMES: [&[u8]; 2] = [b"objects", b"lfs"];

/// State of a workspace at one moment.
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
    /// Objects with their relative paths, sorted by the bytes of the path.
    objects: Vec<(PathBuf, ScannedObject)>,
}

/// Facts about one object.
#[derive(Debug)]
struct ScannedObject {
    kind: FileKind,
    mode: u32,
    fingerprint: Fingerprint,
    /// Target of a symbolic link.
    target: Option<PathBuf>,
}

impl Scan {
    /// Scans everything in a workspace, except the given directories and the objects of repositories.
    pub fn of(workspace: &Path, exclude: &[PathBuf]) -> io::Result<Self> {
        Self::scan_tree(workspace, exclude, false)
    }

    /// Scans after a program has run. Adds the owner's permissions to directories that cannot be listed, because the program could have
    /// hidden something in one.
    pub(crate) fn after(workspace: &Path, exclude: &[PathBuf]) -> io::Result<Self> {
        Self::scan_tree(workspace, exclude, true)
    }

    /// Scans a workspace; `makes_accessible` makes unlistable directories accessible.
    fn scan_tree(
        workspace: &Path,
        exclude: &[PathBuf],
        makes_accessible: bool,
    ) -> io::Result<Self> {
        let tree = Tree::open(workspace).map_err(io::Error::other)?;
        let inside = |path: &'_ PathBuf| path.strip_prefix(workspace).unwrap_or(path).to_owned();
        let mut scanner = ScanState {
            tree: &tree,
            exclude: exclude.iter().map(inside).collect(),
            makes_accessible,
            entries: Entries::new(),
            waiting: vec![PathBuf::new()],
            objects: Vec::new(),
        };
        while let Some(path) = scanner.waiting.pop() {
            scanner
                .scan(&path)
                .map_err(|errno| io::Error::other(tree.errno_error("list", &path, errno)))?;
        }
        let mut objects = scanner.objects;
        objects.sort_unstable_by(|(one, _), (other, _)| by_bytes(one, other));
        Ok(Self { workspace: workspace.to_owned(), objects })
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns whether there were no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns the changes up to a later scan: first removed objects, the content of a directory before it; then the others, the directory
    /// first.
    pub fn difference(&self, later: &Self) -> Vec<ProcessChange> {
        let mut gone = Vec::new();
        let mut made = Vec::new();
        let (mut before, mut now) =
            (self.objects.iter().peekable(), later.objects.iter().peekable());
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
                before: old.map(|(_, object)| object.fingerprint),
                to,
            };
            match (old, new) {
                (Some((path, _)), None) => gone.push(change(path, ChangedTo::Nothing)),
                (None, Some((path, object))) => made.push(change(path, object.as_new())),
                (Some((_, old)), Some((path, object))) => {
                    made.extend(object.compared_with(old).map(|to| change(path, to)));
                }
                (None, None) => {}
            }
        }
        gone.reverse();
        gone.append(&mut made);
        gone
    }
}

impl ScannedObject {
    /// Takes the facts that count from an object.
    fn of(stat: Stat, target: Option<PathBuf>) -> Self {
        Self { kind: stat.kind, mode: stat.mode, fingerprint: stat.fingerprint, target }
    }

    /// Returns the change that creates this object.
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

    /// Returns the change since `before`; `None` if it is unchanged.
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
            // Its mode, its hard links or its extended attributes changed.
            _ if self.has_same_stamp(before) => attributes(),
            _ => Some(self.as_new()),
        }
    }

    /// Returns whether it is the same file with the same length and modification time.
    fn has_same_stamp(&self, before: &Self) -> bool {
        let (now, before) = (&self.fingerprint, &before.fingerprint);
        now.is_same_object(before) && now.len == before.len && now.modified == before.modified
    }
}

/// State of a scan.
struct ScanState<'a> {
    tree: &'a Tree,
    /// Directories that are skipped, relative to the workspace.
    exclude: HashSet<PathBuf>,
    /// True if directories that cannot be listed are made accessible.
    makes_accessible: bool,
    entries: Entries,
    waiting: Vec<PathBuf>,
    objects: Vec<(PathBuf, ScannedObject)>,
}

impl ScanState<'_> {
    /// Adds the owner's permissions to a directory and opens it.
    fn make_accessible(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let named = self.tree.open_below(path, NAME_ONLY | OFlags::DIRECTORY)?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&named)?.st_mode & 0o7777);
        rustix::fs::chmod(descriptor_path(&named), mode | Mode::RWXU)?;
        self.tree.directory(path)
    }

    /// Adds the entries of one directory.
    fn scan(&mut self, path: &Path) -> Result<(), Errno> {
        let opened = match self.tree.directory(path) {
            Err(Errno::ACCESS) if self.makes_accessible => self.make_accessible(path),
            opened => opened,
        };
        let directory = match opened {
            // It was removed in the meantime, or it is closed to us.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(()),
            opened => opened?,
        };
        let mut directories = Vec::new();
        let mut is_repository = false;
        let (objects, exclude) = (&mut self.objects, &self.exclude);
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
            // An entry without facts was removed in the meantime.
            let Ok(stat) = stat_child(&directory, name) else { return };
            let target = match stat.kind {
                FileKind::Symlink => link_target(&directory, name).ok(),
                _ => None,
            };
            objects.push((path, ScannedObject::of(stat, target)));
        })?;
        is_repository &= path.components().any(|part| part.as_os_str() == ".git");
        for path in directories {
            let name = path.file_name().unwrap_or_default();
            if is_repository && SKIPPED_NAMES.contains(&name.as_bytes()) {
                continue;
            }
            if let Ok(stat) = stat_child(&directory, name) {
                self.objects.push((path.clone(), ScannedObject::of(stat, None)));
                self.waiting.push(path);
            }
        }
        Ok(())
    }
}
