//! How much a session may do in all, and how much it has done: its own calls and those of the sessions below it.
//!
//! A ledger is shared by nobody but hangs below that of the parent session, so what a sub-agent spends counts for both, and no
//! sub-agent gets more than its parent has left.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sync::Lock;
use crate::{CallResult, Content, Meter, ToolError};

/// The most that a session may do, with all that is below it. What is not named has no limit.
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
    /// Calls.
    pub calls: Option<u64>,
    /// Time that its calls take, added up.
    pub time: Option<Duration>,
    /// Bytes of text that its calls answer.
    pub output_bytes: Option<u64>,
    /// Bytes that its calls bring in and send out over the network.
    pub network_bytes: Option<u64>,
    /// Millionths of whatever its owner pays in.
    pub cost: Option<u64>,
    /// How often one call may give one answer while nothing changes: half-way the model is told, then such calls are refused.
    pub repeats: Option<u32>,
}

/// What a session has done so far, with all that is below it.
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
    /// Calls.
    pub calls: u64,
    /// Time that its calls took.
    pub time: Duration,
    /// Bytes of text that its calls answered.
    pub output_bytes: u64,
    /// Bytes over the network.
    pub network_bytes: u64,
    /// Millionths of whatever its owner pays in.
    pub cost: u64,
}

