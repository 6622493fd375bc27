//! Full-text search: ranked passages, and no query is a syntax error.

use std::fs;

use proptest::prelude::*;
use windlass_core::{Document, TextIndex as _};
use windlass_store::Store;

fn document(id: &str, title: &str, text: &str) -> Document {
    let fingerprint = format!("{}", text.len());
    Document { id: id.into(), fingerprint, title: title.into(), text: text.into() }
}

fn found(store: &Store, query: &str) -> Vec<String> {
    let hits = store.search("manual", query, 10).unwrap();
    hits.iter().map(|hit| format!("{}:{}", hit.document, hit.line)).collect()
}

/// A store with some documents.
fn store_with_documents(dir: &std::path::Path) -> Store {
    let store = Store::open(dir).unwrap();
    let long = format!("{}\n\nThe windlass lifts an anchor.\n", "plain words\n".repeat(100));
    let documents = [
        document("a", "Anchors", "An anchor holds a ship.\nChains are heavy."),
        document("b", "Ships", "A ship has an anchor, and some ships have two."),
        document("c", "Long", &long),
        document("d", "Snake", "call snake_case names; caf\u{e9} au lait"),
    ];
    store.put("manual", &documents).unwrap();
    store.put("other", &[document("x", "Other", "An anchor elsewhere.")]).unwrap();
    store
}

#[test]
fn words_phrases_and_beginnings_find_passages() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_documents(dir.path());
    for (query, expected) in [
        ("anchor", &["a:1", "c:103", "b:1"][..]),
        ("anchors", &["a:1", "b:1", "c:103"]),
        ("windlass anchor", &["c:103"]),
        ("windlass ship", &["c:103", "b:1", "a:1"]),
        ("\"holds a ship\"", &["a:1"]),
        ("\"ship a holds\"", &[]),
        ("wind*", &["c:103"]),
        ("snake_case", &["d:1"]),
        ("cafe", &["d:1"]),
        ("nothing of it", &[]),
        ("", &[]),
        ("* AND (", &["b:1"]),
    ] {
        let mut found = found(&store, query);
        let mut expected: Vec<String> = expected.iter().map(|hit| (*hit).to_owned()).collect();
        if query != "anchor" {
            found.sort();
            expected.sort();
        }
        assert_eq!(found, expected, "{query}");
    }
    let hit = &store.search("manual", "windlass", 1).unwrap()[0];
    assert_eq!((hit.text.as_str(), hit.score > 0.0), ("The windlass lifts an anchor.", true));
    assert_eq!(store.search("manual", "anchor", 1).unwrap().len(), 1);
}

#[test]
fn documents_are_replaced_and_removed_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_documents(dir.path());
    store.put("manual", &[document("a", "Anchors", "Now about chains.")]).unwrap();
    store.remove("manual", &["c".into(), "unknown".into()]).unwrap();
    assert_eq!(found(&store, "chains"), ["a:1"]);
    assert!(found(&store, "windlass").is_empty());
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    let indexed = store.indexed("manual").unwrap();
    assert_eq!(indexed.fingerprints.keys().collect::<Vec<_>>(), ["a", "b", "d"]);
    assert_eq!(indexed.fingerprints["a"], "17");
    assert_eq!(indexed.notice, None);
    assert_eq!(store.search("other", "anchor", 10).unwrap().len(), 1, "another store");
}

#[test]
fn a_damaged_index_is_rebuilt_with_a_notice() {
    let dir = tempfile::tempdir().unwrap();
    drop(store_with_documents(dir.path()));
    let path = dir.path().join("index.db");
    // The WAL would repair the file.
    for beside in ["index.db-wal", "index.db-shm"] {
        fs::remove_file(dir.path().join(beside)).ok();
    }
    for damage in ["not a database at all", ""] {
        let garbage = if damage.is_empty() {
            let mut bytes = fs::read(&path).unwrap();
            bytes.iter_mut().skip(100).for_each(|byte| *byte = 0x5a);
            bytes
        } else {
            damage.as_bytes().repeat(100)
        };
        fs::write(&path, garbage).unwrap();
        let store = Store::open(dir.path()).unwrap();
        let indexed = store.indexed("manual").unwrap();
        assert!(indexed.fingerprints.is_empty());
        assert!(indexed.notice.is_some_and(|notice| notice.contains("damaged")), "it says so");
        assert_eq!(store.indexed("manual").unwrap().notice, None, "once");
        store.put("manual", &[document("a", "A", "anchor")]).unwrap();
        assert_eq!(found(&store, "anchor"), ["a:1"]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_query_is_an_error(query in ".{0,80}", operators in "[\\\"*^:(){}+-]{0,10}(AND|OR|NOT|NEAR)?.{0,20}") {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        store.put("manual", &[document("a", "A", "anchor")]).unwrap();
        for query in [query, operators] {
            prop_assert!(store.search("manual", &query, 10).is_ok(), "{}", query);
        }
    }
}
