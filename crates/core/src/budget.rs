//! Budgets of sessions, and the ledgers that count what a session and the sessions below it spend.
//!
//! Every session has its own ledger, with a link to that of the parent session: the spending of a sub-agent counts for both, and no
//! sub-agent gets more than its parent has left.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sync::Lock;
use crate::{CallResult, Content, ToolError, TrafficMeter};

/// The most that a session may spend, with all sessions below it. A field that is not set has no limit.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Budget, Session, ToolCall};
/// # use windlass_core::{Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("ping"))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let budget = Budget { calls: Some(1), ..Budget::default() };
/// let session = Arc::new(Session::new(engine.new_session_id()).with_budget(budget));
/// assert!(!engine.call(&session, ToolCall::new("ping", json!({}))).await.output.is_error);
/// let second = engine.call(&session, ToolCall::new("ping", json!({}))).await;
/// assert_eq!(second.code, Some("busy"));
/// assert_eq!(session.spent().calls, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Number of calls.
    pub calls: Option<u64>,
    /// Sum of the time that its calls take.
    pub time: Option<Duration>,
    /// Bytes of text in the outputs of its calls.
    pub output_bytes: Option<u64>,
    /// Bytes that its calls receive and send over the network.
    pub network_bytes: Option<u64>,
    /// Cost in millionths of the owner's currency.
    pub cost: Option<u64>,
    /// Number of times that a call may give the same answer while nothing changes. From half of it on the model is warned; then the
    /// call fails.
    pub repeats: Option<u32>,
}

/// The spending of a session so far, with all sessions below it.
///
/// ```
/// use windlass_core::{Session, SessionId};
/// let session = Session::new(SessionId::new("s1"));
/// session.spend_cost(1_200);
/// assert_eq!(session.spent().cost, 1_200);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spent {
    /// Number of calls.
    pub calls: u64,
    /// Sum of the time that its calls took.
    pub time: Duration,
    /// Bytes of text in the outputs of its calls.
    pub output_bytes: u64,
    /// Bytes received and sent over the network.
    pub network_bytes: u64,
    /// Cost in millionths of the owner's currency.
    pub cost: u64,
}

/// Counts the spending of a session and of the sessions below it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    budget: Budget,
    above: Option<Arc<Ledger>>,
    calls: AtomicU64,
    micros: AtomicU64,
    output_bytes: AtomicU64,
    network_bytes: AtomicU64,
    cost: AtomicU64,
    repeats: Lock<Repeats>,
}

impl Ledger {
    /// Makes the ledger of a session, below that of its parent.
    pub(crate) fn new(budget: Budget, above: Option<Arc<Self>>) -> Self {
        Self { budget, above, ..Self::default() }
    }

    /// Returns the ledger of the parent session.
    pub(crate) fn above(&self) -> Option<Arc<Self>> {
        self.above.clone()
    }

    /// Counts one more call. Fails if this session or one above has spent its budget.
    pub(crate) fn begin_call(&self) -> Result<(), ToolError> {
        for ledger in self.with_ledgers_above() {
            ledger.check_limits()?;
        }
        for ledger in self.with_ledgers_above() {
            let before = ledger.calls.fetch_add(1, Ordering::Relaxed);
            if ledger.budget.calls.is_some_and(|limit| before >= limit) {
                for ledger in self.with_ledgers_above() {
                    ledger.calls.fetch_sub(1, Ordering::Relaxed);
                }
                return Err(exhausted_error("calls", before));
            }
        }
        Ok(())
    }

