//! The context of a call: a tool's only doors to the machine, each open for the granted effects and nothing else.

mod approval;
mod command_end;
mod extend;
mod files;
mod index;
mod job_attendant;
mod job_record;
mod judge;
mod net;
mod people;
mod planted;
mod printed;
mod processes;
mod reversal;
mod staged;
mod state;

use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::SystemTime;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::changes::history::Untracked;
use crate::changes::proposals::Overlay;
use crate::engine::{Lineage, Shared};
use crate::jobs::{Job, WhenStopped};
use crate::people::Broker;
use crate::recorder::{EventSource, Recorder};
use crate::secrets::RedactionStream;
use crate::session_tmp::SessionFiles;
use crate::sync::Lock;
use crate::{
    CallId, Effect, EffectKinds, EventKind, Files, Fingerprint, Grant, History, Host,
    ModelCallPosition, Outputs, Overrides, Policy, ProposedBy, Resolved, SecretValue, Secrets,
    Session, ToolError, TurnId, WalkReport,
};

pub use self::files::{FilesDoor, WalkSettings};
pub(crate) use self::files::{resolve, resolve_entry};
pub use self::index::IndexDoor;
pub use self::net::NetDoor;
pub use self::people::PeopleDoor;
pub(crate) use self::printed::look;
pub use self::printed::{Printed, PrintedPiece};
pub use self::processes::ProcessDoor;
pub use self::reversal::UndoDoor;
pub(crate) use self::staged::{effects_of_changes, listed as list_changes, show_held};
pub use self::state::{StateDoor, StateScope};

/// The context of one call. Cheap to clone.
///
/// The engine makes it from a [`Grant`]; there is no other way to get one.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Output, testing::MockTool};
/// # use windlass_core::{Engine, ToolCall, Toolbox, testing::EmptyHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("sum").answering(|cx, _| async move {
///     let sum: u64 = cx.blocking(|cx| (1..=100).take_while(|_| !cx.is_cancelled()).sum()).await?;
///     cx.progress(100, Some(100), "added up");
///     Ok(Output::text(sum.to_string()))
/// });
/// # let mut tools = Toolbox::new();
/// # tools.add(tool)?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let result = engine.call(&engine.new_session(), ToolCall::new("sum", json!({}))).await;
/// assert_eq!(result.output.to_text(), "5050");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Context(Arc<Inner>);

/// The fields of a context.
pub(crate) struct Inner {
    pub(crate) call: CallId,
    pub(crate) turn: TurnId,
    pub(crate) tool: String,
    pub(crate) made: ModelCallPosition,
    /// All kinds of effects that calls of the tool may have.
    pub(crate) kinds: EffectKinds,
    pub(crate) session: Arc<Session>,
    pub(crate) grant: Grant,
    /// Shared state of the engine, among it the hooks that decide on effects which come up during the call.
    pub(crate) engine: Arc<Shared>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) session_files: SessionFiles,
    pub(crate) history: Arc<dyn History>,
    pub(crate) outputs: Arc<dyn Outputs>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) broker: Arc<Broker>,
    /// Arguments with secrets redacted.
    pub(crate) input: Value,
    /// True if the arguments hold no secret, so that `input` is complete.
    pub(crate) is_whole: bool,
    pub(crate) overrides: Overrides,
    pub(crate) cancel: CancellationToken,
    /// Links of this call to the calls that it makes.
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) secrets: Arc<Secrets>,
    /// Declared paths, as they resolved when the call was decided on.
    pub(crate) resolved: Vec<(PathBuf, Resolved)>,
    pub(crate) observed: Lock<ObservedFiles>,
    pub(crate) said: Lock<PartialOutput>,
}

/// Output of a tool so far, which is shown if the call is stopped.
#[derive(Debug, Default)]
pub(crate) struct PartialOutput {
    partial: String,
    stream: RedactionStream,
}

/// Maximum bytes of output that are kept for a call that is stopped.
const MAX_PARTIAL_BYTES: usize = 1 << 20;

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("call", &self.0.call)
            .field("grant", &self.0.grant)
            .finish_non_exhaustive()
    }
}

impl Context {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// Returns the id of the call.
    pub fn call_id(&self) -> &CallId {
        &self.0.call
    }

    pub(crate) fn engine(&self) -> &Arc<Shared> {
        &self.0.engine
    }

    pub(crate) fn lineage(&self) -> &Arc<Lineage> {
        &self.0.lineage
    }

    pub(crate) fn cancel_token(&self) -> &CancellationToken {
        &self.0.cancel
    }

    /// Gives up caching the result: not everything that it depends on is known.
    pub(crate) fn forget_observed(&self) {
        self.0.observed.lock().0 = None;
    }

