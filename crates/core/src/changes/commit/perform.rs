//! Performs the steps of a commit, one after another. A large commit syncs its files to the disk in batches.
//!
//! A batch makes new contents durable before the first of them gets its name: files on a stage at once, temporary files in runs. So
//! after a kill or a loss of power each path has all of its old or all of its new content.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::directories::FinalAttributes;
use super::trees::TreeMoves;
use super::{CommitPlan, CommitStep, StepFacts, recorded_path, written_content};
use crate::{
    Alteration, Altered, Attributes, Batch, ContentSource, ExpectedState, FileError, FileErrorKind,
    FileKind, Files, Fingerprint, Resolved, Stat, TargetState, ToolError,
};

impl CommitPlan<'_> {
    /// Performs every step, until one fails or the call is stopped.
    pub(super) fn perform(
        &self,
        files: &dyn Files,
        steps: &[CommitStep<'_>],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Altered>, StoppedCommit> {
        let batch = if self.changes.len() >= BATCH_MIN_CHANGES {
            files.batch(&staged_contents(steps)).map_err(|error| StoppedCommit::at(0, error))?
        } else {
            None
        };
        let files = batch.as_deref().map_or(files, |batch| batch);
        let mut runner = StepRunner::new(self, files, steps);
        runner.make_parents()?;
        let mut at = 0;
        while at < steps.len() {
            let run = match &batch {
                Some(batch) => {
                    self.prepare(&**batch, steps, at).map_err(|error| StoppedCommit {
                        begun: self.begun_with(at + MAX_RUN_STEPS),
                        ..runner.stopped(error, runner.done)
                    })?
                }
                None => PreparedRun { prepared: Vec::new(), length: steps.len() },
            };
            let end = at + run.length;
            for (number, step) in steps.iter().enumerate().take(end).skip(at) {
                let prepared = run.prepared.get(number - at).and_then(Option::as_deref);
                runner.perform(number, step, prepared, is_stopped).map_err(|error| {
                    // Temporary files that were prepared for later steps may be left.
                    let prepared = if batch.is_some() { self.begun_with(end) } else { 0 };
                    StoppedCommit { begun: error.begun.max(prepared), ..error }
                })?;
            }
            at = end;
        }
        let altered = runner.finish()?;
        if let Some(batch) = batch {
            batch.sync_all().map_err(|error| StoppedCommit::at(self.changes.len(), error))?;
        }
        Ok(altered)
    }

    /// Returns the number of changes that belong to the steps before this one.
    fn begun_with(&self, step: usize) -> usize {
        self.known.get(step).map_or(self.changes.len(), |known| known.change)
    }

    /// Writes temporary files for the next contents whose directories exist, and waits for the disk once.
    fn prepare(
        &self,
        batch: &dyn Batch,
        steps: &[CommitStep<'_>],
        first: usize,
    ) -> Result<PreparedRun, FileError> {
        let mut run = PreparedRun { prepared: Vec::new(), length: 0 };
        for (step, known) in steps.iter().zip(&self.known).skip(first).take(MAX_RUN_STEPS) {
            let (expect, to, temporary) = (step.expect, step.to, self.temporary_of(known));
            let alteration = Alteration { expect, to, temporary };
            let mut prepared = None;
            if temporary.is_some() && can_be_prepared(step, known) {
                prepared = batch.prepare(&step.path, &alteration)?;
                // An earlier step makes its directory, so the run ends before this step.
                if prepared.is_none() && run.length > 0 {
                    break;
                }
            }
            run.prepared.push(prepared);
            run.length += 1;
        }
        if run.prepared.iter().any(Option::is_some) {
            batch.sync_contents()?;
        }
        Ok(run)
    }
}

/// Maximum number of steps that are prepared together.
const MAX_RUN_STEPS: usize = 4096;

/// Consecutive steps, and the temporary files that were written for them.
struct PreparedRun {
    prepared: Vec<Option<PathBuf>>,
    length: usize,
}

/// Returns whether the content of a step can be written to a temporary file beforehand. Files on a stage need not be: they are on
/// the disk already.
fn can_be_prepared(step: &CommitStep<'_>, known: &StepFacts) -> bool {
    let is_new = match step.to {
        TargetState::File { content, .. } => !matches!(content, ContentSource::At(_)),
        _ => false,
    };
    is_new && !known.is_in_place && !step.is_apart && step.rewrite.is_none()
}

/// The performance of a commit's steps, and its progress.
struct StepRunner<'p> {
    plan: &'p CommitPlan<'p>,
    files: &'p dyn Files,
    steps: &'p [CommitStep<'p>],
    altered: Vec<Altered>,
    /// Effects of earlier steps on later ones. `None` for a single step.
    touched: Option<TouchedObjects<'p>>,
    /// Modes and times that directories get after all steps.
    final_attributes: FinalAttributes,
    /// Directories that are renamed with everything in them.
    trees: TreeMoves<'p>,
    /// Number of changes that have been made.
    done: usize,
    /// Indexes of the changes whose directory another process had made first.
    found: Vec<usize>,
}

