//! Commands in a shell other than bash: their analysis, their approvals, and the places that name the shell.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use windlass::journal::{CallStarted, JournalRow};
use windlass::policy::{AskTime, Decision};
use windlass::process::{Confinement, ProcessSettings, SandboxLevel, Shell};
use windlass::{Builder, Error, Mode, Outcome, ToolCall, Windlass};

use crate::support::{TestWorkspace, text};

/// Creates a shell with an unknown name, which records its arguments and runs `sh`.
fn create_unknown_shell(folder: &Path) -> PathBuf {
    let program = folder.join("odd");
    fs::write(&program, "#!/bin/sh\necho \"odd $1\"\nexec /bin/sh \"$@\"\n").expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    program
}

fn workspace_with_unknown_shell(
    files: &[(&str, &str)],
    configure: impl FnOnce(Builder) -> Builder,
) -> TestWorkspace {
    TestWorkspace::outside_tmp_with(files, |builder, folder| {
        configure(builder.shell(Shell::new(create_unknown_shell(folder))))
    })
}

#[tokio::test]
async fn every_tool_that_runs_a_command_takes_the_shell() {
    let file = "---\nname: greet\ncommand: echo hello\n---\nSay hello.\n";
    let test = TestWorkspace::outside_tmp_with(&[], |builder, folder| {
        let tools = folder.join("tools");
        fs::create_dir(&tools).expect("a folder");
        fs::write(tools.join("greet.md"), file).expect("a file");
        builder.shell(Shell::new(create_unknown_shell(folder))).command_tools(tools)
    });
    for (tool, input, said) in [
        ("bash", json!({"command": "echo a > a; echo b"}), "odd -c\nb\n"),
        ("greet", json!({}), "odd -c\nhello\n"),
        ("test", json!({"command": "echo 1 passed"}), "odd -c\n1 passed"),
        ("bash", json!({"command": "echo c", "background": true}), "odd -c\nc\n"),
    ] {
        let result = test.call_ok(tool, input).await;
        assert!(text(&result).contains(said), "{tool}: {}", text(&result));
    }
    assert_eq!(test.text("a"), "a\n", "what it changed is kept, and can be undone");
}

#[tokio::test]
async fn commands_of_an_unknown_shell_are_not_understood() {
    use SandboxLevel::{Off, Workspace};
    let decided = |mode: Mode, level: SandboxLevel, deny: Option<&'static str>, unknown: bool| {
        let configure = move |builder: Builder| {
            let confinement = Confinement { level, ..Confinement::default() };
            let builder = builder.mode(mode).allow("exec ls".parse().expect("a rule"));
            let builder =
                builder.processes(ProcessSettings { confinement, ..ProcessSettings::default() });
            deny.into_iter()
                .fold(builder, |builder, rule| builder.deny(rule.parse().expect("a rule")))
        };
        let test = if unknown {
            workspace_with_unknown_shell(&[], configure)
        } else {
            TestWorkspace::with_builder(&[], configure)
        };
        async move {
            let call = ToolCall::new("bash", json!({"command": "ls"}));
            let verdict = test.windlass.engine().explain(&test.session, call).await;
            let verdict = verdict.expect("a verdict");
            (verdict.decision(), verdict.when())
        }
    };
    let (allow, ask) = (Decision::Allow, Decision::Ask);
    assert_eq!(decided(Mode::Ask, Workspace, None, false).await.0, allow, "bash: it only reads");
    assert_eq!(decided(Mode::Ask, Workspace, None, true).await, (ask, AskTime::After));
    assert_eq!(decided(Mode::Ask, Workspace, Some("exec rm"), true).await, (ask, AskTime::Before));
    assert_eq!(decided(Mode::Ask, Off, None, true).await, (ask, AskTime::Before));
    assert_eq!(decided(Mode::Auto, Off, None, true).await.0, ask);
    assert_eq!(decided(Mode::Yolo, Off, Some("exec rm"), true).await.0, ask);
    assert_eq!(decided(Mode::Yolo, Off, Some("exec rm"), false).await.0, allow);
}

