//! Output of a call that runs a program: its end, or the note that it goes on as a job.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::{
    Context, FailureReason, Job, JobEnd, Outcome, Output, ProcessEnd, ProcessRequest, ToolError,
};

use super::changed::Base;
use super::missing::Missing;
use super::{LineFilter, closing, facts, printed_excerpt};
use crate::format::push_line;

/// Time that the engine waits beyond the time limit, until all processes have ended and the changes are kept.
pub(crate) const ENDING_TIME: Duration = Duration::from_secs(30);

/// Output up to this size is processed inline, which is faster than another thread.
const MAX_INLINE_BYTES: u64 = 16 << 10;

/// Runs a program to its end. After `max_wait` it goes on as a job of the session.
pub(crate) async fn run(
    cx: &Context,
    request: ProcessRequest,
    limit: Option<Duration>,
    max_wait: Option<Duration>,
) -> Result<Output, ToolError> {
    let (job, end) = cx.processes()?.run(request, limit, max_wait).await?;
    let has_failed = end.as_ref().is_some_and(|end| end.how != ProcessEnd::Exited(0));
    // After a failure the host looks up paths, which may take long on a network file system.
    let is_small = job.printed() <= MAX_INLINE_BYTES && !has_failed;
    let answer = move |cx: &Context| match end {
        Some(end) => ended_output(cx, &job, &end),
        None => Ok(job_output(cx, &job)),
    };
    if is_small { answer(cx) } else { cx.blocking(answer).await? }
}

/// Returns the output for a program that has ended. If its changes were dropped, the reason comes last.
pub(crate) fn ended_output(
    cx: &Context,
    job: &Arc<Job>,
    end: &JobEnd,
) -> Result<Output, ToolError> {
    let closing = closing::line(&closing::phrases(job, end, &Base::of(cx)));
    let dropped = end.changed.as_ref().err();
    let has_failed = end.how != ProcessEnd::Exited(0);
    let missing = if has_failed { Missing::of(cx, job) } else { Missing::default() };
    let taken = closing.len() + missing.len() + dropped.map_or(0, |error| error.to_string().len());
    let printed = printed_excerpt(cx, job, 0..job.printed(), &mut LineFilter::default(), taken);
    let mut text = printed.text;
    if !closing.is_empty() {
        push_line(&mut text, &closing);
    }
    missing.append_to(&mut text);
    if let Some(error) = dropped {
        append_drop_reason(&mut text, error)?;
    }
    let is_error = end.cut_off().is_some() || has_failed || dropped.is_some();
    let outcome = end.cut_off();
    let output = with_refusal(Output { is_error, outcome, ..Output::text(text) }, dropped);
    let output = missing.facts(facts(output, cx, Some(end)));
    Ok(output.with("truncated", printed.is_cut).with("job", None::<&str>))
}

/// Appends the reason why the changes of a program were dropped. Returns an error with the whole text if the reason is a fault.
pub(crate) fn append_drop_reason(text: &mut String, error: &ToolError) -> Result<(), ToolError> {
    push_line(text, &error.message().to_string());
    match error {
        ToolError::Failed(_) | ToolError::Denied(_) => Ok(()),
        fault => Err(fault.same_kind(std::mem::take(text))),
    }
}

/// Marks the output as denied if a rule or a person refused the changes, or if they wait for an answer.
pub(crate) fn with_refusal(output: Output, dropped: Option<&ToolError>) -> Output {
    let Some(error @ ToolError::Denied(_)) = dropped else { return output };
    // If the program did not end by itself, that outcome stays: it might have made more changes.
    let outcome = output.outcome.or(Some(Outcome::Denied));
    let output = Output { is_error: true, outcome, ..output };
    match error.reason().and_then(FailureReason::metadata) {
        Some((name, id)) => output.with(name, id),
        None => output,
    }
}

/// Returns the output for a program that goes on as a job.
pub(crate) fn job_output(cx: &Context, job: &Arc<Job>) -> Output {
    let id = job.id();
    let mut phrases = vec![if cx.session().is_for_one_call() {
        format!(
            "job {id} ends with this call, because a job ends with the program that started it: make the calls of a session with \
             `windlass run` or `windlass mcp` to keep it"
        )
    } else {
        format!(
            "it goes on as job {id}, until its session ends: `output` with job:\"{id}\" shows what it prints, `kill` ends it"
        )
    }];
    if job.waits_for_input() {
        phrases.push("it waits for input".to_owned());
    }
    if job.is_staged() {
        phrases.push(
            "it runs on a copy: later edits do not reach it, and its changes are decided on when it ends"
                .to_owned(),
        );
    }
    let closing = closing::line(&phrases);
    let up_to = cx.settled(job, 0);
    let printed = printed_excerpt(cx, job, 0..up_to, &mut LineFilter::default(), closing.len());
    job.saw(up_to);
    let mut text = printed.text;
    push_line(&mut text, &closing);
    let output = facts(Output::text(text), cx, None).with("truncated", printed.is_cut);
    output.with("job", id.as_str())
}
