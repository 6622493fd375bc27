//! From options and configuration to an engine with its session.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use windlass::{DrainAtClose, Store, Windlass};
use windlass_core::{Overrides, Predicate, Secrets, Session};

use crate::config::Config;
use crate::options::Global;
use crate::terminal::{self, Person};
use crate::{places, trust};

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

impl Setup {
    pub(crate) fn open(global: &Global, journal: Journal) -> Result<Self> {
        let workspace = workspace(global)?;
        let state = state(global)?;
        let mut config = config(global, &workspace, &state)?;
        let mut builder =
            Windlass::builder(&workspace).mode(config.mode()?).protect([state.clone()]);
        for (decision, rule) in config.rules() {
            builder = builder.rule(decision, rule);
        }
        builder = builder
            .protect(places::config().ok())
            .not_secret(config.names("not_secret").into_iter().map(PathBuf::from));
        match journal {
            Journal::On => builder = builder.state(&state),
            Journal::Brief => {
                builder = builder.state(&state).drain_at_close(DrainAtClose::WhenLarge);
            }
            Journal::Unneeded => {}
        }
        if global.yes {
            builder = builder.approver(|_: &_| true);
        } else if let Some(person) = Person::at_terminal() {
            builder = builder.approver(person);
        }
        for warning in &config.warnings {
            terminal::note(global, warning);
        }
        let predicate = predicate(global, &config);
        let windlass = builder.configure(move |engine| limits(engine, &config)).build()?;
        let id = global.session.clone().unwrap_or_else(|| windlass.new_session_id());
        if let Some(store) = windlass.store() {
            store.session_started(&id, &workspace, None);
        }
        let session = Arc::new(
            Session::new(id).with_predicate(predicate).with_overrides(Overrides::default()),
        );
        Ok(Self { windlass, session })
    }
}

/// The store alone, for commands that look back.
pub(crate) fn store(global: &Global) -> Result<Store> {
    Ok(Store::open(&state(global)?)?)
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
    if let Ok(own) = places::config() {
        config.add_file(&own.join("config.toml"), false)?;
    }
    add_workspace(&mut config, workspace, state)?;
    if let Some(more) = &global.config {
        if more.extension().is_some_and(|extension| extension == "json") {
            bail!(
                "{}: JSON configuration names MCP servers, and this version starts none; use TOML",
                more.display()
            );
        }
        config.add_file(more, true)?;
    }
    if let Some(mode) = global.mode {
        config.set("mode", mode.to_string());
    }
    for (key, rules) in [("allow", &global.allow), ("deny", &global.deny)] {
        if !rules.is_empty() {
            config.set(key, rules.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
    }
    Ok(config)
}

/// What the workspace says, if a person trusts it.
fn add_workspace(config: &mut Config, workspace: &Path, state: &Path) -> Result<()> {
    let acting = trust::acting(workspace)?;
    if acting.is_empty() {
        return Ok(());
    }
    if !trust::is_trusted(state, workspace, &acting) {
        config.warnings.push(
            "the configuration of this workspace is not in force: look at it with `windlass trust`"
                .into(),
        );
        return Ok(());
    }
    for file in acting {
        config.add_workspace(&file.text, &file.path)?;
    }
    Ok(())
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
        .secrets(secrets())
}

/// Values of environment variables whose names say that they are secret.
fn secrets() -> Secrets {
    const TELLING: &[&str] = &[
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "API_KEY",
        "APIKEY",
        "PRIVATE_KEY",
        "CREDENTIAL",
    ];
    Secrets::new(std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let upper = name.to_ascii_uppercase();
        TELLING.iter().any(|word| upper.contains(word)).then_some((name, value))
    }))
}
