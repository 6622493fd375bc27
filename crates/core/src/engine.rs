//! The engine: one way for every call, from every front door.
//!
//! [`Engine::turn`] sends each call through the stages below, one file each. The order is the meaning: permission comes before
//! the cache, so that nothing is served that would not be allowed; a call is scheduled before the cache is asked, so that a read
//! behind a write of the same turn sees what was written; redaction comes before bounds and record, so that no secret is kept.

mod answers;
mod approve;
mod bound;
mod budget;
mod builder;
mod cache;
mod clock;
mod deny;
mod effects;
mod finish;
mod for_person;
mod held;
mod hooks;
mod lookup;
mod moments;
mod nested;
mod parse;
mod provenance;
mod record;
mod redact;
mod resume;
mod run;
mod schedule;
mod search;
mod toolsets;
mod trial;
mod watching;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) use approve::{asker, situation, surroundings};
pub use builder::EngineBuilder;
pub use cache::CacheStats;
pub(crate) use hooks::{about_more, about_running};
pub(crate) use nested::Lineage;
pub(crate) use record::{extended, job_ended};

use crate::people::Broker;
use crate::recorder::{Appended, EventSource, Recorder};
use crate::registry::Registry;
use crate::session_tmp::SessionFiles;
use crate::sync::Lock;
use crate::toolbox::Slot;
use crate::{
    Approval, ApprovalId, CallId, CallResult, Context, Decided, Effects, EventKind, FileChange,
    History, Hook, Host, IdSource, Job, Kinds, ModelCall, Output, Outputs, Overrides, Planned,
    PlannedCall, Policy, PrintedPiece, Resolved, RiskLevel, Secrets, Session, SessionId,
    StateStore, TextIndex, ToolCall, ToolError, Toolbox, TurnId, Verdict, id,
};

/// Runs tool calls. Cheap to clone; all clones are one engine.
///
/// ```
/// use std::sync::Arc;
/// use serde_json::json;
/// use windlass_core::{Engine, ToolCall, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let mut tools = Toolbox::new();
/// tools.add(MockTool::named("ping"))?;
/// let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let session = engine.new_session();
/// let result = engine.call(&session, ToolCall::new("ping", json!({}))).await;
/// assert_eq!(result.output.to_text(), "ok");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("tools", &self.0.registry.shared()).finish_non_exhaustive()
    }
}

/// Is told what is not the fault of a call, for a person to know.
type OnWarning = Box<dyn Fn(&str) + Send + Sync>;

/// What all calls of an engine share.
pub(crate) struct Shared {
    host: Arc<dyn Host>,
    ids: Arc<dyn IdSource>,
    registry: Registry,
    toolsets: Vec<Arc<toolsets::Lazy>>,
    policy: Lock<Arc<Policy>>,
    broker: Arc<Broker>,
    hooks: Vec<Arc<dyn Hook>>,
    history: Arc<dyn History>,
    cache: cache::Cache,
    scheduler: schedule::Scheduler,
    permits: nested::Permits,
    running: Lock<HashMap<CallId, RunningCall>>,
    outputs: Arc<dyn Outputs>,
    state: Arc<dyn StateStore>,
    text_index: Option<Arc<dyn TextIndex>>,
    secrets: Arc<Secrets>,
    recorder: Arc<Recorder>,
    on_warning: Option<OnWarning>,
    timeout: Duration,
    output_bytes: usize,
}

impl Shared {
    /// The tools of a session, including those that it may not call.
    fn toolbox(&self, session: &Session) -> Arc<Toolbox> {
        self.registry.toolbox(session)
    }

    /// The values that last from call to call.
    pub(crate) fn state(&self) -> &dyn StateStore {
        &*self.state
    }

    /// The full-text index, if there is one.
    pub(crate) fn text_index(&self) -> Option<&dyn TextIndex> {
        self.text_index.as_deref()
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.lock().clone()
    }

    /// Tells what is not the fault of a call.
    fn warn(&self, message: String) {
        if let Some(told) = &self.on_warning {
            told(&message);
        }
        self.recorder
            .publish(&EventSource::engine(), || EventKind::Warning { message: message.into() });
    }
}

