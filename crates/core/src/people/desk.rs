//! Puts a question on record, and waits for the first answer: from an attendant, or from another process through the record.

use super::BookError;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use super::awaited::AwaitedRecord;
use super::watcher::{POLL_INTERVAL, WatchedRecord, Watcher};
use super::worker::BookWorker;
use super::{AnswerError, AttendantReply, Inquiry, InquiryBook, MemoryBook, WaitGuard};
use crate::sync::Lock;
use crate::{BoxFuture, Host};

/// Maximum time that a stopped call waits until its question is withdrawn. If a book is locked for longer, the worker withdraws it
/// later.
const MAX_WITHDRAW_WAIT: Duration = Duration::from_millis(500);

/// Asks the questions of one kind (approvals, or questions of tools), with their book and the calls that wait.
pub(super) struct Desk<R: Inquiry> {
    worker: Arc<BookWorker<R>>,
    watcher: Arc<Watcher<R>>,
    /// Keeps records that the book could not take, so that a person can be asked all the same.
    spare: MemoryBook<R>,
    host: Arc<dyn Host>,
    /// Callback that writes an answer to the journal.
    journal_answer: JournalAnswer<R>,
}

/// Writes an answer to the journal, and publishes it. Returns whether it is safe there.
pub(super) type JournalAnswer<R> = Box<dyn Fn(&R) -> BoxFuture<'static, bool> + Send + Sync>;

/// Result of waiting for an answer.
#[derive(Debug, Clone)]
pub(super) enum WaitResult<R> {
    /// A person answered.
    Answered(R),
    /// The question stays on record, for a later answer.
    Deferred(R),
    /// No attendant could ask a person, for these reasons.
    Unavailable(Vec<String>),
    /// No answer came before the question expired.
    Expired,
    /// The question was withdrawn, or another process used its answer.
    Withdrawn,
}

/// Future that asks one attendant.
pub(super) type AskFuture<A> = BoxFuture<'static, AttendantReply<A>>;

impl<R: Inquiry> Desk<R> {
    /// Makes a desk with a book, or with one in memory.
    pub(super) fn new(
        book: Option<Arc<dyn InquiryBook<R>>>,
        host: Arc<dyn Host>,
        journal_answer: JournalAnswer<R>,
    ) -> Self {
        let spare = MemoryBook::default();
        let book = book.unwrap_or_else(|| Arc::new(spare.clone()));
        let worker = Arc::new(BookWorker::new(book));
        let watcher = Arc::new(Watcher::new(worker.clone()));
        Self { worker, watcher, spare, host, journal_answer }
    }

    /// Returns the version of the book.
    pub(super) fn version(&self) -> u64 {
        self.worker.book().version()
    }

    /// Returns all records, the oldest first.
    pub(super) async fn list(&self) -> Result<Vec<R>, BookError> {
        self.worker.read(|book| book.list()).await.flatten()
    }

