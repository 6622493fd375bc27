//! The stages of a call: their order, and no further stage after the one that ends the call.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::testing::MockTool;
use windlass_core::{
    ApprovalRequest, BoxFuture, EffectKinds, Effects, Hook, HookAnswer, HookEvent, HookPayload,
    Journal, JournalError, Mode, Outcome, Output, Policy, Record, RecordReceipt, ToolError,
};

use crate::support::{Log, MapHost, Setup};

/// A hook and journal that log each stage that reaches them.
struct StageLogger(Log);

impl Hook for StageLogger {
    fn name(&self) -> &'static str {
        "watcher"
    }

    fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
        match event.what {
            HookPayload::PreTool(_) => self.0.add("hook before"),
            HookPayload::PostTool(..) => self.0.add("hook after"),
            _ => {}
        }
        Box::pin(async { Ok(HookAnswer::go_on()) })
    }
}

impl Journal for StageLogger {
    fn append(&self, record: Record) -> BoxFuture<'static, Result<RecordReceipt, JournalError>> {
        let log = self.0.clone();
        let name = record.kind.as_str();
        log.add(format!("record {name}"));
        Box::pin(async move {
            log.add(format!("{name} is safe"));
            Ok(RecordReceipt::unnumbered())
        })
    }
}

/// Makes an engine that asks before writing, with a watcher at every stage and a tool `write` for the file `path`.
fn watched(log: &Log) -> Setup {
    let watcher = Arc::new(StageLogger(log.clone()));
    let (effects, run, approve) = (log.clone(), log.clone(), log.clone());
    let tool = MockTool::named("write")
        .with_schema(json!({"type": "object", "properties": {"path": {"type": "string"}}}))
        .with_effects(EffectKinds::WRITE | EffectKinds::READ, move |input: &Value| {
            effects.add("effects");
            match input["path"].as_str() {
                Some(path) => Effects::write(path),
                None => Effects::read("a"),
            }
        })
        .answering(move |cx, _| {
            run.add("run");
            async move { Ok(Output::text(cx.grant().decided().to_string())) }
        });
    let host = Arc::new(MapHost::with(["a"]).hiding("hidden"));
    let mut setup = Setup::on(host, [tool], |builder| {
        builder.policy(Policy::new(Mode::Ask)).hook(watcher.clone()).journal(watcher).attendant(
            move |request: &ApprovalRequest| {
                approve.add(format!("approval of {}", request.effects));
                request.input["path"] != "no"
            },
        )
    });
    while setup.events.try_next().is_some() {}
    setup
}

/// Calls the tool, and checks the outcome and the log of stages.
async fn check(input: Value, outcome: Outcome, stages: &[&str]) {
    let log = Log::default();
    let setup = watched(&log);
    let shown = input.to_string();
    let result = setup.call("write", input).await;
    assert_eq!(result.outcome, outcome, "{shown}");
    assert_eq!(log.lines(), stages, "{shown}");
}

#[tokio::test]
async fn call_with_changes_passes_all_stages_in_order() {
    check(
        json!({"path": "out"}),
        Outcome::Ok,
        &[
            "effects",
            "hook before",
            "record approval",
            "approval is safe",
            "approval of write /w/out",
            "record approval_answered",
            "approval_answered is safe",
            "record started",
            "started is safe",
            "run",
            "hook after",
            "record finished",
            "finished is safe",
        ],
    )
    .await;
}

#[tokio::test]
async fn read_needs_no_approval() {
    let log = Log::default();
    let setup = watched(&log);
    assert_eq!(setup.call("write", json!({})).await.outcome, Outcome::Ok);
    // The record of the beginning becomes safe while the call runs, at the latest with its end.
    let (safe, stages): (Vec<_>, Vec<_>) =
        log.lines().into_iter().enumerate().partition(|(_, line)| line == "started is safe");
    let stages: Vec<String> = stages.into_iter().map(|(_, line)| line).collect();
    let expected =
        ["effects", "hook before", "record started", "run", "hook after", "record finished"];
    assert_eq!(stages[..6], expected);
    assert_eq!(stages[6..], ["finished is safe"]);
    assert!(matches!(safe[..], [(3..=6, _)]), "{safe:?}");
}

#[tokio::test]
async fn refused_call_reaches_no_further_stage() {
    let end = ["record finished", "finished is safe"];
    let check_refused = async |input, outcome, stages: &[&str]| {
        check(input, outcome, &[stages, &end].concat()).await;
    };
    check_refused(json!([]), Outcome::Fault, &[]).await;
    check_refused(json!({"path": "hidden"}), Outcome::Denied, &["effects"]).await;
    check_refused(json!({"path": ".env"}), Outcome::Denied, &["effects", "hook before"]).await;
    check_refused(
        json!({"path": "no"}),
        Outcome::Denied,
        &[
            "effects",
            "hook before",
            "record approval",
            "approval is safe",
            "approval of write /w/no",
            "record approval_answered",
            "approval_answered is safe",
        ],
    )
    .await;
}

#[tokio::test]
async fn read_does_not_wait_for_its_first_record() {
    let log = Log::default();
    let Setup { engine, session, events, .. } = watched(&log);
    drop(events);
    engine.call(&session, windlass_core::ToolCall::new("write", json!({}))).await;
    let at = |line: &str| log.lines().iter().position(|found| found == line).expect("it happened");
    assert!(at("run") < at("started is safe"), "{:?}", log.lines());
    assert!(at("record started") < at("run"));
    assert!(at("started is safe") < at("finished is safe"));
}

#[tokio::test]
async fn explain_returns_the_verdict_and_runs_no_other_stage() {
    let log = Log::default();
    let setup = watched(&log);
    for (input, decision, rule) in [
        (json!({}), windlass_core::Decision::Allow, "mode ask"),
        (json!({"path": "out"}), windlass_core::Decision::Ask, "mode ask"),
        (json!({"path": ".env"}), windlass_core::Decision::Deny, "hard deny: a file of secrets"),
    ] {
        let call = windlass_core::ToolCall::new("write", input);
        let verdict = setup.engine.explain(&setup.session, call).await.expect("a verdict");
        assert_eq!((verdict.decision(), &*verdict.rule()), (decision, rule));
    }
    assert_eq!(log.lines(), ["effects"; 3]);
}
