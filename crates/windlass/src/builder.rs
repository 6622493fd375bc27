//! The one builder of the library: this machine, the built-in tools, the policy, and the journal if there is a state directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_hooks::{CommandHook, HookRunner};

use crate::changes::HistorySettings;
use crate::command_tools::{CommandFileSource, CommandTools};
use crate::engine::{Engine, EngineBuilder};
use crate::files::Durability;
use crate::hooks::{Hook, HookDefinition};
use crate::host::{Host, HttpSettings, LocalHost};
use crate::journal::{DrainAtClose, Store, StoreSettings};
use crate::people::{ApprovalFile, Attendant, QuestionFile};
use crate::policy::{
    ActiveRule, Decision, FileRights, HardDenies, Mode, PathGlob, Policy, Rule, Secrets,
};
use crate::process::{ProcessSettings, Shell};
use crate::session::RandomIds;
use crate::state::{StateStore, TextIndex};
use crate::tool::{BUILTIN, CommandFile, ToolHandle, Toolbox, Toolset};
use crate::undo::UndoStores;
use crate::{Error, Windlass};

/// A change of the engine's builder that is made last.
type Configure = Box<dyn FnOnce(EngineBuilder) -> EngineBuilder>;

/// Builds a [`Windlass`]. Everything but the workspace has a default.
///
/// ```
/// use std::time::Duration;
/// use windlass::{Windlass, testing::MockTool};
/// # let folder = tempfile::tempdir().unwrap();
/// let windlass = Windlass::builder(folder.path())
///     .state(folder.path().join("state"))
///     .allow("write docs/**".parse()?)
///     .tool(MockTool::named("deploy"))
///     .timeout(Duration::from_secs(60))
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
    shell: Option<Shell>,
    network: HttpSettings,
    history: HistorySettings,
    policy: Policy,
    protected: Vec<PathBuf>,
    readable: Vec<PathGlob>,
    home: Option<PathBuf>,
    tools: Vec<ToolHandle>,
    command_tools: Vec<CommandFileSource>,
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
    pub(crate) fn new(workspace: PathBuf) -> Self {
        Self {
            workspace,
            state: None,
            drain_at_close: DrainAtClose::Always,
            outside_anchor: None,
            durability: Durability::Disk,
            processes: ProcessSettings::default(),
            shell: None,
            network: HttpSettings::default(),
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
}

/// # State and history
impl Builder {
    /// Keeps the journal, whole outputs, the values of [`Context::state`](crate::Context::state) and the full-text index in this
    /// directory. Default: nothing is kept, and there is no index.
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
        self.state = Some(directory.into());
        self
    }

    /// Sets when closing moves the records of [`Builder::state`] into the database. Default: always.
    pub fn drain_at_close(mut self, when: DrainAtClose) -> Self {
        self.drain_at_close = when;
        self
    }

    /// Sets a file outside of the state directory that keeps the journal's last hash, so that a state directory replaced by an older copy
    /// is noticed. Default: none.
    pub fn outside_anchor(mut self, file: Option<PathBuf>) -> Self {
        self.outside_anchor = file;
        self
    }

    /// Sets whether changes of files, and their undo history, are on disk before a call ends, so that a loss of power cannot undo them.
    /// Default: they are. Otherwise they are still safe if the process is killed.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self.history.sync = durability == Durability::Disk;
        self
    }

    /// Limits the undo history: its quota in bytes, and the maximum age of a checkpoint.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::Windlass;
    /// # let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    /// let week = Duration::from_secs(7 * 24 * 60 * 60);
    /// let windlass = Windlass::builder(folder.path()).state(state.path()).undo_limits(1 << 30, week).build()?;
    /// assert!(windlass.lasting_history().is_some());
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn undo_limits(mut self, quota: u64, age: Duration) -> Self {
        self.history.quota = quota;
        self.history.age = age;
        self
    }
}

/// # Programs and network
impl Builder {
    /// Sets the sandbox, environment and limits of programs. Default: they may change the workspace and have no network.
    ///
    /// ```
    /// use windlass::Windlass;
    /// use windlass::process::{Confinement, SandboxLevel, ProcessSettings};
    /// # let folder = tempfile::tempdir().unwrap();
    /// let confinement = Confinement { level: SandboxLevel::ReadOnly, ..Confinement::default() };
    /// let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
    /// let windlass = Windlass::builder(folder.path()).processes(settings).build()?;
    /// # drop(windlass);
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn processes(mut self, settings: ProcessSettings) -> Self {
        self.processes = settings;
        self
    }

