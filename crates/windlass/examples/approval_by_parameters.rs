//! A tool that needs a person for some arguments only, whatever the rules and the mode allow.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use windlass::people::ApprovalRequest;
use windlass::{FunctionTool, Mode, Outcome, Output, ToolCall, Windlass};

/// Pay an amount.
#[derive(Deserialize, JsonSchema)]
struct Pay {
    /// The amount in cents.
    cents: u64,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pay = FunctionTool::pure("pay", |_, args: Pay| async move {
        Ok(Output::text(format!("paid {} cents", args.cents)))
    })
    .needs_person_if(|args| args.cents > 1_000);

    // Stands for a person at a prompt.
    let person = |request: &ApprovalRequest| {
        println!("{} {}?", request.tool, request.input);
        request.input["cents"].as_u64().is_some_and(|cents| cents < 5_000)
    };
    let folder = tempfile::tempdir()?;
    let builder = Windlass::builder(folder.path()).mode(Mode::Yolo).attendant(person);
    let windlass = builder.tool(pay).build()?;
    let session = windlass.new_session();
    for (cents, outcome) in [(500, Outcome::Ok), (2_000, Outcome::Ok), (900_000, Outcome::Denied)] {
        let result = windlass.call(&session, ToolCall::new("pay", json!({"cents": cents}))).await;
        println!("{}", result.output.to_text());
        assert_eq!(result.outcome, outcome);
    }
    Ok(())
}
