//! Spools: no record is drained twice, and every loss of an acknowledged record is noted in the journal.

use std::fs;
use std::path::Path;

use windlass_core::{CallId, RecordKind};
use windlass_store::{
    BrokenRecord, DrainAtClose, JournalRow, RecordFault, Store, StoreSettings, StoredKind,
    VerifyError,
};

use crate::child::{Task, acknowledged, command};
use crate::common::{
    FINISHED, TestState, all_records, append, append_call, kinds_and_calls, record, session,
    test_time,
};

/// Opens a store that leaves few records in the spool when it is closed.
fn open_without_drain(state: &TestState) -> Store {
    let drain_at_close = DrainAtClose::WhenLarge;
    let settings = StoreSettings { clock: test_time, drain_at_close, ..StoreSettings::default() };
    Store::open_with(state.dir(), settings).unwrap()
}

/// One call in the database, and three more, `c0` to `c2`, in the spool of a dead writer.
fn state_with_filled_spool() -> TestState {
    let state = TestState::new();
    let store = state.open();
    append_call(&store, "s", "before");
    drop(store);
    for at in 0..3 {
        append_call(&open_without_drain(&state), "s", &format!("c{at}"));
    }
    assert!(size(&state, "writers/0") > 0);
    state
}

fn size(state: &TestState, name: &str) -> u64 {
    fs::metadata(state.file(name)).map_or(0, |found| found.len())
}

fn calls(rows: &[JournalRow]) -> Vec<&str> {
    rows.iter().filter_map(|row| row.call.as_ref().map(CallId::as_str)).collect()
}

const ALL_CALLS: [&str; 8] = ["before", "before", "c0", "c0", "c1", "c1", "c2", "c2"];

/// The bytes of a spool and its head, for restoring them.
struct SpoolFiles(Vec<(std::path::PathBuf, Vec<u8>)>);

impl SpoolFiles {
    fn of(state: &TestState) -> Self {
        let names = ["writers/0", "writers/0.head"].map(|name| state.file(name));
        Self(names.map(|path| (path.clone(), fs::read(&path).unwrap())).to_vec())
    }

    fn restore(&self) {
        for (path, bytes) in &self.0 {
            fs::write(path, bytes).unwrap();
        }
    }
}

#[test]
fn records_left_in_the_spool_are_seen_by_queries() {
    let state = state_with_filled_spool();
    let database = fs::read(state.file("journal.db-wal")).unwrap();
    append_call(&open_without_drain(&state), "s", "c3");
    assert_eq!(fs::read(state.file("journal.db-wal")).unwrap(), database);
    let store = Store::open_read_only(state.dir()).unwrap();
    assert_eq!(calls(&all_records(&store))[8..], ["c3", "c3"]);
    assert_eq!(store.verify().unwrap().records, 10);
    assert_eq!(store.session(&session("s")).unwrap().calls, 5);
    assert_eq!(fs::read(state.file("journal.db-wal")).unwrap(), database);
    let store = state.open();
    assert_eq!(store.verify().unwrap().records, 10);
    assert_eq!((size(&state, "writers/0"), size(&state, "writers/0.head")), (0, 0));
}

#[test]
fn closing_drains_without_a_database_or_with_a_large_spool() {
    let state = TestState::new();
    append_call(&open_without_drain(&state), "s", "first");
    assert!(size(&state, "journal.db") > 0);
    assert_eq!(size(&state, "writers/0"), 0);
    let mut long = record("s", "long", FINISHED);
    long.body = "x".repeat(33 << 10);
    let store = open_without_drain(&state);
    append(&store, long).unwrap();
    drop(store);
    assert_eq!(size(&state, "writers/0"), 0);
    assert_eq!(calls(&all_records(&state.open())), ["first", "first", "long"]);
}

