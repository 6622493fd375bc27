//! Hex: reading a file, alone and through its executor.
//!
//! Hex counts `limit` and `offset` in bytes and ours counts lines, so the examples with `0123456789` have one digit on each line
//! here.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass::wire::{read_calls, to_api};
use windlass::{ApprovalRequest, CallResult, Decision, Effect, Outcome, ToolCall, Windlass};

fn workspace(content: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.txt"), content).expect("a file");
    folder
}

fn windlass(workspace: &Path) -> Windlass {
    Windlass::builder(workspace)
        .approver(|request: &ApprovalRequest| panic!("asked about {}", request.effects))
        .build()
        .expect("a workspace")
}

/// What `read` answers, without line numbers.
async fn read(content: &str, more: Value) -> CallResult {
    let folder = workspace(content);
    let windlass = windlass(folder.path());
    let mut input = json!({"path": folder.path().join("example.txt"), "numbers": false});
    for (name, value) in more.as_object().expect("an object") {
        input[name] = value.clone();
    }
    windlass.call(&windlass.new_session(), ToolCall::new("read", input)).await
}

/// The lines of the file that an answer shows; the last line of the answer says how many there are.
fn shown(result: &CallResult) -> Vec<String> {
    let mut lines: Vec<String> = result.output.to_text().lines().map(str::to_owned).collect();
    let total = lines.pop().expect("the last line");
    assert!(total.starts_with('[') && total.ends_with(']'), "{total}");
    lines
}

const DIGITS: &str = "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n";

#[tokio::test]
async fn hex_example_read_tool() {
    let result = read("Hello, World!", json!({})).await;
    let printed = [
        format!("Success: {}", result.outcome == Outcome::Ok),
        format!("Output: {}", shown(&result).join("\n")),
    ];
    assert_eq!(printed, ["Success: true", "Output: Hello, World!"]);
}

#[tokio::test]
async fn hex_example_read_tool_with_limit() {
    // As hex does, with the number as a float.
    let result = read(DIGITS, json!({"limit": 5.0})).await;
    assert_eq!(shown(&result).concat(), "01234");
    assert_eq!(result.output.metadata["next_offset"], 6);
}

#[tokio::test]
async fn hex_example_read_tool_with_offset() {
    let result = read(DIGITS, json!({"offset": 6.0})).await;
    assert_eq!(shown(&result).concat(), "56789");
}

#[tokio::test]
async fn hex_example_read_tool_requires_approval() {
    let folder = workspace("test");
    let windlass = windlass(folder.path());
    let session = windlass.new_session();
    let requires_approval = async |path: &Path| {
        let call = ToolCall::new("read", json!({"path": path}));
        let verdict = windlass.explain(&session, call).await.expect("a verdict");
        verdict.decision() == Decision::Ask
    };
    let printed = [
        format!("Sensitive path: {}", requires_approval(Path::new("/etc/passwd")).await),
        format!("Regular path: {}", requires_approval(&folder.path().join("example.txt")).await),
    ];
    assert_eq!(printed, ["Sensitive path: true", "Regular path: false"]);
}

#[tokio::test]
async fn hex_example_read_tool_with_executor() {
    let folder = workspace("Hello from Executor!");
    let windlass = Windlass::builder(folder.path())
        .approver(|_: &ApprovalRequest| true)
        .build()
        .expect("a workspace");
    let input = json!({"path": folder.path().join("example.txt"), "numbers": false});
    let result = windlass.call(&windlass.new_session(), ToolCall::new("read", input)).await;
    let printed = [
        format!("Success: {}", result.outcome == Outcome::Ok),
        format!("Output: {}", shown(&result).join("\n")),
    ];
    assert_eq!(printed, ["Success: true", "Output: Hello from Executor!"]);
}

#[tokio::test]
async fn hex_example_complete_workflow_on_real_files() {
    let folder = workspace("{}");
    let home = folder.path().canonicalize().expect("the real place");
    let outside = tempfile::tempdir().expect("a folder");
    let windlass = Windlass::builder(folder.path())
        .approver(move |request: &ApprovalRequest| {
            request.effects.iter().all(|effect| match effect {
                Effect::Read(at) | Effect::Write(at) => at.path.starts_with(&home),
                _ => false,
            })
        })
        .build()
        .expect("a workspace");
    let session = windlass.new_session();
    let requests = json!([
        {"type": "tool_use", "id": "toolu_read_123", "name": "read", "input": {"path": "example.txt"}},
        {"type": "tool_use", "id": "toolu_write_456", "name": "write",
         "input": {"path": "output.txt", "content": "Hello, World!"}},
        {"type": "tool_use", "id": "toolu_write_789", "name": "write",
         "input": {"path": outside.path().join("passwd"), "content": "malicious"}},
    ]);
    let asked = read_calls(requests).expect("three calls");
    let formats: Vec<_> = asked.iter().map(|asked| asked.format).collect();
    let calls = asked.into_iter().map(windlass::wire::Asked::into_call).collect();
    let results = windlass.turn(&session, calls).await;
    let replies: Vec<Value> =
        formats.iter().zip(&results).map(|(format, result)| to_api(*format, result)).collect();
    let names = ["Read operation", "Write operation (approved)", "Write operation (denied)"];
    let printed: Vec<String> = names
        .iter()
        .zip(&replies)
        .map(|(name, reply)| format!("{name}: success={}", reply["is_error"] == false))
        .collect();
    assert_eq!(
        printed,
        [
            "Read operation: success=true",
            "Write operation (approved): success=true",
            "Write operation (denied): success=false",
        ]
    );
    assert_eq!(fs::read(folder.path().join("output.txt")).expect("written"), b"Hello, World!");
    assert!(!outside.path().join("passwd").exists());
}
