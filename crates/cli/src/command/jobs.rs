//! `windlass jobs`: lists the background jobs of running sessions, prints their output, and ends them. The sessions are those of other
//! processes, which answer over sockets in the state directory.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::Value;
use windlass::quote;
use windlass_hub::{JobQuestion, ask_jobs};

use crate::ids;
use crate::options::Global;
use crate::setup;
use crate::terminal::{self, Paint};

/// `windlass jobs`
#[derive(Debug, Args)]
pub(crate) struct JobsCommand {
    #[command(subcommand)]
    subcommand: Option<JobsSubcommand>,
}

/// The subcommands of `windlass jobs`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsSubcommand {
    /// List the running jobs.
    List,
    /// Print the output of a job.
    Output {
        /// The job's id, or a beginning of it that no other id has.
        job: String,
        /// Keep printing new output until the job ends.
        #[arg(long)]
        follow: bool,
    },
    /// End a job and every process that it started.
    Kill {
        /// The job's id, or a beginning of it that no other id has.
        job: String,
        /// The signal to send first.
        #[arg(long, default_value = "TERM")]
        signal: String,
    },
}

/// Runs the subcommand; without one, lists the jobs.
pub(super) fn run(global: &Global, jobs: JobsCommand) -> Result<ExitCode> {
    let state = setup::state_directory(global)?;
    let expand = |given: &str| {
        let jobs = ask_jobs(&state, &JobQuestion::List)?;
        ids::expand(
            "job",
            given,
            jobs.iter().filter_map(|job| Some(job["job"].as_str()?.to_owned())),
        )
    };
    match jobs.subcommand.unwrap_or(JobsSubcommand::List) {
        JobsSubcommand::List => list(global, &ask_jobs(&state, &JobQuestion::List)?),
        JobsSubcommand::Output { job, follow } => {
            let job = expand(&job)?;
            let mut cursor = 0;
            loop {
                let question = JobQuestion::Output { job: job.clone(), cursor };
                let answer = only_answer(ask_jobs(&state, &question)?, &job)?;
                let next = print_output(global, &answer)?;
                // Output that may be the beginning of a secret is held back until more output shows whether it is one.
                let is_all = answer["bytes"].as_u64() <= Some(next) || next <= cursor;
                cursor = next;
                let is_over =
                    answer["running"] == false && answer["bytes"].as_u64() <= Some(cursor);
                if is_over || (!follow && is_all) {
                    return Ok(ExitCode::SUCCESS);
                }
                if is_all {
                    std::thread::sleep(std::time::Duration::from_millis(200));
                }
            }
        }
        JobsSubcommand::Kill { job, signal } => {
            let job = expand(&job)?;
            let question = JobQuestion::Kill { job: job.clone(), signal };
            let answer = only_answer(ask_jobs(&state, &question)?, &job)?;
            list(global, &[answer])
        }
    }
}

/// Returns the only answer about a job; fails if there is none or it is an error.
fn only_answer(mut answers: Vec<Value>, job: &str) -> Result<Value> {
    let Some(answer) = answers.pop() else {
        bail!("there is no job `{job}`: `windlass jobs list` shows those that there are");
    };
    if let Some(error) = answer["error"].as_str() {
        bail!("{error}");
    }
    Ok(answer)
}

/// Prints a piece of output, and returns the offset of the next piece.
fn print_output(global: &Global, answer: &Value) -> Result<u64> {
    if global.json {
        terminal::print_json(answer)?;
    } else {
        let mut out = std::io::stdout().lock();
        if answer["missed"].as_u64() > Some(0) {
            writeln!(out, "[… {} bytes were not kept …]", answer["missed"])?;
        }
        out.write_all(quote::visible(answer["text"].as_str().unwrap_or_default()).as_bytes())?;
    }
    Ok(answer["cursor"].as_u64().unwrap_or(0))
}

/// Prints jobs, one per line.
fn list(global: &Global, jobs: &[Value]) -> Result<ExitCode> {
    if global.json {
        for job in jobs {
            terminal::print_json(job)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let paint = Paint::of(global);
    let mut out = std::io::stdout().lock();
    for job in jobs {
        let text = |key: &str| job[key].as_str().unwrap_or_default();
        let state = match job["running"].as_bool() {
            Some(true) => paint.yellow("running"),
            _ => paint.dim(text("end")),
        };
        let seconds = job["seconds"].as_f64().unwrap_or(0.0);
        let command =
            quote::visible(text("command").lines().next().unwrap_or_default()).into_owned();
        let (id, session) = (paint.bold(text("job")), text("session"));
        writeln!(out, "{id}  {state}  {seconds:.0} s  session {session}  {command}")?;
    }
    if jobs.is_empty() {
        terminal::note(global, "no jobs are running");
    }
    Ok(ExitCode::SUCCESS)
}
