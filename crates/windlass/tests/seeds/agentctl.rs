//! Behaviours of `AgentCTL`: its undo stack, its preview of a change with a confirmation, its `shell`, `git` and `test_run`. An id such as
//! 3A-2 names one of its weaknesses, which Windlass must not have.

use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass::{Mode, Outcome, ToolCall, Undo, Windlass};

use crate::support::{TestWorkspace, text};

/// `AgentCTL` keeps prior bytes in memory and undoes one write at a time.
#[tokio::test]
async fn agentctl_undo_stack_restores_bytes_or_removes_new_files() {
    let test = TestWorkspace::with(&[("old.txt", "old\n")]);
    test.call_ok("read", json!({"path": "old.txt"})).await;
    test.call_ok("write", json!({"path": "old.txt", "content": "new\n"})).await;
    test.call_ok("write", json!({"path": "created.txt", "content": "created\n"})).await;
    test.call_ok("undo", json!({})).await;
    assert!(!test.path("created.txt").exists());
    // Unlike there, the history survives a restart.
    let test = test.restart();
    test.call_ok("undo", json!({})).await;
    assert_eq!(test.text("old.txt"), "old\n");
    assert_eq!(test.call_refused("undo", json!({})).await, "there is nothing to undo");
}

#[tokio::test]
async fn agentctl_change_is_confirmed_or_not_made() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\n").unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    let windlass = Windlass::builder(folder.path())
        .mode(Mode::Ask)
        .attendant(move |request: &windlass::people::ApprovalRequest| {
            let mut asked = heard.lock().unwrap();
            asked.push(request.input["new_string"].clone());
            asked.len() > 1
        })
        .build()
        .unwrap();
    let session = windlass.new_session();
    for (outcome, content) in [(Outcome::Denied, "one\n"), (Outcome::Ok, "1\n")] {
        let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "1"});
        let result = windlass.call(&session, ToolCall::new("edit", edit)).await;
        assert_eq!(result.outcome, outcome, "{}", text(&result));
        assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), content);
    }
    assert_eq!(*asked.lock().unwrap(), [json!("1"), json!("1")]);
}

/// An approval shows the new content of every file, before any file has changed.
#[tokio::test]
async fn agentctl_diff_is_shown_before_it_is_confirmed() {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let heard = shown.clone();
    let test = TestWorkspace::with_builder(&[("a.txt", "one\n"), ("b.txt", "b\n")], |builder| {
        builder.mode(Mode::Ask).attendant(move |request: &windlass::people::ApprovalRequest| {
            let text = |bytes: &Option<Vec<u8>>| {
                bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            };
            let changes = request.changes.iter().map(|change| {
                let name = change.path.file_name().expect("a name").to_owned();
                (name, text(&change.before), text(&change.after))
            });
            heard.lock().expect("no panic").push(changes.collect::<Vec<_>>());
            false
        })
    });
    let before = test.tree();
    let text = |text: &str| Some(text.to_owned());
    let patch = "*** Begin Patch\n*** Update File: a.txt\n-one\n+1\n*** Delete File: b.txt\n*** Add File: c.txt\n+c\n*** End Patch";
    for (tool, input, expected) in [
        (
            "edit",
            json!({"path": "a.txt", "old_string": "one", "new_string": "1"}),
            vec![("a.txt".into(), text("one\n"), text("1\n"))],
        ),
        (
            "write",
            json!({"path": "c.txt", "content": "c\n"}),
            vec![("c.txt".into(), None, text("c\n"))],
        ),
        (
            "patch",
            json!({"patch": patch}),
            vec![
                ("a.txt".into(), text("one\n"), text("1\n")),
                ("b.txt".into(), text("b\n"), None),
                ("c.txt".into(), None, text("c\n")),
            ],
        ),
    ] {
        assert_eq!(test.call(tool, input).await.outcome, Outcome::Denied, "{tool}");
        let mut shown = shown.lock().expect("no panic").pop().expect("a question");
        shown.sort();
        assert_eq!(shown, expected, "{tool}");
        before.assert_same(&test.tree(), "a denied call changed a file");
    }
}

