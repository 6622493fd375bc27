//! Behaviours of Hector. Its command tool streams output, can be stopped, and has lists of allowed commands; its file tools stay in their
//! directory and leave no other files. An id such as 3B-3 names one of its weaknesses, which Windlass must not have.

use serde_json::json;
use windlass::event::EventKind;
use windlass::{Mode, Outcome, ToolCall};

use crate::support::{TestWorkspace, text};

#[tokio::test]
async fn hector_cancelled_command_returns_its_output_so_far() {
    let test = TestWorkspace::new();
    let mut events = test.windlass.subscribe();
    let call =
        ToolCall::new("bash", json!({"command": "echo begun; sleep 999 & sleep 999; touch late"}));
    let (id, running) = test.windlass.engine().start(&test.session, call);
    let running = tokio::spawn(running);
    while !matches!(events.next().await.kind, EventKind::Output { .. }) {}
    assert!(test.windlass.cancel(&id));
    let result = running.await.unwrap();
    assert_eq!(result.outcome, Outcome::Cancelled);
    assert!(text(&result).starts_with("begun\n"), "{}", text(&result));
    assert!(!test.windlass.cancel(&id), "it is known no more");
    assert!(!test.path("late").exists());
    test.call_ok("bash", json!({"command": "true"})).await;
}

/// Hector checks only the first word of the first command.
#[tokio::test]
async fn hector_denied_command_is_found_behind_others() {
    for command in [
        "ls; rm -r kept",
        "ls && rm kept",
        "echo $(rm kept)",
        "echo `rm kept`",
        "ls\nrm kept",
        "env rm kept",
        "/bin/rm kept",
        "FOO=1 rm kept",
        "bash -c 'rm kept'",
        "find . -name kept -delete",
        "rm -r -f kept",
    ] {
        let test = TestWorkspace::with_builder(&[("kept", "1\n")], |builder| {
            builder.mode(Mode::Auto).deny("exec rm".parse().expect("a rule"))
        });
        test.call_refused("bash", json!({"command": command})).await;
    }
}

/// There, an argument overrides the configured directory without a check.
#[tokio::test]
async fn hector_working_directory_does_not_lead_out() {
    let test = TestWorkspace::with_builder(&[("d/x", "")], |builder| builder.mode(Mode::Auto));
    assert_eq!(text(&test.call_ok("bash", json!({"command": "ls", "cwd": "d"})).await), "x\n");
    for cwd in ["..", "/etc", "d/../..", "nowhere", "d/x"] {
        test.call_refused("bash", json!({"command": "ls", "cwd": cwd})).await;
    }
}

/// Its allow list checks only the first word, too: after `;` any command runs.
#[tokio::test]
async fn hector_allowed_command_does_not_allow_others() {
    for command in ["ls; touch new", "ls && touch new", "ls $(touch new)", "ls\ntouch new"] {
        let test = TestWorkspace::with_builder(&[], |builder| {
            builder.mode(Mode::Ask).allow("exec ls".parse().expect("a rule"))
        });
        test.call_refused("bash", json!({"command": command})).await;
    }
}

/// Lists in its configuration name commands; ours name tools, too.
#[tokio::test]
async fn hector_lists_bind_a_command_tool() {
    let tools = tempfile::tempdir().unwrap();
    let file = "---\nname: lister\ncommand: ls; touch new\n---\nLists.\n";
    std::fs::write(tools.path().join("lister.md"), file).unwrap();
    let rule = |text: &str| text.parse::<windlass::Rule>().expect("a rule");
    for (mode, allowed, denied, outcome) in [
        (Mode::Ask, None, None, Outcome::Denied),
        (Mode::Ask, Some("tool lister"), None, Outcome::Ok),
        (Mode::Deny, Some("tool lister"), None, Outcome::Ok),
        (Mode::Ask, Some("exec ls"), None, Outcome::Denied),
        (Mode::Ask, Some("tool lister"), Some("tool lister"), Outcome::Denied),
        (Mode::Yolo, None, Some("exec touch"), Outcome::Denied),
        (Mode::Yolo, None, Some("write new"), Outcome::Denied),
    ] {
        let test = TestWorkspace::with_builder(&[], |builder| {
            let builder = builder.mode(mode).command_tools(tools.path());
            let builder = allowed.into_iter().fold(builder, |b, text| b.allow(rule(text)));
            denied.into_iter().fold(builder, |b, text| b.deny(rule(text)))
        });
        let result = test.call("lister", json!({})).await;
        assert_eq!(result.outcome, outcome, "{mode} {allowed:?} {denied:?}: {}", text(&result));
        assert_eq!(test.path("new").exists(), outcome == Outcome::Ok);
    }
}

