//! From options and configuration to an engine with its session.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use windlass::{DrainAtClose, Durability, ProcessSettings, Store, StoreError, Windlass};
use windlass_core::{
    Asker, Attendant, Budget, Heard, Layer, Overrides, PathGlob, Predicate, Principal, Session,
    SessionId, SessionNews,
};
use windlass_store::{Kind, Settings};

use crate::config::Config;
use crate::options::Global;
use crate::person::Person;
use crate::terminal::{self, Paint};
use crate::trust::{Acting, Change, Contents, Found, Known, Role, listed};
use crate::{hook_files, places, secrets};

/// An engine, and the session that this command's calls belong to.
pub(crate) struct Setup {
    pub(crate) windlass: Windlass,
    pub(crate) session: Arc<Session>,
}

/// Whether calls go on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journal {
    /// They do.
    On,
    /// They do, and there are so few that the journal's database need not be opened for them.
    Brief,
    /// No call is made, so there is nothing to record.
    Unneeded,
}

/// Where an engine works, by what rules, and who is asked.
pub(crate) struct Terms {
    pub(crate) workspace: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) config: Config,
    pub(crate) people: People,
}

/// The people who are asked.
pub(crate) enum People {
    /// Nobody: what needs a person is denied.
    Nobody,
    /// Nobody, because a person said yes to everything in advance (`--yes`).
    Beforehand,
    /// Those at this front door.
    At(Arc<dyn Attendant>),
}

impl Terms {
    /// What the options and the configuration say about a workspace.
    pub(crate) fn of(global: &Global, workspace: PathBuf) -> Result<Self> {
        let state = state(global)?;
        let config = config(global, &workspace, &state)?;
        Ok(Self { workspace, state, config, people: people(global) })
    }
}

/// Nobody if everything is approved, else the person at the terminal, if there is one.
fn people(global: &Global) -> People {
    if global.yes {
        return People::Beforehand;
    }
    let person = Person::at_terminal(Paint::of(global));
    person.map_or(People::Nobody, |person| People::At(Arc::new(person)))
}

impl Setup {
    /// For calls of a model: they belong to the session that was named, or to a new one.
    pub(crate) fn open(global: &Global, journal: Journal) -> Result<Self> {
        Self::with_session(global, journal, global.session.clone())
    }

    /// For what a person does: a session of its own. The one that was named is what it is about.
    pub(crate) fn for_person(global: &Global, journal: Journal) -> Result<Self> {
        Self::with_session(global, journal, None)
    }

    fn with_session(global: &Global, journal: Journal, id: Option<SessionId>) -> Result<Self> {
        let terms = Terms::of(global, workspace(global)?)?;
        Self::on(global, journal, terms, id.map(|id| (id, Asker::default())))
    }

    /// Under other terms than the usual ones.
    pub(crate) fn on(
        global: &Global,
        journal: Journal,
        terms: Terms,
        who: Option<(SessionId, Asker)>,
    ) -> Result<Self> {
        let Terms { workspace, state, mut config, people } = terms;
        let mut builder =
            Windlass::builder(&workspace).mode(config.mode()?).protect([state.clone()]);
        for ruling in config.rules() {
            builder = builder.ruling(ruling);
        }
        for path in config.names("hidden") {
            builder = builder.deny(format!("read {path}").parse()?);
        }
        builder = builder.provenance(config.number("provenance") != 0);
        builder = builder
            .protect(places::config().ok())
            .protect(places::data().ok())
            .outside_anchor(outside_anchor(global, &state)?)
            .not_secret(config.names("not_secret").iter().flat_map(|text| not_secret(text)));
        if let Some(home) = places::home() {
            builder = builder.home(home);
        }
        match journal {
            Journal::On => builder = builder.state(&state),
            Journal::Brief => {
                builder = builder.state(&state).drain_at_close(DrainAtClose::WhenLarge);
            }
            Journal::Unneeded => {}
        }
        builder = builder.configure(|engine| match people {
            People::Nobody => engine,
            People::Beforehand => engine.approve_beforehand(),
            People::At(attendant) => engine.shared_attendant(attendant),
        });
        let megabytes = config.number("undo_megabytes").saturating_mul(1 << 20);
        let days = config.number("undo_days").saturating_mul(24 * 60 * 60);
        builder = builder.undo_limits(megabytes, Duration::from_secs(days));
        if config.number("sync") == 0 {
            builder = builder.durability(Durability::Kernel);
        }
        builder = builder.processes(processes(&config, &state)?);
        if let Ok(tools) = places::command_tools() {
            builder = builder.command_tools(tools);
        }
        builder = builder.trusted_command_files(std::mem::take(&mut config.command_tools));
        if journal != Journal::Unneeded {
            let trusted = config.trusted.take();
            let hooks = hook_files::read(&mut config, &workspace, trusted.as_ref());
            builder = builder.hooks(hooks);
            if let Some(closed) = config.closed.take() {
                builder = builder.configure(|engine| engine.hook(Arc::new(closed)));
            }
        }
        if !global.quiet {
            builder = builder.configure(|engine| engine.on_warning(terminal::tell));
        }
        for warning in &config.warnings {
            terminal::note(global, warning);
        }
        let secrets = secrets::known(&workspace, config.places("secrets"));
        let predicate = predicate(global, &config);
        let soft_limit = Some(config.number("soft_limit")).filter(|seconds| *seconds > 0);
        let overrides =
            Overrides { soft_limit: soft_limit.map(Duration::from_secs), ..Overrides::default() };
        let budget = budget(&config);
        let windlass =
            builder.configure(move |engine| limits(engine, &config).secrets(secrets)).build()?;
        for line in windlass.recovered() {
            terminal::note(global, line);
        }
        let is_named = who.is_some();
        let (id, asker) = who.unwrap_or_else(|| (windlass.new_session_id(), Asker::default()));
        if let Some(store) = windlass.store() {
            store.session_started(&id, &workspace, None, &Principal::default());
        }
        let session = Session::new(id)
            .narrow(predicate)
            .with_overrides(overrides)
            .on_behalf_of(&asker)
            .with_budget(budget);
        if let (Some(store), true) = (windlass.store(), is_named) {
            recall(store, &session)?;
        }
        let session = if global.proposals && journal != Journal::Unneeded {
            windlass.proposing(session)?
        } else {
            Arc::new(session)
        };
        Ok(Self { windlass, session })
    }

