//! The threads of a walk and the work that is there for any of them.
//!
//! Each thread keeps what it finds for itself; only when another has nothing to do is some of it put here. A walk begins with one
//! thread and gets the next when there is work to give away, so a small tree never pays for threads that it has no use for.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::worker::Work;

/// How many entries a walk must have had for another thread to be worth its start.
const ENTRIES_PER_THREAD: usize = 64;

pub(super) struct Crew {
    limit: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// How many threads wait for work; read without the lock.
    waiting: AtomicUsize,
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
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            queue: Mutex::new(Queue { work: VecDeque::new(), busy: 1, panic: None }),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            started: AtomicUsize::new(1),
            stopped: AtomicBool::new(false),
        }
    }

    /// Whether a thread that has seen so many entries should give some of its work away.
    pub(super) fn need(&self, entries: usize) -> Need {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return Need::Work;
        }
        let started = self.started.load(Ordering::Relaxed);
        if started < self.limit && entries >= ENTRIES_PER_THREAD {
            Need::Thread
        } else {
            Need::None
        }
    }

    pub(super) fn give(&self, work: impl IntoIterator<Item = Work>) {
        let mut queue = self.lock();
        let before = queue.work.len();
        queue.work.extend(work);
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
        let more = |started: usize| (started < self.limit).then_some(started + 1);
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
