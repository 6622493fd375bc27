//! Records on their way: queued in order, written together by whoever holds the pen.
//!
//! There is one pen. Who waits for a record and finds it free takes it and writes all that is queued, for the others too. A thread
//! of its own would have to be woken for each record and to wake the caller again, which costs more than the writing does. It is
//! there nevertheless, as a helper that is started when it is first needed: to drain a large spool, and to write what nobody waits
//! for. It drains without the pen, and takes it only for the little that was written meanwhile, to empty the spool.
//!
//! Who holds the pen may wait for the drain; who has the drain never waits for the pen.

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
use crate::writer::{Beginning, Item, Writer};

/// One record of so many that are written alone lets other tasks go first, to see whether they have records too. For a single caller
/// that is in vain, and may cost the change to another thread.
const TRY_EVERY: u32 = 16;

/// The batches that a holder of the pen writes before it leaves the rest to the helper. Records of other threads queue up while it writes;
/// waking the helper for each batch of them costs two changes of thread.
const BATCHES_IN_ONE_GO: usize = 8;

/// What waits to be written, and the pen to write it with.
pub(crate) struct Queue {
    database: Database,
    drain: Arc<Mutex<Drain>>,
    state: Mutex<State>,
    /// Wakes the helper.
    helper_called: Condvar,
    /// Wakes those who wait for the pen to be put down. Few do, and waking nobody costs a system call too, so they are counted.
    pen_free: Condvar,
}

struct State {
    /// Sessions are written with the first record that follows: one without any leaves no trace.
    beginnings: Vec<Beginning>,
    items: Vec<Item>,
    pen: Pen,
    helper: Option<JoinHandle<()>>,
    helper_wanted: bool,
    waiting_for_pen: u32,
    /// The number of times in a row that a record was written alone.
    alone: u32,
    ended: bool,
}

/// Who may write.
enum Pen {
    Free(Box<Writer>),
    Taken,
    /// Nobody, ever: the store is closed, for reading only, or a writer panicked.
    Gone,
}

impl Queue {
    /// A queue that is written with this pen, or one that takes nothing.
    pub(crate) fn new(
        database: Database,
        drain: Arc<Mutex<Drain>>,
        writer: Option<Writer>,
    ) -> Self {
        let state = State {
            beginnings: Vec::new(),
            items: Vec::new(),
            ended: writer.is_none(),
            pen: writer.map_or(Pen::Gone, |writer| Pen::Free(Box::new(writer))),
            helper: None,
            helper_wanted: false,
            waiting_for_pen: 0,
            alone: 1,
        };
        let (helper_called, pen_free) = (Condvar::new(), Condvar::new());
        Self { database, drain, state: Mutex::new(state), helper_called, pen_free }
    }

    pub(crate) fn announce(&self, beginning: Beginning) {
        self.lock().beginnings.push(beginning);
    }

    /// Takes a record; it is written when the future is polled, if need be for the second time, or dropped.
    pub(crate) fn append(self: &Arc<Self>, record: Record) -> Result<Appending, StoreError> {
        let (waiter, answered) = oneshot::channel();
        let mut state = self.lock();
        if state.ended {
            return Err(self.closed());
        }
        state.items.push(Item { record, waiter });
        Ok(Appending { queue: Arc::clone(self), answered, has_let_others_go: false, done: false })
    }

    /// Writes what is queued.
    pub(crate) fn flush(self: &Arc<Self>) {
        if let Some(mut held) = self.wait_for_pen() {
            held.write();
        }
    }

    /// Writes what is queued and takes no more; how much is in the spool then, if this closed it and anything was written.
    pub(crate) fn close(self: &Arc<Self>) -> Option<u64> {
        self.lock().ended = true;
        self.helper_called.notify_one();
        let helper = self.lock().helper.take();
        if let Some(helper) = helper {
            // If it panicked, that was told to those who waited for it.
            drop(helper.join());
        }
        let mut held = self.wait_for_pen()?;
        held.write();
        held.put_away()
    }

    /// Writes what is queued, unless somebody is at it already: then they will see to the rest. A helper that is wanted goes
    /// first, or a busy caller would never let it have the pen.
    fn write_now(self: &Arc<Self>) {
        let Some(mut held) = self.take_pen_for_items() else { return };
        for _ in 0..BATCHES_IN_ONE_GO {
            if !held.write() || self.lock().helper_wanted {
                return;
            }
        }
    }

    fn take_pen_for_items(self: &Arc<Self>) -> Option<Held> {
        let mut state = self.lock();
        if state.items.is_empty() || state.helper_wanted {
            return None;
        }
        self.take_pen(&mut state)
    }

    fn take_pen(self: &Arc<Self>, state: &mut State) -> Option<Held> {
        match std::mem::replace(&mut state.pen, Pen::Taken) {
            Pen::Free(writer) => Some(Held { queue: Arc::clone(self), writer: Some(writer) }),
            other => {
                state.pen = other;
                None
            }
        }
    }

    fn wait_for_pen(self: &Arc<Self>) -> Option<Held> {
        let mut state = self.lock();
        loop {
            match state.pen {
                Pen::Taken => {
                    state.waiting_for_pen += 1;
                    state = self.pen_free.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting_for_pen -= 1;
                }
                Pen::Gone => return None,
                Pen::Free(_) => return self.take_pen(&mut state),
            }
        }
    }

