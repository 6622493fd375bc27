//! The journal: the records of all calls, the stores that keep them, and queries.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! use windlass::journal::SessionFilter;
//! use windlass::{ToolCall, Windlass};
//! # let folder = tempfile::tempdir().unwrap();
//! # let state = tempfile::tempdir().unwrap();
//! let windlass = Windlass::builder(folder.path()).state(state.path()).build()?;
//! let session = windlass.new_session();
//! windlass.call(&session, ToolCall::new("list", serde_json::json!({}))).await;
//! let store = windlass.store().expect("it has a state directory");
//! assert_eq!(store.records(Some(session.id()), 0, 100)?.len(), 2);
//! let sessions = store.sessions(SessionFilter { limit: Some(10), ..SessionFilter::default() })?;
//! assert_eq!((&sessions[0].id, sessions[0].calls), (session.id(), 1));
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | query the records | [`Windlass::store`](crate::Windlass::store), [`Store`], [`SessionFilter`], [`SessionRow`], [`JournalRow`], [`StoredKind`] |
//! | keep the journal elsewhere | [`Journal`], [`Record`], [`Outputs`], [`EngineBuilder::journal`](crate::engine::EngineBuilder::journal) |
//! | read the body of a record | [`CallStarted`], [`CallFinished`], [`ApprovalAsked`], [`QuestionAsked`], [`MessageNote`] |

pub use windlass_core::{
    ApprovalAsked, BODY_VERSION, CallExtended, CallFinished, CallStarted, JobChange, JobEnded,
    Journal, JournalError, MemoryOutputs, MessageAuthor, MessageNote, Outputs, ProvenanceFacts,
    QuestionAsked, Record, RecordKind, RecordReceipt, RecordsMissing, Recovery, RequestNote,
    ResumedCallFacts, SeenRecord, SessionBegun, SessionNote, StateNote, TaskNote, TaskState, utc,
};
pub use windlass_store::{
    DrainAtClose, JournalRow, SessionFilter, SessionRow, Store, StoreError, StoreSettings,
    StoredKind, VerifyError,
};
