//! Programs as hooks, really run in the default sandbox.

mod answers;
mod page;
mod pinned;

use serde_json::{Value, json};
use windlass::event::EventKind;
use windlass::hooks::{HookDefinition, HookFile, HookShape};
use windlass::policy::Secrets;
use windlass::process::{Confinement, ProcessSettings, SandboxLevel};
use windlass::tool::Author;
use windlass::{Builder, Mode, Outcome, ToolCall};

use crate::support::{TestWorkspace, text};

/// Parses a hook file that must have no error.
pub(crate) fn hooks(shape: HookShape, author: Author, content: &str) -> Vec<HookDefinition> {
    let name = if content.trim_start().starts_with('{') { "hooks.json" } else { "hooks.toml" };
    let (hooks, warnings) =
        HookFile { path: name.into(), text: content.into(), author, shape }.read();
    assert_eq!(warnings, [""; 0]);
    hooks
}

/// Makes a hook of the person with this command, at this hook point.
pub(crate) fn own(event: &str, command: &str) -> Vec<HookDefinition> {
    let file = json!({"hooks": [{"event": event, "command": command, "name": "guard"}]});
    hooks(HookShape::Windlass, Author::Person, &file.to_string())
}

/// A workspace with these hooks, in the mode `auto`.
pub(crate) fn test_workspace(hooks: Vec<HookDefinition>) -> TestWorkspace {
    workspace_with(hooks, |builder| builder)
}

pub(crate) fn workspace_with(
    hooks: Vec<HookDefinition>,
    configure: impl FnOnce(Builder) -> Builder,
) -> TestWorkspace {
    let files = [("a.txt", "alpha\n"), ("src/b.rs", "fn b() {}\n")];
    TestWorkspace::with_builder(&files, |builder| configure(builder.mode(Mode::Auto).hooks(hooks)))
}

fn read(path: &str) -> Value {
    json!({"path": path})
}

/// Reads `a.txt` with a `pre_tool` hook of this command, and checks outcome and text.
async fn check(command: &str, outcome: Outcome, said: &str) {
    let test = test_workspace(own("pre_tool", command));
    let result = test.call("read", read("a.txt")).await;
    assert_eq!(result.outcome, outcome, "{command}: {}", text(&result));
    assert!(text(&result).contains(said), "{command}: {}", text(&result));
}

