//! Rollback of changes that were begun: those of a call that failed half-way, or of a program that was killed there.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use crate::changes::commit::{self, CommitStep, recorded_path};
use crate::changes::hard_links::{self, FileIdentity};
use crate::changes::recover;
use crate::changes::state::{self, InspectedPath};
use crate::{
    Alteration, Attributes, ExpectedState, FileError, FileKind, FileState, Files, RecordedChange,
    Resolved, Stat, TargetState,
};

/// Result of a rollback: the restored paths, and those that could not be restored.
pub(crate) struct RollbackResult {
    pub(crate) taken_back: Vec<PathBuf>,
    pub(crate) left: Vec<(PathBuf, String)>,
    /// True if some change is still half-made but may be taken back later, for example when the disk has space again.
    pub(crate) is_retryable: bool,
}

/// Takes back changes that were begun, the last one first. An object that has neither its state before nor the one after the change
/// was changed by another program and is left alone. This is reported for the first `done` changes only, which had really been
/// made.
pub(crate) fn roll_back(
    files: &dyn Files,
    changes: &[RecordedChange],
    done: usize,
    content: state::ContentOpener<'_>,
) -> RollbackResult {
    let batch = if changes.len() >= commit::BATCH_MIN_CHANGES {
        files.batch(&[]).ok().flatten()
    } else {
        None
    };
    let Some(batch) = batch else { return roll_back_each(files, changes, done, content) };
    let mut rolled = roll_back_each(&*batch, changes, done, content);
    if let Err(error) = batch.sync_all() {
        rolled.is_retryable = true;
        rolled.left.push((error.path.clone(), error.to_string()));
    }
    rolled
}

/// Takes back each change, the last one first, then links shared files together again.
fn roll_back_each(
    files: &dyn Files,
    changes: &[RecordedChange],
    done: usize,
    content: state::ContentOpener<'_>,
) -> RollbackResult {
    let mut rolled =
        RollbackResult { taken_back: Vec::new(), left: Vec::new(), is_retryable: false };
    for change in changes {
        rolled.is_retryable |= recover::remove_temporary(files, change).is_err();
    }
    let moves = state::CheckpointMoves::among(changes);
    // A file that could not be moved back is still at its other path, so its old path must not be restored from the history.
    let mut elsewhere: HashSet<&Path> = HashSet::new();
    for (at, change) in changes.iter().enumerate().rev() {
        if elsewhere.contains(change.path.as_path()) {
            continue;
        }
        match state::restore_before(files, change, &moves.of(change), content) {
            Ok(state::RestoreResult::AsBefore) => {}
            Ok(state::RestoreResult::Restored) if is_made_for_others(change) => {}
            Ok(state::RestoreResult::Restored) if change.is_directory_time() => {}
            Ok(state::RestoreResult::Restored) => rolled.taken_back.push(change.path.clone()),
            Ok(state::RestoreResult::ChangedByOthers) if at >= done => {}
            Ok(state::RestoreResult::ChangedByOthers) => {
                let why = "another program changed it in the meantime".to_owned();
                rolled.left.push((change.path.clone(), why));
            }
            Err(error) => {
                rolled.is_retryable = true;
                elsewhere.extend(change.moved_from.as_deref());
                rolled.left.push((change.path.clone(), error.message().text.to_string()));
            }
        }
    }
    if let Err(error) = relink(files, changes) {
        rolled.is_retryable = true;
        rolled.left.push((error.path.clone(), error.to_string()));
    }
    rolled
}

/// Restores the times of directories from which something was moved and that were to be removed or replaced. The moves back have
/// changed these times.
pub(crate) fn restore_directory_times(
    files: &dyn Files,
    changes: &[RecordedChange],
) -> Result<(), FileError> {
    let origins = changes.iter().filter_map(|change| change.moved_from.as_deref()?.parent());
    let left: HashSet<&Path> = origins.flat_map(Path::ancestors).collect();
    for change in changes.iter().filter(|change| left.contains(change.path.as_path())) {
        let FileState::Directory { attributes } = &change.before else { continue };
        if matches!(change.after, FileState::Directory { .. }) {
            continue;
        }
        let path = recorded_path(files, &change.path);
        let Ok(Stat { kind: FileKind::Directory, fingerprint, .. }) = files.stat(&path) else {
            continue;
        };
        if attributes.modified.is_some_and(|modified| modified != fingerprint.modified) {
            let time = Attributes { modified: attributes.modified, ..Attributes::default() };
            let (expect, to) = (ExpectedState::Same(fingerprint), TargetState::Attributes(&time));
            files.alter(&path, &Alteration { expect, to, temporary: None })?;
        }
    }
    Ok(())
}

/// Returns whether the change made a directory. Such directories are made for files in them and are not worth reporting.
fn is_made_for_others(change: &RecordedChange) -> bool {
    matches!((&change.before, &change.after), (FileState::Absent, FileState::Directory { .. }))
}

/// Links the restored paths of one file together again. This comes last: if the file's inode is lost, its hard links cannot be
/// found by number before all of them are restored.
fn relink(files: &dyn Files, changes: &[RecordedChange]) -> Result<(), FileError> {
    let mut groups: BTreeMap<FileIdentity, Vec<&RecordedChange>> = BTreeMap::new();
    for change in changes {
        if let Some(object) = hard_links::shared_identity(&change.before) {
            groups.entry(object).or_default().push(change);
        }
    }
    groups.into_iter().try_for_each(|(object, changes)| relink_file(files, object, &changes))
}

/// Links the restored paths of one file together again.
fn relink_file(
    files: &dyn Files,
    object: FileIdentity,
    changes: &[&RecordedChange],
) -> Result<(), FileError> {
    let mut names: Vec<RestoredLink<'_>> = Vec::with_capacity(changes.len());
    for change in changes {
        let path = recorded_path(files, &change.path);
        let seen = state::inspect_recorded(files, &change.path)?;
        if seen.state.is_like(&change.before) {
            names.push(RestoredLink { path, seen, temporary: change.temporary.as_deref() });
        }
    }
    let Some(before) = changes.first().map(|change| &change.before) else { return Ok(()) };
    let is_apart =
        |name: &RestoredLink<'_>| hard_links::identity_of(&name.seen.state) != Some(object);
    if !names.iter().any(is_apart) {
        return Ok(());
    }
    let found = hard_links::find_link(files, object, before, &|_| false)?;
    let most_names = || names.iter().max_by_key(|name| hard_links::link_count(&name.seen.state));
    let (with, carrier) = match (&found, most_names()) {
        (Some((with, carrier)), _) => (with, carrier),
        (None, Some(name)) => (&name.path, &name.seen),
        (None, None) => return Ok(()),
    };
    let Some(mut seen) = carrier.fingerprint else { return Ok(()) };
    let joined = hard_links::identity_of(&carrier.state);
    for name in names.iter().filter(|name| hard_links::identity_of(&name.seen.state) != joined) {
        let step = CommitStep::new(
            name.path.clone(),
            name.seen.expect(),
            TargetState::Linked { with, seen },
        );
        let altered = commit::perform_step(files, &step, name.seen.kind, name.temporary)?;
        // A further hard link changes the fingerprint.
        seen = altered.stat.map_or(seen, |stat| stat.fingerprint);
    }
    Ok(())
}

/// A path that was a hard link of the file, and its present state.
struct RestoredLink<'a> {
    path: Resolved,
    seen: InspectedPath,
    temporary: Option<&'a str>,
}
