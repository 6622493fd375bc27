//! Damaged files of the history: an error with the file and the next step, and never a panic.

use std::fs;

use windlass_core::{ContentHash, History as _};
use windlass_store::{HistorySettings, UndoHistory};

use super::common::{calls, change, noise, open, settings, slot, workspace};
use crate::common::TestState;

/// A slot with two checkpoints, not drained.
fn state_with_two_checkpoints() -> (TestState, Vec<u8>) {
    let state = TestState::new();
    let history = open(&state);
    change(1, b"one", &noise(1, 5000)).make(&history);
    let mut edited = noise(1, 5000);
    edited[2500] ^= 1;
    change(2, &noise(1, 5000), &edited).make(&history);
    drop(history);
    let whole = fs::read(slot(&state, 0)).unwrap();
    (state, whole)
}

#[test]
fn a_slot_that_is_changed_or_cut_anywhere_is_an_error_that_says_what_to_do() {
    let (state, whole) = state_with_two_checkpoints();
    let texts = [b"one".to_vec(), noise(1, 5000)];
    let changed = (0..whole.len()).step_by(61).map(|at| {
        let mut changed = whole.clone();
        changed[at] ^= 0x08;
        changed
    });
    let cut = (1..whole.len()).step_by(397).map(|length| whole[..length].to_vec());
    for bytes in changed.chain(cut) {
        fs::write(slot(&state, 0), &bytes).unwrap();
        for name in ["undo/undo.db", "undo/undo.db-wal", "undo/undo.db-shm"] {
            drop(fs::remove_file(state.file(name)));
        }
        let history = open(&state);
        let Err(error) = history.checkpoints(&workspace("/w")) else {
            // The damage is in a content, not in a checkpoint.
            let mut lost = texts.iter().map(|text| history.content(&ContentHash::of(text)));
            let error = lost.find_map(Result::err);
            assert!(error.is_none_or(|error| error.to_string().contains("damaged on the disk")));
            continue;
        };
        let error = error.to_string();
        for part in ["writers/0.damaged-1 is damaged", "it was renamed to this name", "Try again"] {
            assert!(error.contains(part), "{error}");
        }
        // The damage is reported once, and other slots still work.
        change(3, b"x", b"y").make(&history);
        let found = calls(&history);
        assert!(found == ["c3"] || found == ["c3", "c1"], "{found:?}");
        assert!(history.unfinished().unwrap().is_empty());
        assert_eq!(fs::read(state.file("undo/writers/0.damaged-1")).unwrap(), bytes);
        drop(history);
        fs::remove_file(state.file("undo/writers/0.damaged-1")).unwrap();
    }
}

#[test]
fn damage_of_a_content_in_a_slot_loses_only_that_content() {
    let (state, whole) = state_with_two_checkpoints();
    let at = whole.windows(3).rposition(|part| part == b"one").unwrap();
    let mut changed = whole;
    changed[at] ^= 1;
    fs::write(slot(&state, 0), &changed).unwrap();
    let history = open(&state);
    assert_eq!(calls(&history), ["c2", "c1"]);
    let error = history.content(&ContentHash::of(b"one")).unwrap_err().to_string();
    assert!(error.contains("damaged on the disk"), "{error}");
    assert!(history.content(&ContentHash::of(&noise(1, 5000))).is_ok());
    // The same content can be recorded again.
    change(3, b"one", b"two").make(&history);
    assert_eq!(calls(&history), ["c3", "c2", "c1"]);
    drop(history);
    assert_eq!(open(&state).content(&ContentHash::of(b"one")).unwrap(), b"one");
}

#[test]
fn a_damaged_slot_with_a_living_owner_is_reported_every_time() {
    let (state, _) = state_with_two_checkpoints();
    let owner = open(&state);
    let pending = change(3, b"x", b"y").record(&owner).unwrap();
    let mut changed = fs::read(slot(&state, 0)).unwrap();
    changed[100] ^= 1;
    fs::write(slot(&state, 0), &changed).unwrap();
    for _ in 0..2 {
        let error = open(&state).checkpoints(&workspace("/w")).unwrap_err().to_string();
        assert!(error.contains("writers/0 is damaged") && error.contains("Move it"), "{error}");
    }
    pending.finish().unwrap();
}

#[test]
fn a_database_that_is_changed_or_cut_never_panics_and_gives_no_wrong_bytes() {
    let state = TestState::new();
    let texts: Vec<Vec<u8>> =
        (0..30_u64).map(|number| format!("text {number} ").repeat(100).into_bytes()).collect();
    {
        let history =
            UndoHistory::open_with(state.dir(), HistorySettings { slot_limit: 0, ..settings() })
                .unwrap();
        for (number, pair) in texts.windows(2).enumerate() {
            change(number as u64, &pair[0], &pair[1]).make(&history);
        }
    }
    let path = state.file("undo/undo.db");
    let checkpoint = rusqlite::Connection::open(&path).unwrap();
    checkpoint.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(checkpoint);
    let whole = fs::read(&path).unwrap();
    let changed = (0..whole.len()).step_by(331).map(|at| {
        let mut changed = whole.clone();
        changed[at] ^= 0x41;
        changed
    });
    let cut = (0..whole.len()).step_by(2048).map(|length| whole[..length].to_vec());
    for bytes in changed.chain(cut) {
        fs::write(&path, &bytes).unwrap();
        for name in ["undo/undo.db-wal", "undo/undo.db-shm"] {
            drop(fs::remove_file(state.file(name)));
        }
        let history = open(&state);
        drop(history.checkpoints(&workspace("/w")));
        drop(history.status());
        for text in &texts {
            if let Ok(found) = history.content(&ContentHash::of(text)) {
                assert!(found == *text);
            }
        }
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    for bytes in [Vec::new(), b"this is not a database, and long enough to tell. ".repeat(100)] {
        let state = TestState::new();
        let history = open(&state);
        change(1, b"a", b"b").make(&history);
        fs::write(state.file("undo/undo.db"), &bytes).unwrap();
        let error = history.checkpoints(&workspace("/w")).unwrap_err().to_string();
        for part in ["undo.db is damaged", "Move undo.db, undo.db-wal"] {
            assert!(error.contains(part), "{error}");
        }
        change(2, b"b", b"c").make(&history);
        assert_eq!(fs::read(state.file("undo/undo.db")).unwrap(), bytes);
        fs::remove_file(state.file("undo/undo.db")).unwrap();
        assert_eq!(calls(&history), ["c2", "c1"]);
    }
}

#[test]
fn an_object_that_is_missing_or_changed_is_an_error_that_names_it() {
    let state = TestState::new();
    let settings = || HistorySettings { large: 1000, slot_limit: 0, ..settings() };
    let large = noise(5, 4000);
    change(1, b"a", &large).make(&UndoHistory::open_with(state.dir(), settings()).unwrap());
    let name = ContentHash::of(&large).to_string();
    let path = state.file("undo/objects").join(&name[..2]).join(&name);
    let history = UndoHistory::open_with(state.dir(), settings()).unwrap();
    fs::write(&path, &large[1..]).unwrap();
    let changed = history.content(&ContentHash::of(&large)).unwrap_err().to_string();
    fs::remove_file(&path).unwrap();
    let missing = history.content(&ContentHash::of(&large)).unwrap_err().to_string();
    assert!(changed.contains("damaged"), "{changed}");
    assert!(missing.contains(&name) && missing.contains("not there any more"), "{missing}");
}