/// 3B-3, 3B-4: a path was checked as text, or not at all.
#[tokio::test]
async fn hector_3b_3_3b_4_no_spelling_of_a_path_leads_out() {
    let test = TestWorkspace::outside_tmp(&[("sub/", ""), ("a..b", "one\n")], |builder| {
        builder.mode(Mode::Auto)
    });
    let outside = test.parent_directory().join("workother");
    std::fs::create_dir(&outside).expect("a folder");
    std::fs::write(outside.join("file"), "one\n").expect("a file");
    std::os::unix::fs::symlink(&outside, test.path("link")).expect("a link");
    std::os::unix::fs::symlink(outside.join("file"), test.path("sub/file")).expect("a link");
    let absolute = outside.join("file");
    let absolute = absolute.to_str().expect("UTF-8");
    for path in ["../workother/file", "sub/../../workother/file", "link/file", "sub/file", absolute]
    {
        let patch = format!("*** Begin Patch\n*** Update File: {path}\n-one\n+two\n*** End Patch");
        for (tool, input) in [
            ("write", json!({"path": path, "content": "two\n"})),
            ("write", json!({"path": path, "content": "two\n", "mode": "append"})),
            ("edit", json!({"path": path, "old_string": "one", "new_string": "two"})),
            ("patch", json!({"patch": patch})),
        ] {
            let said = test.call_refused(tool, input).await;
            assert!(said.starts_with("not allowed"), "{tool} {path}: {said}");
        }
    }
    test.call_refused("write", json!({"path": "link/new", "content": "x"})).await;
    assert_eq!(std::fs::read_dir(&outside).expect("a folder").count(), 1);
    assert_eq!(std::fs::read(outside.join("file")).expect("a file"), b"one\n");
    // Two dots within a name are part of the name.
    test.call_ok("edit", json!({"path": "a..b", "old_string": "one", "new_string": "two"})).await;
}

/// 3B-13: by default, the context lines of a patch were not checked.
#[tokio::test]
async fn hector_3b_13_context_of_a_patch_is_checked() {
    let test = TestWorkspace::with(&[("a", "one\ntwo\nthree\n")]);
    let patch = |context: &str| json!({"patch": format!("--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n {context}\n-two\n+2\n three\n")});
    let said = test.call_refused("patch", patch("other")).await;
    assert!(said.contains("does not apply"), "{said}");
    test.call_ok("patch", patch("one")).await;
    assert_eq!(test.text("a"), "one\n2\nthree\n");
}

/// 3B-15: every change left a `.bak` that other users could read, and overwrote the one before.
#[tokio::test]
async fn hector_3b_15_change_leaves_no_backup_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let test = TestWorkspace::with(&[("a", "one\n")]);
    let permissions = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(test.path("a"), permissions).expect("permissions");
    for (old, new) in [("one", "two"), ("two", "three")] {
        test.call_ok("edit", json!({"path": "a", "old_string": old, "new_string": new})).await;
    }
    assert_eq!(test.tree().files(), [std::path::PathBuf::from("a")]);
    for entry in std::fs::read_dir(test.state()).expect("the state") {
        let path = entry.expect("an entry").path();
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "others could read {}", path.display());
    }
    for expected in ["two\n", "one\n"] {
        test.call_ok("undo", json!({})).await;
        assert_eq!(test.text("a"), expected, "each step is kept");
    }
}
