//! Command files as tools: real programs in the default sandbox.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass::event::EventKind;
use windlass::people::ApprovalRequest;
use windlass::process::{Confinement, NetworkAccess, ProcessSettings, SandboxLevel};
use windlass::tool::{CommandFile, Overrides};
use windlass::{Builder, EffectKinds, Mode, Outcome, ToolCall, Undo};

use crate::support::{TestWorkspace, text};

/// Creates a directory of command files.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// Creates a workspace with one command tool `t` of the person, with these additional lines of front matter.
fn workspace_with(
    lines: &str,
    configure: impl FnOnce(Builder) -> Builder,
) -> (TestWorkspace, TempDir) {
    let tools = directory(&[("t.md", &file(lines))]);
    let add = |builder: Builder| configure(builder.command_tools(tools.path()));
    (TestWorkspace::with_builder(&[("a.txt", "alpha\n"), ("d/b.txt", "beta\n")], add), tools)
}

fn test_workspace(lines: &str) -> (TestWorkspace, TempDir) {
    workspace_with(lines, |builder| builder.mode(Mode::Auto))
}

fn file(lines: &str) -> String {
    format!("---\nname: t\n{lines}\n---\nTry something.\n")
}

#[tokio::test]
async fn arguments_come_as_json_and_as_variables() {
    let lines = "
schema:
  properties:
    text: {type: string}
    count: {type: integer, default: 3}
    list: {type: array}
  required: [text]
env: {WHO: me, V: 1.10}
command: |
  cat
  printf '%s|%s|%s|%s|%s|%s\\n' \"$ARG_TEXT\" \"$ARG_COUNT\" \"${ARG_LIST-none}\" \"$WHO\" \"$V\" \"$PWD\"";
    let (test, _tools) = test_workspace(lines);
    let evil = "'; touch evil #$(touch evil)`touch evil`\n\"";
    let result = test.call_ok("t", json!({"text": evil, "list": [1, {"a": "ü"}]})).await;
    let said = text(&result);
    let (given, variables) = said.split_once('\n').unwrap();
    let expected = json!({"text": evil, "list": [1, {"a": "ü"}], "count": 3});
    assert_eq!(serde_json::from_str::<Value>(given).unwrap(), expected);
    let workspace = test.workspace();
    assert_eq!(variables, format!("{evil}|3|none|me|1.10|{}\n", workspace.display()));
    assert!(!test.path("evil").exists());
    let large = json!({"text": "x".repeat(60_000), "list": ["y".repeat(1_000_000)]});
    let result = test.call_ok("t", large).await;
    assert_eq!(result.output.metadata["truncated"], json!(true));
}

/// The approval names the command that has run, also if it is not in the arguments: for a command tool, and for `test`, which finds its
/// own.
#[tokio::test]
async fn approval_of_changes_names_the_command_that_has_run() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let hears = asked.clone();
    let (test, _tools) = workspace_with("command: echo x > made", |builder| {
        builder.mode(Mode::Ask).attendant(move |request: &ApprovalRequest| {
            let seen = (request.has_run, request.command().map(str::to_owned));
            hears.lock().unwrap().push((seen, request.other_arguments()));
            false
        })
    });
    test.call("t", json!({})).await;
    test.call("test", json!({"command": "echo y > made", "path": "d"})).await;
    test.call("bash", json!({"command": "echo z > made"})).await;
    let ran = |command: &str, others| ((true, Some(command.to_owned())), others);
    let expected = [
        ran("echo x > made", None),
        ran("echo y > made", Some(json!({"path": "d"}))),
        ran("echo z > made", None),
    ];
    assert_eq!(*asked.lock().unwrap(), expected);
    assert!(!test.path("made").exists());
}

/// The approval has the end of the command, without secrets. A command that succeeds silently has nothing to say.
#[tokio::test]
async fn approval_of_changes_has_the_end_of_the_command() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let hears = asked.clone();
    let (test, _tools) = workspace_with("command: 'true'", |builder| {
        builder.mode(Mode::Ask).attendant(move |request: &ApprovalRequest| {
            let end = request.ended.clone().expect("it has run");
            hears.lock().unwrap().push((end.headline(), end.last_lines));
            false
        })
    });
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
    for (command, timeout) in [
        ("true", 60),
        ("echo fatal: nobody >&2; exit 128", 60),
        ("echo token TOKEN; kill -SEGV $$", 60),
        ("seq 20000; exit 3", 60),
        ("sleep 60", 1),
    ] {
        let command = format!("echo x > made; {}", command.replace("TOKEN", &token));
        test.call("bash", json!({"command": command, "timeout": timeout})).await;
    }
    let asked = asked.lock().unwrap();
    let headlines: Vec<Option<&str>> = asked.iter().map(|(line, _)| line.as_deref()).collect();
    assert_eq!(
        headlines,
        [
            None,
            Some("it ended with exit code 128 and printed:"),
            Some("it was ended by signal 11 (SEGV) and printed:"),
            Some("it ended with exit code 3; the end of its output (108894 bytes in all):"),
            Some("it was ended at its time limit and printed nothing"),
        ]
    );
    let [_, fatal, secret, long, _] = &asked[..] else { panic!("five questions") };
    assert_eq!(fatal.1, "fatal: nobody");
    assert!(secret.1.starts_with("token ") && !secret.1.contains(&token), "{secret:?}");
    let last: Vec<String> = (19_991..=20_000).map(|number| number.to_string()).collect();
    assert_eq!(long.1, last.join("\n"));
}

