//! Removing and moving what was seen, and nothing else.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use windlass_core::{FileError, Files, Fingerprint, Resolved, Stat};

use super::{Ground, LOOKUPS, error, read};
use crate::LocalFiles;

fn at(files: &LocalFiles, path: &str) -> Resolved {
    files.resolve(Path::new(path)).unwrap()
}

fn seen(files: &LocalFiles, path: &str) -> Fingerprint {
    files.stat(&at(files, path)).unwrap().fingerprint
}

fn remove(files: &LocalFiles, path: &str) -> Result<(), FileError> {
    files.remove(&at(files, path), seen(files, path))
}

fn rename(files: &LocalFiles, from: &str, to: &str) -> Result<Stat, FileError> {
    files.rename(&at(files, from), seen(files, from), &at(files, to))
}

#[test]
fn what_was_seen_is_removed() {
    for lookup in LOOKUPS {
        let ground = Ground::with(&[("file", "x"), ("a/below", "x"), ("a/target", "x")]);
        ground.put("outside/file", "x");
        ground.link("a/target", "work/link");
        let files = ground.files(lookup);
        for path in ["file", "a/below", "../outside/file", "link"] {
            remove(&files, path).unwrap();
        }
        // A link is followed, as everywhere: its target is gone, and it dangles.
        assert_eq!(ground.names("work"), ["a", "link"]);
        assert_eq!(ground.names("work/a"), [""; 0]);
        assert_eq!(ground.names("outside"), [""; 0]);
    }
}

#[test]
fn what_was_not_seen_stays() {
    for lookup in LOOKUPS {
        let ground = Ground::with(&[("file", "x"), ("gone", "x"), ("swapped", "x"), ("a/b", "x")]);
        let files = ground.files(lookup);
        for (path, spoil, expected) in [
            ("file", &(|| ground.put("work/file", "by another")) as &dyn Fn(), "Stale"),
            ("gone", &|| fs::remove_file(ground.work("gone")).unwrap(), "Stale"),
            ("a", &|| {}, "NotRegular"),
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
            assert_eq!(error(files.remove(&place, fingerprint)), expected, "{path}");
        }
        assert_eq!(ground.names("work"), ["a", "file", "swapped"]);
    }
}

#[test]
fn another_name_of_the_file_stays() {
    let ground = Ground::with(&[("one", "x")]);
    fs::hard_link(ground.work("one"), ground.work("two")).unwrap();
    let files = ground.files(LOOKUPS[0]);
    remove(&files, "one").unwrap();
    assert_eq!(read(&files, "two").unwrap(), "x");
}

#[test]
fn only_empty_directories_are_removed() {
    for lookup in LOOKUPS {
        let ground = Ground::with(&[("empty/", ""), ("full/file", "x"), ("file", "x")]);
        let files = ground.files(lookup);
        files.remove_directory(&at(&files, "empty")).unwrap();
        for path in ["full", "file", "nowhere", "/"] {
            assert!(files.remove_directory(&at(&files, path)).is_err(), "{path}");
        }
        assert_eq!(ground.names("work"), ["file", "full"]);
    }
}

#[test]
fn a_moved_file_is_the_same_file() {
    for lookup in LOOKUPS {
        let ground = Ground::with(&[("run.sh", "x")]);
        fs::set_permissions(ground.work("run.sh"), fs::Permissions::from_mode(0o751)).unwrap();
        let inode = fs::metadata(ground.work("run.sh")).unwrap().ino();
        let files = ground.files(lookup);
        let stat = rename(&files, "run.sh", "bin/tools/run").unwrap();
        assert_eq!((stat.mode, stat.fingerprint.inode), (0o751, inode));
        assert_eq!(stat.fingerprint, seen(&files, "bin/tools/run"));
        assert_eq!(ground.names("work"), ["bin"]);
    }
}

#[test]
fn nothing_is_moved_over_something() {
    for lookup in LOOKUPS {
        let ground = Ground::with(&[("a", "a"), ("b", "b"), ("directory/", "")]);
        let files = ground.files(lookup);
        for to in ["a", "b", "directory"] {
            assert_eq!(error(rename(&files, "a", to)), "Exists", "{to}");
        }
        let (place, fingerprint) = (at(&files, "a"), seen(&files, "a"));
        ground.put("work/a", "by another");
        let new = at(&files, "new/deep/c");
        assert_eq!(error(files.rename(&place, fingerprint, &new)), "Stale");
        assert_eq!(read(&files, "b").unwrap(), "b");
        assert_eq!(ground.names("work"), ["a", "b", "directory"], "no parents are left behind");
    }
}
