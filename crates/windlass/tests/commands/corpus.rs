//! Tests of every row of `corpus.jsonl`: `allow` has the rules that a person has granted, `cmd` is the command, and `expect` is whether
//! these rules cover all its effects. A row with `deny` creates the file `CANARY` when it is run in bash; that is tested too, so that
//! every row proves something.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass::Mode;
use windlass::policy::{Decision, Policy};

use super::{explain, text_of};
use crate::support::{TestWorkspace, tool_links};

/// The search path of bash.
pub(super) const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Number of tests among which the rows to run are divided.
const SHARES: usize = 4;

pub(super) fn rows() -> Vec<Value> {
    let rows = include_str!("corpus.jsonl").lines();
    rows.map(|row| serde_json::from_str(row).expect(row)).collect()
}

pub(super) fn policy(row: &Value) -> Policy {
    let allowed = row["allow"].as_array().expect("rules");
    allowed.iter().fold(Policy::new(Mode::Ask), |policy, rule| {
        let rule = format!("exec {}", rule.as_str().expect("a rule"));
        policy.allow(rule.parse().expect(&rule))
    })
}

#[tokio::test]
async fn command_with_effects_beyond_its_rules_is_not_allowed() {
    let test = TestWorkspace::new();
    let (mut wrong, mut asked, mut benign) = (Vec::new(), Vec::new(), 0);
    for row in rows() {
        let verdict = explain(&test, policy(&row), text_of(&row, "cmd")).await;
        let is_allowed = verdict.decision() == Decision::Allow;
        // Effects of configuration files show when the row is run.
        match (text_of(&row, "expect"), text_of(&row, "from")) {
            ("deny", "words") if is_allowed => wrong.push(row),
            ("allow", _) => {
                benign += 1;
                if !is_allowed {
                    asked.push(format!("{row}: {}", verdict.refusal()));
                }
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "allowed: {wrong:#?}");
    assert!(asked.len() * 50 <= benign, "{} of {benign} asked: {asked:#?}", asked.len());
    assert!(benign >= 150, "{benign} benign rows");
}

#[tokio::test]
async fn programs_configured_in_files_are_not_run() {
    for row in rows().iter().filter(|row| row["from"] == "files") {
        let test = TestWorkspace::new();
        bash(&test.workspace(), SYSTEM_PATH, text_of(row, "setup"));
        test.windlass.engine().set_policy(policy(row));
        let result = test.call("bash", json!({"command": row["cmd"]})).await;
        assert!(!has_canary(&test.workspace()), "{row}: {}", result.output.to_text());
    }
}

#[test]
fn the_corpus_is_large_and_its_ids_are_unique() {
    let rows = rows();
    let mut ids: Vec<&str> = rows.iter().map(|row| text_of(row, "id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), rows.len());
    assert!(rows.len() >= 300, "{}", rows.len());
}

/// Programs that a machine may lack and that `cargo xtask setup` does not install. Rows with them are run only where they are installed;
/// the decisions about these rows are tested everywhere.
const OPTIONAL: &[&str] = &["ed", "gdb", "sqlite3", "ssh", "vim", "zip"];

/// Runs every denied row of a share in bash, and checks that it creates the file `CANARY`.
fn check_denied_rows(share: usize) {
    let tools = tool_links();
    let path = format!("{}:{SYSTEM_PATH}", tools.path().display());
    let mut silent = Vec::new();
    for row in rows().iter().skip(share).step_by(SHARES).filter(|row| row["expect"] == "deny") {
        let folder = tempfile::tempdir().expect("a folder");
        bash(folder.path(), &path, text_of(row, "setup"));
        assert!(!has_canary(folder.path()), "{row} fires before it is run");
        bash(folder.path(), &path, text_of(row, "cmd"));
        if !canary_appears(folder.path()) {
            silent.push(row.clone());
        }
    }
    let is_missing = |row: &Value| {
        let rules = row["allow"].as_array().expect("rules").iter();
        let mut programs = rules.filter_map(|rule| rule.as_str()?.split(' ').next());
        programs.any(|program| OPTIONAL.contains(&program) && !is_installed(program))
    };
    silent.retain(|row| !is_missing(row));
    assert!(silent.is_empty(), "do nothing: {silent:#?}");
}

#[test]
fn rows_fire_in_bash_1() {
    check_denied_rows(0);
}

#[test]
fn rows_fire_in_bash_2() {
    check_denied_rows(1);
}

#[test]
fn rows_fire_in_bash_3() {
    check_denied_rows(2);
}

#[test]
fn rows_fire_in_bash_4() {
    check_denied_rows(3);
}

fn is_installed(program: &str) -> bool {
    let mut bash = Command::new("bash");
    let looked = bash.args(["-c", "type -P -- \"$0\"", program]).env("PATH", SYSTEM_PATH).output();
    looked.is_ok_and(|found| found.status.success())
}

/// Waits a little for the file `CANARY`, because background programs may outlive bash. Returns whether it exists.
fn canary_appears(directory: &Path) -> bool {
    (0..40).any(|turn| {
        std::thread::sleep(Duration::from_millis(if turn == 0 { 0 } else { 25 }));
        has_canary(directory)
    })
}

/// Returns whether a file `CANARY` exists, also with a carriage return at the end of its name.
fn has_canary(directory: &Path) -> bool {
    let mut entries = std::fs::read_dir(directory).expect("a directory");
    entries.any(|entry| {
        entry.is_ok_and(|entry| entry.file_name().as_encoded_bytes().starts_with(b"CANARY"))
    })
}

/// Runs a text in bash without a sandbox, with a time limit.
pub(super) fn bash(directory: &Path, path: &str, text: &str) {
    let mut child = Command::new("bash")
        .args(["-c", text])
        .current_dir(directory)
        .env_clear()
        .env("PATH", path)
        .env("HOME", directory)
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("bash");
    let end = Instant::now() + Duration::from_secs(20);
    while child.try_wait().expect("its end").is_none() {
        if Instant::now() > end {
            child.kill().expect("its end");
            child.wait().expect("its end");
            panic!("it does not end: {text}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
