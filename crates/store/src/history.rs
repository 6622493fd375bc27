//! The undo history on disk: checkpoints with earlier file contents, for all sessions of a state directory.
//!
//! A checkpoint has to be on disk before the change is made, so every call that changes a file waits for it. It is
//! written to a slot, a file that its writer holds locked: one write, and one wait for the disk. Before a query, slots are
//! drained into a database, where each content is stored once and compressed. A slot is like a spool of the journal, but has another
//! format: a checkpoint is first recorded and later finished or abandoned, it holds contents, and it may be dropped.
//!
//! ```text
//! STATE/undo/writers/N              the slot of a writer, locked while the writer lives
//! STATE/undo/objects/ab/HASH        a content of more than 4 MiB
//! STATE/undo/undo.db (-wal, -shm)   checkpoints and contents
//! STATE/undo/undoing                locked by a running undo
//! ```

mod catalog;
mod catalog_reader;
mod compress;
mod content_drain;
mod delta;
mod drain;
mod encoding;
mod frame_plan;
mod object_cleanup;
mod objects;
mod slot;
mod slot_reader;
mod slot_writer;
mod unfinished;

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use windlass_core::{
    CallId, Checkpoint, CheckpointQuery, CommitState, ContentHash, ContentSource, History,
    HistoryError, HistoryLock, NewCheckpoint, OpenedContent, PendingCheckpoint, SessionId,
};

pub use self::unfinished::Unfinished;

use self::catalog::Totals;
use self::drain::Drain;
use self::objects::Objects;
use self::slot_writer::{SlotSettings, SlotWriter};
use crate::StoreError;
use crate::queue::lock;
use crate::timestamp::{from_nanos, to_nanos};
use crate::writer_slots::{WriterSlots, lock_file};

/// The name of the file that a running undo locks.
const UNDOING: &str = "undoing";

/// The settings of a history. The defaults suit every user; tests need smaller limits.
///
/// ```
/// use windlass_store::{HistorySettings, UndoHistory};
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// let settings = HistorySettings { quota: 100 << 20, ..HistorySettings::default() };
/// let history = UndoHistory::open_with(state, settings)?;
/// # drop(history);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct HistorySettings {
    /// A checkpoint waits for the disk, so that it also survives a loss of power.
    pub sync: bool,
    /// The space of the history, in bytes; the oldest checkpoints are dropped first.
    pub quota: u64,
    /// The age at which a checkpoint is dropped, at least one hour.
    pub age: Duration,
    /// The longest wait for other processes that hold the database.
    pub patience: Duration,
    /// The clock for ages.
    pub clock: fn() -> SystemTime,
    /// The length at which a slot is drained, in bytes.
    pub slot_limit: u64,
    /// Contents that are longer than this get files of their own, in bytes.
    pub large: u64,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self {
            sync: true,
            quota: 2 << 30,
            age: Duration::from_hours(30 * 24),
            patience: Duration::from_secs(10),
            clock: SystemTime::now,
            slot_limit: 8 << 20,
            large: 4 << 20,
        }
    }
}

impl HistorySettings {
    /// The settings for writers of slots.
    fn slot_settings(&self) -> SlotSettings {
        let Self { sync, large, slot_limit: drain_at, quota, .. } = *self;
        SlotSettings { sync, large, drain_at, quota }
    }
}

/// The size of a history.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// let status = windlass_store::UndoHistory::open(state)?.status()?;
/// assert_eq!((status.checkpoints, status.bytes, status.oldest), (0, 0, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistoryStatus {
    /// The checkpoints that are kept.
    pub checkpoints: u64,
    /// The space that they and their contents take.
    pub bytes: u64,
    /// The time of the oldest checkpoint.
    pub oldest: Option<SystemTime>,
    /// The number of checkpoints ever dropped because of the quota or their age.
    pub dropped: u64,
}

