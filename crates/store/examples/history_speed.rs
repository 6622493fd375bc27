//! Measures the undo history: `cargo run --release -p windlass-store --example history_speed`.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "it is run by hand, to be read")]

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use windlass_core::{
    Attributes, CallId, CheckpointQuery, ContentHash, ContentSource, FileState, History as _,
    NewCheckpoint, NewContent, Origin, RecordedChange, SessionId, TurnId,
};
use windlass_store::{HistorySettings, UndoHistory};

fn main() {
    if std::env::args().nth(1).as_deref() == Some("list") {
        return ten_thousand();
    }
    for sync in [false, true] {
        small_changes(sync, if sync { 300 } else { 10_000 });
    }
    large_edits(false, 200);
    large_edits(true, 100);
    ten_thousand();
}

fn small_changes(sync: bool, count: usize) {
    let dir = tempfile::tempdir().unwrap();
    let history = open(dir.path(), sync);
    let mut text = text_of(1000);
    let mut times = Vec::new();
    for at in 0..count {
        let old = text.clone();
        text[at % 1000] ^= 1;
        times.push(change(&history, at, &old, &text));
    }
    report(&format!("1 KB change, sync {sync}"), times);
}

fn large_edits(sync: bool, count: usize) {
    let dir = tempfile::tempdir().unwrap();
    let history = open(dir.path(), sync);
    let mut text = text_of(1 << 20);
    let mut times = Vec::new();
    for at in 0..count {
        let old = text.clone();
        let place = at * 7919 % text.len();
        text.splice(place..place, *b"inserted");
        times.push(change(&history, at, &old, &text));
    }
    report(&format!("1 MiB edit, sync {sync}"), times);
    let begun = Instant::now();
    let status = history.status().unwrap();
    println!("  status {:?}, {} bytes of {count} edits", begun.elapsed(), status.bytes);
}

fn ten_thousand() {
    let dir = tempfile::tempdir().unwrap();
    let history = open(dir.path(), false);
    let mut text = text_of(300);
    for at in 0..10_000 {
        let old = text.clone();
        text[at % 300] = text[at % 300].wrapping_add(at.to_le_bytes()[0] | 1);
        change(&history, at, &old, &text);
    }
    drop(history);
    for what in ["the rest drained", "nothing to drain"] {
        let history = open(dir.path(), false);
        let begun = Instant::now();
        let found = history.checkpoints(&CheckpointQuery::Workspace("/project".into())).unwrap();
        println!("list of {} ({what}): {:?}", found.len(), begun.elapsed());
    }
    let history = open(dir.path(), false);
    let begun = Instant::now();
    let last = history.checkpoints(&CheckpointQuery::LastOfWorkspace("/project".into())).unwrap();
    println!("last of 10,000, opening included: {:?}", begun.elapsed());
    let hash = last[0].changes[0].before.hash().unwrap();
    let begun = Instant::now();
    history.content(&hash).unwrap();
    println!("its content: {:?}", begun.elapsed());
    let mut times = Vec::new();
    for at in 10_000..10_300 {
        let old = text.clone();
        text[at % 300] = text[at % 300].wrapping_add(at.to_le_bytes()[0] | 1);
        times.push(change(&history, at, &old, &text));
    }
    report("change with 10,000 in the history", times);
    drop(history);
    let mut times = Vec::new();
    for at in 20_000..20_100 {
        let begun = Instant::now();
        let history = open(dir.path(), false);
        assert!(history.unfinished().unwrap().is_empty());
        times.push(begun.elapsed());
        let _ = at;
    }
    report("open and look for unfinished checkpoints", times);
}

fn open(dir: &Path, sync: bool) -> UndoHistory {
    UndoHistory::open_with(dir, HistorySettings { sync, ..HistorySettings::default() }).unwrap()
}

fn change(history: &UndoHistory, number: usize, old: &[u8], new: &[u8]) -> Duration {
    let origin = Origin {
        call: CallId::new(format!("c{number:08}")),
        session: SessionId::new("s0123456789abcdef"),
        turn: TurnId::new(format!("t{:08}", number / 5)),
        tool: "edit".into(),
        workspace: "/project".into(),
        at: SystemTime::now(),
        undoes: Vec::new(),
    };
    let (before, after) = (ContentHash::of(old), ContentHash::of(new));
    let state = |hash, bytes: &[u8]| FileState::File {
        hash,
        len: bytes.len() as u64,
        attributes: Attributes { mode: Some(0o644), modified: Some(17), ..Attributes::default() },
        object: None,
    };
    let mut change =
        RecordedChange::new("/project/src/some/file.rs", state(before, old), state(after, new));
    change.temporary = Some(".windlass-c0123456789-0.tmp".into());
    let contents = [
        NewContent { hash: before, source: ContentSource::Bytes(old), base: None },
        NewContent { hash: after, source: ContentSource::Bytes(new), base: Some(before) },
    ];
    let new = NewCheckpoint {
        origin: &origin,
        changes: &[change],
        contents: &contents,
        without_history: &[],
    };
    let begun = Instant::now();
    history.record(&new).unwrap().finish().unwrap();
    begun.elapsed()
}

fn text_of(length: usize) -> Vec<u8> {
    let words = ["let", "mut", "value", "=", "self", ".", "find", "(", ")", ";", "\n", "return"];
    let mut text = Vec::new();
    let mut state = 1_u64;
    while text.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.extend(words[(state >> 33) as usize % words.len()].as_bytes());
        text.push(b' ');
    }
    text.truncate(length);
    text
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[times.len() * part / 100];
    println!(
        "{what}: half under {:?}, 99 % under {:?}, worst {:?}",
        at(50),
        at(99),
        times[times.len() - 1]
    );
}