    /// Has the helper look at the queue. If it cannot be started, nobody may go on waiting for it.
    fn call_helper(self: &Arc<Self>, state: &mut State) {
        state.helper_wanted = true;
        if state.helper.is_some() || state.ended {
            self.helper_called.notify_one();
            return;
        }
        let queue = Arc::clone(self);
        match std::thread::Builder::new().name("journal".into()).spawn(move || queue.help()) {
            Ok(helper) => state.helper = Some(helper),
            Err(why) => {
                state.helper_wanted = false;
                let error = StoreError::file("start a thread for", &self.database.path, why);
                answer(std::mem::take(&mut state.items), Err(error));
            }
        }
    }

    /// What the helper does until the store is closed.
    fn help(self: &Arc<Self>) {
        while let Some(mut held) = self.wait_until_wanted() {
            held.write();
            let large = held.is_large();
            drop(held);
            if large {
                self.drain();
            }
        }
    }

    /// What cannot be drained now stays in the spool, where it is safe; it is tried again later, and when somebody looks back.
    fn drain(self: &Arc<Self>) {
        let drained = lock(&self.drain).run(self.database.patience);
        if drained.is_ok()
            && let Some(mut held) = self.wait_for_pen()
        {
            held.empty_spool();
        }
    }

    fn wait_until_wanted(self: &Arc<Self>) -> Option<Held> {
        let mut state = self.lock();
        loop {
            if state.ended || matches!(state.pen, Pen::Gone) {
                return None;
            }
            if state.helper_wanted
                && let Some(held) = self.take_pen(&mut state)
            {
                state.helper_wanted = false;
                return Some(held);
            }
            state = self.helper_called.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns whether tasks that are ready are likely to queue more records: some did the last time, or it was not tried for a while.
    fn expects_more(&self) -> bool {
        self.lock().alone.is_multiple_of(TRY_EVERY)
    }

    fn take_items(&self, writer: &mut Writer) -> Vec<Item> {
        let mut state = self.lock();
        writer.beginnings.append(&mut state.beginnings);
        match state.items.len() {
            0 => {}
            1 => state.alone = state.alone.wrapping_add(1),
            _ => state.alone = 0,
        }
        std::mem::take(&mut state.items)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { path: self.database.path.clone() }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("database", &self.database).finish_non_exhaustive()
    }
}

/// The pen in somebody's hand; it is put down when this is dropped.
struct Held {
    queue: Arc<Queue>,
    /// Always there until it is put down.
    writer: Option<Box<Writer>>,
}

impl Held {
    /// Writes what is queued now. Returns whether there was anything.
    fn write(&mut self) -> bool {
        let Some(writer) = &mut self.writer else { return false };
        let items = self.queue.take_items(writer);
        if items.is_empty() {
            return false;
        }
        let result = writer.write(&items);
        answer(items, result);
        true
    }

    /// Whether the spool has to be drained. This is said once for each time that it grows large.
    fn is_large(&mut self) -> bool {
        let Some(writer) = self.writer.as_mut().filter(|writer| writer.is_large()) else {
            return false;
        };
        writer.put_drain_off();
        true
    }

    /// Not if somebody looks back just now: that may take long, and others wait for the pen.
    fn empty_spool(&mut self) {
        if let (Some(writer), Ok(mut drain)) = (&mut self.writer, self.queue.drain.try_lock()) {
            // It stays as it is until the next time.
            drop(writer.empty_spool(&mut drain));
        }
    }

    /// Puts the pen away for good; how much is in the spool, if anything was written.
    fn put_away(mut self) -> Option<u64> {
        let writer = self.writer.take()?;
        writer.testify(self.queue.database.outside.as_deref());
        writer.spooled()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let queue = Arc::clone(&self.queue);
        let mut state = queue.lock();
        match self.writer.take() {
            Some(writer) if !std::thread::panicking() => {
                let unfinished = !state.items.is_empty() || writer.is_large();
                state.pen = Pen::Free(writer);
                if unfinished || state.helper_wanted {
                    queue.call_helper(&mut state);
                }
            }
            _ => {
                state.pen = Pen::Gone;
                state.ended = true;
                // Their senders go with them, so nobody waits for an answer that will not come.
                state.items.clear();
            }
        }
        if state.waiting_for_pen > 0 {
            queue.pen_free.notify_all();
        }
    }
}

/// The future of a record: ready when it is safe.
#[derive(Debug)]
pub(crate) struct Appending {
    queue: Arc<Queue>,
    answered: oneshot::Receiver<Result<(), JournalError>>,
    /// The other tasks that are ready have had their turn, and their records are queued.
    has_let_others_go: bool,
    done: bool,
}

impl Appending {
    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Result<(), JournalError>> {
        let answer = Pin::new(&mut self.answered).poll(context);
        self.done = answer.is_ready();
        answer.map(|answer| answer.unwrap_or_else(|_| Err(self.queue.closed().into())))
    }
}

impl Future for Appending {
    type Output = Result<(), JournalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.poll_answer(context) {
            // One write for the records of all tasks that are ready costs what one for this record does.
            Poll::Pending if !self.has_let_others_go && self.queue.expects_more() => {
                self.has_let_others_go = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => {
                self.queue.write_now();
                self.poll_answer(context)
            }
            ready @ Poll::Ready(_) => ready,
        }
    }
}

impl Drop for Appending {
    /// Dropping the future does not take the record back: somebody else has to write it.
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.queue.lock();
        if !state.items.is_empty() {
            self.queue.call_helper(&mut state);
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(items: Vec<Item>, result: Result<(), StoreError>) {
    let result = result.map_err(JournalError::from);
    for Item { waiter, .. } in items {
        // Whoever is gone does not want to know.
        drop(waiter.send(result.clone()));
    }
}
