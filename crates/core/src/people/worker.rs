//! Works on a book on threads where its disk and its lock hold up no call.
//!
//! Changes are made one after the other, in the order in which they were asked for, by one thread for each book: a lock that another
//! process holds stops that thread alone, however many questions wait. Reading takes no lock, and so does not wait for changes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{Book, Inquiry};
use crate::sync::Lock;

/// A book, and the changes that wait for it.
pub(super) struct BookWorker<R: Inquiry> {
    book: Arc<dyn Book<R>>,
    queue: Arc<Lock<Queue>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_worked_on: bool,
}

type Job = Box<dyn FnOnce() + Send>;

/// The duty to do all jobs of a queue. It is done where this value is dropped: on a thread for blocking work or, when the runtime has
/// ended, on the thread that wanted one.
struct Duty(Arc<Lock<Queue>>);

impl<R: Inquiry> BookWorker<R> {
    pub(super) fn new(book: Arc<dyn Book<R>>) -> Self {
        Self { book, queue: Arc::default() }
    }

    pub(super) fn book(&self) -> &Arc<dyn Book<R>> {
        &self.book
    }

    /// Reads the book. The result may be older than changes that wait for their turn.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Book<R>) -> T + Send + 'static,
    ) -> Result<T, String> {
        let book = self.book.clone();
        let reading = tokio::task::spawn_blocking(move || read(&*book));
        reading.await.map_err(|_| broken())
    }

    /// Changes the book after all changes that were asked for before. The change is made also if this future is dropped.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&dyn Book<R>) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (sender, changed) = oneshot::channel();
        self.change_later(move |book| drop(sender.send(change(book))));
        changed.await.map_err(|_| broken())
    }

    /// The same without waiting for it.
    pub(super) fn change_later(&self, change: impl FnOnce(&dyn Book<R>) + Send + 'static) {
        let book = self.book.clone();
        let mut queue = self.queue.lock();
        queue.jobs.push_back(Box::new(move || change(&*book)));
        if std::mem::replace(&mut queue.is_worked_on, true) {
            return;
        }
        drop(queue);
        let duty = Duty(self.queue.clone());
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn_blocking(move || drop(duty)));
        }
    }

    /// Returns whether a change waits or is being made.
    pub(super) fn is_busy(&self) -> bool {
        self.queue.lock().is_worked_on
    }
}

impl Queue {
    fn next(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front();
        self.is_worked_on = job.is_some();
        job
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        loop {
            let Some(job) = self.0.lock().next() else { return };
            // The one who waits for the result learns of the panic, and the others go on.
            drop(catch_unwind(AssertUnwindSafe(job)));
        }
    }
}

fn broken() -> String {
    "the book of questions and answers failed with a panic".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Approval, MemoryBook};

    fn worker() -> BookWorker<Approval> {
        BookWorker::new(Arc::new(MemoryBook::default()))
    }

    #[tokio::test]
    async fn changes_are_made_in_their_order_and_a_panic_ends_one_of_them() {
        let (worker, order) = (worker(), Arc::new(Lock::new(Vec::new())));
        for number in 0..100 {
            let order = order.clone();
            worker.change_later(move |_| order.lock().push(number));
        }
        assert!(worker.change(|_| -> usize { panic!("a broken book") }).await.is_err());
        let seen = order.clone();
        assert_eq!(worker.change(move |_| seen.lock().len()).await, Ok(100));
        assert!(order.lock().is_sorted());
        assert!(worker.read(|_| -> usize { panic!("a broken book") }).await.is_err());
    }

    #[test]
    fn without_a_runtime_a_change_is_made_at_once() {
        let (worker, done) = (worker(), Arc::new(Lock::new(false)));
        let mark = done.clone();
        worker.change_later(move |_| *mark.lock() = true);
        assert!(*done.lock() && !worker.is_busy());
    }
}
