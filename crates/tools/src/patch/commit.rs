//! Makes the changes of a patch, one file after the other, and takes all of them back if one cannot be made.
//!
//! What is only moved or written can be taken back to the letter; a file that was removed comes back with the permissions of a new
//! one. So files are removed last, when little is left that could fail.

use std::path::{Path, PathBuf};

use windlass_core::{Change, Context, Expect, Fingerprint, ToolError, quote};

use super::stage::{Fate, Stage, Staged};

/// Makes every change, or none.
pub(super) fn commit(cx: &Context, stage: &Stage) -> Result<(), ToolError> {
    let mut made = Vec::new();
    for step in steps(stage) {
        match step.make(cx, stage) {
            Ok(done) => made.push(done),
            Err(error) => return Err(take_back(cx, stage, &made, &error)),
        }
    }
    Ok(())
}

/// One change of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Move {
        from: usize,
        to: usize,
    },
    /// Content for a file that was moved here just before.
    Rewrite {
        from: usize,
        to: usize,
    },
    Write(usize),
    Remove(usize),
}

fn steps(stage: &Stage) -> Vec<Step> {
    let (mut steps, mut removals) = (Vec::new(), Vec::new());
    for at in 0..stage.files.len() {
        match stage.fate(at) {
            Fate::Unchanged => {}
            Fate::Added | Fate::Changed => steps.push(Step::Write(at)),
            Fate::Deleted => removals.push(Step::Remove(at)),
            Fate::Moved(from) => {
                steps.push(Step::Move { from, to: at });
                let old = stage.files.get(from).and_then(|file| file.before.as_ref());
                if old.map(|(bytes, _)| bytes)
                    != stage.files.get(at).and_then(|file| file.after.as_ref())
                {
                    steps.push(Step::Rewrite { from, to: at });
                }
            }
        }
    }
    steps.append(&mut removals);
    steps
}

/// A change that was made, and what it takes to take it back.
#[derive(Debug)]
struct Made {
    step: Step,
    /// The file as the step left it; `None` if there is none.
    now: Option<Fingerprint>,
    /// Directories that were not there before, the deepest first.
    directories: Vec<PathBuf>,
    had_seen: bool,
}

impl Step {
    fn make(self, cx: &Context, stage: &Stage) -> Result<Made, ToolError> {
        match self {
            Self::Write(at) => {
                let file = file(stage, at)?;
                let expect = file.seen().map_or(Expect::Absent, Expect::Same);
                self.write(cx, file, expect, file.before.is_none())
            }
            Self::Rewrite { to, .. } => {
                let file = file(stage, to)?;
                // The file has moved since it was read: its fingerprint is that of the new place.
                let stat = cx.files().stat(&file.path)?;
                let stat = stat.ok_or_else(|| gone(file))?;
                self.write(cx, file, Expect::Same(stat.fingerprint), false)
            }
            Self::Move { from, to } => {
                let (from, to) = (file(stage, from)?, file(stage, to)?);
                let seen = from.seen().ok_or_else(|| gone(from))?;
                let directories = missing_parents(cx, to)?;
                let stat = cx.files().rename(&from.path, seen, &to.path)?;
                Ok(Made { step: self, now: Some(stat.fingerprint), directories, had_seen: true })
            }
            Self::Remove(at) => {
                let file = file(stage, at)?;
                let seen = file.seen().ok_or_else(|| gone(file))?;
                let had_seen = cx.session().has_seen(&file.place, seen).is_ok();
                cx.files().remove(&file.path, seen)?;
                Ok(Made { step: self, now: None, directories: Vec::new(), had_seen })
            }
        }
    }

    fn write(
        self,
        cx: &Context,
        file: &Staged,
        expect: Expect,
        is_new: bool,
    ) -> Result<Made, ToolError> {
        let had_seen = match expect {
            Expect::Absent => true,
            Expect::Same(seen) => cx.session().has_seen(&file.place, seen).is_ok(),
        };
        let directories = if is_new { missing_parents(cx, file)? } else { Vec::new() };
        let content = file.after.as_deref().unwrap_or_default();
        let written = cx.files().change(&file.path, &Change { content, expect })?;
        if !had_seen {
            // To have changed some lines of a file is not to have seen the rest.
            cx.session().forget(&file.place);
        }
        Ok(Made { step: self, now: Some(written.stat.fingerprint), directories, had_seen })
    }

