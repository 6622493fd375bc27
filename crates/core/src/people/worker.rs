//! Reads and changes a book on threads where its disk and lock delay no call.
//!
//! One thread for each book makes the changes, in the order in which they were requested: a lock that another process holds stops that
//! thread alone, however many questions wait. Reads take no lock, and so do not wait for changes.

use super::BookError;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{Inquiry, InquiryBook};
use crate::sync::Lock;

/// A book, and the changes that wait to be made in it.
pub(super) struct BookWorker<R: Inquiry> {
    book: Arc<dyn InquiryBook<R>>,
    queue: Arc<Lock<Queue>>,
}

/// Changes that wait.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// True while a thread makes the changes.
    is_running: bool,
}

/// A change of the book, with the book bound to it.
type Job = Box<dyn FnOnce() + Send>;

/// Runs all jobs of a queue when it is dropped: on a thread for blocking work or, if the runtime has ended, on the thread that
/// created it.
struct QueueRunner(Arc<Lock<Queue>>);

impl<R: Inquiry> BookWorker<R> {
    pub(super) fn new(book: Arc<dyn InquiryBook<R>>) -> Self {
        Self { book, queue: Arc::default() }
    }

    pub(super) fn book(&self) -> &Arc<dyn InquiryBook<R>> {
        &self.book
    }

    /// Reads the book. The result may be older than changes that wait in the queue.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn InquiryBook<R>) -> T + Send + 'static,
    ) -> Result<T, BookError> {
        let book = self.book.clone();
        let reading = tokio::task::spawn_blocking(move || read(&*book));
        reading.await.map_err(|_| book_panicked())
    }

    /// Changes the book after all changes that were requested before. The change is also made if this future is dropped.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&dyn InquiryBook<R>) -> T + Send + 'static,
    ) -> Result<T, BookError> {
        let (sender, changed) = oneshot::channel();
        self.queue_change(move |book| drop(sender.send(change(book))));
        changed.await.map_err(|_| book_panicked())
    }

    /// Queues a change without waiting for it.
    pub(super) fn queue_change(&self, change: impl FnOnce(&dyn InquiryBook<R>) + Send + 'static) {
        let book = self.book.clone();
        let mut queue = self.queue.lock();
        queue.jobs.push_back(Box::new(move || change(&*book)));
        if std::mem::replace(&mut queue.is_running, true) {
            return;
        }
        drop(queue);
        let runner = QueueRunner(self.queue.clone());
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn_blocking(move || drop(runner)));
        }
    }

    /// Returns whether a change waits or is being made.
    pub(super) fn is_busy(&self) -> bool {
        self.queue.lock().is_running
    }
}

impl Queue {
    /// Takes the next job, and notes if there is none left.
    fn next(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front();
        self.is_running = job.is_some();
        job
    }
}

impl Drop for QueueRunner {
    fn drop(&mut self) {
        loop {
            let Some(job) = self.0.lock().next() else { return };
            // The caller that waits for the result gets the panic as an error, and the other jobs go on.
            drop(catch_unwind(AssertUnwindSafe(job)));
        }
    }
}

/// Returns the error text for a book that panicked.
fn book_panicked() -> BookError {
    BookError("the book of questions and answers failed with a panic".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Approval, MemoryBook};

    fn worker() -> BookWorker<Approval> {
        BookWorker::new(Arc::new(MemoryBook::default()))
    }

    #[tokio::test]
    async fn changes_are_made_in_order_and_a_panic_ends_only_its_own() {
        let (worker, order) = (worker(), Arc::new(Lock::new(Vec::new())));
        for number in 0..100 {
            let order = order.clone();
            worker.queue_change(move |_| order.lock().push(number));
        }
        assert!(worker.change(|_| -> usize { panic!("a broken book") }).await.is_err());
        let seen = order.clone();
        assert_eq!(worker.change(move |_| seen.lock().len()).await, Ok(100));
        assert!(order.lock().is_sorted());
        assert!(worker.read(|_| -> usize { panic!("a broken book") }).await.is_err());
    }

    #[test]
    fn change_without_a_runtime_is_made_at_once() {
        let (worker, done) = (worker(), Arc::new(Lock::new(false)));
        let mark = done.clone();
        worker.queue_change(move |_| *mark.lock() = true);
        assert!(*done.lock() && !worker.is_busy());
    }
}
