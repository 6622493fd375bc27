//! Changing what is outside of the workspace, and reading what is secret.

use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt, symlink};
use std::path::Path;

use libc::{EACCES, EPERM, EROFS, EXDEV};

use crate::attempt::{Escape, Scene, check};
use crate::support::Place;

const READ_ONLY: &[i32] = &[EROFS];
/// Two mounts: what is in one cannot be moved or linked to the other, be it writable or not.
const ELSEWHERE: &[i32] = &[EROFS, EXDEV];

pub(crate) const ESCAPES: &[Escape] = &[
    Escape::new("write a new file", |at| fs::write(at.outside.join("new"), "x"), READ_ONLY),
    Escape::new("write over a file", |at| fs::write(at.outside.join("file"), "x"), READ_ONLY),
    Escape::new("append", |at| append(&at.outside.join("file")), READ_ONLY),
    Escape::new("truncate", |at| truncate(&at.outside.join("file")), READ_ONLY)
        .needs_view_or_landlock(3),
    Escape::new("unlink", |at| fs::remove_file(at.outside.join("file")), READ_ONLY),
    Escape::new("make a directory", |at| fs::create_dir(at.outside.join("new")), READ_ONLY),
    Escape::new("remove a directory", |at| fs::remove_dir(at.outside.join("dir")), READ_ONLY),
    Escape::new("make a link", |at| symlink("file", at.outside.join("new")), READ_ONLY),
    Escape::new("make a pipe", |at| make_pipe(&at.outside.join("new")), READ_ONLY),
    Escape::new("make a file without a name", |at| nameless(&at.outside), READ_ONLY),
    Escape::new("rename outside", |at| rename(at, "outside/file", "outside/new"), READ_ONLY),
    Escape::new(
        "rename to the outside",
        |at| rename(at, "workspace/a.txt", "outside/a"),
        ELSEWHERE,
    ),
    Escape::new(
        "rename from the outside",
        |at| rename(at, "outside/file", "workspace/b"),
        ELSEWHERE,
    ),
    Escape::new(
        "rename over a file",
        |at| rename(at, "workspace/a.txt", "outside/file"),
        ELSEWHERE,
    ),
    Escape::new(
        "rename the workspace",
        |at| rename(at, "workspace", "other"),
        &[libc::EBUSY, EROFS],
    ),
    Escape::new("exchange", exchange, ELSEWHERE),
    Escape::new(
        "hard-link to the outside",
        |at| link(at, "workspace/a.txt", "outside/a"),
        ELSEWHERE,
    ),
    Escape::new(
        "hard-link from the outside",
        |at| link(at, "outside/file", "workspace/b"),
        ELSEWHERE,
    ),
    // What Landlock has no right for.
    Escape::new("chmod", |at| mode(&at.outside.join("file"), 0o777), READ_ONLY).needs_view(),
    Escape::new("chmod a directory", |at| mode(&at.outside, 0o777), READ_ONLY).needs_view(),
    Escape::new("fchmod", change_open_file, READ_ONLY).needs_view(),
    Escape::new("chown", |at| own(&at.outside.join("file")), READ_ONLY).needs_view(),
    Escape::new("utimes", |at| touch(&at.outside.join("file")), READ_ONLY).needs_view(),
    Escape::new("setxattr", |at| mark(&at.outside.join("file")), READ_ONLY).needs_view(),
    Escape::new("set flags", |at| flag(&at.outside.join("file")), READ_ONLY).needs_view(),
    // Through links in the workspace.
    Escape::new("write through a link", |at| fs::write(at.workspace.join("link"), "x"), READ_ONLY),
    Escape::new(
        "write below a link",
        |at| fs::write(at.workspace.join("dirlink/new"), "x"),
        READ_ONLY,
    ),
    Escape::new("write through a link of its own", write_through_own_link, READ_ONLY),
    Escape::new("write above the workspace", |_| fs::write("../outside/file", "x"), READ_ONLY),
    Escape::new("chmod through a link", |at| mode(&at.workspace.join("link"), 0o777), READ_ONLY)
        .needs_view(),
    Escape::new("utimes through a link", |at| touch(&at.workspace.join("link")), READ_ONLY)
        .needs_view(),
    Escape::new("setxattr through a link", |at| mark(&at.workspace.join("link")), READ_ONLY)
        .needs_view(),
    Escape::new("truncate through a link", |at| truncate(&at.workspace.join("link")), READ_ONLY)
        .needs_view_or_landlock(3),
    // Around paths.
    Escape::new("write through a descriptor", write_through_descriptor, READ_ONLY),
    Escape::new("write through a place", write_through_place, READ_ONLY),
    Escape::new("write through a process's root", write_through_root, READ_ONLY),
    Escape::new(
        "write to the machine",
        |_| {
            fs::write("/usr/windlass-test", "x")
                .and_then(|()| fs::remove_file("/usr/windlass-test"))
        },
        READ_ONLY,
    )
    .for_root(),
    // Secrets.
    Escape::new("read a secret", |at| read(&at.secrets.join("key")), &[EACCES]).needs_view(),
    Escape::new("list secrets", |at| fs::read_dir(&at.secrets).map(drop), &[EACCES]).needs_view(),
    Escape::new("ask for a secret", |at| fs::metadata(at.secrets.join("key")).map(drop), &[EACCES])
        .needs_view(),
    Escape::new("read a secret file", |at| read(&at.secrets.with_file_name("token")), &[EACCES])
        .needs_view(),
    Escape::new("read a secret through a link", read_through_own_link, &[EACCES]).needs_view(),
    Escape::new("read a secret from above", |_| read(Path::new("../secrets/key")), &[EACCES])
        .needs_view(),
    Escape::new("read a secret through a process's root", read_through_root, &[EACCES])
        .needs_view(),
    Escape::new("open up secrets", open_up, READ_ONLY).needs_view(),
    Escape::new("hard-link a secret", |at| link(at, "secrets/key", "workspace/key"), &[EACCES])
        .needs_view(),
    Escape::new(
        "hard-link a secret file",
        |at| link(at, "token", "workspace/key"),
        &[EACCES, EXDEV, EPERM],
    ),
    Escape::new("move secrets", |at| rename(at, "secrets", "outside/dir"), &[libc::EBUSY, EROFS]),
];

