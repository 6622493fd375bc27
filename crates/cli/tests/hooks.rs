//! Hooks from every front door, and the trust that those of a workspace need.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Home, RunResult};
use crate::terminal::Terminal;

/// A change of the workspace, and the text that `trust` prints about it.
type TrustChange<'a> = (&'a str, &'a dyn Fn(&Home));

fn write_file(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(path, content).expect("a file");
}

/// Writes an executable script.
fn write_script(path: &Path, content: &str) {
    write_file(path, &format!("#!/bin/sh\n{content}\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
}

fn claude(command: &str) -> String {
    json!({"hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [{"type": "command", "command": command}]}]}})
        .to_string()
}

fn read(home: &Home) -> RunResult {
    home.run(&["call", "read", r#"{"path":"a"}"#])
}

/// A workspace whose own hook is this script.
fn workspace(content: &str) -> Home {
    let home = Home::with_workspace(&[
        ("a", "alpha\n"),
        (".claude/settings.json", &claude("\"$CLAUDE_PROJECT_DIR\"/.claude/check.sh")),
    ]);
    write_script(&home.workspace().join(".claude/check.sh"), content);
    home
}

#[test]
fn hooks_of_the_person_apply_in_every_front_door() {
    let home = Home::with_workspace(&[("a", "alpha\n")]);
    write_file(
        &home.config().join("config.toml"),
        "[[hooks]]\nname = \"guard\"\nevent = \"pre_tool\"\nmatch = { tool = \"read\" }\ncommand = \"echo not today >&2; exit 2\"\n",
    );
    let no = "says no: not today";
    let ran = read(&home);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains(no), "{ran:?}");
    let call = json!({"type": "tool_use", "id": "1", "name": "read", "input": {"path": "a"}});
    let ran = home.run_with_input(&["run"], call.to_string().as_bytes());
    assert!(ran.stdout.contains(no), "{ran:?}");
    let requests = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "read", "arguments": {"path": "a"}}}),
    ];
    let lines: String = requests.iter().map(|request| format!("{request}\n")).collect();
    let ran = home.run_with_input(&["mcp"], lines.as_bytes());
    assert!(ran.stdout.contains(no), "{ran:?}");
    assert_eq!(home.run(&["call", "list", "{}"]).code, 0, "others are not meant");
}

#[test]
fn hooks_run_at_the_start_and_end_of_sessions() {
    let home = Home::with_workspace(&[("a", "alpha\n")]);
    let log = home.workspace().join("log");
    write_file(
        &home.config().join("hooks.json"),
        &json!({"hooks": [
            {"event": ["session_start", "session_end"], "sandbox": "workspace",
             "command": "echo \"$WINDLASS_EVENT\" >> log"},
            {"event": "session_start", "command": "echo '{\"context\": \"tests first\"}'"},
        ]})
        .to_string(),
    );
    let ran = read(&home);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("says: tests first]"), "{ran:?}");
    home.run_with_input(&["run"], b"");
    home.run_with_input(&["mcp"], b"");
    let told = std::fs::read_to_string(log).expect("a log");
    assert_eq!(told, "session_start\nsession_end\n".repeat(3));
}

/// PL-1: before trust, nothing of a workspace is run, or even parsed.
#[test]
fn pl_1_workspace_hooks_do_not_run_before_trust() {
    let home = workspace("echo from the workspace >&2; exit 2");
    let ran = read(&home);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stderr.contains("the hooks of this workspace are not in force: `windlass trust`"),
        "{ran:?}"
    );
    let ran = home.run(&["trust"]);
    for shown in [
        "trusted: ",
        ".claude/settings.json:\n{",
        "runs at pre_tool: \"$CLAUDE_PROJECT_DIR\"/.claude/check.sh",
        ".claude/check.sh:\n#!/bin/sh\necho from the workspace >&2; exit 2\n",
    ] {
        assert!(ran.stdout.contains(shown), "{shown}: {ran:?}");
    }
    let ran = read(&home);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("says no: from the workspace"), "{ran:?}");
    let broken = Home::with_workspace(&[
        ("a", "alpha\n"),
        (".claude/settings.json", "{"),
        (".windlass/config.toml", "= 3"),
    ]);
    assert_eq!(read(&broken).code, 0, "what is not parsed cannot be wrong");
}

