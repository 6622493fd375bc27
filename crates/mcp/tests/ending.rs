//! The end of a connection: running calls are stopped, and recorded.

use std::time::Duration;

use serde_json::json;
use windlass_core::Outcome;
use windlass_mcp::Options;

use crate::support::{Client, call, endings, request};

#[tokio::test]
async fn nothing_said_is_a_clean_end() {
    let client = Client::new(Options::default());
    assert!(client.leave().await.0.is_ok());
}

#[tokio::test]
async fn calls_that_run_when_the_input_ends_are_stopped_and_answered() {
    let mut client = Client::new(Options { grace: Duration::ZERO, ..Options::default() });
    client.initialize().await;
    client.say(&call(1, "wait", json!({}))).await;
    client.gate.until_begun(1).await;
    client.close_input().await;
    let answer = client.hear().await;
    assert_eq!(answer["result"]["_meta"]["windlass/result"]["outcome"], "cancelled", "{answer}");
    assert_eq!(client.hear_or_end().await, None);
    assert!(client.server.await.unwrap().is_ok());
    assert_eq!(endings(&client.journal), [("wait".to_owned(), Outcome::Cancelled)]);
}

#[tokio::test]
async fn calls_may_end_in_the_time_of_grace() {
    let mut client = Client::new(Options { grace: Duration::from_hours(1), ..Options::default() });
    client.initialize().await;
    let params = json!({"name": "wait", "_meta": {"progressToken": 1}});
    client.say(&request(1, "tools/call", params)).await;
    client.gate.until_begun(1).await;
    client.close_input().await;
    client.gate.let_end(1);
    let progress = client.hear().await;
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    assert_eq!(client.hear().await["result"]["content"][0]["text"], "waited");
    assert_eq!(client.hear_or_end().await, None);
    assert!(client.server.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_client_that_is_gone_stops_its_calls_at_once() {
    let mut client = Client::new(Options { grace: Duration::from_hours(1), ..Options::default() });
    client.initialize().await;
    client.say(&call(1, "wait", json!({}))).await;
    client.gate.until_begun(1).await;
    // The server notices a client that no longer reads only when it writes.
    client.say(&request(2, "ping", json!({}))).await;
    let (ended, journal) = client.leave().await;
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(endings(&journal), [("wait".to_owned(), Outcome::Cancelled)]);
}

#[tokio::test]
async fn a_server_that_is_dropped_stops_its_calls() {
    let mut client = Client::initialized().await;
    client.say(&call(1, "wait", json!({}))).await;
    client.gate.until_begun(1).await;
    client.server.abort();
    // The response to the client does not matter here.
    while client.hear_or_end().await.is_some() {}
    client.until_ended(1).await;
    assert_eq!(endings(&client.journal), [("wait".to_owned(), Outcome::Cancelled)]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_cannot_hold_the_server() {
    let mut client = Client::initialized().await;
    let text = "x".repeat(10_000);
    for n in 0..20 {
        client.say(&call(n, "echo", json!({"text": text}))).await;
    }
    client.close_input().await;
    assert!((&mut client.server).await.unwrap().is_ok());
    assert!(endings(&client.journal).iter().all(|(_, outcome)| *outcome == Outcome::Ok));
}