/// The history of a state directory. Any number of processes may use it at once.
///
/// ```
/// use windlass_core::{History, NewCheckpoint, CheckpointQuery};
/// use windlass_store::UndoHistory;
/// # use windlass_core::{CallId, FileState, Origin, RecordedChange, SessionId, TurnId};
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// # let origin = Origin {
/// #     call: CallId::new("c1"), session: SessionId::new("s1"), turn: TurnId::new("t1"), tool: "write".into(),
/// #     workspace: "/w".into(), at: std::time::SystemTime::now(), undoes: Vec::new(),
/// # };
/// # let changes = [RecordedChange::new("/w/a", FileState::Absent, FileState::Other)];
/// let history = UndoHistory::open(state)?;
/// let new = NewCheckpoint { origin: &origin, changes: &changes, contents: &[], without_history: &[] };
/// let pending = history.record(&new)?;
/// // … the change itself …
/// pending.finish()?;
/// assert_eq!(history.checkpoints(&CheckpointQuery::Workspace("/w".into()))?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UndoHistory {
    shared: Arc<Shared>,
    /// The thread that drains full slots.
    helper: Mutex<Option<JoinHandle<()>>>,
}

/// The parts of a history that its draining thread uses too.
struct Shared {
    dir: PathBuf,
    slots: WriterSlots,
    objects: Objects,
    settings: HistorySettings,
    idle_writers: Mutex<IdleWriters>,
    drain: Mutex<Drain>,
    /// The moment of the last checkpoint, in nanoseconds since 1970.
    last: AtomicI64,
}

/// The slots that this process holds and that no call uses at present.
#[derive(Default)]
struct IdleWriters {
    ready: Vec<SlotWriter>,
    /// Slots to drain and empty before they are used again.
    full: Vec<SlotWriter>,
    /// A thread is draining the full slots.
    is_draining: bool,
}

impl UndoHistory {
    /// At most this many full slots wait for the helper; the call that fills one more drains them itself.
    const MAX_FULL_SLOTS: usize = 2;

