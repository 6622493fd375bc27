//! Measures the search for secrets in a text without secrets, beside copying it, in process by `redact_overhead`.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use super::engine::samples;
use super::table::{Row, Target, Unit};
use crate::process;

pub(super) const ROWS: &[&str] = &["redact/clean"];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let mut command = bench.workspace.command(bench.workspace.target("release/redact_overhead"));
    command.arg(bench.runs(100).to_string());
    let printed = process::capture(&mut command)?;
    let speeds: Value =
        serde_json::from_str(&printed).context("reading what redact_overhead printed")?;
    Ok(vec![Row {
        name: "redact/clean",
        unit: Unit::BytesPerSecond,
        ours: samples(&speeds, "clean")?,
        peer: Some(("memcpy", samples(&speeds, "copy")?)),
        target: Target::AtLeastTimes(0.01),
    }])
}
