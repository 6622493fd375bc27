//! `windlass mcp`: the tools for any MCP host, over stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use windlass::Session;
use windlass::engine::Engine;
use windlass::people::{
    Answer, ApprovalRequest, Attendant, Difference, QuestionAnswer, QuestionRequest, Reply,
};
use windlass::tool::BoxFuture;
use windlass::tool::diff::Look;
use windlass_hub::Recording;
use windlass_mcp::Options;

use super::{Interrupts, block_on, end_jobs};
use crate::options::Global;
use crate::setup::Setup;

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
        let served = until_stopped(setup.windlass.engine(), session, served).await?;
        let _away = setup.windlass.engine().attend(session.id(), Away);
        end_jobs(session).await;
        setup.run_end_hooks(global).await;
        served.transpose()?;
        Ok(ExitCode::SUCCESS)
    })?
}

/// Stands for the person once the client is gone: what their jobs have changed is held until they answer by `windlass policy approve`.
struct Away;

impl Attendant for Away {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Reply<Answer>> {
        Box::pin(std::future::ready(Reply::Deferred))
    }

    fn answer<'a>(&'a self, _: &'a QuestionRequest) -> BoxFuture<'a, Reply<QuestionAnswer>> {
        Box::pin(std::future::ready(Reply::Deferred))
    }
}

/// Every line that changes, without colours.
fn describe_changes(request: &ApprovalRequest) -> String {
    Difference::of(request, &Look::plain().whole()).shown()
}

/// The longest time from an interrupt to the end, for calls that are slow to stop.
const LONGEST_END: Duration = Duration::from_secs(5);
/// The longest time from an interrupt until jobs are ended and their changes are decided on: a client may still ask its person.
const LONGEST_DECISION: Duration = Duration::from_secs(2);
/// The time for the last answers to be written.
const LAST_ANSWERS: Duration = Duration::from_millis(50);

/// Serves until the client goes away, or until an interrupt. A client that keeps the connection open does not keep the server: its calls
/// are stopped, answered and recorded, and then the server ends.
async fn until_stopped<T>(
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
    // What jobs changed is decided on before the session is stopped: nothing of a stopped session is kept.
    let _away = engine.attend(session.id(), Away);
    drop(tokio::time::timeout(LONGEST_DECISION, end_jobs(session)).await);
    session.cancel();
    let ended = async {
        while engine.running_calls() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    tokio::select! {
        biased;
        done = &mut served => Ok(Some(done)),
        _ = tokio::time::timeout(LONGEST_END, ended) => Ok(None),
    }
}