/// Adds up what a session and those below it spend.
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
    pub(crate) fn new(budget: Budget, above: Option<Arc<Self>>) -> Self {
        Self { budget, above, ..Self::default() }
    }

    pub(crate) fn above(&self) -> Option<Arc<Self>> {
        self.above.clone()
    }

    /// Counts one more call, unless this session or one above has spent what it may.
    pub(crate) fn begin_call(&self) -> Result<(), ToolError> {
        for ledger in self.chain() {
            ledger.check()?;
        }
        for ledger in self.chain() {
            let before = ledger.calls.fetch_add(1, Ordering::Relaxed);
            if ledger.budget.calls.is_some_and(|most| before >= most) {
                for ledger in self.chain() {
                    ledger.calls.fetch_sub(1, Ordering::Relaxed);
                }
                return Err(exhausted("calls", before));
            }
        }
        Ok(())
    }

    /// Adds what a call took, but not where the call that makes it counts it: in `counted` and above.
    pub(crate) fn end_call(&self, time: Duration, output_bytes: u64, counted: Option<&Self>) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let is_counted = |ledger: &Self| counted.is_some_and(|other| std::ptr::eq(ledger, other));
        for ledger in self.chain().take_while(|ledger| !is_counted(ledger)) {
            ledger.micros.fetch_add(micros, Ordering::Relaxed);
        }
        // The text of an inner call goes to the outer call. In a session of its own, it goes to the model of that session.
        if !is_counted(self) {
            for ledger in self.chain() {
                ledger.output_bytes.fetch_add(output_bytes, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn spend_network(&self, bytes: u64) {
        for ledger in self.chain() {
            ledger.network_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn spend_cost(&self, cost: u64) {
        for ledger in self.chain() {
            ledger.cost.fetch_add(cost, Ordering::Relaxed);
        }
    }

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

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |ledger| ledger.above.as_deref())
    }

    fn check(&self) -> Result<(), ToolError> {
        let (spent, budget) = (self.spent(), &self.budget);
        let over = |spent: u64, most: Option<u64>| most.is_some_and(|most| spent >= most);
        if over(spent.calls, budget.calls) {
            return Err(exhausted("calls", spent.calls));
        }
        if budget.time.is_some_and(|most| spent.time >= most) {
            return Err(exhausted("seconds", spent.time.as_secs()));
        }
        for (what, spent, most) in [
            ("bytes of output", spent.output_bytes, budget.output_bytes),
            ("bytes over the network", spent.network_bytes, budget.network_bytes),
            ("millionths of cost", spent.cost, budget.cost),
        ] {
            if over(spent, most) {
                return Err(exhausted(what, spent));
            }
        }
        Ok(())
    }

    /// Refuses a call that has given the same answer too often. `call` computes its key, which is needed only where that is limited.
    pub(crate) fn check_repeats(&self, call: impl FnOnce() -> u64) -> Result<(), ToolError> {
        let Some(most) = self.budget.repeats else { return Ok(()) };
        let call = call();
        if self.repeats.lock().count(call) < most {
            return Ok(());
        }
        Err(ToolError::failed(format!(
            "not run: this very call has given the same answer {most} times, and nothing has changed since"
        ))
        .hint("do something else, or say that you are stuck"))
    }

    /// Takes note of an answer, which is computed only where repeats are limited. Returns how often it was given, if that is worth
    /// telling the model.
    pub(crate) fn note_answer(&self, answered: impl FnOnce() -> Answered) -> Option<u32> {
        let most = self.budget.repeats?;
        let answered = answered();
        let count = self.repeats.lock().note(answered);
        (count > 1 && count * 2 >= most).then_some(count)
    }
}

impl Meter for Ledger {
    fn pass(&self, bytes: u64) -> bool {
        self.spend_network(bytes);
        self.chain().all(|ledger| {
            let spent = ledger.network_bytes.load(Ordering::Relaxed);
            ledger.budget.network_bytes.is_none_or(|most| spent < most)
        })
    }
}

fn exhausted(what: &str, spent: u64) -> ToolError {
    ToolError::busy(format!(
        "the budget of this session is used up: {spent} {what}, with those of the sessions below it"
    ))
    .hint("a person can give it more, or begin another session")
}

/// Which calls gave which answers since something last changed.
#[derive(Debug, Default)]
struct Repeats {
    seen: Vec<Repeat>,
}

/// An answer by its keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    /// The key of the call, from [`call_key`].
    pub(crate) call: u64,
    /// The key of its answer, from [`answer_key`].
    pub(crate) answer: u64,
    /// The call may have changed something.
    pub(crate) changes: bool,
}

#[derive(Debug)]
struct Repeat {
    call: u64,
    answer: u64,
    count: u32,
}

impl Repeats {
    /// Calls that go round in a circle are few.
    const KEPT: usize = 32;

    fn count(&self, call: u64) -> u32 {
        self.seen.iter().find(|one| one.call == call).map_or(0, |one| one.count)
    }

    fn note(&mut self, Answered { call, answer, changes }: Answered) -> u32 {
        let at = self.seen.iter().position(|one| one.call == call);
        let mut this = match at {
            Some(at) => self.seen.remove(at),
            None => Repeat { call, answer, count: 0 },
        };
        // A change that was never made before may make every other answer another one.
        if changes && (this.answer != answer || this.count == 0) {
            self.seen.clear();
        }
        this.count = if this.answer == answer { this.count + 1 } else { 1 };
        this.answer = answer;
        let count = this.count;
        self.seen.push(this);
        if self.seen.len() > Self::KEPT {
            self.seen.remove(0);
        }
        count
    }
}

/// Names a call by its tool and arguments.
pub(crate) fn call_key(tool: &str, input: &serde_json::Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tool, input).hash(&mut hasher);
    hasher.finish()
}

/// Names an answer by what a model sees of it.
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
    fn what_is_below_counts_above() {
        let parent = Arc::new(Ledger::new(Budget { calls: Some(3), ..Budget::default() }, None));
        let own = Budget { calls: Some(2), ..Budget::default() };
        let child = Ledger::new(own, Some(parent.clone()));
        assert!(child.begin_call().is_ok());
        assert!(child.begin_call().is_ok());
        assert!(child.begin_call().is_err(), "its own");
        assert!(parent.begin_call().is_ok());
        assert!(parent.begin_call().is_err(), "of both");
        assert_eq!((parent.spent().calls, child.spent().calls), (3, 2));
    }

    #[test]
    fn every_limit_is_told_by_name() {
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
    fn going_round_in_a_circle_is_noticed() {
        let note = |ledger: &Ledger, call, answer, changes| {
            ledger.note_answer(|| Answered { call, answer, changes })
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
        assert!(without.note_answer(|| unreachable!("nobody asks for it")).is_none());
        assert!((0..100).all(|_| note(&without, 1, 1, false).is_none()));
    }
}
