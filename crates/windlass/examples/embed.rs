//! Answer a model: an Anthropic message with `tool_use` blocks in, the message with their `tool_result` blocks out.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::{Value, json};
use windlass::wire::{Format, RequestedCall, answer, definitions, read_calls};
use windlass::{Mode, Windlass};

/// Stands for the API: a real program sends the request and gets such a message back.
fn send(request: &Value) -> Value {
    assert!(request["tools"].is_array());
    json!({
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I write the file and look at it."},
            {"type": "tool_use", "id": "toolu_1", "name": "write",
             "input": {"path": "hello.txt", "content": "Hello, World!\n"}},
            {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {"path": "hello.txt"}},
            {"type": "tool_use", "id": "toolu_3", "name": "read", "input": {"path": "/etc/passwd"}},
        ],
    })
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build()?;
    let session = windlass.new_session();
    let tools = definitions(Format::Anthropic, &windlass.tools(&session).await);
    let mut messages = vec![json!({"role": "user", "content": "Make a file hello.txt."})];

    let message = send(&json!({"tools": tools, "messages": messages}));
    messages.push(message.clone());

    let calls = read_calls(message)?.into_iter().map(RequestedCall::into_call).collect();
    let results = windlass.turn(&session, calls).await;
    messages.extend(answer(Format::Anthropic, &results));

    println!("{:#}", Value::from(messages));
    Ok(())
}
