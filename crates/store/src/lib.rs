//! What Windlass remembers: sessions, calls, the journal, kept outputs and the history of changes, in one state directory.
//!
//! The journal is an append-only chain of records in SQLite: each record's hash covers the one before it, and the last is anchored
//! in a file outside the database, so that [`Store::verify`] finds every record that was changed, removed, moved or cut off. Several
//! processes may write at once: each to a spool of its own, which is drained into the database before anybody looks back. After a
//! kill at any moment every acknowledged record is there, and calls that had not ended are closed when somebody looks.
//!
//! ```text
//! STATE/journal.db (-wal, -shm)   the journal, and the tables derived from it
//! STATE/journal.head              the number and the hash of its last record
//! STATE/writers/N                 the spool of a writer, locked while it lives
//! STATE/writers/N.head            how far the spool is filled, and its hash there
//! STATE/undo/                     what was changed and what was there before, see [`UndoHistory`]
//! STATE/state.db (-wal, -shm)     values that last from call to call: todo lists, memory
//! STATE/index.db (-wal, -shm)     the full-text index of gathered documents: can be deleted, and is made anew
//! STATE/approvals.json            open approvals and remembered answers, see [`ApprovalFile`]
//! STATE/questions.json            open questions of tools, see [`QuestionFile`]
//! STATE/waiting/ID                locked by the process that waits for an answer
//! STATE/outputs/CALL.txt          the whole output of a call whose text was too long for the model
//! ANCHOR, ANCHOR.last             outside of the state, see [`Settings::outside_anchor`]: the last record of the journal, and of a writer
//! ```
//!
//! It is not a cache, and it knows nothing about what the bodies of records mean.

mod book_file;
mod chain;
mod connection;
mod database;
mod drain;
mod error;
mod filesystem;
mod filling;
mod frame;
mod head;
mod history;
mod index;
mod ledger;
mod liveness;
mod look_back;
mod numbers;
mod outputs;
mod queue;
mod salvage;
mod shelf;
mod spool;
mod state;
mod store;
mod tables;
mod timestamp;
mod transaction;
mod verify;
mod wal;
mod witness;
mod writer;

pub use book_file::{ApprovalFile, BookFile, Filed, QuestionFile};
pub use chain::Kind;
pub use error::StoreError;
pub use history::{HistorySettings, HistoryStatus, UndoHistory, Unfinished};
pub use look_back::{CallRow, JournalRow, SessionFilter, SessionRow};
pub use salvage::{Salvaged, salvage};
pub use shelf::ProposalShelf;
pub use store::{DrainAtClose, Settings, Store};
pub use verify::{Broken, Fault, RowFault, Verified, VerifyError, WrongRow, WrongRows};
pub use windlass_core::utc;
