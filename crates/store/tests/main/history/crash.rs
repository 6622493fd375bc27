//! A kill at any moment: acknowledged checkpoints are there, and a checkpoint under way is found as unfinished.

use std::fs;

use windlass_core::{ContentHash, History as _};
use windlass_store::{HistorySettings, UndoHistory, Unfinished};

use super::common::{calls, change, content_of, noise, open, settings, slot};
use crate::child::{Task, acknowledged, command};
use crate::common::TestState;

#[test]
fn an_unfinished_checkpoint_is_found_once_its_writer_is_gone_and_can_be_finished_or_abandoned() {
    for finish in [true, false] {
        let state = TestState::new();
        let history = open(&state);
        change(1, b"a", b"b").make(&history);
        let left = change(2, b"b", b"c");
        drop(left.record(&history).unwrap());

        let next = open(&state);
        let mut found = next.unfinished().unwrap();
        assert_eq!(found.len(), 1);
        assert!(next.unfinished().unwrap().is_empty(), "another recovery has it locked");
        let found = found.pop().unwrap();
        assert_eq!((&found.origin, &found.changes), (&left.origin, &left.changes()));
        assert_eq!(read_content(&found, b"b"), b"b");
        assert_eq!(read_content(&found, b"c"), b"c");
        found.content(&ContentHash::of(b"a")).unwrap_err();
        drop(found);

        // Other writers use another slot meanwhile.
        change(3, b"x", b"y").make(&next);
        assert_eq!(calls(&next), ["c3", "c1"]);
        let found = next.unfinished().unwrap().pop().unwrap();
        let expected: &[&str] = if finish {
            found.finish().unwrap();
            &["c3", "c2", "c1"]
        } else {
            found.abandon().unwrap();
            &["c3", "c1"]
        };
        assert!(next.unfinished().unwrap().is_empty());
        assert_eq!(calls(&next), expected);
        assert_eq!(content_of(&next, b"c").is_ok(), finish);
        drop((history, next));
        let later = open(&state);
        assert_eq!(calls(&later), expected);
        change(4, b"c", b"d").make(&later);
        assert_eq!(calls(&later)[0], "c4");
    }
}

/// Reads a content of an unfinished checkpoint.
fn read_content(found: &Unfinished, content: &[u8]) -> Vec<u8> {
    let opened = found.content(&ContentHash::of(content)).unwrap();
    opened.source().read().unwrap().into_owned()
}

/// A slot with two finished checkpoints and an unfinished one: its state, its bytes, and the offset of the third frame.
fn state_with_unfinished_checkpoint() -> (TestState, Vec<u8>, usize) {
    let state = TestState::new();
    let history = open(&state);
    change(1, b"one", b"two").make(&history);
    change(2, b"two", b"three").make(&history);
    let header = fs::read(slot(&state, 0)).unwrap();
    let length = u64::from_le_bytes(header[40..48].try_into().unwrap());
    drop(change(3, b"three", &noise(1, 300)).record(&history).unwrap());
    drop(history);
    let whole = fs::read(slot(&state, 0)).unwrap();
    (state, whole, usize::try_from(length).unwrap())
}

fn unfinished(history: &UndoHistory) -> Vec<String> {
    let found = history.unfinished().unwrap();
    found.iter().map(|left| left.origin.call.to_string()).collect()
}

#[test]
fn a_frame_torn_at_any_byte_is_ignored() {
    let (state, whole, begin) = state_with_unfinished_checkpoint();
    for length in begin..=whole.len() {
        fs::write(slot(&state, 0), &whole[..length]).unwrap();
        drop(fs::remove_dir_all(state.file("undo/undo.db")));
        let history = open(&state);
        let expected: &[&str] = if length == whole.len() { &["c3"] } else { &[] };
        assert_eq!(unfinished(&history), expected, "{length}");
        assert_eq!(calls(&history), ["c2", "c1"], "{length}");
    }
}

#[test]
fn a_torn_frame_is_overwritten() {
    let (state, whole, begin) = state_with_unfinished_checkpoint();
    for length in (begin..whole.len()).step_by(37) {
        fs::write(slot(&state, 0), &whole[..length]).unwrap();
        drop(fs::remove_file(state.file("undo/undo.db")));
        let history = open(&state);
        assert!(unfinished(&history).is_empty(), "{length}");
        change(4, b"three", b"four").make(&history);
        change(5, b"four", b"five").make(&history);
        assert_eq!(calls(&history), ["c5", "c4", "c2", "c1"], "{length}");
        assert!(!slot(&state, 1).exists());
    }
}

#[test]
fn an_unfinished_frame_with_a_changed_byte_is_ignored() {
    let (state, whole, begin) = state_with_unfinished_checkpoint();
    for at in begin..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        fs::write(slot(&state, 0), &changed).unwrap();
        let history = open(&state);
        assert!(unfinished(&history).is_empty(), "{at}");
    }
}

#[test]
fn killed_writers_lose_nothing_that_was_acknowledged() {
    for round in 0..6 {
        let state = TestState::new();
        let mut child = command(Task::EndlessChanges, state.dir(), "p").spawn().unwrap();
        let mut lines = acknowledged(&mut child);
        let mut last = 0;
        for line in lines.by_ref().take(40 * (round + 1)) {
            last = line.parse::<u64>().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        last = lines.last().map_or(last, |line| line.parse().unwrap());
        let history = open(&state);
        let left = history.unfinished().unwrap();
        assert!(left.len() <= 1);
        let count = history.checkpoints(&super::common::workspace("/w")).unwrap().len() as u64;
        // The last one may have been finished without being acknowledged.
        assert!((last..=last + 1).contains(&count), "{count} of {last}");
        for left in left {
            assert_eq!(left.origin.call.to_string(), format!("c{}", count + 1));
            for change in &left.changes {
                left.content(&change.before.hash().unwrap()).unwrap();
            }
            left.finish().unwrap();
        }
        let found = history.checkpoints(&super::common::workspace("/w")).unwrap();
        for checkpoint in &found {
            let hash = checkpoint.changes[0].after.hash().unwrap();
            history.content(&hash).unwrap();
        }
    }
}

#[test]
fn a_history_that_syncs_keeps_the_same_checkpoints() {
    let state = TestState::new();
    let settings = || HistorySettings { sync: true, slot_limit: 100_000, ..settings() };
    let history = UndoHistory::open_with(state.dir(), settings()).unwrap();
    for number in 0..30 {
        change(number, &noise(number, 9000), &noise(number + 1, 9000)).make(&history);
    }
    drop(change(30, &noise(30, 9000), &noise(31, 9000)).record(&history).unwrap());
    drop(history);
    let size = fs::metadata(slot(&state, 0)).unwrap().len();
    assert_eq!(size % (64 << 10), 0, "{size}");
    let history = UndoHistory::open_with(state.dir(), settings()).unwrap();
    assert_eq!(unfinished(&history), ["c30"]);
    assert_eq!(calls(&history).len(), 30);
    for number in 0..=30 {
        assert!(content_of(&history, &noise(number, 9000)).unwrap() == noise(number, 9000));
    }
}
