//! The undo history: recorded changes of files, with the contents that an undo needs.
//!
//! A call's changes are a list of objects with their states before and after. The list is recorded as a [`Checkpoint`], with the
//! bytes that an undo needs, before the first object is touched. A process that is killed half-way leaves an unfinished checkpoint;
//! the next process finds it and repairs the files (see [`recover`](crate::recover)).
//!
//! It records states, not operations: so an undo is the same for a file that a tool wrote, a process deleted or another undo
//! restored.

mod exclusive;
mod hash;
mod kept;
mod memory;
mod untracked;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub use self::exclusive::HistoryLock;
pub use self::hash::{ContentHash, ContentHasher};
pub(crate) use self::kept::HistoryContent;
pub use self::memory::MemoryHistory;
pub(crate) use self::untracked::Untracked;
use crate::{Attributes, BuiltChange, CallId, ContentSource, OpenedContent, SessionId, TurnId};

/// State of a path: the object that is, was or will be there.
///
/// An undo compares states with [`FileState::is_like`]: the time of the last change and the owner are restored as far as possible,
/// but a difference in them is no conflict.
///
/// ```
/// use windlass_core::{Attributes, ContentHash, FileState};
/// let state = |text: &[u8], modified| FileState::File {
///     hash: ContentHash::of(text),
///     len: text.len() as u64,
///     attributes: Attributes { mode: Some(0o644), modified: Some(modified), ..Attributes::default() },
///     object: None,
/// };
/// assert!(state(b"a", 1).is_like(&state(b"a", 2)), "only touched");
/// assert!(!state(b"a", 1).is_like(&state(b"b", 1)));
/// assert!(!FileState::Absent.is_like(&state(b"", 1)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FileState {
    /// No object.
    Absent,
    /// A regular file.
    File {
        /// Hash of its bytes.
        hash: ContentHash,
        /// Number of its bytes.
        len: u64,
        /// Mode, time, owner and extended attributes.
        attributes: Attributes,
        /// Identity of the file: device and inode, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<FileObject>,
    },
    /// A symbolic link.
    Symlink {
        /// Path that the link contains.
        #[serde(with = "crate::quote::serde_path")]
        target: PathBuf,
        /// Time of its last change, if known.
        #[serde(default, skip_serializing_if = "Attributes::is_empty")]
        attributes: Attributes,
    },
    /// A directory. The objects in it have states of their own.
    Directory {
        /// Mode, time, owner and extended attributes.
        attributes: Attributes,
    },
    /// An object that is neither written nor restored: a FIFO, a socket, a device.
    Other,
}

impl FileState {
    /// Returns whether both states have the same kind of object, the same bytes or link target, and the same mode if both modes are
    /// known. Ignores times, owner and extended attributes. [`FileState::Other`] is like no state, not even itself.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent, Self::Absent) => true,
            (
                Self::File { hash: a, attributes: mine, .. },
                Self::File { hash: b, attributes: theirs, .. },
            ) => a == b && same_mode(mine, theirs),
            (Self::Symlink { target: a, .. }, Self::Symlink { target: b, .. }) => a == b,
            (Self::Directory { attributes: mine }, Self::Directory { attributes: theirs }) => {
                same_mode(mine, theirs)
            }
            _ => false,
        }
    }

    /// Returns the hash of the bytes, if the object is a file.
    pub fn hash(&self) -> Option<ContentHash> {
        match self {
            Self::File { hash, .. } => Some(*hash),
            _ => None,
        }
    }
}

/// Identity of a file, independent of its path. Two values that differ only in `links` are of one file.
///
/// ```
/// use windlass_core::FileObject;
/// let before = FileObject { device: 1, inode: 7, born: 1_000, links: 2 };
/// let after = FileObject { links: 1, ..before };
/// assert!(before.is_same(&after), "one of its names was removed");
/// assert!(before.is_same(&FileObject { born: 0, ..before }), "its creation time was unknown");
/// assert!(!before.is_same(&FileObject { born: 2_000, ..before }), "its number was used again");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileObject {
    /// Device number of its file system.
    pub device: u64,
    /// Inode number, which another file may get after this one is removed.
    pub inode: u64,
    /// Creation time, in nanoseconds since 1970; zero if unknown.
    pub born: i64,
    /// Number of hard links.
    pub links: u64,
}

impl FileObject {
    /// Returns whether both are the same file. Ignores the creation time if one of them is unknown.
    pub fn is_same(&self, other: &Self) -> bool {
        let are_of_one_time = self.born == other.born || self.born == 0 || other.born == 0;
        (self.device, self.inode) == (other.device, other.inode) && are_of_one_time
    }
}