#[tokio::test]
async fn arguments_are_checked_against_the_schema() {
    let lines =
        "command: cat\nschema: {properties: {n: {type: integer, maximum: 9}}, required: [n]}";
    let (test, _tools) = test_workspace(lines);
    assert_eq!(text(&test.call_ok("t", json!({"n": "7"})).await), "{\"n\":7}\n");
    for (input, why) in [
        (json!({}), "`n` is missing"),
        (json!({"n": 10}), "n is 10; it must be 9 or less"),
        (json!({"n": 1, "m": 2}), "unknown parameter `m`"),
    ] {
        let said = test.call_refused("t", input).await;
        assert!(said.starts_with(why), "{said}");
    }
}

#[tokio::test]
async fn result_has_the_exit_code_or_the_time_limit() {
    for (lines, outcome, expected) in [
        ("command: echo out; echo err >&2", Outcome::Ok, "out\nerr\n"),
        ("command: 'true'", Outcome::Ok, "[no output]"),
        ("command: echo oh; exit 3", Outcome::Error, "oh\n[exit code 3]"),
        ("command: kill -SEGV $$", Outcome::Error, "[no output; ended by signal 11 (SEGV)]"),
        (
            "timeout: 0.5\ncommand: echo so far; sleep 999 & sleep 999",
            Outcome::TimedOut,
            "so far\n[timed out after 0.5 s; what it printed until then is above]",
        ),
        ("command: |\n  set -eu\n  echo \"$ARG_NONE\"\n  echo never", Outcome::Error, ""),
    ] {
        let (test, _tools) = test_workspace(lines);
        let result = test.call("t", json!({})).await;
        assert_eq!(result.outcome, outcome, "{lines}: {}", text(&result));
        assert_eq!(result.output.is_error, outcome != Outcome::Ok);
        assert!(text(&result).starts_with(expected), "{lines}: {}", text(&result));
        assert!(!text(&result).contains("never"));
    }
}

#[tokio::test]
async fn its_changes_are_reported_and_can_be_undone() {
    let (test, _tools) =
        test_workspace("command: rm -r d; echo new >> a.txt; mkdir e; echo x > e/x");
    let before = test.tree();
    let result = test.call_ok("t", json!({})).await;
    assert_eq!(text(&result), "[no output; changed: M a.txt, D d/b.txt, A e/x]");
    assert_eq!(test.text("a.txt"), "alpha\nnew\n");
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
    before.assert_same(&test.tree(), "the tree before the command");
}

#[tokio::test]
async fn it_is_confined_like_every_program() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("x");
    let command = format!("command: echo x > {}", target.display());
    let (test, _tools) = test_workspace(&command);
    // The directory has the path of one of the machine, but belongs to the sandbox.
    test.call("t", json!({})).await;
    assert!(!target.exists());
    let (test, _tools) = test_workspace("command: exec 3<>/dev/tcp/1.1.1.1/53");
    assert_eq!(test.call("t", json!({})).await.outcome, Outcome::Error);
    let deny = |builder: Builder| builder.mode(Mode::Auto).deny("write d".parse().unwrap());
    let (test, _tools) = workspace_with("command: rm -r d", deny);
    assert_eq!(test.call("t", json!({})).await.outcome, Outcome::Denied);
    assert!(test.path("d/b.txt").exists());
}

