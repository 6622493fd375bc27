//! Performs the steps of a commit, one after another. A large commit syncs its files to the disk in batches.
//!
//! A batch makes new contents durable before the first of them gets its name: files on a stage at once, temporary files in runs. So
//! after a kill or a loss of power each path has all of its old or all of its new content.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::directories::Unsettled;
use super::trees::Trees;
use super::{Known, Plan, Step, beside, written};
use crate::{
    Alteration, Altered, Attributes, Batch, Expect, FileError, FileErrorKind, FileKind, Files,
    Fingerprint, Resolved, Source, Stat, To, ToolError,
};

impl Plan<'_> {
    /// Performs every step, until one fails or the call is stopped.
    pub(super) fn perform(
        &self,
        files: &dyn Files,
        steps: &[Step<'_>],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Altered>, Stopped> {
        let batch = if self.changes.len() >= MANY {
            files.batch(&staged(steps)).map_err(|error| Stopped::at(0, error))?
        } else {
            None
        };
        let files = batch.as_deref().map_or(files, |batch| batch);
        let mut performance = Performance::new(self, files, steps);
        performance.make_parents()?;
        let mut at = 0;
        while at < steps.len() {
            let run = match &batch {
                Some(batch) => self.prepare(&**batch, steps, at).map_err(|error| Stopped {
                    begun: self.begun_with(at + LONGEST_RUN),
                    ..performance.stopped(error, performance.done)
                })?,
                None => Run { prepared: Vec::new(), length: steps.len() },
            };
            let end = at + run.length;
            for (number, step) in steps.iter().enumerate().take(end).skip(at) {
                let prepared = run.prepared.get(number - at).and_then(Option::as_deref);
                performance.perform(number, step, prepared, is_stopped).map_err(|error| {
                    // Temporary files that were prepared for later steps may be left.
                    let prepared = if batch.is_some() { self.begun_with(end) } else { 0 };
                    Stopped { begun: error.begun.max(prepared), ..error }
                })?;
            }
            at = end;
        }
        let altered = performance.finish()?;
        if let Some(batch) = batch {
            batch.settle().map_err(|error| Stopped::at(self.changes.len(), error))?;
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
        steps: &[Step<'_>],
        first: usize,
    ) -> Result<Run, FileError> {
        let mut run = Run { prepared: Vec::new(), length: 0 };
        for (step, known) in steps.iter().zip(&self.known).skip(first).take(LONGEST_RUN) {
            let (expect, to, temporary) = (step.expect, step.to, self.temporary(known));
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
            batch.secure()?;
        }
        Ok(run)
    }
}

/// Maximum number of steps that are prepared together.
const LONGEST_RUN: usize = 4096;

/// Consecutive steps, and the temporary files that were written for them.
struct Run {
    prepared: Vec<Option<PathBuf>>,
    length: usize,
}

/// Returns whether the content of a step can be written to a temporary file beforehand. Files on a stage need not be: they are on
/// the disk already.
fn can_be_prepared(step: &Step<'_>, known: &Known) -> bool {
    let is_new = match step.to {
        To::File { content, .. } => !matches!(content, Source::At(_)),
        _ => false,
    };
    is_new && !known.is_in_place && !step.is_apart && step.rewrite.is_none()
}

/// The performance of a commit's steps, and its progress.
struct Performance<'p> {
    plan: &'p Plan<'p>,
    files: &'p dyn Files,
    steps: &'p [Step<'p>],
    altered: Vec<Altered>,
    /// Effects of earlier steps on later ones. `None` for a single step.
    touched: Option<Touched<'p>>,
    /// Modes and times that directories get after all steps.
    unsettled: Unsettled,
    /// Directories that are renamed with everything in them.
    trees: Trees<'p>,
    /// Number of changes that have been made.
    done: usize,
    /// Indexes of the changes whose directory another process had made first.
    found: Vec<usize>,
}