impl<'p> StepRunner<'p> {
    fn new(plan: &'p CommitPlan<'p>, files: &'p dyn Files, steps: &'p [CommitStep<'p>]) -> Self {
        let touched = (steps.len() > 1).then(|| TouchedObjects::by(steps));
        let (altered, final_attributes) =
            (Vec::with_capacity(steps.len()), FinalAttributes::default());
        let (done, found) = (plan.directory_times, Vec::new());
        let trees = TreeMoves::among(steps);
        Self { plan, files, steps, altered, touched, final_attributes, trees, done, found }
    }

    /// Makes the error of the commit at its present progress.
    fn stopped(&self, error: impl Into<ToolError>, begun: usize) -> StoppedCommit {
        // A renamed directory has performed later steps as well.
        let moved = match self.trees.end() {
            0 => 0,
            end => self.plan.begun_with(end),
        };
        let (done, begun) = (self.done.max(moved), begun.max(moved));
        StoppedCommit { error: error.into(), done, begun, found: self.found.clone() }
    }

    /// Makes the missing directories above new objects.
    fn make_parents(&mut self) -> Result<(), StoppedCommit> {
        for directory in &self.plan.parents {
            match make_directory(self.files, directory) {
                Ok(MadeDirectory::New) => {}
                Ok(MadeDirectory::Found) => self.found.push(self.done),
                Err(error) => return Err(self.stopped(error, self.done + 1)),
            }
            self.done += 1;
        }
        Ok(())
    }

    /// Performs a step, with the content that was prepared for it.
    fn perform(
        &mut self,
        number: usize,
        step: &CommitStep<'_>,
        prepared: Option<&Path>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), StoppedCommit> {
        let Some(known) = self.plan.known.get(number) else { return Ok(()) };
        if is_stopped() {
            let error = ToolError::cancelled("the call was stopped while files were changed");
            return Err(self.stopped(error, self.done));
        }
        let begun = self.done + if matches!(step.to, TargetState::Moved { .. }) { 2 } else { 1 };
        let moved = self.trees.move_whole(self.files, number);
        moved.map_err(|error| self.stopped(error, begun))?;
        let made = match self.trees.take_done(number) {
            Some(moved) => self.complete(step, known, moved),
            None => self.make_step(step, known, prepared),
        };
        match made {
            Ok((step, made)) => {
                if let Some(touched) = &mut self.touched {
                    touched.note(&step, &made);
                }
                self.altered.push(made);
                self.done = begun;
                Ok(())
            }
            Err(FailedStep { error, is_untouched }) => {
                Err(self.stopped(error, if is_untouched { self.done } else { begun }))
            }
        }
    }

    /// Performs a step on the present state, and once more if a directory had to be made writable for it.
    fn make_step<'s>(
        &mut self,
        step: &CommitStep<'s>,
        known: &StepFacts,
        prepared: Option<&'s Path>,
    ) -> Result<(CommitStep<'s>, Altered), FailedStep> {
        let mut step = match &self.touched {
            Some(touched) => touched.refresh(self.files, step).map_err(FailedStep::untouched)?,
            None => step.clone(),
        };
        if let (TargetState::File { content, .. }, Some(place)) = (&mut step.to, prepared) {
            *content = ContentSource::At(place);
        }
        let mut open = Attributes::default();
        let temporary = self.plan.temporary_of(known);
        let opened = self.final_attributes.writable_new(&step, &mut open);
        let mut made = perform_tracked(self.files, &opened, known.kind, temporary);
        if let Err(FailedStep { error, .. }) = &made
            && self.final_attributes.make_parents_writable(self.files, &opened, self.steps, error)
        {
            made = perform_tracked(self.files, &opened, known.kind, temporary);
        }
        made.map(|made| (step, made))
    }

