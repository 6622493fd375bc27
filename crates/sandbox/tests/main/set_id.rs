//! Set-id files: attempts to create one are refused, and existing ones give no rights.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

use libc::{ENOSYS, EPERM, c_long};

use crate::attempt::{AttemptContext, Escape, check};
use crate::files::{c_path, errno_result};
use crate::kernel::{call, unsafe_call};
use crate::support::TestSandbox;

const NOT_ALLOWED: &[i32] = &[EPERM];

pub(crate) const ESCAPES: &[Escape] = &[
    Escape::new("chmod u+s", |at| set_mode(at, 0o4755), NOT_ALLOWED),
    Escape::new("chmod g+s", |at| set_mode(at, 0o2755), NOT_ALLOWED),
    Escape::new("open a new set-id file", |at| create_set_id(at, open_new), NOT_ALLOWED),
    Escape::new(
        "open a new set-id file by a structure",
        |at| create_set_id(at, open_by_structure),
        &[ENOSYS],
    ),
    Escape::new("link a nameless set-id file", |at| create_set_id(at, link_nameless), NOT_ALLOWED),
    Escape::new("mknod a set-id file", |at| create_set_id(at, make_node), NOT_ALLOWED),
    #[cfg(target_arch = "x86_64")]
    Escape::new(
        "open a new set-id file the old way",
        |at| create_set_id(at, open_old),
        NOT_ALLOWED,
    ),
    #[cfg(target_arch = "x86_64")]
    Escape::new("creat a set-id file", |at| create_set_id(at, creat), NOT_ALLOWED),
    #[cfg(target_arch = "x86_64")]
    Escape::new(
        "mknod a set-id file the old way",
        |at| create_set_id(at, make_node_old),
        NOT_ALLOWED,
    ),
    Escape::new("make a set-id directory", make_directory, NOT_ALLOWED).only_inside(),
];

#[test]
fn no_file_becomes_set_id() {
    check(ESCAPES);
}

fn set_mode(at: &AttemptContext, mode: u32) -> io::Result<()> {
    let path = at.workspace.join("a.txt");
    fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
    assert_eq!(path.metadata()?.mode() & 0o7777, mode);
    Ok(())
}

/// Mode of a program with set-user-id and set-group-id bits that every user may run.
const SET_ID: c_long = 0o6755;
const CREATE: c_long = (libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY) as c_long;
const HERE: c_long = libc::AT_FDCWD as c_long;

/// Creates a file that has the set-id bits from its beginning.
fn create_set_id(at: &AttemptContext, make: fn(&CStr) -> c_long) -> io::Result<()> {
    let path = at.workspace.join("born");
    // SAFETY: a number.
    unsafe { libc::umask(0) };
    call(make(&c_path(&path)))?;
    assert_eq!(path.metadata()?.mode() & 0o7777, 0o6755);
    Ok(())
}

fn open_new(path: &CStr) -> c_long {
    // SAFETY: a text with an end.
    unsafe { libc::syscall(libc::SYS_openat, HERE, path.as_ptr(), CREATE, SET_ID) }
}

fn open_by_structure(path: &CStr) -> c_long {
    let how = [CREATE, SET_ID, 0];
    let size: c_long = 24;
    // SAFETY: a text with an end, and a structure of that size.
    unsafe { libc::syscall(libc::SYS_openat2, HERE, path.as_ptr(), how.as_ptr(), size) }
}

fn link_nameless(path: &CStr) -> c_long {
    let directory = std::path::Path::new(path.to_str().unwrap()).parent().unwrap();
    let flags = c_long::from(libc::O_TMPFILE | libc::O_WRONLY);
    let (directory, link) = (c_path(directory), libc::AT_SYMLINK_FOLLOW);
    // SAFETY: texts with an end.
    unsafe {
        let file = libc::syscall(libc::SYS_openat, HERE, directory.as_ptr(), flags, SET_ID);
        if file < 0 {
            return file;
        }
        let nameless = CString::new(format!("/proc/self/fd/{file}")).unwrap();
        let here = libc::AT_FDCWD;
        libc::linkat(here, nameless.as_ptr(), here, path.as_ptr(), link).into()
    }
}

fn make_node(path: &CStr) -> c_long {
    let mode = c_long::from(libc::S_IFREG) | SET_ID;
    // SAFETY: a text with an end.
    unsafe { libc::syscall(libc::SYS_mknodat, HERE, path.as_ptr(), mode, 0 as c_long) }
}

#[cfg(target_arch = "x86_64")]
fn open_old(path: &CStr) -> c_long {
    unsafe_call(libc::SYS_open, path.as_ptr() as c_long, CREATE, SET_ID)
}

#[cfg(target_arch = "x86_64")]
fn creat(path: &CStr) -> c_long {
    unsafe_call(libc::SYS_creat, path.as_ptr() as c_long, SET_ID, 0)
}

#[cfg(target_arch = "x86_64")]
fn make_node_old(path: &CStr) -> c_long {
    let mode = c_long::from(libc::S_IFREG) | SET_ID;
    unsafe_call(libc::SYS_mknod, path.as_ptr() as c_long, mode, 0)
}

/// Creates a directory with set-id bits. The kernel ignores these bits of a new directory, so the filter does not check them. A bit that is
/// inherited from the parent directory only passes on its group.
fn make_directory(at: &AttemptContext) -> io::Result<()> {
    let path = at.workspace.join("born");
    errno_result(
        unsafe_call(libc::SYS_mkdirat, HERE, c_path(&path).as_ptr() as c_long, SET_ID)
            .try_into()
            .unwrap(),
    )?;
    if path.metadata()?.mode() & 0o6000 == 0 {
        Err(io::Error::from_raw_os_error(EPERM))
    } else {
        Ok(())
    }
}

/// In the sandbox a set-user-id program runs as the caller.
#[test]
fn set_user_id_program_gives_no_rights() {
    let owner = crate::support::is_root().then_some(65534);
    for (sandbox, is_confined) in
        [(TestSandbox::unconfined(), false), (TestSandbox::confined(), true)]
    {
        let program = sandbox.path("workspace/who");
        fs::copy("/usr/bin/id", &program).unwrap();
        std::os::unix::fs::chown(&program, owner, None).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
        let (_, own) = sandbox.run("id -u");
        let (_, printed) = sandbox.run("./who -u");
        let expected = if is_confined { own } else { owner.map_or(own, |id| format!("{id}\n")) };
        assert_eq!(printed, expected);
    }
}
