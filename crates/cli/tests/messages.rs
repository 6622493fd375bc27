//! Messages for a person who misspells something or looks at past calls.

use serde_json::json;

use crate::support::{Home, RunResult};
use crate::terminal::Terminal;

/// Arguments, the exit code, and what stdout and stderr contain.
type MessageCase<'a> = (&'a [&'a str], i32, &'a str, &'a str);

fn check(home: &Home, rows: &[MessageCase<'_>]) {
    for (arguments, code, stdout, stderr) in rows {
        let ran = home.run(arguments);
        assert_eq!(ran.code, *code, "{arguments:?}: {ran:?}");
        assert!(ran.stdout.contains(stdout), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(stderr), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn misspelling_gets_a_suggestion() {
    let home = Home::with_workspace(&[("a", "x\n"), ("a dir/b", "x\n")]);
    home.run(&["--proposals", "--yes", "call", "write", r#"{"path":"new","content":"x"}"#]);
    check(
        &home,
        &[
            (&["help"], 0, "Usage: windlass [OPTIONS] <COMMAND>", ""),
            (&["help", "call"], 0, "Usage: windlass call [OPTIONS] <TOOL>", ""),
            (&["help", "policy", "explain"], 0, "Usage: windlass policy explain", ""),
            (&["help", "cal"], 2, "", "there is no command `cal`; did you mean `call`?"),
            (
                &["log", "--tool", "bsh"],
                0,
                "",
                "no call of `bsh` is on record; did you mean `bash`?",
            ),
            (&["log", "--tool", "grep"], 0, "", "no call of `grep` is on record\n"),
            (&["log", "--tool", "write"], 0, "write ok", ""),
            (&["proposals", "show", "nofile"], 2, "", "no change of nofile is proposed"),
            (&["proposals", "show", "new"], 0, "new", ""),
            (&["trust", "/nonexistent"], 2, "", "/nonexistent"),
            (&["trust", "--list", "--json"], 0, "", ""),
            (&["call", "read", r#"{"path":""}"#], 2, "`path` is empty", ""),
            (&["--yes", "call", "write", r#"{"path":"","content":""}"#], 2, "`path` is empty", ""),
            (
                &["call", "edit", r#"{"path":"","old_string":"a","new_string":"b"}"#],
                2,
                "`path` is empty",
                "",
            ),
            (&["call", "list", r#"{"path":""}"#], 0, "a dir/", ""),
            (
                &["call", "git", r#"{"command":"push"}"#],
                2,
                "`bash` runs the other commands of git",
                "",
            ),
            (&["call", "bash", r#"{"command":"ls","net":["full"]}"#], 2, "with `--net full`", ""),
            (&["call", "read", r#"{"path":".env"}"#], 3, "`not_secret`", ""),
            (&["--role", "cooder", "tools"], 2, "", "explorer, planner, coder, full"),
            (&["help"], 0, "coder (also called full)", ""),
            (&["config"], 0, "# your own configuration: ", ""),
            (&["sessions"], 0, "1 call ", ""),
        ],
    );
    let listed = home.run(&["trust", "--list", "--json"]).stdout;
    assert_eq!(listed, "", "one line for each workspace");
    home.run(&["trust"]);
    let listed = home.run(&["trust", "--list", "--json"]).lines();
    assert_eq!((listed.len(), &listed[0]["is"]), (1, &json!("as it was trusted")));
}

#[test]
fn trust_reports_ignored_and_unusable_files() {
    for (config, code, said) in [
        ("mode = \"yolo\"\n", 0, "`mode` in "),
        ("mode = \"plan\"\n", 0, ""),
        ("a = 1\n", 1, "until this is mended: in "),
        ("deny = [\"raed a\"]\n", 1, "did you mean `read`?"),
        (
            "[[hooks]]\nevent = \"pre_tol\"\ncommand = \"x\"\n",
            1,
            "line 2: hooks[0]: there is no event `pre_tol`",
        ),
    ] {
        let home = Home::with_workspace(&[("a", "x\n"), (".windlass/config.toml", config)]);
        let ran = home.run(&["trust"]);
        assert!(ran.code == code && ran.stderr.contains(said), "{config}: {ran:?}");
        assert_eq!(ran.stderr.is_empty(), said.is_empty(), "{config}: {ran:?}");
        let expected = if code == 0 { 0 } else { 2 };
        assert_eq!(home.run(&["call", "read", r#"{"path":"a"}"#]).code, expected, "{config}");
    }
}

/// A misspelt hook could be a gate, so no command runs without it.
#[test]
fn misspelt_hook_stops_every_command() {
    let hook = "[[hooks]]\nname = \"guard\"\nevent = \"pre_tol\"\ncommand = \"exit 2\"\n";
    let home = Home::with_workspace(&[("a", "x\n"), ("own.toml", hook)]);
    let read =
        |options: &[&str]| home.run(&[options, &["call", "read", r#"{"path":"a"}"#]].concat());
    let said = "own.toml, line 3: hooks[0]: there is no event `pre_tol`; did you mean `pre_tool`?";
    let ran = read(&["--config", "own.toml"]);
    assert!(ran.code == 2 && ran.stderr.contains(said), "{ran:?}");
    std::fs::create_dir_all(home.config()).expect("a directory");
    for (name, content) in [
        ("config.toml", hook),
        ("hooks.json", r#"{"hooks": [{"event": "pre_tol", "command": "x"}]}"#),
        ("hooks.json", r#"{"hoks": []}"#),
        ("hooks.json", "{"),
    ] {
        let file = home.config().join(name);
        std::fs::write(&file, content).expect("a file");
        let ran = read(&[]);
        assert!(ran.code == 2 && ran.stderr.contains(name), "{content}: {ran:?}");
        std::fs::remove_file(&file).expect("it is gone");
    }
    assert_eq!(read(&[]).code, 0);
    let home = Home::with_workspace(&[("a", "x\n"), (".windlass/config.toml", hook)]);
    let ran = home.run(&["call", "read", r#"{"path":"a"}"#]);
    assert_eq!(ran.code, 0, "not trusted, not in force: {ran:?}");
}

#[test]
fn log_shows_the_decider_and_the_reason_of_a_denial() {
    let home = Home::with_workspace(&[("a", "x\n")]);
    let call = |options: &[&str], tool: &str, input: &str| {
        home.run(&[options, &["call", tool, input]].concat());
    };
    call(&["--allow", "exec touch"], "bash", r#"{"command":"touch b"}"#);
    call(&[], "bash", r#"{"command":"echo 'not allowed: not this'; touch c"}"#);
    call(&["--yes"], "write", r#"{"path":"d","content":"x"}"#);
    call(&[], "read", r#"{"path":"a"}"#);
    let RunResult { stdout, .. } = home.run(&["log"]);
    for line in [
        r#"▶ bash {"command":"touch b"}  allowed by allow exec touch"#,
        "asked by mode ask, about what it changes",
        r#"▶ write {"path":"d","content":"x"}  approved beforehand"#,
        r#"▶ read {"path":"a"}  allowed by mode ask"#,
    ] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    let denied = stdout.lines().find(|line| line.contains("■ bash denied")).expect("a denied call");
    assert!(denied.contains("  not allowed: write "), "{denied}");
}

#[test]
fn explain_names_the_rules_for_what_a_command_changes() {
    let home = Home::with_workspace(&[("a", "x\n")]);
    let input = json!({"command": "for f in $(ls); do touch $f.x; done"});
    let ran = home.run(&["policy", "explain", "bash", &input.to_string()]);
    assert_eq!(ran.stdout.lines().count(), 1, "one line for programs: {ran:?}");
    let remedy = ran.lines()[0]["remedy"].as_str().expect("a remedy").to_owned();
    assert!(remedy.contains("--allow 'write **'") && remedy.contains("after the run"), "{remedy}");
    let (code, answer) = home.call(&["--allow", "write **"], "bash", &input);
    assert_eq!(code, 0, "what is named really helps: {answer}");
    let remedy = home.run(&["--sandbox", "off", "policy", "explain", "bash", &input.to_string()]);
    assert!(remedy.stdout.contains("no rule can: it runs a command"), "{remedy:?}");
    let mut terminal =
        Terminal::on_screen(&home, 24, &["policy", "explain", "read", r#"{"path":"a"}"#], &[]);
    // Indented.
    terminal.expect("\"decision\": \"allow\"");
    assert_eq!(terminal.end().0.code, 0);
}

#[test]
fn undo_list_names_the_workspace_directory() {
    let home = Home::with_workspace(&[("a", "x\n")]);
    home.run(&["--yes", "call", "bash", r#"{"command":"chmod 700 ."}"#]);
    let ran = home.run(&["undo", "--list"]);
    assert!(ran.stdout.contains("set mode of the workspace directory"), "{ran:?}");
}

/// Without an attendant, a call that would fail anyway reports its own error, unless that would reveal a file that it may not read.
#[test]
fn call_that_fails_anyway_reports_its_error_not_the_approval() {
    let home = Home::new_outside_tmp().with_files(&[
        ("a", "alpha\n"),
        ("b", "beta\n"),
        ("rules.toml", "ask = [\"read b\"]\n"),
    ]);
    let outside = home.workspace().parent().expect("a parent").join("outside");
    std::fs::write(&outside, "gamma\n").expect("a file");
    let outside = outside.to_str().expect("a name");
    let edit = |path: &str, old: &str| json!({"path": path, "old_string": old, "new_string": "x"});
    let missing = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-omega\n+x\n";
    for (tool, input, code, said) in [
        ("edit", edit("a", "omega"), 1, "old_string was not found"),
        ("edit", edit("a", "alpha"), 3, "not allowed: write "),
        ("edit", edit("b", "omega"), 3, "not allowed: "),
        ("edit", edit(outside, "omega"), 3, "not allowed: "),
        ("patch", json!({"patch": missing}), 1, "a"),
        ("write", json!({"path": "a", "content": "x"}), 1, "read"),
        ("write", json!({"path": "b", "content": "x"}), 3, "not allowed: "),
        ("write", json!({"path": "new", "content": "x"}), 3, "not allowed: "),
    ] {
        let (got, answer) = home.call(&["--config", "rules.toml"], tool, &input);
        let text = answer["content"][0]["text"].as_str().expect("a text");
        assert!(got == code && text.contains(said), "{tool} {input}: {answer}");
        assert!(!text.contains("beta") && !text.contains("gamma"), "{tool} {input}: {answer}");
    }
    assert!(!home.workspace().join("new").exists());
    assert_eq!(std::fs::read_to_string(home.workspace().join("a")).expect("a file"), "alpha\n");
}
