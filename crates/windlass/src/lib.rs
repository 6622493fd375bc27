//! Windlass runs the tool calls of language models on this machine: confined, reversible, on the record.
//!
//! This page is a guide from the first call to stores of your own. Each section ends with the module that says more. The programs in
//! `examples/` show one thing each in fewer than 60 lines.
//!
//! - [Start](#start)
//! - [Tools of your own](#tools-of-your-own)
//! - [Decisions by people](#decisions-by-people)
//! - [Events](#events)
//! - [Undo and proposals](#undo-and-proposals)
//! - [Sessions and rights](#sessions-and-rights)
//! - [Stores](#stores)
//! - [Limits](#limits)
//! - [All modules](#all-modules)
//!
//! # Start
//!
//! A [`Builder`] makes a [`Windlass`] for one workspace: the directory that tools may read and change. The [`Mode`] decides where no
//! [`Rule`] does. A [`Session`] is one conversation. A model's turn is a list of [`ToolCall`]s; the results come back in their order. A
//! call that fails or is denied is no `Err`: its [`CallResult`] says so, in words for the model.
//!
//! ```
//! use serde_json::json;
//! use windlass::{Mode, Outcome, ToolCall, Windlass};
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
//! assert_eq!(results[0].outcome, Outcome::Ok);
//! assert!(results[1].output.to_text().contains("hello"));
//! # Ok(())
//! # }
//! ```
//!
//! [`Windlass::tools`] lists what to offer the model. [`wire`] reads and writes the JSON of providers; `examples/embed.rs` answers a
//! whole message with it.
//!
//! # Tools of your own
//!
//! A tool is its arguments, its effects and a function. The doc comments of the arguments are what the model reads. The effects say what
//! this very call does; without effects, [`FunctionTool::pure`] is enough. The [`Context`] is the way to the machine, and refuses what
//! was not declared.
//!
//! ```
//! use std::path::PathBuf;
//!
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use windlass::{Effects, FunctionTool, EffectKinds, Output, ToolCall, ToolError, Windlass};
//!
//! /// Count the lines of a file.
//! #[derive(Deserialize, JsonSchema)]
//! struct Count {
//!     /// The file.
//!     path: PathBuf,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # std::fs::write(folder.path().join("poem.txt"), "one\ntwo\n").unwrap();
//! let effects = |args: &Count| Effects::read(&args.path);
//! let count = FunctionTool::new("count", EffectKinds::READ, effects, |cx, args: Count| async move {
//!     let file = cx.files().open(&args.path)?.file;
//!     let text = std::io::read_to_string(file).map_err(|error| ToolError::failed(error.to_string()))?;
//!     cx.progress(1, Some(1), "files counted");
//!     Ok(Output::text(text.lines().count().to_string()))
//! });
//! let windlass = Windlass::builder(folder.path()).tool(count).build()?;
//! let call = ToolCall::new("count", serde_json::json!({"path": "poem.txt"}));
//! assert_eq!(windlass.call(&windlass.new_session(), call).await.output.to_text(), "2");
//! # Ok(())
//! # }
//! ```
//!
//! More: [`tool`] for the other kinds of tools and for toolsets that come and go, [`effect`], [`files`], [`process`], and
//! `examples/streaming_tool.rs`.
//!
//! # Decisions by people
//!
//! Where nothing allows or denies a call, a person is asked, through an [`Attendant`](people::Attendant). Without one, such a call is
//! denied at once. A closure is an attendant. A page or a chat registers [`EventAttendant`](people::EventAttendant) instead, hears of the question as
//! an event and answers by its id:
//!
//! ```
//! use serde_json::json;
//! use windlass::event::EventKind;
//! use windlass::people::{Answer, EventAttendant};
//! use windlass::{Outcome, ToolCall, Windlass};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let windlass = Windlass::builder(folder.path()).build()?;
//! let session = windlass.new_session();
//! let _there = windlass.engine().attend(session.id(), EventAttendant::default());
//! let mut events = windlass.subscribe();
//!
//! let write = ToolCall::new("write", json!({"path": "a.txt", "content": "a\n"}));
//! let (_, running) = windlass.start(&session, write);
//! let request = loop {
//!     if let EventKind::Approval(request) = events.next().await.kind {
//!         break request;
//!     }
//! };
//! assert_eq!(request.input["path"], "a.txt");
//! windlass.engine().answer(&request.id, Answer::allow().because("a harmless file")).await?;
//! assert_eq!(running.await.outcome, Outcome::Ok);
//! # Ok(())
//! # }
//! ```
//!
//! A tool that needs a person for some arguments, whatever the rules allow, says so with [`FunctionTool::needs_person_if`]. More:
//! [`people`], [`policy`], [`hooks`].
//!
//! # Events
//!
//! [`Windlass::subscribe`] tells all that happens; a [`EventFilter`](event::EventFilter) narrows it to a session or a call.
//!
//! ```
//! use windlass::event::{EventKind, EventFilter};
//! use windlass::{ToolCall, Windlass};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! let windlass = Windlass::builder(folder.path()).build()?;
//! let session = windlass.new_session();
//! let mut events = windlass.engine().subscribe_to(EventFilter::session(session.id()));
//! windlass.call(&session, ToolCall::new("list", serde_json::json!({}))).await;
//! loop {
//!     match events.next().await.kind {
//!         EventKind::Started(started) => assert_eq!(started.tool, "list"),
//!         EventKind::Output { delta } => print!("{delta}"),
//!         EventKind::Finished(result) => {
//!             assert_eq!(result.tool, "list");
//!             break;
//!         }
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! More: [`event`]. What is on record can be read later too: [`journal`].
//!
//! # Undo and proposals
//!
//! Every change of files can be undone, by call, turn or session: [`Windlass::undo`]. A session that proposes changes nothing: it sees its
//! changes, and the workspace gets them when a person applies them. This needs a state directory.
//!
//! ```
//! use serde_json::json;
//! use windlass::{Mode, Session, ToolCall, Windlass};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (folder, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! let windlass = Windlass::builder(folder.path()).state(state.path()).mode(Mode::Auto).build()?;
//! let session = windlass.proposing(Session::new(windlass.engine().new_session_id()))?;
//! let write = ToolCall::new("write", json!({"path": "a.txt", "content": "a\n"}));
//! windlass.call(&session, write).await;
//! assert!(!folder.path().join("a.txt").exists(), "it is only proposed");
//!
//! let proposals = windlass.proposals(session.id())?;
//! assert_eq!(proposals.list().len(), 1);
//! windlass.apply(&windlass.new_session(), &proposals, None).await;
//! assert_eq!(std::fs::read_to_string(folder.path().join("a.txt"))?, "a\n");
//! # Ok(())
//! # }
//! ```
//!
//! More: [`changes`], and [`Windlass::snapshot`] to come back to a moment.
//!
//! # Sessions and rights
//!
//! Rights only ever shrink. [`Windlass::new_session_with`] begins a session with fewer than the policy leaves, and
//! [`Windlass::child_session`] one for a sub-agent, which ends with its parent.
//!
//! ```
//! use windlass::process::SandboxLevel;
//! use windlass::session::SessionLimits;
//! use windlass::tool::{Predicate, ToolSelection};
//! use windlass::Windlass;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let windlass = Windlass::builder(folder.path()).build()?;
//! // A choice of tools that was saved as JSON.
//! let selection: ToolSelection = serde_json::from_str(r#"{"disabled": ["bash"]}"#)?;
//! let session = windlass.new_session_with(&selection);
//! let limits = SessionLimits {
//!     tools: Predicate::allow(["read", "grep", "bash"]),
//!     sandbox: Some(SandboxLevel::ReadOnly),
//!     ..SessionLimits::default()
//! };
//! let reviewer = windlass.child_session(&session, limits);
//! let names: Vec<_> = windlass.tools(&reviewer).await.into_iter().map(|tool| tool.name).collect();
//! assert_eq!(names, ["read", "grep"], "what the parent may not, the child may not");
//! # Ok(())
//! # }
//! ```
//!
//! More: [`session`].
//!
//! # Stores
//!
//! With [`Builder::state`], the journal, whole outputs, the history of changes and the values that tools keep are in one directory.
//! Without, nothing is written outside of the workspace. The values and the full-text index can be in stores of your own: a list of things
//! to do, or a memory, in your database.
//!
//! ```
//! use std::sync::Arc;
//!
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use serde_json::json;
//! use windlass::state::{MemoryState, StateOwner, StateScope, StateStore};
//! use windlass::{Context, Effects, FunctionTool, EffectKinds, Output, ToolCall, Windlass};
//!
//! /// Set what is to be done.
//! #[derive(Deserialize, JsonSchema)]
//! struct Todo {
//!     /// The things to do.
//!     items: Vec<String>,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! let set = |cx: Context, args: Todo| async move {
//!     cx.state().update(StateScope::Session, "todo", |_| Ok(Some(json!(args.items))))?;
//!     Ok(Output::text("noted"))
//! };
//! let todo = FunctionTool::new("todo", EffectKinds::STATE, |_| Effects::state("todo"), set);
//! let store = Arc::new(MemoryState::default()); // Yours implements `StateStore`.
//! let windlass = Windlass::builder(folder.path()).tool(todo).state_store(store.clone()).build()?;
//!
//! let session = windlass.new_session();
//! windlass.call(&session, ToolCall::new("todo", json!({"items": ["test"]}))).await;
//! let place = StateOwner::Session(session.id().clone());
//! assert_eq!(store.get(&place, "todo")?.expect("it was set").value, json!(["test"]));
//! # Ok(())
//! # }
//! ```
//!
//! More: [`state`], [`journal`], and `examples/own_stores.rs`.
//!
//! # Limits
//!
//! A call ends after [`Builder::timeout`], or when it is cancelled by its id. A session with a [`Budget`](session::Budget) ends when it is
//! spent. Answers that would be the same are taken from a cache, which can be counted, cleared and switched off.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use serde_json::json;
//! use windlass::session::Budget;
//! use windlass::{Session, ToolCall, Windlass};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! let builder = Windlass::builder(folder.path()).timeout(Duration::from_secs(30));
//! let windlass = builder.cache(500, Duration::from_secs(60)).build()?;
//!
//! let budget = Budget { calls: Some(1), ..Budget::default() };
//! let session = Session::new(windlass.engine().new_session_id()).with_budget(budget);
//! let session = Arc::new(session);
//! let list = || ToolCall::new("list", json!({}));
//! assert_eq!(windlass.call(&session, list()).await.code, None);
//! assert_eq!(windlass.call(&session, list()).await.code, Some("busy"), "the budget is spent");
//!
//! let (id, running) = windlass.start(&windlass.new_session(), list());
//! running.await;
//! assert!(!windlass.cancel(&id), "it has ended already");
//!
//! let stats = windlass.engine().cache_stats();
//! assert_eq!((stats.capacity, stats.evictions), (500, 0));
//! assert!((0.0..=1.0).contains(&stats.hit_rate()));
//! windlass.engine().clear_cache();
//! windlass.engine().set_cache_enabled(false);
//! # Ok(())
//! # }
//! ```
//!
//! More: [`engine`], and [`process`] for the limits of programs.
//!
//! # All modules
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
//! | test your tools | [`testing`] |
//!
//! The most used names stand here as well as in their modules. Settings have a `Default`: fill in what you need and end with
//! `..SessionLimits::default()`, so that a new field breaks nothing. Some examples on the pages of types name the crate below that a type comes
//! from:
//! `windlass_core::Budget` is `windlass::session::Budget` for you.

