//! All files of a patch in memory: before and after the patch. Nothing is written here.
//!
//! Each entry of a patch sees the result of the entries before it, so a file may occur several times. Failures are collected rather
//! than reported one by one, so that the model can correct all of them at once.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use windlass_core::{Attributes, Context, FileKind, Stat, ToolError};

use super::apply::{AppliedHunks, apply};
use super::explain;
use super::hunk::{Action, FilePatch, Hunk};
use crate::cut::Cutter;
use crate::document::{self, Document};
use crate::edit::plan::MatchStrategy;
use crate::format::{self, Root};
use crate::redaction_guard;

/// Number of failures after which the rest of a patch is not tried, because most of it has to be written again.
const MAX_FAILURES: usize = 100;
/// Limit of the failed hunks for which the most similar place is searched and shown.
const MAX_EXPLAINED: usize = 10;

/// The files of a patch.
#[derive(Debug, Default)]
pub(super) struct PatchStage {
    pub(super) files: Vec<StagedFile>,
    /// Messages about parts that do not apply.
    pub(super) failures: Vec<String>,
    /// Number of hunks that were not tried after too many failures.
    not_tried: usize,
}

/// A path, with its content before and after the patch.
#[derive(Debug)]
pub(super) struct StagedFile {
    /// Path as the patch names it.
    pub(super) path: PathBuf,
    /// Resolved path.
    pub(super) place: PathBuf,
    /// Name in messages.
    pub(super) name: String,
    /// Bytes and metadata of the file when it was read; `None` if it did not exist.
    pub(super) before: Option<(Vec<u8>, Stat)>,
    /// Bytes after the patch; `None` if there is no file.
    pub(super) after: Option<Vec<u8>>,
    /// Index of the file that was moved to this path.
    pub(super) origin: Option<usize>,
    /// Attributes of the moved file.
    pub(super) attributes: Option<Attributes>,
    /// Number of hunks applied to the file.
    pub(super) hunks: usize,
    /// Loosest strategy by which a hunk matched.
    pub(super) strategy: MatchStrategy,
    /// Remarks about the file.
    pub(super) notes: Vec<String>,
    /// Remark about hard links or a write in place; empty if there is none.
    pub(super) how_written: String,
}

/// The change of a file by the whole patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileChange {
    Added,
    Changed,
    /// The file was moved here from the file with this index.
    Moved(usize),
    Deleted,
    /// The file is unchanged, or is reported at the path that it was moved to.
    Unchanged,
}

impl PatchStage {
    /// Reads every file, and applies the patch in memory.
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

    /// Returns the error for a patch of which a part does not apply; nothing is written then.
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

    /// Refuses a patch that would write redaction placeholders into a file.
    pub(super) fn check_redaction(&self, cx: &Context) -> Result<(), ToolError> {
        for file in &self.files {
            let old = file.origin.and_then(|origin| self.files.get(origin));
            let (before, after) = file.texts(old);
            redaction_guard::check(cx, &file.name, &before, &after)?;
        }
        Ok(())
    }

