//! Isolated copies of the workspace: equal when they are created, and with correct reports of changes in them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, Mode};

use super::TestWorkspace;
use crate::{Isolated, Isolation};

/// Describes everything about a tree that a copy must have, by path. Leaves out repositories unless `with_repository` is set.
fn describe(root: &Path, with_repository: bool) -> BTreeMap<PathBuf, String> {
    let mut described = BTreeMap::new();
    let mut first_names = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        let mut entries: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let inside = path.strip_prefix(root).unwrap().to_owned();
            if path.ends_with(".git") && !with_repository {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).unwrap();
            let times = (metadata.mtime(), metadata.mtime_nsec());
            let kind = metadata.file_type();
            let what = if kind.is_symlink() {
                format!("-> {:?}", fs::read_link(&path).unwrap())
            } else if kind.is_dir() {
                waiting.push(path.clone());
                format!("directory {:o} {times:?}", metadata.mode())
            } else if kind.is_file() {
                let content = fs::read(&path).unwrap();
                format!("{content:?} {:o} {times:?}", metadata.mode())
            } else {
                continue;
            };
            if metadata.nlink() > 1 && kind.is_file() {
                let names: &mut Vec<PathBuf> = first_names.entry(metadata.ino()).or_default();
                names.push(inside.clone());
            }
            described.insert(inside, what);
        }
    }
    let mut groups: Vec<Vec<PathBuf>> = first_names.into_values().collect();
    for names in &mut groups {
        names.sort();
    }
    groups.sort();
    described.insert("several names".into(), format!("{groups:?}"));
    described
}

