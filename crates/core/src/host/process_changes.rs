//! The changes of a program: what became of each object, the stage that holds them, and their record while a question about them waits.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Attributes, Fingerprint, Note};
use crate::{ApprovalId, CallId, FileState};

/// What a program changed.
///
/// ```
/// use windlass_core::{ProcessChanges, Tracking};
/// let nothing = ProcessChanges::none(Tracking::Nothing);
/// assert!(nothing.changes.is_empty() && nothing.stage.is_none());
/// ```
#[derive(Debug)]
pub struct ProcessChanges {
    /// How that is known.
    pub tracking: Tracking,
    /// Each object, parents before what is in them; what is removed, the other way round.
    pub changes: Vec<ProcessChange>,
    /// The state before each change, in the order of the changes, once a person is to be asked: a file that was only touched since, or
    /// written anew with the same bytes, is no conflict. `None` for a change of which the state is not known.
    pub states: OnceLock<Vec<Option<FileState>>>,
    /// Build directories that it changed, absolute. Their changes are kept without history, by [`Stage::settle`].
    pub built: Vec<PathBuf>,
    /// Files and directories that were masked from it, absolute.
    pub masked: Vec<PathBuf>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// What holds the new content for as long as it is needed.
    pub stage: Option<Box<dyn Stage>>,
}

impl ProcessChanges {
    /// No changes.
    pub fn none(tracking: Tracking) -> Self {
        Self {
            tracking,
            changes: Vec::new(),
            states: OnceLock::new(),
            built: Vec::new(),
            masked: Vec::new(),
            notes: Vec::new(),
            stage: None,
        }
    }
}

/// The question that a stage is held for.
///
/// ```
/// use windlass_core::{ApprovalId, HeldFor};
/// let held = HeldFor { approval: ApprovalId::new("a7"), until: std::time::SystemTime::UNIX_EPOCH, found: vec![] };
/// assert_eq!(held.approval.as_str(), "a7");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFor {
    /// The question.
    pub approval: ApprovalId,
    /// The time at which it expires, and the stage is removed.
    pub until: SystemTime,
    /// Texts that the command found and changed, to be shown when they are another by then: as many as fit into a small record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<FoundText>,
}

/// The text of a file before a command changed it.
///
/// ```
/// use windlass_core::FoundText;
/// let found = FoundText { path: "/w/a".into(), text: "one\n".into() };
/// assert_eq!(found.text, "one\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundText {
    /// The file, absolute.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// All of it.
    pub text: String,
}

/// Changes on a stage as they are written down while a question about them waits.
///
/// ```
/// use windlass_core::{ApprovalId, HeldChanges, HeldFor, ProcessChanges, Tracking};
/// let held = HeldFor { approval: ApprovalId::new("a7"), until: std::time::SystemTime::UNIX_EPOCH, found: vec![] };
/// let changes = ProcessChanges::none(Tracking::Staged);
/// let text = HeldChanges::text(&held, "/w".as_ref(), &changes);
/// assert_eq!(HeldChanges::parse(&text).map(|read| read.held), Some(held));
/// ```
#[derive(Debug, Deserialize)]
pub struct HeldChanges {
    /// The question.
    pub held: HeldFor,
    /// The workspace that the changes are for.
    #[serde(with = "crate::quote::serde_path")]
    pub workspace: PathBuf,
    /// The changes of the command; see [`ProcessChanges::changes`].
    pub changes: Vec<ProcessChange>,
    /// See [`ProcessChanges::states`].
    #[serde(default)]
    pub states: Vec<Option<FileState>>,
    /// The build directories that it changed.
    #[serde(with = "crate::quote::serde_paths")]
    pub built: Vec<PathBuf>,
    /// Files and directories that were masked from it.
    #[serde(with = "crate::quote::serde_paths")]
    pub masked: Vec<PathBuf>,
}

impl HeldChanges {
    /// The text that [`parse`](Self::parse) reads.
    pub fn text(held: &HeldFor, workspace: &Path, changes: &ProcessChanges) -> String {
        #[derive(Serialize)]
        struct Written<'a> {
            held: &'a HeldFor,
            #[serde(with = "crate::quote::serde_path")]
            workspace: &'a Path,
            changes: &'a [ProcessChange],
            states: &'a [Option<FileState>],
            #[serde(with = "crate::quote::serde_paths")]
            built: &'a [PathBuf],
            #[serde(with = "crate::quote::serde_paths")]
            masked: &'a [PathBuf],
        }
        let ProcessChanges { changes, states, built, masked, .. } = changes;
        let states = states.get().map_or(&[][..], Vec::as_slice);
        // Maps with keys of text, which can always be written.
        serde_json::to_string(&Written { held, workspace, changes, states, built, masked })
            .unwrap_or_default()
    }

    /// Reads what was written down; `None` if it was not written by [`text`](Self::text).
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The changes, with the stage that holds their content.
    pub fn into_changes(self, stage: Box<dyn Stage>) -> ProcessChanges {
        ProcessChanges {
            changes: self.changes,
            states: OnceLock::from(self.states),
            built: self.built,
            masked: self.masked,
            stage: Some(stage),
            ..ProcessChanges::none(Tracking::Staged)
        }
    }
}

