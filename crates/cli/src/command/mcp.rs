//! `windlass mcp`: the tools for any MCP host, over stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use windlass::Session;
use windlass::engine::Engine;
use windlass::people::{ApprovalRequest, Difference};
use windlass::tool::diff::Look;
use windlass_hub::Recording;
use windlass_mcp::Options;

use super::{Interrupts, block_on};
use crate::options::Global;
use crate::setup::Setup;

pub(super) fn run(global: &Global) -> Result<ExitCode> {
    block_on(async {
        let setup = Setup::open(global, Recording::Whole)?;
        let session = &setup.session;
        let _jobs = setup.windlass.serve_jobs(session);
        setup.begin(global).await;
        let served = windlass_mcp::serve_stdio(
            setup.windlass.engine().clone(),
            session.clone(),
            Options { describe_changes, ..Options::default() },
        );
        let served = until_stopped(setup.windlass.engine(), session, served).await?;
        session.end_jobs().await;
        setup.end(global).await;
        served.transpose()?;
        Ok(ExitCode::SUCCESS)
    })?
}

/// Every line that changes, without colours.
fn describe_changes(request: &ApprovalRequest) -> String {
    Difference::of(request, &Look::plain().whole()).shown()
}

/// The longest time from an interrupt to the end, for calls that are slow to stop.
const LONGEST_END: Duration = Duration::from_secs(5);
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
        () = interrupts.next() => session.cancel(),
    }
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
