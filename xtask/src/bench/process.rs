//! Measures running a command, in process by `process_overhead`.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use super::change::samples;
use super::table::{Row, Target, Unit};
use crate::process;

pub(super) const ROWS: &[&str] = &[
    "process/off",
    "process/sandbox",
    "process/sandbox-codex",
    "process/sandbox-10000",
    "process/staged",
    "process/1-GB",
];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.state().join("process");
    let mut command = bench.workspace.command(bench.workspace.target("release/process_overhead"));
    command.arg(&directory).arg(bench.runs(100).to_string()).args(&bench.tools.codex);
    let printed = process::capture(&mut command)?;
    let seconds: Value =
        serde_json::from_str(&printed).context("reading what process_overhead printed")?;
    let row = |name, ours: &str, peer: (&'static str, &str), target| -> Result<Row> {
        let (ours, peer) = (samples(&seconds, ours)?, (peer.0, samples(&seconds, peer.1)?));
        Ok(Row { name, unit: Unit::Seconds, ours, peer: Some(peer), target })
    };
    let mut rows = vec![
        row("process/off", "off", ("sh -c true", "plain"), Target::AtMostTimes(2.0))?,
        row("process/sandbox", "confined", ("bwrap", "bwrap"), Target::AtMostTimes(1.2))?,
    ];
    if bench.tools.codex.is_some() {
        let codex = ("codex sandbox", "codex");
        rows.push(row("process/sandbox-codex", "confined", codex, Target::AtMostTimes(0.2))?);
    }
    rows.push(row(
        "process/sandbox-10000",
        "confined_large",
        ("empty workspace", "confined"),
        Target::AtMostOver(0.003),
    )?);
    rows.push(row(
        "process/staged",
        "staged",
        ("bash -c", "staged_plain"),
        Target::AtMostOver(0.05),
    )?);
    rows.push(row("process/1-GB", "talk", ("| cat", "talk_plain"), Target::AtMostTimes(2.0))?);
    Ok(rows)
}
