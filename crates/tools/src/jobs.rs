//! `jobs`: the programs of this session that go on behind its calls, and those that have ended.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::{
    About, Context, Effects, Job, JobId, Kinds, Output, ProcessEnd, Tool, ToolError, nearest, quote,
};

use crate::program::closing::seconds;
use crate::shown;

/// So many characters of a command are shown.
const COMMAND: usize = 100;

pub(crate) struct Jobs;

/// List the jobs of this session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {}

impl Tool for Jobs {
    const NAME: &'static str = "jobs";
    // A part of running programs: who is not offered those needs none of this.
    const KINDS: Kinds = Kinds::STATE.with(Kinds::EXEC);
    type Args = Args;

    fn about(&self) -> About {
        About::titled("List jobs")
    }

    fn effects(&self, _: &Args) -> Effects {
        Effects::state("jobs")
    }

    async fn call(&self, cx: &Context, _: Args) -> Result<Output, ToolError> {
        let jobs = cx.jobs()?;
        let rows: Vec<String> = jobs.iter().map(|job| row(cx, job)).collect();
        let text = if rows.is_empty() {
            "[no jobs: `bash` with background:true starts one]".to_owned()
        } else {
            rows.join("\n")
        };
        let facts: Value = jobs.iter().map(|job| fact(cx, job)).collect();
        Ok(Output::text(text).with("count", jobs.len()).with("jobs", facts))
    }
}

fn row(cx: &Context, job: &Arc<Job>) -> String {
    // Before it is cut: a part of a secret cannot be told from other texts.
    let command = cx.redact(job.command());
    let command = quote::visible(&command);
    let command = shown::short(command.trim(), COMMAND);
    let new = match job.printed().saturating_sub(job.seen()) {
        0 => String::new(),
        new => format!(", {} new", shown::size(new)),
    };
    format!("{}{new}: {command}", status(job))
}

fn fact(cx: &Context, job: &Arc<Job>) -> Value {
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
        "command": shown::short(&cx.redact(job.command()), COMMAND),
        "new_bytes": job.printed().saturating_sub(job.seen()),
    })
}

/// How a job is, in a few words.
pub(crate) fn status(job: &Job) -> String {
    let (id, time) = (job.id(), seconds(job.running_for()));
    let Some(end) = job.end() else { return format!("job {id} has been running for {time}") };
    let how = match end.cut_off() {
        Some(outcome) => outcome.as_str().replace('_', " "),
        None => end.how.to_string(),
    };
    format!("job {id} has ended after {time}: {how}")
}

/// The job of a name, or of the call that started it.
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