#[tokio::test]
async fn gate_denies_by_exit_code_or_json() {
    check("exit 0", Outcome::Ok, "alpha").await;
    check("echo '{}'", Outcome::Ok, "alpha").await;
    let no = "the hook guard (hooks.json) says no: not today";
    check("echo not today >&2; exit 2", Outcome::Denied, no).await;
    check(r#"echo '{"decision": "deny", "reason": "not today"}'"#, Outcome::Denied, no).await;
    check("exit 2", Outcome::Denied, "says no: exit code 2").await;
}

/// AP-7: a gate that gives no answer denies, for whatever reason.
#[tokio::test]
async fn ap_7_failing_gate_blocks_and_is_named_with_its_error() {
    let failed = |why: &str| {
        format!("the hook guard (hooks.json) must agree at pre_tool, and failed: {why}")
    };
    check("echo oh >&2; exit 1", Outcome::Denied, &failed("exit code 1: oh")).await;
    check("kill -SEGV $$", Outcome::Denied, &failed("ended by signal 11 (SEGV)")).await;
    check("echo '{\"decision\": '", Outcome::Denied, &failed("what it printed is not JSON")).await;
    check("echo fine by me", Outcome::Denied, &failed("what it printed is not JSON")).await;
    check("echo '[]'", Outcome::Denied, &failed("what it printed is JSON, but not an object"))
        .await;
    check(
        r#"echo '{"decision": "perhaps"}'"#,
        Outcome::Denied,
        &failed("there is no decision `perhaps`"),
    )
    .await;
    check(r#"echo '{"reason": 3}'"#, Outcome::Denied, &failed("`reason` is not a text")).await;
    check(r"printf '\377'", Outcome::Denied, &failed("what it printed is not UTF-8")).await;
    check("yes", Outcome::Denied, &failed("it printed more than 1 MiB")).await;
    check("/no/such/program", Outcome::Denied, &failed("exit code 127")).await;
    for command in [json!(["/no/such/program"]), json!(["no-such-program"]), json!(["./a.txt"])] {
        let file = json!({"hooks": [{"event": "pre_tool", "command": command}]}).to_string();
        let test = test_workspace(hooks(HookShape::Windlass, Author::Person, &file));
        let result = test.call("read", read("a.txt")).await;
        assert_eq!(result.outcome, Outcome::Denied, "{command}: {}", text(&result));
    }
}

#[tokio::test]
async fn ap_7_failing_observer_blocks_nothing_and_gives_a_warning() {
    for command in ["exit 1", "kill -SEGV $$", "echo nonsense", "/no/such/program"] {
        let test = test_workspace(own("post_tool", command));
        let mut events = test.windlass.subscribe();
        test.call_ok("read", read("a.txt")).await;
        let warned = events.drain().await.iter().any(|event| {
            matches!(&event.kind, EventKind::Warning { message } if message.starts_with("the hook guard (hooks.json) failed at post_tool: "))
        });
        assert!(warned, "{command}");
    }
}

#[tokio::test]
async fn hanging_hook_and_its_processes_are_killed_at_its_time_limit() {
    let file = |event: &str| {
        json!({"hooks": [{"event": event, "timeout": 0.4, "name": "slow",
            "command": "echo $$ > /tmp/x; (setsid sleep 98765 &) ; sleep 98765"}]})
        .to_string()
    };
    let place_of =
        |event: &str| test_workspace(hooks(HookShape::Windlass, Author::Person, &file(event)));
    let test = place_of("pre_tool");
    let result = test.call("read", read("a.txt")).await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(text(&result).contains("failed: it did not answer within 0.4 s"), "{}", text(&result));
    place_of("post_tool").call_ok("read", read("a.txt")).await;
    let is_left = || {
        let mut processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        processes.any(|process| {
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            command == b"sleep\x0098765\0"
        })
    };
    // The kernel needs a moment to end them.
    for _ in 0..200 {
        if !is_left() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("something is left running");
}

#[tokio::test]
async fn program_receives_the_event_as_json() {
    let test = test_workspace(own(
        "pre_tool",
        r#"printf '{"context": %s}' "$(cat | tr '"' "'" | sed 's/.*/"&"/')""#,
    ));
    let said = text(&test.call_ok("write", json!({"path": "n.txt", "content": "x"})).await);
    let begin = said.find('{').expect("an object");
    let end = said.rfind('}').expect("its end");
    let told: Value = serde_json::from_str(&said[begin..=end].replace('\'', "\"")).unwrap();
    let path = test.path("n.txt").display().to_string();
    let workspace = test.workspace().display().to_string();
    for (key, value) in [
        ("event", json!("pre_tool")),
        ("hook_event_name", json!("PreToolUse")),
        ("hook_name", json!("guard")),
        ("session_id", json!(test.session.id().as_str())),
        ("agent", json!("main")),
        ("cwd", json!(workspace)),
        ("tool_name", json!("write")),
        ("tool_input", json!({"path": "n.txt", "content": "x"})),
        ("effects", json!([format!("read {path}"), format!("write {path}")])),
    ] {
        assert_eq!(told[key], value, "{key}: {told}");
    }
}

#[tokio::test]
async fn arguments_of_a_model_are_never_part_of_the_command() {
    let evil = "$(touch evil)`touch evil`'; touch evil #\"\n";
    let command = r#"test "$WINDLASS_EVENT" = pre_tool && test -n "$WINDLASS_SESSION" && test "$CLAUDE_PROJECT_DIR" = "$PWD" && cat > /dev/null"#;
    let file =
        json!({"hooks": [{"event": "pre_tool", "command": command, "sandbox": "workspace"}]});
    let test = test_workspace(hooks(HookShape::Windlass, Author::Person, &file.to_string()));
    test.call_ok("grep", json!({"pattern": "alpha", "path": ".", "glob": "*.txt"})).await;
    let result = test.call("read", read(evil)).await;
    assert_eq!(result.outcome, Outcome::Error, "there is no such file: {}", text(&result));
    assert!(!test.path("evil").exists());
}

#[tokio::test]
async fn hook_runs_in_its_own_sandbox() {
    // The sandbox of commands is off.
    let off = |builder: Builder| {
        builder.processes(windlass::process::ProcessSettings {
            confinement: windlass::process::Confinement {
                level: windlass::process::SandboxLevel::Off,
                network: windlass::process::NetworkAccess::Full,
                ..windlass::process::Confinement::default()
            },
            ..windlass::process::ProcessSettings::default()
        })
    };
    let tries = "! touch new 2> /dev/null && ! (echo > /dev/tcp/127.0.0.1/9) 2> /dev/null && touch /tmp/mine && test ! -s /proc/net/route || exit 2";
    workspace_with(own("pre_tool", tries), off).call_ok("read", read("a.txt")).await;
    let file =
        json!({"hooks": [{"event": "pre_tool", "command": "touch new", "sandbox": "workspace"}]});
    let test = test_workspace(hooks(HookShape::Windlass, Author::Person, &file.to_string()));
    test.call_ok("read", read("a.txt")).await;
    assert!(test.path("new").exists(), "the person has said so");
}

#[tokio::test]
async fn secrets_are_redacted_for_hooks_and_kept_in_changed_arguments() {
    let command = r#"in=$(cat); case "$in" in *hunter2*) exit 2;; esac; printf '{"input": {"path": "n.txt", "content": "[secret KEY] and more"}}'"#;
    let keep = r#"printf '{"input": {"path": "m.txt", "content": "[secret KEY]"}}'"#;
    let with = |builder: Builder| {
        builder.configure(|engine| engine.secrets(Secrets::new([("KEY", "hunter2hunter2")])))
    };
    let input = json!({"path": "x.txt", "content": "hunter2hunter2"});
    let test = workspace_with(own("pre_tool", command), with);
    test.call_ok("write", input.clone()).await;
    assert_eq!(test.text("n.txt"), "[secret KEY] and more", "it was given as it was shown");
    let test = workspace_with(own("pre_tool", keep), with);
    test.call_ok("write", input).await;
    assert_eq!(test.text("m.txt"), "hunter2hunter2", "what was left alone is what it was");
}

#[tokio::test]
async fn hook_receives_only_matching_events() {
    for (matcher, tool, input, wants) in [
        (json!({"tool": "bash"}), "read", read("a.txt"), false),
        (json!({"tool": "read|write"}), "read", read("a.txt"), true),
        (json!({"tool": "r*"}), "read", read("a.txt"), true),
        (json!({"effect": "write"}), "read", read("a.txt"), false),
        (json!({"effect": "exec|read"}), "read", read("a.txt"), true),
        (json!({"path": "src/**"}), "read", read("a.txt"), false),
        (json!({"path": "src/**"}), "read", read("src/b.rs"), true),
        (json!({"path": "src/**"}), "grep", json!({"pattern": "x"}), true),
        (json!({"agent": "reviewer"}), "read", read("a.txt"), false),
        (json!({"agent": "main"}), "read", read("a.txt"), true),
        (json!({"tool": "read", "path": "src/**"}), "read", read("a.txt"), false),
    ] {
        let file = json!({"hooks": [{"event": "pre_tool", "command": "exit 2", "match": matcher}]});
        let test = test_workspace(hooks(HookShape::Windlass, Author::Person, &file.to_string()));
        let result = test.call(tool, input).await;
        assert_eq!(result.outcome == Outcome::Denied, wants, "{matcher}: {}", text(&result));
    }
}

#[tokio::test]
async fn only_a_hook_of_the_person_can_replace_an_approval() {
    for (author, outcome) in [(Author::Person, Outcome::Ok), (Author::Workspace, Outcome::Denied)] {
        for event in ["pre_tool", "permission_request"] {
            let file =
                json!({"hooks": [{"event": event, "command": r#"echo '{"decision": "allow"}'"#}]});
            let hooks = hooks(HookShape::Windlass, author, &file.to_string());
            let test = workspace_with(hooks, |builder| builder.mode(Mode::Ask));
            let result = test.call("write", json!({"path": "n.txt", "content": "x"})).await;
            assert_eq!(result.outcome, outcome, "{event}: {}", text(&result));
            let denied = test.call("read", read(".env")).await;
            assert_eq!(denied.outcome, Outcome::Denied, "{event}: {}", text(&denied));
        }
    }
}

#[tokio::test]
async fn hooks_receive_session_prompt_and_end_events() {
    let all = json!({"hooks": [
        {"event": "session_start", "command": r#"echo '{"context": "tests first"}'"#},
        {"event": "prompt_submit", "name": "words", "command": "grep -q password && { echo no passwords >&2; exit 2; }; exit 0"},
        {"event": "stop", "command": r#"echo '{"decision": "block", "reason": "the tests fail"}'"#},
        {"event": "pre_message", "command": r#"echo '{"text": "shorter"}'"#},
    ]});
    let test = test_workspace(hooks(HookShape::Windlass, Author::Person, &all.to_string()));
    let (engine, session) = (&test.windlass, &test.session);
    let heard = engine.engine().session_started(session).await;
    assert_eq!(heard.context.len(), 1);
    assert!(heard.context[0].ends_with("says: tests first]"), "{heard:?}");
    assert!(engine.engine().prompt_submitted(session, "mend it").await.is_ok());
    let refused = engine.engine().prompt_submitted(session, "my password is x").await.unwrap_err();
    assert!(refused.to_string().ends_with("says no: no passwords"), "{refused}");
    let heard = engine.engine().report_event(session, windlass::hooks::HookPayload::Stop).await;
    assert!(heard.refused.is_some_and(|why| why.ends_with("the tests fail")));
    let heard = engine
        .engine()
        .report_event(session, windlass::hooks::HookPayload::PreMessage { text: "long" })
        .await;
    assert_eq!(heard.text.as_deref(), Some("shorter"));
}

#[tokio::test]
async fn hooks_bind_every_call_of_a_turn_and_of_sub_sessions() {
    let test = test_workspace(own("pre_tool", "exit 2"));
    let calls = vec![ToolCall::new("read", read("a.txt")), ToolCall::new("list", json!({}))];
    for result in test.windlass.turn(&test.session, calls).await {
        assert_eq!(result.outcome, Outcome::Denied);
    }
    let child = test.session.child(
        windlass::session::SessionId::new("child"),
        windlass::tool::Predicate::All,
        &windlass::tool::Overrides::default(),
    );
    let call = ToolCall::new("read", read("a.txt"));
    let result = test.windlass.call(&std::sync::Arc::new(child), call).await;
    assert_eq!(result.outcome, Outcome::Denied);
}

/// An approval of staged changes passes the hooks like any other.
#[tokio::test]
async fn approval_of_staged_changes_passes_the_hooks() {
    let confinement = Confinement { level: SandboxLevel::Staged, ..Confinement::default() };
    for (command, outcome, said, is_there) in [
        (r#"echo '{"decision": "allow", "context": "as agreed"}'"#, Outcome::Ok, "as agreed", true),
        ("echo not that file >&2; exit 2", Outcome::Denied, "says no: not that file", false),
        // Then a person is asked, and there is no attendant.
        ("exit 0", Outcome::Denied, "no person is available to ask", false),
        // The event has the stage and its changes.
        ("grep -q '\"rule\": *\"sandbox staged\"' && exit 2", Outcome::Denied, "says no", false),
    ] {
        let settings = ProcessSettings { confinement: confinement.clone(), ..Default::default() };
        let hooks = own("permission_request", command);
        let test = workspace_with(hooks, |builder| builder.processes(settings));
        let result = test.call("bash", json!({"command": "echo new > made.txt"})).await;
        assert_eq!(result.outcome, outcome, "{command}: {}", text(&result));
        assert!(text(&result).contains(said), "{command}: {}", text(&result));
        assert_eq!(test.path("made.txt").exists(), is_there, "{command}");
    }
}
