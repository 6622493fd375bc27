//! The queue of events. An event is published once its record is safe and numbered, in the order in which the events happened.
//!
//! No caller waits for the queue. The events of records stand in one queue, so that their numbers grow. Output and progress are
//! published at once, unless an event of the same call is queued: then they are queued behind it. Listeners to only output and
//! progress always get them at once.
//!
//! The queue advances in two ways. A caller that has added an event whose record is safe already publishes it at once. A task, the
//! pump, publishes the rest and ends when the queue is empty.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use tokio::sync::Notify;

use super::Event;
use super::bus::{Audience, Bus, MAX_WAITING_EVENTS};
use crate::sync::Lock;
use crate::{BoxFuture, CallId, JournalError, RecordReceipt, SessionId};

/// The future of a record that is being written. Both the call and the queue wait for it.
pub(crate) type PendingReceipt = Shared<BoxFuture<'static, Result<RecordReceipt, JournalError>>>;

/// The queue of events, and a notification for each event that leaves it.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: Lock<EventQueue>,
    /// Notified after each event that left the queue.
    finished: Notify,
}

/// The state of the queue.
#[derive(Debug, Default)]
struct EventQueue {
    waiting: VecDeque<QueuedEvent>,
    /// The number of events that were ever queued.
    entered: u64,
    /// The number of events that have left the queue.
    finished: u64,
    /// A thread has taken the first event out to poll it.
    is_polling: bool,
    /// The call of that event.
    polled_call: Option<CallId>,
    /// The pump is running.
    has_pump: bool,
    /// Wakes the pump, if it waits.
    pump: Option<Waker>,
}

/// An event in the queue.
#[derive(Debug)]
struct QueuedEvent {
    event: Event,
    above: Arc<[SessionId]>,
    step: PublishStep,
    /// The number of the first listener that subscribed after the event happened.
    listeners_before: u64,
}

/// The progress of a queued event.
enum PublishStep {
    /// Its record is being written.
    Writing(PendingReceipt),
    /// The journal is finding the number of its record.
    Numbering(BoxFuture<'static, Option<u64>>),
    /// It can be published.
    Ready,
}

impl std::fmt::Debug for PublishStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Writing(_) => "Writing",
            Self::Numbering(_) => "Numbering",
            Self::Ready => "Ready",
        })
    }
}

impl QueuedEvent {
    /// Advances the event as far as possible. Returns `Ready(true)` if it can be published, and `Ready(false)` if its record failed,
    /// so that it must not be published.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        loop {
            self.step = match &mut self.step {
                PublishStep::Ready => return Poll::Ready(true),
                PublishStep::Writing(written) => match written.poll_unpin(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => return Poll::Ready(false),
                    Poll::Ready(Ok(receipt)) => PublishStep::Numbering(receipt.number()),
                },
                PublishStep::Numbering(number) => match number.poll_unpin(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(seq) => {
                        self.event.seq = seq;
                        PublishStep::Ready
                    }
                },
            }
        }
    }
}

impl Bus {
    /// Queues an event, to be published once its record is safe. It is dropped if its record fails.
    pub(crate) fn publish_recorded(
        &self,
        event: Event,
        above: Arc<[SessionId]>,
        written: PendingReceipt,
    ) {
        let (step, listeners_before) = (PublishStep::Writing(written), self.next_listener());
        self.outbox.queue.lock().push(QueuedEvent { event, above, step, listeners_before });
    }

    /// Publishes an event without a record, behind queued events of the same call.
    pub(crate) fn publish_unrecorded(self: &Arc<Self>, event: &Event, above: &Arc<[SessionId]>) {
        let mut queue = self.outbox.queue.lock();
        if !queue.has_event_of_same_call(event) {
            drop(queue);
            return self.publish(event, above, Audience::Everyone, u64::MAX);
        }
        let is_full = event.kind.may_be_lost() && queue.waiting.len() >= MAX_WAITING_EVENTS;
        if !is_full {
            let (event, above, listeners_before) =
                (event.clone(), above.clone(), self.next_listener());
            queue.push(QueuedEvent { event, above, step: PublishStep::Ready, listeners_before });
        }
        drop(queue);
        if is_full {
            self.count_lost(event, above, Audience::Others);
        }
        self.publish(event, above, Audience::OnlyLive, u64::MAX);
        self.publish_ready();
    }

