//! New files and directories: complete as soon as they are visible, and never over an existing object.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_core::{Alteration, Attributes, ContentSource, ExpectedState, Files, TargetState};

use super::{LOOKUPS, TestWorkspace, alter, at, error, file, place, read, seen, write};

#[test]
fn new_files_are_created_only_where_nothing_exists() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "old"), ("directory/", "")]);
        ground.link("directory/target", "work/dangling");
        ground.link("../outside/new", "work/dangling_out");
        let files = ground.files(lookup);
        for path in ["new", "directory/new", "a/b/c/new", "../outside/made/new"] {
            let written = write(&files, path, "content", ExpectedState::Absent).unwrap();
            assert_eq!(read(&files, path).unwrap(), "content");
            assert_eq!(written.stat.unwrap().fingerprint, seen(&files, path));
        }
        for (path, real) in [("dangling", "directory/target"), ("dangling_out", "../outside/new")] {
            write(&files, path, "through a link", ExpectedState::Absent).unwrap();
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
            assert_eq!(error(write(&files, path, "x", ExpectedState::Absent)), expected, "{path}");
        }
        assert_eq!(read(&files, "file").unwrap(), "old");
        let names = ["a", "dangling", "dangling_out", "directory", "file", "new"];
        assert_eq!(ground.names("work"), names);
    }
}

#[test]
fn new_file_has_the_usual_mode() {
    let ground = TestWorkspace::with(&[("by_standard_library", "")]);
    let files = ground.files(LOOKUPS[0]);
    let written = write(&files, "a/new", "", ExpectedState::Absent).unwrap();
    let mode = |path: &str| fs::metadata(ground.work(path)).unwrap().mode() & 0o7777;
    assert_eq!(mode("a/new"), mode("by_standard_library"));
    assert_eq!(written.stat.unwrap().mode, mode("a/new"));
    ground.put("work/directory/", "");
    assert_eq!(mode("a"), mode("directory"));
}

#[test]
fn only_one_of_many_threads_creates_a_file() {
    let ground = TestWorkspace::new();
    let files = ground.files(LOOKUPS[0]);
    let created = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (files, created) = (&files, &created);
            scope.spawn(move || {
                match write(files, "a/b/new", number.to_string(), ExpectedState::Absent) {
                    Ok(_) => drop(created.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => assert_eq!(super::name(&error.kind), "Exists"),
                }
            });
        }
    });
    assert_eq!(created.into_inner(), 1);
    assert_eq!(ground.names("work/a/b"), ["new"]);
}

#[test]
fn file_names_may_be_any_bytes() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::new();
        let files = ground.files(lookup);
        let longest = [b'n'; 255];
        for name in [b"\xff\xfe".as_slice(), b"a\nb", b" ", b"-rf", b"\"'$(x)", b"*", &longest] {
            let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name));
            write(&files, path, "first", ExpectedState::Absent).unwrap();
            let seen = seen(&files, path);
            write(&files, path, "second", ExpectedState::Same(seen)).unwrap();
            assert_eq!(fs::read(ground.work("").join(path)).unwrap(), b"second");
            let place = place(&files, path);
            let expect = super::expect(&files, &place);
            alter(&files, &place, expect, TargetState::Nothing).unwrap();
        }
        let too_long = "n".repeat(256);
        assert_eq!(error(write(&files, &too_long, "x", ExpectedState::Absent)), "BadName");
        assert_eq!(ground.names("work"), [""; 0]);
    }
}

