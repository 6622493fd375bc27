//! Measures the engine with a tool that does nothing, called in process by `engine_overhead`.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use super::measure::Samples;
use super::table::{Row, Target, Unit};
use crate::process;

pub(super) const ROWS: &[&str] = &["engine/without-journal", "engine/with-journal"];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.input("engine", "engine 1", |_| Ok(()))?;
    let mut command = bench.workspace.command(bench.workspace.target("release/engine_overhead"));
    command.arg(&directory).arg(bench.state().join("engine")).arg(bench.runs(5_000).to_string());
    let printed = process::capture(&mut command)?;
    let seconds: Value =
        serde_json::from_str(&printed).context("reading what engine_overhead printed")?;
    Ok(vec![
        row("engine/without-journal", samples(&seconds, "without_journal")?, 10e-6),
        row("engine/with-journal", samples(&seconds, "with_journal")?, 100e-6),
    ])
}

pub(super) fn samples(printed: &Value, key: &str) -> Result<Samples> {
    let values = printed.get(key).and_then(Value::as_array);
    let values = values.with_context(|| format!("no `{key}` was printed"))?;
    Ok(Samples::new(values.iter().filter_map(Value::as_f64).collect()))
}

pub(super) fn row(name: &'static str, ours: Samples, limit: f64) -> Row {
    Row { name, unit: Unit::Seconds, ours, peer: None, target: Target::AtMost(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn printed_samples_are_parsed() {
        let printed = json!({"with_journal": [3e-6, 1e-6, 2e-6]});
        assert_eq!(
            samples(&printed, "with_journal").unwrap(),
            Samples::new(vec![1e-6, 2e-6, 3e-6])
        );
        assert!(samples(&printed, "without_journal").is_err());
    }
}
