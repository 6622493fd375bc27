//! Tools that come and go while the engine runs: a source that loads when it is needed, and a list that is replaced.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::{Value, json};
use windlass::tool::{BoxFuture, DynamicTool, LoadedTools, ToolHandle, ToolSpec, Toolset};
use windlass::{EffectKinds, Effects, Output, Session, ToolCall, ToolError, Windlass};

/// A tool whose schema is known only at run time.
fn skill(name: &'static str) -> ToolHandle {
    let schema = json!({"type": "object", "properties": {}});
    let spec = ToolSpec::new(name, format!("Read the skill {name}."), schema, EffectKinds::NONE);
    let answer = move |_, _: Value| async move { Ok(Output::text(format!("how to {name}"))) };
    DynamicTool::new(spec, |_| Effects::none(), answer).into()
}

struct Skills;

impl Toolset for Skills {
    fn name(&self) -> &'static str {
        "skills"
    }

    fn load<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Result<LoadedTools, ToolError>> {
        Box::pin(async { Ok(vec![skill("review"), skill("deploy")].into()) })
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let windlass = Windlass::builder(folder.path()).toolset(Skills).build()?;
    let session = windlass.new_session();
    let answer = windlass.call(&session, ToolCall::new("review", json!({}))).await;
    println!("{}", answer.output.to_text());
    assert_eq!(answer.output.to_text(), "how to review");

    // The same owner with another list: front doors hear of it and list the tools again.
    let generation = windlass.engine().replace_tools("skills", vec![skill("release")]);
    let names: Vec<_> = windlass.tools(&session).await.into_iter().map(|spec| spec.name).collect();
    println!("generation {generation}: {}", names.join(" "));
    assert!(names.iter().any(|name| name == "release"));
    assert!(!names.iter().any(|name| name == "review"));
    Ok(())
}