    /// Tells the hooks that the session begins. What they want a model to know is shown: there is no model here yet.
    pub(crate) async fn begin(&self, global: &Global) {
        if self.windlass.has_hooks() {
            show(global, self.windlass.session_started(&self.session).await);
        }
    }

    /// Tells the hooks that the session is over.
    pub(crate) async fn end(&self, global: &Global) {
        if self.windlass.has_hooks() {
            show(global, self.windlass.session_ended(&self.session).await);
        }
    }
}

/// The anchor outside of a state that is kept. One that goes away with the command has none.
fn outside_anchor(global: &Global, used: &Path) -> Result<Option<PathBuf>> {
    let is_kept = state(global)? == used;
    Ok(is_kept.then(|| places::outside_anchor(used)).flatten())
}

/// What hooks have said of something that is not a call.
fn show(global: &Global, heard: Heard) {
    for said in heard.context.into_iter().chain(heard.refused).chain(heard.stopped) {
        terminal::note(global, &said);
    }
}

/// What a session may do in all.
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

/// How programs run.
fn processes(config: &Config, state: &Path) -> Result<ProcessSettings> {
    let usual = ProcessSettings::default();
    let mut pass_through = usual.pass_through.clone();
    pass_through.extend(config.names("pass_through"));
    Ok(ProcessSettings {
        confinement: config.confinement()?,
        state: Some(state.to_owned()),
        environment: config.names("env"),
        pass_through,
        sockets: config.names("sockets").into_iter().map(PathBuf::from).collect(),
        protected: config.names("protected").into_iter().map(PathBuf::from).collect(),
        memory: config.number("memory_megabytes").saturating_mul(1 << 20),
        processes: config.number("processes"),
        ..usual
    })
}

/// Tells a session what earlier parts of it have seen of files, and whether they read what somebody else may have written.
fn recall(store: &Store, session: &Session) -> Result<()> {
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
            if let Some(seen) = &news.seen {
                session.recall(seen);
            }
            if let Some(source) = &news.metadata.untrusted {
                session.mark_untrusted(source);
            }
        }
    }
}

/// The store alone, for commands that look back.
pub(crate) fn store(global: &Global) -> Result<Store> {
    let state = state(global)?;
    let outside_anchor = places::outside_anchor(&state);
    Ok(Store::open_with(&state, Settings { outside_anchor, ..Settings::default() })?)
}

pub(crate) fn workspace(global: &Global) -> Result<PathBuf> {
    std::fs::canonicalize(&global.workspace)
        .with_context(|| format!("the workspace {} cannot be used", global.workspace.display()))
}

pub(crate) fn state(global: &Global) -> Result<PathBuf> {
    match &global.state {
        Some(state) => Ok(std::path::absolute(state)?),
        None => places::state(),
    }
}

/// All layers, in their order.
pub(crate) fn config(global: &Global, workspace: &Path, state: &Path) -> Result<Config> {
    let mut config = Config::default();
    add_own(&mut config)?;
    add_workspace(&mut config, workspace, state)?;
    add_flags(&mut config, global)?;
    Ok(config)
}

