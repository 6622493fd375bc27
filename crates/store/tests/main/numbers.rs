//! The number in a receipt is that of the record in the journal, however many processes write and whichever process drains.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use windlass_core::{Journal as _, Record, RecordKind, RecordReceipt};
use windlass_store::{Store, StoredKind};

use crate::child::{Task, command};
use crate::common::{FINISHED, TestState, all_records, block_on, record, session, test_time};

fn receipt(store: &Store, record: Record) -> RecordReceipt {
    block_on(store.append(record)).unwrap()
}

fn number(receipt: RecordReceipt) -> Option<u64> {
    block_on(receipt.number())
}

/// A note with its name in the body.
fn note(name: &str, kind: RecordKind, nanos: u64) -> Record {
    let at = test_time() + Duration::from_nanos(nanos);
    Record { at, body: format!(r#"{{"of":"{name}"}}"#), ..record("s", "", kind) }
}

/// The numbers of records in the journal, by the name in their body.
fn journal_numbers(store: &Store) -> HashMap<String, u64> {
    let name = |body: &str| serde_json::from_str::<serde_json::Value>(body).unwrap()["of"].take();
    let rows = all_records(store).into_iter();
    rows.filter_map(|row| Some((name(row.body.as_ref()?).as_str()?.to_owned(), row.seq))).collect()
}

#[test]
fn the_number_of_a_receipt_is_that_in_the_journal_also_after_a_restart() {
    let state = TestState::new();
    let store = state.open();
    let mut receipt_numbers = HashMap::new();
    for at in 0..20 {
        let name = format!("n{at}");
        receipt_numbers
            .insert(name.clone(), number(receipt(&store, note(&name, RecordKind::Message, at))));
    }
    let late = receipt(&store, note("late", RecordKind::State, 99));
    drop(store);
    assert_eq!(number(late), None, "a store that is closed finds no numbers");
    let expected = journal_numbers(&state.open());
    assert_eq!(expected.len(), 21);
    assert!(
        receipt_numbers.iter().all(|(name, number)| *number == expected.get(name).copied()),
        "{receipt_numbers:?}"
    );
}

#[test]
fn a_record_that_another_store_drained_gets_its_number() {
    let state = TestState::new();
    let (first, second) = (state.open(), state.open());
    let later = receipt(&first, note("later", RecordKind::Task, 2));
    let earlier = receipt(&second, note("earlier", RecordKind::Task, 1));
    let expected = journal_numbers(&second);
    assert_eq!((expected["earlier"], expected["later"]), (1, 2), "in the order of time");
    assert_eq!((number(later), number(earlier)), (Some(2), Some(1)));
}

#[test]
fn other_processes_write_and_drain_at_the_same_time() {
    let state = TestState::new();
    let mut children: Vec<_> = ["p0", "p1"]
        .map(|name| command(Task::Calls(200), state.dir(), name).spawn().unwrap())
        .into();
    let store = state.open();
    let mut receipt_numbers = Vec::new();
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none())
        || receipt_numbers.len() < 20
    {
        let call = format!("c{}", receipt_numbers.len());
        let started = number(receipt(&store, record("s", &call, RecordKind::Started)));
        receipt_numbers.push((
            call.clone(),
            started,
            number(receipt(&store, record("s", &call, FINISHED))),
        ));
    }
    let rows = all_records(&store);
    let seq = |call: &str, kind: StoredKind| {
        let is_it = |row: &&windlass_store::JournalRow| {
            row.kind == kind && row.call.as_ref().is_some_and(|one| one.as_str() == call)
        };
        rows.iter().find(is_it).map(|row| row.seq)
    };
    for (call, started, finished) in receipt_numbers {
        assert_eq!(
            (started, finished),
            (seq(&call, StoredKind::Started), seq(&call, StoredKind::Finished))
        );
        assert!(started < finished && started.is_some());
    }
    store.verify().unwrap();
}

#[test]
fn notes_are_records_of_their_session_and_deleted_with_it() {
    for (kind, expected) in [
        (RecordKind::Approval, StoredKind::Approval),
        (RecordKind::ApprovalAnswered, StoredKind::ApprovalAnswered),
        (RecordKind::Question, StoredKind::Question),
        (RecordKind::QuestionAnswered, StoredKind::QuestionAnswered),
        (RecordKind::Message, StoredKind::Message),
        (RecordKind::Request, StoredKind::Request),
        (RecordKind::State, StoredKind::State),
        (RecordKind::Task, StoredKind::Task),
    ] {
        let state = TestState::new();
        let store = state.open();
        receipt(&store, note("it", kind, 0));
        let row = store.records(Some(&session("s")), 0, 10).unwrap().remove(0);
        assert_eq!((row.kind, row.kind.as_str()), (expected, kind.as_str()));
        assert_eq!(store.session(&session("s")).unwrap().calls, 0, "a session without calls");
        store.verify().unwrap();
        store.delete_session(&session("s")).unwrap();
        assert!(all_records(&store).iter().all(|row| row.kind != expected || row.body.is_none()));
        store.verify().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Two stores append and query in any order; some records have equal fields in the same nanosecond.
    #[test]
    fn every_receipt_has_the_number_of_its_record(steps in prop::collection::vec((0_usize..2, 0_u64..3, any::<bool>(), any::<bool>()), 1..30)) {
        let state = TestState::new();
        let stores = [state.open(), state.open()];
        let mut receipt_numbers = Vec::new();
        let mut waiting = Vec::new();
        for (at, (who, nanos, looks, asks)) in steps.into_iter().enumerate() {
            let name = format!("n{at}");
            // Each store has a session of its own, as processes usually do.
            let mine = Record { session: session(&format!("s{who}")), ..note(&name, RecordKind::Message, nanos) };
            waiting.push((name, receipt(&stores[who], mine)));
            if looks {
                all_records(&stores[1 - who]);
            }
            if asks {
                receipt_numbers.extend(waiting.drain(..).map(|(name, receipt)| (name, number(receipt))));
            }
        }
        receipt_numbers.extend(waiting.drain(..).map(|(name, receipt)| (name, number(receipt))));
        let expected = journal_numbers(&stores[0]);
        for (name, number) in receipt_numbers {
            prop_assert_eq!(number, Some(expected[&name]), "{}", name);
        }
    }
}
