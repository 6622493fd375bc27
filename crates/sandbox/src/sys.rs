//! Wrappers of system calls, for processes that cannot use the C library.
//!
//! Everything here may be called between `fork` and `exec`, in a process that was one of many threads: nothing allocates, locks or
//! panics.

use std::ffi::CStr;

use libc::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use crate::raw::{self, EntryPoint};
use crate::stack::Stack;

/// The error number of a system call, such as `ENOENT`.
pub(crate) type Errno = c_int;
pub(crate) type Result<T = ()> = std::result::Result<T, Errno>;

/// A file descriptor.
pub(crate) type Fd = c_int;

/// Performs a system call by its number, with up to six arguments. Gives the result or the error number.
macro_rules! syscall {
    ($number:expr $(, $argument:expr)* $(,)?) => {{
        let mut arguments = [0; 6];
        let values = [$($crate::raw::RegisterValue::to_register($argument)),*];
        for (argument, value) in arguments.iter_mut().zip::<&[usize]>(&values) {
            *argument = *value;
        }
        // SAFETY: the arguments are numbers, or pointers to memory that outlives the call and is of the size that it expects.
        $crate::sys::to_result(unsafe { $crate::raw::syscall($number, arguments) })
    }};
}

// Declared after the macro, which these modules use.
pub(crate) mod files;
pub(crate) mod landlock;
pub(crate) mod mount;
pub(crate) mod notify;
pub(crate) mod thread;

/// Converts the result of a system call: negative numbers are errors.
fn to_result(result: isize) -> Result<c_long> {
    match c_long::try_from(result).unwrap_or(c_long::MAX) {
        errno if errno < 0 => Err(to_int(-errno)),
        value => Ok(value),
    }
}

/// Narrows a result to a descriptor, a process id or an error number, which all fit.
#[expect(clippy::cast_possible_truncation, reason = "the kernel gives out ints")]
fn to_int(result: c_long) -> c_int {
    result as c_int
}

/// Converts a result to a number of bytes.
fn to_length(result: c_long) -> usize {
    usize::try_from(result).unwrap_or(0)
}

/// Returns the size of a type in bytes, with a short name.
const fn size<T>() -> usize {
    size_of::<T>()
}

/// The kernel's `clone_args`.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

impl CloneArguments {
    /// Arguments for a child that sends SIGCHLD when it ends and has no signal handlers.
    fn new(flags: c_int) -> Self {
        const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
        Self {
            flags: u64::from(flags.cast_unsigned()) | CLONE_CLEAR_SIGHAND,
            exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
            ..Self::default()
        }
    }

    /// Sets the stack of the child.
    fn on(self, stack: &Stack) -> Self {
        Self { stack: stack.base(), stack_size: Stack::BYTES as u64, ..self }
    }
}

/// The result of a fork in the parent or in the child.
pub(crate) enum ForkSide {
    Parent { pid: libc::pid_t, pidfd: Fd },
    Child,
}

/// Forks this process, into new namespaces if flags for them are given. The child has no signal handlers.
///
/// The child has only this thread, and must not touch what another thread may have held.
pub(crate) fn fork(namespaces: c_int) -> Result<ForkSide> {
    let mut pidfd: c_int = -1;
    let mut arguments = CloneArguments::new(namespaces | libc::CLONE_PIDFD);
    arguments.pidfd = std::ptr::from_mut(&mut pidfd) as u64;
    match clone3(&mut arguments)? {
        0 => Ok(ForkSide::Child),
        pid => Ok(ForkSide::Parent { pid, pidfd }),
    }
}

/// Opens a process descriptor of a child that was not reaped yet.
pub(crate) fn open_pidfd(pid: libc::pid_t) -> Result<Fd> {
    syscall!(libc::SYS_pidfd_open, pid, 0).map(to_int)
}

/// Enters existing namespaces and forks there; the copy is a child of our parent. Returns its process id, or 0 in the copy.
pub(crate) fn fork_into_namespaces(
    users: Fd,
    network: Option<Fd>,
    namespaces: c_int,
) -> Result<libc::pid_t> {
    syscall!(libc::SYS_setns, users, libc::CLONE_NEWUSER)?;
    if let Some(network) = network {
        syscall!(libc::SYS_setns, network, libc::CLONE_NEWNET)?;
    }
    let mut arguments = CloneArguments::new(namespaces | libc::CLONE_PARENT);
    // The kernel signals its end as it would signal ours.
    arguments.exit_signal = 0;
    clone3(&mut arguments)
}

