//! Attempts at system calls that a command of a tool does not need.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;

use libc::{EACCES, EINVAL, ENODEV, ENOENT, ENOSYS, EPERM, EROFS};
use libc::{c_int, c_long};

use crate::attempt::{AttemptContext, Escape, check};
use crate::files::{c_path, errno_result};
use crate::support::TestSandbox;

const NOT_ALLOWED: &[i32] = &[EPERM];

pub(crate) const ESCAPES: &[Escape] = &[
    // Mounts and namespaces.
    Escape::new("mount", mount, NOT_ALLOWED).for_root(),
    Escape::new("mount the old way over a protected path", bind_over, NOT_ALLOWED).for_root(),
    Escape::new("make it writable again", remount, NOT_ALLOWED).only_inside(),
    Escape::new("unmount the workspace", |at| unmount(&at.workspace), NOT_ALLOWED).only_inside(),
    Escape::new(
        "unmount what protects",
        |at| unmount(&at.workspace.join(".git/hooks")),
        NOT_ALLOWED,
    )
    .only_inside(),
    Escape::new("unmount what hides", |at| unmount(&at.secrets), NOT_ALLOWED).only_inside(),
    Escape::new("open a file system", |_| open_file_system(), NOT_ALLOWED).for_root(),
    Escape::new("copy mounts", copy_mounts, NOT_ALLOWED).for_root(),
    Escape::new("change mounts", change_mounts, NOT_ALLOWED).only_inside(),
    Escape::new("pivot_root", pivot, NOT_ALLOWED).only_inside(),
    Escape::new(
        "chroot",
        |_| call(unsafe_call(libc::SYS_chroot, c"/".as_ptr() as c_long, 0, 0)),
        NOT_ALLOWED,
    )
    .for_root(),
    Escape::new("unshare users", |_| unshare(libc::CLONE_NEWUSER), NOT_ALLOWED),
    Escape::new("unshare mounts", |_| unshare(libc::CLONE_NEWNS), NOT_ALLOWED).for_root(),
    Escape::new("unshare processes", |_| unshare(libc::CLONE_NEWPID), NOT_ALLOWED).for_root(),
    Escape::new("unshare the network", |_| unshare(libc::CLONE_NEWNET), NOT_ALLOWED).for_root(),
    Escape::new("unshare the time", |_| unshare(0x80), NOT_ALLOWED).for_root(),
    Escape::new("unshare from a shell", unshare_from_shell, NOT_ALLOWED),
    Escape::new("clone into new users", |_| clone_users(), NOT_ALLOWED),
    Escape::new("clone into new users the new way", |_| clone3_users(), &[ENOSYS]),
    Escape::new("setns", |_| set_namespace(), NOT_ALLOWED).for_root(),
    // Devices.
    Escape::new(
        "mknod of a device of characters",
        |at| make_device(at, libc::S_IFCHR, 1, 5),
        &[EACCES, EPERM],
    )
    .for_root(),
    Escape::new(
        "mknod of a device of blocks",
        |at| make_device(at, libc::S_IFBLK, 7, 0),
        &[EACCES, EPERM],
    )
    .for_root(),
    Escape::new("read the kernel's messages", |_| open("/dev/kmsg"), &[ENOENT])
        .for_root()
        .needs_view(),
    Escape::new("open a disk", |_| open("/dev/loop0"), &[ENOENT, ENODEV]).for_root().needs_view(),
    Escape::new("type into a terminal", type_into_terminal, NOT_ALLOWED).for_root(),
    // More privileges.
    Escape::new("become another user", |_| become_another_user(), &[EPERM, EINVAL]).for_root(),
    Escape::new("raise a limit", |_| raise_limit(), NOT_ALLOWED).only_inside(),
    Escape::new("take capabilities back", |_| take_capabilities(), NOT_ALLOWED).for_root(),
    // Settings of the machine.
    Escape::new(
        "change how core dumps are made",
        |_| rewrite("/proc/sys/kernel/core_pattern"),
        &[EROFS, EACCES],
    )
    .for_root()
    .needs_view(),
    Escape::new(
        "change the most processes",
        |_| rewrite("/proc/sys/kernel/pid_max"),
        &[EROFS, EACCES],
    )
    .for_root()
    .needs_view(),
    Escape::new(
        "drop what is in memory",
        |_| open_for_writing("/proc/sys/vm/drop_caches"),
        &[EROFS, EACCES],
    )
    .for_root()
    .needs_view(),
    Escape::new(
        "change settings of memory",
        |_| open_for_writing("/sys/kernel/mm/transparent_hugepage/enabled"),
        &[EROFS, EACCES],
    )
    .for_root(),
    Escape::new("make a control group", |_| control_group(), &[EROFS, EACCES]).for_root(),
    // Ways around the filter, and into the kernel.
    #[cfg(target_arch = "x86_64")]
    Escape::new("call the 32-bit kernel", |_| in_child(call_32_bit), &[EPERM, ENOSYS])
        .if_there_is(ENOSYS),
    #[cfg(target_arch = "x86_64")]
    Escape::new("call the kernel as x32", |_| in_child(call_x32), &[ENOSYS]).if_there_is(ENOSYS),
    Escape::new("io_uring", |_| io_uring(), NOT_ALLOWED).if_there_is(ENOSYS),
    Escape::new("keyctl", |_| get_keyring(), NOT_ALLOWED).if_there_is(ENOSYS),
    Escape::new("add a key", |_| add_key(), NOT_ALLOWED).if_there_is(ENOSYS),
    Escape::new("bpf", |_| bpf(), NOT_ALLOWED).for_root(),
    Escape::new("perf_event_open", |_| open_perf_event(), NOT_ALLOWED).for_root(),
    Escape::new("userfaultfd", |_| open_userfaultfd(), NOT_ALLOWED).if_there_is(ENOSYS),
    Escape::new("fanotify", |_| open_fanotify(), NOT_ALLOWED).for_root(),
    Escape::new("name_to_handle_at", |at| file_handle(at).map(drop), NOT_ALLOWED),
    Escape::new("open_by_handle_at", open_by_handle, NOT_ALLOWED).for_root(),
    Escape::new(
        "read the kernel's log",
        |_| call(unsafe_call(libc::SYS_syslog, 10, 0, 0)),
        NOT_ALLOWED,
    )
    .for_root(),
    Escape::new("name the machine", |_| name_machine(), NOT_ALLOWED).for_root(),
    Escape::new("look at the clock's drift", |_| read_clock_drift(), NOT_ALLOWED),
];

