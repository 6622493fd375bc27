//! Stop one call by its id, while its sibling goes on.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::json;
use windlass::{Mode, Outcome, ToolCall, Windlass};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build()?;
    let session = windlass.new_session();
    let command = |text: &str| ToolCall::new("bash", json!({"command": text}));
    let (slow, slow_result) = windlass.start(&session, command("echo begun; sleep 600"));
    let (_, quick_result) = windlass.start(&session, command("echo done"));

    let quick = quick_result.await;
    assert!(windlass.cancel(&slow), "it runs");
    let stopped = slow_result.await;
    println!("quick: {:?}, slow: {:?}", quick.outcome, stopped.outcome);
    assert_eq!((quick.outcome, stopped.outcome), (Outcome::Ok, Outcome::Cancelled));
    assert!(!windlass.cancel(&slow), "it has ended");
    Ok(())
}
