//! The records of what people are asked, and the books that keep them.
//!
//! All who ask and all who answer meet in a book, in one process or in several: an answer is written to a record that is still open, by
//! exactly one of those who try, and whoever takes the answered record from the book acts on it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::AnswerError;
use crate::sync::Lock;

/// The time for which an expired record is kept, so that an answer that comes too late is told so.
const KEPT_EXPIRED: Duration = Duration::from_hours(30 * 24);

/// The record of something that a person is asked.
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

    /// Its id.
    fn id(&self) -> &str;

    /// The time when it was asked.
    fn asked(&self) -> SystemTime;

    /// The time from which it can no longer be answered.
    fn expires(&self) -> SystemTime;

    /// Its state at a time.
    fn state(&self, now: SystemTime) -> InquiryState;

    /// Writes an answer into it, whatever its state. The error says why the answer does not fit.
    fn write(&mut self, answer: Self::Answer) -> Result<(), String>;

    /// Writes an answer into it if it is open.
    fn settle(&mut self, answer: Self::Answer, now: SystemTime) -> Result<(), AnswerError> {
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

    /// The record that stays in the book once the answer is used: none, unless it counts again.
    fn after_use(self) -> Option<Self> {
        None
    }

    /// Returns whether it expired so long ago that it need not be kept.
    fn is_outdated(&self, now: SystemTime) -> bool {
        let kept = self.expires().checked_add(KEPT_EXPIRED);
        self.state(now) == InquiryState::Expired && kept.is_some_and(|until| until < now)
    }
}

/// The state of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InquiryState {
    /// It waits for an answer.
    Open,
    /// It is answered.
    Answered,
    /// It was not answered in time, or the answer was not used in time.
    Expired,
}

/// A place where records are kept. An error is the reason in words.
///
/// ```
/// use std::time::SystemTime;
/// use windlass_core::{Approval, Book, Inquiry, InquiryState, MemoryBook};
/// fn open_questions(book: &dyn Book<Approval>) -> Result<usize, String> {
///     let now = SystemTime::now();
///     Ok(book.list()?.iter().filter(|one| one.state(now) == InquiryState::Open).count())
/// }
/// assert_eq!(open_questions(&MemoryBook::default())?, 0);
/// # Ok::<(), String>(())
/// ```
pub trait Book<R: Inquiry>: Send + Sync {
    /// All records, the oldest first.
    fn list(&self) -> Result<Vec<R>, String>;

    /// Adds a record, or replaces the one of its id. Records that expired long before it was asked are dropped.
    fn put(&self, record: &R) -> Result<(), String>;

    /// Writes an answer to an open record, and returns the record. Exactly one of those who try succeeds, in whichever process.
    fn settle(&self, id: &str, answer: R::Answer, now: SystemTime) -> Result<R, AnswerError>;

    /// Removes a record and returns it; to exactly one of those who try.
    fn take(&self, id: &str) -> Result<Option<R>, String>;

    /// Takes a record whose answer is used, and puts back what counts again. The record as it was; to exactly one of those who try.
    fn use_up(&self, id: &str) -> Result<Option<R>, String> {
        let Some(record) = self.take(id)? else { return Ok(None) };
        if let Some(kept) = record.clone().after_use() {
            // What cannot be remembered is asked again.
            drop(self.put(&kept));
        }
        Ok(Some(record))
    }

    /// Removes a record; `true` for exactly one of those who try.
    fn remove(&self, id: &str) -> Result<bool, String> {
        Ok(self.take(id)?.is_some())
    }

    /// Changes a record in its place, alone. Returns whether it is there.
    fn update(&self, id: &str, change: &mut dyn FnMut(&mut R)) -> Result<bool, String> {
        let Some(mut record) = self.take(id)? else { return Ok(false) };
        change(&mut record);
        self.put(&record).map(|()| true)
    }

    /// A number that changes whenever the book changes. Cheap: those who wait for an answer look at it many times.
    fn version(&self) -> u64;

