//! Helpers of these tests: a temporary state directory, records, and a way to wait for a future.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use windlass_core::{
    CallId, Journal, JournalError, Outcome, Record, RecordKind, SessionId, TurnId,
};
use windlass_store::{JournalRow, Store, StoreSettings, StoredKind};

pub(crate) const FINISHED: RecordKind = RecordKind::Finished(Outcome::Ok);

/// A temporary state directory.
pub(crate) struct TestState(TempDir);

impl TestState {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Opens a store with a fixed clock.
    pub(crate) fn open(&self) -> Store {
        let settings = StoreSettings { clock: test_time, ..StoreSettings::default() };
        Store::open_with(self.dir(), settings).unwrap()
    }

    /// A connection to the database that bypasses the store.
    pub(crate) fn raw_connection(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.file("journal.db")).unwrap()
    }
}

/// The time of all records.
pub(crate) fn test_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_754_392_331_042)
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::new(name)
}

/// A record of this session, call and kind.
pub(crate) fn record(session: &str, call: &str, kind: RecordKind) -> Record {
    Record {
        at: test_time(),
        session: SessionId::new(session),
        turn: TurnId::new("t1"),
        call: CallId::new(call),
        tool: "read".into(),
        kind,
        body: format!(r#"{{"of":"{call}"}}"#),
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Appends a record and waits until it is written.
pub(crate) fn append(store: &Store, record: Record) -> Result<(), JournalError> {
    block_on(store.append(record)).map(drop)
}

/// Appends the beginning and the end of a call.
pub(crate) fn append_call(store: &Store, session: &str, call: &str) {
    append(store, record(session, call, RecordKind::Started)).unwrap();
    append(store, record(session, call, FINISHED)).unwrap();
}

/// All records of a store.
pub(crate) fn all_records(store: &Store) -> Vec<JournalRow> {
    store.records(None, 0, usize::MAX).unwrap()
}

/// The kind and the call of each record.
pub(crate) fn kinds_and_calls(rows: &[JournalRow]) -> Vec<(StoredKind, &str)> {
    rows.iter().map(|row| (row.kind, row.call.as_ref().map_or("", CallId::as_str))).collect()
}
