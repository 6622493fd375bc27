//! The history that lasts: what was changed and what was there before, for every session of a state directory.
//!
//! A checkpoint has to be safe before the change is made, so recording one is on the way of every call that changes a file. It is
//! written to a slot, a file that a writer holds locked: one write, and one wait for the disk. Before anybody looks back, slots are
//! drained into a database, where contents are kept once and small. The idea is that of the journal's spool; it is apart from it
//! because a checkpoint has two ends, holds contents, and may be dropped.
//!
//! ```text
//! STATE/undo/writers/N              the slot of a writer, locked while it lives
//! STATE/undo/objects/ab/HASH        a content of more than 4 MiB
//! STATE/undo/undo.db (-wal, -shm)   checkpoints and contents
//! STATE/undo/undoing                locked by the undo that is under way
//! ```

mod catalog;
mod compress;
mod delta;
mod drain;
mod encoding;
mod gathering;
mod objects;
mod pen;
mod plan;
mod reading;
mod slot;
mod tidying;
mod unfinished;
mod view;

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use windlass_core::{
    CallId, Checkpoint, CommitState, ContentHash, Exclusive, History, HistoryError, NewCheckpoint,
    Opened, Pending, Query, SessionId, Source,
};

pub use self::unfinished::Unfinished;

use self::catalog::Totals;
use self::drain::Drain;
use self::objects::Objects;
use self::pen::{Manner, Pen};
use crate::StoreError;
use crate::liveness::{Slots, lock_file};
use crate::queue::lock;
use crate::timestamp::{from_nanos, to_nanos};

/// The file that is locked by the undo that is under way.
const UNDOING: &str = "undoing";

/// What may be set about a history. The defaults are meant for everybody; tests need smaller limits.
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
    /// Whether a checkpoint waits for the disk, so that it also survives a loss of power.
    pub sync: bool,
    /// How much space the history takes, in bytes; the oldest checkpoints are dropped first.
    pub quota: u64,
    /// How long a checkpoint is kept. Those of the last hour always are.
    pub age: Duration,
    /// How long to wait for other processes that hold the database.
    pub patience: Duration,
    /// Where the time comes from that ages are measured with.
    pub clock: fn() -> SystemTime,
    /// How large a slot grows before it is drained, in bytes.
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
    fn manner(&self) -> Manner {
        let Self { sync, large, slot_limit: limit, quota, .. } = *self;
        Manner { sync, large, limit, quota }
    }
}

/// How much a history holds.
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
    /// When the oldest was made.
    pub oldest: Option<SystemTime>,
    /// How many were dropped because of the quota or their age, ever.
    pub dropped: u64,
}

/// The history of a state directory. Any number of processes may use it at once.
///
/// ```
/// use windlass_core::{History, NewCheckpoint, Query};
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
/// assert_eq!(history.checkpoints(&Query::Workspace("/w".into()))?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UndoHistory {
    shared: Arc<Shared>,
    /// Drains on the side.
    helper: Mutex<Option<JoinHandle<()>>>,
}

/// What a thread that drains needs too.
struct Shared {
    dir: PathBuf,
    slots: Slots,
    objects: Objects,
    settings: HistorySettings,
    pens: Mutex<Pens>,
    drain: Mutex<Drain>,
    /// The moment of the last checkpoint.
    last: AtomicI64,
}

/// The slots that this process holds and that are not in use.
#[derive(Default)]
struct Pens {
    ready: Vec<Pen>,
    /// Those that are to be drained and emptied before they are used again.
    full: Vec<Pen>,
    /// Whether somebody drains them.
    is_draining: bool,
}

impl UndoHistory {
    /// So many full slots may wait for being drained; then whoever fills the next drains.
    const MAX_FULL: usize = 2;

