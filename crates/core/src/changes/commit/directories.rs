//! Directories in which a commit changes names: records their times, temporarily makes those writable that forbid changes, and
//! gives new ones their mode and times last.
//!
//! Adding or removing a name sets the time of its directory. So the directories of all steps are recorded before the first step,
//! with nothing but their time; undo and rollback restore it last of all.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{CommitStep, recorded_path};
use crate::{
    Alteration, Attributes, ExpectedState, FileError, FileErrorKind, FileKind, FileState, Files,
    RecordedChange, Stat, TargetState,
};

/// Permissions that an owner needs to change names in a directory: write and search.
const OWNER_WRITE_SEARCH: u32 = 0o300;

/// Records the time of each directory in which steps change names, and its mode if that forbids changes.
pub(super) fn record_directories(
    files: &dyn Files,
    steps: &[CommitStep<'_>],
) -> Vec<RecordedChange> {
    let own: HashSet<&Path> = steps.iter().map(|step| step.path.path.as_path()).collect();
    let mut known: HashSet<&Path> = HashSet::new();
    let mut around = Vec::new();
    for directory in steps.iter().flat_map(directories_of) {
        let is_below = |above: &&Path| above.starts_with(files.workspace());
        // Missing directories will be made in the nearest existing one.
        for directory in directory.ancestors().take_while(is_below) {
            if own.contains(directory) || !known.insert(directory) {
                break;
            }
            match files.stat(&recorded_path(files, directory)) {
                Ok(stat) if stat.kind == FileKind::Directory => {
                    around.push(directory_change(directory, &stat));
                    break;
                }
                Err(FileError { kind: FileErrorKind::NotFound, .. }) => {}
                // The step itself will report the error.
                Ok(_) | Err(_) => break,
            }
        }
    }
    // Directories further above are recorded with their mode if they must be made writable.
    let mut looked: HashSet<&Path> = HashSet::new();
    for step in steps {
        for directory in parents_in_workspace(files, step) {
            // The directories above it were checked with it.
            if !looked.insert(directory) {
                break;
            }
            if own.contains(directory) || known.contains(directory) {
                continue;
            }
            if let Ok(stat) = files.stat(&recorded_path(files, directory))
                && stat.kind == FileKind::Directory
                && stat.mode & OWNER_WRITE_SEARCH != OWNER_WRITE_SEARCH
            {
                around.push(directory_change(directory, &stat));
            }
        }
    }
    around
}

/// Returns the directories of the workspace above the path of a step, inner ones first.
fn parents_in_workspace<'s>(
    files: &dyn Files,
    step: &'s CommitStep<'_>,
) -> impl Iterator<Item = &'s Path> {
    let is_below =
        |above: &&Path| *above != files.workspace() && above.starts_with(files.workspace());
    step.path.path.ancestors().skip(1).take_while(is_below)
}

/// Returns the directories in which a step changes names.
fn directories_of<'s>(step: &'s CommitStep<'_>) -> impl Iterator<Item = &'s Path> {
    let is_own = !matches!(step.to, TargetState::Attributes(_));
    let own = step.path.path.parent().filter(|_| is_own);
    let from = match step.to {
        TargetState::Moved { from, .. } => from.path.parent(),
        _ => None,
    };
    own.into_iter().chain(from)
}

/// Makes the recorded change of a directory: its time, and its mode if that forbids changes.
fn directory_change(directory: &Path, stat: &Stat) -> RecordedChange {
    let mode = Some(stat.mode).filter(|mode| mode & OWNER_WRITE_SEARCH != OWNER_WRITE_SEARCH);
    let state = |modified| FileState::Directory {
        attributes: Attributes { mode, modified, ..Attributes::default() },
    };
    RecordedChange::new(directory, state(Some(stat.fingerprint.modified)), state(None))
}

/// Modes and times that directories get after all steps.
#[derive(Debug, Default)]
pub(super) struct FinalAttributes(Vec<(PathBuf, Attributes)>);