    /// The history of a state directory. No file is opened or created before the first use.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(state_dir, HistorySettings::default())
    }

    /// The history with other settings than the default.
    pub fn open_with(state_dir: &Path, settings: HistorySettings) -> Result<Self, StoreError> {
        let dir = std::path::absolute(state_dir.join("undo"))
            .map_err(|why| StoreError::file("find", state_dir, why))?;
        let slots = WriterSlots::in_state(&dir);
        let objects = Objects::in_history(&dir, settings.sync);
        let drain = Drain::new(&dir, slots.clone(), objects.clone(), settings.clone())?;
        let shared = Shared {
            dir,
            slots,
            objects,
            settings,
            idle_writers: Mutex::default(),
            drain: Mutex::new(drain),
            last: AtomicI64::new(i64::MIN),
        };
        Ok(Self { shared: Arc::new(shared), helper: Mutex::default() })
    }

    /// The checkpoints whose writers died in the middle of their changes. Fails because of a damaged slot only if there are none.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>, StoreError> {
        let Shared { slots, objects, .. } = &*self.shared;
        let (mut left, mut failed) = (Vec::new(), None);
        for number in slots.list()? {
            match Unfinished::find(slots, objects, number) {
                Ok(found) => left.extend(found),
                Err(error) => {
                    failed.get_or_insert_with(|| slot_reader::set_aside(slots, number, error));
                }
            }
        }
        match failed {
            Some(error) if left.is_empty() => Err(error),
            _ => Ok(left),
        }
    }

    /// The state of the changes of a call whose process died: made, not made, or unknown until recovery.
    pub fn state_of(&self, call: &CallId) -> Result<CommitState, StoreError> {
        let Shared { slots, .. } = &*self.shared;
        // Slots first: a checkpoint that is recovered meanwhile is then found in the catalog.
        for number in slots.list()? {
            if unfinished::is_of_call(slots, number, call)? {
                return Ok(CommitState::Unknown);
            }
        }
        let is_made = match lock(&self.shared.drain).drain_for_query()? {
            Some(catalog) => !catalog.checkpoints(&CheckpointQuery::Call(call.clone()))?.is_empty(),
            None => false,
        };
        Ok(if is_made { CommitState::Made } else { CommitState::NotMade })
    }

    /// The size of the history.
    pub fn status(&self) -> Result<HistoryStatus, StoreError> {
        match lock(&self.shared.drain).drain_for_query()? {
            Some(catalog) => {
                let (checkpoints, oldest, totals) = catalog.counts()?;
                let Totals { stored: bytes, dropped, .. } = totals;
                Ok(HistoryStatus { checkpoints, bytes, oldest: oldest.map(from_nanos), dropped })
            }
            None => Ok(HistoryStatus::default()),
        }
    }

    /// Removes all checkpoints of a session. The files that it changed stay as they are.
    pub fn forget_session(&self, session: &SessionId) -> Result<(), StoreError> {
        self.drain_and_empty_idle();
        lock(&self.shared.drain).forget(session)?;
        for writer in &mut lock(&self.shared.idle_writers).ready {
            writer.cut_off_leftovers()?;
        }
        Ok(())
    }

    /// Drains and empties the idle slots of this process.
    fn drain_and_empty_idle(&self) {
        let mut idle_writers = lock(&self.shared.idle_writers);
        let ready = std::mem::take(&mut idle_writers.ready);
        idle_writers.full.extend(ready);
        drop(idle_writers);
        self.shared.drain_full();
    }

    /// Records a checkpoint in an idle slot, or in a slot that is locked for it; returns the writer of the slot.
    fn record_in_slot(&self, new: &NewCheckpoint<'_>) -> Result<SlotWriter, StoreError> {
        let Shared { slots, objects, settings, .. } = &*self.shared;
        let ready = lock(&self.shared.idle_writers).ready.pop();
        let mut writer = match ready {
            Some(writer) => writer,
            None => SlotWriter::take(slots, settings.slot_settings())?,
        };
        let moment = self.shared.next_moment(new.origin.at);
        let recorded = writer.record(moment, new, objects);
        if let Err(error) = recorded {
            if writer.is_usable() {
                lock(&self.shared.idle_writers).ready.push(writer);
            }
            return Err(error);
        }
        Ok(writer)
    }

    /// Returns a writer; if its slot is full, the helper or this thread drains it.
    fn return_writer(&self, writer: SlotWriter) {
        let mut idle_writers = lock(&self.shared.idle_writers);
        if !writer.is_full() {
            idle_writers.ready.push(writer);
            return;
        }
        idle_writers.full.push(writer);
        let (waiting, is_draining) = (idle_writers.full.len(), idle_writers.is_draining);
        drop(idle_writers);
        if waiting > Self::MAX_FULL_SLOTS {
            self.shared.drain_full();
        } else if !is_draining {
            self.start_helper();
        }
    }

    /// Starts a thread that drains the full slots.
    fn start_helper(&self) {
        let mut helper = lock(&self.helper);
        if let Some(last) = helper.take() {
            // It has nothing left to do; a panic in it is ignored.
            drop(last.join());
        }
        lock(&self.shared.idle_writers).is_draining = true;
        let shared = Arc::clone(&self.shared);
        let named = std::thread::Builder::new().name("windlass-undo".into());
        match named.spawn(move || shared.drain_full()) {
            Ok(thread) => *helper = Some(thread),
            Err(_) => self.shared.drain_full(),
        }
    }
}

impl Shared {
    /// The moment of a new checkpoint: its time, or just after the last moment. No two checkpoints of a process have the same.
    fn next_moment(&self, at: SystemTime) -> i64 {
        let at = to_nanos(at);
        let next = |last: i64| Some(at.max(last.saturating_add(1)));
        match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(last) => at.max(last.saturating_add(1)),
            Err(_) => at,
        }
    }

    /// Drains and empties full slots until there are none. A slot that cannot be drained now is tried again when it has grown.
    fn drain_full(&self) {
        loop {
            let mut idle_writers = lock(&self.idle_writers);
            let full = std::mem::take(&mut idle_writers.full);
            idle_writers.is_draining = !full.is_empty();
            drop(idle_writers);
            if full.is_empty() {
                return;
            }
            let emptied = self.drain_and_empty(full);
            lock(&self.idle_writers).ready.extend(emptied);
        }
    }

    /// Drains all slots, empties these ones, and tidies the objects; returns the writers that can be used again.
    fn drain_and_empty(&self, mut full: Vec<SlotWriter>) -> Vec<SlotWriter> {
        let mut drain = lock(&self.drain);
        // A later query reports the error.
        let is_drained = drain.drain_all().is_ok();
        for writer in &mut full {
            if is_drained && drain.position(writer.number()) == Some(writer.header().into()) {
                // After a failure the writer is not usable.
                drop(writer.empty());
            } else {
                writer.put_drain_off();
            }
        }
        full.retain(SlotWriter::is_usable);
        drain.tidy();
        full
    }
}