mod approval_diff;
mod builder;
pub mod changes;
mod command_tools;
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
pub mod session;
pub mod state;
pub mod tool;
mod undo;
pub mod wire;

use std::path::PathBuf;
use std::sync::Arc;

pub use windlass_core::{
    CallResult, Content, Context, EffectKinds, Effects, Event, FunctionTool, Mode, Outcome, Output,
    Rule, Session, Tool, ToolCall, ToolError, quote, testing,
};

pub use crate::builder::Builder;
use crate::changes::History;
pub use crate::changes::Undo;
use crate::engine::Engine;
pub use crate::error::Error;
use crate::event::Subscription;
use crate::journal::Store;
use crate::session::{CallId, SessionLimits};
use crate::tool::{Overrides, ToolSpec};
use crate::undo::UndoStores;

/// An engine with this machine as its host and the built-in tools. Cheap to clone.
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
    undo_stores: Arc<UndoStores>,
}

/// # Building, and the parts
impl Windlass {
    /// Begins to build an engine for a workspace.
    pub fn builder(workspace: impl Into<PathBuf>) -> Builder {
        Builder::new(workspace.into())
    }

    /// Returns the journal, if there is a state directory; see [`journal`].
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// Returns the engine, for operations that have no method here: answers to approvals, explanations, the policy, the cache, toolsets;
    /// see [`engine`].
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the undo history.
    pub fn history(&self) -> &Arc<dyn History> {
        &self.undo_stores.history
    }

