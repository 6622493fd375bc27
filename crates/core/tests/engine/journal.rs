//! The journal: a call is recorded before its events are published, and a call with side effects that cannot be recorded does not run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    CommandLine, Effect, EffectKinds, Effects, EventKind, Mode, Outcome, Output, Policy, Record,
    RecordKind, Session, SessionId, ToolCall,
};

use crate::support::{FailingJournal, Setup, call, says, writes};

#[tokio::test]
async fn ids_of_the_conversation_reach_the_tool_and_the_record() {
    let whose = MockTool::named("whose").answering(|cx, _| async move {
        let made = cx.made();
        let text = |text: &Option<String>| text.clone().unwrap_or("-".into());
        let (id, message) = (text(&made.tool_use_id), text(&made.message));
        Ok(Output::text(format!("{id} {message} {} {}", text(&made.model), cx.agent())))
    });
    let session = Session::new(SessionId::new("s1")).with_model("small").with_agent("reviewer");
    let setup = Setup::of([whose]).in_session(session);
    let call = || ToolCall::new("whose", json!({}));
    for (call, text, made) in [
        (call(), "- - small reviewer", json!({"model": "small"})),
        (
            call().with_id("t1").in_message("m1").by_model("large"),
            "t1 m1 large reviewer",
            json!({"tool_use_id": "t1", "message": "m1", "model": "large"}),
        ),
        (
            ToolCall { name: "gone".into(), ..call().in_message("m2") },
            "",
            json!({"message": "m2", "model": "small"}),
        ),
    ] {
        let result = setup.engine.call(&setup.session, call).await;
        assert!(text.is_empty() || result.output.to_text() == text, "{}", result.output.to_text());
        let of_call = |record: &&Record| record.call == result.call;
        let records = setup.journal.records();
        let first = records.iter().find(of_call).expect("it is on record");
        let body: serde_json::Value = serde_json::from_str(&first.body).expect("a JSON body");
        assert_eq!(body["made"], made, "{text}");
    }
}

#[tokio::test]
async fn record_holds_arguments_effects_decision_and_result() {
    let setup = Setup::of([writes(says("deploy", "deployed"))]);
    let result = setup.call("deploy", json!({"to": "test"})).await;
    let records = setup.journal.records();
    let [started, finished] = records.as_slice() else { panic!("{records:?}") };
    for record in [started, finished] {
        assert_eq!(record.call, result.call);
        assert_eq!(record.turn, result.turn);
        assert_eq!(&record.session, setup.session.id());
        assert_eq!(record.tool, "deploy");
    }
    assert_eq!(started.kind, RecordKind::Started);
    assert_eq!(finished.kind, RecordKind::Finished(Outcome::Ok));
    let bodies = setup.bodies();
    assert_eq!(
        bodies[0],
        json!({
            "v": 2,
            "input": {"to": "test"},
            "effects": [{"write": {"path": "/w/out", "reach": "exact"}}],
            "decided": {"decision": "allow", "by": {"by": "mode", "mode": "auto"}},
        })
    );
    assert_eq!(bodies[1]["content"], json!([{"type": "text", "text": "deployed"}]));
    assert_eq!(bodies[1]["metadata"], json!({"turn": result.turn.as_str()}));
    assert!(bodies[1]["duration_us"].is_u64());
    assert!(bodies[1].get("input").is_none(), "it is in the first record");
}

#[tokio::test]
async fn refused_call_has_its_arguments_in_its_only_record() {
    let setup = Setup::with([writes(MockTool::named("deploy"))], |builder| {
        builder.policy(Policy::new(Mode::Deny))
    });
    setup.call("deploy", json!({"to": "test"})).await;
    setup.call("unknown", json!({"x": 1})).await;
    assert_eq!(setup.recorded(), ["denied deploy", "fault unknown"]);
    let inputs: Vec<_> = setup.bodies().iter().map(|body| body["input"].clone()).collect();
    assert_eq!(inputs, [json!({"to": "test"}), json!({"x": 1})]);
}

