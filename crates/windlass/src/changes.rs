//! Changes of files: undo, proposals, snapshots, and the history that they use.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! use windlass::{Mode, ToolCall, Undo, Windlass};
//! # let folder = tempfile::tempdir().unwrap();
//! let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build()?;
//! let session = windlass.new_session();
//! let write = ToolCall::new("write", serde_json::json!({"path": "a.txt", "content": "a\n"}));
//! let written = windlass.call(&session, write).await;
//! windlass.undo(&session, Undo::Call(written.call)).await;
//! assert!(!folder.path().join("a.txt").exists());
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | undo, or preview an undo | [`Windlass::undo`](crate::Windlass::undo), [`Windlass::undo_preview`](crate::Windlass::undo_preview), [`Undo`], [`Conflict`] |
//! | propose changes that a person applies or drops | [`Windlass::proposing`](crate::Windlass::proposing), [`Windlass::apply`](crate::Windlass::apply), [`Proposals`] |
//! | take and restore a snapshot | [`Windlass::snapshot`](crate::Windlass::snapshot), [`Windlass::restore`](crate::Windlass::restore), [`Snapshot`] |
//! | read the recorded changes | [`Windlass::history`](crate::Windlass::history), [`CheckpointQuery`], [`Checkpoint`], [`RecordedChange`] |
//! | keep the history elsewhere | [`History`], [`ProposalStore`], [`MemoryHistory`] |
//! | change several files at once in a tool | [`CommitStep`], [`FilesDoor::commit`](crate::tool::FilesDoor::commit) |

pub use crate::undo::Undo;
pub use windlass_core::{
    ChangeWithoutHistory, Checkpoint, CheckpointQuery, CommitState, CommitStep, Conflict,
    ContentHash, ContentHasher, FileObject, FileState, History, HistoryError, HistoryLock,
    MemoryHistory, NewCheckpoint, NewContent, Origin, PLANTED_REMOVAL, PendingCheckpoint, Proposal,
    ProposalApplication, ProposalStore, Proposals, ProposedBy, RecordedChange, Recovered, Snapshot,
    SnapshotPlan, UndoPlan, UndoStep, finish_removal, recover,
};
pub use windlass_store::{HistorySettings, ProposalShelf, UndoHistory};
