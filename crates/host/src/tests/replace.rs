//! Replacing the content of a file, completely or not at all.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use windlass_core::{Attributes, ContentSource, ExpectedState, Files, TargetState};

use super::{LOOKUPS, TestWorkspace, alter, at, error, file, read, rewrite, seen, write};
use crate::LocalFiles;

#[test]
fn content_is_replaced() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "old"), ("directory/file", "old")]);
        ground.link("directory/file", "work/link");
        let files = ground.files(lookup);
        for path in ["file", "link", "directory/../file"] {
            let written = rewrite(&files, path, "new").unwrap();
            assert!(!written.in_place);
            assert_eq!(read(&files, path).unwrap(), "new");
            assert_eq!(written.stat.unwrap().fingerprint, seen(&files, path));
        }
        assert!(ground.work("link").is_symlink());
        assert_eq!(ground.names("work"), ["directory", "file", "link"]);
        assert_eq!(ground.names("work/directory"), ["file"]);
    }
}

#[test]
fn only_the_seen_file_is_replaced() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[
            ("file", "old"),
            ("gone", "old"),
            ("swapped", "old"),
            ("directory/", ""),
        ]);
        let files = ground.files(lookup);
        let stale = |path: &str, spoil: &dyn Fn()| {
            let seen = seen(&files, path);
            let resolved = at(&files, path);
            spoil();
            error(alter(&files, &resolved, ExpectedState::Same(seen), file(b"new", None)))
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
fn hard_linked_file_is_replaced_under_one_name() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("one", "old and longer")]);
        fs::hard_link(ground.work("one"), ground.work("two")).unwrap();
        fs::hard_link(ground.work("one"), ground.path("outside/three")).unwrap();
        let files = ground.files(lookup);
        for content in ["new", "new and much longer than before", ""] {
            let written = rewrite(&files, "one", content).unwrap();
            assert!(!written.in_place);
            assert_eq!(written.stat.unwrap().links, 1);
            assert_eq!(read(&files, "two").unwrap(), "old and longer");
        }
        let two = fs::metadata(ground.work("two")).unwrap();
        assert_eq!(two.ino(), fs::metadata(ground.path("outside/three")).unwrap().ino());
        assert_eq!(ground.names("work"), ["one", "two"]);
    }
}

#[test]
fn read_only_file_is_not_replaced() {
    let ground = TestWorkspace::with(&[("file", "old")]);
    fs::set_permissions(ground.work("file"), fs::Permissions::from_mode(0o444)).unwrap();
    // Root may write every file.
    let writable = fs::OpenOptions::new().write(true).open(ground.work("file")).is_ok();
    let files = ground.files(LOOKUPS[0]);
    let result = rewrite(&files, "file", "new");
    if writable {
        assert_eq!(result.unwrap().stat.unwrap().mode, 0o444);
    } else {
        assert_eq!(error(result), "Permission");
        assert_eq!(read(&files, "file").unwrap(), "old");
    }
}

/// The content of a read-only file can still be restored.
#[test]
fn restoration_writes_read_only_files() {
    let ground = TestWorkspace::with(&[("file", "old"), ("one", "old")]);
    fs::hard_link(ground.work("one"), ground.work("two")).unwrap();
    let files = ground.files(LOOKUPS[0]);
    for path in ["file", "one"] {
        fs::set_permissions(ground.work(path), fs::Permissions::from_mode(0o444)).unwrap();
        let told = Attributes { mode: Some(0o444), ..Attributes::default() };
        let expect = ExpectedState::Same(seen(&files, path));
        let altered = alter(&files, &at(&files, path), expect, file(b"new", Some(&told))).unwrap();
        assert_eq!(altered.stat.unwrap().mode, 0o444);
        assert_eq!(read(&files, path).unwrap(), "new");
    }
}

