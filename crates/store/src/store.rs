//! The store as its users see it: opened in a state directory, written through a queue, read through a connection of its own.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use windlass_core::{BoxFuture, CallId, Journal, JournalError, Outputs, Record, SessionId};

use crate::StoreError;
use crate::database::{Access, Database};
use crate::ledger::Ledger;
use crate::liveness::Slots;
use crate::outputs::KeptOutputs;
use crate::queue::{Appending, Queue};
use crate::tables::{self, Announcement};
use crate::timestamp::to_nanos;
use crate::writer::Writer;

/// What may be set about a store. The defaults are meant for everybody; tests need less patience and smaller limits.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long to wait for other processes that hold the database.
    pub patience: Duration,
    /// Where the time comes from, for the records that the store makes itself.
    pub clock: fn() -> SystemTime,
    /// How much of one output is kept, in bytes.
    pub output_limit: usize,
    /// How much of all outputs is kept, in bytes; the oldest are dropped first.
    pub outputs_limit: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            clock: SystemTime::now,
            output_limit: 64 << 20,
            outputs_limit: 1 << 30,
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
    settings: Settings,
    access: Access,
    queue: Arc<Queue>,
    reader: Mutex<Option<Connection>>,
    outputs: KeptOutputs,
}

impl Store {
    /// A record has at most so many bytes; SQLite takes a thousand million, but nothing that long is meant.
    const MAX_BODY: usize = 64 << 20;

    /// Opens the store in this directory, made if it is not there, and closes the calls that dead processes left open.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(state_dir, Settings::default())
    }

    /// Opens the store with other settings than the default.
    pub fn open_with(state_dir: &Path, settings: Settings) -> Result<Self, StoreError> {
        let database = Database::in_state(state_dir, settings.patience)?;
        let mut ledger = Ledger::open(&database)?;
        // A full disk or a busy database need not keep anybody from looking back; the next one to open tries again.
        let closed = close_left_behind(&database, &mut ledger, (settings.clock)());
        if let Err(error @ StoreError::Damaged { .. }) = closed {
            return Err(error);
        }
        let writer = Writer::new(ledger, database.clone(), settings.clock);
        Ok(Self::new(database, settings, Access::ReadWrite, Some(writer)))
    }

    /// Opens the store for looking back only: nothing is made, changed or closed.
    pub fn open_read_only(state_dir: &Path) -> Result<Self, StoreError> {
        let settings = Settings::default();
        let database = Database::in_state(state_dir, settings.patience)?;
        let (connection, access) = database.connect_to_read()?;
        let store = Self::new(database, settings, access, None);
        *lock(&store.reader) = Some(connection);
        Ok(store)
    }

    fn new(database: Database, settings: Settings, access: Access, writer: Option<Writer>) -> Self {
        let limits = (settings.output_limit, settings.outputs_limit);
        Self {
            outputs: KeptOutputs::in_state(&database.dir, limits.0, limits.1),
            queue: Arc::new(Queue::new(database.clone(), writer)),
            database,
            settings,
            access,
            reader: Mutex::new(None),
        }
    }

    /// Where the store is.
    pub fn state_dir(&self) -> &Path {
        &self.database.dir
    }

    /// Says where a session works and under which it runs. It is written with the next record.
    pub fn session_started(
        &self,
        session: &SessionId,
        workspace: &Path,
        parent: Option<&SessionId>,
    ) {
        self.queue.announce(Announcement {
            at: to_nanos((self.settings.clock)()),
            session: session.clone(),
            workspace: workspace.to_string_lossy().into_owned(),
            parent: parent.cloned(),
        });
    }

    /// Deletes what a session said and did: the bodies of its records and its kept outputs. That it was there, when, and which
    /// tools it called stays on the record, as does its deletion.
    pub fn delete_session(&self, session: &SessionId) -> Result<(), StoreError> {
        self.session(session)?;
        let calls = self.calls_of(session)?;
        self.refuse_to_write()?;
        self.queue.delete(session)?;
        for call in calls {
            self.outputs.remove(&call)?;
        }
        Ok(())
    }

    /// Waits until all that was appended is written; nothing more is taken afterwards. Dropping the store does the same.
    pub fn close(&self) {
        self.queue.close();
    }

    /// Runs a query on a connection that is opened at the first use.
    pub(crate) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut reader = lock(&self.reader);
        let connection = match &mut *reader {
            Some(connection) => connection,
            none => none.insert(self.database.connect(self.access)?),
        };
        query(connection).map_err(|error| self.database.error("read", &error))
    }

    fn enqueue(&self, record: Record) -> Result<Appending, StoreError> {
        self.refuse_to_write()?;
        let bytes = record.body.len();
        if bytes > Self::MAX_BODY {
            let limit = Self::MAX_BODY;
            return Err(StoreError::TooLong { call: record.call, bytes, limit });
        }
        self.queue.append(record)
    }

    fn refuse_to_write(&self) -> Result<(), StoreError> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::Read | Access::Frozen => {
                Err(StoreError::ReadOnly { path: self.database.path.clone() })
            }
        }
    }
}

impl Journal for Store {
    fn append(&self, record: Record) -> BoxFuture<'static, Result<(), JournalError>> {
        match self.enqueue(record) {
            Ok(appending) => Box::pin(appending),
            Err(error) => Box::pin(std::future::ready(Err(error.into()))),
        }
    }
}

impl Outputs for Store {
    fn keep(&self, _: &SessionId, call: &CallId, text: &str) -> Result<(), JournalError> {
        self.refuse_to_write()?;
        Ok(self.outputs.keep(call, text)?)
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

/// Ends the calls whose writers are dead. Several processes may try at once: a dead writer's lock is taken by one of them, and
/// whoever comes later finds no open calls.
fn close_left_behind(
    database: &Database,
    ledger: &mut Ledger,
    now: SystemTime,
) -> Result<(), StoreError> {
    let slots = Slots::in_state(&database.dir);
    let mut dead = Vec::new();
    for number in open_slots(database, &ledger.connection)? {
        dead.extend(slots.try_take(number)?);
    }
    if dead.is_empty() {
        return Ok(());
    }
    ledger.transact(now, database.patience, |chain| {
        dead.iter().try_for_each(|slot| tables::close_left_behind(chain, slot, to_nanos(now)))
    })
}

fn open_slots(database: &Database, connection: &Connection) -> Result<Vec<u32>, StoreError> {
    database
        .patiently(|| {
            connection
                .prepare("SELECT DISTINCT slot FROM open_calls")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
        .map_err(|error| database.error("read", &error))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
