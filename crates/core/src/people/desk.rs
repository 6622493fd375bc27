//! Puts something that a person is asked on record, and waits for the first answer: from an attendant, or from the record.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use super::entry::Entry;
use super::watcher::{LOOK, Watched, Watcher};
use super::worker::BookWorker;
use super::{AnswerError, Book, Held, Inquiry, MemoryBook, Reply};
use crate::sync::Lock;
use crate::{BoxFuture, Host};

/// The longest time that a call which was stopped waits until its question is taken back. A book that is locked for longer is left
/// to its worker.
const WITHDRAWN_WITHIN: Duration = Duration::from_millis(500);

/// The records of one kind, and those in this process who wait for answers.
pub(super) struct Desk<R: Inquiry> {
    worker: Arc<BookWorker<R>>,
    watcher: Arc<Watcher<R>>,
    /// Keeps what the book could not take, so that a person can be asked all the same.
    spare: MemoryBook<R>,
    host: Arc<dyn Host>,
    /// Puts an answer into the journal.
    journal_answer: JournalAnswer<R>,
}

/// Puts an answer into the journal, and tells those who listen. Returns whether it is safe there.
pub(super) type JournalAnswer<R> = Box<dyn Fn(&R) -> BoxFuture<'static, bool> + Send + Sync>;

/// The end of waiting.
#[derive(Debug, Clone)]
pub(super) enum Waited<R> {
    /// A person answered.
    Answered(R),
    /// The question stays on record, for an answer that comes later.
    Deferred(R),
    /// Each attendant that was there could not ask a person, and why.
    Unavailable(Vec<String>),
    /// No answer came before the question expired.
    Expired,
    /// The question was taken back, or its answer used by another process.
    Withdrawn,
}

/// Asks one attendant.
pub(super) type AskingOne<A> = BoxFuture<'static, Reply<A>>;

impl<R: Inquiry> Desk<R> {
    pub(super) fn new(
        book: Option<Arc<dyn Book<R>>>,
        host: Arc<dyn Host>,
        journal_answer: JournalAnswer<R>,
    ) -> Self {
        let spare = MemoryBook::default();
        let book = book.unwrap_or_else(|| Arc::new(spare.clone()));
        let worker = Arc::new(BookWorker::new(book));
        let watcher = Arc::new(Watcher::new(worker.clone()));
        Self { worker, watcher, spare, host, journal_answer }
    }

    /// All records, the oldest first.
    pub(super) async fn list(&self) -> Result<Vec<R>, String> {
        self.worker.read(|book| book.list()).await.flatten()
    }

