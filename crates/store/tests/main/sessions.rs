//! Listing, exporting and deleting sessions.

use std::path::Path;

use windlass_core::{CallId, Outcome, Outputs as _, Principal, RecordKind};
use windlass_store::{RecordFault, SessionFilter, Store, StoreError, StoredKind, VerifyError};

use crate::common::{
    FINISHED, TestState, all_records, append, append_call, kinds_and_calls, record, session,
    test_time,
};

#[test]
fn sessions_are_listed_with_workspace_parent_times_and_calls() {
    let state = TestState::new();
    let store = state.open();
    store.session_started(&session("a"), Path::new("/one"), None, &Principal::default());
    store.session_started(&session("silent"), Path::new("/one"), None, &Principal::default());
    append_call(&store, "a", "a1");
    store.session_started(
        &session("b"),
        Path::new("/two"),
        Some(&session("a")),
        &Principal::default(),
    );
    append_call(&store, "b", "b1");
    append_call(&store, "c", "c1");
    append(&store, record("a", "a2", RecordKind::Started)).unwrap();
    let a = store.session(&session("a")).unwrap();
    assert_eq!((a.calls, a.running, a.last), (1, 1, test_time()));
    let mut later = record("a", "a2", FINISHED);
    later.at += std::time::Duration::from_secs(1);
    append(&store, later.clone()).unwrap();

    let ids = |filter| -> Vec<String> {
        let rows = store.sessions(filter).unwrap();
        rows.into_iter().map(|row| row.id.to_string()).collect()
    };
    assert_eq!(ids(SessionFilter::default()), ["a", "c", "b", "silent"]);
    let latest = SessionFilter { limit: Some(1), ..SessionFilter::default() };
    assert_eq!(ids(latest), ["a"]);
    let two = SessionFilter { workspace: Some(Path::new("/two")), ..SessionFilter::default() };
    assert_eq!(ids(two), ["b"]);
    let a = store.session(&session("a")).unwrap();
    assert_eq!((a.calls, a.running, a.created, a.last), (2, 0, test_time(), later.at));
    assert_eq!(a.workspace.as_deref(), Some(Path::new("/one")));
    assert_eq!(store.session(&session("b")).unwrap().parent, Some(session("a")));
    assert_eq!(store.session(&session("c")).unwrap().workspace, None);
    let error = store.session(&session("unknown")).unwrap_err();
    assert!(matches!(error, StoreError::UnknownSession(_)), "{error}");
}

#[test]
fn a_session_in_another_workspace_is_recorded_again() {
    let state = TestState::new();
    for workspace in ["/one", "/one", "/two"] {
        let store = state.open();
        store.session_started(&session("s"), Path::new(workspace), None, &Principal::default());
        append_call(&store, "s", "c");
    }
    let store = state.open();
    let rows = all_records(&store);
    let begun = rows.iter().filter(|row| row.kind == StoredKind::SessionStarted);
    let bodies: Vec<&str> = begun.filter_map(|row| row.body.as_deref()).collect();
    assert_eq!(
        bodies,
        [
            r#"{"v":2,"workspace":"/one","parent":null}"#,
            r#"{"v":2,"workspace":"/two","parent":null}"#
        ]
    );
    let row = store.session(&session("s")).unwrap();
    assert_eq!((row.workspace.as_deref(), row.calls), (Some(Path::new("/two")), 3));
}

#[test]
fn records_are_read_with_a_limit_and_by_session() {
    let state = TestState::new();
    let store = state.open();
    for at in 0..5 {
        append_call(&store, "a", &format!("a{at}"));
        append_call(&store, "b", &format!("b{at}"));
    }
    let numbers = |of: Option<&str>, after, limit| -> Vec<u64> {
        let of = of.map(session);
        let rows = store.records(of.as_ref(), after, limit).unwrap();
        rows.iter().map(|row| row.seq).collect()
    };
    assert_eq!(numbers(None, 0, 3), [1, 2, 3]);
    assert_eq!(numbers(None, 18, 9), [19, 20]);
    assert!(numbers(None, 20, 9).is_empty());
    assert_eq!(numbers(Some("b"), 0, 4), [3, 4, 7, 8]);
    assert_eq!(numbers(Some("b"), 8, 3), [11, 12, 15]);
    assert!(numbers(Some("c"), 0, 3).is_empty());
    assert_eq!(store.last_seq().unwrap(), 20);
}

#[test]
fn calls_that_overlap_are_read_in_the_order_of_their_records() {
    let state = TestState::new();
    let store = state.open();
    append(&store, record("s", "long", RecordKind::Started)).unwrap();
    append_call(&store, "other", "o1");
    append(&store, record("s", "open", RecordKind::Started)).unwrap();
    append_call(&store, "s", "short");
    append(&store, record("s", "denied", RecordKind::Finished(Outcome::Denied))).unwrap();
    append(&store, record("s", "long", FINISHED)).unwrap();
    let mut read = Vec::new();
    for after in [0, 1, 4, 5, 6, 7, 8] {
        let next = store.records(Some(&session("s")), after, 1).unwrap();
        read.extend(next.into_iter().map(|row| (row.seq, row.call.unwrap().to_string())));
    }
    let expected =
        [(1, "long"), (4, "open"), (5, "short"), (6, "short"), (7, "denied"), (8, "long")];
    assert_eq!(read, expected.map(|(seq, call)| (seq, call.to_owned())));
}