/// A preview of an undo reports its changes and makes none.
#[tokio::test]
async fn agentctl_preview_changes_no_file() {
    let test = TestWorkspace::with(&[("a.txt", "one\n")]);
    test.call_ok("edit", json!({"path": "a.txt", "old_string": "one", "new_string": "1"})).await;
    let before = test.tree();
    let preview = test.windlass.undo_preview(&test.session, Undo::Last).await;
    assert!(text(&preview).contains("-1\n+one"), "{}", text(&preview));
    before.assert_same(&test.tree(), "a preview");
}

/// 3A-2: its rename replaced a link by a file.
#[tokio::test]
async fn agentctl_3a_2_link_stays_a_link() {
    let test = TestWorkspace::with(&[("real.txt", "one\n")]);
    std::os::unix::fs::symlink("real.txt", test.path("link")).expect("a link");
    test.call_ok("edit", json!({"path": "link", "old_string": "one", "new_string": "two"})).await;
    assert!(test.path("link").is_symlink());
    assert_eq!(test.text("real.txt"), "two\n");
}

/// 3A-2: among several files at once, one could be a link that led out.
#[tokio::test]
async fn agentctl_3a_2_several_files_stay_inside() {
    let test = TestWorkspace::outside_tmp(&[("a", "a\n")], |builder| builder.mode(Mode::Auto));
    let outside = test.parent_directory().join("kept");
    std::fs::write(&outside, "kept\n").expect("a file");
    std::os::unix::fs::symlink(&outside, test.path("link")).expect("a link");
    let patch = "*** Begin Patch\n*** Update File: a\n-a\n+1\n*** Update File: link\n-kept\n+lost\n*** End Patch\n";
    let said = test.call_refused("patch", json!({"patch": patch})).await;
    assert!(said.starts_with("not allowed"), "{said}");
    assert_eq!(std::fs::read(&outside).expect("a file"), b"kept\n");
}

/// 3A-10: it edited the first of several matches, and did not find lines with other line endings.
#[tokio::test]
async fn agentctl_3a_10_edit_needs_a_unique_match_with_any_line_endings() {
    let test = TestWorkspace::with(&[("a", "x = 1\r\ny\r\nx = 1\r\n")]);
    let edit = |old: &str| json!({"path": "a", "old_string": old, "new_string": "x = 2\nz\n"});
    let said = test.call_refused("edit", edit("x = 1\n")).await;
    assert!(said.starts_with("old_string is in a 2 times"), "{said}");
    assert!(said.contains("lines 1, 3"), "{said}");
    test.call_ok("edit", edit("y\nx = 1\n")).await;
    assert_eq!(test.text("a"), "x = 1\r\nx = 2\r\nz\r\n");
}

/// 3A-11: one undo restored one file of several, and a failed write was still on the stack.
#[tokio::test]
async fn agentctl_3a_11_several_files_are_one_step() {
    let test = TestWorkspace::with(&[("a", "a\n"), ("b", "b\n")]);
    let before = test.tree();
    let patch = |end: &str| {
        let text = "*** Begin Patch\n*** Update File: a\n-a\n+1\n*** Delete File: b\n*** Add File: new/c\n+c\n";
        json!({"patch": format!("{text}{end}*** End Patch\n")})
    };
    test.call_refused("patch", patch("*** Update File: nowhere\n-x\n+y\n")).await;
    assert_eq!(test.call_refused("undo", json!({})).await, "there is nothing to undo");
    test.call_ok("patch", patch("")).await;
    test.call_ok("undo", json!({})).await;
    before.assert_same(&test.tree(), "one undo for all files, and for the directory");
}

/// 3A-12: an unreadable file was taken for an absent one, and an undo deleted it; permissions were lost, an undo could not be undone, and
/// later changes of a person were overwritten.
#[tokio::test]
async fn agentctl_3a_12_undo_restores_the_exact_earlier_state() {
    use std::os::unix::fs::PermissionsExt as _;
    let test = TestWorkspace::with(&[("run.sh", "#!/bin/sh\n"), ("secret.txt", "s\n")]);
    let mode = |name: &str, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(test.path(name), permissions).expect("permissions");
    };
    mode("run.sh", 0o750);
    mode("secret.txt", 0o000);
    let before = std::fs::symlink_metadata(test.path("secret.txt")).expect("it is there");
    // Root may read every file; then this is an append like others, and is undone.
    test.call("write", json!({"path": "secret.txt", "content": "more\n", "mode": "append"})).await;
    test.call("undo", json!({})).await;
    let after = std::fs::symlink_metadata(test.path("secret.txt")).expect("it is still there");
    assert_eq!((before.len(), before.permissions()), (after.len(), after.permissions()));

    let patch = "*** Begin Patch\n*** Delete File: run.sh\n*** End Patch\n";
    test.call_ok("patch", json!({"patch": patch})).await;
    let undone = test.call_ok("undo", json!({})).await;
    let facts = std::fs::metadata(test.path("run.sh")).expect("it is back");
    assert_eq!(facts.permissions().mode() & 0o777, 0o750);
    test.call_ok("undo", json!({"call": undone.call})).await;
    assert!(!test.path("run.sh").exists(), "and forward again");
    test.put("run.sh", "by hand\n");
    let said = test.call_refused("undo", json!({})).await;
    assert!(said.contains("conflict") || said == "there is nothing to undo", "{said}");
    assert_eq!(test.text("run.sh"), "by hand\n");
}

