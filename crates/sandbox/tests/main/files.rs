//! Attempts to change files outside the workspace and to read secret files.

use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt, symlink};
use std::path::Path;

use libc::{EACCES, EPERM, EROFS, EXDEV};

use crate::attempt::{AttemptContext, Escape, check};
use crate::support::TestSandbox;

const READ_ONLY: &[i32] = &[EROFS];
/// Errors of a move or a hard link between two mounts, writable or not.
const OTHER_MOUNT: &[i32] = &[EROFS, EXDEV];

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
    Escape::new("make a file without a name", |at| create_unnamed_file(&at.outside), READ_ONLY),
    Escape::new("rename outside", |at| rename(at, "outside/file", "outside/new"), READ_ONLY),
    Escape::new(
        "rename to the outside",
        |at| rename(at, "workspace/a.txt", "outside/a"),
        OTHER_MOUNT,
    ),
    Escape::new(
        "rename from the outside",
        |at| rename(at, "outside/file", "workspace/b"),
        OTHER_MOUNT,
    ),
    Escape::new(
        "rename over a file",
        |at| rename(at, "workspace/a.txt", "outside/file"),
        OTHER_MOUNT,
    ),
    Escape::new(
        "rename the workspace",
        |at| rename(at, "workspace", "other"),
        &[libc::EBUSY, EROFS],
    ),
    Escape::new("exchange", exchange, OTHER_MOUNT),
    Escape::new(
        "hard-link to the outside",
        |at| link(at, "workspace/a.txt", "outside/a"),
        OTHER_MOUNT,
    ),
    Escape::new(
        "hard-link from the outside",
        |at| link(at, "outside/file", "workspace/b"),
        OTHER_MOUNT,
    ),
    // Landlock has no right for these.
    Escape::new("chmod", |at| mode(&at.outside.join("file"), 0o777), READ_ONLY).needs_view(),
    Escape::new("chmod a directory", |at| mode(&at.outside, 0o777), READ_ONLY).needs_view(),
    Escape::new("fchmod", change_open_file, READ_ONLY).needs_view(),
    Escape::new("chown", |at| change_owner(&at.outside.join("file")), READ_ONLY).needs_view(),
    Escape::new("utimes", |at| touch(&at.outside.join("file")), READ_ONLY).needs_view(),
    Escape::new("setxattr", |at| set_xattr(&at.outside.join("file")), READ_ONLY).needs_view(),
    Escape::new("set flags", |at| set_no_dump(&at.outside.join("file")), READ_ONLY).needs_view(),
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
    Escape::new("setxattr through a link", |at| set_xattr(&at.workspace.join("link")), READ_ONLY)
        .needs_view(),
    Escape::new("truncate through a link", |at| truncate(&at.workspace.join("link")), READ_ONLY)
        .needs_view_or_landlock(3),
    // By descriptors instead of paths.
    Escape::new("write through a descriptor", write_through_descriptor, READ_ONLY),
    Escape::new("write through an O_PATH handle", write_through_handle, READ_ONLY),
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
    Escape::new("read a secret", |at| read_secret(&at.secrets.join("key")), &[EACCES]).needs_view(),
    Escape::new("list secrets", |at| fs::read_dir(&at.secrets).map(drop), &[EACCES]).needs_view(),
    Escape::new("ask for a secret", |at| fs::metadata(at.secrets.join("key")).map(drop), &[EACCES])
        .needs_view(),
    Escape::new(
        "read a secret file",
        |at| read_secret(&at.secrets.with_file_name("token")),
        &[EACCES],
    )
    .needs_view(),
    Escape::new("read a secret through a link", read_through_own_link, &[EACCES]).needs_view(),
    Escape::new(
        "read a secret from above",
        |_| read_secret(Path::new("../secrets/key")),
        &[EACCES],
    )
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
fn attempts_on_outside_and_secret_files_are_refused() {
    check(ESCAPES);
}

fn append(path: &Path) -> io::Result<()> {
    io::Write::write_all(&mut OpenOptions::new().append(true).open(path)?, b"x")
}

fn truncate(path: &Path) -> io::Result<()> {
    let path = c_path(path);
    // SAFETY: a text with an end.
    errno_result(unsafe { libc::truncate(path.as_ptr(), 0) })
}

fn make_pipe(path: &Path) -> io::Result<()> {
    let path = c_path(path);
    // SAFETY: a text with an end.
    errno_result(unsafe { libc::mkfifo(path.as_ptr(), 0o600) })
}

fn create_unnamed_file(directory: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(directory).map(drop)
}

fn rename(at: &AttemptContext, from: &str, to: &str) -> io::Result<()> {
    let base = at.workspace.parent().unwrap();
    fs::rename(base.join(from), base.join(to))
}

