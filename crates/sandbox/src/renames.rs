//! Renames of directories on an overlay.
//!
//! An overlay cannot rename a directory of which a lower layer has a part: it answers `EXDEV`. So the calls that rename wait for two
//! threads of the warden. The first, the *listener*, looks whether the call is about a directory on an overlay; all others it lets
//! proceed at once. The second, the *mover*, makes the directory movable: it replaces it, in place, by one that is in the upper layer
//! alone and has the same entries ([`unmerge`]). Then the call proceeds as well.
//!
//! The kernel itself performs the call, with the caller's rights, and the answer is the kernel's own. A program that changes its
//! arguments meanwhile gains nothing: nothing was permitted because of them, and what the mover changes is the same to see before and
//! after. Where anything fails, the call proceeds and gets the `EXDEV` that it would have got. Only `ENOTEMPTY` is answered here: the
//! kernel says `EXDEV` before it looks, and no directory need be moved for that.
//!
//! They are threads of the warden, and not processes, for three reasons: a program sees no process that it did not start, it cannot
//! end them, and Yama lets a process read the memory of its descendants alone. The listener only looks. The mover is behind the
//! program's own Landlock rules and filter of system calls.
//!
//! Nothing here allocates, locks or panics; the C library is not used, because these threads have none of its memory.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use libc::seccomp_notif;

use crate::plan::{Plan, PlannedRenames};
use crate::sys::{self, Fd, files, landlock, notify, thread};
use movable::Movable;
use request::Request;

mod copy;
mod movable;
mod request;
mod unmerge;

/// The beginning of the names of directories in which the entries of a directory are collected while it becomes movable. Only a program
/// that was killed meanwhile leaves one.
///
/// ```
/// assert!(windlass_sandbox::RENAME_PREFIX.starts_with(".windlass-"));
/// ```
pub const RENAME_PREFIX: &str = ".windlass-rename-";

/// The threads that serve the renames of one program, and what they have in common. It stays until the warden ends.
pub(crate) struct Renames<'a> {
    plan: &'a Plan,
    threads: &'a PlannedRenames,
    listener: Fd,
    /// The program's own Landlock rules.
    ruleset: Option<Fd>,
    /// The mover's end of the pipe on which it gets requests.
    requests: AtomicI32,
    /// Requests that the mover has not finished.
    pending: AtomicU32,
    movable: Movable,
}

impl<'a> Renames<'a> {
    /// For how many milliseconds the end of a program waits for a directory that is half moved.
    const LONGEST_END: i64 = 10_000;

    pub(crate) fn new(
        plan: &'a Plan,
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
            movable: Movable::new(),
        }
    }

    /// The descriptor on which calls arrive.
    pub(crate) fn listener(&self) -> Fd {
        self.listener
    }

    /// Starts the listener. It receives the calls from now on.
    pub(crate) fn start(&self) -> sys::Result {
        // One descriptor for every directory on the way down, and for every request that waits.
        if let Ok(most) = sys::limit_of(libc::RLIMIT_NOFILE) {
            let _ = sys::set_limit(libc::RLIMIT_NOFILE, most, most);
        }
        let given = std::ptr::from_ref(self).cast();
        // SAFETY: the program has begun, so nothing is on that stack any more; both are there until the warden ends.
        unsafe { thread::start(&self.plan.stack, serve, given) }
    }

    /// Lets one call proceed that has arrived. Where there is no thread to be had, this is all that can be done.
    pub(crate) fn let_one_proceed(&self) {
        if let Ok(call) = notify::receive(self.listener) {
            notify::proceed(self.listener, call.id);
        }
    }

    /// Waits until no directory is half moved, but not forever. The program must have ended.
    pub(crate) fn settle(&self) {
        let until = sys::now() + Self::LONGEST_END;
        while self.pending.load(Ordering::Acquire) > 0 && sys::now() < until {
            let _ = sys::poll([-1], 1);
        }
    }

    /// Returns whether a directory may be half moved.
    pub(crate) fn is_moving(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0
    }

    fn handle(&self, call: &seccomp_notif, mover: &mut Option<Fd>) {
        let Some(request) = Request::of(self.listener, call, &self.movable) else {
            return notify::proceed(self.listener, call.id);
        };
        if !self.pass_on(&request, mover) {
            request.close();
            notify::proceed(self.listener, call.id);
        }
    }

    /// Gives a request to the mover, which answers it.
    fn pass_on(&self, request: &Request, mover: &mut Option<Fd>) -> bool {
        let Some(to) = mover.or_else(|| self.start_mover().ok()) else { return false };
        *mover = Some(to);
        self.pending.fetch_add(1, Ordering::AcqRel);
        let is_passed = sys::write(to, &request.to_bytes()).is_ok();
        if !is_passed {
            self.pending.fetch_sub(1, Ordering::AcqRel);
        }
        is_passed
    }

    /// The end of the pipe on which the mover gets requests.
    fn start_mover(&self) -> sys::Result<Fd> {
        let [from, to] = files::pipe()?;
        self.requests.store(from, Ordering::Release);
        let given = std::ptr::from_ref(self).cast();
        // SAFETY: the stack is used for nothing else; both are there until the warden ends.
        let started = unsafe { thread::start(&self.threads.stack, make_movable, given) };
        if let Err(errno) = started {
            sys::close(from);
            sys::close(to);
            return Err(errno);
        }
        Ok(to)
    }

    /// Puts the mover behind the program's own fence.
    fn confine(&self) -> sys::Result {
        sys::umask(0);
        if let Some(ruleset) = self.ruleset {
            landlock::restrict_self(ruleset)?;
        }
        match &self.plan.fence {
            Some(fence) => sys::filter(&fence.filter),
            None => Ok(()),
        }
    }
}

/// The life of the listener.
extern "C" fn serve(given: *const c_void) -> ! {
    // SAFETY: that is what it is started with.
    let renames = unsafe { &*given.cast::<Renames<'_>>() };
    notify::wake_in_place(renames.listener);
    let mut mover = None;
    loop {
        match notify::receive(renames.listener) {
            Ok(call) => renames.handle(&call, &mut mover),
            Err(libc::EINTR) => {}
            Err(libc::ENOENT) if has_callers(renames.listener) => {}
            Err(_) => {
                // Nothing can arrive any more; if it did, the kernel would refuse it rather than wait.
                sys::close(renames.listener);
                thread::end()
            }
        }
    }
}

/// Waits until a call arrives, or until none can any more.
fn has_callers(listener: Fd) -> bool {
    match sys::poll([listener], -1) {
        Ok([ready]) => ready.is_readable() || !ready.is_any(),
        Err(_) => false,
    }
}

/// The life of the mover.
extern "C" fn make_movable(given: *const c_void) -> ! {
    // SAFETY: that is what it is started with.
    let renames = unsafe { &*given.cast::<Renames<'_>>() };
    let from = renames.requests.load(Ordering::Acquire);
    let is_confined = renames.confine().is_ok();
    let mut room = unmerge::Room::new();
    loop {
        let mut bytes = [0; Request::SIZE];
        match sys::read(from, &mut bytes) {
            Ok(Request::SIZE) => {}
            Err(libc::EINTR) => continue,
            _ => thread::end(),
        }
        let request = Request::from_bytes(&bytes);
        let answer = if is_confined {
            unmerge::for_request(&request, &renames.movable, &mut room)
        } else {
            Ok(())
        };
        request.close();
        renames.pending.fetch_sub(1, Ordering::AcqRel);
        match answer {
            Ok(()) => notify::proceed(renames.listener, request.id),
            Err(errno) => notify::refuse(renames.listener, request.id, errno),
        }
    }
}