impl History for UndoHistory {
    fn record<'h>(
        &'h self,
        new: &NewCheckpoint<'_>,
    ) -> Result<Box<dyn PendingCheckpoint + 'h>, HistoryError> {
        let writer = self.record_in_slot(new)?;
        Ok(Box::new(RecordedCheckpoint { history: self, writer }))
    }

    fn checkpoints(&self, query: &CheckpointQuery) -> Result<Vec<Checkpoint>, HistoryError> {
        match lock(&self.shared.drain).drain_for_query()? {
            Some(catalog) => Ok(catalog.checkpoints(query)?),
            None => Ok(Vec::new()),
        }
    }

    fn undone_by(&self, call: &CallId) -> Result<Option<CallId>, HistoryError> {
        match lock(&self.shared.drain).drain_for_query()? {
            Some(catalog) => Ok(catalog.undone_by(call)?),
            None => Ok(None),
        }
    }

    fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> {
        let locked = lock_file(&self.shared.dir.join(UNDOING));
        Ok(HistoryLock::by_file(locked.map_err(HistoryError::from)?))
    }

    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        match self.open(hash)? {
            OpenedContent::Bytes(bytes) => Ok(bytes),
            OpenedContent::File(file) => {
                let read = ContentSource::File(&file).read().map(Cow::into_owned);
                read.map_err(|why| HistoryError::Failed(format!("cannot read {hash}: {why}")))
            }
        }
    }

    fn open(&self, hash: &ContentHash) -> Result<OpenedContent, HistoryError> {
        let objects = &self.shared.objects;
        let known = lock(&self.shared.idle_writers)
            .ready
            .iter()
            .find_map(|writer| writer.open(hash, objects));
        if let Some(Ok(content)) = known {
            return Ok(content);
        }
        let mut drain = lock(&self.shared.drain);
        // A content in the catalog is found without a drain.
        if let Some(catalog) = drain.catalog_reader()
            && let Some(content) = catalog.open(hash, objects)?
        {
            return Ok(content);
        }
        let Some(catalog) = drain.drain_for_query()? else { return Err(never_kept(hash)) };
        match catalog.open(hash, objects)? {
            Some(content) => Ok(content),
            None => Err(match catalog.counts()?.2 {
                Totals { dropped: 0, forgotten: 0, .. } => never_kept(hash),
                _ => HistoryError::Dropped(*hash),
            }),
        }
    }
}

/// The error for a content that was never in this history.
fn never_kept(hash: &ContentHash) -> HistoryError {
    HistoryError::Failed(format!(
        "the earlier content {hash} is not in the history, which has dropped nothing; it was never saved in this state directory"
    ))
}

/// A recorded checkpoint whose change is under way.
struct RecordedCheckpoint<'h> {
    history: &'h UndoHistory,
    /// Dropping it unlocks the slot, so that another process finds the unfinished checkpoint.
    writer: SlotWriter,
}

impl PendingCheckpoint for RecordedCheckpoint<'_> {
    fn open(&self, hash: &ContentHash) -> Result<OpenedContent, HistoryError> {
        let opened = self.writer.open(hash, &self.history.shared.objects);
        Ok(opened.ok_or(HistoryError::Dropped(*hash))??)
    }

    fn finish(mut self: Box<Self>) -> Result<(), HistoryError> {
        self.writer.finish()?;
        self.history.return_writer(self.writer);
        Ok(())
    }

    fn abandon(mut self: Box<Self>) -> Result<(), HistoryError> {
        self.writer.abandon()?;
        self.history.return_writer(self.writer);
        Ok(())
    }
}

impl Drop for UndoHistory {
    fn drop(&mut self) {
        if let Some(helper) = lock(&self.helper).take() {
            drop(helper.join());
        }
        lock(&self.shared.drain).disconnect();
    }
}

impl fmt::Debug for UndoHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { slots, settings, .. } = &*self.shared;
        let mut debug = f.debug_struct("UndoHistory");
        debug.field("slots", slots).field("settings", settings).finish_non_exhaustive()
    }
}
