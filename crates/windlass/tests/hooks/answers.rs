//! Answers of hook programs, in the formats of Windlass and of other systems.

use serde_json::{Value, json};
use windlass::hooks::HookShape;
use windlass::tool::Author;
use windlass::{Mode, Outcome};

use super::{hooks, test_workspace, workspace_with};
use crate::support::text;

/// Calls `write` with a hook of this shape that prints this answer.
async fn check(shape: HookShape, event: &str, answer: Value, outcome: Outcome, said: &str) {
    let file = match shape {
        HookShape::Claude => json!({"hooks": {event: [{"hooks": [
            {"type": "command", "command": format!("cat <<'E'\n{answer}\nE\n")}]}]}}),
        _ => json!({"hooks": [{"event": event, "command": format!("cat <<'E'\n{answer}\nE\n")}]}),
    };
    let test = test_workspace(hooks(shape, Author::Person, &file.to_string()));
    let result = test.call("write", json!({"path": "n.txt", "content": "one\n"})).await;
    assert_eq!(result.outcome, outcome, "{answer}: {}", text(&result));
    assert!(text(&result).contains(said), "{answer}: {}", text(&result));
}

#[tokio::test]
async fn answers_in_our_format() {
    use HookShape::Windlass;
    use Outcome::{Denied, Error, Ok};
    check(Windlass, "pre_tool", json!({"decision": "deny", "reason": "no"}), Denied, "says no: no")
        .await;
    check(
        Windlass,
        "pre_tool",
        json!({"decision": "ask", "reason": "late"}),
        Denied,
        "(late)): no person is available",
    )
    .await;
    check(
        Windlass,
        "pre_tool",
        json!({"decision": "stop", "reason": "enough"}),
        Denied,
        "ended the session: enough",
    )
    .await;
    check(
        Windlass,
        "pre_tool",
        json!({"input": {"path": "n.txt", "content": "two\n"}}),
        Ok,
        "n.txt",
    )
    .await;
    check(Windlass, "pre_tool", json!({"context": "use spaces"}), Ok, "says: use spaces]").await;
    check(Windlass, "pre_tool", json!({"output": "x"}), Denied, "there is none").await;
    check(Windlass, "post_tool", json!({"output": "hidden"}), Ok, "hidden").await;
    check(
        Windlass,
        "post_tool",
        json!({"output": {"content": "bad", "is_error": true}}),
        Error,
        "bad",
    )
    .await;
    check(
        Windlass,
        "post_tool",
        json!({"decision": "deny", "reason": "format it"}),
        Error,
        "says: format it]",
    )
    .await;
}

#[tokio::test]
async fn answers_in_the_format_of_claude_code() {
    use HookShape::Claude;
    use Outcome::{Denied, Ok};
    let specific = |fields: Value| json!({"hookSpecificOutput": fields});
    for (answer, outcome, said) in [
        (
            specific(
                json!({"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}),
            ),
            Denied,
            "says no: no",
        ),
        (
            specific(json!({"permissionDecision": "ask", "permissionDecisionReason": "sure?"})),
            Denied,
            "(sure?)",
        ),
        (
            specific(
                json!({"permissionDecision": "allow", "updatedInput": {"file_path": "m.txt", "content": "x"}}),
            ),
            Ok,
            "m.txt",
        ),
        (specific(json!({"additionalContext": "be careful"})), Ok, "says: be careful]"),
        (json!({"decision": "block", "reason": "old style"}), Denied, "old style"),
        (json!({"continue": false, "stopReason": "over"}), Denied, "ended the session: over"),
        (json!({"continue": true, "suppressOutput": true, "systemMessage": "hi"}), Ok, "n.txt"),
    ] {
        check(Claude, "PreToolUse", answer, outcome, said).await;
    }
    check(
        Claude,
        "PostToolUse",
        specific(json!({"additionalContext": "run the tests"})),
        Ok,
        "says: run the tests]",
    )
    .await;
    check(Claude, "PreToolUse", json!("a word"), Ok, "n.txt").await;
}

#[tokio::test]
async fn permission_requests_of_claude_code() {
    for (decision, outcome) in [
        (json!({"behavior": "allow"}), Outcome::Ok),
        (json!({"behavior": "deny", "message": "no"}), Outcome::Denied),
        (json!({}), Outcome::Denied),
    ] {
        let answer = json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}});
        let file = json!({"hooks": {"PermissionRequest": [{"matcher": "Write", "hooks": [
            {"type": "command", "command": format!("echo '{answer}'")}]}]}});
        let hooks = hooks(HookShape::Claude, Author::Person, &file.to_string());
        let test = workspace_with(hooks, |builder| builder.mode(Mode::Ask));
        let result = test.call("write", json!({"path": "n.txt", "content": "x"})).await;
        assert_eq!(result.outcome, outcome, "{answer}: {}", text(&result));
    }
}

/// Hooks for Claude Code expect its tool and argument names, and must find every file that a call touches.
#[tokio::test]
async fn scripts_of_claude_code_find_tool_names_and_files() {
    let guard = r#"tool=$(cat); case "$tool" in *'"tool_name":"Edit"'*'"file_path":"'*'/src/'*) echo "not in src" >&2; exit 2;; esac"#;
    let file = json!({"hooks": {"PreToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": guard}]}]}});
    let test = test_workspace(hooks(HookShape::Claude, Author::Workspace, &file.to_string()));
    let edit = json!({"path": "src/b.rs", "old_string": "b", "new_string": "c"});
    assert!(test.call_refused("edit", edit).await.ends_with("not in src"));
    test.call_ok("edit", json!({"path": "a.txt", "old_string": "alpha", "new_string": "beta"}))
        .await;
    let patch = "*** Begin Patch\n*** Update File: a.txt\n-beta\n+gamma\n*** Update File: src/b.rs\n-fn b() {}\n+fn c() {}\n*** End Patch\n";
    assert!(test.call_refused("patch", json!({"patch": patch})).await.ends_with("not in src"));
}
