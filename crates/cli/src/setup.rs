//! Turns command-line options into the settings of a hub and into the session of a command.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use windlass::Session;
use windlass::hooks::HookOutcome;
use windlass_hub::{
    ConfigOverrides, Hub, HubSettings, OnWarning, People, Recording, SessionOptions, ToolChoice,
    Workspace, real_workspace,
};

use crate::options::Global;
use crate::person::Person;
use crate::terminal::{self, Paint};
use crate::user_dirs;

/// An open workspace with its engine, and the session of this command's calls.
pub(crate) struct Setup {
    pub(crate) windlass: Arc<Workspace>,
    pub(crate) session: Arc<Session>,
}

impl Setup {
    /// Opens the workspace for the calls of a model: in the session that `--session` names, or in a new one.
    pub(crate) fn open(global: &Global, recording: Recording) -> Result<Self> {
        let id = global.session.clone();
        Self::open_with(global, recording, SessionOptions { id, ..session_options(global) })
    }

    /// Opens the workspace for the only call of this invocation, in the session that `--session` names or in a new one.
    pub(crate) fn for_one_call(global: &Global, recording: Recording) -> Result<Self> {
        let id = global.session.clone();
        let options = SessionOptions { id, is_for_one_call: true, ..session_options(global) };
        Self::open_with(global, recording, options)
    }

    /// Opens the workspace for a command of a person, in a session of its own: `--session` names the session that the command is about.
    pub(crate) fn for_person(global: &Global, recording: Recording) -> Result<Self> {
        Self::open_with(global, recording, session_options(global))
    }

    /// Opens the workspace with the settings of the command line, and a session with these options.
    fn open_with(global: &Global, recording: Recording, options: SessionOptions) -> Result<Self> {
        let settings = HubSettings { people: people(global), ..settings(global, recording)? };
        let windlass = Hub::new(settings).open(&global.workspace)?;
        let session = windlass.session(options)?;
        Ok(Self { windlass, session })
    }

    /// Runs the hooks for the start of a session, and prints their texts for the model on stderr: there is no model here yet.
    pub(crate) async fn run_start_hooks(&self, global: &Global) {
        if self.windlass.engine().has_hooks() {
            print_hook_messages(
                global,
                self.windlass.engine().session_started(&self.session).await,
            );
        }
    }

    /// Runs the hooks for the end of a session, and prints their texts on stderr.
    pub(crate) async fn run_end_hooks(&self, global: &Global) {
        if self.windlass.engine().has_hooks() {
            print_hook_messages(global, self.windlass.engine().session_ended(&self.session).await);
        }
    }
}

/// Prints the messages of hooks as notes.
fn print_hook_messages(global: &Global, messages: HookOutcome) {
    for said in messages.context.into_iter().chain(messages.refused).chain(messages.stopped) {
        terminal::note(global, &said);
    }
}

/// Returns a hub for commands that read state and make no call; it records nothing.
pub(crate) fn hub(global: &Global) -> Result<Hub> {
    Ok(Hub::new(settings(global, Recording::Off)?))
}

/// Returns the hub's settings from the command line, without a person to ask.
pub(crate) fn settings(global: &Global, recording: Recording) -> Result<HubSettings> {
    let rules =
        |rules: &[windlass::Rule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
    Ok(HubSettings {
        places: user_dirs::places(),
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
            OnWarning::call(terminal::print_to_stderr)
        },
        ..HubSettings::new(state_directory(global)?)
    })
}

/// Returns the person at the terminal, if there is one, or `People::Beforehand` if `--yes` approves everything.
pub(crate) fn people(global: &Global) -> People {
    if global.yes {
        return People::Beforehand;
    }
    let person = Person::at_terminal(Paint::of(global));
    person.map_or(People::NoAttendant, |person| People::Attendant(Arc::new(person)))
}

/// Returns the options of a new session: tools, role, proposals.
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

/// Returns the path of the workspace of `--workspace` with links resolved.
pub(crate) fn workspace_path(global: &Global) -> Result<PathBuf> {
    Ok(real_workspace(&global.workspace)?)
}

/// Returns the state directory of `--state` as an absolute path, or the platform's.
pub(crate) fn state_directory(global: &Global) -> Result<PathBuf> {
    match &global.state {
        Some(state) => Ok(std::path::absolute(state)?),
        None => user_dirs::state_directory(),
    }
}
