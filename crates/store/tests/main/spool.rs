//! Spools: nothing of them is drained twice, and nothing that was acknowledged is missing from them without being put on record.

use std::fs;
use std::path::Path;

use windlass_core::{CallId, RecordKind};
use windlass_store::{Broken, DrainAtClose, Fault, JournalRow, Kind, Settings, Store, VerifyError};

use crate::child::{Task, acknowledged, command};
use crate::common::{FINISHED, State, all, append, call, moment, record, session, told};

/// A store that leaves its records in the spool when it is closed.
fn brief(state: &State) -> Store {
    let drain_at_close = DrainAtClose::WhenLarge;
    let settings = Settings { clock: moment, drain_at_close, ..Settings::default() };
    Store::open_with(state.dir(), settings).unwrap()
}

/// Two calls in the database, and three more, `c0` to `c2`, in the spool of a writer that is gone.
fn spooled() -> State {
    let state = State::new();
    let store = state.open();
    call(&store, "s", "before");
    drop(store);
    for at in 0..3 {
        call(&brief(&state), "s", &format!("c{at}"));
    }
    assert!(size(&state, "writers/0") > 0);
    state
}

fn size(state: &State, name: &str) -> u64 {
    fs::metadata(state.file(name)).map_or(0, |found| found.len())
}

fn calls(rows: &[JournalRow]) -> Vec<&str> {
    rows.iter().filter_map(|row| row.call.as_ref().map(CallId::as_str)).collect()
}

const ALL: [&str; 8] = ["before", "before", "c0", "c0", "c1", "c1", "c2", "c2"];

/// All files of a state directory but the database, to put back.
struct Spools(Vec<(std::path::PathBuf, Vec<u8>)>);

