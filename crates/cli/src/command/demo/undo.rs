//! The third step: a command deletes the project's files, and an undo restores them.

use anyhow::Result;
use serde_json::json;
use windlass::{Mode, Outcome, Undo};

use super::StepEnd;
use super::tour::{Tour, sandbox_refusal};

/// Runs the step and checks that the files are gone and then restored.
pub(super) async fn run(tour: &mut Tour<'_>) -> Result<StepEnd> {
    tour.narrator.explain(
        "In the mode `auto` you are not asked about files of the project, so that a model may delete them all. \
         The old contents are kept before anything is changed.",
    )?;
    let engine = tour.open_without_attendant(Mode::Auto)?;
    let before = tour.sample.tree()?;
    tour.narrator.print_tree("before", &before)?;
    let result = tour.call(&engine, "bash", json!({"command": "rm -rf *"})).await?;
    tour.narrator.print_result(&result)?;
    if let Some(why) = sandbox_refusal(&result) {
        return Ok(StepEnd::Skipped(why));
    }
    let deleted = tour.sample.tree()?;
    tour.narrator.print_tree("deleted", &deleted)?;
    let is_gone = result.outcome == Outcome::Ok && !deleted.has("README.md");
    tour.narrator.check("the files are gone", is_gone)?;
    tour.narrator.print_command_line("windlass undo")?;
    let undone = engine.workspace.undo(&engine.session, Undo::Last).await;
    tour.narrator.print_result(&undone)?;
    let after = tour.sample.tree()?;
    tour.narrator.print_tree("undone", &after)?;
    let is_back = undone.outcome == Outcome::Ok && after.hash() == before.hash();
    tour.narrator.check("every file is back, with name, mode and content", is_back)?;
    Ok(StepEnd::Done)
}
