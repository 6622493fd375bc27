//! Recovery of a commit that a program left half-done when it was killed.
//!
//! An unfinished checkpoint tells which changes were under way. If every object has its state after the change, the commit was
//! complete and only the mark is missing. Otherwise the changes that were made are taken back: their success was never reported.

use std::path::{Path, PathBuf};

use crate::changes::commit::{self, recorded_path};
use crate::changes::rollback::{RollbackResult, restore_directory_times, roll_back};
use crate::changes::state;
use crate::{
    Alteration, ContentHash, ExpectedState, FileError, FileState, Files, OpenedContent,
    RecordedChange, TargetState, ToolError, quote,
};

/// Result of the recovery of an interrupted commit.
///
/// ```
/// use windlass_core::{Host, Recovered, recover, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let nothing = recover(host.files(), &[], &|_| unreachable!("there is nothing to load"));
/// assert!(matches!(nothing, Recovered::Finished));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// All changes had been made.
    Finished,
    /// The changes that had been made were taken back.
    RolledBack {
        /// Paths that were restored.
        restored: Vec<PathBuf>,
        /// Paths that were left alone, and why: another program changed them in the meantime.
        left: Vec<(PathBuf, String)>,
    },
    /// Not all changes could be taken back; the recovery must be tried again.
    Postponed {
        /// Paths that were restored.
        restored: Vec<PathBuf>,
        /// Paths that were not restored, and why.
        left: Vec<(PathBuf, String)>,
    },
}

/// Recovers an interrupted commit from its record: finishes it if all changes had been made, takes them back otherwise. Removes
/// temporary files of the commit.
///
/// ```
/// use windlass_core::{FileState, Host, RecordedChange, Recovered, recover, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let removal = RecordedChange::new("/w/old.txt", FileState::Other, FileState::Absent);
/// let outcome = recover(host.files(), &[removal], &|_| unreachable!("there is nothing to load"));
/// assert_eq!(outcome, Recovered::Finished, "nothing is there, as it should be");
/// ```
pub fn recover(
    files: &dyn Files,
    changes: &[RecordedChange],
    content: &dyn Fn(&ContentHash) -> Result<OpenedContent, ToolError>,
) -> Recovered {
    let is_done = |change: &RecordedChange| {
        let now = state::inspect_recorded(files, &change.path);
        now.is_ok_and(|now| now.state.is_like(&change.after))
    };
    if changes.iter().all(is_done) {
        return finish(files, changes);
    }
    let RollbackResult { taken_back: restored, left, is_retryable } =
        roll_back(files, changes, changes.len(), content);
    drop(restore_directory_times(files, changes));
    if is_retryable {
        return Recovered::Postponed { restored, left };
    }
    Recovered::RolledBack { restored, left }
}

/// State of the changes of a call whose process is gone, according to the history.
///
/// ```
/// use windlass_core::{CallId, CommitState, Host, testing::EchoHost};
/// let host = EchoHost::default();
/// let state = |_: &CallId| CommitState::Made;
/// assert!(host.processes().unwrap().recover_stages(&state, &|_| true).is_empty(), "nothing was left");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitState {
    /// The changes are made.
    Made,
    /// The changes are not made, or were taken back.
    NotMade,
    /// Another process is recovering them, or the state cannot be read now.
    Unknown,
}

/// Tool name under which the history records the removal of a protected path that a job planted. No tool can have this name.
pub const PLANTED_REMOVAL: &str = "removal of a planted place";

