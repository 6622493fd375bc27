//! The `/tmp` of a session, as its file tools reach it: by name, by link, in a race, and with a workspace that is itself below
//! `/tmp`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags};
use tempfile::TempDir;
use windlass_core::{ExpectedState, FileKind, Files, Resolved, SessionId, TargetState};

use super::walk::{PLAIN, shown};
use super::{LOOKUPS, alter, at, error, expect, file, read, rewrite, write};
use crate::kernel::Lookup;
use crate::temporary::{TemporaryDirectories, TemporaryDirectory};
use crate::{Durability, LocalFiles};

/// A workspace `work`, a directory `outside`, a state directory, and a directory in the machine's own `/tmp` that no session may
/// reach.
struct SessionTmpWorkspace {
    ground: TempDir,
    decoy: TempDir,
}

impl SessionTmpWorkspace {
    /// Creates a workspace that is not below `/tmp`.
    fn new() -> Self {
        let program = std::env::current_exe().unwrap();
        Self::inside(tempfile::tempdir_in(program.parent().unwrap()).unwrap())
    }

    fn inside(ground: TempDir) -> Self {
        let world = Self { ground, decoy: tempfile::tempdir_in("/tmp").unwrap() };
        for name in ["work", "outside", "state"] {
            fs::create_dir(world.path(name)).unwrap();
        }
        fs::write(world.path("work/file"), "in the workspace").unwrap();
        fs::write(world.path("outside/secret"), "OUTSIDE").unwrap();
        fs::write(world.decoy("secret"), "DECOY").unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.ground.path()).unwrap().join(name)
    }

    fn decoy(&self, name: &str) -> PathBuf {
        self.decoy.path().join(name)
    }

    fn files(&self, lookup: Lookup, session: &str) -> LocalFiles {
        let files = LocalFiles::open_by(&self.path("work"), lookup, Durability::Kernel).unwrap();
        files.with_session_tmp(&self.path("state"), &SessionId::new(session))
    }

    /// Opens the directory of a session, as its programs would.
    fn directory(&self, session: &str) -> TemporaryDirectory {
        let directories = TemporaryDirectories::new(Some(self.path("state")));
        directories.open(Some(&SessionId::new(session))).unwrap()
    }
}

/// Checks that `asked` resolves to `expected`, with a `?` after it if nothing exists there, or fails with an error's name.
fn check(world: &SessionTmpWorkspace, files: &LocalFiles, asked: &str, expected: &str) {
    let full = |text: &str| {
        let decoy = world.decoy.path().to_str().unwrap();
        text.replace("GROUND", world.path("").to_str().unwrap().trim_end_matches('/'))
            .replace("DECOY", decoy)
    };
    let shown = match files.resolve(Path::new(&full(asked))) {
        Err(error) => super::name(&error.kind),
        Ok(Resolved { path, exists, .. }) => {
            format!("{}{}", path.display(), if exists { "" } else { "?" })
        }
    };
    assert_eq!(shown, full(expected), "{asked}");
}

#[test]
fn paths_resolve_to_real_paths() {
    let world = SessionTmpWorkspace::new();
    let session = world.directory("s1");
    let inside = |name: &str| session.path.join(name);
    fs::create_dir(inside("sub")).unwrap();
    fs::write(inside("note"), "mine").unwrap();
    fs::write(inside("sub/deep"), "deep").unwrap();
    for (target, link) in [
        ("/tmp/note", inside("absolute")),
        ("/var/tmp/sub", inside("other_name")),
        ("../tmp/note", inside("relative")),
        ("../../../../etc/passwd", inside("climb")),
        ("circle", inside("circle")),
        (world.path("outside").to_str().unwrap(), inside("out")),
        (world.decoy("secret").to_str().unwrap(), inside("machine")),
        ("/tmp/note", world.path("work/to_note")),
        ("/tmp/sub", world.path("work/to_sub")),
        ("/tmp", world.path("work/to_tmp")),
        (world.decoy("").to_str().unwrap(), world.path("work/to_machine")),
        // Links in the machine's `/tmp` are never followed.
        ("/etc", world.decoy("to_etc")),
    ] {
        symlink(target, link).unwrap();
    }
    for lookup in LOOKUPS {
        let files = world.files(lookup, "s1");
        for (asked, expected) in [
            ("/tmp", "/tmp"),
            ("/tmp/", "/tmp"),
            ("/var/tmp", "/tmp"),
            ("/tmp/note", "/tmp/note"),
            ("//tmp/./note", "/tmp/note"),
            ("/var/tmp/note", "/tmp/note"),
            ("/tmp/sub/deep", "/tmp/sub/deep"),
            ("/tmp/sub/../note", "/tmp/note"),
            ("/tmp/..", "/"),
            ("/tmp/../tmp/note", "/tmp/note"),
            ("/var/tmp/..", "/var"),
            ("/tmp/sub/../../etc/passwd", "/etc/passwd"),
            ("/tmp/none", "/tmp/none?"),
            ("/tmp/none/deeper", "/tmp/none/deeper?"),
            ("/tmp/note/", "NotADirectory"),
            ("/tmp/note/x", "NotADirectory"),
            ("/tmp/absolute", "/tmp/note"),
            ("/tmp/other_name/deep", "/tmp/sub/deep"),
            ("/tmp/relative", "/tmp/note"),
            ("/tmp/climb", "/etc/passwd"),
            ("/tmp/circle", "BadName"),
            ("/tmp/out/secret", "GROUND/outside/secret"),
            ("/tmp/out/../work/file", "GROUND/work/file"),
            ("/tmp/machine", "DECOY/secret?"),
            ("DECOY/secret", "DECOY/secret?"),
            ("DECOY/to_etc/passwd", "DECOY/to_etc/passwd?"),
            ("to_note", "/tmp/note"),
            ("to_sub/deep", "/tmp/sub/deep"),
            ("to_sub/..", "/tmp"),
            ("to_tmp/../etc/passwd", "/etc/passwd"),
            ("to_machine/secret", "DECOY/secret?"),
            ("file", "GROUND/work/file"),
            ("../outside/secret", "GROUND/outside/secret"),
            ("GROUND/outside/secret", "GROUND/outside/secret"),
        ] {
            check(&world, &files, asked, expected);
        }
        assert_eq!(read(&files, "/var/tmp/note").unwrap(), "mine");
        assert_eq!(read(&files, "to_sub/deep").unwrap(), "deep");
        assert_eq!(read(&files, "/tmp/out/secret").unwrap(), "OUTSIDE");
        assert_eq!(error(read(&files, world.decoy("secret"))), "NotFound");
    }
}

