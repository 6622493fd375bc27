//! `windlass mcp`: the tools for any MCP host, over stdin and stdout.

use std::process::ExitCode;

use anyhow::Result;
use windlass_hub::Recording;
use windlass_mcp::Options;

use super::{block_on, until_interrupted};
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
            Options::default(),
        );
        let served = until_interrupted(session, served).await;
        session.end_jobs().await;
        setup.end(global).await;
        served??;
        Ok(ExitCode::SUCCESS)
    })?
}
