//! Quota and age: the oldest checkpoints are dropped with the contents that only they hold, and errors say so.

use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::{Duration, SystemTime};

use windlass_core::{
    Attributes, ContentHash, ContentSource, FileState, History as _, HistoryError, KeptContent,
    NewCheckpoint, NewContent, OpenedContent, RecordedChange,
};
use windlass_store::{HistorySettings, UndoHistory};

use super::common::{calls, change, content_of, noise, origin, settings};
use super::queries::object_names;
use crate::common::{TestState, test_time};

const DAY: Duration = Duration::from_hours(24);

fn in_ten_days() -> SystemTime {
    test_time() + 10 * DAY
}

fn open(state: &TestState, settings: HistorySettings) -> UndoHistory {
    UndoHistory::open_with(state.dir(), settings).unwrap()
}

#[test]
fn checkpoints_that_are_too_old_are_dropped() {
    let state = TestState::new();
    let settings = HistorySettings { clock: in_ten_days, age: 3 * DAY, ..settings() };
    let history = open(&state, settings);
    for number in 0..10_u32 {
        let text = |number: u32| format!("text {number}").into_bytes();
        let at = test_time() + number * DAY;
        change(u64::from(number), &text(number), &text(number + 1)).at(at).make(&history);
    }
    assert_eq!(calls(&history), ["c9", "c8", "c7"]);
    assert_eq!(content_of(&history, b"text 7").unwrap(), b"text 7");
    drop(history);
    let settings =
        HistorySettings { clock: in_ten_days, age: 3 * DAY, ..super::common::settings() };
    let history = open(&state, settings);
    let error = content_of(&history, b"text 6").unwrap_err();
    assert!(matches!(error, HistoryError::Dropped(_)), "{error}");
    assert_eq!(history.status().unwrap().dropped, 7);
}

#[test]
fn the_last_hour_is_never_too_old() {
    let state = TestState::new();
    let history = open(&state, HistorySettings { age: Duration::ZERO, ..settings() });
    change(1, b"a", b"b").at(test_time() - Duration::from_secs(3700)).make(&history);
    change(2, b"b", b"c").at(test_time() - Duration::from_secs(3500)).make(&history);
    assert_eq!(calls(&history), ["c2"]);
}

#[test]
fn the_oldest_checkpoints_are_dropped_with_their_contents() {
    let state = TestState::new();
    let quota = 100_000;
    let history = open(&state, HistorySettings { quota, ..settings() });
    for number in 0..50 {
        change(number, &noise(number, 10_000), &noise(number + 1, 10_000)).make(&history);
    }
    let kept = calls(&history);
    assert!((7..=9).contains(&kept.len()), "{kept:?}");
    assert_eq!(kept[0], "c49");
    let status = history.status().unwrap();
    assert!(status.bytes <= quota, "{}", status.bytes);
    assert_eq!(status.dropped, 50 - kept.len() as u64);
    drop(history);
    let history = open(&state, HistorySettings { quota, ..settings() });
    assert!(content_of(&history, &noise(50, 10_000)).is_ok());
    assert!(matches!(content_of(&history, &noise(1, 10_000)), Err(HistoryError::Dropped(_))));
    let connection = rusqlite::Connection::open(state.file("undo/undo.db")).unwrap();
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
    assert_eq!(number("SELECT count(*) FROM contents"), kept.len() as u64 + 1);
    let stored = number("SELECT sum(stored) FROM contents")
        + number("SELECT sum(length(body) + length(contents) + 128) FROM checkpoints");
    assert_eq!(number("SELECT stored FROM totals"), stored);
}

#[test]
fn object_files_without_a_checkpoint_are_removed() {
    let state = TestState::new();
    let settings = || HistorySettings { quota: 30_000, large: 1000, slot_limit: 0, ..settings() };
    let history = open(&state, settings());
    for number in 0..10 {
        change(number, &noise(number, 10_000), &noise(number + 1, 10_000)).make(&history);
    }
    drop(history);
    let history = open(&state, settings());
    let kept = calls(&history);
    assert!(!kept.is_empty() && kept.len() < 3, "{kept:?}");
    for number in 10 - kept.len() as u64..=10 {
        assert!(content_of(&history, &noise(number, 10_000)).is_ok(), "{number}");
    }
    assert!(object_names(&state).len() <= kept.len() + 1);
}