impl FinalAttributes {
    /// Returns the step as it is first performed: a new directory is writable until everything is in it.
    pub(super) fn writable_new<'s>(
        &mut self,
        step: &CommitStep<'s>,
        open: &'s mut Attributes,
    ) -> CommitStep<'s> {
        let TargetState::Directory { attributes: Some(wanted) } = step.to else {
            return step.clone();
        };
        let is_closed =
            wanted.mode.is_some_and(|mode| mode & OWNER_WRITE_SEARCH != OWNER_WRITE_SEARCH);
        if !is_closed && wanted.modified.is_none() {
            return step.clone();
        }
        let Attributes { mode, modified, .. } = *wanted;
        let last = Attributes { mode, modified, ..Attributes::default() };
        self.0.push((step.path.path.clone(), last));
        *open = Attributes { mode: mode.map(|mode| mode | OWNER_WRITE_SEARCH), ..wanted.clone() };
        CommitStep { to: TargetState::Directory { attributes: Some(open) }, ..step.clone() }
    }

    /// Makes the directories of a refused step writable, if their mode is the cause. Returns whether another try makes sense.
    pub(super) fn make_parents_writable(
        &mut self,
        files: &dyn Files,
        step: &CommitStep<'_>,
        all: &[CommitStep<'_>],
        error: &FileError,
    ) -> bool {
        if !step.opens_directories || !matches!(error.kind, FileErrorKind::Permission) {
            return false;
        }
        let from = match step.to {
            TargetState::Moved { from, .. } => from.path.parent(),
            _ => None,
        };
        // Outer directories first, since the path leads through them.
        let mut directories: Vec<&Path> = parents_in_workspace(files, step).collect();
        directories.reverse();
        let mut is_opened = false;
        for directory in directories.into_iter().chain(step.path.path.parent()).chain(from) {
            is_opened |= self.make_writable(files, directory, all);
        }
        is_opened
    }

    /// Makes one directory writable, and notes its mode for the end. Returns whether it was changed.
    fn make_writable(
        &mut self,
        files: &dyn Files,
        directory: &Path,
        all: &[CommitStep<'_>],
    ) -> bool {
        let place = recorded_path(files, directory);
        let Ok(Stat { mode, fingerprint, .. }) = files.stat(&place) else { return false };
        if mode & OWNER_WRITE_SEARCH == OWNER_WRITE_SEARCH {
            return false;
        }
        let open = Attributes { mode: Some(mode | OWNER_WRITE_SEARCH), ..Attributes::default() };
        let to = TargetState::Attributes(&open);
        let opening = Alteration { expect: ExpectedState::Same(fingerprint), to, temporary: None };
        if files.alter(&place, &opening).is_err() {
            return false;
        }
        // A directory that is removed or replaced needs no mode afterwards.
        let gets_mode = |step: &CommitStep<'_>| match step.to {
            TargetState::Attributes(attributes) => attributes.mode.is_some(),
            TargetState::Directory { .. } => false,
            _ => true,
        };
        if !all.iter().any(|step| step.path.path == directory && gets_mode(step)) {
            let last = Attributes { mode: Some(mode), ..Attributes::default() };
            self.0.push((directory.to_owned(), last));
        }
        true
    }

    /// Gives all directories their final modes and times, inner ones first.
    pub(super) fn apply(mut self, files: &dyn Files) -> Result<(), FileError> {
        self.0.sort_by(|(one, _), (other, _)| other.cmp(one));
        for (directory, last) in &self.0 {
            let place = recorded_path(files, directory);
            let Stat { fingerprint, .. } = files.stat(&place)?;
            let to = TargetState::Attributes(last);
            let settling =
                Alteration { expect: ExpectedState::Same(fingerprint), to, temporary: None };
            files.alter(&place, &settling)?;
        }
        Ok(())
    }
}
