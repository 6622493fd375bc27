//! Starts a program with its warden, and the handle by which the caller signals it and waits for it.

use std::io;
use std::mem::ManuallyDrop;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use crate::launch::{Launch, SessionNamespaces};
use crate::plan::LaunchPlan;
use crate::sys::{self, Fd, ForkSide};
use crate::warden::{self, Report, SharedWarden};
use crate::{LaunchError, LaunchStep};

/// A started program and its warden. Dropping it ends the program and every process that it started.
#[derive(Debug)]
pub struct Confined {
    /// Process descriptor of the warden.
    pidfd: OwnedFd,
    pid: libc::pid_t,
    /// Socket to the warden: it sends reports, and takes signals for the program.
    control: OwnedFd,
    is_namespaced: bool,
    listener: Option<TcpListener>,
    users: Option<OwnedFd>,
    network: Option<OwnedFd>,
    mounts: Option<OwnedFd>,
    /// Indices of the protected paths at which an empty file or directory was created.
    stood_in: Vec<usize>,
    /// The plan and the stack of a warden that shares our memory. They may be freed only after the warden has ended.
    shared: Option<Box<SharedWarden>>,
}

/// The end of a program: exit code, signal or exceeded limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It and the processes that it started used more memory than the limit of this many bytes.
    OverMemory(u64),
    /// It had more processes than the limit of this many.
    OverProcesses(u64),
}

/// Sets up the sandbox and starts the program in it; returns when the program has begun. Takes some milliseconds for the mounts.
///
/// ```
/// use std::os::fd::AsFd;
/// use windlass_sandbox::{Ending, Launch, ResourceLimits, launch};
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
///     limits: ResourceLimits::default(),
///     group: None,
/// })?;
/// assert_eq!(program.wait()?, Ending::Exited(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn launch(launch: &Launch<'_>) -> Result<Confined, LaunchError> {
    let plan = LaunchPlan::of(launch)?;
    let is_namespaced = plan.view.is_some();
    let (ours, theirs) = message_socket_pair().map_err(LaunchError::Machine)?;
    let StartedWarden { pid, pidfd, shared } = if plan.may_share_memory() {
        start_shared(plan, theirs.as_raw_fd())?
    } else {
        start_forked(&plan, theirs.as_raw_fd())?
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

/// A warden process that was just started.
struct StartedWarden {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    shared: Option<Box<SharedWarden>>,
}

/// Starts a warden as a forked copy of this process.
fn start_forked(plan: &LaunchPlan, control: Fd) -> Result<StartedWarden, LaunchError> {
    let forked = match plan.users {
        Some(_) => warden::start_in_namespaces(plan, control),
        None => sys::fork(plan.namespaces()),
    };
    match forked {
        Ok(ForkSide::Child) => warden::run(plan, control),
        Ok(ForkSide::Parent { pid, pidfd }) => {
            // SAFETY: the kernel has just made it for us.
            Ok(StartedWarden { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) }, shared: None })
        }
        Err(errno) if plan.view.is_some() => {
            let source = io::Error::from_raw_os_error(errno);
            Err(LaunchError::Surroundings { step: LaunchStep::Namespaces, source })
        }
        Err(errno) => Err(LaunchError::Machine(io::Error::from_raw_os_error(errno))),
    }
}

/// Starts a warden that shares the memory of this process.
fn start_shared(plan: LaunchPlan, control: Fd) -> Result<StartedWarden, LaunchError> {
    let shared = Box::new(SharedWarden::new(plan, control).map_err(LaunchError::Machine)?);
    // SAFETY: it is kept until the warden is gone.
    let (pid, pidfd) = unsafe { shared.start() }
        .map_err(|errno| LaunchError::Machine(io::Error::from_raw_os_error(errno)))?;
    // SAFETY: the kernel has just made it for us.
    Ok(StartedWarden { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) }, shared: Some(shared) })
}

/// Hides the memory and the environment of this process from other programs of the same user, and disables core dumps. Programs that it
/// starts are not affected. After this, a program that is not confined is started without a copy of this process, which is faster.
///
/// ```
/// windlass_sandbox::hide_memory()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn hide_memory() -> io::Result<()> {
    sys::prctl(libc::PR_SET_DUMPABLE, 0).map_err(io::Error::from_raw_os_error)
}

/// Returns whether the memory of this process is hidden from other programs of the same user, as after [`hide_memory`].
///
/// ```
/// windlass_sandbox::hide_memory()?;
/// assert!(windlass_sandbox::is_memory_hidden());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn is_memory_hidden() -> bool {
    sys::is_memory_hidden()
}

