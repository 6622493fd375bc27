//! Attempts on other processes, and the rights, descriptors and devices that a program has.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libc::{EACCES, ENOENT, EPERM, ESRCH};

use windlass_sandbox::{Ending, Launch, launch};

use crate::attempt::{AttemptContext, Escape, check};
use crate::files::errno_result;
use crate::support::{TestSandbox, existing_user_namespace, is_root};

/// Errors of access to a process of another user or with more rights.
const ACCESS_DENIED: &[i32] = &[EACCES, EPERM];

pub(crate) const ESCAPES: &[Escape] = &[
    Escape::new("read the first process's variables", |_| read("/proc/1/environ"), ACCESS_DENIED)
        .only_inside(),
    Escape::new("open the first process's memory", |_| open("/proc/1/mem"), ACCESS_DENIED)
        .only_inside(),
    Escape::new("follow the first process's files", |_| follow("/proc/1/fd"), ACCESS_DENIED)
        .only_inside(),
    Escape::new("go through the first process's root", |_| list("/proc/1/root/"), ACCESS_DENIED)
        .only_inside(),
    Escape::new("go to the first process's directory", |_| list("/proc/1/cwd/"), ACCESS_DENIED)
        .only_inside(),
    Escape::new("read the warden's variables", |_| read(&warden("environ")), ACCESS_DENIED)
        .for_root(),
    Escape::new("open the warden's memory", |_| open(&warden("mem")), ACCESS_DENIED).for_root(),
    Escape::new("follow the warden's files", |_| follow(&warden("fd")), ACCESS_DENIED).for_root(),
    Escape::new("read the tester's variables", |at| read(&tester(at, "environ")), &[ENOENT]),
    Escape::new("open the tester's memory", |at| open(&tester(at, "mem")), &[ENOENT]),
    Escape::new("find the tester", |at| fs::metadata(tester(at, "")).map(drop), &[ENOENT])
        .needs_view(),
    Escape::new("see processes", see_processes, &[ESRCH]).needs_view(),
    Escape::new("signal the tester", |at| send_signal_0(at.number("TESTER")), &[ESRCH])
        .needs_view_or_landlock(6),
    Escape::new("end the tester", |at| send_sigkill(at.number("TESTER")), &[ESRCH])
        .only_inside()
        .needs_view_or_landlock(6),
    Escape::new("end the warden", |_| end_warden(), &[EPERM])
        .only_inside()
        .needs_view_or_landlock(6),
    Escape::new("trace a process", trace, &[EPERM]),
    Escape::new("read a process's memory", read_memory, &[EPERM]),
    Escape::new("take a process's descriptor", take_descriptor, &[EPERM]),
    Escape::new("compare processes", compare, &[EPERM]),
];

#[test]
fn attempts_on_other_processes_are_refused() {
    check(ESCAPES);
}

fn read(path: &str) -> io::Result<()> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes).map(drop)
}

fn open(path: &str) -> io::Result<()> {
    File::open(path).map(drop)
}

fn list(path: &str) -> io::Result<()> {
    fs::read_dir(path).map(drop)
}

/// Reads the targets of all descriptors; their numbers alone tell nothing.
fn follow(path: &str) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        fs::read_link(entry?.path())?;
    }
    Ok(())
}

fn warden(file: &str) -> String {
    format!("/proc/{}/{file}", std::os::unix::process::parent_id())
}

fn tester(at: &AttemptContext, file: &str) -> String {
    format!("/proc/{}/{file}", at.text("TESTER"))
}

/// Succeeds if `/proc` shows more than the warden and this process.
fn see_processes(_: &AttemptContext) -> io::Result<()> {
    let names = fs::read_dir("/proc")?.map(|entry| entry.unwrap().file_name());
    let processes = names.filter(|name| name.to_str().unwrap().parse::<u32>().is_ok()).count();
    if processes > 2 { Ok(()) } else { Err(io::Error::from_raw_os_error(ESRCH)) }
}

