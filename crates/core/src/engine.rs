//! The engine: one path of stages for every call, from every front door.
//!
//! [`Engine::turn`] sends each call through the stages below, one file each. The order matters: permission comes before the cache, so
//! that no cached answer is served that would not be allowed; a call is scheduled before the cache is read, so that a read behind a
//! write of the same turn sees the new content; redaction comes before bounds and record, so that no secret is kept.

mod answers;
mod approve;
mod bound;
mod budget;
mod builder;
mod cache;
mod clock;
mod effects;
mod excluded;
mod finish;
mod for_person;
mod held;
mod hidden_search;
mod hooks;
mod lifecycle;
mod lookup;
mod nested;
mod parse;
mod provenance;
mod record;
mod redact;
mod resume;
mod run;
mod schedule;
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

pub(crate) use approve::{asker, confinement_text, situation, situation_of};
pub use builder::EngineBuilder;
pub use cache::CacheStats;
pub(crate) use hooks::{ask_about_added_effects, ask_about_running_call};
pub(crate) use nested::Lineage;
pub(crate) use record::{record_extension, record_job_end};

use crate::people::Broker;
use crate::recorder::{Appended, EventSource, Recorder};
use crate::registry::Registry;
use crate::session_tmp::SessionFiles;
use crate::sync::Lock;
use crate::toolbox::Slot;
use crate::{
    Approval, ApprovalId, CallId, CallResult, Context, EffectKinds, Effects, EventKind,
    ExplainedDecision, FileChange, History, Hook, Host, IdSource, Job, ModelCallPosition, Output,
    Outputs, Overrides, Planned, PlannedCall, Policy, PrintedPiece, Resolved, RiskLevel, Secrets,
    Session, SessionId, StateStore, TextIndex, ToolCall, ToolError, Toolbox, TurnId, Verdict, id,
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

/// Callback for warnings that are not the fault of a call, meant for a person.
type OnWarning = Box<dyn Fn(&str) + Send + Sync>;

/// State that all calls of an engine share.
pub(crate) struct Shared {
    host: Arc<dyn Host>,
    ids: Arc<dyn IdSource>,
    registry: Registry,
    toolsets: Vec<Arc<toolsets::LazyToolset>>,
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
    /// Returns the tools of a session, including those that it may not call.
    fn toolbox(&self, session: &Session) -> Arc<Toolbox> {
        self.registry.toolbox(session)
    }

    /// Returns the store of values that last from call to call.
    pub(crate) fn state(&self) -> &dyn StateStore {
        &*self.state
    }

    /// Returns the full-text index, if there is one.
    pub(crate) fn text_index(&self) -> Option<&dyn TextIndex> {
        self.text_index.as_deref()
    }

    /// Returns the policy in force, before rights of sessions narrow it.
    fn policy(&self) -> Arc<Policy> {
        self.policy.lock().clone()
    }

    /// Reports a problem that is not the fault of a call to the warning callback and to listeners.
    fn warn(&self, message: String) {
        if let Some(on_warning) = &self.on_warning {
            on_warning(&message);
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
    made: ModelCallPosition,
    name: String,
    input: Value,
    overrides: Overrides,
    cancel: CancellationToken,
    began: Instant,
    /// Cache epoch when the call arrived. Its answer is not cached if the epoch changed since then.
    epoch: u64,
    /// Record of the beginning, if it was written but nothing waited for it yet.
    begun: Lock<Option<Appended>>,
    /// True once the beginning of the call is on record.
    started: bool,
    /// Origin of untrusted content in the answer; `None` if all of it comes from the workspace.
    source: Option<String>,
    /// Decision about the call, once it is known.
    decided: Option<ExplainedDecision>,
    /// Answer of a person that the call brings along: a denial, or an approval with other arguments.
    answer: Option<Box<Approval>>,
    /// Id of the recorded approval whose answer the call brings along. The answer is used up before the call runs.
    resumed: Option<ApprovalId>,
    /// Authority of the person who makes the call, if a person does.
    for_person: Option<for_person::ForPerson>,
    /// The call as the calls that it makes see it.
    lineage: Arc<Lineage>,
    /// Answers of hooks so far.
    hook_answers: hooks::HookAnswers,
}

impl Call {
    /// Returns the id of the call that makes this one, if another call does.
    fn parent(&self) -> Option<CallId> {
        self.lineage.parent()
    }

    /// Returns the call as the source of its events.
    fn source(&self) -> EventSource {
        EventSource::call(&self.session, &self.id, self.parent())
    }
}

/// A call that is planned, with its paths resolved. It has no permission yet.
struct ReadyCall<'t> {
    /// Kinds of effects that calls of the tool can have at most.
    kinds: EffectKinds,
    planned: Box<dyn PlannedCall + 't>,
    effects: Arc<Effects>,
    resolved: Vec<(PathBuf, Resolved)>,
}

impl Engine {
    /// Returns a builder for an engine on this machine; see [`EngineBuilder`] for the settings.
    pub fn builder(host: Arc<dyn Host>) -> EngineBuilder {
        EngineBuilder::new(host)
    }

    /// Makes a session with a new id.
    pub fn new_session(&self) -> Arc<Session> {
        Arc::new(Session::new(self.new_session_id()))
    }

    /// Returns a new id, for a session that the caller makes itself.
    pub fn new_session_id(&self) -> SessionId {
        SessionId::new(id::mint('s', &*self.0.ids))
    }

    /// Runs one call.
    pub async fn call(&self, session: &Arc<Session>, call: ToolCall) -> CallResult {
        self.start(session, call).1.await
    }

    /// Starts one call. Returns at once with the id of the call, for its events and for [`cancel`](Engine::cancel), and with a future of
    /// its result. The call is stopped if its future is dropped. Must be called inside a runtime.
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

    /// Starts one call like [`Engine::start`], with an answer that a person gave before.
    fn start_answered(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
        answer: Option<Box<Approval>>,
    ) -> (CallId, impl Future<Output = CallResult> + Send + use<>) {
        let turn = TurnId::new(id::mint('t', &*self.0.ids));
        let ticket = self.0.scheduler.reserve_one();
        let mut call =
            self.new_call(session, turn, call, CallPosition { place: ticket.place(), cx: None });
        call.resumed = answer.as_ref().map(|one| one.id.clone());
        call.answer = answer;
        (call.id.clone(), self.spawn_call(call, ticket))
    }

    /// Runs the calls of one turn: at the same time where their effects allow it, with the results in the order of the calls.
    pub async fn turn(&self, session: &Arc<Session>, calls: Vec<ToolCall>) -> Vec<CallResult> {
        self.turn_of(session, calls, None).await
    }

    /// Runs the calls of one turn; with `cx`, as part of the call that `cx` belongs to.
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
            let around = CallPosition { place: ticket.place(), cx };
            self.spawn_call(self.new_call(session, turn.clone(), call, around), ticket)
        });
        futures_util::future::join_all(begun).await
    }

    /// Returns the number of calls that have begun and not ended.
    pub fn running_calls(&self) -> usize {
        self.0.running.lock().len()
    }

    /// Stops one call; its siblings go on. Returns false if it is not running.
    pub fn cancel(&self, call: &CallId) -> bool {
        let running = self.0.running.lock();
        running.get(call).inspect(|call| call.cancel.cancel()).is_some()
    }

    /// Stops the calls of a session and of the sessions below it, for a person who does not want to wait longer. If a call waits for a
    /// program, the program is ended as at its time limit: the call is answered as cancelled with the text printed so far, and its
    /// changes are decided on by the same rules. Every other call is cancelled, and no further one begins. [`Session::cancel`] stops all
    /// calls at once and keeps no changes.
    pub fn interrupt(&self, session: &Arc<Session>) {
        session.mark_interrupted();
        let running = self.0.running.lock();
        let of_session = || running.values().filter(|call| call.session.is_interrupted());
        let ending: Vec<&Arc<Lineage>> = of_session()
            .map(|call| &call.lineage)
            .filter(|call| call.interrupt_program())
            .collect();
        for call in of_session() {
            // A call waits for the inner calls that it makes.
            if !ending.iter().any(|ending| ending.is_within(&call.lineage)) {
                call.cancel.cancel();
            }
        }
    }

    /// Returns the verdict for a call without running it. Hooks are not asked.
    pub async fn explain(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> Result<Verdict, ToolError> {
        self.explain_with_answer(session, call).await.map(|(verdict, _)| verdict)
    }

    /// Returns the same verdict, with the earlier answer of a person that would settle the call. Does not use the answer up.
    pub async fn explain_with_answer(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> Result<(Verdict, Option<Approval>), ToolError> {
        let (mut call, slot) = self.new_call_to_explain(session, call).await?;
        let ready = prepare(&self.0, &slot, &mut call)?;
        let verdict = approve::decide(&self.0, &call, &ready);
        let verdict = hidden_search::ask_if_hidden_files_in_reach(&self.0, &call, verdict).await;
        let answer = approve::earlier_answer(&self.0, &call, &verdict).await;
        Ok((verdict, answer))
    }

    /// Returns the changes that a call would make, found by a trial run that changes nothing, as for an approval. The list is empty if the
    /// changes cannot be known beforehand. A call that would fail is an error.
    pub async fn try_changes(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> Result<Arc<[FileChange]>, ToolError> {
        let (mut call, slot) = self.new_call_to_explain(session, call).await?;
        let ready = prepare(&self.0, &slot, &mut call)?;
        let verdict = approve::decide(&self.0, &call, &ready);
        trial::try_changes(&self.0, &call, &ready, &verdict).await
    }

    /// Makes a call that is only explained or tried, and finds its tool.
    async fn new_call_to_explain(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> Result<(Call, Arc<Slot>), ToolError> {
        let turn = TurnId::new(id::mint('t', &*self.0.ids));
        let mut call = self.new_call(session, turn, call, CallPosition { place: 0, cx: None });
        parse::refuse_oversized(&mut call)?;
        let slot = lookup::find_tool(&self.0, &call).await?;
        Ok((call, slot))
    }

    /// Returns how much harm a call with these effects could do.
    pub fn risk(&self, effects: &Effects) -> RiskLevel {
        self.0.policy().risk(effects, self.0.host.files().workspace())
    }

    /// Replaces the policy for calls that begin from now on.
    pub fn set_policy(&self, policy: Policy) {
        *self.0.policy.lock() = Arc::new(policy);
        // Answers found under the old policy, or being found now, may show what the new policy hides.
        self.0.cache.begin_epoch();
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.0.policy()
    }

    /// Returns a text without its secrets, for text that reaches people in other ways than as the result of a call.
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

    /// Reads output of a program from byte `from` on, at most about `most` bytes. Returns the piece and the offset to continue at. A piece
    /// never ends in the middle of a secret, so repeated reads cannot reveal one. Blocking: the output may come from a file.
    pub fn printed(&self, job: &Job, from: u64, most: u64) -> (PrintedPiece, u64) {
        crate::context::look(&self.0.secrets, job, from, most)
    }

    /// Returns the machine.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.0.host
    }

    /// Makes the state of a new call; it is not in the journal yet and does not run yet.
    fn new_call(
        &self,
        session: &Arc<Session>,
        turn: TurnId,
        call: ToolCall,
        around: CallPosition<'_>,
    ) -> Call {
        let id = CallId::new(id::mint('c', &*self.0.ids));
        let outer = around.cx.map(Context::lineage);
        let stopped_with = match around.cx {
            Some(cx) if Arc::ptr_eq(cx.session(), session) => cx.cancel_token(),
            // A call of another session is stopped with that session. The outer call drops the future of this one when it is stopped.
            Some(_) | None => session.cancel_token(),
        };
        Call {
            lineage: Arc::new(Lineage::new(&id, around.place, session, outer)),
            id,
            turn,
            session: session.clone(),
            files: SessionFiles::open(&self.0.host, session.tmp_session()),
            made: ModelCallPosition {
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
            hook_answers: hooks::HookAnswers::default(),
        }
    }

    /// Starts a call as a task of its own, so that it also ends and is recorded when its caller goes away. A caller that goes away stops
    /// the call.
    fn spawn_call(
        &self,
        call: Call,
        ticket: schedule::Ticket,
    ) -> impl Future<Output = CallResult> + Send + use<> {
        let running = RunningGuard::register(&self.0, &call);
        let stop = call.cancel.clone().drop_guard();
        let lost = finish::LostCall::of(&call);
        // Boxed, since a runtime copies a future several times before it starts, and reserves room for the call in each copy.
        let task = tokio::spawn(Box::pin(run_to_end(running, Box::new(call), ticket)));
        async move {
            let result = task.await;
            drop(stop.disarm());
            result.unwrap_or_else(|error| lost.result(&error))
        }
    }
}

/// Position of a new call in the queue and among calls.
#[derive(Clone, Copy)]
struct CallPosition<'a> {
    /// Number of its place in the queue.
    place: u64,
    /// Context of the call that makes it, if another call does.
    cx: Option<&'a Context>,
}

/// Handles to stop a call that has begun and not ended.
struct RunningCall {
    session: Arc<Session>,
    cancel: CancellationToken,
    lineage: Arc<Lineage>,
}

/// Runs one call through all stages and ends it: result, record, release of its place in the queue.
async fn run_to_end(
    running: RunningGuard,
    mut call: Box<Call>,
    ticket: schedule::Ticket,
) -> CallResult {
    let engine = &running.engine;
    let stages =
        std::panic::AssertUnwindSafe(run_stages(engine, &mut call, &ticket)).catch_unwind().await;
    let ending = stages.unwrap_or_else(|panic| Err(run::panic_error(&*panic)));
    // The next call in the queue may begin only when this one is on record: the order of the record is the order of the effects.
    let result = finish::finish(engine, &call, ending).await;
    drop(call);
    drop(ticket);
    result
}

/// Keeps a call in the table of running calls until it is dropped, also if its task ends by a panic.
struct RunningGuard {
    engine: Arc<Shared>,
    call: CallId,
}

impl RunningGuard {
    /// Adds the call to the table. Cancels it at once if its session was interrupted already.
    fn register(engine: &Arc<Shared>, call: &Call) -> Self {
        let (cancel, lineage) = (call.cancel.clone(), call.lineage.clone());
        let running = RunningCall { session: call.session.clone(), cancel, lineage };
        engine.running.lock().insert(call.id.clone(), running);
        // `Engine::interrupt` looked through the table before this call was in it.
        if call.session.is_interrupted() {
            call.cancel.cancel();
        }
        Self { engine: engine.clone(), call: call.id.clone() }
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.engine.running.lock().remove(&self.call);
    }
}

/// Runs the stages up to the output of the tool. The error is the reason why a call ended early.
async fn run_stages(
    engine: &Arc<Shared>,
    call: &mut Call,
    ticket: &schedule::Ticket,
) -> Result<Output, ToolError> {
    let cancel = call.cancel.clone();
    nested::check_nesting(call)?;
    parse::refuse_oversized(call)?;
    budget::begin_call(call)?;
    let slot = unless_stopped(&cancel, lookup::find_tool(engine, call)).await?;
    if slot.tool.looks_back() {
        let first = ticket.be_first_of_turn().map(Ok);
        unless_stopped(&cancel, first).await?;
    }
    let (ready, grant) = approve::permit(engine, call, &slot, ticket).await?;
    let _permit = schedule::wait_for_turn(engine, call, ticket).await?;
    let key = engine.cache.key(call, &ready.effects);
    let effects = ready.effects.clone();
    let cached = key.as_ref().and_then(|key| engine.cache.get(engine, call.files.get(), key));
    let mut output = if let Some(output) = cached {
        resume::use_answer(engine, call, &grant).await?;
        output
    } else {
        record::record_started(engine, call, &effects, &grant).await?;
        resume::use_answer(engine, call, &grant).await?;
        match run::run_tool(engine, call, ready, grant, key).await {
            // A normal failure is an answer: hooks see it like any other output.
            Err(error @ ToolError::Failed(_)) => Output::error(error.to_string()),
            ending => ending?,
        }
    };
    let effects = nested::with_added_effects(call, effects);
    provenance::note_source(engine, call, &effects);
    if !engine.hooks.is_empty() {
        record::publish_beginning(engine, call);
    }
    if !engine.hooks.is_empty() && call.for_person.is_none() {
        let asked = Box::pin(hooks::ask_after_call(engine, call, &effects, &mut output));
        unless_stopped(&cancel, asked).await?;
    }
    hooks::add_to_output(call, &mut output);
    Ok(output)
}

/// Waits for a stage that runs foreign code (a toolset's server, a hook). Fails as cancelled if the call is stopped first.
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

/// Checks the arguments, plans the call, resolves its paths and refuses excluded files. Runs again if a hook changed the arguments.
fn prepare<'t>(
    engine: &Shared,
    slot: &'t Slot,
    call: &mut Call,
) -> Result<ReadyCall<'t>, ToolError> {
    parse::check_arguments(slot, call)?;
    let Planned { effects: declared, plan } = effects::plan(engine, slot, call)?;
    let (effects, resolved) = effects::resolve(slot, call, declared)?;
    excluded::check_not_excluded(call, &resolved)?;
    Ok(ReadyCall { kinds: slot.tool.kinds(), planned: plan, effects: Arc::new(effects), resolved })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::EmptyHost;

    /// Each call allocates this much memory, so rarely used stages wait in boxes of their own.
    #[test]
    fn future_of_a_call_is_small() {
        let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
        let (session, ticket) = (engine.new_session(), engine.0.scheduler.reserve_one());
        let around = CallPosition { place: ticket.place(), cx: None };
        let call = ToolCall::new("read", json!({}));
        let call = engine.new_call(&session, TurnId::new("t1"), call, around);
        let future = run_to_end(RunningGuard::register(&engine.0, &call), Box::new(call), ticket);
        let size = size_of_val(&future);
        assert!(size <= 2_500, "{size}");
    }
}
