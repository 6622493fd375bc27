//! Hector's command tool: it tells its output as it comes, can be stopped, and has lists of what may run.

use serde_json::json;
use windlass::{Event, Mode, Outcome, ToolCall};

use crate::support::{Place, text};

#[tokio::test]
async fn hector_a_command_is_stopped_by_its_call_and_says_what_it_has() {
    let place = Place::new();
    let mut events = place.windlass.subscribe();
    let call =
        ToolCall::new("bash", json!({"command": "echo begun; sleep 999 & sleep 999; touch late"}));
    let (id, running) = place.windlass.engine().start(&place.session, call);
    let running = tokio::spawn(running);
    while !matches!(events.next().await, Event::Output { .. }) {}
    assert!(place.windlass.cancel(&id));
    let result = running.await.unwrap();
    assert_eq!(result.outcome, Outcome::Cancelled);
    assert!(text(&result).starts_with("begun\n"), "{}", text(&result));
    assert!(!place.windlass.cancel(&id), "it is known no more");
    assert!(!place.path("late").exists());
    place.ok("bash", json!({"command": "true"})).await;
}

/// The seed looks at the first word of the first command alone.
#[tokio::test]
async fn hector_what_is_denied_does_not_hide_behind_something_else() {
    for command in [
        "ls; rm -r kept",
        "ls && rm kept",
        "echo $(rm kept)",
        "echo `rm kept`",
        "ls\nrm kept",
        "env rm kept",
        "/bin/rm kept",
        "FOO=1 rm kept",
        "bash -c 'rm kept'",
        "find . -name kept -delete",
        "rm -r -f kept",
    ] {
        let place = Place::built(&[("kept", "1\n")], |builder| {
            builder.mode(Mode::Auto).deny("exec rm".parse().expect("a rule"))
        });
        place.refused("bash", json!({"command": command})).await;
    }
}

/// The seed's argument overrides the configured directory unchecked.
#[tokio::test]
async fn hector_a_working_directory_does_not_lead_out() {
    let place = Place::built(&[("d/x", "")], |builder| builder.mode(Mode::Auto));
    assert_eq!(text(&place.ok("bash", json!({"command": "ls", "cwd": "d"})).await), "x\n");
    for cwd in ["..", "/etc", "d/../..", "nowhere", "d/x"] {
        place.refused("bash", json!({"command": "ls", "cwd": cwd})).await;
    }
}

/// The seed's allow list looks at the first word as well: after `;` everything runs.
#[tokio::test]
async fn hector_what_is_allowed_opens_nothing_else() {
    for command in ["ls; touch new", "ls && touch new", "ls $(touch new)", "ls\ntouch new"] {
        let place = Place::built(&[], |builder| {
            builder.mode(Mode::Ask).allow("exec ls".parse().expect("a rule"))
        });
        place.refused("bash", json!({"command": command})).await;
    }
}

/// Lists of the seed's configuration name commands; ours name tools, too.
#[tokio::test]
async fn hector_lists_bind_a_command_tool() {
    let tools = tempfile::tempdir().unwrap();
    let file = "---\nname: lister\ncommand: ls; touch new\n---\nLists.\n";
    std::fs::write(tools.path().join("lister.md"), file).unwrap();
    let rule = |text: &str| text.parse::<windlass::Rule>().expect("a rule");
    for (mode, allowed, denied, outcome) in [
        (Mode::Ask, None, None, Outcome::Denied),
        (Mode::Ask, Some("tool lister"), None, Outcome::Ok),
        (Mode::Deny, Some("tool lister"), None, Outcome::Ok),
        (Mode::Ask, Some("exec ls"), None, Outcome::Denied),
        (Mode::Ask, Some("tool lister"), Some("tool lister"), Outcome::Denied),
        (Mode::Yolo, None, Some("exec touch"), Outcome::Denied),
        (Mode::Yolo, None, Some("write new"), Outcome::Denied),
    ] {
        let place = Place::built(&[], |builder| {
            let builder = builder.mode(mode).command_tools(tools.path());
            let builder = allowed.into_iter().fold(builder, |b, text| b.allow(rule(text)));
            denied.into_iter().fold(builder, |b, text| b.deny(rule(text)))
        });
        let result = place.call("lister", json!({})).await;
        assert_eq!(result.outcome, outcome, "{mode} {allowed:?} {denied:?}: {}", text(&result));
        assert_eq!(place.path("new").exists(), outcome == Outcome::Ok);
    }
}
