//! Stage 7: decides which calls run at the same time.
//!
//! Every call takes a place in one queue before it does anything. It begins when no running call conflicts with it, no earlier call of
//! its own turn does (or could, because its effects are not known yet), and no call of another turn that has waited longer does. So
//! calls that do not conflict run together, and the result is the same as if they ran one after the other. A call that waits for a
//! person holds up only its own turn.
//!
//! The rule is in `queue.rs`. `index.rs` finds calls that could conflict by the files and state that they use, and a waiting call is
//! woken only by a call that blocked it: the cost of a call hardly depends on the number of the others.

mod index;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use queue::{Admission, Queue};
use tokio::sync::Notify;

use super::nested::{self, Permit};
use super::{Call, Shared};
use crate::sync::Lock;
use crate::{Effects, ToolError};

/// The queue of all calls of an engine.
#[derive(Default)]
pub(super) struct Scheduler(Arc<Lock<Queue>>);

impl Scheduler {
    /// Takes a place for each call of a turn, in order. `around` holds the places of the calls that these calls are part of.
    pub(super) fn reserve(&self, calls: usize, around: &[u64]) -> Vec<Ticket> {
        let places = self.0.lock().reserve(calls, around);
        places.map(|place| self.ticket(place)).collect()
    }

    /// Takes a place for a call that is a turn of its own.
    pub(super) fn reserve_one(&self) -> Ticket {
        let place = self.0.lock().reserve(1, &[]).start;
        self.ticket(place)
    }

    /// Makes the ticket of a place that was reserved.
    fn ticket(&self, place: u64) -> Ticket {
        Ticket { queue: self.0.clone(), place, woken: Arc::default() }
    }
}

/// A place in the queue, given up when the ticket is dropped.
pub(super) struct Ticket {
    queue: Arc<Lock<Queue>>,
    place: u64,
    /// Notified when the call should check again if it may begin.
    woken: Arc<Notify>,
}

impl Ticket {
    /// Returns the number of the place.
    pub(super) fn place(&self) -> u64 {
        self.place
    }

    /// Declares the effects of the call. Called again if a person replaces its arguments.
    pub(super) fn declare(&self, effects: Arc<Effects>) {
        let woken = self.queue.lock().declare(self.place, effects);
        woken.wake();
    }

    /// Marks the call as running, now that it has a permit. Returns false if a conflicting inner call has begun meanwhile.
    fn mark_running(&self) -> bool {
        let (runs, woken) = self.queue.lock().mark_running(self.place);
        woken.wake();
        runs
    }

    /// Waits until no call blocks this one. Fails if that would be a deadlock.
    async fn begin(&self) -> Result<(), ToolError> {
        loop {
            match self.try_begin() {
                Admission::Now => return Ok(()),
                Admission::Later => self.woken.notified().await,
                Admission::Never => {
                    return Err(ToolError::busy(
                        "not run: it would wait for another call, and that one waits for the call that makes this one",
                    )
                    .hint("try again when the other call has ended"));
                }
            }
        }
    }

    /// Waits until all earlier calls of the same turn have ended. Later ones wait meanwhile, since the effects of this call are not
    /// known yet.
    pub(super) async fn be_first_of_turn(&self) {
        while !self.is_first_of_turn() {
            self.woken.notified().await;
        }
    }

    /// Returns whether all earlier calls of the turn have ended. If not, `woken` is notified when it should be asked again.
    fn is_first_of_turn(&self) -> bool {
        self.queue.lock().is_first_of_turn(self.place, &self.woken)
    }

    /// Checks whether the call may begin. If not yet, `woken` is notified when it should be asked again.
    fn try_begin(&self) -> Admission {
        let (begin, woken) = self.queue.lock().try_begin(self.place, &self.woken);
        woken.wake();
        begin
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let woken = self.queue.lock().leave(self.place);
        woken.wake();
    }
}

/// Waits until the call may begin and has a permit to run.
pub(super) async fn wait_for_turn<'e>(
    engine: &'e Shared,
    call: &Call,
    ticket: &Ticket,
) -> Result<Permit<'e>, ToolError> {
    let turn = async {
        loop {
            ticket.begin().await?;
            let permit =
                nested::wait_for_permit(engine, &call.session, call.lineage.outer.as_deref())
                    .await?;
            if ticket.mark_running() {
                return Ok(permit);
            }
        }
    };
    tokio::select! {
        biased;
        // A call that is stopped before it may begin never begins, also if both happen at the same time.
        () = call.cancel.cancelled() => Err(ToolError::cancelled("the call was stopped before it began")),
        permit = turn => permit,
    }
}
