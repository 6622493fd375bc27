//! Calls that a person makes, with tools that models are not offered.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::testing::MockTool;
use windlass_core::{
    ActiveRule, BoxFuture, Decision, EffectKinds, Effects, Hook, HookAnswer, HookEvent, Mode,
    Outcome, Policy, Predicate, Session, SessionId, SessionLimits, ToolError,
};

use crate::support::{Log, Setup, assert_text, says};

/// A hook that denies everything.
struct DenyEverything(Log);

impl Hook for DenyEverything {
    fn name(&self) -> &'static str {
        "refuses"
    }

    fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
        self.0.add(event.what.point().to_string());
        Box::pin(std::future::ready(Ok(HookAnswer::deny("never"))))
    }
}

/// A tool `restore` that writes the file of its argument `path`.
fn restore() -> MockTool {
    let path = |input: &Value| input["path"].as_str().unwrap_or("out").to_owned();
    says("restore", "restored")
        .with_effects(EffectKinds::WRITE, move |input| Effects::write(path(input)))
}

fn no_tools() -> [MockTool; 0] {
    []
}

#[tokio::test]
async fn call_of_a_person_asks_no_rule_hook_or_attendant() {
    let deny = || "write **".parse().expect("a rule");
    for policy in [
        Policy::new(Mode::Ask),
        Policy::new(Mode::Plan),
        Policy::new(Mode::Deny),
        Policy::new(Mode::Auto).deny(deny()),
        Policy::new(Mode::Auto).with(Decision::Ask, deny()),
    ] {
        let told = format!("{policy:?}");
        let (log, asked) = (Log::default(), Log::default());
        let (hook, ask) = (Arc::new(DenyEverything(log.clone())), asked.clone());
        let setup = Setup::with(no_tools(), |builder| {
            builder.policy(policy).hook(hook).attendant(move |_: &_| {
                ask.add("asked");
                false
            })
        });
        for path in ["out", ".git/hooks/pre-commit"] {
            let input = json!({"path": path});
            let result = setup.engine.act_for_person(&setup.session, restore(), input).await;
            assert_text(&result, Outcome::Ok, "restored");
        }
        assert!(log.lines().is_empty() && asked.lines().is_empty(), "{told}");
        let by_person = "allowed by the person who made the call";
        assert_eq!([setup.decided(0), setup.decided(2)], [by_person; 2], "{told}");
    }
}

#[tokio::test]
async fn call_of_a_person_is_published_and_recorded() {
    let mut setup = Setup::of(no_tools());
    let result = setup.engine.act_for_person(&setup.session, restore(), json!({})).await;
    assert_eq!(setup.recorded(), ["started restore", "ok restore"]);
    let told: Vec<_> = setup.told().await;
    let names: Vec<&str> = told.iter().map(|event| event.kind.name()).collect();
    assert_eq!(names, ["started", "finished"]);
    assert!(told.iter().all(|event| event.call.as_ref() == Some(&result.call)), "{told:?}");
    assert_eq!(setup.session.spent().calls, 1);
}

#[tokio::test]
async fn hard_denies_and_rights_of_the_session_bind_calls_of_a_person() {
    let ruling = ActiveRule::new(Decision::Deny, "write kept/**".parse().expect("a rule"));
    let limits = SessionLimits { rules: vec![ruling], ..SessionLimits::default() };
    for (path, denied_by) in [("id_rsa", "hard deny"), ("kept/a", "deny write kept/**")] {
        let session = Session::new(SessionId::new("s1")).narrow(limits.clone());
        let setup = Setup::of(no_tools()).in_session(session);
        let input = json!({"path": path});
        let result = setup.engine.act_for_person(&setup.session, restore(), input).await;
        assert_eq!(result.outcome, Outcome::Denied, "{path}");
        let text = result.output.to_text();
        assert!(text.contains(denied_by), "{path}: {text}");
    }
    let session = Session::new(SessionId::new("s1")).narrow(Predicate::deny(["restore"]));
    let setup = Setup::of(no_tools()).in_session(session);
    let result = setup.engine.act_for_person(&setup.session, restore(), json!({})).await;
    assert_text(
        &result,
        Outcome::Fault,
        "there is no tool `restore`\nthe rights of this session leave it out",
    );
}

#[tokio::test]
async fn models_get_neither_the_tool_nor_its_answers() {
    let reads = |text| says("look", text).with_effects(EffectKinds::READ, |_| Effects::read("a"));
    let setup = Setup::of([reads("the model's")]);
    let session = &setup.session;
    assert_text(&setup.call("look", json!({})).await, Outcome::Ok, "the model's");
    let persons = setup.engine.act_for_person(session, reads("the person's"), json!({})).await;
    assert_text(&persons, Outcome::Ok, "the person's");
    assert_text(&setup.call("look", json!({})).await, Outcome::Ok, "the model's");
    setup.engine.act_for_person(session, restore(), json!({})).await;
    assert_eq!(setup.call("restore", json!({})).await.outcome, Outcome::Fault);
    assert_eq!(setup.engine.tools(session).await.len(), 1);
}

#[tokio::test]
async fn call_of_a_person_waits_for_a_conflicting_call() {
    let log = Log::default();
    let (begin, go_on) =
        (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (begun, wait, write) = (begin.clone(), go_on.clone(), log.clone());
    let slow = MockTool::named("write")
        .with_effects(EffectKinds::WRITE, |_| Effects::write("out"))
        .answering(move |_, _| {
            let (begun, wait, write) = (begun.clone(), wait.clone(), write.clone());
            async move {
                begun.notify_one();
                wait.notified().await;
                write.add("written");
                Ok(windlass_core::Output::text("ok"))
            }
        });
    let setup = Setup::of([slow]);
    let writing = setup.spawn(windlass_core::ToolCall::new("write", json!({})));
    begin.notified().await;
    let taken = log.clone();
    let undo = MockTool::named("undo")
        .with_effects(EffectKinds::WRITE, |_| Effects::write("out"))
        .answering(move |_, _| {
            taken.add("taken back");
            async { Ok(windlass_core::Output::text("ok")) }
        });
    let (engine, session) = (setup.engine.clone(), setup.session.clone());
    let undoing =
        tokio::spawn(async move { engine.act_for_person(&session, undo, json!({})).await });
    // The undo gets every opportunity to run first.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    go_on.notify_one();
    assert_eq!(writing.await.expect("no panic").outcome, Outcome::Ok);
    assert_eq!(undoing.await.expect("no panic").outcome, Outcome::Ok);
    assert_eq!(log.lines(), ["written", "taken back"]);
}