/// One call on its way through the stages.
struct Call {
    id: CallId,
    turn: TurnId,
    session: Arc<Session>,
    files: SessionFiles,
    made: ModelCall,
    name: String,
    input: Value,
    overrides: Overrides,
    cancel: CancellationToken,
    began: Instant,
    /// Which policy was in force when it came.
    epoch: u64,
    /// The record of the beginning, if it was written but not waited for.
    begun: Lock<Option<Appended>>,
    /// Whether the beginning is on record.
    started: bool,
    /// Where the answer comes from, if not from the workspace.
    source: Option<String>,
    /// The decision about it, once that is known.
    decided: Option<Decided>,
    /// The answer of a person that the call brings along: a no, or a yes to other arguments.
    answer: Option<Box<Approval>>,
    /// The question on record whose answer it brings along, to be used up before it runs.
    resumed: Option<ApprovalId>,
    /// The authority of the person who makes it, if a person does.
    for_person: Option<for_person::ForPerson>,
    /// This call as those that it makes see it.
    lineage: Arc<Lineage>,
    /// What hooks have said.
    said: hooks::Said,
}

impl Call {
    /// The call that makes this one, if another call does.
    fn parent(&self) -> Option<CallId> {
        self.lineage.parent()
    }

    /// The call as the source of its events.
    fn source(&self) -> EventSource {
        EventSource::call(&self.session, &self.id, self.parent())
    }
}

/// A call that is planned, with its paths resolved.
struct Ready<'t> {
    /// The most that a call of the tool can do.
    kinds: Kinds,
    planned: Box<dyn PlannedCall + 't>,
    effects: Arc<Effects>,
    resolved: Vec<(PathBuf, Resolved)>,
}

impl Engine {
    /// An engine on this machine; see [`EngineBuilder`] for what can be chosen.
    pub fn builder(host: Arc<dyn Host>) -> EngineBuilder {
        EngineBuilder::new(host)
    }

    /// A new session under a new id.
    pub fn new_session(&self) -> Arc<Session> {
        Arc::new(Session::new(self.new_session_id()))
    }

    /// An id for a session that the caller makes itself.
    pub fn new_session_id(&self) -> SessionId {
        SessionId::new(id::mint('s', &*self.0.ids))
    }

    /// Runs one call.
    pub async fn call(&self, session: &Arc<Session>, call: ToolCall) -> CallResult {
        self.start(session, call).1.await
    }

    /// Begins one call and says at once under which id it runs: that of its events, and the one to
    /// [`cancel`](Engine::cancel) it by. The call is stopped if its future is dropped. Must be called inside a runtime.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde_json::json;
    /// use windlass_core::{Engine, Outcome, ToolCall, Toolbox, testing::{EmptyHost, MockTool}};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_core::ToolboxError> {
    /// let mut tools = Toolbox::new();
    /// tools.add(MockTool::named("wait").answering(|_, _| std::future::pending()))?;
    /// let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
    /// let (id, running) = engine.start(&engine.new_session(), ToolCall::new("wait", json!({})));
    /// assert!(engine.cancel(&id));
    /// let result = running.await;
    /// assert_eq!((result.call, result.outcome), (id, Outcome::Cancelled));
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> (CallId, impl Future<Output = CallResult> + Send + use<>) {
        self.start_answered(session, call, None)
    }

    /// The same for a call that brings the answer of a person along.
    fn start_answered(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
        answer: Option<Box<Approval>>,
    ) -> (CallId, impl Future<Output = CallResult> + Send + use<>) {
        let turn = TurnId::new(id::mint('t', &*self.0.ids));
        let ticket = self.0.scheduler.reserve_one();
        let mut call =
            self.receive(session, turn, call, Around { place: ticket.place(), cx: None });
        call.resumed = answer.as_ref().map(|one| one.id.clone());
        call.answer = answer;
        (call.id.clone(), self.begin(call, ticket))
    }

    /// Runs the calls of one turn: at the same time where their effects allow it, with the results in the order of the calls.
    pub async fn turn(&self, session: &Arc<Session>, calls: Vec<ToolCall>) -> Vec<CallResult> {
        self.turn_of(session, calls, None).await
    }

