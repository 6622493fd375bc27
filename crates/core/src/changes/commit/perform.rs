//! Makes the steps of a commit, one after another. Many of them wait for the disk together.
//!
//! A batch makes new contents safe before the first of them gets its name: what is on a stage at once, what is written beside its
//! place in runs. So a kill or a loss of power finds each name with all of its old or all of its new content.

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
    /// Makes every step, until one fails or the call is stopped.
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
                    // Contents that were prepared for later steps are beside their places.
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

    /// The number of changes that have been begun with the steps before this one.
    fn begun_with(&self, step: usize) -> usize {
        self.known.get(step).map_or(self.changes.len(), |known| known.change)
    }

    /// Writes the next contents beside their places, as far as their directories are there, and waits for the disk once.
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
                // Its directory is made by a step before it.
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

/// So many steps are prepared together at most.
const LONGEST_RUN: usize = 4096;

/// Steps that are made one after another, and where their contents are that were written beforehand.
struct Run {
    prepared: Vec<Option<PathBuf>>,
    length: usize,
}

/// Whether a step puts a file in place that can be written before: one that is on a stage is there already.
fn can_be_prepared(step: &Step<'_>, known: &Known) -> bool {
    let is_new = match step.to {
        To::File { content, .. } => !matches!(content, Source::At(_)),
        _ => false,
    };
    is_new && !known.is_in_place && !step.is_apart && step.rewrite.is_none()
}

/// Steps as they are made, one after another.
struct Performance<'p> {
    plan: &'p Plan<'p>,
    files: &'p dyn Files,
    steps: &'p [Step<'p>],
    altered: Vec<Altered>,
    /// What stands alone meets nothing that others did.
    touched: Option<Touched<'p>>,
    /// Directories that get their modes and times when all is in them.
    unsettled: Unsettled,
    /// Directories that are moved with all that is in them.
    trees: Trees<'p>,
    /// How many changes have been made.
    done: usize,
    /// Which of them are directories that others had made by then.
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
        // With a directory, later steps were made.
        let moved = match self.trees.end() {
            0 => 0,
            end => self.plan.begun_with(end),
        };
        let (done, begun) = (self.done.max(moved), begun.max(moved));
        Stopped { error: error.into(), done, begun, found: self.found.clone() }
    }

    /// Makes the directories that are missing above new objects.
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

    /// Makes a step, with the content that was prepared for it.
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

    /// Makes a step on what is there by now, and once more if a directory had to be opened for it.
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

    /// Does what is left of a step that was done with the tree that it is in.
    fn complete<'s>(
        &mut self,
        step: &Step<'s>,
        known: &Known,
        moved: Altered,
    ) -> Result<(Step<'s>, Altered), Failed> {
        // It gets its mode and times in the end.
        self.unsettled.open_new(step, &mut Attributes::default());
        let temporary = self.plan.temporary(known);
        rewrite(self.files, step, moved, temporary).map(|made| (step.clone(), made))
    }

    /// Gives directories their modes and times.
    fn finish(mut self) -> Result<Vec<Altered>, Stopped> {
        let unsettled = std::mem::take(&mut self.unsettled);
        match unsettled.settle(self.files) {
            Ok(()) => Ok(self.altered),
            Err(error) => Err(self.stopped(error, self.done)),
        }
    }
}

/// From so many changes on they wait for the disk together.
pub(crate) const MANY: usize = 64;

/// The files on a stage that steps put in place.
fn staged<'a>(steps: &[Step<'a>]) -> Vec<&'a Path> {
    let place = |step: &Step<'a>| match written(step) {
        Some(Source::At(path)) => Some(path),
        _ => None,
    };
    steps.iter().filter_map(place).collect()
}

/// Stands for what is not there before an earlier step of the same commit has made it.
pub(crate) const NOT_YET: Fingerprint =
    Fingerprint { device: 0, inode: 0, len: 0, modified: 0, changed: 0 };

