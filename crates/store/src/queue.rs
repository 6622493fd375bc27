//! The queue of records to write: callers add records, and one of them takes the writer and writes the records of all.
//!
//! There is one writer. A caller that waits for its record and finds the writer free takes it and writes all queued records. A
//! thread for writing would have to be woken for each record and to wake the caller again, which costs more than the write. A helper
//! thread is started when it is first needed: to drain a large spool, and to write records whose futures were dropped. It drains
//! without the writer, and takes it only to write the few records added meanwhile and to empty the spool.
//!
//! A holder of the writer may wait for the drain; a holder of the drain never waits for the writer.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use windlass_core::{JournalError, Record};

use crate::StoreError;
use crate::database::Database;
use crate::drain::Drain;
use crate::writer::{QueuedRecord, QueuedSession, Writer};

/// While writes have a single record, only one in this many is preceded by a yield, which lets other tasks add their records. For a single
/// caller a yield is useless and may cost a change of thread.
const YIELD_EVERY: u32 = 16;

/// A caller writes at most this many batches before it leaves the rest to the helper. Other threads add records while it writes; waking the
/// helper for each batch costs two changes of thread.
const MAX_BATCHES_PER_CALLER: usize = 8;

/// The queued records and the writer.
pub(crate) struct Queue {
    database: Database,
    drain: Arc<Mutex<Drain>>,
    state: Mutex<State>,
    /// Wakes the helper.
    helper_called: Condvar,
    /// Wakes threads that wait for the writer. They are counted, because a wake-up costs a system call even if no thread waits.
    writer_returned: Condvar,
}

/// The part of a queue behind its mutex.
struct State {
    /// Sessions to announce with the next record; a session without records is never written.
    sessions: Vec<QueuedSession>,
    records: Vec<QueuedRecord>,
    writer: WriterState,
    helper: Option<JoinHandle<()>>,
    helper_wanted: bool,
    waiting_for_writer: u32,
    /// The number of successive writes of a single record.
    single_writes: u32,
    is_closed: bool,
}

/// The state of the writer.
enum WriterState {
    Free(Box<Writer>),
    Taken,
    /// There is no writer any more: the store is closed or read-only, or a thread panicked while it wrote.
    Closed,
}

impl Queue {
    /// A queue for this writer; without one, a queue that refuses records.
    pub(crate) fn new(
        database: Database,
        drain: Arc<Mutex<Drain>>,
        writer: Option<Writer>,
    ) -> Self {
        let state = State {
            sessions: Vec::new(),
            records: Vec::new(),
            is_closed: writer.is_none(),
            writer: writer
                .map_or(WriterState::Closed, |writer| WriterState::Free(Box::new(writer))),
            helper: None,
            helper_wanted: false,
            waiting_for_writer: 0,
            single_writes: 1,
        };
        let (helper_called, writer_returned) = (Condvar::new(), Condvar::new());
        Self { database, drain, state: Mutex::new(state), helper_called, writer_returned }
    }

    /// Queues a session to be announced with the next record.
    pub(crate) fn announce(&self, session: QueuedSession) {
        self.lock().sessions.push(session);
    }

    /// Queues a record. It is written at the first or second poll of the future, or by the helper if the future is dropped.
    pub(crate) fn append(self: &Arc<Self>, record: Record) -> Result<Appending, StoreError> {
        let (waiter, result) = oneshot::channel();
        let mut state = self.lock();
        if state.is_closed {
            return Err(self.closed());
        }
        state.records.push(QueuedRecord { record, waiter });
        Ok(Appending { queue: Arc::clone(self), result, has_yielded: false, done: false })
    }

    /// Writes all queued records; waits for the writer.
    pub(crate) fn flush(self: &Arc<Self>) {
        if let Some(mut taken) = self.wait_for_writer() {
            taken.write();
        }
    }

    /// Writes all queued records and refuses further ones. Returns the length of the spool, if this call closed the queue and records
    /// were ever written.
    pub(crate) fn close(self: &Arc<Self>) -> Option<u64> {
        self.lock().is_closed = true;
        self.helper_called.notify_one();
        let helper = self.lock().helper.take();
        if let Some(helper) = helper {
            // If it panicked, the callers that waited for it got an error.
            drop(helper.join());
        }
        let mut taken = self.wait_for_writer()?;
        taken.write();
        taken.close()
    }

