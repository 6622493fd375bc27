//! Stage 7: which calls run at the same time.
//!
//! Every call takes a place in one queue before it does anything. It begins when no running call conflicts with it, none before
//! it in its own turn does (or could: its effects are not known yet), and none of another turn that has waited longer does. So
//! calls that do not conflict run together, and what comes out is what would have come out one after the other. A call that
//! waits for a person holds up only its own turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Notify;

use super::nested::{self, Permit};
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
    /// The places of the calls that this one is part of, the outermost first.
    around: Box<[u64]>,
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
    /// Nothing conflicts with it, and it waits for a permit.
    Admitted,
    Running,
    /// Refused, because it would wait for a call that waits for it.
    Refused,
}

/// Whether a call may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    Now,
    Later,
    /// Never: it would wait for a call that waits for it.
    Never,
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
    /// The calls because of which the call at `mine` must not begin yet.
    fn blockers<'a>(&'a self, mine: u64, place: &'a Place) -> impl Iterator<Item = u64> + 'a {
        let is_inner = !place.around.is_empty();
        let blocks = move |(at, other): (&u64, &Place)| {
            let matters = match other.stage {
                Stage::Refused => false,
                // A call does not wait for those that it is part of.
                _ if *at == mine || place.around.contains(at) => false,
                Stage::Running => true,
                Stage::Admitted if !is_inner => true,
                _ if *at > mine => false,
                _ if other.turn == place.turn => true,
                // Those that have not begun may wait for a call that this one is part of, or for its permit.
                _ if is_inner => false,
                Stage::Admitted => true,
                Stage::Allowed => !self.waits_for_a_decision(*at, other),
                Stage::Pending => false,
            };
            let effects = place.effects.as_ref();
            (matters && effects.is_none_or(|effects| other.conflicts(effects))).then_some(*at)
        };
        self.taken.iter().filter_map(blocks)
    }

    /// Whether the inner call at `mine` waits for a call that cannot end before it: each of them is part of a call that the other one
    /// has to wait for.
    fn deadlocks(&self, mine: u64, place: &Place) -> bool {
        let mut ahead: Vec<u64> = self.blockers(mine, place).collect();
        let mut seen = BTreeSet::new();
        while let Some(at) = ahead.pop() {
            if at == mine || place.around.contains(&at) {
                return true;
            }
            let Some(other) = self.taken.get(&at).filter(|_| seen.insert(at)) else { continue };
            match other.stage {
                Stage::Allowed => ahead.extend(self.blockers(at, other)),
                // A running call ends when its inner calls have ended.
                Stage::Running => {
                    let inner = self.taken.iter().filter(|(_, inner)| {
                        inner.stage == Stage::Allowed && inner.around.contains(&at)
                    });
                    ahead.extend(inner.map(|(at, _)| *at));
                }
                Stage::Pending | Stage::Admitted | Stage::Refused => {}
            }
        }
        false
    }

    /// Whether the call at `mine` may begin, and how far it is then.
    fn weigh(&self, mine: u64) -> (Begin, Stage) {
        let Some(place) = self.taken.get(&mine) else { return (Begin::Now, Stage::Admitted) };
        if self.blockers(mine, place).next().is_none() {
            (Begin::Now, Stage::Admitted)
        } else if !place.around.is_empty() && self.deadlocks(mine, place) {
            (Begin::Never, Stage::Refused)
        } else {
            (Begin::Later, Stage::Allowed)
        }
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
    /// Takes a place for each call of a turn, in order; `around` are the places of the calls that it is part of.
    pub(super) fn reserve(&self, calls: usize, around: &[u64]) -> Vec<Ticket> {
        let mut places = self.0.places.lock();
        let turn = places.next;
        (0..calls).map(|_| self.take_place(&mut places, turn, around)).collect()
    }

    /// Takes a place for a call that is a turn of its own.
    pub(super) fn reserve_one(&self) -> Ticket {
        let mut places = self.0.places.lock();
        let turn = places.next;
        self.take_place(&mut places, turn, &[])
    }

    fn take_place(&self, places: &mut Places, turn: u64, around: &[u64]) -> Ticket {
        let place = places.next;
        places.next += 1;
        let (stage, around) = (Stage::Pending, around.into());
        places.taken.insert(place, Place { turn, around, stage, effects: None });
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
    /// The number of the place.
    pub(super) fn place(&self) -> u64 {
        self.place
    }

    /// Says what the call wants to do. A person who replaces its arguments makes it say so again.
    pub(super) fn declare(&self, effects: Arc<Effects>) {
        let mut places = self.queue.places.lock();
        let only_reads = effects.only_reads();
        let before =
            places.taken.get_mut(&self.place).and_then(|place| place.effects.replace(effects));
        let only_read = before.is_some_and(|effects| effects.only_reads());
        match (only_read, only_reads) {
            (false, true) => places.not_readers -= 1,
            (true, false) => places.not_readers += 1,
            _ => {}
        }
        drop(places);
        self.queue.moved.notify_waiters();
    }

    /// Marks the call as running, now that it has a permit, unless an inner call that conflicts with it has begun meanwhile.
    fn run(&self) -> bool {
        let mut places = self.queue.places.lock();
        let Some(mine) = places.taken.get(&self.place) else { return true };
        let conflicts = |other: &Place| {
            other.stage == Stage::Running
                && mine.effects.as_ref().is_none_or(|effects| other.conflicts(effects))
        };
        let is_beaten = places
            .taken
            .iter()
            .any(|(at, other)| !mine.around.contains(at) && *at != self.place && conflicts(other));
        let stage = if is_beaten { Stage::Allowed } else { Stage::Running };
        if let Some(mine) = places.taken.get_mut(&self.place) {
            mine.stage = stage;
        }
        !is_beaten
    }

    /// Waits until nothing conflicts with the call; the error is that it never may begin.
    async fn begin(&self) -> Result<(), ToolError> {
        let begins = || Some(self.try_begin()).filter(|begin| *begin != Begin::Later);
        match self.wait_until(begins).await {
            Begin::Never => Err(ToolError::busy(
                "not run: it would wait for another call, and that one waits for the call that makes this one",
            )
            .hint("try again when the other call has ended")),
            Begin::Now | Begin::Later => Ok(()),
        }
    }

    /// Waits until all earlier calls of the same turn have ended. Later ones wait meanwhile, since the effects of this call are not
    /// known yet.
    pub(super) async fn be_first_of_turn(&self) {
        self.wait_until(|| self.is_first_of_turn().then_some(())).await;
    }

    async fn wait_until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        if let Some(found) = look() {
            return found;
        }
        loop {
            let moved = self.queue.moved.notified();
            tokio::pin!(moved);
            // Listening begins before looking, so that nothing is missed in between.
            moved.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            moved.await;
        }
    }

    fn is_first_of_turn(&self) -> bool {
        let places = self.queue.places.lock();
        let Some(turn) = places.taken.get(&self.place).map(|mine| mine.turn) else { return true };
        places.taken.range(turn..self.place).all(|(_, earlier)| earlier.turn != turn)
    }

    fn try_begin(&self) -> Begin {
        let mut places = self.queue.places.lock();
        let nobody_writes = places.not_readers == 0;
        let Some(mine) = places.taken.get_mut(&self.place) else { return Begin::Now };
        mine.stage = Stage::Allowed;
        let Some(effects) = &mine.effects else { return Begin::Now };
        let is_free = effects.is_empty() || (mine.only_reads() && nobody_writes);
        let (begin, stage) =
            if is_free { (Begin::Now, Stage::Admitted) } else { places.weigh(self.place) };
        if let Some(mine) = places.taken.get_mut(&self.place) {
            mine.stage = stage;
        }
        begin
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

/// Waits for the call's turn, and for a permit to run.
pub(super) async fn wait<'e>(
    engine: &'e Shared,
    call: &Call,
    ticket: &Ticket,
) -> Result<Permit<'e>, ToolError> {
    let turn = async {
        loop {
            ticket.begin().await?;
            let permit = nested::permit(engine, call.lineage.outer.as_deref()).await?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effect;
    use crate::effects::LOOKING_BACK;

    fn begins(ticket: &Ticket) -> bool {
        ticket.try_begin() == Begin::Now && ticket.run()
    }

    fn turn(scheduler: &Scheduler, effects: &[Option<Effects>]) -> Vec<Ticket> {
        let tickets = scheduler.reserve(effects.len(), &[]);
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
        assert_eq!(tickets.iter().map(begins).collect::<Vec<_>>(), [true, false, false, true]);
        drop(tickets.remove(0));
        assert_eq!(tickets.iter().map(begins).collect::<Vec<_>>(), [true, false, true]);
        drop(tickets.remove(0));
        assert!(begins(&tickets[0]));
    }

    #[test]
    fn a_call_that_looks_back_waits_for_its_turn_and_holds_up_all_that_changes_files() {
        let scheduler = Scheduler::default();
        let other = turn(&scheduler, &[Some(Effects::write("/other"))]);
        assert!(begins(&other[0]));
        let mut tickets = turn(
            &scheduler,
            &[Some(Effects::write("/a")), None, Some(Effects::write("/b")), Some(Effects::none())],
        );
        assert!(!tickets[1].is_first_of_turn(), "a write before it has not ended");
        assert!(!begins(&tickets[2]), "behind something unknown");
        drop(tickets.remove(0));
        assert!(tickets[0].is_first_of_turn(), "other turns do not matter");
        tickets[0].declare(Arc::new(Effects::write("/a").and(Effect::State(LOOKING_BACK.into()))));
        assert!(!begins(&tickets[0]), "somebody is changing a file");
        drop(other);
        assert_eq!(tickets.iter().map(begins).collect::<Vec<_>>(), [true, false, true]);
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
        assert!(!begins(&asking[2]), "behind a write");
        assert!(!begins(&asking[3]), "behind something unknown");
        assert!(begins(&other[0]));
        assert!(!begins(&asking[0]), "somebody is reading it");
        drop(other);
        assert!(begins(&asking[0]));
    }
}