    /// Returns the recoveries that were made when this engine was built: one line for each change that a killed process had left
    /// unfinished.
    pub fn recovered(&self) -> &[String] {
        &self.undo_stores.recovered
    }
}

/// # Sessions
impl Windlass {
    /// Begins a session under a new id, with all rights that the policy leaves.
    pub fn new_session(&self) -> Arc<Session> {
        self.engine.new_session()
    }

    /// Begins a session with fewer rights: fewer tools, a stricter mode, more rules, or a stricter sandbox.
    ///
    /// ```
    /// use windlass::Windlass;
    /// use windlass::tool::ToolSelection;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let saved = r#"{"disabled": ["bash"]}"#;
    /// let windlass = Windlass::builder(folder.path()).build()?;
    /// let selection: ToolSelection = serde_json::from_str(saved)?;
    /// let session = windlass.new_session_with(&selection);
    /// assert!(windlass.tools(&session).await.iter().all(|tool| tool.name != "bash"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new_session_with(&self, limits: impl Into<SessionLimits>) -> Arc<Session> {
        Arc::new(Session::new(self.engine.new_session_id()).narrow(limits))
    }

    /// Begins a child session, for a sub-agent. It has at most the rights of its parent, shares its budget, and ends with it.
    /// [`Session::child`] takes an id of your own and settings too.
    ///
    /// ```
    /// use windlass::session::SessionLimits;
    /// use windlass::{Mode, Outcome, ToolCall, Windlass};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build()?;
    /// let parent = windlass.new_session();
    /// let child = windlass.child_session(&parent, SessionLimits { mode: Some(Mode::Plan), ..SessionLimits::default() });
    /// let write = ToolCall::new("write", serde_json::json!({"path": "a.txt", "content": "a\n"}));
    /// assert_eq!(windlass.call(&child, write.clone()).await.outcome, Outcome::Denied);
    /// assert_eq!(windlass.call(&parent, write).await.outcome, Outcome::Ok);
    /// # Ok(())
    /// # }
    /// ```
    pub fn child_session(
        &self,
        parent: &Session,
        limits: impl Into<SessionLimits>,
    ) -> Arc<Session> {
        let id = self.engine.new_session_id();
        Arc::new(parent.child(id, limits, &Overrides::default()))
    }
}

