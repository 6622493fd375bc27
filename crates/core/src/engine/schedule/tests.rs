//! The order of calls: cases, and a law.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::places::{Place, Stage};
use super::*;
use crate::effects::UNDO_STATE;
use crate::{CommandLine, Effect, OnlyReads, PathPattern, SimpleCommand};

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
    tickets[0].declare(Arc::new(Effects::write("/a").and(Effect::State(UNDO_STATE.into()))));
    assert!(!begins(&tickets[0]), "somebody is changing a file");
    drop(other);
    assert_eq!(tickets.iter().map(begins).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn a_call_that_is_not_known_or_not_allowed_yet_holds_up_only_its_own_turn() {
    let scheduler = Scheduler::default();
    let asking = turn(
        &scheduler,
        &[Some(Effects::write("/a")), None, Some(Effects::read("/a")), Some(Effects::read("/b"))],
    );
    let other = turn(&scheduler, &[Some(Effects::read("/a"))]);
    assert!(!begins(&asking[2]), "behind a write");
    assert!(!begins(&asking[3]), "behind something unknown");
    assert!(begins(&other[0]));
    assert!(!begins(&asking[0]), "somebody is reading it");
    drop(other);
    assert!(begins(&asking[0]));
}

#[test]
fn a_call_that_comes_to_wait_for_a_person_frees_those_behind_it() {
    let scheduler = Scheduler::default();
    let running = turn(&scheduler, &[Some(Effects::write("/b"))]);
    assert!(begins(&running[0]));
    let both = Effects::write("/a").and(Effect::Write(PathPattern::file("/b")));
    let asking = turn(&scheduler, &[Some(Effects::write("/c")), Some(both)]);
    let behind = turn(&scheduler, &[Some(Effects::write("/a"))]);
    assert!(!begins(&asking[1]), "somebody writes `/b`");
    assert!(!begins(&behind[0]), "an earlier call writes `/a`");
    assert!(behind[0].woken.notified().now_or_never().is_none());
    asking[0].declare(Arc::new(Effects::write("/a")));
    assert!(behind[0].woken.notified().now_or_never().is_some());
    assert!(begins(&behind[0]));
}

#[test]
fn what_calls_touch_is_kept_only_while_some_do_more_than_look() {
    let scheduler = Scheduler::default();
    let is_kept = || scheduler.0.lock().index.is_kept();
    for lookers in [3, 300] {
        let looking: Vec<_> =
            (0..lookers).map(|at| Some(Effects::read(format!("/{at}")))).collect();
        let mut looking = turn(&scheduler, &looking);
        assert!(looking.iter().all(begins) && !is_kept());
        let writing = turn(&scheduler, &[Some(Effects::write("/1")), Some(Effects::write("/x"))]);
        assert_eq!(writing.iter().map(begins).collect::<Vec<_>>(), [false, true]);
        drop(looking.remove(1));
        assert!(begins(&writing[0]) && is_kept());
        drop(writing);
        assert_eq!(is_kept(), lookers > 64, "putting many in order for each write would be slow");
        drop(looking);
        assert!(scheduler.0.lock().index.is_empty());
    }
}

/// The rule as it is defined: each look is at all places.
struct Plain<'a>(&'a BTreeMap<u64, Place>);