#[tokio::test]
async fn sh_is_understood_except_for_bash_syntax() {
    let test = TestWorkspace::with_builder(&[("a", "a\n")], |builder| {
        builder.mode(Mode::Ask).shell(Shell::new("/bin/sh"))
    });
    for (command, outcome, said) in [
        ("cat a", Outcome::Ok, "a\n"),
        ("echo b > b", Outcome::Denied, ""),
        ("[[ a > b ]]; true", Outcome::Denied, ""),
    ] {
        let result = test.call("bash", json!({"command": command})).await;
        assert_eq!(result.outcome, outcome, "{command}: {}", text(&result));
        assert!(text(&result).contains(said), "{command}: {}", text(&result));
    }
    let explained = ToolCall::new("bash", json!({"command": "[[ a > b ]]"}));
    let verdict = test.windlass.engine().explain(&test.session, explained).await;
    let because = verdict.expect("a verdict").because().expect("a reason");
    assert!(because.contains("`[[` means something else to /bin/sh"), "{because}");
}

#[tokio::test]
async fn the_shell_is_named_to_models_people_and_the_record() {
    let test = workspace_with_unknown_shell(&[], |builder| builder.mode(Mode::Auto));
    let tools = test.windlass.tools(&test.session).await;
    let bash = tools.iter().find(|spec| spec.name == "bash").expect("it is offered");
    assert!(bash.description.contains("odd") && !bash.description.contains("bash -c"));
    let result = test.call_ok("bash", json!({"command": "echo a"})).await;
    let store = test.windlass.store().expect("a journal");
    let call = store.call(&result.call).expect("a journal").expect("the call");
    let records = store.records(Some(&call.session), 0, 100).expect("records");
    let started = records.iter().find_map(JournalRow::body_as::<CallStarted<'_>>);
    let shell = started.expect("it began").effects.shell().map(str::to_owned);
    assert!(shell.is_some_and(|shell| shell.ends_with("/odd")));
    let secret = test.call("bash", json!({"command": "echo {{secret KEY}}"})).await;
    assert!(text(&secret).contains("how it writes variables is not known"), "{}", text(&secret));
}

#[tokio::test]
async fn tool_cannot_run_a_command_in_an_undeclared_shell() {
    use windlass::effect::{CommandLine, Effect};
    use windlass::process::ProcessRequest;
    use windlass::testing::MockTool;
    use windlass::{EffectKinds, Output};
    let line = CommandLine::opaque("echo a", "it is not read");
    let tool = MockTool::named("sly")
        .with_effects(EffectKinds::EXEC, move |_| Effect::Exec(line.clone()).into())
        .answering(|cx, _| async move {
            let directory = cx.files().resolve(Path::new("."))?;
            let program = Shell::new("/bin/sh").command("echo a");
            cx.processes()?.run(ProcessRequest::new(program, directory), None, None).await?;
            Ok(Output::text("it ran"))
        });
    let test = TestWorkspace::with_builder(&[], |builder| builder.tool(tool));
    let result = test.call("sly", json!({})).await;
    assert_eq!(result.code, Some("undeclared_effect"), "{}", text(&result));
}

#[test]
fn unusable_shell_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let work = folder.path().join("work");
    fs::create_dir(&work).expect("a folder");
    create_unknown_shell(&work);
    fs::write(folder.path().join("text"), "no program").expect("a file");
    for (program, why) in [
        (PathBuf::from("/opt/none/fish"), "install it, or name another"),
        (PathBuf::from("no-such-shell"), "no program `no-such-shell` is in PATH"),
        (PathBuf::from("bin/zsh"), "give an absolute path, or the name of a program in PATH"),
        (PathBuf::new(), "give an absolute path"),
        (folder.path().join("text"), "is not a program that may be executed"),
        (folder.path().to_owned(), "is not a program that may be executed"),
        (work.join("odd"), "is in the workspace, where a call could replace it"),
    ] {
        let error = Windlass::builder(&work).shell(Shell::new(&program)).build().expect_err("no");
        assert!(matches!(error, Error::Shell(_)));
        assert!(error.to_string().contains(why), "{error}");
    }
}
