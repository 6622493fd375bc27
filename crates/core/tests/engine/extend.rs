//! Running calls that ask for effects beyond their plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    Answer, ApprovalId, ApprovalRequest, Attendant, AttendantReply, BoxFuture, CallExtended,
    CommandLine, Decision, Effect, EffectKinds, Effects, EventAttendant, Hook, HookAnswer,
    HookEvent, HookPayload, Mode, Outcome, Output, PathPattern, Policy, Scope, Session, SessionId,
    SessionLimits, ToolCall, ToolError,
};

use crate::support::{Setup, assert_text};

/// The effect of a request to a host.
fn net(host: &str) -> Effect {
    Effect::Net { origin: format!("https://{host}:443"), method: "GET".into() }
}

/// A tool `fetch` that declares to reach `a`, and asks for these effects while it runs.
fn fetch(kinds: EffectKinds, more: impl Into<Effects>) -> MockTool {
    let more = more.into();
    MockTool::named("fetch").with_effects(kinds, |_| net("a").into()).answering(move |cx, _| {
        let more = more.clone();
        async move {
            cx.extend(more.clone()).await?;
            let covered = more.iter().all(|effect| cx.grant().covers(effect));
            Ok(Output::text(if covered { "covered" } else { "not covered" }))
        }
    })
}

/// Returns the recorded decisions about effects beyond the plan.
fn extensions(setup: &Setup) -> Vec<(String, Decision, String)> {
    let records = setup.journal.records();
    let bodies = records.iter().filter(|record| record.kind.as_str() == "extended");
    let told = bodies.map(|record| {
        let body: CallExtended = serde_json::from_str(&record.body).expect("an extension");
        (body.effects.to_string(), body.decided.decision, body.decided.to_string())
    });
    told.collect()
}

#[tokio::test]
async fn allowed_extension_is_recorded_and_granted() {
    let setup = Setup::of([fetch(EffectKinds::NET, net("b"))]);
    let result = setup.call("fetch", json!({})).await;
    assert_eq!(result.outcome, Outcome::Ok);
    assert!(result.output.to_text().contains("\ncovered\n"), "{}", result.output.to_text());
    assert_eq!(setup.recorded(), ["started fetch", "fetch extended", "ok fetch"]);
    let decided = ("net GET https://b:443".into(), Decision::Allow, "allowed by mode auto".into());
    assert_eq!(extensions(&setup), [decided]);
    let body = &setup.bodies()[1];
    assert_eq!(body["call"], result.call.as_str(), "the record names its call");
}

#[tokio::test]
async fn declared_effect_is_not_decided_on_again() {
    let setup = Setup::of([fetch(EffectKinds::NET, net("a"))]);
    assert_eq!(setup.call("fetch", json!({})).await.outcome, Outcome::Ok);
    assert_eq!(extensions(&setup), []);
}

#[tokio::test]
async fn effects_that_could_conflict_must_be_in_the_plan() {
    let mcp = Effect::Mcp { server: "a".into(), tool: "b".into() };
    for (effect, may) in [
        (net("b"), true),
        (Effect::Secret("TOKEN".into()), true),
        (Effect::Agent("reviewer".into()), true),
        (Effect::Read(PathPattern::file("a")), false),
        (Effect::Write(PathPattern::file("a")), false),
        (Effect::Delete(PathPattern::file("a")), false),
        (Effect::Exec(CommandLine::words(["ls"])), false),
        (Effect::State("todo".into()), false),
        (Effect::Plugin("a".into()), false),
        (Effect::Ask, false),
        (mcp, false),
    ] {
        let setup = Setup::with([fetch(EffectKinds::ALL, effect.clone())], |builder| {
            builder.policy(Policy::new(Mode::Yolo))
        });
        let result = setup.call("fetch", json!({})).await;
        assert_eq!(result.code, (!may).then_some("undeclared_effect"), "{effect}");
        assert_eq!(extensions(&setup).len(), usize::from(may), "{effect}");
    }
}

#[tokio::test]
async fn extension_outside_the_kinds_of_the_tool_is_a_fault() {
    let setup = Setup::of([fetch(EffectKinds::NET, Effect::Secret("TOKEN".into()))]);
    let result = setup.call("fetch", json!({})).await;
    let text = "`fetch` wants to secret TOKEN, but says that its calls are only of the kinds net";
    assert_text(&result, Outcome::Fault, text);
    assert_eq!(result.code, Some("undeclared_effect"));
}

#[tokio::test]
async fn denied_extension_is_recorded_and_not_granted() {
    let rule = || Policy::new(Mode::Yolo).deny("net b".parse().expect("a rule"));
    let ask = || Policy::new(Mode::Ask).allow("net a".parse().expect("a rule"));
    let rights = SessionLimits { net: "a".parse().ok(), ..SessionLimits::default() };
    for (policy, limits, why) in [
        (rule(), SessionLimits::default(), "deny net b"),
        (ask(), SessionLimits::default(), "no person is available to ask"),
        (Policy::new(Mode::Yolo), rights, "the session has no right to reach that host"),
    ] {
        let session = Session::new(SessionId::new("s1")).narrow(limits);
        let setup = Setup::with([fetch(EffectKinds::NET, net("b"))], |it| it.policy(policy))
            .in_session(session);
        let result = setup.call("fetch", json!({})).await;
        assert_eq!(result.outcome, Outcome::Denied, "{why}");
        assert!(result.output.to_text().contains(why), "{}", result.output.to_text());
        let told: Vec<_> = extensions(&setup).into_iter().map(|told| told.1).collect();
        assert_eq!(told, [Decision::Deny], "{why}");
    }
}