    /// Performs the rest of a step whose object was moved with its directory.
    fn complete<'s>(
        &mut self,
        step: &CommitStep<'s>,
        known: &StepFacts,
        moved: Altered,
    ) -> Result<(CommitStep<'s>, Altered), FailedStep> {
        // The directory gets its mode and times at the end.
        self.final_attributes.writable_new(step, &mut Attributes::default());
        let temporary = self.plan.temporary_of(known);
        perform_rewrite(self.files, step, moved, temporary).map(|made| (step.clone(), made))
    }

    /// Gives directories their final modes and times.
    fn finish(mut self) -> Result<Vec<Altered>, StoppedCommit> {
        let final_attributes = std::mem::take(&mut self.final_attributes);
        match final_attributes.apply(self.files) {
            Ok(()) => Ok(self.altered),
            Err(error) => Err(self.stopped(error, self.done)),
        }
    }
}

/// Minimum number of changes for which a commit uses a batch, so that they wait for the disk together.
pub(crate) const BATCH_MIN_CHANGES: usize = 64;

/// Returns the files on a stage that steps put in place.
fn staged_contents<'a>(steps: &[CommitStep<'a>]) -> Vec<&'a Path> {
    let place = |step: &CommitStep<'a>| match written_content(step) {
        Some(ContentSource::At(path)) => Some(path),
        _ => None,
    };
    steps.iter().filter_map(place).collect()
}

/// Fingerprint of a file that an earlier step of the same commit has yet to make.
pub(crate) const PENDING_FINGERPRINT: Fingerprint =
    Fingerprint { device: 0, inode: 0, len: 0, modified: 0, changed: 0 };

/// Present fingerprints of objects that earlier steps of a commit changed and later steps refer to. Adding or removing a hard link
/// also changes the fingerprint of the file.
struct TouchedObjects<'p> {
    /// Objects to which several steps refer, by device and inode.
    shared: HashSet<(u64, u64)>,
    /// Present fingerprints of the objects that were changed.
    objects: HashMap<(u64, u64), Option<Fingerprint>>,
    /// Paths of files that get further hard links, with their present fingerprints.
    places: HashMap<&'p Path, Option<Fingerprint>>,
}

