//! Calls: responses, progress, cancellation, many at once.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_core::Outcome;

use crate::support::{Client, call, cancel, recorded_outcomes, request};

#[tokio::test]
async fn responses_report_the_outcome() {
    // Columns: tool, arguments, is_error, outcome, beginning of the text.
    let cases = [
        ("count", json!({"number": 7}), false, "ok", "7"),
        ("count", json!({"number": "7"}), false, "ok", "7"),
        ("count", json!({"number": []}), true, "fault", "number is a list"),
        ("count", json!({"numer": 1}), true, "fault", ""),
        ("count", Value::Null, true, "fault", ""),
        ("echo", Value::Null, false, "ok", "{}"),
        ("fail", json!({}), true, "error", "no such thing"),
        ("panic", json!({}), true, "fault", "the tool panicked: oh no"),
        ("save", json!({}), true, "denied", ""),
    ];
    let mut client = Client::initialized().await;
    for (tool, arguments, is_error, outcome, text) in cases {
        let answer = client.send_and_receive(&call(1, tool, arguments.clone())).await;
        let result = &answer["result"];
        assert_eq!(result["isError"], is_error, "{tool} {arguments}: {answer}");
        let facts = &result["_meta"]["windlass/result"];
        assert_eq!(facts["outcome"], outcome, "{tool} {arguments}: {answer}");
        assert!(facts["call"].as_str().is_some_and(|id| id.starts_with('c')));
        assert!(facts["session"].is_string() && facts["metadata"]["turn"].is_string());
        let found = result["content"][0]["text"].as_str().unwrap();
        assert!(found.starts_with(text), "{tool} {arguments}: {found}");
    }
    let denied = client.send_and_receive(&call(1, "save", json!({}))).await.to_string();
    assert!(denied.contains("allow"), "it should say what to allow: {denied}");
    let failed = client.send_and_receive(&call(1, "fail", json!({}))).await;
    assert_eq!(failed["result"]["_meta"]["windlass/result"]["metadata"]["tried"], 3);
}

