//! Hooks: programs of a person that run before, after and around every call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::testing::MockTool;
use windlass_core::{
    BoxFuture, EffectKinds, Effects, Event, EventKind, Hook, HookAnswer, HookEvent, HookPayload,
    HookPoint, Mode, Outcome, Output, Overrides, Policy, Predicate, Secrets, SessionId, ToolCall,
    ToolError,
};

use crate::support::{Log, Setup, assert_text, call, echo, path_of, says};

type Answer = Result<HookAnswer, ToolError>;
type HookFn = fn(HookPayload<'_>) -> Answer;

/// A hook made of a function, which logs the events that it gets.
#[derive(Clone)]
struct FnHook {
    name: &'static str,
    log: Log,
    on: HookFn,
    may_allow: bool,
    is_gate: fn(HookPoint) -> bool,
}

impl FnHook {
    fn new(name: &'static str, log: &Log, on: HookFn) -> Self {
        Self { name, log: log.clone(), on, may_allow: true, is_gate: HookPoint::is_gate }
    }
}

impl Hook for FnHook {
    fn name(&self) -> &str {
        self.name
    }

    fn is_gate(&self, point: HookPoint) -> bool {
        (self.is_gate)(point)
    }

    fn may_allow(&self) -> bool {
        self.may_allow
    }

    fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Answer> {
        let point = event.what.point();
        let about = match event.what {
            HookPayload::PostTool(call, output) => format!("{} {}", call.input, output.to_text()),
            HookPayload::PreTool(call) => format!("{} {}", call.tool, call.input),
            HookPayload::PermissionRequest { call, by } => format!("{} ({by})", call.effects),
            other => other.text().unwrap_or_default().to_owned(),
        };
        self.log.add(format!("{} {point} {about}", self.name).trim_end());
        Box::pin(async move { (self.on)(event.what) })
    }
}

/// Makes an engine with a tool `write` that answers with its arguments, these hooks and this policy.
fn engine_with_hooks(policy: Policy, hooks: impl IntoIterator<Item = FnHook>) -> Setup {
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["path"], "additionalProperties": false,
    });
    let tool = echo("write")
        .with_schema(schema)
        .with_effects(EffectKinds::WRITE, |input| Effects::write(path_of(input)));
    Setup::with([tool], |builder| {
        let builder = builder.policy(policy.deny("write no/**".parse().unwrap()));
        hooks.into_iter().fold(builder, |builder, hook| builder.hook(Arc::new(hook)))
    })
}

