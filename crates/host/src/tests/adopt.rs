//! Staged files that are moved into the workspace instead of copied.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::XattrFlags;
use windlass_core::{Attributes, ContentSource, TargetState};

use super::{LOOKUPS, TestWorkspace, alter, expect, place};

/// Description of the staged file or its target directory, code that arranges it, and whether the file is moved.
type Case = (&'static str, fn(&Path, &Path), bool);

const CASES: &[Case] = &[
    ("a plain file", |_, _| {}, true),
    ("marked by the overlay", |staged, _| set(staged, "user.overlay.origin"), true),
    ("with an attribute that is told", |staged, _| set(staged, "user.told"), true),
    ("with an attribute that is not told", |staged, _| set(staged, "user.other"), false),
    (
        "with two names",
        |staged, _| fs::hard_link(staged, staged.with_extension("2")).unwrap(),
        false,
    ),
    ("into a directory that gives its group", |_, to| mode(to, 0o2755), false),
];

fn set(path: &Path, name: &str) {
    rustix::fs::setxattr(path, name, b"value", XattrFlags::empty()).unwrap();
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn staged_file_is_moved_if_a_copy_would_be_the_same() {
    for target in ["new", "old"] {
        for (what, arrange, is_moved) in CASES {
            let ground = TestWorkspace::with(&[("d/old", "old")]);
            let staged = ground.path("outside/staged");
            fs::write(&staged, "staged").unwrap();
            arrange(&staged, &ground.work("d"));
            let number = fs::metadata(&staged).unwrap().ino();
            let told = Attributes {
                mode: Some(0o751),
                modified: Some(1_234_567_890_123_456_789),
                extended: Some(vec![("user.told".into(), b"value".to_vec())]),
                ..Attributes::default()
            };
            let files = ground.files(LOOKUPS[0]);
            let at = place(&files, Path::new("d").join(target));
            let to =
                TargetState::File { content: ContentSource::At(&staged), attributes: Some(&told) };
            let altered = alter(&files, &at, expect(&files, &at), to).unwrap();
            let what = format!("{what}, to {target}");
            let facts = fs::metadata(&at.path).unwrap();
            assert_eq!(facts.ino() == number, *is_moved, "{what}");
            assert_eq!(staged.exists(), !is_moved, "{what}");
            assert_eq!(altered.stat.unwrap().fingerprint.inode, facts.ino(), "{what}");
            assert_eq!(fs::read(&at.path).unwrap(), b"staged", "{what}");
            let (mode, modified) = (facts.mode() & 0o7777, facts.mtime_nsec());
            assert_eq!((mode, modified), (0o751, 123_456_789), "{what}");
            let mut names = [0; 256];
            let length = rustix::fs::listxattr(&at.path, &mut names).unwrap();
            assert_eq!(&names[..length], b"user.told\0", "{what}");
            assert_eq!(ground.names("work/d").len(), if target == "new" { 2 } else { 1 }, "{what}");
        }
    }
}

#[test]
fn staged_file_on_another_file_system_is_copied() {
    let ground = TestWorkspace::new();
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let staged = elsewhere.path().join("staged");
    fs::write(&staged, "staged").unwrap();
    let files = ground.files(LOOKUPS[0]);
    let at = place(&files, "new");
    let told = Attributes { mode: Some(0o640), ..Attributes::default() };
    let to = TargetState::File { content: ContentSource::At(&staged), attributes: Some(&told) };
    alter(&files, &at, expect(&files, &at), to).unwrap();
    assert_eq!(fs::read(&at.path).unwrap(), b"staged");
    assert!(staged.exists());
}
