//! Stages of processes that are gone: their changes of build directories are kept or dropped, questions about them are closed or left
//! open, then the stages are removed.
//!
//! Two take part. [`recover`] runs when a history is opened, which tells what became of the other changes of a call; it reports what
//! it did. [`sweep`] runs before the first program of a process and removes what needs no decision.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{ApprovalId, CallId, CommitState, HeldChanges, Note, quote};

use super::built::{Built, Recorded, Tie};
use super::{LOCK, held, is_name, lock, open_directory};
use crate::isolate::clear::remove_tree;

/// Removes the stages in a directory whose processes are gone, and returns their number. Stages whose build directories
/// [`recover`] has to decide on, or could not keep, stay.
pub(super) fn sweep(in_dir: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for stage in &claim_all(in_dir)? {
        if stage.is_settled() {
            remove_tree(&stage.path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// The records that tell what became of the calls of killed processes.
pub(super) struct Recovery<'a> {
    /// The state directory of the records.
    pub(super) state: &'a Path,
    /// The state of the changes of a call, by the history.
    pub(super) state_of: &'a dyn Fn(&CallId) -> CommitState,
    /// Takes a question off the record, and returns whether it is off it.
    pub(super) close: &'a dyn Fn(&ApprovalId) -> bool,
}

/// Decides on stages whose processes are gone. Returns what a person should know. The stages themselves are left to [`sweep`], since
/// large ones take long.
pub(super) fn recover(in_dir: &Path, recovery: &Recovery<'_>) -> Vec<String> {
    // What cannot be listed or read now is tried again at the next start.
    let stages = claim_all(in_dir).unwrap_or_default();
    stages.iter().filter_map(|stage| stage.recover(recovery)).collect()
}

/// Claims the stage that waits for a question: its directory, its lock and its record. `None` if there is none, or another process
/// has it.
pub(super) fn claim_held(
    in_dir: &Path,
    id: &ApprovalId,
) -> io::Result<Option<(PathBuf, Option<File>, HeldChanges)>> {
    let Some((path, _)) = find_held(in_dir, id)? else { return Ok(None) };
    let Some(claimed) = LeftBehind::claim(path) else { return Ok(None) };
    // It may have been used up until it was ours.
    let held = held::read_for(&claimed.path, id)?;
    Ok(held.map(|held| (claimed.path, claimed.lock, held)))
}

/// Finds the stage that waits for a question, and reads its record.
pub(super) fn find_held(
    in_dir: &Path,
    id: &ApprovalId,
) -> io::Result<Option<(PathBuf, HeldChanges)>> {
    let all = match std::fs::read_dir(in_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        all => all?,
    };
    for entry in all {
        let path = entry?.path();
        if path.file_name().is_some_and(is_name)
            && let Some(held) = held::read_for(&path, id)?
        {
            return Ok(Some((path, held)));
        }
    }
    Ok(None)
}

/// A stage that no process uses, with its lock if it came to have one.
struct LeftBehind {
    path: PathBuf,
    lock: Option<File>,
}

fn claim_all(in_dir: &Path) -> io::Result<Vec<LeftBehind>> {
    let all = match open_directory(in_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    if !lock(&all, FlockOperation::NonBlockingLockExclusive) {
        // Another process makes a stage, or claims them.
        return Ok(Vec::new());
    }
    let mut left_behind = Vec::new();
    for entry in std::fs::read_dir(in_dir)? {
        let entry = entry?;
        if is_name(&entry.file_name()) && entry.file_type()?.is_dir() {
            left_behind.extend(LeftBehind::claim(entry.path()));
        }
    }
    Ok(left_behind)
}

impl LeftBehind {
    fn claim(path: PathBuf) -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(path.join(LOCK), flags, Mode::empty()) {
            Ok(file) if lock(&file, FlockOperation::NonBlockingLockExclusive) => {
                Some(Self { path, lock: Some(file.into()) })
            }
            // Its process died before it had one.
            Err(Errno::NOENT) => Some(Self { path, lock: None }),
            Ok(_) | Err(_) => None,
        }
    }

    /// Tells whether nothing on the stage is to be kept, and keeps what needs no decision.
    fn is_settled(&self) -> bool {
        if held::is_awaited(&self.path, SystemTime::now()) {
            return false;
        }
        match Recorded::read(&self.path) {
            Ok(None) => true,
            Ok(Some(Recorded { built, tie: None })) => built.settle(&self.path).is_empty(),
            // Without its state directory no history will tell.
            Ok(Some(Recorded { tie: Some(tie), .. })) => !tie.state.exists(),
            Err(_) => false,
        }
    }

    /// Keeps or drops the changes of build directories, closes the question or leaves it open, and says so.
    fn recover(&self, recovery: &Recovery<'_>) -> Option<String> {
        let Recorded { built, tie } = Recorded::read(&self.path).ok()??;
        let is_kept = match &tie {
            None => true,
            Some(tie) if tie.state != recovery.state => return None,
            Some(tie) => match (recovery.state_of)(&tie.call) {
                CommitState::Made => true,
                CommitState::NotMade => false,
                CommitState::Unknown => return None,
            },
        };
        let question = held::read(&self.path).ok()?.map(|held| held.held.approval);
        let told = match question {
            question if is_kept => self.keep(&built, tie.as_ref(), question, recovery)?,
            Some(id) => vec![format!(
                "{} was cut off before its changes were made; they are held on for {id}: `windlass policy approve {id}` makes them",
                name(tie.as_ref())
            )],
            None => vec![format!(
                "{} was cut off before its changes were made; its changes of build directories were dropped with the others: {}",
                name(tie.as_ref()),
                names(&built)
            )],
        };
        // A record that cannot be removed is met again by the next start, which does and says the same.
        drop(Recorded::forget(&self.path));
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Finishes what belongs to changes that are made, and tells of it. `None` if the question cannot be closed now: the next start
    /// tries again.
    fn keep(
        &self,
        built: &Built,
        tie: Option<&Tie>,
        question: Option<ApprovalId>,
        recovery: &Recovery<'_>,
    ) -> Option<Vec<String>> {
        let left = built.settle(&self.path);
        let mut told = Vec::new();
        if !built.directories.is_empty() {
            told.push(kept(built, tie, &left));
        }
        let Some(id) = question else { return Some(told) };
        if !(recovery.close)(&id) {
            return None;
        }
        // Only now: without this record, nothing would close the question.
        held::forget(&self.path).ok()?;
        let call = name(tie);
        told.push(format!(
            "{call} was cut off after its changes were made; they are kept, and {id} is closed"
        ));
        Some(told)
    }
}

/// Tells what became of changes that were to be kept.
fn kept(built: &Built, tie: Option<&Tie>, left: &[Note]) -> String {
    let name = name(tie);
    if left.is_empty() {
        return format!(
            "{name} was cut off before its changes of build directories were kept; they are kept now: {}",
            names(built)
        );
    }
    let why: Vec<&str> = left.iter().map(|note| note.why.as_str()).collect();
    format!(
        "{name} was cut off before its changes of build directories were kept, and they cannot be kept now: not kept: {}; build again",
        why.join("; not kept: ")
    )
}

fn name(tie: Option<&Tie>) -> String {
    tie.map_or_else(|| "a command".to_owned(), |tie| tie.call.to_string())
}

fn names(built: &Built) -> String {
    let name = |path: &PathBuf| quote::path(&built.workspace.join(path)).into_owned();
    built.directories.iter().map(name).collect::<Vec<_>>().join(", ")
}
