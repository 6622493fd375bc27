//! Commits changes of files, several together: all of them or none.
//!
//! Every change of files is a commit, whether a tool, an undo or a proposal makes it. The commit first inspects every object that
//! is about to change and compares it with the expected state. Then it records the states before and after in the undo history.
//! Only then does it touch the first object. After a failure half-way it takes the changes back at once; after a kill half-way, the
//! next process recovers the commit.

mod directories;
mod moves;
mod new_modes;
mod old;
mod perform;
mod trees;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

pub(crate) use self::moves::join_moves;
use self::new_modes::NewModes;
use self::old::{NewBytes, OldContents};
use self::perform::StoppedCommit;
pub(crate) use self::perform::{
    BATCH_MIN_CHANGES, PENDING_FINGERPRINT, incomplete_name, perform_step,
};
use crate::changes::hard_links::{self, FileIdentity};
use crate::changes::history::{NewCheckpoint, NewContent};
use crate::changes::rollback::{RollbackResult, restore_directory_times, roll_back};
use crate::changes::state::{self, InspectedPath};
use crate::{
    Altered, Attributes, ChangeWithoutHistory, ContentHash, ContentSource, ExpectedState,
    FileError, FileErrorKind, FileKind, FileObject, FileState, Files, History, Origin,
    RecordedChange, Resolved, TargetState, ToolError, quote,
};

/// One change of a commit.
///
/// ```
/// use windlass_core::{ExpectedState, Host, CommitStep, TargetState, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let path = host.files().resolve("notes.md".as_ref())?;
/// let step = CommitStep::new(path, ExpectedState::Absent, TargetState::Directory { attributes: None });
/// assert!(step.rewrite.is_none());
/// # Ok::<(), windlass_core::FileError>(())
/// ```
#[derive(Debug, Clone)]
pub struct CommitStep<'a> {
    /// The path.
    pub path: Resolved,
    /// State that must be at the path.
    pub expect: ExpectedState,
    /// Object that the step puts at the path.
    pub to: TargetState<'a>,
    /// Second change after the object is in its place: new content or attributes for a moved file; the time of a symbolic link.
    pub rewrite: Option<TargetState<'a>>,
    /// Present bytes, if the caller read them together with `expect`. Then they are not read again.
    pub before: Option<&'a [u8]>,
    /// Present state, if the caller knows it and the fingerprint in `expect` proves that it still holds. Then the file is not
    /// hashed again.
    pub known: Option<&'a FileState>,
    /// Identity of the recorded file that the new file stands for.
    pub stands_for: Option<FileObject>,
    /// True if the path gets a file of its own, and the present one stays unchanged under its other hard links.
    pub is_apart: bool,
    /// True if a directory of the same owner that forbids changes of names is made writable for the step: the command's or the
    /// restored change was allowed when it was made.
    pub opens_directories: bool,
}

impl<'a> CommitStep<'a> {
    /// Makes a step of one path, without a rewrite or known state.
    pub fn new(path: Resolved, expect: ExpectedState, to: TargetState<'a>) -> Self {
        Self {
            path,
            expect,
            to,
            rewrite: None,
            before: None,
            known: None,
            stands_for: None,
            is_apart: false,
            opens_directories: false,
        }
    }
}

/// Refusal of a commit: nothing was changed, or the changes were taken back, except those in `left`.
#[derive(Debug)]
pub(crate) struct RefusedCommit {
    /// Cause of the refusal.
    pub(crate) error: ToolError,
    /// True if the commit had several steps.
    pub(crate) has_several_steps: bool,
    /// Paths that were changed and then restored.
    pub(crate) taken_back: Vec<PathBuf>,
    /// Paths that were changed and could not be restored, and why.
    pub(crate) left: Vec<(PathBuf, String)>,
    /// True if the checkpoint stays unfinished: the next process finishes the change or takes it back.
    pub(crate) is_unfinished: bool,
}

/// Maximum number of restored paths that a refusal names.
const MAX_NAMED_PATHS: usize = 20;

impl From<ToolError> for RefusedCommit {
    fn from(error: ToolError) -> Self {
        let (taken_back, left) = (Vec::new(), Vec::new());
        Self { error, has_several_steps: false, taken_back, left, is_unfinished: false }
    }
}