/// An attendant that gives this reply after a minute.
struct DelayedReply(fn() -> AttendantReply<Answer>);

impl Attendant for DelayedReply {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            (self.0)()
        })
    }
}

/// Makes an engine that asks about reaching `b`, with such an attendant and a time limit shorter than its delay.
fn asking(reply: fn() -> AttendantReply<Answer>) -> Setup {
    let policy = Policy::new(Mode::Ask).allow("net a".parse().expect("a rule"));
    Setup::with([fetch(EffectKinds::NET, net("b"))], |builder| {
        builder.policy(policy).attendant(DelayedReply(reply)).timeout(Duration::from_secs(10))
    })
}

#[tokio::test(start_paused = true)]
async fn clock_is_stopped_while_a_person_is_asked() {
    let allowed = || AttendantReply::Answered(Answer::allow());
    let edited = || AttendantReply::Answered(Answer::allow_edited(json!({"x": 1})));
    let denied = || AttendantReply::Answered(Answer::deny("not there"));
    for (reply, outcome, text) in [
        (allowed as fn() -> AttendantReply<Answer>, Outcome::Ok, "covered"),
        (edited, Outcome::Denied, "a person wants other arguments, and the call already runs"),
        (denied, Outcome::Denied, "not there"),
    ] {
        let setup = asking(reply);
        let result = setup.call("fetch", json!({})).await;
        assert_eq!(result.outcome, outcome, "{text}");
        assert!(result.output.to_text().contains(text), "{}", result.output.to_text());
        assert_eq!(extensions(&setup).len(), 1, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn late_answer_serves_the_repeated_call() {
    let setup = asking(|| AttendantReply::Deferred);
    let result = setup.call("fetch", json!({})).await;
    assert_eq!(result.outcome, Outcome::Denied);
    let id = result.output.metadata["approval"].as_str().expect("it waits");
    let id = ApprovalId::new(id);
    setup.engine.answer(&id, Answer::allow()).await.expect("it is open");
    let resumed = setup.engine.resume(&setup.session, &id).await.expect("it is made again");
    assert_eq!(resumed.map(|result| result.outcome), Some(Outcome::Ok));
}

#[tokio::test]
async fn answer_for_the_session_is_remembered() {
    let policy =
        Policy::new(Mode::Ask).allow("net a".parse().expect("a rule")).with_provenance(false);
    let mut setup = Setup::with([fetch(EffectKinds::NET, net("b"))], |builder| {
        builder.policy(policy).attendant(EventAttendant::default())
    });
    let first = setup.spawn(ToolCall::new("fetch", json!({})));
    let asked = setup.asked().await;
    assert_eq!(
        asked.effects.to_string(),
        "net GET https://b:443",
        "the other effects are decided already"
    );
    let answer = Answer::allow_for(Scope::Session);
    setup.engine.answer(&asked.id, answer).await.expect("it is open");
    assert_eq!(first.await.expect("it ends").outcome, Outcome::Ok);
    assert_eq!(
        setup.call("fetch", json!({})).await.outcome,
        Outcome::Ok,
        "no person is asked again"
    );
}

/// A hook that denies the host `b`.
struct DenyHostB;

impl Hook for DenyHostB {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
        let is_there =
            |call: &windlass_core::HookCall<'_>| call.effects.iter().any(|it| *it == net("b"));
        Box::pin(async move {
            match event.what {
                HookPayload::PreTool(call) if is_there(&call) => Ok(HookAnswer::deny("not there")),
                _ => Ok(HookAnswer::default()),
            }
        })
    }
}

#[tokio::test]
async fn hooks_are_asked_about_an_extension() {
    let setup = Setup::with([fetch(EffectKinds::NET, net("b"))], |it| it.hook(Arc::new(DenyHostB)));
    let result = setup.call("fetch", json!({})).await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(result.output.to_text().contains("the hook guard says no: not there"));
}

#[tokio::test]
async fn extended_answer_is_untrusted_and_not_cached() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let tool = MockTool::named("look")
        .with_effects(EffectKinds::READ | EffectKinds::NET, |_| Effects::read("a"))
        .answering(move |cx, _| {
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                cx.extend(net("b")).await?;
                Ok(Output::text("from b"))
            }
        });
    let policy = Policy::new(Mode::Auto).with_provenance(true);
    let setup = Setup::with([tool], |builder| builder.policy(policy));
    let result = setup.call("look", json!({})).await;
    assert!(result.output.to_text().starts_with("[from https://b:443: data"));
    assert_eq!(setup.session.untrusted().as_deref(), Some("https://b:443"));
    let again = setup.call("look", json!({})).await;
    assert_eq!(ran.load(Ordering::Relaxed), 2, "it ran again");
    assert_eq!(again.outcome, Outcome::Denied, "after untrusted text it asks");
}
