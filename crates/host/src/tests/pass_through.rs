//! Directories that can be made again: found by name and by more than their name, and brought over whole.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Ground;
use super::staged::described;
use crate::{PASS_THROUGH, Stage, move_passed, pass_through};

const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# more";

fn found(ground: &Ground, workspace: &str) -> Vec<String> {
    let workspace = ground.path(workspace);
    let names = PASS_THROUGH.map(str::to_owned);
    let paths = pass_through(&workspace, &names).into_iter();
    paths.map(|path| path.strip_prefix(&workspace).unwrap().display().to_string()).collect()
}

#[test]
fn a_name_is_not_enough() {
    type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);
    let cases: &[Case] = &[
        (&[], &[]),
        (&[("target/x", ""), ("build/x", ""), ("src/dist/x", "")], &[]),
        (&[("node_modules/", ""), ("a/b/__pycache__/", "")], &["a/b/__pycache__", "node_modules"]),
        (&[("node_modules/a/node_modules/", "")], &["node_modules"]),
        (&[("target/CACHEDIR.TAG", TAG)], &["target"]),
        (&[("target/CACHEDIR.TAG", "Signature")], &[]),
        (&[("sources/CACHEDIR.TAG", TAG)], &[]),
        (&[(".gitignore", "/target\n"), ("target/", ""), ("a/target/", "")], &["target"]),
        (
            &[(".gitignore", "target\n"), ("target/", ""), ("a/target/", "")],
            &["a/target", "target"],
        ),
        (&[(".gitignore", "target\n"), ("a/.gitignore", "!target\n"), ("a/target/", "")], &[]),
        (&[(".ignore", "build/\n"), ("build/", "")], &["build"]),
        (&[(".gitignore", "out\n"), ("out/a/build/", ""), ("out/src/", "")], &["out/a/build"]),
        (&[(".git/info/exclude", "dist\n"), ("dist/", ""), (".git/node_modules/", "")], &["dist"]),
        (&[(".aiexclude", "target\n"), ("target/", "")], &[]),
        (&[("a/.gitignore", "target\n"), ("b/target/", ""), ("a/target/", "")], &["a/target"]),
        (&[("1/2/3/4/5/6/7/.venv/", ""), ("1/2/3/4/5/6/7/8/.venv/", "")], &["1/2/3/4/5/6/7/.venv"]),
        (&[("node_modules", "a file")], &[]),
    ];
    for (files, expected) in cases {
        let ground = Ground::with(files);
        assert_eq!(found(&ground, "work"), *expected, "{files:?}");
    }
}

#[test]
fn a_link_is_no_directory() {
    let ground = Ground::new();
    ground.put("outside/x", "");
    ground.link("../outside", "work/node_modules");
    assert!(found(&ground, "work").is_empty());
    assert!(pass_through(&ground.path("nowhere"), &[]).is_empty());
}

#[test]
fn rules_of_the_repository_around_the_workspace_count() {
    let ground = Ground::with(&[(".git/HEAD", ""), (".gitignore", "build\n"), ("part/build/", "")]);
    assert_eq!(found(&ground, "work/part"), ["build"]);
}

#[test]
fn only_the_names_that_are_told() {
    let ground = Ground::with(&[("node_modules/", ""), (".gitignore", "out"), ("out/", "")]);
    let workspace = ground.path("work");
    assert_eq!(pass_through(&workspace, &["out".to_owned()]), [workspace.join("out")]);
}

/// A stage with something on it that is brought over. `state` can be on another file system.
fn stage(state: &Path) -> Stage {
    let stage = Stage::create(state).unwrap();
    let target = stage.upper().join("a/target");
    fs::create_dir_all(target.join("debug/deps")).unwrap();
    fs::write(target.join("debug/program"), "x").unwrap();
    fs::set_permissions(target.join("debug/program"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::hard_link(target.join("debug/program"), target.join("debug/deps/program")).unwrap();
    std::os::unix::fs::symlink("program", target.join("debug/link")).unwrap();
    fs::set_permissions(&target, PermissionsExt::from_mode(0o555)).unwrap();
    stage
}

fn check_move(ground: &Ground, stage: &Stage) {
    let (work, target) = (ground.path("work"), ground.work("a/target"));
    let before = described(&stage.upper().join("a/target"));
    let stamp = |root: &Path| fs::metadata(root.join("debug/program")).unwrap().mtime_nsec();
    let stamped = stamp(&stage.upper().join("a/target"));
    move_passed(stage, &work, &target).unwrap();
    assert_eq!(described(&target), before);
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, 0o555);
    assert_eq!(stamp(&target), stamped);
    assert_eq!(fs::metadata(target.join("debug/program")).unwrap().nlink(), 2);
    assert_eq!(ground.names("work/a"), ["target"]);
}

#[test]
fn what_is_passed_is_brought_over() {
    let ground = Ground::with(&[("a/", "")]);
    check_move(&ground, &stage(&ground.path("stages")));
}

#[test]
fn what_is_passed_is_brought_over_from_another_file_system() {
    let memory = tempfile::TempDir::new_in("/dev/shm")
        .expect("a file system besides that of the temporary files");
    let ground = Ground::with(&[("a/", "")]);
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    assert_ne!(
        device(memory.path()),
        device(&ground.path("work")),
        "/dev/shm is no file system of its own"
    );
    let one = stage(memory.path());
    check_move(&ground, &one);
    // Once more: what is there stays, and nothing is left beside it.
    fs::write(ground.work("a/target/debug/program"), "theirs").unwrap();
    move_passed(&one, &ground.path("work"), &ground.work("a/target")).unwrap();
    assert_eq!(fs::read(ground.work("a/target/debug/program")).unwrap(), b"theirs");
    assert_eq!(ground.names("work/a"), ["target"]);
}

#[test]
fn what_is_there_already_stays() {
    let ground = Ground::with(&[("a/target/theirs", "x")]);
    let stage = stage(&ground.path("stages"));
    move_passed(&stage, &ground.path("work"), &ground.work("a/target")).unwrap();
    assert_eq!(ground.names("work/a/target"), ["theirs"]);
}

#[test]
fn a_settled_stage_has_brought_over_what_it_carries() {
    use windlass_core::Stage as _;
    let ground = Ground::with(&[("a/", "")]);
    let mut stage = stage(&ground.path("stages"));
    assert!(stage.settle().is_empty());
    let paths: Vec<PathBuf> = vec![ground.work("a/target"), ground.work("missing/target")];
    stage.carry(&ground.path("work"), paths);
    let [note] = &stage.settle()[..] else { panic!() };
    assert_eq!(note.path, ground.work("missing/target"));
    assert!(note.why.contains("no such file"), "{}", note.why);
    assert!(ground.work("a/target/debug").is_dir());
}
