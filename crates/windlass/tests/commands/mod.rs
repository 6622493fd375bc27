//! Commands and what is decided about them: a corpus of rows that each say what must happen, bash itself as the judge of what
//! a text runs, and the commands of every day, run for real.

mod corpus;
mod danger;
mod everyday;
mod fuzz;
mod rules;

use serde_json::{Value, json};
use windlass::ToolCall;
use windlass::effect::{CommandLine, Effect};
use windlass::policy::{Policy, Verdict};

use crate::support::Place;

/// What would be decided about a command under these rules.
async fn explain(place: &Place, policy: Policy, command: &str) -> Verdict {
    place.windlass.engine().set_policy(policy);
    let input = json!({"command": command});
    let explained =
        place.windlass.engine().explain(&place.session, ToolCall::new("bash", input.clone())).await;
    explained.unwrap_or_else(|error| panic!("{input}: {error}"))
}

/// The command as it was understood.
fn line(verdict: &Verdict) -> &CommandLine {
    let is_exec = |effect: &&Effect| matches!(effect, Effect::Exec(_));
    let Some(Effect::Exec(line)) = verdict.effects().iter().find(is_exec) else {
        panic!("it runs nothing")
    };
    line
}

fn text_of<'v>(row: &'v Value, key: &str) -> &'v str {
    row[key].as_str().unwrap_or_else(|| panic!("{row} has no {key}"))
}
