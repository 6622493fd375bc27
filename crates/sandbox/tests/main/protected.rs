//! Attempts to change protected paths of a writable workspace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt, symlink};
use std::path::Path;

use libc::{EBUSY, EEXIST, EROFS, EXDEV};
use windlass_sandbox::{Ending, LaunchError, LaunchStep, ReadOnlyPath};

use crate::attempt::{AttemptContext, Escape, check};
use crate::files::swap;
use crate::support::TestSandbox;

const READ_ONLY: &[i32] = &[EROFS];
/// Error of a removal or rename of a mount point.
const MOUNT_POINT: &[i32] = &[EBUSY];

const fn protected(
    name: &'static str,
    attempt: fn(&AttemptContext) -> io::Result<()>,
    refused: &'static [i32],
) -> Escape {
    Escape::new(name, attempt, refused).needs_view()
}

/// The attempts; the working directory is the workspace.
pub(crate) const ESCAPES: &[Escape] = &[
    protected("make a hook", |_| fs::write(".git/hooks/pre-commit", "x"), READ_ONLY),
    protected("change a hook", |_| fs::write(".git/hooks/sample", "x"), READ_ONLY),
    protected("let a hook run", |_| executable(".git/hooks/sample"), READ_ONLY),
    protected("remove a hook", |_| fs::remove_file(".git/hooks/sample"), READ_ONLY),
    protected("link a hook", |_| symlink("../../a.txt", ".git/hooks/pre-commit"), READ_ONLY),
    protected("move a hook in", |_| fs::rename("a.txt", ".git/hooks/pre-commit"), &[EXDEV]),
    protected(
        "hard-link a hook",
        |_| fs::hard_link("a.txt", ".git/hooks/pre-commit"),
        &[EXDEV, EROFS],
    ),
    protected("move hooks away", |_| fs::rename(".git/hooks", ".git/other"), MOUNT_POINT),
    protected("remove hooks", |_| fs::remove_dir_all(".git/hooks"), READ_ONLY),
    protected("exchange hooks", exchange_hooks, MOUNT_POINT),
    protected("change the configuration", |_| fs::write(".git/config", "x"), READ_ONLY),
    protected("remove the configuration", |_| fs::remove_file(".git/config"), MOUNT_POINT),
    protected("move the configuration", |_| fs::rename(".git/config", ".git/other"), MOUNT_POINT),
    protected("replace the configuration", replace_configuration, MOUNT_POINT),
    protected("exchange the configuration", exchange_configuration, MOUNT_POINT),
    protected("write through a hard link", write_through_hard_link, &[EXDEV]),
    protected("move git away", |_| fs::rename(".git", "other"), MOUNT_POINT),
    protected("put another git in its place", another_git, MOUNT_POINT),
    protected(
        "exchange git",
        |_| fs::create_dir("o").and_then(|()| swap(Path::new(".git"), Path::new("o"))),
        MOUNT_POINT,
    ),
    protected("make git a link", git_as_link, MOUNT_POINT),
    protected("remove git", |_| fs::remove_dir_all(".git"), &[EBUSY, EROFS]),
    protected("make what is not there", |_| fs::create_dir(".windlass"), &[EEXIST]),
    protected("link what is not there", |_| symlink("a", ".windlass"), &[EEXIST]),
    protected("fill what is not there", fill_absent, READ_ONLY),
    protected("move to what is not there", move_to_absent, MOUNT_POINT),
    protected("replace what is not there", replace_absent, MOUNT_POINT),
    protected("open up what is not there", open_up_absent, READ_ONLY),
    protected("write a hook through a link", write_through_link, READ_ONLY),
    protected("write a hook through a descriptor", write_through_descriptor, READ_ONLY),
    protected("write a hook through a directory", write_through_directory, READ_ONLY),
    protected("swap links while writing", race, READ_ONLY),
    protected("swap git while writing", race_for_git, &[EROFS, EBUSY]),
    protected("trade the stand-ins' origin", touch_origin, READ_ONLY).only_inside(),
];

