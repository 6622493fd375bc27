//! The record of a question that a call of this process waits for. All of this may block.

use std::sync::Arc;
use std::time::SystemTime;

use super::desk::Waited;
use super::{AnswerError, Book, Held, Inquiry, InquiryState, MemoryBook};

/// One record, and the mark that says that it is waited for.
pub(super) struct Entry<R: Inquiry> {
    book: Arc<dyn Book<R>>,
    id: String,
    /// The reason why it is kept in memory only.
    not_on_record: Option<String>,
    held: Option<Held>,
}

impl<R: Inquiry> Entry<R> {
    pub(super) fn new(book: Arc<dyn Book<R>>, id: &str) -> Self {
        Self { book, id: id.to_owned(), not_on_record: None, held: None }
    }

    /// Puts the question on record, marked as waited for; into the spare book if its own cannot take it.
    pub(super) fn put(&mut self, record: &R, spare: MemoryBook<R>) {
        let held = self.book.hold(&self.id);
        let put = held.and_then(|held| self.book.put(record).map(|()| held));
        let why = match put {
            Ok(held) => {
                self.held = Some(held);
                return;
            }
            Err(why) => why,
        };
        // A book in memory takes everything.
        drop(spare.put(record));
        self.held = spare.hold(&self.id).ok();
        self.book = Arc::new(spare);
        self.not_on_record = Some(format!("the question cannot be put on record: {why}"));
    }

    /// Returns the end of waiting, if the record says that it has come.
    pub(super) fn look(&mut self, now: SystemTime) -> Option<Waited<R>> {
        // A book that cannot be read now may be readable at the next look.
        let all = self.book.list().ok()?;
        let Some(found) = all.into_iter().find(|one| one.id() == self.id) else {
            self.held = None;
            return Some(Waited::Withdrawn);
        };
        let is_answered = found.state(now) == InquiryState::Answered;
        is_answered.then(|| self.take(now)).flatten()
    }

    /// Writes the answer of an attendant. Returns the end of waiting if there is an answer by now, and the record with this answer or
    /// why it does not count.
    pub(super) fn settle(
        &mut self,
        answer: R::Answer,
        now: SystemTime,
    ) -> (Option<Waited<R>>, Result<R, AnswerError>) {
        let settled = self.book.settle(&self.id, answer, now);
        // If it comes second, the first one is on record. If it does not fit, another attendant may do better.
        (self.look(now), settled)
    }

    /// Takes the record, and returns its answer if there is one.
    fn take(&mut self, now: SystemTime) -> Option<Waited<R>> {
        let taken = self.book.take(&self.id);
        // Only now: an answer that comes from another process is either taken here or left to that one.
        self.held = None;
        let record = match taken {
            Ok(Some(record)) => record,
            Ok(None) => return Some(Waited::Withdrawn),
            Err(why) => return Some(Waited::Unavailable(vec![why])),
        };
        if record.state(now) != InquiryState::Answered {
            return None;
        }
        if let Some(kept) = record.clone().after_use() {
            // What cannot be remembered is asked again.
            drop(self.book.put(&kept));
        }
        Some(Waited::Answered(record))
    }

    /// Ends a question that no attendant asks any more: one that is deferred stays on record if it is there, another one is closed.
    pub(super) fn end(
        &mut self,
        is_deferred: bool,
        mut why: Vec<String>,
        now: SystemTime,
    ) -> Waited<R> {
        if is_deferred && self.not_on_record.is_none() {
            return self.defer(now);
        }
        why.extend(self.not_on_record.take());
        self.take(now).unwrap_or(Waited::Unavailable(why))
    }

    fn defer(&mut self, now: SystemTime) -> Waited<R> {
        if let Some(waited) = self.look(now) {
            return waited;
        }
        let all = self.book.list().unwrap_or_default();
        self.held = None;
        let found = all.into_iter().find(|one| one.id() == self.id);
        found.map_or(Waited::Withdrawn, Waited::Deferred)
    }

    /// Leaves the question on record as expired, so that an answer that comes too late is told so.
    pub(super) fn expire(&mut self, now: SystemTime) -> Waited<R> {
        let waited = self.look(now).unwrap_or(Waited::Expired);
        self.held = None;
        waited
    }

    /// Takes the question back, unless the waiting for it has ended.
    pub(super) fn withdraw(&mut self) {
        if self.held.is_some() {
            drop(self.book.take(&self.id));
            self.held = None;
        }
    }
}
