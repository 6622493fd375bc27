//! A tool that remembers, and a store of your own for it.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::state::{MemoryState, StateEntry, StateOwner, StateScope, StateStore};
use windlass::{Context, EffectKinds, Effects, FunctionTool, Output, ToolCall};
use windlass::{ToolError, Windlass};

/// Add something to do.
#[derive(Deserialize, JsonSchema)]
struct Todo {
    /// The thing to do.
    text: String,
}

/// One list for all sessions and workspaces: a real store would be a database of your own.
#[derive(Default)]
struct TeamStore(MemoryState);

impl StateStore for TeamStore {
    fn get(&self, _: &StateOwner, key: &str) -> Result<Option<StateEntry>, ToolError> {
        self.0.get(&StateOwner::Person, key)
    }

    fn replace(
        &self,
        _: &StateOwner,
        key: &str,
        version: u64,
        value: Option<&Value>,
    ) -> Result<bool, ToolError> {
        self.0.replace(&StateOwner::Person, key, version, value)
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let call = |cx: Context, args: Todo| async move {
        let list = cx.state().update(StateScope::Session, "todo", |old| {
            let old = old.as_ref().and_then(Value::as_array).into_iter().flatten().cloned();
            Ok(Some(old.chain([json!(args.text)]).collect()))
        })?;
        Ok(Output::text(list.unwrap_or_default().to_string()))
    };
    let todo = FunctionTool::new("todo", EffectKinds::STATE, |_| Effects::state("todo"), call);
    let folder = tempfile::tempdir()?;
    let store = Arc::new(TeamStore::default());
    let windlass = Windlass::builder(folder.path()).tool(todo).state_store(store).build()?;
    for (text, list) in [("test", r#"["test"]"#), ("release", r#"["test","release"]"#)] {
        let session = windlass.new_session();
        let answer = windlass.call(&session, ToolCall::new("todo", json!({"text": text}))).await;
        println!("{}", answer.output.to_text());
        assert_eq!(answer.output.to_text(), list);
    }
    Ok(())
}
