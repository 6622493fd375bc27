//! `bash`: runs a command in a shell of its own, to its end or as a job.
//!
//! How the command is confined, ended and followed is the business of the door to programs; here is what it is asked, and what
//! is said of it. What it would do is found out by reading it (see [`shell`](crate::shell)): the effects are the command, part by part,
//! and every file that it names. One that only reads is run where nothing can be changed, so that nothing which a repository
//! configures can make it do more.

mod secrets;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Access, Context, Effect, Effects, FileKind, Kinds, Output, PathPattern, ProcessRequest,
    Program, Scene, Stdin, TerminalSize, Tool, ToolError, quote,
};

use self::secrets::Placed;
use crate::defaults::here;
use crate::git::environment;
use crate::program::answer;
use crate::shell::{self, Place};

/// How long a command may take if nobody says.
const DEFAULT_LIMIT: Duration = Duration::from_mins(2);
/// How long a job is watched before the answer: many that cannot start say so at once.
const FIRST_LOOK: Duration = Duration::from_millis(200);

pub(crate) struct Bash;

/// Run a command with `bash -c`, each in a new shell. Answers with its output, exit code and the files that changed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// For the shell. `{{secret NAME}}` puts in a credential.
    command: String,
    /// Seconds; default 120, for a job none.
    #[serde(default)]
    #[schemars(range(max = 3_600), extend("exclusiveMinimum" = 0))]
    timeout: Option<f64>,
    /// Where to run it.
    #[serde(default)]
    cwd: Option<PathBuf>,
    /// Go on as a job: see `output`, `kill`.
    #[serde(default)]
    background: bool,
    /// What it reads.
    #[serde(default)]
    stdin: Option<String>,
    /// In a terminal, into which `stdin` is typed.
    #[serde(default)]
    pty: bool,
    /// What it is for, for people.
    #[serde(default)]
    #[expect(dead_code, reason = "whoever watches sees it among the arguments")]
    description: Option<String>,
}

impl Tool for Bash {
    const NAME: &'static str = "bash";
    const KINDS: Kinds =
        Kinds::EXEC.with(Kinds::READ).with(Kinds::WRITE).with(Kinds::DELETE).with(Kinds::SECRET);
    type Args = Args;

    /// What is known without a look at the workspace.
    fn effects(&self, args: &Args) -> Effects {
        let directory = args.cwd.as_deref().unwrap_or(Path::new(""));
        args.effects(Path::new(""), directory)
    }

    fn effects_in(&self, args: &Args, scene: &Scene<'_>) -> Result<Effects, ToolError> {
        let cwd = args.cwd.clone().unwrap_or_else(here);
        // Where there is no such directory, the call will say so.
        let directory = scene.resolve(&cwd).map_or(cwd, |resolved| resolved.path);
        Ok(args.effects(scene.workspace(), &directory))
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        let request = request(cx, &args)?;
        if args.background {
            return start(cx, request, args.limit()).await;
        }
        let soft_limit = cx.overrides().soft_limit;
        let limit = args.limit().or_else(|| soft_limit.is_none().then_some(DEFAULT_LIMIT));
        let patience = soft_limit.map(|soft| soft.min(DEFAULT_LIMIT));
        answer::run(cx, request, limit, patience).await
    }

    fn time_limit(&self, args: &Args) -> Option<Duration> {
        Some(args.limit().unwrap_or(DEFAULT_LIMIT) + answer::ENDING)
    }
}

impl Args {
    fn effects(&self, workspace: &Path, directory: &Path) -> Effects {
        // A command that cannot be run is not: the call says why.
        let placed = Placed::of(&self.command).unwrap_or_default();
        let understood = shell::understand(&placed.command, Place { workspace, directory });
        let secrets = placed.effects();
        let effects = secrets.iter().cloned().fold(understood.effects(), Effects::and);
        match &self.cwd {
            Some(cwd) => effects.and(Effect::Read(PathPattern::file(cwd))),
            None => effects,
        }
    }

    fn limit(&self) -> Option<Duration> {
        self.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}

fn request(cx: &Context, args: &Args) -> Result<ProcessRequest, ToolError> {
    if args.command.trim().is_empty() {
        return Err(ToolError::invalid_args("the command is empty"));
    }
    if args.command.contains('\0') {
        return Err(ToolError::invalid_args(
            "the command has a NUL character in it, which no program can be given",
        ));
    }
    let stdin = args.stdin.as_ref().map(|text| Stdin::Bytes(text.clone().into_bytes()));
    let placed = Placed::of(&args.command)?;
    let mut environment = placed.environment(cx)?;
    let directory = directory(cx, args)?;
    let files = cx.files();
    let place = Place { workspace: files.workspace(), directory: &directory.path };
    let understood = shell::understand(&placed.command, place);
    if understood.runs("git") && understood.line.only_reads() {
        environment.extend(environment::looking());
    }
    let only_reads = understood.line.only_reads();
    Ok(ProcessRequest {
        environment,
        stdin: stdin.unwrap_or_default(),
        terminal: args.pty.then(TerminalSize::default),
        access: match args.background {
            _ if only_reads => Access::Read,
            true => Access::Direct,
            false => Access::Staged,
        },
        ..ProcessRequest::new(Program::Shell(placed.command), directory)
    })
}

fn directory(cx: &Context, args: &Args) -> Result<windlass_core::Resolved, ToolError> {
    let Some(cwd) = &args.cwd else { return cx.files().resolve(&here()) };
    let kind = cx.files().stat(cwd)?.map(|stat| stat.kind);
    let cannot = |why: &str| {
        ToolError::failed(format!("cannot run a command in {}: {why}", quote::path(cwd)))
    };
    match kind {
        Some(FileKind::Directory) => cx.files().resolve(cwd),
        Some(kind) => Err(cannot(&format!("it is {kind}, not a directory"))),
        None => Err(cannot("there is no such directory")
            .hint("`cwd` is relative to the workspace; leave it out to run the command there")),
    }
}

/// Starts a job and has a first look at it.
async fn start(
    cx: &Context,
    request: ProcessRequest,
    limit: Option<Duration>,
) -> Result<Output, ToolError> {
    let job = cx.processes()?.start_job(request, limit).await?;
    let end = tokio::time::timeout(FIRST_LOOK, job.wait()).await.ok();
    cx.blocking(move |cx| match end {
        Some(end) => {
            let output = answer::ended(cx, &job, &end)?;
            job.saw(job.printed());
            Ok(output.with("job", job.id().as_str()))
        }
        None => Ok(answer::goes_on(cx, &job)),
    })
    .await?
}
