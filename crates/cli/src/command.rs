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

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one tool call and print the result as a model would see it.
    Call(call::Call),
    /// Read tool calls as JSON lines, run them, and print results as JSON lines in the form of the same provider.
    Run(run::Run),
    /// List the tools that a model would be offered.
    Tools(tools::Tools),
    /// Serve the tools to an MCP host over stdin and stdout.
    Mcp,
    /// Undo the file changes of calls, or list the changes that can be undone.
    Undo(undo::UndoCommand),
    /// List, show, apply or drop file changes that are held as proposals.
    Proposals(proposals::ProposalsCommand),
    /// List, show, export or delete recorded sessions.
    Sessions(sessions::Sessions),
    /// List the background jobs of running sessions, print their output, or end them.
    Jobs(jobs::JobsCommand),
    /// Show the journal, verify that its records were not changed, or export them.
    Log(log::Log),
    /// Run the calls of a recorded session again in a copy of the workspace, and show the differences.
    #[command(
        after_help = "Approvals get the answers that they got in the recorded session. Calls that would reach beyond the copy (other \
        files, the network, MCP servers, people) are skipped. Exit code 1 when something differs."
    )]
    Replay(replay::Replay),
    /// Explain, show and test the policy, answer open approvals, and forget remembered answers.
    Policy(policy::PolicyCommand),
    /// Trust a workspace: let its configuration, command tools and hooks take effect.
    Trust(trust::Trust),
    /// Show the configuration in force and the source of each value.
    Config(config::ConfigCommand),
    /// Demonstrate in seconds what Windlass does, in a sample project that is removed afterwards.
    #[command(
        after_help = "All calls are real and run in a temporary directory with its own state: of the global options, only --yes, --json, \
        --quiet and --color have an effect. On a terminal you are asked once; with --yes, --json, --quiet or without a terminal the tour \
        answers itself. Each step checks its result: exit code 1 when a check fails. Steps that need the sandbox are skipped on a machine \
        that has none."
    )]
    Demo,
    /// Check what works on this machine by trying it: sandbox, network, limits, journal, undo.
    Doctor,
    /// Print this help, or the help of a command.
    Help {
        /// The name of the command, such as `call` or `policy explain`.
        command: Vec<String>,
    },
    /// Print a completion script for a shell.
    Completions(completions::Completions),
    /// Print the manual page.
    Man,
    /// Print generated documentation.
    #[command(hide = true)]
    Docs {
        /// The page: cli or config.
        #[arg(value_parser = ["cli", "config"])]
        which: String,
    },
}

/// Runs the subcommand and returns the exit code.
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

/// Prints the help of a command, given by its words; fails with the nearest name if there is no such command.
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

/// Runs a future to its end on this thread. Threads for blocking work are started when needed.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    check_free_descriptors().context("cannot start the runtime")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let value = runtime.block_on(future);
    // A thread that hangs in a read of a dead network file system must not keep the program from ending.
    runtime.shutdown_background();
    Ok(value)
}

/// Ends the running jobs of a session, and prints why changes of a job were not kept.
async fn end_jobs(session: &Session) {
    let jobs = session.all_jobs();
    let running: Vec<_> = jobs.iter().filter(|job| job.end().is_none()).collect();
    session.end_jobs().await;
    for job in running {
        let ended = job.end();
        if let Some(Err(error)) = ended.as_deref().map(|end| &end.changed) {
            terminal::print_to_stderr(&format!("{} ended: {}", job.id(), error.message().text));
        }
    }
}

/// Checks that file descriptors can be opened: without the few that it needs, the runtime would panic.
fn check_free_descriptors() -> std::io::Result<()> {
    let pair = || std::os::unix::net::UnixStream::pair();
    let _needed = (pair()?, pair()?, pair()?);
    Ok(())
}

/// The longest wait for calls to stop after the second interrupt.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The error of work that was abandoned: calls did not stop in time after a second interrupt, or a third one came.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::error::Error for Interrupted {}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted: the calls did not stop in time and were abandoned")
    }
}

/// Returns the exit code of a command that a person interrupted.
fn interrupted_exit_code() -> ExitCode {
    ExitCode::from(Outcome::Cancelled.exit_code())
}

/// Runs work and handles interrupts. The first ends running commands as a time limit does; their calls return results. The second
/// cancels all calls. The third abandons them, as does a wait of `STOP_TIMEOUT` after the second.
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

/// A listener for SIGINT and SIGTERM.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Starts to listen.
    pub(crate) fn listen() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next of these signals.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Returns whether one of these signals has come since the listener started, or since it was asked last.
    pub(crate) fn has_come(&mut self) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        [&mut self.interrupt, &mut self.terminate]
            .into_iter()
            .any(|signal| signal.poll_recv(&mut cx).is_ready())
    }
}

/// Reads a whole input as UTF-8 text, at most 64 MiB. `what` names the input in errors.
fn read_text(mut input: impl std::io::Read, what: &str) -> Result<String> {
    const MAX_INPUT_BYTES: u64 = 64 << 20;
    let mut bytes = Vec::new();
    (&mut input)
        .take(MAX_INPUT_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {what}"))?;
    anyhow::ensure!(
        bytes.len() as u64 <= MAX_INPUT_BYTES,
        "{what} is larger than {} MiB",
        MAX_INPUT_BYTES >> 20
    );
    String::from_utf8(bytes).with_context(|| format!("{what} is not UTF-8"))
}
