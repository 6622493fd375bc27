//! A tool in five lines: typed arguments, a closure, no effects.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use windlass::{FunctionTool, Outcome, Output, ToolCall, Windlass};

/// Add two numbers.
#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let add = FunctionTool::pure("add", |_, args: Add| async move {
        Ok(Output::text((args.a + args.b).to_string()))
    });
    let folder = tempfile::tempdir()?;
    let windlass = Windlass::builder(folder.path()).tool(add).build()?;
    let session = windlass.new_session();
    let sum = windlass.call(&session, ToolCall::new("add", json!({"a": 2, "b": 40}))).await;
    println!("2 + 40 = {}", sum.output.to_text());
    assert_eq!(sum.output.to_text(), "42");

    // The schema is derived from the type, and wrong arguments never reach the closure.
    let wrong = windlass.call(&session, ToolCall::new("add", json!({"a": 2, "c": 40}))).await;
    println!("{}", wrong.output.to_text());
    assert_eq!(wrong.outcome, Outcome::Fault);
    Ok(())
}
