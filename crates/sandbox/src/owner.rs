//! Opens a file whose mode denies its owner access: a file of mode 0, or one below a directory of mode 0.
//!
//! A change of its mode for a moment would change its ctime, and other processes could see the other mode. So a child process opens the
//! file as root of a new user namespace that has only our user and group in it: there the kernel ignores the modes of files that belong
//! to them. The child does nothing else and has ended when this returns.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::process::message_socket_pair;
use crate::sys::{self, Fd, ForkSide};

/// Opens a path below a directory, as if file modes did not matter to the owner. Follows no symbolic link in parent directories. Fails on a
/// machine that allows no user namespaces.
///
/// ```
/// use std::io::Read as _;
/// use std::os::fd::AsFd as _;
/// use std::os::unix::fs::PermissionsExt as _;
/// let directory = tempfile::tempdir()?;
/// let file = directory.path().join("shut");
/// std::fs::write(&file, "inside")?;
/// std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0))?;
/// let directory = std::fs::File::open(directory.path())?;
/// // A machine that allows no user namespaces refuses it.
/// if let Ok(opened) = windlass_sandbox::open_as_owner(directory.as_fd(), "shut".as_ref(), 0) {
///     let mut text = String::new();
///     std::fs::File::from(opened).read_to_string(&mut text)?;
///     assert_eq!(text, "inside");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_as_owner(at: BorrowedFd<'_>, path: &Path, flags: u32) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: these only ask who we are.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let request = OpenRequest {
        at: at.as_raw_fd(),
        path,
        flags: flags.cast_signed() | libc::O_CLOEXEC,
        user_map: format!("0 {user} 1\n"),
        group_map: format!("0 {group} 1\n"),
    };
    let (ours, theirs) = message_socket_pair()?;
    match sys::fork(libc::CLONE_NEWUSER).map_err(io::Error::from_raw_os_error)? {
        ForkSide::Child => {
            let answered = request.open_and_send(theirs.as_raw_fd());
            sys::exit(i32::from(answered.is_err()))
        }
        ForkSide::Parent { pid, pidfd } => {
            drop(theirs);
            let answer = receive_opened(&ours);
            sys::close(pidfd);
            sys::wait_and_reap(pid);
            answer
        }
    }
}

/// All data that the child process needs, because it cannot allocate.
struct OpenRequest {
    at: Fd,
    path: CString,
    flags: i32,
    user_map: String,
    group_map: String,
}

impl OpenRequest {
    /// Opens the file in the child and sends the descriptor, or the error number, to the parent.
    fn open_and_send(&self, control: Fd) -> sys::Result {
        match self.open() {
            Ok(opened) => sys::send(control, &0_i32.to_ne_bytes(), Some(opened)),
            Err(errno) => sys::send(control, &errno.to_ne_bytes(), None),
        }
    }

    /// Makes this process root of its new user namespace and opens the file.
    fn open(&self) -> sys::Result<Fd> {
        // The files below belong to root while the process is hidden from others. This process is a copy, and hidden again at once.
        sys::prctl(libc::PR_SET_DUMPABLE, 1)?;
        match sys::write_file(c"/proc/self/setgroups", b"deny") {
            Ok(()) | Err(libc::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        sys::write_file(c"/proc/self/uid_map", self.user_map.as_bytes())?;
        sys::write_file(c"/proc/self/gid_map", self.group_map.as_bytes())?;
        sys::prctl(libc::PR_SET_DUMPABLE, 0)?;
        sys::open_beneath(self.at, &self.path, self.flags)
    }
}

/// Receives the child's answer: the descriptor, or the error number.
fn receive_opened(from: &OwnedFd) -> io::Result<OwnedFd> {
    let mut answer = [0; 4];
    match sys::receive(from.as_raw_fd(), &mut answer).map_err(io::Error::from_raw_os_error)? {
        // SAFETY: the kernel has just made it for us.
        (4, Some(opened)) => Ok(unsafe { OwnedFd::from_raw_fd(opened) }),
        (4, None) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(answer))),
        _ => Err(io::Error::other("the process that was to open a file ended before")),
    }
}
