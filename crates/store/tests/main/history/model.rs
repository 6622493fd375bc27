//! The law: whatever is done, by however many, the history says what one in memory would say.

use std::time::Duration;

use proptest::prelude::*;
use windlass_core::{
    CallId, ContentHash, History, MemoryHistory, NewCheckpoint, Query, SessionId, TurnId,
};
use windlass_store::{HistorySettings, UndoHistory};

use super::common::{Change, change, content, settings};
use crate::common::State;

#[derive(Debug, Clone)]
enum Step {
    /// A change by one of two processes, and what becomes of it.
    Change {
        by: usize,
        to: usize,
        session: usize,
        end: End,
    },
    Undo {
        by: usize,
        of: usize,
        end: End,
    },
    Look {
        by: usize,
    },
    Reopen {
        by: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum End {
    Finished,
    Abandoned,
    /// The process was killed, and the next put it right one way or the other.
    Killed {
        finished: bool,
    },
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        6 => Just(End::Finished),
        1 => Just(End::Abandoned),
        1 => any::<bool>().prop_map(|finished| End::Killed { finished }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2_usize, 0..CONTENTS, 0..2_usize, end())
            .prop_map(|(by, to, session, end)| Step::Change { by, to, session, end }),
        2 => (0..2_usize, any::<usize>(), end()).prop_map(|(by, of, end)| Step::Undo { by, of, end }),
        1 => (0..2_usize).prop_map(|by| Step::Look { by }),
        1 => (0..2_usize).prop_map(|by| Step::Reopen { by }),
    ]
}

const CONTENTS: usize = 12;

/// Some much alike, some empty, some large.
fn text(number: usize) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1..=7 => {
            let mut text = super::common::noise(1, 6000);
            text[number * 700] = b'!';
            text
        }
        _ => super::common::noise(number as u64, number * 1500),
    }
}

struct Pair {
    state: State,
    kept: [Option<UndoHistory>; 2],
    model: MemoryHistory,
    now: usize,
    calls: u64,
}

impl Pair {
    fn new() -> Self {
        let state = State::new();
        let kept = [Some(open(&state)), Some(open(&state))];
        Self { state, kept, model: MemoryHistory::default(), now: 0, calls: 0 }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Change { by, to, session, end } => {
                self.calls += 1;
                let mut change = change(self.calls, &text(self.now), &text(to));
                change.origin.session = SessionId::new(format!("s{session}"));
                change.origin.turn = TurnId::new(format!("t{}", self.calls / 3));
                if self.make(by, &change, end) {
                    self.now = to;
                }
            }
            Step::Undo { by, of, end } => {
                let of = if self.calls == 0 { 0 } else { of as u64 % self.calls + 1 };
                self.calls += 1;
                let mut change = change(self.calls, &text(self.now), &text(self.now));
                change.origin.undoes = vec![CallId::new(format!("c{of}"))];
                self.make(by, &change, end);
            }
            Step::Look { by } => self.compare(by),
            Step::Reopen { by } => {
                self.kept[by] = None;
                self.kept[by] = Some(open(&self.state));
            }
        }
    }

    /// Whether the change is in the history afterwards.
    fn make(&mut self, by: usize, change: &Change, end: End) -> bool {
        let pending = change.record(self.kept[by].as_ref().unwrap()).unwrap();
        let is_kept = match end {
            End::Finished => pending.finish().map(|()| true),
            End::Abandoned => pending.abandon().map(|()| false),
            End::Killed { finished } => {
                drop(pending);
                let mut left = self.kept[1 - by].as_ref().unwrap().unfinished().unwrap();
                assert_eq!(left.len(), 1);
                let left = left.pop().unwrap();
                assert_eq!((&left.origin, &left.changes), (&change.origin, &change.changes()));
                if finished { left.finish() } else { left.abandon() }.map(|()| finished)
            }
        };
        let is_kept = is_kept.unwrap();
        if is_kept {
            self.make_in_model(change);
        }
        is_kept
    }

    fn make_in_model(&self, change: &Change) {
        let (before, after) = (change.before.as_deref().unwrap(), change.after.as_deref().unwrap());
        let (changes, contents) = (change.changes(), [content(before, None), content(after, None)]);
        let new = NewCheckpoint {
            origin: &change.origin,
            changes: &changes,
            contents: &contents,
            without_history: &[],
        };
        self.model.record(&new).unwrap().finish().unwrap();
    }

    fn compare(&self, by: usize) {
        let kept = self.kept[by].as_ref().unwrap();
        let mut queries = vec![Query::Workspace("/w".into()), Query::LastOfWorkspace("/w".into())];
        for number in 0..2 {
            let session = SessionId::new(format!("s{number}"));
            queries.extend([Query::Session(session.clone()), Query::LastOfSession(session)]);
        }
        queries.extend((0..=self.calls).map(|call| Query::Call(CallId::new(format!("c{call}")))));
        queries
            .extend((0..=self.calls / 3).map(|turn| Query::Turn(TurnId::new(format!("t{turn}")))));
        for query in queries {
            let expected = self.model.checkpoints(&query).unwrap();
            assert_eq!(kept.checkpoints(&query).unwrap(), expected, "{query:?}");
        }
        for number in 0..CONTENTS {
            let hash = ContentHash::of(&text(number));
            let (found, expected) = (kept.content(&hash).ok(), self.model.content(&hash).ok());
            assert!(found == expected, "content {number}: {}", found.is_some());
        }
    }
}

fn open(state: &State) -> UndoHistory {
    let settings = HistorySettings {
        slot_limit: 30_000,
        large: 15_000,
        age: Duration::from_secs(1 << 40),
        ..settings()
    };
    UndoHistory::open_with(state.dir(), settings).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn it_says_what_one_in_memory_would_say(steps in proptest::collection::vec(step(), 1..50)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.take(step);
        }
        pair.compare(0);
        pair.compare(1);
        pair.take(&Step::Reopen { by: 0 });
        pair.compare(0);
    }
}
