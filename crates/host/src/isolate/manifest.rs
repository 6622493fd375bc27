//! What was in a tree at one moment, and what is different now.
//!
//! Stamps first: what has the fingerprint that it had is what it was. Only where that differs are bytes compared, with those in the
//! workspace from which they came.

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

/// How much is compared at a time.
const BUFFER: usize = 64 << 10;

/// What was in a tree.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    things: BTreeMap<PathBuf, Thing>,
    /// What the files in the workspace were when they were copied.
    sources: HashMap<PathBuf, Fingerprint>,
}

#[derive(Debug)]
struct Thing {
    stat: Stat,
    /// Where a link points to.
    target: Option<PathBuf>,
}

impl Manifest {
    /// Of a tree as it is now.
    pub(super) fn of(
        tree: &Tree,
        sources: HashMap<PathBuf, Fingerprint>,
    ) -> Result<Self, FileError> {
        Ok(Self { things: scan(tree)?, sources })
    }

    /// What is different now, by path.
    pub(super) fn compare(
        &self,
        tree: &Tree,
        workspace: &Tree,
    ) -> Result<Vec<IsolatedChange>, FileError> {
        let now = scan(tree)?;
        let mut changes = Vec::new();
        for (path, thing) in &now {
            let kind = match self.things.get(path) {
                None => Some(IsolatedChangeKind::Created),
                Some(before) => self.difference(path, before, thing, tree, workspace)?,
            };
            changes.extend(kind.map(|kind| IsolatedChange { path: path.clone(), kind }));
        }
        let deleted = self.things.keys().filter(|path| !now.contains_key(*path));
        changes.extend(
            deleted.map(|path| IsolatedChange {
                path: path.clone(),
                kind: IsolatedChangeKind::Deleted,
            }),
        );
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }

    fn difference(
        &self,
        path: &Path,
        before: &Thing,
        now: &Thing,
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

    /// Whether a file still has the bytes with which it came. If the one it came from is not what it was, nobody can say: then no.
    fn has_its_content(
        &self,
        path: &Path,
        tree: &Tree,
        workspace: &Tree,
    ) -> Result<bool, FileError> {
        let Some(source) = self.sources.get(path) else { return Ok(false) };
        let Ok(original) = workspace.at(path, FOR_READING) else { return Ok(false) };
        if !stat(&original).is_ok_and(|now| now.fingerprint == *source) {
            return Ok(false);
        }
        let copy = tree.at(path, FOR_READING).map_err(|errno| tree.failed("read", path, errno))?;
        is_same_content(original.into(), copy.into())
            .map_err(|why| tree.failed("read", path, crate::alter::as_errno(&why)))
    }
}

pub(crate) fn is_same_content(one: File, other: File) -> std::io::Result<bool> {
    let mut one = BufReader::with_capacity(BUFFER, one);
    let mut other = BufReader::with_capacity(BUFFER, other);
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

/// Everything below a directory, but for repositories.
fn scan(tree: &Tree) -> Result<BTreeMap<PathBuf, Thing>, FileError> {
    let mut things = BTreeMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        scan_directory(tree, &path, &mut things, &mut waiting)
            .map_err(|errno| tree.failed("list", &path, errno))?;
    }
    Ok(things)
}

fn scan_directory(
    tree: &Tree,
    path: &Path,
    things: &mut BTreeMap<PathBuf, Thing>,
    waiting: &mut Vec<PathBuf>,
) -> Result<(), Errno> {
    let directory = match tree.directory(path) {
        // It went away while we looked.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        opened => opened?,
    };
    for name in names(&directory)? {
        if name == ".git" {
            continue;
        }
        let thing = match stat_child(&directory, name.as_os_str()) {
            Err(Errno::NOENT) => continue,
            found => found?,
        };
        let path = path.join(&name);
        let target = match thing.kind {
            FileKind::Symlink => Some(link_target(&directory, &name)?),
            _ => None,
        };
        if thing.kind == FileKind::Directory {
            waiting.push(path.clone());
        }
        things.insert(path, Thing { stat: thing, target });
    }
    Ok(())
}
