//! Tests of commands that search directories, such as `grep -r`, in a workspace with hidden files: real shells in the default
//! sandbox, and on a machine without one.
#![expect(clippy::disallowed_methods, reason = "tests lay out links and directories")]

use std::os::unix::fs::symlink;
use std::sync::Arc;

use serde_json::json;
use windlass_core::{Confinement, Decision, Host, Mode, Outcome, Policy, Rule, SandboxLevel};
use windlass_host::{LocalHost, ProcessSettings};

use crate::testing::Workspace;

const FILES: &[(&str, &str)] = &[
    (".aiexclude", "private/\n*.draft\n"),
    (".gitignore", "ignored/\n"),
    (".env", "PLAN env\n"),
    ("id_rsa", "PLAN key\n"),
    ("private/x", "PLAN private\n"),
    ("ignored/.env", "PLAN ignored\n"),
    ("src/a.draft", "PLAN draft\n"),
    ("src/deep/er/tls.pem", "PLAN pem\n"),
    ("denied/x", "PLAN denied\n"),
    ("denied/deep/x", "PLAN deeply denied\n"),
    ("asked/x", "PLAN asked\n"),
    (".git/ours", "PLAN git\n"),
    ("open", "PLAN open\n"),
    ("src/open", "PLAN src\n"),
];

fn rule(text: &str) -> Rule {
    text.parse().unwrap()
}

fn policy() -> Policy {
    Policy::new(Mode::Ask)
        .deny(rule("read denied/**"))
        .deny(rule("read .git/ours"))
        .with(Decision::Ask, rule("read asked/**"))
}

fn workspace(level: SandboxLevel) -> Workspace {
    let confinement = Confinement { level, ..Confinement::default() };
    let policy = policy().with_confinement(confinement.clone());
    let host = |local: LocalHost| {
        let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
        Arc::new(local.with_processes(settings)) as Arc<dyn Host>
    };
    let workspace = Workspace::with_policy(FILES, host, policy);
    std::fs::create_dir(workspace.path("links")).unwrap();
    for (target, name) in [
        ("../id_rsa", "links/key"),
        ("../private", "links/directory"),
        ("../src/deep", "links/more"),
        ("../open", "links/open"),
        ("nowhere", "links/dangling"),
        (".", "links/self"),
    ] {
        symlink(target, workspace.path(name)).unwrap();
    }
    workspace
}

#[test]
fn hidden_files_are_masked_in_searches() {
    let workspace = workspace(SandboxLevel::Workspace);
    for (command, shown) in [
        ("cat id_*", &[][..]),
        ("cat */x", &[]),
        ("cat *", &["open"]),
        ("cat src/*", &["src"]),
        ("cat src/*/*/*", &[]),
        ("cat links/*", &["open"]),
        ("cat links/*/*/*", &["open"]),
        ("cat links/*/../id_[r]sa", &[]),
        ("grep -rh PLAN .", &["open", "src"]),
        ("grep -rh PLAN", &["open", "src"]),
        ("grep -Rh PLAN links", &["open"]),
        ("grep -rh PLAN src ignored", &["src"]),
        ("grep -hs PLAN ./*/*", &["open", "src"]),
        ("cd src && grep -rh PLAN .", &["src"]),
        ("cd src; cat *", &["src"]),
        ("find . -type f -print0 | xargs -0 cat", &["open", "src"]),
        ("sed -n p id_* open", &["open"]),
        ("tail -n 5 id_* open", &["open"]),
        ("head -1 open", &["open"]),
    ] {
        let result = workspace.call("bash", json!({"command": command}));
        let text = result.output.to_text();
        assert!(!matches!(result.outcome, Outcome::Fault | Outcome::Denied), "{command}: {text}");
        let mut seen: Vec<&str> =
            text.match_indices("PLAN ").map(|(at, _)| word(&text[at + 5..])).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, shown, "{command}: {text}");
    }
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_lowercase());
    &text[..end.unwrap_or(text.len())]
}

#[test]
fn searches_without_hidden_files_run_unchanged() {
    let workspace = workspace(SandboxLevel::Workspace);
    let text = workspace.text("bash", json!({"command": "grep -rc PLAN src/open links/open"}));
    assert_eq!(text, "src/open:1\nlinks/open:1\n");
}

#[test]
fn without_a_sandbox_a_search_asks_and_names_hidden_files() {
    let workspace = workspace(SandboxLevel::Off);
    for (command, named) in [
        ("cat id_*", Some(".env and ")),
        ("grep -r PLAN .", Some(".env and ")),
        ("grep -r PLAN src", Some("src/a.draft and 1 more,")),
        ("cat src/deep/er/*", Some("src/deep/er/tls.pem,")),
        ("grep -r PLAN asked", Some("ask read asked/**")),
        ("cat open", None),
        ("grep PLAN open", None),
        ("ls", None),
    ] {
        let result = workspace.call("bash", json!({"command": command}));
        let text = result.output.to_text();
        match named {
            None => assert_eq!(result.outcome, Outcome::Ok, "{command}: {text}"),
            Some(named) => {
                assert_eq!(result.outcome, Outcome::Denied, "{command}: {text}");
                assert!(text.contains(named), "{command}: {text}");
            }
        }
    }
}

#[test]
fn any_number_of_files_is_masked() {
    let workspace = workspace(SandboxLevel::Workspace);
    for at in 0..1_001 {
        std::fs::create_dir_all(workspace.path(&format!("many/{at}/.ssh"))).unwrap();
        std::fs::write(workspace.path(&format!("many/{at}/.ssh/x")), "PLAN ssh\n").unwrap();
    }
    let result = workspace.call("bash", json!({"command": "grep -r PLAN many; ls -A many/7"}));
    assert_eq!(result.output.to_text(), "[no output]");
}

#[test]
fn searches_leave_out_paths_with_an_ask_rule() {
    let workspace = workspace(SandboxLevel::Workspace);
    for (tool, input) in [
        ("grep", json!({"pattern": "PLAN"})),
        ("glob", json!({"pattern": "**/x"})),
        ("list", json!({"depth": 3})),
    ] {
        let text = workspace.text(tool, input.clone());
        assert!(!text.contains("PLAN asked\n"), "{tool}: {text}");
        assert!(text.contains("asked/x: left out: `ask read asked/**`"), "{tool}: {text}");
    }
    // A call that names the path asks, and there is no attendant.
    let result = workspace.call("grep", json!({"pattern": "PLAN", "path": "asked"}));
    assert_eq!(result.outcome, Outcome::Denied);
}