#[test]
fn unneeded_system_calls_are_refused() {
    check(ESCAPES);
}

pub(crate) fn call(result: c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Performs a system call with three arguments.
pub(crate) fn unsafe_call(number: c_long, one: c_long, two: c_long, three: c_long) -> c_long {
    // SAFETY: a caller that passes a pointer passes one to something that lives long enough.
    unsafe { libc::syscall(number, one, two, three, 0, 0, 0) }
}

fn mount(at: &AttemptContext) -> io::Result<()> {
    let target = c_path(&at.outside.join("dir"));
    let kind = c"tmpfs";
    let none = std::ptr::null();
    // SAFETY: texts with an end.
    errno_result(unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, none) })?;
    // SAFETY: a text with an end.
    errno_result(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) })
}

fn bind_over(at: &AttemptContext) -> io::Result<()> {
    let target = c_path(&at.workspace.join(".git/hooks"));
    let from = c_path(&at.workspace);
    let none = std::ptr::null();
    // SAFETY: texts with an end.
    errno_result(unsafe {
        libc::mount(from.as_ptr(), target.as_ptr(), std::ptr::null(), libc::MS_BIND, none)
    })?;
    // SAFETY: a text with an end.
    errno_result(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) })
}

fn remount(_: &AttemptContext) -> io::Result<()> {
    let none = std::ptr::null();
    let flags = libc::MS_REMOUNT | libc::MS_BIND;
    // SAFETY: a text with an end, and nothing.
    errno_result(unsafe { libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) })
}

