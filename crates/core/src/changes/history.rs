//! What was changed and what was there before, so that it can be taken back.
//!
//! Every change that a call makes to files is a list of objects with their states before and after. It is written down, with the
//! bytes that it takes to go back, before the first object is touched: a [`Checkpoint`]. Whoever is killed in the middle leaves a
//! checkpoint without an end; the next to start finds it and puts things right (see [`recover`](crate::recover)).
//!
//! States, not operations: going back is the same for what a tool wrote, a process deleted or an undo restored.

mod exclusive;
mod hash;
mod kept;
mod memory;
mod untracked;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub use self::exclusive::Exclusive;
pub use self::hash::{ContentHash, ContentHasher};
pub(crate) use self::kept::Kept;
pub use self::memory::MemoryHistory;
pub(crate) use self::untracked::Untracked;
use crate::{Attributes, BuiltChange, CallId, Opened, SessionId, Source, TurnId};

/// What is, was or will be at a path.
///
/// Two states are the same to an undo if [`FileState::is_like`] says so: the time of the last change and the owner are given back
/// as far as possible, but do not make a conflict.
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
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Its bytes.
        hash: ContentHash,
        /// How many there are.
        len: u64,
        /// What it has besides.
        attributes: Attributes,
        /// Which object it is, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<FileObject>,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points to.
        #[serde(with = "crate::quote::serde_path")]
        target: PathBuf,
        /// The time of its last change, where that is known.
        #[serde(default, skip_serializing_if = "Attributes::is_empty")]
        attributes: Attributes,
    },
    /// A directory; what is in it has states of its own.
    Directory {
        /// What it has besides.
        attributes: Attributes,
    },
    /// Something that is neither written nor restored: a FIFO, a socket, a device.
    Other,
}

impl FileState {
    /// Whether one can stand for the other: the same kind of object, the same bytes, the same permissions.
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

    /// The hash of its bytes, if it has any.
    pub fn hash(&self) -> Option<ContentHash> {
        match self {
            Self::File { hash, .. } => Some(*hash),
            _ => None,
        }
    }
}

/// A file whatever its names are: two of these that differ in their links alone are of one object.
///
/// ```
/// use windlass_core::FileObject;
/// let before = FileObject { device: 1, inode: 7, born: 1_000, links: 2 };
/// let after = FileObject { links: 1, ..before };
/// assert!(before.is_same(&after), "one of its names was removed");
/// assert!(before.is_same(&FileObject { born: 0, ..before }), "nobody could say when it was made");
/// assert!(!before.is_same(&FileObject { born: 2_000, ..before }), "its number was used again");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileObject {
    /// The device that it is on.
    pub device: u64,
    /// Its number there, which another file may have when this one is gone.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970; zero where that is not known.
    pub born: i64,
    /// How many names it had.
    pub links: u64,
}

impl FileObject {
    /// Whether both are of one object, as far as is known.
    pub fn is_same(&self, other: &Self) -> bool {
        let are_of_one_time = self.born == other.born || self.born == 0 || other.born == 0;
        (self.device, self.inode) == (other.device, other.inode) && are_of_one_time
    }
}

/// A mode that nobody knew is no difference.
fn same_mode(a: &Attributes, b: &Attributes) -> bool {
    a.mode.zip(b.mode).is_none_or(|(a, b)| a == b)
}

/// One object that a checkpoint is about.
///
/// ```
/// use windlass_core::{FileState, RecordedChange};
/// let change = RecordedChange::new("/w/made.txt", FileState::Absent, FileState::Other);
/// assert_eq!(change.moved_from, None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedChange {
    /// Its place: absolute, with no symlink in it but perhaps itself.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// What was there.
    pub before: FileState,
    /// What is there afterwards.
    pub after: FileState,
    /// The place from which the object was moved here, which is another change of the same checkpoint.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::quote::serde_optional_path"
    )]
    pub moved_from: Option<PathBuf>,
    /// The name that new content has for a moment, in the same directory: what a kill may leave behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary: Option<String>,
}

impl RecordedChange {
    /// A change of what is at one place.
    pub fn new(path: impl Into<PathBuf>, before: FileState, after: FileState) -> Self {
        Self { path: path.into(), before, after, moved_from: None, temporary: None }
    }

