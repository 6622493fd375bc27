//! Exclusion by `.aiexclude`, by path and in a walk, and by the ignore files of repositories.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use windlass_core::{Files, WalkOptions};

use super::walk::shown;
use super::{LOOKUPS, TestWorkspace};

fn options(ignore_files: bool) -> WalkOptions<'static> {
    WalkOptions {
        max_depth: usize::MAX,
        ignore_files,
        version_control: false,
        threads: 1,
        hidden: &|_| false,
        left_out: &|_, _| {},
        cancelled: &|| false,
    }
}

/// Checks that a walk of `root` shows exactly these files, apart from ignore files.
fn check(ground: &TestWorkspace, root: &str, ignore_files: bool, expected: &[&str]) {
    for lookup in LOOKUPS {
        let (mut paths, _) = shown(&ground.files(lookup), root, &options(ignore_files));
        paths.retain(|path| {
            !path.ends_with('/') && !path.contains("ignore") && !path.contains("exclude")
        });
        assert_eq!(paths, expected, "{root:?} {ignore_files}");
    }
}

fn excluded(ground: &TestWorkspace, path: &str) -> Option<String> {
    let [a, b] = LOOKUPS.map(|lookup| {
        let files = ground.files(lookup);
        files.excluded_by(&files.resolve(Path::new(path)).unwrap()).unwrap()
    });
    assert_eq!(a, b);
    Some(a?.strip_prefix(ground.path("")).unwrap().to_str().unwrap().to_owned())
}

#[test]
fn aiexclude_hides_always() {
    let ground = TestWorkspace::with(&[
        (".aiexclude", "*.secret\n/private/\n!shown.secret\n"),
        ("a.secret", ""),
        ("shown.secret", ""),
        ("private/x", ""),
        ("private/deep/y", ""),
        ("sub/private/z", ""),
        ("sub/.aiexclude", "!again.secret\n*.txt\n"),
        ("sub/again.secret", ""),
        ("sub/other.secret", ""),
        ("sub/note.txt", ""),
        ("note.txt", ""),
        (".ignore", "!*.secret\n!private/\n"),
    ]);
    ground.link("private/x", "work/link");
    for ignoring in [false, true] {
        check(
            &ground,
            "",
            ignoring,
            &["link@", "note.txt", "shown.secret", "sub/again.secret", "sub/private/z"],
        );
        check(&ground, "sub", ignoring, &["again.secret", "private/z"]);
        check(&ground, "private", ignoring, &[]);
        check(&ground, "private/deep", ignoring, &[]);
    }
    for (path, by) in [
        ("a.secret", Some("work/.aiexclude")),
        ("shown.secret", None),
        ("private", Some("work/.aiexclude")),
        ("private/x", Some("work/.aiexclude")),
        ("private/deep/y", Some("work/.aiexclude")),
        ("private/new", Some("work/.aiexclude")),
        ("link", Some("work/.aiexclude")),
        ("sub/private", None),
        ("sub/private/z", None),
        ("sub/again.secret", None),
        ("sub/other.secret", Some("work/.aiexclude")),
        ("sub/note.txt", Some("work/sub/.aiexclude")),
        ("new/deep.secret", Some("work/.aiexclude")),
        ("note.txt", None),
        ("", None),
    ] {
        assert_eq!(excluded(&ground, path).as_deref(), by, "{path}");
    }
}

#[test]
fn every_aiexclude_above_applies_outside_the_workspace() {
    let ground = TestWorkspace::new();
    ground.put("outside/.aiexclude", "x");
    ground.put("outside/x/y", "");
    assert_eq!(excluded(&ground, "../outside/x/y").as_deref(), Some("outside/.aiexclude"));
    check(&ground, "../outside", false, &[]);
    // An `.aiexclude` applies only from the workspace down; one above the workspace does not.
    ground.put(".aiexclude", "*");
    ground.put("work/file", "");
    assert_eq!(excluded(&ground, "file"), None);
    check(&ground, "", false, &["file"]);
}

