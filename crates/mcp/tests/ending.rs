//! The end of a connection: running calls are stopped, and recorded.

use std::time::Duration;

use serde_json::json;
use windlass_core::Outcome;
use windlass_mcp::Options;

use crate::support::{Client, call, recorded_outcomes, request};

#[tokio::test]
async fn an_empty_input_is_a_normal_end() {
    let client = Client::new(Options::default());
    assert!(client.disconnect().await.0.is_ok());
}

#[tokio::test]
async fn calls_that_run_when_the_input_ends_are_stopped_and_answered() {
    let mut client = Client::new(Options { grace: Duration::ZERO, ..Options::default() });
    client.initialize().await;
    client.send(&call(1, "wait", json!({}))).await;
    client.gate.wait_until_begun(1).await;
    client.close_input().await;
    let answer = client.receive().await;
    assert_eq!(answer["result"]["_meta"]["windlass/result"]["outcome"], "cancelled", "{answer}");
    assert_eq!(client.receive_or_end().await, None);
    assert!(client.server.await.unwrap().is_ok());
    assert_eq!(recorded_outcomes(&client.journal), [("wait".to_owned(), Outcome::Cancelled)]);
}

#[tokio::test]
async fn calls_may_end_within_the_grace_period() {
    let mut client = Client::new(Options { grace: Duration::from_hours(1), ..Options::default() });
    client.initialize().await;
    let params = json!({"name": "wait", "_meta": {"progressToken": 1}});
    client.send(&request(1, "tools/call", params)).await;
    client.gate.wait_until_begun(1).await;
    client.close_input().await;
    client.gate.allow_ends(1);
    let progress = client.receive().await;
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    assert_eq!(client.receive().await["result"]["content"][0]["text"], "waited");
    assert_eq!(client.receive_or_end().await, None);
    assert!(client.server.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_client_that_is_gone_stops_its_calls_at_once() {
    let mut client = Client::new(Options { grace: Duration::from_hours(1), ..Options::default() });
    client.initialize().await;
    client.send(&call(1, "wait", json!({}))).await;
    client.gate.wait_until_begun(1).await;
    // The server notices a client that no longer reads only when it writes.
    client.send(&request(2, "ping", json!({}))).await;
    let (ended, journal) = client.disconnect().await;
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(recorded_outcomes(&journal), [("wait".to_owned(), Outcome::Cancelled)]);
}

#[tokio::test]
async fn a_server_that_is_dropped_stops_its_calls() {
    let mut client = Client::initialized().await;
    client.send(&call(1, "wait", json!({}))).await;
    client.gate.wait_until_begun(1).await;
    client.server.abort();
    // The response to the client does not matter here.
    while client.receive_or_end().await.is_some() {}
    client.wait_until_ended(1).await;
    assert_eq!(recorded_outcomes(&client.journal), [("wait".to_owned(), Outcome::Cancelled)]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_cannot_hold_the_server() {
    let mut client = Client::initialized().await;
    let text = "x".repeat(10_000);
    for n in 0..20 {
        client.send(&call(n, "echo", json!({"text": text}))).await;
    }
    client.close_input().await;
    assert!((&mut client.server).await.unwrap().is_ok());
    assert!(recorded_outcomes(&client.journal).iter().all(|(_, outcome)| *outcome == Outcome::Ok));
}
