//! Stages: private, removed when they are dropped, and swept when the process that should drop them is dead.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;

use super::process::{self, tell_ready, wait_until_ready};
use super::{TestWorkspace, staged};
use crate::Stage;
use crate::isolate::remove_tree::remove_tree;

/// User and group id without special rights.
const UNPRIVILEGED_ID: u32 = 65_534;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn stage_is_private_and_removed_when_dropped() {
    let ground = TestWorkspace::new();
    let stages = ground.path("state/stages");
    let (one, other) = (Stage::create(&stages).unwrap(), Stage::create(&stages).unwrap());
    assert_ne!(one.upper(), other.upper());
    for path in [&stages, one.upper(), one.work(), one.upper().parent().unwrap()] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    drop(one);
    assert_eq!(ground.names("state/stages").len(), 1);
    drop(other);
    assert!(ground.names("state/stages").is_empty());
}

#[test]
fn stages_are_spread_over_the_block_groups_of_ext4() {
    const EXT4: u64 = 0xef53;
    let ground = TestWorkspace::new();
    let stages = ground.path("state/stages");
    drop(Stage::create(&stages).unwrap());
    drop(Stage::create(&stages).unwrap());
    let kind = rustix::fs::statfs(&stages).unwrap().f_type;
    let flags = rustix::fs::ioctl_getflags(fs::File::open(&stages).unwrap());
    let is_spread = flags.is_ok_and(|flags| flags.contains(rustix::fs::IFlags::TOPDIR));
    assert_eq!(is_spread, u64::try_from(kind) == Ok(EXT4));
}

#[test]
fn creation_stamp_orders_changes_before_and_after() {
    let ground = TestWorkspace::new();
    let changed = |name: &str| {
        ground.put(name, "x");
        // The kernel gives a stamp that was read to no later change.
        let metadata = || fs::metadata(ground.path(name)).unwrap();
        let _asked = metadata();
        ground.put(name, "xx");
        metadata().ctime() * 1_000_000_000 + metadata().ctime_nsec()
    };
    for number in 0..50 {
        let before = changed(&format!("work/before{number}"));
        let stage = Stage::create(&ground.path("stages")).unwrap();
        assert!(before <= stage.created());
        assert!(stage.created() <= changed(&format!("work/after{number}")));
    }
}

#[test]
fn the_upper_directory_looks_like_the_workspace() {
    let ground = TestWorkspace::new();
    set_mode(&ground.work(""), 0o2750);
    let stage = Stage::create(&ground.path("stages")).unwrap();
    stage.look_like(&ground.work("")).unwrap();
    assert_eq!(mode(stage.upper()), 0o2750);
}

/// Creates a tree that a program could leave behind.
fn make_locked_tree(root: &Path) {
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::write(root.join("a/b/file"), "x").unwrap();
    fs::write(root.join("removed-0"), "a name that is taken").unwrap();
    symlink("/", root.join("a/link")).unwrap();
    for (name, mode) in [("a/b/file", 0), ("a/b/c", 0), ("a/b", 0o111), ("a", 0)] {
        set_mode(&root.join(name), mode);
    }
}

/// Creates a tree that is deeper than the number of files a process may have open, and deeper than a path may be long.
fn make_deep_tree(root: &Path) {
    let directory = fs::File::open(root).unwrap();
    let mut at = std::os::fd::OwnedFd::from(directory);
    for _ in 0..3000 {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::RWXU).unwrap();
        let flags = crate::kernel::FOR_LISTING;
        at = rustix::fs::openat(&at, "d", flags, rustix::fs::Mode::empty()).unwrap();
    }
}

#[test]
fn any_tree_on_a_stage_is_removed() {
    let ground = TestWorkspace::new();
    for mess in [make_locked_tree, make_deep_tree] {
        let stage = Stage::create(&ground.path("stages")).unwrap();
        mess(stage.upper());
        drop(stage);
        assert!(ground.names("stages").is_empty());
    }
    remove_tree(&ground.path("stages/never there")).unwrap();
    assert!(remove_tree(&ground.path("stages/../work/../outside")).is_ok());
    assert!(!ground.path("outside").exists());
}

/// Modes do not stop root, so root runs this as another user; any other user runs it directly.
#[test]
fn an_ordinary_user_can_remove_what_a_mount_left() {
    let ground = TestWorkspace::with(&[("d/file", "x")]);
    let program = ground.path("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    set_mode(&ground.path(""), 0o777);
    let mut command = process::command(&program, "stage::stages_as_unprivileged_user", &ground, "");
    if rustix::process::geteuid().is_root() {
        for name in ["d/file", "d", ""] {
            std::os::unix::fs::chown(
                ground.work(name),
                Some(UNPRIVILEGED_ID),
                Some(UNPRIVILEGED_ID),
            )
            .unwrap();
        }
        command.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "the other process of `an_ordinary_user_can_remove_what_a_mount_left`"]
fn stages_as_unprivileged_user() {
    let (workspace, _) = process::workspace_and_name();
    let workspace = Path::new(&workspace);
    let stages = workspace.parent().unwrap().join("stages");
    let stage = Stage::create(&stages).unwrap();
    staged::run(&stage, workspace, "rm d/file; mkdir new; echo x > new/y; chmod 0 new/y new d");
    make_locked_tree(stage.upper());
    assert_eq!(mode(&stage.work().join("work")), 0);
    let delta = crate::delta(&stage, workspace, stage.created(), &[]).unwrap();
    let told: Vec<String> =
        delta.changes.iter().map(|change| staged::told(change, workspace)).collect();
    assert_eq!(
        told,
        [
            "- d/file",
            "+ a/ 0",
            "+ a/b/ 111",
            "+ a/b/c/ 0",
            "+ a/b/file 0 x",
            "+ a/link -> /",
            "+ new/ 0",
            "+ new/y 0 x\n",
            "+ removed-0 644 a name that is taken",
            "a d 0"
        ]
    );
    drop(stage);
    assert_eq!(fs::read_dir(&stages).unwrap().count(), 0);
}

#[test]
fn stages_of_dead_processes_are_swept() {
    let ground = TestWorkspace::new();
    let stages = ground.path("stages");
    assert_eq!(Stage::sweep(&stages).unwrap(), 0, "there is none yet");
    let mut child = wait_until_ready(process::start("stage::dies_on_its_stage", &ground, ""));
    let own = Stage::create(&stages).unwrap();
    assert_eq!(Stage::sweep(&stages).unwrap(), 0, "both are alive");
    assert_eq!(ground.names("stages").len(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    // Stages of processes that died before they held a lock, and entries that are not stages.
    ground.put("stages/0123456789abcdef/upper/", "");
    ground.put("stages/else/file", "x");
    ground.put("stages/fedcba9876543210", "a file");
    assert_eq!(Stage::sweep(&stages).unwrap(), 2);
    assert!(own.upper().exists());
    drop(own);
    assert_eq!(ground.names("stages"), ["else", "fedcba9876543210"]);
}

#[test]
#[ignore = "the other process of `stages_of_dead_processes_are_swept`"]
fn dies_on_its_stage() {
    let (workspace, _) = process::workspace_and_name();
    let stages = Path::new(&workspace).parent().unwrap().join("stages");
    let stage = Stage::create(&stages).unwrap();
    fs::write(stage.upper().join("file"), "x").unwrap();
    tell_ready();
    std::thread::sleep(std::time::Duration::from_mins(10));
}
