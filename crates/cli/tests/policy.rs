//! `windlass policy test` and `replay`, and the journal for other programs.

use serde_json::{Value, json};

use crate::support::Home;

const POLICY: &str = r#"
mode = "ask"
allow = ["write docs/**"]
deny = ["read private/**"]

[[example]]
tool = "grep"
input = { pattern = "x" }
expect = "allow"

[[example]]
tool = "write"
input = { path = "docs/a.md", content = "x" }
expect = "allow"
rule = "allow write docs/**"

[[example]]
tool = "write"
input = { path = "src/a.rs", content = "x" }
expect = "ask"
rule = "mode ask"

[[example]]
tool = "read"
input = { path = "private/a" }
expect = "deny"
rule = "deny read private/**"

[[example]]
tool = "read"
input = { path = "id_rsa" }
expect = "deny"
rule = "hard deny"
"#;

#[test]
fn a_policy_is_tested_by_its_own_examples() {
    let home = Home::with_workspace(&[("policy.toml", POLICY)]);
    let ran = home.run(&["policy", "test", "policy.toml"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "5 passed, 0 failed\n"), "{ran:?}");
    // The same file under another mode says which of its examples fail.
    let ran = home.run(&["policy", "test", "policy.toml", "--mode", "yolo"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("example 3, write"), "{ran:?}");
    assert!(ran.stdout.contains("expected ask by `mode ask`, got allow by `mode yolo`"), "{ran:?}");
    assert!(ran.stdout.ends_with("4 passed, 1 failed\n"), "{ran:?}");
    let lines = home.run(&["policy", "test", "policy.toml", "--json"]).lines();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[4]["passed"], true);
    assert_eq!(lines[5], json!({"passed": 5, "failed": 0}));
    assert!(home.run(&["log", "--json"]).stdout.is_empty(), "nothing was called");
}