impl<'p> Performance<'p> {
    fn new(plan: &'p Plan<'p>, files: &'p dyn Files, steps: &'p [Step<'p>]) -> Self {
        let touched = (steps.len() > 1).then(|| Touched::by(steps));
        let (altered, unsettled) = (Vec::with_capacity(steps.len()), Unsettled::default());
        let (done, found) = (plan.around, Vec::new());
        let trees = Trees::among(steps);
        Self { plan, files, steps, altered, touched, unsettled, trees, done, found }
    }

    fn stopped(&self, error: impl Into<ToolError>, begun: usize) -> Stopped {
        // A renamed directory has performed later steps as well.
        let moved = match self.trees.end() {
            0 => 0,
            end => self.plan.begun_with(end),
        };
        let (done, begun) = (self.done.max(moved), begun.max(moved));
        Stopped { error: error.into(), done, begun, found: self.found.clone() }
    }

    /// Makes the missing directories above new objects.
    fn make_parents(&mut self) -> Result<(), Stopped> {
        for directory in &self.plan.parents {
            match make_directory(self.files, directory) {
                Ok(Made::New) => {}
                Ok(Made::Found) => self.found.push(self.done),
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
        step: &Step<'_>,
        prepared: Option<&Path>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), Stopped> {
        let Some(known) = self.plan.known.get(number) else { return Ok(()) };
        if is_stopped() {
            let error = ToolError::cancelled("the call was stopped while files were changed");
            return Err(self.stopped(error, self.done));
        }
        let begun = self.done + if matches!(step.to, To::Moved { .. }) { 2 } else { 1 };
        let moved = self.trees.move_whole(self.files, number);
        moved.map_err(|error| self.stopped(error, begun))?;
        let made = match self.trees.take_done(number) {
            Some(moved) => self.complete(step, known, moved),
            None => self.make(step, known, prepared),
        };
        match made {
            Ok((step, made)) => {
                if let Some(touched) = &mut self.touched {
                    touched.add(&step, &made);
                }
                self.altered.push(made);
                self.done = begun;
                Ok(())
            }
            Err(Failed { error, is_untouched }) => {
                Err(self.stopped(error, if is_untouched { self.done } else { begun }))
            }
        }
    }

    /// Performs a step on the present state, and once more if a directory had to be made writable for it.
    fn make<'s>(
        &mut self,
        step: &Step<'s>,
        known: &Known,
        prepared: Option<&'s Path>,
    ) -> Result<(Step<'s>, Altered), Failed> {
        let mut step = match &self.touched {
            Some(touched) => touched.renew(self.files, step).map_err(Failed::untouched)?,
            None => step.clone(),
        };
        if let (To::File { content, .. }, Some(place)) = (&mut step.to, prepared) {
            *content = Source::At(place);
        }
        let mut open = Attributes::default();
        let temporary = self.plan.temporary(known);
        let opened = self.unsettled.open_new(&step, &mut open);
        let mut made = perform_parts(self.files, &opened, known.kind, temporary);
        if let Err(Failed { error, .. }) = &made
            && self.unsettled.open_around(self.files, &opened, self.steps, error)
        {
            made = perform_parts(self.files, &opened, known.kind, temporary);
        }
        made.map(|made| (step, made))
    }

    /// Performs the rest of a step whose object was moved with its directory.
    fn complete<'s>(
        &mut self,
        step: &Step<'s>,
        known: &Known,
        moved: Altered,
    ) -> Result<(Step<'s>, Altered), Failed> {
        // The directory gets its mode and times at the end.
        self.unsettled.open_new(step, &mut Attributes::default());
        let temporary = self.plan.temporary(known);
        rewrite(self.files, step, moved, temporary).map(|made| (step.clone(), made))
    }

    /// Gives directories their final modes and times.
    fn finish(mut self) -> Result<Vec<Altered>, Stopped> {
        let unsettled = std::mem::take(&mut self.unsettled);
        match unsettled.settle(self.files) {
            Ok(()) => Ok(self.altered),
            Err(error) => Err(self.stopped(error, self.done)),
        }
    }
}

/// Minimum number of changes for which a commit uses a batch, so that they wait for the disk together.
pub(crate) const MANY: usize = 64;

/// Returns the files on a stage that steps put in place.
fn staged<'a>(steps: &[Step<'a>]) -> Vec<&'a Path> {
    let place = |step: &Step<'a>| match written(step) {
        Some(Source::At(path)) => Some(path),
        _ => None,
    };
    steps.iter().filter_map(place).collect()
}

/// Fingerprint of a file that an earlier step of the same commit has yet to make.
pub(crate) const NOT_YET: Fingerprint =
    Fingerprint { device: 0, inode: 0, len: 0, modified: 0, changed: 0 };

