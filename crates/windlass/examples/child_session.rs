//! A session below another one, with fewer rights: it can read, and its programs change nothing.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::json;
use windlass::process::SandboxLevel;
use windlass::session::SessionLimits;
use windlass::tool::Predicate;
use windlass::{Mode, Outcome, ToolCall, Windlass};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build()?;
    let parent = windlass.new_session();
    let limits = SessionLimits {
        tools: Predicate::allow(["read", "grep", "bash"]),
        sandbox: Some(SandboxLevel::ReadOnly),
        ..SessionLimits::default()
    };
    let reviewer = windlass.child_session(&parent, limits);

    let write = || ToolCall::new("write", json!({"path": "a.txt", "content": "a\n"}));
    let touch = || ToolCall::new("bash", json!({"command": "touch b.txt"}));
    for (session, call, outcome) in [
        (&parent, write(), Outcome::Ok),
        (&parent, touch(), Outcome::Ok),
        (&reviewer, write(), Outcome::Fault), // There is no such tool for it.
        (&reviewer, touch(), Outcome::Error), // The file system is read-only for it.
    ] {
        let result = windlass.call(session, call).await;
        println!("{}: {}", result.outcome.as_str(), result.output.to_text());
        assert_eq!(result.outcome, outcome);
    }
    // What stops the parent stops the child.
    parent.cancel();
    assert!(reviewer.is_cancelled());
    Ok(())
}