/// # Calls and events
impl Windlass {
    /// Returns the definitions of the tools that a model is offered in a session. [`wire::definitions`] writes them as a provider
    /// wants them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::Error> {
    /// use windlass::Windlass;
    /// use windlass::wire::{Format, definitions};
    /// # let folder = tempfile::tempdir().unwrap();
    /// let windlass = Windlass::builder(folder.path()).build()?;
    /// let tools = windlass.tools(&windlass.new_session()).await;
    /// assert_eq!(tools[0].name, "read");
    /// assert_eq!(definitions(Format::Anthropic, &tools)[0]["name"], "read");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn tools(&self, session: &Arc<Session>) -> Vec<ToolSpec> {
        self.engine.tools(session).await
    }

    /// Runs one call to its end. A failure or a denial is a result too, for the model to read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::Error> {
    /// use windlass::{Outcome, ToolCall, Windlass};
    /// # let folder = tempfile::tempdir().unwrap();
    /// let windlass = Windlass::builder(folder.path()).build()?;
    /// let read = ToolCall::new("read", serde_json::json!({"path": "missing.txt"}));
    /// let result = windlass.call(&windlass.new_session(), read).await;
    /// assert_eq!(result.outcome, Outcome::Error);
    /// assert!(result.output.to_text().contains("missing.txt"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn call(&self, session: &Arc<Session>, call: ToolCall) -> CallResult {
        self.engine.call(session, call).await
    }

    /// Runs the calls of one turn, in parallel if their effects allow it. The results are in the order of the calls.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::Error> {
    /// use windlass::{ToolCall, Windlass};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # for name in ["a.txt", "b.txt"] { std::fs::write(folder.path().join(name), name).unwrap(); }
    /// let windlass = Windlass::builder(folder.path()).build()?;
    /// let read = |path| ToolCall::new("read", serde_json::json!({"path": path}));
    /// let results = windlass.turn(&windlass.new_session(), vec![read("a.txt"), read("b.txt")]).await;
    /// assert!(results[1].output.to_text().contains("b.txt"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn turn(&self, session: &Arc<Session>, calls: Vec<ToolCall>) -> Vec<CallResult> {
        self.engine.turn(session, calls).await
    }

    /// Starts one call and returns its id at once, for [`cancel`](Self::cancel) or its events, and a future of its result. See
    /// [`Engine::start`].
    pub fn start(
        &self,
        session: &Arc<Session>,
        call: ToolCall,
    ) -> (CallId, impl Future<Output = CallResult> + Send + use<>) {
        self.engine.start(session, call)
    }

    /// Stops one call, and the calls and programs that it started. Returns false if it is not running. [`engine`] has an example.
    pub fn cancel(&self, call: &CallId) -> bool {
        self.engine.cancel(call)
    }

    /// Subscribes to the events of all sessions; [`Engine::subscribe_to`] is for one session or call. [`event`] has an example.
    pub fn subscribe(&self) -> Subscription {
        self.engine.subscribe()
    }
}
