//! `windlass policy`: what would be decided, and by which rule.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use windlass_core::{Decision, Effect, ToolCall, Verdict};

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
        Ok(verdict) => explained_verdict(&verdict),
        // What an `.aiexclude` hides is denied before the policy is asked.
        Err(error) if error.code() == "denied" => {
            json!({"decision": Decision::Deny, "rule": error.message().text, "effects": []})
        }
        Err(error) => return Err(error.into()),
    };
    terminal::print_json(&answer)?;
    Ok(ExitCode::SUCCESS)
}

/// What was decided, and of a command what was understood.
fn explained_verdict(verdict: &Verdict) -> Value {
    let mut answer = json!({
        "decision": verdict.decision(), "rule": verdict.rule(),
        "effects": verdict.effects().iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    if let Some(because) = verdict.because() {
        answer["because"] = because.into();
    }
    let commands = verdict.effects().iter().find_map(|effect| match effect {
        Effect::Exec(command) => Some(command),
        _ => None,
    });
    if let Some(command) = commands {
        answer["commands"] = json!(command.commands);
        if let Some(why) = &command.unclear {
            answer["why"] = why.as_str().into();
        }
    }
    answer
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
            .map(|(decision, rule)| json!({"decision": decision, "rule": rule.to_string()}))
            .collect();
        terminal::print_json(&json!({"mode": mode, "rules": rules}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("mode {mode}\n");
    for (decision, rule) in rules {
        let word = match decision {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        };
        add(&mut text, format_args!("{word} {rule}\n"));
    }
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