#[test]
fn commands_cannot_read_files_denied_to_tools() {
    let home = Home::new_outside_tmp().with_files(&[
        (".env", "PLAN env\n"),
        ("id_rsa", "PLAN key\n"),
        (".aiexclude", "private/\n"),
        ("private/x", "PLAN private\n"),
        ("kept/x", "PLAN kept\n"),
        ("open", "PLAN open\n"),
    ]);
    let deny = ["--deny", "read kept/**"];
    for command in [
        "cat id_* open",
        "cat */x open",
        "cat ./*",
        "grep -rh PLAN .",
        "find . -type f -print0 | xargs -0 cat",
    ] {
        let input = json!({"command": command});
        let (_, answer) = home.call(&deny, "bash", &input);
        let text = answer["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        let shown: Vec<&str> = text.lines().filter(|line| line.starts_with("PLAN")).collect();
        assert_eq!(shown, ["PLAN open"], "{command}: {text}");
        // Without a sandbox nothing can be covered, so it asks, and an explanation says so.
        let off = ["--sandbox", "off", deny[0], deny[1]];
        let (code, answer) = home.call(&off, "bash", &input);
        assert_eq!((code, &answer["outcome"]), (3, &json!("denied")), "{command}: {answer}");
        let mut explain = vec!["policy", "explain", "bash"];
        let text = input.to_string();
        explain.push(&text);
        let said = &home.run(&[&explain[..], &off[..]].concat()).lines()[0];
        assert_eq!(said["decision"], "ask", "{command}: {said}");
        let rule = said["rule"].as_str().unwrap_or_default();
        assert!(rule.starts_with("always asked: it may come upon "), "{command}: {rule}");
    }
}

#[test]
fn a_policy_is_tested_alone() {
    let home = Home::with_workspace(&[("policy.toml", POLICY)]);
    std::fs::create_dir_all(home.config()).expect("a folder");
    std::fs::write(home.config().join("config.toml"), "mode = \"yolo\"\n").expect("a file");
    assert_eq!(home.run(&["policy", "test", "policy.toml"]).code, 0);
}

#[test]
fn errors_in_policy_files_are_explained() {
    for (text, why) in [
        ("mode = \"ask\"\n", "[[example]]"),
        ("[[example]]\ntool = \"read\"\n", "example 1"),
        ("[[example]]\ntool = \"read\"\nexpect = \"perhaps\"\n", "perhaps"),
        ("[[example]]\ntool = \"read\"\nexpect = \"ask\"\nwhy = 1\n", "why"),
        ("example = 3\n", "example 1"),
    ] {
        let home = Home::with_workspace(&[("policy.toml", text)]);
        let ran = home.run(&["policy", "test", "policy.toml"]);
        assert_eq!(ran.code, 2, "{text}: {ran:?}");
        assert!(ran.stderr.contains(why), "{text}: {ran:?}");
    }
    let home =
        Home::with_workspace(&[("p.toml", "[[example]]\ntool = \"fly\"\nexpect = \"deny\"\n")]);
    let ran = home.run(&["policy", "test", "p.toml"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("got an error"), "{ran:?}");
}

#[test]
fn examples_have_no_effect_in_a_loaded_configuration() {
    let wrong = "[[example]]\ntool = \"read\"\ninput = { path = \"a\" }\nexpect = \"deny\"\n";
    let home = Home::with_workspace(&[("more.toml", wrong), ("a", "x\n")]);
    let options = ["--config", "more.toml"];
    assert_eq!(home.call(&options, "read", &json!({"path": "a"})).0, 0);
    let show = home.run(&["policy", "show", "--config", "more.toml"]);
    assert!(show.stdout.contains("1 example:"), "{show:?}");
    assert!(!home.run(&["policy", "show"]).stdout.contains("example"));
}

#[test]
fn an_explanation_has_a_remedy_and_a_risk() {
    let home = Home::new();
    let explain = |tool: &str, input: Value, mode: &str| {
        let input = input.to_string();
        home.run(&["policy", "explain", tool, &input, "--mode", mode]).lines().remove(0)
    };
    let asked = explain("write", json!({"path": "a", "content": ""}), "ask");
    assert_eq!(asked["risk"], "low");
    assert!(asked["remedy"].as_str().expect("a remedy").contains("--allow 'write"), "{asked}");
    let allowed = explain("bash", json!({"command": "make"}), "auto");
    assert_eq!((&allowed["risk"], &allowed["remedy"]), (&json!("medium"), &Value::Null));
}

/// A session in which something was allowed, something denied, something asked, and something was no call.
fn home_with_a_session() -> Home {
    let home = Home::with_workspace(&[("a", "one\n")]);
    let lines = [
        json!({"tool": "read", "input": {"path": "a"}}),
        json!({"tool": "write", "input": {"path": "b", "content": "x\n"}}),
        json!({"tool": "read", "input": {"path": ".env"}}),
        json!({"tool": "read", "input": {"path": "/etc/hostname"}}),
        json!({"tool": "read", "input": {}}),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let run = ["run", "--session", "one", "--mode", "auto"];
    assert_eq!(home.run_with_input(&run, lines.as_bytes()).code, 0);
    home
}

#[test]
fn a_policy_is_replayed_on_an_earlier_session() {
    let home = home_with_a_session();
    let replay = |options: &[&str]| {
        home.run(&[&["policy", "replay", "one", "--json"][..], options].concat()).lines()
    };
    let same = replay(&["--mode", "auto"]);
    assert_eq!(same, [json!({"calls": 5, "differ": 0, "undecided": 1})]);
    let [write, outside, sum] = &replay(&["--mode", "plan"])[..] else { panic!("two differ") };
    let told = |call: &Value| (call["was"].clone(), call["now"].clone(), call["rule"].clone());
    assert_eq!(told(write), (json!("allowed"), json!("denied"), json!("mode plan")));
    assert_eq!((&write["tool"], &write["was_by"]), (&json!("write"), &json!("mode auto")));
    assert_eq!(told(outside), (json!("asked"), json!("denied"), json!("mode plan")));
    assert_eq!(sum["differ"], 2);
    std::fs::write(home.workspace().join("p.toml"), "mode = \"auto\"\ndeny = [\"read a\"]\n")
        .expect("a file");
    let [read, _] = &replay(&["--config", "p.toml"])[..] else { panic!("one differs") };
    assert_eq!(told(read), (json!("allowed"), json!("denied"), json!("deny read a")));
    let text = home.run(&["policy", "replay", "one", "--mode", "deny"]).stdout;
    assert!(text.contains("was allowed (mode auto), would be denied (mode deny)"), "{text}");
    assert_eq!(home.run(&["policy", "replay", "missing"]).code, 2);
    assert!(home.workspace().join("b").exists(), "nothing was done again");
}

#[test]
fn the_journal_is_exported_as_json_lines() {
    let home = home_with_a_session();
    let exported = home.run(&["log", "export"]);
    assert_eq!(exported.lines(), home.run(&["log", "--json"]).lines());
    let one = home.run(&["log", "export", "--session", "one", "--format", "jsonl"]);
    assert_eq!(one.lines(), home.run(&["log", "--json", "--session", "one"]).lines());
    assert_eq!(home.run(&["log", "export", "--session", "missing"]).code, 2);
}

#[test]
fn the_journal_is_exported_as_spans() {
    let home = home_with_a_session();
    let requests = home.run(&["log", "export", "--format", "otlp"]).lines();
    let spans: Vec<&Value> = requests
        .iter()
        .flat_map(|request| request["resourceSpans"].as_array().expect("resourceSpans"))
        .flat_map(|resource| resource["scopeSpans"].as_array().expect("scopeSpans"))
        .flat_map(|scope| scope["spans"].as_array().expect("spans"))
        .collect();
    let (turns, calls): (Vec<&Value>, Vec<&Value>) =
        spans.iter().partition(|span| span.get("parentSpanId").is_none());
    assert_eq!((turns.len(), calls.len()), (5, 5));
    let is_hex = |value: &Value, digits: usize| {
        let text = value.as_str().expect("a text");
        text.len() == digits && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
    };
    let nanos = |value: &Value| value.as_str().expect("a text").parse::<u64>().expect("a number");
    for span in &spans {
        assert!(is_hex(&span["traceId"], 32) && is_hex(&span["spanId"], 16), "{span}");
        assert_eq!(span["traceId"], spans[0]["traceId"], "one session, one trace");
        assert!(nanos(&span["startTimeUnixNano"]) <= nanos(&span["endTimeUnixNano"]), "{span}");
        assert_eq!(span["kind"], 1);
    }
    for call in &calls {
        let turn = turns.iter().find(|turn| turn["spanId"] == call["parentSpanId"]);
        let turn = turn.expect("its turn is there");
        assert!(nanos(&turn["startTimeUnixNano"]) <= nanos(&call["startTimeUnixNano"]));
        assert!(nanos(&turn["endTimeUnixNano"]) >= nanos(&call["endTimeUnixNano"]));
    }
    let of = |span: &Value, key: &str| {
        let all = span["attributes"].as_array().expect("attributes");
        let one = all.iter().find(|attribute| attribute["key"] == key);
        one.map_or(Value::Null, |attribute| attribute["value"].clone())
    };
    let [read, write, secret, ..] = &calls[..] else { panic!("five calls") };
    assert_eq!((&read["name"], &read["status"]), (&json!("read"), &json!({"code": 1})));
    assert_eq!(of(read, "tool.name"), json!({"stringValue": "read"}));
    assert_eq!(of(read, "decided_by"), json!({"stringValue": "allowed by mode auto"}));
    assert!(of(read, "duration_us")["intValue"].is_string(), "64 bits are a text");
    let effects = of(write, "effects")["arrayValue"]["values"].clone();
    let is_write = |effect: &Value| {
        effect["stringValue"].as_str().is_some_and(|effect| effect.starts_with("write "))
    };
    assert!(effects.as_array().expect("effects").iter().any(is_write), "{effects}");
    assert_eq!(of(secret, "outcome"), json!({"stringValue": "denied"}));
    assert_eq!(secret["status"]["code"], 2);
    let again = home.run(&["log", "export", "--format", "otlp"]).lines();
    assert_eq!(requests, again, "the same journal gives the same spans");
}

/// A tool that a person has switched off stays off, for listing and for calls, until they switch it on again; a list that is given
/// means just these, and an empty one none.
#[test]
fn errata_disabled_tools_stay_off_and_tool_lists_are_exact() {
    let home = Home::with_workspace(&[("a", "x\n")]);
    let listed = |options: &[&str]| -> Vec<String> {
        let ran = home.run(&[&["tools", "--format", "json"][..], options].concat());
        let tools: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let name = |tool: &Value| tool["name"].as_str().expect("a name").to_owned();
        tools.as_array().expect("a list").iter().map(name).collect()
    };
    let read =
        |options: &[&str]| home.call(options, "read", &json!({"path": "a"})).1["outcome"].clone();
    assert!(listed(&[]).contains(&"read".to_owned()), "unset means all");
    assert_eq!(listed(&["--tools", ""]), Vec::<String>::new(), "empty means none");
    assert_eq!(read(&["--tools", ""]), "fault");
    assert_eq!(listed(&["--tools", "grep"]), ["grep"]);
    std::fs::create_dir_all(home.config()).expect("a folder");
    let config = home.config().join("config.toml");
    std::fs::write(&config, "without = [\"read\", \"bash\"]\n").expect("a file");
    for _ in 0..2 {
        let names = listed(&[]);
        assert!(!names.contains(&"read".to_owned()) && names.contains(&"grep".to_owned()));
        assert_eq!(read(&[]), "fault", "what is not listed is not run");
        assert_eq!(read(&["--tools", "read"]), "fault", "a list brings nothing back");
        assert_eq!(read(&["--mode", "yolo", "--role", "coder"]), "fault");
    }
    std::fs::remove_file(config).expect("a file");
    assert_eq!(read(&[]), "ok");
}

/// A rule for writing is enough to write, also outside of the workspace, by every way of doing so.
#[test]
fn write_rule_suffices_outside_the_workspace() {
    let home = Home::new_outside_tmp().with_files(&[("a", "one\n")]);
    let elsewhere = Home::new_outside_tmp().with_files(&[("old", "x\n")]);
    let folder = elsewhere.workspace();
    let at = |name: &str| folder.join(name).display().to_string();
    let patch =
        format!("*** Begin Patch\n*** Update File: {}\n@@\n-x\n+y\n*** End Patch\n", at("old"));
    for (tool, input, made) in [
        ("write", json!({"path": at("new"), "content": "y\n"}), "new"),
        ("write", json!({"path": at("sub/new"), "content": "y\n"}), "sub/new"),
        ("edit", json!({"path": at("old"), "old_string": "x", "new_string": "y"}), "old"),
        ("patch", json!({"patch": patch}), "old"),
        ("bash", json!({"command": format!("echo y > {}", at("by-bash"))}), "by-bash"),
        ("bash", json!({"command": format!("sh -c 'echo y > {}'", at("by-sh"))}), "by-sh"),
    ] {
        std::fs::write(folder.join("old"), "x\n").expect("a file");
        let rules = [format!("write {}", at(made)), format!("write {}/**", folder.display())];
        let (code, answer) = home.call(&[], tool, &input);
        assert_eq!(code, 3, "without a rule: {tool} {input}: {answer}");
        // A program needs the directory that it makes a file in.
        for rule in rules.iter().skip(usize::from(tool == "bash")) {
            drop(std::fs::remove_dir_all(folder.join("sub")));
            if made != "old" {
                drop(std::fs::remove_file(folder.join(made)));
            }
            std::fs::write(folder.join("old"), "x\n").expect("a file");
            let (code, answer) = home.call(&["--allow", rule], tool, &input);
            assert_eq!(code, 0, "{rule}: {tool} {input}: {answer}");
            assert_eq!(
                std::fs::read_to_string(folder.join(made)).expect("a file"),
                "y\n",
                "{tool}"
            );
        }
    }
    let read = home.call(
        &["--allow", &format!("write {}/**", folder.display())],
        "read",
        &json!({"path": at("old")}),
    );
    assert_eq!(read.0, 3, "reading alone is not covered: {}", read.1);
}