    /// Writes queued records, unless another thread has the writer: that thread writes them. A requested helper goes first, because busy
    /// callers would never let it have the writer.
    fn write_now(self: &Arc<Self>) {
        let Some(mut taken) = self.take_writer_for_records() else { return };
        for _ in 0..MAX_BATCHES_PER_CALLER {
            if !taken.write() || self.lock().helper_wanted {
                return;
            }
        }
    }

    /// Takes the writer if records are queued, the helper was not requested and the writer is free.
    fn take_writer_for_records(self: &Arc<Self>) -> Option<TakenWriter> {
        let mut state = self.lock();
        if state.records.is_empty() || state.helper_wanted {
            return None;
        }
        self.take_writer(&mut state)
    }

    /// Takes the writer if it is free.
    fn take_writer(self: &Arc<Self>, state: &mut State) -> Option<TakenWriter> {
        match std::mem::replace(&mut state.writer, WriterState::Taken) {
            WriterState::Free(writer) => {
                Some(TakenWriter { queue: Arc::clone(self), writer: Some(writer) })
            }
            other => {
                state.writer = other;
                None
            }
        }
    }

    /// Waits for the writer and takes it; `None` if it is closed.
    fn wait_for_writer(self: &Arc<Self>) -> Option<TakenWriter> {
        let mut state = self.lock();
        loop {
            match state.writer {
                WriterState::Taken => {
                    state.waiting_for_writer += 1;
                    state =
                        self.writer_returned.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting_for_writer -= 1;
                }
                WriterState::Closed => return None,
                WriterState::Free(_) => return self.take_writer(&mut state),
            }
        }
    }

    /// Wakes the helper, or starts it. If it cannot be started, the queued records fail.
    fn call_helper(self: &Arc<Self>, state: &mut State) {
        state.helper_wanted = true;
        if state.helper.is_some() || state.is_closed {
            self.helper_called.notify_one();
            return;
        }
        let queue = Arc::clone(self);
        match std::thread::Builder::new().name("journal".into()).spawn(move || queue.run_helper()) {
            Ok(helper) => state.helper = Some(helper),
            Err(why) => {
                state.helper_wanted = false;
                let error = StoreError::file("start a thread for", &self.database.path, why);
                send_results(std::mem::take(&mut state.records), Err(error));
            }
        }
    }

    /// The loop of the helper thread until the store is closed: writes queued records and drains a large spool.
    fn run_helper(self: &Arc<Self>) {
        while let Some(mut taken) = self.wait_for_request() {
            taken.write();
            let large = taken.is_large();
            drop(taken);
            if large {
                self.drain();
            }
        }
    }

    /// Drains the spools and empties the own one. After a failure the records stay in the spool, and the next drain or query tries again.
    fn drain(self: &Arc<Self>) {
        let drained = lock(&self.drain).drain_spools(self.database.patience);
        if drained.is_ok()
            && let Some(mut taken) = self.wait_for_writer()
        {
            taken.empty_spool();
        }
    }