#[test]
fn nothing_outside_is_changed_and_nothing_secret_is_read() {
    check(ESCAPES);
}

fn append(path: &Path) -> io::Result<()> {
    io::Write::write_all(&mut OpenOptions::new().append(true).open(path)?, b"x")
}

fn truncate(path: &Path) -> io::Result<()> {
    let path = name(path);
    // SAFETY: a text with an end.
    answer(unsafe { libc::truncate(path.as_ptr(), 0) })
}

fn make_pipe(path: &Path) -> io::Result<()> {
    let path = name(path);
    // SAFETY: a text with an end.
    answer(unsafe { libc::mkfifo(path.as_ptr(), 0o600) })
}

fn nameless(directory: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(directory).map(drop)
}

fn rename(at: &Scene, from: &str, to: &str) -> io::Result<()> {
    let base = at.workspace.parent().unwrap();
    fs::rename(base.join(from), base.join(to))
}

fn link(at: &Scene, from: &str, to: &str) -> io::Result<()> {
    let base = at.workspace.parent().unwrap();
    fs::hard_link(base.join(from), base.join(to))
}

fn exchange(at: &Scene) -> io::Result<()> {
    swap(&at.workspace.join("a.txt"), &at.outside.join("file"))
}

/// Exchanges two names.
pub(crate) fn swap(one: &Path, other: &Path) -> io::Result<()> {
    let (one, other) = (name(one), name(other));
    let here = libc::AT_FDCWD;
    let exchange = libc::RENAME_EXCHANGE;
    // SAFETY: two texts with an end.
    answer(unsafe { libc::renameat2(here, one.as_ptr(), here, other.as_ptr(), exchange) })
}

fn mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, PermissionsExt::from_mode(mode))
}

