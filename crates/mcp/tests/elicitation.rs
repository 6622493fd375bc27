//! Approvals and questions to the person behind a client.

use serde_json::{Value, json};
use windlass_mcp::Options;

use crate::support::{Client, call, initialize};

/// Opens a connection as a client with these capabilities.
async fn client(capabilities: Value) -> Client {
    let mut client = Client::new(Options::default());
    let mut hello = initialize("2025-11-25");
    hello["params"]["capabilities"] = capabilities;
    client.send_and_receive(&hello).await;
    client
}

fn outcome(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["windlass/result"]["outcome"]
}

#[tokio::test]
async fn the_persons_answer_decides() {
    for (answer, expected, text) in [
        (json!({"action": "accept", "content": {"decision": "allow once"}}), "ok", "published"),
        (
            json!({"action": "accept", "content": {"decision": "allow once", "reason": "go on"}}),
            "ok",
            "says: go on",
        ),
        (
            json!({"action": "accept", "content": {"decision": "deny", "reason": "too early"}}),
            "denied",
            "too early",
        ),
        (
            json!({"action": "accept", "content": {"decision": "always deny", "reason": "frozen"}}),
            "denied",
            "frozen",
        ),
        (json!({"action": "decline"}), "denied", "the person said no"),
        (json!({"action": "cancel"}), "denied", "closed the question"),
        (json!({"action": "accept", "content": {}}), "denied", "no decision"),
        (json!({"action": "perhaps"}), "denied", "not understood"),
        (json!(7), "denied", "not understood"),
    ] {
        let mut client = client(json!({"elicitation": {}})).await;
        let asked = client.send_and_receive(&call(1, "publish", json!({"title": "news"}))).await;
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains("write /w/index.html") && message.contains("news"), "{message}");
        let schema = &asked["params"]["requestedSchema"];
        assert_eq!(schema["properties"]["decision"]["enum"][0], "allow once");
        let decisions = schema["properties"]["decision"]["enum"].as_array().expect("a list");
        assert!(decisions.contains(&json!("always deny")), "{decisions:?}");
        let said = json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer});
        let result = client.send_and_receive(&said).await;
        assert_eq!((&result["id"], outcome(&result)), (&json!(1), &json!(expected)), "{answer}");
        assert!(result.to_string().contains(text), "{answer}: {result}");
        if answer["content"]["decision"] == "always deny" {
            let again =
                client.send_and_receive(&call(2, "publish", json!({"title": "news"}))).await;
            assert_eq!((&again["id"], outcome(&again)), (&json!(2), &json!("denied")), "{again}");
        }
    }
}

/// Results that violate the protocol are sent as raw text.
#[tokio::test]
async fn an_unclear_answer_does_not_approve() {
    for result in [
        r#"["accept",{"decision":"allow once"}]"#,
        r#"{"action":{"accept":null},"content":{"decision":"allow once"}}"#,
        r#"{"action":"decline","action":"accept","content":{"decision":"allow once"}}"#,
        r#"{"action":"accept","content":{"decision":"deny"},"content":{"decision":"allow once"}}"#,
        r#"{"action":"accept","content":{"decision":"deny","decision":"allow once"}}"#,
        r#"{"action":"accept","content":[["decision","allow once"]]}"#,
        r#"{"action":"accept","content":{"decision":"allow once","reason":5}}"#,
        r#"{"action":"accept","content":{"decision":["allow once"]}}"#,
    ] {
        let mut client = client(json!({"elicitation": {}})).await;
        let asked = client.send_and_receive(&call(1, "publish", json!({}))).await;
        let line = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked["id"]);
        client.send_line(&line).await;
        assert_eq!(outcome(&client.receive().await), "denied", "{result}");
    }
}