impl From<FileError> for RefusedCommit {
    fn from(error: FileError) -> Self {
        ToolError::from(error).into()
    }
}

impl RefusedCommit {
    /// Converts to a tool error that also names the paths that were restored, up to a limit, and those that could not be. The error of a
    /// single step that left nothing stays as it is.
    pub(crate) fn into_error(self, workspace: &Path) -> ToolError {
        if !self.has_several_steps && self.left.is_empty() {
            return self.error;
        }
        let mut words = vec![self.error.message().text.to_string()];
        let name =
            |path: &Path| quote::path(path.strip_prefix(workspace).unwrap_or(path)).into_owned();
        if self.left.is_empty() {
            words.push("nothing is changed".into());
        }
        if !self.taken_back.is_empty() {
            let names = self.taken_back.iter().take(MAX_NAMED_PATHS).map(|path| name(path));
            let more = self.taken_back.len().saturating_sub(MAX_NAMED_PATHS);
            let rest = (more > 0).then(|| format!("and {more} more"));
            let names: Vec<String> = names.chain(rest).collect();
            words.push(format!("taken back: {}", names.join(", ")));
        }
        for (path, why) in &self.left {
            words.push(format!("NOT TAKEN BACK: {}: {why}", name(path)));
        }
        self.error.with_text(words.join("\n"))
    }
}

