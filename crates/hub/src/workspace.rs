//! A workspace with its running engine: from the configuration in force to an engine, and from options to sessions on it.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass::engine::EngineBuilder;
use windlass::files::Durability;
use windlass::journal::{DrainAtClose, Kind, SessionNews, Store, StoreError};
use windlass::people::{ApprovalFile, Book as _};
use windlass::policy::{Decision, Layer, PathGlob, Ruling};
use windlass::process::ProcessSettings;
use windlass::session::{Budget, Principal, SessionId};
use windlass::tool::{Overrides, likeness, nearest};
use windlass::{Builder, Session, Windlass};

use crate::config::{Config, NamedTool};
use crate::hub::outside_anchor;
use crate::job_socket::JobSocket;
use crate::repository::OuterRepository;
use crate::{Error, People, Recording, SessionOptions, Settings, ToolChoice, hook_files, secrets};

/// A workspace with its running engine. It is a [`Windlass`] in all it does, and makes the sessions that follow the configuration.
#[derive(Debug)]
pub struct Workspace {
    windlass: Windlass,
    path: PathBuf,
    state: PathBuf,
    recording: Recording,
    /// Tools that the configuration leaves out.
    without: Vec<String>,
    overrides: Overrides,
    budget: Budget,
}

impl Deref for Workspace {
    type Target = Windlass;
    fn deref(&self) -> &Windlass {
        &self.windlass
    }
}

impl Workspace {
    /// Builds the engine of a workspace, which is a real path.
    pub(crate) fn open(
        settings: &Settings,
        path: &Path,
        mut config: Config,
    ) -> Result<Self, Error> {
        let mut builder = Windlass::builder(path);
        builder = with_policy(builder, &mut config)?;
        let repository = OuterRepository::of(path, settings.places.home.as_deref());
        builder = with_repository(builder, repository.as_ref());
        builder = with_places(builder, settings, &config);
        let tree = repository.and_then(|repository| repository.tree);
        builder = with_limits(builder, settings, &config, tree)?;
        builder = with_programs(builder, settings, path, &mut config);
        builder = with_people(builder, settings);
        for warning in config.warnings() {
            settings.on_warning.tell(warning);
        }
        let secrets = secrets::known(path, config.places("secrets"), &settings.places);
        let soft_limit = Some(config.number("soft_limit")).filter(|seconds| *seconds > 0);
        let overrides =
            Overrides { soft_limit: soft_limit.map(Duration::from_secs), ..Overrides::default() };
        let (without, budget) = (config.names("without"), budget(&config));
        let named_tools = config.named_tools();
        let windlass =
            builder.configure(move |engine| limits(engine, &config).secrets(secrets)).build()?;
        for warning in check_tools(&windlass.engine().tool_names(), named_tools)? {
            settings.on_warning.tell(&warning);
        }
        for line in windlass.recovered() {
            settings.on_warning.tell(line);
        }
        Ok(Self {
            windlass,
            path: path.to_owned(),
            state: settings.state.clone(),
            recording: settings.recording,
            without,
            overrides,
            budget,
        })
    }

    /// The real path of the workspace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The engine with its journal and its history.
    pub fn windlass(&self) -> &Windlass {
        &self.windlass
    }

    /// Makes a session, or goes on with the one that the options name: it then knows what its earlier parts have seen.
    ///
    /// ```
    /// use windlass::session::SessionId;
    /// use windlass_hub::{Hub, SessionOptions, Settings};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (workspace, state) = (folder.path().join("work"), folder.path().join("state"));
    /// # std::fs::create_dir(&workspace).unwrap();
    /// let open = Hub::new(Settings::new(state)).open(&workspace)?;
    /// let options = SessionOptions { id: Some(SessionId::new("review")), ..SessionOptions::default() };
    /// assert_eq!(open.session(options)?.id().as_str(), "review");
    /// # Ok::<(), windlass_hub::Error>(())
    /// ```
    pub fn session(&self, options: SessionOptions) -> Result<Arc<Session>, Error> {
        let SessionOptions { id, asker, tools, proposals, is_for_one_call } = options;
        self.check_choice(&tools)?;
        let is_named = id.is_some();
        let id = id.unwrap_or_else(|| self.windlass.engine().new_session_id());
        let store = self.windlass.store();
        if let Some(store) = store {
            store.session_started(&id, &self.path, None, &Principal::default());
        }
        let mut session = Session::new(id)
            .narrow(tools.limits(&self.without))
            .with_overrides(self.overrides.clone())
            .on_behalf_of(&asker)
            .with_budget(self.budget);
        if is_named {
            store.map_or(Ok(()), |store| recall(store, &session))?;
            let rules = self.given_rules(session.id());
            session = session.with_given_rules(&rules);
        }
        if is_for_one_call {
            session = session.for_one_call();
        }
        if proposals && self.recording != Recording::Off {
            return Ok(self.windlass.proposing(session)?);
        }
        Ok(Arc::new(session))
    }