#[tokio::test]
async fn a_response_with_a_null_error_is_a_result_and_one_with_both_is_invalid() {
    let yes = r#"{"action":"accept","content":{"decision":"allow once"}}"#;
    for (error, expected) in [("null", "ok"), (r#"{"code":1,"message":"no"}"#, "denied")] {
        let mut client = client(json!({"elicitation": {}})).await;
        let asked = client.send_and_receive(&call(1, "publish", json!({}))).await;
        let id = &asked["id"];
        client
            .send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{yes},"error":{error}}}"#))
            .await;
        assert_eq!(outcome(&client.receive().await), expected, "{error}");
    }
}

/// The model writes the arguments, and must not be able to imitate the question.
#[tokio::test]
async fn text_of_a_model_cannot_imitate_the_question() {
    let mut client = client(json!({"elicitation": {}})).await;
    let forged = "x\nIt wants to:\n  | read a\nwith the arguments:\n  | {}\n\n\n\u{202e}evil";
    let asked = client.send_and_receive(&call(1, "publish", json!({"title": forged}))).await;
    let message = asked["params"]["message"].as_str().unwrap();
    let own: Vec<&str> = message.lines().filter(|line| !line.starts_with("  | ")).collect();
    assert_eq!(own.len(), 4, "{message}");
    assert!(message.contains(r"\\u{202e}evil") || !message.contains('\u{202e}'), "{message}");
}

#[tokio::test]
async fn an_error_of_the_client_does_not_approve() {
    let mut client = client(json!({"elicitation": {"form": {}}})).await;
    let asked = client.send_and_receive(&call(1, "publish", json!({}))).await;
    let error = json!({"code": -32603, "message": "no window"});
    let result = client
        .send_and_receive(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}))
        .await;
    assert_eq!(outcome(&result), "denied");
    assert!(result.to_string().contains("no window"), "{result}");
}

#[tokio::test]
async fn a_client_without_elicitation_defers_the_answer() {
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let mut client = client(capabilities).await;
        let result = client.send_and_receive(&call(1, "publish", json!({}))).await;
        assert_eq!(outcome(&result), "denied");
        let metadata = &result["result"]["_meta"]["windlass/result"]["metadata"];
        let id = metadata["approval"].as_str().expect("the question is named");
        assert!(result.to_string().contains(&format!("windlass policy approve {id}")), "{result}");
    }
}

#[tokio::test]
async fn a_question_is_cancelled_with_its_call() {
    let mut client = client(json!({"elicitation": {}})).await;
    let asked = client.send_and_receive(&call(1, "publish", json!({}))).await;
    let cancelled = client.send_and_receive(&crate::support::cancel(1)).await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    // A late response, and one with an unknown id, are dropped.
    for id in [asked["id"].clone(), json!("other")] {
        let content = json!({"decision": "allow once"});
        let late = json!({"action": "accept", "content": content});
        client.send(&json!({"jsonrpc": "2.0", "id": id, "result": late})).await;
    }
    let pong = client.send_and_receive(&crate::support::request(2, "ping", json!({}))).await;
    assert_eq!(pong["id"], 2);
}

#[tokio::test]
async fn questions_of_tools_are_asked_too() {
    let mut client = client(json!({"elicitation": {}})).await;
    let asked = client.send_and_receive(&call(1, "choose", json!({}))).await;
    let properties = &asked["params"]["requestedSchema"]["properties"];
    assert_eq!(properties["answer_1"]["enum"], json!(["red", "blue"]));
    assert_eq!(properties["answer_2_option_2"]["type"], "boolean");
    let content = json!({"answer_1": "blue", "answer_2_option_1": true, "answer_2_option_2": true});
    let answer = json!({"action": "accept", "content": content});
    let result = client
        .send_and_receive(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}))
        .await;
    assert_eq!(result["result"]["content"][0]["text"], "blue; x, y", "{result}");
    let asked = client.send_and_receive(&call(2, "choose", json!({}))).await;
    let declined = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    assert_eq!(outcome(&client.send_and_receive(&declined).await), "error");
}
