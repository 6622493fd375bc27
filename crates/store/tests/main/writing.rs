//! Writing records: their order, dropped futures, limits, and errors.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use windlass_core::{CallId, Journal as _, Outcome, RecordKind};
use windlass_store::{Store, StoreSettings};

use crate::common::{
    FINISHED, TestState, all_records, append, append_call, block_on, kinds_and_calls, record,
    session,
};

#[test]
fn records_are_read_as_they_were_written() {
    let state = TestState::new();
    let store = state.open();
    let mut denied = record("s1", "c2", RecordKind::Finished(Outcome::Denied));
    denied.body = "not JSON \0 ü".into();
    let written = [record("s1", "c1", RecordKind::Started), record("s1", "c1", FINISHED), denied];
    for record in &written {
        append(&store, record.clone()).unwrap();
    }
    let read = all_records(&store);
    assert_eq!(read.len(), written.len());
    for (at, (row, record)) in read.iter().zip(&written).enumerate() {
        assert_eq!(row.seq, at as u64 + 1);
        assert_eq!(row.at, record.at);
        assert_eq!(row.session.as_ref(), Some(&record.session));
        assert_eq!(row.turn.as_ref(), Some(&record.turn));
        assert_eq!(row.call.as_ref(), Some(&record.call));
        assert_eq!(row.tool.as_ref(), Some(&record.tool));
        assert_eq!(row.kind.as_str(), record.kind.as_str());
        assert_eq!(row.body.as_ref(), Some(&record.body));
    }
    assert_eq!(read[2].outcome, Some(Outcome::Denied));
    let first = store.call(&CallId::new("c1")).unwrap().unwrap();
    assert_eq!(
        (first.started, first.finished, first.outcome),
        (Some(1), Some(2), Some(Outcome::Ok))
    );
    let second = store.call(&CallId::new("c2")).unwrap().unwrap();
    assert_eq!((second.started, second.finished), (None, Some(3)));
    assert_eq!(store.call(&CallId::new("c3")).unwrap(), None);
    assert_eq!(store.verify().unwrap().records, 3);
}

#[test]
fn the_order_is_that_of_the_calls_of_append() {
    let state = TestState::new();
    let store = state.open();
    let names: Vec<String> = (0..100).map(|at| format!("c{at}")).collect();
    let mut waiting: Vec<_> =
        names.iter().map(|name| store.append(record("s", name, RecordKind::Started))).collect();
    while let Some(last) = waiting.pop() {
        block_on(last).unwrap();
    }
    let rows = all_records(&store);
    let calls: Vec<&str> = kinds_and_calls(&rows).iter().map(|(_, call)| *call).collect();
    assert_eq!(calls, names);
}

#[test]
fn a_record_whose_future_is_dropped_is_written() {
    let state = TestState::new();
    let store = state.open();
    drop(store.append(record("s", "dropped", FINISHED)));
    let forgotten = store.append(record("s", "forgotten", FINISHED));
    store.close();
    assert_eq!(all_records(&store).len(), 2);
    block_on(forgotten).unwrap();
}

#[test]
fn many_threads_write_one_chain() {
    let state = TestState::new();
    let store = state.open();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for at in 0..50 {
                    append_call(store, "s", &format!("c{thread}-{at}"));
                }
            });
        }
    });
    assert_eq!(store.verify().unwrap().records, 800);
    assert_eq!(store.session(&session("s")).unwrap().calls, 400);
}

#[test]
fn a_closed_store_refuses_records() {
    let state = TestState::new();
    let store = state.open();
    append_call(&store, "s", "c1");
    store.close();
    store.close();
    let error = append(&store, record("s", "c2", RecordKind::Started)).unwrap_err();
    assert!(error.0.contains("the store is closed"), "{error}");
    assert_eq!(all_records(&store).len(), 2);
}

#[test]
fn a_record_over_the_limit_is_refused() {
    let state = TestState::new();
    let store = state.open();
    let mut long = record("s", "c1", RecordKind::Started);
    long.body = "x".repeat((64 << 20) + 1);
    let error = append(&store, long).unwrap_err();
    assert!(error.0.contains("call c1"), "{error}");
    let mut fitting = record("s", "c2", RecordKind::Started);
    fitting.body = "x".repeat(3 << 20);
    append(&store, fitting).unwrap();
    assert_eq!(store.verify().unwrap().records, 1);
}

#[test]
fn records_are_written_and_read_while_another_process_locks_the_database() {
    let state = TestState::new();
    let settings = StoreSettings { patience: Duration::ZERO, ..StoreSettings::default() };
    let store = Store::open_with(state.dir(), settings).unwrap();
    append_call(&store, "s", "c1");
    assert_eq!(store.last_seq().unwrap(), 2);
    let raw_connection = state.raw_connection();
    raw_connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    append_call(&store, "s", "c2");
    assert_eq!(all_records(&store).len(), 4);
    assert_eq!(store.verify().unwrap().records, 4);
    let error = store.delete_session(&session("s")).unwrap_err().to_string();
    assert!(error.contains("journal.db was locked by another process"), "{error}");
    raw_connection.execute_batch("COMMIT").unwrap();
    append_call(&store, "s", "c3");
    assert_eq!(store.verify().unwrap().records, 6);
}

#[test]
fn a_write_waits_for_another_process_to_release_the_database() {
    let state = TestState::new();
    let store = state.open();
    append_call(&store, "s", "c1");
    assert_eq!(store.last_seq().unwrap(), 2);
    let raw_connection = state.raw_connection();
    raw_connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    append_call(&store, "s", "c2");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.delete_session(&session("s")));
        raw_connection.execute_batch("COMMIT").unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(store.verify().unwrap().records, 5);
}

#[test]
fn files_are_readable_by_their_owner_only() {
    let state = TestState::new();
    let dir = state.file("deep/down");
    let store = Store::open(&dir).unwrap();
    append_call(&store, "s", "c1");
    assert_eq!(store.last_seq().unwrap(), 2);
    let mode = |name: &str| std::fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
    for name in [".", "writers"] {
        assert_eq!(mode(name), 0o700, "{name}");
    }
    for name in [
        "journal.db",
        "journal.db-wal",
        "journal.db-shm",
        "journal.head",
        "writers/0",
        "writers/0.head",
    ] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

#[test]
fn a_large_wal_is_checkpointed_while_running_and_at_close() {
    let state = TestState::new();
    let store = state.open();
    let size = |name: &str| std::fs::metadata(state.file(name)).unwrap().len();
    for at in 0..66 {
        let mut long = record("s", &format!("c{at}"), FINISHED);
        long.body = "x".repeat(600 << 10);
        append(&store, long).unwrap();
    }
    assert_eq!(store.last_seq().unwrap(), 66);
    assert!(size("journal.db") > 24 << 20, "{}", size("journal.db"));
    for at in 0..30 {
        append_call(&store, "s", &format!("d{at}"));
    }
    store.close();
    assert!(size("journal.db-wal") < 64 << 10, "{}", size("journal.db-wal"));
    assert_eq!(store.verify().unwrap().records, 126);
}