    /// What it does, in words.
    fn describe(self, stage: &Stage) -> String {
        let name = |at: usize| stage.files.get(at).map_or("", |file| file.name.as_str());
        match self {
            Self::Move { from, to } => format!("moved {} to {}", name(from), name(to)),
            Self::Rewrite { to, .. } => format!("changed {}", name(to)),
            Self::Write(at) => {
                let is_new = stage.files.get(at).is_some_and(|file| file.before.is_none());
                format!("{} {}", if is_new { "added" } else { "changed" }, name(at))
            }
            Self::Remove(at) => format!("deleted {}", name(at)),
        }
    }
}

impl Staged {
    /// The file as it was when it was read.
    fn seen(&self) -> Option<Fingerprint> {
        self.before.as_ref().map(|(_, stat)| stat.fingerprint)
    }
}

fn file(stage: &Stage, at: usize) -> Result<&Staged, ToolError> {
    stage.files.get(at).ok_or_else(|| ToolError::internal("a file of the patch is not there"))
}

fn gone(file: &Staged) -> ToolError {
    ToolError::failed(format!("cannot change {}: it is gone", file.name))
}

/// The directories that have to be made for a new file, the deepest first.
fn missing_parents(cx: &Context, file: &Staged) -> Result<Vec<PathBuf>, ToolError> {
    let mut missing = Vec::new();
    for directory in file.place.ancestors().skip(1) {
        if cx.files().resolve(directory)?.exists {
            break;
        }
        missing.push(directory.to_owned());
    }
    Ok(missing)
}

/// Takes back what was made, the last first, and says so.
fn take_back(cx: &Context, stage: &Stage, made: &[Made], error: &ToolError) -> ToolError {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    let mut moved: Option<(usize, Fingerprint)> = None;
    for made in made.iter().rev() {
        let what = made.step.describe(stage);
        match made.take_back(cx, stage, &mut moved) {
            Ok(()) => done.push(what),
            Err(error) => failed.push(format!("{what}: {}", error.message().text)),
        }
    }
    let mut words = vec![error.message().text.to_string()];
    if failed.is_empty() {
        words.push("nothing is changed".into());
    }
    if !done.is_empty() {
        words.push(format!("taken back: {}", done.join(", ")));
    }
    words.extend(failed.iter().map(|failure| format!("NOT TAKEN BACK: {failure}")));
    let words = words.join("\n");
    let error = match error {
        ToolError::Cancelled(_) => ToolError::cancelled(words),
        ToolError::HostFailed(_) => ToolError::host_failed(words),
        ToolError::UndeclaredEffect(_) => ToolError::undeclared_effect(words),
        ToolError::Internal(_) => ToolError::internal(words),
        _ => ToolError::failed(words),
    };
    error.hint("read the file that could not be changed, and send the whole patch again")
}

impl Made {
    /// `moved` is the new fingerprint of a file whose content was taken back while it is still at its new place.
    fn take_back(
        &self,
        cx: &Context,
        stage: &Stage,
        moved: &mut Option<(usize, Fingerprint)>,
    ) -> Result<(), ToolError> {
        let door = cx.files().taking_back();
        match self.step {
            Step::Move { from, to } => {
                let now = moved.take().filter(|(at, _)| *at == to).map(|(_, now)| now).or(self.now);
                let (from, to) = (file(stage, from)?, file(stage, to)?);
                door.rename(&to.path, now.ok_or_else(|| gone(to))?, &from.path)?;
            }
            Step::Rewrite { from, to } => {
                *moved = Some((to, self.restore(cx, file(stage, to)?, file(stage, from)?)?));
            }
            Step::Write(at) | Step::Remove(at) => {
                let file = file(stage, at)?;
                match (&file.before, self.now) {
                    (None, Some(now)) => door.remove(&file.path, now)?,
                    _ => drop(self.restore(cx, file, file)?),
                }
            }
        }
        // Somebody else may have put something there; then it stays.
        self.directories
            .iter()
            .map(Path::new)
            .try_for_each(|directory| door.remove_directory(directory))
            .or(Ok(()))
    }

    /// Puts the old content back.
    fn restore(&self, cx: &Context, file: &Staged, old: &Staged) -> Result<Fingerprint, ToolError> {
        let content = old.before.as_ref().map_or(&[][..], |(bytes, _)| bytes);
        let expect = self.now.map_or(Expect::Absent, Expect::Same);
        let written = cx.files().taking_back().change(&file.path, &Change { content, expect });
        let written = written.map_err(|error| {
            let text =
                format!("{} (the old content of {})", error.message().text, quote::path(&old.path));
            ToolError::failed(text)
        })?;
        if !self.had_seen {
            cx.session().forget(&file.place);
        }
        Ok(written.stat.fingerprint)
    }
}