fn send_signal_0(pid: i32) -> io::Result<()> {
    // SAFETY: numbers; the signal is none.
    errno_result(unsafe { libc::kill(pid, 0) })
}

fn send_sigkill(pid: i32) -> io::Result<()> {
    // SAFETY: numbers.
    errno_result(unsafe { libc::kill(pid, libc::SIGKILL) })
}

/// Sends SIGKILL to the warden. The kernel ignores it from inside the namespace, also if it reports no error.
fn end_warden() -> io::Result<()> {
    let warden = std::os::unix::process::parent_id();
    let ended = send_sigkill(warden.cast_signed());
    std::thread::sleep(Duration::from_millis(50));
    if std::os::unix::process::parent_id() == warden {
        ended?;
        return Err(io::Error::from_raw_os_error(EPERM));
    }
    Ok(())
}

/// A child process that runs until this is dropped.
struct ChildProcess(Child);

impl ChildProcess {
    fn start() -> Self {
        Self(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn trace(_: &AttemptContext) -> io::Result<()> {
    let child = ChildProcess::start();
    let none: *mut libc::c_void = std::ptr::null_mut();
    // SAFETY: numbers.
    let traced = unsafe { libc::ptrace(libc::PTRACE_SEIZE, child.pid(), none, none) };
    if traced < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn read_memory(_: &AttemptContext) -> io::Result<()> {
    let mut into = 0u64;
    let from = 7u64;
    let part = |base: *mut u64| libc::iovec { iov_base: base.cast(), iov_len: 8 };
    let local = part(&raw mut into);
    let remote = part((&raw const from).cast_mut());
    let own = std::process::id().cast_signed();
    // SAFETY: our own memory, for as long as it is there.
    let read = unsafe { libc::process_vm_readv(own, &raw const local, 1, &raw const remote, 1, 0) };
    if read < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn take_descriptor(_: &AttemptContext) -> io::Result<()> {
    let child = ChildProcess::start();
    // SAFETY: numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.pid(), 0) };
    errno_result(i32::try_from(fd).unwrap())?;
    // SAFETY: the kernel has just made it for us.
    let process = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) };
    // SAFETY: numbers.
    let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), 0, 0) };
    errno_result(i32::try_from(taken).unwrap())
}

fn compare(_: &AttemptContext) -> io::Result<()> {
    let own = std::process::id();
    // SAFETY: numbers.
    errno_result(
        i32::try_from(unsafe { libc::syscall(libc::SYS_kcmp, own, own, 1, 0, 0) }).unwrap(),
    )
}

/// Reads capabilities, new privileges, seccomp and signal masks from `/proc/self/status`.
#[test]
fn program_has_no_capabilities_and_gains_none() {
    let read_status =
        "grep -E '^(Cap|NoNewPrivs|Seccomp:|Sig(Blk|Ign))' /proc/self/status | tr -d '\\t'";
    let nothing = "0000000000000000";
    let sets = ["SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let mut wanted: String = sets.map(|set| format!("{set}:{nothing}\n")).concat();
    wanted += "NoNewPrivs:1\nSeccomp:2\n";
    for sandbox in [TestSandbox::confined(), TestSandbox::staged(), TestSandbox::read_only()] {
        assert_eq!(sandbox.run(read_status).1, wanted);
    }
    // Other users than root cannot reduce the bounding set, and need not.
    let fenced = TestSandbox::fenced().run(read_status).1;
    let without = |text: &str| -> Vec<String> {
        text.lines().filter(|line| is_root() || !line.contains("Bnd")).map(str::to_owned).collect()
    };
    assert_eq!(without(&fenced), without(&wanted));
    let open = TestSandbox::unconfined().run(read_status).1;
    assert!(open.contains("NoNewPrivs:0\nSeccomp:0\n"), "{open}");
    assert!(!is_root() || !open.contains(&format!("CapEff:{nothing}")), "{open}");
}

/// Descriptors without close-on-exec are not inherited either.
#[test]
fn program_has_three_descriptors() {
    let file = tempfile::tempfile().unwrap();
    // SAFETY: a descriptor of ours.
    errno_result(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) }).unwrap();
    let high = {
        // SAFETY: a descriptor of ours.
        let fd = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, 500) };
        errno_result(fd).unwrap();
        // SAFETY: the kernel has just made it for us.
        unsafe { OwnedFd::from_raw_fd(fd) }
    };
    let other = Command::new("sh")
        .args(["-c", &format!("test -e /proc/self/fd/{}", file.as_raw_fd())])
        .status()
        .unwrap();
    assert!(other.success(), "a program started without the sandbox inherits it");
    for sandbox in [TestSandbox::unconfined(), TestSandbox::confined(), TestSandbox::fenced()] {
        let (_, printed) = sandbox.run("ls /proc/$$/fd; true");
        assert_eq!(printed, "0\n1\n2\n");
    }
    drop(high);
}

