//! The record of a question that a call of this process waits for. All of this may block.

use std::sync::Arc;
use std::time::SystemTime;

use super::desk::WaitResult;
use super::{AnswerError, Inquiry, InquiryBook, InquiryState, MemoryBook, WaitGuard};

/// One record in a book, and the mark that a call waits for it.
pub(super) struct AwaitedRecord<R: Inquiry> {
    book: Arc<dyn InquiryBook<R>>,
    id: String,
    /// The reason why the record is kept in memory only, if it is.
    not_on_record: Option<String>,
    /// The mark; `None` once the waiting has ended.
    held: Option<WaitGuard>,
}

impl<R: Inquiry> AwaitedRecord<R> {
    /// Makes the entry; [`AwaitedRecord::put`] must follow.
    pub(super) fn new(book: Arc<dyn InquiryBook<R>>, id: &str) -> Self {
        Self { book, id: id.to_owned(), not_on_record: None, held: None }
    }

    /// Puts the question on record, marked as waited for. Uses the spare book in memory if the book fails.
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
        // A book in memory never fails.
        drop(spare.put(record));
        self.held = spare.hold(&self.id).ok();
        self.book = Arc::new(spare);
        self.not_on_record = Some(format!("the question cannot be put on record: {why}"));
    }

    /// Returns the result of waiting if the record was answered or removed.
    pub(super) fn check_answer(&mut self, now: SystemTime) -> Option<WaitResult<R>> {
        // A book that cannot be read now may be readable next time.
        let all = self.book.list().ok()?;
        let Some(found) = all.into_iter().find(|one| one.id() == self.id) else {
            self.held = None;
            return Some(WaitResult::Withdrawn);
        };
        let is_answered = found.state(now) == InquiryState::Answered;
        is_answered.then(|| self.take_answer(now)).flatten()
    }

    /// Writes the answer of an attendant. Returns the result of waiting if there is an answer now, and either the record with this answer
    /// or the reason why the answer does not count.
    pub(super) fn write_answer(
        &mut self,
        answer: R::Answer,
        now: SystemTime,
    ) -> (Option<WaitResult<R>>, Result<R, AnswerError>) {
        let settled = self.book.write_answer(&self.id, answer, now);
        // If another answer came first, that one is on record. If this one does not fit, another attendant may give a better one.
        (self.check_answer(now), settled)
    }

    /// Takes the record from the book, and returns its answer if there is one.
    fn take_answer(&mut self, now: SystemTime) -> Option<WaitResult<R>> {
        let taken = self.book.take(&self.id);
        // Released only after the take: an answer from another process is either taken here or left to that process.
        self.held = None;
        let record = match taken {
            Ok(Some(record)) => record,
            Ok(None) => return Some(WaitResult::Withdrawn),
            Err(why) => return Some(WaitResult::Unavailable(vec![why.to_string()])),
        };
        if record.state(now) != InquiryState::Answered {
            return None;
        }
        if let Some(kept) = record.clone().after_use() {
            // If it cannot be stored, a person is asked again.
            drop(self.book.put(&kept));
        }
        Some(WaitResult::Answered(record))
    }

    /// Ends a question that no attendant asks any more: a deferred one stays on record if it is there, any other is closed.
    pub(super) fn end_unattended(
        &mut self,
        is_deferred: bool,
        mut why: Vec<String>,
        now: SystemTime,
    ) -> WaitResult<R> {
        if is_deferred && self.not_on_record.is_none() {
            return self.defer(now);
        }
        why.extend(self.not_on_record.take());
        self.take_answer(now).unwrap_or(WaitResult::Unavailable(why))
    }

    /// Stops waiting and leaves the question on record, unless it was answered meanwhile.
    fn defer(&mut self, now: SystemTime) -> WaitResult<R> {
        if let Some(waited) = self.check_answer(now) {
            return waited;
        }
        let all = self.book.list().unwrap_or_default();
        self.held = None;
        let found = all.into_iter().find(|one| one.id() == self.id);
        found.map_or(WaitResult::Withdrawn, WaitResult::Deferred)
    }

    /// Stops waiting and leaves the question on record as expired, so that a late answer fails with that reason.
    pub(super) fn expire(&mut self, now: SystemTime) -> WaitResult<R> {
        let waited = self.check_answer(now).unwrap_or(WaitResult::Expired);
        self.held = None;
        waited
    }

    /// Removes the question from the book, unless the waiting has ended.
    pub(super) fn withdraw(&mut self) {
        if self.held.is_some() {
            drop(self.book.take(&self.id));
            self.held = None;
        }
    }
}
