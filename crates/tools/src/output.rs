//! `output`: reads the output of a job since the last call, and its state.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Context, EffectKinds, Effects, Job, Output as Answer, ProcessEnd, Tool, ToolDetails, ToolError,
};

use crate::format::push_line;
use crate::jobs;
use crate::program::changed::{self, Base};
use crate::program::missing::Missing;
use crate::program::{LineFilter, closing, facts, printed_excerpt};

/// Time that the engine waits beyond the time that the call asks for.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The tool `output`.
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
    // This belongs to running programs: without those tools it is not offered.
    const KINDS: EffectKinds = EffectKinds::STATE.with(EffectKinds::EXEC);
    type Args = Args;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Job output")
    }

    fn effects(&self, _: &Args) -> Effects {
        Effects::state("jobs")
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Answer, ToolError> {
        let filter = LineFilter::new(args.filter.as_deref(), args.tail)?;
        let job = jobs::find(cx, &args.job)?;
        let from = args.cursor.unwrap_or_else(|| job.seen()).min(job.printed());
        let time = wait_time(&args);
        if !time.is_zero() {
            // The answer is the output at the end of this time.
            drop(tokio::time::timeout(time, wait_for_new_output(cx, &job, from)).await);
        }
        cx.blocking(move |cx| read_output(cx, &job, from, filter)).await
    }

    fn time_limit(&self, args: &Args) -> Option<Duration> {
        Some(wait_time(args) + ANSWER_TIME)
    }
}

/// Waits until output can be shown or the job has ended.
async fn wait_for_new_output(cx: &Context, job: &Job, from: u64) {
    let mut behind = from;
    loop {
        job.wait_for_output(behind).await;
        if job.end().is_some() || cx.settled(job, from) > from {
            return;
        }
        behind = job.printed();
    }
}

/// Returns the time that the call waits for new output.
fn wait_time(args: &Args) -> Duration {
    Duration::try_from_secs_f64(args.wait).unwrap_or_default()
}

/// Returns the output of a job from a position on, with its state. Blocking.
fn read_output(cx: &Context, job: &Arc<Job>, from: u64, mut filter: LineFilter) -> Answer {
    // The end is read first: all output from before the end is then available.
    let end = job.end();
    let up_to = if end.is_some() { job.printed() } else { cx.settled(job, from) };
    let mut phrases = status_phrases(cx, job);
    if up_to == from {
        phrases.push("nothing new".to_owned());
    }
    let closing = closing::line(&phrases);
    let has_failed = end.as_ref().is_some_and(|end| end.how != ProcessEnd::Exited(0));
    let missing = if has_failed { Missing::of(cx, job) } else { Missing::default() };
    let taken = closing.len() + missing.len();
    let printed = printed_excerpt(cx, job, from..up_to, &mut filter, taken);
    if up_to > from && printed.text.is_empty() {
        phrases.push("no new line matches `filter`".to_owned());
    }
    job.saw(up_to);
    let mut text = printed.text;
    push_line(&mut text, &closing::line(&phrases));
    missing.append_to(&mut text);
    missing
        .facts(facts(Answer::text(text), cx, end.as_deref()))
        .with("job", job.id().as_str())
        .with("cursor", up_to)
        .with("running", end.is_none())
        .with("truncated", printed.is_cut)
}

/// Returns phrases about the state of a job: running or ended, waiting for input, changed files.
fn status_phrases(cx: &Context, job: &Arc<Job>) -> Vec<String> {
    let mut phrases = vec![jobs::status(job)];
    match job.end() {
        None if job.waits_for_input() => {
            phrases.push("it waits for input, and a running job cannot get any".to_owned());
        }
        None => {}
        Some(end) => match &end.changed {
            Ok(changed) => phrases.extend(changed::phrases(changed, &Base::of(cx))),
            Err(error) => phrases.push(error.message().text.to_string()),
        },
    }
    phrases
}