#[test]
fn program_has_no_terminal_and_empty_input() {
    for sandbox in [TestSandbox::unconfined(), TestSandbox::confined()] {
        let script = "cat; (: < /dev/tty) 2>/dev/null || echo none; \
                      read -r _ _ _ _ _ session terminal _ < /proc/$$/stat; echo $((session == $$)) $terminal";
        assert_eq!(sandbox.run(script).1, "none\n1 0\n");
    }
}

/// A view has the usual harmless devices and none of the machine's others.
#[test]
fn view_has_only_the_usual_devices() {
    let (_, printed) = TestSandbox::confined().run(
        "ls /dev; cd /dev; for d in null zero full random urandom; do \
         test -c $d && head -c1 $d | od -An -tx1 > /dev/null || echo no $d; done; echo x > null; \
         echo y > /dev/shm/y && cat /dev/shm/y; echo z > /dev/stdout",
    );
    let wanted =
        "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\ny\nz\n";
    assert_eq!(printed, wanted);
}

#[test]
fn program_finds_its_terminal_by_name() {
    for (sandbox, wanted) in
        [(TestSandbox::unconfined(), "/dev/pts/"), (TestSandbox::confined(), "/dev/console")]
    {
        let (mut ours, theirs) = terminal();
        let program = launch(&Launch {
            program: "/usr/bin/tty".into(),
            arguments: vec!["tty".into()],
            environment: Vec::new(),
            directory: sandbox.workspace(),
            stdin: Some(theirs.as_fd()),
            output: theirs.as_fd(),
            errors: None,
            terminal: true,
            view: sandbox.view.clone(),
            users: existing_user_namespace(),
            session: None,
            fence: sandbox.fence.clone(),
            limits: sandbox.limits,
            group: None,
        });
        assert_eq!(program.unwrap().wait().unwrap(), Ending::Exited(0));
        let mut printed = [0; 64];
        let length = ours.read(&mut printed).unwrap();
        let printed = String::from_utf8_lossy(&printed[..length]);
        assert!(printed.starts_with(wanted), "{printed}");
    }
}

/// Opens a new terminal. Returns the controlling end and the program's end.
fn terminal() -> (File, OwnedFd) {
    // SAFETY: numbers.
    let ours = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) };
    assert!(ours >= 0);
    // SAFETY: the kernel has just made it for us.
    let ours = unsafe { File::from_raw_fd(ours) };
    // SAFETY: a descriptor of ours.
    assert_eq!(unsafe { libc::unlockpt(ours.as_raw_fd()) }, 0);
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: a descriptor of ours, and numbers.
    let theirs = unsafe { libc::ioctl(ours.as_raw_fd(), libc::TIOCGPTPEER, flags) };
    assert!(theirs >= 0);
    // SAFETY: the kernel has just made it for us.
    (ours, unsafe { OwnedFd::from_raw_fd(theirs) })
}
