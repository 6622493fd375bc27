//! `windlass jobs`: the programs that sessions of other processes have running.

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
    what: Option<JobsWhat>,
}

/// What to do with jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsWhat {
    /// List them.
    List,
    /// Print what one has printed.
    Output {
        /// Its id.
        job: String,
        /// Go on with what comes, until it ends.
        #[arg(long)]
        follow: bool,
    },
    /// End one, with everything that it started.
    Kill {
        /// Its id.
        job: String,
        /// What to tell it first.
        #[arg(long, default_value = "TERM")]
        signal: String,
    },
}

pub(super) fn run(global: &Global, jobs: JobsCommand) -> Result<ExitCode> {
    let state = setup::state_directory(global)?;
    let whole = |given: &str| {
        let jobs = ask_jobs(&state, &JobQuestion::List)?;
        ids::expand(
            "job",
            given,
            jobs.iter().filter_map(|job| Some(job["job"].as_str()?.to_owned())),
        )
    };
    match jobs.what.unwrap_or(JobsWhat::List) {
        JobsWhat::List => list(global, &ask_jobs(&state, &JobQuestion::List)?),
        JobsWhat::Output { job, follow } => {
            let job = whole(&job)?;
            let mut cursor = 0;
            loop {
                let question = JobQuestion::Output { job: job.clone(), cursor };
                let told = one(ask_jobs(&state, &question)?, &job)?;
                let next = print_output(global, &told)?;
                // What may be the beginning of a secret is told when it is clear what it is.
                let is_all = told["bytes"].as_u64() <= Some(next) || next <= cursor;
                cursor = next;
                let is_over = told["running"] == false && told["bytes"].as_u64() <= Some(cursor);
                if is_over || (!follow && is_all) {
                    return Ok(ExitCode::SUCCESS);
                }
                if is_all {
                    std::thread::sleep(std::time::Duration::from_millis(200));
                }
            }
        }
        JobsWhat::Kill { job, signal } => {
            let job = whole(&job)?;
            let question = JobQuestion::Kill { job: job.clone(), signal };
            let told = one(ask_jobs(&state, &question)?, &job)?;
            list(global, &[told])
        }
    }
}

fn one(mut answers: Vec<Value>, job: &str) -> Result<Value> {
    let Some(told) = answers.pop() else {
        bail!("there is no job `{job}`: `windlass jobs list` shows those that there are");
    };
    if let Some(error) = told["error"].as_str() {
        bail!("{error}");
    }
    Ok(told)
}

/// Prints a piece of output; where it goes on.
fn print_output(global: &Global, told: &Value) -> Result<u64> {
    if global.json {
        terminal::print_json(told)?;
    } else {
        let mut out = std::io::stdout().lock();
        if told["missed"].as_u64() > Some(0) {
            writeln!(out, "[… {} bytes were not kept …]", told["missed"])?;
        }
        out.write_all(quote::visible(told["text"].as_str().unwrap_or_default()).as_bytes())?;
    }
    Ok(told["cursor"].as_u64().unwrap_or(0))
}

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
