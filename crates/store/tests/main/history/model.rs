//! Property test: after any steps of two processes, the history on disk equals a history in memory.

use std::time::Duration;

use proptest::prelude::*;
use windlass_core::{
    CallId, CheckpointQuery, ContentHash, History, MemoryHistory, NewCheckpoint, SessionId, TurnId,
};
use windlass_store::{HistorySettings, UndoHistory};

use super::common::{Change, change, content, settings};
use crate::common::TestState;

#[derive(Debug, Clone)]
enum Step {
    /// A change by one of two processes, and its ending.
    Change {
        by: usize,
        to: usize,
        session: usize,
        ending: Ending,
    },
    Undo {
        by: usize,
        of: usize,
        ending: Ending,
    },
    Compare {
        by: usize,
    },
    Reopen {
        by: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum Ending {
    Finished,
    Abandoned,
    /// The process was killed, and the other process finished or abandoned the checkpoint.
    Killed {
        finished: bool,
    },
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        6 => Just(Ending::Finished),
        1 => Just(Ending::Abandoned),
        1 => any::<bool>().prop_map(|finished| Ending::Killed { finished }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2_usize, 0..CONTENTS, 0..2_usize, ending())
            .prop_map(|(by, to, session, ending)| Step::Change { by, to, session, ending }),
        2 => (0..2_usize, any::<usize>(), ending()).prop_map(|(by, of, ending)| Step::Undo { by, of, ending }),
        1 => (0..2_usize).prop_map(|by| Step::Compare { by }),
        1 => (0..2_usize).prop_map(|by| Step::Reopen { by }),
    ]
}

const CONTENTS: usize = 12;

/// Contents: one empty, some similar, some large.
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

struct HistoryAndModel {
    state: TestState,
    histories: [Option<UndoHistory>; 2],
    model: MemoryHistory,
    now: usize,
    calls: u64,
}

impl HistoryAndModel {
    fn new() -> Self {
        let state = TestState::new();
        let histories = [Some(open(&state)), Some(open(&state))];
        Self { state, histories, model: MemoryHistory::default(), now: 0, calls: 0 }
    }

    fn perform(&mut self, step: &Step) {
        match *step {
            Step::Change { by, to, session, ending } => {
                self.calls += 1;
                let mut change = change(self.calls, &text(self.now), &text(to));
                change.origin.session = SessionId::new(format!("s{session}"));
                change.origin.turn = TurnId::new(format!("t{}", self.calls / 3));
                if self.make(by, &change, ending) {
                    self.now = to;
                }
            }
            Step::Undo { by, of, ending } => {
                let of = if self.calls == 0 { 0 } else { of as u64 % self.calls + 1 };
                self.calls += 1;
                let mut change = change(self.calls, &text(self.now), &text(self.now));
                change.origin.undoes = vec![CallId::new(format!("c{of}"))];
                self.make(by, &change, ending);
            }
            Step::Compare { by } => self.compare(by),
            Step::Reopen { by } => {
                self.histories[by] = None;
                self.histories[by] = Some(open(&self.state));
            }
        }
    }

    /// Records a change with this ending; returns whether it is in the history afterwards.
    fn make(&mut self, by: usize, change: &Change, ending: Ending) -> bool {
        let pending = change.record(self.histories[by].as_ref().unwrap()).unwrap();
        let is_kept = match ending {
            Ending::Finished => pending.finish().map(|()| true),
            Ending::Abandoned => pending.abandon().map(|()| false),
            Ending::Killed { finished } => {
                drop(pending);
                let mut left = self.histories[1 - by].as_ref().unwrap().unfinished().unwrap();
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
        let histories = self.histories[by].as_ref().unwrap();
        let mut queries = vec![
            CheckpointQuery::Workspace("/w".into()),
            CheckpointQuery::LastOfWorkspace("/w".into()),
        ];
        for number in 0..2 {
            let session = SessionId::new(format!("s{number}"));
            queries.extend([
                CheckpointQuery::Session(session.clone()),
                CheckpointQuery::LastOfSession(session),
            ]);
        }
        queries.extend(
            (0..=self.calls).map(|call| CheckpointQuery::Call(CallId::new(format!("c{call}")))),
        );
        queries.extend(
            (0..=self.calls / 3).map(|turn| CheckpointQuery::Turn(TurnId::new(format!("t{turn}")))),
        );
        for query in queries {
            let expected = self.model.checkpoints(&query).unwrap();
            assert_eq!(histories.checkpoints(&query).unwrap(), expected, "{query:?}");
        }
        for number in 0..CONTENTS {
            let hash = ContentHash::of(&text(number));
            let (found, expected) = (histories.content(&hash).ok(), self.model.content(&hash).ok());
            assert!(found == expected, "content {number}: {}", found.is_some());
        }
    }
}

fn open(state: &TestState) -> UndoHistory {
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
    fn the_history_on_disk_equals_one_in_memory(steps in proptest::collection::vec(step(), 1..50)) {
        let mut histories = HistoryAndModel::new();
        for step in &steps {
            histories.perform(step);
        }
        histories.compare(0);
        histories.compare(1);
        histories.perform(&Step::Reopen { by: 0 });
        histories.compare(0);
    }
}