#[test]
fn changed_hook_needs_trust_again_and_the_change_is_shown() {
    let home = workspace("exit 0");
    home.run(&["trust"]);
    let check = home.workspace().join(".claude/check.sh");
    write_script(&check, "exit 1");
    write_file(&home.workspace().join(".mcp.json"), "{}");
    let ran = read(&home);
    let since = "since it was trusted: .claude/check.sh (changed), .mcp.json (added)";
    assert!(ran.code == 3 && ran.stderr.contains(since), "{ran:?}");
    let ran = home.run(&["trust", "--list"]);
    assert!(ran.stdout.contains("not in force: .claude/check.sh (changed)"), "{ran:?}");
    let ran = home.run(&["trust"]);
    assert!(ran.stdout.contains(since), "{ran:?}");
    assert_eq!(read(&home).code, 3, "the new script fails, and a gate that fails is closed");
    assert!(home.run(&["trust", "--list"]).stdout.contains("as it was trusted"));
    let ran = home.run(&["trust", "--revoke"]);
    assert!(ran.code == 0 && ran.stdout.starts_with("no longer trusted: "), "{ran:?}");
    assert_eq!(home.run(&["trust", "--revoke"]).code, 1);
    assert_eq!(read(&home).code, 0);
    assert_eq!(home.run(&["trust", "--list"]).stdout, "");
}

/// A person at a terminal sees it there, also where the output goes elsewhere.
#[test]
fn trust_shows_the_files_and_later_the_changes() {
    let home = workspace("exit 0");
    let trust = |answer: &str| {
        let mut terminal = Terminal::start(&home, 60, "", &["trust", "--color", "never"]);
        terminal.expect("with exactly this? [y/N]");
        terminal.answer_and_end(answer)
    };
    let (ran, shown) = trust("y");
    assert!(ran.code == 0 && ran.stdout.starts_with("trusted: "), "{ran:?}");
    for part in
        [".claude/settings.json:\n{", "runs at pre_tool: ", ".claude/check.sh:\n#!/bin/sh\n"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(trust("n").1.contains("nothing changed since it was trusted"));
    write_script(&home.workspace().join(".claude/check.sh"), "printf '\u{1b}[2K'; exit 1");
    write_file(&home.workspace().join(".mcp.json"), "{}\n");
    let (ran, shown) = trust("n");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "not trusted\n"), "{shown}");
    for part in [
        "since it was trusted: .claude/check.sh (changed), .mcp.json (added)",
        "-exit 0\n",
        "+printf '\\x1b[2K'; exit 1\n",
        "+{}\n",
        "as it was trusted: .claude/settings.json\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("runs at pre_tool"), "that did not change: {shown}");
    assert_eq!(read(&home).code, 3, "it is not trusted");
}