/// 3A-12: a path was relative to the working directory of the program.
#[tokio::test]
async fn agentctl_3a_12_working_directory_of_the_program_does_not_matter() {
    let test = TestWorkspace::with(&[("sub/", "")]);
    let overrides = windlass::tool::Overrides {
        work_dir: Some(test.path("sub")),
        ..windlass::tool::Overrides::default()
    };
    let write = ToolCall::new("write", json!({"path": "a.txt", "content": "a\n"}));
    let made = test.windlass.call(&test.session, write.with_overrides(overrides)).await;
    assert_eq!(made.outcome, Outcome::Ok, "{}", text(&made));
    assert_eq!(test.text("sub/a.txt"), "a\n");
    test.call_ok("undo", json!({})).await;
    assert!(!test.path("sub/a.txt").exists());
}

/// 3A-13: one new line at the top made all lines look changed, blank lines were not shown, and at most 20 lines were.
#[tokio::test]
async fn agentctl_3a_13_diff_shows_exactly_the_changed_lines() {
    let lines: String = (0..40).map(|at| format!("line {at}\n")).collect::<Vec<_>>().concat();
    let test = TestWorkspace::with(&[("a.txt", &lines)]);
    test.call_ok("read", json!({"path": "a.txt"})).await;
    let new = format!("first\n\n{lines}last\n");
    let said = text(&test.call_ok("write", json!({"path": "a.txt", "content": new})).await);
    let shown: Vec<&str> = said.lines().filter(|line| line.starts_with(['+', '-'])).collect();
    assert_eq!(shown, ["+first", "+", "+last"], "{said}");

    // The approval has all of the content, however long it is.
    let folder = tempfile::tempdir().expect("a folder");
    let heard = Arc::new(Mutex::new(String::new()));
    let asked = heard.clone();
    let windlass = Windlass::builder(folder.path())
        .mode(Mode::Ask)
        .attendant(move |request: &windlass::people::ApprovalRequest| {
            let content = request.input["content"].as_str().unwrap_or_default();
            let effects = request.effects.to_string();
            *asked.lock().expect("no panic") = format!("{effects}\n{content}");
            false
        })
        .build()
        .expect("a workspace");
    let write = json!({"path": "new.txt", "content": new});
    let denied = windlass.call(&windlass.new_session(), ToolCall::new("write", write)).await;
    assert_eq!(denied.outcome, Outcome::Denied);
    let heard = heard.lock().expect("no panic");
    assert!(heard.contains("new.txt") && heard.ends_with(&new), "{heard}");
    assert!(!folder.path().join("new.txt").exists());
}

/// 3A-14: a write was confirmed twice, and the questions of parallel calls collided at one prompt.
#[tokio::test]
async fn agentctl_3a_14_one_call_is_one_approval() {
    let folder = tempfile::tempdir().expect("a folder");
    let questions = Arc::new(Mutex::new(Vec::new()));
    let heard = questions.clone();
    let windlass = Windlass::builder(folder.path())
        .mode(Mode::Ask)
        .attendant(move |request: &windlass::people::ApprovalRequest| {
            heard.lock().expect("no panic").push(request.call.clone());
            true
        })
        .build()
        .expect("a workspace");
    let write = |name: &str| ToolCall::new("write", json!({"path": name, "content": "x\n"}));
    let calls = ["a", "b", "c"].map(write).to_vec();
    let results = windlass.turn(&windlass.new_session(), calls).await;
    let mut made: Vec<_> = results.iter().map(|result| result.call.clone()).collect();
    let mut asked = questions.lock().expect("no panic").clone();
    made.sort();
    asked.sort();
    assert_eq!(asked, made);
}