    /// Sets the shell for the commands of `bash`, `test` and command files. Default: bash.
    ///
    /// Commands are read before they run if the shell is bash, `sh`, `dash`, `ash` or `busybox`. A command for another shell counts as not
    /// understood: no `exec` rule allows it, it runs on a stage and a person decides about its changes, and if a `deny exec` rule could
    /// apply, a person is asked before it runs. Hooks are always run by bash. [`Builder::build`] fails if the shell is not there.
    ///
    /// ```
    /// use windlass::Windlass;
    /// use windlass::process::Shell;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let windlass = Windlass::builder(folder.path()).shell(Shell::new("/bin/sh")).build()?;
    /// let error = Windlass::builder(folder.path()).shell(Shell::new("/opt/none/fish")).build().unwrap_err();
    /// assert!(error.to_string().contains("install it, or name another"));
    /// # drop(windlass);
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn shell(mut self, shell: Shell) -> Self {
        self.shell = Some(shell);
        self
    }

    /// Sets the network access of tools that send requests. Default: host names are resolved as the machine is configured to.
    ///
    /// ```
    /// use windlass::Windlass;
    /// use windlass::host::HttpSettings;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let windlass = Windlass::builder(folder.path()).network(HttpSettings::default()).build()?;
    /// assert!(windlass.engine().host().network().is_some());
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn network(mut self, settings: HttpSettings) -> Self {
        self.network = settings;
        self
    }
}

/// # Policy
impl Builder {
    /// Sets the mode, which decides about effects without a rule. Default: ask.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.policy = self.policy.with_mode(mode);
        self
    }

    /// Adds a rule that allows an effect.
    ///
    /// ```
    /// use windlass::policy::Mode;
    /// use windlass::Windlass;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let builder = Windlass::builder(folder.path()).mode(Mode::Plan);
    /// let windlass = builder.allow("write docs/**".parse()?).deny("read docs/draft.md".parse()?).build()?;
    /// assert_eq!(windlass.engine().policy().rules().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allow(self, rule: Rule) -> Self {
        self.rule(Decision::Allow, rule)
    }

    /// Adds a rule that denies an effect.
    pub fn deny(self, rule: Rule) -> Self {
        self.rule(Decision::Deny, rule)
    }

    /// Adds a rule with the given decision.
    pub fn rule(mut self, decision: Decision, rule: Rule) -> Self {
        self.policy = self.policy.with(decision, rule);
        self
    }

    /// Adds a rule with its layer, its reason and its end.
    pub fn ruling(mut self, ruling: ActiveRule) -> Self {
        self.policy = self.policy.with_ruling(ruling);
        self
    }

    /// Makes a session ask more once it has read from the network, an MCP server or outside the workspace: from then on, effects that could
    /// carry data out ask even where a rule allows them. Without an attendant that is a denial. Default: true; see
    /// [`Policy::with_provenance`].
    pub fn provenance(mut self, provenance: bool) -> Self {
        self.policy = self.policy.with_provenance(provenance);
        self
    }

    /// Sets whether a person is asked about a command before it runs. Default: false. Then, in the mode `ask`, a command runs first if the
    /// sandbox is complete and the network is off, and the person is asked whether its changes are kept; see [`Policy::asking_before`].
    pub fn ask_before(mut self, ask_before: bool) -> Self {
        self.policy = self.policy.asking_before(ask_before);
        self
    }
}

/// # Protected paths and secrets
impl Builder {
    /// Denies every tool access to these paths, whatever the rules say, such as the embedder's own configuration.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::Error> {
    /// use windlass::{Outcome, ToolCall, Windlass};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let own = folder.path().join("own.toml");
    /// # std::fs::write(&own, "x").unwrap();
    /// let windlass = Windlass::builder(folder.path()).protect([own]).build()?;
    /// let read = ToolCall::new("read", serde_json::json!({"path": "own.toml"}));
    /// assert_eq!(windlass.call(&windlass.new_session(), read).await.outcome, Outcome::Denied);
    /// # Ok(())
    /// # }
    /// ```
    pub fn protect(mut self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        self.protected.extend(places);
        self
    }

