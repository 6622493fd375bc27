//! System calls on mounts, which are named by descriptor.

use super::{CStr, Fd, Result, c_int, c_uint, c_void, size, to_int};

/// Mount attribute: read-only.
pub(crate) const RDONLY: u64 = 0x01;
/// Mount attribute: set-id bits have no effect.
pub(crate) const NOSUID: u64 = 0x02;
/// Mount attribute: device files cannot be opened.
pub(crate) const NODEV: u64 = 0x04;

/// Names the mount of the descriptor itself by an empty path (`AT_EMPTY_PATH`).
const EMPTY_PATH: c_uint = 0x1000;
/// Includes all submounts (`AT_RECURSIVE`).
const RECURSIVE: c_uint = 0x8000;
/// Copies the mount instead of opening it.
const OPEN_TREE_CLONE: c_uint = 1;

/// The kernel's `mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Makes all mounts private: later mounts here are not seen in other namespaces, and later mounts there are not seen here.
pub(crate) fn make_all_private() -> Result {
    let none: *const c_void = std::ptr::null();
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    syscall!(libc::SYS_mount, none, c"/".as_ptr(), none, flags, none).map(drop)
}

/// Makes a detached copy of the mount at a path, with all submounts.
pub(crate) fn clone_tree(at: Fd, path: &CStr) -> Result<Fd> {
    let flags = OPEN_TREE_CLONE | RECURSIVE | EMPTY_PATH | libc::O_CLOEXEC.cast_unsigned();
    syscall!(libc::SYS_open_tree, at, path.as_ptr(), flags).map(to_int)
}

/// Sets attributes of the mount at a path and of all its submounts.
pub(crate) fn set_attributes_recursive(at: Fd, path: &CStr, set: u64) -> Result {
    let attributes = MountAttributes { set, clear: 0, propagation: 0, userns_fd: 0 };
    let pointer = std::ptr::from_ref(&attributes);
    let flags = RECURSIVE | EMPTY_PATH;
    syscall!(libc::SYS_mount_setattr, at, path.as_ptr(), flags, pointer, size::<MountAttributes>())
        .map(drop)
}

/// Sets attributes of one mount, without its submounts.
pub(crate) fn set_attributes(mount: Fd, set: u64) -> Result {
    let attributes = MountAttributes { set, clear: 0, propagation: 0, userns_fd: 0 };
    let pointer = std::ptr::from_ref(&attributes);
    syscall!(
        libc::SYS_mount_setattr,
        mount,
        c"".as_ptr(),
        EMPTY_PATH,
        pointer,
        size::<MountAttributes>()
    )
    .map(drop)
}

/// Attaches a detached mount at a path below a directory, or at the directory itself if the path is empty.
pub(crate) fn attach(mount: Fd, at: Fd, path: &CStr) -> Result {
    const FROM_EMPTY: c_uint = 0x04;
    const TO_EMPTY: c_uint = 0x40;
    let flags = FROM_EMPTY | if path.is_empty() { TO_EMPTY } else { 0 };
    syscall!(libc::SYS_move_mount, mount, c"".as_ptr(), at, path.as_ptr(), flags).map(drop)
}

/// Creates a detached mount of a new file system with these options; an option without a value is a flag.
pub(crate) fn new_file_system(kind: &CStr, options: &[(&CStr, Option<&CStr>)]) -> Result<Fd> {
    let context = syscall!(libc::SYS_fsopen, kind.as_ptr(), 1).map(to_int)?;
    let made = configure(context, options).and_then(|()| {
        let attributes = c_uint::try_from(NOSUID).unwrap_or(0);
        syscall!(libc::SYS_fsmount, context, 1, attributes).map(to_int)
    });
    super::close(context);
    made
}

/// Sets the options of a file system and creates it.
fn configure(context: Fd, options: &[(&CStr, Option<&CStr>)]) -> Result {
    const FLAG: c_int = 0;
    const STRING: c_int = 1;
    const CREATE: c_int = 6;
    let none: *const c_void = std::ptr::null();
    for (key, value) in options {
        match value {
            Some(value) => {
                syscall!(libc::SYS_fsconfig, context, STRING, key.as_ptr(), value.as_ptr(), 0)?
            }
            None => syscall!(libc::SYS_fsconfig, context, FLAG, key.as_ptr(), none, 0)?,
        };
    }
    syscall!(libc::SYS_fsconfig, context, CREATE, none, none, 0).map(drop)
}