#[tokio::test]
async fn read_only_command_of_the_person_needs_no_permission_to_run() {
    let lines = "effects: [read]\ncommand: cat a.txt; touch a.txt; echo x > new; rm -r d";
    for mode in [Mode::Ask, Mode::Plan, Mode::Auto] {
        let (test, _tools) = workspace_with(lines, |builder| builder.mode(mode));
        let before = test.tree();
        let result = test.call("t", json!({})).await;
        assert_eq!(result.outcome, Outcome::Error, "{}", text(&result));
        assert!(text(&result).starts_with("alpha\n"), "{}", text(&result));
        assert!(text(&result).contains("Read-only file system"), "{}", text(&result));
        before.assert_same(&test.tree(), "nothing can be changed");
    }
    let (test, _tools) =
        workspace_with("effects: [read]\ncommand: pwd; cat a.txt", |builder| builder);
    let say = |input| {
        let overrides = Overrides { work_dir: Some("d".into()), ..Overrides::default() };
        test.windlass.call(&test.session, ToolCall::new("t", input).with_overrides(overrides))
    };
    let said = text(&say(json!({})).await);
    assert!(said.starts_with(&format!("{}\n", test.path("d").display())), "{said}");
    assert!(text(&test.call_ok("t", json!({})).await).ends_with("alpha\n"));
    test.put("a.txt", "omega\n");
    assert!(text(&test.call_ok("t", json!({})).await).ends_with("omega\n"), "no answer is kept");
}

#[tokio::test]
async fn read_only_command_of_a_workspace_or_without_a_sandbox_needs_permission() {
    let settings = |level, network| ProcessSettings {
        confinement: Confinement { level, network, ..Confinement::default() },
        ..ProcessSettings::default()
    };
    let lines = "effects: [read]\ncommand: echo ran";
    for (level, network) in
        [(SandboxLevel::Off, NetworkAccess::None), (SandboxLevel::Workspace, NetworkAccess::Full)]
    {
        let settings = settings(level, network);
        let (test, _tools) = workspace_with(lines, |b| b.mode(Mode::Ask).processes(settings));
        assert_eq!(test.call("t", json!({})).await.outcome, Outcome::Denied);
    }
    let files = vec![CommandFile { path: ".windlass/tools/t.md".into(), text: file(lines) }];
    let test = TestWorkspace::with_builder(&[], |b| {
        b.mode(Mode::Ask).ask_before(true).trusted_command_files(files.clone())
    });
    let said = test.call_refused("t", json!({})).await;
    assert!(said.starts_with("not allowed: exec echo ran"), "{said}");
    let test = TestWorkspace::with_builder(&[], |b| {
        b.mode(Mode::Ask).trusted_command_files(files).allow("tool t".parse().unwrap())
    });
    assert_eq!(text(&test.call_ok("t", json!({})).await), "ran\n");
}

#[tokio::test]
async fn command_that_does_not_declare_writing_cannot_write() {
    let text = file("effects: [net]\ncommand: echo x > new");
    let files = vec![CommandFile { path: "t.md".into(), text }];
    let test =
        TestWorkspace::with_builder(&[], |b| b.mode(Mode::Auto).trusted_command_files(files));
    assert_eq!(test.call("t", json!({})).await.outcome, Outcome::Error);
    assert!(!test.path("new").exists());
}

#[tokio::test]
async fn rules_and_roles_bind_it() {
    let denied = |rule: &'static str| {
        workspace_with("command: echo ran", |b| b.mode(Mode::Auto).deny(rule.parse().unwrap()))
    };
    for rule in ["tool t", "tool *", "exec echo"] {
        let (test, _tools) = denied(rule);
        assert_eq!(test.call("t", json!({})).await.outcome, Outcome::Denied, "{rule}");
    }
    let (test, _tools) = workspace_with("command: echo ran | tee new", |b| b.mode(Mode::Plan));
    let said = text(&test.call_ok("t", json!({})).await);
    assert_eq!(said, "ran\n[would have changed, and nothing but files in /tmp is kept: A new]");
    assert!(!test.path("new").exists(), "a plan keeps nothing");
}

/// Builds an engine. Returns the names of its tools, and the warnings.
async fn offered(configure: impl FnOnce(Builder) -> Builder) -> (Vec<String>, Vec<String>) {
    let test = TestWorkspace::with_builder(&[], configure);
    let mut events = test.windlass.subscribe();
    let tools = test.windlass.tools(&test.session).await;
    let known = windlass::tool::BUILTIN.iter().map(|tool| tool.name()).collect::<Vec<_>>();
    let names = tools.iter().map(|tool| tool.name.to_string());
    let names = names.filter(|name| !known.contains(&&**name) && name != "delta").collect();
    let warnings = events.drain().await.into_iter().filter_map(|event| match event.kind {
        EventKind::Warning { message } => Some(message.to_string()),
        _ => None,
    });
    (names, warnings.collect())
}

