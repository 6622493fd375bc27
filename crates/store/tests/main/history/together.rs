//! Several checkpoints at once, in one process and in several, on one directory.

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use windlass_store::{HistorySettings, UndoHistory};

use super::common::{calls, change, content_of, noise, open, settings};
use crate::child::{Task, command, command_without_file_size_signal};
use crate::common::TestState;

#[test]
fn checkpoints_under_way_at_the_same_time_are_independent() {
    let state = TestState::new();
    let history = open(&state);
    let pending: Vec<_> = (0..5)
        .map(|number| change(number, b"same", &noise(number, 100)).record(&history).unwrap())
        .collect();
    for (number, pending) in pending.into_iter().enumerate() {
        if number == 2 { pending.abandon() } else { pending.finish() }.unwrap();
    }
    assert_eq!(calls(&history), ["c4", "c3", "c1", "c0"]);
    assert!(history.unfinished().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(state.file("undo/writers")).unwrap().count(), 5);
    for number in 5..50 {
        change(number, b"same", b"x").make(&history);
    }
    assert_eq!(std::fs::read_dir(state.file("undo/writers")).unwrap().count(), 5);
}

#[test]
fn threads_share_a_history() {
    let state = TestState::new();
    let settings = HistorySettings { slot_limit: 20_000, ..settings() };
    let history = UndoHistory::open_with(state.dir(), settings).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let history = &history;
            scope.spawn(move || {
                for number in 0..50 {
                    let number = thread * 50 + number;
                    change(number, &noise(number, 500), &noise(number + 1, 500)).make(history);
                    if number % 20 == 0 {
                        assert!(calls(history).contains(&format!("c{number}")));
                    }
                }
            });
        }
    });
    assert_eq!(calls(&history).len(), 200);
    for number in 0..200 {
        assert!(content_of(&history, &noise(number, 500)).unwrap() == noise(number, 500));
    }
}

#[test]
fn processes_share_a_directory() {
    let state = TestState::new();
    let mut children: Vec<_> = ["p", "q", "r"]
        .into_iter()
        .map(|name| command(Task::Changes(120), state.dir(), name).spawn().unwrap())
        .collect();
    let history = open(&state);
    let mut last = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        let count = calls(&history).len();
        assert!(count >= last, "{count} {last}");
        last = count;
        assert!(history.unfinished().unwrap().is_empty());
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut found = calls(&history);
    assert_eq!(found.len(), 360);
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 360);
    for number in 1..=120 {
        let (before, after) = (noise(number, 3000), noise(number + 1, 3000));
        assert!(content_of(&history, &before).unwrap() == before);
        assert!(content_of(&history, &after).unwrap() == after);
    }
}

#[test]
fn a_history_works_again_after_a_full_disk() {
    let state = TestState::new();
    let mut child = command_without_file_size_signal(Task::FillHistory, state.dir(), "p");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(calls(&open(&state)), ["c3", "c1"]);
}

/// In a process of its own: files may not grow beyond a limit, which to a writer looks like a disk without space.
pub(crate) fn fill_and_make_room(dir: &Path) {
    let history = UndoHistory::open_with(dir, settings()).unwrap();
    change(1, b"a", b"b").make(&history);
    assert_eq!(calls(&history), ["c1"]);
    let unlimited = getrlimit(Resource::Fsize);
    for length in [20_000, 5 << 20] {
        limit(Some(16 << 10), unlimited);
        for _ in 0..3 {
            let Err(error) = change(2, b"b", &noise(1, length)).record(&history) else {
                panic!("there was space")
            };
            assert!(error.to_string().contains("undo/"), "{error}");
        }
        assert!(history.unfinished().unwrap().is_empty());
        limit(unlimited.current, unlimited);
        assert!(history.unfinished().unwrap().is_empty());
    }
    change(3, b"b", &noise(1, 20_000)).make(&history);
    assert_eq!(calls(&history), ["c3", "c1"]);
    assert!(content_of(&history, &noise(1, 20_000)).is_ok());
}

fn limit(current: Option<u64>, unlimited: Rlimit) {
    setrlimit(Resource::Fsize, Rlimit { current, maximum: unlimited.maximum }).unwrap();
}

/// The work of the other processes: changes of one file, each reported when it is finished.
pub(crate) fn changes(dir: &Path, name: &str, count: u64, mut tell: impl FnMut(u64)) {
    // Small slots are drained and emptied often.
    let settings = HistorySettings { slot_limit: 40_000, ..settings() };
    let history = UndoHistory::open_with(dir, settings).unwrap();
    for number in 1..=count {
        let mut change = change(number, &noise(number, 3000), &noise(number + 1, 3000));
        if name != "p" || count < u64::MAX {
            change.origin.call = windlass_core::CallId::new(format!("{name}{number}"));
        }
        change.make(&history);
        tell(number);
    }
}
