//! `windlass replay`: a session again, in a copy.

use serde_json::{Value, json};

use crate::support::Home;

fn record_calls(files: &[(&str, &str)], calls: &[Value]) -> Home {
    let home = Home::with_workspace(files);
    let lines: String = calls.iter().map(|line| format!("{line}\n")).collect();
    let run = ["run", "--session", "one", "--mode", "auto"];
    let ran = home.run_with_input(&run, lines.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    home
}

fn replay(home: &Home, options: &[&str]) -> (i32, Vec<Value>) {
    let ran = home.run(&[&["replay", "one", "--json"][..], options].concat());
    assert!(ran.code < 2, "{ran:?}");
    (ran.code, ran.lines())
}

fn statuses(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["replayed"].as_str()).collect()
}

#[test]
fn replay_of_a_self_contained_session_is_the_same() {
    let home = Home::with_workspace(&[("a", "one\n"), ("sub/old", "old\n")]);
    let there = home.workspace().canonicalize().expect("the workspace");
    let calls = [
        json!({"tool": "read", "input": {"path": "a"}}),
        json!({"tool": "edit", "input": {"path": "a", "old_string": "one", "new_string": "two"}}),
        json!({"tool": "write", "input": {"path": "new/b", "content": "b\n"}}),
        json!({"tool": "bash", "input": {"command": format!("cat {}/a; mv sub/old sub/moved; rm new/b; pwd", there.display())}}),
        json!({"tool": "edit", "input": {"path": "a", "old_string": "missing", "new_string": "x"}}),
        json!({"tool": "read", "input": {"path": ".env"}}),
        json!({"tool": "undo", "input": {}}),
        json!({"tool": "list", "input": {}}),
    ];
    let lines: String = calls.iter().map(|line| format!("{line}\n")).collect();
    let run = ["run", "--session", "one", "--mode", "auto"];
    assert_eq!(home.run_with_input(&run, lines.as_bytes()).code, 0);
    let before = home.run(&["log", "--json"]).stdout;
    let (code, lines) = replay(&home, &[]);
    assert_eq!(statuses(&lines), ["same"; 8], "{lines:#?}");
    assert_eq!(code, 0);
    assert_eq!(lines[8], json!({"same": 8, "differ": 0, "skipped": 0}));
    assert_eq!(home.run(&["log", "--json"]).stdout, before, "the journal is as it was");
    assert_eq!(std::fs::read_to_string(there.join("a")).expect("a file"), "two\n");
}

#[test]
fn replay_shows_differences() {
    let calls = [
        json!({"tool": "read", "input": {"path": "a"}}),
        json!({"tool": "bash", "input": {"command": "cp a copied"}}),
        json!({"tool": "read", "input": {"path": "gone"}}),
    ];
    let home = record_calls(&[("a", "one\n"), ("gone", "x\n")], &calls);
    std::fs::write(home.workspace().join("a"), "other\n").expect("a file");
    std::fs::remove_file(home.workspace().join("gone")).expect("a file");
    let (code, lines) = replay(&home, &[]);
    assert_eq!((code, statuses(&lines)), (1, vec!["differs"; 3]), "{lines:#?}");
    assert!(lines[0]["text"]["now"].as_str().expect("a text").contains("other"));
    assert_eq!(lines[1]["files"][0]["path"], "copied", "{lines:#?}");
    assert_eq!(lines[2]["outcome"], json!({"was": "ok", "now": "error"}));
    let text = home.run(&["replay", "one"]).stdout;
    assert!(text.contains("-1\tone") && text.contains("+1\tother"), "{text}");
    assert!(text.contains("≠ read"), "{text}");
    assert!(text.ends_with("0 the same, 3 differ, 0 skipped\n"), "{text}");
    assert!(home.run(&["replay", "one", "--color", "always"]).stdout.contains("\x1b[3"));
}

#[test]
fn replay_as_is_starts_with_the_current_files() {
    let edit =
        json!({"tool": "edit", "input": {"path": "a", "old_string": "one", "new_string": "two"}});
    let home =
        record_calls(&[("a", "one\n")], &[json!({"tool": "read", "input": {"path": "a"}}), edit]);
    assert_eq!(replay(&home, &[]).0, 0);
    assert_eq!(replay(&home, &["--as-is"]).0, 1);
}

#[test]
fn replay_reaches_nothing_beyond_the_copy() {
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = outside.path().join("kept");
    let calls = [
        json!({"tool": "write", "input": {"path": file, "content": "x\n"}}),
        json!({"tool": "bash", "input": {"command": "echo inside > made"}}),
    ];
    let home = Home::new();
    let lines: String = calls.iter().map(|line| format!("{line}\n")).collect();
    let run = ["run", "--session", "one", "--mode", "yolo"];
    assert_eq!(home.run_with_input(&run, lines.as_bytes()).code, 0);
    std::fs::remove_file(&file).expect("it was written");
    std::fs::remove_file(home.workspace().join("made")).expect("it was made");
    let (code, lines) = replay(&home, &["--mode", "yolo"]);
    assert_eq!((code, statuses(&lines)), (0, vec!["skipped", "same"]), "{lines:#?}");
    assert!(!file.exists() && !home.workspace().join("made").exists());
    let off = home.run(&["replay", "one", "--sandbox", "off"]);
    assert_eq!(off.code, 2, "{off:?}");
}

/// A link in the copy that leads to the workspace itself must not lead the rewinding there.
#[test]
fn link_does_not_lead_a_replay_out_of_its_copy() {
    let write = json!({"tool": "write", "input": {"path": "d/a", "content": "two\n"}});
    let home = record_calls(
        &[("d/a", "one\n")],
        &[json!({"tool": "read", "input": {"path": "d/a"}}), write],
    );
    let there = home.workspace();
    std::fs::rename(there.join("d"), there.join("real")).expect("a folder");
    std::os::unix::fs::symlink(there.join("real"), there.join("d")).expect("a link");
    home.run(&["replay", "one"]);
    assert_eq!(std::fs::read_to_string(there.join("real/a")).expect("a file"), "two\n");
}

#[test]
fn replay_repeats_the_recorded_answers() {
    let home = Home::new();
    let write = json!({"path": "a", "content": "x\n"}).to_string();
    let denied = home.run(&["call", "write", &write, "--session", "one"]);
    assert_eq!(denied.code, 3, "there is no attendant");
    assert_eq!(home.run(&["call", "write", &write, "--session", "one", "--yes"]).code, 0);
    let (code, lines) = replay(&home, &[]);
    assert_eq!((code, statuses(&lines)), (0, vec!["same", "same"]), "{lines:#?}");
}
