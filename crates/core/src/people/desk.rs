//! Puts something that a person is asked on record, and waits for the first answer: from an attendant, or from the record.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};

use super::{AnswerError, Book, Held, Inquiry, InquiryState, MemoryBook, Reply};
use crate::{BoxFuture, Clock};

/// The time between two looks at the book while an answer may come from another process.
const LOOK: Duration = Duration::from_millis(100);

/// The records of one kind, and those in this process who wait for answers.
pub(super) struct Desk<R: Inquiry> {
    book: Arc<dyn Book<R>>,
    /// Keeps what the book could not take, so that a person can be asked all the same.
    spare: MemoryBook<R>,
    /// An answer was given in this process.
    answered: Notify,
    /// Puts on record what was answered.
    on_answer: OnAnswer<R>,
}

/// Is told of each answer that this process writes to a book.
pub(super) type OnAnswer<R> = Box<dyn Fn(&R) + Send + Sync>;

/// The end of waiting.
#[derive(Debug, Clone)]
pub(super) enum Waited<R> {
    /// A person answered.
    Answered(R),
    /// The question stays on record, for an answer that comes later.
    Deferred(R),
    /// Each attendant that was there could not ask a person, and why.
    Unavailable(Vec<String>),
    /// Nobody answered before the question expired.
    Expired,
    /// The question was taken back, or its answer used by another process.
    Withdrawn,
}

/// Asks one attendant.
pub(super) type AskingOne<A> = BoxFuture<'static, Reply<A>>;

impl<R: Inquiry> Desk<R> {
    pub(super) fn new(book: Option<Arc<dyn Book<R>>>, on_answer: OnAnswer<R>) -> Self {
        let spare = MemoryBook::default();
        let book = book.unwrap_or_else(|| Arc::new(spare.clone()));
        Self { book, spare, answered: Notify::new(), on_answer }
    }

    pub(super) fn book(&self) -> &dyn Book<R> {
        &*self.book
    }

    /// Writes an answer to the record, and wakes the call that waits for it.
    pub(super) fn answer(
        &self,
        id: &str,
        answer: R::Answer,
        clock: &dyn Clock,
    ) -> Result<(), AnswerError> {
        let now = clock.now();
        let settled = match self.spare.settle(id, answer.clone(), now) {
            Err(AnswerError::Unknown) => self.book.settle(id, answer, now),
            settled => settled,
        };
        (self.on_answer)(&settled?);
        self.answered.notify_waiters();
        Ok(())
    }

    /// Asks, and waits for the first answer. `begin` asks the attendants that are there and were not asked yet. If this future is
    /// dropped, the question is taken back.
    pub(super) async fn ask(
        &self,
        record: R,
        mut begin: impl FnMut() -> Vec<AskingOne<R::Answer>>,
        mut arrivals: watch::Receiver<u64>,
        clock: &dyn Clock,
    ) -> Waited<R> {
        let mut open = self.put(&record);
        let expires = record.expires().duration_since(clock.now()).unwrap_or_default();
        let expired = tokio::time::sleep(expires);
        tokio::pin!(expired);
        let mut asked: FuturesUnordered<_> = begin().into_iter().collect();
        let (mut is_deferred, mut unavailable) = (false, Vec::new());
        loop {
            let answered = self.answered.notified();
            tokio::pin!(answered);
            answered.as_mut().enable();
            if let Some(waited) = open.look(clock) {
                return waited;
            }
            if asked.is_empty() {
                asked.extend(begin());
            }
            if asked.is_empty() {
                if is_deferred && open.not_on_record.is_none() {
                    return open.defer(clock);
                }
                unavailable.extend(open.not_on_record.take());
                return open.close(clock, unavailable);
            }
            tokio::select! {
                biased;
                () = answered => {}
                Some(reply) = asked.next() => match reply {
                    Reply::Answered(answer) => {
                        // If it comes second, the first one is on record. If it does not fit, another attendant may do better.
                        match open.book.settle(record.id(), answer, clock.now()) {
                            Ok(settled) => (self.on_answer)(&settled),
                            Err(AnswerError::Answered | AnswerError::Unknown) => {}
                            Err(error) => unavailable.push(error.to_string()),
                        }
                    }
                    Reply::Deferred => is_deferred = true,
                    Reply::Unavailable(why) => unavailable.push(why),
                },
                Ok(()) = arrivals.changed() => asked.extend(begin()),
                () = tokio::time::sleep(LOOK) => {}
                () = &mut expired => return open.expire(clock),
            }
        }
    }

