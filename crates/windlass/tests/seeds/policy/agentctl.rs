//! `AgentCTL`: the function that confirms a call, and its policy of prefixes and patterns.

use serde_json::json;
use windlass::people::{Answer, ApprovalRequest};
use windlass::session::SessionId;
use windlass::tool::{Overrides, Predicate};
use windlass::{Mode, Outcome};

use super::{RecordingAttendant, TestDirectories, call, session};
use crate::support::text;

/// `AgentCTL` reports a refusal as success; here it is an outcome of its own that the model sees.
#[tokio::test]
async fn agentctl_confirm_function_is_called_for_changes() {
    let directories = TestDirectories::new();
    directories.put("work/a", "x\n");
    let person = RecordingAttendant::new(Answer::deny("user declined this action"));
    let windlass = directories.open(person.clone());
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
    assert!(!directories.path("work/b").exists());
}

/// A failing confirm function is a refusal, and does not affect the next call.
#[tokio::test]
async fn agentctl_failing_confirm_function_is_a_refusal() {
    let directories = TestDirectories::new();
    let windlass = directories.open(|request: &ApprovalRequest| {
        assert!(request.input["path"] != "a", "the dialog broke");
        true
    });
    let write = |path: &str| json!({"path": path, "content": "x\n"});
    let broken = call(&windlass, &session("s"), "write", write("a")).await;
    assert_ne!(broken.outcome, Outcome::Ok);
    assert!(!directories.path("work/a").exists());
    assert!(windlass.engine().approvals().await.unwrap().is_empty(), "no question stays open");
    assert_eq!(call(&windlass, &session("s"), "write", write("b")).await.outcome, Outcome::Ok);
}

/// 3A-5: prefixes were compared as texts, only one path of a call was checked, and an escape in JSON evaded a pattern.
#[tokio::test]
async fn agentctl_3a_5_rules_apply_to_paths_and_programs() {
    let directories = TestDirectories::new();
    for name in ["work/src/a", "work/srcother/a", "work/kept"] {
        directories.put(name, "x\n");
    }
    let builder = directories.builder("work").allow("write src/**".parse().unwrap());
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
    // Each file of a change is checked.
    let patch =
        "*** Begin Patch\n*** Add File: src/new\n+x\n*** Add File: elsewhere\n+x\n*** End Patch\n";
    let result = call(&windlass, &session, "patch", json!({"patch": patch})).await;
    assert_eq!(result.outcome, Outcome::Denied, "{}", text(&result));
    assert!(!directories.path("work/src/new").exists());
    let input = serde_json::from_str(r#"{"command": "\u0072m kept"}"#).unwrap();
    assert_eq!(call(&windlass, &session, "bash", input).await.outcome, Outcome::Denied);
    assert!(directories.path("work/kept").exists());
}

/// 3A-6: calls of a sub-agent were not confirmed.
#[tokio::test]
async fn agentctl_3a_6_sub_agents_call_needs_the_same_approval() {
    let directories = TestDirectories::new();
    let person = RecordingAttendant::new(Answer::deny("no"));
    let builder = directories.builder("work").attendant(person.clone());
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
    // The mode binds sub-agents, too.
    let strict = directories.builder("work").mode(Mode::Deny).build().unwrap();
    assert_eq!(call(&strict, &grandchild, "list", json!({})).await.outcome, Outcome::Denied);
}
