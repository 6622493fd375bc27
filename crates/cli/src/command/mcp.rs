//! `windlass mcp`: serves the tools to an MCP host over stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use windlass::Session;
use windlass::engine::Engine;
use windlass::people::{
    Answer, ApprovalRequest, Attendant, AttendantReply, Difference, QuestionAnswer, QuestionRequest,
};
use windlass::tool::BoxFuture;
use windlass::tool::diff::DiffFormat;
use windlass_hub::Recording;
use windlass_mcp::Options;

use super::{Interrupts, block_on, end_jobs};
use crate::options::Global;
use crate::setup::Setup;

/// Serves until the client goes away or an interrupt comes, then ends the jobs of the session.
pub(super) fn run(global: &Global) -> Result<ExitCode> {
    block_on(async {
        let setup = Setup::open(global, Recording::Whole)?;
        let session = &setup.session;
        let _jobs = setup.windlass.serve_jobs(session);
        setup.run_start_hooks(global).await;
        let served = windlass_mcp::serve_stdio(
            setup.windlass.engine().clone(),
            session.clone(),
            Options { describe_changes, ..Options::default() },
        );
        let served = until_interrupted_or_closed(setup.windlass.engine(), session, served).await?;
        let _attendance = setup.windlass.engine().attend(session.id(), DeferringAttendant);
        end_jobs(session).await;
        setup.run_end_hooks(global).await;
        served.transpose()?;
        Ok(ExitCode::SUCCESS)
    })?
}

/// The attendant after the client is gone. It defers every answer: changes of jobs are held until a person answers by
/// `windlass policy approve`.
struct DeferringAttendant;

impl Attendant for DeferringAttendant {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
        Box::pin(std::future::ready(AttendantReply::Deferred))
    }

    fn answer<'a>(
        &'a self,
        _: &'a QuestionRequest,
    ) -> BoxFuture<'a, AttendantReply<QuestionAnswer>> {
        Box::pin(std::future::ready(AttendantReply::Deferred))
    }
}

/// Returns the diff of a call with every changed line, without colours.
fn describe_changes(request: &ApprovalRequest) -> String {
    Difference::of(request, &DiffFormat::plain().whole()).shown()
}

/// The time limit from an interrupt to the end, for calls that are slow to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for ending jobs and deciding on their changes after an interrupt: a client may still ask its person.
const DECISION_TIMEOUT: Duration = Duration::from_secs(2);
/// The time for writing the last results.
const FLUSH_TIME: Duration = Duration::from_millis(50);

/// Serves until the client goes away or an interrupt comes. A client that keeps the connection open does not keep the server running: its
/// calls are cancelled, answered and recorded, and then the server ends. Returns `None` after an interrupt.
async fn until_interrupted_or_closed<T>(
    engine: &Engine,
    session: &Arc<Session>,
    served: impl Future<Output = T>,
) -> Result<Option<T>> {
    let mut interrupts = Interrupts::listen()?;
    let mut served = std::pin::pin!(served);
    tokio::select! {
        biased;
        done = &mut served => return Ok(Some(done)),
        () = interrupts.next() => {}
    }
    // Changes of jobs are decided on before the session is cancelled: a cancelled session keeps no changes.
    let _attendance = engine.attend(session.id(), DeferringAttendant);
    drop(tokio::time::timeout(DECISION_TIMEOUT, end_jobs(session)).await);
    session.cancel();
    let ended = async {
        while engine.running_calls() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(FLUSH_TIME).await;
    };
    tokio::select! {
        biased;
        done = &mut served => Ok(Some(done)),
        _ = tokio::time::timeout(STOP_TIMEOUT, ended) => Ok(None),
    }
}
