//! Removes protected paths that a job makes in the real workspace.
//!
//! A job that works directly on the workspace can make files that other programs act on later: a git directory with hooks,
//! `.envrc`, `.husky`. Protected paths that exist when the job begins are read-only for it. New ones are removed as soon as they
//! are seen, at the end of the job at the latest, in a commit with a checkpoint: an undo of the call restores them. An interrupted
//! removal is finished at the next start, not taken back.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Context;
use super::judge::{JudgeInputs, judge};
use crate::changes::commit;
use crate::jobs::Job;
use crate::sync::Lock;
use crate::{
    ChangedTo, CheckpointQuery, CommitStep, ExpectedState, FileState, Files, FoundBody,
    PLANTED_REMOVAL, ProcessChange, TargetState, ToolError, quote,
};

/// Minimum pause between two scans.
const MIN_SCAN_PAUSE: Duration = Duration::from_secs(1);

/// A scan takes at most one part in this number of the time.
const SCAN_TIME_DIVISOR: u32 = 50;

/// Maximum number of objects in a protected path that is removed.
const MAX_OBJECTS: usize = 100_000;

/// Sentences about paths that were removed.
pub(super) type RemovalNotes = Arc<Lock<Vec<String>>>;

impl Context {
    /// Scans a job's changes repeatedly for as long as it works directly on the workspace.
    pub(super) async fn watch_for_planted<T>(&self, job: &Arc<Job>, removed: &RemovalNotes) -> T {
        let mut pause = MIN_SCAN_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            let (began, watched) = (Instant::now(), job.clone());
            let changes = self.blocking(move |_| watched.process.changes_so_far()).await;
            let Ok(Some(changes)) = changes else { return std::future::pending().await };
            self.remove_planted(changes, removed).await;
            pause = MIN_SCAN_PAUSE.max(began.elapsed() * SCAN_TIME_DIVISOR);
        }
    }

    /// Removes the protected paths among these changes of the real workspace, and adds sentences about them.
    pub(super) async fn remove_planted(&self, changes: Vec<ProcessChange>, removed: &RemovalNotes) {
        let removed = removed.clone();
        let done = self.blocking(move |cx| {
            // Holds the lock meanwhile: a job can end because it sees that a file is gone, before the removal is noted here.
            let mut removed = removed.lock();
            removed.extend(cx.remove_planted_now(&changes));
        });
        // If no thread could be started, the next scan removes them.
        drop(done.await);
    }

    /// Removes the protected paths among these changes, and returns sentences about them. Blocking.
    fn remove_planted_now(&self, changes: &[ProcessChange]) -> Vec<String> {
        let files = self.0.session_files.get();
        let homes = self.0.policy.hard_denies().homes();
        let judgement = judge(changes, files, JudgeInputs { homes, masked: &[] }, false);
        let planted = changes.iter().filter(|change| {
            let is_made = change.before.is_none() && !matches!(change.to, ChangedTo::Nothing);
            is_made && judgement.reason(&change.path).is_some()
        });
        let mut outermost: Vec<&Path> = Vec::new();
        for change in planted {
            if !outermost.iter().any(|above| change.path.starts_with(above)) {
                outermost.push(&change.path);
            }
        }
        let is_made = |change: &&ProcessChange| change.before.is_none();
        let made: HashSet<&Path> =
            changes.iter().filter(is_made).map(|change| change.path.as_path()).collect();
        let told = |path: &Path| {
            let name = quote::path(path.strip_prefix(files.workspace()).unwrap_or(path));
            let reason = judgement.reason(path).unwrap_or_default();
            match self.remove_tree(path, &made) {
                Ok(true) => Some(format!(
                    "removed {name}, which the job made: {reason} are not for a job to make; `windlass undo --call {}` brings it back",
                    self.0.call
                )),
                Ok(false) => None,
                Err(error) => Some(format!(
                    "{name} was made by the job ({reason}) and could not be removed: {}; look at it before you use it",
                    error.message().text
                )),
            }
        };
        outermost.into_iter().filter_map(told).collect()
    }

    /// Removes a path with everything below it, and the job's directories above it that become empty. Returns false if there is no
    /// content, or if the job did not make the path: the call was allowed to, or another call made it meanwhile.
    fn remove_tree(&self, path: &Path, made: &HashSet<&Path>) -> Result<bool, ToolError> {
        let files = self.0.session_files.get();
        let mut found = Vec::new();
        collect_tree(files, path, &mut found)?;
        let is_empty = found.iter().all(|object| object.is_empty);
        if is_empty || self.0.grant.may_write(path) || self.was_made_by_a_call(path)? {
            return Ok(false);
        }
        let mut objects = self.emptied_parents(path, made);
        let around = objects.len();
        objects.extend(found);
        // A directory stays if it is no longer empty.
        if around == 0 || self.remove_objects(&objects).is_err() {
            self.remove_objects(&objects[around..])?;
        }
        Ok(true)
    }

    /// Returns the directories above a path that the job made and that hold nothing else, outermost first.
    fn emptied_parents(&self, removed: &Path, made: &HashSet<&Path>) -> Vec<PlantedObject> {
        let files = self.0.session_files.get();
        let mut around = Vec::new();
        let mut inside = removed;
        for path in removed.ancestors().skip(1).take_while(|path| made.contains(path)) {
            let Ok(Some(found)) = files.inspect(&commit::recorded_path(files, path)) else { break };
            let FoundBody::Directory(names) = &found.body else { break };
            let holds_more = names.iter().any(|name| Some(name.as_os_str()) != inside.file_name());
            // If the history cannot be read, a call may have made the directory.
            if holds_more || self.was_made_by_a_call(path).unwrap_or(true) {
                break;
            }
            let expect = ExpectedState::Same(found.stat.fingerprint);
            around.insert(0, PlantedObject { path: path.to_owned(), expect, is_empty: true });
            inside = path;
        }
        around
    }

    /// Removes objects in one commit, the last ones first.
    fn remove_objects(&self, found: &[PlantedObject]) -> Result<(), ToolError> {
        let files = self.0.session_files.get();
        let step = |object: &PlantedObject| {
            let path = commit::recorded_path(files, &object.path);
            // A directory's mode cannot prevent the removal.
            CommitStep {
                opens_directories: true,
                ..CommitStep::new(path, object.expect, TargetState::Nothing)
            }
        };
        let steps: Vec<CommitStep<'_>> = found.iter().rev().map(step).collect();
        let mut origin = self.files().origin(Vec::new());
        PLANTED_REMOVAL.clone_into(&mut origin.tool);
        let made = commit::commit(files, self.0.history(), &origin, &steps, &|| false);
        made.map_err(|refused| refused.into_error(files.workspace()))?;
        Ok(())
    }

    /// Returns whether a call made the object at a path, according to the history.
    fn was_made_by_a_call(&self, path: &Path) -> Result<bool, ToolError> {
        let workspace = self.0.session_files.get().workspace().to_owned();
        let checkpoints = self.0.history().checkpoints(&CheckpointQuery::Workspace(workspace))?;
        Ok(checkpoints.iter().filter(|checkpoint| checkpoint.can_be_undone()).any(|checkpoint| {
            let mut changes = checkpoint.changes.iter();
            changes.any(|change| {
                let is_made = change.after != FileState::Absent && !change.is_directory_time();
                change.path == path && is_made
            })
        }))
    }
}

/// An object to remove.
struct PlantedObject {
    path: PathBuf,
    expect: ExpectedState,
    is_empty: bool,
}

/// Collects an object and everything below it, directories before their contents.
fn collect_tree(
    files: &dyn Files,
    path: &Path,
    to: &mut Vec<PlantedObject>,
) -> Result<(), ToolError> {
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let Some(found) = files.inspect(&commit::recorded_path(files, &path))? else { continue };
        let is_empty = match &found.body {
            FoundBody::Directory(names) => {
                waiting.extend(names.iter().map(|name| path.join(name)));
                true
            }
            _ => found.stat.len == 0,
        };
        to.push(PlantedObject {
            path,
            expect: ExpectedState::Same(found.stat.fingerprint),
            is_empty,
        });
        if to.len() > MAX_OBJECTS {
            return Err(ToolError::failed(format!("it holds more than {MAX_OBJECTS} objects")));
        }
    }
    Ok(())
}
