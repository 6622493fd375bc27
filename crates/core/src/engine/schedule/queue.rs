//! The queue of calls, and the rule by which a call may begin.
//!
//! A call that has to wait watches one of the calls that block it, and checks again when that one leaves, changes its effects or goes
//! back to an earlier stage: until then it could not begin whatever the others do.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::Notify;

use super::index::{ConflictIndex, PlacesByStage};
use crate::Effects;

/// All calls that have a place.
#[derive(Default)]
pub(super) struct Queue {
    next: u64,
    /// Calls by order of arrival. The places of one turn are consecutive, and the turn has the number of the first.
    pub(super) calls: BTreeMap<u64, QueuedCall>,
    pub(super) index: ConflictIndex,
}

/// One call in the queue.
pub(super) struct QueuedCall {
    pub(super) turn: u64,
    /// Places of the calls that this one is part of, the innermost first.
    pub(super) around: Arc<[u64]>,
    pub(super) stage: Stage,
    /// `None` until the effects are known.
    pub(super) effects: Option<Arc<Effects>>,
    /// Places of the calls that are part of this one.
    inner: BTreeSet<u64>,
    /// Notified when this call changes, so that those that it blocked check again.
    watchers: Vec<Arc<Notify>>,
}

/// Waiting calls to wake because another call has changed. They are woken after the lock on the queue is released.
#[must_use]
pub(super) struct CallsToWake(Vec<Arc<Notify>>);

/// Progress of a call in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// No decision about the call yet.
    Pending,
    /// Allowed, waiting for conflicting calls.
    Allowed,
    /// No call conflicts with it; it waits for a permit.
    Admitted,
    /// Has a permit and runs.
    Running,
    /// Refused, because waiting would be a deadlock.
    Refused,
}

/// Answer to the question whether a call may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Now,
    Later,
    /// Never, because of a deadlock: it would wait for a call that waits for it.
    Never,
}

impl CallsToWake {
    /// Notifies all of them.
    pub(super) fn wake(self) {
        for one in self.0 {
            one.notify_one();
        }
    }
}

impl QueuedCall {
    /// Returns whether another call makes this one.
    fn is_inner(&self) -> bool {
        !self.around.is_empty()
    }

    /// Returns whether this call conflicts with these effects, or could because its own effects are not known yet.
    pub(super) fn conflicts(&self, effects: &Effects) -> bool {
        self.effects.as_ref().is_none_or(|mine| mine.conflicts(effects))
    }

    /// Returns the stages and places of the calls that can block this call at `mine`.
    fn blocking_spans(&self, mine: u64) -> [(Stage, Range<u64>); 4] {
        let before_in_turn = self.turn..mine;
        // An inner call does not wait for calls of other turns that have not begun: they may wait for a call that it is part of, or for
        // the permit of that call.
        let [allowed, admitted] = if self.is_inner() {
            [before_in_turn.clone(), before_in_turn.clone()]
        } else {
            [0..mine, ALL_PLACES]
        };
        [
            (Stage::Allowed, allowed),
            (Stage::Pending, before_in_turn),
            (Stage::Admitted, admitted),
            (Stage::Running, ALL_PLACES),
        ]
    }
}

/// All places of the queue.
const ALL_PLACES: Range<u64> = 0..u64::MAX;

impl Queue {
    /// Takes a place for each call of a turn and returns their numbers. `around` holds the places of the calls that they are part of.
    pub(super) fn reserve(&mut self, count: usize, around: &[u64]) -> Range<u64> {
        let turn = self.next;
        let around: Arc<[u64]> = around.into();
        for _ in 0..count {
            let at = self.next;
            self.next += 1;
            for outer in &*around {
                if let Some(outer) = self.calls.get_mut(outer) {
                    outer.inner.insert(at);
                }
            }
            self.index.add(None, Stage::Pending, at);
            let call = QueuedCall {
                turn,
                around: around.clone(),
                stage: Stage::Pending,
                effects: None,
                inner: BTreeSet::new(),
                watchers: Vec::new(),
            };
            self.calls.insert(at, call);
        }
        turn..self.next
    }

