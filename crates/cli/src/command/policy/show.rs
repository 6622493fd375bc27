//! `windlass policy show`: prints the mode and the rules in force with their sources. With `--session`, also the rules that people gave
//! that session with their answers.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use windlass::journal::utc;
use windlass::people::Approval;
use windlass::policy::{Decision, Layer};
use windlass::quote;
use windlass::session::ApprovalId;

use super::approvals;
use crate::options::Global;
use crate::setup;
use crate::terminal::{self, add};

/// Prints mode and rules as text or JSON.
pub(super) fn run(global: &Global) -> Result<ExitCode> {
    let config = setup::hub(global)?.config(&global.workspace)?;
    let (mode, rules) = (config.mode()?, config.rules());
    let session_rules_given = session_rules(global)?;
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
            .chain(session_rules_given.iter().map(|(id, rule)| {
                json!({
                    "decision": Decision::Allow, "rule": rule, "layer": Layer::Session,
                    "reason": null, "until": null, "approval": id,
                })
            }))
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
    for (id, rule) in session_rules_given {
        let rule = quote::visible(&rule).into_owned();
        let layer = Layer::Session;
        add(
            &mut text,
            format_args!("allow {rule}  [{layer}]  `windlass policy revoke {id}` takes it back\n"),
        );
    }
    if examples > 0 {
        let what = if examples == 1 { "example" } else { "examples" };
        add(&mut text, format_args!("{examples} {what}: `windlass policy test FILE` runs them\n"));
    }
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the rules that people gave the session of `--session`, each with the id of the answer that gave it.
fn session_rules(global: &Global) -> Result<Vec<(ApprovalId, String)>> {
    let Some(session) = &global.session else { return Ok(Vec::new()) };
    let workspace = setup::workspace_path(global)?;
    let answers = approvals::read_all(global, &approvals::book(global)?)?;
    let of = |one: &Approval| {
        let rules = one.rules_of(session, &workspace).iter();
        rules.map(|rule| (one.id.clone(), rule.clone())).collect::<Vec<_>>()
    };
    Ok(answers.iter().flat_map(of).collect())
}