/// Forks by `clone3`. Returns the child's process id, or 0 in the child.
fn clone3(arguments: &mut CloneArguments) -> Result<libc::pid_t> {
    let pointer = std::ptr::from_mut(arguments);
    syscall!(libc::SYS_clone3, pointer, size::<CloneArguments>()).map(to_int)
}

/// Waits until a child has ended, and reaps it.
pub(crate) fn wait_and_reap(pid: libc::pid_t) {
    let none: *mut c_void = std::ptr::null_mut();
    let wait = || syscall!(libc::SYS_waitid, libc::P_PID, pid, none, libc::WEXITED, none);
    while wait() == Err(libc::EINTR) {}
}

/// Starts a process that shares the memory of this one and runs `entry(data)`. Returns its process id and its descriptor.
///
/// # Safety
/// The child must do only what is sound in memory that others use at the same time; the stack, and the data that `data` points to, must
/// be valid for as long as it is in that memory.
pub(crate) unsafe fn spawn_shared(
    stack: &Stack,
    entry: EntryPoint,
    data: *const c_void,
) -> Result<(libc::pid_t, Fd)> {
    let mut pidfd: c_int = -1;
    let mut arguments = CloneArguments::new(libc::CLONE_VM | libc::CLONE_PIDFD).on(stack);
    arguments.pidfd = std::ptr::from_mut(&mut pidfd) as u64;
    // SAFETY: as above.
    let pid = unsafe { clone(&mut arguments, entry, data) }?;
    Ok((pid, pidfd))
}

/// Starts such a process and waits until it has executed another program or has ended. Returns its process id.
///
/// # Safety
/// The child must change no memory in a way that is unsound for this process when it goes on.
pub(crate) unsafe fn spawn_and_wait(
    stack: &Stack,
    entry: EntryPoint,
    data: *const c_void,
) -> Result<libc::pid_t> {
    let mut arguments = CloneArguments::new(libc::CLONE_VM | libc::CLONE_VFORK).on(stack);
    // SAFETY: as above.
    unsafe { clone(&mut arguments, entry, data) }
}

/// Calls `clone3` for a child that runs `entry(data)` on the stack in the arguments.
///
/// # Safety
/// As for the calling function.
unsafe fn clone(
    arguments: &mut CloneArguments,
    entry: EntryPoint,
    data: *const c_void,
) -> Result<libc::pid_t> {
    let pointer = std::ptr::from_mut(arguments).cast();
    // SAFETY: the arguments are of that size, and name a stack of the child's own.
    let pid = unsafe { raw::clone(pointer, size::<CloneArguments>(), entry, data) };
    to_result(pid).map(to_int)
}

/// Closes a descriptor; errors are ignored.
pub(crate) fn close(fd: Fd) {
    // An error does no harm: this process is single-threaded or owns the descriptor.
    let _ = syscall!(libc::SYS_close, fd);
}

/// Closes all descriptors from one number to another, both included.
pub(crate) fn close_range(from: Fd, to: Fd) {
    if from <= to {
        let _ = syscall!(libc::SYS_close_range, from.cast_unsigned(), to.cast_unsigned(), 0);
    }
}

/// Opens a path, close-on-exec. A relative path begins at the working directory.
pub(crate) fn open(path: &CStr, flags: c_int) -> Result<Fd> {
    open_at(libc::AT_FDCWD, path, flags, 0)
}

/// Opens a path relative to a directory, close-on-exec.
pub(crate) fn open_at(at: Fd, path: &CStr, flags: c_int, mode: c_uint) -> Result<Fd> {
    syscall!(libc::SYS_openat, at, path.as_ptr(), flags | libc::O_CLOEXEC, mode).map(to_int)
}

/// The kernel's `open_how`.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// Refuses magic links, such as those in `/proc/self/fd`.
const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
/// Refuses symbolic links in any component.
const RESOLVE_NO_SYMLINKS: u64 = 0x04;
/// Refuses paths that lead out of the directory.
const RESOLVE_BENEATH: u64 = 0x08;