    /// Publishes the events that are ready, and leaves the rest to the pump.
    pub(crate) fn publish_ready(self: &Arc<Self>) {
        let mut context = Context::from_waker(Waker::noop());
        if self.poll_queue(&mut context).is_pending() {
            self.start_pump();
        } else if let Some(pump) = self.outbox.queue.lock().pump.take() {
            // The pump finds the queue empty and ends.
            pump.wake();
        }
    }

    /// Has the pump publish the queued events: wakes it, or starts it.
    pub(crate) fn start_pump(self: &Arc<Self>) {
        let mut queue = self.outbox.queue.lock();
        if let Some(pump) = queue.pump.take() {
            pump.wake();
        } else if !queue.has_pump {
            queue.has_pump = true;
            drop(queue);
            Pump { bus: self.clone(), is_done: false }.start();
        }
    }

    /// Publishes events from the front of the queue. Returns `PendingCheckpoint` if the first remaining event has to wait, or another thread is
    /// publishing.
    fn poll_queue(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.outbox.queue.lock();
        if queue.is_polling {
            return Poll::Pending;
        }
        while let Some(mut first) = queue.waiting.pop_front() {
            queue.is_polling = true;
            queue.polled_call.clone_from(&first.event.call);
            drop(queue);
            // A journal that panics has no record of the event, and must not stop the queue.
            let polled = catch_unwind(AssertUnwindSafe(|| first.poll(context)));
            let polled = polled.unwrap_or(Poll::Ready(false));
            if polled == Poll::Ready(true) {
                self.publish(&first.event, &first.above, Audience::Others, first.listeners_before);
            }
            queue = self.outbox.queue.lock();
            (queue.is_polling, queue.polled_call) = (false, None);
            if polled.is_pending() {
                queue.waiting.push_front(first);
                return Poll::Pending;
            }
            queue.finished += 1;
            self.outbox.finished.notify_waiters();
        }
        Poll::Ready(())
    }

    /// Waits until every event that has happened by now is published, or dropped because its record failed.
    pub(super) async fn wait_until_published(self: &Arc<Self>) {
        let until = self.outbox.queue.lock().entered;
        loop {
            let finished = self.outbox.finished.notified();
            if self.outbox.queue.lock().finished >= until {
                return;
            }
            self.start_pump();
            finished.await;
        }
    }
}

impl EventQueue {
    /// Adds an event at the end.
    fn push(&mut self, event: QueuedEvent) {
        self.entered += 1;
        self.waiting.push_back(event);
    }

    /// Returns whether an event of the same call is queued.
    fn has_event_of_same_call(&self, event: &Event) -> bool {
        let is_same = |call: Option<&CallId>| call.is_some() && call == event.call.as_ref();
        is_same(self.polled_call.as_ref())
            || self.waiting.iter().any(|one| is_same(one.event.call.as_ref()))
    }
}

/// Publishes queued events until the queue is empty.
struct Pump {
    bus: Arc<Bus>,
    is_done: bool,
}

impl Pump {
    /// Starts the pump on the current runtime, or on a thread of its own.
    fn start(self) {
        match tokio::runtime::Handle::try_current() {
            // A thread for blocking work, since a runtime that shuts down waits for those, so that its last events are published too.
            Ok(runtime) => {
                let own = runtime.clone();
                drop(runtime.spawn_blocking(move || own.block_on(self)));
            }
            // An approval can be answered outside of a runtime.
            Err(_) => self.start_alone(),
        }
    }

    /// Starts the pump on a thread and a runtime of its own.
    fn start_alone(self) {
        drop(std::thread::spawn(move || {
            let own = tokio::runtime::Builder::new_current_thread().enable_all().build();
            own.map(|own| own.block_on(self))
        }));
    }
}

impl Future for Pump {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // The waker is stored first, so that a thread that polls the queue now or adds to it wakes the pump afterwards.
        self.bus.outbox.queue.lock().pump = Some(context.waker().clone());
        if self.bus.poll_queue(context).is_pending() {
            return Poll::Pending;
        }
        let mut queue = self.bus.outbox.queue.lock();
        let is_done = queue.waiting.is_empty() && !queue.is_polling;
        if is_done {
            (queue.has_pump, queue.pump) = (false, None);
        }
        drop(queue);
        self.is_done = is_done;
        if is_done {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Pump {
    /// Starts another pump if a runtime that shuts down dropped this one before the queue was empty.
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut queue = self.bus.outbox.queue.lock();
        queue.pump = None;
        queue.has_pump = !queue.waiting.is_empty();
        if queue.has_pump {
            drop(queue);
            Self { bus: self.bus.clone(), is_done: false }.start_alone();
        }
    }
}
