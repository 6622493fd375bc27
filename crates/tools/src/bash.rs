//! `bash`: runs a command in a new shell, to its end or as a job.
//!
//! The processes door confines, ends and follows the command; this module makes the request and the output. The [`shell`](crate::shell)
//! module analyzes the command: the effects are its parts and every file that it names. A command that only reads runs where nothing can be
//! changed, so that the configuration of a repository cannot make it do more.

mod secrets;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Access, Context, Effect, EffectKinds, Effects, FileKind, Output, PathPattern, PlanContext,
    Planned, PlannedTool, ProcessRequest, Shell, Stdin, TerminalSize, ToolDetails, ToolError,
    quote,
};

use self::secrets::CommandWithSecrets;
use crate::git::environment;
use crate::parameter_defaults::here;
use crate::program::{self, answer};
use crate::shell::{self, RunLocation, ScriptAnalysis};

/// Time limit of a command without `timeout`.
const DEFAULT_LIMIT: Duration = Duration::from_mins(2);
/// Time for which a new job is watched before the call returns, because many jobs that cannot start fail at once.
const JOB_START_WAIT: Duration = Duration::from_millis(200);

/// The tool `bash`.
pub(crate) struct Bash;

/// Returns the description of this tool for another shell than bash.
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
    const KINDS: EffectKinds = EffectKinds::EXEC
        .with(EffectKinds::READ)
        .with(EffectKinds::WRITE)
        .with(EffectKinds::DELETE)
        .with(EffectKinds::SECRET)
        .with(EffectKinds::NET);
    type Args = Args;
    type Plan = Plan;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Run a command")
    }

    fn plan(&self, args: Args, scene: &PlanContext<'_>) -> Result<Planned<Plan>, ToolError> {
        check(&args.command)?;
        args.net.iter().try_for_each(|host| check_host(host))?;
        let shell = scene.shell();
        let command = CommandWithSecrets::parse(&args.command, &shell)?;
        let directory = match &args.cwd {
            // A path that does not resolve fails in the call: until a decision is made, the model must not learn whether a closed path
            // exists.
            Some(cwd) => scene.resolve(cwd).map_or_else(|_| cwd.clone(), |found| found.path),
            None => scene.resolve(&here())?.path,
        };
        let location =
            RunLocation { workspace: scene.workspace(), directory: &directory, home: scene.home() };
        let analysis = shell::analyze(&command.script, &shell, location);
        let plan = Plan::new(args, command, shell, directory, &analysis);
        Ok(Planned { effects: plan.effects(analysis), plan })
    }

    async fn call(&self, cx: &Context, plan: Plan) -> Result<Output, ToolError> {
        let (limit, is_job) = (plan.limit, plan.is_job);
        let request = plan.request(cx)?;
        if is_job {
            return start(cx, request, limit).await;
        }
        let soft_limit = cx.overrides().soft_limit;
        let limit = limit.or_else(|| soft_limit.is_none().then_some(DEFAULT_LIMIT));
        let max_wait = soft_limit.map(|soft| soft.min(DEFAULT_LIMIT));
        answer::run(cx, request, limit, max_wait).await
    }

    fn time_limit(&self, plan: &Plan) -> Option<Duration> {
        Some(plan.limit.unwrap_or(DEFAULT_LIMIT) + answer::ENDING_TIME)
    }
}

/// Refuses an empty command and one with a NUL character.
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

/// Refuses a text that is no host name or address, and the special words of `--net`.
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

/// An analyzed command: the script, its directory, and its access to files.
pub(crate) struct Plan {
    /// The command with variables in place of secrets.
    command: CommandWithSecrets,
    shell: Shell,
    directory: PathBuf,
    /// The directory as the model wrote it, if it did.
    cwd: Option<PathBuf>,
    /// Variables for commands that only read with git.
    environment: Vec<(String, String)>,
    stdin: Stdin,
    terminal: Option<TerminalSize>,
    /// The files that the command may change: none, those on a stage, or the real ones for a job.
    access: Access,
    limit: Option<Duration>,
    is_job: bool,
    /// Hosts that the command needs.
    net: Vec<String>,
}

impl Plan {
    /// Builds the plan: a command that only reads gets no access to change files, a job the real ones.
    fn new(
        args: Args,
        command: CommandWithSecrets,
        shell: Shell,
        directory: PathBuf,
        analysis: &ScriptAnalysis,
    ) -> Self {
        let limit = args.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let only_reads = analysis.line.only_reads();
        let reads_with_git = only_reads && analysis.runs("git");
        Self {
            command,
            shell,
            directory,
            cwd: args.cwd,
            environment: if reads_with_git { environment::looking() } else { Vec::new() },
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

    /// Returns the effects of the analysis, the secrets, the hosts and the directory.
    fn effects(&self, mut analysis: ScriptAnalysis) -> Effects {
        let secrets = self.command.effects();
        analysis.line.is_job = self.is_job;
        let effects = secrets.iter().cloned().fold(analysis.into_effects(), Effects::and);
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

    /// Returns the request to run the command, with the values of its secrets.
    fn request(self, cx: &Context) -> Result<ProcessRequest, ToolError> {
        let mut environment = self.command.environment(cx)?;
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
            ..ProcessRequest::new(self.shell.command(self.command.script), directory)
        })
    }
}

/// Refuses a path that is no directory. `cwd` is its name in the message.
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

/// Starts a job. Returns its output if it ends at once, otherwise the note that it goes on.
async fn start(
    cx: &Context,
    request: ProcessRequest,
    limit: Option<Duration>,
) -> Result<Output, ToolError> {
    let job = cx.processes()?.start_job(request, limit).await?;
    let end = tokio::time::timeout(JOB_START_WAIT, job.wait()).await.ok();
    cx.blocking(move |cx| match end {
        Some(end) => {
            let output = answer::ended_output(cx, &job, &end)?;
            job.saw(job.printed());
            Ok(output.with("job", job.id().as_str()))
        }
        None => Ok(answer::job_output(cx, &job)),
    })
    .await?
}
