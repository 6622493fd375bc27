//! Command tools: the person's own always, those of a workspace only as they were when a person trusted them.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Home, RunResult};

fn file(name: &str, lines: &str) -> String {
    format!("---\nname: {name}\n{lines}\n---\nTry something.\n")
}

/// Writes a file and creates its directory.
fn write_file(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(path, content).expect("a file");
}

/// A workspace with a command tool of its own.
fn workspace(lines: &str) -> Home {
    Home::with_workspace(&[(".windlass/tools/greet.md", &file("greet", lines))])
}

/// Calls the workspace's tool. Returns the exit code and the text.
fn call_greet(home: &Home) -> RunResult {
    home.run(&["call", "greet", "{}", "--mode", "auto"])
}

fn tool_names(home: &Home) -> Vec<String> {
    let tools = home.run(&["tools", "--json"]).lines().remove(0);
    let name = |tool: &Value| tool["name"].as_str().expect("a name").to_owned();
    tools.as_array().expect("a list").iter().map(name).collect()
}

#[test]
fn command_tools_of_the_person_are_offered() {
    let home = Home::new();
    write_file(&home.config().join("tools/b.md"), &file("bbb", "command: cat"));
    write_file(&home.config().join("tools/a.md"), &file("aaa", "command: cat\neffects: [read]"));
    let names = tool_names(&home);
    assert_eq!(names[names.len() - 2..], ["aaa", "bbb"]);
    let ran = home.run(&["tools"]);
    let line = ran.stdout.lines().find(|line| line.starts_with("aaa")).expect("listed");
    assert!(line.ends_with("Try something. [read]"), "{line}");
    assert_eq!(
        home.run(&["call", "aaa", "{}"]).stdout,
        "{}\n",
        "what only looks is not asked about"
    );
    let (code, answer) = home.call(&[], "bbb", &json!({}));
    assert_eq!(code, 0, "what changes nothing is not asked about: {answer}");
    let ran = home.run(&["call", "bbb", "{}", "--allow", "tool bbb"]);
    assert_eq!((ran.code, &*ran.stdout), (0, "{}\n"), "{ran:?}");
    let answer = home.run(&["policy", "explain", "bbb"]).lines().remove(0);
    assert_eq!((&answer["decision"], &answer["effects"]), (&json!("ask"), &json!(["exec cat"])));
    assert_eq!(answer["when"], "after");
    assert!(!home.run(&["tools", "--role", "explorer"]).stdout.contains("bbb"));
    assert!(home.run(&["tools", "--role", "explorer"]).stdout.contains("aaa"));
}

#[test]
fn invalid_file_is_a_warning_and_stops_no_call() {
    let home = Home::new();
    let wrong = home.config().join("tools/wrong.md");
    write_file(
        &wrong,
        "---\nname: wrong\ncommand: x\nschema: {properties: {a: {pattern: x}}}\n---\n",
    );
    write_file(&home.config().join("tools/bash.md"), &file("bash", "command: echo mine"));
    write_file(&home.config().join("tools/fine.md"), &file("fine", "command: echo fine"));
    let ran = home.run(&["call", "fine", "{}", "--mode", "auto"]);
    assert_eq!((ran.code, &*ran.stdout), (0, "fine\n"));
    let place = format!("windlass: not a tool: {}:4:27: `pattern` is not checked", wrong.display());
    assert!(ran.stderr.contains(&place), "{ran:?}");
    assert!(ran.stderr.contains("bash.md:2:7: `bash` is a built-in tool"), "{ran:?}");
    let ran = home.run(&["call", "bash", r#"{"command":"echo real"}"#, "--mode", "auto"]);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("real\n", ""), "nothing is read that is not needed");
    let ran = home.run(&["call", "fine", "{}", "--mode", "auto", "--quiet"]);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("fine\n", ""));
    assert!(!tool_names(&home).contains(&"wrong".to_owned()));
}

#[test]
fn command_tools_of_a_workspace_need_trust_again_after_a_change() {
    let home = workspace("command: echo hello");
    let own = home.workspace().join(".windlass/tools/greet.md");
    let not_there = |when: &str| {
        let ran = call_greet(&home);
        assert_ne!(ran.code, 0, "{when}: {ran:?}");
        let said =
            "windlass: the command tools of this workspace are not in force: `windlass trust`";
        assert!(ran.stderr.contains(said), "{when}: {ran:?}");
        assert!(!tool_names(&home).contains(&"greet".to_owned()), "{when}");
    };
    not_there("before a person trusted it");
    let ran = home.run(&["trust"]);
    assert!(ran.stdout.contains("greet.md:\n---\nname: greet\ncommand: echo hello\n"), "{ran:?}");
    let ran = call_greet(&home);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "hello\n", ""));
    let answer = home.run(&["policy", "explain", "greet"]).lines().remove(0);
    assert_eq!(answer["decision"], "ask", "trusted is not allowed: {answer}");
    write_file(&own, &file("greet", "command: echo changed"));
    not_there("changed");
    write_file(&own, &file("greet", "command: echo hello"));
    assert_eq!(call_greet(&home).stdout, "hello\n", "as it was");
    write_file(&home.workspace().join(".windlass/tools/more.md"), &file("more", "command: 'true'"));
    not_there("one more");
    home.run(&["trust"]);
    assert!(tool_names(&home).contains(&"more".to_owned()));
    std::fs::remove_file(&own).expect("removed");
    let ran = home.run(&["call", "more", "{}", "--mode", "auto"]);
    assert_ne!(ran.code, 0, "one less asks again: {ran:?}");
    write_file(&home.workspace().join(".windlass/config.toml"), "mode = \"plan\"\n");
    let ran = home.run(&["tools"]);
    assert!(ran.stderr.contains("the configuration and the command tools of this workspace are"));
}

