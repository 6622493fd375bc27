//! From the command line to the settings of a hub, and to the session of a command.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use windlass::Session;
use windlass::hooks::Heard;
use windlass_hub::{
    ConfigOverrides, Hub, OnWarning, People, Recording, SessionOptions, Settings, ToolChoice,
    Workspace, real_workspace,
};

use crate::options::Global;
use crate::person::Person;
use crate::places;
use crate::terminal::{self, Paint};

/// A workspace with its engine, and the session that this command's calls belong to.
pub(crate) struct Setup {
    pub(crate) windlass: Arc<Workspace>,
    pub(crate) session: Arc<Session>,
}

impl Setup {
    /// For calls of a model: they belong to the session that was named, or to a new one.
    pub(crate) fn open(global: &Global, recording: Recording) -> Result<Self> {
        let id = global.session.clone();
        Self::with(global, recording, SessionOptions { id, ..session_options(global) })
    }

    /// For the only call of this invocation.
    pub(crate) fn for_one_call(global: &Global, recording: Recording) -> Result<Self> {
        let id = global.session.clone();
        let options = SessionOptions { id, is_for_one_call: true, ..session_options(global) };
        Self::with(global, recording, options)
    }

    /// For what a person does: a session of its own. The one that was named is what it is about.
    pub(crate) fn for_person(global: &Global, recording: Recording) -> Result<Self> {
        Self::with(global, recording, session_options(global))
    }

    fn with(global: &Global, recording: Recording, options: SessionOptions) -> Result<Self> {
        let settings = Settings { people: people(global), ..settings(global, recording)? };
        let windlass = Hub::new(settings).open(&global.workspace)?;
        let session = windlass.session(options)?;
        Ok(Self { windlass, session })
    }

    /// Tells the hooks that the session begins. What they want a model to know is shown: there is no model here yet.
    pub(crate) async fn begin(&self, global: &Global) {
        if self.windlass.engine().has_hooks() {
            show(global, self.windlass.engine().session_started(&self.session).await);
        }
    }

    /// Tells the hooks that the session is over.
    pub(crate) async fn end(&self, global: &Global) {
        if self.windlass.engine().has_hooks() {
            show(global, self.windlass.engine().session_ended(&self.session).await);
        }
    }
}

/// Shows what hooks have said of something that is not a call.
fn show(global: &Global, heard: Heard) {
    for said in heard.context.into_iter().chain(heard.refused).chain(heard.stopped) {
        terminal::note(global, &said);
    }
}

/// A hub for commands that look at something and make no call.
pub(crate) fn hub(global: &Global) -> Result<Hub> {
    Ok(Hub::new(settings(global, Recording::Off)?))
}

/// The settings that the command line gives, and no person to ask.
pub(crate) fn settings(global: &Global, recording: Recording) -> Result<Settings> {
    let rules =
        |rules: &[windlass::Rule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
    Ok(Settings {
        places: places::all(),
        config_file: global.config.clone(),
        overrides: ConfigOverrides {
            mode: global.mode,
            sandbox: global.sandbox,
            net: global.net.clone(),
            allow: rules(&global.allow),
            deny: rules(&global.deny),
        },
        recording,
        on_warning: if global.quiet {
            OnWarning::default()
        } else {
            OnWarning::call(terminal::tell)
        },
        ..Settings::new(state(global)?)
    })
}

/// The person at the terminal, if there is one, unless `--yes` approves everything.
pub(crate) fn people(global: &Global) -> People {
    if global.yes {
        return People::Beforehand;
    }
    let person = Person::at_terminal(Paint::of(global));
    person.map_or(People::Nobody, |person| People::Attendant(Arc::new(person)))
}

/// The options of a new session.
pub(crate) fn session_options(global: &Global) -> SessionOptions {
    let list = |text: &String| -> Vec<String> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let tools = ToolChoice {
        only: global.tools.as_ref().map(list),
        without: global.without.as_ref().map(list).unwrap_or_default(),
        role: global.role,
    };
    SessionOptions { tools, proposals: global.proposals, ..SessionOptions::default() }
}

pub(crate) fn workspace(global: &Global) -> Result<PathBuf> {
    Ok(real_workspace(&global.workspace)?)
}

pub(crate) fn state(global: &Global) -> Result<PathBuf> {
    match &global.state {
        Some(state) => Ok(std::path::absolute(state)?),
        None => places::state(),
    }
}