    /// Applies the changes of one file.
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
        if patch.changes_mode
            && let Some(file) = self.files.get_mut(at)
        {
            file.notes.push("permissions stay as they are".into());
        }
        Ok(())
    }

    /// Returns the index of the file at a path; reads the file if it is new.
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
        self.files.push(StagedFile {
            path: path.to_owned(),
            place,
            name,
            before,
            after,
            origin: None,
            attributes: None,
            hunks: 0,
            strategy: MatchStrategy::Exact,
            notes: Vec::new(),
            how_written: String::new(),
        });
        Ok(self.files.len() - 1)
    }

    /// Returns the file with this index.
    fn file(&mut self, at: usize) -> Result<&mut StagedFile, ToolError> {
        self.files
            .get_mut(at)
            .ok_or_else(|| ToolError::internal("a file of the patch is not there"))
    }

    /// Creates a file with a text; fails if it exists.
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

    /// Deletes a file; if there are hunks, they must remove all of its content.
    fn delete(&mut self, cx: &Context, at: usize, hunks: &[Hunk]) -> Result<(), ToolError> {
        if !hunks.is_empty() {
            let failed = self.failures.len();
            self.change(cx, at, hunks)?;
            let file = self.file(at)?;
            let left = file.after.as_ref().is_some_and(|bytes| !is_empty_text(bytes));
            let name = file.name.clone();
            if left && self.failures.len() == failed {
                return Err(ToolError::failed(format!(
                    "cannot delete {name}: there is more in it than the patch removes"
                ))
                .hint("read it again; to delete it whatever is in it, use `*** Delete File: `"));
            }
        }
        self.require_bytes(cx, at)?;
        self.file(at)?.after = None;
        Ok(())
    }

    /// Returns the present bytes of a file; fails if it does not exist.
    fn require_bytes(&mut self, cx: &Context, at: usize) -> Result<Vec<u8>, ToolError> {
        let file = self.file(at)?;
        if let Some(bytes) = &file.after {
            return Ok(bytes.clone());
        }
        if file.before.is_none() && file.origin.is_none() {
            // Loading fails with an error that names similar paths.
            document::load(cx, &file.path)?;
        }
        Err(ToolError::failed(format!("cannot patch {}: the patch itself took it away", file.name)))
    }

    /// Applies hunks to a file; failed hunks are collected.
    fn change(&mut self, cx: &Context, at: usize, hunks: &[Hunk]) -> Result<(), ToolError> {
        let bytes = self.require_bytes(cx, at)?;
        if hunks.is_empty() {
            return Ok(());
        }
        let name = self.file(at)?.name.clone();
        let document = Document::parse(bytes).map_err(|_| {
            ToolError::failed(format!("cannot patch {name}: it is binary, and a patch is text"))
        })?;
        let allowed = MAX_FAILURES.saturating_sub(self.failures.len());
        let AppliedHunks { replacements, places } = apply(document.text(), hunks, allowed);
        self.not_tried += hunks.len() - places.len();
        let file =
            explain::PatchedFile { name: &name, text: document.text(), cutter: Cutter::of(cx) };
        for (number, (hunk, place)) in (1..).zip(hunks.iter().zip(&places)) {
            if let Err(miss) = place {
                let is_short = self.failures.len() >= MAX_EXPLAINED;
                let which = (number, hunks.len());
                self.failures.push(explain::miss_message(&file, hunk, miss, which, is_short));
            }
        }
        let spliced = document
            .splice(&replacements)
            .map_err(|error| error.explain(&name, document.encoding()))?;
        let file = self.file(at)?;
        let found = places.iter().flatten().map(|place| place.strategy);
        file.strategy = found.fold(file.strategy, Ord::max);
        file.notes.extend(explain::shifted_hunks(hunks, &places));
        file.hunks += hunks.len();
        file.after = Some(spliced);
        Ok(())
    }

    /// Moves a file to another path, which must be free.
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
        let strategy = std::mem::replace(&mut file.strategy, MatchStrategy::Exact);
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

    /// Returns the change of a file by the whole patch.
    pub(super) fn file_change(&self, at: usize) -> FileChange {
        let Some(file) = self.files.get(at) else { return FileChange::Unchanged };
        match (&file.before, &file.after) {
            (None, None) => FileChange::Unchanged,
            (Some(_), None) if self.is_moved(at) => FileChange::Unchanged,
            (Some(_), None) => FileChange::Deleted,
            (Some((before, _)), Some(after)) if before == after => FileChange::Unchanged,
            (Some(_), Some(_)) => FileChange::Changed,
            (None, Some(_)) => match file.origin.filter(|origin| self.can_move(*origin, at)) {
                Some(origin) => FileChange::Moved(origin),
                None => FileChange::Added,
            },
        }
    }

    /// Returns whether a file is reported at the path that it was moved to.
    fn is_moved(&self, at: usize) -> bool {
        (0..self.files.len()).any(|to| self.is_moved_from(to, at))
    }

    /// Returns whether the file at `to` is reported as moved from `from`.
    fn is_moved_from(&self, to: usize, from: usize) -> bool {
        let is_new = |file: &StagedFile| file.before.is_none() && file.after.is_some();
        self.files.get(to).is_some_and(|file| is_new(file) && file.origin == Some(from))
            && self.can_move(from, to)
    }

    /// Returns whether the old path is free in the end, and no earlier file was moved from there.
    fn can_move(&self, from: usize, to: usize) -> bool {
        let is_free = self.files.get(from).is_some_and(|file| file.after.is_none());
        let is_first = !self.files.iter().take(to).any(|other| {
            other.before.is_none() && other.after.is_some() && other.origin == Some(from)
        });
        is_free && is_first
    }
}

impl StagedFile {
    /// Returns the texts before and after; the text of a binary file is empty.
    pub(super) fn texts<'s>(&'s self, old: Option<&'s StagedFile>) -> (Cow<'s, str>, Cow<'s, str>) {
        let before = old.unwrap_or(self).before.as_ref().map(|(bytes, _)| bytes);
        (text_of(before), text_of(self.after.as_ref()))
    }
}

/// Decodes bytes; returns an empty text if there are none or they are binary.
fn text_of(bytes: Option<&Vec<u8>>) -> Cow<'_, str> {
    let document = bytes.and_then(|bytes| Document::parse(bytes.clone()).ok());
    document.map_or(Cow::Borrowed(""), |document| Cow::Owned(document.to_text().into_owned()))
}

/// Returns whether only a byte order mark is left.
fn is_empty_text(bytes: &[u8]) -> bool {
    matches!(bytes, b"" | b"\xef\xbb\xbf" | b"\xff\xfe" | b"\xfe\xff")
}
