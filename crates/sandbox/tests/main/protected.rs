//! Places of the workspace that stay as they are, whoever may change the rest of it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt, symlink};
use std::path::Path;

use libc::{EBUSY, EEXIST, EROFS, EXDEV};
use windlass_sandbox::{Ending, LaunchError, Protected, Step};

use crate::attempt::{Escape, Scene, check};
use crate::files::swap;
use crate::support::Place;

const READ_ONLY: &[i32] = &[EROFS];
/// Somebody stands on it.
const NAILED: &[i32] = &[EBUSY];

const fn protected(
    name: &'static str,
    attempt: fn(&Scene) -> io::Result<()>,
    refused: &'static [i32],
) -> Escape {
    Escape::new(name, attempt, refused).needs_view()
}

/// The program's directory is the workspace.
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
    protected("move hooks away", |_| fs::rename(".git/hooks", ".git/other"), NAILED),
    protected("remove hooks", |_| fs::remove_dir_all(".git/hooks"), READ_ONLY),
    protected("exchange hooks", exchange_hooks, NAILED),
    protected("change the configuration", |_| fs::write(".git/config", "x"), READ_ONLY),
    protected("remove the configuration", |_| fs::remove_file(".git/config"), NAILED),
    protected("move the configuration", |_| fs::rename(".git/config", ".git/other"), NAILED),
    protected("replace the configuration", replace_configuration, NAILED),
    protected("exchange the configuration", exchange_configuration, NAILED),
    protected("write through a hard link", write_through_hard_link, &[EXDEV]),
    protected("move git away", |_| fs::rename(".git", "other"), NAILED),
    protected("put another git in its place", another_git, NAILED),
    protected(
        "exchange git",
        |_| fs::create_dir("o").and_then(|()| swap(Path::new(".git"), Path::new("o"))),
        NAILED,
    ),
    protected("make git a link", git_as_link, NAILED),
    protected("remove git", |_| fs::remove_dir_all(".git"), &[EBUSY, EROFS]),
    protected("make what is not there", |_| fs::create_dir(".windlass"), &[EEXIST]),
    protected("link what is not there", |_| symlink("a", ".windlass"), &[EEXIST]),
    protected("fill what is not there", fill_absent, READ_ONLY),
    protected("move to what is not there", move_to_absent, NAILED),
    protected("replace what is not there", replace_absent, NAILED),
    protected("open up what is not there", open_up_absent, READ_ONLY),
    protected("write a hook through a link", write_through_link, READ_ONLY),
    protected("write a hook through a descriptor", write_through_descriptor, READ_ONLY),
    protected("write a hook through a directory", write_through_directory, READ_ONLY),
    protected("swap links while writing", race, READ_ONLY),
    protected("swap git while writing", race_for_git, &[EROFS, EBUSY]),
    protected("trade the stand-ins' origin", touch_origin, READ_ONLY).only_inside(),
];

#[test]
fn protected_places_stay_as_they_are() {
    check(ESCAPES);
}

fn executable(path: &str) -> io::Result<()> {
    fs::set_permissions(path, PermissionsExt::from_mode(0o755))
}

fn exchange_hooks(_: &Scene) -> io::Result<()> {
    fs::create_dir(".git/other")?;
    swap(Path::new(".git/other"), Path::new(".git/hooks"))
}

fn replace_configuration(_: &Scene) -> io::Result<()> {
    fs::write(".git/new", "x")?;
    fs::rename(".git/new", ".git/config")
}

fn exchange_configuration(_: &Scene) -> io::Result<()> {
    fs::write(".git/new", "x")?;
    swap(Path::new(".git/new"), Path::new(".git/config"))
}

fn write_through_hard_link(_: &Scene) -> io::Result<()> {
    fs::hard_link(".git/config", ".git/copy")?;
    fs::write(".git/copy", "x")
}

fn another_git(_: &Scene) -> io::Result<()> {
    fs::rename(".git", "old")?;
    fs::create_dir_all(".git/hooks")?;
    fs::write(".git/hooks/pre-commit", "x")
}

fn git_as_link(_: &Scene) -> io::Result<()> {
    fs::create_dir_all("other/hooks")?;
    fs::rename(".git", "old")?;
    symlink("other", ".git")
}

