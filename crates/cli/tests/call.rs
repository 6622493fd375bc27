use serde_json::json;

use crate::support::{Home, repository};

#[test]
fn stdout_is_what_a_model_would_see() {
    let home = Home::with_workspace(&[("a.txt", "one\ntwo\n")]);
    let ran = home.run(&["call", "read", r#"{"path":"a.txt"}"#]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("1\tone\n2\ttwo\n"), "{ran:?}");
    assert_eq!(ran.stderr, "");
}

#[test]
fn json_has_the_promised_keys() {
    let home = Home::with_workspace(&[("a.txt", "one\n")]);
    let (code, answer) = home.call(&["--session", "s-1"], "read", &json!({"path": "a.txt"}));
    assert_eq!(code, 0);
    assert_eq!(answer["type"], "tool_result");
    assert_eq!(
        (&answer["is_error"], &answer["outcome"], &answer["session"]),
        (&json!(false), &json!("ok"), &json!("s-1"))
    );
    assert_eq!(answer["content"][0]["type"], "text");
    assert_eq!(answer["metadata"]["lines"], 1);
    for key in ["tool_use_id", "call", "duration_ms"] {
        assert!(!answer[key].is_null(), "{key}: {answer}");
    }
    assert!(answer["metadata"]["turn"].is_string());
}

#[test]
fn call_reports_a_job_that_ends_with_it() {
    let home = Home::with_workspace(&[("a.txt", "one\n")]);
    let call = |command: &str| {
        let input = json!({"command": command, "background": true}).to_string();
        home.run(&["--mode", "auto", "call", "bash", &input])
    };
    let ran = call("sleep 600");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("ends with this call"), "{ran:?}");
    // One that has ended by itself is no news.
    let ran = call("true");
    assert!(!ran.stdout.contains("ends with"), "{ran:?}");
}

#[test]
fn exit_code_tells_the_outcome() {
    let home = Home::with_workspace(&[("a.txt", "one\n"), (".env", "KEY=1\n")]);
    for (options, tool, input, outcome, code) in [
        (&[][..], "read", json!({"path": "a.txt"}), "ok", 0),
        (&[], "read", json!({"path": "missing"}), "error", 1),
        (&[], "read", json!({"pat": "a.txt"}), "fault", 2),
        (&[], "nope", json!({}), "fault", 2),
        (&[], "write", json!({"path": "b.txt", "content": "x"}), "denied", 3),
        (&["--mode", "auto"], "write", json!({"path": "b.txt", "content": "x"}), "ok", 0),
        (&["--yes"], "write", json!({"path": "c.txt", "content": "x"}), "ok", 0),
        (&["--allow", "write d/**"], "write", json!({"path": "d/e.txt", "content": "x"}), "ok", 0),
        (
            &["--allow", "write d/**", "--deny", "write d/x/**"],
            "write",
            json!({"path": "d/x/y", "content": "x"}),
            "denied",
            3,
        ),
        (&["--mode", "yolo"], "read", json!({"path": ".env"}), "denied", 3),
        (
            &["--mode", "yolo", "--yes", "--allow", "read .env"],
            "read",
            json!({"path": ".env"}),
            "denied",
            3,
        ),
        (&["--mode", "plan"], "write", json!({"path": "f", "content": "x"}), "denied", 3),
        (&["--mode", "deny"], "read", json!({"path": "a.txt"}), "denied", 3),
        (&["--tools", "list"], "read", json!({"path": "a.txt"}), "fault", 2),
        (&["--tools", ""], "list", json!({}), "fault", 2),
        (&["--without", "read,list"], "list", json!({}), "fault", 2),
        (
            &["--role", "explorer", "--mode", "yolo"],
            "write",
            json!({"path": "g", "content": "x"}),
            "fault",
            2,
        ),
    ] {
        let (seen, answer) = home.call(options, tool, &input);
        assert_eq!(
            (answer["outcome"].as_str(), seen),
            (Some(outcome), code),
            "{options:?} {tool} {input}: {answer}"
        );
        assert_eq!(answer["is_error"], outcome != "ok");
    }
}

#[test]
fn a_denial_names_the_rule_and_what_would_allow_it() {
    let home = Home::new();
    let ran = home.run(&["call", "write", r#"{"path":"b.txt","content":"x"}"#]);
    assert!(ran.stdout.contains("mode ask") && ran.stdout.contains("--allow 'write "), "{ran:?}");
    assert!(!home.workspace().join("b.txt").exists());
}

#[test]
fn arguments_are_read_from_a_file_and_from_standard_input() {
    let home = Home::with_workspace(&[("a.txt", "one\n"), ("input.json", r#"{"path":"a.txt"}"#)]);
    assert_eq!(home.run(&["call", "read", "@input.json"]).code, 0);
    assert_eq!(home.run_with_input(&["call", "read", "-"], br#"{"path":"a.txt"}"#).code, 0);
    let ran = home.run(&["call", "read", "{"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("not JSON"), "{ran:?}");
}

#[test]
fn options_work_before_and_after_the_command() {
    let home = Home::with_workspace(&[("sub/a.txt", "one\n")]);
    for arguments in [
        ["-C", "sub", "call", "read", r#"{"path":"a.txt"}"#],
        ["call", "-C", "sub", "read", r#"{"path":"a.txt"}"#],
    ] {
        assert_eq!(home.run(&arguments).code, 0, "{arguments:?}");
    }
}

#[test]
fn unknown_tool_names_the_nearest_one() {
    let ran = Home::new().run(&["call", "raed", "{}"]);
    assert!(ran.stdout.contains("did you mean `read`?"), "{ran:?}");
}

#[test]
fn grep_finds_the_main_function_of_this_repository() {
    let home = Home::new();
    let repository = repository();
    let ran = home.run(&[
        "-C",
        repository.to_str().expect("a name"),
        "call",
        "grep",
        r#"{"pattern":"fn main"}"#,
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("crates/cli/src/main.rs:"), "{ran:?}");
}