    /// Returns whether it is no change that was asked for, but the time of a directory in which names changed.
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

/// Which call makes a change.
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
    /// The call.
    pub call: CallId,
    /// Its session.
    pub session: SessionId,
    /// Its turn.
    pub turn: TurnId,
    /// The tool.
    pub tool: String,
    /// Where it worked.
    pub workspace: PathBuf,
    /// When.
    pub at: SystemTime,
    /// The calls whose changes it takes back.
    pub undoes: Vec<CallId>,
}

impl Origin {
    /// Whether it takes back other changes.
    pub fn is_undo(&self) -> bool {
        !self.undoes.is_empty()
    }
}

/// A change of a call that has no history: it is known that it was made, and it cannot be taken back.
///
/// ```
/// use windlass_core::{BuiltChange, WithoutHistory};
/// let target = BuiltChange { path: "/w/target".into(), files: 3, bytes: 4096 };
/// assert_eq!(WithoutHistory::BuildDirectory(target).path(), "/w/target");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithoutHistory {
    /// Changes in a build directory, whose content can be made again.
    BuildDirectory(BuiltChange),
    /// A file or directory that a program changed on the real directory, as jobs do.
    Direct(PathBuf),
    /// Whatever a command changed, in this workspace or elsewhere, that ran where changes are not tracked: without a sandbox, or with
    /// one that cannot stage them.
    Untracked(PathBuf),
}

impl WithoutHistory {
    /// The place.
    pub fn path(&self) -> &Path {
        match self {
            Self::BuildDirectory(built) => &built.path,
            Self::Direct(path) | Self::Untracked(path) => path,
        }
    }

    /// Tells whether it is a step of undoing although nothing of it can be taken back: it may be any change.
    pub fn is_step(&self) -> bool {
        matches!(self, Self::Untracked(_))
    }
}

/// What is about to be done, to be written down.
///
/// ```
/// use windlass_core::{History, MemoryHistory, NewCheckpoint};
/// # use windlass_core::{CallId, FileState, Origin, Query, RecordedChange, SessionId, TurnId};
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
/// assert_eq!(history.checkpoints(&Query::Workspace("/w".into()))?.len(), 1);
/// # Ok::<(), windlass_core::HistoryError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct NewCheckpoint<'a> {
    /// Who does it.
    pub origin: &'a Origin,
    /// What is changed, in the order in which it is done.
    pub changes: &'a [RecordedChange],
    /// The bytes that the states name by their hashes.
    pub contents: &'a [NewContent<'a>],
    /// What the call changes besides, which cannot be taken back.
    pub without_history: &'a [WithoutHistory],
}

/// Bytes that a state names by their hash.
///
/// ```
/// use windlass_core::{ContentHash, NewContent, Source};
/// let (before, after) = (b"one\ntwo\n", b"one\n2\n");
/// let old = NewContent { hash: ContentHash::of(before), source: Source::Bytes(before), base: None };
/// let new = NewContent { hash: ContentHash::of(after), source: Source::Bytes(after), base: Some(old.hash) };
/// assert_eq!(new.base, Some(old.hash), "it may be kept as what differs");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct NewContent<'a> {
    /// Their hash.
    pub hash: ContentHash,
    /// The bytes.
    pub source: Source<'a>,
    /// Other contents of the same checkpoint that they are probably much like.
    pub base: Option<ContentHash>,
}

/// What one call did to files, as it was written down.
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
    /// Who did it.
    pub origin: Origin,
    /// What was changed, in the order in which it was done.
    pub changes: Vec<RecordedChange>,
    /// What the call changed besides, which cannot be taken back.
    pub without_history: Vec<WithoutHistory>,
    /// The undo that took it back, if one did and was not taken back itself.
    pub undone_by: Option<CallId>,
}

impl Checkpoint {
    /// Whether it is in effect.
    pub fn can_be_undone(&self) -> bool {
        self.undone_by.is_none()
    }

    /// Tells whether nothing that it changed has a history, so that there is nothing to take back.
    pub fn is_without_history(&self) -> bool {
        self.changes.is_empty() && !self.without_history.is_empty()
    }

    /// Tells whether it is a step of undoing, which an undo of the last change does not go beyond.
    pub fn is_step(&self) -> bool {
        !self.is_without_history() || self.without_history.iter().any(WithoutHistory::is_step)
    }
}

