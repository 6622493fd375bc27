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
    About, Access, Context, Effect, Effects, FileKind, Kinds, Output, PathPattern, Planned,
    PlannedTool, ProcessRequest, Scene, Shell, Stdin, TerminalSize, ToolError, quote,
};

use self::secrets::Placed;
use crate::defaults::here;
use crate::git::environment;
use crate::program::{self, answer};
use crate::shell::{self, RunLocation, ScriptAnalysis};

/// How long a command may take if nobody says.
const DEFAULT_LIMIT: Duration = Duration::from_mins(2);
/// How long a job is watched before the answer: many that cannot start say so at once.
const FIRST_LOOK: Duration = Duration::from_millis(200);

pub(crate) struct Bash;

/// The description of this tool where another shell than bash runs commands.
pub(crate) fn description(shell: &Shell) -> String {
    format!(
        "Run a command with the shell {shell} (not bash: use its syntax), each in a new shell. Returns its output, exit code and \
         the changed files."
    )
}

/// Run a command with `bash -c`, each in a new shell. Returns its output, exit code and the changed files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Shell command. `{{secret NAME}}` inserts a credential.
    command: String,
    /// Time limit in seconds; default 120, none for a job.
    #[serde(default)]
    #[schemars(range(max = 3_600), extend("exclusiveMinimum" = 0))]
    timeout: Option<f64>,
    /// Working directory.
    #[serde(default)]
    cwd: Option<PathBuf>,
    /// Run as a job in the background; see `output` and `kill`.
    #[serde(default)]
    background: bool,
    /// Text for its standard input.
    #[serde(default)]
    stdin: Option<String>,
    /// Run in a terminal; `stdin` is typed into it.
    #[serde(default)]
    pty: bool,
    /// Hosts that the command needs, as `HOST` or `HOST:PORT`.
    #[serde(default)]
    net: Vec<String>,
    /// Purpose of the command, shown to people.
    #[serde(default)]
    #[expect(dead_code, reason = "people see it among the arguments")]
    description: Option<String>,
}

impl PlannedTool for Bash {
    const NAME: &'static str = "bash";
    const KINDS: Kinds = Kinds::EXEC
        .with(Kinds::READ)
        .with(Kinds::WRITE)
        .with(Kinds::DELETE)
        .with(Kinds::SECRET)
        .with(Kinds::NET);
    type Args = Args;
    type Plan = Plan;

    fn about(&self) -> About {
        About::titled("Run a command")
    }

    fn plan(&self, args: Args, scene: &Scene<'_>) -> Result<Planned<Plan>, ToolError> {
        check(&args.command)?;
        args.net.iter().try_for_each(|host| check_host(host))?;
        let shell = scene.shell();
        let placed = Placed::of(&args.command, &shell)?;
        let directory = match &args.cwd {
            // Where it leads nowhere, the call says so: it may not be told to whom the place is closed.
            Some(cwd) => scene.resolve(cwd).map_or_else(|_| cwd.clone(), |found| found.path),
            None => scene.resolve(&here())?.path,
        };
        let place =
            RunLocation { workspace: scene.workspace(), directory: &directory, home: scene.home() };
        let understood = shell::analyze(&placed.command, &shell, place);
        let plan = Plan::new(args, placed, shell, directory, &understood);
        Ok(Planned { effects: plan.effects(understood), plan })
    }

    async fn call(&self, cx: &Context, plan: Plan) -> Result<Output, ToolError> {
        let (limit, is_job) = (plan.limit, plan.is_job);
        let request = plan.request(cx)?;
        if is_job {
            return start(cx, request, limit).await;
        }
        let soft_limit = cx.overrides().soft_limit;
        let limit = limit.or_else(|| soft_limit.is_none().then_some(DEFAULT_LIMIT));
        let patience = soft_limit.map(|soft| soft.min(DEFAULT_LIMIT));
        answer::run(cx, request, limit, patience).await
    }

    fn time_limit(&self, plan: &Plan) -> Option<Duration> {
        Some(plan.limit.unwrap_or(DEFAULT_LIMIT) + answer::ENDING)
    }
}

