//! Commits the staged changes of a program, with a checkpoint.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::changes::commit;
use crate::changes::state::{self, InspectedPath};
use crate::{
    ChangeWithoutHistory, ChangedTo, CommitStep, ContentHash, ContentSource, Context,
    ExpectedState, FileError, FileState, Files, Fingerprint, FoundIndex, KeptContent,
    OpenedContent, ProcessChange, ProcessChanges, Resolved, TargetState, ToolError,
};

impl Context {
    /// Commits the changes to the workspace. Blocking.
    pub(super) fn commit_changes(
        &self,
        changes: &ProcessChanges,
        without_history: &[ChangeWithoutHistory],
    ) -> Result<(), ToolError> {
        let inner = &self.0;
        let files = inner.files();
        let others = link_targets(&*files, &changes.changes)?;
        let states = changes.states.get().map_or(&[][..], Vec::as_slice);
        let indexes = changes.indexes.get().map_or(&[][..], Vec::as_slice);
        let expected = expected(&*files, &changes.changes, states, indexes);
        let steps: Vec<CommitStep<'_>> = changes
            .changes
            .iter()
            .zip(&expected)
            .enumerate()
            .map(|(at, (change, expected))| {
                let place = commit::recorded_path(&*files, &change.path);
                let known = expected.known.as_deref();
                CommitStep { known, ..step_of(place, change, expected.expect, others.get(&at)) }
            })
            .collect();
        let mut steps = commit::join_moves(&*files, &steps);
        let is_held = changes.stage.as_ref().is_some_and(|stage| stage.is_held());
        let copies = if is_held { staged_copies(&steps)? } else { Vec::new() };
        if is_held {
            for (step, copy) in steps.to_mut().iter_mut().zip(&copies) {
                use_copy(step, copy.as_ref());
            }
        }
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
                if refused.is_unfinished { stage.leave() } else { stage.untie() }
            }
            refused.into_error(files.workspace())
        })?;
        for change in &changes.changes {
            inner.session.forget(&change.path);
        }
        Ok(())
    }
}

/// A file that stays on the stage when a step puts its content into the workspace: the step may be taken back and tried again.
#[derive(Debug)]
struct StagedCopy<'s> {
    place: &'s Path,
    hash: ContentHash,
    length: u64,
}

impl KeptContent for StagedCopy<'_> {
    fn hash(&self) -> ContentHash {
        self.hash
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn open(&self) -> io::Result<OpenedContent> {
        Ok(OpenedContent::File(std::fs::File::open(self.place)?))
    }
}

/// Returns the files on the stage that the steps put in place, in the order of the steps.
fn staged_copies<'s>(steps: &[CommitStep<'s>]) -> Result<Vec<Option<StagedCopy<'s>>>, ToolError> {
    let copy = |step: &CommitStep<'s>| {
        let TargetState::File { content: ContentSource::At(place), .. } =
            step.rewrite.unwrap_or(step.to)
        else {
            return Ok(None);
        };
        let (hash, length) = ContentHash::measure(ContentSource::At(place))?;
        Ok(Some(StagedCopy { place, hash, length }))
    };
    let copies: io::Result<_> = steps.iter().map(copy).collect();
    copies.map_err(|error| {
        ToolError::host_failed(format!("what the command changed cannot be read: {error}"))
    })
}

/// Makes a step copy the file from the stage instead of moving it away.
fn use_copy<'s>(step: &mut CommitStep<'s>, copy: Option<&'s StagedCopy<'s>>) {
    let Some(copy) = copy else { return };
    for to in [Some(&mut step.to), step.rewrite.as_mut()].into_iter().flatten() {
        if let TargetState::File { content: content @ ContentSource::At(_), .. } = to {
            *content = ContentSource::Kept(copy);
        }
    }
}

/// Returns the states before changes; `None` if the path did not exist, or has another object by now. Blocking.
pub(super) fn states_before(
    files: &dyn Files,
    changes: &[ProcessChange],
) -> Vec<Option<FileState>> {
    let state = |change: &ProcessChange| {
        let seen = state::inspect_recorded(files, &change.path).ok()?;
        // Checks again: the bytes were read after the first check.
        let now = fingerprint(files, &change.path);
        (seen.fingerprint == change.before && now == change.before).then_some(seen.state)
    };
    changes.iter().map(|change| change.before.and_then(|_| state(change))).collect()
}

/// Returns the entries of the git indexes among the changed files, whose states before were noted. Blocking.
pub(super) fn found_indexes(
    files: &dyn Files,
    changes: &[ProcessChange],
    states: &[Option<FileState>],
) -> Vec<FoundIndex> {
    let index = |(change, state): (&ProcessChange, &Option<FileState>)| {
        let entries = state::hash_index_at(files, &change.path, state.as_ref()?)?;
        Some(FoundIndex { path: change.path.clone(), entries })
    };
    changes.iter().zip(states).filter_map(index).collect()
}

