//! Plans: each call is planned once, its effects are decided on and granted, and the same plan runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::testing::{MockTool, plan_effects};
use windlass_core::{
    ApprovalRequest, BoxFuture, Context, DecidedBy, Decision, EffectKinds, Effects, EngineBuilder,
    FunctionTool, Hook, HookAnswer, HookEvent, HookPayload, Mode, Outcome, Output, Overrides,
    PlanContext, Planned, PlannedTool, Policy, Tool, ToolCall, ToolError, ToolHandle,
};

use crate::support::{Log, MapHost, Setup, assert_text, path_of};

/// A tool that counts its plans, and logs the plan, trial and run of each. A plan reads or writes a file with its own number in the name,
/// so that no two plans have the same effects.
#[derive(Clone, Default)]
struct CountingTool {
    log: Log,
    plans: Arc<AtomicUsize>,
}

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// `read`, `write` or `fail`.
    what: String,
}

struct Plan {
    number: usize,
    path: PathBuf,
    is_trial: bool,
}

impl PlannedTool for CountingTool {
    const NAME: &'static str = "count";
    const KINDS: EffectKinds = EffectKinds::READ.with(EffectKinds::WRITE);
    type Args = Args;
    type Plan = Plan;

    fn plan(&self, args: Args, scene: &PlanContext<'_>) -> Result<Planned<Plan>, ToolError> {
        let number = self.plans.fetch_add(1, Ordering::SeqCst) + 1;
        self.log.add(format!("plan {number}"));
        if args.what == "fail" {
            return Err(ToolError::failed(format!("no plan {number}")));
        }
        // The result of planning may differ each time.
        let name = if args.what == "read" { "a".to_owned() } else { format!("out{number}") };
        let path = scene.workspace().join(name);
        let effects =
            if args.what == "read" { Effects::read(&path) } else { Effects::write(&path) };
        Ok(Planned { effects, plan: Plan { number, path, is_trial: false } })
    }

    async fn call(&self, cx: &Context, plan: Plan) -> Result<Output, ToolError> {
        let what = if plan.is_trial { "trial" } else { "call" };
        self.log.add(format!("{what} {}", plan.number));
        if plan.path.ends_with("a") {
            cx.files().stat(&plan.path)?;
        }
        Ok(Output::text(cx.grant().effects().to_string()))
    }

    fn copy_for_trial(&self, plan: &Plan) -> Option<Plan> {
        Some(Plan { number: plan.number, path: plan.path.clone(), is_trial: true })
    }
}

/// Makes an engine with the tool, on a machine with the file `a`.
fn setup(choose: impl FnOnce(EngineBuilder) -> EngineBuilder) -> (Setup, Log) {
    let tool = CountingTool::default();
    let log = tool.log.clone();
    (Setup::on(Arc::new(MapHost::with(["a"])), [ToolHandle::from(tool)], choose), log)
}

/// Sets the mode `ask` and an attendant with this answer.
fn asking(answer: bool) -> impl FnOnce(EngineBuilder) -> EngineBuilder {
    let approver = move |_: &ApprovalRequest| answer;
    move |builder| builder.policy(Policy::new(Mode::Ask)).attendant(approver)
}

/// Makes one call that writes, and checks the outcome and the log of plans and runs.
async fn check(
    choose: impl FnOnce(EngineBuilder) -> EngineBuilder,
    outcome: Outcome,
    log: &[&str],
) {
    let (setup, heard) = setup(choose);
    let result = setup.call("count", json!({"what": "write"})).await;
    assert_eq!((result.outcome, heard.lines()), (outcome, log.iter().map(|&s| s.into()).collect()));
    if outcome == Outcome::Ok {
        assert_eq!(result.output.to_text(), "write /w/out1", "what is granted is what was planned");
    }
}

#[tokio::test]
async fn call_is_planned_once_and_runs_its_plan() {
    check(|builder| builder, Outcome::Ok, &["plan 1", "call 1"]).await;
    check(asking(true), Outcome::Ok, &["plan 1", "trial 1", "call 1"]).await;
    check(asking(false), Outcome::Denied, &["plan 1", "trial 1"]).await;
    let denied = |builder: EngineBuilder| {
        builder.policy(Policy::new(Mode::Auto).deny("write out1".parse().unwrap()))
    };
    check(denied, Outcome::Denied, &["plan 1"]).await;
    check(
        |builder| builder.hook(Arc::new(ReplaceArguments(None))),
        Outcome::Ok,
        &["plan 1", "call 1"],
    )
    .await;
}

