//! The store as its users see it: opened in a state directory, written through a queue into a spool, drained into the database
//! before each query.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use windlass_core::{
    BoxFuture, CallId, Journal, JournalError, Outputs, Principal, Record, RecordReceipt, SessionId,
};

use crate::StoreError;
use crate::database::{Access, Database};
use crate::drain::Drain;
use crate::index::IndexFile;
use crate::outputs::KeptOutputs;
use crate::queue::{Appending, Queue, lock};
use crate::record_numbers::RecordNumbers;
use crate::state::StateFile;
use crate::timestamp::to_nanos;
use crate::writer::{QueuedSession, Writer};
use crate::writer_slots::WriterSlots;

/// The settings of a store. The defaults suit every user; tests need shorter waits and smaller limits.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// The longest wait for other processes that hold the database.
    pub patience: Duration,
    /// The clock for the records that the store makes itself.
    pub clock: fn() -> SystemTime,
    /// The longest part of one output that is kept, in bytes.
    pub output_limit: usize,
    /// The space for all outputs, in bytes; the oldest are dropped first.
    pub outputs_limit: u64,
    /// The length of a spool at which a running process drains it, in bytes. Many records in one transaction cost a fraction of many
    /// transactions.
    pub spool_limit: u64,
    /// The condition for a drain when the store is closed.
    pub drain_at_close: DrainAtClose,
    /// An anchor file outside the state directory. It reveals that the state directory was replaced by an older copy. It is written
    /// whenever records come into the database; a failure is ignored.
    pub outside_anchor: Option<PathBuf>,
}

/// The condition for a drain when a store is closed. In either case all acknowledged records are kept and seen by every query.
///
/// ```
/// use windlass_store::{DrainAtClose, StoreSettings, Store};
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// let settings = StoreSettings { drain_at_close: DrainAtClose::WhenLarge, ..StoreSettings::default() };
/// let store = Store::open_with(state, settings)?;
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainAtClose {
    /// Drain if anything was recorded.
    Always,
    /// Drain only a large spool, or if there is no database yet: for commands that last milliseconds.
    WhenLarge,
}

impl DrainAtClose {
    /// A spool of at most this length is left for the next process to drain.
    const MAX_LEFT_BYTES: u64 = 32 << 10;
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            clock: SystemTime::now,
            output_limit: 64 << 20,
            outputs_limit: 1 << 30,
            spool_limit: 2 << 20,
            drain_at_close: DrainAtClose::Always,
            outside_anchor: None,
        }
    }
}

/// Sessions, calls, the journal and kept outputs of one state directory.
///
/// ```
/// use std::time::SystemTime;
/// use windlass_core::{CallId, Journal, Record, RecordKind, SessionId, TurnId};
/// use windlass_store::Store;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// let store = Store::open(state)?;
/// let safe = store.append(Record {
///     at: SystemTime::now(),
///     session: SessionId::new("s1"),
///     turn: TurnId::new("t1"),
///     call: CallId::new("c1"),
///     tool: "read".into(),
///     kind: RecordKind::Started,
///     body: "{}".into(),
/// });
/// runtime.block_on(safe)?;
/// assert_eq!(store.records(None, 0, 10)?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store {
    pub(crate) database: Database,
    settings: StoreSettings,
    access: Access,
    queue: Arc<Queue>,
    drain: Arc<Mutex<Drain>>,
    record_numbers: Arc<RecordNumbers>,
    outputs: KeptOutputs,
    pub(crate) state: StateFile,
    pub(crate) index: IndexFile,
}

impl Store {
    /// The longest body of a record. SQLite would take a thousand million bytes.
    const MAX_BODY_BYTES: usize = 64 << 20;