impl Spools {
    fn of(state: &State) -> Self {
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
fn a_brief_store_leaves_its_records_to_whoever_looks_back() {
    let state = spooled();
    let database = fs::read(state.file("journal.db-wal")).unwrap();
    call(&brief(&state), "s", "c3");
    assert_eq!(fs::read(state.file("journal.db-wal")).unwrap(), database);
    let store = Store::open_read_only(state.dir()).unwrap();
    assert_eq!(calls(&all(&store))[8..], ["c3", "c3"]);
    assert_eq!(store.verify().unwrap().records, 10);
    assert_eq!(store.session(&session("s")).unwrap().calls, 5);
    assert_eq!(fs::read(state.file("journal.db-wal")).unwrap(), database);
    let store = state.open();
    assert_eq!(store.verify().unwrap().records, 10);
    assert_eq!((size(&state, "writers/0"), size(&state, "writers/0.head")), (0, 0));
}

#[test]
fn a_brief_store_drains_when_there_is_no_database_or_much_in_the_spool() {
    let state = State::new();
    call(&brief(&state), "s", "first");
    assert!(size(&state, "journal.db") > 0);
    assert_eq!(size(&state, "writers/0"), 0);
    let mut long = record("s", "long", FINISHED);
    long.body = "x".repeat(33 << 10);
    let store = brief(&state);
    append(&store, long).unwrap();
    drop(store);
    assert_eq!(size(&state, "writers/0"), 0);
    assert_eq!(calls(&all(&state.open())), ["first", "first", "long"]);
}

#[test]
fn a_kill_before_the_spool_was_emptied_drains_nothing_twice() {
    let state = spooled();
    let spools = Spools::of(&state);
    for _ in 0..3 {
        let store = state.open();
        assert_eq!(calls(&all(&store)), ALL);
        assert_eq!(store.verify().unwrap().records, 8);
        drop(store);
        spools.restore();
    }
    // A writer that takes such a spool over goes on after what is drained.
    call(&brief(&state), "s", "more");
    let rows = all(&state.open());
    assert_eq!(calls(&rows)[..8], ALL);
    assert_eq!(calls(&rows)[8..], ["more", "more"]);
}

#[test]
fn a_kill_between_emptying_the_spool_and_its_head_is_no_loss() {
    let state = spooled();
    let spools = Spools::of(&state);
    assert_eq!(all(&state.open()).len(), 8);
    spools.restore();
    fs::write(state.file("writers/0"), "").unwrap();
    call(&brief(&state), "s", "more");
    let store = state.open();
    assert_eq!(store.verify().unwrap().records, 10);
}

/// What becomes of a spool whose files were changed: a loss on the record, or nothing missing at all.
fn check_changed(state: &State, what: &str) {
    let store = state.open();
    let rows = all(&store);
    match store.verify() {
        Ok(verified) => {
            assert_eq!(calls(&rows), ALL, "{what}: not noticed");
            assert_eq!(verified.records, 8, "{what}");
        }
        Err(VerifyError::Broken(Broken { seq, fault, .. })) => {
            assert_eq!(fault, Fault::LossNoted, "{what}");
            let noted = rows.iter().find(|row| row.seq == seq).unwrap();
            assert_eq!(noted.kind, Kind::TailLost, "{what}");
            let body = noted.body.as_deref().unwrap();
            assert!(body.contains(r#""spool":0"#), "{what}: {body}");
        }
        Err(error) => panic!("{what}: {error}"),
    }
    let noted = rows.iter().filter(|row| row.kind == Kind::TailLost).count();
    assert!(noted <= 1, "{what}: {:?}", told(&rows));
    let before = calls(&rows);
    assert!(ALL.starts_with(before.as_slice()) || before == ALL, "{what}: {before:?}");
    // It goes on, and the loss is noted once.
    call(&store, "s", "after");
    assert_eq!(all(&store).len(), rows.len() + 2, "{what}");
    drop(store);
    assert_eq!(all(&state.open()).len(), rows.len() + 2, "{what}");
}

/// Runs a check on a copy of the state for each change of a file.
fn for_each_change(name: &str, mut changes: impl FnMut(&[u8]) -> Vec<(String, Vec<u8>)>) {
    let original = spooled();
    let changes = changes(&fs::read(original.file(name)).unwrap());
    assert!(changes.len() > 50, "{}", changes.len());
    for (what, bytes) in changes {
        let state = State::new();
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

fn cut(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let cut = |at| (format!("cut at {at}"), bytes[..at].to_vec());
    (0..bytes.len()).step_by(stride(bytes)).map(cut).collect()
}

fn flipped(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let flip = |at: usize| {
        let mut changed = bytes.to_vec();
        changed[at] ^= 0x20;
        (format!("changed at {at}"), changed)
    };
    (0..bytes.len()).step_by(stride(bytes)).map(flip).collect()
}

/// Every byte of a small file; of a larger one so many that each frame is hit often. That every byte counts is tested below.
fn stride(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(100)
}

#[test]
fn a_spool_cut_anywhere_is_a_loss_on_the_record() {
    for_each_change("writers/0", cut);
}

#[test]
fn a_spool_changed_anywhere_is_a_loss_on_the_record() {
    for_each_change("writers/0", flipped);
}

#[test]
fn a_head_cut_anywhere_is_noticed() {
    for_each_change("writers/0.head", cut);
}

#[test]
fn a_head_changed_anywhere_is_noticed() {
    for_each_change("writers/0.head", flipped);
}

#[test]
fn what_was_written_after_the_head_counts_if_it_is_whole() {
    let state = spooled();
    let behind = fs::read(state.file("writers/0.head")).unwrap();
    let acknowledged = size(&state, "writers/0");
    call(&brief(&state), "s", "killed");
    let whole = fs::read(state.file("writers/0")).unwrap();
    for length in (acknowledged..=whole.len() as u64).step_by(7).chain([whole.len() as u64]) {
        let copy = State::new();
        copy_dir(state.dir(), copy.dir());
        fs::write(copy.file("writers/0"), &whole[..usize::try_from(length).unwrap()]).unwrap();
        fs::write(copy.file("writers/0.head"), &behind).unwrap();
        for taken_over in [false, true] {
            if taken_over {
                call(&brief(&copy), "s", "next");
            }
            let store = copy.open();
            store.verify().unwrap();
            let rows = all(&store);
            assert_eq!(calls(&rows)[..8], ALL, "{length}");
            assert!(rows.iter().all(|row| row.kind != Kind::TailLost), "{length}");
        }
    }
}

#[test]
fn records_of_several_spools_are_in_the_order_of_time() {
    let state = State::new();
    let (first, second) = (state.open(), state.open());
    for at in 0..6 {
        let mut step = record("s", &format!("c{at}"), FINISHED);
        step.at += std::time::Duration::from_secs(at);
        append(if at % 2 == 0 { &first } else { &second }, step).unwrap();
    }
    assert!(state.file("writers/1").exists());
    assert_eq!(calls(&all(&second)), ["c0", "c1", "c2", "c3", "c4", "c5"]);
    assert_eq!(first.verify().unwrap().records, 6);
}

#[test]
fn the_spool_of_a_living_process_is_drained_while_it_writes() {
    let state = State::new();
    let mut child = command(Task::Endless, state.dir(), "p").spawn().unwrap();
    let mut safe = Vec::new();
    let mut told = acknowledged(&mut child);
    let (one, other) = (state.open(), state.open());
    for _ in 0..20 {
        safe.extend(told.by_ref().take(40));
        // Two drainers at once.
        let counts = std::thread::scope(|scope| {
            let count = |store| scope.spawn(move || all(store).len());
            [count(&one), count(&other)].map(|thread| thread.join().unwrap())
        });
        assert!(counts.iter().all(|count| *count >= safe.len()), "{counts:?} {}", safe.len());
    }
    child.kill().unwrap();
    safe.extend(told);
    child.wait().unwrap();
    let store = state.open();
    let rows = all(&store);
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
    let state = State::new();
    let settings = Settings { spool_limit: 64 << 10, ..Settings::default() };
    let store = Store::open_with(state.dir(), settings).unwrap();
    append(&store, record("s", "open", RecordKind::Started)).unwrap();
    for at in 0..3000 {
        call(&store, "s", &format!("c{at:04}"));
    }
    store.close();
    assert!(size(&state, "writers/0") == 0);
    assert_eq!(store.verify().unwrap().records, 6002);
    let ends: Vec<_> = all(&store);
    assert_eq!(calls(&ends)[0], "open");
    assert_eq!(calls(&ends)[6001], "open", "the end of a call that its owner left open");
}
