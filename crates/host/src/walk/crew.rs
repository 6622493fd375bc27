//! The threads of a walk and the work that is there for any of them.
//!
//! Each thread keeps what it finds for itself; only when another has nothing to do is some of it put here. A walk begins with one
//! thread and gets the next when there is work to give away, so a small tree never pays for threads that it has no use for.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::worker::Work;

/// More threads than this wait for each other in the kernel.
const MAX_THREADS: usize = 12;

/// How many entries a walk must have had for another thread to be worth its start.
const ENTRIES_PER_THREAD: usize = 64;

pub(super) struct Crew {
    /// How many threads there may be. Asking the system how many are useful is not free, so it is done when it matters.
    limit: OnceLock<usize>,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// How many threads wait, and how much work there is for them. Changed under the lock, read without it.
    waiting: AtomicUsize,
    queued: AtomicUsize,
    started: AtomicUsize,
    stopped: AtomicBool,
}

struct Queue {
    work: VecDeque<Work>,
    /// The threads that are not waiting. When the last one finds nothing, the walk is over.
    busy: usize,
    panic: Option<Box<dyn Any + Send>>,
}

/// What is done with work that is given away.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nobody has need of it.
    None,
    /// A thread waits for it.
    Work,
    /// It is enough for another thread.
    Thread,
}

impl Crew {
    /// Up to so many threads; as many as are useful here for 0.
    pub(super) fn new(threads: usize) -> Self {
        let limit = OnceLock::new();
        if threads > 0 {
            limit.get_or_init(|| threads.min(MAX_THREADS));
        }
        Self {
            limit,
            queue: Mutex::new(Queue { work: VecDeque::new(), busy: 1, panic: None }),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            started: AtomicUsize::new(1),
            stopped: AtomicBool::new(false),
        }
    }

    /// Whether a thread that has seen so many entries should give some of its work away.
    pub(super) fn need(&self, entries: usize) -> Need {
        if self.waiting.load(Ordering::Relaxed) > self.queued.load(Ordering::Relaxed) {
            return Need::Work;
        }
        if entries >= ENTRIES_PER_THREAD && self.started.load(Ordering::Relaxed) < self.limit() {
            return Need::Thread;
        }
        Need::None
    }

    fn limit(&self) -> usize {
        *self.limit.get_or_init(|| {
            std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
        })
    }

    pub(super) fn give(&self, work: impl IntoIterator<Item = Work>) {
        let mut queue = self.lock();
        let before = queue.work.len();
        queue.work.extend(work);
        self.queued.store(queue.work.len(), Ordering::Relaxed);
        match queue.work.len() - before {
            0 => {}
            1 => self.changed.notify_one(),
            _ => self.changed.notify_all(),
        }
    }

    /// Waits for work. `None` if there will be no more.
    pub(super) fn take(&self) -> Option<Work> {
        let mut queue = self.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(work) = queue.work.pop_front() {
                self.queued.store(queue.work.len(), Ordering::Relaxed);
                return Some(work);
            }
            if queue.busy == 1 {
                self.stop_waiting(&mut queue);
                return None;
            }
            queue.busy -= 1;
            self.waiting.fetch_add(1, Ordering::Relaxed);
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            queue.busy += 1;
        }
    }

    /// Signs on another thread, unless there are enough. Whoever does so starts it, or calls [`Crew::sign_off`].
    pub(super) fn sign_on(&self) -> bool {
        let more = |started: usize| (started < self.limit()).then_some(started + 1);
        let signed = self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if signed {
            self.lock().busy += 1;
        }
        signed
    }

    /// A thread could not be started: the walk goes on with fewer.
    pub(super) fn sign_off(&self) {
        self.lock().busy -= 1;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends the walk as soon as every thread has noticed.
    pub(super) fn stop(&self) {
        self.stop_waiting(&mut self.lock());
    }

    /// Ends the walk because of a panic, which is kept for the caller.
    pub(super) fn panicked(&self, panic: Box<dyn Any + Send>) {
        let mut queue = self.lock();
        queue.panic.get_or_insert(panic);
        self.stop_waiting(&mut queue);
    }

    /// The panic that ended the walk, if one did.
    pub(super) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.lock().panic.take()
    }

    fn stop_waiting(&self, queue: &mut MutexGuard<'_, Queue>) {
        self.stopped.store(true, Ordering::Relaxed);
        queue.work.clear();
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