#[test]
fn an_export_is_json_lines() {
    let state = TestState::new();
    let store = state.open();
    append_call(&store, "a", "a1");
    append_call(&store, "b", "b1");
    let mut out = Vec::new();
    assert_eq!(store.export_session(&session("b"), &mut out).unwrap(), 2);
    let hashes: Vec<String> = all_records(&store).into_iter().map(|row| row.hash).collect();
    let (third, fourth) = (&hashes[2], &hashes[3]);
    let lines = format!(
        r#"{{"seq":3,"at":"2025-08-05T11:12:11.042Z","session":"b","turn":"t1","call":"b1","tool":"read","kind":"started","body":{{"of":"b1"}},"hash":"{third}"}}
{{"seq":4,"at":"2025-08-05T11:12:11.042Z","session":"b","turn":"t1","call":"b1","tool":"read","kind":"finished","outcome":"ok","body":{{"of":"b1"}},"hash":"{fourth}"}}
"#
    );
    assert_eq!(String::from_utf8(out).unwrap(), lines);
    assert!(store.export_session(&session("c"), &mut Vec::new()).is_err());
}

#[test]
fn a_deleted_session_leaves_records_without_bodies() {
    let state = TestState::new();
    let store = state.open();
    let secret = "a-secret-that-must-be-gone";
    append_call(&store, "kept", "k1");
    for at in 0..20 {
        let mut with_secret = record("gone", &format!("g{at}"), FINISHED);
        with_secret.body = format!(r#"{{"text":"{}"}}"#, secret.repeat(at * 40));
        append(&store, with_secret).unwrap();
    }
    store.keep(&session("gone"), &CallId::new("g1"), secret).unwrap();
    store.keep(&session("kept"), &CallId::new("k1"), "kept").unwrap();
    store.delete_session(&session("gone")).unwrap();

    let rows = all_records(&store);
    let (last, before) = rows.split_last().unwrap();
    assert_eq!(
        (last.kind, last.session.as_ref()),
        (StoredKind::SessionDeleted, Some(&session("gone")))
    );
    for row in before {
        assert_eq!(row.body.is_some(), row.session == Some(session("kept")), "{row:?}");
    }
    assert!(store.session(&session("gone")).is_err());
    assert_eq!(store.call(&CallId::new("g1")).unwrap(), None);
    assert_eq!(store.get(&CallId::new("g1")).unwrap(), None);
    assert_eq!(store.get(&CallId::new("k1")).unwrap().as_deref(), Some("kept"));
    assert_eq!(store.verify().unwrap().records, 23);
    for name in ["journal.db", "journal.db-wal", "outputs/g1.txt", "writers/0"] {
        let bytes = std::fs::read(state.file(name)).unwrap_or_default();
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{name}");
    }
    assert!(matches!(store.delete_session(&session("gone")), Err(StoreError::UnknownSession(_))));

    append_call(&store, "gone", "again");
    assert_eq!(store.verify().unwrap().records, 25);
    state.raw_connection().execute_batch("UPDATE journal SET body = NULL WHERE seq = 25").unwrap();
    let Err(VerifyError::Broken(broken)) = store.verify() else { panic!("not noticed") };
    assert_eq!((broken.seq, broken.fault), (25, RecordFault::BodyRemoved));
}

#[test]
fn a_session_with_a_running_call_is_not_deleted() {
    let state = TestState::new();
    let store = state.open();
    append(&store, record("s", "c1", RecordKind::Started)).unwrap();
    append(&store, record("s", "c2", FINISHED)).unwrap();
    let error = store.delete_session(&session("s")).unwrap_err();
    assert!(error.to_string().contains("call c1 is still running"), "{error}");
    append(&store, record("s", "c1", FINISHED)).unwrap();
    store.delete_session(&session("s")).unwrap();
}

#[test]
fn a_read_only_store_reads_and_does_not_write() {
    let state = TestState::new();
    append_call(&state.open(), "s", "c1");
    let store = Store::open_read_only(state.dir()).unwrap();
    assert_eq!(
        kinds_and_calls(&all_records(&store)),
        [(StoredKind::Started, "c1"), (StoredKind::Finished, "c1")]
    );
    assert_eq!(store.verify().unwrap().records, 2);
    let error = append(&store, record("s", "c2", RecordKind::Started)).unwrap_err();
    assert!(error.0.contains("opened for reading only"), "{error}");
    assert!(store.delete_session(&session("s")).is_err());
    assert!(store.keep(&session("s"), &CallId::new("c1"), "text").is_err());
    let nowhere = TestState::new();
    let error = Store::open_read_only(nowhere.dir()).unwrap_err();
    assert!(error.to_string().contains("journal.db"), "{error}");
    assert!(!nowhere.file("journal.db").exists());
}

#[test]
fn the_end_of_a_job_is_a_record_of_its_session_and_deleted_with_it() {
    let state = TestState::new();
    let store = state.open();
    append_call(&store, "s", "c1");
    append(&store, record("s", "", RecordKind::JobEnded)).unwrap();
    let listed = store.records(Some(&session("s")), 0, 10).unwrap();
    assert_eq!(listed.last().map(|row| row.kind), Some(StoredKind::JobEnded));
    store.delete_session(&session("s")).unwrap();
    let left: Vec<_> =
        all_records(&store).into_iter().filter(|row| row.kind == StoredKind::JobEnded).collect();
    assert!(left.iter().all(|row| row.body.is_none()), "{left:?}");
    assert!(store.verify().is_ok());
}
