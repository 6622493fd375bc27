//! Finished checkpoints are found by every query, and contents by their hash.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use windlass_core::{
    CallId, CheckpointQuery, ContentHash, ContentSource, History as _, HistoryError, NewCheckpoint,
    NewContent, SessionId, TurnId,
};
use windlass_store::{HistorySettings, UndoHistory};

use super::common::{
    Change, calls, change, content, content_of, names, noise, open, origin, settings, slot, undo,
    workspace,
};
use crate::common::{TestState, session, test_time};

#[test]
fn opening_and_querying_creates_no_files() {
    let state = TestState::new();
    let history = open(&state);
    assert!(history.unfinished().unwrap().is_empty());
    assert!(calls(&history).is_empty());
    assert_eq!(history.status().unwrap().checkpoints, 0);
    history.forget_session(&session("s")).unwrap();
    history.content(&ContentHash::of(b"x")).unwrap_err();
    drop(history);
    assert_eq!(fs::read_dir(state.dir()).unwrap().count(), 0);
}

#[test]
fn a_checkpoint_is_listed_only_once_it_is_finished() {
    let state = TestState::new();
    let history = open(&state);
    let kept = change(1, b"before", b"after");
    let pending = kept.record(&history).unwrap();
    assert!(calls(&history).is_empty());
    assert!(history.unfinished().unwrap().is_empty(), "its writer lives");
    pending.finish().unwrap();
    let found = history.checkpoints(&workspace("/w")).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].origin, &found[0].changes), (&kept.origin, &kept.changes()));
    assert_eq!(content_of(&history, b"before").unwrap(), b"before");
    assert_eq!(content_of(&history, b"after").unwrap(), b"after");

    change(2, b"after", b"never").record(&history).unwrap().abandon().unwrap();
    assert_eq!(calls(&history), ["c1"]);
    content_of(&history, b"never").unwrap_err();
    assert!(history.unfinished().unwrap().is_empty());
    change(3, b"after", b"third").make(&history);
    assert_eq!(calls(&history), ["c3", "c1"]);
}