    /// Opens the store in this directory, which is created if it is missing. The database is opened by the first drain or query.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(state_dir, StoreSettings::default())
    }

    /// Opens the store with other settings than the default.
    pub fn open_with(state_dir: &Path, settings: StoreSettings) -> Result<Self, StoreError> {
        let mut database = Database::in_state(state_dir, settings.patience)?;
        database.outside_anchor_path.clone_from(&settings.outside_anchor);
        database.prepare()?;
        Self::new(database, settings, Access::ReadWrite)
    }

    /// Opens the store for queries only: no file is created or changed, and no open call is closed.
    pub fn open_read_only(state_dir: &Path) -> Result<Self, StoreError> {
        let settings = StoreSettings::default();
        let database = Database::in_state(state_dir, settings.patience)?;
        let store = Self::new(database, settings, Access::Read)?;
        lock(&store.drain).connection_to_read()?;
        Ok(store)
    }

    fn new(
        database: Database,
        settings: StoreSettings,
        access: Access,
    ) -> Result<Self, StoreError> {
        let limits = (settings.output_limit, settings.outputs_limit);
        let drain = Arc::new(Mutex::new(Drain::new(database.clone(), access, settings.clock)));
        let slots = WriterSlots::in_state(&database.dir);
        let writer = (access == Access::ReadWrite)
            .then(|| Writer::new(slots, settings.clock, settings.spool_limit));
        Ok(Self {
            outputs: KeptOutputs::in_state(&database.dir, limits.0, limits.1),
            index: IndexFile::in_state(&database.dir, settings.patience)?,
            state: StateFile::in_state(&database.dir, settings.patience, access)?,
            queue: Arc::new(Queue::new(database.clone(), Arc::clone(&drain), writer)),
            record_numbers: RecordNumbers::new(Arc::clone(&drain), settings.patience),
            drain,
            database,
            settings,
            access,
        })
    }

    /// The state directory.
    pub fn state_dir(&self) -> &Path {
        &self.database.dir
    }

    /// Announces a session with its workspace, its parent session and its principal. This is written with the next record.
    pub fn session_started(
        &self,
        session: &SessionId,
        workspace: &Path,
        parent: Option<&SessionId>,
        principal: &Principal,
    ) {
        let is_default = *principal == Principal::default();
        self.queue.announce(QueuedSession {
            at: to_nanos((self.settings.clock)()),
            session: session.clone(),
            workspace: workspace.to_string_lossy().into_owned(),
            parent: parent.cloned(),
            principal: (!is_default).then(|| serde_json::to_string(principal).unwrap_or_default()),
        });
    }

    /// Deletes the bodies of a session's records, its kept outputs and its state values. The records stay without bodies: the times, the
    /// tools called and the deletion. Fails while one of its calls is running.
    pub fn delete_session(&self, session: &SessionId) -> Result<(), StoreError> {
        self.session(session)?;
        let calls = self.calls_of(session)?;
        self.refuse_to_write()?;
        self.queue.flush();
        lock(&self.drain).delete(session)?;
        for call in calls {
            self.outputs.remove(&call)?;
        }
        self.state.delete_session(session)
    }

    /// Drains all spools and truncates the WAL, so that the file `journal.db` alone holds all records. This waits for the disk.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.refuse_to_write()?;
        self.queue.flush();
        lock(&self.drain).checkpoint()
    }

    /// Writes all appended records and refuses further ones. Dropping the store does the same.
    pub fn close(&self) {
        let spooled_bytes = self.queue.close();
        self.record_numbers.close();
        let mut drain = lock(&self.drain);
        if spooled_bytes.is_some_and(|spooled_bytes| self.should_drain(spooled_bytes)) {
            // After a failure the records stay in the spool, and the next query reports the error.
            drop(drain.drain_spools(self.settings.patience));
        }
        drain.disconnect();
    }

    /// Returns whether a spool of this length is drained when the store is closed.
    fn should_drain(&self, spooled_bytes: u64) -> bool {
        match self.settings.drain_at_close {
            DrainAtClose::Always => true,
            DrainAtClose::WhenLarge => {
                spooled_bytes > DrainAtClose::MAX_LEFT_BYTES
                    || !self.database.exists().unwrap_or(true)
            }
        }
    }

    /// Runs a query on a connection that sees all acknowledged records.
    pub(crate) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.with_drained_connection(|connection| {
            query(connection).map_err(|error| self.database.error("read", &error))
        })
    }

    /// Runs a query with an error type of its own on a drained connection.
    pub(crate) fn with_drained_connection<T, E: From<StoreError>>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        query(lock(&self.drain).connection_to_read()?)
    }

    /// Queues a record, unless its body is too long or the store is read-only.
    fn enqueue(&self, record: Record) -> Result<Appending, StoreError> {
        self.refuse_to_write()?;
        let bytes = record.body.len();
        if bytes > Self::MAX_BODY_BYTES {
            let limit = Self::MAX_BODY_BYTES;
            return Err(StoreError::TooLong { call: record.call, bytes, limit });
        }
        self.queue.append(record)
    }

    /// Fails if the store was opened read-only.
    pub(crate) fn refuse_to_write(&self) -> Result<(), StoreError> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::Read | Access::Frozen => {
                Err(StoreError::ReadOnly { path: self.database.path.clone() })
            }
        }
    }
}

impl Journal for Store {
    fn append(&self, record: Record) -> BoxFuture<'static, Result<RecordReceipt, JournalError>> {
        let key = self.record_numbers.key(&record);
        match self.enqueue(record) {
            Ok(appending) => {
                let record_numbers = Arc::clone(&self.record_numbers);
                Box::pin(async move { appending.await.map(|()| record_numbers.receipt(key)) })
            }
            Err(error) => Box::pin(std::future::ready(Err(error.into()))),
        }
    }
}

impl Outputs for Store {
    fn keep(&self, _: &SessionId, call: &CallId, text: &str) -> Result<(), JournalError> {
        self.refuse_to_write()?;
        Ok(self.outputs.keep(call, text)?)
    }

    fn keep_pieces(
        &self,
        _: &SessionId,
        call: &CallId,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), JournalError> {
        self.refuse_to_write()?;
        Ok(self.outputs.keep_pieces(call, next)?)
    }

    fn get(&self, call: &CallId) -> Result<Option<String>, JournalError> {
        Ok(self.outputs.get(call)?)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("database", &self.database).finish_non_exhaustive()
    }
}
