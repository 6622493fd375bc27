//! The commands, one file each.

mod call;
mod completions;
mod config;
mod demo;
mod docs;
mod doctor;
mod export;
mod jobs;
mod log;
mod mcp;
mod policy;
mod proposals;
mod recorded;
mod replay;
mod run;
mod sessions;
mod tools;
mod trust;
mod undo;

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Subcommand};
use tokio::signal::unix::{Signal, SignalKind, signal};
use windlass::engine::Engine;
use windlass::tool::nearest;
use windlass::{Outcome, Session};

use crate::options::Arguments;
use crate::terminal;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one tool call and print what a model would see.
    Call(call::Call),
    /// Run calls from JSON lines, as models send them, and answer in the same form.
    Run(run::Run),
    /// List the tools that a model would be offered.
    Tools(tools::Tools),
    /// Serve the tools to an MCP host over stdin and stdout.
    Mcp,
    /// Take back what calls did to files, or show what can be taken back.
    Undo(undo::UndoCommand),
    /// Look at changes that are only proposed; apply or drop them.
    Proposals(proposals::ProposalsCommand),
    /// Look at earlier sessions.
    Sessions(sessions::Sessions),
    /// Look at programs that go on behind the calls of running sessions, or end them.
    Jobs(jobs::JobsCommand),
    /// Show the journal, or check that nobody changed it.
    Log(log::Log),
    /// Run the calls of an earlier session again in a copy of the workspace, and show what differs.
    #[command(
        after_help = "What a person was asked then is answered as it was answered then. What would reach beyond the copy \
        (other files, the network, MCP servers, people) is skipped. Exit code 1 when something differs."
    )]
    Replay(replay::Replay),
    /// Say what the policy would decide and why, test it, and answer or take back approvals.
    Policy(policy::PolicyCommand),
    /// Let the configuration, the command tools and the hooks of a workspace take effect.
    Trust(trust::Trust),
    /// Show the configuration in force and where each value comes from.
    Config(config::ConfigCommand),
    /// Show in seconds what Windlass does, in a sample project that is removed again.
    #[command(
        after_help = "Everything happens for real, in a temporary directory with a state of its own: of the options above, only --yes, \
        --json, --quiet and --color count. On a terminal you are asked once; with --yes, --json, --quiet or without a terminal the tour \
        answers itself. Each step is checked: exit code 1 when one did not do what it says. Where commands cannot be confined, steps \
        that need them are passed over."
    )]
    Demo,
    /// Check what works on this machine, by trying it.
    Doctor,
    /// Print this help, or that of a command.
    Help {
        /// The command, such as `call` or `policy explain`.
        command: Vec<String>,
    },
    /// Print completions for a shell.
    Completions(completions::Completions),
    /// Print the manual page.
    Man,
    /// Print generated documentation.
    #[command(hide = true)]
    Docs {
        /// Which: cli or config.
        #[arg(value_parser = ["cli", "config"])]
        which: String,
    },
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { global, command } = arguments;
    match command {
        Command::Call(call) => call::run(&global, &call),
        Command::Run(run) => run::run(&global, &run),
        Command::Tools(tools) => tools::run(&global, &tools),
        Command::Mcp => mcp::run(&global),
        Command::Undo(undo) => undo::run(&global, &undo),
        Command::Proposals(proposals) => proposals::run(&global, proposals),
        Command::Sessions(sessions) => sessions::run(&global, sessions),
        Command::Jobs(jobs) => jobs::run(&global, jobs),
        Command::Log(log) => log::run(&global, &log),
        Command::Replay(replay) => replay::run(&global, &replay),
        Command::Policy(policy) => policy::run(&global, policy),
        Command::Trust(trust) => trust::run(&global, &trust),
        Command::Config(config) => config::run(&global, config),
        Command::Demo => demo::run(&global),
        Command::Doctor => doctor::run(&global),
        Command::Completions(completions) => completions::run(&global, &completions),
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
            let page = String::from_utf8_lossy(&page);
            if global.json {
                terminal::print_json(&serde_json::json!({"page": page}))?;
            } else {
                terminal::print(&page)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Help { command } => help(&command),
        Command::Docs { which } => docs::run(&which),
    }
}

/// Prints what `--help` prints for a command.
fn help(names: &[String]) -> Result<ExitCode> {
    let mut root = Arguments::command();
    root.build();
    let mut command = &mut root;
    for name in names {
        let known = command.get_subcommands().map(|one| one.get_name().to_owned());
        let known: Vec<String> = known.collect();
        command = command.find_subcommand_mut(name).with_context(|| {
            let near = nearest(name, known.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            format!("there is no command `{name}`{near}")
        })?;
    }
    terminal::print(&command.render_long_help().to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a future on this thread. Threads for blocking work are started when there is some.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    check_that_files_can_be_opened().context("cannot start the runtime")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let value = runtime.block_on(future);
    // A thread that hangs in a read of a dead network file system must not keep the program from ending.
    runtime.shutdown_background();
    Ok(value)
}

/// Ends the jobs of a session, and says what is not kept of what they changed.
async fn end_jobs(session: &Session) {
    let jobs = session.all_jobs();
    let running: Vec<_> = jobs.iter().filter(|job| job.end().is_none()).collect();
    session.end_jobs().await;
    for job in running {
        let ended = job.end();
        if let Some(Err(error)) = ended.as_deref().map(|end| &end.changed) {
            terminal::tell(&format!("{} ended: {}", job.id(), error.message().text));
        }
    }
}

/// The runtime panics where it may not open the few descriptors that it needs for itself.
fn check_that_files_can_be_opened() -> std::io::Result<()> {
    let pair = || std::os::unix::net::UnixStream::pair();
    let _needed = (pair()?, pair()?, pair()?);
    Ok(())
}

/// The longest wait for calls to stop after the second interrupt.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The work was abandoned: calls did not stop in time after a second interrupt, or a third one came.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::error::Error for Interrupted {}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted: the calls did not stop in time and were abandoned")
    }
}

/// The exit code of a command that a person interrupted.
fn interrupted() -> ExitCode {
    ExitCode::from(Outcome::Cancelled.exit_code())
}

/// Does the work. The first interrupt ends running commands as a time limit does; their calls return results. The second cancels all
/// calls. The third abandons them.
async fn until_interrupted<T>(
    engine: &Engine,
    session: &Arc<Session>,
    work: impl Future<Output = T>,
) -> Result<T> {
    let mut interrupts = Interrupts::listen()?;
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return Ok(done),
        () = interrupts.next() => engine.interrupt(session),
    }
    tokio::select! {
        biased;
        done = &mut work => return Ok(done),
        () = interrupts.next() => session.cancel(),
    }
    tokio::select! {
        biased;
        done = &mut work => Ok(done),
        () = interrupts.next() => Err(Interrupted.into()),
        () = tokio::time::sleep(STOP_TIMEOUT) => Err(Interrupted.into()),
    }
}

/// SIGINT and SIGTERM.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Listens from now on.
    fn listen() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Ends with the next of them.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The bytes of `FILE`, `-` being standard input, up to a limit that no honest input reaches.
fn read_all(mut input: impl std::io::Read, what: &str) -> Result<String> {
    const MOST: u64 = 64 << 20;
    let mut bytes = Vec::new();
    (&mut input)
        .take(MOST + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {what}"))?;
    anyhow::ensure!(bytes.len() as u64 <= MOST, "{what} is larger than {} MiB", MOST >> 20);
    String::from_utf8(bytes).with_context(|| format!("{what} is not UTF-8"))
}
