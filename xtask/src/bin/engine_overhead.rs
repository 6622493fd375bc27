//! Measures the engine with a tool that does nothing, called many times in process, with and without a journal.
//!
//! `engine_overhead WORKSPACE STATE CALLS` prints the seconds of each call as JSON. The two engines take turns, so that other
//! work of the machine affects both alike. The cache is off, because it would return results without a call.
#![allow(clippy::print_stdout, reason = "the bench reads the numbers from stdout")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use windlass::testing::MockTool;
use windlass::{Outcome, Session, ToolCall, Windlass};

/// Calls that are not counted, while allocator and database warm up.
const UNCOUNTED: usize = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let usage = "usage: engine_overhead WORKSPACE STATE CALLS";
    let mut arguments = std::env::args_os().skip(1);
    let workspace = PathBuf::from(arguments.next().context(usage)?);
    let state = PathBuf::from(arguments.next().context(usage)?);
    let calls: usize =
        arguments.next().and_then(|calls| calls.to_str()?.parse().ok()).context(usage)?;

    let mut bare = Contender::new(Windlass::builder(&workspace))?;
    let mut journalled = Contender::new(Windlass::builder(&workspace).state(state))?;
    for turn in 0..UNCOUNTED + calls {
        for contender in [&mut bare, &mut journalled] {
            let seconds = contender.call().await?;
            if turn >= UNCOUNTED {
                contender.seconds.push(seconds);
            }
        }
    }
    println!("{}", json!({"without_journal": bare.seconds, "with_journal": journalled.seconds}));
    Ok(())
}

struct Contender {
    windlass: Windlass,
    session: Arc<Session>,
    seconds: Vec<f64>,
}

impl Contender {
    fn new(builder: windlass::Builder) -> Result<Self> {
        let windlass = builder
            .tool(MockTool::named("nothing"))
            .configure(|engine| engine.cache(0, Duration::ZERO))
            .build()?;
        let session = windlass.new_session();
        Ok(Self { windlass, session, seconds: Vec::new() })
    }

    /// Makes one call and returns its seconds.
    async fn call(&self) -> Result<f64> {
        let call = ToolCall::new("nothing", json!({}));
        let start = Instant::now();
        let result = self.windlass.call(&self.session, call).await;
        let elapsed = start.elapsed().as_secs_f64();
        ensure!(result.outcome == Outcome::Ok, "the call ended as {:?}", result.outcome);
        Ok(elapsed)
    }
}