#[test]
fn attempts_on_protected_paths_are_refused() {
    check(ESCAPES);
}

fn executable(path: &str) -> io::Result<()> {
    fs::set_permissions(path, PermissionsExt::from_mode(0o755))
}

fn exchange_hooks(_: &AttemptContext) -> io::Result<()> {
    fs::create_dir(".git/other")?;
    swap(Path::new(".git/other"), Path::new(".git/hooks"))
}

fn replace_configuration(_: &AttemptContext) -> io::Result<()> {
    fs::write(".git/new", "x")?;
    fs::rename(".git/new", ".git/config")
}

fn exchange_configuration(_: &AttemptContext) -> io::Result<()> {
    fs::write(".git/new", "x")?;
    swap(Path::new(".git/new"), Path::new(".git/config"))
}

fn write_through_hard_link(_: &AttemptContext) -> io::Result<()> {
    fs::hard_link(".git/config", ".git/copy")?;
    fs::write(".git/copy", "x")
}

fn another_git(_: &AttemptContext) -> io::Result<()> {
    fs::rename(".git", "old")?;
    fs::create_dir_all(".git/hooks")?;
    fs::write(".git/hooks/pre-commit", "x")
}

fn git_as_link(_: &AttemptContext) -> io::Result<()> {
    fs::create_dir_all("other/hooks")?;
    fs::rename(".git", "old")?;
    symlink("other", ".git")
}

/// Ignores that a path exists already: outside the attempt creates it, inside a stand-in is there.
fn ignore_existing(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn fill_absent(_: &AttemptContext) -> io::Result<()> {
    ignore_existing(fs::create_dir(".windlass"))?;
    fs::write(".windlass/settings", "x")
}

fn move_to_absent(_: &AttemptContext) -> io::Result<()> {
    fs::create_dir("new")?;
    fs::write("new/settings", "x")?;
    fs::rename("new", ".windlass")
}

fn replace_absent(_: &AttemptContext) -> io::Result<()> {
    ignore_existing(fs::create_dir(".windlass"))?;
    fs::remove_dir(".windlass")?;
    fs::create_dir_all(".windlass/new")
}

fn open_up_absent(_: &AttemptContext) -> io::Result<()> {
    ignore_existing(fs::create_dir(".windlass"))?;
    fs::set_permissions(".windlass", PermissionsExt::from_mode(0o700))?;
    fs::write(".windlass/settings", "x")
}

fn write_through_link(_: &AttemptContext) -> io::Result<()> {
    symlink(".git/hooks", "harmless")?;
    fs::write("harmless/pre-commit", "x")
}

fn write_through_descriptor(_: &AttemptContext) -> io::Result<()> {
    let file = File::open(".git/hooks/sample")?;
    fs::write(format!("/proc/self/fd/{}", file.as_raw_fd()), "x")
}

fn write_through_directory(_: &AttemptContext) -> io::Result<()> {
    let git = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(".git")?;
    fs::write(format!("/proc/self/fd/{}/hooks/pre-commit", git.as_raw_fd()), "x")
}

/// Number of swaps in an attempt that depends on timing.
const SWAPS: usize = 4_000;

/// Two threads exchange a directory with a link to the hooks again and again, while a third one writes through the path.
fn race(_: &AttemptContext) -> io::Result<()> {
    fs::create_dir("d")?;
    symlink(".git/hooks", "trap")?;
    write_while_swapping(Path::new("d"), Path::new("trap"), Path::new("d/pre-commit"))
}

/// The same with the parent directory of the hooks.
fn race_for_git(_: &AttemptContext) -> io::Result<()> {
    fs::create_dir_all("d/hooks")?;
    write_while_swapping(Path::new(".git"), Path::new("d"), Path::new(".git/hooks/pre-commit"))
}

fn write_while_swapping(one: &Path, other: &Path, written: &Path) -> io::Result<()> {
    let swapping = || (0..SWAPS).for_each(|_| drop(swap(one, other)));
    let refusal = std::thread::scope(|scope| {
        let swappers = [scope.spawn(swapping), scope.spawn(swapping)];
        let mut refusal = None;
        while !swappers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            if let Err(error) = fs::write(written, "x") {
                refusal = Some(error);
            }
        }
        refusal
    });
    match (Path::new(".git/hooks/pre-commit").exists(), refusal) {
        (true, _) => Ok(()),
        (false, Some(refusal)) => Err(refusal),
        (false, None) => panic!("no write was refused"),
    }
}