/// Which checkpoints are meant.
///
/// ```
/// use windlass_core::{History, MemoryHistory, Query, SessionId};
/// let all = MemoryHistory::default().checkpoints(&Query::Session(SessionId::new("s1")))?;
/// assert!(all.is_empty());
/// # Ok::<(), windlass_core::HistoryError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Those of one call.
    Call(CallId),
    /// Those of one turn.
    Turn(TurnId),
    /// Those of one session.
    Session(SessionId),
    /// Those of one workspace.
    Workspace(PathBuf),
    /// The newest of a session that is in effect and is no undo.
    LastOfSession(SessionId),
    /// The newest of a workspace that is in effect and is no undo.
    LastOfWorkspace(PathBuf),
}

impl Query {
    /// Whether a checkpoint is among those meant, apart from being the newest.
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

    /// Tells whether only the newest call is meant, with those after it that left nothing to take back.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::LastOfSession(_) | Self::LastOfWorkspace(_))
    }
}

/// Why the history could not do what was asked.
///
/// ```
/// use windlass_core::{HistoryError, ToolError};
/// let error = HistoryError::Failed("the disk is full".into());
/// assert!(ToolError::from(error).is_fault());
/// ```
#[derive(Debug, Clone, thiserror::Error)]
pub enum HistoryError {
    /// The bytes are no longer kept, or were never kept.
    #[error("the earlier content {0} is not kept any more; the quota or the age limit took it")]
    Dropped(ContentHash),
    /// Anything else: what was tried, on what, why it failed.
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

/// Keeps what was changed and what was there before.
///
/// [`MemoryHistory`] is one that forgets with the process; the store has one that lasts.
///
/// ```
/// use windlass_core::{History, HistoryError, MemoryHistory, Query};
///
/// /// How many changes of a workspace can be taken back.
/// fn open(history: &dyn History, workspace: &str) -> Result<usize, HistoryError> {
///     let all = history.checkpoints(&Query::Workspace(workspace.into()))?;
///     Ok(all.iter().filter(|checkpoint| checkpoint.can_be_undone()).count())
/// }
/// assert_eq!(open(&MemoryHistory::default(), "/w")?, 0);
/// # Ok::<(), HistoryError>(())
/// ```
pub trait History: Send + Sync {
    /// Writes down what is about to be done. When this returns it is safe: also from a kill and, unless the history was told
    /// otherwise, from a loss of power.
    fn record<'h>(&'h self, new: &NewCheckpoint<'_>)
    -> Result<Box<dyn Pending + 'h>, HistoryError>;

    /// The checkpoints that are meant, the newest first. With [`Query::is_last`], those of the newest call that is a
    /// [step](Checkpoint::is_step), and of the newer ones that are none.
    fn checkpoints(&self, query: &Query) -> Result<Vec<Checkpoint>, HistoryError>;

    /// The undo that took a call back, if one did and was not taken back itself.
    fn undone_by(&self, call: &CallId) -> Result<Option<CallId>, HistoryError> {
        let checkpoints = self.checkpoints(&Query::Call(call.clone()))?;
        Ok(checkpoints.into_iter().next().and_then(|checkpoint| checkpoint.undone_by))
    }

    /// Keeps other undos out until the lock is dropped: an undo looks whether its calls are in effect, changes files and records
    /// that, and another one must not begin in between. Waits for the one that holds it.
    fn exclusive(&self) -> Result<Exclusive<'_>, HistoryError>;

    /// Bytes that were kept, all in memory.
    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError>;

    /// Opens bytes that were kept, whose hash has been checked. Those that are many are not in memory.
    fn open(&self, hash: &ContentHash) -> Result<Opened, HistoryError> {
        self.content(hash).map(Opened::Bytes)
    }
}

impl fmt::Debug for dyn History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("History")
    }
}

/// A checkpoint whose change is under way. Dropped without a word, it is as if the program had been killed.
///
/// ```
/// use windlass_core::{HistoryError, Pending};
/// fn done(pending: Box<dyn Pending + '_>, all_is_well: bool) -> Result<(), HistoryError> {
///     if all_is_well { pending.finish() } else { pending.abandon() }
/// }
/// ```
pub trait Pending: Send {
    /// Opens bytes that came with the checkpoint, whose hash has been checked: for taking back what was begun.
    fn open(&self, hash: &ContentHash) -> Result<Opened, HistoryError>;

    /// The change is made.
    fn finish(self: Box<Self>) -> Result<(), HistoryError>;

    /// The change was taken back, or never begun: nothing of it is kept.
    fn abandon(self: Box<Self>) -> Result<(), HistoryError>;

    /// The change is half-made and could not be taken back: whoever starts next tries again.
    fn leave(self: Box<Self>) {}
}
