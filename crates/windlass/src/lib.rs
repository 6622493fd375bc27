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

mod command_tools;
mod reversible;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use windlass_core::*;
use windlass_hooks::{CommandHook, HookRunner};
pub use windlass_hooks::{
    HookCommand, HookDefinition, HookFile, HookMatcher, HookShape, PINNABLE, Pin, named_files,
    reached_files,
};
pub use windlass_host::{
    Durability, Isolated, IsolatedChange, IsolatedChangeKind, Isolation, LocalHost, LocalProcesses,
    ProcessSettings, ProxyError, RandomIds, Shell, SystemClock, control_group, hide_memory,
    landlock_version,
};
pub use windlass_store::{
    ApprovalFile, DrainAtClose, HistorySettings, ProposalShelf, QuestionFile, Settings, Store,
    StoreError, UndoHistory,
};
pub use windlass_tools::{BUILTIN, CommandDefinition, CommandTool, DefinitionError, diff};
pub use windlass_wire as wire;

pub use crate::command_tools::{CommandFile, command_files};
use crate::command_tools::{CommandTools, Source as CommandSource};
use crate::reversible::Reversible;
pub use crate::reversible::Undo;

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
    reversible: Arc<Reversible>,
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
    /// Something outside of a call did not work.
    #[error("{0}")]
    Tool(#[from] ToolError),
    /// Something needs a place to be kept in.
    #[error("{0} need a state directory; give one to the builder with `state`")]
    NoState(&'static str),
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

    /// What was changed and what was there before.
    pub fn history(&self) -> &Arc<dyn History> {
        &self.reversible.history
    }

    /// What was left half-done by a program that was killed, and how it was put right when this one was built: one line each.
    pub fn recovered(&self) -> &[String] {
        &self.reversible.recovered
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
    outside_anchor: Option<PathBuf>,
    durability: Durability,
    processes: ProcessSettings,
    history: HistorySettings,
    policy: Policy,
    protected: Vec<PathBuf>,
    readable: Vec<PathGlob>,
    home: Option<PathBuf>,
    tools: Vec<Handle>,
    command_tools: Vec<CommandSource>,
    hooks: Vec<HookDefinition>,
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
            outside_anchor: None,
            durability: Durability::Disk,
            processes: ProcessSettings::default(),
            history: HistorySettings::default(),
            policy: Policy::default(),
            protected: Vec::new(),
            readable: Vec::new(),
            home: None,
            tools: Vec::new(),
            command_tools: Vec::new(),
            hooks: Vec::new(),
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

    /// A file outside of the state directory that says how far the journal came: with it, a state that is put back from an older copy
    /// is noticed. Default: none.
    pub fn outside_anchor(mut self, file: Option<PathBuf>) -> Self {
        self.outside_anchor = file;
        self
    }

    /// Whether changes of files, and what it takes to undo them, are safe from a loss of power before they count as made. Default:
    /// they are. Without, they are still safe from a kill.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self.history.sync = durability == Durability::Disk;
        self
    }

    /// How programs are confined, and what they get. Default: they may change the workspace and reach nobody.
    ///
    /// ```
    /// use windlass::{Confinement, Level, ProcessSettings, Windlass};
    /// # let folder = tempfile::tempdir().unwrap();
    /// let confinement = Confinement { level: Level::ReadOnly, ..Confinement::default() };
    /// let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
    /// let windlass = Windlass::builder(folder.path()).processes(settings).build()?;
    /// # drop(windlass);
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn processes(mut self, settings: ProcessSettings) -> Self {
        self.processes = settings;
        self
    }

    /// How much of what was there before is kept, and for how long.
    pub fn undo_limits(mut self, quota: u64, age: Duration) -> Self {
        self.history.quota = quota;
        self.history.age = age;
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

    /// Adds a rule with all that is known of it: who laid it down, why, and until when.
    pub fn ruling(mut self, ruling: Ruling) -> Self {
        self.policy = self.policy.with_ruling(ruling);
        self
    }

    /// Whether what somebody else may have written makes a session ask more; see [`Policy::with_provenance`]. Default: it does.
    pub fn provenance(mut self, provenance: bool) -> Self {
        self.policy = self.policy.with_provenance(provenance);
        self
    }

    /// Keeps every tool out of these places, whatever the rules say: the embedder's own configuration, say.
    pub fn protect(mut self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        self.protected.extend(places);
        self
    }

    /// Lets these files be read although their names look secret: globs relative to the workspace or absolute, or exact paths.
    pub fn not_secret<G: Into<PathGlob>>(mut self, files: impl IntoIterator<Item = G>) -> Self {
        self.readable.extend(files.into_iter().map(Into::into));
        self
    }

    /// The person's home directory, which no tool removes or replaces as a whole.
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Adds a tool of your own.
    pub fn tool(mut self, tool: impl Into<Handle>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Adds the command files of a directory: each is a tool that runs a command. They are read when they are first needed; what is
    /// wrong with one is an [`EventKind::Warning`]. The directory is the person's own, whose word counts: a file that says that it
    /// only looks at files needs no permission to run a program, as long as the sandbox keeps it to that.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use serde_json::json;
    /// use windlass::{Mode, ToolCall, Windlass};
    /// # let folder = tempfile::tempdir()?;
    /// # let (workspace, tools) = (folder.path().join("work"), folder.path().join("tools"));
    /// # std::fs::create_dir(&workspace)?;
    /// # std::fs::create_dir(&tools)?;
    /// let file = "---\nname: greet\ncommand: echo hello\n---\nSay hello.\n";
    /// std::fs::write(tools.join("greet.md"), file)?;
    /// let windlass = Windlass::builder(workspace).mode(Mode::Auto).command_tools(tools).build()?;
    /// let result = windlass.call(&windlass.new_session(), ToolCall::new("greet", json!({}))).await;
    /// assert_eq!(result.output.to_text(), "hello\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn command_tools(mut self, directory: impl Into<PathBuf>) -> Self {
        self.command_tools.push(CommandSource::Directory(directory.into()));
        self
    }

    /// Adds command files that came with the workspace, once a person has looked at just these and trusts them. A call of theirs
    /// always needs the permission to run its command.
    pub fn trusted_command_files(mut self, files: Vec<CommandFile>) -> Self {
        self.command_tools.push(CommandSource::Trusted(files));
        self
    }

    /// Adds programs that are told what happens and may have a say in it. They run in this order, each confined as it says itself.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use windlass::{Author, HookFile, HookShape, Mode, Outcome, ToolCall, Windlass};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// let text = "[[hooks]]\nevent = \"pre_tool\"\nmatch = { effect = \"write\" }\ncommand = \"echo not today >&2; exit 2\"\n";
    /// let file = HookFile { path: "hooks.toml".into(), text: text.into(), author: Author::Person, shape: HookShape::Windlass };
    /// let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).hooks(file.read().0).build()?;
    /// let write = ToolCall::new("write", json!({"path": "a.txt", "content": "a"}));
    /// let result = windlass.call(&windlass.new_session(), write).await;
    /// assert_eq!(result.outcome, Outcome::Denied);
    /// assert!(result.output.to_text().ends_with("says no: not today"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn hooks(mut self, hooks: Vec<HookDefinition>) -> Self {
        self.hooks.extend(hooks);
        self
    }

    /// A front door where a person can be asked, for all sessions: a closure will do. Default: none, so that "ask" is a denial.
    pub fn attendant(self, attendant: impl Attendant) -> Self {
        self.configure(|engine| engine.attendant(attendant))
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
    /// [`Builder::state`], the journal and what a program that was killed left half-done.
    pub fn build(self) -> Result<Windlass, Error> {
        let mut processes = self.processes.settled(&self.workspace);
        processes.state = processes.state.or_else(|| self.state.as_deref().map(absolute));
        let confinement = processes.confinement.clone();
        let policy = self
            .policy
            .with_confined_programs(confinement.is_whole())
            .with_connected_programs(confinement.network != NetworkAccess::None);
        let own = self.state.iter().map(|place| absolute(place)).chain(self.protected);
        let mut hard_denies = HardDenies::default().protect(own).except(self.readable);
        if let Some(home) = &self.home {
            hard_denies = hard_denies.home(absolute(home));
        }
        let policy = policy.with_hard_denies(hard_denies);
        let host = LocalHost::open_with(&self.workspace, self.durability)?;
        let workspace = host.files().workspace().to_owned();
        let now = host.clock().now();
        let rights = FileRights::new(Arc::new(policy.clone()), workspace, now);
        processes.rights = Some(Arc::new(rights));
        let host: Arc<dyn Host> = Arc::new(host.with_processes(processes.clone()));
        let settings = Settings {
            drain_at_close: self.drain_at_close,
            outside_anchor: self.outside_anchor,
            ..Settings::default()
        };
        let open = |state| Store::open_with(state, settings);
        let store = self.state.as_deref().map(open).transpose()?.map(Arc::new);
        let mut tools = Toolbox::of(BUILTIN)?;
        for tool in self.tools {
            tools.add(tool)?;
        }
        let reversible = Reversible::open(host.clone(), self.state.as_deref(), self.history)?;
        if let Some(store) = &store {
            reversible.record(&**store);
        }
        let mut builder = Engine::builder(host.clone())
            .ids(Arc::new(RandomIds::default()))
            .toolbox(tools)
            .history(reversible.history.clone())
            .policy(policy);
        if !self.command_tools.is_empty() {
            let tools = CommandTools { sources: self.command_tools, confinement };
            builder = builder.toolset(Arc::new(tools));
        }
        let runner = Arc::new(HookRunner::new(host, processes));
        for hook in self.hooks {
            builder = builder.hook(Arc::new(CommandHook::new(hook, runner.clone())));
        }
        if let Some(store) = &store {
            let book = Arc::new(ApprovalFile::in_state(store.state_dir()));
            let questions = Arc::new(QuestionFile::in_state(store.state_dir()));
            builder = builder
                .journal(store.clone())
                .outputs(store.clone())
                .state_store(store.clone())
                .text_index(store.clone());
            builder = builder.approval_book(book).question_book(questions);
        }
        let engine = self
            .configure
            .into_iter()
            .fold(builder, |builder, configure| configure(builder))
            .build();
        Ok(Windlass { engine, store, reversible: Arc::new(reversible) })
    }
}

/// Whether these are hosts that a program can be let talk to; see [`NetworkAccess::Hosts`].
///
/// ```
/// assert!(windlass::check_hosts(&["docs.rs".into(), "*.example.org".into()]).is_ok());
/// assert!(windlass::check_hosts(&["https://docs.rs/".into()]).is_err());
/// ```
pub fn check_hosts(hosts: &[String]) -> Result<(), ProxyError> {
    windlass_host::Proxy::check(hosts)
}

/// The real place of a directory: rules are about real paths.
fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
