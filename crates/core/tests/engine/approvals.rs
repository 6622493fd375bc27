//! Approvals: the attendants that are asked, the effect of the answer, and denial instead of endless waiting.

use std::time::Duration;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    Answer, AnswerError, ApprovalId, ApprovalRequest, Attendant, AttendantReply, BoxFuture,
    EffectKinds, Effects, EngineBuilder, EventAttendant, Mode, Outcome, Policy, ToolCall,
};

use crate::support::{Setup, assert_text, call, echo, path_of, says, writes};

/// Five minutes of paused time.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);

/// Makes an engine in the mode `ask` with a tool `deploy` that writes.
fn asking_engine(people: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Setup {
    Setup::with([writes(says("deploy", "deployed"))], |builder| {
        people(builder.policy(Policy::new(Mode::Ask)))
    })
}

/// Makes the same engine with an attendant that waits for answers through the engine.
fn listening_engine() -> Setup {
    asking_engine(|builder| builder.attendant(EventAttendant { patience: Some(ANSWER_TIMEOUT) }))
}

const REFUSED: &str = "not allowed: write /w/out (decided by mode ask)";
const REMEDY: &str = "to allow it: --allow 'write /w/out'";

#[tokio::test]
async fn closure_answers_from_the_effects_of_the_call() {
    let tool =
        echo("write").with_effects(EffectKinds::WRITE, |input| Effects::write(path_of(input)));
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
async fn denial_without_an_attendant_says_what_would_allow_the_call() {
    let setup = asking_engine(|builder| builder);
    let result = setup.call("deploy", json!({})).await;
    let text = format!("{REFUSED}: no person is available to ask\n{REMEDY}");
    assert_text(&result, Outcome::Denied, &text);
}

#[tokio::test]
async fn rule_in_a_denial_allows_the_call() {
    let setup = asking_engine(|builder| builder);
    let refused = setup.call("deploy", json!({})).await.output.to_text();
    let (_, rule) = refused.split_once("--allow '").expect("a remedy");
    let rule = rule.trim_end_matches('\'').parse().expect("a rule");
    setup.engine.set_policy(Policy::new(Mode::Ask).allow(rule));
    assert_text(&setup.call("deploy", json!({})).await, Outcome::Ok, "deployed");
}

#[tokio::test]
async fn rules_and_modes_deny_without_asking() {
    let never_asked = |_: &ApprovalRequest| -> bool { panic!("no person should be asked") };
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
            builder.policy(policy).attendant(never_asked)
        });
        assert_text(&setup.call("deploy", json!({})).await, Outcome::Denied, text);
    }
}

#[tokio::test(start_paused = true)]
async fn event_listener_is_no_attendant() {
    let setup = asking_engine(|builder| builder);
    let begun = tokio::time::Instant::now();
    let text = format!("{REFUSED}: no person is available to ask\n{REMEDY}");
    assert_text(&setup.call("deploy", json!({})).await, Outcome::Denied, &text);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn listener_answers_through_the_engine() {
    let mut setup = listening_engine();
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
    assert_eq!(unknown, Err(AnswerError::Unknown), "there is no such approval");
}

#[tokio::test(start_paused = true)]
async fn missing_answer_is_a_denial_after_the_time_limit() {
    let mut setup = listening_engine();
    let begun = tokio::time::Instant::now();
    let running = setup.spawn(call("deploy"));
    let request = setup.asked().await;
    let text = format!("{REFUSED}: no answer within 300 s\n{REMEDY}");
    assert_text(&running.await.unwrap(), Outcome::Denied, &text);
    assert_eq!(begun.elapsed(), ANSWER_TIMEOUT);
    assert_eq!(
        setup.engine.answer(&request.id, Answer::allow()).await,
        Err(AnswerError::Unknown),
        "too late"
    );
}

#[tokio::test(start_paused = true)]
async fn two_open_approvals_get_their_own_answers() {
    let mut setup = listening_engine();
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
async fn approval_ends_with_the_call_that_asked() {
    let mut setup = listening_engine();
    let running = setup.spawn(call("deploy"));
    let request = setup.asked().await;
    assert!(setup.engine.cancel(&request.call));
    let text = "the call was stopped before a person answered";
    assert_text(&running.await.unwrap(), Outcome::Cancelled, text);
    assert_eq!(
        setup.engine.answer(&request.id, Answer::allow()).await,
        Err(AnswerError::Unknown),
        "no call waits any more"
    );
    assert_eq!(setup.recorded(), ["cancelled deploy"]);
}

#[tokio::test(start_paused = true)]
async fn turn_that_waits_for_a_person_does_not_delay_others() {
    let read = says("read", "seen").with_effects(EffectKinds::READ, |_| Effects::read("out"));
    let quick = writes(says("quick", "written"));
    let mut setup = Setup::with([writes(says("deploy", "deployed")), read, quick], |builder| {
        builder
            .policy(Policy::new(Mode::Ask).allow("tool quick".parse().unwrap()))
            .attendant(EventAttendant { patience: Some(ANSWER_TIMEOUT) })
    });
    let begun = tokio::time::Instant::now();
    let (engine, session) = (setup.engine.clone(), setup.session.clone());
    let waiting =
        tokio::spawn(
            async move { engine.turn(&session, vec![call("deploy"), call("read")]).await },
        );
    let request = setup.asked().await;
    assert_text(&setup.call("read", json!({})).await, Outcome::Ok, "seen");
    // The read of that turn is allowed but waits for the deployment; it must not delay this call either.
    assert_text(&setup.call("quick", json!({})).await, Outcome::Ok, "written");
    assert_eq!(begun.elapsed(), Duration::ZERO, "the other turn waited for the person");
    setup.engine.answer(&request.id, Answer::allow()).await.unwrap();
    let texts: Vec<String> =
        waiting.await.unwrap().iter().map(|result| result.output.to_text()).collect();
    assert_eq!(texts, ["deployed", "seen"]);
}

/// An attendant that never replies.
struct NeverReplies;

impl Attendant for NeverReplies {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn call_can_be_stopped_while_its_attendant_never_replies() {
    let mut setup = asking_engine(|builder| builder.attendant(NeverReplies));
    let running = setup.spawn(call("deploy"));
    let request = setup.asked().await;
    setup.engine.cancel(&request.call);
    assert_eq!(running.await.unwrap().outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn panicking_attendant_counts_as_unavailable_and_stops_no_other_call() {
    let tools = [writes(says("deploy", "deployed")), MockTool::named("look")];
    let setup = Setup::with(tools, |builder| {
        builder
            .policy(Policy::new(Mode::Ask))
            .attendant(|_: &ApprovalRequest| -> bool { panic!("no idea") })
    });
    let results = setup.engine.turn(&setup.session, vec![call("deploy"), call("look")]).await;
    assert_eq!(results[0].outcome, Outcome::Denied);
    let text = results[0].output.to_text();
    assert!(text.contains("the attendant that was to ask panicked"), "{text}");
    assert_text(&results[1], Outcome::Ok, "ok");
}
