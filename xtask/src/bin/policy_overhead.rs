//! Measures a decision about a command, from the arguments of the call to the verdict.
//!
//! `policy_overhead WORKSPACE TIMES` prints the seconds of each as JSON: `decide` is a usual command that was seen before, `first_parse`
//! a long one that was never seen.
#![allow(clippy::print_stdout, reason = "the bench reads the numbers from stdout")]
#![allow(clippy::format_push_string, reason = "this part is not measured")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use windlass::{Mode, Session, ToolCall, Windlass};

/// Decisions that are not counted.
const UNCOUNTED: usize = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let usage = "usage: policy_overhead WORKSPACE TIMES";
    let mut arguments = std::env::args_os().skip(1);
    let workspace = PathBuf::from(arguments.next().context(usage)?);
    let times: usize =
        arguments.next().and_then(|times| times.to_str()?.parse().ok()).context(usage)?;
    let rules = ["exec cargo test", "exec npm run lint", "exec git commit", "write docs/**"];
    let mut builder = Windlass::builder(&workspace).mode(Mode::Ask);
    for rule in rules {
        builder = builder.allow(rule.parse()?).deny(format!("{rule} never").parse()?);
    }
    let windlass = builder.build()?;
    let session = windlass.new_session();
    let usual = "git status --short | head -20 && cargo test -p core 2>&1 | tail -5";
    let (mut decide, mut first_parse) = (Vec::new(), Vec::new());
    for turn in 0..UNCOUNTED + times {
        let one = seconds(&windlass, &session, usual).await?;
        let other = seconds(&windlass, &session, &long(turn)).await?;
        if turn >= UNCOUNTED {
            decide.push(one);
            first_parse.push(other);
        }
    }
    println!("{}", json!({"decide": decide, "first_parse": first_parse}));
    Ok(())
}

/// A command of about four thousand bytes, different for each turn.
fn long(turn: usize) -> String {
    let mut text = format!("echo {turn}");
    for part in 0..60 {
        let grep = format!("timeout 5 grep -rn 'a pattern {part}' src/module");
        text.push_str(&format!(" && {grep} | sort -u | head -20"));
    }
    text
}

async fn seconds(windlass: &Windlass, session: &Arc<Session>, command: &str) -> Result<f64> {
    let call = ToolCall::new("bash", json!({"command": command}));
    let start = Instant::now();
    windlass.engine().explain(session, call).await?;
    Ok(start.elapsed().as_secs_f64())
}
