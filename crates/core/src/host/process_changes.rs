//! The changes of a program: the change of each object, the stage that holds the new contents, and their record while an approval
//! is pending.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Attributes, Fingerprint, SkippedPath};
use crate::{ApprovalId, CallId, ContentHash, FileState};

/// The changes of a program.
#[derive(Debug)]
pub struct ProcessChanges {
    /// Method by which the changes are known.
    pub tracking: Tracking,
    /// Changed objects, parents before their contents; removed ones in reverse order.
    pub changes: Vec<ProcessChange>,
    /// States before each change, in the order of the changes, once an approval is requested: a file that was only touched since,
    /// or written anew with the same bytes, is no conflict. `None` for a state that is unknown.
    pub states: OnceLock<Vec<Option<FileState>>>,
    /// Git indexes among the changed files, as the program found them, noted together with `states`: an index that git only
    /// refreshed since is no conflict.
    pub indexes: OnceLock<Vec<FoundIndex>>,
    /// Changed build directories, as absolute paths. Their changes are kept without history, by [`StageStorage::keep_unrecorded`].
    pub built: Vec<PathBuf>,
    /// Files and directories that were masked from the program, as absolute paths.
    pub masked: Vec<PathBuf>,
    /// Further notes for the result.
    pub notes: Vec<String>,
    /// Stage that holds the new contents.
    pub stage: Option<Box<dyn StageStorage>>,
}

impl ProcessChanges {
    /// Makes a value without changes.
    pub fn none(tracking: Tracking) -> Self {
        Self {
            tracking,
            changes: Vec::new(),
            states: OnceLock::new(),
            indexes: OnceLock::new(),
            built: Vec::new(),
            masked: Vec::new(),
            notes: Vec::new(),
            stage: None,
        }
    }
}

/// A git index before a command changed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundIndex {
    /// Absolute path of the index.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// Hash of its entries; see [`Files::hash_index_entries`](crate::Files::hash_index_entries).
    pub entries: ContentHash,
}

/// The approval for which a stage is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageHold {
    /// Id of the approval.
    pub approval: ApprovalId,
    /// Time at which the approval expires and the stage is removed.
    pub until: SystemTime,
    /// Texts that the command found and changed, to be shown if the files change again: as many as fit into a small record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<FoundText>,
}

/// The text of a file before a command changed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundText {
    /// Absolute path of the file.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// All of the text.
    pub text: String,
}

/// Staged changes as they are saved while an approval is pending.
///
/// ```
/// use windlass_core::{ApprovalId, HeldChanges, StageHold, ProcessChanges, Tracking};
/// let held = StageHold { approval: ApprovalId::new("a7"), until: std::time::SystemTime::UNIX_EPOCH, found: vec![] };
/// let changes = ProcessChanges::none(Tracking::Staged);
/// let text = HeldChanges::text(&held, "/w".as_ref(), &changes);
/// assert_eq!(HeldChanges::parse(&text).map(|read| read.held), Some(held));
/// ```
#[derive(Debug, Deserialize)]
pub struct HeldChanges {
    /// Approval for which they are held.
    pub held: StageHold,
    /// Workspace to which the changes belong.
    #[serde(with = "crate::quote::serde_path")]
    pub workspace: PathBuf,
    /// Changes of the command; see [`ProcessChanges::changes`].
    pub changes: Vec<ProcessChange>,
    /// States before the changes; see [`ProcessChanges::states`].
    #[serde(default)]
    pub states: Vec<Option<FileState>>,
    /// Git indexes before the changes; see [`ProcessChanges::indexes`].
    #[serde(default)]
    pub indexes: Vec<FoundIndex>,
    /// Changed build directories.
    #[serde(with = "crate::quote::serde_paths")]
    pub built: Vec<PathBuf>,
    /// Files and directories that were masked from the command.
    #[serde(with = "crate::quote::serde_paths")]
    pub masked: Vec<PathBuf>,
}

impl HeldChanges {
    /// Returns the text that [`parse`](Self::parse) reads.
    pub fn text(held: &StageHold, workspace: &Path, changes: &ProcessChanges) -> String {
        #[derive(Serialize)]
        struct Written<'a> {
            held: &'a StageHold,
            #[serde(with = "crate::quote::serde_path")]
            workspace: &'a Path,
            changes: &'a [ProcessChange],
            states: &'a [Option<FileState>],
            indexes: &'a [FoundIndex],
            #[serde(with = "crate::quote::serde_paths")]
            built: &'a [PathBuf],
            #[serde(with = "crate::quote::serde_paths")]
            masked: &'a [PathBuf],
        }
        let ProcessChanges { changes, states, indexes, built, masked, .. } = changes;
        let states = states.get().map_or(&[][..], Vec::as_slice);
        let indexes = indexes.get().map_or(&[][..], Vec::as_slice);
        // All keys are text, so this cannot fail.
        serde_json::to_string(&Written { held, workspace, changes, states, indexes, built, masked })
            .unwrap_or_default()
    }

    /// Parses a saved text; `None` if [`text`](Self::text) did not write it.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Converts to the changes, with the stage that holds their contents.
    pub fn into_changes(self, stage: Box<dyn StageStorage>) -> ProcessChanges {
        ProcessChanges {
            changes: self.changes,
            states: OnceLock::from(self.states),
            indexes: OnceLock::from(self.indexes),
            built: self.built,
            masked: self.masked,
            stage: Some(stage),
            ..ProcessChanges::none(Tracking::Staged)
        }
    }
}