    /// The same, perhaps as part of another call.
    async fn turn_of(
        &self,
        session: &Arc<Session>,
        calls: Vec<ToolCall>,
        cx: Option<&Context>,
    ) -> Vec<CallResult> {
        let turn = TurnId::new(id::mint('t', &*self.0.ids));
        let around = cx.map(|cx| cx.lineage().places()).unwrap_or_default();
        // All places in the queue are taken before any call runs: the order of the turn is the order of the queue.
        let tickets = self.0.scheduler.reserve(calls.len(), &around);
        let begun = calls.into_iter().zip(tickets).map(|(call, ticket)| {
            let around = Around { place: ticket.place(), cx };
            self.begin(self.receive(session, turn.clone(), call, around), ticket)
        });
        futures_util::future::join_all(begun).await
    }

    /// Returns the number of calls that have begun and not ended.
    pub fn running_calls(&self) -> usize {
        self.0.running.lock().len()
    }

    /// Stops one call; its siblings go on. `false` if it is not running.
    pub fn cancel(&self, call: &CallId) -> bool {
        let running = self.0.running.lock();
        running.get(call).inspect(|call| call.cancel.cancel()).is_some()
    }

    /// Stops the calls of a session and of those below it, as a person does who has waited long enough. The program that a call waits
    /// for is ended as at its time limit: the call is answered as cancelled with what was printed, and what was changed is decided on
    /// by the same rules. Every other call is cancelled, and no further one begins. [`Session::cancel`] stops all of them at once and
    /// keeps no changes.
    pub fn interrupt(&self, session: &Arc<Session>) {
        session.mark_interrupted();
        let running = self.0.running.lock();
        let of_session = || running.values().filter(|call| call.session.is_interrupted());
        let ending: Vec<&Arc<Lineage>> = of_session()
            .map(|call| &call.lineage)
            .filter(|call| call.interrupt_program())
            .collect();
        for call in of_session() {
            // A call waits for those that it makes.
            if !ending.iter().any(|ending| ending.is_within(&call.lineage)) {
                call.cancel.cancel();
            }
        }
    }

