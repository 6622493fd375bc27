//! Changes of the journal that bypass the store: each kind is detected, and the first bad record is named.

use rusqlite::Connection;
use rusqlite::types::Value;
use windlass_core::{CallId, Principal, RecordKind, SessionId};
use windlass_store::{
    BrokenRecord, RecordFault, RowFault, Store, StoredKind, VerifyError, WrongRows,
};

use crate::common::{FINISHED, TestState, all_records, append, append_call, record};

/// Five calls of two sessions: records 1 to 10.
fn journal() -> (TestState, Store) {
    let state = TestState::new();
    let store = state.open();
    for at in 1..=5 {
        append_call(&store, if at % 2 == 0 { "even" } else { "odd" }, &format!("c{at}"));
    }
    assert_eq!(store.verify().unwrap().records, 10);
    (state, store)
}

fn broken(store: &Store) -> BrokenRecord {
    match store.verify() {
        Err(VerifyError::Broken(broken)) => broken,
        other => panic!("not noticed: {other:?}"),
    }
}

fn wrong_rows(store: &Store) -> WrongRows {
    match store.verify() {
        Err(VerifyError::Rows(wrong)) => wrong,
        other => panic!("not noticed: {other:?}"),
    }
}

#[test]
fn a_byte_changed_in_the_file_after_a_checkpoint_is_named() {
    let (state, store) = journal();
    store.checkpoint().unwrap();
    drop(store);
    let path = state.file("journal.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let body = br#"{"of":"c3"}"#;
    let at = bytes.windows(body.len()).position(|part| part == body);
    bytes[at.expect("a checkpoint brings all into the file") + 2] = b'i';
    std::fs::write(&path, bytes).unwrap();
    let broken = broken(&state.open());
    assert_eq!((broken.call, broken.fault), (Some(CallId::new("c3")), RecordFault::BodyChanged));
}

#[test]
fn each_changed_removed_or_added_row_is_named() {
    let changed = |columns: &[&'static str]| RowFault::Changed(columns.to_vec());
    let cases = [
        ("DELETE FROM sessions WHERE id = 'odd'", "sessions", "odd", None, RowFault::Missing),
        (
            "INSERT INTO sessions VALUES ('forged', '/w', NULL, 1)",
            "sessions",
            "forged",
            None,
            RowFault::Surplus,
        ),
        (
            "UPDATE sessions SET workspace = '/elsewhere' WHERE id = 'named'",
            "sessions",
            "named",
            None,
            changed(&["workspace"]),
        ),
        (
            "UPDATE sessions SET parent = NULL, created = 7 WHERE id = 'named'",
            "sessions",
            "named",
            None,
            changed(&["parent", "created"]),
        ),
        ("DELETE FROM calls WHERE id = 'c3'", "calls", "odd", Some("c3"), RowFault::Missing),
        (
            "INSERT INTO calls VALUES ('odd', 999, NULL, 'forged', 'read', 'ok')",
            "calls",
            "odd",
            Some("forged"),
            RowFault::Surplus,
        ),
        (
            "INSERT INTO calls SELECT 'even', finished, started, 'forged', tool, outcome FROM calls WHERE id = 'c3'",
            "calls",
            "even",
            Some("forged"),
            RowFault::Surplus,
        ),
        (
            "UPDATE calls SET tool = 'write', outcome = 'denied' WHERE id = 'c3'",
            "calls",
            "odd",
            Some("c3"),
            changed(&["tool", "outcome"]),
        ),
        (
            "UPDATE calls SET id = 'other', started = NULL WHERE id = 'c3'",
            "calls",
            "odd",
            Some("c3"),
            changed(&["started", "id"]),
        ),
        (
            "DELETE FROM open_calls WHERE id = 'open'",
            "open_calls",
            "named",
            Some("open"),
            RowFault::Missing,
        ),
        (
            "INSERT INTO open_calls SELECT 'forged', session, turn, tool, started, slot, process FROM open_calls",
            "open_calls",
            "named",
            Some("forged"),
            RowFault::Surplus,
        ),
        (
            "UPDATE open_calls SET turn = 't9', tool = 'x', started = 1",
            "open_calls",
            "named",
            Some("open"),
            changed(&["turn", "tool", "started"]),
        ),
    ];
    for (sql, table, session, call, fault) in cases {
        let (state, store) = journal_with_all_kinds_of_rows();
        state.raw_connection().execute_batch(sql).unwrap();
        let wrong = wrong_rows(&store);
        assert_eq!(wrong.count, 1, "{sql}: {wrong:?}");
        let row = &wrong.rows[0];
        let found = (row.table, row.session.as_str(), row.call.as_deref(), &row.fault);
        assert_eq!(found, (table, session, call, &fault), "{sql}");
        let text = wrong.to_string();
        assert!(text.contains(table) && text.contains(call.unwrap_or(session)), "{text}");
    }
}

/// Besides [`journal`]: a session with a workspace and a parent, one that was deleted and used again, a call that ended without a
/// beginning, and one that has not ended.
fn journal_with_all_kinds_of_rows() -> (TestState, Store) {
    let (state, store) = journal();
    let named = SessionId::new("named");
    store.session_started(&named, "/first".as_ref(), None, &Principal::default());
    append_call(&store, "named", "n1");
    store.session_started(
        &named,
        "/second".as_ref(),
        Some(&SessionId::new("odd")),
        &Principal::default(),
    );
    append(&store, record("named", "refused", FINISHED)).unwrap();
    append_call(&store, "gone", "g1");
    store.delete_session(&SessionId::new("gone")).unwrap();
    append_call(&store, "again", "a1");
    store.delete_session(&SessionId::new("again")).unwrap();
    append_call(&store, "again", "a2");
    append(&store, record("named", "open", RecordKind::Started)).unwrap();
    store.verify().unwrap();
    (state, store)
}

#[test]
fn a_reinserted_row_of_a_deleted_session_is_surplus() {
    let (state, store) = journal_with_all_kinds_of_rows();
    let rows = all_records(&store);
    let seq = rows
        .iter()
        .find(|row| row.kind == StoredKind::Finished && row.call == Some(CallId::new("g1")));
    let seq = seq.unwrap().seq;
    let sql = format!("INSERT INTO calls VALUES ('gone', {seq}, NULL, 'g1', 'read', 'ok')");
    state.raw_connection().execute_batch(&sql).unwrap();
    let wrong = wrong_rows(&store);
    assert_eq!((wrong.count, &wrong.rows[0].fault), (1, &RowFault::Surplus));
    assert_eq!(wrong.rows[0].seq, Some(seq));
}

#[test]
fn the_first_wrong_rows_are_named_and_all_are_counted() {
    let (state, store) = journal();
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250) \
               INSERT INTO sessions SELECT 'forged' || i, '', NULL, 1 FROM n";
    state.raw_connection().execute_batch(sql).unwrap();
    let wrong = wrong_rows(&store);
    assert_eq!((wrong.count, wrong.rows.len()), (250, WrongRows::MOST_NAMED));
    assert!(wrong.to_string().ends_with("and 150 more rows"), "{wrong}");
}

#[test]
fn a_change_of_any_byte_of_a_record_is_detected() {
    let (state, store) = journal();
    let raw_connection = state.raw_connection();
    let fields = [
        ("at", RecordFault::Changed),
        ("session", RecordFault::Changed),
        ("turn", RecordFault::Changed),
        ("call", RecordFault::Changed),
        ("tool", RecordFault::Changed),
        ("kind", RecordFault::Changed),
        ("outcome", RecordFault::Changed),
        ("body_hash", RecordFault::Changed),
        ("hash", RecordFault::Changed),
        ("body", RecordFault::BodyChanged),
    ];
    let mut changes = 0;
    for (field, fault) in fields {
        let before = get(&raw_connection, field);
        for changed in flipped(&before) {
            set(&raw_connection, field, &changed);
            let found = broken(&store);
            assert_eq!((found.seq, &found.fault), (6, &fault), "{field}: {changed:?}");
            changes += 1;
        }
        set(&raw_connection, field, &before);
        assert_eq!(store.verify().unwrap().records, 10, "{field}");
    }
    assert!(changes > 100, "{changes}");
}

/// A field of record 6, as bytes where it is not a number.
fn get(raw_connection: &Connection, field: &str) -> Value {
    let cast = if field == "at" { field.to_owned() } else { format!("CAST({field} AS BLOB)") };
    let sql = format!("SELECT {cast} FROM journal WHERE seq = 6");
    raw_connection.query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn set(raw_connection: &Connection, field: &str, value: &Value) {
    let value_type = match field {
        "at" => "INTEGER",
        "hash" | "body_hash" => "BLOB",
        _ => "TEXT",
    };
    let sql = format!("UPDATE journal SET {field} = CAST(? AS {value_type}) WHERE seq = 6");
    assert_eq!(raw_connection.execute(&sql, [value]).unwrap(), 1);
}

/// The value with each of its bytes changed in turn, one byte longer, and one shorter.
fn flipped(value: &Value) -> Vec<Value> {
    match value {
        Value::Integer(number) => {
            (0..8).map(|byte| Value::Integer(number ^ (1 << (byte * 8)))).collect()
        }
        Value::Blob(bytes) => {
            let one_changed = (0..bytes.len()).map(|at| {
                let mut changed = bytes.clone();
                changed[at] ^= 0x80 >> (at % 8);
                changed
            });
            let shorter = bytes[1..].to_vec();
            let longer = [bytes.as_slice(), b"\0"].concat();
            one_changed.chain([shorter, longer]).map(Value::Blob).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn removed_moved_and_inserted_records_are_named() {
    let copy = |seq: i64, of: i64| {
        format!(
            "INSERT INTO journal SELECT {seq}, at, session, turn, call, tool, kind, outcome, body_hash, hash, body \
             FROM journal WHERE seq = {of};"
        )
    };
    let swap = |a: i64, b: i64| {
        format!(
            "UPDATE journal SET seq = -1 WHERE seq = {a}; UPDATE journal SET seq = {a} WHERE seq = {b}; \
             UPDATE journal SET seq = {b} WHERE seq = -1;"
        )
    };
    let cases = [
        ("the first", "DELETE FROM journal WHERE seq = 1".to_owned(), 1, RecordFault::Removed),
        ("one in the middle", "DELETE FROM journal WHERE seq = 6".into(), 6, RecordFault::Removed),
        (
            "several",
            "DELETE FROM journal WHERE seq BETWEEN 3 AND 5".into(),
            3,
            RecordFault::Removed,
        ),
        ("the last", "DELETE FROM journal WHERE seq = 10".into(), 10, RecordFault::CutOff(10)),
        ("the tail", "DELETE FROM journal WHERE seq >= 4".into(), 4, RecordFault::CutOff(10)),
        ("all", "DELETE FROM journal".into(), 1, RecordFault::CutOff(10)),
        (
            "one, with the gap closed",
            "DELETE FROM journal WHERE seq = 6; UPDATE journal SET seq = seq - 1 WHERE seq = 7"
                .into(),
            6,
            RecordFault::Changed,
        ),
        ("two neighbours swapped", swap(4, 5), 4, RecordFault::Changed),
        ("two swapped", swap(2, 9), 2, RecordFault::Changed),
        ("one before the first", copy(0, 1), 0, RecordFault::Inserted),
        ("one long before the first", copy(-5, 1), 0, RecordFault::Inserted),
        ("one at the end", copy(11, 10), 11, RecordFault::Changed),
        ("one far after the end", copy(99, 10), 11, RecordFault::Removed),
        (
            "one twice",
            format!("{} {}", "DELETE FROM journal WHERE seq = 8;", copy(8, 7)),
            8,
            RecordFault::Changed,
        ),
        (
            "a body",
            "UPDATE journal SET body = NULL WHERE seq = 7".into(),
            7,
            RecordFault::BodyRemoved,
        ),
        (
            "an outcome",
            "UPDATE journal SET outcome = NULL WHERE seq = 8".into(),
            8,
            RecordFault::Changed,
        ),
    ];
    for (what, sql, seq, fault) in cases {
        let (state, store) = journal();
        state.raw_connection().execute_batch(&sql).unwrap();
        let found = broken(&store);
        assert_eq!((found.seq, &found.fault), (seq, &fault), "{what}");
    }
}

#[test]
fn a_broken_record_is_named_with_its_session_and_call() {
    let (state, store) = journal();
    let raw_connection = state.raw_connection();
    raw_connection.execute_batch("UPDATE journal SET tool = 'write' WHERE seq = 7").unwrap();
    let text = "record 7 (session even, call c4) was changed or moved: it does not match its hash";
    assert_eq!(broken(&store).to_string(), text);
    raw_connection.execute_batch("DELETE FROM journal WHERE seq = 5").unwrap();
    assert_eq!(broken(&store).to_string(), "record 5 (session odd, call c3) was removed");
    raw_connection.execute_batch("DELETE FROM journal WHERE seq > 4").unwrap();
    let text = "record 5 (session odd, call c3) was cut off at the end, with all up to 10";
    assert_eq!(broken(&store).to_string(), text);
}

#[test]
fn a_cut_stays_noted_when_the_journal_grows_past_it() {
    for reopened in [false, true] {
        let (state, mut store) = journal();
        state.raw_connection().execute_batch("DELETE FROM journal WHERE seq > 7").unwrap();
        if reopened {
            drop(store);
            store = state.open();
        }
        for at in 0..5 {
            append_call(&store, "after", &format!("a{at}"));
        }
        let found = broken(&store);
        assert_eq!((found.seq, found.fault), (8, RecordFault::LossNoted));
        let rows = all_records(&store);
        assert_eq!(rows[7].kind, StoredKind::TailLost);
        assert_eq!(rows[7].body.as_deref(), Some(r#"{"v":2,"anchored":10,"found":7}"#));
        let noted = rows.iter().filter(|row| row.kind == StoredKind::TailLost).count();
        assert_eq!(noted, 1);
    }
}

#[test]
fn a_rewritten_journal_does_not_match_its_anchor() {
    let (state, store) = journal();
    drop(store);
    let anchor = std::fs::read(state.file("journal.head")).unwrap();
    for name in ["journal.db", "journal.db-wal", "journal.db-shm", "journal.head"] {
        std::fs::remove_file(state.file(name)).unwrap();
    }
    let store = state.open();
    for at in 1..=6 {
        append_call(&store, "forged", &format!("f{at}"));
    }
    assert_eq!(store.last_seq().unwrap(), 12);
    std::fs::write(state.file("journal.head"), anchor).unwrap();
    let found = broken(&store);
    assert_eq!((found.seq, found.fault), (10, RecordFault::Rewritten));
    drop(store);
    let store = state.open();
    append_call(&store, "honest", "h1");
    assert_eq!(broken(&store).fault, RecordFault::LossNoted);
}

#[test]
fn a_missing_or_damaged_anchor_is_detected_and_stays_noted() {
    for spoilt in [None, Some(""), Some("nonsense")] {
        let (state, store) = journal();
        drop(store);
        match spoilt {
            None => std::fs::remove_file(state.file("journal.head")).unwrap(),
            Some(text) => std::fs::write(state.file("journal.head"), text).unwrap(),
        }
        let store = state.open();
        let found = broken(&store);
        assert_eq!((found.seq, found.fault), (10, RecordFault::NoAnchor), "{spoilt:?}");
        append(&store, record("s", "c", RecordKind::Started)).unwrap();
        let found = broken(&store);
        assert_eq!((found.seq, found.fault), (11, RecordFault::LossNoted), "{spoilt:?}");
    }
}

#[test]
fn a_deleted_journal_is_detected_by_its_anchor() {
    let (state, store) = journal();
    drop(store);
    std::fs::remove_file(state.file("journal.db")).unwrap();
    let store = state.open();
    assert_eq!(store.last_seq().unwrap(), 0);
    let found = broken(&store);
    assert_eq!((found.seq, found.fault), (1, RecordFault::CutOff(10)));
}

#[test]
fn an_anchor_that_is_behind_is_no_fault() {
    let (state, store) = journal();
    let behind = std::fs::read(state.file("journal.head")).unwrap();
    append_call(&store, "s", "more");
    std::fs::write(state.file("journal.head"), behind).unwrap();
    assert_eq!(store.verify().unwrap().records, 12);
    drop(store);
    let store = state.open();
    append_call(&store, "s", "still more");
    assert_eq!(store.verify().unwrap().records, 14);
}