/// Present fingerprints of objects that earlier steps of a commit changed and later steps refer to. Adding or removing a hard link
/// also changes the fingerprint of the file.
struct Touched<'p> {
    /// Objects to which several steps refer, by device and inode.
    shared: HashSet<(u64, u64)>,
    /// Present fingerprints of the objects that were changed.
    objects: HashMap<(u64, u64), Option<Fingerprint>>,
    /// Paths of files that get further hard links, with their present fingerprints.
    places: HashMap<&'p Path, Option<Fingerprint>>,
}

impl<'p> Touched<'p> {
    fn by(steps: &'p [Step<'_>]) -> Self {
        let mut all: Vec<(u64, u64)> =
            steps.iter().flat_map(objects_of).map(|seen| (seen.device, seen.inode)).collect();
        all.sort_unstable();
        let shared = all.windows(2).filter_map(|pair| match pair {
            [one, other] if one == other => Some(*one),
            _ => None,
        });
        let with = |step: &'p Step<'_>| match step.to {
            To::Linked { with, .. } => Some((with.path.as_path(), None)),
            _ => None,
        };
        Self {
            shared: shared.collect(),
            objects: HashMap::new(),
            places: steps.iter().filter_map(with).collect(),
        }
    }

    fn add(&mut self, step: &Step<'_>, altered: &Altered) {
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
        if let To::Linked { with, .. } = step.to
            && let Some(made) = self.places.get_mut(with.path.as_path())
        {
            *made = now.or(*made);
        }
    }

    /// Returns the step with the present fingerprints.
    fn renew<'s>(&self, files: &dyn Files, step: &Step<'s>) -> Result<Step<'s>, FileError> {
        let mut step = step.clone();
        // A step that removes or replaces a hard link accepts any content that this commit wrote to the file.
        let is_content = matches!(step.to, To::File { .. } | To::Attributes(_)) && !step.is_apart;
        if let Expect::Same(seen) = &mut step.expect {
            *seen = self.current(files, &step.path, *seen, !is_content)?;
        }
        match &mut step.to {
            To::Moved { from, seen } => {
                let is_written = matches!(step.rewrite, Some(To::File { .. }));
                *seen = self.current(files, from, *seen, !is_written)?;
            }
            To::Linked { with, seen } => {
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
        let Some(found) = files.look(path)? else { return Ok(seen) };
        let now = found.stat.fingerprint;
        let has_content = |of: &Fingerprint| (of.len, of.modified) == (now.len, now.modified);
        let is_ours = may_be_ours && made.as_ref().is_some_and(has_content);
        let is_it = now.is_same_object(&seen) && (has_content(&seen) || is_ours);
        Ok(if is_it { now } else { seen })
    }
}

/// Returns the fingerprints of the objects to which a step refers.
fn objects_of(step: &Step<'_>) -> impl Iterator<Item = Fingerprint> + use<> {
    let own = match step.expect {
        Expect::Same(seen) => Some(seen),
        Expect::Absent => None,
    };
    let other = match step.to {
        To::Moved { seen, .. } | To::Linked { seen, .. } => Some(seen),
        _ => None,
    };
    own.into_iter().chain(other)
}

/// A commit that stopped half-way.
pub(super) struct Stopped {
    pub(super) error: ToolError,
    /// Number of changes that had been made.
    pub(super) done: usize,
    /// Number of changes that had been begun: the last of them may be half-made.
    pub(super) begun: usize,
    /// Indexes of the changes whose directory another process had made first.
    pub(super) found: Vec<usize>,
}

impl Stopped {
    fn at(done: usize, error: FileError) -> Self {
        Self { error: error.into(), done, begun: done, found: Vec::new() }
    }
}

/// Failure of a step.
struct Failed {
    error: FileError,
    /// True if the step changed nothing. Then the state of its path is another program's doing, even if it looks like ours.
    is_untouched: bool,
}

impl Failed {
    fn untouched(error: FileError) -> Self {
        Self { error, is_untouched: true }
    }

    /// Makes the failure of the first alteration of a step. Most of these errors mean that the object is not the expected one, so
    /// nothing was changed.
    fn first(error: FileError, to: &To<'_>) -> Self {
        use FileErrorKind::{Changed, Exists, NotADirectory, NotEmpty, NotFound, Stale};
        let is_refused =
            matches!(error.kind, Changed | Exists | NotADirectory | NotEmpty | NotFound | Stale);
        // A new hard link is checked after it was made, so this error does not prove that nothing was changed.
        let is_given = matches!((&error.kind, to), (Changed, To::Linked { .. }));
        Self { error, is_untouched: is_refused && !is_given }
    }