    /// Reads the book without waiting for its lock.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn InquiryBook<R>) -> Result<T, BookError> + Send + 'static,
    ) -> Result<T, BookError> {
        self.worker.read(read).await.flatten()
    }

    /// Changes the book.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&dyn InquiryBook<R>) -> Result<T, BookError> + Send + 'static,
    ) -> Result<T, BookError> {
        self.worker.change(change).await.flatten()
    }

    /// Removes a record, and wakes the call that waits for it.
    pub(super) async fn remove(&self, id: &str) -> Result<bool, BookError> {
        let key = id.to_owned();
        let removed = self.change(move |book| book.remove(&key)).await;
        self.watcher.wake(id);
        removed
    }

    /// Writes an answer to the record, and wakes the call that waits for it. That call journals the answer when it takes it; if none
    /// waits, the answer is journaled here.
    pub(super) async fn answer(&self, id: &str, answer: R::Answer) -> Result<(), AnswerError> {
        let (now, spare, key) = (self.now(), self.spare.clone(), id.to_owned());
        let settle =
            move |book: &dyn InquiryBook<R>| match spare.write_answer(&key, answer.clone(), now) {
                Err(AnswerError::Unknown) => {
                    let is_awaited = book.is_held(&key).map_err(AnswerError::Record)?;
                    book.write_answer(&key, answer, now).map(|settled| (settled, is_awaited))
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

    /// Writes the answer of a record to the journal unless it is there, and notes that in the book.
    pub(super) async fn journal(&self, answered: &mut R) {
        if answered.is_journaled() || !(self.journal_answer)(answered).await {
            return;
        }
        answered.set_journaled();
        let id = answered.id().to_owned();
        let mark = move |book: &dyn InquiryBook<R>| book.update(&id, &mut R::set_journaled);
        // Without the note, the answer is journaled once more when it is used.
        drop(self.change(mark).await);
    }

    /// Marks a record as waited for as soon as no other call does. Returns the mark, and whether another call had it before.
    pub(super) async fn claim(&self, id: &str) -> Result<(WaitGuard, bool), BookError> {
        let mut was_held = false;
        loop {
            if let Some(held) = self.try_claim(id).await? {
                return Ok((held, was_held));
            }
            was_held = true;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Marks a record as waited for, or returns `None` if another call does.
    pub(super) async fn try_claim(&self, id: &str) -> Result<Option<WaitGuard>, BookError> {
        let id = id.to_owned();
        self.change(move |book| book.claim(&id)).await
    }

    /// Asks, and waits for the first answer. `begin` starts the requests to attendants that were not asked yet. If this future is dropped,
    /// the question is withdrawn.
    pub(super) async fn ask(
        &self,
        record: R,
        begin: impl FnMut() -> Vec<AskFuture<R::Answer>>,
        arrivals: watch::Receiver<u64>,
    ) -> WaitResult<R> {
        let expires = record.expires();
        let mut open = self.open(record.id());
        let spare = self.spare.clone();
        let put = open.with_record(move |entry| entry.put(&record, spare)).await;
        let mut waited = match put {
            Ok(()) => self.wait(&open, expires, begin, arrivals).await,
            Err(why) => Err(why),
        };
        if let Ok(WaitResult::Answered(answered)) = &mut waited {
            self.journal(answered).await;
        }
        // After a failure of the book, dropping `open` withdraws the question.
        open.is_awaited = waited.is_err();
        waited.unwrap_or_else(|why| WaitResult::Unavailable(vec![why.to_string()]))
    }

    /// Waits for a reply of an attendant, an answer in the book, or the expiry.
    async fn wait(
        &self,
        open: &OpenInquiry<R>,
        expires: SystemTime,
        mut begin: impl FnMut() -> Vec<AskFuture<R::Answer>>,
        mut arrivals: watch::Receiver<u64>,
    ) -> Result<WaitResult<R>, BookError> {
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
                return open
                    .with_record(move |entry| entry.end_unattended(is_deferred, unavailable, now))
                    .await;
            }
            let waited = tokio::select! {
                biased;
                () = open.watched.changed() => self.check_answer(open).await?,
                Some(reply) = asked.next() => match reply {
                    AttendantReply::Answered(answer) => self.write_answer(open, answer, &mut unavailable).await?,
                    AttendantReply::Deferred => {
                        is_deferred = true;
                        None
                    }
                    AttendantReply::Unavailable(why) => {
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
                    Some(open.with_record(move |entry| entry.expire(now)).await?)
                }
            };
            if let Some(waited) = waited {
                return Ok(waited);
            }
        }
    }

    /// Checks if the record was answered or removed.
    async fn check_answer(
        &self,
        open: &OpenInquiry<R>,
    ) -> Result<Option<WaitResult<R>>, BookError> {
        let now = self.now();
        open.with_record(move |entry| entry.check_answer(now)).await
    }

    /// Writes the answer of an attendant to the record. Adds the reason to `unavailable` if the answer does not count.
    async fn write_answer(
        &self,
        open: &OpenInquiry<R>,
        answer: R::Answer,
        unavailable: &mut Vec<String>,
    ) -> Result<Option<WaitResult<R>>, BookError> {
        let now = self.now();
        let (waited, settled) =
            open.with_record(move |entry| entry.write_answer(answer, now)).await?;
        match settled {
            Ok(_) | Err(AnswerError::Answered | AnswerError::Unknown) => {}
            Err(error) => unavailable.push(error.to_string()),
        }
        Ok(waited)
    }

    /// Waits, for a short time at most, until the questions of stopped calls are withdrawn.
    pub(super) async fn catch_up(&self) {
        if self.worker.is_busy() {
            drop(tokio::time::timeout(MAX_WITHDRAW_WAIT, self.worker.change(|_| ())).await);
        }
    }

    /// Starts to watch a record that is about to be added.
    fn open(&self, id: &str) -> OpenInquiry<R> {
        OpenInquiry {
            worker: self.worker.clone(),
            entry: Arc::new(Lock::new(AwaitedRecord::new(self.worker.book().clone(), id))),
            // Before the record is there, so that no change of it is missed.
            watched: self.watcher.watch(id),
            is_awaited: true,
        }
    }

    /// Returns the time of the host.
    fn now(&self) -> SystemTime {
        self.host.clock().now()
    }
}

/// A question that a call of this process waits for. It is withdrawn if this is dropped before the waiting has ended.
struct OpenInquiry<R: Inquiry> {
    worker: Arc<BookWorker<R>>,
    /// Locked by the worker only.
    entry: Arc<Lock<AwaitedRecord<R>>>,
    watched: WatchedRecord<R>,
    /// False once the waiting has ended, so that dropping does not withdraw the question.
    is_awaited: bool,
}

impl<R: Inquiry> OpenInquiry<R> {
    /// Runs `work` on the record in the worker's thread.
    async fn with_record<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut AwaitedRecord<R>) -> T + Send + 'static,
    ) -> Result<T, BookError> {
        let entry = self.entry.clone();
        self.worker.change(move |_| work(&mut entry.lock())).await
    }
}

impl<R: Inquiry> Drop for OpenInquiry<R> {
    fn drop(&mut self) {
        if self.is_awaited {
            let entry = self.entry.clone();
            self.worker.queue_change(move |_| entry.lock().withdraw());
        }
    }
}