#[test]
fn a_kill_before_the_spool_is_emptied_drains_no_record_twice() {
    let state = state_with_filled_spool();
    let spools = SpoolFiles::of(&state);
    for _ in 0..3 {
        let store = state.open();
        assert_eq!(calls(&all_records(&store)), ALL_CALLS);
        assert_eq!(store.verify().unwrap().records, 8);
        drop(store);
        spools.restore();
    }
    // A writer that takes over such a spool appends after the drained part.
    append_call(&open_without_drain(&state), "s", "more");
    let rows = all_records(&state.open());
    assert_eq!(calls(&rows)[..8], ALL_CALLS);
    assert_eq!(calls(&rows)[8..], ["more", "more"]);
}

#[test]
fn a_kill_between_emptying_the_spool_and_its_head_is_no_loss() {
    let state = state_with_filled_spool();
    let spools = SpoolFiles::of(&state);
    assert_eq!(all_records(&state.open()).len(), 8);
    spools.restore();
    fs::write(state.file("writers/0"), "").unwrap();
    append_call(&open_without_drain(&state), "s", "more");
    let store = state.open();
    assert_eq!(store.verify().unwrap().records, 10);
}

/// Checks that a spool with changed files has a noted loss, or that no record is missing.
fn check_changed(state: &TestState, what: &str) {
    let store = state.open();
    let rows = all_records(&store);
    match store.verify() {
        Ok(verified) => {
            assert_eq!(calls(&rows), ALL_CALLS, "{what}: not noticed");
            assert_eq!(verified.records, 8, "{what}");
        }
        Err(VerifyError::Broken(BrokenRecord { seq, fault, .. })) => {
            assert_eq!(fault, RecordFault::LossNoted, "{what}");
            let noted = rows.iter().find(|row| row.seq == seq).unwrap();
            assert_eq!(noted.kind, StoredKind::TailLost, "{what}");
            let body = noted.body.as_deref().unwrap();
            assert!(body.contains(r#""spool":0"#), "{what}: {body}");
        }
        Err(error) => panic!("{what}: {error}"),
    }
    let noted = rows.iter().filter(|row| row.kind == StoredKind::TailLost).count();
    assert!(noted <= 1, "{what}: {:?}", kinds_and_calls(&rows));
    let before = calls(&rows);
    assert!(ALL_CALLS.starts_with(before.as_slice()) || before == ALL_CALLS, "{what}: {before:?}");
    // The store still works, and the loss is noted once.
    append_call(&store, "s", "after");
    assert_eq!(all_records(&store).len(), rows.len() + 2, "{what}");
    drop(store);
    assert_eq!(all_records(&state.open()).len(), rows.len() + 2, "{what}");
}

/// Runs a check on a copy of the state for each change of a file.
fn for_each_change(name: &str, mut changes: impl FnMut(&[u8]) -> Vec<(String, Vec<u8>)>) {
    let original = state_with_filled_spool();
    let changes = changes(&fs::read(original.file(name)).unwrap());
    assert!(changes.len() > 50, "{}", changes.len());
    for (what, bytes) in changes {
        let state = TestState::new();
        copy_dir(original.dir(), state.dir());
        fs::write(state.file(name), bytes).unwrap();
        check_changed(&state, &format!("{name} {what}"));
    }
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn truncated(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let truncated = |at| (format!("cut at {at}"), bytes[..at].to_vec());
    (0..bytes.len()).step_by(stride(bytes)).map(truncated).collect()
}

fn with_flipped_bits(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let flip = |at: usize| {
        let mut changed = bytes.to_vec();
        changed[at] ^= 0x20;
        (format!("changed at {at}"), changed)
    };
    (0..bytes.len()).step_by(stride(bytes)).map(flip).collect()
}

/// Every byte of a small file; about a hundred bytes of a larger one, so that each frame is hit often.
fn stride(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(100)
}

#[test]
fn a_spool_cut_anywhere_is_a_noted_loss() {
    for_each_change("writers/0", truncated);
}

#[test]
fn a_spool_changed_anywhere_is_a_noted_loss() {
    for_each_change("writers/0", with_flipped_bits);
}

#[test]
fn a_head_cut_anywhere_is_detected() {
    for_each_change("writers/0.head", truncated);
}

#[test]
fn a_head_changed_anywhere_is_detected() {
    for_each_change("writers/0.head", with_flipped_bits);
}

#[test]
fn complete_frames_after_the_head_are_kept() {
    let state = state_with_filled_spool();
    let behind = fs::read(state.file("writers/0.head")).unwrap();
    let acknowledged = size(&state, "writers/0");
    append_call(&open_without_drain(&state), "s", "killed");
    let whole = fs::read(state.file("writers/0")).unwrap();
    for length in (acknowledged..=whole.len() as u64).step_by(7).chain([whole.len() as u64]) {
        let copy = TestState::new();
        copy_dir(state.dir(), copy.dir());
        fs::write(copy.file("writers/0"), &whole[..usize::try_from(length).unwrap()]).unwrap();
        fs::write(copy.file("writers/0.head"), &behind).unwrap();
        for taken_over in [false, true] {
            if taken_over {
                append_call(&open_without_drain(&copy), "s", "next");
            }
            let store = copy.open();
            store.verify().unwrap();
            let rows = all_records(&store);
            assert_eq!(calls(&rows)[..8], ALL_CALLS, "{length}");
            assert!(rows.iter().all(|row| row.kind != StoredKind::TailLost), "{length}");
        }
    }
}

#[test]
fn records_of_several_spools_are_in_the_order_of_time() {
    let state = TestState::new();
    let (first, second) = (state.open(), state.open());
    for at in 0..6 {
        let mut step = record("s", &format!("c{at}"), FINISHED);
        step.at += std::time::Duration::from_secs(at);
        append(if at % 2 == 0 { &first } else { &second }, step).unwrap();
    }
    assert!(state.file("writers/1").exists());
    assert_eq!(calls(&all_records(&second)), ["c0", "c1", "c2", "c3", "c4", "c5"]);
    assert_eq!(first.verify().unwrap().records, 6);
}

#[test]
fn the_spool_of_a_living_process_is_drained_while_it_writes() {
    let state = TestState::new();
    let mut child = command(Task::Endless, state.dir(), "p").spawn().unwrap();
    let mut safe = Vec::new();
    let mut lines = acknowledged(&mut child);
    let (one, other) = (state.open(), state.open());
    for _ in 0..20 {
        safe.extend(lines.by_ref().take(40));
        // Two stores drain at once.
        let counts = std::thread::scope(|scope| {
            let count = |store| scope.spawn(move || all_records(store).len());
            [count(&one), count(&other)].map(|thread| thread.join().unwrap())
        });
        assert!(counts.iter().all(|count| *count >= safe.len()), "{counts:?} {}", safe.len());
    }
    child.kill().unwrap();
    safe.extend(lines);
    child.wait().unwrap();
    let store = state.open();
    let rows = all_records(&store);
    let mut names: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {}", row.call.as_ref().unwrap(), row.kind.as_str()))
        .collect();
    assert_eq!(names[..safe.len()], safe);
    names.dedup();
    assert_eq!(names.len(), rows.len());
    assert_eq!(store.verify().unwrap().records, rows.len() as u64);
}

#[test]
fn a_large_spool_is_drained_and_emptied_while_its_owner_lives() {
    let state = TestState::new();
    let settings = StoreSettings { spool_limit: 64 << 10, ..StoreSettings::default() };
    let store = Store::open_with(state.dir(), settings).unwrap();
    append(&store, record("s", "open", RecordKind::Started)).unwrap();
    for at in 0..3000 {
        append_call(&store, "s", &format!("c{at:04}"));
    }
    store.close();
    assert!(size(&state, "writers/0") == 0);
    assert_eq!(store.verify().unwrap().records, 6002);
    let ends: Vec<_> = all_records(&store);
    assert_eq!(calls(&ends)[0], "open");
    assert_eq!(calls(&ends)[6001], "open", "the end of a call that its owner left open");
}
