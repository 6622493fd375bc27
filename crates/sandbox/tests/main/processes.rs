//! Seeing other processes, looking into them, and what a program itself is left with.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libc::{EACCES, ENOENT, EPERM, ESRCH};

use windlass_sandbox::{Ending, Launch, launch};

use crate::attempt::{Escape, Scene, check};
use crate::files::answer;
use crate::support::{Place, given_users, is_root};

/// What is not there for us, or not for us.
const NOT_FOR_US: &[i32] = &[EACCES, EPERM];

pub(crate) const ESCAPES: &[Escape] = &[
    Escape::new("read the first process's variables", |_| read("/proc/1/environ"), NOT_FOR_US)
        .only_inside(),
    Escape::new("open the first process's memory", |_| open("/proc/1/mem"), NOT_FOR_US)
        .only_inside(),
    Escape::new("follow the first process's files", |_| follow("/proc/1/fd"), NOT_FOR_US)
        .only_inside(),
    Escape::new("go through the first process's root", |_| list("/proc/1/root/"), NOT_FOR_US)
        .only_inside(),
    Escape::new("go to the first process's directory", |_| list("/proc/1/cwd/"), NOT_FOR_US)
        .only_inside(),
    Escape::new("read the warden's variables", |_| read(&warden("environ")), NOT_FOR_US).for_root(),
    Escape::new("open the warden's memory", |_| open(&warden("mem")), NOT_FOR_US).for_root(),
    Escape::new("follow the warden's files", |_| follow(&warden("fd")), NOT_FOR_US).for_root(),
    Escape::new("read the tester's variables", |at| read(&tester(at, "environ")), &[ENOENT]),
    Escape::new("open the tester's memory", |at| open(&tester(at, "mem")), &[ENOENT]),
    Escape::new("find the tester", |at| fs::metadata(tester(at, "")).map(drop), &[ENOENT])
        .needs_view(),
    Escape::new("see processes", see_processes, &[ESRCH]).needs_view(),
    Escape::new("signal the tester", |at| signal(at.number("TESTER")), &[ESRCH])
        .needs_view_or_landlock(6),
    Escape::new("end the tester", |at| end(at.number("TESTER")), &[ESRCH])
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
fn no_other_process_is_seen_or_touched() {
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

/// Where descriptors lead to. Their numbers alone say nothing.
fn follow(path: &str) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        fs::read_link(entry?.path())?;
    }
    Ok(())
}

fn warden(file: &str) -> String {
    format!("/proc/{}/{file}", std::os::unix::process::parent_id())
}

fn tester(at: &Scene, file: &str) -> String {
    format!("/proc/{}/{file}", at.text("TESTER"))
}

/// Others than the warden and ourselves.
fn see_processes(_: &Scene) -> io::Result<()> {
    let names = fs::read_dir("/proc")?.map(|entry| entry.unwrap().file_name());
    let processes = names.filter(|name| name.to_str().unwrap().parse::<u32>().is_ok()).count();
    if processes > 2 { Ok(()) } else { Err(io::Error::from_raw_os_error(ESRCH)) }
}

fn signal(pid: i32) -> io::Result<()> {
    // SAFETY: numbers; the signal is none.
    answer(unsafe { libc::kill(pid, 0) })
}

fn end(pid: i32) -> io::Result<()> {
    // SAFETY: numbers.
    answer(unsafe { libc::kill(pid, libc::SIGKILL) })
}

/// What a namespace's first process is told from inside does nothing to it, even where that is no error.
fn end_warden() -> io::Result<()> {
    let warden = std::os::unix::process::parent_id();
    let ended = end(warden.cast_signed());
    std::thread::sleep(Duration::from_millis(50));
    if std::os::unix::process::parent_id() == warden {
        ended?;
        return Err(io::Error::from_raw_os_error(EPERM));
    }
    Ok(())
}

/// A process of our own, of which we know that it goes on.
struct Victim(Child);

impl Victim {
    fn start() -> Self {
        Self(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn trace(_: &Scene) -> io::Result<()> {
    let victim = Victim::start();
    let none: *mut libc::c_void = std::ptr::null_mut();
    // SAFETY: numbers.
    let traced = unsafe { libc::ptrace(libc::PTRACE_SEIZE, victim.pid(), none, none) };
    if traced < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn read_memory(_: &Scene) -> io::Result<()> {
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

fn take_descriptor(_: &Scene) -> io::Result<()> {
    let victim = Victim::start();
    // SAFETY: numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, victim.pid(), 0) };
    answer(i32::try_from(fd).unwrap())?;
    // SAFETY: the kernel has just made it for us.
    let process = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) };
    // SAFETY: numbers.
    let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), 0, 0) };
    answer(i32::try_from(taken).unwrap())
}

