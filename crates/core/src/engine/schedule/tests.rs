//! Tests of the order of calls: single cases, and a comparison with a slow reference.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::queue::{QueuedCall, Stage};
use super::*;
use crate::effects::UNDO_STATE;
use crate::{CommandLine, Effect, OnlyReads, PathPattern, SimpleCommand};

/// Returns whether the call begins now, and marks it as running.
fn begins(ticket: &Ticket) -> bool {
    ticket.try_begin() == Admission::Now && ticket.mark_running()
}

/// Takes places for a turn of calls, and declares their effects where they are known.
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
fn conflicting_calls_of_a_turn_run_in_order() {
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
fn call_on_the_past_waits_for_its_turn_and_blocks_all_file_changes() {
    let scheduler = Scheduler::default();
    let other = turn(&scheduler, &[Some(Effects::write("/other"))]);
    assert!(begins(&other[0]));
    let mut tickets = turn(
        &scheduler,
        &[Some(Effects::write("/a")), None, Some(Effects::write("/b")), Some(Effects::none())],
    );
    assert!(!tickets[1].is_first_of_turn(), "an earlier write of the turn has not ended");
    assert!(!begins(&tickets[2]), "an earlier call of the turn has unknown effects");
    drop(tickets.remove(0));
    assert!(tickets[0].is_first_of_turn(), "calls of other turns do not count");
    tickets[0].declare(Arc::new(Effects::write("/a").and(Effect::State(UNDO_STATE.into()))));
    assert!(!begins(&tickets[0]), "another call is changing a file");
    drop(other);
    assert_eq!(tickets.iter().map(begins).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn undecided_call_blocks_only_its_own_turn() {
    let scheduler = Scheduler::default();
    let asking = turn(
        &scheduler,
        &[Some(Effects::write("/a")), None, Some(Effects::read("/a")), Some(Effects::read("/b"))],
    );
    let other = turn(&scheduler, &[Some(Effects::read("/a"))]);
    assert!(!begins(&asking[2]), "an earlier call of the turn writes `/a`");
    assert!(!begins(&asking[3]), "an earlier call of the turn has unknown effects");
    assert!(begins(&other[0]));
    assert!(!begins(&asking[0]), "another call is reading `/a`");
    drop(other);
    assert!(begins(&asking[0]));
}

#[test]
fn call_that_starts_to_wait_for_a_person_unblocks_later_calls() {
    let scheduler = Scheduler::default();
    let running = turn(&scheduler, &[Some(Effects::write("/b"))]);
    assert!(begins(&running[0]));
    let both = Effects::write("/a").and(Effect::Write(PathPattern::file("/b")));
    let asking = turn(&scheduler, &[Some(Effects::write("/c")), Some(both)]);
    let behind = turn(&scheduler, &[Some(Effects::write("/a"))]);
    assert!(!begins(&asking[1]), "a running call writes `/b`");
    assert!(!begins(&behind[0]), "an earlier call writes `/a`");
    assert!(behind[0].woken.notified().now_or_never().is_none());
    asking[0].declare(Arc::new(Effects::write("/a")));
    assert!(behind[0].woken.notified().now_or_never().is_some());
    assert!(begins(&behind[0]));
}

#[test]
fn index_exists_only_while_some_call_does_more_than_read() {
    let scheduler = Scheduler::default();
    let is_built = || scheduler.0.lock().index.is_built();
    for readers in [3, 300] {
        let reading: Vec<_> =
            (0..readers).map(|at| Some(Effects::read(format!("/{at}")))).collect();
        let mut reading = turn(&scheduler, &reading);
        assert!(reading.iter().all(begins) && !is_built());
        let writing = turn(&scheduler, &[Some(Effects::write("/1")), Some(Effects::write("/x"))]);
        assert_eq!(writing.iter().map(begins).collect::<Vec<_>>(), [false, true]);
        drop(reading.remove(1));
        assert!(begins(&writing[0]) && is_built());
        drop(writing);
        assert_eq!(
            is_built(),
            readers > 64,
            "rebuilding a large index for each write would be slow"
        );
        drop(reading);
        assert!(scheduler.0.lock().index.is_empty());
    }
}

/// The rule as it is defined: compares each call with all others.
struct Reference<'a>(&'a BTreeMap<u64, QueuedCall>);

impl Reference<'_> {
    /// Returns all calls because of which the call at `mine` must not begin yet.
    fn blockers(&self, mine: u64, place: &QueuedCall) -> BTreeSet<u64> {
        let is_inner = !place.around.is_empty();
        let blocks = |at: u64, other: &QueuedCall| {
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

    /// Returns whether an allowed call must wait for a pending one of its own turn.
    fn waits_for_a_decision(&self, at: u64, place: &QueuedCall) -> bool {
        let Some(effects) = &place.effects else { return false };
        self.0.range(..at).any(|(_, before)| {
            before.turn == place.turn && before.stage == Stage::Pending && before.conflicts(effects)
        })
    }

    /// Returns whether the inner call at `mine` waits for a call that waits for it.
    fn deadlocks(&self, mine: u64, place: &QueuedCall) -> bool {
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

    /// Decides whether the call at `mine` may begin.
    fn begins(&self, mine: u64) -> Admission {
        let place = &self.0[&mine];
        let is_free = place.effects.as_ref().is_none_or(|effects| effects.is_empty());
        if is_free || self.blockers(mine, place).is_empty() {
            Admission::Now
        } else if !place.around.is_empty() && self.deadlocks(mine, place) {
            Admission::Never
        } else {
            Admission::Later
        }
    }

    /// Returns whether no running call conflicts with the call at `mine`.
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

/// One step of the test. A number selects one of the calls that the step can apply to.
#[derive(Debug, Clone)]
enum TestStep {
    /// A turn of this many calls arrives.
    Turn(usize),
    /// A running call makes a turn of this many inner calls.
    Inner(usize, usize),
    Declares(usize, Effects),
    Tries(usize),
    /// An admitted call gets its permit.
    Permit(usize),
    Leaves(usize),
}

/// Generates the effects of a call.
fn effects() -> impl Strategy<Value = Effects> {
    let ls = SimpleCommand::new(["ls"]).reading(OnlyReads::Always);
    let reading = CommandLine { commands: vec![ls], ..CommandLine::words(["ls"]) };
    assert!(reading.only_reads());
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
        1 => Just(Effect::Exec(reading)),
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

/// Generates a sequence of steps.
fn test_steps() -> impl Strategy<Value = Vec<TestStep>> {
    let one = || 0..1000usize;
    let step = prop_oneof![
        2 => (1..4usize).prop_map(TestStep::Turn),
        2 => (one(), 1..3usize).prop_map(|(at, calls)| TestStep::Inner(at, calls)),
        8 => (one(), effects()).prop_map(|(at, effects)| TestStep::Declares(at, effects)),
        10 => one().prop_map(TestStep::Tries),
        6 => one().prop_map(TestStep::Permit),
        4 => one().prop_map(TestStep::Leaves),
    ];
    proptest::collection::vec(step, 0..150)
}

/// The scheduler under test, the tickets of its calls, and the places of the calls that wait to be woken.
#[derive(Default)]
struct SchedulerTest {
    scheduler: Scheduler,
    tickets: BTreeMap<u64, Ticket>,
    waiting: BTreeSet<u64>,
}

impl SchedulerTest {
    /// Returns the places of the calls that match and that do not wait.
    fn awake_where(&self, holds: impl Fn(&QueuedCall) -> bool) -> Vec<u64> {
        let places = self.scheduler.0.lock();
        let found =
            places.calls.iter().filter(|(at, place)| holds(place) && !self.waiting.contains(at));
        found.map(|(at, _)| *at).collect()
    }

    /// Carries out one step, and checks its result against the reference.
    fn carry_out(&mut self, what: &TestStep) {
        let chosen =
            |from: Vec<u64>, number: usize| (!from.is_empty()).then(|| from[number % from.len()]);
        match what {
            TestStep::Turn(calls) => self.add_turn(*calls, &[]),
            TestStep::Inner(number, calls) => {
                let running = self.awake_where(|place| place.stage == Stage::Running);
                let Some(at) = chosen(running, *number) else { return };
                let mut around = vec![at];
                around.extend(&*self.scheduler.0.lock().calls[&at].around);
                self.add_turn(*calls, &around);
            }
            TestStep::Declares(number, effects) => {
                let pending = self.awake_where(|place| place.stage == Stage::Pending);
                let Some(at) = chosen(pending, *number) else { return };
                self.tickets[&at].declare(Arc::new(effects.clone()));
            }
            TestStep::Tries(number) => {
                let ready = self.awake_where(|place| {
                    matches!(place.stage, Stage::Pending | Stage::Allowed)
                        && place.effects.is_some()
                });
                let Some(at) = chosen(ready, *number) else { return };
                self.try_begin(at);
            }
            TestStep::Permit(number) => {
                let admitted = self.awake_where(|place| place.stage == Stage::Admitted);
                let Some(at) = chosen(admitted, *number) else { return };
                let wanted = Reference(&self.scheduler.0.lock().calls).runs(at);
                assert_eq!(self.tickets[&at].mark_running(), wanted, "{at} runs");
                if !wanted {
                    // A call does the same: until it has checked again, it may be part of a cycle that its own refusal breaks.
                    self.try_begin(at);
                }
            }
            TestStep::Leaves(number) => {
                let all = self.tickets.keys().copied().collect();
                let Some(at) = chosen(all, *number) else { return };
                self.tickets.remove(&at);
                self.waiting.remove(&at);
            }
        }
    }

    /// Adds a turn of calls.
    fn add_turn(&mut self, calls: usize, around: &[u64]) {
        let tickets = self.scheduler.reserve(calls, around);
        self.tickets.extend(tickets.into_iter().map(|ticket| (ticket.place(), ticket)));
    }

    /// Lets a call try to begin, and checks the answer against the reference.
    fn try_begin(&mut self, at: u64) {
        let wanted = Reference(&self.scheduler.0.lock().calls).begins(at);
        let begin = self.tickets[&at].try_begin();
        assert_eq!(begin, wanted, "{at} begins");
        if begin == Admission::Later {
            self.waiting.insert(at);
        }
    }

    /// Lets woken calls try again, and checks that the calls that were not woken still cannot begin.
    fn retry_woken(&mut self) {
        while let Some(at) = self.waiting.iter().copied().find(|at| self.is_woken(*at)) {
            self.waiting.remove(&at);
            self.try_begin(at);
        }
        let places = self.scheduler.0.lock();
        for at in &self.waiting {
            assert_eq!(Reference(&places.calls).begins(*at), Admission::Later, "{at} sleeps");
        }
    }

    /// Checks that the index finds the same blocking calls as the reference.
    fn compare_blockers(&self) {
        let places = self.scheduler.0.lock();
        for (at, place) in &places.calls {
            assert_eq!(places.blockers(*at, place), Reference(&places.calls).blockers(*at, place));
        }
    }

    /// Returns whether a waiting call was notified since the last check.
    fn is_woken(&self, at: u64) -> bool {
        self.tickets[&at].woken.notified().now_or_never().is_some()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn index_admits_and_wakes_exactly_as_the_reference(all in test_steps()) {
        let mut test = SchedulerTest::default();
        for what in &all {
            test.carry_out(what);
            test.retry_woken();
        }
        test.compare_blockers();
        test.tickets.clear();
        prop_assert!(test.scheduler.0.lock().index.is_empty(), "removed calls stay in the index");
    }
}
