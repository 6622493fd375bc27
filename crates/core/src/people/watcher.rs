//! Watches a book for all calls of this process that wait for answers from it.
//!
//! One task looks at the version of the book at intervals, reads the book when the version is another, and wakes the calls whose
//! records are answered or gone. It runs while a call waits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::worker::BookWorker;
use super::{Book, Inquiry, InquiryState};
use crate::sync::Lock;

/// The time between two looks at the book while an answer may come from another process.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// The calls that wait for answers in one book.
pub(super) struct Watcher<R: Inquiry> {
    worker: Arc<BookWorker<R>>,
    waiting: Lock<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// The calls, by the ids of their records.
    calls: HashMap<String, Arc<Notify>>,
    is_watched: bool,
}

/// A record that a call waits for, until this is dropped.
pub(super) struct Watched<R: Inquiry> {
    watcher: Arc<Watcher<R>>,
    id: String,
    changed: Arc<Notify>,
}

/// The watching task's part. When it ends early, because its runtime does, one of the calls that wait begins another.
struct Watching<R: Inquiry>(Arc<Watcher<R>>);

impl<R: Inquiry> Watcher<R> {
    pub(super) fn new(worker: Arc<BookWorker<R>>) -> Self {
        Self { worker, waiting: Lock::default() }
    }

    /// Watches a record that is about to be put on the book.
    pub(super) fn watch(self: &Arc<Self>, id: &str) -> Watched<R> {
        let changed = Arc::<Notify>::default();
        self.waiting.lock().calls.insert(id.to_owned(), changed.clone());
        Watched { watcher: self.clone(), id: id.to_owned(), changed }
    }

    /// Wakes the call that waits for a record.
    pub(super) fn wake(&self, id: &str) {
        if let Some(changed) = self.waiting.lock().calls.get(id) {
            changed.notify_one();
        }
    }

    fn begin_watching(self: &Arc<Self>) {
        if std::mem::replace(&mut self.waiting.lock().is_watched, true) {
            return;
        }
        let watching = Watching(self.clone());
        drop(tokio::spawn(async move { watching.run().await }));
    }

    /// Wakes the calls whose records are not among the open ones.
    fn wake_all_but(&self, open: &HashSet<String>) {
        for (id, changed) in &self.waiting.lock().calls {
            if !open.contains(id) {
                changed.notify_one();
            }
        }
    }
}

impl<R: Inquiry> Watched<R> {
    /// Waits until the record may be answered or gone.
    pub(super) async fn changed(&self) {
        self.watcher.begin_watching();
        self.changed.notified().await;
    }
}

impl<R: Inquiry> Drop for Watched<R> {
    fn drop(&mut self) {
        self.watcher.waiting.lock().calls.remove(&self.id);
    }
}

impl<R: Inquiry> Watching<R> {
    async fn run(self) {
        let mut seen = None;
        while !self.0.waiting.lock().calls.is_empty() {
            let look = move |book: &dyn Book<R>| open_records(book, seen);
            // A book that cannot be read now may be readable at the next look.
            if let Ok(Some((version, open))) = self.0.worker.read(look).await {
                seen = Some(version);
                self.0.wake_all_but(&open);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl<R: Inquiry> Drop for Watching<R> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        waiting.is_watched = false;
        // A call may have come after the last look.
        waiting.calls.values().for_each(|changed| changed.notify_one());
    }
}

/// The version of a book that is not the one seen before, and the ids of the records in it that are not answered.
fn open_records<R: Inquiry>(
    book: &dyn Book<R>,
    seen: Option<u64>,
) -> Option<(u64, HashSet<String>)> {
    let version = book.version();
    if seen == Some(version) {
        return None;
    }
    // An answer that has expired since is for the call to judge.
    let is_open = |one: &R| one.state(one.asked()) == InquiryState::Open;
    let all = book.list().ok()?;
    let open = all.iter().filter(|one| is_open(one)).map(|one| one.id().to_owned());
    Some((version, open.collect()))
}