#[tokio::test]
async fn record_takes_any_file_name() {
    let path = r"$'caf\xe9\n.txt'";
    let tool =
        MockTool::named("tool").with_effects(EffectKinds::READ, move |_| Effects::read(path));
    let mut setup = Setup::of([tool]);
    assert_eq!(setup.call("tool", json!({})).await.outcome, Outcome::Ok);
    let effects = &setup.bodies()[0]["effects"];
    assert_eq!(effects[0]["read"]["path"], r"$'/w/caf\xe9\n.txt'");
    let first = setup.told().await.into_iter().next().map(|event| event.kind);
    let Some(EventKind::Started(started)) = first else { panic!("no start") };
    let back: Effects = serde_json::from_value(effects.clone()).expect("effects");
    assert_eq!(&back, &*started.effects);
}

/// Calls a tool with these effects on a journal that fails for some kinds of records. Checks that the call fails, and the number of runs
/// of the tool.
async fn check(effects: Effects, fails: fn(RecordKind) -> bool, runs: usize) {
    for heard in [true, false] {
        let ran = Arc::new(AtomicUsize::new(0));
        let (counter, wanted) = (ran.clone(), effects.clone());
        let tool = MockTool::named("tool")
            .with_effects(EffectKinds::ALL, move |_| wanted.clone())
            .answering(move |_, _| {
                counter.fetch_add(1, Ordering::SeqCst);
                async {
                    Ok(Output::text("a secret that must not be published before it is recorded"))
                }
            });
        let Setup { engine, session, mut events, .. } = Setup::with([tool], |builder| {
            builder.journal(Arc::new(FailingJournal { fails })).policy(Policy::new(Mode::Yolo))
        });
        let mut told = None;
        let result = if heard {
            let result = engine.call(&session, call("tool")).await;
            told = events.drain().await.pop();
            result
        } else {
            drop(events);
            engine.call(&session, call("tool")).await
        };
        assert_eq!((result.outcome, result.code), (Outcome::Fault, Some("journal_failed")));
        let text = result.output.to_text();
        assert!(
            text.starts_with("the call could not be put on record: the disk is full\n"),
            "{text}"
        );
        if heard {
            let Some(EventKind::Finished(last)) = told.map(|event| event.kind) else {
                panic!("no last event")
            };
            assert_eq!(last.code, Some("journal_failed"));
        }
        assert_eq!(ran.load(Ordering::SeqCst), runs, "{effects}, heard: {heard}");
    }
}

#[tokio::test]
async fn call_with_side_effects_that_cannot_be_recorded_does_not_run() {
    let net = Effect::Net { origin: "https://a".into(), method: "GET".into() };
    for effects in [
        Effects::write("out"),
        Effects::delete("out"),
        Effects::read("a").and(Effect::Exec(CommandLine::words(["make"]))),
        net.into(),
        Effect::Plugin("p".into()).into(),
        Effect::Mcp { server: "s".into(), tool: "t".into() }.into(),
        Effect::Agent("general".into()).into(),
        Effect::Secret("TOKEN".into()).into(),
    ] {
        check(effects, |_| true, 0).await;
    }
}

#[tokio::test]
async fn result_of_a_read_that_cannot_be_recorded_is_withheld() {
    let looks = [Effects::none(), Effects::read("a"), Effects::state("todo"), Effect::Ask.into()];
    for effects in looks {
        check(effects.clone(), |_| true, 1).await;
        check(effects.clone(), |kind| kind == RecordKind::Started, 1).await;
        check(effects, |kind| kind != RecordKind::Started, 1).await;
    }
}

#[tokio::test]
async fn result_of_a_write_whose_end_cannot_be_recorded_is_withheld() {
    check(Effects::write("out"), |kind| kind != RecordKind::Started, 1).await;
}

#[tokio::test]
async fn conflicting_calls_are_recorded_in_the_order_of_their_effects() {
    let setup = Setup::of([writes(MockTool::named("a")), writes(MockTool::named("b"))]);
    setup.engine.turn(&setup.session, ["a", "b", "a"].map(call).into()).await;
    assert_eq!(setup.recorded(), ["started a", "ok a", "started b", "ok b", "started a", "ok a"]);
}
