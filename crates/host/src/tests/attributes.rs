//! Attributes are set exactly as given, and by handle.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use rustix::fs::XattrFlags;
use windlass_core::{Attributes, ExpectedState, Files, TargetState};

use super::{LOOKUPS, TestWorkspace, alter, at, error, expect, file, place, process, read, seen};
use crate::LocalFiles;

fn told() -> Attributes {
    Attributes {
        mode: Some(0o750),
        modified: Some(1_234_567_890_123_456_789),
        ..Attributes::default()
    }
}

fn mode(ground: &TestWorkspace, path: &str) -> u32 {
    fs::metadata(ground.work(path)).unwrap().mode() & 0o7777
}

/// An undo restores content and all attributes in this way.
#[test]
fn file_gets_exactly_the_given_attributes() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("old", "x"), ("one", "x"), ("read_only", "x")]);
        fs::hard_link(ground.work("one"), ground.work("two")).unwrap();
        fs::set_permissions(ground.work("read_only"), fs::Permissions::from_mode(0o400)).unwrap();
        let files = ground.files(lookup);
        for path in ["new", "a/b/new", "old", "one", "read_only"] {
            for attributes in [
                told(),
                Attributes { mode: Some(0o4777), ..told() },
                Attributes { mode: Some(0o400), modified: Some(-1), ..told() },
                Attributes { modified: Some(0), ..Attributes::default() },
            ] {
                let place = place(&files, path);
                let to = file(b"restored", Some(&attributes));
                let altered = alter(&files, &place, expect(&files, &place), to).unwrap();
                let stat = altered.stat.unwrap();
                assert!(!altered.in_place);
                assert_eq!(stat.mode, attributes.mode.unwrap_or(0o400), "{path}");
                assert_eq!(Some(stat.fingerprint.modified), attributes.modified, "{path}");
                assert_eq!(stat, files.stat(&place).unwrap());
                assert_eq!(fs::read(ground.work(path)).unwrap(), b"restored");
            }
        }
        assert_eq!(ground.names("work"), ["a", "new", "old", "one", "read_only", "two"]);
    }
}

#[test]
fn directory_gets_exactly_the_given_attributes() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::new();
        let files = ground.files(lookup);
        let to = TargetState::Directory { attributes: Some(&told()) };
        let made = alter(&files, &place(&files, "a/b"), ExpectedState::Absent, to).unwrap();
        let stat = made.stat.unwrap();
        assert_eq!((stat.mode, Some(stat.fingerprint.modified)), (0o750, told().modified));
        let plain = TargetState::Directory { attributes: None };
        alter(&files, &place(&files, "plain"), ExpectedState::Absent, plain).unwrap();
        ground.put("work/by_standard_library/", "");
        for name in ["a", "plain"] {
            assert_eq!(mode(&ground, name), mode(&ground, "by_standard_library"));
        }
    }
}

#[test]
fn attributes_change_without_replacing_the_object() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "x"), ("directory/", ""), ("locked", "x")]);
        fs::set_permissions(ground.work("locked"), fs::Permissions::from_mode(0o000)).unwrap();
        let files = ground.files(lookup);
        for path in ["file", "directory", "locked"] {
            let inode = fs::metadata(ground.work(path)).unwrap().ino();
            let place = place(&files, path);
            let expect = ExpectedState::Same(files.stat(&place).unwrap().fingerprint);
            // An added or removed entry does not count as a change of the directory.
            ground.put("work/directory/entry", path);
            let altered = alter(&files, &place, expect, TargetState::Attributes(&told())).unwrap();
            let stat = altered.stat.unwrap();
            assert_eq!((stat.mode, Some(stat.fingerprint.modified)), (0o750, told().modified));
            assert_eq!(stat.fingerprint.inode, inode);
            assert_eq!(stat, files.stat(&place).unwrap());
            // Attributes that are not given stay as they are.
            let only_mode = Attributes { mode: Some(0o700), ..Attributes::default() };
            let expect = ExpectedState::Same(stat.fingerprint);
            let altered =
                alter(&files, &place, expect, TargetState::Attributes(&only_mode)).unwrap();
            let stat = altered.stat.unwrap();
            assert_eq!((stat.mode, Some(stat.fingerprint.modified)), (0o700, told().modified));
        }
        let (file, before) = (at(&files, "file"), seen(&files, "file"));
        ground.put("work/file", "by another");
        let stale =
            alter(&files, &file, ExpectedState::Same(before), TargetState::Attributes(&told()));
        assert_eq!(error(stale), "Stale");
        assert_eq!(mode(&ground, "file"), 0o700);
    }
}