/// Opens an `O_PATH` handle on a path below a directory. Fails if the path has a symbolic link in it or leads out of the directory.
pub(crate) fn open_handle_beneath(at: Fd, path: &CStr) -> Result<Fd> {
    open_handle_with(at, path, 0, RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH)
}

/// Opens a path below a directory with these flags. Fails if the path has a symbolic link in it; with `O_NOFOLLOW` the last component may
/// be one.
pub(crate) fn open_beneath(at: Fd, path: &CStr, flags: c_int) -> Result<Fd> {
    let resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    let how = OpenHow { flags: u64::from(flags.cast_unsigned()), mode: 0, resolve };
    let pointer = std::ptr::from_ref(&how);
    syscall!(libc::SYS_openat2, at, path.as_ptr(), pointer, size::<OpenHow>()).map(to_int)
}

/// Opens an `O_PATH` handle on a path below a directory. If the last component is a symbolic link, the handle is on the link itself; a link
/// before it is an error.
pub(crate) fn open_link_handle_beneath(at: Fd, path: &CStr) -> Result<Fd> {
    let resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    open_handle_with(at, path, libc::O_NOFOLLOW, resolve)
}

/// Opens an `O_PATH` handle on an absolute path. Fails if the path has a symbolic link in it.
pub(crate) fn open_handle(path: &CStr) -> Result<Fd> {
    open_handle_with(libc::AT_FDCWD, path, 0, RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS)
}

/// Opens an `O_PATH` handle by `openat2`.
fn open_handle_with(at: Fd, path: &CStr, flags: c_int, resolve: u64) -> Result<Fd> {
    let flags = u64::from((flags | libc::O_PATH | libc::O_CLOEXEC).cast_unsigned());
    let how = OpenHow { flags, mode: 0, resolve };
    let pointer = std::ptr::from_ref(&how);
    syscall!(libc::SYS_openat2, at, path.as_ptr(), pointer, size::<OpenHow>()).map(to_int)
}

/// Returns the device and the inode number of an open file.
pub(crate) fn identity(handle: Fd) -> Result<(u64, u64)> {
    let facts = stat(handle)?;
    Ok((facts.st_dev, facts.st_ino))
}

