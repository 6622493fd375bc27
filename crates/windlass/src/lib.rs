//! Windlass runs the tool calls of language models on this machine: confined, reversible, on the record.
//!
//! # The first call
//!
//! ```
//! use serde_json::json;
//! use windlass::{Mode, ToolCall, Windlass};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let workspace = folder.path();
//! let windlass = Windlass::builder(workspace).mode(Mode::Auto).build()?;
//! let session = windlass.new_session();
//! let write = ToolCall::new("write", json!({"path": "hello.txt", "content": "hello\n"}));
//! let read = ToolCall::new("read", json!({"path": "hello.txt"}));
//! let results = windlass.turn(&session, vec![write, read]).await;
//! assert!(results[1].output.to_text().contains("hello"));
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | to | see |
//! |---|---|
//! | choose a mode, rules, a state directory, a sandbox | [`Builder`] |
//! | write a tool, or a source of tools | [`tool`], [`effect`] |
//! | speak a provider's JSON | [`wire`] |
//! | ask a person, or answer for one | [`people`] |
//! | watch what happens | [`event`] |
//! | give a sub-agent fewer rights, or a budget | [`session`] |
//! | undo, hold changes back, come back to a moment | [`changes`] |
//! | look back at the record | [`journal`] |
//! | keep values from call to call, search documents | [`state`] |
//! | decide, explain, redact | [`policy`] |
//! | start programs, or confine them | [`process`] |
//! | let programs or code watch over calls | [`hooks`] |
//! | cancel a call by its id, replace tools, steer the cache | [`engine`] |
//! | bring a machine of your own | [`host`], [`files`] |
//!
//! The most used names stand here as well as in their modules. Each of the `examples/` runs on its own and has fewer than 60 lines.

mod builder;
pub mod changes;
mod command_tools;
mod difference;
pub mod effect;
pub mod engine;
mod error;
pub mod event;
pub mod files;
pub mod hooks;
pub mod host;
pub mod journal;
pub mod people;
pub mod policy;
pub mod process;
mod reversible;
pub mod session;
pub mod state;
pub mod tool;

use std::path::PathBuf;
use std::sync::Arc;

pub use windlass_core::{
    CallResult, Content, Context, Effects, Event, FunctionTool, Kinds, Mode, Outcome, Output, Rule,
    Session, Tool, ToolCall, ToolError, quote, testing,
};
pub use windlass_wire as wire;

pub use crate::builder::Builder;
use crate::changes::History;
pub use crate::changes::Undo;
use crate::engine::Engine;
pub use crate::error::Error;
use crate::event::Subscription;
use crate::journal::Store;
use crate::reversible::Reversible;
use crate::session::CallId;
use crate::tool::Spec;

/// An engine on this machine with the built-in tools. Cheap to clone.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// let windlass = windlass::Windlass::builder(folder.path()).build()?;
/// assert!(windlass.store().is_none(), "nothing is written unless a place is given");
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Windlass {
    engine: Engine,
    store: Option<Arc<Store>>,
    reversible: Arc<Reversible>,
}

impl Windlass {
    /// Begins with a workspace.
    ///
    /// ```
    /// use windlass::{Mode, Windlass};
    /// let builder = Windlass::builder(".").mode(Mode::Plan);
    /// # drop(builder);
    /// ```
    pub fn builder(workspace: impl Into<PathBuf>) -> Builder {
        Builder::new(workspace.into())
    }

    /// The journal, if there is one.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// The engine, for what has no method here: answers to approvals, explanations, the policy, the cache, toolsets.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What was changed and what was there before.
    pub fn history(&self) -> &Arc<dyn History> {
        &self.reversible.history
    }

    /// What was left half-done by a program that was killed, and how it was put right when this one was built: one line each.
    pub fn recovered(&self) -> &[String] {
        &self.reversible.recovered
    }

    /// Begins a session under a new id.
    pub fn new_session(&self) -> Arc<Session> {
        self.engine.new_session()
    }

    /// Returns the definitions of the tools that a model is offered in a session.
    pub async fn tools(&self, session: &Arc<Session>) -> Vec<Spec> {
        self.engine.tools(session).await
    }

    /// Runs one call to its end.
    pub async fn call(&self, session: &Arc<Session>, call: ToolCall) -> CallResult {
        self.engine.call(session, call).await
    }

    /// Runs the calls of one turn: at the same time where their effects allow it. The results are in the order of the calls.
    pub async fn turn(&self, session: &Arc<Session>, calls: Vec<ToolCall>) -> Vec<CallResult> {
        self.engine.turn(session, calls).await
    }

    /// Starts one call and returns its id at once; see [`Engine::start`].
    pub fn start(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> (CallId, impl Future<Output = CallResult> + Send + use<>) {
        self.engine.start(session, call)
    }

    /// Stops one call, with all that it started. Returns false if it is not running.
    pub fn cancel(&self, call: &CallId) -> bool {
        self.engine.cancel(call)
    }

    /// Listens to the events of all sessions; see [`Engine::subscribe_to`] for one session or call.
    pub fn subscribe(&self) -> Subscription {
        self.engine.subscribe()
    }
}