/// Makes the same engine in the mode `auto`, with hooks of these names and functions.
fn auto_engine_with_hooks(log: &Log, hooks: &[(&'static str, HookFn)]) -> Setup {
    let hooks = hooks.iter().map(|(name, on)| FnHook::new(name, log, *on));
    engine_with_hooks(Policy::new(Mode::Auto), hooks)
}

/// A hook without objection.
const GO_ON: HookFn = |_| Ok(HookAnswer::go_on());
/// A hook that fails.
const FAILS: HookFn = |_| Err(ToolError::host_failed("its program is gone"));

#[tokio::test]
async fn hooks_run_in_order_and_each_sees_the_changes_of_the_one_before() {
    let log = Log::default();
    let one: HookFn = |what| {
        Ok(match what {
            HookPayload::PreTool(_) => HookAnswer::go_on().with_input(json!({"path": "b"})),
            _ => HookAnswer::go_on().with_output(Output::text("changed")),
        })
    };
    let two: HookFn = |what| {
        Ok(match what {
            HookPayload::PostTool(_, output) => {
                HookAnswer::go_on().with_output(Output::text(format!("{} twice", output.to_text())))
            }
            _ => HookAnswer::go_on(),
        })
    };
    let setup = auto_engine_with_hooks(&log, &[("one", one), ("two", two)]);
    let result = setup.call("write", json!({"path": "a"})).await;
    assert_text(&result, Outcome::Ok, "changed twice");
    assert_eq!(
        log.lines(),
        [
            r#"one pre_tool write {"path":"a"}"#,
            r#"two pre_tool write {"path":"b"}"#,
            r#"one post_tool {"path":"b"} {"path":"b"}"#,
            r#"two post_tool {"path":"b"} changed"#,
        ]
    );
    assert_eq!(
        setup.bodies()[0]["input"],
        json!({"path": "b"}),
        "the record has the arguments that ran"
    );
    let notes =
        json!(["one changed the arguments", "one changed the answer", "two changed the answer"]);
    assert_eq!(setup.bodies()[1]["metadata"]["hooks"], notes, "and the hook that changed them");
}

#[tokio::test]
async fn gate_sees_the_arguments_that_a_later_hook_sets() {
    let guard: HookFn = |what| {
        Ok(match what {
            HookPayload::PreTool(call) if call.input["path"] == "secret" => {
                HookAnswer::deny("not this")
            }
            _ => HookAnswer::go_on(),
        })
    };
    let editor: HookFn = |what| {
        Ok(match what {
            HookPayload::PreTool(_) => HookAnswer::go_on().with_input(json!({"path": "secret"})),
            _ => HookAnswer::go_on(),
        })
    };
    let setup = auto_engine_with_hooks(&Log::default(), &[("guard", guard), ("editor", editor)]);
    let result = setup.call("write", json!({"path": "a"})).await;
    assert_text(&result, Outcome::Denied, "not allowed: the hook guard says no: not this");
}

#[tokio::test]
async fn hooks_that_never_agree_on_the_arguments_end_in_a_denial() {
    fn to(path: &str) -> HookAnswer {
        HookAnswer::go_on().with_input(json!({"path": path}))
    }
    let setup = auto_engine_with_hooks(
        &Log::default(),
        &[("one", |_| Ok(to("b"))), ("two", |_| Ok(to("c")))],
    );
    let result = setup.call("write", json!({"path": "a"})).await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(result.output.to_text().contains("do not agree"), "{}", result.output.to_text());
}

/// Checks the result of a call with `{"path": "a"}` whose arguments a hook replaces.
async fn check_replaced(by: HookFn, outcome: Outcome, text: &str) {
    let setup = auto_engine_with_hooks(&Log::default(), &[("editor", by)]);
    assert_text(&setup.call("write", json!({"path": "a"})).await, outcome, text);
}

#[tokio::test]
async fn replaced_arguments_are_checked_from_the_beginning() {
    check_replaced(
        |_| Ok(HookAnswer::go_on().with_input(json!({"path": "b", "lines": "3"}))),
        Outcome::Ok,
        r#"{"path":"b","lines":3}"#,
    )
    .await;
    check_replaced(
        |_| Ok(HookAnswer::go_on().with_input(json!({"paht": "b"}))),
        Outcome::Fault,
        "unknown parameter `paht`; `path` is missing\ndid you mean `path`?",
    )
    .await;
    check_replaced(
        |_| Ok(HookAnswer::go_on().with_input(json!({"path": "no/b"}))),
        Outcome::Denied,
        "not allowed: write /w/no/b (decided by deny write no/**)\nthe rule `deny write no/**` would have to be removed",
    )
    .await;
    check_replaced(
        |_| Ok(HookAnswer::go_on().with_input(json!({"path": "/srv/passwd"}))),
        Outcome::Denied,
        "not allowed: write /srv/passwd (decided by mode auto): no person is available to ask\nto allow it: --allow 'write /srv/passwd'",
    )
    .await;
}

#[tokio::test]
async fn hook_denies_and_later_hooks_are_not_asked() {
    let log = Log::default();
    let setup = auto_engine_with_hooks(
        &log,
        &[("guard", |_| Ok(HookAnswer::deny("not on a Friday"))), ("other", GO_ON)],
    );
    let result = setup.call("write", json!({"path": "a"})).await;
    let text = "not allowed: the hook guard says no: not on a Friday";
    assert_text(&result, Outcome::Denied, text);
    assert_eq!(log.lines(), [r#"guard pre_tool write {"path":"a"}"#]);
    assert_eq!(setup.recorded(), ["denied write"]);
}

/// Checks the outcome of a call in `mode` with a hook that answers by `on`; `own` says that the hook belongs to the person's own
/// configuration. `decided_by` must be in the decision or the refusal.
async fn check_verdict_of_hook(
    mode: Mode,
    path: &str,
    own: bool,
    on: HookFn,
    outcome: Outcome,
    decided_by: &str,
) {
    let log = Log::default();
    let hook = FnHook { may_allow: own, ..FnHook::new("guide", &log, on) };
    let setup = engine_with_hooks(Policy::new(mode), [hook]);
    let result = setup.call("write", json!({"path": path})).await;
    assert_eq!(result.outcome, outcome, "{mode} {path}: {}", result.output.to_text());
    let said = match outcome {
        Outcome::Ok => setup.decided(0),
        _ => result.output.to_text(),
    };
    assert!(said.contains(decided_by), "{mode} {path}: {said}");
}

#[tokio::test]
async fn hook_can_allow_only_where_a_person_would_be_asked() {
    const ALLOWS: HookFn = |what| {
        Ok(match what {
            HookPayload::PreTool(_) => HookAnswer::allow(),
            _ => HookAnswer::go_on(),
        })
    };
    const ALLOWS_LATER: HookFn = |what| {
        Ok(match what {
            HookPayload::PermissionRequest { .. } => HookAnswer::allow(),
            _ => HookAnswer::go_on(),
        })
    };
    use Outcome::Denied;
    let by_hook = "allowed by the hook guide, where mode ask asks";
    for allows in [ALLOWS, ALLOWS_LATER] {
        check_verdict_of_hook(Mode::Ask, "a", true, allows, Outcome::Ok, by_hook).await;
        check_verdict_of_hook(
            Mode::Ask,
            "a",
            false,
            allows,
            Denied,
            "no person is available to ask",
        )
        .await;
        check_verdict_of_hook(Mode::Auto, "a", true, allows, Outcome::Ok, "allowed by mode auto")
            .await;
        check_verdict_of_hook(Mode::Ask, "no/a", true, allows, Denied, "deny write no/**").await;
        check_verdict_of_hook(Mode::Plan, "a", true, allows, Denied, "mode plan").await;
        check_verdict_of_hook(Mode::Deny, "a", true, allows, Denied, "mode deny").await;
        check_verdict_of_hook(Mode::Yolo, ".env", true, allows, Denied, "hard deny").await;
        check_verdict_of_hook(Mode::Ask, ".git/hooks/x", true, allows, Denied, "always asked")
            .await;
    }
}

#[tokio::test]
async fn hook_can_require_a_person_and_the_stricter_hook_counts() {
    let asks: HookFn = |what| {
        Ok(match what {
            HookPayload::PreTool(_) => HookAnswer::ask("it is late"),
            _ => HookAnswer::go_on(),
        })
    };
    let by = "(decided by the hook guide (it is late)): no person is available to ask";
    check_verdict_of_hook(Mode::Auto, "a", false, asks, Outcome::Denied, by).await;
    let log = Log::default();
    let hooks =
        [FnHook::new("guide", &log, asks), FnHook::new("eager", &log, |_| Ok(HookAnswer::allow()))];
    let result =
        engine_with_hooks(Policy::new(Mode::Auto), hooks).call("write", json!({"path": "a"})).await;
    assert_eq!(result.outcome, Outcome::Denied, "{}", result.output.to_text());
}

#[tokio::test]
async fn allowance_of_a_hook_is_void_when_the_arguments_change_later() {
    let allows: HookFn = |what| {
        Ok(match what {
            HookPayload::PreTool(call) if call.input["path"] == "a" => HookAnswer::allow(),
            _ => HookAnswer::go_on(),
        })
    };
    let editor: HookFn = |what| {
        Ok(match what {
            HookPayload::PreTool(_) => HookAnswer::go_on().with_input(json!({"path": "b"})),
            _ => HookAnswer::go_on(),
        })
    };
    let log = Log::default();
    let hooks = [FnHook::new("eager", &log, allows), FnHook::new("editor", &log, editor)];
    let result =
        engine_with_hooks(Policy::new(Mode::Ask), hooks).call("write", json!({"path": "a"})).await;
    assert_eq!(result.outcome, Outcome::Denied, "{}", result.output.to_text());
}

#[tokio::test]
async fn failing_gate_denies_and_failing_observer_only_warns() {
    let log = Log::default();
    let mut setup = auto_engine_with_hooks(&log, &[("broken", FAILS)]);
    let result = setup.call("write", json!({"path": "a"})).await;
    assert_text(
        &result,
        Outcome::Denied,
        "not allowed: the hook broken must agree at pre_tool, and failed: its program is gone\nthe person who configured the hook has to repair or remove it",
    );
    assert!(setup.engine.prompt_submitted(&setup.session, "hello").await.is_err());
    setup.told().await;
    for what in
        [HookPayload::SessionStart, HookPayload::Notification { text: "x" }, HookPayload::Stop]
    {
        assert_eq!(
            setup.engine.report_event(&setup.session, what).await,
            windlass_core::HookOutcome::default()
        );
        let warning = format!("the hook broken failed at {}: its program is gone", what.point());
        let told = setup.told().await;
        let [event] = &told[..] else { panic!("{told:?}") };
        assert!(matches!(&event.kind, EventKind::Warning { message } if **message == *warning));
    }
    // A failing hook that is no gate denies nothing.
    let open = FnHook { is_gate: |_| false, ..FnHook::new("broken", &log, FAILS) };
    let mut setup = engine_with_hooks(Policy::new(Mode::Auto), [open]);
    assert_eq!(setup.call("write", json!({"path": "a"})).await.outcome, Outcome::Ok);
    let is_warning = |event: &Event| matches!(&event.kind, EventKind::Warning { .. });
    assert_eq!(setup.told().await.iter().filter(|event| is_warning(event)).count(), 2);
    // A failing gate after the run withholds the output.
    let closed = FnHook {
        is_gate: |point| point == HookPoint::PostTool,
        ..FnHook::new("broken", &log, FAILS)
    };
    let result = engine_with_hooks(Policy::new(Mode::Auto), [closed])
        .call("write", json!({"path": "a"}))
        .await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(result.output.to_text().ends_with("the call has run; what it answered is held back"));
}

#[tokio::test]
async fn hook_can_make_an_answer_an_error_and_add_text() {
    let log = Log::default();
    let setup = auto_engine_with_hooks(
        &log,
        &[("format", |what| {
            Ok(match what {
                HookPayload::PostTool(..) => {
                    HookAnswer::deny("line 3 is too long").with_context("run the formatter")
                }
                _ => HookAnswer::go_on().with_context("files end in a newline here"),
            })
        })],
    );
    let result = setup.call("write", json!({"path": "a"})).await;
    assert_text(
        &result,
        Outcome::Error,
        "{\"path\":\"a\"}\n[the hook format says: files end in a newline here]\n[the hook format says: run the formatter]\n[the hook format says: line 3 is too long]",
    );
}

#[tokio::test]
async fn hooks_see_failures_and_cached_answers() {
    let log = Log::default();
    let fails = MockTool::named("fails")
        .answering(|_, _| async { Err(ToolError::failed("no such file").hint("look again")) });
    let reads = says("reads", "same").with_effects(EffectKinds::READ, |_| Effects::read("a"));
    let setup = Setup::with([fails, reads], |builder| {
        builder.hook(Arc::new(FnHook::new("watch", &log, GO_ON)))
    });
    let result = setup.call("fails", json!({})).await;
    assert_text(&result, Outcome::Error, "no such file\nlook again");
    for _ in 0..2 {
        setup.call("reads", json!({})).await;
    }
    let after: Vec<String> =
        log.lines().into_iter().filter(|line| line.contains("post_tool")).collect();
    let same = "watch post_tool {} same";
    assert_eq!(after, ["watch post_tool {} no such file\nlook again", same, same]);
}

#[tokio::test]
async fn hook_can_end_the_session() {
    let log = Log::default();
    let brake: HookFn = |what| {
        Ok(match what {
            HookPayload::PreTool(call) if call.input["path"] == "a" => HookAnswer::stop("enough"),
            _ => HookAnswer::go_on(),
        })
    };
    let setup = auto_engine_with_hooks(&log, &[("brake", brake)]);
    let result = setup.call("write", json!({"path": "a"})).await;
    let text = "not allowed: the hook brake has ended the session: enough";
    assert_text(&result, Outcome::Denied, text);
    assert_eq!(setup.call("write", json!({"path": "b"})).await.outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_a_hook() {
    let log = Log::default();
    let setup = auto_engine_with_hooks(&log, &[("one", GO_ON)]);
    assert_eq!(setup.call("write", json!({})).await.code, Some("invalid_args"));
    assert!(log.lines().is_empty());
}

/// G13: the seed's sub-agents ran without hooks.
#[tokio::test]
async fn g13_hooks_bind_sub_sessions_and_know_their_agent() {
    struct ByAgent;
    impl Hook for ByAgent {
        fn name(&self) -> &'static str {
            "by-agent"
        }
        fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Answer> {
            let agent = event.session.agent().to_owned();
            Box::pin(async move { Ok(HookAnswer::deny(format!("not for {agent}"))) })
        }
    }
    let setup = Setup::with([echo("noop")], |builder| builder.hook(Arc::new(ByAgent)));
    let child =
        |id: &str| setup.session.child(SessionId::new(id), Predicate::All, &Overrides::default());
    for (session, agent) in [
        (setup.session.clone(), "main"),
        (Arc::new(child("s2")), "subagent"),
        (Arc::new(child("s3").with_agent("reviewer")), "reviewer"),
    ] {
        let result = setup.engine.call(&session, ToolCall::new("noop", json!({}))).await;
        let text = format!("not allowed: the hook by-agent says no: not for {agent}");
        assert_text(&result, Outcome::Denied, &text);
    }
}

#[tokio::test]
async fn hooks_get_events_other_than_calls() {
    let log = Log::default();
    let on: HookFn = |what| {
        Ok(match what {
            HookPayload::PromptSubmit { text } if text.contains("secret") => {
                HookAnswer::deny("no secrets")
            }
            HookPayload::PromptSubmit { text } => {
                HookAnswer::go_on().with_text(text.to_uppercase()).with_context("be brief")
            }
            HookPayload::Stop => HookAnswer::deny("the tests fail"),
            HookPayload::PreCompact => HookAnswer::stop("start anew"),
            _ => HookAnswer::go_on(),
        })
    };
    let setup = auto_engine_with_hooks(&log, &[("one", on), ("two", GO_ON)]);
    let (engine, session) = (&setup.engine, &setup.session);
    assert!(engine.has_hooks());
    assert_eq!(engine.session_started(session).await, windlass_core::HookOutcome::default());
    let heard = engine.prompt_submitted(session, "go").await.unwrap();
    assert_eq!(heard.text.as_deref(), Some("GO"));
    assert_eq!(heard.context, ["[the hook one says: be brief]"]);
    let refused = engine.prompt_submitted(session, "a secret").await.unwrap_err();
    assert_eq!(refused.to_string(), "the hook one says no: no secrets");
    assert_eq!(engine.notified(session, "done").await, windlass_core::HookOutcome::default());
    let heard = engine.report_event(session, HookPayload::Stop).await;
    assert_eq!(heard.refused.as_deref(), Some("the hook one says no: the tests fail"));
    for what in [
        HookPayload::SubagentStop,
        HookPayload::PreMessage { text: "m" },
        HookPayload::PostMessage { text: "n" },
    ] {
        assert_eq!(engine.report_event(session, what).await, windlass_core::HookOutcome::default());
    }
    let heard = engine.report_event(session, HookPayload::PreCompact).await;
    assert_eq!(heard.stopped.as_deref(), Some("the hook one has ended the session: start anew"));
    assert!(session.is_cancelled());
    assert_eq!(engine.session_ended(session).await, windlass_core::HookOutcome::default());
    let two: Vec<String> = log.lines().into_iter().filter(|line| line.starts_with("two")).collect();
    assert_eq!(
        two,
        [
            "two session_start",
            "two prompt_submit GO",
            "two notification done",
            "two stop",
            "two subagent_stop",
            "two pre_message m",
            "two post_message n",
            "two pre_compact",
            "two session_end",
        ]
    );
}

/// A hook that hangs at this moment.
struct StuckHook(HookPoint);

impl Hook for StuckHook {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn wants(&self, event: &HookEvent<'_>) -> bool {
        event.what.point() == self.0
    }

    fn time_limit(&self) -> Duration {
        Duration::from_secs(7)
    }

    fn on<'a>(&'a self, _: HookEvent<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

fn stuck(point: HookPoint) -> Setup {
    Setup::with([MockTool::named("noop")], |builder| builder.hook(Arc::new(StuckHook(point))))
}

#[tokio::test(start_paused = true)]
async fn call_that_waits_for_a_hook_can_be_stopped() {
    for point in [HookPoint::PreTool, HookPoint::PostTool] {
        let setup = stuck(point);
        let running = setup.spawn(call("noop"));
        tokio::task::yield_now().await;
        setup.session.cancel();
        assert_eq!(running.await.unwrap().outcome, Outcome::Cancelled, "{point}");
    }
}

#[tokio::test(start_paused = true)]
async fn hook_has_a_time_limit_before_and_after_the_run() {
    let setup = stuck(HookPoint::PreTool);
    let result = setup.call("noop", json!({})).await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(
        result.output.to_text().contains("did not answer within 7 s"),
        "{}",
        result.output.to_text()
    );
    let mut setup = stuck(HookPoint::PostTool);
    assert_text(&setup.call("noop", json!({})).await, Outcome::Ok, "ok");
    let late = "the hook stuck failed at post_tool: it did not answer within 7 s";
    let warned =
        |event: &Event| matches!(&event.kind, EventKind::Warning { message } if **message == *late);
    assert!(setup.told().await.iter().any(warned));
}

#[tokio::test]
async fn text_of_a_hook_is_redacted() {
    let log = Log::default();
    let says: HookFn = |what| {
        Ok(match what {
            HookPayload::PostTool(..) => HookAnswer::go_on().with_context("use hunter2hunter2"),
            _ => HookAnswer::go_on(),
        })
    };
    let setup = Setup::with([echo("noop")], |builder| {
        builder
            .hook(Arc::new(FnHook::new("leak", &log, says)))
            .secrets(Secrets::new([("PASSWORD", "hunter2hunter2")]))
    });
    let said: Value = setup.call("noop", json!({})).await.output.to_text().into();
    assert_eq!(said, "{}\n[the hook leak says: use [secret PASSWORD]]");
}