    fn later(error: FileError) -> Self {
        Self { error, is_untouched: false }
    }
}

/// Result of making a directory.
enum Made {
    New,
    Found,
}

/// Makes a directory that other objects need. Accepts an existing one.
fn make_directory(files: &dyn Files, path: &Resolved) -> Result<Made, FileError> {
    let to = To::Directory { attributes: None };
    let made = files.alter(path, &Alteration { expect: Expect::Absent, to, temporary: None });
    match made {
        Err(FileError { kind: FileErrorKind::Exists, .. }) => match files.stat(path)? {
            Stat { kind: FileKind::Directory, .. } => Ok(Made::Found),
            _ => Err(FileError::new("make", &path.path, FileErrorKind::NotADirectory)),
        },
        made => made.map(|_| Made::New),
    }
}

/// Performs one step.
pub(crate) fn perform(
    files: &dyn Files,
    step: &Step<'_>,
    found: Option<FileKind>,
    temporary: Option<&str>,
) -> Result<Altered, FileError> {
    perform_parts(files, step, found, temporary).map_err(|failed| failed.error)
}

/// Performs one step. A failure says whether any part of it was done.
fn perform_parts(
    files: &dyn Files,
    step: &Step<'_>,
    found: Option<FileKind>,
    temporary: Option<&str>,
) -> Result<Altered, Failed> {
    if let (true, Some(temporary)) = (step.is_apart, temporary) {
        return put_apart(files, step, temporary).map_err(Failed::later);
    }
    let mut expect = step.expect;
    let is_of_another = |kind| kind_of(&step.to).is_some_and(|new| new != kind);
    let is_in_the_way = step.is_apart || found.is_some_and(is_of_another);
    if is_in_the_way {
        // An object of another kind is not replaced, so it is removed first.
        let removal = Alteration { expect, to: To::Nothing, temporary: None };
        let removed = files.alter(&step.path, &removal);
        removed.map_err(|error| Failed::first(error, &removal.to))?;
        expect = Expect::Absent;
    }
    let altered = files.alter(&step.path, &Alteration { expect, to: step.to, temporary });
    let altered = altered.map_err(|error| {
        if is_in_the_way { Failed::later(error) } else { Failed::first(error, &step.to) }
    })?;
    rewrite(files, step, altered, temporary)
}

/// Performs the second change of a step, after the object is in its place.
fn rewrite(
    files: &dyn Files,
    step: &Step<'_>,
    altered: Altered,
    temporary: Option<&str>,
) -> Result<Altered, Failed> {
    match (step.rewrite, altered.stat) {
        (Some(to), Some(stat)) => {
            let expect = Expect::Same(stat.fingerprint);
            let rewritten = files.alter(&step.path, &Alteration { expect, to, temporary });
            rewritten.map_err(Failed::later)
        }
        _ => Ok(altered),
    }
}

/// Replaces a hard link by a file of its own. Writing to it would change the file under all its hard links, so the new file is made
/// next to it and moved over the path.
fn put_apart(files: &dyn Files, step: &Step<'_>, temporary: &str) -> Result<Altered, FileError> {
    let made = beside(files, &step.path.path.with_file_name(temporary));
    let early = early_name(temporary);
    let new = Alteration { expect: Expect::Absent, to: step.to, temporary: Some(&early) };
    let altered = files.alter(&made, &new)?;
    let Some(Stat { fingerprint: seen, .. }) = altered.stat else { return Ok(altered) };
    let to = To::Moved { from: &made, seen };
    files.alter(&step.path, &Alteration { expect: step.expect, to, temporary: None })
}

/// Returns the name of a temporary file while it is not complete.
pub(crate) fn early_name(temporary: &str) -> String {
    format!("{temporary}.new")
}

fn kind_of(to: &To<'_>) -> Option<FileKind> {
    match to {
        To::File { .. } | To::Moved { .. } | To::Linked { .. } => Some(FileKind::File),
        To::Symlink(_) => Some(FileKind::Symlink),
        To::Directory { .. } => Some(FileKind::Directory),
        To::Attributes(_) | To::Nothing => None,
    }
}