    /// Adds the time and output of a call. Skips the ledger `counted` of the outer call and those above, where the time is counted already.
    pub(crate) fn end_call(&self, time: Duration, output_bytes: u64, counted: Option<&Self>) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let is_counted = |ledger: &Self| counted.is_some_and(|other| std::ptr::eq(ledger, other));
        for ledger in self.with_ledgers_above().take_while(|ledger| !is_counted(ledger)) {
            ledger.micros.fetch_add(micros, Ordering::Relaxed);
        }
        // The text of an inner call goes to the outer call. In another session it goes to the model of that session.
        if !is_counted(self) {
            for ledger in self.with_ledgers_above() {
                ledger.output_bytes.fetch_add(output_bytes, Ordering::Relaxed);
            }
        }
    }

    /// Adds bytes over the network.
    pub(crate) fn spend_network(&self, bytes: u64) {
        for ledger in self.with_ledgers_above() {
            ledger.network_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Adds a cost in millionths.
    pub(crate) fn spend_cost(&self, cost: u64) {
        for ledger in self.with_ledgers_above() {
            ledger.cost.fetch_add(cost, Ordering::Relaxed);
        }
    }

    /// Returns the spending so far.
    pub(crate) fn spent(&self) -> Spent {
        let value = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Spent {
            calls: value(&self.calls),
            time: Duration::from_micros(value(&self.micros)),
            output_bytes: value(&self.output_bytes),
            network_bytes: value(&self.network_bytes),
            cost: value(&self.cost),
        }
    }

    /// Returns this ledger and those of the sessions above.
    fn with_ledgers_above(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |ledger| ledger.above.as_deref())
    }

    /// Fails if one of the limits is reached.
    fn check_limits(&self) -> Result<(), ToolError> {
        let (spent, budget) = (self.spent(), &self.budget);
        let over = |spent: u64, limit: Option<u64>| limit.is_some_and(|limit| spent >= limit);
        if over(spent.calls, budget.calls) {
            return Err(exhausted_error("calls", spent.calls));
        }
        if budget.time.is_some_and(|limit| spent.time >= limit) {
            return Err(exhausted_error("seconds", spent.time.as_secs()));
        }
        for (what, spent, limit) in [
            ("bytes of output", spent.output_bytes, budget.output_bytes),
            ("bytes over the network", spent.network_bytes, budget.network_bytes),
            ("millionths of cost", spent.cost, budget.cost),
        ] {
            if over(spent, limit) {
                return Err(exhausted_error(what, spent));
            }
        }
        Ok(())
    }

    /// Fails if a call has given the same answer too often. `call` computes its key, which is needed only if repeats are limited.
    pub(crate) fn check_repeats(&self, call: impl FnOnce() -> u64) -> Result<(), ToolError> {
        let Some(limit) = self.budget.repeats else { return Ok(()) };
        let call = call();
        if self.repeats.lock().count(call) < limit {
            return Ok(());
        }
        Err(ToolError::failed(format!(
            "not run: this very call has given the same answer {limit} times, and nothing has changed since"
        ))
        .hint("do something else, or say that you are stuck"))
    }

    /// Notes an answer, which is computed only if repeats are limited. Returns the number of times that it was given, if the model should
    /// be warned.
    pub(crate) fn note_answer(&self, answered: impl FnOnce() -> RecordedAnswer) -> Option<u32> {
        let limit = self.budget.repeats?;
        let answered = answered();
        let count = self.repeats.lock().note(answered);
        (count > 1 && count * 2 >= limit).then_some(count)
    }
}

impl TrafficMeter for Ledger {
    fn pass(&self, bytes: u64) -> bool {
        self.spend_network(bytes);
        self.with_ledgers_above().all(|ledger| {
            let spent = ledger.network_bytes.load(Ordering::Relaxed);
            ledger.budget.network_bytes.is_none_or(|limit| spent < limit)
        })
    }
}

/// Makes the error for a budget that is used up.
fn exhausted_error(what: &str, spent: u64) -> ToolError {
    ToolError::busy(format!(
        "the budget of this session is used up: {spent} {what}, with those of the sessions below it"
    ))
    .hint("a person can give it more, or begin another session")
}

/// Calls and their answers since the last change.
#[derive(Debug, Default)]
struct Repeats {
    calls: Vec<Repeat>,
}

/// An answer to a call, as hashes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedAnswer {
    /// Key of the call, from [`call_key`].
    pub(crate) call: u64,
    /// Key of its answer, from [`answer_key`].
    pub(crate) answer: u64,
    /// True if the call may have changed something.
    pub(crate) changes: bool,
}

/// A call, its last answer, and the number of times that it gave this answer.
#[derive(Debug)]
struct Repeat {
    call: u64,
    answer: u64,
    count: u32,
}

impl Repeats {
    /// Maximum number of calls that are remembered.
    const MAX_CALLS: usize = 32;