fn unmount(path: &std::path::Path) -> io::Result<()> {
    let path = c_path(path);
    // SAFETY: a text with an end.
    errno_result(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) })
}

fn open_file_system() -> io::Result<()> {
    call(unsafe_call(libc::SYS_fsopen, c"tmpfs".as_ptr() as c_long, 0, 0))
}

fn copy_mounts(_: &AttemptContext) -> io::Result<()> {
    const CLONE: c_long = 1;
    call(unsafe_call(libc::SYS_open_tree, libc::AT_FDCWD.into(), c"/".as_ptr() as c_long, CLONE))
}

/// Removes the read-only attribute of the root mount.
fn change_mounts(_: &AttemptContext) -> io::Result<()> {
    let attributes = [0u64, 1, 0, 0];
    let (path, pointer) = (c"/".as_ptr(), attributes.as_ptr());
    // SAFETY: a text with an end, and four numbers.
    call(unsafe { libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, path, 0, pointer, 32) })
}

fn pivot(at: &AttemptContext) -> io::Result<()> {
    let path = c_path(&at.workspace);
    let pointer = path.as_ptr() as c_long;
    call(unsafe_call(libc::SYS_pivot_root, pointer, pointer, 0))
}

/// Calls `unshare` in a child process, because a process with threads cannot enter some namespaces.
fn unshare(what: c_int) -> io::Result<()> {
    // SAFETY: the child calls nothing but the kernel.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: a number.
            let failed = unsafe { libc::unshare(what) } < 0;
            let code = if failed { io::Error::last_os_error().raw_os_error() } else { Some(0) };
            // SAFETY: ends the child.
            unsafe { libc::_exit(code.unwrap_or(255)) }
        }
        pid => wait_for_child(pid),
    }
}

fn wait_for_child(pid: i32) -> io::Result<()> {
    errno_result(pid)?;
    let mut status = 0;
    // SAFETY: room for the answer.
    errno_result(unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) })?;
    match libc::WEXITSTATUS(status) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Makes a call in a child process, which the filter or a missing 32-bit interface may kill.
#[cfg(target_arch = "x86_64")]
fn in_child(attempt: fn() -> c_long) -> io::Result<()> {
    // SAFETY: the child calls nothing but the kernel.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = i32::try_from(attempt().min(0)).unwrap_or(-255);
        // SAFETY: ends the child.
        unsafe { libc::_exit(-code) }
    }
    let mut status = 0;
    // SAFETY: room for the answer.
    errno_result(unsafe { libc::waitpid(pid, &raw mut status, 0) })?;
    let errno = match (libc::WIFSIGNALED(status), libc::WTERMSIG(status)) {
        (true, libc::SIGSYS) => EPERM,
        (true, libc::SIGSEGV) => ENOSYS,
        (true, signal) => panic!("signal {signal}"),
        (false, _) => libc::WEXITSTATUS(status),
    };
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

/// Calls `getpid` by the 32-bit interface, where its number is 20.
#[cfg(target_arch = "x86_64")]
fn call_32_bit() -> c_long {
    let result: i64;
    // SAFETY: asks who we are; the kernel may change the registers that are named.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20i64 => result, lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _);
    }
    result
}

/// Calls `getpid` with the bit of x32.
#[cfg(target_arch = "x86_64")]
fn call_x32() -> c_long {
    let result: i64;
    // SAFETY: asks who we are; the kernel may change the registers that are named.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") 0x4000_0000 | libc::SYS_getpid => result, lateout("rcx") _, lateout("r11") _);
    }
    result
}

fn unshare_from_shell(_: &AttemptContext) -> io::Result<()> {
    let output = Command::new("unshare").args(["-U", "true"]).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Operation not permitted"), "{said}");
    Err(io::Error::from_raw_os_error(EPERM))
}

fn clone_users() -> io::Result<()> {
    let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
    match unsafe_call(libc::SYS_clone, flags.into(), 0, 0) {
        // SAFETY: ends the child.
        0 => unsafe { libc::_exit(0) },
        pid => wait_for_child(i32::try_from(pid).unwrap()),
    }
}