/// What the command line says: the last word.
pub(crate) fn add_flags(config: &mut Config, global: &Global) -> Result<()> {
    add_more(config, global)?;
    if let Some(mode) = global.mode {
        config.set("mode", mode.to_string());
    }
    if let Some(level) = global.sandbox {
        config.set("sandbox", level.to_string());
    }
    if let Some(hosts) = &global.net {
        config.set("net", hosts.as_str());
    }
    for (key, rules) in [("allow", &global.allow), ("deny", &global.deny)] {
        if !rules.is_empty() {
            config.set(key, rules.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
    }
    Ok(())
}

/// All files that the person has written themselves.
pub(crate) fn add_persons(config: &mut Config, global: &Global) -> Result<()> {
    add_own(config)?;
    add_more(config, global)
}

fn add_own(config: &mut Config) -> Result<()> {
    if let Ok(own) = places::config() {
        config.add_file(&own.join("config.toml"), false, Layer::User)?;
    }
    config.hook_files.extend(hook_files::own());
    Ok(())
}

/// The file of `--config`.
fn add_more(config: &mut Config, global: &Global) -> Result<()> {
    let Some(more) = &global.config else { return Ok(()) };
    if more.extension().is_some_and(|extension| extension == "json") {
        bail!(
            "{}: JSON configuration names MCP servers, and this version starts none; use TOML",
            more.display()
        );
    }
    config.add_file(more, true, Layer::Flags)
}

/// What the workspace says, if a person trusts it.
fn add_workspace(config: &mut Config, workspace: &Path, state: &Path) -> Result<()> {
    let found = Found::in_workspace(workspace)?;
    let Some(trusted) = Known::load(state).get(workspace) else {
        if found.acts() {
            config.warnings.push(not_in_force(&found, &[]));
        }
        config.warnings.extend(found.warnings);
        return Ok(());
    };
    let changes = trusted.changes(workspace, &found)?;
    if !changes.is_empty() {
        config.warnings.push(not_in_force(&found, &changes));
        let holding = trusted.holding(&found, &Contents::in_state(state), &changes);
        config.only_gates = true;
        config.closed = holding.closed;
        add_narrowing(config, workspace, &holding.files)?;
        config.trusted = Some(trusted);
        return Ok(());
    }
    let tools = found.files.iter().filter(|file| file.role == Role::CommandTool);
    config.command_tools.extend(tools.map(|file| file.to_command_file(workspace)));
    add_narrowing(config, workspace, &found.files)?;
    config.warnings.extend(found.warnings);
    config.trusted = Some(trusted);
    Ok(())
}

/// Adds the settings and the hooks of trusted files.
fn add_narrowing(config: &mut Config, workspace: &Path, files: &[Acting]) -> Result<()> {
    for file in files {
        if file.role == Role::Config {
            config.add_workspace(&file.text(), &workspace.join(&file.path))?;
        }
        config.hook_files.extend(file.to_hook_file());
    }
    Ok(())
}

/// What a person is told of a workspace that they have not trusted, or not as it is now.
fn not_in_force(found: &Found, changes: &[Change]) -> String {
    let any = |is: fn(Role) -> bool| found.files.iter().any(|file| is(file.role));
    let kinds = [
        ("the configuration", any(|role| role == Role::Config)),
        ("the command tools", any(|role| role == Role::CommandTool)),
        ("the hooks", any(|role| matches!(role, Role::Hooks(_)))),
    ];
    let there: Vec<&str> = kinds.iter().filter(|(_, is)| *is).map(|(kind, _)| *kind).collect();
    let what = match &there[..] {
        [] => "what this workspace brings is".to_owned(),
        ["the configuration"] => "the configuration of this workspace is".to_owned(),
        [one] => format!("{one} of this workspace are"),
        [all @ .., last] => format!("{} and {last} of this workspace are", all.join(", ")),
    };
    let since = if changes.is_empty() {
        String::new()
    } else {
        let changes = listed(changes);
        format!(", and what was trusted and refuses still holds; since it was trusted: {changes}")
    };
    format!("{what} not in force: `windlass trust` shows and allows what is there{since}")
}

/// A text of `not_secret` as a glob, and as the exact path that it may be.
fn not_secret(text: &str) -> impl Iterator<Item = PathGlob> {
    let exact = PathGlob::from(PathBuf::from(text));
    text.parse().into_iter().chain([exact])
}

fn predicate(global: &Global, config: &Config) -> Predicate {
    let list = |text: &str| -> Vec<String> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let mut without = config.names("without");
    without.extend(global.without.as_deref().map(list).unwrap_or_default());
    let only =
        global.tools.as_deref().map_or(Predicate::All, |names| Predicate::allow(list(names)));
    let role = global.role.map_or(Predicate::All, windlass_core::Role::predicate);
    let without = if without.is_empty() { Predicate::All } else { Predicate::deny(without) };
    only.and(without).and(role)
}

fn limits(engine: windlass_core::EngineBuilder, config: &Config) -> windlass_core::EngineBuilder {
    let count = |key| usize::try_from(config.number(key)).unwrap_or(usize::MAX);
    engine
        .timeout(Duration::from_secs(config.number("timeout")))
        .output_bytes(count("output_bytes"))
        .at_once(count("at_once"))
        .cache(count("cache_entries"), Duration::from_secs(config.number("cache_seconds")))
}
