//! Hooks: what a person puts before, after and around every call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::testing::MockTool;
use windlass_core::{
    BoxFuture, Effects, Event, EventKind, Happening, Hook, HookAnswer, HookEvent, Kinds, Mode,
    Moment, Outcome, Output, Overrides, Policy, Predicate, Secrets, SessionId, ToolCall, ToolError,
};

use crate::support::{Log, Setup, assert_text, call, echo, path_of, says};

type Answer = Result<HookAnswer, ToolError>;
type On = fn(Happening<'_>) -> Answer;

/// A hook of one closure, which notes what it was told.
#[derive(Clone)]
struct Closure {
    name: &'static str,
    log: Log,
    on: On,
    may_allow: bool,
    is_gate: fn(Moment) -> bool,
}

impl Closure {
    fn new(name: &'static str, log: &Log, on: On) -> Self {
        Self { name, log: log.clone(), on, may_allow: true, is_gate: Moment::is_gate }
    }
}

impl Hook for Closure {
    fn name(&self) -> &str {
        self.name
    }

    fn is_gate(&self, moment: Moment) -> bool {
        (self.is_gate)(moment)
    }

    fn may_allow(&self) -> bool {
        self.may_allow
    }

    fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Answer> {
        let moment = event.what.moment();
        let about = match event.what {
            Happening::PostTool(call, output) => format!("{} {}", call.input, output.to_text()),
            Happening::PreTool(call) => format!("{} {}", call.tool, call.input),
            Happening::PermissionRequest { call, by } => format!("{} ({by})", call.effects),
            other => other.text().unwrap_or_default().to_owned(),
        };
        self.log.add(format!("{} {moment} {about}", self.name).trim_end());
        Box::pin(async move { (self.on)(event.what) })
    }
}

/// A tool `write` that answers with its arguments, behind these hooks, where this policy holds.
fn behind(policy: Policy, hooks: impl IntoIterator<Item = Closure>) -> Setup {
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["path"], "additionalProperties": false,
    });
    let tool = echo("write")
        .with_schema(schema)
        .with_effects(Kinds::WRITE, |input| Effects::write(path_of(input)));
    Setup::with([tool], |builder| {
        let builder = builder.policy(policy.deny("write no/**".parse().unwrap()));
        hooks.into_iter().fold(builder, |builder, hook| builder.hook(Arc::new(hook)))
    })
}