    /// Marks a record as waited for until the guard is dropped or the process ends, however it ends.
    fn hold(&self, id: &str) -> Result<Held, String>;

    /// Returns whether a living process waits for the record.
    fn is_held(&self, id: &str) -> Result<bool, String>;

    /// Marks a record like [`Book::hold`] if no other one does; `None` if another one does.
    fn claim(&self, id: &str) -> Result<Option<Held>, String> {
        if self.is_held(id)? { Ok(None) } else { self.hold(id).map(Some) }
    }
}

/// A record that is waited for.
///
/// ```
/// use windlass_core::{Approval, Book, Held, MemoryBook};
/// let book = MemoryBook::<Approval>::default();
/// let held: Held = book.hold("a1")?;
/// assert!(book.is_held("a1")?);
/// drop(held);
/// assert!(!book.is_held("a1")?);
/// # Ok::<(), String>(())
/// ```
#[must_use]
pub struct Held(#[expect(dead_code, reason = "it acts when it is dropped")] Box<dyn Send + Sync>);

impl Held {
    /// Holds for as long as this value lives.
    pub fn by(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

/// Keeps records as long as the process lives. All clones are one book.
#[derive(Debug, Clone)]
pub struct MemoryBook<R>(Arc<Lock<Kept<R>>>);

#[derive(Debug)]
struct Kept<R> {
    records: Vec<R>,
    held: BTreeSet<String>,
    version: u64,
}

impl<R> Default for MemoryBook<R> {
    fn default() -> Self {
        let kept = Kept { records: Vec::new(), held: BTreeSet::new(), version: 0 };
        Self(Arc::new(Lock::new(kept)))
    }
}

impl<R: Inquiry> Book<R> for MemoryBook<R> {
    fn list(&self) -> Result<Vec<R>, String> {
        Ok(self.0.lock().records.clone())
    }

    fn put(&self, record: &R) -> Result<(), String> {
        let mut kept = self.0.lock();
        let now = record.asked();
        kept.records.retain(|one| one.id() != record.id() && !one.is_outdated(now));
        kept.records.push(record.clone());
        kept.version += 1;
        Ok(())
    }

    fn settle(&self, id: &str, answer: R::Answer, now: SystemTime) -> Result<R, AnswerError> {
        let mut kept = self.0.lock();
        let found = kept.records.iter_mut().find(|one| one.id() == id);
        let found = found.ok_or(AnswerError::Unknown)?;
        found.settle(answer, now)?;
        let settled = found.clone();
        kept.version += 1;
        Ok(settled)
    }

    fn take(&self, id: &str) -> Result<Option<R>, String> {
        let mut kept = self.0.lock();
        let Some(at) = kept.records.iter().position(|one| one.id() == id) else { return Ok(None) };
        kept.version += 1;
        Ok(Some(kept.records.remove(at)))
    }

    fn update(&self, id: &str, change: &mut dyn FnMut(&mut R)) -> Result<bool, String> {
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

    fn hold(&self, id: &str) -> Result<Held, String> {
        self.0.lock().held.insert(id.to_owned());
        Ok(Held::by(HeldInMemory { book: self.clone(), id: id.to_owned() }))
    }

    fn is_held(&self, id: &str) -> Result<bool, String> {
        Ok(self.0.lock().held.contains(id))
    }

    fn claim(&self, id: &str) -> Result<Option<Held>, String> {
        let is_new = self.0.lock().held.insert(id.to_owned());
        Ok(is_new.then(|| Held::by(HeldInMemory { book: self.clone(), id: id.to_owned() })))
    }
}

struct HeldInMemory<R> {
    book: MemoryBook<R>,
    id: String,
}

impl<R> Drop for HeldInMemory<R> {
    fn drop(&mut self) {
        let mut kept = self.book.0.lock();
        kept.held.remove(&self.id);
        kept.version += 1;
    }
}