/// Makes every change, or none, and returns the result of each step, in order. If a step fails or the call is stopped half-way, the
/// changes are taken back; those that cannot be are in the refusal and stay in the history.
pub(crate) fn commit(
    files: &dyn Files,
    history: &dyn History,
    origin: &Origin,
    steps: &[CommitStep<'_>],
    is_stopped: &dyn Fn() -> bool,
) -> Result<Vec<Altered>, RefusedCommit> {
    commit_with(files, history, origin, steps, &[], is_stopped)
}

/// Commits like [`commit`], for a call that also makes changes without history.
pub(crate) fn commit_with(
    files: &dyn Files,
    history: &dyn History,
    origin: &Origin,
    steps: &[CommitStep<'_>],
    without_history: &[ChangeWithoutHistory],
    is_stopped: &dyn Fn() -> bool,
) -> Result<Vec<Altered>, RefusedCommit> {
    let mut plan = CommitPlan::of(files, origin, steps)?;
    // An undo is recorded even if every file already has its earlier state: otherwise the next undo would select the same calls
    // again.
    if plan.changes.is_empty() && !origin.is_undo() {
        return Ok(Vec::new());
    }
    let contents = plan.contents(steps);
    let new =
        NewCheckpoint { origin, changes: &plan.changes, contents: &contents, without_history };
    let pending = history.record(&new).map_err(|error| {
        ToolError::from(error)
            .with_context("what is there could not be saved, so nothing is changed")
    })?;
    drop(contents);
    // The contents are in the history now and need not be held in memory.
    plan.free_contents();
    match plan.perform(files, steps, is_stopped) {
        Ok(altered) => {
            // Frees memory, which the history may need.
            drop(plan);
            // The change is made and can be undone; if this mark fails, the next process sets it.
            drop(pending.finish());
            Ok(altered)
        }
        Err(StoppedCommit { error, done, begun, found }) => {
            let content = |hash: &ContentHash| pending.open(hash).map_err(ToolError::from);
            let begun = plan.changes.get(..begun).unwrap_or(&plan.changes);
            // Directories that another process made in the meantime are not ours to remove.
            let is_ours = |(at, _): &(usize, &RecordedChange)| !found.contains(at);
            let ours: Vec<RecordedChange> = begun
                .iter()
                .enumerate()
                .filter(is_ours)
                .map(|(_, change)| change.clone())
                .collect();
            let done = done - found.len();
            let RollbackResult { taken_back, left, is_retryable } =
                roll_back(files, &ours, done, &content);
            // All changes are passed, also those that were not begun. A time that cannot be restored is no reason to try again.
            drop(restore_directory_times(files, &plan.changes));
            match (is_retryable, left.is_empty()) {
                (true, _) => pending.leave(),
                (false, true) => drop(pending.abandon()),
                // The changes that could not be taken back must stay in the history.
                (false, false) => drop(pending.finish()),
            }
            Err(RefusedCommit {
                error,
                has_several_steps: steps.len() > 1,
                taken_back,
                left,
                is_unfinished: is_retryable,
            })
        }
    }
}

/// The plan of a commit, made before anything is touched.
struct CommitPlan<'f> {
    /// Recorded changes in the order in which they are made: first the times of directories in which names change, then missing
    /// directories, then the steps.
    changes: Vec<RecordedChange>,
    /// Number of changes that only record the time of a directory.
    directory_times: usize,
    /// Missing directories to be made.
    parents: Vec<Resolved>,
    /// Present contents that no step brings along.
    read: OldContents<'f>,
    /// Facts about each step.
    known: Vec<StepFacts>,
    /// For each file with several hard links that is altered, the index of its first change.
    altered: HashMap<FileIdentity, usize>,
    /// Index of the last change of each path, among the first `indexed` changes.
    last_changes: HashMap<PathBuf, usize>,
    indexed: usize,
    /// Modes of new files.
    new_modes: NewModes,
}

/// Maximum bytes of new contents that the history keeps, so that changes can be shown and compared later. An undo needs the old
/// content only, and an undo of that undo can read the new content from the file.
const MAX_NEW_CONTENT_BYTES: u64 = 64 << 20;

/// Facts about one step.
struct StepFacts {
    /// Kind of the present object.
    kind: Option<FileKind>,
    /// Hash of the present bytes.
    old: Option<ContentHash>,
    /// Hash of the new bytes.
    new: Option<ContentHash>,
    new_length: u64,
    /// The new bytes, if they are few enough to be held until they are recorded.
    held: Option<Box<[u8]>>,
    /// True if new bytes are written over the old ones: a kill may leave a mixture, and both contents are needed to recognize it.
    is_in_place: bool,
    /// Range of the step's contents in `read`.
    read: std::ops::Range<usize>,
    /// Index of the step's change in `changes`.
    change: usize,
}

/// Paths that a step makes or that are known to exist.
type HandledPaths<'s> = HashSet<&'s Path>;

impl<'f> CommitPlan<'f> {
    /// Inspects the paths of all steps and plans the recorded changes. Fails if a path does not have the expected state.
    fn of(
        files: &'f dyn Files,
        origin: &Origin,
        steps: &[CommitStep<'_>],
    ) -> Result<Self, RefusedCommit> {
        let mut plan = Self {
            changes: directories::record_directories(files, steps),
            directory_times: 0,
            parents: Vec::new(),
            read: OldContents::new(files),
            known: Vec::with_capacity(steps.len()),
            altered: HashMap::new(),
            last_changes: HashMap::new(),
            indexed: 0,
            new_modes: NewModes::default(),
        };
        plan.directory_times = plan.changes.len();
        // Exact capacity: a vector that grows can take twice the memory.
        plan.changes.reserve_exact(steps.len());
        plan.read.reserve(steps.iter().filter(|step| step.expect != ExpectedState::Absent).count());
        let mut planned: HandledPaths<'_> =
            steps.iter().map(|step| step.path.path.as_path()).collect();
        for step in steps {
            plan.add_missing_parents(files, &mut planned, step)?;
        }
        for (number, step) in steps.iter().enumerate() {
            plan.add_step(files, origin, number, step)?;
        }
        plan.complete_states(steps);
        plan.last_changes = HashMap::new();
        Ok(plan)
    }

    /// Adds the missing directories above a new object that no step makes.
    fn add_missing_parents<'s>(
        &mut self,
        files: &dyn Files,
        planned: &mut HandledPaths<'s>,
        step: &'s CommitStep<'_>,
    ) -> Result<(), FileError> {
        if step.expect != ExpectedState::Absent || matches!(step.to, TargetState::Nothing) {
            return Ok(());
        }
        let mut missing = Vec::new();
        for above in step.path.path.ancestors().skip(1) {
            if planned.contains(above) {
                break;
            }
            let place = recorded_path(files, above);
            match files.stat(&place) {
                Ok(_) => {
                    // Spares the check for the next file in this directory.
                    planned.insert(above);
                    break;
                }
                Err(FileError { kind: FileErrorKind::NotFound, .. }) => {
                    planned.insert(above);
                    missing.push(place);
                }
                Err(error) => return Err(error),
            }
        }
        for path in missing.into_iter().rev() {
            let after = FileState::Directory { attributes: Attributes::default() };
            self.changes.push(RecordedChange::new(&path.path, FileState::Absent, after));
            self.parents.push(path);
        }
        Ok(())
    }

    /// Plans one step: inspects its path, and computes the recorded change.
    fn add_step(
        &mut self,
        files: &dyn Files,
        origin: &Origin,
        number: usize,
        step: &CommitStep<'_>,
    ) -> Result<(), RefusedCommit> {
        let read = self.read.all.len();
        let seen = self.inspect_step(step)?;
        let (before, kind) = (seen.state, seen.kind);
        let moved = self.plan_move(step)?;
        let linked = self.plan_link(step)?;
        let written = written_content(step);
        let new = written.map(|source| self.read.read_new(source)).transpose();
        let new = new.map_err(unreadable)?;
        let mut after = match linked {
            Some(linked) => linked,
            None => state_after(step, &before, moved.as_ref(), new.as_ref()),
        };
        if before == FileState::Absent {
            self.new_modes.complete(files, step, &mut after);
        }
        let is_in_place = hard_links::shared_identity(&after).is_some();
        let new_length = match after {
            FileState::File { len, .. } => len,
            _ => 0,
        };
        if alters_file(step) {
            self.note_alteration(files, step, &after)?;
        }
        let is_link = matches!(step.to, TargetState::Symlink(_) | TargetState::Linked { .. });
        let temporary = (written.is_some() || is_link).then(|| temporary_name(origin, number));
        self.known.push(StepFacts {
            kind,
            old: before.hash(),
            new: new.as_ref().map(|new| new.hash),
            new_length,
            held: new.and_then(|new| new.bytes),
            is_in_place,
            read: read..self.read.all.len(),
            change: self.changes.len(),
        });
        self.changes.push(RecordedChange {
            path: step.path.path.clone(),
            before,
            after,
            moved_from: moved.map(|(from, _)| from),
            temporary,
        });
        Ok(())
    }

    /// Notes the first change of a file with several hard links. Fails if a later step gives it another state under another link.
    fn note_alteration(
        &mut self,
        files: &dyn Files,
        step: &CommitStep<'_>,
        after: &FileState,
    ) -> Result<(), ToolError> {
        let Some(object) = hard_links::shared_identity(after) else { return Ok(()) };
        let at = *self.altered.entry(object).or_insert(self.changes.len());
        let Some(earlier) = self.changes.get(at).filter(|earlier| !earlier.after.is_like(after))
        else {
            return Ok(());
        };
        let inside = |path: &Path| {
            quote::path(path.strip_prefix(files.workspace()).unwrap_or(path)).into_owned()
        };
        let (name, other) = (inside(&step.path.path), inside(&earlier.path));
        Err(ToolError::failed(format!("{name} and {other} are names of one file"))
            .hint("change it under one of them; nothing is changed"))
    }

    /// Completes the recorded states: a file that is altered through one hard link has that state under all of them, and a restored
    /// file gets the identity of the recorded one.
    fn complete_states(&mut self, steps: &[CommitStep<'_>]) {
        for (step, known) in steps.iter().zip(&self.known) {
            let altered = self.changes.get(known.change).and_then(|change| {
                let at = self.altered.get(&hard_links::shared_identity(&change.after)?)?;
                self.changes.get(*at).map(|altered| altered.after.clone())
            });
            let Some(change) = self.changes.get_mut(known.change) else { continue };
            if let Some(altered) = altered {
                change.after = altered;
            }
            if let FileState::File { object, .. } = &mut change.after {
                *object = step.stands_for.or(*object);
            }
        }
    }

    /// Inspects the path of a step, unless it is expected to be free. Fails if its state is not the expected one, or if the object is no
    /// file, symbolic link or directory. Adds its content to those that the history must keep, unless
    /// the step brings it along.
    fn inspect_step(&mut self, step: &CommitStep<'_>) -> Result<InspectedPath, RefusedCommit> {
        let seen = match step.expect {
            // The change itself checks that the path is free.
            ExpectedState::Absent => return Ok(InspectedPath::absent()),
            ExpectedState::Same(expected) => {
                let seen = match (step.known, step.before) {
                    (Some(known), None) => self.read.inspect_known(&step.path, expected, known),
                    (_, before) => {
                        self.read.inspect(&step.path, before.map(|bytes| (expected, bytes)))
                    }
                };
                let mut seen = seen.map_err(|error| inspection_error(step, error))?;
                if seen.fingerprint != Some(expected) {
                    let name = step.path.inside.as_ref().unwrap_or(&step.path.path);
                    return Err(FileError::new("change", name, FileErrorKind::Stale).into());
                }
                if step.before.is_none() {
                    self.read.add(&step.path, &mut seen);
                }
                seen
            }
        };
        match seen.state {
            FileState::Other => {
                let kind = seen.kind.unwrap_or(FileKind::Device);
                Err(FileError::new("change", &step.path.path, FileErrorKind::NotRegular(kind))
                    .into())
            }
            _ => Ok(seen),
        }
    }

    /// For a moved file, returns the old path and the state, and adds the removal there and the content. `None` for other steps.
    fn plan_move(
        &mut self,
        step: &CommitStep<'_>,
    ) -> Result<Option<(PathBuf, FileState)>, RefusedCommit> {
        let TargetState::Moved { from, .. } = step.to else { return Ok(None) };
        let mut seen = self.read.inspect(from, None)?;
        self.read.add(from, &mut seen);
        let gone = RecordedChange::new(&from.path, seen.state.clone(), FileState::Absent);
        self.changes.push(gone);
        Ok(Some((from.path.clone(), seen.state)))
    }

    /// Returns the last change so far of a path. Updates the index of paths first.
    fn change_at(&mut self, path: &Path) -> Option<&RecordedChange> {
        let indexed = self.indexed;
        for (at, change) in self.changes.iter().enumerate().skip(indexed) {
            self.last_changes.insert(change.path.clone(), at);
        }
        self.indexed = self.changes.len();
        self.changes.get(*self.last_changes.get(path)?)
    }

    /// Returns the name of the temporary file for the content of a step, if it has one.
    fn temporary_of(&self, known: &StepFacts) -> Option<&str> {
        self.changes.get(known.change)?.temporary.as_deref()
    }

    /// For a path that becomes a hard link, returns the state of the file to which it is linked. `None` for other steps.
    fn plan_link(&mut self, step: &CommitStep<'_>) -> Result<Option<FileState>, RefusedCommit> {
        let TargetState::Linked { with, .. } = step.to else { return Ok(None) };
        if let Some(made) = self.change_at(&with.path) {
            return Ok(Some(made.after.clone()));
        }
        let mut seen = self.read.inspect(with, None)?;
        self.read.add(with, &mut seen);
        let FileState::File { hash, len, attributes, object } = seen.state else {
            return Err(FileError::new("link", &with.path, FileErrorKind::Changed).into());
        };
        let object = object.map(|object| FileObject { links: object.links + 1, ..object });
        Ok(Some(FileState::File { hash, len, attributes, object }))
    }

    /// Frees the contents that are held in memory.
    fn free_contents(&mut self) {
        self.read.free();
        for known in &mut self.known {
            known.held = None;
        }
    }

    /// Returns the contents that the history must keep: every present content; and new contents if a recovery needs them, or as
    /// long as they are few enough to be shown later. A new content follows the old one that it probably resembles.
    fn contents<'a>(&'a self, steps: &'a [CommitStep<'a>]) -> Vec<NewContent<'a>> {
        let count = self.read.all.len() + self.known.iter().filter(|one| one.new.is_some()).count();
        let mut contents: Vec<NewContent<'a>> = Vec::with_capacity(count);
        let mut known = HashSet::with_capacity(count);
        let mut add = |content: NewContent<'a>| {
            if known.insert(content.hash) {
                contents.push(content);
            }
        };
        let mut new_bytes = 0;
        for (step, known) in steps.iter().zip(&self.known) {
            if let (Some(hash), Some(bytes)) = (known.old, step.before) {
                add(NewContent { hash, source: ContentSource::Bytes(bytes), base: None });
            }
            for old in self.read.all.get(known.read.clone()).unwrap_or_default() {
                add(NewContent { hash: old.hash, source: old.source(), base: None });
            }
            if let (Some(hash), Some(source)) = (known.new, written_content(step)) {
                new_bytes += known.new_length;
                if known.is_in_place || new_bytes <= MAX_NEW_CONTENT_BYTES {
                    let source = known.held.as_deref().map_or(source, ContentSource::Bytes);
                    add(NewContent { hash, source, base: known.old });
                }
            }
        }
        contents
    }
}

