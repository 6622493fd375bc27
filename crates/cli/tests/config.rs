use serde_json::json;

use crate::support::Home;

#[test]
fn config_names_the_source_of_a_value() {
    let home = Home::with_workspace(&[("more.toml", "timeout = 5\n")]);
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
fn workspace_configuration_needs_trust_and_only_narrows() {
    let home = Home::with_workspace(&[
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

/// A misspelt rule, tool or mode would have no effect, so it is an error in every layer.
#[test]
fn misspelling_is_an_error_with_its_place() {
    let wrong = [
        ("allow = [\"wirte docs/**\"]", "`allow`", "`write`"),
        ("deny = [{ rule = \"exce rm\" }]", "`deny`", "`exec`"),
        ("ask = [\"tool wriet\"]", "`ask`", "`write`"),
        ("without = [\"bsah\"]", "`without`", "`bash`"),
        ("mode = \"yolow\"", "`mode`", "`yolo`"),
        ("sandbox = \"workspce\"", "`sandbox`", "`workspace`"),
        ("mod = \"ask\"", "`mod`", "`mode`"),
    ];
    for (text, key, right) in wrong {
        let own = Home::new();
        std::fs::create_dir_all(own.config()).expect("a folder");
        std::fs::write(own.config().join("config.toml"), text).expect("a file");
        let extra = Home::with_workspace(&[("extra.toml", text)]);
        for (ran, file) in [
            (own.run(&["call", "list"]), "config.toml"),
            (extra.run(&["call", "list", "--config", "extra.toml"]), "extra.toml"),
        ] {
            assert_eq!(ran.code, 2, "{text}: {ran:?}");
            for part in [key, file, &format!("did you mean {right}?")] {
                assert!(ran.stderr.contains(part), "{text}: no {part} in {ran:?}");
            }
        }
    }
    let workspace = Home::with_workspace(&[(".windlass/config.toml", "deny = [\"raed a\"]\n")]);
    workspace.run(&["trust", "--yes"]);
    let ran = workspace.run(&["call", "list"]);
    assert!(ran.code == 2 && ran.stderr.contains("did you mean `read`?"), "{ran:?}");
    for (option, value, right) in [
        ("--tools", "list,raed", "`read`"),
        ("--without", "bsah", "`bash`"),
        ("--role", "exploer", "`explorer`"),
        ("--mode", "aks", "`ask`"),
        ("--sandbox", "workspce", "`workspace`"),
        ("--allow", "raed x", "`read`"),
        ("--deny", "tool raed", "`read`"),
    ] {
        let ran = Home::new().run(&["call", "list", option, value]);
        assert_eq!(ran.code, 2, "{option}: {ran:?}");
        for part in [option.trim_start_matches('-'), &format!("did you mean {right}?")] {
            assert!(ran.stderr.contains(part), "{option}: no {part} in {ran:?}");
        }
    }
    // A command tool of another workspace, and tools of servers that come later, are no mistakes.
    let ran = Home::with_workspace(&[("x.toml", "without = [\"deploy_all\", \"github__*\"]")])
        .run(&["call", "list", "--config", "x.toml"]);
    assert!(ran.code == 0 && ran.stderr.contains("there is no tool `deploy_all`"), "{ran:?}");
}

/// With `--json`, stdout is JSON for every error, too.
#[test]
fn errors_are_json_with_json() {
    let home = Home::new();
    for arguments in [
        &["fly"][..],
        &["call"],
        &["--mode", "aks", "tools"],
        &["--session", "a/b", "tools"],
        &["call", "read", "{"],
        &["call", "read", "@missing"],
        &["run", "missing"],
        &["--config", "missing.toml", "tools"],
        &["--tools", "raed", "call", "list"],
        &["log", "--session", "missing"],
        &["sessions", "show", "missing"],
        &["replay", "missing"],
        &["jobs", "output", "missing"],
        &["policy", "approve", "missing"],
        &["proposals", "show"],
        &["config", "explain", "mod"],
        &["trust", "missing"],
    ] {
        let ran = home.run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        let [line] = &ran.lines()[..] else { panic!("one object: {ran:?}") };
        let message = line["error"]["message"].as_str().or(line["content"][0]["text"].as_str());
        assert!(message.is_some_and(|text| !text.is_empty()), "{arguments:?}: {line}");
        assert_eq!((&line["is_error"], &line["outcome"]), (&json!(true), &json!("fault")));
    }
    let ran = home.run(&["policy", "revoke", "missing", "--json"]);
    assert_eq!((ran.code, &ran.lines()[0]["unknown"]), (1, &json!(["missing"])));
    home.call(&["--session", "one"], "list", &json!({}));
    assert_eq!(home.run(&["sessions", "delete", "one", "--json"]).lines()[0]["deleted"], "one");
}

#[test]
fn completions_and_manual_are_printed() {
    let home = Home::new();
    assert!(home.run(&["completions", "bash"]).stdout.contains("windlass"));
    assert!(home.run(&["man"]).stdout.contains(".TH windlass"));
}

#[test]
fn doctor_names_the_error_in_a_configuration() {
    let home = Home::new();
    std::fs::create_dir_all(home.config()).expect("a folder");
    for (text, parts) in [
        ("# one\nmod = \"ask\"\n", &["config.toml, line 2: ", "`mod`", "did you mean `mode`?"][..]),
        ("\n\nmode = \"aks\"\n", &["`mode` in ", "config.toml, line 3: ", "did you mean `ask`?"]),
        ("allow = [\"wriet a\"]\n", &["`allow` in ", "line 1: ", "did you mean `write`?"]),
        ("mode = \"ask\n", &["config.toml is not TOML", "line 1"]),
    ] {
        std::fs::write(home.config().join("config.toml"), text).expect("a file");
        let ran = home.run(&["doctor", "--json"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        let report = ran.lines().remove(0);
        let checks = report["checks"].as_array().expect("checks");
        let broken: Vec<_> = checks.iter().filter(|check| check["status"] == "broken").collect();
        let [broken] = broken[..] else { panic!("told once: {report}") };
        let found = broken["found"].as_str().unwrap_or_default();
        assert!(parts.iter().all(|part| found.contains(part)), "{text}: {found}");
    }
}

#[test]
fn doctor_reports_the_filter_of_system_calls() {
    let home = Home::new();
    let report = home.run(&["doctor", "--json"]).lines().remove(0);
    let checks = report["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "system calls").expect("a check");
    assert_eq!(check["status"], "works", "{check}");
    assert!(check["found"].as_str().is_some_and(|found| found.starts_with("filtered")), "{check}");
    assert!(check["how"].as_str().is_some_and(|how| how.contains("ask the kernel")), "{check}");
}

#[test]
fn a_person_chooses_the_shell_and_a_workspace_does_not() {
    let home = Home::with_workspace(&[(".windlass/config.toml", "shell = \"/opt/none/fish\"\n")]);
    assert_eq!(home.run(&["trust"]).code, 0);
    let ran = home.run(&["--mode", "auto", "call", "bash", r#"{"command":"echo $0"}"#]);
    assert!(ran.stdout.starts_with("bash\n"), "{ran:?}");
    assert!(ran.stderr.contains("`shell` in"), "the workspace's choice is left out: {ran:?}");

    let file = home.with_files(&[("own.toml", "shell = [\"/bin/sh\", \"-u\", \"-c\"]\n")]);
    let config = ["--config", "own.toml", "--mode", "auto", "--session", "one"];
    let with = |arguments: &[&str]| file.run(&[&config[..], arguments].concat());
    let ran = with(&["call", "bash", r#"{"command":"echo $0"}"#]);
    assert!(ran.stdout.contains("sh\n"), "{ran:?}");
    let ran = with(&["log"]);
    assert!(ran.stdout.contains("(in /bin/sh -u -c)"), "{ran:?}");
    let ran = with(&["policy", "explain", "bash", r#"{"command":"ls"}"#]);
    assert!(ran.stdout.contains("/bin/sh -u -c are not read"), "{ran:?}");
    let ran = file.run(&["replay", "one", "--json"]);
    assert_eq!(ran.lines()[0]["shell"], json!({"was": "/bin/sh -u -c", "now": "bash"}), "{ran:?}");

    let file = file.with_files(&[("gone.toml", "shell = \"/opt/none/fish\"\n")]);
    let ran = file.run(&["--config", "gone.toml", "tools"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("the shell `/opt/none/fish` cannot be used"), "{ran:?}");
    assert!(ran.stderr.contains("install it, or name another"), "{ran:?}");
}
