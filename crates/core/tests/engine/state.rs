//! Values that last from call to call.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::testing::MockTool;
use windlass_core::{
    EffectKinds, Effects, MemoryState, Outcome, Output, RecordKind, Secrets, StateDoor, StateOwner,
    StateScope, StateStore, ToolCall,
};

use crate::support::Setup;

/// Returns the scope that the argument `scope` names.
fn scope_of(input: &Value) -> StateScope {
    match input["scope"].as_str() {
        Some("workspace") => StateScope::Workspace,
        Some("person") => StateScope::Person,
        _ => StateScope::Session,
    }
}

/// A tool that declares the state `notes` and adds `text` under `key`.
fn note() -> MockTool {
    MockTool::named("note").with_effects(EffectKinds::STATE, |_| Effects::state("notes")).answering(
        |cx, input| async move {
            let key = input["key"].as_str().unwrap_or("notes");
            let all = cx.state().update(scope_of(&input), key, |old| {
                let mut all = old.unwrap_or(json!([]));
                if let Some(list) = all.as_array_mut() {
                    list.push(input["text"].clone());
                }
                Ok(Some(all))
            })?;
            Ok(Output::text(all.unwrap_or_default().to_string()))
        },
    )
}

#[tokio::test]
async fn each_scope_has_its_own_value() {
    let setup = Setup::of([note()]);
    for (scope, in_first, in_second) in [
        ("session", r#"["a","b"]"#, r#"["a"]"#),
        ("workspace", r#"["a","b"]"#, r#"["a","b","a"]"#),
        ("person", r#"["a","b"]"#, r#"["a","b","a"]"#),
    ] {
        setup.call("note", json!({"scope": scope, "text": "a"})).await;
        let result = setup.call("note", json!({"scope": scope, "text": "b"})).await;
        assert_eq!(result.output.to_text(), in_first, "{scope}");
        let call = ToolCall::new("note", json!({"scope": scope, "text": "a"}));
        let result = setup.engine.call(&setup.engine.new_session(), call).await;
        assert_eq!(result.output.to_text(), in_second, "{scope}");
    }
}

#[tokio::test]
async fn undeclared_key_cannot_be_used() {
    let setup = Setup::of([note()]);
    let result = setup.call("note", json!({"key": "todo", "text": "a"})).await;
    assert_eq!((result.outcome, result.code), (Outcome::Fault, Some("undeclared_effect")));
}

#[tokio::test]
async fn value_is_bounded_and_holds_no_secret() {
    let store = Arc::new(MemoryState::default());
    let setup = Setup::with([note()], |builder| {
        builder.state_store(store.clone()).secrets(Secrets::new([("PIN", "0451-0451")]))
    });
    setup.call("note", json!({"scope": "person", "text": "it is 0451-0451"})).await;
    let kept = store.get(&StateOwner::Person, "notes").expect("it is there").expect("one");
    assert_eq!(kept.value, json!(["it is [secret PIN]"]));
    let long = "x".repeat(StateDoor::MAX_BYTES);
    let result = setup.call("note", json!({"scope": "person", "text": long})).await;
    assert_eq!(result.outcome, Outcome::Error);
    assert_eq!(store.get(&StateOwner::Person, "notes").expect("it is there"), Some(kept));
}

#[tokio::test]
async fn changed_value_is_recorded_and_published() {
    let mut setup = Setup::of([note()]);
    let result = setup.call("note", json!({"text": "a"})).await;
    let records = setup.journal.records();
    let body = records.iter().find(|record| record.kind == RecordKind::State).expect("a record");
    let body: Value = serde_json::from_str(&body.body).expect("JSON");
    assert_eq!((&body["key"], &body["value"]), (&json!("notes"), &json!(["a"])));
    assert_eq!(body["call"], result.call.as_str());
    let names: Vec<&str> = setup.told().await.iter().map(|event| event.kind.name()).collect();
    assert_eq!(names, ["started", "state", "finished"]);
}
