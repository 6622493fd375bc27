//! `AgentCTL`: the function that confirms a call, and its policy of prefixes and patterns.

use serde_json::json;
use windlass::people::{Answer, ApprovalRequest};
use windlass::session::SessionId;
use windlass::tool::{Overrides, Predicate};
use windlass::{Mode, Outcome};

use super::{Ground, Says, call, session};
use crate::support::text;

/// The seed calls a refusal no error; with us it is an outcome of its own, and the model is told.
#[tokio::test]
async fn agentctl_confirm_function_is_asked_about_what_changes_something() {
    let ground = Ground::new();
    ground.put("work/a", "x\n");
    let person = Says::new(Answer::deny("user declined this action"));
    let windlass = ground.open(person.clone());
    let session = session("s");
    for (tool, input) in [
        ("read", json!({"path": "a"})),
        ("list", json!({})),
        ("grep", json!({"pattern": "x"})),
        ("glob", json!({"pattern": "*"})),
        ("git", json!({"command": "status"})),
    ] {
        call(&windlass, &session, tool, input).await;
        assert_eq!(person.count(), 0, "{tool} only looks");
    }
    for (at, (tool, input)) in [
        ("write", json!({"path": "b", "content": ""})),
        ("edit", json!({"path": "a", "old_string": "x", "new_string": "y"})),
        ("bash", json!({"command": "touch b"})),
    ]
    .into_iter()
    .enumerate()
    {
        let result = call(&windlass, &session, tool, input).await;
        assert_eq!((result.outcome, person.count()), (Outcome::Denied, at + 1), "{tool}");
        assert!(result.output.is_error && text(&result).contains("user declined this action"));
    }
    assert!(!ground.path("work/b").exists());
}

/// A confirm function that fails is a refusal, and the next call is not harmed by it.
#[tokio::test]
async fn agentctl_a_confirm_function_that_fails_confirms_nothing() {
    let ground = Ground::new();
    let windlass = ground.open(|request: &ApprovalRequest| {
        assert!(request.input["path"] != "a", "the dialog broke");
        true
    });
    let write = |path: &str| json!({"path": path, "content": "x\n"});
    let broken = call(&windlass, &session("s"), "write", write("a")).await;
    assert_ne!(broken.outcome, Outcome::Ok);
    assert!(!ground.path("work/a").exists());
    assert!(windlass.engine().approvals().await.unwrap().is_empty(), "no question stays open");
    assert_eq!(call(&windlass, &session("s"), "write", write("b")).await.outcome, Outcome::Ok);
}

/// 3A-5: prefixes were compared as texts, only one place of a call was looked at, and an escape in JSON evaded a pattern.
#[tokio::test]
async fn agentctl_3a_5_rules_are_about_places_and_programs() {
    let ground = Ground::new();
    for name in ["work/src/a", "work/srcother/a", "work/kept"] {
        ground.put(name, "x\n");
    }
    let builder = ground.builder("work").allow("write src/**".parse().unwrap());
    let windlass = builder.deny("exec rm".parse().unwrap()).build().unwrap();
    let session = session("s");
    let edit = |path: &str| json!({"path": path, "old_string": "x", "new_string": "y"});
    for (path, outcome) in [
        ("src/a", Outcome::Ok),
        ("srcother/a", Outcome::Denied),
        ("src/../srcother/a", Outcome::Denied),
    ] {
        let result = call(&windlass, &session, "edit", edit(path)).await;
        assert_eq!(result.outcome, outcome, "{path}: {}", text(&result));
    }
    // Of a change of several files, each is looked at.
    let patch =
        "*** Begin Patch\n*** Add File: src/new\n+x\n*** Add File: elsewhere\n+x\n*** End Patch\n";
    let result = call(&windlass, &session, "patch", json!({"patch": patch})).await;
    assert_eq!(result.outcome, Outcome::Denied, "{}", text(&result));
    assert!(!ground.path("work/src/new").exists());
    let input = serde_json::from_str(r#"{"command": "\u0072m kept"}"#).unwrap();
    assert_eq!(call(&windlass, &session, "bash", input).await.outcome, Outcome::Denied);
    assert!(ground.path("work/kept").exists());
}

/// 3A-6: what was delegated was not confirmed.
#[tokio::test]
async fn agentctl_3a_6_a_sub_agent_cannot_launder_a_call() {
    let ground = Ground::new();
    let person = Says::new(Answer::deny("no"));
    let builder = ground.builder("work").attendant(person.clone());
    let windlass = builder.deny("exec rm".parse().unwrap()).build().unwrap();
    let depths = Overrides::default();
    let child = session("s").child(SessionId::new("c"), Predicate::All, &depths);
    let grandchild = child.child(SessionId::new("g"), Predicate::All, &depths).into();
    for (tool, input, asked) in [
        ("bash", json!({"command": "touch a"}), 1),
        ("write", json!({"path": "a", "content": ""}), 2),
    ] {
        let result = call(&windlass, &grandchild, tool, input).await;
        assert_eq!((result.outcome, person.count()), (Outcome::Denied, asked), "{tool}");
    }
    assert_eq!(person.last().asker.depth, 2);
    let removed = call(&windlass, &grandchild, "bash", json!({"command": "rm a"})).await;
    assert_eq!(removed.outcome, Outcome::Denied);
    // The mode is everybody's, too.
    let strict = ground.builder("work").mode(Mode::Deny).build().unwrap();
    assert_eq!(call(&strict, &grandchild, "list", json!({})).await.outcome, Outcome::Denied);
}