    /// What would be decided about a call, without running it.
    pub async fn explain(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> Result<Verdict, ToolError> {
        self.explain_with_answer(session, call).await.map(|(verdict, _)| verdict)
    }

    /// The same, with the earlier answer of a person that would settle the call. Nothing of it is used up.
    pub async fn explain_with_answer(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> Result<(Verdict, Option<Approval>), ToolError> {
        let (mut call, slot) = self.receive_to_explain(session, call).await?;
        let ready = prepare(&self.0, &slot, &mut call)?;
        let verdict = approve::decide(&self.0, &call, &ready);
        let verdict = search::weigh(&self.0, &call, verdict).await;
        let answer = approve::earlier_answer(&self.0, &call, &verdict).await;
        Ok((verdict, answer))
    }

    /// The changes that a call would make, found out by trying it where nothing is changed, as for a question about it: empty if that cannot
    /// be known beforehand. A call that would fail is an error.
    pub async fn try_changes(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> Result<Arc<[FileChange]>, ToolError> {
        let (mut call, slot) = self.receive_to_explain(session, call).await?;
        let ready = prepare(&self.0, &slot, &mut call)?;
        let verdict = approve::decide(&self.0, &call, &ready);
        trial::changes(&self.0, &call, &ready, &verdict).await
    }

    /// A call that is looked at and not made.
    async fn receive_to_explain(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> Result<(Call, Arc<Slot>), ToolError> {
        let turn = TurnId::new(id::mint('t', &*self.0.ids));
        let mut call = self.receive(session, turn, call, Around { place: 0, cx: None });
        parse::weigh(&mut call)?;
        let slot = lookup::find(&self.0, &call).await?;
        Ok((call, slot))
    }

    /// How much harm a call with these effects could do.
    pub fn risk(&self, effects: &Effects) -> RiskLevel {
        self.0.policy().risk(effects, self.0.host.files().workspace())
    }

    /// Replaces the policy for calls that begin from now on.
    pub fn set_policy(&self, policy: Policy) {
        *self.0.policy.lock() = Arc::new(policy);
        // What was found when more could be seen is not an answer any more, nor what is being found now.
        self.0.cache.begin_epoch();
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.0.policy()
    }

    /// A text without the secrets that are in it: for what is shown to people on other ways than as the result of a call.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use windlass_core::{Engine, Secrets, testing::EmptyHost};
    /// let secrets = Secrets::new([("PIN", "0451-0451")]);
    /// let engine = Engine::builder(Arc::new(EmptyHost::default())).secrets(secrets).build();
    /// assert_eq!(engine.redact("it is 0451-0451"), "it is [secret PIN]");
    /// ```
    pub fn redact<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        self.0.secrets.redact(text)
    }

    /// What a program printed from a place on, at most about so many bytes, and where the next look goes on: never in the middle of
    /// a secret, so that what is told of it is clean however often somebody looks. Blocking: it may come from a file.
    pub fn printed(&self, job: &Job, from: u64, most: u64) -> (PrintedPiece, u64) {
        crate::context::look(&self.0.secrets, job, from, most)
    }

    /// The machine.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.0.host
    }

    fn receive(
        &self,
        session: &Arc<Session>,
        turn: TurnId,
        call: ToolCall,
        around: Around<'_>,
    ) -> Call {
        let id = CallId::new(id::mint('c', &*self.0.ids));
        let outer = around.cx.map(Context::lineage);
        let stopped_with = match around.cx {
            Some(cx) if Arc::ptr_eq(cx.session(), session) => cx.cancel_token(),
            // A call of another session is stopped with that session. The call that makes it drops its future when it is stopped.
            Some(_) | None => session.cancel_token(),
        };
        Call {
            lineage: Arc::new(Lineage::new(&id, around.place, session, outer)),
            id,
            turn,
            session: session.clone(),
            files: SessionFiles::open(&self.0.host, session.tmp_session()),
            made: ModelCall {
                tool_use_id: call.id,
                message: call.message,
                model: call.model.or_else(|| session.model().map(str::to_owned)),
            },
            name: call.name,
            input: call.input,
            overrides: call.overrides.over(session.overrides()),
            cancel: stopped_with.child_token(),
            began: Instant::now(),
            epoch: self.0.cache.epoch(),
            begun: Lock::default(),
            started: false,
            source: None,
            decided: None,
            answer: None,
            resumed: None,
            for_person: None,
            said: hooks::Said::default(),
        }
    }

    /// Starts a call as a task of its own, so that it comes to its end and into the record also when its caller goes away. A
    /// caller that goes away stops the call.
    fn begin(
        &self,
        call: Call,
        ticket: schedule::Ticket,
    ) -> impl Future<Output = CallResult> + Send + use<> {
        let running = Running::enter(&self.0, &call);
        let stop = call.cancel.clone().drop_guard();
        let lost = finish::Lost::of(&call);
        // In boxes, since a runtime copies what it is given several times on the way to its own, and a future keeps room for the call
        // in each place that it is passed through.
        let task = tokio::spawn(Box::pin(carry_out(running, Box::new(call), ticket)));
        async move {
            let result = task.await;
            drop(stop.disarm());
            result.unwrap_or_else(|error| lost.result(&error))
        }
    }
}

/// The surroundings in which a call is made.
#[derive(Clone, Copy)]
struct Around<'a> {
    /// Its place in the queue.
    place: u64,
    /// The call that makes it, if another call does.
    cx: Option<&'a Context>,
}

/// A call that has begun and not ended, as far as it can be stopped.
struct RunningCall {
    session: Arc<Session>,
    cancel: CancellationToken,
    lineage: Arc<Lineage>,
}

/// One call, from front to back.
async fn carry_out(running: Running, mut call: Box<Call>, ticket: schedule::Ticket) -> CallResult {
    let engine = &running.engine;
    let passing =
        std::panic::AssertUnwindSafe(pass(engine, &mut call, &ticket)).catch_unwind().await;
    let ending = passing.unwrap_or_else(|panic| Err(run::panicked(&*panic)));
    // The next call in the queue may begin only when this one is on record: the order of the record is the order of the effects.
    let result = finish::finish(engine, &call, ending).await;
    drop(call);
    drop(ticket);
    result
}

/// A call that can be stopped by its id, for as long as this is there: also if its task ends by a panic.
struct Running {
    engine: Arc<Shared>,
    call: CallId,
}

impl Running {
    fn enter(engine: &Arc<Shared>, call: &Call) -> Self {
        let (cancel, lineage) = (call.cancel.clone(), call.lineage.clone());
        let running = RunningCall { session: call.session.clone(), cancel, lineage };
        engine.running.lock().insert(call.id.clone(), running);
        // Whoever interrupted it before did not find this call.
        if call.session.is_interrupted() {
            call.cancel.cancel();
        }
        Self { engine: engine.clone(), call: call.id.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engine.running.lock().remove(&self.call);
    }
}

/// The stages up to the output of the tool. Whatever ends a call early is the error.
async fn pass(
    engine: &Arc<Shared>,
    call: &mut Call,
    ticket: &schedule::Ticket,
) -> Result<Output, ToolError> {
    let cancel = call.cancel.clone();
    nested::check(call)?;
    parse::weigh(call)?;
    budget::begin(call)?;
    let slot = unless_stopped(&cancel, lookup::find(engine, call)).await?;
    if slot.tool.looks_back() {
        let first = ticket.be_first_of_turn().map(Ok);
        unless_stopped(&cancel, first).await?;
    }
    let (ready, grant) = approve::permit(engine, call, &slot, ticket).await?;
    let _permit = schedule::wait(engine, call, ticket).await?;
    let key = engine.cache.key(call, &ready.effects);
    let effects = ready.effects.clone();
    let cached = key.as_ref().and_then(|key| engine.cache.get(engine, call.files.get(), key));
    let mut output = if let Some(output) = cached {
        resume::use_answer(engine, call, &grant).await?;
        output
    } else {
        record::started(engine, call, &effects, &grant).await?;
        resume::use_answer(engine, call, &grant).await?;
        match run::run(engine, call, ready, grant, key).await {
            // A normal failure is an answer, and hooks hear of it like of any other.
            Err(error @ ToolError::Failed(_)) => Output::error(error.to_string()),
            ending => ending?,
        }
    };
    let effects = nested::with_more(call, effects);
    provenance::note(engine, call, &effects);
    if !engine.hooks.is_empty() {
        record::tell_beginning(engine, call);
    }
    if !engine.hooks.is_empty() && call.for_person.is_none() {
        let told = Box::pin(hooks::after(engine, call, &effects, &mut output));
        unless_stopped(&cancel, told).await?;
    }
    hooks::add_said(call, &mut output);
    Ok(output)
}

/// A stage that waits for somebody else's code (a toolset's server, a hook), until it is done or the call is stopped.
async fn unless_stopped<T>(
    cancel: &CancellationToken,
    stage: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    tokio::select! {
        biased;
        done = stage => done,
        () = cancel.cancelled() => Err(ToolError::cancelled("the call was stopped")),
    }
}

/// Parse, validate, plan, hard denies: again from the beginning if a hook changed the arguments.
fn prepare<'t>(engine: &Shared, slot: &'t Slot, call: &mut Call) -> Result<Ready<'t>, ToolError> {
    parse::check(slot, call)?;
    let Planned { effects: declared, plan } = effects::plan(engine, slot, call)?;
    let (effects, resolved) = effects::resolve(slot, call, declared)?;
    deny::check(call, &resolved)?;
    Ok(Ready { kinds: slot.tool.kinds(), planned: plan, effects: Arc::new(effects), resolved })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::EmptyHost;

    /// Every call takes and frees that much memory. A stage that most calls only pass through waits in a box of its own.
    #[test]
    fn the_future_of_a_call_is_small() {
        let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
        let (session, ticket) = (engine.new_session(), engine.0.scheduler.reserve_one());
        let around = Around { place: ticket.place(), cx: None };
        let call = ToolCall::new("read", json!({}));
        let call = engine.receive(&session, TurnId::new("t1"), call, around);
        let future = carry_out(Running::enter(&engine.0, &call), Box::new(call), ticket);
        let size = size_of_val(&future);
        assert!(size <= 2_500, "{size}");
    }
}