impl<'p> TouchedObjects<'p> {
    /// Finds the objects and paths to which several steps refer.
    fn by(steps: &'p [CommitStep<'_>]) -> Self {
        let mut all: Vec<(u64, u64)> =
            steps.iter().flat_map(objects_of).map(|seen| (seen.device, seen.inode)).collect();
        all.sort_unstable();
        let shared = all.windows(2).filter_map(|pair| match pair {
            [one, other] if one == other => Some(*one),
            _ => None,
        });
        let with = |step: &'p CommitStep<'_>| match step.to {
            TargetState::Linked { with, .. } => Some((with.path.as_path(), None)),
            _ => None,
        };
        Self {
            shared: shared.collect(),
            objects: HashMap::new(),
            places: steps.iter().filter_map(with).collect(),
        }
    }

    /// Notes the fingerprints after a step was performed.
    fn note(&mut self, step: &CommitStep<'_>, altered: &Altered) {
        let now = altered.stat.map(|stat| stat.fingerprint);
        for seen in objects_of(step) {
            let made = now.filter(|now| now.is_same_object(&seen));
            let object = (seen.device, seen.inode);
            if self.shared.contains(&object) {
                let known = self.objects.entry(object).or_default();
                *known = made.or(*known);
            }
        }
        if let Some(made) = self.places.get_mut(step.path.path.as_path()) {
            *made = now.or(*made);
        }
        // A further hard link changes the fingerprint of the file.
        if let TargetState::Linked { with, .. } = step.to
            && let Some(made) = self.places.get_mut(with.path.as_path())
        {
            *made = now.or(*made);
        }
    }

    /// Returns the step with the present fingerprints.
    fn refresh<'s>(
        &self,
        files: &dyn Files,
        step: &CommitStep<'s>,
    ) -> Result<CommitStep<'s>, FileError> {
        let mut step = step.clone();
        // A step that removes or replaces a hard link accepts any content that this commit wrote to the file.
        let is_content = matches!(step.to, TargetState::File { .. } | TargetState::Attributes(_))
            && !step.is_apart;
        if let ExpectedState::Same(seen) = &mut step.expect {
            *seen = self.current(files, &step.path, *seen, !is_content)?;
        }
        match &mut step.to {
            TargetState::Moved { from, seen } => {
                let is_written = matches!(step.rewrite, Some(TargetState::File { .. }));
                *seen = self.current(files, from, *seen, !is_written)?;
            }
            TargetState::Linked { with, seen } => {
                let made = self.places.get(with.path.as_path()).copied().flatten();
                *seen = self.current(files, with, made.unwrap_or(*seen), true)?;
            }
            _ => {}
        }
        Ok(step)
    }

    /// Returns the present fingerprint of an object that was changed. Its content must be the expected one, or, if `may_be_ours`,
    /// the one that this commit wrote. New content was decided on for the expected one, so it accepts no other.
    fn current(
        &self,
        files: &dyn Files,
        path: &Resolved,
        seen: Fingerprint,
        may_be_ours: bool,
    ) -> Result<Fingerprint, FileError> {
        let Some(made) = self.objects.get(&(seen.device, seen.inode)) else { return Ok(seen) };
        let Some(found) = files.inspect(path)? else { return Ok(seen) };
        let now = found.stat.fingerprint;
        let has_content = |of: &Fingerprint| (of.len, of.modified) == (now.len, now.modified);
        let is_ours = may_be_ours && made.as_ref().is_some_and(has_content);
        let is_it = now.is_same_object(&seen) && (has_content(&seen) || is_ours);
        Ok(if is_it { now } else { seen })
    }
}

/// Returns the fingerprints of the objects to which a step refers.
fn objects_of(step: &CommitStep<'_>) -> impl Iterator<Item = Fingerprint> + use<> {
    let own = match step.expect {
        ExpectedState::Same(seen) => Some(seen),
        ExpectedState::Absent => None,
    };
    let other = match step.to {
        TargetState::Moved { seen, .. } | TargetState::Linked { seen, .. } => Some(seen),
        _ => None,
    };
    own.into_iter().chain(other)
}

/// A commit that stopped half-way.
pub(super) struct StoppedCommit {
    pub(super) error: ToolError,
    /// Number of changes that had been made.
    pub(super) done: usize,
    /// Number of changes that had been begun: the last of them may be half-made.
    pub(super) begun: usize,
    /// Indexes of the changes whose directory another process had made first.
    pub(super) found: Vec<usize>,
}

impl StoppedCommit {
    /// Makes an error after the first `done` changes.
    fn at(done: usize, error: FileError) -> Self {
        Self { error: error.into(), done, begun: done, found: Vec::new() }
    }
}

/// Failure of a step.
struct FailedStep {
    error: FileError,
    /// True if the step changed nothing. Then the state of its path is another program's doing, even if it looks like ours.
    is_untouched: bool,
}

impl FailedStep {
    /// Makes a failure of a step that changed nothing.
    fn untouched(error: FileError) -> Self {
        Self { error, is_untouched: true }
    }

    /// Makes the failure of the first alteration of a step. Most of these errors mean that the object is not the expected one, so
    /// nothing was changed.
    fn first(error: FileError, to: &TargetState<'_>) -> Self {
        use FileErrorKind::{Changed, Exists, NotADirectory, NotEmpty, NotFound, Stale};
        let is_refused =
            matches!(error.kind, Changed | Exists | NotADirectory | NotEmpty | NotFound | Stale);
        // A new hard link is checked after it was made, so this error does not prove that nothing was changed.
        let is_given = matches!((&error.kind, to), (Changed, TargetState::Linked { .. }));
        Self { error, is_untouched: is_refused && !is_given }
    }

    /// Makes a failure of a step that may be half-made.
    fn later(error: FileError) -> Self {
        Self { error, is_untouched: false }
    }
}

/// Result of making a directory.
enum MadeDirectory {
    New,
    Found,
}

