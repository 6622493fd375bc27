//! A program that was started, from the outside.

use std::io;
use std::mem::ManuallyDrop;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use crate::launch::{Launch, SessionNamespaces};
use crate::plan::Plan;
use crate::sys::{self, Fd, Side};
use crate::warden::{self, Report, Shared};
use crate::{LaunchError, Step};

/// A program that was started, with its warden. Dropped, it is ended.
#[derive(Debug)]
pub struct Confined {
    /// The warden's.
    pidfd: OwnedFd,
    pid: libc::pid_t,
    control: OwnedFd,
    is_namespaced: bool,
    listener: Option<TcpListener>,
    users: Option<OwnedFd>,
    network: Option<OwnedFd>,
    mounts: Option<OwnedFd>,
    stood_in: Vec<usize>,
    /// What the warden lives on, if it shares our memory. It may go only after the warden.
    shared: Option<Box<Shared>>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It and what it started used more memory than they may: this many bytes.
    OverMemory(u64),
    /// It started more processes than it may: this many.
    OverProcesses(u64),
}

/// Starts a program in its surroundings. Takes as long as making those does: some milliseconds.
///
/// ```
/// use std::os::fd::AsFd;
/// use windlass_sandbox::{Ending, Launch, Limits, launch};
/// let output = tempfile::tempfile()?;
/// let program = launch(&Launch {
///     program: "/bin/sh".into(),
///     arguments: ["sh", "-c", "exit 3"].map(Into::into).to_vec(),
///     environment: vec!["PATH=/usr/bin:/bin".into()],
///     directory: "/".into(),
///     stdin: None,
///     output: output.as_fd(),
///     errors: None,
///     terminal: false,
///     view: None,
///     users: None,
///     session: None,
///     fence: None,
///     limits: Limits::default(),
///     group: None,
/// })?;
/// assert_eq!(program.wait()?, Ending::Exited(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn launch(launch: &Launch<'_>) -> Result<Confined, LaunchError> {
    let plan = Plan::of(launch)?;
    let is_namespaced = plan.view.is_some();
    let (ours, theirs) = socket_pair().map_err(LaunchError::Machine)?;
    let Warden { pid, pidfd, shared } = if plan.may_share_memory() {
        start_shared(plan, theirs.as_raw_fd())?
    } else {
        start_copy(&plan, theirs.as_raw_fd())?
    };
    drop(theirs);
    let confined = Confined {
        pidfd,
        pid,
        control: ours,
        is_namespaced,
        listener: None,
        users: None,
        network: None,
        mounts: None,
        stood_in: Vec::new(),
        shared,
    };
    confined.wait_for_start()
}

/// A warden that was started.
struct Warden {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    shared: Option<Box<Shared>>,
}

/// A warden that is a copy of us.
fn start_copy(plan: &Plan, control: Fd) -> Result<Warden, LaunchError> {
    let forked = match plan.users {
        Some(_) => warden::start_within(plan, control),
        None => sys::fork(plan.namespaces()),
    };
    match forked {
        Ok(Side::Child) => warden::run(plan, control),
        Ok(Side::Parent { pid, pidfd }) => {
            // SAFETY: the kernel has just made it for us.
            Ok(Warden { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) }, shared: None })
        }
        Err(errno) if plan.view.is_some() => {
            let source = io::Error::from_raw_os_error(errno);
            Err(LaunchError::Surroundings { step: Step::Namespaces, source })
        }
        Err(errno) => Err(LaunchError::Machine(io::Error::from_raw_os_error(errno))),
    }
}

/// A warden that shares our memory.
fn start_shared(plan: Plan, control: Fd) -> Result<Warden, LaunchError> {
    let shared = Box::new(Shared::new(plan, control).map_err(LaunchError::Machine)?);
    // SAFETY: it is kept until the warden is gone.
    let (pid, pidfd) = unsafe { shared.start() }
        .map_err(|errno| LaunchError::Machine(io::Error::from_raw_os_error(errno)))?;
    // SAFETY: the kernel has just made it for us.
    Ok(Warden { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) }, shared: Some(shared) })
}

/// Lets no other program of this person look into the memory and the environment of this process, nor the kernel write an image of
/// it when it crashes. Programs that it starts are not concerned. With that, starting one that is not confined needs no copy of this
/// process.
///
/// ```
/// windlass_sandbox::hide_memory()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn hide_memory() -> io::Result<()> {
    sys::prctl(libc::PR_SET_DUMPABLE, 0).map_err(io::Error::from_raw_os_error)
}

/// Whether that was done.
///
/// ```
/// windlass_sandbox::hide_memory()?;
/// assert!(windlass_sandbox::is_memory_hidden());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn is_memory_hidden() -> bool {
    sys::is_hidden()
}

/// Keeps messages apart, and says when the other side is gone.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut both = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: there is room for two.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, both.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made them for us.
    let [ours, theirs] = both.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((ours, theirs))
}

impl Confined {
    fn wait_for_start(mut self) -> Result<Self, LaunchError> {
        loop {
            match self.next_report(true) {
                Some(Report { kind: Report::STARTED, .. }) => return Ok(self),
                Some(Report { kind: Report::FAILED, step, errno, .. }) => {
                    let source = io::Error::from_raw_os_error(errno);
                    return Err(match Step::of(step) {
                        Step::Program => LaunchError::Program(source),
                        step => LaunchError::Surroundings { step, source },
                    });
                }
                Some(Report { kind: Report::STOOD_IN, number, .. }) => {
                    self.stood_in.extend(usize::try_from(number));
                }
                Some(_) => {}
                None => {
                    let source = io::Error::other("its warden ended before the program began");
                    return Err(LaunchError::Surroundings { step: Step::Start, source });
                }
            }
        }
    }