pub(crate) fn is_directory(handle: Fd) -> Result<bool> {
    Ok(stat(handle)?.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

fn stat(handle: Fd) -> Result<libc::stat> {
    // SAFETY: all zero is a valid place for the answer.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    let pointer = std::ptr::from_mut(&mut facts);
    syscall!(libc::SYS_newfstatat, handle, c"".as_ptr(), pointer, libc::AT_EMPTY_PATH)?;
    Ok(facts)
}

/// Makes a directory the root and the working directory. If it cannot replace the old root (as on an initial ram disk), the old one stays
/// mounted below it, where only a process with the right to change the root can reach it.
pub(crate) fn change_root(directory: Fd) -> Result {
    syscall!(libc::SYS_fchdir, directory)?;
    match syscall!(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) {
        Ok(_) => syscall!(libc::SYS_umount2, c".".as_ptr(), libc::MNT_DETACH).map(drop)?,
        Err(libc::EINVAL) => syscall!(libc::SYS_chroot, c".".as_ptr()).map(drop)?,
        Err(errno) => return Err(errno),
    }
    chdir(c"/")
}

/// Reads bytes once. Returns their number; 0 at the end.
pub(crate) fn read(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    syscall!(libc::SYS_read, fd, buffer.as_mut_ptr(), buffer.len()).map(to_length)
}

/// Reads the next entries of a directory in the kernel's binary format. Returns the number of bytes; 0 at the end.
pub(crate) fn read_entries(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    syscall!(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len()).map(to_length)
}

/// Writes bytes once; a short write is not continued.
pub(crate) fn write(fd: Fd, bytes: &[u8]) -> Result {
    syscall!(libc::SYS_write, fd, bytes.as_ptr(), bytes.len()).map(drop)
}

/// Writes bytes to an existing file at a path, such as a setting in `/proc`.
pub(crate) fn write_file(path: &CStr, bytes: &[u8]) -> Result {
    let fd = open(path, libc::O_WRONLY)?;
    let written = write(fd, bytes);
    close(fd);
    written
}

/// Duplicates a descriptor to the lowest free number that is at least `least`, close-on-exec.
pub(crate) fn dup_at_least(fd: Fd, least: Fd) -> Result<Fd> {
    syscall!(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, least).map(to_int)
}

/// Duplicates a descriptor to a given number that stays open over `exec`.
pub(crate) fn dup_to(fd: Fd, to: Fd) -> Result {
    if fd == to {
        return syscall!(libc::SYS_fcntl, fd, libc::F_SETFD, 0).map(drop);
    }
    syscall!(libc::SYS_dup3, fd, to, 0).map(drop)
}

pub(crate) fn mkdir_at(at: Fd, path: &CStr, mode: c_uint) -> Result {
    syscall!(libc::SYS_mkdirat, at, path.as_ptr(), mode).map(drop)
}

pub(crate) fn symlink_at(target: &CStr, at: Fd, path: &CStr) -> Result {
    syscall!(libc::SYS_symlinkat, target.as_ptr(), at, path.as_ptr()).map(drop)
}

pub(crate) fn chdir(path: &CStr) -> Result {
    syscall!(libc::SYS_chdir, path.as_ptr()).map(drop)
}

/// Sets the umask and returns the old one.
pub(crate) fn umask(mask: c_uint) -> c_uint {
    syscall!(libc::SYS_umask, mask).map_or(0o022, |old| to_int(old).cast_unsigned())
}

/// Starts a new session (`setsid`).
pub(crate) fn set_session() -> Result {
    syscall!(libc::SYS_setsid).map(drop)
}

pub(crate) fn prctl(option: c_int, argument: c_ulong) -> Result {
    syscall!(libc::SYS_prctl, option, argument, 0, 0, 0).map(drop)
}

/// Returns whether this process is hidden from other processes of the same user (not dumpable).
pub(crate) fn is_memory_hidden() -> bool {
    syscall!(libc::SYS_prctl, libc::PR_GET_DUMPABLE).is_ok_and(|dumpable| dumpable != 1)
}

/// Sets the soft and the hard limit of a resource.
pub(crate) fn set_limit(resource: c_uint, soft: u64, hard: u64) -> Result {
    let limit = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
    let none: *const c_void = std::ptr::null();
    syscall!(libc::SYS_prlimit64, 0, resource, std::ptr::from_ref(&limit), none).map(drop)
}

/// Returns the hard limit of a resource.
pub(crate) fn hard_limit(resource: c_uint) -> Result<u64> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let none: *const c_void = std::ptr::null();
    syscall!(libc::SYS_prlimit64, 0, resource, none, std::ptr::from_mut(&mut limit))?;
    Ok(limit.rlim_max)
}

pub(crate) fn kill(pid: libc::pid_t, signal: c_int) -> Result {
    syscall!(libc::SYS_kill, pid, signal).map(drop)
}

/// Sends a signal to the process of a descriptor.
pub(crate) fn signal_pidfd(pidfd: Fd, signal: c_int) -> Result {
    syscall!(libc::SYS_pidfd_send_signal, pidfd, signal, std::ptr::null::<c_void>(), 0).map(drop)
}

/// Reaps any child that has ended. Returns its process id and wait status; `None` if all children still run. Fails with `ECHILD` if there
/// are none.
pub(crate) fn reap(block: bool) -> Result<Option<(libc::pid_t, c_int)>> {
    let mut status: c_int = 0;
    let flags = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    let none: *const c_void = std::ptr::null();
    match syscall!(libc::SYS_wait4, -1, std::ptr::from_mut(&mut status), flags, none)? {
        0 => Ok(None),
        pid => Ok(Some((to_int(pid), status))),
    }
}

/// Exits this process at once, without destructors.
pub(crate) fn exit(code: c_int) -> ! {
    // SAFETY: ends this process and nothing else; no destructor runs.
    unsafe { libc::_exit(code) }
}

/// Blocks all signals, or none.
pub(crate) fn block_signals(all: bool) -> Result {
    let mask: u64 = if all { !0 } else { 0 };
    let none: *const c_void = std::ptr::null();
    let pointer = std::ptr::from_ref(&mask);
    syscall!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, pointer, none, size::<u64>()).map(drop)
}