/// Creates a workspace with objects of all kinds.
fn workspace_with_all_kinds() -> TestWorkspace {
    let ground = TestWorkspace::with(&[
        ("file", "content"),
        ("empty", ""),
        ("a/b/c/deep", "x"),
        ("a/script", "#!/bin/sh\n"),
        ("nothing/", ""),
        ("names/one", "several names"),
        ("read_only/file", "x"),
    ]);
    fs::hard_link(ground.work("names/one"), ground.work("names/two")).unwrap();
    fs::hard_link(ground.work("names/one"), ground.work("a/three")).unwrap();
    ground.link("file", "work/link");
    ground.link("/nowhere", "work/a/dangling");
    ground.link("..", "work/a/up");
    fs::write(ground.work("").join(OsStr::from_bytes(b"\xff\n")), "odd").unwrap();
    fs::write(ground.work("long"), vec![7; 1_500_000]).unwrap();
    let set = |path: &str, mode| {
        fs::set_permissions(ground.work(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("a/script", 0o755);
    set("file", 0o600);
    set("read_only", 0o555);
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(1_234_567_890_123);
    fs::File::open(ground.work("file")).unwrap().set_modified(old).unwrap();
    fs::File::open(ground.work("nothing")).unwrap().set_modified(old).unwrap();
    ground
}

fn create(ground: &TestWorkspace, how: Isolation) -> Isolated {
    Isolated::create(&ground.work(""), &ground.path("second"), how).unwrap()
}

#[test]
fn a_copy_is_equal_to_the_workspace() {
    let ground = workspace_with_all_kinds();
    let isolated = create(&ground, Isolation::Copy);
    assert_eq!(describe(isolated.path(), true), describe(&ground.work(""), true));
    let mode = |path: &Path| fs::metadata(path).unwrap().mode();
    assert_eq!(mode(isolated.path()), mode(&ground.work("")));
    assert!(isolated.changes().unwrap().is_empty());
    assert!(isolated.notes().is_empty());
}

#[test]
fn uncopied_files_are_noted() {
    let ground = TestWorkspace::with(&[("a/file", "x")]);
    rustix::fs::mkfifoat(CWD, ground.work("a/fifo"), Mode::RWXU).unwrap();
    let isolated = create(&ground, Isolation::Copy);
    let [note] = isolated.notes() else { panic!("{:?}", isolated.notes()) };
    assert_eq!((note.path.to_str(), note.why.as_str()), (Some("a/fifo"), "it is a FIFO"));
    assert!(isolated.changes().unwrap().is_empty());
}

/// Each case: a change in an isolated copy, and the report about it.
#[test]
fn changes_in_a_copy_are_reported() {
    type Case<'a> = (&'a str, &'a dyn Fn(&Path), &'a [&'a str]);
    let set_mode = |path: PathBuf, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let cases: [Case<'_>; 14] = [
        ("nothing", &|_| {}, &[]),
        ("read", &|at| drop(fs::read(at.join("file")).unwrap()), &[]),
        ("written", &|at| fs::write(at.join("file"), "CONTENT").unwrap(), &["changed file"]),
        ("written the same", &|at| fs::write(at.join("file"), "content").unwrap(), &[]),
        ("appended", &|at| fs::write(at.join("file"), "content+").unwrap(), &["changed file"]),
        (
            "replaced with the same",
            &|at| {
                fs::remove_file(at.join("file")).unwrap();
                fs::write(at.join("file"), "content").unwrap();
                set_mode(at.join("file"), 0o600);
            },
            &[],
        ),
        ("created", &|at| fs::write(at.join("a/new"), "").unwrap(), &["created a/new"]),
        (
            "created below",
            &|at| {
                fs::create_dir_all(at.join("x/y")).unwrap();
                fs::write(at.join("x/y/z"), "").unwrap();
            },
            &["created x", "created x/y", "created x/y/z"],
        ),
        ("removed", &|at| fs::remove_file(at.join("empty")).unwrap(), &["deleted empty"]),
        (
            "removed below",
            &|at| fs::remove_dir_all(at.join("a/b")).unwrap(),
            &["deleted a/b", "deleted a/b/c", "deleted a/b/c/deep"],
        ),
        (
            "moved",
            &|at| fs::rename(at.join("empty"), at.join("moved")).unwrap(),
            &["deleted empty", "created moved"],
        ),
        (
            "modes",
            &|at| {
                set_mode(at.join("file"), 0o777);
                set_mode(at.join("nothing"), 0o700);
            },
            &["changed in mode file", "changed in mode nothing"],
        ),
        (
            "another link",
            &|at| {
                fs::remove_file(at.join("link")).unwrap();
                std::os::unix::fs::symlink("elsewhere", at.join("link")).unwrap();
            },
            &["changed link"],
        ),
        (
            "another kind",
            &|at| {
                fs::remove_file(at.join("link")).unwrap();
                fs::create_dir(at.join("link")).unwrap();
            },
            &["changed in kind link"],
        ),
    ];
    let ground = workspace_with_all_kinds();
    for (name, act, expected) in cases {
        let isolated = create(&ground, Isolation::Copy);
        act(isolated.path());
        let changes = isolated.changes().unwrap();
        let told: Vec<_> = changes
            .iter()
            .map(|change| format!("{} {}", change.kind, change.path.display()))
            .collect();
        assert_eq!(told, expected, "{name}");
        isolated.remove().unwrap();
    }
    assert_eq!(fs::read_to_string(ground.work("file")).unwrap(), "content");
}

#[test]
fn file_with_unknown_original_counts_as_changed() {
    let ground = TestWorkspace::with(&[("file", "content")]);
    let isolated = create(&ground, Isolation::Copy);
    ground.put("work/file", "by a person");
    assert!(isolated.changes().unwrap().is_empty(), "what happens in the workspace is no change");
    fs::write(isolated.path().join("file"), "content").unwrap();
    assert_eq!(isolated.changes().unwrap().len(), 1, "its earlier content is unknown");
}

#[test]
fn copy_is_removed_unless_kept() {
    let ground = workspace_with_all_kinds();
    let at = ground.path("second");
    drop(create(&ground, Isolation::Copy));
    assert!(!at.exists());
    create(&ground, Isolation::Copy).remove().unwrap();
    assert!(!at.exists());
    let kept = create(&ground, Isolation::Copy).keep();
    assert_eq!(kept, at);
    assert!(at.join("file").exists());
    let error = Isolated::create(&ground.work(""), &at, Isolation::Auto).unwrap_err();
    assert_eq!(super::name(&error.kind), "Exists");
    assert!(at.join("file").exists(), "what was there is not ours");
}

#[test]
fn a_copy_inside_the_workspace_is_not_copied_into_itself() {
    let ground = TestWorkspace::with(&[("file", "x"), ("cache/other", "x")]);
    let at = ground.work("cache/second");
    let isolated = Isolated::create(&ground.work(""), &at, Isolation::Copy).unwrap();
    assert!(isolated.path().join("cache/other").exists());
    assert!(!isolated.path().join("cache/second").exists());
}

#[test]
fn ignored_files_can_be_left_out() {
    let ground = TestWorkspace::with(&[
        (".gitignore", "*.o\n/target/\n"),
        (".aiexclude", "secret\n"),
        ("a.o", "x"),
        ("secret", "x"),
        ("target/debug/x", "x"),
        ("src/a.c", "x"),
        (".git/HEAD", "ref: refs/heads/main"),
    ]);
    let isolated = create(&ground, Isolation::CopyWithoutIgnored);
    assert_eq!(ground.names("second"), [".aiexclude", ".git", ".gitignore", "src"]);
    assert_eq!(ground.names("second/.git"), ["HEAD"]);
    assert_eq!(ground.names("second/src"), ["a.c"]);
    drop(isolated);
    create(&ground, Isolation::Copy).remove().unwrap();
}

fn git(within: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(within)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
        .args(arguments)
        .output()
        .expect("this test needs git");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

/// Creates a repository with files in every state that git distinguishes.
fn repository() -> TestWorkspace {
    let ground = workspace_with_all_kinds();
    ground.put("work/.gitignore", "*.o\n");
    ground.put("work/deleted", "x");
    ground.put("work/staged", "x");
    ground.put("work/modified", "x");
    let work = ground.work("");
    git(&work, &["init", "--quiet", "--initial-branch=main"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "--quiet", "--message=first"]);
    fs::remove_file(ground.work("deleted")).unwrap();
    ground.put("work/staged", "staged");
    ground.put("work/added", "added");
    git(&work, &["add", "staged", "added"]);
    ground.put("work/modified", "modified");
    ground.put("work/untracked/new", "x");
    ground.put("work/ignored.o", "x");
    ground
}

#[test]
fn a_worktree_is_equal_to_the_workspace() {
    let ground = repository();
    let work = ground.work("");
    let isolated = create(&ground, Isolation::GitWorktree);
    let mut expected = describe(&work, false);
    // A worktree has no files that git does not track: no ignored files and no empty directories.
    for unknown in ["ignored.o", "nothing"] {
        assert!(expected.remove(Path::new(unknown)).is_some());
    }
    assert_eq!(describe(isolated.path(), false), expected);
    assert!(isolated.changes().unwrap().is_empty());
    let status = |within: &Path| -> Vec<String> {
        let told = git(within, &["status", "--porcelain", "--untracked-files=all", "--no-renames"]);
        let mut paths: Vec<_> = told.lines().map(|line| line[3..].to_owned()).collect();
        paths.sort();
        paths
    };
    assert_eq!(status(isolated.path()), status(&work));
    fs::write(isolated.path().join("new.o"), "x").unwrap();
    fs::remove_file(isolated.path().join("staged")).unwrap();
    let told: Vec<_> =
        isolated.changes().unwrap().iter().map(|change| change.kind.to_string()).collect();
    assert_eq!(told, ["created", "deleted"], "ignored or not");
}

#[test]
fn a_removed_worktree_leaves_nothing_in_the_repository() {
    let ground = repository();
    let work = ground.work("");
    let list = || git(&work, &["worktree", "list", "--porcelain"]);
    let alone = list();
    drop(create(&ground, Isolation::GitWorktree));
    assert_eq!(list(), alone);
    assert!(!ground.work(".git/worktrees").exists());
    // The worktree is also removed if a program removed its link to the repository.
    let isolated = create(&ground, Isolation::GitWorktree);
    assert_ne!(list(), alone);
    fs::remove_file(isolated.path().join(".git")).unwrap();
    isolated.remove().unwrap();
    assert_eq!(list(), alone);
    // Another worktree, which git would call prunable, stays registered.
    let other = create(&ground, Isolation::GitWorktree).keep();
    fs::rename(&other, ground.path("elsewhere")).unwrap();
    let with_other = list();
    let at = ground.path("third");
    Isolated::create(&work, &at, Isolation::GitWorktree).unwrap().remove().unwrap();
    assert_eq!(list(), with_other);
}

#[test]
fn no_hook_or_filter_of_the_repository_runs() {
    let ground = repository();
    let work = ground.work("");
    let ran = ground.path("outside/ran");
    let script = format!("#!/bin/sh\ntouch '{}'\ncat\n", ran.display());
    let program = ground.path("outside/program");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for hook in ["post-checkout", "post-index-change", "reference-transaction"] {
        fs::copy(&program, ground.work(".git/hooks").join(hook)).unwrap();
    }
    let program = program.to_str().unwrap();
    for setting in ["core.fsmonitor", "filter.all.smudge", "filter.all.clean", "filter.all.process"]
    {
        git(&work, &["config", setting, program]);
    }
    ground.put("work/.git/info/attributes", "* filter=all\n");
    let isolated = create(&ground, Isolation::GitWorktree);
    assert!(isolated.path().join("modified").exists());
    isolated.changes().unwrap();
    isolated.remove().unwrap();
    assert!(!ran.exists());
}

#[test]
fn auto_isolation_prefers_a_git_worktree() {
    let check = |ground: &TestWorkspace, workspace: &str, expected: Isolation| {
        let at = ground.path("second");
        let isolated = Isolated::create(&ground.path(workspace), &at, Isolation::Auto).unwrap();
        assert_eq!(isolated.how(), expected, "{workspace}");
    };
    let ground = repository();
    check(&ground, "work", Isolation::GitWorktree);
    check(&ground, "work/a", Isolation::Copy);
    let plain = TestWorkspace::with(&[("file", "x")]);
    check(&plain, "work", Isolation::Copy);
    git(&plain.work(""), &["init", "--quiet"]);
    check(&plain, "work", Isolation::Copy);
    let at = plain.path("second");
    let error = Isolated::create(&plain.work(""), &at, Isolation::GitWorktree).unwrap_err();
    assert!(error.to_string().contains("make a git worktree of"), "{error}");
    assert!(!at.exists());
}

/// A copy of a worktree must not be a second way to change the repository.
#[test]
fn gitdir_file_is_copied_only_with_its_repository() {
    let ground = repository();
    let worktree = create(&ground, Isolation::GitWorktree);
    let at = ground.path("third");
    let copy = Isolated::create(worktree.path(), &at, Isolation::Copy).unwrap();
    assert!(!copy.path().join(".git").exists());
    assert_eq!(copy.notes()[0].path.to_str(), Some(".git"));
    drop(copy);
    ground.put("work/module/.git", "gitdir: ../.git/modules/module\n");
    ground.put("work/lost/.git", "gitdir: ../../elsewhere\n");
    let copy = Isolated::create(&ground.work(""), &at, Isolation::Copy).unwrap();
    assert!(copy.path().join("module/.git").exists());
    assert!(!copy.path().join("lost/.git").exists());
}
