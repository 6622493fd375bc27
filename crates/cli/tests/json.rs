//! With `--json`, every command prints JSON, for errors, too.

use serde_json::{Value, json};

use crate::ask_by_effect::defer_command;
use crate::support::{Home, RunResult};

/// Parses stdout as JSON lines; fails if it is empty or anything else.
fn answers(arguments: &[&str], ran: &RunResult) -> Vec<Value> {
    let parse = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {ran:?}"))
    };
    let answers: Vec<Value> = ran.stdout.lines().map(parse).collect();
    assert!(answers.iter().all(|answer| !answer.is_null()), "{arguments:?}: {ran:?}");
    answers
}

fn run(home: &Home, arguments: &[&str]) -> (RunResult, Vec<Value>) {
    let ran = home.run(&[arguments, &["--json"]].concat());
    let answers = answers(arguments, &ran);
    (ran, answers)
}

/// A home with a session, a change, a proposal, open questions and a policy file.
fn home() -> Home {
    let home = Home::new_outside_tmp().with_files(&[
        ("a", "one\n"),
        ("calls", r#"{"tool":"read","input":{"path":"a"}}"#),
        ("policy.toml", "mode = \"ask\"\n[[example]]\ntool = \"read\"\ninput = { path = \"a\" }\nexpect = \"allow\"\n"),
    ]);
    let write = json!({"path": "b", "content": "x\n"}).to_string();
    let proposed = json!({"path": "proposed", "content": "x\n"}).to_string();
    for (write, options) in [
        (&write, &["--mode", "auto", "--session", "one"][..]),
        (&proposed, &["--proposals", "--yes", "--session", "two"]),
    ] {
        let ran = home.run(&[&["call", "write", write][..], options].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    home
}

#[test]
fn every_command_answers_in_json() {
    let home = home();
    let [first, second, third] = [0; 3].map(|_| defer_command(&home, "echo x > c"));
    let write = json!({"path": "b", "content": "x\n"}).to_string();
    let denied = json!({"path": "new", "content": "x\n"}).to_string();
    for (arguments, code) in [
        (&["call", "read", r#"{"path":"a"}"#][..], 0),
        (&["call", "read", r#"{"path":"none"}"#], 1),
        (&["call", "write", &denied], 3),
        (&["run", "calls"], 0),
        (&["tools"], 0),
        (&["undo", "--list"], 0),
        (&["undo", "--dry-run"], 0),
        (&["undo"], 0),
        (&["proposals"], 0),
        (&["proposals", "show"], 0),
        (&["proposals", "apply", "proposed", "--yes"], 0),
        (&["sessions"], 0),
        (&["sessions", "show", "one"], 0),
        (&["sessions", "export", "one"], 0),
        (&["log"], 0),
        (&["log", "-n", "1"], 0),
        (&["log", "verify"], 0),
        (&["log", "export", "--format", "otlp"], 0),
        (&["replay", "one"], 0),
        (&["policy", "explain", "write", &write], 0),
        (&["policy", "show"], 0),
        (&["policy", "approvals"], 0),
        (&["policy", "diff", &first], 0),
        (&["policy", "approve", &first], 0),
        (&["policy", "deny", &second], 0),
        (&["policy", "revoke", &third], 0),
        (&["policy", "test", "policy.toml"], 0),
        (&["policy", "replay", "one"], 0),
        (&["trust"], 0),
        (&["config"], 0),
        (&["config", "explain", "mode"], 0),
        (&["completions", "bash"], 0),
        (&["man"], 0),
        (&["sessions", "delete", "one"], 0),
    ] {
        let (ran, answers) = run(&home, arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        assert!(!answers.is_empty(), "{arguments:?}: {ran:?}");
    }
    // A list of nothing has no lines.
    let (ran, answers) = run(&home, &["jobs"]);
    assert_eq!((ran.code, answers.len()), (0, 0), "{ran:?}");
}

#[test]
fn every_failure_is_json() {
    let home = home();
    for arguments in [
        &["call"][..],
        &["call", "read", "not json"],
        &["call", "read", "@missing"],
        &["call", "read", "{}", "-C", "missing"],
        &["call", "read", "{}", "--mode", "aks"],
        &["call", "read", "{}", "--allow", "wriet a"],
        &["call", "read", "{}", "--tools", "raed"],
        &["call", "read", "{}", "--config", "missing.toml"],
        &["run", "missing"],
        &["tools", "--format", "none"],
        &["undo", "--session", "none"],
        &["undo", "--call"],
        &["proposals", "drop", "none"],
        &["sessions", "show", "none"],
        &["sessions", "export", "none"],
        &["sessions", "delete", "none"],
        &["jobs", "output", "none"],
        &["jobs", "kill", "none"],
        &["log", "--session", "none"],
        &["log", "--since", "yesterday"],
        &["replay", "none"],
        &["policy", "explain", "nope"],
        &["policy", "explain", "read", "not json"],
        &["policy", "diff", "none"],
        &["policy", "approve", "none"],
        &["policy", "deny", "none"],
        &["policy", "test", "missing.toml"],
        &["policy", "replay", "none"],
        &["trust", "missing"],
        &["config", "explain", "mod"],
        &["completions", "none"],
        &["nonsense"],
        &["mcp", "--mode", "aks"],
    ] {
        let (ran, answers) = run(&home, arguments);
        let [.., last] = &answers[..] else { panic!("{arguments:?}: {ran:?}") };
        assert_eq!((ran.code, &last["is_error"]), (2, &json!(true)), "{arguments:?}: {ran:?}");
        let message = last["error"]["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty(), "{arguments:?}: {ran:?}");
    }
    let (ran, answers) = run(&home, &["policy", "revoke", "none"]);
    assert_eq!((ran.code, &answers[0]["unknown"]), (1, &json!(["none"])), "{ran:?}");
}
