//! Ends of calls: every end gives one result, one event and one record.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    CallId, Content, EffectKinds, Effects, EventKind, Mode, Outcome, Output, Overrides, Policy,
    RecordKind, ToolCall, ToolError,
};

use crate::support::{Setup, assert_text, call, hangs, says, writes};

/// A tool that ends with this answer.
fn answers(name: &str, answer: fn() -> Result<Output, ToolError>) -> MockTool {
    MockTool::named(name).answering(move |_, _| async move { answer() })
}

/// Tools for all ways to end.
fn tools() -> Vec<MockTool> {
    vec![
        says("fine", "done"),
        answers("no_match", || Ok(Output::error("no match").with("matches", 0))),
        answers("no_file", || Err(ToolError::failed("no such file").hint("look elsewhere"))),
        answers("host", || Err(ToolError::host_failed("no processes here"))),
        answers("internal", || Err(ToolError::internal("a bug"))),
        answers("panics", || panic!("oh no")),
        answers("refuses", || Err(ToolError::denied("the site says no"))),
        answers("gives_up", || Err(ToolError::timed_out("the server was too slow"))),
        answers("aborts", || Err(ToolError::cancelled("the server hung up"))),
        hangs("hangs"),
        writes(MockTool::named("write")),
        says("sly", "done").with_effects(EffectKinds::NONE, |_| Effects::write("out")),
        MockTool::named("strict").with_schema(json!({"type": "object", "required": ["x"]})),
    ]
}

/// Tool, expected outcome, code and text of a call.
const ENDINGS: [(&str, Outcome, Option<&str>, &str); 14] = [
    ("fine", Outcome::Ok, None, "done"),
    ("no_match", Outcome::Error, None, "no match"),
    ("no_file", Outcome::Error, None, "no such file\nlook elsewhere"),
    ("host", Outcome::Fault, Some("host_failed"), "no processes here"),
    ("internal", Outcome::Fault, Some("internal"), "a bug"),
    ("panics", Outcome::Fault, Some("panicked"), "the tool panicked: oh no"),
    ("refuses", Outcome::Denied, Some("denied"), "the site says no"),
    ("gives_up", Outcome::TimedOut, Some("timed_out"), "the server was too slow"),
    ("aborts", Outcome::Cancelled, Some("cancelled"), "the server hung up"),
    (
        "hangs",
        Outcome::TimedOut,
        Some("timed_out"),
        "so far so good\n[the call was stopped after 60 s]",
    ),
    (
        "write",
        Outcome::Denied,
        Some("denied"),
        "not allowed: write /w/out (decided by mode ask): no person is available to ask\nto allow it: --allow 'write /w/out'",
    ),
    (
        "sly",
        Outcome::Fault,
        Some("undeclared_effect"),
        "`sly` wants to write out, but says that its calls are only of the kinds ",
    ),
    ("strict", Outcome::Fault, Some("invalid_args"), "`x` is missing"),
    (
        "nothing",
        Outcome::Fault,
        Some("unknown_tool"),
        "there is no tool `nothing`\nthe tools are: fine, no_match, no_file, host, internal, panics, refuses, gives_up, aborts, hangs, write, sly, strict",
    ),
];

/// Makes an engine with these tools and a time limit of a minute.
fn setup() -> Setup {
    Setup::with(tools(), |builder| {
        builder.policy(Policy::new(Mode::Ask)).timeout(Duration::from_mins(1))
    })
}

/// Checks that every call has one last event and one last record, which agree, and nothing after them. Returns the outcomes.
async fn check_ends(setup: &mut Setup, calls: usize) -> BTreeMap<CallId, Outcome> {
    let mut told = BTreeMap::new();
    for event in setup.told().await {
        let id = event.call.as_ref().expect("an event of a call").clone();
        assert!(!told.contains_key(&id), "told after its end: {event:?}");
        if let EventKind::Finished(result) = event.kind {
            told.insert(id, result.outcome);
        }
    }
    let mut recorded = BTreeMap::new();
    for record in setup.journal.records() {
        assert!(!recorded.contains_key(&record.call), "recorded after its end: {record:?}");
        if let RecordKind::Finished(outcome) = record.kind {
            recorded.insert(record.call, outcome);
        }
    }
    assert_eq!(told, recorded);
    assert_eq!(told.len(), calls);
    told
}

