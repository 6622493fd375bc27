//! `windlass policy replay`: what would be decided now about the calls of an earlier session. Nothing is executed.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use windlass::policy::Decision;
use windlass::session::SessionId;
use windlass::{ToolCall, quote};

use super::decide;
use crate::command::recorded::{self, Recorded, Was};
use crate::command::{block_on, log};
use crate::ids;
use crate::options::Global;
use crate::setup;
use crate::terminal::{self, Paint};

pub(super) fn run(global: &Global, id: &SessionId) -> Result<ExitCode> {
    let hub = setup::hub(global)?;
    let store = hub.store()?;
    let id = &ids::expand_session(&store, id)?;
    let workspace = recorded::workspace(global, &store, id)?;
    let calls = recorded::calls(&store, id)?;
    let (mut differ, mut undecided) = (0_usize, 0_usize);
    block_on(async {
        let windlass = hub.open(&workspace)?;
        let session = windlass.session(setup::session_options(global))?;
        for call in &calls {
            let now =
                decide(&windlass, &session, ToolCall::new(call.tool.clone(), call.input.clone()));
            let now = match now.await {
                Ok(decided) => (word(decided.decision), decided.rule),
                Err(error) => ("not decided", error.to_string()),
            };
            let was = call.was();
            if was == Was::Undecided || now.0 == "not decided" {
                undecided += 1;
            } else if was.word() != now.0 {
                differ += 1;
                tell(global, call, now.0, &now.1)?;
            }
            // What a call brought in counts for those after it, as it did then.
            if let Some(source) = call.untrusted() {
                session.mark_untrusted(source);
            }
        }
        anyhow::Ok(())
    })??;
    sum_up(global, calls.len(), differ, undecided)
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allowed",
        Decision::Ask => "asked",
        Decision::Deny => "denied",
    }
}

fn tell(global: &Global, call: &Recorded, now: &str, rule: &str) -> Result<()> {
    let (was, by) = (call.was().word(), call.decided_by());
    if global.json {
        return terminal::print_json(&json!({
            "call": call.id, "tool": call.tool, "input": call.input,
            "was": was, "was_by": by, "now": now, "rule": rule,
        }));
    }
    let paint = Paint::of(global);
    let now = match now {
        "allowed" => paint.green(now),
        "asked" => paint.yellow(now),
        _ => paint.red(now),
    };
    let by = by.map(|by| format!(" ({})", quote::visible(&by))).unwrap_or_default();
    terminal::print_painted(&format!(
        "{}  {} {}: was {was}{by}, would be {now} ({})\n",
        paint.dim(call.id.as_str()),
        paint.bold(&quote::visible(&call.tool)),
        log::short(&call.input),
        quote::visible(rule)
    ))
}

fn sum_up(global: &Global, calls: usize, differ: usize, undecided: usize) -> Result<ExitCode> {
    if global.json {
        terminal::print_json(&json!({"calls": calls, "differ": differ, "undecided": undecided}))?;
    } else {
        let undecided = match undecided {
            0 => String::new(),
            some => format!(", {some} ended before a decision"),
        };
        terminal::print(&format!(
            "{calls} calls, {differ} would be decided otherwise{undecided}\n"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
