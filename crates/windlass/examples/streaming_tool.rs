//! A tool that shows its output and its progress while it runs.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use windlass::event::EventKind;
use windlass::{FunctionTool, Output, ToolCall, Windlass};

/// Count upwards, out loud.
#[derive(Deserialize, JsonSchema)]
struct Count {
    /// The last number.
    to: u64,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = FunctionTool::pure("count", |cx, args: Count| async move {
        for number in 1..=args.to {
            cx.output(&format!("{number}\n"));
            cx.progress(number, Some(args.to), "counting");
        }
        Ok(Output::text(format!("counted to {}", args.to)))
    });
    let folder = tempfile::tempdir()?;
    let windlass = Windlass::builder(folder.path()).tool(count).build()?;
    let mut events = windlass.subscribe();
    let session = windlass.new_session();
    windlass.call(&session, ToolCall::new("count", json!({"to": 3}))).await;

    let mut streamed = String::new();
    loop {
        match events.next().await.kind {
            EventKind::Output { delta } => streamed.push_str(&delta),
            EventKind::Progress { done, total: Some(total), .. } => println!("{done} of {total}"),
            EventKind::Finished(result) => {
                println!("{}", result.output.to_text());
                break;
            }
            _ => {}
        }
    }
    assert_eq!(streamed, "1\n2\n3\n");
    Ok(())
}
