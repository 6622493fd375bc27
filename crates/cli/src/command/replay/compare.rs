//! Compares a recorded call with its replay.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass::changes::{Checkpoint, FileState, History};
use windlass::{CallResult, Outcome};

use super::name_map::{NameMap, without_durations};
use crate::command::recorded::RecordedCall;

/// The states of the files that a call changed, after it, by path in the workspace.
pub(super) type FileStates = BTreeMap<PathBuf, FileState>;

/// The result of replaying a call.
pub(super) enum Replayed {
    /// Outcome, text and files are the same.
    Same,
    /// Something differs.
    Differs(Box<Difference>),
    /// The call was not made, for this reason.
    Skipped(String),
}

/// The differences of a call; each pair is the recorded value and the replayed one.
pub(super) struct Difference {
    /// The shells of the command.
    pub(super) shell: Option<(String, String)>,
    pub(super) outcome: Option<(Outcome, Outcome)>,
    pub(super) text: Option<(String, String)>,
    pub(super) files: Vec<FileDifference>,
}

/// A file whose state after the call differs; `None` for the call that did not touch it.
pub(super) struct FileDifference {
    pub(super) path: PathBuf,
    pub(super) was: Option<FileState>,
    pub(super) now: Option<FileState>,
    pub(super) was_content: Option<Vec<u8>>,
    pub(super) now_content: Option<Vec<u8>>,
}

/// Returns the state of each path after all changes of the checkpoints, which are given the newest first.
pub(super) fn file_states(checkpoints: &[Checkpoint], workspace: &Path) -> FileStates {
    let all = checkpoints.iter().rev().flat_map(|checkpoint| &checkpoint.changes);
    let inside = all.filter(|change| !change.is_directory_time()).filter_map(|change| {
        let path = change.path.strip_prefix(workspace).ok()?;
        Some((path.to_owned(), change.after.clone()))
    });
    inside.collect()
}

impl Difference {
    /// Compares a recorded call with its replay; `None` if nothing differs.
    pub(super) fn between(
        then: &RecordedCall,
        now: &CallResult,
        shell: Option<String>,
        names: &NameMap,
        (was, is): (FileStates, FileStates),
    ) -> Option<Self> {
        let outcome = then.outcome.filter(|outcome| *outcome != now.outcome);
        let outcome = outcome.map(|outcome| (outcome, now.outcome));
        let shell = different_shells(then, shell);
        let text_now = names.to_recorded(&now.output.to_text());
        // The text of a denial names the person and the reason, which a replay does not repeat.
        let is_same_no = outcome.is_none() && now.outcome == Outcome::Denied;
        let is_same_text =
            is_same_no || without_durations(&then.text) == without_durations(&text_now);
        let text = (!is_same_text).then(|| (then.text.clone(), text_now));
        let files = different_files(was, is);
        let is_same = shell.is_none() && outcome.is_none() && text.is_none() && files.is_empty();
        (!is_same).then_some(Self { shell, outcome, text, files })
    }

    /// Adds the contents of the differing files: the recorded ones, if the undo history has them, and the current ones.
    pub(super) fn with_contents(mut self, history: &dyn History, copy: &Path) -> Self {
        for file in &mut self.files {
            let kept = |state: &Option<FileState>| state.as_ref()?.hash();
            file.was_content = kept(&file.was).and_then(|hash| history.content(&hash).ok());
            file.now_content =
                kept(&file.now).and_then(|_| std::fs::read(copy.join(&file.path)).ok());
        }
        self
    }
}

/// Returns the recorded and the current shell of a command that began, if they differ. Records omit bash.
fn different_shells(then: &RecordedCall, now: Option<String>) -> Option<(String, String)> {
    let named = |shell: Option<String>| shell.unwrap_or_else(|| "bash".to_owned());
    let is_other = then.began && then.shell != now;
    is_other.then(|| (named(then.shell.clone()), named(now)))
}

/// Returns the paths whose states differ, sorted.
fn different_files(mut was: FileStates, is: FileStates) -> Vec<FileDifference> {
    let file =
        |path, was, now| FileDifference { path, was, now, was_content: None, now_content: None };
    let mut files = Vec::new();
    for (path, now) in is {
        match was.remove(&path) {
            Some(then) if then.is_like(&now) => {}
            then => files.push(file(path, then, Some(now))),
        }
    }
    files.extend(was.into_iter().map(|(path, then)| file(path, Some(then), None)));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}
