//! What is said of a program that a call runs: that it has ended and how, or that it goes on as a job.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::{
    Context, FailureReason, Job, JobEnd, Outcome, Output, ProcessEnd, ProcessRequest, ToolError,
};

use super::changed::Base;
use super::missing::Missing;
use super::{Filter, closing, facts, shown};
use crate::shown::push_line;

/// How long the engine waits beyond the limit: until all is ended and what was changed is kept.
pub(crate) const ENDING: Duration = Duration::from_secs(30);

/// Bytes that are made ready to be shown faster than another thread could be asked to.
const LITTLE: u64 = 16 << 10;

/// Runs a program to its end or, after `patience`, leaves it to the session as a job.
pub(crate) async fn run(
    cx: &Context,
    request: ProcessRequest,
    limit: Option<Duration>,
    patience: Option<Duration>,
) -> Result<Output, ToolError> {
    let (job, end) = cx.processes()?.run(request, limit, patience).await?;
    let has_failed = end.as_ref().is_some_and(|end| end.how != ProcessEnd::Exited(0));
    // For one that failed, the machine is asked about paths, which may take long on a network file system.
    let is_little = job.printed() <= LITTLE && !has_failed;
    let answer = move |cx: &Context| match end {
        Some(end) => ended(cx, &job, &end),
        None => Ok(goes_on(cx, &job)),
    };
    if is_little { answer(cx) } else { cx.blocking(answer).await? }
}

/// What is said of a program that has ended. If what it changed was dropped, that comes last.
pub(crate) fn ended(cx: &Context, job: &Arc<Job>, end: &JobEnd) -> Result<Output, ToolError> {
    let closing = closing::line(&closing::of(job, end, &Base::of(cx)));
    let dropped = end.changed.as_ref().err();
    let has_failed = end.how != ProcessEnd::Exited(0);
    let missing = if has_failed { Missing::of(cx, job) } else { Missing::default() };
    let taken = closing.len() + missing.len() + dropped.map_or(0, |error| error.to_string().len());
    let printed = shown(cx, job, 0..job.printed(), &mut Filter::default(), taken);
    let mut text = printed.text;
    if !closing.is_empty() {
        push_line(&mut text, &closing);
    }
    missing.append_to(&mut text);
    if let Some(error) = dropped {
        say_dropped(&mut text, error)?;
    }
    let is_error = end.cut_off().is_some() || has_failed || dropped.is_some();
    let outcome = end.cut_off();
    let output = refused(Output { is_error, outcome, ..Output::text(text) }, dropped);
    let output = missing.facts(facts(output, cx, Some(end)));
    Ok(output.with("truncated", printed.is_cut).with("job", None::<&str>))
}

/// Adds to an answer why what the program changed was dropped. A fault ends the call with that text.
pub(crate) fn say_dropped(text: &mut String, error: &ToolError) -> Result<(), ToolError> {
    push_line(text, &error.message().to_string());
    match error {
        ToolError::Failed(_) | ToolError::Denied(_) => Ok(()),
        fault => Err(fault.same_kind(std::mem::take(text))),
    }
}

/// The answer about a program whose changes a rule or a person refused, or that wait for a person's answer.
pub(crate) fn refused(output: Output, dropped: Option<&ToolError>) -> Output {
    let Some(error @ ToolError::Denied(_)) = dropped else { return output };
    // One that did not come to its end is told as that: there may have been more to ask about.
    let outcome = output.outcome.or(Some(Outcome::Denied));
    let output = Output { is_error: true, outcome, ..output };
    match error.reason().and_then(FailureReason::metadata) {
        Some((name, id)) => output.with(name, id),
        None => output,
    }
}

/// What is said of a program that runs on as a job.
pub(crate) fn goes_on(cx: &Context, job: &Arc<Job>) -> Output {
    let id = job.id();
    let mut said = vec![if cx.session().is_for_one_call() {
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
        said.push("it waits for input".to_owned());
    }
    if job.is_staged() {
        said.push(
            "it runs on a copy: later edits do not reach it, and its changes are decided on when it ends"
                .to_owned(),
        );
    }
    let closing = closing::line(&said);
    let up_to = cx.settled(job, 0);
    let printed = shown(cx, job, 0..up_to, &mut Filter::default(), closing.len());
    job.saw(up_to);
    let mut text = printed.text;
    push_line(&mut text, &closing);
    let output = facts(Output::text(text), cx, None).with("truncated", printed.is_cut);
    output.with("job", id.as_str())
}
