//! A process that is killed at any moment loses no acknowledged record.

use std::collections::HashSet;

use windlass_core::{CallId, Outcome, RecordKind};
use windlass_store::{Store, StoredKind};

use crate::child::{Task, acknowledged, command};
use crate::common::{TestState, all_records, append, record};

/// The number of acknowledged records after which each process is killed.
fn records_before_kill() -> impl Iterator<Item = usize> {
    let mut seed = 0x2545_f491_u32;
    (0..30).map(move |_| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as usize % 48
    })
}

#[test]
fn nothing_acknowledged_is_lost_to_a_kill() {
    check_kills(Task::Endless);
}

#[test]
fn nothing_acknowledged_is_lost_to_a_kill_while_a_spool_is_emptied() {
    check_kills(Task::EndlessLong);
}

fn check_kills(task: Task) {
    let state = TestState::new();
    let mut safe = HashSet::new();
    for (round, count) in records_before_kill().enumerate() {
        let mut child = command(task, state.dir(), &format!("r{round}")).spawn().unwrap();
        let mut lines = acknowledged(&mut child);
        safe.extend(lines.by_ref().take(count));
        child.kill().unwrap();
        safe.extend(lines);
        child.wait().unwrap();
        check(&state.open(), &safe);
    }
    assert!(safe.len() > 300, "{}", safe.len());
}

fn check(store: &Store, safe: &HashSet<String>) {
    let rows = all_records(store);
    assert_eq!(store.verify().unwrap().records, rows.len() as u64);
    let mut found = HashSet::new();
    for row in &rows {
        let name = format!("{} {}", row.call.as_ref().unwrap(), row.kind.as_str());
        assert!(found.insert(name), "twice: {row:?}");
    }
    let lost: Vec<&String> = safe.difference(&found).collect();
    assert!(lost.is_empty(), "{lost:?}");
    for row in rows.iter().filter(|row| row.kind == StoredKind::Started) {
        let call = store.call(row.call.as_ref().unwrap()).unwrap().unwrap();
        assert_eq!(call.started, Some(row.seq));
        assert!(call.finished.is_some(), "still open: {call:?}");
    }
}

#[test]
fn an_interrupted_call_ends_as_cancelled() {
    let state = TestState::new();
    let store = state.open();
    append(&store, record("s", "c1", RecordKind::Started)).unwrap();
    drop(store);
    let store = state.open();
    let rows = all_records(&store);
    let end = rows.last().unwrap();
    assert_eq!((end.kind, end.outcome), (StoredKind::Finished, Some(Outcome::Cancelled)));
    assert_eq!(end.session, rows[0].session);
    assert_eq!(end.turn, rows[0].turn);
    assert_eq!(end.tool, rows[0].tool);
    let body = end.body.as_deref().unwrap();
    assert!(body.contains(r#""interrupted":true"#), "{body}");
    assert!(body.contains("ended before this call did"), "{body}");
    let row = store.call(&CallId::new("c1")).unwrap().unwrap();
    assert_eq!((row.started, row.finished), (Some(1), Some(2)));
    let session = store.session(rows[0].session.as_ref().unwrap()).unwrap();
    assert_eq!((session.calls, session.running), (1, 0));
    drop(store);
    assert_eq!(all_records(&state.open()).len(), 2);
}

#[test]
fn a_new_writer_closes_open_calls_of_the_former_holder_of_its_slot() {
    let state = TestState::new();
    // Open, but not yet a writer, while another one dies.
    let store = state.open();
    let mut hanging = command(Task::Hang, state.dir(), "p").spawn().unwrap();
    acknowledged(&mut hanging).next().unwrap();
    hanging.kill().unwrap();
    hanging.wait().unwrap();
    append(&store, record("s", "c1", RecordKind::Started)).unwrap();
    let rows = all_records(&store);
    let found = crate::common::kinds_and_calls(&rows);
    let expected = [
        (StoredKind::Started, "p-hangs"),
        (StoredKind::Finished, "p-hangs"),
        (StoredKind::Started, "c1"),
    ];
    assert_eq!(found, expected);
}
