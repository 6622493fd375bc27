//! Changes of files: undo, proposals, snapshots, and the history that they rest on.
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

pub use crate::reversible::Undo;
pub use windlass_core::{
    Application, Checkpoint, CommitState, Conflict, ContentHash, ContentHasher, Exclusive,
    FileObject, FileState, History, HistoryError, MemoryHistory, NewCheckpoint, NewContent, Origin,
    PLANTED_REMOVAL, Pending, Proposal, Proposals, ProposedBy, Query, RecordedChange, Recovered,
    Shelf, Snapshot, SnapshotPlan, Step, UndoPlan, Way, WithoutHistory, finish_removal, recover,
};
pub use windlass_store::{HistorySettings, ProposalShelf, UndoHistory};
