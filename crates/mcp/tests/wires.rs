//! Both lifecycles: a connection opened with `initialize`, and stateless requests.

use serde_json::{Value, json};
use windlass_mcp::Options;

use crate::support::{Client, initialize, request, stateless_meta};

#[tokio::test]
async fn versions_are_negotiated() {
    let cases = [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        // This version has no handshake, so the server offers the newest one that has.
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ];
    for (asked, agreed) in cases {
        let options = Options { instructions: Some("Look first.".into()), ..Options::default() };
        let mut client = Client::new(options);
        let answer = client.send_and_receive(&initialize(asked)).await;
        let result = &answer["result"];
        assert_eq!(result["protocolVersion"], agreed, "{asked}");
        assert_eq!(result["serverInfo"]["name"], "windlass");
        assert_eq!(result["capabilities"], json!({"tools": {}}));
        assert_eq!(result["instructions"], "Look first.");
        let list = client.send_and_receive(&request(1, "tools/list", json!({}))).await;
        assert_eq!(list["result"].get("resultType"), None, "{asked}");
        assert_eq!(list["result"].get("ttlMs"), None, "{asked}");
    }
}

#[tokio::test]
async fn stateless_requests_need_no_handshake() {
    let mut client = Client::new(Options::default());
    let answer = client
        .send_and_receive(&request(1, "server/discover", json!({"_meta": stateless_meta()})))
        .await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"].as_array().unwrap().last().unwrap(), "2026-07-28");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "windlass");

    let list = client
        .send_and_receive(&request(2, "tools/list", json!({"_meta": stateless_meta()})))
        .await;
    let result = &list["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["cacheScope"], "private");
    assert!(result["ttlMs"].as_u64().unwrap() > 0);
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "windlass");

    let params = json!({"name": "show", "_meta": stateless_meta()});
    let call = client.send_and_receive(&request(3, "tools/call", params)).await;
    let result = &call["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["structuredContent"], json!([1, 2]), "any value may stand there");
    assert_eq!(result["_meta"]["windlass/result"]["outcome"], "ok");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "windlass");
}

#[tokio::test]
async fn one_connection_accepts_both_lifecycles() {
    let mut client = Client::new(Options::default());
    // A client that does not know the server sends `server/discover` first, and may then use either lifecycle.
    client
        .send_and_receive(&request(1, "server/discover", json!({"_meta": stateless_meta()})))
        .await;
    client.initialize().await;
    let old = client.send_and_receive(&request(2, "tools/list", json!({}))).await;
    assert_eq!(old["result"].get("resultType"), None);
    let new = client
        .send_and_receive(&request(3, "tools/list", json!({"_meta": stateless_meta()})))
        .await;
    assert_eq!(new["result"]["resultType"], "complete");
    assert_eq!(old["result"]["tools"], new["result"]["tools"]);
    assert_eq!(client.send_and_receive(&request(4, "ping", json!({}))).await["result"], json!({}));
    let ping =
        client.send_and_receive(&request(5, "ping", json!({"_meta": stateless_meta()}))).await;
    assert_eq!(ping["error"]["code"], -32601, "there is no ping any more");
}

#[tokio::test]
async fn a_request_without_protocol_version_is_refused() {
    let half = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    let future = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2099-01-01",
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let cases = [
        ("tools/list", json!({}), -32602),
        ("tools/call", json!({"name": "echo"}), -32602),
        ("server/discover", json!({}), -32602),
        ("tools/list", half, -32602),
        ("tools/list", future.clone(), -32022),
        ("server/discover", future, -32022),
    ];
    let mut client = Client::new(Options::default());
    for (method, params, code) in cases {
        let answer = client.send_and_receive(&request(1, method, params.clone())).await;
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
        assert_eq!(answer["id"], 1);
    }
    // The connection still works.
    client.initialize().await;
    assert!(
        client.send_and_receive(&request(2, "tools/list", json!({}))).await["result"].is_object()
    );
}

#[tokio::test]
async fn many_messages_in_one_write_are_all_handled() {
    let mut client = Client::new(Options::default());
    let lines = [
        initialize("2025-11-25"),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        request(1, "tools/list", json!({})),
        request(2, "tools/call", json!({"name": "echo", "arguments": {"a": 1}})),
    ]
    .map(|message| message.to_string())
    .join("\r\n");
    client.send_bytes(lines.as_bytes()).await;
    client.close_input().await;
    let mut ids = Vec::new();
    while let Some(answer) = client.receive_or_end().await {
        assert!(answer["result"].is_object(), "{answer}");
        ids.push(answer["id"].clone());
    }
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, [json!("init"), json!(1), json!(2)], "also the line without an end");
    assert!(client.server.await.unwrap().is_ok());
}

#[tokio::test]
async fn the_tool_list_is_complete_and_stable() {
    let mut client = Client::initialized().await;
    let list =
        client.send_and_receive(&request(1, "tools/list", json!({}))).await["result"].clone();
    assert_eq!(
        list,
        client.send_and_receive(&request(2, "tools/list", Value::Null)).await["result"]
    );
    let tools = list["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["echo", "count", "fail", "panic", "save", "publish", "choose", "show", "wait", "work"]
    );
    assert_eq!(
        tools[1]["annotations"],
        json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false})
    );
    assert_eq!(tools[4]["annotations"]["destructiveHint"], true);
    assert_eq!(tools[1]["inputSchema"]["required"], json!(["number"]));
    assert_eq!(tools[1]["description"], "A tool for tests.");
    let other = client.send_and_receive(&request(3, "tools/list", json!({"cursor": "2"}))).await;
    assert_eq!(other["error"]["code"], -32602);
}
