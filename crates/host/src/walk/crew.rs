//! The threads of a walk and their shared queue of work.
//!
//! Each thread keeps its own work; only when another thread is idle does it move some to this queue. A walk begins with one thread
//! and starts the next one when there is work to share, so a small tree never pays for idle threads.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::worker::Work;

/// Maximum threads of a walk. More would wait for each other in the kernel.
const MAX_THREADS: usize = 12;

/// Entries that a thread must have visited before another thread is worth its start.
const ENTRIES_PER_THREAD: usize = 64;

/// Shared state of a walk's threads.
pub(super) struct WorkerPool {
    /// Maximum number of threads. Asking the system for a useful number is not free, so it is done on first use.
    limit: OnceLock<usize>,
    queue: Mutex<Queue>,
    /// Signals new work or the end of the walk.
    changed: Condvar,
    /// Number of waiting threads. It and `queued` are changed under the lock and read without it.
    waiting: AtomicUsize,
    /// Number of queued pieces of work.
    queued: AtomicUsize,
    /// Number of threads that were started or reserved.
    started: AtomicUsize,
    /// True if the walk must end.
    stopped: AtomicBool,
}

/// Work that any thread may take.
struct Queue {
    work: VecDeque<Work>,
    /// Number of threads that are not waiting. When the last one finds no work, the walk is over.
    busy: usize,
    panic: Option<Box<dyn Any + Send>>,
}

/// Reason to share work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WorkDemand {
    /// No thread needs work.
    None,
    /// A thread waits for work.
    WaitingThread,
    /// There is enough work for an additional thread.
    NewThread,
}

impl WorkerPool {
    /// Creates a pool of up to `threads` threads; for 0, of as many as are useful on this machine.
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

    /// Returns whether a thread that has visited `entries` entries should share some of its work, and why.
    pub(super) fn demand(&self, entries: usize) -> WorkDemand {
        if self.waiting.load(Ordering::Relaxed) > self.queued.load(Ordering::Relaxed) {
            return WorkDemand::WaitingThread;
        }
        if entries >= ENTRIES_PER_THREAD && self.started.load(Ordering::Relaxed) < self.limit() {
            return WorkDemand::NewThread;
        }
        WorkDemand::None
    }

    /// Returns the maximum number of threads.
    fn limit(&self) -> usize {
        *self.limit.get_or_init(|| {
            std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
        })
    }

    /// Adds work to the queue and wakes waiting threads.
    pub(super) fn push(&self, work: impl IntoIterator<Item = Work>) {
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

    /// Waits for work; `None` if the walk is over.
    pub(super) fn next_work(&self) -> Option<Work> {
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
                self.stop_all(&mut queue);
                return None;
            }
            queue.busy -= 1;
            self.waiting.fetch_add(1, Ordering::Relaxed);
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            queue.busy += 1;
        }
    }

    /// Reserves another thread, unless there are enough. After a `true`, the caller starts the thread, or calls [`WorkerPool::release_thread`].
    pub(super) fn reserve_thread(&self) -> bool {
        let more = |started: usize| (started < self.limit()).then_some(started + 1);
        let is_reserved =
            self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if is_reserved {
            self.lock().busy += 1;
        }
        is_reserved
    }

    /// Gives back a reserved thread that could not be started. The walk continues with fewer.
    pub(super) fn release_thread(&self) {
        self.lock().busy -= 1;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends the walk. Each thread stops as soon as it notices.
    pub(super) fn stop(&self) {
        self.stop_all(&mut self.lock());
    }

    /// Ends the walk because of a panic, and keeps the panic for the caller.
    pub(super) fn stop_with_panic(&self, panic: Box<dyn Any + Send>) {
        let mut queue = self.lock();
        queue.panic.get_or_insert(panic);
        self.stop_all(&mut queue);
    }

    /// Takes the panic that ended the walk, if there was one.
    pub(super) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.lock().panic.take()
    }

    /// Marks the walk as ended, drops queued work and wakes all threads.
    fn stop_all(&self, queue: &mut MutexGuard<'_, Queue>) {
        self.stopped.store(true, Ordering::Relaxed);
        queue.work.clear();
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