#[test]
fn all_files_are_readable_by_their_owner_only() {
    let state = TestState::new();
    let history = open(&state);
    change(1, b"a", b"b").make(&history);
    let large = noise(1, 5 << 20);
    change(2, b"b", &large).make(&history);
    calls(&history);
    let mut directories = vec![state.file("undo")];
    let mut count = 0;
    while let Some(directory) = directories.pop() {
        assert_eq!(mode(&directory), 0o700, "{}", directory.display());
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 4);
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn each_query_finds_its_checkpoints() {
    let state = TestState::new();
    let history = open(&state);
    for number in 0..6_usize {
        let (session, workspace) = (["s", "r"][number % 2], ["/w", "/v"][number / 3]);
        change(number as u64, b"", b"").of(session, workspace).make(&history);
    }
    let cases: [(CheckpointQuery, &[&str]); 9] = [
        (CheckpointQuery::Call(CallId::new("c4")), &["c4"]),
        (CheckpointQuery::Call(CallId::new("c")), &[]),
        (CheckpointQuery::Turn(TurnId::new("t1")), &["c5", "c4", "c3"]),
        (CheckpointQuery::Session(SessionId::new("s")), &["c4", "c2", "c0"]),
        (CheckpointQuery::Session(SessionId::new("unknown")), &[]),
        (workspace("/v"), &["c5", "c4", "c3"]),
        (workspace("/"), &[]),
        (CheckpointQuery::LastOfSession(SessionId::new("s")), &["c4"]),
        (CheckpointQuery::LastOfWorkspace("/w".into()), &["c2"]),
    ];
    for (query, expected) in cases {
        assert_eq!(names(&history.checkpoints(&query).unwrap()), expected, "{query:?}");
    }
}

#[test]
fn an_undo_is_in_effect_until_it_is_undone() {
    let state = TestState::new();
    let history = open(&state);
    for number in 0..3 {
        change(number, b"", b"").make(&history);
    }
    let undone = |history: &UndoHistory| {
        let found = history.checkpoints(&workspace("/w")).unwrap();
        let by = |checkpoint: &windlass_core::Checkpoint| {
            checkpoint.undone_by.as_ref().map_or("-".to_owned(), ToString::to_string)
        };
        let last = history.checkpoints(&CheckpointQuery::LastOfWorkspace("/w".into())).unwrap();
        (found.iter().map(by).collect::<Vec<_>>().join(" "), names(&last).join(" "))
    };
    let steps: [(u64, &[u64], &str, &str); 6] = [
        (3, &[2], "- c3 - -", "c1"),
        (4, &[1], "- - c3 c4 -", "c0"),
        (5, &[4], "- c5 - c3 - -", "c1"),
        (6, &[5], "- c6 - - c3 c4 -", "c0"),
        (7, &[0, 1, 2], "- - c6 - - c7 c7 c7", ""),
        (8, &[7], "- c8 - c6 - - - - -", "c2"),
    ];
    for (number, undoes, expected, last) in steps {
        undo(number, undoes).make(&history);
        assert_eq!(undone(&history), (expected.to_owned(), last.to_owned()), "{number}");
    }
    // Rings of undos cannot come from this program, but must not hang.
    undo(9, &[9]).make(&history);
    undo(10, &[11]).make(&history);
    undo(11, &[10]).make(&history);
    undone(&history);
}

#[test]
fn the_last_step_has_all_checkpoints_of_its_call() {
    let state = TestState::new();
    let history = open(&state);
    change(1, b"", b"").make(&history);
    for part in 0..3 {
        let mut again = change(2, b"", b"");
        again.origin.at += std::time::Duration::from_millis(part);
        again.make(&history);
    }
    change(2, b"", b"").of("other", "/elsewhere").make(&history);
    let last = history.checkpoints(&CheckpointQuery::LastOfWorkspace("/w".into())).unwrap();
    assert_eq!(names(&last), ["c2", "c2", "c2"]);
    assert!(last.windows(2).all(|pair| pair[0].origin.at > pair[1].origin.at));
}

#[test]
fn the_order_is_that_of_recording_when_the_clock_stands_still_or_goes_back() {
    let state = TestState::new();
    let history = open(&state);
    for number in 0..20 {
        let at = test_time() - std::time::Duration::from_secs(number / 5);
        change(number, b"", b"").at(at).make(&history);
    }
    let expected: Vec<String> = (0..20).rev().map(|number| format!("c{number}")).collect();
    assert_eq!(calls(&history), expected);
    let found = history.checkpoints(&workspace("/w")).unwrap();
    assert_eq!(found[19].origin.at, test_time(), "the origin is as it was given");
}

#[test]
fn many_small_edits_of_a_large_file_take_little_space() {
    let state = TestState::new();
    let history =
        UndoHistory::open_with(state.dir(), HistorySettings { slot_limit: u64::MAX, ..settings() })
            .unwrap();
    let mut texts = vec![noise(7, 100_000)];
    for number in 1..=100_u64 {
        let mut next = texts.last().unwrap().clone();
        let place = usize::try_from(number * 7919).unwrap() % next.len();
        next.splice(place..place + 3, *b"edited");
        change(number, texts.last().unwrap(), &next).make(&history);
        texts.push(next);
    }
    let slot_size = fs::metadata(slot(&state, 0)).unwrap().len();
    assert!(slot_size < 900_000, "{slot_size}");
    for text in &texts {
        assert!(content_of(&history, text).unwrap() == *text);
    }
    drop(history);
    let history = open(&state);
    for text in &texts {
        assert!(content_of(&history, text).unwrap() == *text);
    }
    assert!(history.status().unwrap().bytes < 900_000);
}

#[test]
fn chains_of_deltas_stay_short_over_many_processes() {
    let state = TestState::new();
    let mut text = noise(8, 50_000);
    let mut all = vec![text.clone()];
    for number in 0..60_u8 {
        let history = open(&state);
        let old = text.clone();
        text[usize::from(number) * 11] ^= 1;
        change(number.into(), &old, &text).make(&history);
        calls(&history);
        all.push(text.clone());
    }
    let connection = rusqlite::Connection::open(state.file("undo/undo.db")).unwrap();
    let depth: u32 =
        connection.query_row("SELECT max(depth) FROM contents", [], |row| row.get(0)).unwrap();
    assert_eq!(depth, 16);
    let history = open(&state);
    for text in &all {
        assert!(content_of(&history, text).unwrap() == *text);
    }
}

#[test]
fn large_contents_have_files_of_their_own_and_are_kept_once() {
    let state = TestState::new();
    let settings = || HistorySettings { large: 1000, slot_limit: 500, ..settings() };
    let history = UndoHistory::open_with(state.dir(), settings()).unwrap();
    let (incompressible, text) = (noise(3, 5000), b"all the same ".repeat(1000));
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&text).unwrap();
    for number in 0..4 {
        record_with_file(&history, number, &incompressible, &file, &text).unwrap();
    }
    drop(history);
    let history = UndoHistory::open_with(state.dir(), settings()).unwrap();
    assert_eq!(calls(&history), ["c3", "c2", "c1", "c0"]);
    assert!(content_of(&history, &incompressible).unwrap() == incompressible);
    assert!(content_of(&history, &text).unwrap() == text);
    let mut names = object_names(&state);
    names.sort();
    let mut expected = [
        format!("{}", ContentHash::of(&incompressible)),
        format!("{}.zst", ContentHash::of(&text)),
    ];
    expected.sort();
    assert_eq!(names, expected);
    // An edit of one is a delta.
    let mut edited = incompressible.clone();
    edited[17] ^= 1;
    change(5, &incompressible, &edited).make(&history);
    drop(history);
    let history = UndoHistory::open_with(state.dir(), settings()).unwrap();
    assert!(content_of(&history, &edited).unwrap() == edited);
    assert_eq!(object_names(&state).len(), 2);
}

