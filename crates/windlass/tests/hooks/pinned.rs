//! Pinned scripts: a hook script of a workspace runs only with the content that a person trusted.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use windlass::Outcome;
use windlass::hooks::{HookDefinition, HookShape, Pin, named_files};
use windlass::host::{Host as _, LocalHost};
use windlass::tool::Author;

use super::hooks;
use crate::support::{TestWorkspace, text};

/// Creates a workspace with the hook script `check.sh` at `event`, trusted with its present content.
fn test_workspace(event: &str, script: &str) -> TestWorkspace {
    let folder = TestWorkspace::with(&[]);
    let workspace = folder.workspace();
    std::fs::write(workspace.join("check.sh"), script).unwrap();
    executable(&workspace.join("check.sh"));
    std::fs::write(workspace.join("a.txt"), "alpha\n").unwrap();
    let file = json!({"hooks": [{"event": event, "command": ["./check.sh"], "name": "check"}]});
    let mut hooks = hooks(HookShape::Windlass, Author::Workspace, &file.to_string());
    pin(&mut hooks, &workspace);
    folder.reopen_with(|builder| builder.hooks(hooks))
}

/// Pins the files that the hooks name, with their present content.
fn pin(hooks: &mut [HookDefinition], workspace: &std::path::Path) {
    let host = LocalHost::open(workspace).unwrap();
    for hook in hooks {
        let named = named_files(&hook.command, workspace);
        hook.pins = named.iter().map(|path| Pin::take(host.files(), path).unwrap().0).collect();
    }
}

fn executable(path: &std::path::Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

const FINE: &str = "#!/bin/sh\nexit 0\n";

#[tokio::test]
async fn changed_script_of_a_gate_is_not_run_and_the_call_is_denied() {
    let test = test_workspace("pre_tool", FINE);
    let read = || test.call("read", json!({"path": "a.txt"}));
    assert_eq!(read().await.outcome, Outcome::Ok);
    test.put("check.sh", "#!/bin/sh\necho '{\"context\": \"swapped\"}'\n");
    let result = read().await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(text(&result).contains("check.sh is not what was trusted"), "{}", text(&result));
    std::fs::remove_file(test.path("check.sh")).unwrap();
    assert_eq!(read().await.outcome, Outcome::Denied, "gone");
    let outside = test.parent_directory().join("elsewhere.sh");
    std::fs::write(&outside, FINE).unwrap();
    executable(&outside);
    std::os::unix::fs::symlink(&outside, test.path("check.sh")).unwrap();
    let result = read().await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(text(&result).contains("leads out of the workspace"), "{}", text(&result));
    std::fs::remove_file(test.path("check.sh")).unwrap();
    test.put("check.sh", FINE);
    executable(&test.path("check.sh"));
    assert_eq!(read().await.outcome, Outcome::Ok, "as it was");
}

#[tokio::test]
async fn model_cannot_create_a_missing_hook_script() {
    let folder = TestWorkspace::with(&[("a.txt", "alpha\n")]);
    let workspace = folder.workspace();
    let file = json!({"hooks": [{"event": "pre_tool", "command": "test -e late.sh && sh late.sh; exit 0"}]});
    let mut hooks = hooks(HookShape::Windlass, Author::Workspace, &file.to_string());
    pin(&mut hooks, &workspace);
    let test = folder.reopen_with(|builder| builder.hooks(hooks));
    test.call_ok("write", json!({"path": "late.sh", "content": "echo '{}'\n"})).await;
    let said = test.call_refused("read", json!({"path": "a.txt"})).await;
    assert!(said.contains("late.sh is not what was trusted"), "{said}");
}

#[tokio::test]
async fn changed_script_of_an_observer_is_not_run_and_blocks_nothing() {
    let test = test_workspace("post_tool", FINE);
    test.put("check.sh", "#!/bin/sh\necho '{\"output\": \"swapped\"}'\n");
    let result = test.call_ok("read", json!({"path": "a.txt"})).await;
    assert!(text(&result).contains("alpha"), "{}", text(&result));
}

/// The answer of a script that changes while it runs does not count.
#[tokio::test]
async fn answer_of_a_script_that_changes_while_it_runs_does_not_count() {
    let test =
        test_workspace("pre_tool", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.01; done\nexit 0\n");
    let call = test.call("read", json!({"path": "a.txt"}));
    let swap = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        test.put("other.sh", "#!/bin/sh\n");
        std::fs::rename(test.path("other.sh"), test.path("check.sh")).unwrap();
        test.put("go", "");
    };
    let (result, ()) = tokio::join!(call, swap);
    assert_eq!(result.outcome, Outcome::Denied, "{}", text(&result));
}
