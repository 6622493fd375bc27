//! Changes that are made whole or not at all.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use windlass_core::{Change, Expect, FileError, Files, Fingerprint, Written};

use super::{Ground, LOOKUPS, error, read};
use crate::LocalFiles;

fn change(
    files: &LocalFiles,
    path: &str,
    content: impl AsRef<[u8]>,
    expect: Expect,
) -> Result<Written, FileError> {
    let path = files.resolve(Path::new(path))?;
    files.change(&path, &Change { content: content.as_ref(), expect })
}

fn seen(files: &LocalFiles, path: &str) -> Fingerprint {
    files.stat(&files.resolve(Path::new(path)).unwrap()).unwrap().fingerprint
}

fn replace(files: &LocalFiles, path: &str, content: &str) -> Result<Written, FileError> {
    let seen = seen(files, path);
    change(files, path, content, Expect::Same(seen))
}

#[test]
fn creating() {
    for lookup in LOOKUPS {
        let ground = Ground::with(&[("file", "old"), ("directory/", "")]);
        ground.link("directory/target", "work/dangling");
        ground.link("../outside/new", "work/dangling_out");
        let files = ground.files(lookup);
        for path in ["new", "directory/new", "a/b/c/new", "../outside/made/new"] {
            let written = change(&files, path, "content", Expect::Absent).unwrap();
            assert!(written.created);
            assert_eq!(read(&files, path).unwrap(), "content");
            assert_eq!(written.stat.fingerprint, seen(&files, path));
        }
        for (path, real) in [("dangling", "directory/target"), ("dangling_out", "../outside/new")] {
            change(&files, path, "through a link", Expect::Absent).unwrap();
            assert_eq!(read(&files, real).unwrap(), "through a link");
            assert!(ground.work(path).is_symlink());
        }
        for (path, expected) in [
            ("file", "Exists"),
            ("directory", "Exists"),
            ("", "Exists"),
            ("file/below", "NotADirectory"),
            ("/", "NotRegular"),
        ] {
            assert_eq!(error(change(&files, path, "x", Expect::Absent)), expected, "{path}");
        }
        assert_eq!(read(&files, "file").unwrap(), "old");
        let names = ["a", "dangling", "dangling_out", "directory", "file", "new"];
        assert_eq!(ground.names("work"), names);
    }
}

#[test]
fn a_new_file_has_the_mode_that_any_new_file_has() {
    let ground = Ground::with(&[("by_standard_library", "")]);
    let files = ground.files(LOOKUPS[0]);
    let written = change(&files, "a/new", "", Expect::Absent).unwrap();
    let mode = |path: &str| fs::metadata(ground.work(path)).unwrap().mode() & 0o7777;
    assert_eq!(mode("a/new"), mode("by_standard_library"));
    assert_eq!(written.stat.mode, mode("a/new"));
    ground.put("work/directory/", "");
    assert_eq!(mode("a"), mode("directory"));
}

#[test]
fn replacing() {
    for lookup in LOOKUPS {
        let ground = Ground::with(&[("file", "old"), ("directory/file", "old")]);
        ground.link("directory/file", "work/link");
        let files = ground.files(lookup);
        for path in ["file", "link", "directory/../file"] {
            let written = replace(&files, path, "new").unwrap();
            assert!(!written.created);
            assert_eq!(read(&files, path).unwrap(), "new");
            assert_eq!(written.stat.fingerprint, seen(&files, path));
        }
        assert!(ground.work("link").is_symlink());
        assert_eq!(ground.names("work"), ["directory", "file", "link"]);
        assert_eq!(ground.names("work/directory"), ["file"]);
    }
}

#[test]
fn only_what_was_seen_is_replaced() {
    for lookup in LOOKUPS {
        let ground = Ground::with(&[
            ("file", "old"),
            ("gone", "old"),
            ("swapped", "old"),
            ("directory/", ""),
        ]);
        let files = ground.files(lookup);
        let stale = |path: &str, spoil: &dyn Fn()| {
            let seen = seen(&files, path);
            let resolved = files.resolve(Path::new(path)).unwrap();
            spoil();
            error(files.change(&resolved, &Change { content: b"new", expect: Expect::Same(seen) }))
        };
        assert_eq!(stale("file", &|| ground.put("work/file", "by another")), "Stale");
        assert_eq!(stale("gone", &|| fs::remove_file(ground.work("gone")).unwrap()), "Stale");
        let swap = || {
            fs::rename(ground.work("swapped"), ground.work("moved")).unwrap();
            ground.link("file", "work/swapped");
        };
        assert_eq!(stale("swapped", &swap), "Changed");
        assert_eq!(stale("directory", &|| {}), "NotRegular");
        assert_eq!(read(&files, "file").unwrap(), "by another");
        assert_eq!(ground.names("work"), ["directory", "file", "moved", "swapped"]);
    }
}

