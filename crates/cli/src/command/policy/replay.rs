//! `windlass policy replay`: decides the calls of a recorded session by the present policy, and shows the decisions that differ. No
//! call is made.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use windlass::policy::Decision;
use windlass::session::SessionId;
use windlass::{ToolCall, quote};

use super::decide;
use crate::command::recorded::{self, RecordedCall, RecordedDecision};
use crate::command::{block_on, log};
use crate::ids;
use crate::options::Global;
use crate::setup;
use crate::terminal::{self, Paint};

/// Decides each recorded call again, in a new session of the same workspace, and prints the decisions that differ and a summary. A
/// call without a decision, then or now, is only counted.
pub(super) fn run(global: &Global, id: &SessionId) -> Result<ExitCode> {
    let hub = setup::hub(global)?;
    let store = hub.store()?;
    let id = &ids::expand_session(&store, id)?;
    let workspace = recorded::workspace_of(global, &store, id)?;
    let calls = recorded::read_calls(&store, id)?;
    let (mut differ, mut undecided) = (0_usize, 0_usize);
    block_on(async {
        let windlass = hub.open(&workspace)?;
        let session = windlass.session(setup::session_options(global))?;
        for call in &calls {
            let now =
                decide(&windlass, &session, ToolCall::new(call.tool.clone(), call.input.clone()));
            let now = match now.await {
                Ok(decided) => (decision_word(decided.decision), decided.rule),
                Err(error) => ("not decided", error.to_string()),
            };
            let was = call.recorded_decision();
            if was == RecordedDecision::Undecided || now.0 == "not decided" {
                undecided += 1;
            } else if was.word() != now.0 {
                differ += 1;
                print_difference(global, call, now.0, &now.1)?;
            }
            // Untrusted content from a call affects the decisions after it, as it did then.
            if let Some(source) = call.untrusted() {
                session.mark_untrusted(source);
            }
        }
        anyhow::Ok(())
    })??;
    print_summary(global, calls.len(), differ, undecided)
}

/// Returns the decision as a past participle.
fn decision_word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allowed",
        Decision::Ask => "asked",
        Decision::Deny => "denied",
    }
}

/// Prints a call whose decision differs.
fn print_difference(global: &Global, call: &RecordedCall, now: &str, rule: &str) -> Result<()> {
    let (was, by) = (call.recorded_decision().word(), call.decided_by());
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
        log::one_line(&call.input),
        quote::visible(rule)
    ))
}

/// Prints the numbers of calls, of differences and of calls without a decision then or now. Succeeds also if there are differences.
fn print_summary(
    global: &Global,
    calls: usize,
    differ: usize,
    undecided: usize,
) -> Result<ExitCode> {
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
