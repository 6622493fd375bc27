//! Decisions about commands: a corpus of rows with the expected decision, random texts compared with bash, and everyday commands that are
//! really run.

mod corpus;
mod danger;
mod everyday;
mod fuzz;
mod rules;

use serde_json::{Value, json};
use windlass::ToolCall;
use windlass::effect::{CommandLine, Effect};
use windlass::policy::{Policy, Verdict};

use crate::support::TestWorkspace;

/// Returns the verdict about a command under a policy.
async fn explain(test: &TestWorkspace, policy: Policy, command: &str) -> Verdict {
    test.windlass.engine().set_policy(policy);
    let input = json!({"command": command});
    let explained =
        test.windlass.engine().explain(&test.session, ToolCall::new("bash", input.clone())).await;
    explained.unwrap_or_else(|error| panic!("{input}: {error}"))
}

/// Returns the parsed command of a verdict.
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