/// What the earlier steps of a commit made of objects that later ones are about. A name that is added or taken away is a change of
/// what has other names.
struct Touched<'p> {
    /// The objects that several steps are about, by device and number.
    shared: HashSet<(u64, u64)>,
    /// What became of those that were touched.
    objects: HashMap<(u64, u64), Option<Fingerprint>>,
    /// Places of files that get more names.
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
        // One more name changes what has it.
        if let To::Linked { with, .. } = step.to
            && let Some(made) = self.places.get_mut(with.path.as_path())
        {
            *made = now.or(*made);
        }
    }

    /// The step with what it is about as it is now.
    fn renew<'s>(&self, files: &dyn Files, step: &Step<'s>) -> Result<Step<'s>, FileError> {
        let mut step = step.clone();
        // Who takes a name away need not care what the name is of by now, if it is our doing.
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

    /// What an object that was touched is now. Its content must be what was seen, or, if that will do, what we made of it: new
    /// content was decided on for what was seen.
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

/// The objects that a step is about.
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

/// Why a commit stopped in the middle.
pub(super) struct Stopped {
    pub(super) error: ToolError,
    /// How many of its changes had been made by then.
    pub(super) done: usize,
    /// How many had been begun: the last of them may be half-made.
    pub(super) begun: usize,
    /// Which of them are directories that were there by then.
    pub(super) found: Vec<usize>,
}

impl Stopped {
    fn at(done: usize, error: FileError) -> Self {
        Self { error: error.into(), done, begun: done, found: Vec::new() }
    }
}

/// Why a step was not made.
struct Failed {
    error: FileError,
    /// Whether this step changed nothing. What is at its place, or is not, is another's doing, even if it looks like ours.
    is_untouched: bool,
}

impl Failed {
    fn untouched(error: FileError) -> Self {
        Self { error, is_untouched: true }
    }

    /// A refusal of the first alteration of a step: something else is there than was expected.
    fn first(error: FileError, to: &To<'_>) -> Self {
        use FileErrorKind::{Changed, Exists, NotADirectory, NotEmpty, NotFound, Stale};
        let is_refused =
            matches!(error.kind, Changed | Exists | NotADirectory | NotEmpty | NotFound | Stale);
        // A new name is looked at once more after it was given.
        let is_given = matches!((&error.kind, to), (Changed, To::Linked { .. }));
        Self { error, is_untouched: is_refused && !is_given }
    }

    fn later(error: FileError) -> Self {
        Self { error, is_untouched: false }
    }
}

/// What was found where a directory was to be made.
enum Made {
    New,
    Found,
}

/// Where a directory is made that others need: there may be one by now.
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

/// Does what one step says.
pub(crate) fn perform(
    files: &dyn Files,
    step: &Step<'_>,
    found: Option<FileKind>,
    temporary: Option<&str>,
) -> Result<Altered, FileError> {
    perform_parts(files, step, found, temporary).map_err(|failed| failed.error)
}

/// The same; a failure says whether any part of the step was done.
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
        // What would not be replaced is in the way.
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

/// Makes what is in its place by now what it is to become there.
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

/// Puts another file where a name of one with several is. Written there, it would be changed under all of them: so it is made
/// beside it, and moved over the name.
fn put_apart(files: &dyn Files, step: &Step<'_>, temporary: &str) -> Result<Altered, FileError> {
    let made = beside(files, &step.path.path.with_file_name(temporary));
    let early = early_name(temporary);
    let new = Alteration { expect: Expect::Absent, to: step.to, temporary: Some(&early) };
    let altered = files.alter(&made, &new)?;
    let Some(Stat { fingerprint: seen, .. }) = altered.stat else { return Ok(altered) };
    let to = To::Moved { from: &made, seen };
    files.alter(&step.path, &Alteration { expect: step.expect, to, temporary: None })
}

/// What a file is called that is to have a temporary name, as long as it is not whole.
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