/// Tries to change the empty directory that is mounted over stand-ins.
fn touch_origin(_: &AttemptContext) -> io::Result<()> {
    fs::set_permissions("/dev/.masks/empty", PermissionsExt::from_mode(0o755))?;
    fs::write("/dev/.masks/empty/settings", "x")
}

/// The launch reports the stand-ins that it creates in the workspace, and creates nothing else there.
#[test]
fn created_stand_ins_are_reported() {
    let list = |sandbox: &TestSandbox| {
        let entries = fs::read_dir(sandbox.workspace()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let sandbox = TestSandbox::confined();
    let mut before = list(&sandbox);
    let (program, _) = sandbox.start("ls -A .windlass; true").unwrap();
    assert_eq!(program.stood_in(), [2]);
    assert_eq!(program.wait().unwrap(), Ending::Exited(0));
    before.insert(1, ".windlass".into());
    before.sort();
    assert_eq!(list(&sandbox), before);
    let (again, _) = sandbox.start("true").unwrap();
    assert!(again.stood_in().is_empty(), "the stand-in exists now");
}

/// A launch fails if it cannot protect a path.
#[test]
fn protected_path_behind_a_link_or_file_is_refused() {
    for (name, make) in [
        ("a link", (|git| symlink("other", git)) as fn(&Path) -> io::Result<()>),
        ("a link to nothing", |git| symlink("nothing", git)),
        ("a file", |git| fs::write(git, "gitdir: elsewhere")),
    ] {
        let sandbox = TestSandbox::confined();
        let git = sandbox.path("workspace/.git");
        fs::rename(&git, sandbox.path("workspace/other")).unwrap();
        make(&git).unwrap();
        match sandbox.start("true") {
            Err(LaunchError::Surroundings { step: LaunchStep::Protected, .. }) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn protected_paths_outside_the_workspace_are_refused() {
    for path in ["../outside", "/etc", ".git/../../outside"] {
        let sandbox = TestSandbox::confined().with_view(|view| {
            view.protected = vec![ReadOnlyPath { path: path.into(), is_directory: true }];
        });
        assert!(sandbox.start("true").is_err(), "{path}");
    }
}

/// Many paths at once, some within others.
#[test]
fn many_nested_paths_are_protected() {
    let sandbox = TestSandbox::confined();
    let names = (0..100).map(|number| format!("deep/er/{number}"));
    let protected: Vec<_> =
        names.map(|path| ReadOnlyPath { path: path.into(), is_directory: true }).collect();
    fs::create_dir_all(sandbox.path("workspace/deep/er")).unwrap();
    let sandbox = sandbox.with_view(|view| {
        view.protected = protected;
        view.protected.push(ReadOnlyPath { path: "deep".into(), is_directory: true });
        view.protected.push(ReadOnlyPath { path: "deep/er".into(), is_directory: true });
    });
    let (_, printed) = sandbox.run("for d in deep/er/* deep/er deep; do touch $d/x 2>/dev/null && echo $d; done; wc -l < /proc/self/mountinfo");
    let mounts: usize = printed.trim().parse().unwrap_or_else(|_| panic!("{printed}"));
    assert!(mounts < 500, "{mounts} mounts");
}