/// Refuses a text that no shell can be given.
fn check(command: &str) -> Result<(), ToolError> {
    if command.trim().is_empty() {
        return Err(ToolError::invalid_args("the command is empty"));
    }
    if command.contains('\0') {
        return Err(ToolError::invalid_args(
            "the command has a NUL character in it, which no program can be given",
        ));
    }
    Ok(())
}

/// Refuses what is no name or address of a host, and the words of `--net` that are none.
fn check_host(host: &str) -> Result<(), ToolError> {
    let is_word = |word: &str| host.eq_ignore_ascii_case(word);
    if is_word("full") || is_word("none") {
        return Err(ToolError::invalid_args(format!("`net`: `{host}` is not a host")).hint(
            "name the hosts that the command needs, such as \"docs.rs\"; a person opens the whole network, with `--net full`",
        ));
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if !host.is_empty() && host.chars().all(is_part) {
        return Ok(());
    }
    Err(ToolError::invalid_args(format!("`net`: `{}` is not a host", quote::visible(host)))
        .hint("name hosts without a scheme or a path, such as \"docs.rs\" or \"docs.rs:8080\""))
}

/// A command that is read and understood: what runs, where, and what it may change.
pub(crate) struct Plan {
    placed: Placed,
    shell: Shell,
    directory: PathBuf,
    /// The directory as the model wrote it, if it did.
    cwd: Option<PathBuf>,
    /// The variables that the command gets because of what it is.
    environment: Vec<(String, String)>,
    stdin: Stdin,
    terminal: Option<TerminalSize>,
    access: Access,
    limit: Option<Duration>,
    is_job: bool,
    /// Hosts that it needs.
    net: Vec<String>,
}

impl Plan {
    fn new(
        args: Args,
        placed: Placed,
        shell: Shell,
        directory: PathBuf,
        understood: &ScriptAnalysis,
    ) -> Self {
        let limit = args.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let only_reads = understood.line.only_reads();
        let looks_with_git = only_reads && understood.runs("git");
        Self {
            placed,
            shell,
            directory,
            cwd: args.cwd,
            environment: if looks_with_git { environment::looking() } else { Vec::new() },
            stdin: args.stdin.map(|text| Stdin::Bytes(text.into_bytes())).unwrap_or_default(),
            terminal: args.pty.then(TerminalSize::default),
            access: match args.background {
                _ if only_reads => Access::Read,
                true => Access::Direct,
                false => Access::Staged,
            },
            limit,
            is_job: args.background,
            net: args.net,
        }
    }

    fn effects(&self, mut understood: ScriptAnalysis) -> Effects {
        let secrets = self.placed.effects();
        understood.line.is_job = self.is_job;
        let effects = secrets.iter().cloned().fold(understood.into_effects(), Effects::and);
        let hosts = self.net.iter().map(|host| Effect::Net {
            origin: format!("https://{}", host.to_ascii_lowercase()),
            method: "CONNECT".to_owned(),
        });
        let effects = hosts.fold(effects, Effects::and);
        match &self.cwd {
            Some(_) => effects.and(Effect::Read(PathPattern::file(&self.directory))),
            None => effects,
        }
    }

    fn request(self, cx: &Context) -> Result<ProcessRequest, ToolError> {
        let mut environment = self.placed.environment(cx)?;
        environment.extend(self.environment);
        if let Some(cwd) = &self.cwd {
            check_directory(cx, cwd, &self.directory)?;
        }
        let directory = program::directory(cx, &self.directory)?;
        Ok(ProcessRequest {
            environment,
            stdin: self.stdin,
            terminal: self.terminal,
            access: self.access,
            ..ProcessRequest::new(self.shell.command(self.placed.command), directory)
        })
    }
}

/// Refuses a place where no program can run.
fn check_directory(cx: &Context, cwd: &Path, place: &Path) -> Result<(), ToolError> {
    let kind = cx.files().stat(place)?.map(|stat| stat.kind);
    let cannot = |why: &str| {
        ToolError::failed(format!("cannot run a command in {}: {why}", quote::path(cwd)))
    };
    match kind {
        Some(FileKind::Directory) => Ok(()),
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