/// 3A-15: two writes to one file ran at the same time.
#[tokio::test]
async fn agentctl_3a_15_calls_on_one_file_run_in_their_order() {
    let test = TestWorkspace::new();
    let append = |at: usize| {
        let input = json!({"path": "log", "content": format!("{at}\n"), "mode": "append"});
        ToolCall::new("write", input)
    };
    let results = test.windlass.turn(&test.session, (0..20).map(append).collect()).await;
    assert!(results.iter().all(|result| result.outcome == Outcome::Ok), "{results:?}");
    let expected: String = (0..20).map(|at| format!("{at}\n")).collect::<Vec<_>>().concat();
    assert_eq!(test.text("log"), expected);
}

/// Its `shell`: one text of both streams, the exit code, a time limit.
#[tokio::test]
async fn agentctl_shell_reports_output_exit_code_and_time() {
    let test = TestWorkspace::new();
    let said = test.call("bash", json!({"command": "echo out; echo err >&2; exit 3"})).await;
    assert_eq!((said.outcome, &said.output.metadata["exit_code"]), (Outcome::Error, &json!(3)));
    let said = text(&said);
    assert!(said.starts_with("out\nerr\n") && said.contains("exit code 3"), "{said}");
    assert!(test.call_refused("bash", json!({"command": " "})).await.contains("empty"));
    // 3A-9: the end of a long output was lost, where failures are.
    let long = text(&test.call_ok("bash", json!({"command": "seq 100000; echo the end"})).await);
    assert!(long.starts_with("1\n2\n") && long.contains("the end"), "head and tail are kept");
}

/// 3A-7 and 3A-8: a killed command was a success with exit code -1, and a command that left a process behind was waited for.
#[tokio::test]
async fn agentctl_3a_7_time_limit_is_reported_as_such() {
    let test = TestWorkspace::new();
    let command = "echo begun; (sleep 300 &) ; sleep 300";
    let ended = test.call("bash", json!({"command": command, "timeout": 1})).await;
    assert_eq!(ended.outcome, Outcome::TimedOut);
    assert_eq!(ended.output.metadata["timed_out"], true);
    assert!(text(&ended).starts_with("begun\n"), "{}", text(&ended));
}

/// Creates a workspace with a repository of one commit.
fn repository() -> TestWorkspace {
    let test = TestWorkspace::with(&[("a.txt", "one\n")]);
    let command = "git init -q -b main && git add a.txt && \
        git -c user.name=Ann -c user.email=ann@example.org commit -q -m first";
    let made = std::process::Command::new("sh")
        .args(["-c", command])
        .current_dir(test.workspace())
        .status()
        .expect("git must be installed for this test");
    assert!(made.success());
    test.put(".git/config", "[user]\n\tname = Ann\n\temail = ann@example.org\n");
    test
}

/// Its `git`: eight operations.
#[tokio::test]
async fn agentctl_git_has_all_eight_operations() {
    let test = repository();
    test.put("a.txt", "two\n");
    for (input, part) in [
        (json!({"command": "status"}), " M a.txt"),
        (json!({"command": "diff"}), "-one\n+two"),
        (json!({"command": "log", "args": ["--oneline", "-20"]}), "first"),
        (json!({"command": "add", "args": ["-A"]}), "done"),
        (json!({"command": "commit", "message": "two words \"quoted\""}), "two words \"quoted\""),
        (json!({"command": "branch"}), "* main"),
        (json!({"command": "checkout", "args": ["-b", "feature"]}), "feature"),
        (json!({"command": "stash", "args": ["list"]}), "no stashes"),
    ] {
        let said = text(&test.call_ok("git", input.clone()).await);
        assert!(said.contains(part), "{input}: {said}");
    }
    // There, none of it could be undone.
    test.call_ok("undo", json!({})).await;
    assert!(text(&test.call_ok("git", json!({"command": "status"})).await).starts_with("## main"));
    assert!(test.call_refused("git", json!({"command": "commit"})).await.contains("message"));
}