/// Makes a directory that other objects need. Accepts an existing one.
fn make_directory(files: &dyn Files, path: &Resolved) -> Result<MadeDirectory, FileError> {
    let to = TargetState::Directory { attributes: None };
    let made =
        files.alter(path, &Alteration { expect: ExpectedState::Absent, to, temporary: None });
    match made {
        Err(FileError { kind: FileErrorKind::Exists, .. }) => match files.stat(path)? {
            Stat { kind: FileKind::Directory, .. } => Ok(MadeDirectory::Found),
            _ => Err(FileError::new("make", &path.path, FileErrorKind::NotADirectory)),
        },
        made => made.map(|_| MadeDirectory::New),
    }
}

/// Performs one step.
pub(crate) fn perform_step(
    files: &dyn Files,
    step: &CommitStep<'_>,
    found: Option<FileKind>,
    temporary: Option<&str>,
) -> Result<Altered, FileError> {
    perform_tracked(files, step, found, temporary).map_err(|failed| failed.error)
}

/// Performs one step. A failure says whether any part of it was done.
fn perform_tracked(
    files: &dyn Files,
    step: &CommitStep<'_>,
    found: Option<FileKind>,
    temporary: Option<&str>,
) -> Result<Altered, FailedStep> {
    if let (true, Some(temporary)) = (step.is_apart, temporary) {
        return replace_hard_link(files, step, temporary).map_err(FailedStep::later);
    }
    let mut expect = step.expect;
    let is_of_another = |kind| kind_of(&step.to).is_some_and(|new| new != kind);
    let is_in_the_way = step.is_apart || found.is_some_and(is_of_another);
    if is_in_the_way {
        // An object of another kind is not replaced, so it is removed first.
        let removal = Alteration { expect, to: TargetState::Nothing, temporary: None };
        let removed = files.alter(&step.path, &removal);
        removed.map_err(|error| FailedStep::first(error, &removal.to))?;
        expect = ExpectedState::Absent;
    }
    let altered = files.alter(&step.path, &Alteration { expect, to: step.to, temporary });
    let altered = altered.map_err(|error| {
        if is_in_the_way { FailedStep::later(error) } else { FailedStep::first(error, &step.to) }
    })?;
    perform_rewrite(files, step, altered, temporary)
}

/// Performs the second change of a step, after the object is in its place.
fn perform_rewrite(
    files: &dyn Files,
    step: &CommitStep<'_>,
    altered: Altered,
    temporary: Option<&str>,
) -> Result<Altered, FailedStep> {
    match (step.rewrite, altered.stat) {
        (Some(to), Some(stat)) => {
            let expect = ExpectedState::Same(stat.fingerprint);
            let rewritten = files.alter(&step.path, &Alteration { expect, to, temporary });
            rewritten.map_err(FailedStep::later)
        }
        _ => Ok(altered),
    }
}

/// Replaces a hard link by a file of its own. Writing to it would change the file under all its hard links, so the new file is made
/// next to it and moved over the path.
fn replace_hard_link(
    files: &dyn Files,
    step: &CommitStep<'_>,
    temporary: &str,
) -> Result<Altered, FileError> {
    let made = recorded_path(files, &step.path.path.with_file_name(temporary));
    let early = incomplete_name(temporary);
    let new = Alteration { expect: ExpectedState::Absent, to: step.to, temporary: Some(&early) };
    let altered = files.alter(&made, &new)?;
    let Some(Stat { fingerprint: seen, .. }) = altered.stat else { return Ok(altered) };
    let to = TargetState::Moved { from: &made, seen };
    files.alter(&step.path, &Alteration { expect: step.expect, to, temporary: None })
}

/// Returns the name of a temporary file while it is not complete.
pub(crate) fn incomplete_name(temporary: &str) -> String {
    format!("{temporary}.new")
}

/// Returns the kind of object that a step makes; `None` if it makes none.
fn kind_of(to: &TargetState<'_>) -> Option<FileKind> {
    match to {
        TargetState::File { .. } | TargetState::Moved { .. } | TargetState::Linked { .. } => {
            Some(FileKind::File)
        }
        TargetState::Symlink(_) => Some(FileKind::Symlink),
        TargetState::Directory { .. } => Some(FileKind::Directory),
        TargetState::Attributes(_) | TargetState::Nothing => None,
    }
}