/// A temporary name is recorded before it is used, so that a later process can remove the file. An existing file of that name is
/// left alone.
#[test]
fn given_temporary_name_is_used_and_cleaned_up() {
    for lookup in LOOKUPS {
        let ground =
            TestWorkspace::with(&[("file", "old"), (".taken", "another's"), ("outside/", "")]);
        let files = ground.files(lookup);
        for temporary in [".windlass-1.tmp", ".taken", "", ".", "..", "a/b", "../outside/x", "\0"] {
            for (path, expect) in [
                ("file", ExpectedState::Same(seen(&files, "file"))),
                ("new", ExpectedState::Absent),
            ] {
                let to = file(temporary.as_bytes(), None);
                let alteration = Alteration { expect, to, temporary: Some(temporary) };
                files.alter(&at(&files, path), &alteration).unwrap();
                assert_eq!(read(&files, path).unwrap(), temporary);
            }
            let link = TargetState::Symlink("x".as_ref());
            let expect = ExpectedState::Same(seen(&files, "new"));
            let alteration = Alteration { expect, to: link, temporary: Some(temporary) };
            files.alter(&at(&files, "new"), &alteration).unwrap();
            fs::remove_file(ground.work("new")).unwrap();
            assert_eq!(ground.names("work"), [".taken", "file", "outside"]);
        }
        assert_eq!(read(&files, ".taken").unwrap(), "another's");
        assert_eq!(ground.names("outside"), [""; 0]);
    }
}

#[test]
fn content_is_copied_from_another_file() {
    let ground = TestWorkspace::with(&[("one", "1"), ("old", "old")]);
    fs::hard_link(ground.work("one"), ground.work("two")).unwrap();
    for length in [0, 1, 4_096, 200_000, 3_000_000] {
        let bytes: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
        fs::write(ground.path("outside/source"), &bytes).unwrap();
        let source = fs::File::open(ground.path("outside/source")).unwrap();
        let files = ground.files(LOOKUPS[0]);
        for path in [format!("new_{length}"), "one".into(), "old".into()] {
            let place = place(&files, &path);
            let to = TargetState::File { content: ContentSource::File(&source), attributes: None };
            alter(&files, &place, super::expect(&files, &place), to).unwrap();
            assert_eq!(fs::read(ground.work(&path)).unwrap(), bytes, "{path}");
        }
    }
    // A file that the kernel generates has no length and cannot be copied by the kernel.
    let source = fs::File::open("/proc/self/status").unwrap();
    let files = ground.files(LOOKUPS[0]);
    let to = TargetState::File { content: ContentSource::File(&source), attributes: None };
    alter(&files, &place(&files, "status"), ExpectedState::Absent, to).unwrap();
    assert!(read(&files, "status").unwrap().contains("Pid:"));
}

#[test]
fn given_mode_ignores_the_umask() {
    let ground = TestWorkspace::new();
    let files = ground.files(LOOKUPS[0]);
    let told = Attributes { mode: Some(0o666), ..Attributes::default() };
    alter(&files, &place(&files, "new"), ExpectedState::Absent, file(b"", Some(&told))).unwrap();
    assert_eq!(fs::metadata(ground.work("new")).unwrap().mode() & 0o7777, 0o666);
}

/// The record of a change holds the mode before the file is created.
#[test]
fn the_mode_of_a_new_file_is_known_before_it_is_made() {
    // Access control list that new files inherit: read and write for the owner and the group, nothing for others.
    let entry = |tag: u8, rights: u8| [tag, 0, rights, 0, 0xff, 0xff, 0xff, 0xff];
    let list = [&[2, 0, 0, 0][..], &entry(1, 7), &entry(4, 6), &entry(0x20, 0)].concat();
    let ground = TestWorkspace::with(&[("plain/", ""), ("handed_down/", ""), ("file", "")]);
    let name = "system.posix_acl_default";
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(ground.work("handed_down"), name, &list, flags).unwrap();
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        for directory in ["plain", "handed_down"] {
            let told = files.new_file_mode(&place(&files, directory)).unwrap();
            let path = format!("{directory}/{lookup:?}");
            let made = write(&files, &path, "x", ExpectedState::Absent).unwrap().stat.unwrap();
            assert_eq!(told, Some(made.mode), "{directory}");
        }
        assert_eq!(error(files.new_file_mode(&place(&files, "missing"))), "NotFound");
        assert_eq!(error(files.new_file_mode(&place(&files, "file"))), "NotADirectory");
    }
    assert_eq!(ground.names("work/plain").len(), LOOKUPS.len(), "the probe leaves nothing behind");
}