/// Compares modes. An unknown mode equals any mode.
fn same_mode(a: &Attributes, b: &Attributes) -> bool {
    a.mode.zip(b.mode).is_none_or(|(a, b)| a == b)
}

/// One changed object of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedChange {
    /// Absolute path without symbolic links, except perhaps the last component.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// State before the change.
    pub before: FileState,
    /// State after the change.
    pub after: FileState,
    /// Path from which the object was moved here. Another change of the same checkpoint removes it there.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::quote::serde_optional_path"
    )]
    pub moved_from: Option<PathBuf>,
    /// Name of the temporary file for new content, in the same directory. A kill may leave it behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary: Option<String>,
}

impl RecordedChange {
    /// Makes a change of one path, without a move or a temporary file.
    pub fn new(path: impl Into<PathBuf>, before: FileState, after: FileState) -> Self {
        Self { path: path.into(), before, after, moved_from: None, temporary: None }
    }

    /// Returns whether both states are the same directory, and only its time before is recorded: other changes add or remove names in
    /// it, and an undo restores that time.
    ///
    /// ```
    /// use windlass_core::{Attributes, FileState, RecordedChange};
    /// let directory = |modified| FileState::Directory { attributes: Attributes { modified, ..Attributes::default() } };
    /// let around = RecordedChange::new("/w/src", directory(Some(1)), directory(None));
    /// assert!(around.is_directory_time());
    /// assert!(!RecordedChange::new("/w/src", FileState::Absent, directory(None)).is_directory_time());
    /// ```
    pub fn is_directory_time(&self) -> bool {
        let (
            FileState::Directory { attributes: before },
            FileState::Directory { attributes: after },
        ) = (&self.before, &self.after)
        else {
            return false;
        };
        before.modified.is_some() && *after == Attributes { modified: None, ..before.clone() }
    }
}

/// The call that makes a change.
///
/// ```
/// use std::time::SystemTime;
/// use windlass_core::{CallId, Origin, SessionId, TurnId};
/// let origin = Origin {
///     call: CallId::new("c1"),
///     session: SessionId::new("s1"),
///     turn: TurnId::new("t1"),
///     tool: "write".into(),
///     workspace: "/w".into(),
///     at: SystemTime::now(),
///     undoes: Vec::new(),
/// };
/// assert!(!origin.is_undo());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Id of the call.
    pub call: CallId,
    /// Session of the call.
    pub session: SessionId,
    /// Turn of the call.
    pub turn: TurnId,
    /// Name of the tool.
    pub tool: String,
    /// Workspace of the session.
    pub workspace: PathBuf,
    /// Time of the change.
    pub at: SystemTime,
    /// Calls whose changes this call takes back.
    pub undoes: Vec<CallId>,
}

impl Origin {
    /// Returns whether the call takes back other changes.
    pub fn is_undo(&self) -> bool {
        !self.undoes.is_empty()
    }
}

/// A change that has no history: the record says that it was made, but it cannot be undone.
///
/// ```
/// use windlass_core::{BuiltChange, ChangeWithoutHistory};
/// let target = BuiltChange { path: "/w/target".into(), files: 3, bytes: 4096 };
/// assert_eq!(ChangeWithoutHistory::BuildDirectory(target).path(), "/w/target");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeWithoutHistory {
    /// Changes in a build directory, whose content can be built again.
    BuildDirectory(BuiltChange),
    /// A file or directory that a program changed directly in the workspace, as jobs do.
    Direct(PathBuf),
    /// Workspace of a command that ran without tracking of changes: without a sandbox, or in one that cannot stage changes. It may
    /// have changed any file, also outside that workspace.
    Untracked(PathBuf),
}

impl ChangeWithoutHistory {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        match self {
            Self::BuildDirectory(built) => &built.path,
            Self::Direct(path) | Self::Untracked(path) => path,
        }
    }

    /// Returns whether "undo the last change" stops at this change although it cannot be undone: an untracked command may have
    /// changed any file, so no earlier change is undone in its place.
    pub fn is_step(&self) -> bool {
        matches!(self, Self::Untracked(_))
    }
}