    /// Removes a call. Returns those that waited for it.
    pub(super) fn leave(&mut self, at: u64) -> CallsToWake {
        let Some(left) = self.calls.remove(&at) else { return CallsToWake(Vec::new()) };
        self.index.remove(left.effects.as_deref(), left.stage, at);
        self.index.rebuild_if_needed(&self.calls);
        for outer in &*left.around {
            if let Some(outer) = self.calls.get_mut(outer) {
                outer.inner.remove(&at);
            }
        }
        CallsToWake(left.watchers)
    }

    /// Sets the effects of a call. Returns the calls to wake.
    pub(super) fn declare(&mut self, at: u64, effects: Arc<Effects>) -> CallsToWake {
        let Some(call) = self.calls.get_mut(&at) else { return CallsToWake(Vec::new()) };
        self.index.remove(call.effects.as_deref(), call.stage, at);
        self.index.add(Some(&effects), call.stage, at);
        let was_known = call.effects.replace(effects).is_some();
        let (mut woken, turn) = (std::mem::take(&mut call.watchers), call.turn);
        self.index.rebuild_if_needed(&self.calls);
        if was_known {
            // With its new effects, later calls of the turn may wait for this one. Then they no longer block calls of other turns.
            let later = self.calls.range_mut(at + 1..).take_while(|(_, later)| later.turn == turn);
            woken.extend(later.flat_map(|(_, later)| std::mem::take(&mut later.watchers)));
        }
        CallsToWake(woken)
    }

    /// Decides whether a call may begin, and updates its stage. If not yet, `woken` is notified when it should be asked again.
    pub(super) fn try_begin(&mut self, mine: u64, woken: &Arc<Notify>) -> (Admission, CallsToWake) {
        let Some(call) = self.calls.get(&mine) else {
            return (Admission::Now, CallsToWake(Vec::new()));
        };
        let Some(effects) = &call.effects else {
            return (Admission::Now, self.set_stage(mine, Stage::Allowed));
        };
        let blocker = if effects.is_empty() { None } else { self.blocker(mine, call) };
        let Some(blocker) = blocker else {
            return (Admission::Now, self.set_stage(mine, Stage::Admitted));
        };
        if call.is_inner() && self.deadlocks(mine, call) {
            return (Admission::Never, self.set_stage(mine, Stage::Refused));
        }
        self.watch(blocker, woken);
        (Admission::Later, self.set_stage(mine, Stage::Allowed))
    }

    /// Marks a call as running, now that it has a permit. Returns false, and sets it back to allowed, if a conflicting call has begun
    /// meanwhile.
    pub(super) fn mark_running(&mut self, mine: u64) -> (bool, CallsToWake) {
        let Some(call) = self.calls.get(&mine) else { return (true, CallsToWake(Vec::new())) };
        let running = [(Stage::Running, ALL_PLACES)];
        let is_beaten = self.find_conflict(mine, call, &running, &mut |at| Some(at)).is_some();
        let stage = if is_beaten { Stage::Allowed } else { Stage::Running };
        (!is_beaten, self.set_stage(mine, stage))
    }

    /// Returns whether all earlier calls of the turn have left. If not, `woken` is notified when it should be asked again.
    pub(super) fn is_first_of_turn(&mut self, mine: u64, woken: &Arc<Notify>) -> bool {
        let Some(turn) = self.calls.get(&mine).map(|call| call.turn) else { return true };
        let Some((earlier, _)) = self.calls.range(turn..mine).next_back() else { return true };
        self.watch(*earlier, woken);
        false
    }

    /// Has `woken` notified when the call at `at` changes.
    fn watch(&mut self, at: u64, woken: &Arc<Notify>) {
        if let Some(call) = self.calls.get_mut(&at) {
            call.watchers.push(woken.clone());
        }
    }

    /// Sets the stage of a call. Returns the calls to wake if it went back to an earlier stage.
    fn set_stage(&mut self, at: u64, stage: Stage) -> CallsToWake {
        let Some(call) = self.calls.get_mut(&at) else { return CallsToWake(Vec::new()) };
        let before = std::mem::replace(&mut call.stage, stage);
        if before == stage {
            return CallsToWake(Vec::new());
        }
        self.index.advance(call.effects.as_deref(), at, before, stage);
        // A call that advances still blocks the calls that it blocked.
        let steps_back = stage == Stage::Refused || stage < before;
        CallsToWake(if steps_back { std::mem::take(&mut call.watchers) } else { Vec::new() })
    }