#[test]
fn changes_are_made_in_the_directory_of_the_session() {
    let world = SessionTmpWorkspace::new();
    let note = world.decoy("note");
    for lookup in LOOKUPS {
        let (one, two) = (world.files(lookup, "one"), world.files(lookup, "two"));
        write(&one, &note, "first", ExpectedState::Absent).unwrap();
        write(&one, "/var/tmp/a/b/c", "deep", ExpectedState::Absent).unwrap();
        rewrite(&one, "/tmp/a/b/c", "deeper").unwrap();
        assert_eq!(read(&one, "/tmp/a/b/c").unwrap(), "deeper");
        assert_eq!(error(read(&two, "/tmp/a/b/c")), "NotFound");
        assert_eq!(error(read(&two, &note)), "NotFound");
        assert!(!note.exists());

        let below = world.directory("one").path;
        assert_eq!(fs::read_to_string(below.join("a/b/c")).unwrap(), "deeper");
        let (paths, _) = shown(&one, "/tmp/a", &PLAIN);
        assert_eq!(paths, ["b/", "b/c"]);

        let (from, to) = (at(&one, "/tmp/a/b/c"), at(&one, "/tmp/a/moved"));
        let seen = one.stat(&from).unwrap().fingerprint;
        alter(&one, &to, ExpectedState::Absent, TargetState::Moved { from: &from, seen }).unwrap();
        let link = at(&one, "/tmp/a/link");
        alter(&one, &link, ExpectedState::Absent, TargetState::Symlink(Path::new("moved")))
            .unwrap();
        assert_eq!(read(&one, "/tmp/a/link").unwrap(), "deeper");
        for name in ["/tmp/a/link", "/tmp/a/moved", "/tmp/a/b", "/tmp/a"] {
            // Not resolved, because that would follow the link.
            let place = Resolved { path: name.into(), inside: None, exists: true };
            alter(&one, &place, expect(&one, &place), TargetState::Nothing).unwrap();
        }
        fs::remove_dir_all(below).unwrap();
    }
    assert_eq!(fs::read_to_string(world.decoy("secret")).unwrap(), "DECOY");
}

#[test]
fn session_tmp_itself_can_be_inspected_but_not_changed() {
    let world = SessionTmpWorkspace::new();
    for lookup in LOOKUPS {
        let files = world.files(lookup, "s1");
        for name in ["/tmp", "/var/tmp"] {
            let tmp = at(&files, name);
            let found = files.inspect(&tmp).unwrap().unwrap();
            assert_eq!((found.stat.kind, found.stat.mode), (FileKind::Directory, 0o700));
            let seen = ExpectedState::Same(found.stat.fingerprint);
            assert_eq!(error(alter(&files, &tmp, seen, TargetState::Nothing)), "Permission");
            assert_eq!(
                error(alter(&files, &tmp, ExpectedState::Absent, file(b"", None))),
                "Permission"
            );
        }
    }
}

