//! The third step: a command deletes the project, and an undo brings it back.

use anyhow::Result;
use serde_json::json;
use windlass::{Mode, Outcome, Undo};

use super::Passed;
use super::tour::{Tour, without_sandbox};

pub(super) async fn run(tour: &mut Tour<'_>) -> Result<Passed> {
    tour.narrator.say(
        "In the mode `auto` you are not asked about files of the project, so that a model may delete them all. \
         The old contents are kept before anything is changed.",
    )?;
    let engine = tour.engine(Mode::Auto)?;
    let before = tour.sample.tree()?;
    tour.narrator.tree("before", &before)?;
    let result = tour.call(&engine, "bash", json!({"command": "rm -rf *"})).await?;
    tour.narrator.result(&result)?;
    if let Some(why) = without_sandbox(&result) {
        return Ok(Passed::Skipped(why));
    }
    let deleted = tour.sample.tree()?;
    tour.narrator.tree("deleted", &deleted)?;
    let is_gone = result.outcome == Outcome::Ok && !deleted.has("README.md");
    tour.narrator.check("the files are gone", is_gone)?;
    tour.narrator.typed("windlass undo")?;
    let undone = engine.workspace.undo(&engine.session, Undo::Last).await;
    tour.narrator.result(&undone)?;
    let after = tour.sample.tree()?;
    tour.narrator.tree("undone", &after)?;
    let is_back = undone.outcome == Outcome::Ok && after.hash() == before.hash();
    tour.narrator.check("every file is back, with name, mode and content", is_back)?;
    Ok(Passed::Shown)
}
