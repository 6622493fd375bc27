//! Makes renames of directories work on an overlay.
//!
//! An overlay cannot rename a directory that is in a lower layer, even in part: the call fails with `EXDEV`. So a seccomp filter makes the
//! program's renames wait for two threads of the warden. The first, the *listener*, checks whether the call renames a directory on an
//! overlay; all other calls proceed at once. The second, the *mover*, makes the directory movable: it replaces it, in place, by one that is
//! in the upper layer alone and has the same entries ([`unmerge`]). Then the call proceeds as well.
//!
//! The kernel itself performs the call, with the caller's rights, and the result is the kernel's own. A program that changes its
//! arguments meanwhile gains nothing: nothing was permitted because of them, and the directory that the mover replaces looks the same
//! before and after. If anything fails, the call proceeds and fails with `EXDEV`, as it would have without us. Only `ENOTEMPTY` is
//! answered here: the kernel reports `EXDEV` before it checks for that, and no directory need be moved to find it out.
//!
//! Listener and mover are threads of the warden, and not processes, for three reasons: a program sees no process that it did not start,
//! it cannot end them, and Yama lets a process read the memory of its descendants alone. The listener changes nothing. The mover is behind
//! the program's own Landlock rules and seccomp filter.
//!
//! Nothing here allocates, locks or panics; the C library is not used, because these threads have none of its memory.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use libc::seccomp_notif;

use crate::plan::{LaunchPlan, PlannedRenames};
use crate::sys::{self, Fd, files, landlock, notify, thread};
use movable::MovableDirectories;
use request::Request;

mod copy;
mod movable;
mod request;
mod unmerge;

/// The name prefix of temporary directories that collect the entries of a directory while it becomes movable. One is left over only if the
/// program was killed meanwhile.
pub const RENAME_PREFIX: &str = ".windlass-rename-";

/// The state that the two threads for the renames of one program share. It is valid until the warden ends.
pub(crate) struct RenameService<'a> {
    plan: &'a LaunchPlan,
    threads: &'a PlannedRenames,
    listener: Fd,
    /// Landlock ruleset of the program.
    ruleset: Option<Fd>,
    /// The mover's end of the pipe on which it receives requests; -1 before it is started.
    requests: AtomicI32,
    /// Number of requests that the mover has not finished.
    pending: AtomicU32,
    /// Directories that are known to be movable.
    movable: MovableDirectories,
}

impl<'a> RenameService<'a> {
    /// Maximum milliseconds that the end of a program waits for a directory that is half moved.
    const MAX_END_WAIT_MS: i64 = 10_000;

    /// Prepares the service; the threads are started later.
    pub(crate) fn new(
        plan: &'a LaunchPlan,
        threads: &'a PlannedRenames,
        listener: Fd,
        ruleset: Option<Fd>,
    ) -> Self {
        Self {
            plan,
            threads,
            listener,
            ruleset,
            requests: AtomicI32::new(-1),
            pending: AtomicU32::new(0),
            movable: MovableDirectories::new(),
        }
    }

    /// Returns the seccomp notifier on which calls arrive.
    pub(crate) fn listener(&self) -> Fd {
        self.listener
    }

    /// Starts the listener thread, which receives the calls from now on.
    pub(crate) fn start(&self) -> sys::Result {
        // Descriptors are needed for every level of directories and for every request that waits.
        if let Ok(hard_limit) = sys::hard_limit(libc::RLIMIT_NOFILE) {
            let _ = sys::set_limit(libc::RLIMIT_NOFILE, hard_limit, hard_limit);
        }
        let data = std::ptr::from_ref(self).cast();
        // SAFETY: the program has begun, so nothing is on that stack any more; both are there until the warden ends.
        unsafe { thread::start(&self.plan.stack, run_listener, data) }
    }

    /// Receives one call and lets it proceed unchanged; used if the listener thread cannot be started.
    pub(crate) fn let_one_proceed(&self) {
        if let Ok(call) = notify::receive(self.listener) {
            notify::proceed(self.listener, call.id);
        }
    }

    /// Waits until no directory is half moved, for ten seconds at most. The program must have ended.
    pub(crate) fn wait_until_moved(&self) {
        let until = sys::now_ms() + Self::MAX_END_WAIT_MS;
        while self.pending.load(Ordering::Acquire) > 0 && sys::now_ms() < until {
            let _ = sys::poll([-1], 1);
        }
    }