fn hooked(log: &Log, hooks: &[(&'static str, On)]) -> Setup {
    let hooks = hooks.iter().map(|(name, on)| Closure::new(name, log, *on));
    behind(Policy::new(Mode::Auto), hooks)
}

const GO_ON: On = |_| Ok(HookAnswer::go_on());
const FAILS: On = |_| Err(ToolError::host_failed("its program is gone"));

#[tokio::test]
async fn hooks_run_in_order_and_each_sees_what_the_one_before_it_made() {
    let log = Log::default();
    let one: On = |what| {
        Ok(match what {
            Happening::PreTool(_) => HookAnswer::go_on().with_input(json!({"path": "b"})),
            _ => HookAnswer::go_on().with_output(Output::text("changed")),
        })
    };
    let two: On = |what| {
        Ok(match what {
            Happening::PostTool(_, output) => {
                HookAnswer::go_on().with_output(Output::text(format!("{} twice", output.to_text())))
            }
            _ => HookAnswer::go_on(),
        })
    };
    let setup = hooked(&log, &[("one", one), ("two", two)]);
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
    assert_eq!(setup.bodies()[0]["input"], json!({"path": "b"}), "on record is what was done");
    let notes =
        json!(["one changed the arguments", "one changed the answer", "two changed the answer"]);
    assert_eq!(setup.bodies()[1]["metadata"]["hooks"], notes, "and who changed it");
}

#[tokio::test]
async fn a_gate_sees_what_a_later_hook_makes_of_the_arguments() {
    let guard: On = |what| {
        Ok(match what {
            Happening::PreTool(call) if call.input["path"] == "secret" => {
                HookAnswer::deny("not this")
            }
            _ => HookAnswer::go_on(),
        })
    };
    let editor: On = |what| {
        Ok(match what {
            Happening::PreTool(_) => HookAnswer::go_on().with_input(json!({"path": "secret"})),
            _ => HookAnswer::go_on(),
        })
    };
    let setup = hooked(&Log::default(), &[("guard", guard), ("editor", editor)]);
    let result = setup.call("write", json!({"path": "a"})).await;
    assert_text(&result, Outcome::Denied, "not allowed: the hook guard says no: not this");
}

#[tokio::test]
async fn hooks_that_never_agree_on_the_arguments_end_in_a_denial() {
    fn to(path: &str) -> HookAnswer {
        HookAnswer::go_on().with_input(json!({"path": path}))
    }
    let setup = hooked(&Log::default(), &[("one", |_| Ok(to("b"))), ("two", |_| Ok(to("c")))]);
    let result = setup.call("write", json!({"path": "a"})).await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(result.output.to_text().contains("do not agree"), "{}", result.output.to_text());
}

/// A hook replaces `{"path": "a"}` by this.
async fn check_replaced(by: On, outcome: Outcome, text: &str) {
    let setup = hooked(&Log::default(), &[("editor", by)]);
    assert_text(&setup.call("write", json!({"path": "a"})).await, outcome, text);
}

#[tokio::test]
async fn replaced_arguments_are_looked_at_from_the_beginning() {
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
async fn a_hook_denies_and_those_after_it_are_not_asked() {
    let log = Log::default();
    let setup =
        hooked(&log, &[("guard", |_| Ok(HookAnswer::deny("not on a Friday"))), ("other", GO_ON)]);
    let result = setup.call("write", json!({"path": "a"})).await;
    let text = "not allowed: the hook guard says no: not on a Friday";
    assert_text(&result, Outcome::Denied, text);
    assert_eq!(log.lines(), [r#"guard pre_tool write {"path":"a"}"#]);
    assert_eq!(setup.recorded(), ["denied write"]);
}

/// What becomes of a call in `mode` if a hook that is (or is not) the person's own says this at `moment`.
async fn check_said(mode: Mode, path: &str, own: bool, on: On, outcome: Outcome, decided_by: &str) {
    let log = Log::default();
    let hook = Closure { may_allow: own, ..Closure::new("guide", &log, on) };
    let setup = behind(Policy::new(mode), [hook]);
    let result = setup.call("write", json!({"path": path})).await;
    assert_eq!(result.outcome, outcome, "{mode} {path}: {}", result.output.to_text());
    let said = match outcome {
        Outcome::Ok => setup.decided(0),
        _ => result.output.to_text(),
    };
    assert!(said.contains(decided_by), "{mode} {path}: {said}");
}

#[tokio::test]
async fn a_yes_of_a_hook_is_worth_only_what_a_person_would_have_been_asked() {
    const ALLOWS: On = |what| {
        Ok(match what {
            Happening::PreTool(_) => HookAnswer::allow(),
            _ => HookAnswer::go_on(),
        })
    };
    const ALLOWS_LATER: On = |what| {
        Ok(match what {
            Happening::PermissionRequest { .. } => HookAnswer::allow(),
            _ => HookAnswer::go_on(),
        })
    };
    use Outcome::Denied;
    let by_hook = "allowed by the hook guide, where mode ask asks";
    for allows in [ALLOWS, ALLOWS_LATER] {
        check_said(Mode::Ask, "a", true, allows, Outcome::Ok, by_hook).await;
        check_said(Mode::Ask, "a", false, allows, Denied, "no person is available to ask").await;
        check_said(Mode::Auto, "a", true, allows, Outcome::Ok, "allowed by mode auto").await;
        check_said(Mode::Ask, "no/a", true, allows, Denied, "deny write no/**").await;
        check_said(Mode::Plan, "a", true, allows, Denied, "mode plan").await;
        check_said(Mode::Deny, "a", true, allows, Denied, "mode deny").await;
        check_said(Mode::Yolo, ".env", true, allows, Denied, "hard deny").await;
        check_said(Mode::Ask, ".git/hooks/x", true, allows, Denied, "always asked").await;
    }
}

#[tokio::test]
async fn a_hook_can_have_a_person_asked_and_the_stricter_of_two_counts() {
    let asks: On = |what| {
        Ok(match what {
            Happening::PreTool(_) => HookAnswer::ask("it is late"),
            _ => HookAnswer::go_on(),
        })
    };
    let by = "(decided by the hook guide (it is late)): no person is available to ask";
    check_said(Mode::Auto, "a", false, asks, Outcome::Denied, by).await;
    let log = Log::default();
    let hooks = [
        Closure::new("guide", &log, asks),
        Closure::new("eager", &log, |_| Ok(HookAnswer::allow())),
    ];
    let result = behind(Policy::new(Mode::Auto), hooks).call("write", json!({"path": "a"})).await;
    assert_eq!(result.outcome, Outcome::Denied, "{}", result.output.to_text());
}

#[tokio::test]
async fn an_allowance_is_void_when_the_arguments_change_behind_it() {
    let allows: On = |what| {
        Ok(match what {
            Happening::PreTool(call) if call.input["path"] == "a" => HookAnswer::allow(),
            _ => HookAnswer::go_on(),
        })
    };
    let editor: On = |what| {
        Ok(match what {
            Happening::PreTool(_) => HookAnswer::go_on().with_input(json!({"path": "b"})),
            _ => HookAnswer::go_on(),
        })
    };
    let log = Log::default();
    let hooks = [Closure::new("eager", &log, allows), Closure::new("editor", &log, editor)];
    let result = behind(Policy::new(Mode::Ask), hooks).call("write", json!({"path": "a"})).await;
    assert_eq!(result.outcome, Outcome::Denied, "{}", result.output.to_text());
}

#[tokio::test]
async fn gates_fail_closed_and_observers_open() {
    let log = Log::default();
    let mut setup = hooked(&log, &[("broken", FAILS)]);
    let result = setup.call("write", json!({"path": "a"})).await;
    assert_text(
        &result,
        Outcome::Denied,
        "not allowed: the hook broken must agree at pre_tool, and failed: its program is gone\nthe person who configured the hook has to repair or remove it",
    );
    assert!(setup.engine.prompt_submitted(&setup.session, "hello").await.is_err());
    setup.told().await;
    for what in [Happening::SessionStart, Happening::Notification { text: "x" }, Happening::Stop] {
        assert_eq!(
            setup.engine.happened(&setup.session, what).await,
            windlass_core::Heard::default()
        );
        let warning = format!("the hook broken failed at {}: its program is gone", what.moment());
        let told = setup.told().await;
        let [event] = &told[..] else { panic!("{told:?}") };
        assert!(matches!(&event.kind, EventKind::Warning { message } if **message == *warning));
    }
    // One that says that it is no gate does not hold up anything.
    let open = Closure { is_gate: |_| false, ..Closure::new("broken", &log, FAILS) };
    let mut setup = behind(Policy::new(Mode::Auto), [open]);
    assert_eq!(setup.call("write", json!({"path": "a"})).await.outcome, Outcome::Ok);
    let is_warning = |event: &Event| matches!(&event.kind, EventKind::Warning { .. });
    assert_eq!(setup.told().await.iter().filter(|event| is_warning(event)).count(), 2);
    // And one that says that it is one afterwards holds back what it has not seen.
    let closed = Closure {
        is_gate: |moment| moment == Moment::PostTool,
        ..Closure::new("broken", &log, FAILS)
    };
    let result =
        behind(Policy::new(Mode::Auto), [closed]).call("write", json!({"path": "a"})).await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(result.output.to_text().ends_with("the call has run; what it answered is held back"));
}

#[tokio::test]
async fn an_answer_can_become_an_error_and_a_model_can_be_told_more() {
    let log = Log::default();
    let setup = hooked(
        &log,
        &[("format", |what| {
            Ok(match what {
                Happening::PostTool(..) => {
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
async fn a_failure_is_an_answer_that_hooks_hear_of_and_so_is_one_from_the_cache() {
    let log = Log::default();
    let fails = MockTool::named("fails")
        .answering(|_, _| async { Err(ToolError::failed("no such file").hint("look again")) });
    let reads = says("reads", "same").with_effects(Kinds::READ, |_| Effects::read("a"));
    let setup = Setup::with([fails, reads], |builder| {
        builder.hook(Arc::new(Closure::new("watch", &log, GO_ON)))
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
async fn a_hook_can_end_the_session() {
    let log = Log::default();
    let brake: On = |what| {
        Ok(match what {
            Happening::PreTool(call) if call.input["path"] == "a" => HookAnswer::stop("enough"),
            _ => HookAnswer::go_on(),
        })
    };
    let setup = hooked(&log, &[("brake", brake)]);
    let result = setup.call("write", json!({"path": "a"})).await;
    let text = "not allowed: the hook brake has ended the session: enough";
    assert_text(&result, Outcome::Denied, text);
    assert_eq!(setup.call("write", json!({"path": "b"})).await.outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_a_hook() {
    let log = Log::default();
    let setup = hooked(&log, &[("one", GO_ON)]);
    assert_eq!(setup.call("write", json!({})).await.code, Some("invalid_args"));
    assert!(log.lines().is_empty());
}

/// G13: the seed's sub-agents ran without hooks.
#[tokio::test]
async fn g13_hooks_bind_sub_sessions_and_know_whose_they_are() {
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
async fn what_is_not_a_call_is_told_too() {
    let log = Log::default();
    let on: On = |what| {
        Ok(match what {
            Happening::PromptSubmit { text } if text.contains("secret") => {
                HookAnswer::deny("no secrets")
            }
            Happening::PromptSubmit { text } => {
                HookAnswer::go_on().with_text(text.to_uppercase()).with_context("be brief")
            }
            Happening::Stop => HookAnswer::deny("the tests fail"),
            Happening::PreCompact => HookAnswer::stop("start anew"),
            _ => HookAnswer::go_on(),
        })
    };
    let setup = hooked(&log, &[("one", on), ("two", GO_ON)]);
    let (engine, session) = (&setup.engine, &setup.session);
    assert!(engine.has_hooks());
    assert_eq!(engine.session_started(session).await, windlass_core::Heard::default());
    let heard = engine.prompt_submitted(session, "go").await.unwrap();
    assert_eq!(heard.text.as_deref(), Some("GO"));
    assert_eq!(heard.context, ["[the hook one says: be brief]"]);
    let refused = engine.prompt_submitted(session, "a secret").await.unwrap_err();
    assert_eq!(refused.to_string(), "the hook one says no: no secrets");
    assert_eq!(engine.notified(session, "done").await, windlass_core::Heard::default());
    let heard = engine.happened(session, Happening::Stop).await;
    assert_eq!(heard.refused.as_deref(), Some("the hook one says no: the tests fail"));
    for what in [
        Happening::SubagentStop,
        Happening::PreMessage { text: "m" },
        Happening::PostMessage { text: "n" },
    ] {
        assert_eq!(engine.happened(session, what).await, windlass_core::Heard::default());
    }
    let heard = engine.happened(session, Happening::PreCompact).await;
    assert_eq!(heard.stopped.as_deref(), Some("the hook one has ended the session: start anew"));
    assert!(session.is_cancelled());
    assert_eq!(engine.session_ended(session).await, windlass_core::Heard::default());
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

/// A hook that hangs, before or after the run.
struct Stuck(Moment);

impl Hook for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn hears(&self, event: &HookEvent<'_>) -> bool {
        event.what.moment() == self.0
    }

    fn time_limit(&self) -> Duration {
        Duration::from_secs(7)
    }

    fn on<'a>(&'a self, _: HookEvent<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

fn stuck(moment: Moment) -> Setup {
    Setup::with([MockTool::named("noop")], |builder| builder.hook(Arc::new(Stuck(moment))))
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_hook_can_be_stopped() {
    for moment in [Moment::PreTool, Moment::PostTool] {
        let setup = stuck(moment);
        let running = setup.spawn(call("noop"));
        tokio::task::yield_now().await;
        setup.session.cancel();
        assert_eq!(running.await.unwrap().outcome, Outcome::Cancelled, "{moment}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_has_its_time_before_and_after() {
    let setup = stuck(Moment::PreTool);
    let result = setup.call("noop", json!({})).await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(
        result.output.to_text().contains("did not answer within 7 s"),
        "{}",
        result.output.to_text()
    );
    let mut setup = stuck(Moment::PostTool);
    assert_text(&setup.call("noop", json!({})).await, Outcome::Ok, "ok");
    let late = "the hook stuck failed at post_tool: it did not answer within 7 s";
    let warned =
        |event: &Event| matches!(&event.kind, EventKind::Warning { message } if **message == *late);
    assert!(setup.told().await.iter().any(warned));
}

#[tokio::test]
async fn what_a_hook_says_is_redacted_like_everything_else() {
    let log = Log::default();
    let says: On = |what| {
        Ok(match what {
            Happening::PostTool(..) => HookAnswer::go_on().with_context("use hunter2hunter2"),
            _ => HookAnswer::go_on(),
        })
    };
    let setup = Setup::with([echo("noop")], |builder| {
        builder
            .hook(Arc::new(Closure::new("leak", &log, says)))
            .secrets(Secrets::new([("PASSWORD", "hunter2hunter2")]))
    });
    let said: Value = setup.call("noop", json!({})).await.output.to_text().into();
    assert_eq!(said, "{}\n[the hook leak says: use [secret PASSWORD]]");
}