/// Converts an error of the inspection, with advice if the permissions of the file itself are the cause.
fn inspection_error(step: &CommitStep<'_>, error: FileError) -> ToolError {
    let is_refused = matches!(error.kind, FileErrorKind::Permission);
    let error = ToolError::from(error);
    if !is_refused {
        return error;
    }
    let name = quote::path(step.path.inside.as_ref().unwrap_or(&step.path.path)).into_owned();
    error.hint(format!(
        "what is there must be read so that it can be brought back: let its owner read it (`chmod u+r {name}`, `chmod u+rx` \
         for a directory above it), then try again"
    ))
}

/// Returns the content that a step writes; `None` if it writes none.
fn written_content<'a>(step: &CommitStep<'a>) -> Option<ContentSource<'a>> {
    match (&step.rewrite, &step.to) {
        (Some(TargetState::File { content, .. }), _)
        | (None, TargetState::File { content, .. }) => Some(*content),
        _ => None,
    }
}

/// Returns whether a step changes the file itself, not only its path.
fn alters_file(step: &CommitStep<'_>) -> bool {
    matches!(
        step.rewrite.as_ref().unwrap_or(&step.to),
        TargetState::File { .. } | TargetState::Attributes(_)
    )
}

/// Returns the state of the path after a step.
fn state_after(
    step: &CommitStep<'_>,
    before: &FileState,
    moved: Option<&(PathBuf, FileState)>,
    new: Option<&NewBytes>,
) -> FileState {
    let origin = moved.map_or(before, |(_, state)| state);
    if let (TargetState::Symlink(target), Some(TargetState::Attributes(attributes))) =
        (step.to, step.rewrite)
    {
        return FileState::Symlink { target: target.into(), attributes: attributes.clone() };
    }
    match (step.rewrite.as_ref().unwrap_or(&step.to), new) {
        (TargetState::Nothing, _) => FileState::Absent,
        (TargetState::Symlink(target), _) => {
            FileState::Symlink { target: (*target).to_owned(), attributes: Attributes::default() }
        }
        (TargetState::Directory { attributes }, _) => {
            FileState::Directory { attributes: attributes.cloned().unwrap_or_default() }
        }
        (TargetState::File { attributes, .. }, Some(new)) => FileState::File {
            hash: new.hash,
            len: new.length,
            attributes: state::merged_attributes(*attributes, state::attributes_of_file(origin)),
            object: None,
        },
        (TargetState::Attributes(attributes), _) => state::with_attributes(origin, attributes),
        _ => origin.clone(),
    }
}

