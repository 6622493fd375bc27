//! Runs a hook's program: in the sandbox, with limited output, and with no process left afterwards.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use windlass_core::{
    Access, Author, Confinement, Host, NetworkAccess, Process, ProcessEnd, ProcessRequest,
    Processes as _, Program, Resolved, SandboxLevel, StderrTarget, Stdin, ToolError,
};
use windlass_host::{LocalProcesses, ProcessSettings};

use super::hook_input::HookInput;
use super::pins::PinError;
use super::{HookCommand, HookDefinition};

/// Maximum bytes that a hook may print.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Starts the programs of hooks. It has its own process doors, because hooks are confined independently of commands.
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

/// End and output of a program.
#[derive(Debug)]
pub(super) struct ProgramRun {
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
    /// Creates a runner with the settings of commands, except for their confinement.
    pub fn new(host: Arc<dyn Host>, settings: ProcessSettings) -> Self {
        Self {
            host,
            settings,
            read_only: OnceLock::new(),
            workspace: OnceLock::new(),
            off: OnceLock::new(),
        }
    }

    /// Runs a hook's program with an input. Checks its pinned files before and after.
    pub(super) async fn run(
        self: &Arc<Self>,
        hook: &HookDefinition,
        input: &HookInput,
    ) -> Result<ProgramRun, ToolError> {
        let request = self.request(hook, input);
        let (runner, sandbox, pins) = (self.clone(), hook.sandbox, hook.pins.clone());
        let begin = move || {
            let files = runner.host.files();
            let held: Result<Vec<_>, PinError> = pins.iter().map(|pin| pin.check(files)).collect();
            let held = held.map_err(|error| ToolError::failed(error.to_string()))?;
            Ok::<_, ToolError>((held, runner.processes_for(sandbox).start(&request)?))
        };
        let begun = tokio::task::spawn_blocking(begin).await;
        let (held, process) = begun
            .map_err(|error| ToolError::internal(format!("it was not started: {error}")))??;
        let ran = collect_output(&*process).await?;
        drop(process);
        // The answer of a script that was swapped while it ran does not count.
        for (pin, held) in hook.pins.iter().zip(&held) {
            pin.check_unchanged(self.host.files(), held.as_ref())
                .map_err(|error| ToolError::failed(error.to_string()))?;
        }
        Ok(ran)
    }

    /// Builds the request to start the program.
    fn request(&self, hook: &HookDefinition, input: &HookInput) -> ProcessRequest {
        let program = match &hook.command {
            HookCommand::Words(words) => Program::words(words.iter()),
            HookCommand::Shell(text) => Program::Shell(text.clone()),
        };
        let path = self.host.files().workspace().to_owned();
        let directory = Resolved { path, inside: Some(PathBuf::new()), exists: true };
        let environment = hook.environment.iter().chain(&input.environment).cloned().collect();
        let access =
            if hook.sandbox == SandboxLevel::Workspace { Access::Direct } else { Access::Read };
        let named = match hook.author {
            Author::Person => absolute_files(&hook.command),
            Author::Workspace => Vec::new(),
        };
        let rights = self.settings.rights.as_deref().cloned();
        ProcessRequest {
            environment,
            rights: rights.map(|rights| Arc::new(rights.with_named(named))),
            stdin: Stdin::Bytes(input.json.to_string().into_bytes()),
            errors: StderrTarget::Apart,
            access,
            ..ProcessRequest::new(program, directory)
        }
    }

    /// Returns the process door for a confinement, which is created on first use.
    fn processes_for(&self, level: SandboxLevel) -> &LocalProcesses {
        let (place, level) = match level {
            SandboxLevel::Off => (&self.off, SandboxLevel::Off),
            SandboxLevel::Workspace | SandboxLevel::Staged => {
                (&self.workspace, SandboxLevel::Workspace)
            }
            SandboxLevel::ReadOnly | SandboxLevel::Discard => {
                (&self.read_only, SandboxLevel::ReadOnly)
            }
        };
        place.get_or_init(|| {
            let backend = self.settings.confinement.backend;
            let confinement = Confinement { level, network: NetworkAccess::None, backend };
            let settings = ProcessSettings { confinement, ..self.settings.clone() };
            LocalProcesses::new(self.host.files().workspace(), settings)
        })
    }
}

/// Returns the files that a person's hook names by absolute path. They are readable for the hook, because its script may lie where
/// programs cannot read otherwise.
fn absolute_files(command: &HookCommand) -> Vec<PathBuf> {
    let text = command.to_string();
    let words = text.split(|c: char| c.is_whitespace() || "'\"();|&<>=".contains(c));
    let paths = words.filter(|word| word.starts_with('/')).map(PathBuf::from);
    paths.filter(|path| path.is_file()).collect()
}

/// Reads the output of a program to its end. Dropping the future ends the program.
async fn collect_output(process: &dyn Process) -> Result<ProgramRun, ToolError> {
    let (mut printed, mut errors) = (Vec::new(), Vec::new());
    let output = async {
        while process.read(&mut printed).await.is_ok_and(|read| read > 0) {
            if printed.len() > MAX_OUTPUT_BYTES {
                return Err(ToolError::failed(format!(
                    "it printed more than {} MiB",
                    MAX_OUTPUT_BYTES >> 20
                )));
            }
        }
        Ok(())
    };
    let complaints = async {
        let mut piece = Vec::new();
        while process.read_errors(&mut piece).await.is_ok_and(|read| read > 0) {
            let room = MAX_OUTPUT_BYTES.saturating_sub(errors.len()).min(piece.len());
            errors.extend_from_slice(piece.get(..room).unwrap_or_default());
            piece.clear();
        }
        Ok(())
    };
    tokio::try_join!(output, complaints)?;
    let end = process.ended().await;
    Ok(ProgramRun { end, printed, errors })
}
