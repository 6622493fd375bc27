//! `output`: what a job has printed since the last look, and how it is.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    About, Context, Effects, Job, Kinds, Output as Answer, ProcessEnd, Tool, ToolError,
};

use crate::jobs;
use crate::program::changed::{self, Base};
use crate::program::missing::Missing;
use crate::program::{Filter, closing, facts, shown};
use crate::shown::push_line;

/// How long the engine waits beyond the time that was asked for.
const LOOKING: Duration = Duration::from_secs(30);

pub(crate) struct Output;

/// Read the output of a job since your last call, and see whether the job still runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Id of the job.
    job: String,
    /// Read from this position instead; 0 reads everything.
    #[serde(default)]
    cursor: Option<u64>,
    /// Seconds to wait for new output.
    #[serde(default)]
    #[schemars(range(min = 0, max = 600))]
    wait: f64,
    /// Show only lines that match this regular expression.
    #[serde(default)]
    filter: Option<String>,
    /// Show only this many last lines.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    tail: Option<usize>,
}

impl Tool for Output {
    const NAME: &'static str = "output";
    // A part of running programs: who is not offered those needs none of this.
    const KINDS: Kinds = Kinds::STATE.with(Kinds::EXEC);
    type Args = Args;

    fn about(&self) -> About {
        About::titled("Job output")
    }

    fn effects(&self, _: &Args) -> Effects {
        Effects::state("jobs")
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Answer, ToolError> {
        let filter = Filter::new(args.filter.as_deref(), args.tail)?;
        let job = jobs::find(cx, &args.job)?;
        let from = args.cursor.unwrap_or_else(|| job.seen()).min(job.printed());
        let time = wait(&args);
        if !time.is_zero() {
            // What there is when the time is over is the answer.
            drop(tokio::time::timeout(time, something_new(cx, &job, from)).await);
        }
        cx.blocking(move |cx| look(cx, &job, from, filter)).await
    }

    fn time_limit(&self, args: &Args) -> Option<Duration> {
        Some(wait(args) + LOOKING)
    }
}

/// Waits until there is something that can be shown, or the job has ended.
async fn something_new(cx: &Context, job: &Job, from: u64) {
    let mut behind = from;
    loop {
        job.wait_for_output(behind).await;
        if job.end().is_some() || cx.settled(job, from) > from {
            return;
        }
        behind = job.printed();
    }
}

fn wait(args: &Args) -> Duration {
    Duration::try_from_secs_f64(args.wait).unwrap_or_default()
}

fn look(cx: &Context, job: &Arc<Job>, from: u64, mut filter: Filter) -> Answer {
    // Asked first: what was printed before the end is there when the end is known.
    let end = job.end();
    let up_to = if end.is_some() { job.printed() } else { cx.settled(job, from) };
    let mut said = status(cx, job);
    if up_to == from {
        said.push("nothing new".to_owned());
    }
    let closing = closing::line(&said);
    let has_failed = end.as_ref().is_some_and(|end| end.how != ProcessEnd::Exited(0));
    let missing = if has_failed { Missing::of(cx, job) } else { Missing::default() };
    let taken = closing.len() + missing.len();
    let printed = shown(cx, job, from..up_to, &mut filter, taken);
    if up_to > from && printed.text.is_empty() {
        said.push("nothing of what is new is wanted by `filter`".to_owned());
    }
    job.saw(up_to);
    let mut text = printed.text;
    push_line(&mut text, &closing::line(&said));
    missing.append_to(&mut text);
    missing
        .facts(facts(Answer::text(text), cx, end.as_deref()))
        .with("job", job.id().as_str())
        .with("cursor", up_to)
        .with("running", end.is_none())
        .with("truncated", printed.is_cut)
}

/// How the job is.
fn status(cx: &Context, job: &Arc<Job>) -> Vec<String> {
    let mut said = vec![jobs::status(job)];
    match job.end() {
        None if job.waits_for_input() => {
            said.push("it waits for input, which a job that runs cannot be given".to_owned());
        }
        None => {}
        Some(end) => match &end.changed {
            Ok(changed) => said.extend(changed::told(changed, &Base::of(cx))),
            Err(error) => said.push(error.message().text.to_string()),
        },
    }
    said
}
