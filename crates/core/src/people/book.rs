//! The records of approvals and questions, and the books that keep them.
//!
//! Calls that ask and people who answer meet in a book, in one process or in several: of all answers to an open record exactly one is
//! written, and the caller that takes the answered record from the book acts on it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::AnswerError;
use crate::sync::Lock;

/// Time for which an expired record is kept, so that a late answer fails with that reason.
const EXPIRED_RETENTION: Duration = Duration::from_hours(30 * 24);

/// The record of an approval or of questions.
///
/// ```
/// use std::time::SystemTime;
/// use windlass_core::{Inquiry, InquiryState};
/// fn open_ids<R: Inquiry>(records: &[R], now: SystemTime) -> Vec<&str> {
///     records.iter().filter(|one| one.state(now) == InquiryState::Open).map(Inquiry::id).collect()
/// }
/// assert!(open_ids::<windlass_core::Approval>(&[], SystemTime::now()).is_empty());
/// ```
pub trait Inquiry: Clone + Send + Sync + 'static {
    /// The answer of a person.
    type Answer: Clone + Send + Sync + 'static;

    /// Returns its id.
    fn id(&self) -> &str;

    /// Returns the time at which it was asked.
    fn asked(&self) -> SystemTime;

    /// Returns the time after which it can no longer be answered.
    fn expires(&self) -> SystemTime;

    /// Returns its state at a time.
    fn state(&self, now: SystemTime) -> InquiryState;

    /// Writes an answer into it, whatever its state. The error says why the answer does not fit.
    fn write(&mut self, answer: Self::Answer) -> Result<(), String>;

    /// Writes an answer into it if it is open.
    fn write_answer(&mut self, answer: Self::Answer, now: SystemTime) -> Result<(), AnswerError> {
        match self.state(now) {
            InquiryState::Open => self.write(answer).map_err(AnswerError::Unfit),
            InquiryState::Answered => Err(AnswerError::Answered),
            InquiryState::Expired => Err(AnswerError::Expired),
        }
    }

    /// Returns whether its answer is in the journal.
    fn is_journaled(&self) -> bool;

    /// Marks its answer as being in the journal.
    fn set_journaled(&mut self);

    /// Returns the record that stays in the book once the answer is used; `None` unless the answer counts again.
    fn after_use(self) -> Option<Self> {
        None
    }

    /// Returns whether it expired so long ago that it can be dropped.
    fn is_outdated(&self, now: SystemTime) -> bool {
        let kept = self.expires().checked_add(EXPIRED_RETENTION);
        self.state(now) == InquiryState::Expired && kept.is_some_and(|until| until < now)
    }
}

/// The state of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InquiryState {
    /// Waits for an answer.
    Open,
    /// Has an answer.
    Answered,
    /// Was not answered in time, or its answer was not used in time.
    Expired,
}

/// The reason why the records of approvals or questions cannot be read or written, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BookError(pub String);

impl From<String> for BookError {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

/// A store of records.
///
/// ```
/// use std::time::SystemTime;
/// use windlass_core::{Approval, BookError, Inquiry, InquiryBook, InquiryState, MemoryBook};
/// fn open_questions(book: &dyn InquiryBook<Approval>) -> Result<usize, BookError> {
///     let now = SystemTime::now();
///     Ok(book.list()?.iter().filter(|one| one.state(now) == InquiryState::Open).count())
/// }
/// assert_eq!(open_questions(&MemoryBook::default())?, 0);
/// # Ok::<(), windlass_core::BookError>(())
/// ```
pub trait InquiryBook<R: Inquiry>: Send + Sync {
    /// Returns all records, the oldest first.
    fn list(&self) -> Result<Vec<R>, BookError>;

    /// Adds a record, or replaces the one with its id. Drops records that expired long before it was asked.
    fn put(&self, record: &R) -> Result<(), BookError>;

    /// Writes an answer to an open record, and returns the record. Of several callers, in any process, exactly one succeeds.
    fn write_answer(&self, id: &str, answer: R::Answer, now: SystemTime) -> Result<R, AnswerError>;

    /// Removes a record and returns it. Of several callers exactly one gets it.
    fn take(&self, id: &str) -> Result<Option<R>, BookError>;

    /// Takes a record whose answer is used, and puts back the part that counts again. Returns the original record, to exactly one of
    /// several callers.
    fn use_up(&self, id: &str) -> Result<Option<R>, BookError> {
        let Some(record) = self.take(id)? else { return Ok(None) };
        if let Some(kept) = record.clone().after_use() {
            // If it cannot be stored, a person is asked again.
            drop(self.put(&kept));
        }
        Ok(Some(record))
    }

    /// Removes a record. Returns true to exactly one of several callers.
    fn remove(&self, id: &str) -> Result<bool, BookError> {
        Ok(self.take(id)?.is_some())
    }