    /// Returns the call's position in the conversation of a model, as far as the caller gave it: the model's own id for the call,
    /// the message that contains it, and the model.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde_json::json;
    /// use windlass_core::{Output, ToolCall, testing::MockTool};
    /// # use windlass_core::{Engine, Toolbox, testing::EmptyHost};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_core::ToolboxError> {
    /// let tool = MockTool::named("whose").answering(|cx, _| async move {
    ///     let message = cx.made().message.clone().unwrap_or_default();
    ///     Ok(Output::text(format!("{message} of {} at depth {}", cx.agent(), cx.depth())))
    /// });
    /// # let mut tools = Toolbox::new();
    /// # tools.add(tool)?;
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
    /// let call = ToolCall::new("whose", json!({})).in_message("msg_1");
    /// let result = engine.call(&engine.new_session(), call).await;
    /// assert_eq!(result.output.to_text(), "msg_1 of main at depth 0");
    /// # Ok(())
    /// # }
    /// ```
    pub fn made(&self) -> &ModelCallPosition {
        &self.0.made
    }

    /// Returns the turn of the call.
    pub fn turn_id(&self) -> &TurnId {
        &self.0.turn
    }

    /// Returns the name of the agent that makes the call.
    pub fn agent(&self) -> &str {
        self.0.session.agent()
    }

    /// Returns the number of parent agents: 0 for the main agent.
    pub fn depth(&self) -> u32 {
        self.0.overrides.depth.unwrap_or(0)
    }

    /// Returns the session of the call.
    pub fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// Returns the granted effects, and the decision behind them.
    pub fn grant(&self) -> &Grant {
        &self.0.grant
    }

    /// Returns the limits and settings of this call.
    pub fn overrides(&self) -> &Overrides {
        &self.0.overrides
    }

    /// Returns the present time.
    pub fn now(&self) -> SystemTime {
        self.0.host.clock().now()
    }

    /// Returns the door to files.
    pub fn files(&self) -> FilesDoor<'_> {
        FilesDoor { cx: &self.0 }
    }

    /// Returns the door to the undo history; needs the effect `State("undo")`.
    pub fn undo(&self) -> Result<UndoDoor<'_>, ToolError> {
        if self.0.grant.may_use_state("undo") {
            Ok(UndoDoor { cx: &self.0 })
        } else {
            Err(ToolError::undeclared_effect(
                "the tool asked for earlier changes without declaring state `undo`",
            ))
        }
    }

    /// Returns the door to programs.
    pub fn processes(&self) -> Result<ProcessDoor<'_>, ToolError> {
        Ok(ProcessDoor { cx: self, processes: self.machine_processes()? })
    }

    /// Returns the jobs of this session, newest last; needs the effect `State("jobs")`.
    pub fn jobs(&self) -> Result<Vec<Arc<Job>>, ToolError> {
        if self.0.grant.may_use_state("jobs") {
            return Ok(self.0.session.all_jobs());
        }
        Err(ToolError::undeclared_effect(
            "the tool asked for the session's jobs without declaring state `jobs`",
        ))
    }

    /// Returns a complete output that was kept; needs the effect `State("output")`.
    pub fn kept_output(&self, call: &CallId) -> Result<Option<String>, ToolError> {
        if !self.0.grant.may_use_state("output") {
            return Err(ToolError::undeclared_effect(
                "the tool read a kept output without declaring state `output`",
            ));
        }
        self.0.outputs.get(call).map_err(|error| ToolError::host_failed(error.to_string()))
    }

    /// Returns a secret by its name, to pass it on; needs the effect `Secret` of that name.
    pub fn secret(&self, name: &str) -> Result<SecretValue, ToolError> {
        if !self.0.grant.covers(&Effect::Secret(name.to_owned())) {
            return Err(ToolError::undeclared_effect(format!(
                "the tool asked for the secret `{name}` without having declared it"
            )));
        }
        self.0.secrets.get(name).ok_or_else(|| {
            let mut names: Vec<&str> = self.0.secrets.names().collect();
            names.sort_unstable();
            names.dedup();
            let error = ToolError::failed(format!("there is no secret of the name `{name}`"));
            error.hint(match names.as_slice() {
                [] => {
                    "none is known; a person can name some in the configuration: `secrets`".into()
                }
                names => format!("those that are known: {}", names.join(", ")),
            })
        })
    }

    /// Returns the placeholders of redacted secrets in a text.
    pub fn placeholders<'t>(&self, text: &'t str) -> Vec<&'t str> {
        self.0.secrets.placeholders(text)
    }

    /// Returns whether the call was stopped. Long loops check it regularly.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// Completes when the call is stopped.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + '_ {
        self.0.cancel.cancelled()
    }

    /// Publishes new output to subscribers.
    pub fn output(&self, delta: &str) {
        if self.0.lineage.check_open().is_err() {
            return;
        }
        let mut said = self.0.said.lock();
        let clean = said.stream.push(&self.0.secrets, delta);
        self.publish_output(said, &clean);
    }

    /// Publishes the output that was held back because it might have been the beginning of a secret.
    pub(crate) fn end_output(&self) {
        let mut said = self.0.said.lock();
        let rest = said.stream.end(&self.0.secrets);
        self.publish_output(said, &rest);
    }

    /// Adds clean output to the partial output, and publishes it.
    fn publish_output(&self, mut said: MutexGuard<'_, PartialOutput>, clean: &str) {
        if clean.is_empty() {
            return;
        }
        said.partial.push_str(clean);
        if said.partial.len() > MAX_PARTIAL_BYTES {
            let cut = said.partial.ceil_char_boundary(said.partial.len() - MAX_PARTIAL_BYTES / 2);
            said.partial.drain(..cut);
        }
        drop(said);
        if self.is_heard() {
            self.0.recorder.publish_live(&self.source(), EventKind::Output { delta: clean.into() });
        }
    }

    /// Returns whether output and progress of the call have a subscriber.
    pub(crate) fn is_heard(&self) -> bool {
        self.0.recorder.has_live_listener(&self.0.session, &self.0.call)
    }

    /// Returns the call as a source of events.
    pub(crate) fn source(&self) -> EventSource {
        EventSource::call(&self.0.session, &self.0.call, self.0.lineage.parent())
    }

    /// Publishes the progress of the call to subscribers.
    pub fn progress(&self, done: u64, total: Option<u64>, message: &str) {
        if self.is_heard() && self.0.lineage.check_open().is_ok() {
            let message = self.0.secrets.redact(message).into();
            self.0
                .recorder
                .publish_live(&self.source(), EventKind::Progress { done, total, message });
        }
    }

    /// Runs work that blocks (searching a tree, reading a large file) on a thread where it does not delay other calls.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Context) -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        let cx = self.clone();
        match tokio::task::spawn_blocking(move || work(&cx)).await {
            Ok(done) => Ok(done),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => Err(ToolError::cancelled(error.to_string())),
        }
    }

    /// Takes the output of the call so far, and says what happens to the changes of the program that it waits for. Stops that
    /// program.
    pub(crate) async fn take_partial(&self) -> (String, WhenStopped) {
        let partial = std::mem::take(&mut self.0.said.lock().partial);
        let waits_for = self.0.lineage.waits_for.lock().take();
        match waits_for {
            Some(job) => {
                job.end_with_call().await;
                let from = job.printed().saturating_sub(MAX_PARTIAL_BYTES as u64);
                let printed = self.printed(&job, from..job.printed());
                (printed.map(|piece| piece.text).collect(), job.when_stopped)
            }
            None => (partial, WhenStopped::Nothing),
        }
    }

    /// Takes the fingerprints of the objects that the call read, so that its result can be cached until one changes; `None` if they
    /// are too many.
    pub(crate) fn take_observed(&self) -> Option<Vec<(PathBuf, Fingerprint)>> {
        std::mem::take(&mut *self.0.observed.lock()).0
    }
}