#[test]
fn a_delta_keeps_its_base() {
    let state = TestState::new();
    let history = open(&state, HistorySettings { quota: 50_000, ..settings() });
    let mut text = noise(1, 20_000);
    for number in 0..40_u8 {
        let old = text.clone();
        text[usize::from(number) * 100] ^= 1;
        change(number.into(), &old, &text).make(&history);
        calls(&history);
    }
    drop(history);
    let history = open(&state, HistorySettings { quota: 50_000, ..settings() });
    assert!(calls(&history).len() >= 5);
    for checkpoint in history.checkpoints(&super::common::workspace("/w")).unwrap() {
        for state in [&checkpoint.changes[0].before, &checkpoint.changes[0].after] {
            history.content(&state.hash().unwrap()).unwrap();
        }
    }
}

#[test]
fn a_change_over_the_quota_is_refused_before_anything_is_written() {
    let state = TestState::new();
    let history = open(&state, HistorySettings { quota: 1000, ..settings() });
    let Err(error) = change(1, &noise(1, 600), &noise(2, 600)).record(&history) else {
        panic!("it was taken")
    };
    let text = error.to_string();
    for part in ["c1", "1200 bytes", "at most 1000", "undo_megabytes"] {
        assert!(text.contains(part), "{text}");
    }
    let written = std::fs::metadata(super::common::slot(&state, 0)).unwrap().len();
    assert_eq!(written, 0);
    change(2, &noise(1, 400), &noise(2, 400)).make(&history);
    assert_eq!(calls(&history), ["c2"], "the newest checkpoint is not dropped for the quota");
}

#[test]
fn a_content_that_was_never_kept_is_not_reported_as_dropped() {
    let state = TestState::new();
    let history = open(&state, settings());
    change(1, b"a", b"b").make(&history);
    let error = content_of(&history, b"never").unwrap_err();
    assert!(
        matches!(&error, HistoryError::Failed(text) if text.contains("never saved")),
        "{error}"
    );
}

/// A file of 200 GiB with a few bytes of data.
fn sparse() -> std::fs::File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(200 << 30).unwrap();
    file.write_all_at(b"data", 7 << 30).unwrap();
    file
}

#[test]
fn a_sparse_content_takes_the_space_of_its_data() {
    let state = TestState::new();
    let history = open(&state, settings());
    let file = sparse();
    let source = ContentSource::File(&file);
    let hash = ContentHash::of_source(source).unwrap();
    let attributes = Attributes::default();
    let before = FileState::File { hash, len: 200 << 30, attributes, object: None };
    let changes = [RecordedChange::new("/w/file", before, FileState::Absent)];
    let contents = [NewContent { hash, source, base: None }];
    let origin = origin(1);
    let new = NewCheckpoint {
        origin: &origin,
        changes: &changes,
        contents: &contents,
        without_history: &[],
    };
    let pending = history.record(&new).unwrap();
    check_sparse(&pending.open(&hash).unwrap());
    pending.finish().unwrap();
    check_sparse(&history.open(&hash).unwrap());
    assert_eq!(calls(&history), ["c1"]);
    assert!(history.status().unwrap().bytes < 1 << 20, "{:?}", history.status());
    drop(history);
    check_sparse(&open(&state, settings()).open(&hash).unwrap());
}

fn check_sparse(opened: &OpenedContent) {
    let OpenedContent::File(file) = opened else { panic!("it is in memory") };
    let facts = file.metadata().unwrap();
    assert_eq!(facts.len(), 200 << 30);
    assert!(facts.blocks() * 512 < 1 << 20, "it takes {} blocks", facts.blocks());
    let mut data = [0; 6];
    file.read_exact_at(&mut data, (7 << 30) - 1).unwrap();
    assert_eq!(&data, b"\0data\0");
}

#[test]
fn a_content_that_changes_while_it_is_kept_is_refused() {
    #[derive(Debug)]
    struct Changed(usize);
    impl KeptContent for Changed {
        fn hash(&self) -> ContentHash {
            ContentHash::of(b"what was seen")
        }
        fn length(&self) -> u64 {
            self.0 as u64
        }
        fn open(&self) -> std::io::Result<OpenedContent> {
            Ok(OpenedContent::Bytes(noise(1, self.0)))
        }
    }
    for length in [10, 100_000, 5 << 20] {
        let state = TestState::new();
        let history = open(&state, settings());
        let changed = Changed(length);
        let content =
            NewContent { hash: changed.hash(), source: ContentSource::Kept(&changed), base: None };
        let origin = origin(1);
        let new = NewCheckpoint {
            origin: &origin,
            changes: &[],
            contents: &[content],
            without_history: &[],
        };
        let Err(error) = history.record(&new) else { panic!("{length} bytes were taken") };
        assert!(error.to_string().contains("changed at the same time"), "{error}");
        change(2, b"a", b"b").make(&history);
        assert_eq!(calls(&history), ["c2"], "{length}");
    }
}
