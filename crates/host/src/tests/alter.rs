//! Every alteration of every kind of object.

use std::fs;
use std::path::Path;

use rustix::fs::{CWD, Mode};
use windlass_core::{
    Attributes, ExpectedState, FileErrorKind, Files, Fingerprint, FoundBody, FoundEntry,
    TargetState,
};

use super::{LOOKUPS, TestWorkspace, alter, at, expect, file, name, place};
use crate::LocalFiles;

/// Objects at the altered path, and the expectation about them.
const STARTS: [&str; 8] = [
    "nothing, as expected",
    "a file, unexpected",
    "a file, as expected",
    "a link, as expected",
    "a directory, as expected",
    "a FIFO, as expected",
    "nothing, but something was",
    "a file, but another was",
];

/// For each alteration: the object afterwards, or the error, in the order of [`STARTS`].
const OUTCOMES: [(&str, [&str; 8]); 7] = [
    ("file", ["new", "Exists", "new", "NotRegular", "NotRegular", "NotRegular", "Stale", "Stale"]),
    (
        "attributes",
        ["NotFound", "Exists", "old", "NotRegular", "directory", "NotRegular", "Stale", "Stale"],
    ),
    (
        "moved",
        ["other", "Exists", "other", "NotRegular", "NotRegular", "NotRegular", "Stale", "Stale"],
    ),
    ("linked", ["other", "Exists", "other", "other", "NotRegular", "NotRegular", "Stale", "Stale"]),
    (
        "symlink",
        ["-> new", "Exists", "-> new", "-> new", "NotRegular", "NotRegular", "Stale", "Stale"],
    ),
    (
        "directory",
        ["directory", "Exists", "Exists", "Exists", "directory", "Exists", "Stale", "Stale"],
    ),
    (
        "nothing",
        ["nothing", "Exists", "nothing", "nothing", "nothing", "NotRegular", "Stale", "Stale"],
    ),
];

#[test]
fn each_alteration_of_each_kind_of_object() {
    for lookup in LOOKUPS {
        for (to, outcomes) in OUTCOMES {
            for (start, expected) in STARTS.into_iter().zip(outcomes) {
                let ground = TestWorkspace::with(&[("directory/other", "other")]);
                let files = ground.files(lookup);
                let expect = arrange_start(&ground, &files, start);
                let before = show(&files, "directory/thing");
                let made = try_alteration(&files, to, expect);
                let after = show(&files, "directory/thing");
                let (told, unchanged) = match made {
                    Ok(()) => (after.clone(), false),
                    Err(kind) => (name(&kind), true),
                };
                assert_eq!(told, expected, "{to} out of {start}");
                if unchanged {
                    assert_eq!(after, before, "{to} out of {start}");
                }
                let leftover = ground.names("work/directory").into_iter();
                let leftover: Vec<_> =
                    leftover.filter(|name| name != "other" && name != "thing").collect();
                assert!(leftover.is_empty(), "{to} out of {start}: {leftover:?}");
            }
        }
    }
}

fn arrange_start(ground: &TestWorkspace, files: &LocalFiles, start: &str) -> ExpectedState {
    let path = ground.work("directory/thing");
    match start.split(',').next().unwrap() {
        "a file" => fs::write(&path, "old").unwrap(),
        "a link" => ground.link("other", "work/directory/thing"),
        "a directory" => fs::create_dir(&path).unwrap(),
        "a FIFO" => rustix::fs::mkfifoat(CWD, &path, Mode::RWXU).unwrap(),
        _ => {}
    }
    let there = expect(files, &place(files, "directory/thing"));
    let zero = Fingerprint { device: 0, inode: 0, len: 0, modified: 0, changed: 0 };
    match start.split_once(", ").unwrap().1 {
        "as expected" => there,
        "unexpected" => ExpectedState::Absent,
        "but something was" | "but another was" => ExpectedState::Same(zero),
        other => panic!("{other}"),
    }
}

fn try_alteration(
    files: &LocalFiles,
    to: &str,
    expect: ExpectedState,
) -> Result<(), FileErrorKind> {
    let other = at(files, "directory/other");
    let seen = files.stat(&other).unwrap().fingerprint;
    let attributes = Attributes { mode: Some(0o700), ..Attributes::default() };
    let to = match to {
        "file" => file(b"new", None),
        "attributes" => TargetState::Attributes(&attributes),
        "moved" => TargetState::Moved { from: &other, seen },
        "linked" => TargetState::Linked { with: &other, seen },
        "symlink" => TargetState::Symlink(Path::new("new")),
        "directory" => TargetState::Directory { attributes: None },
        "nothing" => TargetState::Nothing,
        unknown => panic!("{unknown}"),
    };
    let path = place(files, "directory/thing");
    let altered = alter(files, &path, expect, to).map_err(|error| error.kind)?;
    let found = files.inspect(&path).unwrap();
    assert_eq!(altered.stat, found.map(|found| found.stat), "what is told is what is there");
    Ok(())
}

fn show(files: &LocalFiles, path: &str) -> String {
    match files.inspect(&place(files, path)).unwrap() {
        None => "nothing".into(),
        Some(FoundEntry { body, .. }) => match body {
            FoundBody::File(file) => std::io::read_to_string(file).unwrap(),
            FoundBody::Symlink(target) => format!("-> {}", target.display()),
            FoundBody::Directory(_) => "directory".into(),
            FoundBody::Other => "other kind".into(),
        },
    }
}

#[test]
fn link_in_the_path_is_not_followed() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("a/file", "x"), ("a/b/", ""), ("other", "x")]);
        ground.put("outside/file", "OUTSIDE");
        let files = ground.files(lookup);
        let attributes = Attributes { mode: Some(0o700), ..Attributes::default() };
        let (source, source_seen) = (at(&files, "other"), super::seen(&files, "other"));
        let inside = at(&files, "a/file");
        let seen = super::seen(&files, "a/file");
        fs::rename(ground.work("a"), ground.work("was_a")).unwrap();
        ground.link(ground.path("outside"), "work/a");
        let outside = files.inspect(&place(&files, "a/file"));
        assert_eq!(super::error(outside), "Changed");
        for to in [
            file(b"new", None),
            TargetState::Attributes(&attributes),
            TargetState::Moved { from: &source, seen: source_seen },
            TargetState::Linked { with: &source, seen: source_seen },
            TargetState::Symlink(Path::new("new")),
            TargetState::Directory { attributes: Some(&attributes) },
            TargetState::Nothing,
        ] {
            for expect in [ExpectedState::Absent, ExpectedState::Same(seen)] {
                let error = super::error(alter(&files, &inside, expect, to));
                assert_eq!(error, "Changed", "{to:?} {expect:?}");
            }
        }
        let taken = TargetState::Moved { from: &inside, seen };
        let error =
            super::error(alter(&files, &place(&files, "taken"), ExpectedState::Absent, taken));
        assert_eq!(error, "Changed");
        assert_eq!(fs::read_to_string(ground.path("outside/file")).unwrap(), "OUTSIDE");
        assert_eq!(ground.names("outside"), ["file"]);
        assert_eq!(ground.names("work"), ["a", "other", "was_a"]);
    }
}
