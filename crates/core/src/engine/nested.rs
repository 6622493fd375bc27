//! Calls that a tool makes: through the whole engine, as part of the call that makes them.
//!
//! Permits are counted for each session, so that one which uses up its own delays no other, and for all together.
//!
//! The permit of the outer call is lent to its inner calls, one at a time; further ones run at the same time if the engine has
//! permits to spare. So nested calls end however few permits there are. In the queue an inner call does not wait for the calls
//! around it, nor for calls that have not begun, since those may wait for the calls around it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::clock::CallClock;
use super::{Call, Engine, Shared};
use crate::budget::Ledger;
use crate::sync::Lock;
use crate::{
    CallId, CallResult, Context, Effect, Effects, Job, Session, SessionId, ToolCall, ToolError,
};

/// Calls nested deeper than this are refused: a tool that calls itself has no end otherwise.
const MAX_DEPTH: usize = 16;

/// A call as seen by the calls that it makes.
#[derive(Debug)]
pub(crate) struct Lineage {
    pub(super) call: CallId,
    /// The call that makes this one, if another call does.
    pub(super) outer: Option<Arc<Lineage>>,
    /// Its place in the queue.
    place: u64,
    /// Its permit, for its inner calls. There is none before the first of them.
    lent: OnceLock<Arc<Semaphore>>,
    pub(crate) clock: Arc<CallClock>,
    /// The session that it belongs to.
    session: SessionId,
    /// The budget that its time counts for.
    pub(super) ledger: Arc<Ledger>,
    /// Set when its tool has answered: whatever the tool left running can do nothing more in the name of the call.
    has_ended: AtomicBool,
    /// The program that the call waits for: if the call is stopped, what it printed is all there is to show.
    pub(crate) waits_for: Lock<Option<Arc<Job>>>,
    /// Such a program is being started.
    pub(crate) starts_program: AtomicBool,
    /// The effects that it was given while it ran, and what was said about them.
    pub(crate) more: Lock<More>,
}

/// Effects that a call was given beyond its plan.
#[derive(Debug, Default)]
pub(crate) struct More {
    pub(crate) effects: Vec<Effect>,
    /// Texts of hooks and people for the model.
    pub(crate) said: Vec<String>,
}

impl Lineage {
    /// The call that makes this one, if another call does.
    pub(crate) fn parent(&self) -> Option<CallId> {
        self.outer.as_ref().map(|outer| outer.call.clone())
    }

    pub(super) fn new(
        call: &CallId,
        place: u64,
        session: &Session,
        outer: Option<&Arc<Self>>,
    ) -> Self {
        Self {
            call: call.clone(),
            outer: outer.cloned(),
            place,
            lent: OnceLock::new(),
            clock: Arc::new(CallClock::new(outer.map(|outer| outer.clock.clone()))),
            session: session.id().clone(),
            ledger: session.ledger().clone(),
            has_ended: AtomicBool::new(false),
            waits_for: Lock::default(),
            starts_program: AtomicBool::new(false),
            more: Lock::default(),
        }
    }

    /// The places in the queue of this call and of the calls around it.
    pub(super) fn places(&self) -> Vec<u64> {
        let around = std::iter::successors(Some(self), |call| call.outer.as_deref());
        around.map(|call| call.place).collect()
    }

    /// Closes the doors of the call.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Refuses what a task that outlived its call wants to do.
    pub(crate) fn check_open(&self) -> Result<(), ToolError> {
        if self.has_ended.load(Ordering::Acquire) {
            return Err(ToolError::cancelled(
                "the call has ended, and what its tool left running can do nothing more",
            ));
        }
        Ok(())
    }

    /// Interrupts the program that the call waits for. Returns false if there is none that runs. One that is being started is
    /// interrupted by whoever starts it.
    pub(super) fn interrupt_program(&self) -> bool {
        let waits_for = self.waits_for.lock();
        match &*waits_for {
            Some(job) => job.interruption.request(),
            None => self.starts_program.load(Ordering::Acquire),
        }
    }

    /// Tells whether this is the other call, or one that it makes.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let around = std::iter::successors(Some(self), |call| call.outer.as_deref());
        around.into_iter().any(|call| std::ptr::eq(call, other))
    }

    /// Tells whether it has made calls.
    pub(super) fn has_inner(&self) -> bool {
        self.lent.get().is_some()
    }

    /// The permit for its inner calls.
    fn lent(&self) -> Arc<Semaphore> {
        self.lent.get_or_init(|| Arc::new(Semaphore::new(1))).clone()
    }
}

/// The numbers of calls that may run at the same time.
pub(super) struct Permits {
    of_session: usize,
    of_all: Semaphore,
}

impl Permits {
    pub(super) fn new(of_session: usize, of_all: usize) -> Self {
        let [of_session, of_all] =
            [of_session, of_all].map(|most| most.min(Semaphore::MAX_PERMITS));
        // One session alone can use all of its own.
        Self { of_session, of_all: Semaphore::new(of_all.max(of_session)) }
    }
}