#[test]
fn unusable_aiexclude_hides_everything_it_could() {
    let large = "x\n".repeat(600_000);
    let ground =
        TestWorkspace::with(&[("a/.aiexclude", &large), ("a/x", ""), ("a/b/y", ""), ("z", "")]);
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        let (paths, report) = shown(&files, "", &options(true));
        assert_eq!(paths, ["a/", "z"]);
        assert!(report.notes[0].why.contains("larger than 1 MiB"), "{:?}", report.notes);
        let (paths, report) = shown(&files, "a/b", &options(true));
        assert!(paths.is_empty() && report.notes.len() == 1);
        let inside = files.resolve(Path::new("a/b/y")).unwrap();
        assert!(files.excluded_by(&inside).unwrap_err().to_string().contains("a/.aiexclude"));
    }
}

#[test]
fn ignore_files_that_are_not_regular_files_are_skipped() {
    let ground = TestWorkspace::with(&[
        (".gitignore/x", ""),
        ("patterns", "*.o\n"),
        ("a.o", ""),
        ("a.c", ""),
    ]);
    rustix::fs::mkfifoat(rustix::fs::CWD, ground.work(".ignore"), rustix::fs::Mode::RWXU).unwrap();
    check(&ground, "", true, &["a.c", "a.o", "patterns"]);
    ground.link("patterns", "work/.rgignore");
    check(&ground, "", true, &["a.c", "patterns"]);
}

#[test]
fn ignore_files_above_the_root_apply() {
    let ground = TestWorkspace::with(&[
        (".git/info/exclude", "local\n"),
        (".gitignore", "*.o\n/sub/anchored\n"),
        ("sub/a.o", ""),
        ("sub/anchored", ""),
        ("sub/local", ""),
        ("sub/deep/b.o", ""),
        ("sub/deep/c", ""),
    ]);
    check(&ground, "", true, &["sub/deep/c"]);
    check(&ground, "sub", true, &["deep/c"]);
    check(&ground, "sub/deep", true, &["c"]);
    check(&ground, "sub", false, &["a.o", "anchored", "deep/b.o", "deep/c", "local"]);
}

#[test]
fn ignore_files_of_an_outer_repository_apply() {
    let ground = TestWorkspace::with(&[("a.o", ""), ("b", "")]);
    ground.put(".gitignore", "*.o");
    check(&ground, "", true, &["a.o", "b"]);
    ground.put(".git/", "");
    check(&ground, "", true, &["b"]);
}

#[test]
fn a_repository_within_a_repository_has_its_own_gitignore() {
    let ground = TestWorkspace::with(&[
        (".git/", ""),
        (".gitignore", "*.o\n"),
        (".ignore", "*.tmp\n"),
        ("module/.git", "gitdir: ../.git/modules/module\n"),
        ("module/a.o", ""),
        ("module/a.tmp", ""),
        ("a.o", ""),
    ]);
    check(&ground, "", true, &["module/.git", "module/a.o"]);
    check(&ground, "module", true, &[".git", "a.o"]);
}

#[test]
fn a_linked_worktree_has_the_main_ones_exclude() {
    let ground = TestWorkspace::with(&[("a", ""), ("b", "")]);
    ground.put("outside/main/.git/worktrees/work/commondir", "../..\n");
    ground.put("outside/main/.git/info/exclude", "a\n");
    ground.put("work/.git", "gitdir: ../outside/main/.git/worktrees/work\n");
    check(&ground, "", true, &[".git", "b"]);
}

#[test]
fn an_unreadable_ignore_file_is_passed_over() {
    let ground = TestWorkspace::with(&[(".gitignore", "a\n"), ("a", "")]);
    fs::set_permissions(ground.work(".gitignore"), fs::Permissions::from_mode(0o0)).unwrap();
    let readable = fs::read(ground.work(".gitignore")).is_ok();
    check(&ground, "", true, if readable { &[] } else { &["a"] });
}