    /// Waits while a call, in whichever process, waits for a question. Returns whether one did.
    pub(super) async fn wait_for_asker(&self, id: &str) -> Result<bool, String> {
        let mut was_held = false;
        while self.book.is_held(id)? {
            was_held = true;
            tokio::time::sleep(LOOK).await;
        }
        Ok(was_held)
    }

    /// Puts a question on record, marked as waited for.
    fn put(&self, record: &R) -> Open<'_, R> {
        let held = self.book.hold(record.id());
        let put = held.and_then(|held| self.book.put(record).map(|()| held));
        let why = match put {
            Ok(held) => return Open::new(&*self.book, record, Some(held)),
            Err(why) => why,
        };
        // A book in memory takes everything.
        drop(self.spare.put(record));
        let mut open = Open::new(&self.spare, record, self.spare.hold(record.id()).ok());
        open.not_on_record = Some(format!("the question cannot be put on record: {why}"));
        open
    }
}

/// A question that this process waits for. It is taken back if this is dropped before it is answered.
struct Open<'a, R: Inquiry> {
    book: &'a dyn Book<R>,
    id: String,
    /// The reason why it is kept in memory only.
    not_on_record: Option<String>,
    /// The version of the book that was last looked at.
    seen: Option<u64>,
    held: Option<Held>,
}

impl<'a, R: Inquiry> Open<'a, R> {
    fn new(book: &'a dyn Book<R>, record: &R, held: Option<Held>) -> Self {
        Self { book, id: record.id().to_owned(), not_on_record: None, seen: None, held }
    }

    /// Returns the end of waiting, if the record says that it has come.
    fn look(&mut self, clock: &dyn Clock) -> Option<Waited<R>> {
        let version = self.book.version();
        if self.seen.replace(version) == Some(version) {
            return None;
        }
        // A book that cannot be read now may be readable at the next look.
        let all = self.book.list().ok()?;
        let Some(found) = all.into_iter().find(|one| one.id() == self.id) else {
            self.held = None;
            return Some(Waited::Withdrawn);
        };
        let is_answered = found.state(clock.now()) == InquiryState::Answered;
        is_answered.then(|| self.take(clock)).flatten()
    }

    /// Takes the record, and returns its answer if there is one.
    fn take(&mut self, clock: &dyn Clock) -> Option<Waited<R>> {
        let taken = self.book.take(&self.id);
        // Only now: an answer that comes from another process is either taken here or left to that one.
        self.held = None;
        let record = match taken {
            Ok(Some(record)) => record,
            Ok(None) => return Some(Waited::Withdrawn),
            Err(why) => return Some(Waited::Unavailable(vec![why])),
        };
        if record.state(clock.now()) != InquiryState::Answered {
            return None;
        }
        if let Some(kept) = record.clone().after_use() {
            // What cannot be remembered is asked again.
            drop(self.book.put(&kept));
        }
        Some(Waited::Answered(record))
    }

    /// Closes a question that no attendant could ask.
    fn close(mut self, clock: &dyn Clock, why: Vec<String>) -> Waited<R> {
        self.take(clock).unwrap_or(Waited::Unavailable(why))
    }

    /// Leaves the question on record.
    fn defer(mut self, clock: &dyn Clock) -> Waited<R> {
        self.seen = None;
        if let Some(waited) = self.look(clock) {
            return waited;
        }
        let found =
            self.book.list().unwrap_or_default().into_iter().find(|one| one.id() == self.id);
        self.held = None;
        found.map_or(Waited::Withdrawn, Waited::Deferred)
    }

    /// Leaves the question on record as expired, so that an answer that comes too late is told so.
    fn expire(mut self, clock: &dyn Clock) -> Waited<R> {
        let waited = self.look(clock).unwrap_or(Waited::Expired);
        self.held = None;
        waited
    }
}

impl<R: Inquiry> Drop for Open<'_, R> {
    fn drop(&mut self) {
        // Without the mark, the question is closed or left on record.
        if self.held.is_some() {
            drop(self.book.take(&self.id));
        }
    }
}
