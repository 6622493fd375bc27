//! Inner calls, which a tool makes: through the whole engine, as part of the outer call.
//!
//! Permits are counted for each session, so that a session that uses up its own delays no other, and for the whole engine.
//!
//! The permit of the outer call is lent to its inner calls, one at a time; further ones run at the same time if the engine has
//! permits to spare. So nested calls end however few permits there are. In the queue, an inner call does not wait for the calls
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

/// Maximum depth of nested calls. It stops a tool that calls itself without an end.
const MAX_DEPTH: usize = 16;

/// A call as the calls that it makes see it: its identity, clock, permit and budget, and the outer call.
#[derive(Debug)]
pub(crate) struct Lineage {
    pub(super) call: CallId,
    /// The call that makes this one, if another call does.
    pub(super) outer: Option<Arc<Lineage>>,
    /// Number of its place in the queue.
    place: u64,
    /// Its permit, lent to its inner calls. Unset before the first of them.
    lent_permit: OnceLock<Arc<Semaphore>>,
    pub(crate) clock: Arc<CallClock>,
    /// Session of the call.
    session: SessionId,
    /// Budget that the time of the call is charged to.
    pub(super) ledger: Arc<Ledger>,
    /// Set once the tool has answered: code that the tool left running can do nothing more in the name of the call.
    has_ended: AtomicBool,
    /// Program that the call waits for. If the call is stopped, the printed text of the program is its answer.
    pub(crate) waits_for: Lock<Option<Arc<Job>>>,
    /// True while such a program is being started.
    pub(crate) starts_program: AtomicBool,
    /// Effects that the call was given while it ran, and texts about them.
    pub(crate) more: Lock<AddedEffects>,
}

/// Effects that a call was given beyond its plan.
#[derive(Debug, Default)]
pub(crate) struct AddedEffects {
    pub(crate) effects: Vec<Effect>,
    /// Texts of hooks and people for the model.
    pub(crate) said: Vec<String>,
}

impl Lineage {
    /// Returns the id of the call that makes this one, if another call does.
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
            lent_permit: OnceLock::new(),
            clock: Arc::new(CallClock::new(outer.map(|outer| outer.clock.clone()))),
            session: session.id().clone(),
            ledger: session.ledger().clone(),
            has_ended: AtomicBool::new(false),
            waits_for: Lock::default(),
            starts_program: AtomicBool::new(false),
            more: Lock::default(),
        }
    }

    /// Returns the places in the queue of this call and of the calls around it.
    pub(super) fn places(&self) -> Vec<u64> {
        let around = std::iter::successors(Some(self), |call| call.outer.as_deref());
        around.map(|call| call.place).collect()
    }

    /// Ends the call: from now on [`Lineage::check_open`] fails.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Fails if the call has ended, for tasks that outlived it.
    pub(crate) fn check_open(&self) -> Result<(), ToolError> {
        if self.has_ended.load(Ordering::Acquire) {
            return Err(ToolError::cancelled(
                "the call has ended, and what its tool left running can do nothing more",
            ));
        }
        Ok(())
    }

    /// Interrupts the program that the call waits for. Returns false if none runs. A program that is being started is interrupted by the
    /// code that starts it.
    pub(super) fn interrupt_program(&self) -> bool {
        let waits_for = self.waits_for.lock();
        match &*waits_for {
            Some(job) => job.interruption.request(),
            None => self.starts_program.load(Ordering::Acquire),
        }
    }

    /// Returns whether this is the other call or one that it makes, directly or not.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let around = std::iter::successors(Some(self), |call| call.outer.as_deref());
        around.into_iter().any(|call| std::ptr::eq(call, other))
    }

    /// Returns whether the call has made calls.
    pub(super) fn has_inner(&self) -> bool {
        self.lent_permit.get().is_some()
    }

    /// Returns the semaphore with the permit for its inner calls.
    fn lent_permit(&self) -> Arc<Semaphore> {
        self.lent_permit.get_or_init(|| Arc::new(Semaphore::new(1))).clone()
    }
}

/// Limits of calls that run at the same time, for each session and for the engine.
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

/// Permission to run at the same time as other calls, until it is dropped.
#[derive(Debug)]
pub(super) enum Permit<'e> {
    Own { _of_session: OwnedSemaphorePermit, _of_all: SemaphorePermit<'e> },
    Lent { _permit: OwnedSemaphorePermit },
}

/// Waits for a permit of the session and one of the engine, or for the one that the outer call lends.
pub(super) async fn wait_for_permit<'e>(
    engine: &'e Shared,
    session: &Session,
    outer: Option<&Lineage>,
) -> Result<Permit<'e>, ToolError> {
    let closed = |_| ToolError::internal("the engine is closed");
    let own = async {
        // The permit of the session comes first: a session that has used up its own takes none of the engine's.
        let of_session = session.permits(engine.permits.of_session);
        let of_session = of_session.acquire_owned().await.map_err(closed)?;
        let of_all = engine.permits.of_all.acquire().await.map_err(closed)?;
        Ok(Permit::Own { _of_session: of_session, _of_all: of_all })
    };
    let Some(outer) = outer else { return own.await };
    let lent_permit = outer.lent_permit();
    let lent_permit = async {
        let permit = lent_permit.acquire_owned().await.map_err(closed)?;
        Ok(Permit::Lent { _permit: permit })
    };
    tokio::select! {
        biased;
        permit = lent_permit => permit,
        permit = own => permit,
    }
}

impl Context {
    /// Makes another call through the whole engine: it is decided on, scheduled, recorded and bounded like any other, with the rights of
    /// this session. It ends with this call.
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

    /// Makes another call in another session, such as that of a sub-agent. The call is denied if that session is not below this one
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

    /// Makes several calls as one turn in another session, which has to be below this one.
    pub async fn turn_in(&self, session: &Arc<Session>, calls: Vec<ToolCall>) -> Vec<CallResult> {
        // The files that inner calls read are not known here, so the answer of this call cannot be cached.
        self.forget_observed();
        let engine = Engine(self.engine().clone());
        engine.turn_of(session, calls, Some(self)).await
    }
}

/// Fails if a call is nested too deep, is made after the end of its outer call, or in a session that is not below the outer one.
pub(super) fn check_nesting(call: &Call) -> Result<(), ToolError> {
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

/// Returns the effects of a call that has run, with those that it was given meanwhile, and takes over the texts about them.
pub(super) fn with_added_effects(call: &mut Call, planned: Arc<Effects>) -> Arc<Effects> {
    let AddedEffects { effects, said } = std::mem::take(&mut *call.lineage.more.lock());
    call.hook_answers.extend(said);
    if effects.is_empty() {
        return planned;
    }
    Arc::new(planned.iter().cloned().chain(effects).collect())
}
