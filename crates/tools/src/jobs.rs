//! `jobs`: lists the jobs of this session, running and ended.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::{
    Context, EffectKinds, Effects, Job, JobId, Output, ProcessEnd, Tool, ToolDetails, ToolError,
    nearest, quote,
};

use crate::format;
use crate::program::closing::seconds;

/// Limit of a command's length in the list.
const MAX_COMMAND_CHARACTERS: usize = 100;

/// The tool `jobs`.
pub(crate) struct Jobs;

/// List the jobs of this session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {}

impl Tool for Jobs {
    const NAME: &'static str = "jobs";
    // This belongs to running programs: without those tools it is not offered.
    const KINDS: EffectKinds = EffectKinds::STATE.with(EffectKinds::EXEC);
    type Args = Args;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("List jobs")
    }

    fn effects(&self, _: &Args) -> Effects {
        Effects::state("jobs")
    }

    async fn call(&self, cx: &Context, _: Args) -> Result<Output, ToolError> {
        let jobs = cx.jobs()?;
        let rows: Vec<String> = jobs.iter().map(|job| job_line(cx, job)).collect();
        let text = if rows.is_empty() {
            "[no jobs: `bash` with background:true starts one]".to_owned()
        } else {
            rows.join("\n")
        };
        let facts: Value = jobs.iter().map(|job| job_json(cx, job)).collect();
        Ok(Output::text(text).with("count", jobs.len()).with("jobs", facts))
    }
}

/// Returns a line about a job: its state, the amount of new output and its command.
fn job_line(cx: &Context, job: &Arc<Job>) -> String {
    // Redacted before it is shortened: a part of a secret would not be recognized.
    let command = cx.redact(job.command());
    let command = quote::visible(&command);
    let command = format::short(command.trim(), MAX_COMMAND_CHARACTERS);
    let new = match job.printed().saturating_sub(job.seen()) {
        0 => String::new(),
        new => format!(", {} new", format::size(new)),
    };
    format!("{}{new}: {command}", status(job))
}

/// Returns the same facts about a job as JSON.
fn job_json(cx: &Context, job: &Arc<Job>) -> Value {
    let end = job.end();
    let exit_code = end.as_ref().and_then(|end| match end.how {
        ProcessEnd::Exited(code) => Some(code),
        _ => None,
    });
    json!({
        "job": job.id(),
        "running": end.is_none(),
        "exit_code": exit_code,
        "seconds": job.running_for().as_secs(),
        "command": format::short(&cx.redact(job.command()), MAX_COMMAND_CHARACTERS),
        "new_bytes": job.printed().saturating_sub(job.seen()),
    })
}

/// Describes the state of a job: running or ended, with the time.
pub(crate) fn status(job: &Job) -> String {
    let (id, time) = (job.id(), seconds(job.running_for()));
    let Some(end) = job.end() else { return format!("job {id} has been running for {time}") };
    let how = match end.cut_off() {
        Some(outcome) => outcome.as_str().replace('_', " "),
        None => end.how.to_string(),
    };
    format!("job {id} has ended after {time}: {how}")
}

/// Finds a job by its id, or by the id of the call that started it.
pub(crate) fn find(cx: &Context, name: &str) -> Result<Arc<Job>, ToolError> {
    let jobs = cx.jobs()?;
    let name = name.trim();
    let is_it = |job: &&Arc<Job>| job.id().as_str() == name || job.call().as_str() == name;
    if let Some(job) = jobs.iter().rev().find(is_it) {
        return Ok(job.clone());
    }
    let error = ToolError::failed(format!("there is no job `{}`", quote::visible(name)));
    let names: Vec<&str> = jobs.iter().map(|job| job.id()).map(JobId::as_str).collect();
    if names.is_empty() {
        return Err(error.hint("this session has no jobs: `bash` with background:true starts one"));
    }
    let meant = nearest(name, names.iter().copied())
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    Err(error.hint(format!("{meant}the jobs of this session: {}", names.join(", "))))
}
