//! The state directory: sessions, calls, the journal, kept outputs, the undo history, proposals, state values and the full-text index.
//!
//! The journal is an append-only chain of records in SQLite: each record's hash covers the one before it, and the last is anchored
//! in a file outside the database, so that [`Store::verify`] finds every record that was changed, removed, moved or cut off. Several
//! processes may write at once: each to a spool of its own, which is drained into the database before each query. After a kill
//! at any moment every acknowledged record is there, and calls that had not ended are closed by the next query.
//!
//! ```text
//! STATE/journal.db (-wal, -shm)   the journal, and the tables derived from it
//! STATE/journal.head              the number and the hash of its last record
//! STATE/writers/N                 the spool of a writer, locked while the writer lives
//! STATE/writers/N.head            the position up to which the spool is filled, with the hash there
//! STATE/undo/                     checkpoints and earlier file contents, see [`UndoHistory`]
//! STATE/state.db (-wal, -shm)     values that last from call to call: todo lists, memory
//! STATE/index.db (-wal, -shm)     the full-text index of gathered documents: may be deleted, and is then rebuilt
//! STATE/approvals.json            open approvals and remembered answers, see [`ApprovalFile`]
//! STATE/questions.json            open questions of tools, see [`QuestionFile`]
//! STATE/waiting/ID                locked by the process that waits for an answer
//! STATE/outputs/CALL.txt          the whole output of a call whose text was too long for the model
//! ANCHOR, ANCHOR.last             outside the state directory, see [`StoreSettings::outside_anchor`]: the last record of journal and writer
//! ```
//!
//! It is not a cache, and it does not interpret the bodies of records.

mod anchor;
mod chain;
mod chain_writer;
mod connection;
mod database;
mod drain;
mod error;
mod filesystem;
mod frame;
mod history;
mod index;
mod inquiry_file;
mod journal_queries;
mod last_record_anchor;
mod log_format;
mod outputs;
mod proposal_files;
mod queue;
mod record_numbers;
mod salvage;
mod spool;
mod spool_contents;
mod state;
mod store;
mod tables;
mod timestamp;
mod transaction;
mod verify;
mod wal;
mod writer;
mod writer_slots;

pub use chain::StoredKind;
pub use error::StoreError;
pub use history::{HistorySettings, HistoryStatus, UndoHistory, Unfinished};
pub use inquiry_file::{ApprovalFile, BookFile, FiledInquiry, QuestionFile};
pub use journal_queries::{CallRow, JournalRow, SessionFilter, SessionRow};
pub use proposal_files::ProposalShelf;
pub use salvage::{Salvaged, salvage};
pub use store::{DrainAtClose, Store, StoreSettings};
pub use verify::{BrokenRecord, RecordFault, RowFault, Verified, VerifyError, WrongRow, WrongRows};
pub use windlass_core::utc;
