//! What differs between a call of then and the same call now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass::changes::{Checkpoint, FileState, History};
use windlass::{CallResult, Outcome};

use super::names::{Names, without_durations};
use crate::command::recorded::Recorded;

/// What a call left behind, by path in the workspace.
pub(super) type Changes = BTreeMap<PathBuf, FileState>;

/// What became of a call.
pub(super) enum Replayed {
    Same,
    Differs(Box<Difference>),
    /// Why it was not made.
    Skipped(String),
}

/// Then and now.
pub(super) struct Difference {
    /// The shells of its command.
    pub(super) shell: Option<(String, String)>,
    pub(super) outcome: Option<(Outcome, Outcome)>,
    pub(super) text: Option<(String, String)>,
    pub(super) files: Vec<FileDifference>,
}

/// A file that a call left otherwise than it did then; `None` if it did not touch it.
pub(super) struct FileDifference {
    pub(super) path: PathBuf,
    pub(super) was: Option<FileState>,
    pub(super) now: Option<FileState>,
    pub(super) was_content: Option<Vec<u8>>,
    pub(super) now_content: Option<Vec<u8>>,
}

/// How each path was left by the changes, which are given the newest first.
pub(super) fn changes(checkpoints: &[Checkpoint], workspace: &Path) -> Changes {
    let all = checkpoints.iter().rev().flat_map(|checkpoint| &checkpoint.changes);
    let inside = all.filter(|change| !change.is_directory_time()).filter_map(|change| {
        let path = change.path.strip_prefix(workspace).ok()?;
        Some((path.to_owned(), change.after.clone()))
    });
    inside.collect()
}

impl Difference {
    pub(super) fn between(
        then: &Recorded,
        now: &CallResult,
        shell: Option<String>,
        names: &Names,
        (was, is): (Changes, Changes),
    ) -> Option<Self> {
        let outcome = then.outcome.filter(|outcome| *outcome != now.outcome);
        let outcome = outcome.map(|outcome| (outcome, now.outcome));
        let shell = shells(then, shell);
        let told = names.back(&now.output.to_text());
        // Who said no, and how, is not repeated.
        let is_same_no = outcome.is_none() && now.outcome == Outcome::Denied;
        let is_same_text = is_same_no || without_durations(&then.text) == without_durations(&told);
        let text = (!is_same_text).then(|| (then.text.clone(), told));
        let files = files(was, is);
        let is_same = shell.is_none() && outcome.is_none() && text.is_none() && files.is_empty();
        (!is_same).then_some(Self { shell, outcome, text, files })
    }

    /// With what the files held then, as far as it is kept, and hold now.
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

/// The shells of a command that began, if they differ. Records mention no bash.
fn shells(then: &Recorded, now: Option<String>) -> Option<(String, String)> {
    let named = |shell: Option<String>| shell.unwrap_or_else(|| "bash".to_owned());
    let is_other = then.began && then.shell != now;
    is_other.then(|| (named(then.shell.clone()), named(now)))
}

fn files(mut was: Changes, is: Changes) -> Vec<FileDifference> {
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