/// Returns the bytes of memory that the files of a `tmpfs` use, each with a KiB for its inode.
pub(crate) fn tmpfs_bytes(path: &CStr) -> Result<u64> {
    // SAFETY: all zero is a valid place for the answer.
    let mut facts: libc::statfs64 = unsafe { std::mem::zeroed() };
    syscall!(libc::SYS_statfs, path.as_ptr(), std::ptr::from_mut(&mut facts))?;
    let size = u64::try_from(facts.f_bsize).unwrap_or(0);
    let content = facts.f_blocks.saturating_sub(facts.f_bfree).saturating_mul(size);
    let inodes = facts.f_files.saturating_sub(facts.f_ffree).saturating_mul(1024);
    Ok(content.saturating_add(inodes))
}

/// Resets every signal to its default action, also those that we or our parent ignore.
pub(crate) fn default_signals() {
    /// The kernel's `sigaction`; all zero is the default action.
    const DEFAULT_ACTION: [u64; 4] = [0; 4];
    const MAX_SIGNAL: c_int = 64;
    let none: *const c_void = std::ptr::null();
    for signal in 1..=MAX_SIGNAL {
        // Fails for SIGKILL and SIGSTOP, which always have it.
        let _ =
            syscall!(libc::SYS_rt_sigaction, signal, DEFAULT_ACTION.as_ptr(), none, size::<u64>());
    }
}

/// Returns the monotonic clock in milliseconds.
pub(crate) fn now_ms() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.wrapping_mul(1_000).wrapping_add(now.tv_nsec / 1_000_000)
}

/// Opens a descriptor that is readable when SIGCHLD, SIGTERM or SIGINT is pending.
pub(crate) fn signal_fd() -> Result<Fd> {
    let bit = |signal: c_int| 1u64 << (signal - 1);
    let mask = bit(libc::SIGCHLD) | bit(libc::SIGTERM) | bit(libc::SIGINT);
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    syscall!(libc::SYS_signalfd4, -1, std::ptr::from_ref(&mask), size::<u64>(), flags).map(to_int)
}

/// Creates a pair of connected sockets that keep message boundaries.
pub(crate) fn socket_pair() -> Result<[Fd; 2]> {
    let mut both: [c_int; 2] = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    syscall!(libc::SYS_socketpair, libc::AF_UNIX, kind, 0, both.as_mut_ptr())?;
    Ok(both)
}

/// Waits until a descriptor is readable or the time is over. Returns the events of each descriptor. Negative descriptors are ignored; a
/// negative time means no limit.
pub(crate) fn poll<const N: usize>(fds: [Fd; N], milliseconds: c_int) -> Result<[ReadyEvents; N]> {
    let one = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut polled = fds.map(one);
    let seconds = i64::from(milliseconds / 1_000);
    let timeout =
        libc::timespec { tv_sec: seconds, tv_nsec: i64::from(milliseconds % 1_000) * 1_000_000 };
    let timeout: *const libc::timespec =
        if milliseconds < 0 { std::ptr::null() } else { std::ptr::from_ref(&timeout) };
    let none: *const c_void = std::ptr::null();
    match syscall!(libc::SYS_ppoll, polled.as_mut_ptr(), N, timeout, none, 0) {
        Ok(_) | Err(libc::EINTR) => Ok(polled.map(|one| ReadyEvents(one.revents))),
        Err(errno) => Err(errno),
    }
}

/// The events of a descriptor that was polled.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReadyEvents(libc::c_short);

impl ReadyEvents {
    pub(crate) const READABLE: Self = Self(libc::POLLIN);

    /// Returns whether there is any event, also an error or the end.
    pub(crate) fn is_any(self) -> bool {
        self.0 != 0
    }

    pub(crate) fn is_readable(self) -> bool {
        self.0 & libc::POLLIN != 0
    }
}

