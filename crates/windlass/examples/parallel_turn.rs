//! The calls of one turn run at the same time where their effects allow it, and are answered in the model's order.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::json;
use windlass::{Mode, ToolCall, Windlass};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    for name in ["a.txt", "b.txt"] {
        std::fs::write(folder.path().join(name), format!("this is {name}\n"))?;
    }
    let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build()?;
    let session = windlass.new_session();
    let edit = json!({"path": "a.txt", "old_string": "this is", "new_string": "here is"});
    let turn = vec![
        ToolCall::new("read", json!({"path": "b.txt"})),
        ToolCall::new("edit", edit),
        // Conflicts with the edit, so it waits for it; the other read does not.
        ToolCall::new("read", json!({"path": "a.txt"})),
    ];
    let results = windlass.turn(&session, turn).await;
    for result in &results {
        println!("{}: {}", result.tool, result.output.to_text());
    }
    assert!(results[0].output.to_text().contains("this is b.txt"));
    assert!(results[2].output.to_text().contains("here is a.txt"));
    Ok(())
}