    /// Returns one call because of which the call at `mine` must not begin yet.
    fn blocker(&self, mine: u64, call: &QueuedCall) -> Option<u64> {
        self.find_conflict(mine, call, &call.blocking_spans(mine), &mut |at| {
            self.must_wait_for(at, call).then_some(at)
        })
    }

    /// Returns all calls because of which the call at `mine` must not begin yet.
    pub(super) fn blockers(&self, mine: u64, call: &QueuedCall) -> BTreeSet<u64> {
        let mut all = BTreeSet::new();
        self.find_conflict(mine, call, &call.blocking_spans(mine), &mut |at| -> Option<()> {
            if self.must_wait_for(at, call) {
                all.insert(at);
            }
            None
        });
        all
    }

    /// Returns whether a conflicting earlier call must be waited for. A call of another turn that may wait for a person is skipped.
    fn must_wait_for(&self, at: u64, call: &QueuedCall) -> bool {
        self.calls.get(&at).is_some_and(|other| {
            other.turn == call.turn
                || other.stage != Stage::Allowed
                || !self.waits_for_a_decision(at, other)
        })
    }

    /// Calls `visit` with each conflicting call in these stages and ranges, and returns its first `Some`.
    fn find_conflict<T>(
        &self,
        mine: u64,
        call: &QueuedCall,
        blocking_spans: &[(Stage, Range<u64>)],
        visit: &mut dyn FnMut(u64) -> Option<T>,
    ) -> Option<T> {
        let effects = call.effects.as_deref();
        let mut check = |at: u64| {
            // A call does not wait for the calls that it is part of.
            if at == mine || call.around.contains(&at) {
                return None;
            }
            let other = self.calls.get(&at)?;
            let conflicts = effects.is_none_or(|effects| other.conflicts(effects));
            if conflicts { visit(at) } else { None }
        };
        let Some(effects) = effects else {
            let is_meant = |at: u64, stage| {
                blocking_spans.iter().any(|(of, range)| *of == stage && range.contains(&at))
            };
            let meant = self.calls.iter().filter(|(at, other)| is_meant(**at, other.stage));
            return meant.map(|(at, _)| *at).find_map(check);
        };
        self.index.search(effects, |places: &PlacesByStage| {
            let each = |(stage, range): &(Stage, Range<u64>)| {
                places.latest_first(*stage, range.clone()).find_map(&mut check)
            };
            blocking_spans.iter().find_map(each)
        })
    }

    /// Returns whether the inner call at `mine` would deadlock: it waits for a call that cannot end first, because each of the two is part
    /// of a call that the other one waits for.
    ///
    /// The last call of such a cycle to wait closes it, so this call finds the cycle.
    fn deadlocks(&self, mine: u64, call: &QueuedCall) -> bool {
        let mut ahead: Vec<u64> = self.blockers(mine, call).into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(at) = ahead.pop() {
            if at == mine || call.around.contains(&at) {
                return true;
            }
            let Some(other) = self.calls.get(&at).filter(|_| seen.insert(at)) else { continue };
            match other.stage {
                Stage::Allowed => ahead.extend(self.blockers(at, other)),
                // A running call ends when its inner calls have ended.
                Stage::Running => ahead.extend(other.inner.iter().filter(|inner| {
                    self.calls.get(inner).is_some_and(|inner| inner.stage == Stage::Allowed)
                })),
                Stage::Pending | Stage::Admitted | Stage::Refused => {}
            }
        }
        false
    }

    /// Returns whether an allowed call must wait for a pending one of its own turn, and so perhaps for a person.
    fn waits_for_a_decision(&self, at: u64, call: &QueuedCall) -> bool {
        if call.effects.is_none() {
            return false;
        }
        self.find_conflict(at, call, &[(Stage::Pending, call.turn..at)], &mut |_| Some(()))
            .is_some()
    }
}