#[test]
fn attributes_are_not_set_through_a_link() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "x")]);
        ground.link("file", "work/link");
        let before = mode(&ground, "file");
        let files = ground.files(lookup);
        let link = place(&files, "link");
        for expect in [expect(&files, &link), ExpectedState::Same(seen(&files, "file"))] {
            assert!(alter(&files, &link, expect, TargetState::Attributes(&told())).is_err());
        }
        assert_eq!(mode(&ground, "file"), before);
    }
}

/// Sets an extended attribute; `None` if the file system has none.
fn mark(ground: &TestWorkspace, path: &str, name: &str, value: &[u8]) -> Option<()> {
    match rustix::fs::setxattr(ground.work(path), name, value, XattrFlags::empty()) {
        Err(rustix::io::Errno::OPNOTSUPP) => return None,
        set => set.unwrap(),
    }
    Some(())
}

fn marks(files: &LocalFiles, path: &str) -> Vec<(String, Vec<u8>)> {
    let found = files.inspect(&place(files, path)).unwrap().unwrap();
    let mut marks = found.attributes.extended.unwrap();
    marks.retain(|(name, _)| name.starts_with("user.") || name.starts_with("system."));
    marks.sort();
    marks
}

#[test]
fn extended_attributes_become_exactly_those_given() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "x"), ("one", "x"), ("directory/", "")]);
        fs::hard_link(ground.work("one"), ground.work("two")).unwrap();
        let files = ground.files(lookup);
        for path in ["file", "one", "directory"] {
            let Some(()) = mark(&ground, path, "user.gone", b"gone") else { return };
            mark(&ground, path, "user.changed", b"old").unwrap();
            let extended =
                vec![("user.changed".into(), b"new".to_vec()), ("user.new".into(), vec![])];
            let told = Attributes { extended: Some(extended), ..Attributes::default() };
            let place = place(&files, path);
            let to = match path {
                "directory" => TargetState::Attributes(&told),
                _ => file(b"new", Some(&told)),
            };
            alter(&files, &place, expect(&files, &place), to).unwrap();
            let expected = [("user.changed", "new"), ("user.new", "")];
            let expected = expected.map(|(name, value)| (name.into(), value.into()));
            assert_eq!(marks(&files, path), expected, "{path}");
            // Extended attributes stay if none are given.
            let to = match path {
                "directory" => TargetState::Attributes(&Attributes::default()),
                _ => file(b"newer", None),
            };
            alter(&files, &place, super::expect(&files, &place), to).unwrap();
            assert_eq!(marks(&files, path), expected, "{path}");
        }
        // An attribute that only the kernel may set is no reason to fail.
        let extended = vec![("nonsense".into(), vec![1]), ("user.told".into(), vec![2])];
        let told = Attributes { extended: Some(extended), ..Attributes::default() };
        alter(&files, &place(&files, "new"), ExpectedState::Absent, file(b"x", Some(&told)))
            .unwrap();
        assert_eq!(marks(&files, "new"), [("user.told".into(), vec![2])]);
    }
}

/// Access control list, version 2: the owner, user 1 and the group may read and write, others nothing.
const RIGHTS: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 1, 0, 0, 0, 4, 0, 6, 0, 255, 255, 255,
    255, 16, 0, 6, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

