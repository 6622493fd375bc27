//! Lookup of tools: the tools that a session is offered are those that it can call.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    EffectKinds, Effects, Engine, Outcome, Overrides, Predicate, Role, Session, SessionId,
};

use crate::support::{Setup, call, says};

/// Makes a session without limits.
fn session(id: &str) -> Session {
    Session::new(SessionId::new(id))
}

/// Returns the names of the tools that a session is offered.
async fn listed(engine: &Engine, session: &Arc<Session>) -> Vec<String> {
    engine.tools(session).await.into_iter().map(|spec| spec.name.into_owned()).collect()
}

#[tokio::test]
async fn unknown_tool_is_a_fault_that_names_the_nearest_tool() {
    let setup = Setup::of(["read", "write", "todo"].map(MockTool::named));
    let long = "x".repeat(10_000);
    for (name, text) in [
        ("raed", "there is no tool `raed`\ndid you mean `read`?"),
        ("read_file", "there is no tool `read_file`\ndid you mean `read`?"),
        ("Write", "there is no tool `Write`\ndid you mean `write`?"),
        ("xyzzy", "there is no tool `xyzzy`\nthe tools are: read, write, todo"),
        ("", "there is no tool ``\nthe tools are: read, write, todo"),
        ("\u{1b}[2J", "there is no tool `\\x1b[2J`\nthe tools are: read, write, todo"),
        (
            &long,
            &format!("there is no tool `{}`\nthe tools are: read, write, todo", "x".repeat(80)),
        ),
    ] {
        let result = setup.call(name, json!({})).await;
        assert_eq!(result.outcome, Outcome::Fault, "{name}");
        assert_eq!(result.code, Some("unknown_tool"), "{name}");
        assert_eq!(result.output.to_text(), text);
        assert_eq!(result.tool, name);
    }
}

#[tokio::test]
async fn unknown_tool_without_any_tools_says_so() {
    let setup = Setup::of::<MockTool>([]);
    let result = setup.call("read", json!({})).await;
    assert_eq!(result.output.to_text(), "there is no tool `read`\nno tools are offered here");
}

fn tools_of_all_kinds() -> [MockTool; 5] {
    let of = |name, kinds| says(name, "ran").with_effects(kinds, |_| Effects::none());
    [
        of("read", EffectKinds::READ),
        of("fetch", EffectKinds::NET),
        of("todo", EffectKinds::STATE),
        of("bash", EffectKinds::EXEC),
        of("write", EffectKinds::READ | EffectKinds::WRITE),
    ]
}

/// Names of [`tools_of_all_kinds`].
const ALL_TOOLS: [&str; 5] = ["read", "fetch", "todo", "bash", "write"];

/// Checks that a session with this predicate is offered these tools, and can call exactly these.
async fn check(predicate: Predicate, admitted: &[&str]) {
    let named = format!("{predicate:?}");
    let setup = Setup::of(tools_of_all_kinds()).in_session(session("s").narrow(predicate));
    assert_eq!(listed(&setup.engine, &setup.session).await, admitted, "{named}");
    for name in ALL_TOOLS {
        let result = setup.call(name, json!({})).await;
        if admitted.contains(&name) {
            assert_eq!(result.output.to_text(), "ran", "{named}: {name}");
        } else {
            assert_eq!(result.code, Some("unknown_tool"), "{named}: {name}");
            let hint = result.output.to_text();
            let hint = hint.lines().nth(1).expect("a hint");
            assert!(!hint.contains(name), "{named}: {hint}");
        }
    }
}

#[tokio::test]
async fn predicate_binds_listing_and_calls_alike() {
    check(Predicate::All, &ALL_TOOLS).await;
    check(Predicate::None, &[]).await;
    check(Predicate::allow(["read", "nothing"]), &["read"]).await;
    check(Predicate::allow([""; 0]), &[]).await;
    check(Predicate::deny(["bash"]), &["read", "fetch", "todo", "write"]).await;
    check(Predicate::Within(EffectKinds::READ), &["read"]).await;
    check(Predicate::allow(["read", "bash"]).and(Predicate::deny(["bash"])), &["read"]).await;
    check(Predicate::allow(["todo"]).or(Predicate::Within(EffectKinds::NET)), &["fetch", "todo"])
        .await;
    check(Predicate::by(|name, _, session| session.id().as_str() == "s" && name < "f"), &["bash"])
        .await;
}

#[tokio::test]
async fn roles_limit_the_kinds_of_tools() {
    check(Role::Explorer.predicate(), &["read", "fetch", "todo"]).await;
    check(Role::Planner.predicate(), &["read", "fetch", "todo", "bash"]).await;
    check(Role::Coder.predicate(), &ALL_TOOLS).await;
}

/// Generates predicates.
fn predicates() -> impl Strategy<Value = Predicate> {
    let leaf = prop_oneof![
        Just(Predicate::All),
        Just(Predicate::None),
        proptest::sample::subsequence(ALL_TOOLS.to_vec(), 0..ALL_TOOLS.len())
            .prop_map(Predicate::allow),
        Just(Role::Explorer.predicate()),
        Just(Role::Planner.predicate()),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.and(b)),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.or(b)),
            inner.prop_map(|a| !a),
        ]
    })
}

proptest! {
    #[test]
    fn child_has_at_most_its_parents_tools(
        parent in predicates(), child in predicates(), grandchild in predicates(),
    ) {
        let parent = session("p").narrow(parent);
        let child = parent.child(SessionId::new("c"), child, &Overrides::default());
        let grandchild = child.child(SessionId::new("g"), grandchild, &Overrides::default());
        for name in ALL_TOOLS {
            let admits = |session: &Session| {
                let kinds = if name == "read" { EffectKinds::READ } else { EffectKinds::EXEC };
                session.predicate().admits(name, kinds, session)
            };
            prop_assert!(admits(&parent) || !admits(&child), "{name}");
            prop_assert!(admits(&child) || !admits(&grandchild), "{name}");
        }
    }
}

#[tokio::test]
async fn child_without_limits_gets_the_tools_of_its_parent() {
    let parent = session("p").narrow(Role::Explorer.predicate());
    let child = parent.child(SessionId::new("c"), Predicate::All, &Overrides::default());
    assert_eq!(child.parent(), Some(parent.id()));
    assert_eq!(child.overrides().depth, Some(1));
    let setup = Setup::of(tools_of_all_kinds()).in_session(child);
    assert_eq!(setup.call("read", json!({})).await.outcome, Outcome::Ok);
    assert_eq!(setup.call("bash", json!({})).await.code, Some("unknown_tool"));
}

#[tokio::test]
async fn cancelled_session_cancels_its_children_and_starts_no_calls() {
    let setup = Setup::of(tools_of_all_kinds());
    let parent = Arc::new(session("p"));
    let child =
        |id| Arc::new(parent.child(SessionId::new(id), Predicate::All, &Overrides::default()));
    let (stopped, sibling) = (child("a"), child("b"));
    stopped.cancel();
    for (session, outcome) in
        [(&stopped, Outcome::Cancelled), (&sibling, Outcome::Ok), (&parent, Outcome::Ok)]
    {
        assert_eq!(setup.engine.call(session, call("write")).await.outcome, outcome);
    }
    parent.cancel();
    let result = setup.engine.call(&sibling, call("write")).await;
    assert_eq!((result.outcome, result.code), (Outcome::Cancelled, Some("cancelled")));
    assert_eq!(setup.recorded().iter().filter(|line| *line == "started write").count(), 2);
}
