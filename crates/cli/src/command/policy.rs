//! `windlass policy`: what would be decided, and by which rule.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::json;
use windlass_core::{Decision, ToolCall, quote};
use windlass_store::utc;

use super::block_on;
use crate::options::{Global, PolicyCommand, PolicyWhat};
use crate::setup::{self, Journal, Setup};
use crate::terminal::{self, add};

pub(super) fn run(global: &Global, policy: PolicyCommand) -> Result<ExitCode> {
    match policy.what {
        PolicyWhat::Explain { tool, input } => explain(global, tool, &input),
        PolicyWhat::Show => show(global),
    }
}

fn explain(global: &Global, tool: String, input: &str) -> Result<ExitCode> {
    let input = serde_json::from_str(input).context("the arguments are not JSON")?;
    let explained = block_on(async {
        let Setup { windlass, session } = Setup::open(global, Journal::Unneeded)?;
        anyhow::Ok(windlass.explain(&session, ToolCall::new(tool, input)).await)
    })??;
    let answer = match explained {
        Ok(verdict) => json!({
            "decision": verdict.decision(), "rule": verdict.rule(),
            "effects": verdict.effects().iter().map(ToString::to_string).collect::<Vec<_>>(),
        }),
        // What an `.aiexclude` hides is denied before the policy is asked.
        Err(error) if error.code() == "denied" => {
            json!({"decision": Decision::Deny, "rule": error.message().text, "effects": []})
        }
        Err(error) => return Err(error.into()),
    };
    terminal::print_json(&answer)?;
    Ok(ExitCode::SUCCESS)
}

fn show(global: &Global) -> Result<ExitCode> {
    let workspace = setup::workspace(global)?;
    let mut config = setup::config(global, &workspace, &setup::state(global)?)?;
    let (mode, rules) = (config.mode()?, config.rules());
    for warning in &config.warnings {
        terminal::note(global, warning);
    }
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
        terminal::print_json(&json!({"mode": mode, "rules": rules}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("mode {mode}\n");
    for ruling in rules {
        let reason = ruling.reason.as_ref().map(|reason| format!("  # {}", quote::visible(reason)));
        let until = ruling.until.map(|end| format!("  until {}", utc(end))).unwrap_or_default();
        let reason = reason.unwrap_or_default();
        add(&mut text, format_args!("{ruling}  [{}]{until}{reason}\n", ruling.layer));
    }
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
