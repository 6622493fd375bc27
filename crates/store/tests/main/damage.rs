//! Damaged and foreign files: a clear error for each, no change, and never a panic.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use windlass_core::RecordKind;
use windlass_store::{RecordFault, Store, StoreError, VerifyError, salvage};

use crate::common::{TestState, all_records, append, append_call, record};

/// A closed store with all of its records in `journal.db` itself.
fn closed_state(calls: u32) -> TestState {
    let state = TestState::new();
    let store = state.open();
    for at in 0..calls {
        append_call(&store, "s", &format!("c{at}"));
    }
    drop(store);
    let checkpoint = state.raw_connection();
    checkpoint.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    state
}

/// Opens a store and runs a query, because opening checks little.
fn open_and_query(dir: &Path) -> Result<u64, StoreError> {
    Store::open(dir)?.last_seq()
}

#[test]
fn a_damaged_database_is_refused_and_left_alone() {
    let whole = fs::read(closed_state(40).file("journal.db")).unwrap();
    let mut without_header = whole.clone();
    without_header[..16].fill(b'x');
    let cases: [(&str, Vec<u8>); 5] = [
        ("empty", Vec::new()),
        ("garbage", b"this is not a database, and long enough to tell. ".repeat(100)),
        ("no header", without_header),
        ("cut in half", whole[..whole.len() / 2].to_vec()),
        ("cut in the first page", whole[..1000].to_vec()),
    ];
    for (what, bytes) in cases {
        let state = TestState::new();
        fs::write(state.file("journal.db"), &bytes).unwrap();
        let error = open_and_query(state.dir()).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{what}: {error}");
        let text = error.to_string();
        for part in ["journal.db", "nothing was changed", "--state DIR"] {
            assert!(text.contains(part), "{what}: {text}");
        }
        assert_eq!(fs::read(state.file("journal.db")).unwrap(), bytes, "{what}");
        assert!(Store::open_read_only(state.dir()).is_err(), "{what}");
        salvage(state.dir(), |_| ()).unwrap();
    }
}

#[test]
fn a_cut_or_changed_database_never_panics_and_is_detected() {
    let state = closed_state(30);
    let (path, whole) = (state.file("journal.db"), fs::read(state.file("journal.db")).unwrap());
    let changed = (0..whole.len()).step_by(97).map(|at| {
        let mut changed = whole.clone();
        changed[at] ^= 0x41;
        changed
    });
    let cut = (0..whole.len()).step_by(512).map(|length| whole[..length].to_vec());
    for bytes in changed.chain(cut) {
        fs::write(&path, &bytes).unwrap();
        for name in ["journal.db-wal", "journal.db-shm"] {
            drop(fs::remove_file(state.file(name)));
        }
        let Ok(store) = Store::open(state.dir()) else { continue };
        let read = store.records(None, 0, usize::MAX);
        if store.verify().is_ok() {
            // The change was in unused space or in what is derived; the record is all there.
            assert_eq!(read.unwrap().len(), 60);
        }
    }
}