#[test]
fn workspace_tool_cannot_replace_one_of_the_person_or_a_built_in_one() {
    let home = Home::with_workspace(&[
        (".windlass/tools/a.md", &file("mine", "command: echo theirs")),
        (".windlass/tools/b.md", &file("read", "command: echo theirs")),
        (".windlass/tools/c.md", &file("look", "command: echo theirs\neffects: [read]")),
        ("x", "real\n"),
    ]);
    write_file(&home.config().join("tools/mine.md"), &file("mine", "command: echo mine"));
    let ran = home.run(&["trust"]);
    assert!(ran.stdout.contains("b.md:2:7: `read` is a built-in tool"), "{ran:?}");
    let ran = home.run(&["call", "mine", "{}", "--mode", "auto"]);
    assert_eq!(ran.stdout, "mine\n", "{ran:?}");
    assert!(ran.stderr.contains("there is a tool `mine` already, in "), "{ran:?}");
    assert!(home.run(&["call", "read", r#"{"path":"x"}"#]).stdout.contains("real"));
    let answer = home.run(&["policy", "explain", "look"]).lines().remove(0);
    assert_eq!(answer["decision"], "ask", "its word that it only looks is worth nothing: {answer}");
    let ran = home.run(&["call", "look", "{}", "--mode", "auto"]);
    assert_eq!(ran.stdout, "theirs\n", "{ran:?}");
}

/// No call can create a command tool.
#[test]
fn no_call_adds_a_command_tool() {
    let home = Home::new();
    let content = file("sly", "command: id");
    let own = home.config().join("tools/sly.md");
    for path in [".windlass/tools/sly.md", &*own.to_string_lossy()] {
        let input = json!({"path": path, "content": content});
        let (code, answer) = home.call(&["--mode", "yolo"], "write", &input);
        assert_eq!(code, 3, "{answer}");
        let command = format!("mkdir -p $(dirname {path}) && echo x > {path}");
        home.call(&["--mode", "yolo"], "bash", &json!({"command": command}));
        assert!(!home.workspace().join(path).exists(), "{path}");
    }
}

#[test]
fn changes_of_a_command_tool_are_recorded_and_can_be_undone() {
    let home = workspace("command: rm -r .windlass/../kept; echo x > new");
    write_file(&home.workspace().join("kept/a"), "a\n");
    home.run(&["trust"]);
    let ran = call_greet(&home);
    assert_eq!((ran.code, &*ran.stdout), (0, "[no output; changed: D kept/a, A new]\n"), "{ran:?}");
    assert!(home.run(&["log"]).stdout.contains("greet ok"));
    assert_eq!(home.run(&["undo", "--yes"]).code, 0);
    assert!(home.workspace().join("kept/a").exists() && !home.workspace().join("new").exists());
}

#[test]
fn doctor_lists_command_tools() {
    let home = Home::new();
    let check = || {
        let report = home.run(&["doctor", "--json"]).lines().remove(0);
        let checks = report["checks"].as_array().expect("checks").clone();
        checks.into_iter().find(|check| check["name"] == "command tools").expect("a check")
    };
    assert_eq!(check()["found"], "there are none");
    write_file(&home.config().join("tools/greet.md"), &file("greet", "command: echo hello"));
    assert_eq!(
        (check()["found"].clone(), check()["status"].clone()),
        (json!("greet"), json!("works"))
    );
    write_file(&home.config().join("tools/wrong.md"), "---\n---\n");
    assert_eq!(check()["status"], "broken");
}

#[test]
fn mcp_serves_command_tools() {
    let home = Home::new();
    write_file(&home.config().join("tools/greet.md"), &file("greet", "command: echo hello"));
    let ran = home.run(&["tools", "--format", "mcp"]).lines().remove(0);
    let tools = ran["tools"].as_array().or_else(|| ran.as_array()).expect("tools").clone();
    let greet = tools.iter().find(|tool| tool["name"] == "greet").expect("greet");
    assert_eq!(greet["inputSchema"]["additionalProperties"], json!(false));
    assert_eq!(greet["annotations"]["readOnlyHint"], json!(false));
}
