//! The network door of a call: only granted requests are sent, and each redirect is decided on.

use std::sync::Arc;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    Budget, CallResult, EffectKinds, Effects, Engine, HttpRequest, HttpUrl, Mode, Outcome, Output,
    Policy, Session, ToolCall, Toolbox,
};

use super::{AfterResponse, Server};
use crate::LocalHost;

/// Creates an engine with a tool `fetch` that declares its URL and follows redirects, and a tool `sly` that declares nothing.
fn engine(policy: Policy) -> (Engine, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let url =
        |input: &serde_json::Value| -> HttpUrl { input["url"].as_str().unwrap().parse().unwrap() };
    let fetch = MockTool::named("fetch")
        .with_effects(EffectKinds::NET, move |input| Effects::from(url(input).effect("GET")))
        .answering(move |cx, input| async move {
            let mut response = cx.net()?.follow(HttpRequest::get(url(&input))).await?;
            let (body, _) = response.collect(1_000).await?;
            Ok(Output::text(String::from_utf8_lossy(&body)))
        });
    let sly = MockTool::named("sly").with_effects(EffectKinds::NET, |_| Effects::none()).answering(
        move |cx, input| async move {
            cx.net()?.send(HttpRequest::get(url(&input))).await?;
            Ok(Output::text("sent"))
        },
    );
    let mut tools = Toolbox::new();
    tools.add(fetch).unwrap();
    tools.add(sly).unwrap();
    let host = Arc::new(LocalHost::open(folder.path()).unwrap());
    (Engine::builder(host).toolbox(tools).policy(policy).build(), folder)
}

async fn call(engine: &Engine, tool: &str, url: &str) -> CallResult {
    engine.call(&engine.new_session(), ToolCall::new(tool, json!({"url": url}))).await
}

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

#[tokio::test]
async fn each_redirect_is_decided_on() {
    let mut last = Server::start("HTTP/1.1 200 OK\r\n\r\nthe end", AfterResponse::Close).await;
    let first =
        Server::start(redirect(&format!("http://{}/", last.address)), AfterResponse::Close).await;
    let url = format!("http://{}/", first.address);
    let allow = |policy: Policy, server: &Server| {
        policy.allow(format!("net {}", server.address).parse().unwrap())
    };
    let one = allow(Policy::new(Mode::Ask), &first);
    let result = call(&engine(one.clone()).0, "fetch", &url).await;
    assert_eq!(result.outcome, Outcome::Denied, "{}", result.output.to_text());
    assert!(last.requests.try_recv().is_err(), "no request came there");

    // A mode allows the origin, but not an address of this machine.
    let result = call(&engine(allow(Policy::new(Mode::Yolo), &first)).0, "fetch", &url).await;
    let text = result.output.to_text();
    assert!(text.contains("127.0.0.1 is not a public address: loopback"), "{text}");
    assert!(last.requests.try_recv().is_err(), "no request came there");

    let both = allow(one, &last).with_provenance(false);
    let result = call(&engine(both).0, "fetch", &url).await;
    assert_eq!(result.output.to_text(), "the end");
}

#[tokio::test]
async fn circle_of_redirects_ends() {
    let mut server = Server::start(redirect("/again"), AfterResponse::Close).await;
    let policy = Policy::new(Mode::Ask).allow(format!("net {}", server.address).parse().unwrap());
    let url = format!("http://{}/", server.address);
    let result = call(&engine(policy).0, "fetch", &url).await;
    let text = result.output.to_text();
    assert!(text.contains("redirects further after 10 redirects"), "{text}");
    assert_eq!(std::iter::from_fn(|| server.requests.try_recv().ok()).count(), 11);
}

#[tokio::test]
async fn undeclared_request_is_not_sent() {
    let mut server = Server::start("HTTP/1.1 200 OK\r\n\r\n", AfterResponse::Close).await;
    let policy = Policy::new(Mode::Yolo).allow("net 127.0.0.1".parse().unwrap());
    let result = call(&engine(policy).0, "sly", &format!("http://{}/", server.address)).await;
    assert_eq!(result.code, Some("undeclared_effect"));
    assert!(server.requests.try_recv().is_err());
}

#[tokio::test]
async fn bytes_count_for_the_session() {
    let server = Server::start("HTTP/1.1 200 OK\r\n\r\nhello", AfterResponse::Close).await;
    let policy = Policy::new(Mode::Yolo).allow("net 127.0.0.1".parse().unwrap());
    let (engine, _folder) = engine(policy);
    let budget = Budget { network_bytes: Some(10), ..Budget::default() };
    let session = Arc::new(Session::new(engine.new_session_id()).with_budget(budget));
    let input = json!({"url": format!("http://{}/", server.address)});
    let result = engine.call(&session, ToolCall::new("fetch", input)).await;
    assert_eq!(result.code, Some("busy"), "{}", result.output.to_text());
    assert!(session.spent().network_bytes > 10);
}
