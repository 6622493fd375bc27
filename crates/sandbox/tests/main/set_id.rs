//! Files that run with the rights of their owner or group: none can be made, in no way, and those that are there give nothing.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

use libc::{ENOSYS, EPERM, c_long};

use crate::attempt::{Escape, Scene, check};
use crate::files::{answer, name};
use crate::kernel::{call, unsafe_call};
use crate::support::Place;

const NOT_ALLOWED: &[i32] = &[EPERM];

pub(crate) const ESCAPES: &[Escape] = &[
    Escape::new("chmod u+s", |at| set_mode(at, 0o4755), NOT_ALLOWED),
    Escape::new("chmod g+s", |at| set_mode(at, 0o2755), NOT_ALLOWED),
    Escape::new("open a new set-id file", |at| born_set_id(at, open_new), NOT_ALLOWED),
    Escape::new(
        "open a new set-id file by a structure",
        |at| born_set_id(at, open_by_structure),
        &[ENOSYS],
    ),
    Escape::new("link a nameless set-id file", |at| born_set_id(at, link_nameless), NOT_ALLOWED),
    Escape::new("mknod a set-id file", |at| born_set_id(at, make_node), NOT_ALLOWED),
    #[cfg(target_arch = "x86_64")]
    Escape::new("open a new set-id file the old way", |at| born_set_id(at, open_old), NOT_ALLOWED),
    #[cfg(target_arch = "x86_64")]
    Escape::new("creat a set-id file", |at| born_set_id(at, creat), NOT_ALLOWED),
    #[cfg(target_arch = "x86_64")]
    Escape::new(
        "mknod a set-id file the old way",
        |at| born_set_id(at, make_node_old),
        NOT_ALLOWED,
    ),
    Escape::new("make a set-id directory", make_directory, NOT_ALLOWED).only_inside(),
];

#[test]
fn no_file_becomes_set_id() {
    check(ESCAPES);
}

fn set_mode(at: &Scene, mode: u32) -> io::Result<()> {
    let path = at.workspace.join("a.txt");
    fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
    assert_eq!(path.metadata()?.mode() & 0o7777, mode);
    Ok(())
}

/// Everybody may run it, as its owner and in its group.
const SET_ID: c_long = 0o6755;
const CREATE: c_long = (libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY) as c_long;
const HERE: c_long = libc::AT_FDCWD as c_long;

/// Makes a file that runs with the rights of its owner and group from its beginning.
fn born_set_id(at: &Scene, make: fn(&CStr) -> c_long) -> io::Result<()> {
    let path = at.workspace.join("born");
    // SAFETY: a number.
    unsafe { libc::umask(0) };
    call(make(&name(&path)))?;
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
    let (directory, link) = (name(directory), libc::AT_SYMLINK_FOLLOW);
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

/// The kernel itself ignores these bits of a new directory, so the filter does not look at them. A bit that is inherited from the
/// directory around only passes on its group.
fn make_directory(at: &Scene) -> io::Result<()> {
    let path = at.workspace.join("born");
    answer(
        unsafe_call(libc::SYS_mkdirat, HERE, name(&path).as_ptr() as c_long, SET_ID)
            .try_into()
            .unwrap(),
    )?;
    if path.metadata()?.mode() & 0o6000 == 0 {
        Err(io::Error::from_raw_os_error(EPERM))
    } else {
        Ok(())
    }
}

/// What a program's owner could do in its place: nothing, here.
#[test]
fn a_program_that_is_somebody_else_gives_nothing() {
    let owner = crate::support::is_root().then_some(65534);
    for (place, is_confined) in [(Place::open(), false), (Place::confined(), true)] {
        let program = place.path("workspace/who");
        fs::copy("/usr/bin/id", &program).unwrap();
        std::os::unix::fs::chown(&program, owner, None).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
        let (_, own) = place.run("id -u");
        let (_, printed) = place.run("./who -u");
        let expected = if is_confined { own } else { owner.map_or(own, |id| format!("{id}\n")) };
        assert_eq!(printed, expected);
    }
}
