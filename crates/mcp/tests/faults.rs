//! Invalid and forbidden messages: each gets its error, and the connection continues.

use serde_json::{Value, json};
use windlass_mcp::Options;

use crate::support::{Client, call, request};

/// Sends a line, expects this error, and checks that the connection still works.
async fn check(client: &mut Client, line: &str, id: Option<Value>, code: i64) {
    client.send_line(line).await;
    let answer = client.receive().await;
    let shown: String = line.chars().take(80).collect();
    assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
    assert_eq!(answer.get("id"), id.as_ref(), "{shown}: {answer}");
    assert_eq!(client.send_and_receive(&request("alive", "ping", json!({}))).await["id"], "alive");
}

#[tokio::test]
async fn invalid_messages_get_errors_and_the_connection_continues() {
    let nested = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":{}1{}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let nested_arguments = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"a":{}1{}}}}}}}"#,
        "{\"a\":".repeat(10_000),
        "}".repeat(10_000)
    );
    let cases: &[(&str, Option<i64>, i64)] = &[
        ("not JSON", None, -32700),
        ("{\"jsonrpc\":\"2.0\",", None, -32700),
        ("\u{0}\u{1}\u{2}", None, -32700),
        ("42", None, -32600),
        ("null", None, -32600),
        ("{}", None, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, None, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, None, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, None, -32600),
        (r#"{"id":1,"method":"ping"}"#, Some(1), -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","error":{}}"#, Some(1), -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such/method","params":[1]}"#, Some(1), -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}"#, Some(1), -32601),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled","params":{"requestId":1}}"#,
            Some(1),
            -32601,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, Some(1), -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, Some(1), -32602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":"x"}}"#,
            Some(1),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":7}}"#,
            Some(1),
            -32602,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#, Some(1), -32602),
        (&nested, None, -32600),
        (&nested_arguments, Some(1), -32602),
    ];
    let mut client = Client::initialized().await;
    for (line, id, code) in cases {
        check(&mut client, line, id.map(Value::from), *code).await;
    }
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}\n").await;
    assert_eq!(client.receive().await["error"]["code"], -32700);
}

#[tokio::test]
async fn notifications_get_no_response() {
    let lines = [
        "",
        "   \t\r",
        r#"{"jsonrpc":"2.0","method":"no/such/notification"}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"fail"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":7}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":""}}"#,
    ];
    // Also as the first message.
    let mut client = Client::new(Options::default());
    for _ in 0..2 {
        for line in lines {
            client.send_line(line).await;
            assert_eq!(
                client.send_and_receive(&request("alive", "ping", json!({}))).await["id"],
                "alive",
                "{line}"
            );
        }
        client.initialize().await;
    }
    assert!(client.journal.records().is_empty(), "a call that cannot be answered is not made");
}

#[tokio::test]
async fn a_message_that_is_too_long_is_skipped() {
    let mut client = Client::new(Options { longest_message: 1000, ..Options::default() });
    client.initialize().await;
    for len in [1000, 100_000, 1_000_000] {
        let line = call(1, "echo", json!({"text": "x".repeat(len)})).to_string();
        check(&mut client, &line, None, -32600).await;
    }
}

#[tokio::test]
async fn a_large_message_passes_both_ways() {
    let mut client = Client::initialized().await;
    let text = "x".repeat(3_000_000);
    let message = call(1, "count", json!({"number": text})).to_string();
    client.send_line(&message).await;
    assert_eq!(client.receive().await["id"], 1);
}

#[tokio::test]
async fn a_request_with_an_id_in_use_is_refused_and_the_first_continues() {
    let mut client = Client::initialized().await;
    client.send(&call(1, "wait", json!({}))).await;
    client.gate.wait_until_begun(1).await;
    let refused = client.send_and_receive(&call(1, "echo", json!({}))).await;
    assert_eq!((refused.get("id"), &refused["error"]["code"]), (None, &json!(-32600)));
    assert!(refused["error"]["message"].as_str().unwrap().contains("`1`"));
    // A text and a number are different ids.
    assert_eq!(client.send_and_receive(&call("1", "echo", json!({}))).await["id"], "1");
    client.gate.allow_ends(1);
    let answer = client.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "waited");
    assert_eq!(client.send_and_receive(&call(1, "echo", json!({}))).await["id"], 1, "free again");
}

#[tokio::test]
async fn too_many_requests_are_refused() {
    let mut client = Client::new(Options { most_in_flight: 2, ..Options::default() });
    client.initialize().await;
    client.send(&call(1, "wait", json!({}))).await;
    client.send(&call(2, "wait", json!({}))).await;
    client.gate.wait_until_begun(2).await;
    let refused = client.send_and_receive(&call(3, "wait", json!({}))).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(-32000)));
    client.gate.allow_ends(2);
    let ids = [client.receive().await["id"].clone(), client.receive().await["id"].clone()];
    assert!(ids.contains(&json!(1)) && ids.contains(&json!(2)), "{ids:?}");
    assert_eq!(client.send_and_receive(&call(3, "echo", json!({}))).await["id"], 3);
}