    /// Waits until the helper is requested and the writer is free; `None` when the queue is closed.
    fn wait_for_request(self: &Arc<Self>) -> Option<TakenWriter> {
        let mut state = self.lock();
        loop {
            if state.is_closed || matches!(state.writer, WriterState::Closed) {
                return None;
            }
            if state.helper_wanted
                && let Some(taken) = self.take_writer(&mut state)
            {
                state.helper_wanted = false;
                return Some(taken);
            }
            state = self.helper_called.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns whether other tasks are likely to add records if the caller yields: some did the last time, or the last try was long ago.
    fn should_yield(&self) -> bool {
        self.lock().single_writes.is_multiple_of(YIELD_EVERY)
    }

    /// Takes all queued records, and moves queued sessions to the writer.
    fn take_records(&self, writer: &mut Writer) -> Vec<QueuedRecord> {
        let mut state = self.lock();
        writer.sessions.append(&mut state.sessions);
        match state.records.len() {
            0 => {}
            1 => state.single_writes = state.single_writes.wrapping_add(1),
            _ => state.single_writes = 0,
        }
        std::mem::take(&mut state.records)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The error that the store is closed.
    fn closed(&self) -> StoreError {
        StoreError::Closed { path: self.database.path.clone() }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("database", &self.database).finish_non_exhaustive()
    }
}

/// The writer while one thread holds it; dropping this returns it.
struct TakenWriter {
    queue: Arc<Queue>,
    /// `None` only after `close`.
    writer: Option<Box<Writer>>,
}

impl TakenWriter {
    /// Writes the records that are queued now. Returns whether there were any.
    fn write(&mut self) -> bool {
        let Some(writer) = &mut self.writer else { return false };
        let records = self.queue.take_records(writer);
        if records.is_empty() {
            return false;
        }
        let result = writer.write(&records);
        send_results(records, result);
        true
    }

    /// Returns whether the spool has to be drained; true once for each time that it grows by the limit.
    fn is_large(&mut self) -> bool {
        let Some(writer) = self.writer.as_mut().filter(|writer| writer.is_large()) else {
            return false;
        };
        writer.put_drain_off();
        true
    }

    /// Drains and empties the spool, unless another thread holds the drain: a query may take long, and callers wait for the writer.
    fn empty_spool(&mut self) {
        if let (Some(writer), Ok(mut drain)) = (&mut self.writer, self.queue.drain.try_lock()) {
            // A spool that cannot be emptied now is emptied after the next drain.
            drop(writer.empty_spool(&mut drain));
        }
    }

    /// Closes the writer for good and writes the last-record anchor. Returns the length of the spool if records were written.
    fn close(mut self) -> Option<u64> {
        let writer = self.writer.take()?;
        writer.write_last_record_anchor(self.queue.database.outside_anchor_path.as_deref());
        writer.spooled_bytes()
    }
}

impl Drop for TakenWriter {
    fn drop(&mut self) {
        let queue = Arc::clone(&self.queue);
        let mut state = queue.lock();
        match self.writer.take() {
            Some(writer) if !std::thread::panicking() => {
                let has_work = !state.records.is_empty() || writer.is_large();
                state.writer = WriterState::Free(writer);
                if has_work || state.helper_wanted {
                    queue.call_helper(&mut state);
                }
            }
            _ => {
                state.writer = WriterState::Closed;
                state.is_closed = true;
                // Dropping the senders ends the waiting of their callers with an error.
                state.records.clear();
            }
        }
        if state.waiting_for_writer > 0 {
            queue.writer_returned.notify_all();
        }
    }
}

/// The future of a record: ready when it is safe.
#[derive(Debug)]
pub(crate) struct Appending {
    queue: Arc<Queue>,
    result: oneshot::Receiver<Result<(), JournalError>>,
    /// The task has yielded once, so that other tasks could add records.
    has_yielded: bool,
    done: bool,
}

impl Appending {
    /// Polls the channel for the result of the write.
    fn poll_result(&mut self, context: &mut Context<'_>) -> Poll<Result<(), JournalError>> {
        let send_results = Pin::new(&mut self.result).poll(context);
        self.done = send_results.is_ready();
        send_results
            .map(|send_results| send_results.unwrap_or_else(|_| Err(self.queue.closed().into())))
    }
}

impl Future for Appending {
    type Output = Result<(), JournalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.poll_result(context) {
            // One write for the records of all ready tasks costs as much as one for this record alone.
            Poll::Pending if !self.has_yielded && self.queue.should_yield() => {
                self.has_yielded = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => {
                self.queue.write_now();
                self.poll_result(context)
            }
            ready @ Poll::Ready(_) => ready,
        }
    }
}

impl Drop for Appending {
    /// Dropping the future does not take the record back: the helper writes it.
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.queue.lock();
        if !state.records.is_empty() {
            self.queue.call_helper(&mut state);
        }
    }
}

/// Locks a mutex, also after a panic of another holder.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the result of a write to the callers of all its records.
fn send_results(records: Vec<QueuedRecord>, result: Result<(), StoreError>) {
    let result = result.map_err(JournalError::from);
    for QueuedRecord { waiter, .. } in records {
        // The caller may have dropped its future.
        drop(waiter.send(result.clone()));
    }
}
