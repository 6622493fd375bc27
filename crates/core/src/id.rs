//! Ids of calls, turns and sessions: short, sortable by time, each kind a type of its own.
//!
//! Randomness and the clock are given to the engine, so the ids of a test are the same in every run.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes an id that was made elsewhere: read back from the journal, or given by a caller.
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// The id of one call of one tool. Unique in a store. It is not the id that the model gave to the call.
    ///
    /// ```
    /// let call = windlass_core::CallId::new("c0001");
    /// assert_eq!(call.as_str(), "c0001");
    /// ```
    CallId
}
id! {
    /// The id of the calls that a model made in one message.
    ///
    /// ```
    /// assert_eq!(windlass_core::TurnId::new("t1").to_string(), "t1");
    /// ```
    TurnId
}
id! {
    /// The id of one session: the unit of the journal, of approvals "for this session" and of jobs.
    ///
    /// ```
    /// assert!(windlass_core::SessionId::new("a") < windlass_core::SessionId::new("b"));
    /// ```
    SessionId
}

id! {
    /// The id of a program that a session runs. Derived from the id of the call that started it.
    ///
    /// ```
    /// use windlass_core::{CallId, JobId};
    /// assert_eq!(JobId::of_call(&CallId::new("c17")).as_str(), "j17");
    /// ```
    JobId
}

id! {
    /// The id of one approval: the request to a person to allow a call, and the answer.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use windlass_core::{Answer, ApprovalId};
    /// # use windlass_core::{Engine, testing::EmptyHost};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
    /// let id = ApprovalId::new("a7");
    /// assert_eq!(id.to_string(), "a7");
    /// assert!(engine.answer(&id, Answer::allow()).await.is_err(), "no call waits for this one");
    /// # }
    /// ```
    ApprovalId
}

id! {
    /// The id of one set of questions that a tool asks a person, and the answer.
    ///
    /// ```
    /// assert_eq!(windlass_core::QuestionId::new("q7").to_string(), "q7");
    /// ```
    QuestionId
}

impl JobId {
    /// Returns the id of the job that a call started.
    pub fn of_call(call: &CallId) -> Self {
        Self::new(format!("j{}", call.as_str().strip_prefix('c').unwrap_or(call.as_str())))
    }
}

/// The source of unique numbers for ids.
///
/// ```
/// use windlass_core::{IdSource, SequentialIds};
/// let ids = SequentialIds::default();
/// assert_ne!(ids.next(), ids.next());
/// ```
pub trait IdSource: Send + Sync {
    /// Returns a number that no other process returns and that is never returned again.
    fn next(&self) -> u128;
}

/// Counts 1, 2, 3 …: for tests and for records that are discarded with the process.
///
/// ```
/// use windlass_core::{IdSource, SequentialIds};
/// let ids = SequentialIds::default();
/// assert_eq!([ids.next(), ids.next(), ids.next()], [1, 2, 3]);
/// ```
#[derive(Debug, Default)]
pub struct SequentialIds(AtomicU64);

impl IdSource for SequentialIds {
    fn next(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Makes a new id: the prefix and the next number in base 32. [`id_number`] puts the time into the upper bits, so ids of one store
/// sort by age.
pub(crate) fn mint(prefix: char, ids: &dyn IdSource) -> Arc<str> {
    let mut text = String::with_capacity(18);
    text.push(prefix);
    push_base32(&mut text, ids.next());
    text.into()
}

/// Builds an id number from a moment and 40 random bits. Hosts use it to implement [`IdSource`].
///
/// ```
/// use std::time::SystemTime;
/// let a = windlass_core::id_number(SystemTime::UNIX_EPOCH, 7);
/// assert_eq!(a, 7);
/// ```
pub fn id_number(now: SystemTime, random: u64) -> u128 {
    let millis = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() & ((1 << 45) - 1);
    (millis << 40) | u128::from(random & ((1 << 40) - 1))
}

/// Crockford's base 32 alphabet: no letters that look like digits, safe in file names and URLs.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Appends a number in base 32, with at least 4 digits.
fn push_base32(text: &mut String, number: u128) {
    let digits = (128 - number.leading_zeros()).div_ceil(5).max(4);
    for at in (0..digits).rev() {
        text.push(char::from(ALPHABET[(number >> (at * 5)) as usize & 31]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_have_one_length() {
        let early = id_number(UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000), u64::MAX);
        let late = id_number(UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_001), 0);
        let [mut a, mut b] = [String::new(), String::new()];
        push_base32(&mut a, early);
        push_base32(&mut b, late);
        assert!(a < b, "{a} {b}");
        assert_eq!((a.len(), b.len()), (17, 17));
    }
}