#[tokio::test]
async fn file_with_an_error_loses_its_own_tool_and_gives_a_warning_with_its_line() {
    let tool = |name: &str| format!("---\nname: {name}\ncommand: 'true'\n---\nText.\n");
    let tools = directory(&[
        ("z.md", &tool("last")),
        ("a.md", &tool("first")),
        ("b.md", "---\nname: b\ncommand: x\ntimeout: soon\n---\nText.\n"),
        ("c.md", &tool("read")),
        ("d.md", &tool("first")),
        ("e.txt", "not looked at"),
        (".f.md", "not looked at"),
        ("README.md", "# Tools\n"),
    ]);
    std::fs::create_dir(tools.path().join("g.md")).unwrap();
    std::fs::write(tools.path().join("h.md"), [0xff, 0xfe]).unwrap();
    std::fs::write(tools.path().join("i.md"), "x".repeat(70_000)).unwrap();
    let theirs = vec![
        CommandFile { path: "w/one.md".into(), text: tool("last") },
        CommandFile { path: "w/two.md".into(), text: tool("theirs") },
    ];
    let missing = tools.path().join("missing");
    let (names, warnings) = offered(|builder| {
        builder.command_tools(tools.path()).command_tools(missing).trusted_command_files(theirs)
    })
    .await;
    assert_eq!(names, ["first", "last", "theirs"]);
    let at = |name: &str| tools.path().join(name).display().to_string();
    let expected = [
        format!("cannot read {}: it is not a file", at("g.md")),
        format!("cannot read {}: stream did not contain valid UTF-8", at("h.md")),
        format!("cannot read {}: it is larger than 64 KiB", at("i.md")),
        format!(
            "not a tool: {}:4:10: `timeout` must be a number of seconds, more than 0 and at most 3600",
            at("b.md")
        ),
        format!(
            "not a tool: {}:2:7: `read` is a built-in tool, which nothing can replace",
            at("c.md")
        ),
        format!("not a tool: {}: there is a tool `first` already, in {}", at("d.md"), at("a.md")),
        format!("not a tool: w/one.md: there is a tool `last` already, in {}", at("z.md")),
    ];
    assert_eq!(warnings, expected);
}

#[tokio::test]
async fn an_embedders_own_tool_is_not_replaced() {
    let tools = directory(&[("t.md", &file("command: 'true'"))]);
    let own = windlass::testing::MockTool::named("t");
    let (names, warnings) = offered(|b| b.tool(own).command_tools(tools.path())).await;
    assert_eq!(names, ["t"]);
    assert_eq!(warnings, ["a tool of command files was left out: there is a tool `t` already"]);
}

#[tokio::test]
async fn files_are_read_when_a_tool_is_first_needed() {
    let (test, tools) = test_workspace("command: echo one");
    test.call_ok("read", json!({"path": "a.txt"})).await;
    std::fs::write(tools.path().join("t.md"), file("command: echo two")).unwrap();
    assert_eq!(text(&test.call_ok("t", json!({})).await), "two\n");
    std::fs::write(tools.path().join("t.md"), file("command: echo three")).unwrap();
    assert_eq!(text(&test.call_ok("t", json!({})).await), "two\n", "what was read stays");
}

#[tokio::test]
async fn its_output_is_streamed_and_it_can_be_stopped() {
    let (test, _tools) = test_workspace("command: echo begun; sleep 999 & sleep 999; touch late");
    let mut events = test.windlass.subscribe();
    let (id, running) = test.windlass.start(&test.session, ToolCall::new("t", json!({})));
    let running = tokio::spawn(running);
    while !matches!(events.next().await.kind, EventKind::Output { .. }) {}
    assert!(test.windlass.cancel(&id));
    let result = running.await.unwrap();
    assert_eq!(result.outcome, Outcome::Cancelled);
    assert!(text(&result).starts_with("begun\n"), "{}", text(&result));
    assert!(!test.path("late").exists());
}

#[tokio::test]
async fn slow_command_becomes_a_job_if_asked_for() {
    let (test, _tools) = test_workspace("command: echo begun; sleep 999");
    let soft_limit = Some(Duration::from_millis(300));
    let call = ToolCall::new("t", json!({}))
        .with_overrides(Overrides { soft_limit, ..Overrides::default() });
    let result = test.windlass.call(&test.session, call).await;
    assert_eq!(result.outcome, Outcome::Ok, "{}", text(&result));
    let job = result.output.metadata["job"].as_str().unwrap().to_owned();
    test.call_ok("kill", json!({"job": job})).await;
    test.session.end_jobs().await;
}

#[tokio::test]
async fn kinds_of_effects_are_the_declared_ones() {
    let kinds = async |lines: &str| {
        let (test, _tools) = test_workspace(lines);
        let tools = test.windlass.tools(&test.session).await;
        tools.iter().find(|tool| tool.name == "t").unwrap().kinds
    };
    assert_eq!(kinds("command: x").await, EffectKinds::EXEC);
    assert_eq!(kinds("command: x\neffects: [read]").await, EffectKinds::READ);
    assert_eq!(
        kinds("command: x\neffects: [write, net]").await,
        EffectKinds::EXEC | EffectKinds::WRITE | EffectKinds::NET
    );
}