    /// Lets tools read these files although their names look secret: globs relative to the workspace or absolute, or exact paths.
    pub fn not_secret<G: Into<PathGlob>>(mut self, files: impl IntoIterator<Item = G>) -> Self {
        self.readable.extend(files.into_iter().map(Into::into));
        self
    }

    /// Sets the person's home directory, which no tool may remove or replace as a whole.
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Sets values that must reach neither a model nor the journal; they are replaced by placeholders.
    ///
    /// ```
    /// use windlass::Windlass;
    /// use windlass::policy::Secrets;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let secrets = Secrets::new([("DB_PASSWORD", "hunter2hunter2")]);
    /// let windlass = Windlass::builder(folder.path()).secrets(secrets).build()?;
    /// assert_eq!(windlass.engine().redact("login hunter2hunter2"), "login [secret DB_PASSWORD]");
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn secrets(self, secrets: Secrets) -> Self {
        self.configure(|engine| engine.secrets(secrets))
    }
}

/// # Tools
impl Builder {
    /// Adds a tool of your own.
    pub fn tool(mut self, tool: impl Into<ToolHandle>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Adds the command files of a directory: each is a tool that runs a command. They are read when they are first needed; a file with an
    /// error gives an [`EventKind::Warning`](crate::event::EventKind::Warning). The directory belongs to the person and is trusted: a file
    /// that declares that it only reads files needs no permission to run its program, as long as the sandbox enforces that.
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
        self.command_tools.push(CommandFileSource::Directory(directory.into()));
        self
    }

    /// Adds command files of the workspace that a person has read and trusts. A call of one always needs the permission to run its
    /// command.
    pub fn trusted_command_files(mut self, files: Vec<CommandFile>) -> Self {
        self.command_tools.push(CommandFileSource::Trusted(files));
        self
    }

    /// Adds a source of tools that is loaded when one of its tools is first needed. `examples/dynamic_toolset.rs` shows one whose tools
    /// come and go.
    pub fn toolset(self, toolset: impl Toolset) -> Self {
        self.configure(|engine| engine.toolset(Arc::new(toolset)))
    }
}

/// # People and hooks
impl Builder {
    /// Sets the attendant of all sessions, which answers approvals; a closure is one. Default: none, so that "ask" is a denial.
    /// [`people`](crate::people) has an example.
    pub fn attendant(self, attendant: impl Attendant) -> Self {
        self.configure(|engine| engine.attendant(attendant))
    }

    /// Adds a hook in code, which receives calls and other events and may change or refuse them.
    ///
    /// ```
    /// # use serde_json::json;
    /// use windlass::hooks::{HookPayload, Hook, HookAnswer, HookEvent};
    /// use windlass::tool::BoxFuture;
    /// use windlass::{Mode, Outcome, ToolCall, ToolError, Windlass};
    ///
    /// struct NoSecondFile;
    ///
    /// impl Hook for NoSecondFile {
    ///     fn name(&self) -> &str {
    ///         "no-second-file"
    ///     }
    ///     fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
    ///         let answer = match event.what {
    ///             HookPayload::PreTool(call) if call.input["path"] == "b.txt" => HookAnswer::deny("one is enough"),
    ///             _ => HookAnswer::go_on(),
    ///         };
    ///         Box::pin(std::future::ready(Ok(answer)))
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).hook(NoSecondFile).build()?;
    /// let write = ToolCall::new("write", json!({"path": "b.txt", "content": "b"}));
    /// assert_eq!(windlass.call(&windlass.new_session(), write).await.outcome, Outcome::Denied);
    /// # Ok(())
    /// # }
    /// ```
    pub fn hook(self, hook: impl Hook + 'static) -> Self {
        self.configure(|engine| engine.hook(Arc::new(hook)))
    }

    /// Adds programs as hooks: they receive events and may change or refuse calls. They run in this order, each in the sandbox that its
    /// definition names.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use windlass::{Mode, Outcome, ToolCall, Windlass};
    /// # use windlass::hooks::{HookFile, HookShape};
    /// # use windlass::tool::Author;
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

    /// Sets a function that is called with each warning, such as a toolset that does not load or a tool that is left out.
    ///
    /// ```
    /// use windlass::Windlass;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let windlass = Windlass::builder(folder.path()).on_warning(|text| eprintln!("{text}")).build()?;
    /// # drop(windlass);
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn on_warning(self, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.configure(|engine| engine.on_warning(warn))
    }
}

