//! `windlass policy show`: the mode and the rules in force, and where each comes from.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use windlass::journal::utc;
use windlass::quote;

use crate::options::Global;
use crate::setup;
use crate::terminal::{self, add};

pub(super) fn run(global: &Global) -> Result<ExitCode> {
    let config = setup::hub(global)?.config(&global.workspace)?;
    let (mode, rules) = (config.mode()?, config.rules());
    for warning in config.warnings() {
        terminal::note(global, warning);
    }
    let examples = config.examples().len();
    if global.json {
        let rules: Vec<_> = rules
            .iter()
            .map(|ruling| {
                json!({
                    "decision": ruling.decision, "rule": ruling.rule.to_string(), "layer": ruling.layer,
                    "reason": ruling.reason, "until": ruling.until.map(utc),
                })
            })
            .collect();
        terminal::print_json(&json!({"mode": mode, "rules": rules, "examples": examples}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("mode {mode}\n");
    for ruling in rules {
        let reason = ruling.reason.as_ref().map(|reason| format!("  # {}", quote::visible(reason)));
        let until = ruling.until.map(|end| format!("  until {}", utc(end))).unwrap_or_default();
        let reason = reason.unwrap_or_default();
        add(&mut text, format_args!("{ruling}  [{}]{until}{reason}\n", ruling.layer));
    }
    if examples > 0 {
        let what = if examples == 1 { "example" } else { "examples" };
        add(&mut text, format_args!("{examples} {what}: `windlass policy test FILE` runs them\n"));
    }
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
