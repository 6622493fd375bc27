//! All files of a patch in memory: as they were, and as they will be. Nothing is written here.
//!
//! Each entry of a patch sees what those before it did, so that a file may occur more than once. Whatever does not work is
//! collected rather than told one by one: whoever wrote the patch can mend all of it at once.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use windlass_core::{Attributes, Context, FileKind, Stat, ToolError};

use super::apply::{Applied, apply};
use super::explain;
use super::hunk::{Action, FilePatch, Hunk};
use crate::cut::Cutter;
use crate::document::{self, Document};
use crate::edit::plan::Strategy;
use crate::format::{self, Root};
use crate::redaction_guard;

/// Once so many parts of a patch do not apply, the rest of it is not tried: whoever wrote it has to write all of it again.
const MAX_FAILURES: usize = 100;
/// The closest place is looked for and shown for so many hunks.
const MAX_EXPLAINED: usize = 10;

/// The files that a patch is about.
#[derive(Debug, Default)]
pub(super) struct Stage {
    pub(super) files: Vec<Staged>,
    /// What does not apply, in words.
    pub(super) failures: Vec<String>,
    /// Hunks that were not tried, because enough others do not apply.
    not_tried: usize,
}

/// One place, before and after.
#[derive(Debug)]
pub(super) struct Staged {
    /// As the patch names it.
    pub(super) path: PathBuf,
    /// Where that really is.
    pub(super) place: PathBuf,
    /// For people and models.
    pub(super) name: String,
    pub(super) before: Option<(Vec<u8>, Stat)>,
    pub(super) after: Option<Vec<u8>>,
    /// The file that was moved here.
    pub(super) origin: Option<usize>,
    /// What came along with it.
    pub(super) attributes: Option<Attributes>,
    pub(super) hunks: usize,
    pub(super) strategy: Strategy,
    /// What else there is to say of it.
    pub(super) notes: Vec<String>,
    /// How it was written, if that is worth a note.
    pub(super) how_written: String,
}

/// What happens to a file in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Added,
    Changed,
    /// From this one.
    Moved(usize),
    Deleted,
    /// It is as it was, or is told of at the place that it was moved to.
    Unchanged,
}

impl Stage {
    /// Reads every file, and does in memory what the patch says.
    pub(super) fn prepare(cx: &Context, patches: &[FilePatch]) -> Result<Self, ToolError> {
        let mut stage = Self::default();
        for patch in patches {
            if stage.failures.len() >= MAX_FAILURES {
                stage.not_tried += patch.hunks();
                continue;
            }
            match stage.add(cx, patch) {
                Err(error) if error.is_fault() => return Err(error),
                Err(error) => stage.failures.push(error.to_string()),
                Ok(()) => {}
            }
        }
        Ok(stage)
    }

    /// Why nothing is changed, if something does not apply.
    pub(super) fn refusal(&self) -> Option<ToolError> {
        if self.failures.is_empty() {
            return None;
        }
        let mut words = format!("nothing was changed\n\n{}", self.failures.join("\n\n"));
        if self.not_tried > 0 {
            let more = format::count(self.not_tried, "more hunk was", "more hunks were");
            words = format!("{words}\n\n{more} not tried; correct these first");
        }
        Some(ToolError::failed(words))
    }

    /// Refuses what would write back what was only shown of a file.
    pub(super) fn check_taken_out(&self, cx: &Context) -> Result<(), ToolError> {
        for file in &self.files {
            let old = file.origin.and_then(|origin| self.files.get(origin));
            let (before, after) = file.texts(old);
            redaction_guard::check(cx, &file.name, &before, &after)?;
        }
        Ok(())
    }

    fn add(&mut self, cx: &Context, patch: &FilePatch) -> Result<(), ToolError> {
        let at = self.open(cx, &patch.path)?;
        match &patch.action {
            Action::Add(text) => self.create(at, text)?,
            Action::Delete(hunks) => self.delete(cx, at, hunks)?,
            Action::Change { hunks, to } => {
                self.change(cx, at, hunks)?;
                if let Some(to) = to {
                    self.move_to(cx, at, to)?;
                }
            }
        }
        if patch.speaks_of_mode
            && let Some(file) = self.files.get_mut(at)
        {
            file.notes.push("permissions stay as they are".into());
        }
        Ok(())
    }

