//! Windlass as a library: the engine, this machine, the built-in tools and the journal, put together by one builder.
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
//! Everything of the contract (tools, effects, policy, events …) is re-exported from `windlass_core`.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use windlass_core::*;
pub use windlass_host::{LocalHost, RandomIds, SystemClock};
pub use windlass_store::{DrainAtClose, Settings, Store, StoreError};
pub use windlass_tools::BUILTIN;

/// An engine on this machine with the built-in tools. It is an [`Engine`] in all it does; see there.
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
}

/// Why it could not be put together.
///
/// ```
/// use windlass::{Error, Windlass};
/// # let folder = tempfile::tempdir().unwrap();
/// let error = Windlass::builder(folder.path().join("missing")).build().unwrap_err();
/// assert!(matches!(&error, Error::Workspace(_)));
/// assert!(error.to_string().starts_with("the workspace cannot be used: "));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The workspace cannot be used.
    #[error("the workspace cannot be used: {0}")]
    Workspace(#[from] FileError),
    /// The journal cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A tool cannot be added.
    #[error(transparent)]
    Toolbox(#[from] ToolboxError),
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

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl Deref for Windlass {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

type Configure = Box<dyn FnOnce(EngineBuilder) -> EngineBuilder>;

/// What can be chosen; see [`Windlass::builder`].
///
/// ```
/// use std::time::Duration;
/// use windlass::{Windlass, testing::MockTool};
/// # let folder = tempfile::tempdir().unwrap();
/// let windlass = Windlass::builder(folder.path())
///     .state(folder.path().join("state"))
///     .allow("write docs/**".parse()?)
///     .tool(MockTool::named("deploy"))
///     .configure(|engine| engine.timeout(Duration::from_secs(60)))
///     .build()?;
/// assert!(windlass.store().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Builder {
    workspace: PathBuf,
    state: Option<PathBuf>,
    drain_at_close: DrainAtClose,
    policy: Policy,
    protected: Vec<PathBuf>,
    readable: Vec<PathBuf>,
    tools: Vec<Handle>,
    configure: Vec<Configure>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("workspace", &self.workspace)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl Builder {
    fn new(workspace: PathBuf) -> Self {
        Self {
            workspace,
            state: None,
            drain_at_close: DrainAtClose::Always,
            policy: Policy::default(),
            protected: Vec::new(),
            readable: Vec::new(),
            tools: Vec::new(),
            configure: Vec::new(),
        }
    }

    /// Keeps the journal and whole outputs in this directory. Default: nothing is kept.
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
        self.state = Some(directory.into());
        self
    }

    /// When closing brings the records of [`Builder::state`] into the database. Default: always.
    pub fn drain_at_close(mut self, when: DrainAtClose) -> Self {
        self.drain_at_close = when;
        self
    }

    /// What happens where no rule decides. Default: ask.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.policy = self.policy.with_mode(mode);
        self
    }

    /// Adds a rule that allows.
    pub fn allow(self, rule: Rule) -> Self {
        self.rule(Decision::Allow, rule)
    }

    /// Adds a rule that denies.
    pub fn deny(self, rule: Rule) -> Self {
        self.rule(Decision::Deny, rule)
    }

    /// Adds a rule.
    pub fn rule(mut self, decision: Decision, rule: Rule) -> Self {
        self.policy = self.policy.with(decision, rule);
        self
    }

    /// Keeps every tool out of these places, whatever the rules say: the embedder's own configuration, say.
    pub fn protect(mut self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        self.protected.extend(places);
        self
    }

    /// Lets these very files be read although their names look secret.
    pub fn not_secret(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.readable.extend(files);
        self
    }

    /// Adds a tool of your own.
    pub fn tool(mut self, tool: impl Into<Handle>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Who answers when the policy asks. Default: nobody, so that "ask" is a denial.
    pub fn approver(self, approver: impl Approver) -> Self {
        self.configure(|engine| engine.approver(approver))
    }

    /// Anything else that an engine can be told.
    pub fn configure(
        mut self,
        configure: impl FnOnce(EngineBuilder) -> EngineBuilder + 'static,
    ) -> Self {
        self.configure.push(Box::new(configure));
        self
    }

    /// Puts it together. Nothing is read or written before the first call but the workspace's own directory entry and, with
    /// [`Builder::state`], the journal.
    pub fn build(self) -> Result<Windlass, Error> {
        let host = LocalHost::open(&self.workspace)?;
        let settings = Settings { drain_at_close: self.drain_at_close, ..Settings::default() };
        let open = |state| Store::open_with(state, settings);
        let store = self.state.as_deref().map(open).transpose()?.map(Arc::new);
        let mut tools = Toolbox::of(BUILTIN)?;
        for tool in self.tools {
            tools.add(tool)?;
        }
        let own = self.state.iter().map(|place| absolute(place)).chain(self.protected);
        let hard_denies = HardDenies::default().protect(own).except(self.readable);
        let mut builder = Engine::builder(Arc::new(host))
            .ids(Arc::new(RandomIds::default()))
            .toolbox(tools)
            .policy(self.policy.with_hard_denies(hard_denies));
        if let Some(store) = &store {
            builder = builder.journal(store.clone()).outputs(store.clone());
        }
        let engine = self
            .configure
            .into_iter()
            .fold(builder, |builder, configure| configure(builder))
            .build();
        Ok(Windlass { engine, store })
    }
}

/// The real place of a directory: rules are about real paths.
fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
