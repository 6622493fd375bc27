//! Engines that the builder makes, and its errors.

mod settings;

use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use windlass::effect::{CommandLine, Effect};
use windlass::policy::PathGlob;
use windlass::process::{ProcessRequest, Program, StderrTarget};
use windlass::testing::MockTool;
use windlass::{
    Builder, CallResult, EffectKinds, Error, Mode, Outcome, Output, ToolCall, Windlass,
};

fn folder(files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in files {
        fs::write(folder.path().join(name), "content\n").expect("a file");
    }
    folder
}

async fn read(builder: Builder, path: &Path) -> CallResult {
    let windlass = builder.build().expect("a workspace");
    let call = ToolCall::new("read", json!({"path": path}));
    windlass.call(&windlass.new_session(), call).await
}

#[test]
fn missing_workspace_is_an_error_that_names_it() {
    let folder = folder(&[]);
    let error =
        Windlass::builder(folder.path().join("nothing")).build().expect_err("no such place");
    assert!(matches!(error, Error::Workspace(_)));
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[test]
fn a_tool_of_your_own_does_not_hide_a_built_in_one() {
    let folder = folder(&[]);
    let error = Windlass::builder(folder.path())
        .tool(MockTool::named("read"))
        .build()
        .expect_err("there is one already");
    assert_eq!(error.to_string(), "there is a tool `read` already");
}

#[tokio::test]
async fn a_tool_can_keep_output_and_errors_of_a_program_apart() {
    let folder = folder(&[]);
    let command = || Program::Shell("echo out; echo err >&2; echo out".to_owned());
    let exec = CommandLine::words([command().to_string()]);
    let tool = MockTool::named("both")
        .with_effects(EffectKinds::EXEC, move |_| Effect::Exec(exec.clone()).into())
        .answering(move |cx, _| async move {
            let directory = cx.files().resolve(Path::new("."))?;
            let request = ProcessRequest {
                errors: StderrTarget::Apart,
                ..ProcessRequest::new(command(), directory)
            };
            let (job, _) = cx.processes()?.run(request, None, None).await?;
            let errors = job.errors_since(0, 100).expect("they are apart");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Ok(Output::text(format!("{}/{}", text(&job.since(0, 100).bytes), text(&errors.bytes))))
        });
    let builder = Windlass::builder(folder.path()).mode(Mode::Yolo).tool(tool);
    let windlass = builder.build().expect("built");
    let result = windlass.call(&windlass.new_session(), ToolCall::new("both", json!({}))).await;
    assert_eq!(result.output.to_text(), "out\nout\n/err\n");
}

#[tokio::test]
async fn built_in_tools_come_first_and_then_your_own() {
    let folder = folder(&[]);
    let windlass =
        Windlass::builder(folder.path()).tool(MockTool::named("deploy")).build().expect("built");
    let tools = windlass.tools(&windlass.new_session()).await;
    let names: Vec<&str> = tools.iter().map(|spec| &*spec.name).collect();
    assert_eq!(names.last(), Some(&"deploy"));
    assert_eq!(names.len(), windlass::tool::BUILTIN.len() + 1);
}

#[tokio::test]
async fn every_call_is_in_the_journal_and_the_journal_is_out_of_reach() {
    let folder = folder(&[]);
    let state = folder.path().join("state");
    let windlass = Windlass::builder(folder.path())
        .state(&state)
        .mode(Mode::Yolo)
        .build()
        .expect("a workspace");
    let session = windlass.new_session();
    for entry in fs::read_dir(&state).expect("the state").map(|entry| entry.expect("an entry")) {
        let call = ToolCall::new("read", json!({"path": entry.path()}));
        let result = windlass.call(&session, call).await;
        assert_eq!(result.outcome, Outcome::Denied, "{}", result.output.to_text());
        let store = windlass.store().expect("a journal");
        let recorded = store.call(&result.call).expect("a journal").expect("the call");
        assert_eq!(recorded.outcome, Some(Outcome::Denied));
    }
}

#[tokio::test]
async fn secret_and_protected_files_are_out_of_reach_unless_named() {
    let folder = folder(&[".env", "plans.md"]);
    let home = folder.path().canonicalize().expect("the real place");
    let builder = || Windlass::builder(folder.path()).mode(Mode::Yolo);
    let (env, plans) = (home.join(".env"), home.join("plans.md"));
    assert_eq!(read(builder(), &env).await.outcome, Outcome::Denied);
    assert_eq!(read(builder().not_secret([env.clone()]), &env).await.outcome, Outcome::Ok);
    assert_eq!(read(builder(), &plans).await.outcome, Outcome::Ok);
    assert_eq!(read(builder().protect([plans.clone()]), &plans).await.outcome, Outcome::Denied);
}

#[tokio::test]
async fn the_content_decides_whether_an_npmrc_is_secret() {
    let folder = folder(&["a.txt"]);
    let npmrc = folder.path().join(".npmrc");
    let large = format!("registry=https://r.example/{}", "a".repeat(64 << 10));
    for (content, is_open) in [
        ("registry=https://r.example/\n//r.example/:_authToken=${TOKEN}\n", true),
        ("registry=https://r.example/\n//r.example/:_authToken=abc\n", false),
        (large.as_str(), false),
    ] {
        fs::write(&npmrc, content).expect("a file");
        let builder = || Windlass::builder(folder.path()).mode(Mode::Yolo);
        let outcome = if is_open { Outcome::Ok } else { Outcome::Denied };
        assert_eq!(read(builder(), &npmrc).await.outcome, outcome, "{content}");
        let windlass = builder().build().expect("a workspace");
        let call = ToolCall::new("grep", json!({"pattern": "r.example", "path": "."}));
        let found = windlass.call(&windlass.new_session(), call).await.output.to_text();
        assert_eq!(found.contains(".npmrc"), is_open, "{found}");
        let denied = builder().deny("read .npmrc".parse().expect("a rule"));
        assert_eq!(read(denied, &npmrc).await.outcome, Outcome::Denied);
    }
}

#[tokio::test]
async fn files_are_not_secret_by_glob() {
    let folder = folder(&["server.pem", "other.key"]);
    let builder = || {
        let glob = "*.pem".parse::<PathGlob>().expect("a glob");
        Windlass::builder(folder.path()).mode(Mode::Yolo).not_secret([glob])
    };
    let at = |name: &str| folder.path().join(name);
    assert_eq!(read(builder(), &at("server.pem")).await.outcome, Outcome::Ok);
    assert_eq!(read(builder(), &at("other.key")).await.outcome, Outcome::Denied);
}

#[tokio::test]
async fn rules_decide_before_the_mode() {
    let folder = folder(&["a.txt", "b.txt"]);
    let builder = || {
        Windlass::builder(folder.path())
            .mode(Mode::Deny)
            .allow("read a.txt".parse().expect("a rule"))
            .allow("read b.txt".parse().expect("a rule"))
            .deny("read b.*".parse().expect("a rule"))
    };
    for (path, outcome) in [("a.txt", Outcome::Ok), ("b.txt", Outcome::Denied)] {
        assert_eq!(read(builder(), Path::new(path)).await.outcome, outcome, "{path}");
    }
}

/// A program may have a runtime for each call. Events of a call are delivered also after its runtime has ended, and only to earlier
/// subscriptions.
#[test]
fn events_are_delivered_after_the_runtime_of_their_call_has_ended() {
    let (folder, state) = (folder(&[]), folder(&[]));
    let windlass = Windlass::builder(folder.path()).state(state.path()).build().expect("built");
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut events = windlass.subscribe();
    for _ in 0..5 {
        let call = ToolCall::new("list", json!({}));
        runtime().block_on(windlass.call(&windlass.new_session(), call));
    }
    let mut late = windlass.subscribe();
    runtime().block_on(async {
        let mut ended = 0;
        while ended < 5 {
            ended += usize::from(events.next().await.kind.name() == "finished");
        }
    });
    assert!(late.try_next().is_none(), "it came after all of them");
}
