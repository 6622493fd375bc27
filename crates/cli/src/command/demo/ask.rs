//! The second step: the mode `ask`, a command that changes files, and the answer of whoever is there.

use anyhow::Result;
use serde_json::json;
use windlass::{Mode, Outcome};

use super::Passed;
use super::guest::Guest;
use super::tour::{Tour, without_sandbox};

const COMMAND: &str = "sed -i s/colour/color/ src/*.rs";

pub(super) async fn run(tour: &mut Tour<'_>) -> Result<Passed> {
    tour.narrator.say(
        "In the mode `ask` a command works on a copy of the project first. If it changes nothing, you are not \
         asked. If it does, you see every changed line, and keep all of it or drop all of it.",
    )?;
    let guest = tour.narrator.guest();
    if guest.is_person() {
        tour.narrator.say("Answer as you like: y keeps it, n or Enter drops it.")?;
    }
    let engine = tour.engine_with(Mode::Ask, guest.clone())?;
    let before = tour.sample.tree()?;
    let result = tour.call(&engine, "bash", json!({"command": COMMAND})).await?;
    show_question(tour, &guest)?;
    tour.narrator.result(&result)?;
    if let Some(why) = without_sandbox(&result) {
        return Ok(Passed::Skipped(why));
    }
    let is_same = tour.sample.tree()?.hash() == before.hash();
    tour.narrator.check("the question came once", guest.questions().len() == 1)?;
    match result.outcome {
        Outcome::Ok => tour.narrator.check("yes: the files hold the new lines", !is_same)?,
        Outcome::Denied => {
            tour.narrator.check("no: the files are as they were before", is_same)?;
        }
        other => {
            tour.narrator.check(&format!("the command ended as `{}`", other.as_str()), false)?;
        }
    }
    Ok(Passed::Shown)
}

/// Shows what was asked, if the tour gave the answer.
fn show_question(tour: &mut Tour<'_>, guest: &Guest) -> Result<()> {
    for question in guest.questions() {
        tour.narrator.question(&question, guest.is_person())?;
    }
    Ok(())
}