fn link(at: &AttemptContext, from: &str, to: &str) -> io::Result<()> {
    let base = at.workspace.parent().unwrap();
    fs::hard_link(base.join(from), base.join(to))
}

fn exchange(at: &AttemptContext) -> io::Result<()> {
    swap(&at.workspace.join("a.txt"), &at.outside.join("file"))
}

/// Exchanges two names.
pub(crate) fn swap(one: &Path, other: &Path) -> io::Result<()> {
    let (one, other) = (c_path(one), c_path(other));
    let here = libc::AT_FDCWD;
    let exchange = libc::RENAME_EXCHANGE;
    // SAFETY: two texts with an end.
    errno_result(unsafe { libc::renameat2(here, one.as_ptr(), here, other.as_ptr(), exchange) })
}

fn mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, PermissionsExt::from_mode(mode))
}

fn change_open_file(at: &AttemptContext) -> io::Result<()> {
    File::open(at.outside.join("file"))?.set_permissions(PermissionsExt::from_mode(0o777))
}

/// Changes the owner to the present owner, which every user may do.
fn change_owner(path: &Path) -> io::Result<()> {
    let found = path.metadata()?;
    std::os::unix::fs::chown(path, Some(found.uid()), Some(found.gid()))
}

fn touch(path: &Path) -> io::Result<()> {
    let path = c_path(path);
    // SAFETY: a text with an end; no times are the present one.
    errno_result(unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), std::ptr::null(), 0) })
}

fn set_xattr(path: &Path) -> io::Result<()> {
    let path = c_path(path);
    let (key, value) = (c"user.windlass", c"x".as_ptr().cast());
    // SAFETY: texts with an end, and a value of one byte.
    errno_result(unsafe { libc::setxattr(path.as_ptr(), key.as_ptr(), value, 1, 0) })
}

/// Sets the `nodump` flag, which every user may set on own files.
fn set_no_dump(path: &Path) -> io::Result<()> {
    const NO_DUMP: libc::c_long = 0x40;
    let file = File::open(path)?;
    let flags: libc::c_long = NO_DUMP;
    // SAFETY: room for as much as the call reads.
    errno_result(unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) })
}

fn write_through_own_link(at: &AttemptContext) -> io::Result<()> {
    symlink(at.outside.join("file"), at.workspace.join("own"))?;
    fs::write(at.workspace.join("own"), "x")
}

fn write_through_descriptor(at: &AttemptContext) -> io::Result<()> {
    let file = File::open(at.outside.join("file"))?;
    fs::write(format!("/proc/self/fd/{}", file.as_raw_fd()), "x")
}

fn write_through_handle(at: &AttemptContext) -> io::Result<()> {
    let flags = libc::O_PATH;
    let directory = OpenOptions::new().read(true).custom_flags(flags).open(&at.outside)?;
    fs::write(format!("/proc/self/fd/{}/new", directory.as_raw_fd()), "x")
}

fn write_through_root(at: &AttemptContext) -> io::Result<()> {
    fs::write(format!("/proc/self/root{}/new", at.outside.display()), "x")
}

fn read_secret(path: &Path) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    assert_eq!(text, "secret value\n");
    Ok(())
}

fn read_through_own_link(at: &AttemptContext) -> io::Result<()> {
    symlink(at.secrets.join("key"), at.workspace.join("own"))?;
    read_secret(&at.workspace.join("own"))
}

fn read_through_root(at: &AttemptContext) -> io::Result<()> {
    read_secret(Path::new(&format!("/proc/self/root{}/key", at.secrets.display())))
}

fn open_up(at: &AttemptContext) -> io::Result<()> {
    mode(&at.secrets, 0o700)?;
    read_secret(&at.secrets.join("key"))
}

pub(crate) fn c_path(path: &Path) -> CString {
    CString::new(OsStr::as_bytes(path.as_os_str())).unwrap()
}

/// Converts the result of a C function: a negative one is the error in `errno`.
pub(crate) fn errno_result(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Checks the options of every mount that a program sees.
#[test]
fn only_the_expected_mounts_are_writable() {
    let sandbox = TestSandbox::confined();
    let (_, printed) = sandbox.run("cat /proc/self/mountinfo");
    let workspace = sandbox.workspace().display().to_string();
    let git = sandbox.path("workspace/.git").display().to_string();
    let writable = [&*workspace, &*git, "/tmp", "/var/tmp", "/dev"];
    let mut seen = Vec::new();
    for line in printed.lines() {
        let mut words = line.split(' ').skip(4);
        let (path, options) = (words.next().unwrap(), words.next().unwrap());
        let options: Vec<&str> = options.split(',').collect();
        // Harmless devices, and the terminals of the program.
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
