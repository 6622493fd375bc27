//! Records on their way: queued in order, written together by whoever holds the pen.
//!
//! There is one pen. Who waits for a record and finds it free takes it and writes all that is queued, for the others too. A thread
//! of its own would have to be woken for each record and to wake the caller again, which costs more than the writing does. It is
//! there nevertheless, as a helper that is started when it is first needed: to wait for another process that holds the database,
//! to empty a large WAL, and to write what nobody waits for. None of that may block those who wait.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use windlass_core::{JournalError, Record, SessionId};

use crate::StoreError;
use crate::database::Database;
use crate::tables::Announcement;
use crate::writer::{Item, Writer};

/// What waits to be written, and the pen to write it with.
pub(crate) struct Queue {
    database: Database,
    state: Mutex<State>,
    /// Wakes the helper.
    helper_called: Condvar,
    /// Wakes those who wait for the pen to be put down. Few do, and waking nobody costs a system call too, so they are counted.
    pen_free: Condvar,
}

struct State {
    /// Sessions are written with the first record that follows: one without any leaves no trace.
    announcements: Vec<Announcement>,
    items: Vec<Item>,
    pen: Pen,
    helper: Option<JoinHandle<()>>,
    helper_wanted: bool,
    waiting_for_pen: u32,
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
    pub(crate) fn new(database: Database, writer: Option<Writer>) -> Self {
        let state = State {
            announcements: Vec::new(),
            items: Vec::new(),
            ended: writer.is_none(),
            pen: writer.map_or(Pen::Gone, |writer| Pen::Free(Box::new(writer))),
            helper: None,
            helper_wanted: false,
            waiting_for_pen: 0,
        };
        let (helper_called, pen_free) = (Condvar::new(), Condvar::new());
        Self { database, state: Mutex::new(state), helper_called, pen_free }
    }

    pub(crate) fn announce(&self, announcement: Announcement) {
        self.lock().announcements.push(announcement);
    }

    /// Takes a record; it is written when the future is first polled, or dropped.
    pub(crate) fn append(self: &Arc<Self>, record: Record) -> Result<Appending, StoreError> {
        let (waiter, answered) = oneshot::channel();
        let mut state = self.lock();
        if state.ended {
            return Err(self.closed());
        }
        state.items.push(Item { record, waiter });
        Ok(Appending { queue: Arc::clone(self), answered, done: false })
    }

    /// Deletes a session, after all that was queued before.
    pub(crate) fn delete(self: &Arc<Self>, session: &SessionId) -> Result<(), StoreError> {
        let mut held = self.wait_for_pen().ok_or_else(|| self.closed())?;
        held.write_patiently();
        held.delete(session)
    }

    /// Writes what is queued and takes no more.
    pub(crate) fn close(self: &Arc<Self>) {
        self.lock().ended = true;
        self.helper_called.notify_one();
        let helper = self.lock().helper.take();
        if let Some(helper) = helper {
            // If it panicked, that was told to those who waited for it.
            drop(helper.join());
        }
        if let Some(mut held) = self.wait_for_pen() {
            held.write_patiently();
            held.rest();
        }
    }

    /// Writes what is queued, unless somebody is at it already: then they will see to the rest. A helper that is wanted goes
    /// first, or a busy caller would never let it have the pen.
    fn write_now(self: &Arc<Self>) {
        if let Some(mut held) = self.take_pen_for_items() {
            held.write_at_once();
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
            held.write_patiently();
            held.checkpoint();
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

    fn take_items(&self, writer: &mut Writer) -> Vec<Item> {
        let mut state = self.lock();
        writer.announcements.append(&mut state.announcements);
        std::mem::take(&mut state.items)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Writes what is queued now, without waiting for other processes; what they kept from being written stays queued.
    fn write_at_once(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        let items = self.queue.take_items(writer);
        match writer.write(&items, Duration::ZERO) {
            Err(StoreError::Busy { .. }) => {
                self.queue.lock().items.splice(0..0, items);
            }
            result => answer(items, result),
        }
    }

    /// Writes what is queued now, and waits for other processes as long as the store has patience.
    fn write_patiently(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        let items = self.queue.take_items(writer);
        if items.is_empty() {
            return;
        }
        let result = writer.write(&items, self.queue.database.patience);
        answer(items, result);
    }

    fn delete(&mut self, session: &SessionId) -> Result<(), StoreError> {
        match &mut self.writer {
            Some(writer) => writer.delete(session),
            None => Err(self.queue.closed()),
        }
    }

    fn checkpoint(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.ledger.checkpoint_if_large();
        }
    }

    /// Puts the pen away for good.
    fn rest(mut self) {
        if let Some(mut writer) = self.writer.take() {
            writer.ledger.checkpoint_at_rest();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let queue = Arc::clone(&self.queue);
        let mut state = queue.lock();
        match self.writer.take() {
            Some(mut writer) if !std::thread::panicking() => {
                let unfinished = !state.items.is_empty() || writer.ledger.is_large();
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

fn answer(items: Vec<Item>, result: Result<(), StoreError>) {
    let result = result.map_err(JournalError::from);
    for Item { waiter, .. } in items {
        // Whoever is gone does not want to know.
        drop(waiter.send(result.clone()));
    }
}
