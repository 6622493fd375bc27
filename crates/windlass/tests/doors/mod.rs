//! The doors of a context with the real store behind them.

use std::path::Path;

use serde_json::json;
use windlass::effect::Effect;
use windlass::journal::StoredKind;
use windlass::state::{Document, StateScope};
use windlass::testing::MockTool;
use windlass::{EffectKinds, Effects, Mode, Outcome, Output, ToolCall, Windlass};

fn net(host: &str) -> Effect {
    Effect::Net { origin: format!("https://{host}:443"), method: "GET".into() }
}

fn open(folder: &Path) -> Windlass {
    let remember = MockTool::named("remember")
        .with_effects(EffectKinds::STATE, |_| {
            Effects::state("memory").and(Effect::State("index:notes".into()))
        })
        .answering(|cx, input| async move {
            let text = input["text"].as_str().unwrap_or_default().to_owned();
            let all = cx.state().update(StateScope::Workspace, "memory", |old| {
                Ok(Some(json!(old.and_then(|old| old.as_u64()).unwrap_or(0) + 1)))
            })?;
            let id = all.clone().unwrap_or_default().to_string();
            let note = Document { id, fingerprint: String::new(), title: String::new(), text };
            let index = cx.index("notes")?;
            index.put(&[note])?;
            Ok(Output::text(format!(
                "{} {}",
                all.unwrap_or_default(),
                index.search("anchor", 9)?.len()
            )))
        });
    let wander = MockTool::named("wander")
        .with_effects(EffectKinds::NET, |_| net("a").into())
        .answering(|cx, _| async move {
            cx.extend(net("b")).await?;
            Ok(Output::text("there"))
        });
    std::fs::create_dir_all(folder.join("work")).unwrap();
    Windlass::builder(folder.join("work"))
        .state(folder.join("state"))
        .mode(Mode::Auto)
        .tool(remember)
        .tool(wander)
        .build()
        .unwrap()
}

#[tokio::test]
async fn state_and_index_outlast_the_process() {
    let folder = tempfile::tempdir().unwrap();
    for (text, expected) in [("an anchor", "1 1"), ("a chain", "2 1"), ("two anchors", "3 2")] {
        let windlass = open(folder.path());
        let call = ToolCall::new("remember", json!({"text": text}));
        let result = windlass.call(&windlass.new_session(), call).await;
        assert_eq!(result.output.to_text(), expected, "{text}");
    }
}

#[tokio::test]
async fn decision_about_a_running_call_is_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let windlass = open(folder.path());
    let result = windlass.call(&windlass.new_session(), ToolCall::new("wander", json!({}))).await;
    assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
    let store = windlass.store().unwrap();
    let rows = store.records(None, 0, 10).unwrap();
    let kinds: Vec<StoredKind> = rows
        .iter()
        .map(|row| row.kind)
        .filter(|kind| *kind != StoredKind::SessionStarted)
        .collect();
    assert_eq!(kinds, [StoredKind::Started, StoredKind::Extended, StoredKind::Finished]);
    assert!(store.verify().is_ok(), "the chain is whole");
}