    /// The history of a state directory. Nothing is opened or made before it is needed.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(state_dir, HistorySettings::default())
    }

    /// The history with other settings than the default.
    pub fn open_with(state_dir: &Path, settings: HistorySettings) -> Result<Self, StoreError> {
        let dir = std::path::absolute(state_dir.join("undo"))
            .map_err(|why| StoreError::file("find", state_dir, why))?;
        let slots = Slots::in_state(&dir);
        let objects = Objects::in_history(&dir, settings.sync);
        let drain = Drain::new(&dir, slots.clone(), objects.clone(), settings.clone())?;
        let shared = Shared {
            dir,
            slots,
            objects,
            settings,
            pens: Mutex::default(),
            drain: Mutex::new(drain),
            last: AtomicI64::new(i64::MIN),
        };
        Ok(Self { shared: Arc::new(shared), helper: Mutex::default() })
    }

    /// The checkpoints that were left in the middle of their changes by writers that are gone. A slot that is damaged is an error
    /// if there is nothing else to be said.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>, StoreError> {
        let Shared { slots, objects, .. } = &*self.shared;
        let (mut left, mut failed) = (Vec::new(), None);
        for number in slots.list()? {
            match Unfinished::find(slots, objects, number) {
                Ok(found) => left.extend(found),
                Err(error) => {
                    failed.get_or_insert_with(|| view::set_aside(slots, number, error));
                }
            }
        }
        match failed {
            Some(error) if left.is_empty() => Err(error),
            _ => Ok(left),
        }
    }

    /// The state of the changes of a call whose process is gone.
    pub fn state_of(&self, call: &CallId) -> Result<CommitState, StoreError> {
        let Shared { slots, .. } = &*self.shared;
        // First: what is put right meanwhile is found in the catalog then.
        for number in slots.list()? {
            if unfinished::is_of(slots, number, call)? {
                return Ok(CommitState::Unknown);
            }
        }
        let is_made = match lock(&self.shared.drain).look()? {
            Some(reading) => !reading.checkpoints(&Query::Call(call.clone()))?.is_empty(),
            None => false,
        };
        Ok(if is_made { CommitState::Made } else { CommitState::NotMade })
    }

    /// How much there is.
    pub fn status(&self) -> Result<HistoryStatus, StoreError> {
        match lock(&self.shared.drain).look()? {
            Some(reading) => {
                let (checkpoints, oldest, totals) = reading.numbers()?;
                let Totals { stored: bytes, dropped, .. } = totals;
                Ok(HistoryStatus { checkpoints, bytes, oldest: oldest.map(from_nanos), dropped })
            }
            None => Ok(HistoryStatus::default()),
        }
    }

    /// Removes what a session changed from the history. The files stay as they are.
    pub fn forget_session(&self, session: &SessionId) -> Result<(), StoreError> {
        self.empty_slots();
        lock(&self.shared.drain).forget(session)?;
        for pen in &mut lock(&self.shared.pens).ready {
            pen.trim()?;
        }
        Ok(())
    }

    /// Brings what this process wrote into the database and takes it from its slots.
    fn empty_slots(&self) {
        let mut pens = lock(&self.shared.pens);
        let ready = std::mem::take(&mut pens.ready);
        pens.full.extend(ready);
        drop(pens);
        self.shared.drain_full();
    }

    fn start(&self, new: &NewCheckpoint<'_>) -> Result<Pen, StoreError> {
        let Shared { slots, objects, settings, .. } = &*self.shared;
        let ready = lock(&self.shared.pens).ready.pop();
        let mut pen = match ready {
            Some(pen) => pen,
            None => Pen::take(slots, settings.manner())?,
        };
        let moment = self.shared.next_moment(new.origin.at);
        let recorded = pen.record(moment, new, objects);
        if let Err(error) = recorded {
            if pen.is_usable() {
                lock(&self.shared.pens).ready.push(pen);
            }
            return Err(error);
        }
        Ok(pen)
    }

    /// Takes a pen back; a slot that is large is drained on the side.
    fn put_back(&self, pen: Pen) {
        let mut pens = lock(&self.shared.pens);
        if !pen.is_full() {
            pens.ready.push(pen);
            return;
        }
        pens.full.push(pen);
        let (waiting, is_draining) = (pens.full.len(), pens.is_draining);
        drop(pens);
        if waiting > Self::MAX_FULL {
            self.shared.drain_full();
        } else if !is_draining {
            self.call_helper();
        }
    }

    fn call_helper(&self) {
        let mut helper = lock(&self.helper);
        if let Some(last) = helper.take() {
            // It has nothing left to do; a panic in it is not ours.
            drop(last.join());
        }
        lock(&self.shared.pens).is_draining = true;
        let shared = Arc::clone(&self.shared);
        let named = std::thread::Builder::new().name("windlass-undo".into());
        match named.spawn(move || shared.drain_full()) {
            Ok(thread) => *helper = Some(thread),
            Err(_) => self.shared.drain_full(),
        }
    }
}

