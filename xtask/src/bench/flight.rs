//! Measures a call with 10,000 calls in flight, beside one with 100, in process by `flight_overhead`.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use super::engine::samples;
use super::table::{Row, Target, Unit};
use crate::process;

pub(super) const ROWS: &[&str] = &["engine/10000-in-flight"];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.input("flight", "flight 1", |_| Ok(()))?;
    let mut command = bench.workspace.command(bench.workspace.target("release/flight_overhead"));
    command.arg(&directory).arg(bench.runs(15).to_string());
    let printed = process::capture(&mut command)?;
    let seconds: Value =
        serde_json::from_str(&printed).context("reading what flight_overhead printed")?;
    Ok(vec![Row {
        name: "engine/10000-in-flight",
        unit: Unit::Seconds,
        ours: samples(&seconds, "many")?,
        peer: Some(("100 in flight", samples(&seconds, "few")?)),
        target: Target::AtMostTimes(3.0),
    }])
}