impl Inner {
    /// Returns the files of the machine, or the files with the session's proposals applied.
    fn files(&self) -> CallFiles<'_> {
        let inner = self.session_files.get();
        match self.session.proposals() {
            None => CallFiles::Machine(inner),
            Some(proposals) => {
                // If the list cannot be read again, the known one is used; the next change reports the error.
                drop(proposals.refresh());
                CallFiles::Proposed(Overlay { inner, proposals, by: self.proposed_by() })
            }
        }
    }

    /// Returns the history that records changes. Proposals have a list of their own instead.
    fn history(&self) -> &dyn History {
        if self.session.proposals().is_some() { &Untracked } else { &*self.history }
    }

    /// Returns this call as the author of proposals.
    fn proposed_by(&self) -> ProposedBy {
        ProposedBy {
            call: self.call.clone(),
            session: self.session.id().clone(),
            tool: self.tool.clone(),
            at: self.host.clock().now(),
        }
    }
}

/// The files that a call works on.
enum CallFiles<'a> {
    Machine(&'a dyn Files),
    Proposed(Overlay<'a>),
}

impl<'a> std::ops::Deref for CallFiles<'a> {
    type Target = dyn Files + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Machine(files) => *files,
            Self::Proposed(overlay) => overlay,
        }
    }
}

/// Paths and fingerprints that a call read; `None` if they are too many.
#[derive(Debug)]
pub(crate) struct ObservedFiles(Option<Vec<(PathBuf, Fingerprint)>>);

impl Default for ObservedFiles {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl ObservedFiles {
    /// Adds fingerprints. Drops all of them if they are unknown or too many.
    fn extend(&mut self, more: Option<impl IntoIterator<Item = (PathBuf, Fingerprint)>>) {
        let (Some(all), Some(more)) = (&mut self.0, more) else {
            self.0 = None;
            return;
        };
        all.extend(more);
        if all.len() > WalkReport::MAX_OBSERVED {
            self.0 = None;
        }
    }
}
