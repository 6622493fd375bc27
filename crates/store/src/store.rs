//! The store as its users see it: opened in a state directory, written through a queue into a spool, drained into the database
//! before anybody looks back.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use windlass_core::{
    BoxFuture, CallId, Journal, JournalError, Outputs, Principal, Receipt, Record, SessionId,
};

use crate::StoreError;
use crate::database::{Access, Database};
use crate::drain::Drain;
use crate::index::IndexFile;
use crate::liveness::Slots;
use crate::numbers::Numbers;
use crate::outputs::KeptOutputs;
use crate::queue::{Appending, Queue, lock};
use crate::state::StateFile;
use crate::timestamp::to_nanos;
use crate::writer::{Beginning, Writer};

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
    /// How large a spool grows before a running process drains it, in bytes. Many records in one transaction cost a fraction of
    /// what each alone does.
    pub spool_limit: u64,
    /// When closing brings what was recorded into the database.
    pub drain_at_close: DrainAtClose,
    /// A file outside of the state directory that says how far the journal came. With it, a state directory that is put back from an
    /// older copy is noticed. It is written whenever records come into the database; where that fails, the journal goes on without it.
    pub outside_anchor: Option<PathBuf>,
}

/// When closing a store brings what was recorded into the database. What was acknowledged is safe and seen by all who look back
/// in either case.
///
/// ```
/// use windlass_store::{DrainAtClose, Settings, Store};
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// let settings = Settings { drain_at_close: DrainAtClose::WhenLarge, ..Settings::default() };
/// let store = Store::open_with(state, settings)?;
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainAtClose {
    /// Always, if anything was recorded.
    Always,
    /// Only when much has gathered or there is no database yet: for commands that last milliseconds.
    WhenLarge,
}

impl DrainAtClose {
    /// What is left for the next to drain.
    const SMALL: u64 = 32 << 10;
}

impl Default for Settings {
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
    settings: Settings,
    access: Access,
    queue: Arc<Queue>,
    drain: Arc<Mutex<Drain>>,
    numbers: Arc<Numbers>,
    outputs: KeptOutputs,
    pub(crate) state: StateFile,
    pub(crate) index: IndexFile,
}

impl Store {
    /// A record has at most so many bytes; SQLite takes a thousand million, but nothing that long is meant.
    const MAX_BODY: usize = 64 << 20;

    /// Opens the store in this directory, made if it is not there. The database is opened when it is first needed.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(state_dir, Settings::default())
    }

    /// Opens the store with other settings than the default.
    pub fn open_with(state_dir: &Path, settings: Settings) -> Result<Self, StoreError> {
        let mut database = Database::in_state(state_dir, settings.patience)?;
        database.outside.clone_from(&settings.outside_anchor);
        database.prepare()?;
        Self::new(database, settings, Access::ReadWrite)
    }

    /// Opens the store for looking back only: nothing is made, changed or closed.
    pub fn open_read_only(state_dir: &Path) -> Result<Self, StoreError> {
        let settings = Settings::default();
        let database = Database::in_state(state_dir, settings.patience)?;
        let store = Self::new(database, settings, Access::Read)?;
        lock(&store.drain).look()?;
        Ok(store)
    }

    fn new(database: Database, settings: Settings, access: Access) -> Result<Self, StoreError> {
        let limits = (settings.output_limit, settings.outputs_limit);
        let drain = Arc::new(Mutex::new(Drain::new(database.clone(), access, settings.clock)));
        let slots = Slots::in_state(&database.dir);
        let writer = (access == Access::ReadWrite)
            .then(|| Writer::new(slots, settings.clock, settings.spool_limit));
        Ok(Self {
            outputs: KeptOutputs::in_state(&database.dir, limits.0, limits.1),
            index: IndexFile::in_state(&database.dir, settings.patience)?,
            state: StateFile::in_state(&database.dir, settings.patience, access)?,
            queue: Arc::new(Queue::new(database.clone(), Arc::clone(&drain), writer)),
            numbers: Numbers::new(Arc::clone(&drain), settings.patience),
            drain,
            database,
            settings,
            access,
        })
    }

    /// Where the store is.
    pub fn state_dir(&self) -> &Path {
        &self.database.dir
    }

    /// Says where a session works, under which other it runs and who is behind it. It is written with the next record.
    pub fn session_started(
        &self,
        session: &SessionId,
        workspace: &Path,
        parent: Option<&SessionId>,
        principal: &Principal,
    ) {
        let is_usual = *principal == Principal::default();
        self.queue.announce(Beginning {
            at: to_nanos((self.settings.clock)()),
            session: session.clone(),
            workspace: workspace.to_string_lossy().into_owned(),
            parent: parent.cloned(),
            principal: (!is_usual).then(|| serde_json::to_string(principal).unwrap_or_default()),
        });
    }

    /// Deletes what a session said and did: the bodies of its records, its kept outputs and its state. That it was there, when, and which
    /// tools it called stays on the record, as does its deletion.
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

    /// Brings all that was recorded into the file `journal.db` itself, so that this file alone holds it. This waits for the disk.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.refuse_to_write()?;
        self.queue.flush();
        lock(&self.drain).checkpoint()
    }

    /// Waits until all that was appended is written; nothing more is taken afterwards. Dropping the store does the same.
    pub fn close(&self) {
        let spooled = self.queue.close();
        self.numbers.close();
        let mut drain = lock(&self.drain);
        if spooled.is_some_and(|spooled| self.should_drain(spooled)) {
            // It is safe where it is, and whoever looks back is told what is wrong.
            drop(drain.run(self.settings.patience));
        }
        drain.rest();
    }

    fn should_drain(&self, spooled: u64) -> bool {
        match self.settings.drain_at_close {
            DrainAtClose::Always => true,
            DrainAtClose::WhenLarge => {
                spooled > DrainAtClose::SMALL || !self.database.exists().unwrap_or(true)
            }
        }
    }

    /// Runs a query on a connection that sees all that was acknowledged.
    pub(crate) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.look(|connection| {
            query(connection).map_err(|error| self.database.error("read", &error))
        })
    }

    pub(crate) fn look<T, E: From<StoreError>>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        query(lock(&self.drain).look()?)
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
    fn append(&self, record: Record) -> BoxFuture<'static, Result<Receipt, JournalError>> {
        let key = self.numbers.key(&record);
        match self.enqueue(record) {
            Ok(appending) => {
                let numbers = Arc::clone(&self.numbers);
                Box::pin(async move { appending.await.map(|()| numbers.receipt(key)) })
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
