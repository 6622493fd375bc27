//! Finds the numbers of written records, for callers that publish a record with its number.
//!
//! A record is written to the spool of its process, but it gets its number when it comes into the chain, in the order of time of all
//! spools. So its number is found by draining the spools and looking the record up. A thread does that, which is started by the
//! first request; records without a request cost nothing. Any process may have drained the record, so it is looked up by its
//! content.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};
use tokio::sync::oneshot;
use windlass_core::{CallId, Record, RecordReceipt, SessionId};

use crate::chain::{Hash, StoredKind};
use crate::drain::Drain;
use crate::queue::lock;
use crate::timestamp::to_nanos;

/// The thread that finds the numbers of records, and its queue.
pub(crate) struct RecordNumbers {
    drain: Arc<Mutex<Drain>>,
    patience: Duration,
    /// The count of appended records.
    appended: AtomicU64,
    worker: Mutex<WorkerState>,
}

/// The state of the thread that finds numbers.
enum WorkerState {
    Unstarted,
    Running { requests: mpsc::Sender<NumberRequest>, thread: JoinHandle<()> },
    Closed,
}

/// The fields by which a record is found in the chain. A call has only one beginning and one end. Other records are compared by body too,
/// so that two have the same fields only if they are equal in the same nanosecond; these are distinguished by their order.
#[derive(Debug, Clone)]
pub(crate) struct RecordKey {
    /// The position among the records of this process.
    order: u64,
    at: i64,
    session: SessionId,
    call: CallId,
    kind: StoredKind,
    /// The hash of the body, if the record is of no call.
    body: Option<Hash>,
}

/// A request for a number, and the channel for the answer.
struct NumberRequest {
    key: RecordKey,
    answer: oneshot::Sender<Option<u64>>,
}

impl RecordNumbers {
    pub(crate) fn new(drain: Arc<Mutex<Drain>>, patience: Duration) -> Arc<Self> {
        let worker = Mutex::new(WorkerState::Unstarted);
        Arc::new(Self { drain, patience, appended: AtomicU64::new(0), worker })
    }

    /// The key of a record that is being appended.
    pub(crate) fn key(&self, record: &Record) -> RecordKey {
        RecordKey {
            order: self.appended.fetch_add(1, Ordering::Relaxed),
            at: to_nanos(record.at),
            session: record.session.clone(),
            call: record.call.clone(),
            kind: record.kind.into(),
            body: record
                .call
                .as_str()
                .is_empty()
                .then(|| *blake3::hash(record.body.as_bytes()).as_bytes()),
        }
    }

    /// The receipt of a written record; it requests the number only when asked.
    pub(crate) fn receipt(self: Arc<Self>, key: RecordKey) -> RecordReceipt {
        RecordReceipt::later(move || {
            let answered = self.request(key.clone());
            Box::pin(async move { answered?.await.ok()? })
        })
    }

    /// Ends the thread. Later requests get no number.
    pub(crate) fn close(&self) {
        let closed = std::mem::replace(&mut *lock(&self.worker), WorkerState::Closed);
        if let WorkerState::Running { requests, thread } = closed {
            drop(requests);
            // If it panicked, its callers have got no number.
            drop(thread.join());
        }
    }

    /// Sends a request to the thread, which is started if it is not running; `None` if that is impossible.
    fn request(&self, key: RecordKey) -> Option<oneshot::Receiver<Option<u64>>> {
        let (answer, answered) = oneshot::channel();
        let mut worker = lock(&self.worker);
        if let WorkerState::Unstarted = *worker {
            *worker = self.start()?;
        }
        let WorkerState::Running { requests, .. } = &*worker else { return None };
        requests.send(NumberRequest { key, answer }).ok()?;
        Some(answered)
    }

    /// Starts the thread, which answers requests in batches until the channel is closed.
    fn start(&self) -> Option<WorkerState> {
        let (requests, received) = mpsc::channel();
        let (drain, patience) = (Arc::clone(&self.drain), self.patience);
        let work = move || {
            let mut finder = NumberFinder { last: None };
            while let Ok(first) = received.recv() {
                let mut batch: Vec<NumberRequest> =
                    std::iter::once(first).chain(received.try_iter()).collect();
                batch.sort_by_key(|one| one.key.order);
                answer(&drain, patience, &mut finder, batch);
            }
        };
        let thread = std::thread::Builder::new().name("numbers".into()).spawn(work).ok()?;
        Some(WorkerState::Running { requests, thread })
    }
}

impl fmt::Debug for RecordNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbers").finish_non_exhaustive()
    }
}

/// Drains once and answers all requests of a batch; without a number if the drain fails.
fn answer(
    drain: &Mutex<Drain>,
    patience: Duration,
    finder: &mut NumberFinder,
    batch: Vec<NumberRequest>,
) {
    let mut drain = lock(drain);
    let connection = drain.drain_and_connect(patience).ok();
    for NumberRequest { key, answer } in batch {
        let number = connection.and_then(|connection| finder.find(connection, &key).ok()?);
        // The caller may have dropped its receipt.
        let _ = answer.send(number);
    }
}

/// Looks up records in the chain, and remembers the last one found to shorten the next search.
struct NumberFinder {
    /// The position (`RecordKey::order`) and the number of the last record that was found.
    last: Option<(u64, u64)>,
}

impl NumberFinder {
    /// Returns the number of a record, if it is in the chain.
    fn find(&mut self, connection: &Connection, key: &RecordKey) -> rusqlite::Result<Option<u64>> {
        let RecordKey { order, at, session, call, kind, body } = key;
        // The numbers of one process grow in the order of its records.
        let after = self.last.filter(|(place, _)| place < order).map_or(0, |(_, number)| number);
        // The search starts at the end of the chain; but of equal records the first one after the last found is meant.
        let search_ascending = body.is_some() && after > 0;
        let direction = if search_ascending { "ASC" } else { "DESC" };
        let found: Option<u64> = connection
            .prepare_cached(&format!(
                "SELECT seq FROM journal NOT INDEXED \
                 WHERE seq > ?1 AND at = ?2 AND session = ?3 AND call = ?4 AND kind = ?5 AND (?6 IS NULL OR body_hash = ?6) \
                 ORDER BY seq {direction} LIMIT 1"
            ))?
            .query_row((after, at, session.as_str(), call.as_str(), kind.as_str(), body), |row| {
                row.get(0)
            })
            .optional()?;
        if let Some(number) = found
            && self.last.is_none_or(|(place, _)| place < *order)
        {
            self.last = Some((*order, number));
        }
        Ok(found)
    }
}
