//! The places of a queue, and the rule by which the call at one of them may begin.
//!
//! A call that has to wait watches one of those that block it, and looks again when that one leaves, changes its effects or steps
//! back: until then it could not begin whatever the others do.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::Notify;

use super::index::{Index, Marks};
use crate::Effects;

#[derive(Default)]
pub(super) struct Places {
    next: u64,
    /// By order of arrival. The places of one turn are in a row, and the turn has the number of the first.
    pub(super) taken: BTreeMap<u64, Place>,
    pub(super) index: Index,
}

pub(super) struct Place {
    pub(super) turn: u64,
    /// The places of the calls that this one is part of, the innermost first.
    pub(super) around: Arc<[u64]>,
    pub(super) stage: Stage,
    /// Nothing, until the effects are known.
    pub(super) effects: Option<Arc<Effects>>,
    /// The places of the calls that are part of this one.
    inner: BTreeSet<u64>,
    /// Wakes those that look again when this place changes.
    watchers: Vec<Arc<Notify>>,
}

/// Those that look again, now that a place has changed. They are woken when the lock on the places is free.
#[must_use]
pub(super) struct Woken(Vec<Arc<Notify>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
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
pub(super) enum Begin {
    Now,
    Later,
    /// Never: it would wait for a call that waits for it.
    Never,
}

impl Woken {
    pub(super) fn wake(self) {
        for one in self.0 {
            one.notify_one();
        }
    }
}

impl Place {
    fn is_inner(&self) -> bool {
        !self.around.is_empty()
    }

    /// Whether the order of this call and one with these effects could matter, for all that is known.
    pub(super) fn conflicts(&self, effects: &Effects) -> bool {
        self.effects.as_ref().is_none_or(|mine| mine.conflicts(effects))
    }

    /// The stages and places that can block this call at `mine`.
    fn spans(&self, mine: u64) -> [(Stage, Range<u64>); 4] {
        let before_in_turn = self.turn..mine;
        // An inner call does not wait for those of other turns that have not begun: they may wait for a call that it is part of, or for
        // its permit.
        let [allowed, admitted] = if self.is_inner() {
            [before_in_turn.clone(), before_in_turn.clone()]
        } else {
            [0..mine, ALL]
        };
        [
            (Stage::Allowed, allowed),
            (Stage::Pending, before_in_turn),
            (Stage::Admitted, admitted),
            (Stage::Running, ALL),
        ]
    }
}

const ALL: Range<u64> = 0..u64::MAX;

impl Places {
    /// Takes a place for each call of a turn; `around` are the places of the calls that it is part of.
    pub(super) fn take(&mut self, calls: usize, around: &[u64]) -> Range<u64> {
        let turn = self.next;
        let around: Arc<[u64]> = around.into();
        for _ in 0..calls {
            let at = self.next;
            self.next += 1;
            for outer in &*around {
                if let Some(outer) = self.taken.get_mut(outer) {
                    outer.inner.insert(at);
                }
            }
            self.index.add(None, Stage::Pending, at);
            let place = Place {
                turn,
                around: around.clone(),
                stage: Stage::Pending,
                effects: None,
                inner: BTreeSet::new(),
                watchers: Vec::new(),
            };
            self.taken.insert(at, place);
        }
        turn..self.next
    }

    /// Gives up a place.
    pub(super) fn leave(&mut self, at: u64) -> Woken {
        let Some(left) = self.taken.remove(&at) else { return Woken(Vec::new()) };
        self.index.remove(left.effects.as_deref(), left.stage, at);
        self.index.fit(&self.taken);
        for outer in &*left.around {
            if let Some(outer) = self.taken.get_mut(outer) {
                outer.inner.remove(&at);
            }
        }
        Woken(left.watchers)
    }

    /// Takes note of what the call at a place wants to do.
    pub(super) fn declare(&mut self, at: u64, effects: Arc<Effects>) -> Woken {
        let Some(place) = self.taken.get_mut(&at) else { return Woken(Vec::new()) };
        self.index.remove(place.effects.as_deref(), place.stage, at);
        self.index.add(Some(&effects), place.stage, at);
        let was_known = place.effects.replace(effects).is_some();
        let (mut woken, turn) = (std::mem::take(&mut place.watchers), place.turn);
        self.index.fit(&self.taken);
        if was_known {
            // Later calls of the turn may wait for this one now. Then they block nobody before it is decided on.
            let later = self.taken.range_mut(at + 1..).take_while(|(_, later)| later.turn == turn);
            woken.extend(later.flat_map(|(_, later)| std::mem::take(&mut later.watchers)));
        }
        Woken(woken)
    }

    /// Decides whether the call at a place may begin. If it may not yet, `woken` is told when it should be asked again.
    pub(super) fn try_begin(&mut self, mine: u64, woken: &Arc<Notify>) -> (Begin, Woken) {
        let Some(place) = self.taken.get(&mine) else { return (Begin::Now, Woken(Vec::new())) };
        let Some(effects) = &place.effects else {
            return (Begin::Now, self.set_stage(mine, Stage::Allowed));
        };
        let blocker = if effects.is_empty() { None } else { self.blocker(mine, place) };
        let Some(blocker) = blocker else {
            return (Begin::Now, self.set_stage(mine, Stage::Admitted));
        };
        if place.is_inner() && self.deadlocks(mine, place) {
            return (Begin::Never, self.set_stage(mine, Stage::Refused));
        }
        self.watch(blocker, woken);
        (Begin::Later, self.set_stage(mine, Stage::Allowed))
    }

    /// Marks a call as running, now that it has a permit, unless an inner call that conflicts with it has begun meanwhile.
    pub(super) fn run(&mut self, mine: u64) -> (bool, Woken) {
        let Some(place) = self.taken.get(&mine) else { return (true, Woken(Vec::new())) };
        let running = [(Stage::Running, ALL)];
        let is_beaten = self.find(mine, place, &running, &mut |at| Some(at)).is_some();
        let stage = if is_beaten { Stage::Allowed } else { Stage::Running };
        (!is_beaten, self.set_stage(mine, stage))
    }

    /// Returns whether all earlier calls of the turn have left. If not, `woken` is told when it should be asked again.
    pub(super) fn is_first_of_turn(&mut self, mine: u64, woken: &Arc<Notify>) -> bool {
        let Some(turn) = self.taken.get(&mine).map(|place| place.turn) else { return true };
        let Some((earlier, _)) = self.taken.range(turn..mine).next_back() else { return true };
        self.watch(*earlier, woken);
        false
    }

    fn watch(&mut self, at: u64, woken: &Arc<Notify>) {
        if let Some(place) = self.taken.get_mut(&at) {
            place.watchers.push(woken.clone());
        }
    }

    fn set_stage(&mut self, at: u64, stage: Stage) -> Woken {
        let Some(place) = self.taken.get_mut(&at) else { return Woken(Vec::new()) };
        let before = std::mem::replace(&mut place.stage, stage);
        if before == stage {
            return Woken(Vec::new());
        }
        self.index.advance(place.effects.as_deref(), at, before, stage);
        // A call that gets further still blocks those that it blocked.
        let steps_back = stage == Stage::Refused || stage < before;
        Woken(if steps_back { std::mem::take(&mut place.watchers) } else { Vec::new() })
    }

    /// A call because of which the call at `mine` must not begin yet.
    fn blocker(&self, mine: u64, place: &Place) -> Option<u64> {
        self.find(mine, place, &place.spans(mine), &mut |at| {
            self.is_in_the_way(at, place).then_some(at)
        })
    }

    /// All calls because of which the call at `mine` must not begin yet.
    pub(super) fn blockers(&self, mine: u64, place: &Place) -> BTreeSet<u64> {
        let mut all = BTreeSet::new();
        self.find(mine, place, &place.spans(mine), &mut |at| -> Option<()> {
            if self.is_in_the_way(at, place) {
                all.insert(at);
            }
            None
        });
        all
    }

    /// Whether an earlier call that conflicts is waited for: one of another turn that waits for a person is not.
    fn is_in_the_way(&self, at: u64, place: &Place) -> bool {
        self.taken.get(&at).is_some_and(|other| {
            other.turn == place.turn
                || other.stage != Stage::Allowed
                || !self.waits_for_a_decision(at, other)
        })
    }

    /// Calls `look` with the places of these stages and ranges that conflict with a call, until it finds something.
    fn find<T>(
        &self,
        mine: u64,
        place: &Place,
        spans: &[(Stage, Range<u64>)],
        look: &mut dyn FnMut(u64) -> Option<T>,
    ) -> Option<T> {
        let effects = place.effects.as_deref();
        let mut check = |at: u64| {
            // A call does not wait for those that it is part of.
            if at == mine || place.around.contains(&at) {
                return None;
            }
            let other = self.taken.get(&at)?;
            let conflicts = effects.is_none_or(|effects| other.conflicts(effects));
            if conflicts { look(at) } else { None }
        };
        let Some(effects) = effects else {
            let is_meant = |at: u64, stage| {
                spans.iter().any(|(of, range)| *of == stage && range.contains(&at))
            };
            let meant = self.taken.iter().filter(|(at, other)| is_meant(**at, other.stage));
            return meant.map(|(at, _)| *at).find_map(check);
        };
        self.index.search(effects, |marks: &Marks| {
            let each = |(stage, range): &(Stage, Range<u64>)| {
                marks.latest_first(*stage, range.clone()).find_map(&mut check)
            };
            spans.iter().find_map(each)
        })
    }

    /// Whether the inner call at `mine` waits for a call that cannot end before it: each of them is part of a call that the other one
    /// has to wait for.
    ///
    /// The last call of such a circle to wait closes it, so it is found by the one that asks.
    fn deadlocks(&self, mine: u64, place: &Place) -> bool {
        let mut ahead: Vec<u64> = self.blockers(mine, place).into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(at) = ahead.pop() {
            if at == mine || place.around.contains(&at) {
                return true;
            }
            let Some(other) = self.taken.get(&at).filter(|_| seen.insert(at)) else { continue };
            match other.stage {
                Stage::Allowed => ahead.extend(self.blockers(at, other)),
                // A running call ends when its inner calls have ended.
                Stage::Running => ahead.extend(other.inner.iter().filter(|inner| {
                    self.taken.get(inner).is_some_and(|inner| inner.stage == Stage::Allowed)
                })),
                Stage::Pending | Stage::Admitted | Stage::Refused => {}
            }
        }
        false
    }

    /// Whether an allowed call must wait for one of its own turn that is not decided on, and so perhaps for a person.
    fn waits_for_a_decision(&self, at: u64, place: &Place) -> bool {
        if place.effects.is_none() {
            return false;
        }
        self.find(at, place, &[(Stage::Pending, place.turn..at)], &mut |_| Some(())).is_some()
    }
}
