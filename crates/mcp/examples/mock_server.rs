//! An MCP server over standard input and output with two tools that change nothing: to test a client, and to measure.

use std::sync::Arc;

use windlass_core::testing::{EmptyHost, MockTool};
use windlass_core::{Engine, Output, Toolbox};
use windlass_mcp::{Options, serve_stdio};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut tools = Toolbox::new();
    tools.add(MockTool::named("ping"))?;
    tools.add(
        MockTool::named("echo").answering(|_, input| async move { Ok(Output::json(input)) }),
    )?;
    let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
    let session = engine.new_session();
    serve_stdio(engine, session, Options::default()).await?;
    Ok(())
}