#[tokio::test(start_paused = true)]
async fn every_way_to_end_is_one_result_one_event_and_one_record() {
    for (tool, outcome, code, text) in ENDINGS {
        let mut setup = setup();
        let result = setup.call(tool, json!({})).await;
        assert_text(&result, outcome, text);
        assert_eq!(result.code, code, "{tool}");
        let metadata = &result.output.metadata;
        assert_eq!(metadata.get("code").and_then(|code| code.as_str()), code, "{tool}");
        assert_eq!(metadata["turn"], result.turn.as_str(), "{tool}");
        assert_eq!(result.output.is_error, outcome.is_error(), "{tool}");
        assert_eq!(check_ends(&mut setup, 1).await[&result.call], outcome, "{tool}");
        let body = setup.bodies().pop().expect("a last record");
        assert_eq!(body["content"][0]["text"], text, "{tool}");
        assert_eq!(body["metadata"]["turn"], result.turn.as_str(), "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_ways_to_end_work_in_one_turn() {
    let mut setup = setup();
    let calls: Vec<ToolCall> = ENDINGS.iter().map(|(tool, ..)| call(tool)).collect();
    let results = setup.engine.turn(&setup.session, [calls.clone(), calls].concat()).await;
    for (result, (tool, outcome, ..)) in results.iter().zip(ENDINGS.iter().cycle()) {
        assert_eq!((result.tool.as_str(), result.outcome), (*tool, *outcome));
    }
    check_ends(&mut setup, 2 * ENDINGS.len()).await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_call_keeps_its_partial_output() {
    let mut setup = setup();
    let (engine, session) = (setup.engine.clone(), setup.session.clone());
    let turn = tokio::spawn(async move {
        engine.turn(&session, vec![call("hangs"), call("fine"), call("hangs")]).await
    });
    let first = setup.started("hangs").await;
    setup.started("hangs").await;
    // The tool prints right after its beginning.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(setup.engine.cancel(&first));
    let results = turn.await.unwrap();
    let stopped = "so far so good\n[the call was stopped]";
    assert_text(&results[0], Outcome::Cancelled, stopped);
    assert_text(&results[1], Outcome::Ok, "done");
    assert_eq!(results[2].outcome, Outcome::TimedOut, "its sibling went on to its own end");
    assert!(!setup.engine.cancel(&first), "it has ended");
    assert!(!setup.engine.cancel(&CallId::new("c999")), "there is no such call");
}

#[tokio::test(start_paused = true)]
async fn call_that_waits_in_the_queue_can_be_stopped() {
    let tools = [writes(hangs("first")), writes(says("second", "ran"))];
    let mut setup = Setup::with(tools, |builder| builder.timeout(Duration::from_mins(1)));
    let first = setup.spawn(call("first"));
    setup.started("first").await;
    let second = setup.spawn(call("second"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    setup.session.cancel();
    assert_eq!(first.await.unwrap().outcome, Outcome::Cancelled);
    let text = "the call was stopped before it began";
    assert_text(&second.await.unwrap(), Outcome::Cancelled, text);
    // The two calls may end in either order.
    let mut recorded = setup.recorded();
    recorded.sort();
    assert_eq!(recorded, ["cancelled first", "cancelled second", "started first"]);
}

#[tokio::test(start_paused = true)]
async fn caller_that_goes_away_stops_its_calls() {
    let mut setup = setup();
    let turn = setup.engine.turn(&setup.session, vec![call("hangs"), call("fine")]);
    tokio::time::timeout(Duration::from_secs(1), turn).await.expect_err("it hangs");
    let ended = setup
        .next(|event| match event.kind {
            EventKind::Finished(result) if result.tool == "hangs" => Some(result),
            _ => None,
        })
        .await;
    let stopped = "so far so good\n[the call was stopped]";
    assert_text(&ended, Outcome::Cancelled, stopped);
    assert!(setup.told().await.is_empty(), "no event after the end");
    assert_eq!(
        setup.recorded(),
        ["started hangs", "started fine", "ok fine", "cancelled hangs"],
        "it is recorded although its caller went away"
    );
}

#[tokio::test(start_paused = true)]
async fn cancellation_reaches_a_tool_on_another_thread() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let sender = std::sync::Arc::new(std::sync::Mutex::new(Some(sender)));
    let tool = MockTool::named("search").answering(move |cx, _| {
        let sender = sender.lock().unwrap().take().expect("called once");
        async move {
            let watching = cx.clone();
            tokio::spawn(async move {
                watching.cancelled().await;
                sender.send(watching.is_cancelled()).expect("the test waits for it");
            });
            std::future::pending().await
        }
    });
    let setup = Setup::with([tool], |builder| builder.timeout(Duration::from_secs(1)));
    let result = setup.call("search", json!({})).await;
    assert_text(&result, Outcome::TimedOut, "the call was stopped after 1 s");
    assert!(receiver.await.expect("it learned of it"));
}

#[tokio::test]
async fn blocking_work_runs_on_another_thread_and_its_panics_are_contained() {
    let tool = MockTool::named("search").answering(|cx, input| async move {
        let done =
            cx.blocking(move |_| if input["bad"] == true { panic!("deep inside") } else { 42 });
        Ok(Output::json(json!({"found": done.await?})))
    });
    let setup = Setup::of([tool]);
    let result = setup.call("search", json!({})).await;
    assert_eq!(result.output.content, [Content::Json { value: json!({"found": 42}) }]);
    let result = setup.call("search", json!({"bad": true})).await;
    assert_text(&result, Outcome::Fault, "the tool panicked: deep inside");
}

#[tokio::test(start_paused = true)]
async fn zero_time_limit_stops_a_call_that_waits() {
    let setup = setup();
    let limits = Overrides { timeout: Some(Duration::ZERO), ..Overrides::default() };
    let result =
        setup.engine.call(&setup.session, call("hangs").with_overrides(limits.clone())).await;
    assert_eq!(result.outcome, Outcome::TimedOut);
    let result = setup.engine.call(&setup.session, call("fine").with_overrides(limits)).await;
    assert_eq!(result.outcome, Outcome::Ok);
}
