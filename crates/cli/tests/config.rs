use serde_json::json;

use crate::support::Home;

#[test]
fn a_value_says_where_it_comes_from() {
    let home = Home::with(&[("more.toml", "timeout = 5\n")]);
    let ran = home.run(&["config", "explain", "timeout"]);
    assert!(ran.stdout.contains("600  from default"), "{ran:?}");
    let ran = home.run(&["config", "explain", "timeout", "--config", "more.toml"]);
    assert!(ran.stdout.starts_with("timeout = 5\n") && ran.stdout.contains("more.toml"), "{ran:?}");
    let ran = home.run(&["config", "explain", "mode", "--mode", "plan"]);
    assert!(ran.stdout.contains("from command line"), "{ran:?}");
    let ran = home.run(&["config", "explain", "mod"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("did you mean `mode`?"), "{ran:?}");
}

#[test]
fn a_workspace_is_not_obeyed_before_it_is_trusted_and_then_only_narrows() {
    let home = Home::with(&[
        (".windlass/config.toml", "deny = [\"read a\"]\nallow = [\"write **\"]\n"),
        ("a", "x\n"),
    ]);
    let read = || home.call(&[], "read", &json!({"path": "a"}));
    assert_eq!(read().0, 0, "not trusted: not in force");
    let ran = home.run(&["trust"]);
    assert!(ran.stdout.contains("deny = [\"read a\"]"), "{ran:?}");
    let (code, answer) = read();
    assert_eq!(code, 3, "{answer}");
    assert_eq!(
        home.call(&[], "write", &json!({"path": "b", "content": "x"})).0,
        3,
        "a workspace allows nothing"
    );
    std::fs::write(home.workspace().join(".windlass/config.toml"), "# changed\n").expect("a file");
    let ran = home.run(&["call", "read", r#"{"path":"a"}"#]);
    assert_eq!(ran.code, 3, "what was trusted goes on to deny: {ran:?}");
    assert!(ran.stderr.contains("windlass trust"), "{ran:?}");
}

#[test]
fn policy_explains_without_running() {
    let home = Home::new();
    let explain = |options: &[&str], tool: &str, input: serde_json::Value| {
        let input = input.to_string();
        let mut arguments = vec!["policy", "explain", tool, &input];
        arguments.extend(options);
        home.run(&arguments).lines().remove(0)
    };
    let write = json!({"path": "a", "content": "x"});
    let answer = explain(&[], "write", write.clone());
    assert_eq!((&answer["decision"], &answer["rule"]), (&json!("ask"), &json!("mode ask")));
    let answer = explain(&["--allow", "write a"], "write", write.clone());
    assert_eq!((&answer["decision"], &answer["rule"]), (&json!("allow"), &json!("allow write a")));
    assert_eq!(explain(&["--mode", "yolo"], "read", json!({"path": ".env"}))["decision"], "deny");
    assert_eq!(
        explain(&["--mode", "yolo"], "write", json!({"path": ".git/hooks/x", "content": ""}))["decision"],
        "ask"
    );
    let answer =
        explain(&["--allow", "exec find"], "bash", json!({"command": "ls; find . -delete"}));
    assert_eq!(answer["decision"], "ask");
    assert_eq!(answer["commands"][0], json!({"words": ["ls"], "only_reads": "always"}));
    assert_eq!(
        answer["commands"][1]["risks"],
        json!([{"word": 2, "why": "removes what it finds"}])
    );
    assert_eq!(answer["because"], "`-delete` in `find . -delete` removes what it finds");
    let answer = explain(&[], "bash", json!({"command": "echo $x"}));
    assert_eq!(answer["why"], "it expands a variable (at column 6)");
    assert!(!home.workspace().join("a").exists());
    assert!(!home.state().join("journal.db").exists(), "explaining is not recorded");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let home = Home::new();
    for arguments in [
        &["call"][..],
        &["fly"],
        &["--mode", "sudo", "tools"],
        &["--allow", "fly me", "tools"],
        &["--session", "a/b", "tools"],
    ] {
        let ran = home.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty());
    }
}

#[test]
fn completions_and_manual() {
    let home = Home::new();
    assert!(home.run(&["completions", "bash"]).stdout.contains("windlass"));
    assert!(home.run(&["man"]).stdout.contains(".TH windlass"));
}