impl Shared {
    /// The order of checkpoints is that of time, and no two of a process have the same.
    fn next_moment(&self, at: SystemTime) -> i64 {
        let at = to_nanos(at);
        let next = |last: i64| Some(at.max(last.saturating_add(1)));
        match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(last) => at.max(last.saturating_add(1)),
            Err(_) => at,
        }
    }

    /// Drains full slots until there are none. What cannot be drained now stays where it is, and is tried again when it has
    /// grown.
    fn drain_full(&self) {
        loop {
            let mut pens = lock(&self.pens);
            let full = std::mem::take(&mut pens.full);
            pens.is_draining = !full.is_empty();
            drop(pens);
            if full.is_empty() {
                return;
            }
            let emptied = self.drain_and_empty(full);
            lock(&self.pens).ready.extend(emptied);
        }
    }

    fn drain_and_empty(&self, mut full: Vec<Pen>) -> Vec<Pen> {
        let mut drain = lock(&self.drain);
        // Whoever looks back is told what is wrong.
        let is_safe = drain.run().is_ok();
        for pen in &mut full {
            if is_safe && drain.position(pen.number()) == Some(pen.header().into()) {
                // If this fails it is not usable.
                drop(pen.empty());
            } else {
                pen.put_drain_off();
            }
        }
        full.retain(Pen::is_usable);
        drain.tidy();
        full
    }
}

impl History for UndoHistory {
    fn record<'h>(
        &'h self,
        new: &NewCheckpoint<'_>,
    ) -> Result<Box<dyn Pending + 'h>, HistoryError> {
        let pen = self.start(new)?;
        Ok(Box::new(Recorded { history: self, pen }))
    }

    fn checkpoints(&self, query: &Query) -> Result<Vec<Checkpoint>, HistoryError> {
        match lock(&self.shared.drain).look()? {
            Some(reading) => Ok(reading.checkpoints(query)?),
            None => Ok(Vec::new()),
        }
    }

    fn undone_by(&self, call: &CallId) -> Result<Option<CallId>, HistoryError> {
        match lock(&self.shared.drain).look()? {
            Some(reading) => Ok(reading.undone_by(call)?),
            None => Ok(None),
        }
    }

    fn exclusive(&self) -> Result<Exclusive<'_>, HistoryError> {
        let locked = lock_file(&self.shared.dir.join(UNDOING));
        Ok(Exclusive::by_file(locked.map_err(HistoryError::from)?))
    }

    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        match self.open(hash)? {
            Opened::Bytes(bytes) => Ok(bytes),
            Opened::File(file) => {
                let read = Source::File(&file).read().map(Cow::into_owned);
                read.map_err(|why| HistoryError::Failed(format!("cannot read {hash}: {why}")))
            }
        }
    }

    fn open(&self, hash: &ContentHash) -> Result<Opened, HistoryError> {
        let objects = &self.shared.objects;
        let known = lock(&self.shared.pens).ready.iter().find_map(|pen| pen.open(hash, objects));
        if let Some(Ok(content)) = known {
            return Ok(content);
        }
        let mut drain = lock(&self.shared.drain);
        // What is in the catalog is found without a look into the slots.
        if let Some(reading) = drain.reading()
            && let Some(content) = reading.open(hash, objects)?
        {
            return Ok(content);
        }
        let Some(reading) = drain.look()? else { return Err(never_kept(hash)) };
        match reading.open(hash, objects)? {
            Some(content) => Ok(content),
            None => Err(match reading.numbers()?.2 {
                Totals { dropped: 0, forgotten: 0, .. } => never_kept(hash),
                _ => HistoryError::Dropped(*hash),
            }),
        }
    }
}

fn never_kept(hash: &ContentHash) -> HistoryError {
    HistoryError::Failed(format!(
        "the earlier content {hash} is not in the history, which has dropped nothing; it was never saved in this state directory"
    ))
}

/// A checkpoint that is under way.
struct Recorded<'h> {
    history: &'h UndoHistory,
    /// Its slot is given up with it, for others to find.
    pen: Pen,
}

impl Pending for Recorded<'_> {
    fn open(&self, hash: &ContentHash) -> Result<Opened, HistoryError> {
        let opened = self.pen.open(hash, &self.history.shared.objects);
        Ok(opened.ok_or(HistoryError::Dropped(*hash))??)
    }

    fn finish(mut self: Box<Self>) -> Result<(), HistoryError> {
        self.pen.finish()?;
        self.history.put_back(self.pen);
        Ok(())
    }

    fn abandon(mut self: Box<Self>) -> Result<(), HistoryError> {
        self.pen.abandon()?;
        self.history.put_back(self.pen);
        Ok(())
    }
}

impl Drop for UndoHistory {
    fn drop(&mut self) {
        if let Some(helper) = lock(&self.helper).take() {
            drop(helper.join());
        }
        lock(&self.shared.drain).rest();
    }
}

impl fmt::Debug for UndoHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { slots, settings, .. } = &*self.shared;
        let mut debug = f.debug_struct("UndoHistory");
        debug.field("slots", slots).field("settings", settings).finish_non_exhaustive()
    }
}