impl Plain<'_> {
    fn blockers(&self, mine: u64, place: &Place) -> BTreeSet<u64> {
        let is_inner = !place.around.is_empty();
        let blocks = |at: u64, other: &Place| {
            let matters = match other.stage {
                Stage::Refused => false,
                _ if at == mine || place.around.contains(&at) => false,
                Stage::Running => true,
                Stage::Admitted if !is_inner => true,
                _ if at > mine => false,
                _ if other.turn == place.turn => true,
                _ if is_inner => false,
                Stage::Admitted => true,
                Stage::Allowed => !self.waits_for_a_decision(at, other),
                Stage::Pending => false,
            };
            let effects = place.effects.as_ref();
            matters && effects.is_none_or(|effects| other.conflicts(effects))
        };
        self.0.iter().filter(|(at, other)| blocks(**at, other)).map(|(at, _)| *at).collect()
    }

    fn waits_for_a_decision(&self, at: u64, place: &Place) -> bool {
        let Some(effects) = &place.effects else { return false };
        self.0.range(..at).any(|(_, before)| {
            before.turn == place.turn && before.stage == Stage::Pending && before.conflicts(effects)
        })
    }

    fn deadlocks(&self, mine: u64, place: &Place) -> bool {
        let mut ahead = self.blockers(mine, place);
        let mut seen = BTreeSet::new();
        while let Some(at) = ahead.pop_first() {
            if at == mine || place.around.contains(&at) {
                return true;
            }
            let Some(other) = self.0.get(&at).filter(|_| seen.insert(at)) else { continue };
            match other.stage {
                Stage::Allowed => ahead.extend(self.blockers(at, other)),
                Stage::Running => ahead.extend(self.0.iter().filter_map(|(inner, place)| {
                    let waits = place.stage == Stage::Allowed && place.around.contains(&at);
                    waits.then_some(*inner)
                })),
                Stage::Pending | Stage::Admitted | Stage::Refused => {}
            }
        }
        false
    }

    fn begins(&self, mine: u64) -> Begin {
        let place = &self.0[&mine];
        let is_free = place.effects.as_ref().is_none_or(|effects| effects.is_empty());
        if is_free || self.blockers(mine, place).is_empty() {
            Begin::Now
        } else if !place.around.is_empty() && self.deadlocks(mine, place) {
            Begin::Never
        } else {
            Begin::Later
        }
    }

    fn runs(&self, mine: u64) -> bool {
        let place = &self.0[&mine];
        !self.0.iter().any(|(at, other)| {
            let conflicts =
                || place.effects.as_ref().is_none_or(|effects| other.conflicts(effects));
            let is_part = *at == mine || place.around.contains(at);
            !is_part && other.stage == Stage::Running && conflicts()
        })
    }
}

/// One thing that happens. A number stands for one of the places that it can happen to.
#[derive(Debug, Clone)]
enum Happens {
    /// A turn of so many calls arrives.
    Turn(usize),
    /// A call that runs makes a turn of so many.
    Inner(usize, usize),
    Declares(usize, Effects),
    Tries(usize),
    /// A call that is admitted gets its permit.
    Permit(usize),
    Leaves(usize),
}

fn effects() -> impl Strategy<Value = Effects> {
    let ls = SimpleCommand::new(["ls"]).reading(OnlyReads::Always);
    let looking = CommandLine { commands: vec![ls], ..CommandLine::words(["ls"]) };
    assert!(looking.only_reads());
    let deep = |last: &str| format!("/w/{}{last}", "d/".repeat(80));
    let paths = ["", "/", "/w", "/w/a", "/w/a/b", "/w/a/c", "/w/ab", "rel", "rel/x"];
    let paths: Vec<String> =
        paths.map(String::from).into_iter().chain([deep("x"), deep("y")]).collect();
    let pattern = || {
        (proptest::sample::select(paths.clone()), any::<bool>()).prop_map(|(path, is_tree)| {
            if is_tree { PathPattern::tree(path) } else { PathPattern::file(path) }
        })
    };
    let key = proptest::sample::select(vec![UNDO_STATE, "todo", "memory"]);
    let effect = prop_oneof![
        6 => pattern().prop_map(Effect::Read),
        4 => pattern().prop_map(Effect::Write),
        1 => pattern().prop_map(Effect::Delete),
        1 => Just(Effect::Exec(CommandLine::opaque("make", "?"))),
        1 => Just(Effect::Exec(looking)),
        1 => Just(Effect::Plugin("p".into())),
        2 => key.prop_map(|key| Effect::State(key.into())),
        1 => Just(Effect::Ask),
        1 => Just(Effect::Agent("a".into())),
    ];
    // Most calls are about few files, so that many sequences have calls that wait for each other.
    let narrow = (proptest::sample::select(vec!["/w/a", "/w/b"]), any::<bool>());
    prop_oneof![
        2 => narrow.prop_map(|(path, reads)| {
            if reads { Effects::read(path) } else { Effects::write(path) }
        }),
        1 => proptest::collection::vec(effect, 0..4).prop_map(Effects::from_iter),
    ]
}

fn happenings() -> impl Strategy<Value = Vec<Happens>> {
    let one = || 0..1000usize;
    let happens = prop_oneof![
        2 => (1..4usize).prop_map(Happens::Turn),
        2 => (one(), 1..3usize).prop_map(|(at, calls)| Happens::Inner(at, calls)),
        8 => (one(), effects()).prop_map(|(at, effects)| Happens::Declares(at, effects)),
        10 => one().prop_map(Happens::Tries),
        6 => one().prop_map(Happens::Permit),
        4 => one().prop_map(Happens::Leaves),
    ];
    proptest::collection::vec(happens, 0..150)
}

