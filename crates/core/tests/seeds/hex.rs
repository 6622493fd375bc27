//! Examples of hex: a registry of tools, an executor that asks, and the conversion from an API request to an API response.
//!
//! The output of hex is kept line by line. Two things differ: our list is in the order of registration (theirs is sorted), and our
//! denial says what would allow the call.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use serde_json::{Value, json};
use windlass_core::testing::{EmptyHost, MockTool};
use windlass_core::{
    Answer, ApprovalRequest, Attendant, AttendantReply, BoxFuture, EffectKinds, Effects, Engine,
    Outcome, Output, Session, ToolCall, ToolError, Toolbox,
};
use windlass_wire::{Format, read_calls, to_api};

use crate::support::{Setup, path_of, toolbox};

fn engine(tools: Toolbox, approve: fn(&ApprovalRequest) -> bool) -> (Engine, Arc<Session>) {
    let engine =
        Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).attendant(approve).build();
    let session = engine.new_session();
    (engine, session)
}

fn sorted(tools: &Toolbox) -> String {
    let mut names: Vec<&str> = tools.names().collect();
    names.sort_unstable();
    format!("[{}]", names.join(" "))
}

#[tokio::test]
async fn hex_example() {
    let safe = MockTool::named("echo").answering(|_, input| async move {
        Ok(Output::text(input["message"].as_str().unwrap_or_default()))
    });
    let dangerous = MockTool::named("delete_file")
        .with_effects(EffectKinds::DELETE, |input| Effects::delete(path_of(input)))
        .answering(
            |_, input| async move { Ok(Output::text(format!("Deleted {}", path_of(&input)))) },
        );
    let tools = toolbox([safe, dangerous]);
    let registered = sorted(&tools);
    let (engine, session) = engine(tools, |request| match request.tool.as_str() {
        "delete_file" => request.input["path"] == "/tmp/test.txt",
        _ => true,
    });
    let run =
        async |name: &str, input: Value| engine.call(&session, ToolCall::new(name, input)).await;

    let echoed = run("echo", json!({"message": "Hello, World!"})).await;
    let approved = run("delete_file", json!({"path": "/tmp/test.txt"})).await;
    let denied = run("delete_file", json!({"path": "/etc/passwd"})).await;
    let printed = [
        format!("Echo result: {}", echoed.output.to_text()),
        format!("Delete result (approved): {}", approved.output.to_text()),
        format!("Delete result (denied): success={}", !denied.output.is_error),
        format!("Registered tools: {registered}"),
    ];
    assert_eq!(
        printed,
        [
            "Echo result: Hello, World!",
            "Delete result (approved): Deleted /tmp/test.txt",
            "Delete result (denied): success=false",
            "Registered tools: [delete_file echo]",
        ]
    );
    assert_eq!(denied.outcome, Outcome::Denied);
    let text = denied.output.to_text();
    assert!(text.contains("a directory of the system"), "no rule can allow this path: {text}");
    let refused = run("delete_file", json!({"path": "/tmp/other.txt"})).await;
    assert!(refused.output.to_text().contains("the person said no"), "user denied permission");
}

#[tokio::test]
async fn hex_example_complete_workflow() {
    let read = MockTool::named("read_file").answering(|_, input| async move {
        let path = path_of(&input);
        Ok(Output::text(format!("Contents of {path}")).with("path", path))
    });
    let write = MockTool::named("write_file")
        .with_effects(EffectKinds::WRITE, |input| Effects::write(path_of(input)))
        .answering(|_, input| async move {
            let (path, bytes) = (path_of(&input), input["content"].as_str().map_or(0, str::len));
            Ok(Output::text(format!("Wrote {bytes} bytes to {path}"))
                .with("path", path)
                .with("bytes", bytes))
        });
    let tools = toolbox([read, write]);
    let available = sorted(&tools);
    let (engine, session) = engine(tools, |request| {
        request.tool != "write_file" || path_of(&request.input).starts_with("/tmp/")
    });
    let serve = async |request: &str| -> Value {
        let asked = read_calls(serde_json::from_str(request).expect("JSON")).expect("a call");
        let asked = asked.into_iter().next().expect("one call");
        let format = asked.format;
        to_api(format, &engine.call(&session, asked.into_call()).await)
    };

    let read = serve(
        r#"{"type": "tool_use", "id": "toolu_read_123", "name": "read_file",
            "input": {"path": "/tmp/config.json"}}"#,
    )
    .await;
    let written = serve(
        r#"{"type": "tool_use", "id": "toolu_write_456", "name": "write_file",
            "input": {"path": "/tmp/output.txt", "content": "Hello, World!"}}"#,
    )
    .await;
    let denied = serve(
        r#"{"type": "tool_use", "id": "toolu_write_789", "name": "write_file",
            "input": {"path": "/etc/passwd", "content": "malicious"}}"#,
    )
    .await;
    let success = |reply: &Value| reply["is_error"] == false;
    let printed = [
        format!("Read operation: success={}", success(&read)),
        format!("Write operation (approved): success={}", success(&written)),
        format!("Write operation (denied): success={}", success(&denied)),
        format!("Available tools: {available}"),
    ];
    assert_eq!(
        printed,
        [
            "Read operation: success=true",
            "Write operation (approved): success=true",
            "Write operation (denied): success=false",
            "Available tools: [read_file write_file]",
        ]
    );
    assert_eq!(
        written,
        json!({
            "type": "tool_result", "tool_use_id": "toolu_write_456", "is_error": false,
            "content": [{"type": "text", "text": "Wrote 13 bytes to /tmp/output.txt"}],
        })
    );
    assert_eq!(denied["tool_use_id"], "toolu_write_789");
}