#[test]
fn a_cut_or_changed_wal_loses_later_records_and_that_is_detected() {
    let state = TestState::new();
    let store = state.open();
    for at in 0..5 {
        append_call(&store, "s", &format!("c{at}"));
        // A transaction for each.
        store.last_seq().unwrap();
    }
    drop(store);
    let files = ["journal.db", "journal.db-wal", "journal.head"].map(|name| state.file(name));
    let whole = files.each_ref().map(|file| fs::read(file).unwrap());
    let wal = &whole[1];
    assert!(wal.len() > 64 << 10, "{}", wal.len());
    let cut = (0..wal.len()).step_by(509).map(|length| wal[..length].to_vec());
    let changed = (0..wal.len()).step_by(509).map(|at| {
        let mut changed = wal.clone();
        changed[at] ^= 0x10;
        changed
    });
    for bytes in cut.chain(changed) {
        for (file, whole) in files.iter().zip(&whole) {
            fs::write(file, whole).unwrap();
        }
        fs::write(&files[1], bytes).unwrap();
        let store = state.open();
        match store.verify() {
            Ok(verified) => assert_eq!(verified.records, 10),
            // If a call was left without its end, opening wrote that, and noted the loss before it.
            Err(VerifyError::Broken(broken)) => {
                assert!(
                    matches!(broken.fault, RecordFault::CutOff(10) | RecordFault::LossNoted),
                    "{broken}"
                );
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn readable_records_of_a_damaged_database_are_salvaged() {
    let state = closed_state(200);
    let mut rows = Vec::new();
    let whole = salvage(state.dir(), |row| rows.push(row)).unwrap();
    assert_eq!((whole.records, whole.last_seq, whole.stopped), (400, 400, None));
    assert_eq!(rows, all_records(&state.open()));

    let path = state.file("journal.db");
    let mut bytes = fs::read(&path).unwrap();
    let body = br#"{"of":"c100"}"#;
    let place = bytes.windows(body.len()).position(|part| part == body);
    let page = place.unwrap() / 4096 * 4096;
    bytes[page..page + 4096].fill(0);
    fs::write(&path, bytes).unwrap();
    let mut last = 0;
    let part = salvage(state.dir(), |row| last = row.seq).unwrap();
    assert!((1..400).contains(&part.records), "{part:?}");
    assert_eq!(part.last_seq, last);
    assert!(part.stopped.is_some());
}

#[test]
fn databases_of_other_programs_and_versions_are_refused() {
    let state = TestState::new();
    state
        .raw_connection()
        .execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 9")
        .unwrap();
    let error = open_and_query(state.dir()).unwrap_err().to_string();
    assert!(error.contains("is a database of another program"), "{error}");

    let state = closed_state(1);
    state.raw_connection().execute_batch("PRAGMA user_version = 3").unwrap();
    let error = open_and_query(state.dir()).unwrap_err().to_string();
    assert!(error.contains("has layout 3") && error.contains("this one knows 2"), "{error}");
}

#[test]
fn a_copy_in_a_read_only_directory_can_be_read() {
    let copy = TestState::new();
    let dir = copy.file("odd ?name#100% ü");
    fs::create_dir(&dir).unwrap();
    let original = closed_state(3);
    // A call that was open when the copy was made, by a writer that is not there.
    let store = original.open();
    append(&store, record("s", "open", RecordKind::Started)).unwrap();
    assert_eq!(store.last_seq().unwrap(), 7);
    original.raw_connection().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    for name in ["journal.db", "journal.head"] {
        fs::copy(original.file(name), dir.join(name)).unwrap();
    }
    set_mode(&dir, 0o500);
    let records = without_privileges(|| {
        let store = Store::open_read_only(&dir).unwrap();
        assert_eq!(all_records(&store).len(), 7);
        store.verify().unwrap().records
    });
    assert_eq!(records, 7);
    set_mode(&dir, 0o700);
}

#[test]
fn errors_name_paths_that_cannot_be_written() {
    let read_only_directory = closed_state(1);
    set_mode(read_only_directory.dir(), 0o500);
    let read_only_file = closed_state(1);
    set_mode(&read_only_file.file("journal.db"), 0o400);
    let closed_file = closed_state(1);
    set_mode(&closed_file.file("journal.db"), 0o000);
    let closed_head = closed_state(1);
    set_mode(&closed_head.file("journal.head"), 0o000);
    let closed_spools = closed_state(1);
    set_mode(&closed_spools.file("writers"), 0o500);
    set_mode(&closed_spools.file("writers/0"), 0o400);
    set_mode(&closed_spools.file("writers/0.head"), 0o400);
    let no_directory = TestState::new();
    set_mode(no_directory.dir(), 0o500);
    let new = no_directory.file("new");
    let file = TestState::new();
    fs::write(file.file("file"), "").unwrap();
    let in_a_file = file.file("file").join("state");
    let directory = TestState::new();
    fs::create_dir(directory.file("journal.db")).unwrap();
    let cases = [
        ("closed file", closed_file.dir()),
        ("closed head", closed_head.dir()),
        ("closed spools", closed_spools.dir()),
        ("no directory", &new),
        ("in a file", &in_a_file),
        ("a directory in its place", directory.dir()),
    ];
    for (what, dir) in cases {
        let error = without_privileges(|| {
            let store = Store::open(dir).map_err(|error| error.to_string())?;
            // Errors that opening does not find are returned by the first record or query.
            append(&store, record("s", "c", RecordKind::Started)).map_err(|error| error.0)?;
            store.verify().map_err(|error| error.to_string())
        })
        .expect_err(what);
        assert!(error.contains(&dir.display().to_string()), "{what}: {error}");
        assert!(error.contains("--state DIR"), "{what}: {error}");
    }
    for state in [&read_only_directory, &read_only_file] {
        let read =
            without_privileges(|| all_records(&Store::open_read_only(state.dir()).unwrap()).len());
        assert_eq!(read, 2);
        // The database cannot be written, but the spool can; and all of it can be read.
        let read = without_privileges(|| {
            let store = Store::open(state.dir()).unwrap();
            append_call(&store, "s", "spooled");
            assert_eq!(store.verify().unwrap().records, 4);
            drop(store);
            all_records(&Store::open_read_only(state.dir()).unwrap()).len()
        });
        assert_eq!(read, 4);
    }
    set_mode(read_only_directory.dir(), 0o700);
    assert_eq!(all_records(&read_only_directory.open()).len(), 4);
    set_mode(&closed_spools.file("writers"), 0o700);
    set_mode(no_directory.dir(), 0o700);
    append_call(&read_only_directory.open(), "s", "c2");
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs on a thread without the capabilities that bypass permissions, so that permissions also apply to root.
fn without_privileges<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            set_capabilities(None, sets).unwrap();
            run()
        });
        thread.join().unwrap()
    })
}