fn clone3_users() -> io::Result<()> {
    let mut arguments = [0u64; 8];
    arguments[0] = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
    arguments[4] = u64::from(libc::SIGCHLD.cast_unsigned());
    match unsafe_call(libc::SYS_clone3, arguments.as_ptr() as c_long, 64, 0) {
        // SAFETY: ends the child.
        0 => unsafe { libc::_exit(0) },
        pid => wait_for_child(i32::try_from(pid).unwrap()),
    }
}

fn set_namespace() -> io::Result<()> {
    let namespace = File::open("/proc/self/ns/net")?;
    // SAFETY: a descriptor of ours.
    errno_result(unsafe { libc::setns(namespace.as_raw_fd(), 0) })
}

fn make_device(at: &AttemptContext, kind: u32, major: u32, minor: u32) -> io::Result<()> {
    let path = c_path(&at.workspace.join("node"));
    // SAFETY: a text with an end.
    errno_result(unsafe { libc::mknod(path.as_ptr(), kind | 0o600, libc::makedev(major, minor)) })?;
    open(at.workspace.join("node").to_str().unwrap())
}

fn open(path: &str) -> io::Result<()> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map(drop)
}

/// Puts input into a terminal of our own: a program that may do that could do it to any terminal.
fn type_into_terminal(_: &AttemptContext) -> io::Result<()> {
    // SAFETY: numbers.
    let ours = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) };
    errno_result(ours)?;
    // SAFETY: the kernel has just made it for us.
    let ours = unsafe { OwnedFd::from_raw_fd(ours) };
    // SAFETY: a descriptor of ours.
    errno_result(unsafe { libc::unlockpt(ours.as_raw_fd()) })?;
    let flags = libc::O_RDWR | libc::O_NOCTTY;
    // SAFETY: a descriptor of ours, and numbers.
    let theirs = unsafe { libc::ioctl(ours.as_raw_fd(), libc::TIOCGPTPEER, flags) };
    errno_result(theirs)?;
    // SAFETY: a descriptor of ours, and one letter.
    errno_result(unsafe { libc::ioctl(theirs, libc::TIOCSTI, c"x".as_ptr()) })
}

fn become_another_user() -> io::Result<()> {
    // SAFETY: numbers. By number, so that it is this thread alone.
    call(unsafe { libc::syscall(libc::SYS_setresuid, 1, 1, 1) })
}

fn raise_limit() -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: 100, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: two numbers.
    errno_result(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) })
}

fn take_capabilities() -> io::Result<()> {
    let header = [0x2008_0522u32, 0];
    let wanted = [1u32, 1, 0, 0, 0, 0];
    let (header, wanted) = (header.as_ptr() as c_long, wanted.as_ptr() as c_long);
    call(unsafe_call(libc::SYS_capset, header, wanted, 0))
}

/// Writes the present content of a file again, which is harmless if it works.
fn rewrite(path: &str) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// Opens a file for writing and writes nothing.
fn open_for_writing(path: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}

fn control_group() -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut groups = mounts.lines().filter(|line| line.contains(" cgroup2 "));
    let root = groups.next().and_then(|line| line.split(' ').nth(1)).expect("control groups");
    let group = format!("{root}/windlass-test-{}", std::process::id());
    fs::create_dir(&group)?;
    fs::remove_dir(&group)
}

fn io_uring() -> io::Result<()> {
    let mut parameters = [0u32; 30];
    call(unsafe_call(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr() as c_long, 0))
}

fn get_keyring() -> io::Result<()> {
    const GET_ID: c_long = 0;
    const OF_PROCESS: c_long = -2;
    call(unsafe_call(libc::SYS_keyctl, GET_ID, OF_PROCESS, 1))
}

fn add_key() -> io::Result<()> {
    let (kind, what) = (c"user".as_ptr(), c"windlass".as_ptr());
    // SAFETY: texts with an end, and one byte.
    call(unsafe { libc::syscall(libc::SYS_add_key, kind, what, what, 1, -2) })
}

