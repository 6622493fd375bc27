//! Rights of sessions, as enforced on the programs that they start.

use std::sync::Arc;

use serde_json::json;
use windlass::policy::{ActiveRule, Decision};
use windlass::process::{NetworkAccess, ProcessSettings, SandboxLevel};
use windlass::session::{SessionId, SessionLimits};
use windlass::tool::Overrides;
use windlass::{CallResult, Mode, Outcome, Session, ToolCall};

use crate::support::{TestWorkspace, text};

/// Runs a command in a child session with these limits.
async fn run(test: &TestWorkspace, limits: SessionLimits, command: &str) -> CallResult {
    let id = SessionId::new("child");
    let child: Arc<Session> = Arc::new(test.session.child(id, limits, &Overrides::default()));
    test.windlass.call(&child, ToolCall::new("bash", json!({"command": command}))).await
}

#[tokio::test]
async fn a_stricter_sandbox_of_a_session_holds_its_programs() {
    let at = |level| SessionLimits { sandbox: Some(level), ..SessionLimits::default() };
    let test = TestWorkspace::with(&[("a", "old\n")]);
    for (level, command, outcome, left) in [
        (SandboxLevel::ReadOnly, "cat a", Outcome::Ok, "old\n"),
        (SandboxLevel::ReadOnly, "echo new > a", Outcome::Error, "old\n"),
        // It runs on a stage, and no person can approve its changes.
        (SandboxLevel::Staged, "echo new > a", Outcome::Denied, "old\n"),
        // The limit is not stricter than the present sandbox.
        (
            SandboxLevel::Off,
            "echo new > a; test ! -e /proc/1/root/etc/shadow",
            Outcome::Ok,
            "new\n",
        ),
    ] {
        let result = run(&test, at(level), command).await;
        assert_eq!(result.outcome, outcome, "{level} {command}: {}", text(&result));
        assert_eq!(test.text("a"), left, "{level} {command}");
    }
}

#[tokio::test]
async fn a_session_that_needs_a_sandbox_runs_nothing_where_it_is_off() {
    let mut settings = ProcessSettings::default();
    settings.confinement.level = SandboxLevel::Off;
    let test =
        TestWorkspace::with_builder(&[], |builder| builder.mode(Mode::Yolo).processes(settings));
    let limits =
        SessionLimits { sandbox: Some(SandboxLevel::Workspace), ..SessionLimits::default() };
    let result = run(&test, limits, "echo x > a").await;
    assert_eq!(result.outcome, Outcome::Denied, "{}", text(&result));
    assert!(!test.path("a").exists());
    assert_eq!(run(&test, SessionLimits::default(), "true").await.outcome, Outcome::Ok);
}

#[tokio::test]
async fn session_without_network_has_none_even_if_the_settings_allow_it() {
    let mut settings = ProcessSettings::default();
    settings.confinement.network = NetworkAccess::Full;
    let test =
        TestWorkspace::with_builder(&[], |builder| builder.mode(Mode::Yolo).processes(settings));
    // Prints the network namespace. The `touch` makes it a command that does not only read: those never have a network.
    let command = "readlink /proc/self/ns/net; touch seen";
    let of_machine = std::fs::read_link("/proc/self/ns/net").expect("a link");
    let of_machine = of_machine.to_string_lossy();
    let full = text(&run(&test, SessionLimits::default(), command).await);
    assert!(full.contains(&*of_machine), "{full}");
    let none = SessionLimits { net: Some(NetworkAccess::None), ..SessionLimits::default() };
    let alone = text(&run(&test, none, command).await);
    assert!(alone.contains("net:[") && !alone.contains(&*of_machine), "{alone}");
}

#[tokio::test]
async fn files_that_a_session_may_not_read_are_not_in_its_view() {
    let test = TestWorkspace::with(&[("plan/a", "secret plan\n"), ("b", "open\n")]);
    let rule = ActiveRule::new(Decision::Deny, "read plan/**".parse().unwrap());
    let limits = SessionLimits { rules: vec![rule], ..SessionLimits::default() };
    let result = run(&test, limits, "cat b; grep -r secret . || true; ls -R").await;
    let said = text(&result);
    assert!(said.contains("open") && !said.contains("secret plan"), "{said}");
    let result = run(&test, SessionLimits::default(), "grep -r secret .").await;
    assert!(text(&result).contains("secret plan"), "{}", text(&result));
}