#[tokio::test]
async fn hex_example_result_to_tool_result() {
    let tools = [
        MockTool::named("read_file").answering(|_, _| async { Ok(Output::text("file contents")) }),
        MockTool::named("write_file")
            .answering(|_, _| async { Err(ToolError::failed("permission denied")) }),
    ];
    let setup = Setup::of(tools);
    let reply = async |tool: &str, id: &str, format| {
        let call = ToolCall::new(tool, json!({})).with_id(id);
        to_api(format, &setup.engine.call(&setup.session, call).await)
    };
    let success = reply("read_file", "toolu_123", Format::Anthropic).await;
    let failure = reply("write_file", "toolu_456", Format::Anthropic).await;
    let text = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
    assert_eq!(
        [
            format!("API result 1: type={}, error={}", text(&success["type"]), success["is_error"]),
            // Where a format has a flag for errors the text needs no prefix; where it has none, the prefix is there.
            format!(
                "API result 2: type={}, error={}, content=Error: {}",
                text(&failure["type"]),
                failure["is_error"],
                text(&failure["content"][0]["text"]),
            ),
        ],
        [
            "API result 1: type=tool_result, error=false",
            "API result 2: type=tool_result, error=true, content=Error: permission denied",
        ]
    );
    let without_flag = reply("write_file", "call_1", Format::OpenAiChat).await;
    assert_eq!(without_flag["content"], "Error: permission denied");
}

/// An attendant that denies every approval and says which effects it was asked for.
struct Refusing;

impl Attendant for Refusing {
    fn approve<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, AttendantReply<Answer>> {
        let answer = Answer::deny(format!("asked about {}", request.effects));
        Box::pin(std::future::ready(AttendantReply::Answered(answer)))
    }
}

#[tokio::test]
async fn hex_readme_custom_tool_asks_by_path() {
    let tool = MockTool::named("my_tool")
        .with_effects(EffectKinds::READ, |input| Effects::read(path_of(input)))
        .answering(
            |_, input| async move { Ok(Output::text("done").with("path", path_of(&input))) },
        );
    let setup = Setup::with([tool], |builder| builder.attendant(Refusing));
    let result = setup.call("my_tool", json!({"path": "notes.md"})).await;
    assert_eq!(result.output.metadata["path"], "notes.md");
    let asked = setup.call("my_tool", json!({"path": "/etc/passwd"})).await;
    let text = asked.output.to_text();
    assert!(text.contains("asked about read /etc/passwd"), "{text}");
}

#[tokio::test]
async fn hex_readme_errors_have_two_levels() {
    let failing = MockTool::named("read_file")
        .answering(|_, _| async { Err(ToolError::failed("no such file")) });
    let setup = Setup::of([failing]);
    let ran_but_failed = setup.call("read_file", json!({})).await;
    assert_eq!((ran_but_failed.outcome, ran_but_failed.code), (Outcome::Error, None));
    let could_not_run = setup.call("missing", json!({})).await;
    assert_eq!((could_not_run.outcome, could_not_run.code), (Outcome::Fault, Some("unknown_tool")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hex_readme_concurrent_use() {
    let setup = Setup::of((0..8).map(|at| MockTool::named(format!("tool{at}"))));
    let answers = Arc::new(RwLock::new(HashMap::new()));
    let running: Vec<_> = (0..64)
        .map(|at| {
            let (engine, session) = (setup.engine.clone(), setup.session.clone());
            let answers = answers.clone();
            tokio::spawn(async move {
                let call = ToolCall::new(format!("tool{}", at % 8), json!({}));
                let result = engine.call(&session, call).await;
                answers.write().unwrap().insert(result.call, result.outcome);
            })
        })
        .collect();
    futures_util::future::join_all(running).await;
    let answers = answers.read().unwrap();
    assert_eq!(answers.len(), 64, "each call has an id of its own");
    assert!(answers.values().all(|outcome| *outcome == Outcome::Ok));
}