#[tokio::test]
async fn repeated_call_is_planned_again() {
    let (setup, log) = setup(asking(true));
    for number in 1..=2 {
        let result = setup.call("count", json!({"what": "write"})).await;
        assert_text(&result, Outcome::Ok, &format!("write /w/out{number}"));
    }
    assert_eq!(log.lines(), ["plan 1", "trial 1", "call 1", "plan 2", "trial 2", "call 2"]);
}

#[tokio::test]
async fn cached_answer_needs_one_plan_and_no_run() {
    let (setup, log) = setup(|builder| builder);
    for cached in [false, true] {
        let result = setup.call("count", json!({"what": "read"})).await;
        assert_text(&result, Outcome::Ok, "read /w/a");
        assert_eq!(result.output.metadata.contains_key("cached"), cached);
    }
    assert_eq!(log.lines(), ["plan 1", "call 1", "plan 2"]);
}

#[tokio::test]
async fn each_call_of_a_turn_is_planned_once() {
    let (setup, log) = setup(|builder| builder);
    let calls = vec![ToolCall::new("count", json!({"what": "write"})); 3];
    let results = setup.engine.turn(&setup.session, calls).await;
    let mut granted: Vec<String> = results.iter().map(|result| result.output.to_text()).collect();
    granted.sort();
    assert_eq!(granted, ["write /w/out1", "write /w/out2", "write /w/out3"]);
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["call 1", "call 2", "call 3", "plan 1", "plan 2", "plan 3"]);
}

#[tokio::test]
async fn explain_plans_once_and_runs_nothing() {
    let (setup, log) = setup(|builder| builder);
    let call = ToolCall::new("count", json!({"what": "write"}));
    let verdict = setup.engine.explain(&setup.session, call).await.unwrap();
    assert_eq!(verdict.effects().to_string(), "write /w/out1");
    assert_eq!(log.lines(), ["plan 1"]);
}

#[tokio::test]
async fn failing_plan_ends_the_call_before_a_person_is_asked() {
    let never_asked = |_: &ApprovalRequest| -> bool { panic!("no person is asked") };
    let (setup, log) =
        setup(|builder| builder.policy(Policy::new(Mode::Ask)).attendant(never_asked));
    let result = setup.call("count", json!({"what": "fail"})).await;
    assert_text(&result, Outcome::Error, "no plan 1");
    assert_eq!(log.lines(), ["plan 1"]);
    assert_eq!(setup.recorded(), ["error count"], "it never began");
}

/// A hook that replaces the arguments, if it has some.
struct ReplaceArguments(Option<Value>);

impl Hook for ReplaceArguments {
    fn name(&self) -> &'static str {
        "replaces"
    }

    fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
        let input = match event.what {
            HookPayload::PreTool(_) => self.0.clone(),
            _ => None,
        };
        let answer = match input {
            Some(input) => HookAnswer::go_on().with_input(input),
            None => HookAnswer::go_on(),
        };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[tokio::test]
async fn replaced_arguments_are_planned_again_and_the_first_plan_is_dropped() {
    let hook = ReplaceArguments(Some(json!({"what": "write"})));
    let (setup, log) = setup(|builder| builder.hook(Arc::new(hook)));
    let result = setup.call("count", json!({"what": "read"})).await;
    assert_text(&result, Outcome::Ok, "write /w/out2");
    assert_eq!(log.lines(), ["plan 1", "plan 2", "call 2"]);
}

#[tokio::test]
async fn doors_stop_a_plan_that_does_more_than_its_effects() {
    struct SlyTool;
    impl PlannedTool for SlyTool {
        const NAME: &'static str = "sly";
        const KINDS: EffectKinds = EffectKinds::READ;
        type Args = Args;
        type Plan = PathBuf;

        fn plan(&self, args: Args, _: &PlanContext<'_>) -> Result<Planned<PathBuf>, ToolError> {
            Ok(Planned { effects: Effects::read("a"), plan: args.what.into() })
        }

        async fn call(&self, cx: &Context, path: PathBuf) -> Result<Output, ToolError> {
            Ok(Output::text(format!("{}", cx.files().stat(&path)?.is_some())))
        }
    }
    let host = Arc::new(MapHost::with(["a", "b"]));
    let setup = Setup::on(host, [ToolHandle::from(SlyTool)], |builder| builder);
    let look = |what: &str| setup.call("sly", json!({"what": what}));
    assert_text(&look("a").await, Outcome::Ok, "true");
    let result = look("b").await;
    assert_eq!((result.outcome, result.code), (Outcome::Fault, Some("undeclared_effect")));
}