fn change_open_file(at: &Scene) -> io::Result<()> {
    File::open(at.outside.join("file"))?.set_permissions(PermissionsExt::from_mode(0o777))
}

/// To whom it is already: what everybody may do.
fn own(path: &Path) -> io::Result<()> {
    let found = path.metadata()?;
    std::os::unix::fs::chown(path, Some(found.uid()), Some(found.gid()))
}

fn touch(path: &Path) -> io::Result<()> {
    let path = name(path);
    // SAFETY: a text with an end; no times are the present one.
    answer(unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), std::ptr::null(), 0) })
}

fn mark(path: &Path) -> io::Result<()> {
    let path = name(path);
    let (key, value) = (c"user.windlass", c"x".as_ptr().cast());
    // SAFETY: texts with an end, and a value of one byte.
    answer(unsafe { libc::setxattr(path.as_ptr(), key.as_ptr(), value, 1, 0) })
}

/// Says that backups need not have it: a flag that everybody may set on what is theirs.
fn flag(path: &Path) -> io::Result<()> {
    const NO_DUMP: libc::c_long = 0x40;
    let file = File::open(path)?;
    let flags: libc::c_long = NO_DUMP;
    // SAFETY: room for as much as the call reads.
    answer(unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) })
}

fn write_through_own_link(at: &Scene) -> io::Result<()> {
    symlink(at.outside.join("file"), at.workspace.join("own"))?;
    fs::write(at.workspace.join("own"), "x")
}

fn write_through_descriptor(at: &Scene) -> io::Result<()> {
    let file = File::open(at.outside.join("file"))?;
    fs::write(format!("/proc/self/fd/{}", file.as_raw_fd()), "x")
}

fn write_through_place(at: &Scene) -> io::Result<()> {
    let flags = libc::O_PATH;
    let place = OpenOptions::new().read(true).custom_flags(flags).open(&at.outside)?;
    fs::write(format!("/proc/self/fd/{}/new", place.as_raw_fd()), "x")
}

fn write_through_root(at: &Scene) -> io::Result<()> {
    fs::write(format!("/proc/self/root{}/new", at.outside.display()), "x")
}

fn read(path: &Path) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    assert_eq!(text, "secret value\n");
    Ok(())
}

fn read_through_own_link(at: &Scene) -> io::Result<()> {
    symlink(at.secrets.join("key"), at.workspace.join("own"))?;
    read(&at.workspace.join("own"))
}

fn read_through_root(at: &Scene) -> io::Result<()> {
    read(Path::new(&format!("/proc/self/root{}/key", at.secrets.display())))
}

fn open_up(at: &Scene) -> io::Result<()> {
    mode(&at.secrets, 0o700)?;
    read(&at.secrets.join("key"))
}

pub(crate) fn name(path: &Path) -> CString {
    CString::new(OsStr::as_bytes(path.as_os_str())).unwrap()
}

/// What the C library answered.
pub(crate) fn answer(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Every mount that a program sees, by what may be done to it.
#[test]
fn every_mount_is_read_only_but_those_that_are_meant_not_to_be() {
    let place = Place::confined();
    let (_, printed) = place.run("cat /proc/self/mountinfo");
    let workspace = place.workspace().display().to_string();
    let git = place.path("workspace/.git").display().to_string();
    let writable = [&*workspace, &*git, "/tmp", "/var/tmp", "/dev"];
    let mut seen = Vec::new();
    for line in printed.lines() {
        let mut words = line.split(' ').skip(4);
        let (path, options) = (words.next().unwrap(), words.next().unwrap());
        let options: Vec<&str> = options.split(',').collect();
        // Devices that everybody may use, and the terminals of the program.
        let is_device = path.starts_with("/dev/");
        assert!(is_device || options.contains(&"nosuid"), "{line}");
        assert!(is_device || path == "/dev" || options.contains(&"nodev"), "{line}");
        assert!(is_device || writable.contains(&path) || options.contains(&"ro"), "{line}");
        seen.push(path);
    }
    for path in writable {
        assert!(seen.contains(&path), "{path} is not mounted: {printed}");
    }
}