/// A checkpoint to record before the files are changed.
///
/// ```
/// use windlass_core::{History, MemoryHistory, NewCheckpoint};
/// # use windlass_core::{CallId, FileState, Origin, CheckpointQuery, RecordedChange, SessionId, TurnId};
/// # let origin = Origin {
/// #     call: CallId::new("c1"), session: SessionId::new("s1"), turn: TurnId::new("t1"), tool: "write".into(),
/// #     workspace: "/w".into(), at: std::time::SystemTime::now(), undoes: Vec::new(),
/// # };
/// # let changes = [RecordedChange::new("/w/a", FileState::Absent, FileState::Other)];
/// let history = MemoryHistory::default();
/// let new = NewCheckpoint { origin: &origin, changes: &changes, contents: &[], without_history: &[] };
/// let pending = history.record(&new)?;
/// // … the change itself …
/// pending.finish()?;
/// assert_eq!(history.checkpoints(&CheckpointQuery::Workspace("/w".into()))?.len(), 1);
/// # Ok::<(), windlass_core::HistoryError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct NewCheckpoint<'a> {
    /// Call that makes the changes.
    pub origin: &'a Origin,
    /// Changes in the order in which they are made.
    pub changes: &'a [RecordedChange],
    /// Bytes of the contents to which the states refer by hash.
    pub contents: &'a [NewContent<'a>],
    /// Other changes of the call, which cannot be undone.
    pub without_history: &'a [ChangeWithoutHistory],
}

/// Bytes to which a state refers by hash.
///
/// ```
/// use windlass_core::{ContentHash, NewContent, ContentSource};
/// let (before, after) = (b"one\ntwo\n", b"one\n2\n");
/// let old = NewContent { hash: ContentHash::of(before), source: ContentSource::Bytes(before), base: None };
/// let new = NewContent { hash: ContentHash::of(after), source: ContentSource::Bytes(after), base: Some(old.hash) };
/// assert_eq!(new.base, Some(old.hash), "it may be kept as what differs");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct NewContent<'a> {
    /// Hash of the bytes.
    pub hash: ContentHash,
    /// The bytes.
    pub source: ContentSource<'a>,
    /// Another content of the same checkpoint that is probably similar, so that only the difference need be stored.
    pub base: Option<ContentHash>,
}

/// The recorded file changes of one call.
///
/// ```
/// # use windlass_core::{CallId, Checkpoint, Origin, SessionId, TurnId};
/// # let origin = Origin {
/// #     call: CallId::new("c1"), session: SessionId::new("s1"), turn: TurnId::new("t1"), tool: "write".into(),
/// #     workspace: "/w".into(), at: std::time::SystemTime::now(), undoes: Vec::new(),
/// # };
/// let checkpoint =
///     Checkpoint { origin, changes: Vec::new(), without_history: Vec::new(), undone_by: None };
/// assert!(checkpoint.can_be_undone());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Call that made the changes.
    pub origin: Origin,
    /// Changes in the order in which they were made.
    pub changes: Vec<RecordedChange>,
    /// Other changes of the call, which cannot be undone.
    pub without_history: Vec<ChangeWithoutHistory>,
    /// Undo that took the changes back, if one did and was not taken back itself.
    pub undone_by: Option<CallId>,
}

impl Checkpoint {
    /// Returns whether the changes are in effect.
    pub fn can_be_undone(&self) -> bool {
        self.undone_by.is_none()
    }

    /// Returns whether it has changes, but none with a history, so that nothing can be undone.
    pub fn is_without_history(&self) -> bool {
        self.changes.is_empty() && !self.without_history.is_empty()
    }

    /// Returns whether "undo the last change" stops at this checkpoint. It goes on to an earlier one only if all changes of this one
    /// have no history and none of them is a [step](ChangeWithoutHistory::is_step).
    pub fn is_step(&self) -> bool {
        !self.is_without_history() || self.without_history.iter().any(ChangeWithoutHistory::is_step)
    }
}

/// Selection of checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointQuery {
    /// Checkpoints of one call.
    Call(CallId),
    /// Checkpoints of one turn.
    Turn(TurnId),
    /// Checkpoints of one session.
    Session(SessionId),
    /// Checkpoints of one workspace.
    Workspace(PathBuf),
    /// Newest checkpoint of a session that is in effect and is no undo.
    LastOfSession(SessionId),
    /// Newest checkpoint of a workspace that is in effect and is no undo.
    LastOfWorkspace(PathBuf),
}

impl CheckpointQuery {
    /// Returns whether a checkpoint matches, apart from being the newest.
    pub fn includes(&self, checkpoint: &Checkpoint) -> bool {
        let origin = &checkpoint.origin;
        let is_open = || checkpoint.can_be_undone() && !origin.is_undo();
        match self {
            Self::Call(call) => origin.call == *call,
            Self::Turn(turn) => origin.turn == *turn,
            Self::Session(session) => origin.session == *session,
            Self::Workspace(workspace) => origin.workspace == *workspace,
            Self::LastOfSession(session) => origin.session == *session && is_open(),
            Self::LastOfWorkspace(workspace) => origin.workspace == *workspace && is_open(),
        }
    }