    /// Reads the book, without waiting for its lock.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Book<R>) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        self.worker.read(read).await.flatten()
    }

    /// Changes the book.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&dyn Book<R>) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        self.worker.change(change).await.flatten()
    }

    /// Removes a record, and wakes the call that waits for it.
    pub(super) async fn remove(&self, id: &str) -> Result<bool, String> {
        let key = id.to_owned();
        let removed = self.change(move |book| book.remove(&key)).await;
        self.watcher.wake(id);
        removed
    }

    /// Writes an answer to the record, and wakes the call that waits for it. That call journals the answer when it takes it; if none
    /// waits, the answer is journaled here.
    pub(super) async fn answer(&self, id: &str, answer: R::Answer) -> Result<(), AnswerError> {
        let (now, spare, key) = (self.now(), self.spare.clone(), id.to_owned());
        let settle = move |book: &dyn Book<R>| match spare.settle(&key, answer.clone(), now) {
            Err(AnswerError::Unknown) => {
                let is_awaited = book.is_held(&key).map_err(AnswerError::Record)?;
                book.settle(&key, answer, now).map(|settled| (settled, is_awaited))
            }
            settled => settled.map(|settled| (settled, true)),
        };
        let settled = self.worker.change(settle).await.map_err(AnswerError::Record).flatten();
        let (mut settled, is_awaited) = settled?;
        self.watcher.wake(id);
        if !is_awaited {
            self.journal(&mut settled).await;
        }
        Ok(())
    }

    /// Puts the answer of a record into the journal unless it is there, and notes in the book that it is.
    pub(super) async fn journal(&self, answered: &mut R) {
        if answered.is_journaled() || !(self.journal_answer)(answered).await {
            return;
        }
        answered.set_journaled();
        let id = answered.id().to_owned();
        let mark = move |book: &dyn Book<R>| book.update(&id, &mut R::set_journaled);
        // Without the mark, the answer is journaled once more when it is used.
        drop(self.change(mark).await);
    }

    /// Marks a record as waited for once no other one does, and returns whether another one did.
    pub(super) async fn claim(&self, id: &str) -> Result<(Held, bool), String> {
        let mut was_held = false;
        loop {
            if let Some(held) = self.try_claim(id).await? {
                return Ok((held, was_held));
            }
            was_held = true;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Marks a record as waited for, unless another one does.
    pub(super) async fn try_claim(&self, id: &str) -> Result<Option<Held>, String> {
        let id = id.to_owned();
        self.change(move |book| book.claim(&id)).await
    }

    /// Asks, and waits for the first answer. `begin` asks the attendants that are there and were not asked yet. If this future is
    /// dropped, the question is taken back.
    pub(super) async fn ask(
        &self,
        record: R,
        begin: impl FnMut() -> Vec<AskingOne<R::Answer>>,
        arrivals: watch::Receiver<u64>,
    ) -> Waited<R> {
        let expires = record.expires();
        let mut open = self.open(record.id());
        let spare = self.spare.clone();
        let put = open.with(move |entry| entry.put(&record, spare)).await;
        let mut waited = match put {
            Ok(()) => self.wait(&open, expires, begin, arrivals).await,
            Err(why) => Err(why),
        };
        if let Ok(Waited::Answered(answered)) = &mut waited {
            self.journal(answered).await;
        }
        // A book that fails leaves the question to be taken back.
        open.is_awaited = waited.is_err();
        waited.unwrap_or_else(|why| Waited::Unavailable(vec![why]))
    }

    async fn wait(
        &self,
        open: &Open<R>,
        expires: SystemTime,
        mut begin: impl FnMut() -> Vec<AskingOne<R::Answer>>,
        mut arrivals: watch::Receiver<u64>,
    ) -> Result<Waited<R>, String> {
        let expired = tokio::time::sleep(expires.duration_since(self.now()).unwrap_or_default());
        tokio::pin!(expired);
        let mut asked: FuturesUnordered<_> = begin().into_iter().collect();
        let (mut is_deferred, mut unavailable) = (false, Vec::new());
        loop {
            if asked.is_empty() {
                asked.extend(begin());
            }
            let now = self.now();
            if asked.is_empty() {
                return open.with(move |entry| entry.end(is_deferred, unavailable, now)).await;
            }
            let waited = tokio::select! {
                biased;
                () = open.watched.changed() => self.look(open).await?,
                Some(reply) = asked.next() => match reply {
                    Reply::Answered(answer) => self.settle(open, answer, &mut unavailable).await?,
                    Reply::Deferred => {
                        is_deferred = true;
                        None
                    }
                    Reply::Unavailable(why) => {
                        unavailable.push(why);
                        None
                    }
                },
                Ok(()) = arrivals.changed() => {
                    asked.extend(begin());
                    None
                }
                () = &mut expired => {
                    let now = self.now();
                    Some(open.with(move |entry| entry.expire(now)).await?)
                }
            };
            if let Some(waited) = waited {
                return Ok(waited);
            }
        }
    }

    async fn look(&self, open: &Open<R>) -> Result<Option<Waited<R>>, String> {
        let now = self.now();
        open.with(move |entry| entry.look(now)).await
    }

    /// Writes the answer of an attendant to the record.
    async fn settle(
        &self,
        open: &Open<R>,
        answer: R::Answer,
        unavailable: &mut Vec<String>,
    ) -> Result<Option<Waited<R>>, String> {
        let now = self.now();
        let (waited, settled) = open.with(move |entry| entry.settle(answer, now)).await?;
        match settled {
            Ok(_) | Err(AnswerError::Answered | AnswerError::Unknown) => {}
            Err(error) => unavailable.push(error.to_string()),
        }
        Ok(waited)
    }

    /// Waits, for a short time at most, until the questions of calls that were stopped are taken back.
    pub(super) async fn catch_up(&self) {
        if self.worker.is_busy() {
            drop(tokio::time::timeout(WITHDRAWN_WITHIN, self.worker.change(|_| ())).await);
        }
    }

    fn open(&self, id: &str) -> Open<R> {
        Open {
            worker: self.worker.clone(),
            entry: Arc::new(Lock::new(Entry::new(self.worker.book().clone(), id))),
            // Before the record is there, so that no change of it is missed.
            watched: self.watcher.watch(id),
            is_awaited: true,
        }
    }

    fn now(&self) -> SystemTime {
        self.host.clock().now()
    }
}

/// A question that a call of this process waits for. It is taken back if this is dropped before the waiting has ended.
struct Open<R: Inquiry> {
    worker: Arc<BookWorker<R>>,
    /// Locked by the worker alone.
    entry: Arc<Lock<Entry<R>>>,
    watched: Watched<R>,
    is_awaited: bool,
}

impl<R: Inquiry> Open<R> {
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Entry<R>) -> T + Send + 'static,
    ) -> Result<T, String> {
        let entry = self.entry.clone();
        self.worker.change(move |_| work(&mut entry.lock())).await
    }
}

impl<R: Inquiry> Drop for Open<R> {
    fn drop(&mut self) {
        if self.is_awaited {
            let entry = self.entry.clone();
            self.worker.change_later(move |_| entry.lock().withdraw());
        }
    }
}