/// If the new content cannot be read to its end, the old content stays, whichever way it is written.
#[test]
fn unreadable_content_leaves_the_old_file() {
    let ground = TestWorkspace::with(&[("file", "old"), ("one", "old")]);
    ground.put("work/big_one", &"0123456789".repeat(150_000));
    fs::hard_link(ground.work("one"), ground.work("two")).unwrap();
    fs::hard_link(ground.work("big_one"), ground.work("big_two")).unwrap();
    // A directory can be opened but not read.
    let unreadable = fs::File::open(ground.path("outside")).unwrap();
    let files = ground.files(LOOKUPS[0]);
    for path in ["file", "one", "big_one"] {
        let before = fs::read(ground.work(path)).unwrap();
        let to = TargetState::File { content: ContentSource::File(&unreadable), attributes: None };
        let failed = alter(&files, &at(&files, path), ExpectedState::Same(seen(&files, path)), to);
        assert!(failed.is_err(), "{path}");
        assert!(fs::read(ground.work(path)).unwrap() == before, "{path}");
    }
    assert_eq!(ground.names("work"), ["big_one", "big_two", "file", "one", "two"]);
}

#[test]
fn attributes_are_kept() {
    let ground = TestWorkspace::with(&[("file", "old")]);
    let path = ground.work("file");
    let flags = rustix::fs::XattrFlags::empty();
    match rustix::fs::setxattr(&path, "user.windlass", b"kept", flags) {
        // Skipped on a file system without extended attributes.
        Err(rustix::io::Errno::OPNOTSUPP) => return,
        set => set.unwrap(),
    }
    let files = ground.files(LOOKUPS[0]);
    rewrite(&files, "file", "new").unwrap();
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(&path, "user.windlass", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"kept");
}

#[test]
fn devices_and_proc_are_refused() {
    let ground = TestWorkspace::new();
    let files = ground.files(LOOKUPS[0]);
    assert_eq!(error(rewrite(&files, "/dev/full", "x")), "NotRegular");
    assert!(write(&files, "/proc/new_file", "x", ExpectedState::Absent).is_err());
}

#[test]
fn no_update_is_lost() {
    const THREADS: usize = 20;
    const UPDATES: usize = 5;
    for links in [1, 2] {
        let ground = TestWorkspace::with(&[("counter", "0")]);
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
        // Each name is a file of its own from the first update on.
        let updates = (THREADS * UPDATES / links).to_string();
        assert_eq!(read(&files, "counter").unwrap(), updates);
        assert_eq!(read(&files, if links == 2 { "alias" } else { "counter" }).unwrap(), updates);
        assert_eq!(ground.names("work").len(), links);
    }
}

/// Increments the number in a file, and tries again each time another thread was faster.
fn count(files: &LocalFiles, name: &str, stale: &AtomicUsize) {
    loop {
        let path = at(files, name);
        let Ok(before) = files.open(&path) else { continue };
        let text = std::io::read_to_string(before.file).unwrap();
        let Ok(number) = text.parse::<usize>() else { continue };
        let content = (number + 1).to_string();
        let expect = ExpectedState::Same(before.stat.fingerprint);
        match alter(files, &path, expect, file(content.as_bytes(), None)) {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any write the file has exactly the new content, and nothing else about it differs.
    #[test]
    fn content_and_mode(
        contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..4),
        mode in 0u32..0o10000,
        links in 1u64..3,
    ) {
        // The owner must be able to read and write the file, because it could not have been seen otherwise.
        let mode = mode | 0o600;
        let ground = TestWorkspace::with(&[("file", "old")]);
        fs::set_permissions(ground.work("file"), fs::Permissions::from_mode(mode)).unwrap();
        let mode = fs::metadata(ground.work("file")).unwrap().mode() & 0o7777;
        if links == 2 {
            fs::hard_link(ground.work("file"), ground.path("outside/second")).unwrap();
        }
        let before = fs::metadata(ground.work("file")).unwrap();
        let files = ground.files(LOOKUPS[0]);
        for content in contents {
            let seen = seen(&files, "file");
            let written = write(&files, "file", &content, ExpectedState::Same(seen)).unwrap();
            prop_assert_eq!(&fs::read(ground.work("file")).unwrap(), &content);
            prop_assert_eq!(written.stat.unwrap().links, 1);
            prop_assert_eq!(written.stat.unwrap().mode, mode);
            let after = fs::metadata(ground.work("file")).unwrap();
            prop_assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
            // The old fingerprint is no longer valid.
            prop_assert_eq!(error(write(&files, "file", "x", ExpectedState::Same(seen))), "Stale");
        }
        if links == 2 {
            prop_assert_eq!(fs::read(ground.path("outside/second")).unwrap(), b"old");
        }
        prop_assert_eq!(ground.names("work"), ["file"]);
    }
}