#[test]
fn access_control_lists_are_kept_and_not_inherited() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("with", "x"), ("without", "x")]);
        let files = ground.files(lookup);
        let Some(()) = mark(&ground, "with", "system.posix_acl_access", &RIGHTS) else { return };
        let before: Vec<_> =
            ["with", "without"].map(|path| (marks(&files, path), mode(&ground, path))).into();
        assert_eq!(before[0].0[0].1, RIGHTS);
        // From now on every new file in the workspace inherits an access control list.
        mark(&ground, "", "system.posix_acl_default", &RIGHTS).unwrap();
        for (path, before) in ["with", "without"].into_iter().zip(before) {
            super::rewrite(&files, path, "new").unwrap();
            assert_eq!((marks(&files, path), mode(&ground, path)), before, "{path}");
            assert_eq!(read(&files, path).unwrap(), "new");
        }
        super::write(&files, "new", "x", ExpectedState::Absent).unwrap();
        assert_eq!(marks(&files, "new")[0].0, "system.posix_acl_access");
    }
}

#[test]
fn the_owner_is_kept() {
    let ground = TestWorkspace::with(&[("file", "x")]);
    let path = ground.work("file");
    // Only root can give a file away; any other user cannot create a foreign file here.
    if std::os::unix::fs::chown(&path, Some(12_345), Some(54_321)).is_err() {
        return;
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4640)).unwrap();
    let files = ground.files(LOOKUPS[0]);
    let altered = super::rewrite(&files, "file", "new").unwrap();
    let owner = |path: &str| {
        let metadata = fs::metadata(ground.work(path)).unwrap();
        (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
    };
    assert!(!altered.in_place);
    assert_eq!(owner("file"), (12_345, 54_321, 0o4640));
    let told = Attributes { owner: Some((1, 2)), ..Attributes::default() };
    for path in ["file", "new"] {
        let place = place(&files, path);
        let to = file(b"x", Some(&told));
        let before = files.stat(&place).map(|stat| stat.mode).unwrap_or_default();
        alter(&files, &place, expect(&files, &place), to).unwrap();
        let (user, group, mode) = owner(path);
        assert_eq!((user, group), (1, 2));
        assert!(path == "new" || mode == before);
    }
}

/// User and group id without special rights.
const UNPRIVILEGED_ID: u32 = 65_534;

/// A file that we may write but that belongs to another user keeps its owner.
#[test]
fn a_foreign_file_is_written_in_place() {
    // Only root can act as another user; any other user cannot create a foreign file here.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let ground = TestWorkspace::with(&[("foreign", "old"), ("read_only", "old")]);
    for (name, mode) in [("", 0o755), ("work", 0o777), ("work/foreign", 0o666)] {
        fs::set_permissions(ground.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    // Another user may have no access to the directory of the program itself.
    let program = ground.path("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command =
        process::command(&program, "attributes::writes_as_unprivileged_user", &ground, "");
    assert!(command.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID).status().unwrap().success());
    let metadata = fs::metadata(ground.work("foreign")).unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (0, 0o666));
    assert_eq!(ground.names("work"), ["foreign", "read_only"]);
}

#[test]
#[ignore = "the other process of `a_foreign_file_is_written_in_place`"]
fn writes_as_unprivileged_user() {
    let (workspace, _) = process::workspace_and_name();
    let files = LocalFiles::open(workspace.as_ref()).unwrap();
    let told = files.inspect(&at(&files, "foreign")).unwrap().unwrap().attributes;
    for number in 0..20 {
        let before = seen(&files, "foreign");
        let content = number.to_string();
        let attributes = (number % 2 == 1).then_some(&told);
        let to = file(content.as_bytes(), attributes);
        let altered =
            alter(&files, &at(&files, "foreign"), ExpectedState::Same(before), to).unwrap();
        assert!(altered.in_place);
        assert_ne!(seen(&files, "foreign"), before);
        assert_eq!(read(&files, "foreign").unwrap(), content);
    }
    let refused = super::rewrite(&files, "read_only", "new");
    assert_eq!(error(refused), "Permission");
    assert_eq!(read(&files, "read_only").unwrap(), "old");
}