/// Finishes an interrupted removal of a protected path that a job planted. To take it back, as [`recover`] does, would give the job
/// the path that it was denied.
///
/// ```
/// use windlass_core::{FileState, Host, RecordedChange, Recovered, finish_removal, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let removal = RecordedChange::new("/w/.envrc", FileState::Other, FileState::Absent);
/// assert_eq!(finish_removal(host.files(), &[removal]), Recovered::Finished, "nothing is there");
/// ```
pub fn finish_removal(files: &dyn Files, changes: &[RecordedChange]) -> Recovered {
    let mut left = Vec::new();
    // Objects in a directory come before the directory.
    for change in changes.iter().filter(|change| change.after == FileState::Absent) {
        if let Err(error) = remove_recorded(files, change) {
            left.push((change.path.clone(), error.to_string()));
        }
    }
    match finish(files, changes) {
        Recovered::Finished if left.is_empty() => Recovered::Finished,
        Recovered::Postponed { left: temporary, .. } => {
            left.extend(temporary);
            Recovered::Postponed { restored: Vec::new(), left }
        }
        _ => Recovered::Postponed { restored: Vec::new(), left },
    }
}

/// Removes an object if it has its recorded state. Any other object was not made by the job.
fn remove_recorded(files: &dyn Files, change: &RecordedChange) -> Result<(), FileError> {
    let now = state::inspect_recorded(files, &change.path)?;
    let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
    let is_same = is_directory(&now.state) && is_directory(&change.before)
        || now.state.is_like(&change.before);
    if is_same { remove(files, &change.path) } else { Ok(()) }
}

/// Finishes a commit whose changes are all made: removes temporary files that may be left.
fn finish(files: &dyn Files, changes: &[RecordedChange]) -> Recovered {
    let left: Vec<(PathBuf, String)> = changes
        .iter()
        .filter_map(|change| Some((change.path.clone(), remove_temporary(files, change).err()?)))
        .map(|(path, error)| (path, error.to_string()))
        .collect();
    if left.is_empty() {
        return Recovered::Finished;
    }
    Recovered::Postponed { restored: Vec::new(), left }
}

/// Removes the temporary file of a change, from the directory of its path and, for a move, from the directory of the old path.
pub(crate) fn remove_temporary(
    files: &dyn Files,
    change: &RecordedChange,
) -> Result<(), FileError> {
    let Some(name) = &change.temporary else { return Ok(()) };
    // The record is ours, but the name was read from a file, so it is checked.
    if !name.starts_with(commit::TEMPORARY_PREFIX) || name.contains('/') {
        return Ok(());
    }
    let places = [Some(&change.path), change.moved_from.as_ref()];
    let mut directories = places.into_iter().flatten().filter_map(|path| path.parent());
    let names = [name.clone(), commit::incomplete_name(name)];
    directories.try_for_each(|directory| {
        names.iter().try_for_each(|name| remove(files, &directory.join(name)))
    })
}

/// Removes the object at a path, if there is one.
fn remove(files: &dyn Files, path: &Path) -> Result<(), FileError> {
    let place = recorded_path(files, path);
    let found = match files.inspect(&place) {
        Err(error) if state::is_below_link(files, path, &error) => return Ok(()),
        found => found?,
    };
    let Some(found) = found else { return Ok(()) };
    let expect = ExpectedState::Same(found.stat.fingerprint);
    drop(found);
    files.alter(&place, &Alteration { expect, to: TargetState::Nothing, temporary: None }).map(drop)
}

impl std::fmt::Display for Recovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |paths: &[PathBuf]| {
            paths.iter().map(|path| quote::path(path).into_owned()).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Finished => f.write_str("it had been made whole"),
            Self::RolledBack { restored, left } => {
                match restored.as_slice() {
                    [] => f.write_str("nothing of it was left")?,
                    restored => write!(f, "taken back: {}", names(restored))?,
                }
                for (path, why) in left {
                    write!(f, "; left alone: {}: {why}", quote::path(path))?;
                }
                Ok(())
            }
            Self::Postponed { restored, left } => {
                f.write_str("it cannot be put right now and is tried again at the next start")?;
                if !restored.is_empty() {
                    write!(f, "; taken back: {}", names(restored))?;
                }
                for (path, why) in left {
                    write!(f, "; not yet: {}: {why}", quote::path(path))?;
                }
                Ok(())
            }
        }
    }
}
