//! The first step: a turn whose calls run at the same time.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use windlass::journal::StoredKind;
use windlass::session::CallId;
use windlass::{CallResult, Mode, Outcome, ToolCall};

use super::StepEnd;
use super::tour::{Tour, TourEngine, sandbox_refusal};

/// Commands that take a second each.
const SLOW_COMMANDS: &[&str] =
    &["sleep 1; wc -l src/*.rs", "sleep 1; head -n 1 README.md", "sleep 1; ls src"];

/// Runs the step and checks by the journal that the commands overlapped.
pub(super) async fn run(tour: &mut Tour<'_>) -> Result<StepEnd> {
    tour.narrator.explain(
        "A model asks for six things in one turn. All of them only read, so that none waits for another. \
         Three are commands that take a second each.",
    )?;
    let engine = tour.open_without_attendant(Mode::Ask)?;
    let mut calls = vec![
        ToolCall::new("grep", json!({"pattern": "colour"})),
        ToolCall::new("read", json!({"path": "README.md"})),
        ToolCall::new("glob", json!({"pattern": "**/*.rs"})),
    ];
    calls.extend(
        SLOW_COMMANDS.iter().map(|command| ToolCall::new("bash", json!({"command": command}))),
    );
    let (results, took) = tour.turn(&engine, calls).await?;
    for result in &results {
        tour.narrator.print_result_line(result)?;
    }
    let (files, commands) = results.split_at(results.len() - SLOW_COMMANDS.len());
    let all_ok = |results: &[CallResult]| results.iter().all(|one| one.outcome == Outcome::Ok);
    tour.narrator.check("grep, read and glob found what they looked for", all_ok(files))?;
    if let Some(why) = commands.iter().find_map(sandbox_refusal) {
        return Ok(StepEnd::Skipped(why));
    }
    tour.narrator.check("the three commands ended well", all_ok(commands))?;
    let alone: Duration = results.iter().map(|result| result.duration).sum();
    let claim = format!(
        "by the journal all three commands had begun before the first ended: {:.1} s instead of {:.1} s",
        took.as_secs_f64(),
        alone.as_secs_f64()
    );
    let calls: Vec<&CallId> = commands.iter().map(|result| &result.call).collect();
    tour.narrator.check(&claim, ran_together(&engine, &calls)?)?;
    Ok(StepEnd::Done)
}

/// Returns whether, by the journal, all of these calls began before the first of them ended.
fn ran_together(engine: &TourEngine, calls: &[&CallId]) -> Result<bool> {
    let Some(store) = engine.workspace.store() else { return Ok(false) };
    let rows = store.records(Some(engine.session.id()), 0, 1_000)?;
    let numbers = |kind: StoredKind| {
        let of_calls = rows.iter().filter(move |row| {
            row.kind == kind && row.call.as_ref().is_some_and(|call| calls.contains(&call))
        });
        of_calls.map(|row| row.seq)
    };
    let (last_begun, first_ended) =
        (numbers(StoredKind::Started).max(), numbers(StoredKind::Finished).min());
    let are_all = numbers(StoredKind::Started).count() == calls.len();
    Ok(are_all && last_begun.zip(first_ended).is_some_and(|(begun, ended)| begun < ended))
}
