//! Events on their way: each is published when its record is safe and numbered, in the order in which they happened.
//!
//! Nothing waits for the outbox. The events of records stand in one line, so that their numbers grow. Output and progress are
//! published at once, unless an event of the same call stands in the line: then they go behind it. Those who listen to output and
//! progress alone get them at once in any case.
//!
//! The line is moved on in two ways. Whoever has an event whose record is safe already tries at once; what is left then is done by a
//! task, the pump, which ends when the line is empty.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use tokio::sync::Notify;

use super::Event;
use super::bus::{Audience, BACKLOG, Bus};
use crate::sync::Lock;
use crate::{BoxFuture, CallId, JournalError, Receipt, SessionId};

/// A record on its way to safety. Both the call and the outbox wait for it.
pub(crate) type Written = Shared<BoxFuture<'static, Result<Receipt, JournalError>>>;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    line: Lock<Line>,
    /// Told whenever an event leaves the line.
    left: Notify,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    /// The number of events that ever stood in the line.
    entered: u64,
    /// The number of those that are out of it.
    left: u64,
    /// The first event is out of the line, because it is being polled.
    is_moving: bool,
    /// The call of that event.
    moving: Option<CallId>,
    /// The pump runs.
    has_pump: bool,
    /// Wakes the pump, once it has waited.
    pump: Option<Waker>,
}

#[derive(Debug)]
struct Waiting {
    event: Event,
    above: Arc<[SessionId]>,
    step: Step,
    /// The number of the first listener that came after it happened.
    before: u64,
}

enum Step {
    /// Its record is being written.
    Writing(Written),
    /// The number of its record is being found out.
    Numbering(BoxFuture<'static, Option<u64>>),
    /// It can be published.
    Ready,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Writing(_) => "Writing",
            Self::Numbering(_) => "Numbering",
            Self::Ready => "Ready",
        })
    }
}

impl Waiting {
    /// Goes on with the event. `Ready(false)`: it has no record, and so is not told.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        loop {
            self.step = match &mut self.step {
                Step::Ready => return Poll::Ready(true),
                Step::Writing(written) => match written.poll_unpin(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => return Poll::Ready(false),
                    Poll::Ready(Ok(receipt)) => Step::Numbering(receipt.number()),
                },
                Step::Numbering(number) => match number.poll_unpin(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(seq) => {
                        self.event.seq = seq;
                        Step::Ready
                    }
                },
            }
        }
    }
}

impl Bus {
    /// Puts an event in the line, to be published once its record is safe. It is not published if its record fails.
    pub(crate) fn publish_recorded(&self, event: Event, above: Arc<[SessionId]>, written: Written) {
        let (step, before) = (Step::Writing(written), self.next_listener());
        self.outbox.line.lock().push(Waiting { event, above, step, before });
    }

    /// Publishes an event without a record.
    pub(crate) fn publish_unrecorded(self: &Arc<Self>, event: &Event, above: &Arc<[SessionId]>) {
        let mut line = self.outbox.line.lock();
        if !line.has_before(event) {
            drop(line);
            return self.publish(event, above, Audience::Everyone, u64::MAX);
        }
        let is_full = event.kind.may_be_lost() && line.waiting.len() >= BACKLOG;
        if !is_full {
            let (event, above, before) = (event.clone(), above.clone(), self.next_listener());
            line.push(Waiting { event, above, step: Step::Ready, before });
        }
        drop(line);
        if is_full {
            self.lose(event, above, Audience::Others);
        }
        self.publish(event, above, Audience::OnlyLive, u64::MAX);
        self.move_on();
    }

    /// Publishes what can be published now, and leaves the rest to the pump.
    pub(crate) fn move_on(self: &Arc<Self>) {
        let mut context = Context::from_waker(Waker::noop());
        if self.poll_line(&mut context).is_pending() {
            self.leave_to_pump();
        } else if let Some(pump) = self.outbox.line.lock().pump.take() {
            // There is nothing left for it to do.
            pump.wake();
        }
    }

    /// Has the pump publish what is in the line.
    pub(crate) fn leave_to_pump(self: &Arc<Self>) {
        let mut line = self.outbox.line.lock();
        if let Some(pump) = line.pump.take() {
            pump.wake();
        } else if !line.has_pump {
            line.has_pump = true;
            drop(line);
            Pump { bus: self.clone(), is_done: false }.start();
        }
    }

    /// Publishes events from the front of the line. Pending if the first that is left has to wait, or another thread is at it.
    fn poll_line(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut line = self.outbox.line.lock();
        if line.is_moving {
            return Poll::Pending;
        }
        while let Some(mut first) = line.waiting.pop_front() {
            line.is_moving = true;
            line.moving.clone_from(&first.event.call);
            drop(line);
            // A journal that panics has no record of it, and must not stop the line.
            let polled = catch_unwind(AssertUnwindSafe(|| first.poll(context)));
            let polled = polled.unwrap_or(Poll::Ready(false));
            if polled == Poll::Ready(true) {
                self.publish(&first.event, &first.above, Audience::Others, first.before);
            }
            line = self.outbox.line.lock();
            (line.is_moving, line.moving) = (false, None);
            if polled.is_pending() {
                line.waiting.push_front(first);
                return Poll::Pending;
            }
            line.left += 1;
            self.outbox.left.notify_waiters();
        }
        Poll::Ready(())
    }

    /// Waits until every event that has happened by now is published, or dropped because its record failed.
    pub(super) async fn caught_up(self: &Arc<Self>) {
        let until = self.outbox.line.lock().entered;
        loop {
            let left = self.outbox.left.notified();
            if self.outbox.line.lock().left >= until {
                return;
            }
            self.leave_to_pump();
            left.await;
        }
    }
}

impl Line {
    fn push(&mut self, event: Waiting) {
        self.entered += 1;
        self.waiting.push_back(event);
    }

    /// Returns whether an event of the same call stands in the line.
    fn has_before(&self, event: &Event) -> bool {
        let is_same = |call: Option<&CallId>| call.is_some() && call == event.call.as_ref();
        is_same(self.moving.as_ref())
            || self.waiting.iter().any(|one| is_same(one.event.call.as_ref()))
    }
}

/// Publishes what is in the line until it is empty.
struct Pump {
    bus: Arc<Bus>,
    is_done: bool,
}

impl Pump {
    fn start(self) {
        match tokio::runtime::Handle::try_current() {
            // A thread for blocking work, since a runtime that ends waits for those: its last events are told, too.
            Ok(runtime) => {
                let own = runtime.clone();
                drop(runtime.spawn_blocking(move || own.block_on(self)));
            }
            // An answer can be given outside of a runtime.
            Err(_) => self.start_alone(),
        }
    }

    /// Runs on a thread and a runtime of its own.
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
        // The waker first: a thread that moves the line now, or comes between, wakes the pump afterwards.
        self.bus.outbox.line.lock().pump = Some(context.waker().clone());
        if self.bus.poll_line(context).is_pending() {
            return Poll::Pending;
        }
        let mut line = self.bus.outbox.line.lock();
        let is_done = line.waiting.is_empty() && !line.is_moving;
        if is_done {
            (line.has_pump, line.pump) = (false, None);
        }
        drop(line);
        self.is_done = is_done;
        if is_done {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Pump {
    /// A runtime that ends may take the pump with it. Then another one does the rest.
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut line = self.bus.outbox.line.lock();
        line.pump = None;
        line.has_pump = !line.waiting.is_empty();
        if line.has_pump {
            drop(line);
            Self { bus: self.bus.clone(), is_done: false }.start_alone();
        }
    }
}
