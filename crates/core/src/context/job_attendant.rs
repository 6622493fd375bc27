//! The task that follows a program to its end: it types the input, collects the output, and takes over the program's changes.

use std::sync::Arc;

use super::Context;
use super::planted::RemovalNotes;
use super::staged::dropped;
use crate::TerminalText;
use crate::jobs::{CutOff, Job, JobEnd, ProgramEnd};
use crate::{ToolError, Tracking};

/// Follows a program to its end, then takes over its changes.
pub(super) async fn follow_job(job: Arc<Job>, cx: Context, is_waited_for: bool, typed: Vec<u8>) {
    let mut plain = TerminalText::default();
    let told = |bytes: &[u8]| {
        if is_waited_for && cx.is_heard() {
            let mut text = String::new();
            plain.push(bytes, &mut text);
            cx.output(&text);
        }
    };
    let stopped = cx.0.session.cancel_token().clone();
    let removed = RemovalNotes::default();
    let ended: ProgramEnd = {
        let typing = async {
            job.type_lines(&typed).await;
            std::future::pending().await
        };
        let reading = async {
            tokio::select! {
                ended = job.read_until_end(told) => ended,
                never = typing => never,
                never = cx.watch_for_planted(&job, &removed), if !is_waited_for => never,
            }
        };
        let mut reading = std::pin::pin!(reading);
        tokio::select! {
            ended = &mut reading => ended,
            () = stopped.cancelled() => {
                job.process.kill();
                reading.await
            }
        }
    };
    let duration = job.began.elapsed();
    let changes = if job.process.are_changes_at_hand() {
        job.process.changes()
    } else {
        let owner = job.clone();
        cx.blocking(move |_| owner.process.changes()).await.and_then(|changes| changes)
    };
    let changed = match changes {
        // The end of a stopped call was reported already, so its changes are dropped.
        Ok(changes) if cx.is_cancelled() && changes.tracking == Tracking::Staged => {
            Err(dropped(ToolError::cancelled("the call was stopped")))
        }
        Ok(changes) => cx.take_over_changes((&job, &ended), changes, &removed).await,
        Err(error) => Err(error),
    };
    let changed = match changed {
        Ok(changed) => Ok(cx.note_untracked(&job, changed).await),
        other => other,
    };
    let changed = match changed {
        Ok(changed) if !is_waited_for => Ok(cx.record_job(&job, changed).await),
        Err(error) if !is_waited_for => Err(cx.record_refused_job(&job, error).await),
        other => other,
    };
    let stopped_by = *job.stopped_by.lock();
    let ProgramEnd { how, cut_off, waited_for_input } = ended;
    let end = JobEnd {
        how,
        timed_out: cut_off == Some(CutOff::TimeLimit),
        is_interrupted: cut_off == Some(CutOff::Interrupt),
        waited_for_input,
        stopped_by,
        duration,
        changed,
    };
    job.end.send_replace(Some(Arc::new(end)));
    job.printed.notify_waiters();
}