#[tokio::test]
async fn every_kind_of_content_has_its_form() {
    let mut client = Client::initialized().await;
    let result = client.send_and_receive(&call(1, "show", json!({}))).await["result"].clone();
    assert_eq!(
        result["content"],
        json!([
            {"type": "text", "text": "a text"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "BBBB", "mimeType": "audio/wav"},
            {"type": "text", "text": "[1,2]"},
            {"type": "resource", "resource": {"uri": "file:///a.md", "text": "# A"}},
            {"type": "resource_link", "uri": "output:c1", "name": "the rest", "mimeType": "text/plain"},
        ])
    );
    assert_eq!(result.get("structuredContent"), None, "before 2026-07-28 only an object");
    let result =
        client.send_and_receive(&call(2, "echo", json!({"b": 1, "a": [null]}))).await["result"]
            .clone();
    assert_eq!(result["structuredContent"], json!({"b": 1, "a": [null]}));
    assert_eq!(result["content"], json!([{"type": "text", "text": r#"{"b":1,"a":[null]}"#}]));
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_a_fault_of_the_request() {
    let mut client = Client::initialized().await;
    let answer = client.send_and_receive(&call(1, "coun", json!({}))).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("`coun`") && text.contains("`count`"), "{text}");
    assert_eq!(recorded_outcomes(&client.journal), [("coun".to_owned(), Outcome::Fault)]);
}

#[tokio::test]
async fn progress_is_sent_before_the_response_and_only_on_request() {
    for token in [json!("t"), json!(7)] {
        let mut client = Client::initialized().await;
        let params = json!({"name": "work", "_meta": {"progressToken": token}});
        client.send(&request(1, "tools/call", params)).await;
        let mut told = Vec::new();
        let answer = loop {
            let message = client.receive().await;
            if message.get("id").is_some() {
                break message;
            }
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"]["progressToken"], token);
            told.push(message["params"].clone());
        };
        assert_eq!(answer["result"]["content"][0]["text"], "worked");
        let texts: String =
            told.iter().map(|told| told["message"].as_str().unwrap().to_owned() + "|").collect();
        assert!(
            ["one|half done\n|three|", "one|half |done\n|three|"].contains(&&*texts),
            "{texts}"
        );
        let numbers: Vec<f64> =
            told.iter().map(|told| told["progress"].as_f64().unwrap()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert_eq!(told.last().unwrap()["total"], 3.0);
        let quiet = client.send_and_receive(&call(2, "work", json!({}))).await;
        assert_eq!(quiet["id"], 2, "{quiet}");
    }
}

#[tokio::test]
async fn a_cancelled_call_is_stopped_and_not_answered() {
    let mut client = Client::initialized().await;
    for (ended, id) in [(0, json!(1)), (2, json!("one"))] {
        client.send(&call(id.clone(), "wait", json!({}))).await;
        client.send(&call(2, "wait", json!({}))).await;
        client.gate.wait_until_begun(2).await;
        client.send(&cancel(99)).await;
        client.send(&cancel(id.clone())).await;
        client.send(&cancel(id)).await;
        client.wait_until_ended(ended + 1).await;
        // The other call continues, and its response is the next message.
        client.gate.allow_ends(1);
        let answer = client.receive().await;
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(2), &json!(false)));
        assert_eq!(client.send_and_receive(&request(3, "ping", json!({}))).await["id"], 3);
        // A late cancellation has no effect.
        client.send(&cancel(2)).await;
    }
    let mut recorded_outcomes = recorded_outcomes(&client.journal);
    recorded_outcomes.sort_by_key(|(_, outcome)| outcome.as_str());
    let wait = |outcome| ("wait".to_owned(), outcome);
    assert_eq!(
        recorded_outcomes,
        [Outcome::Cancelled, Outcome::Cancelled, Outcome::Ok, Outcome::Ok].map(wait),
        "also what was cancelled is on record"
    );
}

#[tokio::test]
async fn an_id_can_be_used_again_after_a_cancellation() {
    let mut client = Client::initialized().await;
    client.send(&call(1, "wait", json!({}))).await;
    client.gate.wait_until_begun(1).await;
    client.send(&cancel(1)).await;
    // The id is in use until the cancelled call has ended.
    let echo = loop {
        let answer = client.send_and_receive(&call(1, "echo", json!({"again": true}))).await;
        match answer.get("id") {
            Some(_) => break answer,
            None => assert_eq!(answer["error"]["code"], -32600, "{answer}"),
        }
    };
    assert_eq!(echo["result"]["structuredContent"], json!({"again": true}));
}

#[tokio::test]
async fn many_calls_in_flight_are_each_answered_once() {
    let mut client = Client::initialized().await;
    let calls = (0..200).map(|n| call(n, "echo", json!({"number": n})).to_string());
    client.send_line(&calls.collect::<Vec<_>>().join("\n")).await;
    let mut heard = BTreeSet::new();
    for _ in 0..200 {
        let answer = client.receive().await;
        let id = answer["id"].as_i64().unwrap();
        assert_eq!(answer["result"]["structuredContent"]["number"], id);
        assert!(heard.insert(id), "{id} was answered twice");
    }
    assert_eq!(client.send_and_receive(&request("last", "ping", json!({}))).await["id"], "last");
}

#[tokio::test]
async fn a_slow_call_does_not_hold_up_others() {
    let mut client = Client::initialized().await;
    client.send(&call("slow", "wait", json!({}))).await;
    client.gate.wait_until_begun(1).await;
    for n in 0..50 {
        assert_eq!(client.send_and_receive(&call(n, "echo", json!({}))).await["id"], n);
    }
    client.gate.allow_ends(1);
    assert_eq!(client.receive().await["id"], "slow");
}
