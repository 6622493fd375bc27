//! Measures a decision about a command, in process by `policy_overhead`: a command that was seen before, and a long new one.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use super::engine::{row, samples};
use super::table::Row;
use crate::process;

pub(super) const ROWS: &[&str] = &["policy/decide", "policy/first-parse"];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.input("policy", "policy 1", |_| Ok(()))?;
    let mut command = bench.workspace.command(bench.workspace.target("release/policy_overhead"));
    command.arg(&directory).arg(bench.runs(5_000).to_string());
    let printed = process::capture(&mut command)?;
    let seconds: Value =
        serde_json::from_str(&printed).context("reading what policy_overhead printed")?;
    Ok(vec![
        row("policy/decide", samples(&seconds, "decide")?, 20e-6),
        row("policy/first-parse", samples(&seconds, "first_parse")?, 1e-3),
    ])
}