/// `AgentCTL` asks about `status` as it does about `commit`.
#[tokio::test]
async fn agentctl_git_asks_only_about_operations_that_change_files() {
    let test = repository();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    let windlass = Windlass::builder(test.workspace())
        .mode(Mode::Ask)
        .attendant(move |request: &windlass::people::ApprovalRequest| {
            heard.lock().expect("no panic").push(request.input["command"].clone());
            false
        })
        .build()
        .expect("a workspace");
    let session = windlass.new_session();
    for (input, outcome) in [
        (json!({"command": "status"}), Outcome::Ok),
        (json!({"command": "log"}), Outcome::Ok),
        (json!({"command": "commit", "args": ["--allow-empty"], "message": "x"}), Outcome::Denied),
    ] {
        let result = windlass.call(&session, ToolCall::new("git", input)).await;
        assert_eq!(result.outcome, outcome, "{}", text(&result));
    }
    assert_eq!(*asked.lock().expect("no panic"), [json!("commit")]);
}

/// 3A-4: arguments became options that read and write any file.
#[tokio::test]
async fn agentctl_3a_4_arguments_of_git_never_become_options() {
    let test = repository();
    let target = test.parent_directory().join("written");
    for args in [
        vec![format!("--output={}", target.display())],
        vec!["--output".to_owned(), target.display().to_string()],
        vec!["--no-index".to_owned(), "/etc/passwd".to_owned(), "/dev/null".to_owned()],
        vec!["/etc/passwd".to_owned(), "/dev/null".to_owned()],
        vec!["--ext-diff".to_owned()],
    ] {
        for command in ["diff", "log", "show"] {
            let said = test.call_refused("git", json!({"command": command, "args": args})).await;
            assert!(!said.contains("root:"), "{command} {args:?}: {said}");
        }
    }
    assert!(!target.exists());
}

/// Its `test_run`: the verdict comes first. 3A-21: a missing program and an exceeded time limit are reported as such.
#[tokio::test]
async fn agentctl_test_run_gives_verdict_and_reason() {
    let test = TestWorkspace::new();
    for (input, outcome, begin, part) in [
        (json!({"command": "echo fine"}), Outcome::Ok, "PASSED (", "fine"),
        (json!({"command": "echo bad; exit 1"}), Outcome::Error, "FAILED: exit code 1 (", "bad"),
        (
            json!({"command": "no-such-runner"}),
            Outcome::Error,
            "FAILED: exit code 127 (",
            "not found",
        ),
        (
            json!({"command": "echo begun; sleep 300", "timeout": 1}),
            Outcome::TimedOut,
            "FAILED: timed out after 1 s (",
            "begun",
        ),
    ] {
        let result = test.call("test", input).await;
        let said = text(&result);
        assert_eq!(result.outcome, outcome, "{said}");
        assert!(said.starts_with(begin) && said.contains(part), "{said}");
    }
}

/// Its tools from Markdown: a fixed command, JSON on standard input, variables, a time limit. Unlike there, output up to the limit is kept,
/// and errors of a file are reported.
#[tokio::test]
async fn agentctl_command_tools_from_markdown() {
    let tools = tempfile::tempdir().unwrap();
    let file = |name: &str, lines: &str| {
        let text = format!("---\nname: {name}\n{lines}\n---\nFor models.\n");
        std::fs::write(tools.path().join(format!("{name}.md")), text).unwrap();
    };
    let schema = "schema: {type: object, properties: {place: {type: string}}, required: [place]}";
    file("weather", &format!("{schema}\nenv: {{UNIT: C}}\ncommand: cat; echo $UNIT; exit 2"));
    file("slow", "timeout: 0.5\ncommand: echo so far; sleep 999");
    file("broken", "command:");
    let test = TestWorkspace::with_builder(&[], |builder| builder.command_tools(tools.path()));
    let said = test.call_refused("weather", json!({"place": "Oslo"})).await;
    assert_eq!(said, "{\"place\":\"Oslo\"}\nC\n[exit code 2]");
    assert!(test.call_refused("weather", json!({})).await.starts_with("`place` is missing"));
    assert!(
        test.call_refused("slow", json!({})).await.starts_with("so far\n[timed out after 0.5 s")
    );
    assert!(test.call_refused("broken", json!({})).await.starts_with("there is no tool `broken`"));
    let specs = test.windlass.tools(&test.session).await;
    let weather = specs.iter().find(|spec| spec.name == "weather").unwrap();
    assert_eq!(weather.description, "For models.");
}
