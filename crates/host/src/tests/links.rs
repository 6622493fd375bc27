//! Hard and symbolic links.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use windlass_core::{ExpectedState, TargetState};

use super::{LOOKUPS, TestWorkspace, alter, at, error, expect, place, read, rewrite, seen};

#[test]
fn symbolic_links_get_the_given_target() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "x"), ("old", "x")]);
        let files = ground.files(lookup);
        for target in [b"file".as_slice(), b"/nowhere/at all", b"..", b"\xff\n\"", b"self"] {
            let target = Path::new(OsStr::from_bytes(target));
            for name in ["a/b/new", "old"] {
                let link = place(&files, name);
                alter(&files, &link, expect(&files, &link), TargetState::Symlink(target)).unwrap();
                assert_eq!(fs::read_link(ground.work(name)).unwrap(), target);
            }
        }
        let empty = TargetState::Symlink(Path::new(""));
        assert_eq!(
            error(alter(&files, &place(&files, "e"), ExpectedState::Absent, empty)),
            "BadName"
        );
        assert_eq!(ground.names("work"), ["a", "file", "old"]);
        assert_eq!(ground.names("work/a/b"), ["new"]);
    }
}

#[test]
fn a_hard_link_is_the_same_file() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("one", "x"), ("other", "other")]);
        let files = ground.files(lookup);
        for name in ["a/b/two", "other"] {
            let path = place(&files, name);
            let linked =
                TargetState::Linked { with: &at(&files, "one"), seen: seen(&files, "one") };
            let altered = alter(&files, &path, expect(&files, &path), linked).unwrap();
            let metadata = fs::metadata(ground.work(name)).unwrap();
            assert_eq!(metadata.ino(), fs::metadata(ground.work("one")).unwrap().ino());
            assert_eq!(altered.stat.unwrap().links, metadata.nlink());
        }
        // A repeated link to the same file changes nothing.
        let path = place(&files, "other");
        let linked = TargetState::Linked { with: &at(&files, "one"), seen: seen(&files, "one") };
        alter(&files, &path, expect(&files, &path), linked).unwrap();
        rewrite(&files, "one", "changed").unwrap();
        assert_eq!(read(&files, "other").unwrap(), "x", "other names keep the old content");
        assert_eq!(ground.names("work"), ["a", "one", "other"]);
    }
}

#[test]
fn only_the_seen_file_is_hard_linked() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("one", "x"), ("directory/", "")]);
        let files = ground.files(lookup);
        let (one, before) = (at(&files, "one"), seen(&files, "one"));
        ground.put("work/one", "by another");
        let new = place(&files, "a/new");
        let linked = TargetState::Linked { with: &one, seen: before };
        assert_eq!(error(alter(&files, &new, ExpectedState::Absent, linked)), "Stale");
        let directory = at(&files, "directory");
        let linked = TargetState::Linked { with: &directory, seen: seen(&files, "directory") };
        assert_eq!(error(alter(&files, &new, ExpectedState::Absent, linked)), "NotRegular");
        assert_eq!(ground.names("work"), ["directory", "one"]);
    }
}
