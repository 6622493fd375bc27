//! Stage 7: which calls run at the same time.
//!
//! Every call takes a place in one queue before it does anything. It begins when no running call conflicts with it, none before
//! it in its own turn does (or could: its effects are not known yet), and none of another turn that has waited longer does. So
//! calls that do not conflict run together, and what comes out is what would have come out one after the other. A call that
//! waits for a person holds up only its own turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Notify, SemaphorePermit};

use super::{Call, Shared};
use crate::sync::Lock;
use crate::{Effects, ToolError};

/// The queue of all calls of an engine.
#[derive(Default)]
pub(super) struct Scheduler(Arc<Queue>);

#[derive(Default)]
struct Queue {
    places: Lock<Places>,
    /// Somebody left the queue, or said what it wants to do.
    moved: Notify,
}

#[derive(Default)]
struct Places {
    next: u64,
    /// By order of arrival.
    taken: BTreeMap<u64, Place>,
    /// How many of them do more than read, for all that is known: if none, a call that only reads need not look at anybody.
    not_readers: usize,
}

struct Place {
    turn: u64,
    stage: Stage,
    /// Nothing, until the effects are known.
    effects: Option<Arc<Effects>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not decided on yet.
    Pending,
    /// Allowed, waiting to begin.
    Allowed,
    Running,
}

impl Place {
    fn only_reads(&self) -> bool {
        self.effects.as_ref().is_some_and(|effects| effects.only_reads())
    }

    /// Whether the order of this call and one with these effects could matter, for all that is known.
    fn conflicts(&self, effects: &Effects) -> bool {
        self.effects.as_ref().is_none_or(|mine| mine.conflicts(effects))
    }
}

impl Places {
    /// Whether the call at `mine` must not begin yet.
    fn holds_up(&self, mine: u64, turn: u64, effects: &Effects) -> bool {
        self.taken.iter().filter(|(at, _)| **at != mine).any(|(at, other)| {
            let matters = match other.stage {
                Stage::Running => true,
                _ if *at > mine => false,
                _ if other.turn == turn => true,
                Stage::Allowed => !self.waits_for_a_decision(*at, other),
                Stage::Pending => false,
            };
            matters && other.conflicts(effects)
        })
    }

    /// Whether an allowed call must wait for one of its own turn that is not decided on, and so perhaps for a person.
    fn waits_for_a_decision(&self, at: u64, place: &Place) -> bool {
        let Some(effects) = &place.effects else { return false };
        self.taken.range(place.turn..at).any(|(_, before)| {
            before.turn == place.turn && before.stage == Stage::Pending && before.conflicts(effects)
        })
    }
}

impl Scheduler {
    /// Takes a place for each call of a turn, in order.
    pub(super) fn reserve(&self, calls: usize) -> Vec<Ticket> {
        let mut places = self.0.places.lock();
        let turn = places.next;
        (0..calls).map(|_| self.take_place(&mut places, turn)).collect()
    }

    /// Takes a place for a call that is a turn of its own.
    pub(super) fn reserve_one(&self) -> Ticket {
        let mut places = self.0.places.lock();
        let turn = places.next;
        self.take_place(&mut places, turn)
    }

    fn take_place(&self, places: &mut Places, turn: u64) -> Ticket {
        let place = places.next;
        places.next += 1;
        places.taken.insert(place, Place { turn, stage: Stage::Pending, effects: None });
        places.not_readers += 1;
        Ticket { queue: self.0.clone(), place }
    }
}

/// A place in the queue, given up when it is dropped.
pub(super) struct Ticket {
    queue: Arc<Queue>,
    place: u64,
}

impl Ticket {
    /// Says what the call wants to do.
    pub(super) fn declare(&self, effects: Arc<Effects>) {
        let mut places = self.queue.places.lock();
        if effects.only_reads() {
            places.not_readers -= 1;
        }
        if let Some(place) = places.taken.get_mut(&self.place) {
            place.effects = Some(effects);
        }
        drop(places);
        self.queue.moved.notify_waiters();
    }

    /// Waits until the call may begin, and marks it as running.
    async fn begin(&self) {
        self.wait_until(|| self.try_begin()).await;
    }

    /// Waits until all earlier calls of the same turn have ended. Later ones wait meanwhile, since the effects of this call are not
    /// known yet.
    pub(super) async fn be_first_of_turn(&self) {
        self.wait_until(|| self.is_first_of_turn()).await;
    }

    async fn wait_until(&self, is_time: impl Fn() -> bool) {
        if is_time() {
            return;
        }
        loop {
            let moved = self.queue.moved.notified();
            tokio::pin!(moved);
            // Listening begins before looking, so that nothing is missed in between.
            moved.as_mut().enable();
            if is_time() {
                return;
            }
            moved.await;
        }
    }