    /// The rules that people gave a session of this workspace with their answers. A record that cannot be read gives none, and whoever
    /// is asked next is told what is wrong with it.
    fn given_rules(&self, session: &SessionId) -> Vec<String> {
        let answers = ApprovalFile::in_state(&self.state).list().unwrap_or_default();
        answers.iter().flat_map(|one| one.rules_of(session, &self.path)).cloned().collect()
    }

    /// Checks that the tools of a choice are there: one that is misspelt would be offered, or left out, in silence.
    fn check_choice(&self, choice: &ToolChoice) -> Result<(), Error> {
        let known = self.windlass.engine().tool_names();
        let only = choice.only.iter().flatten().map(|tool| ("--tools", tool));
        for (option, tool) in only.chain(choice.without.iter().map(|tool| ("--without", tool))) {
            if let Some(error) = unknown_tool(&known, tool, option.to_owned()) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Answers other processes that look at the jobs of a session, for as long as the returned value lives. A process has one such
    /// socket. Must be called inside a runtime. `None` if there cannot be a socket: the session works without it.
    pub fn serve_jobs(&self, session: &Arc<Session>) -> Option<JobSocket> {
        JobSocket::open(&self.state, self.windlass.engine(), session)
    }
}

/// Checks the tools that the configuration names. One with a name like another's is misspelt; any other may be a command tool of
/// another workspace, which is a warning.
fn check_tools(known: &[String], named: Vec<NamedTool>) -> Result<Vec<String>, Error> {
    let mut warnings = Vec::new();
    for NamedTool { tool, key, source } in named {
        match unknown_tool(known, &tool, format!("`{key}` in {source}")) {
            Some(error @ Error::UnknownTool { .. }) if is_misspelt(known, &tool) => {
                return Err(error);
            }
            Some(error) => warnings.push(error.to_string()),
            None => {}
        }
    }
    Ok(warnings)
}

/// Returns whether a name differs from that of a tool by one slip or two.
fn is_misspelt(known: &[String], tool: &str) -> bool {
    known.iter().any(|name| likeness(tool, name) >= 0.75)
}

/// The error about a tool that there is not. Patterns and tools of servers, which may start later, are not looked up.
fn unknown_tool(known: &[String], tool: &str, place: String) -> Option<Error> {
    if tool.contains('*') || tool.contains("__") || known.iter().any(|name| name == tool) {
        return None;
    }
    let nearest = nearest(tool, known.iter().map(String::as_str)).map(str::to_owned);
    Some(Error::UnknownTool { tool: tool.to_owned(), place, nearest })
}

/// The mode and the rules.
fn with_policy(builder: Builder, config: &mut Config) -> Result<Builder, Error> {
    let mut builder = builder.mode(config.mode()?);
    for ruling in config.rules() {
        builder = builder.ruling(ruling);
    }
    for path in config.names("hidden") {
        builder = builder.deny(format!("read {path}").parse()?);
    }
    let not_secret = config.names("not_secret");
    Ok(builder
        .provenance(config.number("provenance") != 0)
        .ask_before(config.is_on("ask_before"))
        .not_secret(not_secret.iter().flat_map(|text| not_secret_globs(text))))
}

/// Lets git read its directory where that lies outside the workspace. Changes of it are decided on like any other outside.
fn with_repository(builder: Builder, repository: Option<&OuterRepository>) -> Builder {
    let directories = repository.into_iter().flat_map(|repository| &repository.git);
    let rules =
        directories.filter_map(|directory| format!("read {}/**", directory.to_str()?).parse().ok());
    rules.fold(builder, |builder, rule| {
        builder.ruling(Ruling::new(Decision::Allow, rule).in_layer(Layer::Default))
    })
}

/// A text of `not_secret` as a glob, and as the exact path that it may be.
fn not_secret_globs(text: &str) -> impl Iterator<Item = PathGlob> {
    let exact = PathGlob::from(PathBuf::from(text));
    text.parse().into_iter().chain([exact])
}

/// The directories that no tool touches, and the record of calls.
fn with_places(mut builder: Builder, settings: &Settings, config: &Config) -> Builder {
    let (state, places) = (&settings.state, &settings.places);
    builder = builder
        .protect([state.clone()])
        .protect(places.config.clone())
        .protect(places.data.clone())
        .outside_anchor(outside_anchor(settings));
    if let Some(home) = &places.home {
        builder = builder.home(home);
    }
    builder = match settings.recording {
        Recording::Whole => builder.state(state),
        Recording::Brief => builder.state(state).drain_at_close(DrainAtClose::WhenLarge),
        // What people answered counts for what is only explained, too.
        Recording::Off => {
            let book = Arc::new(ApprovalFile::in_state(&settings.state));
            builder.configure(|engine| engine.approval_book(book))
        }
    };
    if config.number("sync") == 0 {
        builder = builder.durability(Durability::Kernel);
    }
    builder
}

/// The limits of the history, and the confinement of programs.
fn with_limits(
    builder: Builder,
    settings: &Settings,
    config: &Config,
    tree: Option<PathBuf>,
) -> Result<Builder, Error> {
    let bytes = config.number("undo_megabytes").saturating_mul(1 << 20);
    let seconds = config.number("undo_days").saturating_mul(24 * 60 * 60);
    Ok(builder.undo_limits(bytes, Duration::from_secs(seconds)).processes(processes(
        config,
        &settings.state,
        tree,
    )?))
}

/// The settings of programs. They can read the working tree that the workspace is a part of.
fn processes(
    config: &Config,
    state: &Path,
    tree: Option<PathBuf>,
) -> Result<ProcessSettings, Error> {
    let usual = ProcessSettings::default();
    let mut pass_through = usual.pass_through.clone();
    pass_through.extend(config.names("pass_through"));
    Ok(ProcessSettings {
        confinement: config.confinement()?,
        shell: config.shell()?,
        state: Some(state.to_owned()),
        environment: config.names("env"),
        pass_through,
        readable: tree.into_iter().collect(),
        sockets: config.names("sockets").into_iter().map(PathBuf::from).collect(),
        protected: config.names("protected").into_iter().map(PathBuf::from).collect(),
        memory: config.number("memory_megabytes").saturating_mul(1 << 20),
        processes: config.number("processes"),
        ..usual
    })
}

/// The command tools and, where calls are made, the hooks.
fn with_programs(
    mut builder: Builder,
    settings: &Settings,
    path: &Path,
    config: &mut Config,
) -> Builder {
    if let Some(tools) = settings.places.command_tools() {
        builder = builder.command_tools(tools);
    }
    builder = builder.trusted_command_files(std::mem::take(&mut config.command_tools));
    if settings.recording == Recording::Off {
        return builder;
    }
    let trusted = config.trusted.take();
    let hooks = hook_files::read(config, path, trusted.as_ref());
    builder = builder.hooks(hooks);
    match config.closed.take() {
        Some(closed) => builder.configure(|engine| engine.hook(Arc::new(closed))),
        None => builder,
    }
}

/// The people who are asked, and the one who is told.
fn with_people(builder: Builder, settings: &Settings) -> Builder {
    let (people, on_warning) = (settings.people.clone(), settings.on_warning.clone());
    let builder = builder.configure(|engine| match people {
        People::Nobody => engine,
        People::Beforehand => engine.approve_beforehand(),
        People::Attendant(attendant) => engine.shared_attendant(attendant),
    });
    if !on_warning.is_set() {
        return builder;
    }
    builder.configure(|engine| engine.on_warning(move |warning| on_warning.tell(warning)))
}

/// The budget of a session.
fn budget(config: &Config) -> Budget {
    let limit = |key| Some(config.number(key)).filter(|most| *most > 0);
    Budget {
        calls: limit("budget_calls"),
        time: limit("budget_seconds").map(Duration::from_secs),
        output_bytes: limit("budget_output_megabytes").map(|most| most.saturating_mul(1 << 20)),
        network_bytes: limit("budget_network_megabytes").map(|most| most.saturating_mul(1 << 20)),
        repeats: limit("budget_repeats").map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
        ..Budget::default()
    }
}

/// The limits of one call and of the cache.
fn limits(engine: EngineBuilder, config: &Config) -> EngineBuilder {
    let count = |key| usize::try_from(config.number(key)).unwrap_or(usize::MAX);
    engine
        .timeout(Duration::from_secs(config.number("timeout")))
        .output_bytes(count("output_bytes"))
        .at_once(count("at_once"))
        .cache(count("cache_entries"), Duration::from_secs(config.number("cache_seconds")))
}

/// Tells a session which files its earlier parts have seen, and whether they read what others may have written.
fn recall(store: &Store, session: &Session) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        let rows = match store.records(Some(session.id()), after, 1_000) {
            // It begins now.
            Err(StoreError::UnknownSession(_)) => return Ok(()),
            rows => rows?,
        };
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.seq;
        for row in rows.iter().filter(|row| row.kind == Kind::Finished) {
            let Some(news) = row.body_as::<SessionNews>() else { continue };
            if let Some(seen) = news.seen {
                session.recall(seen);
            }
            if let Some(source) = &news.metadata.untrusted {
                session.mark_untrusted(source);
            }
        }
    }
}
