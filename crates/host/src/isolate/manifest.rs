//! Records the content of a tree, and finds later changes.
//!
//! An object with the same fingerprint is unchanged. Only if the fingerprint differs, the bytes are compared with the workspace's file from
//! which the copy was made.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use windlass_core::{FileError, FileKind, Fingerprint, Stat};

use super::copy::link_target;
use super::tree::{Tree, names};
use super::{IsolatedChange, IsolatedChangeKind};
use crate::kernel::{FOR_READING, stat, stat_child};

/// Bytes that are compared at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// State of a tree at one moment.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    entries: BTreeMap<PathBuf, ManifestEntry>,
    /// Fingerprints of the files in the workspace when they were copied.
    sources: HashMap<PathBuf, Fingerprint>,
}

/// Facts about one object of the tree.
#[derive(Debug)]
struct ManifestEntry {
    stat: Stat,
    /// Target of a symbolic link.
    target: Option<PathBuf>,
}

impl Manifest {
    /// Records the present state of a tree.
    pub(super) fn record(
        tree: &Tree,
        sources: HashMap<PathBuf, Fingerprint>,
    ) -> Result<Self, FileError> {
        Ok(Self { entries: scan(tree)?, sources })
    }

    /// Returns the changes since then, by path.
    pub(super) fn compare(
        &self,
        tree: &Tree,
        workspace: &Tree,
    ) -> Result<Vec<IsolatedChange>, FileError> {
        let now = scan(tree)?;
        let mut changes = Vec::new();
        for (path, entry) in &now {
            let kind = match self.entries.get(path) {
                None => Some(IsolatedChangeKind::Created),
                Some(before) => self.change_kind(path, before, entry, tree, workspace)?,
            };
            changes.extend(kind.map(|kind| IsolatedChange { path: path.clone(), kind }));
        }
        let deleted = self.entries.keys().filter(|path| !now.contains_key(*path));
        changes.extend(
            deleted.map(|path| IsolatedChange {
                path: path.clone(),
                kind: IsolatedChangeKind::Deleted,
            }),
        );
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }

    /// Returns the kind of change of an object that existed before; `None` if it is unchanged.
    fn change_kind(
        &self,
        path: &Path,
        before: &ManifestEntry,
        now: &ManifestEntry,
        tree: &Tree,
        workspace: &Tree,
    ) -> Result<Option<IsolatedChangeKind>, FileError> {
        if before.stat.kind != now.stat.kind {
            return Ok(Some(IsolatedChangeKind::KindChanged));
        }
        let changed = match now.stat.kind {
            FileKind::Directory => false,
            FileKind::Symlink => before.target != now.target,
            _ if before.stat.fingerprint == now.stat.fingerprint => false,
            _ if before.stat.len != now.stat.len => true,
            _ => !self.has_its_content(path, tree, workspace)?,
        };
        if changed {
            return Ok(Some(IsolatedChangeKind::Changed));
        }
        let other_mode = before.stat.mode != now.stat.mode;
        Ok(other_mode.then_some(IsolatedChangeKind::ModeChanged))
    }

    /// Returns whether a file still has the bytes of its copy. False if the original has changed since, because then it is unknown.
    fn has_its_content(
        &self,
        path: &Path,
        tree: &Tree,
        workspace: &Tree,
    ) -> Result<bool, FileError> {
        let Some(source) = self.sources.get(path) else { return Ok(false) };
        let Ok(original) = workspace.open_below(path, FOR_READING) else { return Ok(false) };
        if !stat(&original).is_ok_and(|now| now.fingerprint == *source) {
            return Ok(false);
        }
        let copy = tree
            .open_below(path, FOR_READING)
            .map_err(|errno| tree.errno_error("read", path, errno))?;
        is_same_content(original.into(), copy.into())
            .map_err(|why| tree.errno_error("read", path, crate::alter::as_errno(&why)))
    }
}

/// Compares the content of two files.
pub(crate) fn is_same_content(one: File, other: File) -> std::io::Result<bool> {
    let mut one = BufReader::with_capacity(BUFFER_BYTES, one);
    let mut other = BufReader::with_capacity(BUFFER_BYTES, other);
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let both = left.len().min(right.len());
        if left.get(..both) != right.get(..both) {
            return Ok(false);
        }
        if both == 0 {
            return Ok(left.len() == right.len());
        }
        one.consume(both);
        other.consume(both);
    }
}

/// Lists everything below a directory, except repositories.
fn scan(tree: &Tree) -> Result<BTreeMap<PathBuf, ManifestEntry>, FileError> {
    let mut entries = BTreeMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        scan_directory(tree, &path, &mut entries, &mut waiting)
            .map_err(|errno| tree.errno_error("list", &path, errno))?;
    }
    Ok(entries)
}

/// Adds the entries of one directory, and its subdirectories to `waiting`.
fn scan_directory(
    tree: &Tree,
    path: &Path,
    entries: &mut BTreeMap<PathBuf, ManifestEntry>,
    waiting: &mut Vec<PathBuf>,
) -> Result<(), Errno> {
    let directory = match tree.directory(path) {
        // It was removed in the meantime.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        opened => opened?,
    };
    for name in names(&directory)? {
        if name == ".git" {
            continue;
        }
        let entry = match stat_child(&directory, name.as_os_str()) {
            Err(Errno::NOENT) => continue,
            found => found?,
        };
        let path = path.join(&name);
        let target = match entry.kind {
            FileKind::Symlink => Some(link_target(&directory, &name)?),
            _ => None,
        };
        if entry.kind == FileKind::Directory {
            waiting.push(path.clone());
        }
        entries.insert(path, ManifestEntry { stat: entry, target });
    }
    Ok(())
}