/// # Limits
impl Builder {
    /// Sets the time after which a call is stopped, unless its tool or its arguments set another. A tool that blocks its thread outside of
    /// [`Context::blocking`](crate::Context::blocking) cannot be stopped.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.configure(move |engine| engine.timeout(timeout))
    }

    /// Sets the maximum number of cached results and their maximum age; 0 results switch the cache off. [`Engine`] has methods to read its
    /// statistics, clear it and switch it while calls run.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::Windlass;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let windlass = Windlass::builder(folder.path()).cache(500, Duration::from_secs(60)).build()?;
    /// assert_eq!(windlass.engine().cache_stats().capacity, 500);
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn cache(self, entries: usize, ttl: Duration) -> Self {
        self.configure(move |engine| engine.cache(entries, ttl))
    }
}

/// # Stores of your own
impl Builder {
    /// Sets the store of values that last from call to call. Default: the state directory if there is one, else memory. The
    /// [guide](crate#stores) has an example.
    pub fn state_store(self, store: Arc<dyn StateStore>) -> Self {
        self.configure(|engine| engine.state_store(store))
    }

    /// Sets the index for full-text search. Default: one in the state directory, if there is a state directory.
    pub fn text_index(self, index: Arc<dyn TextIndex>) -> Self {
        self.configure(|engine| engine.text_index(index))
    }
}

/// # Building
impl Builder {
    /// Changes settings of the engine that have no method here; see [`EngineBuilder`].
    pub fn configure(
        mut self,
        configure: impl FnOnce(EngineBuilder) -> EngineBuilder + 'static,
    ) -> Self {
        self.configure.push(Box::new(configure));
        self
    }

    /// Builds the engine. Reads the workspace's directory entry and, with [`Builder::state`], opens the journal and finishes or takes back
    /// changes that a killed process left unfinished. Nothing else is read or written before the first call.
    pub fn build(self) -> Result<Windlass, Error> {
        let mut processes = self.processes.settled(&self.workspace);
        processes.state = processes.state.or_else(|| self.state.as_deref().map(absolute));
        processes.shell = self.shell.unwrap_or(processes.shell);
        let mut processes = processes.with_shell_found(&self.workspace)?;
        let (confinement, shell) = (processes.confinement.clone(), processes.shell.clone());
        let policy = self.policy.with_confinement(confinement.clone());
        let denied_paths =
            self.state.iter().map(|directory| absolute(directory)).chain(self.protected);
        let mut hard_denies = HardDenies::default().protect(denied_paths).except(self.readable);
        if let Some(home) = &self.home {
            hard_denies = hard_denies.home(absolute(home));
        }
        let policy = policy.with_hard_denies(hard_denies);
        let host = LocalHost::open_with(&self.workspace, self.durability)?;
        let workspace = host.files().workspace().to_owned();
        let now = host.clock().now();
        let rights = FileRights::new(Arc::new(policy.clone()), workspace, now);
        processes.rights = Some(Arc::new(rights));
        let host: Arc<dyn Host> =
            Arc::new(host.with_processes(processes.clone()).with_network(self.network));
        let settings = StoreSettings {
            drain_at_close: self.drain_at_close,
            outside_anchor: self.outside_anchor,
            ..StoreSettings::default()
        };
        let open = |state| Store::open_with(state, settings);
        let store = self.state.as_deref().map(open).transpose()?.map(Arc::new);
        let mut tools = Toolbox::of(BUILTIN)?;
        for (tool, description) in windlass_tools::descriptions_for(&shell) {
            tools.describe(tool, description)?;
        }
        for tool in self.tools {
            tools.add(tool)?;
        }
        let undo_stores = UndoStores::open(host.clone(), self.state.as_deref(), self.history)?;
        if let Some(store) = &store {
            undo_stores.record(&**store);
        }
        let mut builder = Engine::builder(host.clone())
            .ids(Arc::new(RandomIds::default()))
            .toolbox(tools)
            .history(undo_stores.history.clone())
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
        Ok(Windlass { engine, store, undo_stores: Arc::new(undo_stores) })
    }
}

/// Resolves links in a path, because rules apply to real paths; makes it absolute if that fails.
fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
