//! What all of these tests need: a store in a directory that goes away, records, and a way to wait for them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use windlass_core::{
    CallId, Journal, JournalError, Outcome, Record, RecordKind, SessionId, TurnId,
};
use windlass_store::{JournalRow, Kind, Settings, Store};

pub(crate) const FINISHED: RecordKind = RecordKind::Finished(Outcome::Ok);

/// A state directory.
pub(crate) struct State(TempDir);

impl State {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub(crate) fn open(&self) -> Store {
        let settings = Settings { clock: moment, ..Settings::default() };
        Store::open_with(self.dir(), settings).unwrap()
    }

    /// A connection behind the store's back.
    pub(crate) fn intruder(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.file("journal.db")).unwrap()
    }
}

/// When everything happens.
pub(crate) fn moment() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_754_392_331_042)
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::new(name)
}

pub(crate) fn record(session: &str, call: &str, kind: RecordKind) -> Record {
    Record {
        at: moment(),
        session: SessionId::new(session),
        turn: TurnId::new("t1"),
        call: CallId::new(call),
        tool: "read".into(),
        kind,
        body: format!(r#"{{"of":"{call}"}}"#),
    }
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(crate) fn append(store: &Store, record: Record) -> Result<(), JournalError> {
    wait(store.append(record)).map(drop)
}

/// A call from beginning to end.
pub(crate) fn call(store: &Store, session: &str, call: &str) {
    append(store, record(session, call, RecordKind::Started)).unwrap();
    append(store, record(session, call, FINISHED)).unwrap();
}

pub(crate) fn all(store: &Store) -> Vec<JournalRow> {
    store.records(None, 0, usize::MAX).unwrap()
}

/// The kind and the call of each record.
pub(crate) fn told(rows: &[JournalRow]) -> Vec<(Kind, &str)> {
    rows.iter().map(|row| (row.kind, row.call.as_ref().map_or("", CallId::as_str))).collect()
}