#[test]
fn a_file_that_changes_while_it_is_saved_is_refused() {
    for length in [10, 5000] {
        let state = TestState::new();
        let settings = HistorySettings { large: 1000, ..settings() };
        let history = UndoHistory::open_with(state.dir(), settings).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&noise(1, length)).unwrap();
        let refused = record_with_file(&history, 1, b"a", &file, &noise(2, length)).unwrap_err();
        assert!(refused.to_string().contains("was changed at the same time"), "{refused}");
        assert!(history.unfinished().unwrap().is_empty());
        change(2, b"a", b"b").make(&history);
        assert_eq!(calls(&history), ["c2"]);
    }
}

fn record_with_file(
    history: &UndoHistory,
    number: u64,
    before: &[u8],
    file: &File,
    after: &[u8],
) -> Result<(), HistoryError> {
    let change =
        Change { origin: origin(number), before: Some(before.into()), after: Some(after.into()) };
    let before = content(before, None);
    let after =
        NewContent { hash: ContentHash::of(after), source: ContentSource::File(file), base: None };
    let (changes, contents) = (change.changes(), [before, after]);
    let new = NewCheckpoint {
        origin: &change.origin,
        changes: &changes,
        contents: &contents,
        without_history: &[],
    };
    history.record(&new)?.finish()
}

pub(crate) fn object_names(state: &TestState) -> Vec<String> {
    let shelves = fs::read_dir(state.file("undo/objects")).unwrap();
    let shelves = shelves.map(|shelf| shelf.unwrap().path()).filter(|shelf| shelf.is_dir());
    let files = shelves.flat_map(|shelf| fs::read_dir(shelf).unwrap());
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_session_can_be_forgotten() {
    let state = TestState::new();
    let history =
        UndoHistory::open_with(state.dir(), HistorySettings { large: 1000, ..settings() }).unwrap();
    let (secret, large_secret) = (b"a secret of some length".repeat(3), noise(9, 3000));
    change(1, b"shared", &secret).of("gone", "/w").make(&history);
    change(2, &secret, &large_secret).of("gone", "/w").make(&history);
    change(3, b"shared", b"other").of("kept", "/w").make(&history);
    undo(4, &[3]).of("gone", "/w").make(&history);
    history.forget_session(&session("gone")).unwrap();
    assert_eq!(calls(&history), ["c3"]);
    assert!(history.checkpoints(&workspace("/w")).unwrap()[0].undone_by.is_none());
    assert_eq!(content_of(&history, b"shared").unwrap(), b"shared");
    assert!(matches!(content_of(&history, &secret), Err(HistoryError::Dropped(_))));
    assert!(object_names(&state).is_empty());
    drop(history);
    for name in ["undo/undo.db", "undo/undo.db-wal", "undo/writers/0"] {
        let bytes = fs::read(state.file(name)).unwrap_or_default();
        assert!(!bytes.windows(23).any(|part| part == &secret[..23]), "{name}");
    }
}

#[test]
fn ten_thousand_checkpoints_are_kept_in_order() {
    let state = TestState::new();
    let history = open(&state);
    for number in 0..10_000 {
        let text = |number: u64| format!("the text of {number}").into_bytes();
        change(number, &text(number), &text(number + 1)).make(&history);
    }
    let found = history.checkpoints(&workspace("/w")).unwrap();
    assert_eq!(found.len(), 10_000);
    assert!(found.windows(2).all(|pair| pair[0].origin.at > pair[1].origin.at));
    let status = history.status().unwrap();
    assert_eq!((status.checkpoints, status.oldest), (10_000, Some(test_time())));
    drop(history);
    let history = open(&state);
    assert_eq!(calls(&history).len(), 10_000);
    assert_eq!(content_of(&history, b"the text of 5000").unwrap(), b"the text of 5000");
}