    fn is_first_of_turn(&self) -> bool {
        let places = self.queue.places.lock();
        let Some(turn) = places.taken.get(&self.place).map(|mine| mine.turn) else { return true };
        places.taken.range(turn..self.place).all(|(_, earlier)| earlier.turn != turn)
    }

    fn try_begin(&self) -> bool {
        let mut places = self.queue.places.lock();
        let nobody_writes = places.not_readers == 0;
        let Some(mine) = places.taken.get_mut(&self.place) else { return true };
        mine.stage = Stage::Allowed;
        let (turn, only_reads) = (mine.turn, mine.only_reads());
        let Some(effects) = mine.effects.clone() else { return true };
        let free = effects.is_empty()
            || (only_reads && nobody_writes)
            || !places.holds_up(self.place, turn, &effects);
        if free && let Some(mine) = places.taken.get_mut(&self.place) {
            mine.stage = Stage::Running;
        }
        free
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut places = self.queue.places.lock();
        if places.taken.remove(&self.place).is_some_and(|left| !left.only_reads()) {
            places.not_readers -= 1;
        }
        drop(places);
        self.queue.moved.notify_waiters();
    }
}

/// Waits for the call's turn, and for one of the places to run.
pub(super) async fn wait<'e>(
    engine: &'e Shared,
    call: &Call,
    ticket: &Ticket,
) -> Result<SemaphorePermit<'e>, ToolError> {
    let turn = async {
        ticket.begin().await;
        engine.running.acquire().await.map_err(|_| ToolError::internal("the engine is closed"))
    };
    tokio::select! {
        biased;
        // A call that is stopped before its turn comes never begins, also if its turn comes at the same moment.
        () = call.cancel.cancelled() => Err(ToolError::cancelled("the call was stopped before it began")),
        permit = turn => permit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effect;
    use crate::effects::LOOKING_BACK;

    fn turn(scheduler: &Scheduler, effects: &[Option<Effects>]) -> Vec<Ticket> {
        let tickets = scheduler.reserve(effects.len());
        for (ticket, effects) in tickets.iter().zip(effects) {
            if let Some(effects) = effects {
                ticket.declare(Arc::new(effects.clone()));
            }
        }
        tickets
    }

    #[test]
    fn conflicting_calls_of_a_turn_go_in_order() {
        let scheduler = Scheduler::default();
        let [read, write, again, other] =
            [Effects::read("/a"), Effects::write("/a"), Effects::read("/a"), Effects::write("/b")];
        let mut tickets = turn(&scheduler, &[Some(read), Some(write), Some(again), Some(other)]);
        assert_eq!(
            tickets.iter().map(Ticket::try_begin).collect::<Vec<_>>(),
            [true, false, false, true]
        );
        drop(tickets.remove(0));
        assert_eq!(tickets.iter().map(Ticket::try_begin).collect::<Vec<_>>(), [true, false, true]);
        drop(tickets.remove(0));
        assert!(tickets[0].try_begin());
    }

    #[test]
    fn a_call_that_looks_back_waits_for_its_turn_and_holds_up_all_that_changes_files() {
        let scheduler = Scheduler::default();
        let other = turn(&scheduler, &[Some(Effects::write("/other"))]);
        assert!(other[0].try_begin());
        let mut tickets = turn(
            &scheduler,
            &[Some(Effects::write("/a")), None, Some(Effects::write("/b")), Some(Effects::none())],
        );
        assert!(!tickets[1].is_first_of_turn(), "a write before it has not ended");
        assert!(!tickets[2].try_begin(), "behind something unknown");
        drop(tickets.remove(0));
        assert!(tickets[0].is_first_of_turn(), "other turns do not matter");
        tickets[0].declare(Arc::new(Effects::write("/a").and(Effect::State(LOOKING_BACK.into()))));
        assert!(!tickets[0].try_begin(), "somebody is changing a file");
        drop(other);
        assert_eq!(tickets.iter().map(Ticket::try_begin).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn a_call_that_is_not_known_or_not_allowed_yet_holds_up_only_its_own_turn() {
        let scheduler = Scheduler::default();
        let asking = turn(
            &scheduler,
            &[
                Some(Effects::write("/a")),
                None,
                Some(Effects::read("/a")),
                Some(Effects::read("/b")),
            ],
        );
        let other = turn(&scheduler, &[Some(Effects::read("/a"))]);
        assert!(!asking[2].try_begin(), "behind a write");
        assert!(!asking[3].try_begin(), "behind something unknown");
        assert!(other[0].try_begin());
        assert!(!asking[0].try_begin(), "somebody is reading it");
        drop(other);
        assert!(asking[0].try_begin());
    }
}