/// The storage of a program's new contents. Dropping it removes them, unless it is [held](StageStorage::hold).
///
/// ```
/// use windlass_core::StageStorage;
/// #[derive(Debug)]
/// struct Directory(std::path::PathBuf);
/// impl StageStorage for Directory {}
/// assert!(Directory("/state/stages/1".into()).keep_unrecorded().is_empty(), "nothing is left to bring over");
/// ```
pub trait StageStorage: fmt::Debug + Send + Sync {
    /// Records that this call is about to make the changes, for the case that the process is killed meanwhile and build directories
    /// or a held approval must still be decided on. [`recover_stages`](crate::Processes::recover_stages) reads the record.
    /// Blocking.
    fn tie_to(&self, _: &CallId) -> io::Result<()> {
        Ok(())
    }

    /// Takes [`tie_to`](StageStorage::tie_to) back: the commit of the other changes failed. Blocking.
    fn untie(&self) {}

    /// Leaves the stage to [`recover_stages`](crate::Processes::recover_stages) when it is dropped: the commit of the other changes
    /// was interrupted, and the next start decides on them.
    fn leave(&self) {}

    /// Saves a record of the stage under the id of an approval: the stage then survives this process, until the approval expires.
    /// Fails if that is not possible. Blocking.
    fn hold(&self, _: &StageHold, _: &ProcessChanges) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether the stage is held for an approval: then its contents are copied, not moved, so that the commit can be tried
    /// again.
    fn is_held(&self) -> bool {
        false
    }

    /// Takes [`hold`](StageStorage::hold) back: dropping this value removes the stage again. Without this, a stage that was claimed for an
    /// answer stays held when it is dropped.
    fn release(&self) {}

    /// Keeps the changes of build directories and of the programs' home, after all other changes are made. Returns those that could
    /// not be kept. Blocking; called once.
    fn keep_unrecorded(&self) -> Vec<SkippedPath> {
        Vec::new()
    }

    /// Returns the changed build directories, as absolute paths, that another program has replaced by another object since the
    /// program began, so that [`keep_unrecorded`](StageStorage::keep_unrecorded) could not keep their changes. Blocking.
    fn replaced_build_directories(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the changed build directories, as absolute paths, in which another program has changed something since the program
    /// began. Blocking.
    fn build_directories_changed_since(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns those of these absolute paths that git tracks, or that hold files that it tracks. Blocking.
    fn tracked(&self, _: &[PathBuf]) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Drops the changes of these build directories.
    fn drop_built(&mut self, _: &[PathBuf]) {}

    /// Returns number and bytes of the changed or new files below a directory. Blocking.
    fn size_below(&self, _: &Path) -> (u64, u64) {
        (0, 0)
    }

    /// Returns every changed path in build directories, absolute, also removed ones. Blocking.
    fn changed_in_build_directories(&self) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// Method by which the changes of a program are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    /// The program worked on a stage; its changes are not made yet.
    Staged,
    /// The workspace was scanned before and after; the changes are made, and cannot be undone.
    Scanned,
    /// The program could change nothing, or is known to change nothing.
    Nothing,
    /// The changes are unknown: without a sandbox they are not tracked.
    Unknown,
}

/// A program's change of one object.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProcessChange {
    /// Absolute path.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// Fingerprint when the program began; `None` if there was no object.
    pub before: Option<Fingerprint>,
    /// State after the change.
    pub to: ChangedTo,
}

/// State of an object after a program's change.
#[derive(Debug, Serialize, Deserialize)]
pub enum ChangedTo {
    /// A regular file, with the path of its content on the stage; the path is empty if nothing is staged.
    File(#[serde(with = "crate::quote::serde_path")] PathBuf, Attributes),
    /// The same object with other attributes.
    Attributes(Attributes),
    /// A further hard link of the file at this path.
    Linked(#[serde(with = "crate::quote::serde_path")] PathBuf),
    /// A symbolic link with this target, and its time if known.
    Symlink(#[serde(with = "crate::quote::serde_path")] PathBuf, Attributes),
    /// A directory.
    Directory(Attributes),
    /// No object.
    Nothing,
}
