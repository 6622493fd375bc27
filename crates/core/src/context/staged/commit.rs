//! Commits the staged changes of a program, with a checkpoint, as one change of files.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::changes::commit;
use crate::{
    ChangedTo, Context, Expect, FileError, Files, Fingerprint, ProcessChange, ProcessChanges,
    Resolved, Source, Step, To, ToolError, WithoutHistory,
};

impl Context {
    /// Makes the changes in the workspace. Blocking.
    pub(super) fn commit_changes(
        &self,
        changes: &ProcessChanges,
        without_history: &[WithoutHistory],
    ) -> Result<(), ToolError> {
        let inner = &self.0;
        let files = inner.files();
        let others = others_of(&*files, &changes.changes)?;
        let steps: Vec<Step<'_>> = changes
            .changes
            .iter()
            .enumerate()
            .map(|(at, change)| {
                step_of(commit::beside(&*files, &change.path), change, others.get(&at))
            })
            .collect();
        let steps = commit::join_moves(&*files, &steps);
        let is_stopped = || inner.session.is_cancelled();
        let origin = self.files().origin(Vec::new());
        let made = commit::commit_with(
            &*files,
            inner.history(),
            &origin,
            &steps,
            without_history,
            &is_stopped,
        );
        made.map_err(|refused| {
            if let Some(stage) = &changes.stage {
                if refused.is_open { stage.leave() } else { stage.untie() }
            }
            refused.into_error(files.workspace())
        })?;
        for change in &changes.changes {
            inner.session.forget(&change.path);
        }
        Ok(())
    }
}

/// The files of which changes become more names, by the place of the change among all.
fn others_of(
    files: &dyn Files,
    changes: &[ProcessChange],
) -> Result<HashMap<usize, (Resolved, Fingerprint)>, FileError> {
    let names = changes.iter().enumerate().filter_map(|(at, change)| match &change.to {
        ChangedTo::Linked(with) => Some((at, with)),
        _ => None,
    });
    let mut names = names.peekable();
    if names.peek().is_none() {
        return Ok(HashMap::new());
    }
    let made: HashSet<&Path> = changes.iter().map(|change| change.path.as_path()).collect();
    let other = |(at, with): (usize, &PathBuf)| {
        let place = commit::beside(files, with);
        let is_made = made.contains(with.as_path());
        let seen = if is_made { commit::NOT_YET } else { files.stat(&place)?.fingerprint };
        Ok((at, (place, seen)))
    };
    names.map(other).collect()
}

fn step_of<'s>(
    path: Resolved,
    change: &'s ProcessChange,
    other: Option<&'s (Resolved, Fingerprint)>,
) -> Step<'s> {
    let expect = change.before.map_or(Expect::Absent, Expect::Same);
    let to = match (&change.to, other) {
        (ChangedTo::Linked(_), Some((with, seen))) => To::Linked { with, seen: *seen },
        (ChangedTo::File(content, attributes), _) => {
            To::File { content: Source::At(content), attributes: Some(attributes) }
        }
        (ChangedTo::Attributes(attributes), _) => To::Attributes(attributes),
        (ChangedTo::Symlink(target, _), _) => To::Symlink(target),
        (ChangedTo::Directory(attributes), _) => To::Directory { attributes: Some(attributes) },
        (ChangedTo::Nothing | ChangedTo::Linked(_), _) => To::Nothing,
    };
    let rewrite = match &change.to {
        ChangedTo::Symlink(_, time) if !time.is_empty() => Some(To::Attributes(time)),
        _ => None,
    };
    Step { rewrite, opens_directories: true, ..Step::new(path, expect, to) }
}
