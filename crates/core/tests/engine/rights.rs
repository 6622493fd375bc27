//! Rights of sessions and their effect on calls.

use std::sync::Arc;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    ActiveRule, Decision, EffectKinds, Effects, Mode, Outcome, Output, Overrides, Principal,
    Session, SessionId, SessionLimits, ToolCall,
};

use crate::support::{MapHost, Setup, path_of, writes};

/// A tool that reads the file of its argument `path`.
fn reader() -> MockTool {
    MockTool::named("read")
        .with_effects(EffectKinds::READ, |input| Effects::read(path_of(input)))
        .answering(|cx, input| async move {
            cx.files().stat(path_of(&input).as_ref())?;
            Ok(Output::text("read"))
        })
}

/// Limits with one rule that denies.
fn deny(rule: &str) -> SessionLimits {
    let ruling = ActiveRule::new(Decision::Deny, rule.parse().expect("a rule"));
    SessionLimits { rules: vec![ruling], ..SessionLimits::default() }
}

#[tokio::test]
async fn rules_of_a_child_bind_the_child_and_not_its_parent() {
    let setup = Setup::of([writes(MockTool::named("write"))]);
    let id = SessionId::new("child");
    let child = Arc::new(setup.session.child(id, deny("write out"), &Overrides::default()));
    let denied = setup.engine.call(&child, ToolCall::new("write", json!({}))).await;
    assert_eq!(denied.outcome, Outcome::Denied, "{:?}", denied.output);
    assert!(denied.output.to_text().contains("deny write out"));
    assert_eq!(setup.call("write", json!({})).await.outcome, Outcome::Ok);
}

#[tokio::test]
async fn looser_mode_of_a_child_changes_nothing() {
    for (parent, child) in [(Mode::Deny, Mode::Yolo), (Mode::Yolo, Mode::Deny)] {
        let setup = Setup::of([writes(MockTool::named("write"))]);
        let limits = |mode| SessionLimits { mode: Some(mode), ..SessionLimits::default() };
        let id = SessionId::new("parent");
        let parent = setup.session.child(id, limits(parent), &Overrides::default());
        let id = SessionId::new("child");
        let child = Arc::new(parent.child(id, limits(child), &Overrides::default()));
        let result = setup.engine.call(&child, ToolCall::new("write", json!({}))).await;
        assert_eq!(result.outcome, Outcome::Denied);
        assert!(result.output.to_text().contains("mode deny"), "{:?}", result.output);
    }
}

#[tokio::test]
async fn cached_answer_is_not_served_to_another_session() {
    let setup = Setup::on(Arc::new(MapHost::with(["a", "b"])), [reader()], |builder| builder);
    let read = || ToolCall::new("read", json!({"path": "a"}));
    for _ in 0..2 {
        assert_eq!(setup.engine.call(&setup.session, read()).await.outcome, Outcome::Ok);
    }
    let before = setup.engine.cache_stats();
    assert_eq!(before.hits, 1);
    let id = SessionId::new("child");
    let child = Arc::new(setup.session.child(id, deny("read b"), &Overrides::default()));
    let result = setup.engine.call(&child, read()).await;
    assert_eq!(result.outcome, Outcome::Ok);
    assert_eq!(result.output.metadata.get("cached"), None);
    assert_eq!(setup.engine.cache_stats(), before);
}

#[tokio::test]
async fn principal_of_a_call_is_recorded() {
    let token = Principal::Token { name: "ci".into() };
    let session = Session::new(SessionId::new("s")).for_principal(token);
    let setup = Setup::of([writes(MockTool::named("write"))]).in_session(session);
    setup.call("write", json!({})).await;
    setup.call("unknown", json!({})).await;
    let bodies = setup.bodies();
    let expected = json!({"kind": "token", "name": "ci"});
    assert_eq!((&bodies[0]["principal"], &bodies[2]["principal"]), (&expected, &expected));
}
