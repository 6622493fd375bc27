//! State values: one for each owner and key, and no update is lost between writers.

use std::path::PathBuf;

use serde_json::json;
use windlass_core::{Outcome, RecordKind, SessionId, StateOwner, StateStore as _};
use windlass_store::Store;

use crate::common::{append, record};

fn session(id: &str) -> StateOwner {
    StateOwner::Session(SessionId::new(id))
}

#[test]
fn values_are_separate_for_each_owner_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let places = [
        session("a"),
        session("b"),
        StateOwner::Workspace(PathBuf::from("a")),
        StateOwner::Workspace(PathBuf::from("/w")),
        StateOwner::Person,
    ];
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.get(&StateOwner::Person, "todo").unwrap(), None);
    assert!(!dir.path().join("state.db").exists(), "reading creates no file");
    for (at, place) in places.iter().enumerate() {
        for key in ["todo", "title"] {
            assert!(store.replace(place, key, 0, Some(&json!([at, key]))).unwrap());
        }
    }
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    for (at, place) in places.iter().enumerate() {
        let found = store.get(place, "title").unwrap().unwrap();
        assert_eq!(found.value, json!([at, "title"]));
    }
}

#[test]
fn a_value_is_replaced_only_in_the_version_that_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (place, one) = (session("a"), json!(1));
    assert!(!store.replace(&place, "k", 7, Some(&one)).unwrap(), "there is none");
    assert!(store.replace(&place, "k", 0, Some(&one)).unwrap());
    assert!(!store.replace(&place, "k", 0, Some(&one)).unwrap(), "there is one now");
    let first = store.get(&place, "k").unwrap().unwrap().version;
    assert!(store.replace(&place, "k", first, None).unwrap());
    assert!(store.replace(&place, "k", 0, Some(&one)).unwrap());
    let second = store.get(&place, "k").unwrap().unwrap().version;
    assert!(second > first, "a re-created value has a new version");
    assert!(!store.replace(&place, "k", first, None).unwrap());
}

#[test]
fn writers_with_their_own_connections_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let place = StateOwner::Person;
    let count = || {
        let store = Store::open(dir.path()).unwrap();
        let mut done = 0;
        while done < 100 {
            let seen = store.get(&place, "n").unwrap();
            let (n, version) =
                seen.map_or((0, 0), |one| (one.value.as_u64().unwrap(), one.version));
            done += u32::from(store.replace(&place, "n", version, Some(&json!(n + 1))).unwrap());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(count);
        }
    });
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.get(&place, "n").unwrap().unwrap().value, json!(300));
}

#[test]
fn deleting_a_session_deletes_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    append(&store, record("a", "c", RecordKind::Finished(Outcome::Ok))).unwrap();
    for place in [session("a"), session("b")] {
        assert!(store.replace(&place, "k", 0, Some(&json!(1))).unwrap());
    }
    store.delete_session(&SessionId::new("a")).unwrap();
    assert_eq!(store.get(&session("a"), "k").unwrap(), None);
    assert!(store.get(&session("b"), "k").unwrap().is_some());
}

#[test]
fn a_long_value_and_a_read_only_store_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let long = json!("x".repeat(5 << 20));
    let error = store.replace(&StateOwner::Person, "k", 0, Some(&long)).unwrap_err();
    assert!(error.to_string().contains("at most"), "{error}");
    assert!(store.replace(&StateOwner::Person, "k", 0, Some(&json!(1))).unwrap());
    append(&store, record("s", "", RecordKind::JobEnded)).unwrap();
    drop(store);
    let store = Store::open_read_only(dir.path()).unwrap();
    assert_eq!(store.get(&StateOwner::Person, "k").unwrap().unwrap().value, json!(1));
    let error = store.replace(&StateOwner::Person, "k", 0, Some(&json!(1))).unwrap_err();
    assert!(error.to_string().contains("for reading only"), "{error}");
}