/// A changed gate could allow calls that it refused before, so every call is denied, even those that it never saw.
#[test]
fn changed_gate_denies_every_call_until_trusted_again() {
    let path = |home: &Home, name: &str| home.workspace().join(name);
    let settings = ".claude/settings.json";
    let changes: [TrustChange<'_>; 5] = [
        (".claude/check.sh (changed)", &|home| {
            write_script(&path(home, ".claude/check.sh"), "exit 0 # x");
        }),
        (".claude/check.sh (removed)", &|home| {
            std::fs::remove_file(path(home, ".claude/check.sh")).expect("removed");
        }),
        (".claude/settings.json (changed)", &|home| write_file(&path(home, settings), "{}")),
        (".claude/settings.json (removed)", &|home| {
            std::fs::remove_file(path(home, settings)).expect("removed");
        }),
        (".claude/check.sh (removed), .claude/settings.json (removed)", &|home| {
            std::fs::remove_dir_all(path(home, ".claude")).expect("removed");
        }),
    ];
    for (said, change) in changes {
        let home = workspace("exit 0");
        home.run(&["trust"]);
        assert_eq!(read(&home).code, 0, "{said}");
        change(&home);
        for (tool, input) in [("read", r#"{"path":"a"}"#), ("list", "{}")] {
            let ran = home.run(&["call", tool, input]);
            assert_eq!(ran.code, 3, "{said}: {ran:?}");
            for part in [&format!("not what was trusted: {said}"), "`windlass trust`"] {
                assert!(ran.stdout.contains(part), "{part}: {ran:?}");
            }
        }
        home.run(&["trust"]);
        let ran = home.run(&["call", "list", "{}"]);
        assert_eq!(ran.code, 0, "{said}: {ran:?}");
    }
}

/// A change of a gate's script is found in every form of command line that runs it.
#[test]
fn changed_script_of_a_gate_is_found_in_every_form_of_command() {
    for (command, changed) in [
        ("cd scripts && ./gate.sh", "scripts/gate.sh"),
        ("sh -c 'scripts/gate.sh'", "scripts/gate.sh"),
        ("python3 -I gate.py", "gate.py"),
        ("./sources.sh", "scripts/gate.sh"),
    ] {
        let home = Home::with_workspace(&[
            ("a", "alpha\n"),
            (".claude/settings.json", &claude(command)),
            ("gate.py", "raise SystemExit(0)\n"),
        ]);
        write_script(&home.workspace().join("scripts/gate.sh"), "exit 0");
        write_script(
            &home.workspace().join("sources.sh"),
            ". \"$(dirname \"$0\")\"/scripts/gate.sh",
        );
        let ran = home.run(&["trust"]);
        assert_eq!(ran.code, 0, "{command}: {ran:?}");
        let ran = read(&home);
        assert_eq!(ran.code, 0, "{command}: {ran:?}");
        write_file(&home.workspace().join(changed), "#!/bin/sh\n# changed\n");
        let ran = home.run(&["call", "list", "{}"]);
        assert_eq!(ran.code, 3, "{command}: {ran:?}");
        assert!(ran.stdout.contains(&format!("{changed} (changed)")), "{command}: {ran:?}");
    }
}

/// A gate whose files cannot be told beforehand is not accepted: `trust` says so, and it refuses.
#[test]
fn gate_that_cannot_be_pinned_denies_every_call() {
    for (command, why) in [
        ("make gate", "`make` runs what files of the workspace say"),
        ("npm run gate", "`npm` runs what files of the workspace say"),
        ("python3 -m gate", "unless its first argument is `-I`"),
        ("sh -c \"$GATE\"", "known only then"),
        ("./sources.sh", "sources.sh: what `.` runs is known only then"),
    ] {
        let home =
            Home::with_workspace(&[("a", "alpha\n"), (".claude/settings.json", &claude(command))]);
        write_script(&home.workspace().join("sources.sh"), ". \"$LIB\"");
        let ran = home.run(&["trust"]);
        assert_eq!(ran.code, 1, "{command}: {ran:?}");
        for part in ["the gate ", "is not accepted", why, "a plain path to a script"] {
            assert!(ran.stdout.contains(part), "{command}: {part}: {ran:?}");
        }
        let told = home.run(&["trust", "--json"]).lines().remove(0);
        assert_eq!(told["not_accepted"][0]["gate"], json!(true), "{told}");
        let ran = read(&home);
        assert_eq!(ran.code, 3, "{command}: {ran:?}");
        assert!(ran.stdout.contains("it cannot be pinned") && ran.stdout.contains(why), "{ran:?}");
        assert_eq!(
            home.run(&["call", "list", "{}"]).code,
            0,
            "{command}: it hears of nothing else"
        );
    }
    let home = Home::with_workspace(&[(
        ".windlass/hooks.json",
        r#"{"hooks": [{"event": "session_start", "command": "make greeting"}]}"#,
    )]);
    assert_eq!(home.run(&["trust"]).code, 1);
    let ran = home.run(&["call", "list", "{}"]);
    assert!(ran.code == 0 && ran.stderr.contains("does not run, it cannot be pinned"), "{ran:?}");
}

/// Rules and gates hold from the trusted copy, whatever became of the file; tools and other hooks do not act.
#[test]
fn rules_and_gates_hold_from_the_trusted_copy() {
    let tool = "---\nname: greet\ncommand: echo hello\n---\nGreets.\n";
    for (change, said) in [
        (Some("deny = []\n"), ".windlass/config.toml (changed)"),
        (Some("= not even TOML"), ".windlass/config.toml (changed)"),
        (None, ".windlass/config.toml (removed)"),
    ] {
        let home = Home::with_workspace(&[
            ("a", "alpha\n"),
            ("b", "beta\n"),
            (".windlass/config.toml", "deny = [\"read a\"]\nmode = \"plan\"\n"),
            (".windlass/tools/greet.md", tool),
        ]);
        home.run(&["trust"]);
        assert_eq!(read(&home).code, 3);
        assert!(home.run(&["tools"]).stdout.contains("greet"));
        let path = home.workspace().join(".windlass/config.toml");
        match change {
            Some(content) => write_file(&path, content),
            None => std::fs::remove_file(path).expect("removed"),
        }
        let ran = read(&home);
        assert_eq!(ran.code, 3, "{said}: {ran:?}");
        assert!(ran.stderr.contains(&format!("since it was trusted: {said}")), "{ran:?}");
        assert_eq!(home.run(&["call", "read", r#"{"path":"b"}"#]).code, 0, "{said}: others go on");
        let (code, answer) = home.call(&["--yes"], "write", &json!({"path": "c", "content": "x"}));
        assert_eq!(code, 3, "{said}: the mode holds as well: {answer}");
        assert!(!home.run(&["tools"]).stdout.contains("greet"), "{said}: a tool adds");
        home.run(&["trust"]);
        let expected = if change == Some("= not even TOML") { 2 } else { 0 };
        assert_eq!(read(&home).code, expected, "{said}: trusted as it is now");
    }
}

/// A gate whose own files are as they were holds when another file changes; a hook that can refuse nothing does not act.
#[test]
fn unchanged_gates_hold_when_another_file_changes() {
    let home = workspace("echo from the gate >&2; exit 2");
    write_file(
        &home.workspace().join(".windlass/hooks.json"),
        r#"{"hooks": [{"event": "session_start", "command": "echo '{\"context\": \"added words\"}'"}]}"#,
    );
    home.run(&["trust"]);
    let ran = read(&home);
    assert!(ran.code == 3 && ran.stderr.contains("added words"), "{ran:?}");
    write_file(&home.workspace().join(".mcp.json"), "{}");
    let ran = read(&home);
    assert!(ran.code == 3 && ran.stdout.contains("says no: from the gate"), "{ran:?}");
    assert!(!ran.stderr.contains("added words"), "{ran:?}");
    assert_eq!(home.run(&["call", "list", "{}"]).code, 0, "it hears of nothing else");
}

/// A gate of the workspace is not asked about commands of the person.
#[test]
fn changed_gate_does_not_stop_an_undo() {
    let home = workspace("exit 0");
    home.run(&["trust"]);
    let (code, answer) =
        home.call(&["--mode", "auto"], "write", &json!({"path": "b", "content": "x"}));
    assert_eq!(code, 0, "{answer}");
    write_script(&home.workspace().join(".claude/check.sh"), "exit 0 # changed");
    assert_eq!(read(&home).code, 3);
    let ran = home.run(&["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!home.workspace().join("b").exists());
}

/// PL-2: a workspace only narrows; its hook cannot say yes for a person, nor leave its sandbox.
#[test]
fn pl_2_workspace_hooks_cannot_allow_more() {
    let home = Home::with_workspace(&[(
        ".windlass/config.toml",
        "[[hooks]]\nevent = \"pre_tool\"\nsandbox = \"off\"\ncommand = \"touch made; echo '{\\\"decision\\\": \\\"allow\\\"}'\"\n",
    )]);
    home.run(&["trust"]);
    let (code, answer) = home.call(&[], "write", &json!({"path": "b", "content": "x"}));
    assert_eq!(code, 3, "{answer}");
    assert!(!home.workspace().join("made").exists(), "it could not change anything");
    let ran = home.run(&["call", "list", "{}"]);
    assert!(ran.stderr.contains("a hook of a workspace cannot change anything"), "{ran:?}");
}

/// A hook file that a call changes takes effect neither in the running process nor in the next one before a person has trusted it.
#[test]
fn hook_file_written_by_a_call_takes_no_effect() {
    let home = workspace("exit 0");
    home.run(&["trust"]);
    let add = json!({"type": "tool_use", "id": "1", "name": "bash", "input": {
        "command": "mkdir -p .windlass; echo '{\"hooks\": [{\"event\": \"pre_tool\", \"command\": \"touch bad\"}]}' > .windlass/hooks.json; sed -i s/exit.0/exit.2/ .claude/check.sh"}});
    let look = json!({"type": "tool_use", "id": "2", "name": "list", "input": {}});
    let read = json!({"type": "tool_use", "id": "3", "name": "read", "input": {"path": "a"}});
    let lines = format!("{add}\n{look}\n{read}\n");
    let options = ["run", "--mode", "yolo", "--sandbox", "off", "--yes"];
    let ran = home.run_with_input(&options, lines.as_bytes());
    let answers = ran.lines();
    assert_eq!(answers[1]["is_error"], json!(false), "{ran:?}");
    let text = answers[2]["content"].to_string();
    assert!(text.contains("check.sh is not what was trusted"), "it was checked again: {text}");
    let ran = home.run(&["call", "list", "{}"]);
    assert!(ran.stderr.contains(".windlass/hooks.json (added)"), "{ran:?}");
    assert!(!home.workspace().join("bad").exists());
}

/// A script in the workspace acts for the person only if they have looked at it.
#[test]
fn hook_of_the_person_runs_a_workspace_script_only_as_trusted() {
    let home = Home::with_workspace(&[("a", "alpha\n")]);
    write_script(&home.workspace().join("check.sh"), "echo '{\"decision\": \"allow\"}'");
    write_file(
        &home.config().join("config.toml"),
        "[[hooks]]\nevent = \"pre_tool\"\ncommand = [\"./check.sh\"]\n",
    );
    let write = || home.call(&[], "write", &json!({"path": "b", "content": "x"}));
    let (code, answer) = write();
    assert_eq!(code, 3, "{answer}");
    assert!(answer["content"].to_string().contains("check.sh is not what was trusted"), "{answer}");
    home.run(&["trust"]);
    let (code, answer) = write();
    assert_eq!(code, 0, "{answer}");
    let recorded = home.run(&["log", "--json"]).stdout;
    let by_hook = r#""settled_by":{"by":"hook","name":"./check.sh"#;
    assert!(recorded.contains(by_hook), "it is on the record: {recorded}");
    write_script(&home.workspace().join("check.sh"), "echo '{\"decision\": \"allow\"}' # changed");
    assert_eq!(write().0, 3);
}

#[test]
fn hook_warnings_name_their_place() {
    let home = Home::with_workspace(&[("a", "alpha\n")]);
    let path = home.config().join("config.toml");
    write_file(
        &path,
        "[[hooks]]\nevent = \"stop\"\ncommand = \"x\"\ntimeout = 99\n[[hooks]]\nevent = \"stop\"\ncommand = \"x\"\nsandbox = \"staged\"\n",
    );
    let ran = read(&home);
    assert_eq!(ran.code, 0, "{ran:?}");
    for said in [
        "hooks[0]: `timeout` is more than 60 s",
        "hooks[1]: `sandbox`: changes by a hook cannot be approved",
    ] {
        assert!(ran.stderr.contains(&format!("config.toml: {said}")), "{ran:?}");
    }
    let answer: Value = home.run(&["trust", "--json"]).lines().remove(0);
    assert_eq!(answer["files"], json!([]));
}

/// Files that could block a reader or lead elsewhere are reported and not read.
#[test]
fn special_files_as_hook_files_are_reported_and_not_read() {
    let home = Home::with_workspace(&[("a", "alpha\n")]);
    let outside = home.config().join("elsewhere");
    write_file(&outside.join("config.toml"), "deny = [\"read a\"]\n");
    std::os::unix::fs::symlink(&outside, home.workspace().join(".windlass")).expect("a link");
    let ran = home.run(&["trust"]);
    assert!(ran.code == 0 && ran.stderr.contains("leads out of the workspace"), "{ran:?}");
    let ran = read(&home);
    assert!(ran.code == 0 && ran.stderr.contains("leads out of the workspace"), "{ran:?}");
}
