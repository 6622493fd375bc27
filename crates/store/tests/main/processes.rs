//! Several processes on one store: no record is lost, there is one chain, and open calls of dead processes are closed once.

use std::collections::HashMap;

use windlass_core::CallId;
use windlass_store::StoredKind;

use crate::child::{Task, acknowledged, command};
use crate::common::{TestState, all_records};

fn check(processes: u32, calls: u32) {
    let state = TestState::new();
    let children: Vec<_> = (0..processes)
        .map(|at| command(Task::Calls(calls), state.dir(), &format!("p{at}")).spawn().unwrap())
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let store = state.open();
    let records = u64::from(processes) * (2 * u64::from(calls) + 1);
    assert_eq!(store.verify().unwrap().records, records);
    let mut of_session: HashMap<String, Vec<(StoredKind, String)>> = HashMap::new();
    for row in all_records(&store) {
        let call = row.call.as_ref().map(CallId::to_string).unwrap_or_default();
        of_session.entry(row.session.unwrap().to_string()).or_default().push((row.kind, call));
    }
    assert_eq!(of_session.len(), processes as usize);
    for (session, found) in of_session {
        let mut expected = vec![(StoredKind::SessionStarted, String::new())];
        for at in 0..calls {
            let call = format!("{session}-{at:05}");
            expected.extend([(StoredKind::Started, call.clone()), (StoredKind::Finished, call)]);
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn two_processes_lose_nothing() {
    check(2, 200);
}

#[test]
fn eight_processes_lose_nothing() {
    check(8, 50);
}

#[test]
fn thirty_two_processes_lose_nothing() {
    check(32, 10);
}

#[test]
fn open_calls_of_dead_processes_are_closed_once() {
    let state = TestState::new();
    for round in 0..3 {
        let name = format!("r{round}");
        let mut hanging = command(Task::Hang, state.dir(), &name).spawn().unwrap();
        assert_eq!(acknowledged(&mut hanging).next().unwrap(), format!("{name}-hangs started"));
        hanging.kill().unwrap();
        hanging.wait().unwrap();
        let opening: Vec<_> =
            (0..8).map(|_| command(Task::Open, state.dir(), &name).spawn().unwrap()).collect();
        for child in opening {
            assert!(child.wait_with_output().unwrap().status.success());
        }
    }
    let store = state.open();
    assert_eq!(store.verify().unwrap().records, 6);
    let ends: Vec<StoredKind> = all_records(&store).iter().map(|row| row.kind).collect();
    assert_eq!(ends, [StoredKind::Started, StoredKind::Finished].repeat(3));
}

#[test]
fn open_calls_of_living_processes_stay_open() {
    let state = TestState::new();
    let mut hanging = command(Task::Hang, state.dir(), "alive").spawn().unwrap();
    assert_eq!(acknowledged(&mut hanging).next().unwrap(), "alive-hangs started");
    let store = state.open();
    let row = store.call(&CallId::new("alive-hangs")).unwrap().unwrap();
    assert_eq!((row.started, row.finished), (Some(1), None));
    drop(store);
    // The end of its input ends the process, which leaves the call open.
    drop(hanging.stdin.take());
    hanging.wait().unwrap();
    let store = state.open();
    let row = store.call(&CallId::new("alive-hangs")).unwrap().unwrap();
    assert_eq!(row.finished, Some(2));
}