/// The right to run at the same time as others.
#[derive(Debug)]
pub(super) enum Permit<'e> {
    Own { _of_session: OwnedSemaphorePermit, _of_all: SemaphorePermit<'e> },
    Lent { _permit: OwnedSemaphorePermit },
}

/// Waits for a permit of the session and one of the engine, or for that of the outer call.
pub(super) async fn permit<'e>(
    engine: &'e Shared,
    session: &Session,
    outer: Option<&Lineage>,
) -> Result<Permit<'e>, ToolError> {
    let closed = |_| ToolError::internal("the engine is closed");
    let own = async {
        // That of the session first: a session whose own are used up takes none of those for all.
        let of_session = session.permits(engine.permits.of_session);
        let of_session = of_session.acquire_owned().await.map_err(closed)?;
        let of_all = engine.permits.of_all.acquire().await.map_err(closed)?;
        Ok(Permit::Own { _of_session: of_session, _of_all: of_all })
    };
    let Some(outer) = outer else { return own.await };
    let lent = outer.lent();
    let lent = async {
        let permit = lent.acquire_owned().await.map_err(closed)?;
        Ok(Permit::Lent { _permit: permit })
    };
    tokio::select! {
        biased;
        permit = lent => permit,
        permit = own => permit,
    }
}

impl Context {
    /// Makes another call, through the whole engine: it is decided on, scheduled, recorded and bounded like any other, with the
    /// rights of this session. It ends with this call.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde_json::json;
    /// use windlass_core::{Output, ToolCall, testing::MockTool};
    /// # use windlass_core::{Engine, Toolbox, testing::EmptyHost};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_core::ToolboxError> {
    /// let twice = MockTool::named("twice").answering(|cx, _| async move {
    ///     let results = cx.turn(vec![ToolCall::new("ping", json!({})), ToolCall::new("ping", json!({}))]).await;
    ///     assert_eq!(results[0].parent_call.as_ref(), Some(cx.call_id()));
    ///     Ok(Output::text(format!("{} {}", results[0].output.to_text(), results[1].output.to_text())))
    /// });
    /// # let mut tools = Toolbox::new();
    /// # tools.add(MockTool::named("ping"))?;
    /// # tools.add(twice)?;
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
    /// let result = engine.call(&engine.new_session(), ToolCall::new("twice", json!({}))).await;
    /// assert_eq!(result.output.to_text(), "ok ok");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn call(&self, call: ToolCall) -> CallResult {
        self.call_in(self.session(), call).await
    }

    /// The same in another session: that of a sub-agent. The call is denied if that session is not below this one
    /// ([`Session::child`]), since its rights could be wider.
    pub async fn call_in(&self, session: &Arc<Session>, call: ToolCall) -> CallResult {
        let mut results = self.turn_in(session, vec![call]).await;
        // There is one result for each call.
        results.pop().unwrap_or_else(|| unreachable!("a turn of one call has one result"))
    }

    /// Makes several calls as one turn: at the same time where their effects allow it, with the results in the order of the calls.
    pub async fn turn(&self, calls: Vec<ToolCall>) -> Vec<CallResult> {
        self.turn_in(self.session(), calls).await
    }

    /// The same in another session, which has to be below this one.
    pub async fn turn_in(&self, session: &Arc<Session>, calls: Vec<ToolCall>) -> Vec<CallResult> {
        // What the inner calls look at is not known here, so the answer of this call is good for this once.
        self.forget_observed();
        let engine = Engine(self.engine().clone());
        engine.turn_of(session, calls, Some(self)).await
    }
}

/// Refuses calls that are nested too deep, that a call makes after its end, or in a session that is not below its own.
pub(super) fn check(call: &Call) -> Result<(), ToolError> {
    let Some(outer) = &call.lineage.outer else { return Ok(()) };
    outer.check_open()?;
    let session = &call.session;
    if *session.id() != outer.session && !session.ancestors().contains(&outer.session) {
        return Err(ToolError::denied(
            "not allowed: a call can make calls in its own session and in those below it",
        )
        .hint("make the session with `Session::child` of the session of the call"));
    }
    if call.lineage.places().len() <= MAX_DEPTH {
        return Ok(());
    }
    Err(ToolError::busy(format!("not run: calls that make calls are nested {MAX_DEPTH} deep"))
        .hint("a tool probably calls itself without an end"))
}

/// The effects of a call that has run, with those that it was given meanwhile. Takes over what was said about them.
pub(super) fn with_more(call: &mut Call, planned: Arc<Effects>) -> Arc<Effects> {
    let More { effects, said } = std::mem::take(&mut *call.lineage.more.lock());
    call.said.extend(said);
    if effects.is_empty() {
        return planned;
    }
    Arc::new(planned.iter().cloned().chain(effects).collect())
}