/// A queue, those in it, and those of them that wait to be woken.
#[derive(Default)]
struct World {
    scheduler: Scheduler,
    tickets: BTreeMap<u64, Ticket>,
    waiting: BTreeSet<u64>,
}

impl World {
    /// The places for which something holds, and which do not sleep.
    fn those(&self, holds: impl Fn(&Place) -> bool) -> Vec<u64> {
        let places = self.scheduler.0.lock();
        let those =
            places.taken.iter().filter(|(at, place)| holds(place) && !self.waiting.contains(at));
        those.map(|(at, _)| *at).collect()
    }

    fn happen(&mut self, what: &Happens) {
        let chosen =
            |from: Vec<u64>, number: usize| (!from.is_empty()).then(|| from[number % from.len()]);
        match what {
            Happens::Turn(calls) => self.arrive(*calls, &[]),
            Happens::Inner(number, calls) => {
                let running = self.those(|place| place.stage == Stage::Running);
                let Some(at) = chosen(running, *number) else { return };
                let mut around = vec![at];
                around.extend(&*self.scheduler.0.lock().taken[&at].around);
                self.arrive(*calls, &around);
            }
            Happens::Declares(number, effects) => {
                let pending = self.those(|place| place.stage == Stage::Pending);
                let Some(at) = chosen(pending, *number) else { return };
                self.tickets[&at].declare(Arc::new(effects.clone()));
            }
            Happens::Tries(number) => {
                let ready = self.those(|place| {
                    matches!(place.stage, Stage::Pending | Stage::Allowed)
                        && place.effects.is_some()
                });
                let Some(at) = chosen(ready, *number) else { return };
                self.try_begin(at);
            }
            Happens::Permit(number) => {
                let admitted = self.those(|place| place.stage == Stage::Admitted);
                let Some(at) = chosen(admitted, *number) else { return };
                let wanted = Plain(&self.scheduler.0.lock().taken).runs(at);
                assert_eq!(self.tickets[&at].run(), wanted, "{at} runs");
                if !wanted {
                    // As a call does: until it has looked, it may be part of a circle that its own refusal breaks.
                    self.try_begin(at);
                }
            }
            Happens::Leaves(number) => {
                let all = self.tickets.keys().copied().collect();
                let Some(at) = chosen(all, *number) else { return };
                self.tickets.remove(&at);
                self.waiting.remove(&at);
            }
        }
    }

    fn arrive(&mut self, calls: usize, around: &[u64]) {
        let tickets = self.scheduler.reserve(calls, around);
        self.tickets.extend(tickets.into_iter().map(|ticket| (ticket.place(), ticket)));
    }

    fn try_begin(&mut self, at: u64) {
        let wanted = Plain(&self.scheduler.0.lock().taken).begins(at);
        let begin = self.tickets[&at].try_begin();
        assert_eq!(begin, wanted, "{at} begins");
        if begin == Begin::Later {
            self.waiting.insert(at);
        }
    }

    /// Those that were woken look again. Those that were not could not have begun.
    fn look_again(&mut self) {
        while let Some(at) = self.waiting.iter().copied().find(|at| self.is_woken(*at)) {
            self.waiting.remove(&at);
            self.try_begin(at);
        }
        let places = self.scheduler.0.lock();
        for at in &self.waiting {
            assert_eq!(Plain(&places.taken).begins(*at), Begin::Later, "{at} sleeps");
        }
    }

    fn compare_blockers(&self) {
        let places = self.scheduler.0.lock();
        for (at, place) in &places.taken {
            assert_eq!(places.blockers(*at, place), Plain(&places.taken).blockers(*at, place));
        }
    }

    fn is_woken(&self, at: u64) -> bool {
        self.tickets[&at].woken.notified().now_or_never().is_some()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_index_admits_and_wakes_exactly_as_a_look_at_all_places_would(all in happenings()) {
        let mut world = World::default();
        for what in &all {
            world.happen(what);
            world.look_again();
        }
        world.compare_blockers();
        world.tickets.clear();
        prop_assert!(world.scheduler.0.lock().index.is_empty(), "those who left stay in the index");
    }
}
