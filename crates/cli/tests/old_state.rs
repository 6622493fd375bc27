//! A state directory of version 1 of the journal's bodies, as an earlier program left it: it opens, and nothing in it is lost.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::Home;

/// Copies the old state directory that is stored beside the tests.
fn old_state() -> Home {
    let home = Home::with_workspace(&[("a.txt", "hello\n")]);
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/state-v1"), &home.state());
    home
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("the fixture") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a kind").is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

#[test]
fn journal_of_an_earlier_version_opens_and_is_whole() {
    let home = old_state();
    let verified = home.run(&["log", "verify"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let records = home.run(&["log", "--json", "--session", "s-old"]).lines();
    assert_eq!(records.len(), 11, "{records:?}");
    assert_eq!(records[1]["body"]["decided_by"], "allowed by mode auto");
    let shown = home.run(&["log", "--session", "s-old"]).stdout;
    assert!(shown.contains("a.txt") && shown.contains("denied"), "{shown}");
    let spans = home.run(&["log", "export", "--format", "otlp"]).stdout;
    assert!(spans.contains("allowed by mode auto"), "{spans}");
}

#[test]
fn decisions_of_an_earlier_version_can_be_replayed() {
    let home = old_state();
    let replay = home.run(&["policy", "replay", "s-old", "--json", "--mode", "deny"]);
    let told: Vec<(Value, Value)> = replay
        .lines()
        .iter()
        .filter(|line| line.get("was").is_some())
        .map(|line| (line["tool"].clone(), line["was"].clone()))
        .collect();
    // Two writes and a read were denied then and are denied now.
    let expected = [("read", "allowed"), ("write", "allowed"), ("bash", "allowed")];
    assert_eq!(told, expected.map(|(tool, was)| (json!(tool), json!(was))));
}

#[test]
fn session_of_an_earlier_version_can_be_continued() {
    let home = old_state();
    let input = json!({"path": "a.txt", "old_string": "hello", "new_string": "bye"});
    let options = ["--session", "s-old", "--mode", "auto"];
    let (code, answer) = home.call(&options, "edit", &input);
    assert_eq!(code, 0, "{answer}");
    let records = home.run(&["log", "--json", "--session", "s-old"]).lines();
    let decided = json!({"decision": "allow", "by": {"by": "mode", "mode": "auto"}});
    assert!(records.iter().any(|record| record["body"]["decided"] == decided), "{records:?}");
    assert_eq!(home.run(&["log", "verify"]).code, 0);
}

#[test]
fn approvals_and_trust_of_an_earlier_version_are_read() {
    let home = old_state();
    let approvals = home.run(&["policy", "approvals", "--json"]);
    assert!(approvals.stdout.contains("a1m7pdr8v22nw9n9bx"), "{approvals:?}");
    assert!(approvals.stdout.contains("a1m7pdr8v22nw9n9by"), "{approvals:?}");
    // An answer needs the workspace of the question, and that of then is gone.
    let path = home.state().join("approvals.json");
    let now = home.workspace().canonicalize().expect("the workspace");
    let text = fs::read_to_string(&path).expect("the approvals");
    fs::write(&path, text.replace("/tmp/v1/w", &now.to_string_lossy())).expect("a file");
    let answered = home.run(&["policy", "deny", "a1m7pdr8v22nw9n9by"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    let trust: Value = serde_json::from_slice(
        &fs::read(home.state().join("trust.json")).expect("the trusted files"),
    )
    .expect("JSON");
    assert!(trust.get("/tmp/v1/w").is_some(), "{trust}");
    fs::create_dir(home.workspace().join(".windlass")).expect("a directory");
    fs::write(home.workspace().join(".windlass/config.toml"), "deny = [\"write b\"]\n")
        .expect("a file");
    assert_eq!(home.run(&["trust", "--yes", "."]).code, 0);
    let trust = fs::read_to_string(home.state().join("trust.json")).expect("the trusted files");
    assert!(trust.contains("/tmp/v1/w"), "an old entry stays: {trust}");
}