    /// The file at a path, read if it was not yet.
    fn open(&mut self, cx: &Context, path: &Path) -> Result<usize, ToolError> {
        let place = cx.files().resolve(path)?.path;
        if let Some(known) = self.files.iter().position(|file| file.place == place) {
            return Ok(known);
        }
        let name = Root::of(cx, path)?.show(Path::new(""));
        let before = match cx.files().stat(path)? {
            None => {
                document::check_file_path(path)?;
                None
            }
            Some(stat) if stat.kind == FileKind::File => Some(document::load(cx, path)?),
            Some(stat) => {
                return Err(ToolError::failed(format!("cannot patch {name}: it is {}", stat.kind)));
            }
        };
        let after = before.as_ref().map(|(bytes, _)| bytes.clone());
        self.files.push(Staged {
            path: path.to_owned(),
            place,
            name,
            before,
            after,
            origin: None,
            attributes: None,
            hunks: 0,
            strategy: Strategy::Exact,
            notes: Vec::new(),
            how_written: String::new(),
        });
        Ok(self.files.len() - 1)
    }

    fn file(&mut self, at: usize) -> Result<&mut Staged, ToolError> {
        self.files
            .get_mut(at)
            .ok_or_else(|| ToolError::internal("a file of the patch is not there"))
    }

    fn create(&mut self, at: usize, text: &str) -> Result<(), ToolError> {
        let file = self.file(at)?;
        if file.after.is_some() {
            return Err(ToolError::failed(format!("cannot add {}: it exists already", file.name))
                .hint("change it with an update instead, or delete it first in the same patch"));
        }
        file.after = Some(text.as_bytes().to_vec());
        file.hunks += 1;
        Ok(())
    }

    fn delete(&mut self, cx: &Context, at: usize, hunks: &[Hunk]) -> Result<(), ToolError> {
        if !hunks.is_empty() {
            let failed = self.failures.len();
            self.change(cx, at, hunks)?;
            let file = self.file(at)?;
            let left = file.after.as_ref().is_some_and(|bytes| !is_nothing(bytes));
            let name = file.name.clone();
            if left && self.failures.len() == failed {
                return Err(ToolError::failed(format!(
                    "cannot delete {name}: there is more in it than the patch removes"
                ))
                .hint("read it again; to delete it whatever is in it, use `*** Delete File: `"));
            }
        }
        self.existing(cx, at)?;
        self.file(at)?.after = None;
        Ok(())
    }

    /// Makes sure that there is a file.
    fn existing(&mut self, cx: &Context, at: usize) -> Result<Vec<u8>, ToolError> {
        let file = self.file(at)?;
        if let Some(bytes) = &file.after {
            return Ok(bytes.clone());
        }
        if file.before.is_none() && file.origin.is_none() {
            // Says what was probably meant.
            document::load(cx, &file.path)?;
        }
        Err(ToolError::failed(format!("cannot patch {}: the patch itself took it away", file.name)))
    }

    fn change(&mut self, cx: &Context, at: usize, hunks: &[Hunk]) -> Result<(), ToolError> {
        let bytes = self.existing(cx, at)?;
        if hunks.is_empty() {
            return Ok(());
        }
        let name = self.file(at)?.name.clone();
        let document = Document::parse(bytes).map_err(|_| {
            ToolError::failed(format!("cannot patch {name}: it is binary, and a patch is text"))
        })?;
        let allowed = MAX_FAILURES.saturating_sub(self.failures.len());
        let Applied { replacements, places } = apply(document.text(), hunks, allowed);
        self.not_tried += hunks.len() - places.len();
        let whole = explain::Whole { name: &name, text: document.text(), cutter: Cutter::of(cx) };
        for (number, (hunk, place)) in (1..).zip(hunks.iter().zip(&places)) {
            if let Err(miss) = place {
                let is_short = self.failures.len() >= MAX_EXPLAINED;
                let which = (number, hunks.len());
                self.failures.push(explain::failure(&whole, hunk, miss, which, is_short));
            }
        }
        let spliced = document
            .splice(&replacements)
            .map_err(|error| error.explain(&name, document.encoding()))?;
        let file = self.file(at)?;
        let found = places.iter().flatten().map(|place| place.strategy);
        file.strategy = found.fold(file.strategy, Ord::max);
        file.notes.extend(explain::moved(hunks, &places));
        file.hunks += hunks.len();
        file.after = Some(spliced);
        Ok(())
    }