/// Converts an absolute path without symbolic links, such as a recorded one, without resolving it. It counts as existing.
pub(crate) fn recorded_path(files: &dyn Files, path: &Path) -> Resolved {
    let inside = path.strip_prefix(files.workspace()).ok().map(Path::to_owned);
    Resolved { path: path.to_owned(), inside, exists: true }
}

/// Returns the name of the temporary file for the content of a step. Call ids are random, so no other program can foresee it.
fn temporary_name(origin: &Origin, number: usize) -> String {
    format!("{TEMPORARY_PREFIX}{}-{number}.tmp", origin.call)
}

/// Prefix of the names of temporary files.
pub(crate) const TEMPORARY_PREFIX: &str = ".windlass-";

/// Converts an error of reading the new content.
#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn unreadable(error: std::io::Error) -> RefusedCommit {
    ToolError::host_failed(format!("the new content could not be read: {error}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_some_of_the_files_that_were_taken_back() {
        let said = |count: usize| {
            let taken_back = (0..count).map(|number| format!("/w/f{number}").into()).collect();
            let error = ToolError::failed("the disk is full");
            let refused = RefusedCommit { has_several_steps: true, taken_back, ..error.into() };
            refused.into_error("/w".as_ref()).message().text.to_string()
        };
        assert_eq!(said(2), "the disk is full\nnothing is changed\ntaken back: f0, f1");
        let all = said(MAX_NAMED_PATHS);
        assert!(all.ends_with(", f18, f19"), "{all}");
        let more = said(300);
        assert_eq!(more, format!("{all}, and 280 more"));
    }
}