#[test]
fn effects_of_a_tool_without_a_plan_are_computed_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let tool = MockTool::named("mock").with_effects(EffectKinds::READ, move |input| {
        count.fetch_add(1, Ordering::SeqCst);
        Effects::read(path_of(input))
    });
    let effects =
        plan_effects(&MapHost::with(["a"]), &*ToolHandle::from(tool), json!({"path": "a"}))
            .unwrap();
    assert_eq!((effects.to_string().as_str(), asked.load(Ordering::SeqCst)), ("read a", 1));
}

/// Pay an amount.
#[derive(Deserialize, JsonSchema)]
struct Pay {
    /// The amount.
    amount: u64,
}

#[tokio::test]
async fn tool_can_need_a_person_by_its_arguments_in_any_mode() {
    let pay = || {
        FunctionTool::new(
            "pay",
            EffectKinds::NONE,
            |_: &Pay| Effects::none(),
            |_, _| async { Ok(Output::text("paid")) },
        )
        .needs_person_if(|args| args.amount > 100)
    };
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let setup = Setup::with([pay()], |builder| {
        builder.policy(Policy::new(Mode::Yolo)).attendant(move |request: &ApprovalRequest| {
            assert_eq!((&request.by, request.can_be_remembered), (&DecidedBy::NeedsPerson, false));
            count.fetch_add(1, Ordering::SeqCst) == 0
        })
    });
    for (amount, outcome) in
        [(1, Outcome::Ok), (101, Outcome::Ok), (101, Outcome::Denied), (100, Outcome::Ok)]
    {
        let result = setup.call("pay", json!({"amount": amount})).await;
        assert_eq!(result.outcome, outcome, "{amount}: {:?}", result.output);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let verdict =
        setup.engine.explain(&setup.session, ToolCall::new("pay", json!({"amount": 500})));
    assert_eq!(verdict.await.expect("a verdict").decision(), Decision::Ask);
}

/// Wait for long.
#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

/// A long-running tool.
struct LongRunningTool;

impl Tool for LongRunningTool {
    const NAME: &'static str = "patient";
    const KINDS: EffectKinds = EffectKinds::NONE;
    type Args = NoArguments;

    fn effects(&self, _: &NoArguments) -> Effects {
        Effects::none()
    }

    async fn call(&self, _: &Context, _: NoArguments) -> Result<Output, ToolError> {
        tokio::time::sleep(Duration::from_hours(24)).await;
        Ok(Output::text("done"))
    }

    fn is_long_running(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn long_running_tool_has_only_an_explicit_time_limit() {
    let setup = Setup::with([LongRunningTool], |builder| builder.timeout(Duration::from_secs(1)));
    assert_eq!(setup.call("patient", json!({})).await.outcome, Outcome::Ok);
    let overrides = Overrides { timeout: Some(Duration::from_secs(5)), ..Overrides::default() };
    let call = ToolCall::new("patient", json!({})).with_overrides(overrides);
    let result = setup.engine.call(&setup.session, call).await;
    assert_eq!(result.outcome, Outcome::TimedOut);
}

#[tokio::test]
async fn approval_of_a_tool_that_needs_a_person_is_never_remembered() {
    let pay = FunctionTool::new(
        "pay",
        EffectKinds::WRITE,
        |_: &Pay| Effects::write("a"),
        |_, _| async { Ok(Output::text("paid")) },
    )
    .needs_person_if(|args| args.amount > 100);
    let setup = Setup::with([pay], |builder| builder.policy(Policy::new(Mode::Ask)));
    let verdict =
        setup.engine.explain(&setup.session, ToolCall::new("pay", json!({"amount": 500})));
    let verdict = verdict.await.expect("a verdict");
    assert_eq!(verdict.decided_by(), &DecidedBy::NeedsPerson, "the mode asks too");
}
