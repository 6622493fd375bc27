//! The number of a record is the one that looking back shows, however many processes write and whoever drains.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use windlass_core::{Journal as _, Receipt, Record, RecordKind};
use windlass_store::{Kind, Store};

use crate::child::{Task, command};
use crate::common::{FINISHED, State, all, moment, record, session, wait};

fn receipt(store: &Store, record: Record) -> Receipt {
    wait(store.append(record)).unwrap()
}

fn number(receipt: Receipt) -> Option<u64> {
    wait(receipt.number())
}

/// A note that says its own name.
fn note(name: &str, kind: RecordKind, nanos: u64) -> Record {
    let at = moment() + Duration::from_nanos(nanos);
    Record { at, body: format!(r#"{{"of":"{name}"}}"#), ..record("s", "", kind) }
}

/// The numbers of records by the name in their body, as looking back shows them.
fn shown(store: &Store) -> HashMap<String, u64> {
    let name = |body: &str| serde_json::from_str::<serde_json::Value>(body).unwrap()["of"].take();
    let rows = all(store).into_iter();
    rows.filter_map(|row| Some((name(row.body.as_ref()?).as_str()?.to_owned(), row.seq))).collect()
}

#[test]
fn the_number_of_a_record_is_the_one_that_is_shown_also_after_a_restart() {
    let state = State::new();
    let store = state.open();
    let mut told = HashMap::new();
    for at in 0..20 {
        let name = format!("n{at}");
        told.insert(name.clone(), number(receipt(&store, note(&name, RecordKind::Message, at))));
    }
    let late = receipt(&store, note("late", RecordKind::State, 99));
    drop(store);
    assert_eq!(number(late), None, "a store that is closed finds no numbers");
    let shown = shown(&state.open());
    assert_eq!(shown.len(), 21);
    assert!(told.iter().all(|(name, number)| *number == shown.get(name).copied()), "{told:?}");
}

#[test]
fn a_record_that_another_store_drained_has_its_number() {
    let state = State::new();
    let (first, second) = (state.open(), state.open());
    let later = receipt(&first, note("later", RecordKind::Task, 2));
    let earlier = receipt(&second, note("earlier", RecordKind::Task, 1));
    let shown = shown(&second);
    assert_eq!((shown["earlier"], shown["later"]), (1, 2), "in the order of time");
    assert_eq!((number(later), number(earlier)), (Some(2), Some(1)));
}

#[test]
fn other_processes_write_and_drain_at_the_same_time() {
    let state = State::new();
    let mut children: Vec<_> = ["p0", "p1"]
        .map(|name| command(Task::Calls(200), state.dir(), name).spawn().unwrap())
        .into();
    let store = state.open();
    let mut told = Vec::new();
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) || told.len() < 20 {
        let call = format!("c{}", told.len());
        let started = number(receipt(&store, record("s", &call, RecordKind::Started)));
        told.push((call.clone(), started, number(receipt(&store, record("s", &call, FINISHED)))));
    }
    let rows = all(&store);
    let seq = |call: &str, kind: Kind| {
        let is_it = |row: &&windlass_store::JournalRow| {
            row.kind == kind && row.call.as_ref().is_some_and(|one| one.as_str() == call)
        };
        rows.iter().find(is_it).map(|row| row.seq)
    };
    for (call, started, finished) in told {
        assert_eq!((started, finished), (seq(&call, Kind::Started), seq(&call, Kind::Finished)));
        assert!(started < finished && started.is_some());
    }
    store.verify().unwrap();
}

#[test]
fn notes_are_records_of_their_session_and_deleted_with_it() {
    for (kind, told) in [
        (RecordKind::Approval, Kind::Approval),
        (RecordKind::ApprovalAnswered, Kind::ApprovalAnswered),
        (RecordKind::Question, Kind::Question),
        (RecordKind::QuestionAnswered, Kind::QuestionAnswered),
        (RecordKind::Message, Kind::Message),
        (RecordKind::Request, Kind::Request),
        (RecordKind::State, Kind::State),
        (RecordKind::Task, Kind::Task),
    ] {
        let state = State::new();
        let store = state.open();
        receipt(&store, note("it", kind, 0));
        let row = store.records(Some(&session("s")), 0, 10).unwrap().remove(0);
        assert_eq!((row.kind, row.kind.as_str()), (told, kind.as_str()));
        assert_eq!(store.session(&session("s")).unwrap().calls, 0, "a session without calls");
        store.verify().unwrap();
        store.delete_session(&session("s")).unwrap();
        assert!(all(&store).iter().all(|row| row.kind != told || row.body.is_none()));
        store.verify().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Two stores append and look back in any order; records of one nanosecond look alike.
    #[test]
    fn every_number_is_right(steps in prop::collection::vec((0_usize..2, 0_u64..3, any::<bool>(), any::<bool>()), 1..30)) {
        let state = State::new();
        let stores = [state.open(), state.open()];
        let mut told = Vec::new();
        let mut waiting = Vec::new();
        for (at, (who, nanos, looks, asks)) in steps.into_iter().enumerate() {
            let name = format!("n{at}");
            // Each store has a session of its own, as processes usually do.
            let mine = Record { session: session(&format!("s{who}")), ..note(&name, RecordKind::Message, nanos) };
            waiting.push((name, receipt(&stores[who], mine)));
            if looks {
                all(&stores[1 - who]);
            }
            if asks {
                told.extend(waiting.drain(..).map(|(name, receipt)| (name, number(receipt))));
            }
        }
        told.extend(waiting.drain(..).map(|(name, receipt)| (name, number(receipt))));
        let shown = shown(&stores[0]);
        for (name, number) in told {
            prop_assert_eq!(number, Some(shown[&name]), "{}", name);
        }
    }
}
