//! Runs a hook's program: in the sandbox, with bounded output, and with nothing left of it afterwards.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use windlass_core::{
    Access, Author, Confinement, Errors, Host, Level, NetworkAccess, Process, ProcessEnd,
    ProcessRequest, Processes as _, Program, Resolved, Stdin, ToolError,
};
use windlass_host::{LocalProcesses, ProcessSettings};

use super::telling::Told;
use super::{HookCommand, HookDefinition};

/// How much a hook may print.
const MOST_PRINTED: usize = 1 << 20;

/// Starts the programs of hooks. They have a door of their own, because their confinement does not depend on that of commands.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_hooks::HookRunner;
/// use windlass_host::{LocalHost, ProcessSettings};
/// # let folder = tempfile::tempdir().unwrap();
/// let host = Arc::new(LocalHost::open(folder.path())?);
/// let runner = HookRunner::new(host, ProcessSettings::default());
/// # drop(runner);
/// # Ok::<(), windlass_core::FileError>(())
/// ```
pub struct HookRunner {
    host: Arc<dyn Host>,
    settings: ProcessSettings,
    read_only: OnceLock<LocalProcesses>,
    workspace: OnceLock<LocalProcesses>,
    off: OnceLock<LocalProcesses>,
}

/// What came of a program.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) end: ProcessEnd,
    pub(super) printed: Vec<u8>,
    pub(super) errors: Vec<u8>,
}

impl std::fmt::Debug for HookRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookRunner").finish_non_exhaustive()
    }
}

impl HookRunner {
    /// Makes a runner on this machine, with the settings that commands have but for the confinement.
    pub fn new(host: Arc<dyn Host>, settings: ProcessSettings) -> Self {
        Self {
            host,
            settings,
            read_only: OnceLock::new(),
            workspace: OnceLock::new(),
            off: OnceLock::new(),
        }
    }

    pub(super) async fn run(
        self: &Arc<Self>,
        hook: &HookDefinition,
        told: &Told,
    ) -> Result<Ran, ToolError> {
        let request = self.request(hook, told);
        let (runner, sandbox, pins) = (self.clone(), hook.sandbox, hook.pins.clone());
        let begin = move || {
            let files = runner.host.files();
            let held: Result<Vec<_>, String> = pins.iter().map(|pin| pin.hold(files)).collect();
            let held = held.map_err(ToolError::failed)?;
            Ok::<_, ToolError>((held, runner.door(sandbox).start(&request)?))
        };
        let begun = tokio::task::spawn_blocking(begin).await;
        let (held, process) = begun
            .map_err(|error| ToolError::internal(format!("it was not started: {error}")))??;
        let ran = attend(&*process).await?;
        drop(process);
        // What was swapped while it ran has not answered for anybody.
        for (pin, held) in hook.pins.iter().zip(&held) {
            pin.still(self.host.files(), held.as_ref()).map_err(ToolError::failed)?;
        }
        Ok(ran)
    }

    fn request(&self, hook: &HookDefinition, told: &Told) -> ProcessRequest {
        let program = match &hook.command {
            HookCommand::Words(words) => Program::words(words.iter()),
            HookCommand::Shell(text) => Program::Shell(text.clone()),
        };
        let path = self.host.files().workspace().to_owned();
        let directory = Resolved { path, inside: Some(PathBuf::new()), exists: true };
        let environment = hook.environment.iter().chain(&told.environment).cloned().collect();
        let access = if hook.sandbox == Level::Workspace { Access::Direct } else { Access::Read };
        let named = match hook.author {
            Author::Person => outside_files(&hook.command),
            Author::Workspace => Vec::new(),
        };
        let rights = self.settings.rights.as_deref().cloned();
        ProcessRequest {
            environment,
            rights: rights.map(|rights| Arc::new(rights.with_named(named))),
            stdin: Stdin::Bytes(told.json.to_string().into_bytes()),
            errors: Errors::Apart,
            access,
            ..ProcessRequest::new(program, directory)
        }
    }

    fn door(&self, level: Level) -> &LocalProcesses {
        let (place, level) = match level {
            Level::Off => (&self.off, Level::Off),
            Level::Workspace | Level::Staged => (&self.workspace, Level::Workspace),
            Level::ReadOnly | Level::Discard => (&self.read_only, Level::ReadOnly),
        };
        place.get_or_init(|| {
            let backend = self.settings.confinement.backend;
            let confinement = Confinement { level, network: NetworkAccess::None, backend };
            let settings = ProcessSettings { confinement, ..self.settings.clone() };
            LocalProcesses::new(self.host.files().workspace(), settings)
        })
    }
}

/// The files that a person's hook names by an absolute path: its script may lie where no other program can read.
fn outside_files(command: &HookCommand) -> Vec<PathBuf> {
    let text = command.to_string();
    let words = text.split(|c: char| c.is_whitespace() || "'\"();|&<>=".contains(c));
    let paths = words.filter(|word| word.starts_with('/')).map(PathBuf::from);
    paths.filter(|path| path.is_file()).collect()
}

/// Goes with a program to its end. Whoever drops this ends the program.
async fn attend(process: &dyn Process) -> Result<Ran, ToolError> {
    let (mut printed, mut errors) = (Vec::new(), Vec::new());
    let output = async {
        while process.read(&mut printed).await.is_ok_and(|read| read > 0) {
            if printed.len() > MOST_PRINTED {
                return Err(ToolError::failed(format!(
                    "it printed more than {} MiB",
                    MOST_PRINTED >> 20
                )));
            }
        }
        Ok(())
    };
    let complaints = async {
        let mut piece = Vec::new();
        while process.read_errors(&mut piece).await.is_ok_and(|read| read > 0) {
            let room = MOST_PRINTED.saturating_sub(errors.len()).min(piece.len());
            errors.extend_from_slice(piece.get(..room).unwrap_or_default());
            piece.clear();
        }
        Ok(())
    };
    tokio::try_join!(output, complaints)?;
    let end = process.ended().await;
    Ok(Ran { end, printed, errors })
}
