//! `windlass mcp`: the tools for any MCP host, over stdin and stdout.

use std::process::ExitCode;

use anyhow::Result;
use windlass_mcp::Options;

use super::{block_on, until_interrupted};
use crate::job_socket::JobSocket;
use crate::options::Global;
use crate::setup::{self, Journal, Setup};

pub(super) fn run(global: &Global) -> Result<ExitCode> {
    block_on(async {
        let setup = Setup::open(global, Journal::On)?;
        let session = &setup.session;
        let _jobs = JobSocket::open(&setup::state(global)?, setup.windlass.engine(), session);
        setup.begin(global).await;
        let served = windlass_mcp::serve_stdio(
            setup.windlass.engine().clone(),
            session.clone(),
            Options::default(),
        );
        let served = until_interrupted(session, served).await;
        session.end_jobs().await;
        setup.end(global).await;
        served??;
        Ok(ExitCode::SUCCESS)
    })?
}