fn compare(_: &Scene) -> io::Result<()> {
    let own = std::process::id();
    // SAFETY: numbers.
    answer(i32::try_from(unsafe { libc::syscall(libc::SYS_kcmp, own, own, 1, 0, 0) }).unwrap())
}

/// Of what a process is allowed, in the words of the kernel.
#[test]
fn a_program_is_left_with_no_rights_at_all() {
    let ask = "grep -E '^(Cap|NoNewPrivs|Seccomp:|Sig(Blk|Ign))' /proc/self/status | tr -d '\\t'";
    let nothing = "0000000000000000";
    let sets = ["SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let mut wanted: String = sets.map(|set| format!("{set}:{nothing}\n")).concat();
    wanted += "NoNewPrivs:1\nSeccomp:2\n";
    for place in [Place::confined(), Place::staged(), Place::read_only()] {
        assert_eq!(place.run(ask).1, wanted);
    }
    // Others than root have no right to make less of what they could be given, nor need they.
    let fenced = Place::fenced().run(ask).1;
    let without = |text: &str| -> Vec<String> {
        text.lines().filter(|line| is_root() || !line.contains("Bnd")).map(str::to_owned).collect()
    };
    assert_eq!(without(&fenced), without(&wanted));
    let open = Place::open().run(ask).1;
    assert!(open.contains("NoNewPrivs:0\nSeccomp:0\n"), "{open}");
    assert!(!is_root() || !open.contains(&format!("CapEff:{nothing}")), "{open}");
}

/// What we have open is ours, even where somebody forgot to say so.
#[test]
fn a_program_has_three_descriptors() {
    let file = tempfile::tempfile().unwrap();
    // SAFETY: a descriptor of ours.
    answer(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) }).unwrap();
    let high = {
        // SAFETY: a descriptor of ours.
        let fd = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, 500) };
        answer(fd).unwrap();
        // SAFETY: the kernel has just made it for us.
        unsafe { OwnedFd::from_raw_fd(fd) }
    };
    let other = Command::new("sh")
        .args(["-c", &format!("test -e /proc/self/fd/{}", file.as_raw_fd())])
        .status()
        .unwrap();
    assert!(other.success(), "a program that is not ours has it");
    for place in [Place::open(), Place::confined(), Place::fenced()] {
        let (_, printed) = place.run("ls /proc/$$/fd; true");
        assert_eq!(printed, "0\n1\n2\n");
    }
    drop(high);
}

#[test]
fn a_program_has_no_terminal_and_nothing_to_read() {
    for place in [Place::open(), Place::confined()] {
        let script = "cat; (: < /dev/tty) 2>/dev/null || echo none; \
                      read -r _ _ _ _ _ session terminal _ < /proc/$$/stat; echo $((session == $$)) $terminal";
        assert_eq!(place.run(script).1, "none\n1 0\n");
    }
}

/// The machine's devices are not there, and what is there is what programs expect.
#[test]
fn devices_are_few() {
    let (_, printed) = Place::confined().run(
        "ls /dev; cd /dev; for d in null zero full random urandom; do \
         test -c $d && head -c1 $d | od -An -tx1 > /dev/null || echo no $d; done; echo x > null; \
         echo y > /dev/shm/y && cat /dev/shm/y; echo z > /dev/stdout",
    );
    let wanted =
        "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\ny\nz\n";
    assert_eq!(printed, wanted);
}

#[test]
fn a_program_finds_its_terminal_by_name() {
    for (place, wanted) in [(Place::open(), "/dev/pts/"), (Place::confined(), "/dev/console")] {
        let (mut ours, theirs) = terminal();
        let program = launch(&Launch {
            program: "/usr/bin/tty".into(),
            arguments: vec!["tty".into()],
            environment: Vec::new(),
            directory: place.workspace(),
            stdin: Some(theirs.as_fd()),
            output: theirs.as_fd(),
            errors: None,
            terminal: true,
            view: place.view.clone(),
            users: given_users(),
            session: None,
            fence: place.fence.clone(),
            limits: place.limits,
            group: None,
        });
        assert_eq!(program.unwrap().wait().unwrap(), Ending::Exited(0));
        let mut printed = [0; 64];
        let length = ours.read(&mut printed).unwrap();
        let printed = String::from_utf8_lossy(&printed[..length]);
        assert!(printed.starts_with(wanted), "{printed}");
    }
}

/// Both ends of a new one.
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