    /// Returns whether a directory may be half moved.
    pub(crate) fn is_moving(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0
    }

    /// Passes a call to the mover if it renames a directory that may need it; lets any other call proceed.
    fn handle_call(&self, call: &seccomp_notif, mover: &mut Option<Fd>) {
        let Some(request) = Request::of(self.listener, call, &self.movable) else {
            return notify::proceed(self.listener, call.id);
        };
        if !self.send_to_mover(&request, mover) {
            request.close();
            notify::proceed(self.listener, call.id);
        }
    }

    /// Sends a request to the mover, which answers it. Starts the mover first if needed. Returns false if that fails.
    fn send_to_mover(&self, request: &Request, mover: &mut Option<Fd>) -> bool {
        let Some(to) = mover.or_else(|| self.start_mover().ok()) else { return false };
        *mover = Some(to);
        self.pending.fetch_add(1, Ordering::AcqRel);
        let is_passed = sys::write(to, &request.to_bytes()).is_ok();
        if !is_passed {
            self.pending.fetch_sub(1, Ordering::AcqRel);
        }
        is_passed
    }

    /// Starts the mover thread. Returns the end of the pipe to which requests are written.
    fn start_mover(&self) -> sys::Result<Fd> {
        let [from, to] = files::pipe()?;
        self.requests.store(from, Ordering::Release);
        let data = std::ptr::from_ref(self).cast();
        // SAFETY: the stack is used for nothing else; both are there until the warden ends.
        let started = unsafe { thread::start(&self.threads.stack, run_mover, data) };
        if let Err(errno) = started {
            sys::close(from);
            sys::close(to);
            return Err(errno);
        }
        Ok(to)
    }

    /// Applies the program's Landlock rules and seccomp filter to the mover.
    fn apply_program_fence(&self) -> sys::Result {
        sys::umask(0);
        if let Some(ruleset) = self.ruleset {
            landlock::restrict_self(ruleset)?;
        }
        match &self.plan.fence {
            Some(fence) => sys::install_filter(&fence.filter),
            None => Ok(()),
        }
    }
}

/// Entry point of the listener thread. Ends when no process can rename any more.
extern "C" fn run_listener(data: *const c_void) -> ! {
    // SAFETY: that is what it is started with.
    let renames = unsafe { &*data.cast::<RenameService<'_>>() };
    notify::enable_sync_wake_up(renames.listener);
    let mut mover = None;
    loop {
        match notify::receive(renames.listener) {
            Ok(call) => renames.handle_call(&call, &mut mover),
            Err(libc::EINTR) => {}
            Err(libc::ENOENT) if has_callers(renames.listener) => {}
            Err(_) => {
                // No call can arrive any more; if one did, it would fail rather than wait.
                sys::close(renames.listener);
                thread::end()
            }
        }
    }
}

/// Waits until a call arrives. Returns false once no process is left that could call.
fn has_callers(listener: Fd) -> bool {
    match sys::poll([listener], -1) {
        Ok([ready]) => ready.is_readable() || !ready.is_any(),
        Err(_) => false,
    }
}

/// Entry point of the mover thread. Answers requests until the pipe is closed.
extern "C" fn run_mover(data: *const c_void) -> ! {
    // SAFETY: that is what it is started with.
    let renames = unsafe { &*data.cast::<RenameService<'_>>() };
    let from = renames.requests.load(Ordering::Acquire);
    let is_confined = renames.apply_program_fence().is_ok();
    let mut buffers = unmerge::WorkBuffers::new();
    loop {
        let mut bytes = [0; Request::SIZE];
        match sys::read(from, &mut bytes) {
            Ok(Request::SIZE) => {}
            Err(libc::EINTR) => continue,
            _ => thread::end(),
        }
        let request = Request::from_bytes(&bytes);
        let answer = if is_confined {
            unmerge::make_request_movable(&request, &renames.movable, &mut buffers)
        } else {
            Ok(())
        };
        request.close();
        renames.pending.fetch_sub(1, Ordering::AcqRel);
        match answer {
            Ok(()) => notify::proceed(renames.listener, request.id),
            Err(errno) => notify::fail(renames.listener, request.id, errno),
        }
    }
}
