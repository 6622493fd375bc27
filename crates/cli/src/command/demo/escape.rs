//! The fourth step: a script that means harm. What it reached is looked at from outside, after it has ended.

use std::net::TcpListener;

use anyhow::Result;
use serde_json::json;
use windlass::{Mode, Outcome};

use super::Passed;
use super::sample::SECRET;
use super::tour::{Tour, without_sandbox};

pub(super) async fn run(tour: &mut Tour<'_>) -> Result<Passed> {
    let server = TcpListener::bind("127.0.0.1:0")?;
    server.set_nonblocking(true)?;
    let port = server.local_addr()?.port();
    tour.narrator.say(
        "Secret files are denied in every mode. The words of a command do not always tell what it does: this \
         script wants the secret, a file of another project, and a server that the tour has started.",
    )?;
    let script = format!(
        "cat .env\necho overwritten > ../neighbour/notes.txt\necho found > /dev/tcp/127.0.0.1/{port}\necho done\n"
    );
    tour.sample.add("setup.sh", &script)?;
    let engine = tour.engine(Mode::Auto)?;
    let read = tour.call(&engine, "read", json!({"path": ".env"})).await?;
    tour.narrator.result(&read)?;
    let is_denied = read.outcome == Outcome::Denied && !read.output.to_text().contains(SECRET);
    tour.narrator.check("the secret is denied to the tool `read`", is_denied)?;
    tour.narrator.file("setup.sh", &script)?;
    let run = tour.call(&engine, "bash", json!({"command": "bash setup.sh"})).await?;
    tour.narrator.result(&run)?;
    if let Some(why) = without_sandbox(&run) {
        return Ok(Passed::Skipped(why));
    }
    let text = run.output.to_text();
    let has_ended = run.outcome == Outcome::Ok && text.lines().any(|line| line == "done");
    tour.narrator.check("the script ran to its end", has_ended)?;
    tour.narrator.check("the secret is not in what it printed", !text.contains(SECRET))?;
    tour.narrator.check(
        "the file of the other project is unchanged",
        tour.sample.neighbour_is_untouched(),
    )?;
    tour.narrator.check("nobody came to the server", server.accept().is_err())?;
    Ok(Passed::Shown)
}
