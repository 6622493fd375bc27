//! Hooks: what a person puts before and after every call.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::testing::MockTool;
use windlass_core::{
    BoxFuture, Effects, Hook, HookAnswer, HookCall, Kinds, Mode, Outcome, Output, Policy, ToolError,
};

use crate::support::{Log, Setup, assert_text, call, echo, path_of};

/// A hook of two closures, which notes that it was asked.
struct Closures {
    name: &'static str,
    log: Log,
    before: Before,
    after: After,
}

type Before = fn(&Value) -> HookAnswer;
type After = fn(&mut Output) -> Result<(), ToolError>;

impl Hook for Closures {
    fn name(&self) -> &str {
        self.name
    }

    fn before<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, HookAnswer> {
        self.log.add(format!("{} before {} {}", self.name, call.tool, call.input));
        Box::pin(async { (self.before)(call.input) })
    }

    fn after<'a>(
        &'a self,
        call: HookCall<'a>,
        output: &'a mut Output,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        self.log.add(format!("{} after {} {}", self.name, call.input, output.to_text()));
        Box::pin(async { (self.after)(output) })
    }
}

/// A tool `write` that answers with its arguments, behind these hooks.
fn hooked(log: &Log, hooks: &[(&'static str, Before, After)]) -> Setup {
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["path"], "additionalProperties": false,
    });
    let tool = echo("write")
        .with_schema(schema)
        .with_effects(Kinds::WRITE, |input| Effects::write(path_of(input)));
    Setup::with([tool], |builder| {
        let builder = builder.policy(Policy::new(Mode::Auto).deny("write no/**".parse().unwrap()));
        hooks.iter().fold(builder, |builder, (name, before, after)| {
            let hook = Closures { name, log: log.clone(), before: *before, after: *after };
            builder.hook(Arc::new(hook))
        })
    })
}

const GO_ON: Before = |_| HookAnswer::Continue;
const LEAVE: After = |_| Ok(());

#[tokio::test]
async fn hooks_run_in_order_and_each_sees_what_the_one_before_it_made() {
    let log = Log::default();
    let setup = hooked(
        &log,
        &[
            (
                "one",
                |_| HookAnswer::Replace(json!({"path": "b"})),
                |output| {
                    *output = Output::text("changed");
                    Ok(())
                },
            ),
            ("two", GO_ON, |output| {
                *output = Output::text(format!("{} twice", output.to_text()));
                Ok(())
            }),
        ],
    );
    let result = setup.call("write", json!({"path": "a"})).await;
    assert_text(&result, Outcome::Ok, "changed twice");
    assert_eq!(
        log.lines(),
        [
            r#"one before write {"path":"a"}"#,
            r#"two before write {"path":"b"}"#,
            r#"one after {"path":"b"} {"path":"b"}"#,
            r#"two after {"path":"b"} changed"#,
        ]
    );
    assert_eq!(setup.bodies()[0]["input"], json!({"path": "b"}), "on record is what was done");
}

/// A hook replaces `{"path": "a"}` by this.
async fn check_replaced(by: fn(&Value) -> HookAnswer, outcome: Outcome, text: &str) {
    let setup = hooked(&Log::default(), &[("editor", by, LEAVE)]);
    assert_text(&setup.call("write", json!({"path": "a"})).await, outcome, text);
}

#[tokio::test]
async fn replaced_arguments_are_looked_at_from_the_beginning() {
    check_replaced(
        |_| HookAnswer::Replace(json!({"path": "b", "lines": "3"})),
        Outcome::Ok,
        r#"{"path":"b","lines":3}"#,
    )
    .await;
    check_replaced(
        |_| HookAnswer::Replace(json!({"paht": "b"})),
        Outcome::Fault,
        "unknown parameter `paht`\ndid you mean `path`?",
    )
    .await;
    check_replaced(
        |_| HookAnswer::Replace(json!({"path": "no/b"})),
        Outcome::Denied,
        "not allowed: write /w/no/b (decided by deny write no/**)\nthe rule `deny write no/**` would have to be removed",
    )
    .await;
    check_replaced(
        |_| HookAnswer::Replace(json!({"path": "/srv/passwd"})),
        Outcome::Denied,
        "not allowed: write /srv/passwd (decided by mode auto): nobody is there to ask\nto allow it: --allow 'write /srv/passwd'",
    )
    .await;
}

#[tokio::test]
async fn a_hook_denies_and_those_after_it_are_not_asked() {
    let log = Log::default();
    let setup = hooked(
        &log,
        &[
            ("guard", |_| HookAnswer::Deny("not on a Friday".into()), LEAVE),
            ("other", GO_ON, LEAVE),
        ],
    );
    let result = setup.call("write", json!({"path": "a"})).await;
    let text = "not allowed: the hook guard says no: not on a Friday";
    assert_text(&result, Outcome::Denied, text);
    assert_eq!(log.lines(), [r#"guard before write {"path":"a"}"#]);
    assert_eq!(setup.recorded(), ["denied write"]);
}

#[tokio::test]
async fn a_hook_can_make_an_answer_an_error_or_a_fault() {
    for (after, outcome, text) in [
        (
            (|output| {
                output.is_error = true;
                Ok(())
            }) as After,
            Outcome::Error,
            r#"{"path":"a"}"#,
        ),
        (
            |_| Err(ToolError::failed("the formatter found an error")),
            Outcome::Error,
            "the formatter found an error",
        ),
        (
            |_| Err(ToolError::host_failed("the formatter is gone")),
            Outcome::Fault,
            "the formatter is gone",
        ),
    ] {
        let setup = hooked(&Log::default(), &[("format", GO_ON, after)]);
        assert_text(&setup.call("write", json!({"path": "a"})).await, outcome, text);
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_a_hook() {
    let log = Log::default();
    let setup = hooked(&log, &[("one", GO_ON, LEAVE)]);
    assert_eq!(setup.call("write", json!({})).await.code, Some("invalid_args"));
    assert!(log.lines().is_empty());
}

/// A hook that hangs, before or after the run.
struct Stuck {
    before: bool,
}

impl Hook for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn before<'a>(&'a self, _: HookCall<'a>) -> BoxFuture<'a, HookAnswer> {
        if self.before {
            Box::pin(std::future::pending())
        } else {
            Box::pin(async { HookAnswer::Continue })
        }
    }

    fn after<'a>(
        &'a self,
        _: HookCall<'a>,
        _: &'a mut Output,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_hook_can_be_stopped() {
    for before in [true, false] {
        let setup = Setup::with([MockTool::named("noop")], |builder| {
            builder.hook(Arc::new(Stuck { before }))
        });
        let running = setup.spawn(call("noop"));
        tokio::task::yield_now().await;
        setup.session.cancel();
        assert_eq!(running.await.unwrap().outcome, Outcome::Cancelled, "before: {before}");
    }
}