    /// What the warden says next; `None` if there is nothing (more).
    fn next_report(&mut self, wait: bool) -> Option<Report> {
        if !wait && !is_readable(self.control.as_fd()) {
            return None;
        }
        let mut bytes = [0; Report::SIZE];
        let (read, passed) = sys::receive(self.control.as_raw_fd(), &mut bytes).ok()?;
        let report = (read == Report::SIZE).then(|| Report::from_bytes(bytes));
        if let Some(fd) = passed {
            // SAFETY: the kernel has just made it for us, out of what the warden sent.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            match report.map(|report| report.kind) {
                Some(Report::LISTENER) => self.listener = Some(TcpListener::from(fd)),
                Some(Report::USER_NAMESPACE) => self.users = Some(fd),
                Some(Report::NETWORK_NAMESPACE) => self.network = Some(fd),
                Some(Report::MOUNT_NAMESPACE) => self.mounts = Some(fd),
                _ => {}
            }
        }
        report
    }

    /// The listener on the program's own loopback interface, if one was wanted; given once.
    pub fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    /// The namespaces that other programs join to share this one's loopback interface; given once, and not by a program that has
    /// joined those of another.
    pub fn take_session(&mut self) -> Option<SessionNamespaces> {
        let (users, network) = self.users.take().zip(self.network.take())?;
        Some(SessionNamespaces { users, network })
    }

    /// The mount namespace of the program; given once. The kernel takes the mounts of a view down when this is closed and the
    /// program is gone, which takes about as long as making them did. Closed on another thread, that delays nobody.
    pub fn take_mounts(&mut self) -> Option<OwnedFd> {
        self.mounts.take()
    }

    /// The protected places, by their number, for which something had to be put into the workspace.
    pub fn stood_in(&self) -> &[usize] {
        &self.stood_in
    }

    /// The warden's process, as it is called outside.
    pub fn warden(&self) -> i32 {
        self.pid
    }

    /// Sends a signal to everything that belongs to the program.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let byte = u8::try_from(signal).map_err(io::Error::other)?;
        sys::send(self.control.as_raw_fd(), &[byte], None).map_err(io::Error::from_raw_os_error)
    }

    /// Ends everything that belongs to the program.
    pub fn kill(&self) {
        if self.is_namespaced {
            // With the first process of a namespace the kernel ends all.
            let _ = sys::signal_by_fd(self.pidfd.as_raw_fd(), libc::SIGKILL);
        } else {
            // The warden reads that we are gone. It alone knows what belongs to it.
            // SAFETY: a descriptor of ours.
            unsafe { libc::shutdown(self.control.as_raw_fd(), libc::SHUT_WR) };
        }
    }

    /// How it ended, if everything that belongs to it is gone. [`AsFd`] is readable then.
    pub fn try_wait(&mut self) -> io::Result<Option<Ending>> {
        if !is_readable(self.pidfd.as_fd()) {
            return Ok(None);
        }
        let mut ending = Ending::Signalled(libc::SIGKILL);
        while let Some(report) = self.next_report(false) {
            match report.kind {
                Report::ENDED => ending = Ending::of(report.status),
                Report::OVER_MEMORY => ending = Ending::OverMemory(report.number),
                Report::OVER_PROCESSES => ending = Ending::OverProcesses(report.number),
                _ => {}
            }
        }
        reap(self.pidfd.as_fd());
        Ok(Some(ending))
    }

    /// Waits until everything that belongs to it is gone.
    pub fn wait(mut self) -> io::Result<Ending> {
        loop {
            if let Some(ending) = self.try_wait()? {
                return Ok(ending);
            }
            wait_readable(self.pidfd.as_fd(), -1);
        }
    }
}

impl AsFd for Confined {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        self.kill();
        if is_readable(self.pidfd.as_fd()) {
            return reap(self.pidfd.as_fd());
        }
        // Its end takes a moment, for which nobody need wait; but somebody must take it. Where nobody can, it stays, with what it
        // lives on.
        let shared = ManuallyDrop::new(self.shared.take());
        if let Ok(pidfd) = self.pidfd.try_clone() {
            let wait = move || {
                wait_until_gone(pidfd.as_fd());
                reap(pidfd.as_fd());
                drop(ManuallyDrop::into_inner(shared));
            };
            drop(std::thread::Builder::new().name("windlass-reaper".into()).spawn(wait));
        }
    }
}

impl Ending {
    fn of(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signalled(libc::WTERMSIG(status))
        } else {
            Self::Exited(libc::WEXITSTATUS(status))
        }
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    wait_readable(fd, 0)
}

fn wait_readable(fd: BorrowedFd<'_>, milliseconds: i32) -> bool {
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which is ours.
    unsafe { libc::poll(&raw mut polled, 1, milliseconds) > 0 }
}

/// Also when a signal comes in between.
fn wait_until_gone(pidfd: BorrowedFd<'_>) {
    while !wait_readable(pidfd, -1) {}
}

/// Takes a process that has ended, so that it is no zombie.
fn reap(pidfd: BorrowedFd<'_>) {
    let id = pidfd.as_raw_fd().unsigned_abs();
    let flags = libc::WEXITED | libc::WNOHANG;
    // SAFETY: all zero is a valid place for the answer.
    let mut ignored: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor that is open, and room for the answer.
    unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut ignored, flags) };
}
