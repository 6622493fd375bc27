//! Write your own tool: typed arguments, declared effects, and a person who is asked before it changes anything.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use windlass::people::ApprovalRequest;
use windlass::{Context, EffectKinds, Effects, Output, Tool, ToolCall, ToolError, Windlass};

struct Note;

/// Write down a note for later.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// File to write it to; must not exist yet.
    path: PathBuf,
    /// The note.
    text: String,
}

impl Tool for Note {
    const NAME: &'static str = "note";
    const KINDS: EffectKinds = EffectKinds::WRITE;
    type Args = Args;

    fn effects(&self, args: &Args) -> Effects {
        Effects::write(&args.path)
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        cx.files().create(&args.path, args.text.as_bytes())?;
        Ok(Output::text(format!("noted in {}", args.path.display())))
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let ask = |request: &ApprovalRequest| {
        println!("{} wants to {}", request.tool, request.effects);
        request.input["path"] != "no.md"
    };
    let windlass = Windlass::builder(folder.path()).tool(Note).attendant(ask).build()?;
    let session = windlass.new_session();
    for path in ["yes.md", "no.md", "yes.md"] {
        let call = ToolCall::new("note", json!({"path": path, "text": "Oil the windlass.\n"}));
        let result = windlass.call(&session, call).await;
        println!("{}: {}\n", result.outcome.as_str(), result.output.to_text());
    }
    Ok(())
}
