//! The numbers of records, for those who tell of a record when it is safe.
//!
//! A record is safe in the spool of its process, but it gets its number when it comes into the chain, in the order of time of all
//! spools. So the number of a record is found by draining the spools and looking the record up. A thread does that, which is started
//! for the first number that is wanted; records whose number is not wanted cost nothing. Any process may have drained the
//! record: it is found by what it says, not by where it was.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};
use tokio::sync::oneshot;
use windlass_core::{CallId, Receipt, Record, SessionId};

use crate::chain::{Hash, Kind};
use crate::drain::Drain;
use crate::queue::lock;
use crate::timestamp::to_nanos;

/// Finds out the numbers of records.
pub(crate) struct Numbers {
    drain: Arc<Mutex<Drain>>,
    patience: Duration,
    /// The number of records that were appended.
    appended: AtomicU64,
    worker: Mutex<Worker>,
}

/// The thread that finds numbers.
enum Worker {
    Unstarted,
    Running { wanted: mpsc::Sender<Wanted>, thread: JoinHandle<()> },
    Closed,
}

/// A record as it can be found in the chain. A beginning or an end is the only one of its call. Of other records the body is compared,
/// so that two are the same to this only if they say the same in one nanosecond; these are told apart by their order.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// The place among the records of this process.
    order: u64,
    at: i64,
    session: SessionId,
    call: CallId,
    kind: Kind,
    /// The hash of the body, if the record is of no call.
    body: Option<Hash>,
}

/// A number that is wanted.
struct Wanted {
    key: Key,
    answer: oneshot::Sender<Option<u64>>,
}

impl Numbers {
    pub(crate) fn new(drain: Arc<Mutex<Drain>>, patience: Duration) -> Arc<Self> {
        let worker = Mutex::new(Worker::Unstarted);
        Arc::new(Self { drain, patience, appended: AtomicU64::new(0), worker })
    }

    /// The key of a record that is being appended.
    pub(crate) fn key(&self, record: &Record) -> Key {
        Key {
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

    /// The receipt of a record that is safe.
    pub(crate) fn receipt(self: Arc<Self>, key: Key) -> Receipt {
        Receipt::later(move || {
            let answered = self.ask(key.clone());
            Box::pin(async move { answered?.await.ok()? })
        })
    }

    /// Finds no more numbers. What is wanted now is left without one.
    pub(crate) fn close(&self) {
        let closed = std::mem::replace(&mut *lock(&self.worker), Worker::Closed);
        if let Worker::Running { wanted, thread } = closed {
            drop(wanted);
            // If it panicked, those who waited have got no number.
            drop(thread.join());
        }
    }

    fn ask(&self, key: Key) -> Option<oneshot::Receiver<Option<u64>>> {
        let (answer, answered) = oneshot::channel();
        let mut worker = lock(&self.worker);
        if let Worker::Unstarted = *worker {
            *worker = self.start()?;
        }
        let Worker::Running { wanted, .. } = &*worker else { return None };
        wanted.send(Wanted { key, answer }).ok()?;
        Some(answered)
    }

    fn start(&self) -> Option<Worker> {
        let (wanted, asked) = mpsc::channel();
        let (drain, patience) = (Arc::clone(&self.drain), self.patience);
        let work = move || {
            let mut finder = Finder { last: None };
            while let Ok(first) = asked.recv() {
                let mut batch: Vec<Wanted> =
                    std::iter::once(first).chain(asked.try_iter()).collect();
                batch.sort_by_key(|one| one.key.order);
                answer(&drain, patience, &mut finder, batch);
            }
        };
        let thread = std::thread::Builder::new().name("numbers".into()).spawn(work).ok()?;
        Some(Worker::Running { wanted, thread })
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbers").finish_non_exhaustive()
    }
}

/// Drains once and answers all of these. What cannot be drained now has no number.
fn answer(drain: &Mutex<Drain>, patience: Duration, finder: &mut Finder, batch: Vec<Wanted>) {
    let mut drain = lock(drain);
    let connection = drain.run_and_look(patience).ok();
    for Wanted { key, answer } in batch {
        let number = connection.and_then(|connection| finder.find(connection, &key).ok()?);
        // It may have become unwanted.
        let _ = answer.send(number);
    }
}

/// Looks records up in the chain.
struct Finder {
    /// The place and the number of the last record that was found.
    last: Option<(u64, u64)>,
}

impl Finder {
    fn find(&mut self, connection: &Connection, key: &Key) -> rusqlite::Result<Option<u64>> {
        let Key { order, at, session, call, kind, body } = key;
        // The numbers of one process grow in the order of its records.
        let after = self.last.filter(|(place, _)| place < order).map_or(0, |(_, number)| number);
        // The end of the chain is the place to begin; but of records that look alike the first is wanted that is not taken.
        let is_first_wanted = body.is_some() && after > 0;
        let direction = if is_first_wanted { "ASC" } else { "DESC" };
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
