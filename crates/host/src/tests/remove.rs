//! Only a file in the state in which it was seen is removed.

use std::fs;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, Mode};
use windlass_core::{Altered, ExpectedState, FileError, TargetState};

use super::{LOOKUPS, TestWorkspace, alter, at, error, expect, place, read, seen};
use crate::LocalFiles;

/// Removes the current object at the real path.
fn remove(files: &LocalFiles, path: &str) -> Result<Altered, FileError> {
    let path = at(files, path);
    alter(files, &path, expect(files, &path), TargetState::Nothing)
}

#[test]
fn seen_file_is_removed() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "x"), ("a/below", "x"), ("a/target", "x")]);
        ground.put("outside/file", "x");
        ground.link("a/target", "work/link");
        let files = ground.files(lookup);
        for path in ["file", "a/below", "../outside/file", "link"] {
            remove(&files, path).unwrap();
        }
        // A link is followed, as everywhere: its target is removed, and it dangles.
        assert_eq!(ground.names("work"), ["a", "link"]);
        assert_eq!(ground.names("work/a"), [""; 0]);
        assert_eq!(ground.names("outside"), [""; 0]);
    }
}

#[test]
fn unseen_file_stays() {
    for lookup in LOOKUPS {
        let ground =
            TestWorkspace::with(&[("file", "x"), ("gone", "x"), ("swapped", "x"), ("a/b", "x")]);
        let files = ground.files(lookup);
        for (path, spoil, expected) in [
            ("file", &(|| ground.put("work/file", "by another")) as &dyn Fn(), "Stale"),
            ("gone", &|| fs::remove_file(ground.work("gone")).unwrap(), "Stale"),
            ("a", &|| {}, "NotEmpty"),
            (
                "swapped",
                &|| {
                    fs::remove_file(ground.work("swapped")).unwrap();
                    ground.link("file", "work/swapped");
                },
                "Changed",
            ),
        ] {
            let (place, fingerprint) = (at(&files, path), seen(&files, path));
            spoil();
            assert_eq!(
                error(alter(
                    &files,
                    &place,
                    ExpectedState::Same(fingerprint),
                    TargetState::Nothing
                )),
                expected,
                "{path}"
            );
        }
        assert_eq!(ground.names("work"), ["a", "file", "swapped"]);
    }
}

#[test]
fn other_hard_link_stays() {
    let ground = TestWorkspace::with(&[("one", "x")]);
    fs::hard_link(ground.work("one"), ground.work("two")).unwrap();
    let files = ground.files(LOOKUPS[0]);
    remove(&files, "one").unwrap();
    assert_eq!(read(&files, "two").unwrap(), "x");
}

#[test]
fn only_empty_directories_are_removed() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("empty/", ""), ("full/file", "x"), ("file", "x")]);
        let files = ground.files(lookup);
        remove(&files, "empty").unwrap();
        for (path, expected) in [("full", "NotEmpty"), ("/", "Permission")] {
            assert_eq!(error(remove(&files, path)), expected, "{path}");
        }
        assert_eq!(ground.names("work"), ["file", "full"]);
    }
}

#[test]
fn links_are_removed_and_not_followed() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "x"), ("directory/below", "x")]);
        ground.link("file", "work/link");
        ground.link("directory", "work/to_directory");
        ground.link("nowhere", "work/dangling");
        let files = ground.files(lookup);
        for path in ["link", "to_directory", "dangling"] {
            let link = place(&files, path);
            let removed =
                alter(&files, &link, expect(&files, &link), TargetState::Nothing).unwrap();
            assert_eq!(removed, Altered { stat: None, in_place: false });
        }
        assert_eq!(ground.names("work"), ["directory", "file"]);
        assert_eq!(ground.names("work/directory"), ["below"]);
    }
}

#[test]
fn unexpected_and_special_files_are_not_removed() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "x")]);
        rustix::fs::mkfifoat(CWD, ground.work("fifo"), Mode::RWXU).unwrap();
        let _socket = UnixListener::bind(ground.work("socket")).unwrap();
        let files = ground.files(lookup);
        for path in ["missing", "missing/below", "file/below"] {
            alter(&files, &place(&files, path), ExpectedState::Absent, TargetState::Nothing)
                .unwrap();
        }
        for path in ["file", "fifo", ""] {
            let place = place(&files, path);
            assert_eq!(
                error(alter(&files, &place, ExpectedState::Absent, TargetState::Nothing)),
                "Exists"
            );
        }
        for path in ["fifo", "socket"] {
            assert_eq!(error(remove(&files, path)), "NotRegular", "{path}");
        }
    }
}

/// Added or removed entries do not make a directory a different one; another directory of the same name is a different one.
#[test]
fn directory_is_identified_by_its_inode() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("emptied/file", "x"), ("other/", "")]);
        let files = ground.files(lookup);
        let (emptied, other) = (seen(&files, "emptied"), seen(&files, "other"));
        fs::remove_file(ground.work("emptied/file")).unwrap();
        alter(&files, &at(&files, "emptied"), ExpectedState::Same(emptied), TargetState::Nothing)
            .unwrap();
        fs::rename(ground.work("other"), ground.work("moved")).unwrap();
        ground.put("work/other/", "");
        let removed =
            alter(&files, &at(&files, "other"), ExpectedState::Same(other), TargetState::Nothing);
        assert_eq!(error(removed), "Stale");
        assert_eq!(ground.names("work"), ["moved", "other"]);
    }
}
