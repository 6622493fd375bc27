//! Puts right what a program left half-done when it was killed.
//!
//! A checkpoint without an end says what was under way. If every object is as the change makes it, all was done and only the word
//! was missing. Otherwise what was done is taken back: nobody was told that it had been made.

use std::path::{Path, PathBuf};

use crate::changes::commit::{self, beside};
use crate::changes::rollback::{RolledBack, give_times_back, roll_back};
use crate::changes::state;
use crate::{
    Alteration, ContentHash, Expect, FileError, FileState, Files, Opened, RecordedChange, To,
    ToolError, quote,
};

/// How a change that was cut off was put right.
///
/// ```
/// use windlass_core::{Host, Recovered, recover, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let nothing = recover(host.files(), &[], &|_| unreachable!("there is nothing to load"));
/// assert!(matches!(nothing, Recovered::Finished));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// All of it had been done.
    Finished,
    /// What had been done of it was taken back.
    RolledBack {
        /// The places that were restored.
        restored: Vec<PathBuf>,
        /// The places that were left alone, and why: somebody else changed them in the meantime.
        left: Vec<(PathBuf, String)>,
    },
    /// Not all could be taken back; it is to be tried again.
    Postponed {
        /// The places that were restored.
        restored: Vec<PathBuf>,
        /// The places that were not, and why.
        left: Vec<(PathBuf, String)>,
    },
}

/// Puts right a change that was cut off, by its record: finished if all of it had been done, taken back otherwise. What the change
/// kept beside its files for a moment is removed.
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
    content: &dyn Fn(&ContentHash) -> Result<Opened, ToolError>,
) -> Recovered {
    let is_done = |change: &RecordedChange| {
        let now = state::see_on_record(files, &change.path);
        now.is_ok_and(|now| now.state.is_like(&change.after))
    };
    if changes.iter().all(is_done) {
        return finish(files, changes);
    }
    let RolledBack { taken_back: restored, left, is_open } =
        roll_back(files, changes, changes.len(), content);
    drop(give_times_back(files, changes));
    if is_open {
        return Recovered::Postponed { restored, left };
    }
    Recovered::RolledBack { restored, left }
}

/// The state of the changes of a call whose process is gone, as the history has it.
///
/// ```
/// use windlass_core::{CallId, CommitState, Host, testing::EchoHost};
/// let host = EchoHost::default();
/// let state = |_: &CallId| CommitState::Made;
/// assert!(host.processes().unwrap().recover_stages(&state, &|_| true).is_empty(), "nothing was left");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitState {
    /// They are made.
    Made,
    /// They are not made, or were taken back.
    NotMade,
    /// Another process is putting them right, or it cannot be found out now.
    Unknown,
}

/// The name under which the history keeps the removal of a protected place that a job made. No tool can have it.
///
/// ```
/// use windlass_core::PLANTED_REMOVAL;
/// assert!(PLANTED_REMOVAL.contains(' '), "names of tools have no spaces");
/// ```
pub const PLANTED_REMOVAL: &str = "removal of a planted place";

/// Finishes the removal of a protected place that a job made and that was cut off. To take it back, as [`recover`] does, would
/// give the job what it was denied.
///
/// ```
/// use windlass_core::{FileState, Host, RecordedChange, Recovered, finish_removal, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let removal = RecordedChange::new("/w/.envrc", FileState::Other, FileState::Absent);
/// assert_eq!(finish_removal(host.files(), &[removal]), Recovered::Finished, "nothing is there");
/// ```
pub fn finish_removal(files: &dyn Files, changes: &[RecordedChange]) -> Recovered {
    let mut left = Vec::new();
    // A directory comes after what is in it.
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

/// Removes an object if it is as it was recorded. What is there instead was not made by the job.
fn remove_recorded(files: &dyn Files, change: &RecordedChange) -> Result<(), FileError> {
    let now = state::see_on_record(files, &change.path)?;
    let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
    let is_same = is_directory(&now.state) && is_directory(&change.before)
        || now.state.is_like(&change.before);
    if is_same { remove(files, &change.path) } else { Ok(()) }
}

/// All was done; what was there for a moment only may be there still.
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

/// What new content was called before it got its place: there, or where it was taken back to.
pub(crate) fn remove_temporary(
    files: &dyn Files,
    change: &RecordedChange,
) -> Result<(), FileError> {
    let Some(name) = &change.temporary else { return Ok(()) };
    // The record is ours, but a name from a file is still only a name.
    if !name.starts_with(commit::TEMPORARY_PREFIX) || name.contains('/') {
        return Ok(());
    }
    let places = [Some(&change.path), change.moved_from.as_ref()];
    let mut directories = places.into_iter().flatten().filter_map(|path| path.parent());
    let names = [name.clone(), commit::early_name(name)];
    directories.try_for_each(|directory| {
        names.iter().try_for_each(|name| remove(files, &directory.join(name)))
    })
}

fn remove(files: &dyn Files, path: &Path) -> Result<(), FileError> {
    let place = beside(files, path);
    let found = match files.look(&place) {
        Err(error) if state::is_below_link(files, path, &error) => return Ok(()),
        found => found?,
    };
    let Some(found) = found else { return Ok(()) };
    let expect = Expect::Same(found.stat.fingerprint);
    drop(found);
    files.alter(&place, &Alteration { expect, to: To::Nothing, temporary: None }).map(drop)
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