/// Creates a pair of connected sockets that keep message boundaries and report when the other side is closed.
pub(crate) fn message_socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
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
    /// Reads the warden's reports until the program has begun. Fails if the warden reports a failure or ends before.
    fn wait_for_start(mut self) -> Result<Self, LaunchError> {
        loop {
            match self.next_report(true) {
                Some(Report { kind: Report::STARTED, .. }) => return Ok(self),
                Some(Report { kind: Report::FAILED, step, errno, .. }) => {
                    let source = io::Error::from_raw_os_error(errno);
                    return Err(match LaunchStep::of(step) {
                        LaunchStep::Program => LaunchError::Program(source),
                        step => LaunchError::Surroundings { step, source },
                    });
                }
                Some(Report { kind: Report::STAND_IN_CREATED, number, .. }) => {
                    self.stood_in.extend(usize::try_from(number));
                }
                Some(_) => {}
                None => {
                    let source = io::Error::other("its warden ended before the program began");
                    return Err(LaunchError::Surroundings { step: LaunchStep::Start, source });
                }
            }
        }
    }

    /// Receives the warden's next report and stores a descriptor that comes with it. `None` if the warden is gone or, without `wait`, if no
    /// report is waiting.
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

    /// Takes the listener on the program's own loopback interface, if [`ProgramNetwork::Listener`](crate::ProgramNetwork) was asked for. Later calls
    /// return none.
    pub fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    /// Takes the namespaces that other programs join to share this one's loopback interface. Later calls return none, and so does a program
    /// that has joined those of another.
    pub fn take_session(&mut self) -> Option<SessionNamespaces> {
        let (users, network) = self.users.take().zip(self.network.take())?;
        Some(SessionNamespaces { users, network })
    }

    /// Takes the mount namespace of the program; later calls return none. The kernel unmounts the view when this descriptor is closed and
    /// the program has ended, which takes about as long as the setup. If another thread closes it, the caller need not wait.
    pub fn take_mounts(&mut self) -> Option<OwnedFd> {
        self.mounts.take()
    }

    /// Returns the indices of the protected paths that did not exist and for which an empty file or directory was created.
    pub fn stood_in(&self) -> &[usize] {
        &self.stood_in
    }

    /// Returns the process id of the warden, as seen outside the sandbox.
    pub fn warden(&self) -> i32 {
        self.pid
    }

    /// Sends a signal to every process of the program.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let byte = u8::try_from(signal).map_err(io::Error::other)?;
        sys::send(self.control.as_raw_fd(), &[byte], None).map_err(io::Error::from_raw_os_error)
    }

    /// Ends every process of the program with SIGKILL.
    pub fn kill(&self) {
        if self.is_namespaced {
            // The warden is the first process of its PID namespace: when it ends, the kernel ends all others in it.
            let _ = sys::signal_pidfd(self.pidfd.as_raw_fd(), libc::SIGKILL);
        } else {
            // The warden reads the end of the socket as our end and ends the processes, which it alone knows.
            // SAFETY: a descriptor of ours.
            unsafe { libc::shutdown(self.control.as_raw_fd(), libc::SHUT_WR) };
        }
    }

    /// Returns the ending if every process of the program has ended, else none. The descriptor of [`AsFd`] becomes readable then.
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

    /// Waits until every process of the program has ended, and returns the ending.
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
        // Its end takes a moment, for which the caller need not wait; a thread reaps it. If no thread can be started, the zombie stays,
        // with the memory that it uses.
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
    /// Converts a wait status.
    fn of(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signalled(libc::WTERMSIG(status))
        } else {
            Self::Exited(libc::WEXITSTATUS(status))
        }
    }
}

/// Returns whether a descriptor is readable now.
fn is_readable(fd: BorrowedFd<'_>) -> bool {
    wait_readable(fd, 0)
}

/// Waits until a descriptor is readable; returns false after a timeout or a signal. A negative timeout means no limit.
fn wait_readable(fd: BorrowedFd<'_>, milliseconds: i32) -> bool {
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which is ours.
    unsafe { libc::poll(&raw mut polled, 1, milliseconds) > 0 }
}

/// Waits until a process has ended; signals do not interrupt it.
fn wait_until_gone(pidfd: BorrowedFd<'_>) {
    while !wait_readable(pidfd, -1) {}
}

/// Reaps a process that has ended, so that it does not stay a zombie.
fn reap(pidfd: BorrowedFd<'_>) {
    let id = pidfd.as_raw_fd().unsigned_abs();
    let flags = libc::WEXITED | libc::WNOHANG;
    // SAFETY: all zero is a valid place for the answer.
    let mut unused_info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor that is open, and room for the answer.
    unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut unused_info, flags) };
}