    /// Returns whether the query selects the newest call that is a [step](Checkpoint::is_step), together with newer ones that are none.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::LastOfSession(_) | Self::LastOfWorkspace(_))
    }
}

/// Error of the history.
///
/// ```
/// use windlass_core::{HistoryError, ToolError};
/// let error = HistoryError::Failed("the disk is full".into());
/// assert!(ToolError::from(error).is_fault());
/// ```
#[derive(Debug, Clone, thiserror::Error)]
pub enum HistoryError {
    /// The bytes are no longer kept, or never were.
    #[error("the earlier content {0} is not kept any more; the quota or the age limit took it")]
    Dropped(ContentHash),
    /// Any other error. The text says what was tried, on what, and why it failed.
    #[error("{0}")]
    Failed(String),
}

impl From<HistoryError> for crate::ToolError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Dropped(_) => Self::failed(error.to_string()),
            HistoryError::Failed(_) => Self::host_failed(error.to_string()),
        }
    }
}

/// Stores checkpoints and the contents that an undo needs.
///
/// [`MemoryHistory`] ends with the process; the store has a persistent one.
///
/// ```
/// use windlass_core::{History, HistoryError, MemoryHistory, CheckpointQuery};
///
/// /// Counts the changes of a workspace that can be undone.
/// fn open(history: &dyn History, workspace: &str) -> Result<usize, HistoryError> {
///     let all = history.checkpoints(&CheckpointQuery::Workspace(workspace.into()))?;
///     Ok(all.iter().filter(|checkpoint| checkpoint.can_be_undone()).count())
/// }
/// assert_eq!(open(&MemoryHistory::default(), "/w")?, 0);
/// # Ok::<(), HistoryError>(())
/// ```
pub trait History: Send + Sync {
    /// Records a checkpoint before its changes are made. When this returns, the checkpoint survives a kill and, unless the history
    /// was configured otherwise, a loss of power.
    fn record<'h>(
        &'h self,
        new: &NewCheckpoint<'_>,
    ) -> Result<Box<dyn PendingCheckpoint + 'h>, HistoryError>;

    /// Returns the selected checkpoints, newest first. With [`CheckpointQuery::is_last`], those of the newest call that is a
    /// [step](Checkpoint::is_step), and those of newer calls that are none.
    fn checkpoints(&self, query: &CheckpointQuery) -> Result<Vec<Checkpoint>, HistoryError>;

    /// Returns the undo that took the newest checkpoint of a call back, if one did and was not taken back itself.
    fn undone_by(&self, call: &CallId) -> Result<Option<CallId>, HistoryError> {
        let checkpoints = self.checkpoints(&CheckpointQuery::Call(call.clone()))?;
        Ok(checkpoints.into_iter().next().and_then(|checkpoint| checkpoint.undone_by))
    }

    /// Locks the history against other undos until the lock is dropped. Waits for the present holder. An undo holds the lock from its
    /// check that the calls are in effect until it has recorded that they are undone.
    fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError>;

    /// Returns a stored content, all in memory.
    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError>;

    /// Opens a stored content; one from a disk only after checking its hash. The default reads it into memory: a history on a disk
    /// overrides this, since contents may be large.
    fn open(&self, hash: &ContentHash) -> Result<OpenedContent, HistoryError> {
        self.content(hash).map(OpenedContent::Bytes)
    }
}

impl fmt::Debug for dyn History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("History")
    }
}

/// A recorded checkpoint whose changes are under way. Dropped without a call of a method, it is left as if the program had been
/// killed.
///
/// ```
/// use windlass_core::{HistoryError, PendingCheckpoint};
/// fn done(pending: Box<dyn PendingCheckpoint + '_>, all_is_well: bool) -> Result<(), HistoryError> {
///     if all_is_well { pending.finish() } else { pending.abandon() }
/// }
/// ```
pub trait PendingCheckpoint: Send {
    /// Opens a content that came with the checkpoint after checking its hash: for a rollback.
    fn open(&self, hash: &ContentHash) -> Result<OpenedContent, HistoryError>;

    /// Marks the changes as made.
    fn finish(self: Box<Self>) -> Result<(), HistoryError>;

    /// Removes the checkpoint: the changes were taken back, or never begun.
    fn abandon(self: Box<Self>) -> Result<(), HistoryError>;

    /// Leaves the checkpoint unfinished: the changes are half-made and could not be taken back, so the next process tries again.
    fn leave(self: Box<Self>) {}
}
