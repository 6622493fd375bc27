//! Moving a seen file: it stays the same file at another path.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use windlass_core::{Altered, ExpectedState, FileError, TargetState};

use super::{LOOKUPS, TestWorkspace, alter, at, error, expect, place, read, seen};
use crate::LocalFiles;

/// Moves a file as it is now to a path where nothing exists.
fn move_to_new_path(files: &LocalFiles, from: &str, to: &str) -> Result<Altered, FileError> {
    let moved = TargetState::Moved { from: &at(files, from), seen: seen(files, from) };
    alter(files, &at(files, to), ExpectedState::Absent, moved)
}

#[test]
fn a_moved_file_is_the_same_file() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("run.sh", "x")]);
        fs::set_permissions(ground.work("run.sh"), fs::Permissions::from_mode(0o751)).unwrap();
        let inode = fs::metadata(ground.work("run.sh")).unwrap().ino();
        let files = ground.files(lookup);
        let stat = move_to_new_path(&files, "run.sh", "bin/tools/run").unwrap().stat.unwrap();
        assert_eq!((stat.mode, stat.fingerprint.inode), (0o751, inode));
        assert_eq!(stat.fingerprint, seen(&files, "bin/tools/run"));
        assert_eq!(ground.names("work"), ["bin"]);
    }
}

#[test]
fn existing_target_is_not_overwritten_unseen() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("a", "a"), ("b", "b"), ("directory/", "")]);
        let files = ground.files(lookup);
        for to in ["a", "b", "directory"] {
            assert_eq!(error(move_to_new_path(&files, "a", to)), "Exists", "{to}");
        }
        let (place, fingerprint) = (at(&files, "a"), seen(&files, "a"));
        ground.put("work/a", "by another");
        let new = at(&files, "new/deep/c");
        assert_eq!(
            error(alter(
                &files,
                &new,
                ExpectedState::Absent,
                TargetState::Moved { from: &place, seen: fingerprint }
            )),
            "Stale"
        );
        assert_eq!(read(&files, "b").unwrap(), "b");
        assert_eq!(ground.names("work"), ["a", "b", "directory"], "no parents are left behind");
    }
}

#[test]
fn seen_target_can_be_overwritten() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("a", "a"), ("b", "b"), ("one", "x")]);
        fs::hard_link(ground.work("one"), ground.work("two")).unwrap();
        let files = ground.files(lookup);
        let over = |from: &str, to: &str| {
            let moved = TargetState::Moved { from: &at(&files, from), seen: seen(&files, from) };
            alter(&files, &at(&files, to), ExpectedState::Same(seen(&files, to)), moved)
        };
        over("a", "b").unwrap();
        assert_eq!(read(&files, "b").unwrap(), "a");
        assert_eq!(error(over("one", "two")), "Exists", "they are one file");
        assert_eq!(ground.names("work"), ["b", "one", "two"]);
    }
}

#[test]
fn a_link_is_moved_and_not_followed() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "x")]);
        ground.link("file", "work/link");
        let files = ground.files(lookup);
        let link = place(&files, "link");
        let ExpectedState::Same(seen) = expect(&files, &link) else { panic!() };
        let moved = TargetState::Moved { from: &link, seen };
        alter(&files, &place(&files, "a/moved"), ExpectedState::Absent, moved).unwrap();
        assert_eq!(fs::read_link(ground.work("a/moved")).unwrap().to_str(), Some("file"));
        assert_eq!(ground.names("work"), ["a", "file"]);
    }
}

#[test]
fn directory_is_moved_with_its_contents_to_a_new_path() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("old/sub/file", "x"), ("empty/", ""), ("file", "x")]);
        let inode = fs::metadata(ground.work("old")).unwrap().ino();
        let files = ground.files(lookup);
        let old = place(&files, "old");
        let ExpectedState::Same(seen) = expect(&files, &old) else { panic!() };
        let moved = |to: &str, expect| {
            alter(&files, &place(&files, to), expect, TargetState::Moved { from: &old, seen })
        };
        for to in ["empty", "file"] {
            assert_eq!(error(moved(to, ExpectedState::Absent)), "Exists", "{to}");
        }
        let there = expect(&files, &place(&files, "file"));
        assert_eq!(error(moved("file", there)), "NotRegular");
        let stat = moved("a/new", ExpectedState::Absent).unwrap().stat.unwrap();
        assert_eq!(stat.fingerprint.inode, inode);
        assert_eq!(fs::read_to_string(ground.work("a/new/sub/file")).unwrap(), "x");
        assert_eq!(ground.names("work"), ["a", "empty", "file"]);
        ground.put("work/old/other", "another directory");
        assert_eq!(error(moved("b", ExpectedState::Absent)), "Stale");
    }
}
