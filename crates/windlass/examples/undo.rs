//! Take back what a command did, then take back the undo.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::json;
use windlass::{Mode, Outcome, ToolCall, Undo, Windlass};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("old.txt"), "content\n")?;
    let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build()?;
    let session = windlass.new_session();
    let command = json!({"command": "mkdir d && mv old.txt d/new.txt && echo more >> d/new.txt"});
    let ran = windlass.call(&session, ToolCall::new("bash", command)).await;
    assert!(file("d/new.txt").exists() && !file("old.txt").exists());

    let undone = windlass.undo(&session, Undo::Call(ran.call)).await;
    println!("{}\n", undone.output.to_text());
    assert_eq!(std::fs::read_to_string(file("old.txt"))?, "content\n");
    assert!(!file("d").exists());

    let redone = windlass.undo(&session, Undo::Call(undone.call)).await;
    println!("{}\n", redone.output.to_text());
    assert_eq!(std::fs::read_to_string(file("d/new.txt"))?, "content\nmore\n");

    // A file that changed since is never overwritten.
    std::fs::write(file("d/new.txt"), "a person's work\n")?;
    let refused = windlass.undo(&session, Undo::Call(redone.call)).await;
    println!("{}", refused.output.to_text());
    assert_eq!(refused.outcome, Outcome::Error);
    Ok(())
}