#[test]
fn workspace_below_tmp_takes_precedence() {
    let world = SessionTmpWorkspace::inside(tempfile::tempdir_in("/tmp").unwrap());
    let session = world.directory("s1");
    let ground = world.path("").file_name().unwrap().to_owned();
    fs::write(session.path.join("note"), "mine").unwrap();
    symlink("note", session.path.join("link")).unwrap();
    for lookup in LOOKUPS {
        let files = world.files(lookup, "s1");
        for (asked, expected) in [
            ("file", "GROUND/work/file"),
            ("GROUND/work/file", "GROUND/work/file"),
            ("GROUND/work/new", "GROUND/work/new?"),
            ("..", "GROUND"),
            ("/tmp", "/tmp"),
            ("/tmp/note", "/tmp/note"),
            ("/tmp/link", "/tmp/note"),
            ("../../note", "/tmp/note"),
            ("/tmp/note/../link", "NotADirectory"),
            ("/var/tmp", "/var/tmp"),
            ("/var/tmp/note", "/tmp/note"),
            ("../outside/secret", "GROUND/outside/secret?"),
            ("GROUND/outside/../work/file", "NotFound"),
        ] {
            check(&world, &files, asked, expected);
        }
        assert_eq!(read(&files, "file").unwrap(), "in the workspace");
        assert_eq!(read(&files, "/tmp/link").unwrap(), "mine");
        write(&files, "../beside", "new", ExpectedState::Absent).unwrap();
        rewrite(&files, "/tmp/note", "mine").unwrap();
        assert_eq!(fs::read_to_string(session.path.join(&ground).join("beside")).unwrap(), "new");
        assert!(!world.path("beside").exists());
        // Of the directories above the workspace, only the path to it is visible.
        assert_eq!(shown(&files, "..", &PLAIN).0, ["work/", "work/file"]);
        fs::remove_dir_all(session.path.join(&ground)).unwrap();
    }
}

#[test]
fn ignore_rules_apply_in_session_tmp() {
    let world = SessionTmpWorkspace::new();
    let session = world.directory("s1");
    fs::create_dir(session.path.join("project")).unwrap();
    fs::write(session.path.join("project/.aiexclude"), "hidden\n").unwrap();
    fs::write(session.path.join("project/hidden"), "").unwrap();
    for lookup in LOOKUPS {
        let files = world.files(lookup, "s1");
        let by = |path: &str| files.excluded_by(&at(&files, path)).unwrap();
        assert_eq!(by("/tmp/project/hidden"), Some("/tmp/project/.aiexclude".into()));
        assert_eq!(by("/tmp/project/shown"), None);
        assert_eq!(shown(&files, "/tmp/project", &PLAIN).0, [".aiexclude"]);
    }
}

#[test]
fn swapped_directory_never_leads_outside() {
    for lookup in LOOKUPS {
        let world = SessionTmpWorkspace::new();
        let session = world.directory("s1");
        let (sub, evil) = (session.path.join("sub"), session.path.join("evil"));
        fs::create_dir(&sub).unwrap();
        fs::write(sub.join("secret"), "inside").unwrap();
        symlink(world.path("outside"), &evil).unwrap();
        let files = world.files(lookup, "s1");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    rustix::fs::renameat_with(CWD, &sub, CWD, &evil, RenameFlags::EXCHANGE)
                        .unwrap();
                }
            });
            (0..2_000).for_each(|number| read_and_write_in_swapped(&files, number));
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(fs::read_to_string(world.path("outside/secret")).unwrap(), "OUTSIDE");
        assert_eq!(fs::read_dir(world.path("outside")).unwrap().count(), 1);
    }
}

/// Reads and writes a file if it resolves into the session's directory. Policy would decide on a path outside as such.
fn read_and_write_in_swapped(files: &LocalFiles, number: usize) {
    let Ok(path) = files.resolve(Path::new("/tmp/sub/secret")) else { return };
    if !path.path.starts_with("/tmp") {
        return;
    }
    if let Ok(opened) = files.open(&path) {
        let text = std::io::read_to_string(opened.file).unwrap();
        assert!(text.starts_with("inside"), "{text}");
    }
    if let Ok(stat) = files.stat(&path) {
        let content = format!("inside {number}");
        let to = file(content.as_bytes(), None);
        drop(alter(files, &path, ExpectedState::Same(stat.fingerprint), to));
    }
}

#[test]
fn session_tmp_is_created_on_use_and_removed_when_empty() {
    let world = SessionTmpWorkspace::new();
    let base = world.path("state/tmp");
    let files = world.files(Lookup::Openat2, "s1");
    assert!(files.resolve(Path::new("/etc/passwd")).unwrap().exists);
    assert!(!base.exists());
    assert!(!files.resolve(Path::new("/tmp/none")).unwrap().exists);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let held = world.directory("s1").path;
    assert_eq!((mode(&base), mode(&held)), (0o700, 0o700));

    // The owner that created it is dropped, and another still holds it.
    assert!(held.exists());
    write(&files, "/tmp/note", "", ExpectedState::Absent).unwrap();
    drop(files);
    assert!(held.join("note").exists());
    fs::remove_file(held.join("note")).unwrap();
    drop(world.directory("s1"));
    let directories = TemporaryDirectories::new(Some(world.path("state")));
    drop(directories.open(Some(&SessionId::new("s1"))).unwrap());
    drop(directories);
    assert!(!held.exists());
}