/// Whether it is ours to make or stands there already.
fn is_there(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn fill_absent(_: &Scene) -> io::Result<()> {
    is_there(fs::create_dir(".windlass"))?;
    fs::write(".windlass/settings", "x")
}

fn move_to_absent(_: &Scene) -> io::Result<()> {
    fs::create_dir("new")?;
    fs::write("new/settings", "x")?;
    fs::rename("new", ".windlass")
}

fn replace_absent(_: &Scene) -> io::Result<()> {
    is_there(fs::create_dir(".windlass"))?;
    fs::remove_dir(".windlass")?;
    fs::create_dir_all(".windlass/new")
}

fn open_up_absent(_: &Scene) -> io::Result<()> {
    is_there(fs::create_dir(".windlass"))?;
    fs::set_permissions(".windlass", PermissionsExt::from_mode(0o700))?;
    fs::write(".windlass/settings", "x")
}

fn write_through_link(_: &Scene) -> io::Result<()> {
    symlink(".git/hooks", "harmless")?;
    fs::write("harmless/pre-commit", "x")
}

fn write_through_descriptor(_: &Scene) -> io::Result<()> {
    let file = File::open(".git/hooks/sample")?;
    fs::write(format!("/proc/self/fd/{}", file.as_raw_fd()), "x")
}

fn write_through_directory(_: &Scene) -> io::Result<()> {
    let git = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(".git")?;
    fs::write(format!("/proc/self/fd/{}/hooks/pre-commit", git.as_raw_fd()), "x")
}

/// How often something is tried that depends on luck.
const OFTEN: usize = 4_000;

/// Two exchange a directory with a link to the hooks, again and again, while a third writes through whatever is there.
fn race(_: &Scene) -> io::Result<()> {
    fs::create_dir("d")?;
    symlink(".git/hooks", "trap")?;
    write_while_swapping(Path::new("d"), Path::new("trap"), Path::new("d/pre-commit"))
}

/// The same with the directory above.
fn race_for_git(_: &Scene) -> io::Result<()> {
    fs::create_dir_all("d/hooks")?;
    write_while_swapping(Path::new(".git"), Path::new("d"), Path::new(".git/hooks/pre-commit"))
}

fn write_while_swapping(one: &Path, other: &Path, written: &Path) -> io::Result<()> {
    let swapping = || (0..OFTEN).for_each(|_| drop(swap(one, other)));
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
        (false, None) => panic!("nobody was ever refused"),
    }
}

/// What stands for absent places must come from where nobody can change it.
fn touch_origin(_: &Scene) -> io::Result<()> {
    fs::set_permissions("/dev/.masks/empty", PermissionsExt::from_mode(0o755))?;
    fs::write("/dev/.masks/empty/settings", "x")
}

/// What is put into the workspace to hold a place is named, and there is nothing else.
#[test]
fn what_stands_in_is_named() {
    let list = |place: &Place| {
        let entries = fs::read_dir(place.workspace()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let place = Place::confined();
    let mut before = list(&place);
    let (program, _) = place.start("ls -A .windlass; true").unwrap();
    assert_eq!(program.stood_in(), [2]);
    assert_eq!(program.wait().unwrap(), Ending::Exited(0));
    before.insert(1, ".windlass".into());
    before.sort();
    assert_eq!(list(&place), before);
    let (again, _) = place.start("true").unwrap();
    assert!(again.stood_in().is_empty(), "it is there now");
}

/// What cannot be protected is not begun.
#[test]
fn what_lies_behind_a_link_is_refused() {
    for (name, make) in [
        ("a link", (|git| symlink("other", git)) as fn(&Path) -> io::Result<()>),
        ("a link to nothing", |git| symlink("nothing", git)),
        ("a file", |git| fs::write(git, "gitdir: elsewhere")),
    ] {
        let place = Place::confined();
        let git = place.path("workspace/.git");
        fs::rename(&git, place.path("workspace/other")).unwrap();
        make(&git).unwrap();
        match place.start("true") {
            Err(LaunchError::Surroundings { step: Step::Protected, .. }) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn absolute_paths_and_those_that_lead_out_are_refused() {
    for path in ["../outside", "/etc", ".git/../../outside"] {
        let place = Place::confined().with_view(|view| {
            view.protected = vec![Protected { path: path.into(), is_directory: true }];
        });
        assert!(place.start("true").is_err(), "{path}");
    }
}

/// Many at once, and one within the other.
#[test]
fn many_places_are_protected() {
    let place = Place::confined();
    let names = (0..100).map(|number| format!("deep/er/{number}"));
    let protected: Vec<_> =
        names.map(|path| Protected { path: path.into(), is_directory: true }).collect();
    fs::create_dir_all(place.path("workspace/deep/er")).unwrap();
    let place = place.with_view(|view| {
        view.protected = protected;
        view.protected.push(Protected { path: "deep".into(), is_directory: true });
        view.protected.push(Protected { path: "deep/er".into(), is_directory: true });
    });
    let (_, printed) = place.run("for d in deep/er/* deep/er deep; do touch $d/x 2>/dev/null && echo $d; done; wc -l < /proc/self/mountinfo");
    let mounts: usize = printed.trim().parse().unwrap_or_else(|_| panic!("{printed}"));
    assert!(mounts < 500, "{mounts} mounts");
}