/// Executes a program in this process. Returns only on failure, with the error number.
pub(crate) fn execute(
    program: &CStr,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> Errno {
    match syscall!(libc::SYS_execve, program.as_ptr(), arguments, environment) {
        Ok(_) => 0,
        Err(errno) => errno,
    }
}

pub(crate) fn ioctl(fd: Fd, request: c_ulong, argument: *mut c_void) -> Result {
    syscall!(libc::SYS_ioctl, fd, request, argument).map(drop)
}

pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<Fd> {
    syscall!(libc::SYS_socket, domain, kind | libc::SOCK_CLOEXEC, protocol).map(to_int)
}

/// Opens a socket that listens on a port of 127.0.0.1.
pub(crate) fn listen_on_loopback(port: u16) -> Result<Fd> {
    let fd = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
    let address = libc::sockaddr_in {
        sin_family: 2,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    let pointer = std::ptr::from_ref(&address);
    syscall!(libc::SYS_bind, fd, pointer, size::<libc::sockaddr_in>())?;
    syscall!(libc::SYS_listen, fd, 128)?;
    Ok(fd)
}

/// Sends bytes over a socket, with a descriptor if one is given.
pub(crate) fn send(fd: Fd, bytes: &[u8], passed: Option<Fd>) -> Result {
    /// Control data with one descriptor: a header of 16 bytes, and 4 bytes rounded up to 8.
    #[repr(C, align(8))]
    struct Control {
        header: libc::cmsghdr,
        passed: [c_int; 2],
    }
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all zero is a valid header without a length.
    let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
    header.cmsg_len = (size::<libc::cmsghdr>() + size::<c_int>()) as _;
    header.cmsg_level = libc::SOL_SOCKET;
    header.cmsg_type = libc::SCM_RIGHTS;
    let mut control = Control { header, passed: [passed.unwrap_or(-1), 0] };
    // SAFETY: all zero is a valid message without parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = std::ptr::from_mut(&mut part);
    message.msg_iovlen = 1;
    if passed.is_some() {
        message.msg_control = std::ptr::from_mut(&mut control).cast();
        message.msg_controllen = size::<Control>() as _;
    }
    let pointer = std::ptr::from_mut(&mut message);
    syscall!(libc::SYS_sendmsg, fd, pointer, libc::MSG_NOSIGNAL).map(drop)
}

/// Receives one message, and the descriptor that came with it. Returns 0 bytes if the other side is closed.
pub(crate) fn receive(fd: Fd, bytes: &mut [u8]) -> Result<(usize, Option<Fd>)> {
    let mut control = [0u64; 4];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all zero is a valid message without parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = std::ptr::from_mut(&mut part);
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let pointer = std::ptr::from_mut(&mut message);
    let read = loop {
        match syscall!(libc::SYS_recvmsg, fd, pointer, libc::MSG_CMSG_CLOEXEC) {
            Err(libc::EINTR) => {}
            other => break other?,
        }
    };
    // SAFETY: the header lies in `control`, which the kernel filled; the macro looks at its length first.
    let first = unsafe { libc::CMSG_FIRSTHDR(pointer) };
    let passed = (!first.is_null()).then(|| {
        // SAFETY: we are sent nothing but one descriptor.
        unsafe { libc::CMSG_DATA(first).cast::<c_int>().read_unaligned() }
    });
    Ok((usize::try_from(read).unwrap_or(0), passed))
}

/// Installs a seccomp filter on this thread.
pub(crate) fn install_filter(program: &[libc::sock_filter]) -> Result {
    const SET_MODE_FILTER: c_int = 1;
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| libc::EINVAL)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let pointer = std::ptr::from_ref(&filter);
    syscall!(libc::SYS_seccomp, SET_MODE_FILTER, 0, pointer).map(drop)
}

/// Gives up every capability, for good.
pub(crate) fn drop_capabilities() -> Result {
    /// Secure bits: no special rights for root, each locked.
    const NO_ROOT_AND_LOCKED: c_ulong = 0b1010_1111;
    for capability in 0..64 {
        match prctl(libc::PR_CAPBSET_DROP, capability) {
            Ok(()) => {}
            // The kernel has no capability with this number or a higher one.
            Err(libc::EINVAL) => break,
            // Without the right to change the bounding set there is nothing to gain from it either: new privileges are forbidden.
            Err(libc::EPERM) => return clear_capabilities(),
            Err(errno) => return Err(errno),
        }
    }
    prctl(libc::PR_SET_SECUREBITS, NO_ROOT_AND_LOCKED)?;
    clear_capabilities()
}

/// Empties the capability sets of this thread.
fn clear_capabilities() -> Result {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let none = [0u32; 6];
    syscall!(libc::SYS_capset, std::ptr::from_ref(&header), none.as_ptr()).map(drop)
}
