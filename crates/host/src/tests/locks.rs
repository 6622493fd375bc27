//! Concurrent changes of one file by threads, under several names, and by processes.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_core::{ExpectedState, Files};

use super::process::{self, tell_ready, wait_until_ready, workspace_and_name};
use super::{LOOKUPS, TestWorkspace, alter, at, file, read, rewrite};
use crate::alter::locks::{LockKey, Locks, lock_between_processes};
use crate::{Durability, LocalFiles};

const PROCESSES: usize = 2;
const LINES: usize = 100;

#[test]
fn no_line_appended_by_two_processes_is_lost() {
    for links in [1, 2] {
        let ground = TestWorkspace::with(&[("list", "")]);
        if links == 2 {
            fs::hard_link(ground.work("list"), ground.work("alias")).unwrap();
        }
        let names = if links == 2 { ["list", "alias"] } else { ["list", "list"] };
        let started = names.map(|name| process::start("locks::appends_lines", &ground, name));
        // Both processes begin when both are ready.
        let mut started = started.map(wait_until_ready);
        ground.put("work/go", "");
        for child in &mut started {
            assert!(child.wait().unwrap().success());
        }
        // The two names are separate files from the first line on.
        let written = names.map(|name| fs::read_to_string(ground.work(name)).unwrap());
        let text = written.concat();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), PROCESSES * LINES, "{text}");
        assert_eq!(ground.names("work").len(), links + 1, "nothing is left behind");
    }
}

#[test]
#[ignore = "the other process of `no_line_appended_by_two_processes_is_lost`"]
fn appends_lines() {
    let (workspace, name) = workspace_and_name();
    let files = LocalFiles::open_with(Path::new(&workspace), Durability::Kernel).unwrap();
    tell_ready();
    while !Path::new(&workspace).join("go").exists() {
        std::thread::yield_now();
    }
    for number in 0..LINES {
        append(&files, &name, &format!("{} {number}\n", std::process::id()));
    }
}

/// Reads, adds a line and writes; starts again if another writer was faster.
fn append(files: &LocalFiles, name: &str, line: &str) {
    loop {
        let path = at(files, name);
        let Ok(before) = files.open(&path) else { continue };
        let text = std::io::read_to_string(before.file).unwrap() + line;
        let expect = ExpectedState::Same(before.stat.fingerprint);
        match alter(files, &path, expect, file(text.as_bytes(), None)) {
            Ok(_) => return,
            Err(error) => {
                let kind = super::name(&error.kind);
                assert!(["Stale", "Changed"].contains(&kind.as_str()), "{error}");
            }
        }
    }
}

#[test]
fn lock_is_released_when_its_holder_dies() {
    let ground = TestWorkspace::with(&[("file", "old")]);
    let mut holder =
        wait_until_ready(process::start("locks::holds_a_lock_until_killed", &ground, "file"));
    let files = ground.files(LOOKUPS[0]);
    std::thread::scope(|scope| {
        let change = scope.spawn(|| rewrite(&files, "file", "new"));
        holder.kill().unwrap();
        holder.wait().unwrap();
        change.join().unwrap().unwrap();
    });
    assert_eq!(read(&files, "file").unwrap(), "new");
}

#[test]
#[ignore = "the other process of `lock_is_released_when_its_holder_dies`"]
fn holds_a_lock_until_killed() {
    let (workspace, name) = workspace_and_name();
    let file = fs::File::open(Path::new(&workspace).join(name)).unwrap();
    lock_between_processes(&file).unwrap();
    tell_ready();
    loop {
        std::thread::park();
    }
}

/// Only one thread holds a key at a time, in whichever order keys are requested, and every thread gets its turn.
#[test]
fn keys_exclude_each_other() {
    let locks = Locks::default();
    let (file, place) = (LockKey::Object(1, 7), LockKey::Path(Path::new("/a")));
    let inside = [(file, AtomicUsize::new(0)), (place, AtomicUsize::new(0))];
    let asked = [(file, Some(place)), (place, Some(file)), (file, None), (place, Some(place))];
    std::thread::scope(|scope| {
        for (first, second) in asked.into_iter().cycle().take(12) {
            let (locks, inside) = (&locks, &inside);
            scope.spawn(move || {
                for _ in 0..200 {
                    let held = locks.lock(first, second);
                    let mine = |key: &LockKey<'_>| *key == first || Some(*key) == second;
                    for (_, count) in inside.iter().filter(|(key, _)| mine(key)) {
                        assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0);
                    }
                    for (_, count) in inside.iter().filter(|(key, _)| mine(key)) {
                        count.fetch_sub(1, Ordering::SeqCst);
                    }
                    drop(held);
                }
            });
        }
    });
}
