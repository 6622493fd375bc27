//! The time of a call by how many are in flight: reads and writes of different files by tools that do nothing, in process.
//!
//! `flight_overhead WORKSPACE ROUNDS` prints the seconds for each call as JSON, with 100 and with 10,000 calls in flight. Each sample is
//! the time from handing over all calls to the last result, divided by their number. The two numbers take turns, and each round makes the
//! same number of calls with both. The cache is off, because it would return results without a call.
#![allow(clippy::print_stdout, reason = "the bench reads the numbers from stdout")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass::policy::Policy;
use windlass::testing::MockTool;
use windlass::{EffectKinds, Effects, Mode, Outcome, Output, Session, ToolCall, Windlass};

const FEW_IN_FLIGHT: u32 = 100;
const MANY_IN_FLIGHT: u32 = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let usage = "usage: flight_overhead WORKSPACE ROUNDS";
    let mut arguments = std::env::args_os().skip(1);
    let workspace = PathBuf::from(arguments.next().context(usage)?);
    let rounds: usize =
        arguments.next().and_then(|rounds| rounds.to_str()?.parse().ok()).context(usage)?;
    let windlass = engine(&workspace)?;
    let session = windlass.new_session();
    let (mut few, mut many) = (Vec::new(), Vec::new());
    // The first round is not counted, while the allocator warms up.
    for round in 0..=rounds {
        let mut seconds = 0.0;
        for _ in 0..MANY_IN_FLIGHT / FEW_IN_FLIGHT {
            seconds += time_in_flight(&windlass, &session, FEW_IN_FLIGHT).await?;
        }
        let of_many = time_in_flight(&windlass, &session, MANY_IN_FLIGHT).await?;
        if round > 0 {
            few.push(seconds / f64::from(MANY_IN_FLIGHT));
            many.push(of_many / f64::from(MANY_IN_FLIGHT));
        }
    }
    println!("{}", json!({"few": few, "many": many}));
    Ok(())
}

fn engine(workspace: &PathBuf) -> Result<Windlass> {
    let path = |input: &Value| input["path"].as_str().unwrap_or_default().to_owned();
    let read =
        yielding("look").with_effects(EffectKinds::READ, move |input| Effects::read(path(input)));
    let write = yielding("change")
        .with_effects(EffectKinds::WRITE, move |input| Effects::write(path(input)));
    let built = Windlass::builder(workspace)
        .tool(read)
        .tool(write)
        .configure(|engine| engine.cache(0, Duration::ZERO).policy(Policy::new(Mode::Yolo)));
    Ok(built.build()?)
}

/// A tool that yields once, so that all calls are planned and wait for a permit together.
fn yielding(name: &str) -> MockTool {
    MockTool::named(name).answering(|_, _| async {
        tokio::task::yield_now().await;
        Ok(Output::text("ok"))
    })
}

/// Starts `calls` calls and returns the seconds until the last result. Every call is in flight before the first one ends.
async fn time_in_flight(windlass: &Windlass, session: &Arc<Session>, calls: u32) -> Result<f64> {
    let call = |number: u32| {
        let tool = if number.is_multiple_of(2) { "look" } else { "change" };
        ToolCall::new(tool, json!({"path": format!("d{}/f{number}", number % 50)}))
    };
    let calls: Vec<ToolCall> = (0..calls).map(call).collect();
    let start = Instant::now();
    let running: Vec<_> =
        calls.into_iter().map(|call| windlass.engine().start(session, call).1).collect();
    for result in running {
        let result = result.await;
        ensure!(result.outcome == Outcome::Ok, "a call ended as {:?}", result.outcome);
    }
    Ok(start.elapsed().as_secs_f64())
}