    /// Changes a record in the book while no other caller can. Returns whether it is there.
    fn update(&self, id: &str, change: &mut dyn FnMut(&mut R)) -> Result<bool, BookError> {
        let Some(mut record) = self.take(id)? else { return Ok(false) };
        change(&mut record);
        self.put(&record).map(|()| true)
    }

    /// Returns a number that changes whenever the book changes; 0 only if it is empty. Must be cheap: calls check it often.
    fn version(&self) -> u64;

    /// Marks a record as waited for until the guard is dropped or the process ends in any way.
    fn hold(&self, id: &str) -> Result<WaitGuard, BookError>;

    /// Returns whether a living process waits for the record.
    fn is_held(&self, id: &str) -> Result<bool, BookError>;

    /// Marks a record like [`InquiryBook::hold`], or returns `None` if it is marked already.
    fn claim(&self, id: &str) -> Result<Option<WaitGuard>, BookError> {
        if self.is_held(id)? { Ok(None) } else { self.hold(id).map(Some) }
    }
}

/// The mark of a record that a call waits for.
///
/// ```
/// use windlass_core::{Approval, InquiryBook, WaitGuard, MemoryBook};
/// let book = MemoryBook::<Approval>::default();
/// let held: WaitGuard = book.hold("a1")?;
/// assert!(book.is_held("a1")?);
/// drop(held);
/// assert!(!book.is_held("a1")?);
/// # Ok::<(), windlass_core::BookError>(())
/// ```
#[must_use]
pub struct WaitGuard(
    #[expect(dead_code, reason = "it acts when it is dropped")] Box<dyn Send + Sync>,
);

impl WaitGuard {
    /// Makes a mark that lasts as long as `guard`.
    pub fn by(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl std::fmt::Debug for WaitGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

/// Book in memory: keeps records as long as the process lives. All clones are one book.
#[derive(Debug, Clone)]
pub struct MemoryBook<R>(Arc<Lock<MemoryRecords<R>>>);

/// Records and marks of a [`MemoryBook`].
#[derive(Debug)]
struct MemoryRecords<R> {
    records: Vec<R>,
    held: BTreeSet<String>,
    version: u64,
}

impl<R> Default for MemoryBook<R> {
    fn default() -> Self {
        let kept = MemoryRecords { records: Vec::new(), held: BTreeSet::new(), version: 0 };
        Self(Arc::new(Lock::new(kept)))
    }
}

impl<R: Inquiry> InquiryBook<R> for MemoryBook<R> {
    fn list(&self) -> Result<Vec<R>, BookError> {
        Ok(self.0.lock().records.clone())
    }

    fn put(&self, record: &R) -> Result<(), BookError> {
        let mut kept = self.0.lock();
        let now = record.asked();
        kept.records.retain(|one| one.id() != record.id() && !one.is_outdated(now));
        kept.records.push(record.clone());
        kept.version += 1;
        Ok(())
    }

    fn write_answer(&self, id: &str, answer: R::Answer, now: SystemTime) -> Result<R, AnswerError> {
        let mut kept = self.0.lock();
        let found = kept.records.iter_mut().find(|one| one.id() == id);
        let found = found.ok_or(AnswerError::Unknown)?;
        found.write_answer(answer, now)?;
        let settled = found.clone();
        kept.version += 1;
        Ok(settled)
    }

    fn take(&self, id: &str) -> Result<Option<R>, BookError> {
        let mut kept = self.0.lock();
        let Some(at) = kept.records.iter().position(|one| one.id() == id) else { return Ok(None) };
        kept.version += 1;
        Ok(Some(kept.records.remove(at)))
    }

    fn update(&self, id: &str, change: &mut dyn FnMut(&mut R)) -> Result<bool, BookError> {
        let mut kept = self.0.lock();
        let Some(found) = kept.records.iter_mut().find(|one| one.id() == id) else {
            return Ok(false);
        };
        change(found);
        kept.version += 1;
        Ok(true)
    }

    fn version(&self) -> u64 {
        self.0.lock().version
    }

    fn hold(&self, id: &str) -> Result<WaitGuard, BookError> {
        self.0.lock().held.insert(id.to_owned());
        Ok(WaitGuard::by(MemoryHold { book: self.clone(), id: id.to_owned() }))
    }

    fn is_held(&self, id: &str) -> Result<bool, BookError> {
        Ok(self.0.lock().held.contains(id))
    }

    fn claim(&self, id: &str) -> Result<Option<WaitGuard>, BookError> {
        let is_new = self.0.lock().held.insert(id.to_owned());
        Ok(is_new.then(|| WaitGuard::by(MemoryHold { book: self.clone(), id: id.to_owned() })))
    }
}

/// Mark of a record in a [`MemoryBook`], removed on drop.
struct MemoryHold<R> {
    book: MemoryBook<R>,
    id: String,
}

impl<R> Drop for MemoryHold<R> {
    fn drop(&mut self) {
        let mut kept = self.book.0.lock();
        kept.held.remove(&self.id);
        kept.version += 1;
    }
}
