//! Stage 7: which calls run at the same time.
//!
//! Every call takes a place in one queue before it does anything. It begins when no running call conflicts with it, none before
//! it in its own turn does (or could: its effects are not known yet), and none of another turn that has waited longer does. So
//! calls that do not conflict run together, and what comes out is what would have come out one after the other. A call that
//! waits for a person holds up only its own turn.
//!
//! The rule is in `places.rs`. Calls that could conflict are found by what they touch (`index.rs`), and a call that waits is woken
//! only by a call that was in its way: the time of a call hardly depends on how many others there are.

mod index;
mod places;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use places::{Begin, Places};
use tokio::sync::Notify;

use super::nested::{self, Permit};
use super::{Call, Shared};
use crate::sync::Lock;
use crate::{Effects, ToolError};

/// The queue of all calls of an engine.
#[derive(Default)]
pub(super) struct Scheduler(Arc<Lock<Places>>);

impl Scheduler {
    /// Takes a place for each call of a turn, in order; `around` are the places of the calls that it is part of.
    pub(super) fn reserve(&self, calls: usize, around: &[u64]) -> Vec<Ticket> {
        let places = self.0.lock().take(calls, around);
        places.map(|place| self.ticket(place)).collect()
    }

    /// Takes a place for a call that is a turn of its own.
    pub(super) fn reserve_one(&self) -> Ticket {
        let place = self.0.lock().take(1, &[]).start;
        self.ticket(place)
    }

    fn ticket(&self, place: u64) -> Ticket {
        Ticket { places: self.0.clone(), place, woken: Arc::default() }
    }
}

/// A place in the queue, given up when it is dropped.
pub(super) struct Ticket {
    places: Arc<Lock<Places>>,
    place: u64,
    /// Told when it is time to look again.
    woken: Arc<Notify>,
}

impl Ticket {
    /// The number of the place.
    pub(super) fn place(&self) -> u64 {
        self.place
    }

    /// Says what the call wants to do. A person who replaces its arguments makes it say so again.
    pub(super) fn declare(&self, effects: Arc<Effects>) {
        let woken = self.places.lock().declare(self.place, effects);
        woken.wake();
    }

    /// Marks the call as running, now that it has a permit, unless an inner call that conflicts with it has begun meanwhile.
    fn run(&self) -> bool {
        let (runs, woken) = self.places.lock().run(self.place);
        woken.wake();
        runs
    }

    /// Waits until nothing conflicts with the call; the error is that it never may begin.
    async fn begin(&self) -> Result<(), ToolError> {
        loop {
            match self.try_begin() {
                Begin::Now => return Ok(()),
                Begin::Later => self.woken.notified().await,
                Begin::Never => {
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

    fn is_first_of_turn(&self) -> bool {
        self.places.lock().is_first_of_turn(self.place, &self.woken)
    }

    fn try_begin(&self) -> Begin {
        let (begin, woken) = self.places.lock().try_begin(self.place, &self.woken);
        woken.wake();
        begin
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let woken = self.places.lock().leave(self.place);
        woken.wake();
    }
}

/// Waits for the call's turn, and for a permit to run.
pub(super) async fn wait<'e>(
    engine: &'e Shared,
    call: &Call,
    ticket: &Ticket,
) -> Result<Permit<'e>, ToolError> {
    let turn = async {
        loop {
            ticket.begin().await?;
            let permit =
                nested::permit(engine, &call.session, call.lineage.outer.as_deref()).await?;
            if ticket.run() {
                return Ok(permit);
            }
        }
    };
    tokio::select! {
        biased;
        // A call that is stopped before its turn comes never begins, also if its turn comes at the same moment.
        () = call.cancel.cancelled() => Err(ToolError::cancelled("the call was stopped before it began")),
        permit = turn => permit,
    }
}
