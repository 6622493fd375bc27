//! Measures a change of a file with its undo record, in process by `change_overhead`, and the list of many changes.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Bench;
use super::measure::{self, Samples};
use super::table::{Row, Target, Unit};
use crate::process;

pub(super) const ROWS: &[&str] = &[
    "change/small",
    "change/small-sync",
    "change/edit-1-MiB",
    "change/edit-1-MiB-sync",
    "change/after-10,000",
    "undo/list-of-10,000",
];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.state().join("change");
    let mut command = bench.workspace.command(bench.workspace.target("release/change_overhead"));
    command.arg(&directory).arg(bench.runs(300).to_string());
    let printed = process::capture(&mut command)?;
    let seconds: Value =
        serde_json::from_str(&printed).context("reading what change_overhead printed")?;
    let get = |key: &str| samples(&seconds, key);
    let row = |name, ours: &str, peer: (&'static str, &str), times| -> Result<Row> {
        let peer = Some((peer.0, get(peer.1)?));
        Ok(Row {
            name,
            unit: Unit::Seconds,
            ours: get(ours)?,
            peer,
            target: Target::AtMostTimes(times),
        })
    };
    let by_hand = "write+rename";
    let safely = "write+fsync+rename";
    Ok(vec![
        row("change/small", "small_ours", (by_hand, "small_by_hand"), 3.0)?,
        row("change/small-sync", "small_sync_ours", (safely, "small_sync_by_hand"), 3.0)?,
        row("change/edit-1-MiB", "large_ours", (by_hand, "large_by_hand"), 4.0)?,
        row("change/edit-1-MiB-sync", "large_sync_ours", (safely, "large_sync_by_hand"), 4.0)?,
        row("change/after-10,000", "small_after_many", ("before them", "small_ours"), 1.2)?,
        list(bench, &directory)?,
    ])
}

/// The row for the whole command `windlass undo --list`.
fn list(bench: &Bench, directory: &std::path::Path) -> Result<Row> {
    let kernel = directory.join("kernel");
    let command = || {
        let mut command = bench.workspace.command(bench.workspace.target("release/windlass"));
        command.arg("-C").arg(kernel.join("work")).arg("--state").arg(kernel.join("state"));
        command.args(["undo", "--list"]);
        command
    };
    let lines = process::capture(&mut command())?.lines().count();
    ensure!(lines > 10_000, "the list has only {lines} lines");
    let [ours] = measure::alternate(bench.runs(20), [&mut || measure::time(&mut command())])?;
    let target = Target::AtMost(0.2);
    Ok(Row { name: "undo/list-of-10,000", unit: Unit::Seconds, ours, peer: None, target })
}

pub(super) fn samples(printed: &Value, key: &str) -> Result<Samples> {
    let values = printed.get(key).and_then(Value::as_array);
    let values = values.with_context(|| format!("change_overhead printed no `{key}`"))?;
    Ok(Samples::new(values.iter().filter_map(Value::as_f64).collect()))
}
