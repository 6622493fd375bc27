//! A command that outlives its call: it starts as a job, and later calls look at its output and stop it.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::{Value, json};
use windlass::{CallResult, Mode, Outcome, Session, ToolCall, Windlass};

async fn call(
    windlass: &Windlass,
    session: &std::sync::Arc<Session>,
    tool: &str,
    input: Value,
) -> CallResult {
    let result = windlass.call(session, ToolCall::new(tool, input)).await;
    println!("{tool}: {}\n", result.output.to_text());
    result
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build()?;
    let session = windlass.new_session();

    let command = json!({"command": "echo ready; exec sleep 600", "background": true});
    let started = call(&windlass, &session, "bash", command).await;
    let job = started.output.metadata["job"].clone();

    // `wait` returns as soon as there is something new, at the latest after so many seconds.
    let look = json!({"job": job, "cursor": 0, "wait": 60});
    let seen = call(&windlass, &session, "output", look).await;
    assert!(seen.output.to_text().contains("ready"));
    assert_eq!(seen.output.metadata["running"], true);

    let killed = call(&windlass, &session, "kill", json!({"job": job})).await;
    assert_eq!(killed.outcome, Outcome::Ok);

    // Whatever is left ends with the session.
    session.end_jobs().await;
    Ok(())
}
