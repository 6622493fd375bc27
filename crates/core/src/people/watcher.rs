//! Watches a book for all calls of this process that wait for answers from it.
//!
//! One task checks the version of the book at intervals, reads the book when the version has changed, and wakes the calls whose records
//! are answered or gone. It runs while a call waits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::worker::BookWorker;
use super::{Inquiry, InquiryBook, InquiryState};
use crate::sync::Lock;

/// Time between two checks of the book while an answer may come from another process.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The calls that wait for answers in one book.
pub(super) struct Watcher<R: Inquiry> {
    worker: Arc<BookWorker<R>>,
    waiting: Lock<WaitingCalls>,
}

/// Calls that wait, and the state of the task that watches for them.
#[derive(Default)]
struct WaitingCalls {
    /// Notifiers of the calls, by the ids of their records.
    calls: HashMap<String, Arc<Notify>>,
    /// True while a task watches the book.
    is_watched: bool,
}

/// A record that a call waits for. Watching ends when this is dropped.
pub(super) struct WatchedRecord<R: Inquiry> {
    watcher: Arc<Watcher<R>>,
    id: String,
    changed: Arc<Notify>,
}

/// The watching task. If it ends early, because its runtime ended, one of the waiting calls starts another.
struct WatchTask<R: Inquiry>(Arc<Watcher<R>>);

impl<R: Inquiry> Watcher<R> {
    pub(super) fn new(worker: Arc<BookWorker<R>>) -> Self {
        Self { worker, waiting: Lock::default() }
    }

    /// Watches a record that is about to be added to the book.
    pub(super) fn watch(self: &Arc<Self>, id: &str) -> WatchedRecord<R> {
        let changed = Arc::<Notify>::default();
        self.waiting.lock().calls.insert(id.to_owned(), changed.clone());
        WatchedRecord { watcher: self.clone(), id: id.to_owned(), changed }
    }

    /// Wakes the call that waits for a record.
    pub(super) fn wake(&self, id: &str) {
        if let Some(changed) = self.waiting.lock().calls.get(id) {
            changed.notify_one();
        }
    }

    /// Starts the watching task unless it runs.
    fn begin_watching(self: &Arc<Self>) {
        if std::mem::replace(&mut self.waiting.lock().is_watched, true) {
            return;
        }
        let watching = WatchTask(self.clone());
        drop(tokio::spawn(async move { watching.run().await }));
    }

    /// Wakes the calls whose records are not open any more.
    fn wake_all_but(&self, open: &HashSet<String>) {
        for (id, changed) in &self.waiting.lock().calls {
            if !open.contains(id) {
                changed.notify_one();
            }
        }
    }
}

impl<R: Inquiry> WatchedRecord<R> {
    /// Waits until the record may have been answered or removed.
    pub(super) async fn changed(&self) {
        self.watcher.begin_watching();
        self.changed.notified().await;
    }
}

impl<R: Inquiry> Drop for WatchedRecord<R> {
    fn drop(&mut self) {
        self.watcher.waiting.lock().calls.remove(&self.id);
    }
}

impl<R: Inquiry> WatchTask<R> {
    /// Checks the book at intervals until no call waits.
    async fn run(self) {
        let mut seen = None;
        while !self.0.waiting.lock().calls.is_empty() {
            let read_open = move |book: &dyn InquiryBook<R>| open_records(book, seen);
            // A book that cannot be read now may be readable at the next check.
            if let Ok(Some((version, open))) = self.0.worker.read(read_open).await {
                seen = Some(version);
                self.0.wake_all_but(&open);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl<R: Inquiry> Drop for WatchTask<R> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        waiting.is_watched = false;
        // A call may have come after the last check.
        waiting.calls.values().for_each(|changed| changed.notify_one());
    }
}

/// Returns the version of a book and the ids of its open records, or `None` if the version is still `seen` or the book cannot be read.
fn open_records<R: Inquiry>(
    book: &dyn InquiryBook<R>,
    seen: Option<u64>,
) -> Option<(u64, HashSet<String>)> {
    let version = book.version();
    if seen == Some(version) {
        return None;
    }
    // The call itself checks if an answer has expired since.
    let is_open = |one: &R| one.state(one.asked()) == InquiryState::Open;
    let all = book.list().ok()?;
    let open = all.iter().filter(|one| is_open(one)).map(|one| one.id().to_owned());
    Some((version, open.collect()))
}