#[test]
fn several_hard_links_stay_one_file() {
    for lookup in LOOKUPS {
        let ground = Ground::with(&[("one", "old and longer")]);
        fs::hard_link(ground.work("one"), ground.work("two")).unwrap();
        let files = ground.files(lookup);
        for content in ["new", "new and much longer than before", ""] {
            let written = replace(&files, "one", content).unwrap();
            assert_eq!(written.stat.links, 2);
            assert_eq!(written.stat.fingerprint, seen(&files, "two"));
            assert_eq!(read(&files, "two").unwrap(), content);
        }
        assert_eq!(ground.names("work"), ["one", "two"]);
    }
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    let ground = Ground::with(&[("file", "old")]);
    fs::set_permissions(ground.work("file"), fs::Permissions::from_mode(0o444)).unwrap();
    // The system's administrator may write everything.
    let writable = fs::OpenOptions::new().write(true).open(ground.work("file")).is_ok();
    let files = ground.files(LOOKUPS[0]);
    let result = replace(&files, "file", "new");
    if writable {
        assert_eq!(result.unwrap().stat.mode, 0o444);
    } else {
        assert_eq!(error(result), "Permission");
        assert_eq!(read(&files, "file").unwrap(), "old");
    }
}

#[test]
fn attributes_are_kept() {
    let ground = Ground::with(&[("file", "old")]);
    let path = ground.work("file");
    let flags = rustix::fs::XattrFlags::empty();
    match rustix::fs::setxattr(&path, "user.windlass", b"kept", flags) {
        // A file system without attributes has none to keep.
        Err(rustix::io::Errno::OPNOTSUPP) => return,
        set => set.unwrap(),
    }
    let files = ground.files(LOOKUPS[0]);
    replace(&files, "file", "new").unwrap();
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(&path, "user.windlass", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"kept");
}

#[test]
fn what_is_no_place_for_a_file() {
    let ground = Ground::new();
    let files = ground.files(LOOKUPS[0]);
    let full = files.resolve(Path::new("/dev/full")).unwrap();
    let stat = files.stat(&full).unwrap();
    let change = Change { content: b"x", expect: Expect::Same(stat.fingerprint) };
    assert_eq!(error(files.change(&full, &change)), "NotRegular");
    let proc = files.resolve(Path::new("/proc/new_file")).unwrap();
    let change = Change { content: b"x", expect: Expect::Absent };
    assert!(files.change(&proc, &change).is_err());
}

#[test]
fn no_update_is_lost() {
    const THREADS: usize = 20;
    const UPDATES: usize = 5;
    for links in [1, 2] {
        let ground = Ground::with(&[("counter", "0")]);
        if links == 2 {
            fs::hard_link(ground.work("counter"), ground.work("alias")).unwrap();
        }
        let files = ground.files(LOOKUPS[0]);
        let stale = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (files, stale) = (&files, &stale);
                let name = if links == 2 && thread % 2 == 0 { "alias" } else { "counter" };
                scope.spawn(move || (0..UPDATES).for_each(|_| count(files, name, stale)));
            }
        });
        assert_eq!(read(&files, "counter").unwrap(), (THREADS * UPDATES).to_string());
        assert_eq!(ground.names("work").len(), links);
    }
}

/// Adds one, however often somebody else is faster.
fn count(files: &LocalFiles, name: &str, stale: &AtomicUsize) {
    loop {
        let path = files.resolve(Path::new(name)).unwrap();
        let Ok(before) = files.open(&path) else { continue };
        let text = std::io::read_to_string(before.file).unwrap();
        let Ok(number) = text.parse::<usize>() else { continue };
        let content = (number + 1).to_string();
        let expect = Expect::Same(before.stat.fingerprint);
        match files.change(&path, &Change { content: content.as_bytes(), expect }) {
            Ok(_) => return,
            Err(error) => {
                assert!(
                    ["Stale", "Changed"].contains(&super::name(&error.kind).as_str()),
                    "{error}"
                );
                stale.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn one_of_many_creates() {
    let ground = Ground::new();
    let files = ground.files(LOOKUPS[0]);
    let created = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (files, created) = (&files, &created);
            scope.spawn(move || {
                match change(files, "a/b/new", number.to_string(), Expect::Absent) {
                    Ok(_) => drop(created.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => assert_eq!(super::name(&error.kind), "Exists"),
                }
            });
        }
    });
    assert_eq!(created.into_inner(), 1);
    assert_eq!(ground.names("work/a/b"), ["new"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is written is there afterwards, byte for byte, and nothing else about the file is different.
    #[test]
    fn content_and_mode(
        contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..4),
        mode in 0u32..0o10000,
        links in 1u64..3,
    ) {
        // What we cannot read or write we could not have seen.
        let mode = mode | 0o600;
        let ground = Ground::with(&[("file", "old")]);
        fs::set_permissions(ground.work("file"), fs::Permissions::from_mode(mode)).unwrap();
        let mode = fs::metadata(ground.work("file")).unwrap().mode() & 0o7777;
        if links == 2 {
            fs::hard_link(ground.work("file"), ground.path("outside/second")).unwrap();
        }
        let before = fs::metadata(ground.work("file")).unwrap();
        let files = ground.files(LOOKUPS[0]);
        for content in contents {
            let seen = seen(&files, "file");
            let written = change(&files, "file", &content, Expect::Same(seen)).unwrap();
            prop_assert_eq!(&fs::read(ground.work("file")).unwrap(), &content);
            prop_assert_eq!(written.stat.links, links);
            // Writing in place takes the set-id bits away, as it does for everyone but the administrator.
            let kept = if links == 1 { 0o7777 } else { 0o1777 };
            prop_assert_eq!(written.stat.mode & kept, mode & kept);
            let after = fs::metadata(ground.work("file")).unwrap();
            prop_assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
            // The old fingerprint is of no use any more.
            prop_assert_eq!(error(change(&files, "file", "x", Expect::Same(seen))), "Stale");
        }
        prop_assert_eq!(ground.names("work"), ["file"]);
    }
}