    /// Returns the number of times that a call gave its last answer.
    fn count(&self, call: u64) -> u32 {
        self.calls.iter().find(|one| one.call == call).map_or(0, |one| one.count)
    }

    /// Notes an answer, and returns the number of times that the call gave it in a row.
    fn note(&mut self, RecordedAnswer { call, answer, changes }: RecordedAnswer) -> u32 {
        let at = self.calls.iter().position(|one| one.call == call);
        let mut this = match at {
            Some(at) => self.calls.remove(at),
            None => Repeat { call, answer, count: 0 },
        };
        // A new change can make every other call answer differently.
        if changes && (this.answer != answer || this.count == 0) {
            self.calls.clear();
        }
        this.count = if this.answer == answer { this.count + 1 } else { 1 };
        this.answer = answer;
        let count = this.count;
        self.calls.push(this);
        if self.calls.len() > Self::MAX_CALLS {
            self.calls.remove(0);
        }
        count
    }
}

/// Returns a hash of the tool and the arguments.
pub(crate) fn call_key(tool: &str, input: &serde_json::Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tool, input).hash(&mut hasher);
    hasher.finish()
}

/// Returns a hash of the answer as the model sees it.
pub(crate) fn answer_key(result: &CallResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    for content in &result.output.content {
        match content {
            Content::Text { text } => text.hash(&mut hasher),
            other => serde_json::to_string(other).unwrap_or_default().hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spending_of_a_child_counts_for_its_parent() {
        let parent = Arc::new(Ledger::new(Budget { calls: Some(3), ..Budget::default() }, None));
        let own = Budget { calls: Some(2), ..Budget::default() };
        let child = Ledger::new(own, Some(parent.clone()));
        assert!(child.begin_call().is_ok());
        assert!(child.begin_call().is_ok());
        assert!(child.begin_call().is_err(), "its own budget is spent");
        assert!(parent.begin_call().is_ok());
        assert!(parent.begin_call().is_err(), "the calls of both spend it");
        assert_eq!((parent.spent().calls, child.spent().calls), (3, 2));
    }

    #[test]
    fn exhausted_budget_names_its_limit() {
        let one = Some(1);
        for (budget, what) in [
            (Budget { calls: one, ..Budget::default() }, "1 calls"),
            (Budget { time: Some(Duration::from_secs(1)), ..Budget::default() }, "2 seconds"),
            (Budget { output_bytes: one, ..Budget::default() }, "7 bytes of output"),
            (Budget { network_bytes: one, ..Budget::default() }, "9 bytes over the network"),
            (Budget { cost: one, ..Budget::default() }, "11 millionths of cost"),
        ] {
            let ledger = Ledger::new(budget, None);
            assert!(ledger.begin_call().is_ok());
            ledger.end_call(Duration::from_secs(2), 7, None);
            ledger.spend_network(9);
            ledger.spend_cost(11);
            let error = ledger.begin_call().expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn repeated_answers_are_noticed_until_something_changes() {
        let note = |ledger: &Ledger, call, answer, changes| {
            ledger.note_answer(|| RecordedAnswer { call, answer, changes })
        };
        let ledger = Ledger::new(Budget { repeats: Some(4), ..Budget::default() }, None);
        let told: Vec<_> = (0..4).map(|_| note(&ledger, 1, 1, false)).collect();
        assert_eq!(told, [None, Some(2), Some(3), Some(4)]);
        assert!(ledger.check_repeats(|| 1).is_err());
        assert!(ledger.check_repeats(|| 2).is_ok());
        assert_eq!(note(&ledger, 2, 5, true), None, "something changed");
        assert!(ledger.check_repeats(|| 1).is_ok());
        assert_eq!(note(&ledger, 1, 1, false), None);
        assert_eq!(note(&ledger, 2, 5, true), Some(2), "the same change again changes nothing");
        assert_eq!(note(&ledger, 1, 1, false), Some(2));
        assert_eq!(note(&ledger, 1, 9, false), None, "another answer");
        let without = Ledger::new(Budget::default(), None);
        assert!(without.note_answer(|| unreachable!("repeats are not limited")).is_none());
        assert!((0..100).all(|_| note(&without, 1, 1, false).is_none()));
    }
}
