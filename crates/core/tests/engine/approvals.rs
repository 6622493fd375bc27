//! Asking: who is asked, what the answer does, and that no answer is a denial rather than a wait for ever.

use std::time::Duration;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    Answer, AnswerError, ApprovalId, ApprovalRequest, Attendant, BoxFuture, Effects, EngineBuilder,
    Kinds, Listening, Mode, Outcome, Policy, Reply, ToolCall,
};

use crate::support::{Setup, assert_text, call, echo, path_of, says, writes};

/// Five minutes, of paused time.
const PATIENCE: Duration = Duration::from_mins(5);

/// A tool `deploy` that writes, in the mode `ask`.
fn asking(people: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Setup {
    Setup::with([writes(says("deploy", "deployed"))], |builder| {
        people(builder.policy(Policy::new(Mode::Ask)))
    })
}

fn listeners() -> Setup {
    asking(|builder| builder.attendant(Listening { patience: Some(PATIENCE) }))
}

const REFUSED: &str = "not allowed: write /w/out (decided by mode ask)";
const REMEDY: &str = "to allow it: --allow 'write /w/out'";

#[tokio::test]
async fn a_closure_answers_from_what_the_call_would_do() {
    let tool = echo("write").with_effects(Kinds::WRITE, |input| Effects::write(path_of(input)));
    let setup = Setup::with([tool], |builder| {
        builder.policy(Policy::new(Mode::Ask)).attendant(|request: &ApprovalRequest| {
            assert_eq!((request.tool.as_str(), &*request.by.to_string()), ("write", "mode ask"));
            request.effects.to_string() == "write /w/tmp/a"
        })
    });
    let allowed = setup.call("write", json!({"path": "x/../tmp/a"})).await;
    assert_eq!(allowed.outcome, Outcome::Ok);
    let denied = setup.call("write", json!({"path": "b"})).await;
    assert_text(
        &denied,
        Outcome::Denied,
        "not allowed: write /w/b (decided by mode ask): the person said no\nto allow it: --allow 'write /w/b'",
    );
    assert_eq!(denied.code, Some("denied"));
    assert_eq!(setup.recorded(), ["started write", "ok write", "denied write"]);
    assert_eq!(setup.decided(0), "approval a0004");
}

#[tokio::test]
async fn with_nobody_to_ask_the_denial_says_what_would_allow_it() {
    let setup = asking(|builder| builder);
    let result = setup.call("deploy", json!({})).await;
    let text = format!("{REFUSED}: no person is available to ask\n{REMEDY}");
    assert_text(&result, Outcome::Denied, &text);
}

#[tokio::test]
async fn what_the_denial_says_would_allow_it_does() {
    let setup = asking(|builder| builder);
    let refused = setup.call("deploy", json!({})).await.output.to_text();
    let (_, rule) = refused.split_once("--allow '").expect("a remedy");
    let rule = rule.trim_end_matches('\'').parse().expect("a rule");
    setup.engine.set_policy(Policy::new(Mode::Ask).allow(rule));
    assert_text(&setup.call("deploy", json!({})).await, Outcome::Ok, "deployed");
}

#[tokio::test]
async fn rules_and_modes_deny_without_asking() {
    let asks_nobody = |_: &ApprovalRequest| -> bool { panic!("nobody should be asked") };
    for (policy, text) in [
        (
            Policy::new(Mode::Plan),
            "not allowed: write /w/out (decided by mode plan)\nto allow it: --allow 'write /w/out'",
        ),
        (
            Policy::new(Mode::Deny),
            "not allowed: write /w/out (decided by mode deny)\nto allow it: --allow 'write /w/out'",
        ),
        (
            Policy::new(Mode::Yolo).deny("write out".parse().unwrap()),
            "not allowed: write /w/out (decided by deny write out)\nthe rule `deny write out` would have to be removed",
        ),
    ] {
        let setup = Setup::with([writes(says("deploy", "deployed"))], |builder| {
            builder.policy(policy).attendant(asks_nobody)
        });
        assert_text(&setup.call("deploy", json!({})).await, Outcome::Denied, text);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_listens_to_events_is_no_attendant() {
    let setup = asking(|builder| builder);
    let begun = tokio::time::Instant::now();
    let text = format!("{REFUSED}: no person is available to ask\n{REMEDY}");
    assert_text(&setup.call("deploy", json!({})).await, Outcome::Denied, &text);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_listener_answers_through_the_engine() {
    let mut setup = listeners();
    for (answer, outcome, text) in [
        (Answer::allow(), Outcome::Ok, "deployed".to_owned()),
        (Answer::deny("later"), Outcome::Denied, format!("{REFUSED}: later\n{REMEDY}")),
    ] {
        let running = setup.spawn(ToolCall::new("deploy", json!({"to": "test"})));
        let request = setup.asked().await;
        assert_eq!(request.tool, "deploy");
        assert_eq!(request.input, json!({"to": "test"}));
        assert_eq!(request.effects.to_string(), "write /w/out");
        assert_eq!(&request.session, setup.session.id());
        assert_eq!(setup.engine.answer(&request.id, answer.clone()).await, Ok(()));
        let again = setup.engine.answer(&request.id, answer).await;
        assert_eq!(again, Err(AnswerError::Answered), "a question is answered once");
        assert_text(&running.await.unwrap(), outcome, &text);
    }
    let unknown = setup.engine.answer(&ApprovalId::new("a99"), Answer::allow()).await;
    assert_eq!(unknown, Err(AnswerError::Unknown), "nobody asked that");
}

#[tokio::test(start_paused = true)]
async fn no_answer_in_time_is_a_denial() {
    let mut setup = listeners();
    let begun = tokio::time::Instant::now();
    let running = setup.spawn(call("deploy"));
    let request = setup.asked().await;
    let text = format!("{REFUSED}: no answer within 300 s\n{REMEDY}");
    assert_text(&running.await.unwrap(), Outcome::Denied, &text);
    assert_eq!(begun.elapsed(), PATIENCE);
    assert_eq!(
        setup.engine.answer(&request.id, Answer::allow()).await,
        Err(AnswerError::Unknown),
        "too late"
    );
}

#[tokio::test(start_paused = true)]
async fn two_questions_at_once_do_not_get_each_others_answers() {
    let mut setup = listeners();
    let deploy = |to: &str| ToolCall::new("deploy", json!({"to": to}));
    let (first, second) = (setup.spawn(deploy("a")), setup.spawn(deploy("b")));
    let one = setup.asked().await;
    let other = setup.asked().await;
    assert_ne!((&one.id, &one.call), (&other.id, &other.call));
    setup.engine.answer(&other.id, Answer::deny("no")).await.unwrap();
    setup.engine.answer(&one.id, Answer::allow()).await.unwrap();
    for result in [first.await.unwrap(), second.await.unwrap()] {
        let allowed = result.call == one.call;
        assert_eq!(result.outcome, if allowed { Outcome::Ok } else { Outcome::Denied });
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_with_the_call_that_asked() {
    let mut setup = listeners();
    let running = setup.spawn(call("deploy"));
    let request = setup.asked().await;
    assert!(setup.engine.cancel(&request.call));
    let text = "the call was stopped before a person answered";
    assert_text(&running.await.unwrap(), Outcome::Cancelled, text);
    assert_eq!(
        setup.engine.answer(&request.id, Answer::allow()).await,
        Err(AnswerError::Unknown),
        "nobody waits any more"
    );
    assert_eq!(setup.recorded(), ["cancelled deploy"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_a_person_does_not_hold_up_others() {
    let read = says("read", "seen").with_effects(Kinds::READ, |_| Effects::read("out"));
    let quick = writes(says("quick", "written"));
    let mut setup = Setup::with([writes(says("deploy", "deployed")), read, quick], |builder| {
        builder
            .policy(Policy::new(Mode::Ask).allow("tool quick".parse().unwrap()))
            .attendant(Listening { patience: Some(PATIENCE) })
    });
    let begun = tokio::time::Instant::now();
    let (engine, session) = (setup.engine.clone(), setup.session.clone());
    let waiting =
        tokio::spawn(
            async move { engine.turn(&session, vec![call("deploy"), call("read")]).await },
        );
    let request = setup.asked().await;
    assert_text(&setup.call("read", json!({})).await, Outcome::Ok, "seen");
    // Also not through the read of that turn, which is allowed but must wait for the deployment.
    assert_text(&setup.call("quick", json!({})).await, Outcome::Ok, "written");
    assert_eq!(begun.elapsed(), Duration::ZERO, "the other turn waited for the person");
    setup.engine.answer(&request.id, Answer::allow()).await.unwrap();
    let texts: Vec<String> =
        waiting.await.unwrap().iter().map(|result| result.output.to_text()).collect();
    assert_eq!(texts, ["deployed", "seen"]);
}

/// Somebody who takes all the time in the world.
struct Absent;

impl Attendant for Absent {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Reply<Answer>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn an_approver_that_never_answers_can_be_left() {
    let mut setup = asking(|builder| builder.attendant(Absent));
    let running = setup.spawn(call("deploy"));
    let request = setup.asked().await;
    setup.engine.cancel(&request.call);
    assert_eq!(running.await.unwrap().outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn an_attendant_that_panics_cannot_ask_and_stops_no_other_call() {
    let tools = [writes(says("deploy", "deployed")), MockTool::named("look")];
    let setup = Setup::with(tools, |builder| {
        builder
            .policy(Policy::new(Mode::Ask))
            .attendant(|_: &ApprovalRequest| -> bool { panic!("no idea") })
    });
    let results = setup.engine.turn(&setup.session, vec![call("deploy"), call("look")]).await;
    assert_eq!(results[0].outcome, Outcome::Denied);
    let text = results[0].output.to_text();
    assert!(text.contains("the one who was to ask panicked"), "{text}");
    assert_text(&results[1], Outcome::Ok, "ok");
}
