//! Handles stages of processes that are gone: keeps or drops their changes of build directories, closes approvals or leaves them open, and
//! removes the stages.
//!
//! There are two parts. [`recover`] runs when a history is opened, which tells whether the other changes of a call were committed; it
//! reports what it did. [`sweep`] runs before the first program of a process and removes the stages that need no decision.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{ApprovalId, CallId, CommitState, HeldChanges, SkippedPath, quote};

use super::built::{Built, BuiltRecord, Tie};
use super::{LOCK_NAME, held, is_stage_name, lock, open_directory};
use crate::isolate::remove_tree::remove_tree;

/// Removes the stages in a directory whose processes are gone, and returns their number. First keeps changes of build directories that
/// need no decision. Stages that wait for an approval, that [`recover`] has to decide on or whose changes cannot be kept stay.
pub(super) fn sweep(in_dir: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for stage in &claim_all(in_dir)? {
        if stage.is_unneeded() {
            remove_tree(&stage.path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Access to the records that tell what became of the calls of killed processes.
pub(super) struct Recovery<'a> {
    /// State directory of the records.
    pub(super) state: &'a Path,
    /// Returns the state of the changes of a call, by the history.
    pub(super) state_of: &'a dyn Fn(&CallId) -> CommitState,
    /// Closes an approval, and returns whether it is closed now.
    pub(super) close: &'a dyn Fn(&ApprovalId) -> bool,
}

/// Decides on stages whose processes are gone. Returns sentences for a person. The stages themselves are left to [`sweep`], because it
/// takes long to remove large ones.
pub(super) fn recover(in_dir: &Path, recovery: &Recovery<'_>) -> Vec<String> {
    // A stage that cannot be read now is tried again at the next start.
    let stages = claim_all(in_dir).unwrap_or_default();
    stages.iter().filter_map(|stage| stage.recover(recovery)).collect()
}

/// Claims the stage that waits for an approval: its directory, its lock and its record. `None` if there is none, or another process has it.
pub(super) fn claim_held(
    in_dir: &Path,
    id: &ApprovalId,
) -> io::Result<Option<(PathBuf, Option<File>, HeldChanges)>> {
    let Some((path, _)) = find_held(in_dir, id)? else { return Ok(None) };
    let Some(claimed) = UnusedStage::claim(path) else { return Ok(None) };
    // Another process may have used it up before it was claimed.
    let held = held::read_for(&claimed.path, id)?;
    Ok(held.map(|held| (claimed.path, claimed.lock, held)))
}

/// Finds the stage that waits for an approval, and reads its record.
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
        if path.file_name().is_some_and(is_stage_name)
            && let Some(held) = held::read_for(&path, id)?
        {
            return Ok(Some((path, held)));
        }
    }
    Ok(None)
}

/// A stage that no process uses, with its lock if one was created.
struct UnusedStage {
    path: PathBuf,
    lock: Option<File>,
}

/// Claims all stages in a directory that no process uses. The list is empty if another process is creating or claiming stages.
fn claim_all(in_dir: &Path) -> io::Result<Vec<UnusedStage>> {
    let all = match open_directory(in_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    if !lock(&all, FlockOperation::NonBlockingLockExclusive) {
        // Another process creates a stage, or claims them.
        return Ok(Vec::new());
    }
    let mut left_behind = Vec::new();
    for entry in std::fs::read_dir(in_dir)? {
        let entry = entry?;
        if is_stage_name(&entry.file_name()) && entry.file_type()?.is_dir() {
            left_behind.extend(UnusedStage::claim(entry.path()));
        }
    }
    Ok(left_behind)
}

impl UnusedStage {
    /// Claims a stage by its lock; `None` if a process holds it.
    fn claim(path: PathBuf) -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(path.join(LOCK_NAME), flags, Mode::empty()) {
            Ok(file) if lock(&file, FlockOperation::NonBlockingLockExclusive) => {
                Some(Self { path, lock: Some(file.into()) })
            }
            // Its process died before it created the lock.
            Err(Errno::NOENT) => Some(Self { path, lock: None }),
            Ok(_) | Err(_) => None,
        }
    }

    /// Returns whether nothing on the stage is needed any more, after it has kept changes of build directories that need no decision.
    fn is_unneeded(&self) -> bool {
        if held::is_awaited(&self.path, SystemTime::now()) {
            return false;
        }
        match BuiltRecord::read(&self.path) {
            Ok(None) => true,
            Ok(Some(BuiltRecord { built, tie: None })) => built.keep_changes(&self.path).is_empty(),
            // Without its state directory, no history will ever tell.
            Ok(Some(BuiltRecord { tie: Some(tie), .. })) => !tie.state.exists(),
            Err(_) => false,
        }
    }

    /// Keeps or drops the changes of build directories, closes the approval or leaves it open, and returns a sentence about it. `None` if
    /// there is nothing to tell, or if another state directory or a later start has to decide.
    fn recover(&self, recovery: &Recovery<'_>) -> Option<String> {
        let BuiltRecord { built, tie } = BuiltRecord::read(&self.path).ok()??;
        let is_kept = match &tie {
            None => true,
            Some(tie) if tie.state != recovery.state => return None,
            Some(tie) => match (recovery.state_of)(&tie.call) {
                CommitState::Made => true,
                CommitState::NotMade => false,
                CommitState::Unknown => return None,
            },
        };
        let approval = held::read(&self.path).ok()?.map(|held| held.held.approval);
        let told = match approval {
            approval if is_kept => {
                self.finish_committed(&built, tie.as_ref(), approval, recovery)?
            }
            Some(id) => vec![format!(
                "{} was cut off before its changes were made; they are held on for {id}: `windlass policy approve {id}` makes them",
                call_name(tie.as_ref())
            )],
            None => vec![format!(
                "{} was cut off before its changes were made; its changes of build directories were dropped with the others: {}",
                call_name(tie.as_ref()),
                directory_names(&built)
            )],
        };
        // If the record cannot be removed, the next start does and reports the same again.
        drop(BuiltRecord::forget(&self.path));
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Finishes the work of committed changes and returns sentences about it. `None` if the approval cannot be closed now: the next start
    /// tries again.
    fn finish_committed(
        &self,
        built: &Built,
        tie: Option<&Tie>,
        approval: Option<ApprovalId>,
        recovery: &Recovery<'_>,
    ) -> Option<Vec<String>> {
        let left = built.keep_changes(&self.path);
        let mut told = Vec::new();
        if !built.directories.is_empty() {
            told.push(kept_sentence(built, tie, &left));
        }
        let Some(id) = approval else { return Some(told) };
        if !(recovery.close)(&id) {
            return None;
        }
        // Removed last: without this record, the approval would never be closed.
        held::forget(&self.path).ok()?;
        let call = call_name(tie);
        told.push(format!(
            "{call} was cut off after its changes were made; they are kept, and {id} is closed"
        ));
        Some(told)
    }
}

/// Returns a sentence about build directories that were to be kept.
fn kept_sentence(built: &Built, tie: Option<&Tie>, left: &[SkippedPath]) -> String {
    let call_name = call_name(tie);
    if left.is_empty() {
        return format!(
            "{call_name} was cut off before its changes of build directories were kept; they are kept now: {}",
            directory_names(built)
        );
    }
    let why: Vec<&str> = left.iter().map(|note| note.why.as_str()).collect();
    format!(
        "{call_name} was cut off before its changes of build directories were kept, and they cannot be kept now: not kept: {}; build again",
        why.join("; not kept: ")
    )
}

/// Returns the id of the call for a sentence, or `a command` if it is not known.
fn call_name(tie: Option<&Tie>) -> String {
    tie.map_or_else(|| "a command".to_owned(), |tie| tie.call.to_string())
}

/// Returns the paths of the build directories for a sentence.
fn directory_names(built: &Built) -> String {
    let name = |path: &PathBuf| quote::path(&built.workspace.join(path)).into_owned();
    built.directories.iter().map(name).collect::<Vec<_>>().join(", ")
}