    fn move_to(&mut self, cx: &Context, from: usize, to: &Path) -> Result<(), ToolError> {
        let to = self.open(cx, to)?;
        let name = self.file(from)?.name.clone();
        let target = self.file(to)?;
        if target.after.is_some() {
            return Err(ToolError::failed(format!(
                "cannot move {name} to {}: something is there already",
                target.name
            )));
        }
        let file = self.file(from)?;
        let (after, hunks) = (file.after.take(), std::mem::take(&mut file.hunks));
        let strategy = std::mem::replace(&mut file.strategy, Strategy::Exact);
        let notes = std::mem::take(&mut file.notes);
        let own = file
            .before
            .as_ref()
            .map(|(_, stat)| Attributes { mode: Some(stat.mode), ..Attributes::default() });
        let (origin, attributes) = match file.attributes.take() {
            Some(attributes) => (file.origin, Some(attributes)),
            None => (own.as_ref().map(|_| from), own),
        };
        let target = self.file(to)?;
        (target.after, target.origin, target.attributes) = (after, origin, attributes);
        (target.hunks, target.strategy, target.notes) = (hunks, strategy, notes);
        Ok(())
    }

    /// What happens to a file in the end.
    pub(super) fn fate(&self, at: usize) -> Fate {
        let Some(file) = self.files.get(at) else { return Fate::Unchanged };
        match (&file.before, &file.after) {
            (None, None) => Fate::Unchanged,
            (Some(_), None) if self.is_moved(at) => Fate::Unchanged,
            (Some(_), None) => Fate::Deleted,
            (Some((before, _)), Some(after)) if before == after => Fate::Unchanged,
            (Some(_), Some(_)) => Fate::Changed,
            (None, Some(_)) => match file.origin.filter(|origin| self.can_move(*origin, at)) {
                Some(origin) => Fate::Moved(origin),
                None => Fate::Added,
            },
        }
    }

    /// Whether a file is told of at its new place.
    fn is_moved(&self, at: usize) -> bool {
        (0..self.files.len()).any(|to| self.fate_is_from(to, at))
    }

    fn fate_is_from(&self, to: usize, from: usize) -> bool {
        let is_new = |file: &Staged| file.before.is_none() && file.after.is_some();
        self.files.get(to).is_some_and(|file| is_new(file) && file.origin == Some(from))
            && self.can_move(from, to)
    }

    /// Whether the old place is free in the end, and nobody else was moved from there before.
    fn can_move(&self, from: usize, to: usize) -> bool {
        let is_free = self.files.get(from).is_some_and(|file| file.after.is_none());
        let is_first = !self.files.iter().take(to).any(|other| {
            other.before.is_none() && other.after.is_some() && other.origin == Some(from)
        });
        is_free && is_first
    }
}

impl Staged {
    /// Both contents as texts for people; what is binary is not shown.
    pub(super) fn texts<'s>(&'s self, old: Option<&'s Staged>) -> (Cow<'s, str>, Cow<'s, str>) {
        let before = old.unwrap_or(self).before.as_ref().map(|(bytes, _)| bytes);
        (text_of(before), text_of(self.after.as_ref()))
    }
}

fn text_of(bytes: Option<&Vec<u8>>) -> Cow<'_, str> {
    let document = bytes.and_then(|bytes| Document::parse(bytes.clone()).ok());
    document.map_or(Cow::Borrowed(""), |document| Cow::Owned(document.to_text().into_owned()))
}

/// Whether nothing is left but a byte order mark.
fn is_nothing(bytes: &[u8]) -> bool {
    matches!(bytes, b"" | b"\xef\xbb\xbf" | b"\xff\xfe" | b"\xfe\xff")
}