/// Returns the paths that have neither the object that the program found nor the noted state. Blocking.
pub(super) fn changed_since(
    files: &dyn Files,
    changes: &[ProcessChange],
    states: &[Option<FileState>],
    indexes: &[FoundIndex],
) -> Vec<PathBuf> {
    let expected = expected(files, changes, states, indexes);
    let is_as_found = |change: &ProcessChange, expected: &ExpectedObject<'_>| {
        expected.known.is_some() || fingerprint(files, &change.path) == change.before
    };
    let changed =
        changes.iter().zip(&expected).filter(|(change, expected)| !is_as_found(change, expected));
    changed.map(|(change, _)| change.path.clone()).collect()
}

/// Returns the present fingerprint of a path.
fn fingerprint(files: &dyn Files, path: &Path) -> Option<Fingerprint> {
    let found = files.inspect(&commit::recorded_path(files, path)).ok()??;
    Some(found.stat.fingerprint)
}

/// The object that must be at the path of a change.
struct ExpectedObject<'s> {
    expect: ExpectedState,
    /// Its state, if the fingerprint proves it.
    known: Option<Cow<'s, FileState>>,
}

/// Returns the object that must be at the path of each change: the one that the program found, or one that differs from it only in
/// times and inode, or a git index that was only refreshed.
fn expected<'s>(
    files: &dyn Files,
    changes: &[ProcessChange],
    states: &'s [Option<FileState>],
    indexes: &[FoundIndex],
) -> Vec<ExpectedObject<'s>> {
    let is_gone = |change: &&ProcessChange| matches!(change.to, ChangedTo::Nothing);
    let gone: HashSet<&Path> =
        changes.iter().filter(is_gone).map(|change| change.path.as_path()).collect();
    // A directory that is removed must not contain any new object.
    let holds_others = |change: &ProcessChange, now: &InspectedPath| {
        !matches!(change.to, ChangedTo::Attributes(_) | ChangedTo::Directory(_))
            && now.entries.iter().any(|name| !gone.contains(&*change.path.join(name)))
    };
    let is_refreshed = |path: &Path, before: &FileState, now: &FileState| {
        let found = indexes.iter().find(|index| index.path == path);
        found.is_some_and(|index| {
            state::differs_in_bytes_only(before, now)
                && state::hash_index_at(files, path, now) == Some(index.entries)
        })
    };
    let expected = |(at, change): (usize, &ProcessChange)| {
        let Some(before) = change.before else {
            return ExpectedObject { expect: ExpectedState::Absent, known: None };
        };
        let as_found = |known| ExpectedObject { expect: ExpectedState::Same(before), known };
        let Some(state) = states.get(at).and_then(Option::as_ref) else { return as_found(None) };
        if fingerprint(files, &change.path) == Some(before) {
            return as_found(Some(Cow::Borrowed(state)));
        }
        // A commit that was taken back, an editor or `touch` leaves the same bytes with another time or inode.
        match state::inspect_recorded(files, &change.path) {
            Ok(now) if state::is_unchanged(state, &now.state) && !holds_others(change, &now) => {
                ExpectedObject { expect: now.expect(), known: Some(Cow::Owned(now.state)) }
            }
            Ok(now) if is_refreshed(&change.path, state, &now.state) => {
                ExpectedObject { expect: now.expect(), known: Some(Cow::Owned(now.state)) }
            }
            _ => as_found(None),
        }
    };
    changes.iter().enumerate().map(expected).collect()
}

/// For the changes that add a hard link, returns the file to which it is linked, by index of the change.
fn link_targets(
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
        let place = commit::recorded_path(files, with);
        let is_made = made.contains(with.as_path());
        let seen =
            if is_made { commit::PENDING_FINGERPRINT } else { files.stat(&place)?.fingerprint };
        Ok((at, (place, seen)))
    };
    names.map(other).collect()
}

/// Makes the commit step of a change.
fn step_of<'s>(
    path: Resolved,
    change: &'s ProcessChange,
    expect: ExpectedState,
    other: Option<&'s (Resolved, Fingerprint)>,
) -> CommitStep<'s> {
    let to = match (&change.to, other) {
        (ChangedTo::Linked(_), Some((with, seen))) => TargetState::Linked { with, seen: *seen },
        (ChangedTo::File(content, attributes), _) => {
            TargetState::File { content: ContentSource::At(content), attributes: Some(attributes) }
        }
        (ChangedTo::Attributes(attributes), _) => TargetState::Attributes(attributes),
        (ChangedTo::Symlink(target, _), _) => TargetState::Symlink(target),
        (ChangedTo::Directory(attributes), _) => {
            TargetState::Directory { attributes: Some(attributes) }
        }
        (ChangedTo::Nothing | ChangedTo::Linked(_), _) => TargetState::Nothing,
    };
    let rewrite = match &change.to {
        ChangedTo::Symlink(_, time) if !time.is_empty() => Some(TargetState::Attributes(time)),
        _ => None,
    };
    CommitStep { rewrite, opens_directories: true, ..CommitStep::new(path, expect, to) }
}