/// Creates a BPF array of one number.
fn bpf() -> io::Result<()> {
    const MAP_CREATE: c_long = 0;
    let attributes = [2u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    call(unsafe_call(libc::SYS_bpf, MAP_CREATE, attributes.as_ptr() as c_long, 48))
}

/// Opens a performance event that never happens.
fn open_perf_event() -> io::Result<()> {
    let mut attributes = [0u32; 32];
    attributes[0] = 1;
    attributes[1] = 128;
    attributes[2] = 9;
    let pointer = attributes.as_ptr();
    // SAFETY: as many bytes as they say.
    call(unsafe { libc::syscall(libc::SYS_perf_event_open, pointer, 0, -1, -1, 0) })
}

fn open_userfaultfd() -> io::Result<()> {
    const USER_ONLY: c_long = 1;
    call(unsafe_call(libc::SYS_userfaultfd, USER_ONLY, 0, 0))
}

fn open_fanotify() -> io::Result<()> {
    call(unsafe_call(libc::SYS_fanotify_init, 0, 0, 0))
}

fn file_handle(at: &AttemptContext) -> io::Result<[u32; 34]> {
    let path = c_path(&at.outside.join("file"));
    let mut handle = [0u32; 34];
    handle[0] = 128;
    let mut mount: c_int = 0;
    let (here, pointer) = (libc::AT_FDCWD, handle.as_mut_ptr());
    // SAFETY: a text with an end, and room for as much as is said.
    call(unsafe {
        libc::syscall(libc::SYS_name_to_handle_at, here, path.as_ptr(), pointer, &raw mut mount, 0)
    })?;
    Ok(handle)
}

fn open_by_handle(at: &AttemptContext) -> io::Result<()> {
    let handle = match file_handle(at) {
        Ok(handle) => handle,
        // A program could guess the handle of a file without this call.
        Err(_) => [8, 1, 2, 0].into_iter().chain([0; 30]).collect::<Vec<_>>().try_into().unwrap(),
    };
    let mount = File::open(&at.outside)?;
    let pointer = handle.as_ptr() as c_long;
    let fd = unsafe_call(libc::SYS_open_by_handle_at, mount.as_raw_fd().into(), pointer, 0);
    call(fd)?;
    // SAFETY: the kernel has just made it for us.
    let mut file = unsafe { File::from_raw_fd(i32::try_from(fd).unwrap()) };
    file.read_to_string(&mut String::new()).map(drop)
}

fn name_machine() -> io::Result<()> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let name = name.trim_end();
    let length = c_long::try_from(name.len()).unwrap();
    call(unsafe_call(libc::SYS_sethostname, name.as_ptr() as c_long, length, 0))
}

fn read_clock_drift() -> io::Result<()> {
    let mut parameters = [0u64; 32];
    call(unsafe_call(libc::SYS_adjtimex, parameters.as_mut_ptr() as c_long, 0, 0))
}

/// In `/proc` and `/sys`, only files of processes may be writable.
#[test]
fn no_kernel_setting_is_writable() {
    let script = "find /proc/[a-z]* /sys -xdev \\( -path /proc/self -o -path /proc/thread-self \\
                  -o -path /proc/net -o -path /proc/mounts \\) -prune -o -type f -writable -print 2>/dev/null";
    let (_, printed) = TestSandbox::confined().run(script);
    assert_eq!(printed, "");
    if crate::support::is_root() {
        assert!(
            TestSandbox::unconfined().run(script).1.contains("/proc/sys/kernel/core_pattern\n")
        );
    }
}

#[test]
fn crash_leaves_no_core_dump() {
    let script = "ulimit -c; ulimit -Hc; bash -c 'kill -SEGV $$'; ls -A | grep core";
    for sandbox in [TestSandbox::unconfined(), TestSandbox::confined()] {
        let (_, printed) = sandbox.run(script);
        let printed: Vec<&str> =
            printed.lines().filter(|line| !line.contains("egmentation")).collect();
        assert_eq!(printed, ["0", "0"]);
    }
}