/// Where new content waits; dropped, it is removed, unless it is [held](Stage::hold).
///
/// ```
/// use windlass_core::Stage;
/// #[derive(Debug)]
/// struct Directory(std::path::PathBuf);
/// impl Stage for Directory {}
/// assert!(Directory("/state/stages/1".into()).settle().is_empty(), "nothing is left to bring over");
/// ```
pub trait Stage: fmt::Debug + Send + Sync {
    /// Records that this call is about to make the changes, where a process that is killed meanwhile leaves something to decide on:
    /// build directories, or a question that the stage is held for. [`recover_stages`](crate::Processes::recover_stages) reads it.
    /// Blocking.
    fn tie_to(&self, _: &CallId) -> io::Result<()> {
        Ok(())
    }

    /// Takes [`tie_to`](Stage::tie_to) back: none of the other changes are made. Blocking.
    fn untie(&self) {}

    /// Leaves the stage to [`recover_stages`](crate::Processes::recover_stages) when it is dropped: the other changes of its call are
    /// half-made, and the next start decides on them.
    fn leave(&self) {}

    /// Writes down what the stage holds, under the id of a question: it then outlives this process, until the question expires. An
    /// error says why that is not possible. Blocking.
    fn hold(&self, _: &HeldFor, _: &ProcessChanges) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether it is held for a question: its contents are copied then, not moved, so that they are there to be tried again.
    fn is_held(&self) -> bool {
        false
    }

    /// Takes [`hold`](Stage::hold) back: the stage goes with this value again. Without this, a stage that was claimed for an answer
    /// waits on when it is dropped.
    fn release(&self) {}

    /// Keeps the changes of build directories and of the programs' home, once all others are made. Returns those that could not be
    /// kept. Blocking; called once.
    fn settle(&self) -> Vec<Note> {
        Vec::new()
    }

    /// The build directories with changes, absolute, that another program has replaced by something else since the program began,
    /// so that [`settle`](Stage::settle) could not keep their changes. Blocking.
    fn replaced_build_directories(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The build directories with changes, absolute, in which another program has changed something since the program began. Blocking.
    fn build_directories_changed_since(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Drops the changes of these build directories.
    fn drop_built(&mut self, _: &[PathBuf]) {}

    /// The number and the bytes of the files below a directory that changed or are new. Blocking.
    fn size_below(&self, _: &Path) -> (u64, u64) {
        (0, 0)
    }

    /// Every path that changed in a build directory, absolute, removed ones included. Blocking.
    fn changed_in_build_directories(&self) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// How it is known what a program changed.
///
/// ```
/// use windlass_core::Tracking;
/// let can_be_undone = |tracking| tracking == Tracking::Staged;
/// assert!(!can_be_undone(Tracking::Scanned));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    /// It worked on a stage; the changes are not made yet.
    Staged,
    /// The workspace was looked at before and after; the changes are made, and cannot be undone.
    Scanned,
    /// It could change nothing, or is known to change nothing.
    Nothing,
    /// It is not known: without a sandbox changes are not tracked.
    Unknown,
}

/// What a program changed about one object.
///
/// ```
/// use windlass_core::{ChangedTo, ProcessChange};
/// let removal = ProcessChange { path: "/w/old.txt".into(), before: None, to: ChangedTo::Nothing };
/// assert!(matches!(removal.to, ChangedTo::Nothing));
/// ```
#[derive(Debug, Serialize, Deserialize)]
pub struct ProcessChange {
    /// The place, absolute.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// What was there when the program began; `None` if nothing was.
    pub before: Option<Fingerprint>,
    /// What there is now.
    pub to: ChangedTo,
}

/// What a program made of an object.
///
/// ```
/// use windlass_core::{Attributes, ChangedTo};
/// let is_there = |to: &ChangedTo| !matches!(to, ChangedTo::Nothing);
/// assert!(is_there(&ChangedTo::Symlink("target".into(), Attributes::default())));
/// ```
#[derive(Debug, Serialize, Deserialize)]
pub enum ChangedTo {
    /// A file whose bytes are in another one, on the stage; empty where nothing is staged.
    File(#[serde(with = "crate::quote::serde_path")] PathBuf, Attributes),
    /// The same with other attributes.
    Attributes(Attributes),
    /// One more name for the file at another place.
    Linked(#[serde(with = "crate::quote::serde_path")] PathBuf),
    /// A symbolic link that points there, with its time where that is known.
    Symlink(#[serde(with = "crate::quote::serde_path")] PathBuf, Attributes),
    /// A directory.
    Directory(Attributes),
    /// Nothing.
    Nothing,
}
