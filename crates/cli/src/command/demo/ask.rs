//! The second step: in the mode `ask`, a command changes files, and the person or the tour answers the approval.

use anyhow::Result;
use serde_json::json;
use windlass::{Mode, Outcome};

use super::StepEnd;
use super::guest::Guest;
use super::tour::{Tour, sandbox_refusal};

/// The command that changes files of the sample project.
const COMMAND: &str = "sed -i s/colour/color/ src/*.rs";

/// Runs the step and checks that the answer decided about the files.
pub(super) async fn run(tour: &mut Tour<'_>) -> Result<StepEnd> {
    tour.narrator.explain(
        "In the mode `ask` a command works on a copy of the project first. If it changes nothing, you are not \
         asked. If it does, you see every changed line, and keep all of it or drop all of it.",
    )?;
    let guest = tour.narrator.guest();
    if guest.is_person() {
        tour.narrator.explain("Answer as you like: y keeps it, n or Enter drops it.")?;
    }
    let engine = tour.open_with_attendant(Mode::Ask, guest.clone())?;
    let before = tour.sample.tree()?;
    let result = tour.call(&engine, "bash", json!({"command": COMMAND})).await?;
    show_question(tour, &guest)?;
    tour.narrator.print_result(&result)?;
    if let Some(why) = sandbox_refusal(&result) {
        return Ok(StepEnd::Skipped(why));
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
    Ok(StepEnd::Done)
}

/// Shows the approvals that were asked, unless a person has just seen them.
fn show_question(tour: &mut Tour<'_>, guest: &Guest) -> Result<()> {
    for question in guest.questions() {
        tour.narrator.print_approval(&question, guest.is_person())?;
    }
    Ok(())
}
