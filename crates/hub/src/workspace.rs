//! A workspace with its running engine: builds the engine from the configuration, and sessions from options.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass::engine::EngineBuilder;
use windlass::files::Durability;
use windlass::journal::{DrainAtClose, ResumedCallFacts, Store, StoreError, StoredKind};
use windlass::people::{ApprovalFile, InquiryBook as _};
use windlass::policy::{ActiveRule, Decision, Layer, PathGlob};
use windlass::process::ProcessSettings;
use windlass::session::{Budget, Principal, SessionId};
use windlass::tool::{CommandFile, Overrides, command_files, likeness, nearest};
use windlass::{Builder, Session, Windlass};

use crate::config::{Config, NamedTool};
use crate::hub::outside_anchor;
use crate::job_socket::JobSocket;
use crate::repository::OuterRepository;
use crate::{
    HubError, HubSettings, People, Recording, SessionOptions, ToolChoice, hook_files, secrets,
};

/// A workspace with its running engine. It dereferences to [`Windlass`], and creates sessions that follow the configuration.
#[derive(Debug)]
pub struct Workspace {
    windlass: Windlass,
    path: PathBuf,
    state: PathBuf,
    recording: Recording,
    /// Tools that the configuration leaves out.
    without: Vec<String>,
    command_files: CommandFiles,
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
        settings: &HubSettings,
        path: &Path,
        mut config: Config,
    ) -> Result<Self, HubError> {
        let mut builder = Windlass::builder(path);
        builder = with_policy(builder, &mut config)?;
        let repository = OuterRepository::of(path, settings.places.home.as_deref());
        builder = with_repository(builder, repository.as_ref());
        builder = with_directories(builder, settings, &config);
        let tree = repository.and_then(|repository| repository.tree);
        builder = with_undo_and_processes(builder, settings, &config, tree)?;
        let command_files = CommandFiles::of(settings, &config);
        builder = with_programs(builder, settings, path, &mut config);
        builder = with_people(builder, settings);
        for warning in config.warnings() {
            settings.on_warning.report(warning);
        }
        let secrets =
            secrets::find_when_needed(path, config.secret_sources("secrets"), &settings.places);
        let soft_limit = Some(config.number("soft_limit")).filter(|seconds| *seconds > 0);
        let overrides =
            Overrides { soft_limit: soft_limit.map(Duration::from_secs), ..Overrides::default() };
        let (without, budget) = (config.names("without"), budget(&config));
        let named_tools = config.named_tools();
        let windlass = builder
            .configure(move |engine| with_call_limits(engine, &config).secrets(secrets))
            .build()?;
        let names = named_tools.iter().map(|named| named.tool.as_str());
        let known = command_files.known_tools(&windlass, names);
        for warning in check_tools(&known, named_tools)? {
            settings.on_warning.report(&warning);
        }
        for line in windlass.recovered() {
            settings.on_warning.report(line);
        }
        Ok(Self {
            windlass,
            path: path.to_owned(),
            state: settings.state.clone(),
            recording: settings.recording,
            without,
            command_files,
            overrides,
            budget,
        })
    }

    /// Returns the real path of the workspace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the engine with its journal and its undo history.
    pub fn windlass(&self) -> &Windlass {
        &self.windlass
    }

    /// Creates a session, or continues the one that the options name: it then remembers the files that it has seen.
    ///
    /// ```
    /// use windlass::session::SessionId;
    /// use windlass_hub::{Hub, SessionOptions, HubSettings};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (workspace, state) = (folder.path().join("work"), folder.path().join("state"));
    /// # std::fs::create_dir(&workspace).unwrap();
    /// let open = Hub::new(HubSettings::new(state)).open(&workspace)?;
    /// let options = SessionOptions { id: Some(SessionId::new("review")), ..SessionOptions::default() };
    /// assert_eq!(open.session(options)?.id().as_str(), "review");
    /// # Ok::<(), windlass_hub::HubError>(())
    /// ```
    pub fn session(&self, options: SessionOptions) -> Result<Arc<Session>, HubError> {
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
            store.map_or(Ok(()), |store| restore_seen(store, &session))?;
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

    /// Returns the rules that people gave a session of this workspace with their answers. A record that cannot be read gives none;
    /// the next approval reports what is wrong with it.
    fn given_rules(&self, session: &SessionId) -> Vec<String> {
        let answers = ApprovalFile::in_state(&self.state).list().unwrap_or_default();
        answers.iter().flat_map(|one| one.rules_of(session, &self.path)).cloned().collect()
    }

    /// Checks that the tools of a choice exist: a misspelled one would be offered, or left out, silently.
    fn check_choice(&self, choice: &ToolChoice) -> Result<(), HubError> {
        let names = choice.only.iter().flatten().chain(&choice.without).map(String::as_str);
        let known = self.command_files.known_tools(&self.windlass, names);
        let only = choice.only.iter().flatten().map(|tool| ("--tools", tool));
        for (option, tool) in only.chain(choice.without.iter().map(|tool| ("--without", tool))) {
            if let Some(error) = unknown_tool(&known, tool, option.to_owned()) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Answers other processes that inspect the jobs of a session, until the returned value is dropped. A process has one such
    /// socket. Must be called inside a runtime. Returns `None` if the socket cannot be created: the session works without it.
    pub fn serve_jobs(&self, session: &Arc<Session>) -> Option<JobSocket> {
        JobSocket::open(&self.state, self.windlass.engine(), session)
    }
}

/// The files whose tools the engine loads later, when one of them is needed.
#[derive(Debug)]
struct CommandFiles {
    /// The directory of the person.
    directory: Option<PathBuf>,
    /// Files of the workspace that a person trusted.
    trusted: Vec<CommandFile>,
}

impl CommandFiles {
    /// Finds the command files of a workspace. Reads none of them.
    fn of(settings: &HubSettings, config: &Config) -> Self {
        let directory = settings.places.command_tools();
        Self { directory, trusted: config.command_tools.clone() }
    }

    /// Returns the names of the tools that there are. Reads command files only if the engine has no tool of one of the `named` names.
    fn known_tools<'n>(
        &self,
        windlass: &Windlass,
        mut named: impl Iterator<Item = &'n str>,
    ) -> Vec<String> {
        let mut known = windlass.engine().tool_names();
        if named.all(|name| unknown_tool(&known, name, String::new()).is_none()) {
            return known;
        }
        // The engine warns about files that cannot be read when it loads their tools.
        let personal = self.directory.iter().flat_map(|directory| command_files(directory).0);
        let files = personal.chain(self.trusted.iter().cloned());
        known.extend(files.filter_map(|file| Some(file.definition().ok()?.name().to_owned())));
        known
    }
}

/// Checks the tool names in the configuration. A name that is similar to a known tool is a misspelling and an error; any other may
/// be a command tool of another workspace, which is a warning.
fn check_tools(known: &[String], named: Vec<NamedTool>) -> Result<Vec<String>, HubError> {
    let mut warnings = Vec::new();
    for NamedTool { tool, key, source } in named {
        match unknown_tool(known, &tool, format!("`{key}` in {source}")) {
            Some(error @ HubError::UnknownTool { .. }) if is_misspelt(known, &tool) => {
                return Err(error);
            }
            Some(error) => warnings.push(error.to_string()),
            None => {}
        }
    }
    Ok(warnings)
}

/// Returns whether a name is likely a misspelling of a known tool.
fn is_misspelt(known: &[String], tool: &str) -> bool {
    known.iter().any(|name| likeness(tool, name) >= 0.75)
}

/// Returns the error about an unknown tool. Patterns and tools of servers, which may start later, are not checked.
fn unknown_tool(known: &[String], tool: &str, place: String) -> Option<HubError> {
    if tool.contains('*') || tool.contains("__") || known.iter().any(|name| name == tool) {
        return None;
    }
    let nearest = nearest(tool, known.iter().map(String::as_str)).map(str::to_owned);
    Some(HubError::UnknownTool { tool: tool.to_owned(), place, nearest })
}

/// Adds the mode and the rules.
fn with_policy(builder: Builder, config: &mut Config) -> Result<Builder, HubError> {
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

/// Allows reading the git directory if it lies outside the workspace. Writes there are decided like any other write outside.
fn with_repository(builder: Builder, repository: Option<&OuterRepository>) -> Builder {
    let directories = repository.into_iter().flat_map(|repository| &repository.git);
    let rules =
        directories.filter_map(|directory| format!("read {}/**", directory.to_str()?).parse().ok());
    rules.fold(builder, |builder, rule| {
        builder.ruling(ActiveRule::new(Decision::Allow, rule).in_layer(Layer::Default))
    })
}

/// Returns an entry of `not_secret` as a glob, and as an exact path.
fn not_secret_globs(text: &str) -> impl Iterator<Item = PathGlob> {
    let exact = PathGlob::from(PathBuf::from(text));
    text.parse().into_iter().chain([exact])
}

/// Adds the directories that no tool may touch, and the way of recording.
fn with_directories(mut builder: Builder, settings: &HubSettings, config: &Config) -> Builder {
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
        // Answers of people also apply to calls that are only explained.
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

/// Adds the limits of the undo history, and the confinement of programs.
fn with_undo_and_processes(
    builder: Builder,
    settings: &HubSettings,
    config: &Config,
    tree: Option<PathBuf>,
) -> Result<Builder, HubError> {
    let bytes = config.number("undo_megabytes").saturating_mul(1 << 20);
    let seconds = config.number("undo_days").saturating_mul(24 * 60 * 60);
    Ok(builder.undo_limits(bytes, Duration::from_secs(seconds)).processes(process_settings(
        config,
        &settings.state,
        tree,
    )?))
}

/// Returns the settings of programs. They may read the working tree that contains the workspace.
fn process_settings(
    config: &Config,
    state: &Path,
    tree: Option<PathBuf>,
) -> Result<ProcessSettings, HubError> {
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

/// Adds the command tools and, if calls are made, the hooks.
fn with_programs(
    mut builder: Builder,
    settings: &HubSettings,
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
    let hooks = hook_files::read_all(config, path, trusted.as_ref());
    builder = builder.hooks(hooks);
    match config.closed.take() {
        Some(closed) => builder.configure(|engine| engine.hook(Arc::new(closed))),
        None => builder,
    }
}

/// Adds the people who are asked, and the receiver of warnings.
fn with_people(builder: Builder, settings: &HubSettings) -> Builder {
    let (people, on_warning) = (settings.people.clone(), settings.on_warning.clone());
    let builder = builder.configure(|engine| match people {
        People::NoAttendant => engine,
        People::Beforehand => engine.approve_beforehand(),
        People::Attendant(attendant) => engine.shared_attendant(attendant),
    });
    if !on_warning.is_set() {
        return builder;
    }
    builder.configure(|engine| engine.on_warning(move |warning| on_warning.report(warning)))
}

/// Returns the budget of a session.
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

/// Sets the limits of one call and of the cache.
fn with_call_limits(engine: EngineBuilder, config: &Config) -> EngineBuilder {
    let count = |key| usize::try_from(config.number(key)).unwrap_or(usize::MAX);
    engine
        .timeout(Duration::from_secs(config.number("timeout")))
        .output_bytes(count("output_bytes"))
        .at_once(count("at_once"))
        .cache(count("cache_entries"), Duration::from_secs(config.number("cache_seconds")))
}

/// Restores from the journal the files that a session has seen, and whether it has read untrusted content.
fn restore_seen(store: &Store, session: &Session) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        let rows = match store.records(Some(session.id()), after, 1_000) {
            // The session is new.
            Err(StoreError::UnknownSession(_)) => return Ok(()),
            rows => rows?,
        };
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.seq;
        for row in rows.iter().filter(|row| row.kind == StoredKind::Finished) {
            let Some(news) = row.body_as::<ResumedCallFacts>() else { continue };
            if let Some(seen) = news.seen {
                session.recall(seen);
            }
            if let Some(source) = &news.metadata.untrusted {
                session.mark_untrusted(source);
            }
        }
    }
}
