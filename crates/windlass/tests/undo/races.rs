//! Two engines at the same time: each change is undone once, and each proposal is applied or dropped once.

use std::sync::{Arc, Barrier};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use windlass::changes::{CheckpointQuery, UndoPlan};
use windlass::files::Durability;
use windlass::journal::DrainAtClose;
use windlass::session::CallId;
use windlass::tool::{PlanContext, Planned, PlannedTool};
use windlass::{
    Context, EffectKinds, Effects, Mode, Outcome, Output, Session, ToolError, Undo, Windlass,
};

use crate::support::{TestWorkspace, text};

/// Rounds of each pair of operations. Without mutual exclusion of undos, one pair in twenty failed.
const ROUNDS: usize = 25;

/// Opens a second engine on the same workspace and state, as another process would.
fn second_engine(test: &TestWorkspace) -> Windlass {
    let builder = Windlass::builder(test.workspace()).state(test.state());
    let builder = builder.durability(Durability::Kernel).drain_at_close(DrainAtClose::WhenLarge);
    builder.mode(Mode::Yolo).build().expect("the same workspace")
}

fn runtime() -> tokio::runtime::Runtime {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.expect("a runtime")
}

/// Runs two functions at the same moment, each on a thread of its own.
fn run_both<A: Send, B: Send>(
    one: impl AsyncFnOnce() -> A + Send,
    other: impl AsyncFnOnce() -> B + Send,
) -> (A, B) {
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let runtime = runtime();
            start.wait();
            runtime.block_on(one())
        });
        let second = runtime();
        start.wait();
        let second = second.block_on(other());
        (first.join().expect("no panic"), second)
    })
}

/// Lists the recorded undos of a call.
fn undos_of(test: &TestWorkspace, call: &CallId) -> Vec<CallId> {
    let all = test.windlass.history().checkpoints(&CheckpointQuery::Workspace(test.workspace()));
    let all = all.expect("a history").into_iter();
    all.filter(|one| one.origin.undoes.contains(call)).map(|one| one.origin.call).collect()
}

#[test]
fn un_7_two_simultaneous_undos_undo_a_call_once() {
    let (test, runtime) = (TestWorkspace::new(), runtime());
    let other = second_engine(&test);
    for round in 0..3 * ROUNDS {
        let made = test.call_ok("delta", json!({"changes": [{"path": "d", "to": "directory"}]}));
        let call = runtime.block_on(made).call;
        let second = match round % 3 {
            0 => Undo::Call(call.clone()),
            1 => Undo::Last,
            _ => Undo::Session(test.session.id().clone()),
        };
        let (one, two) = run_both(
            async || test.undo(Undo::Call(call.clone())).await,
            async || other.undo(&other.new_session(), second.clone()).await,
        );
        let said = [text(&one), text(&two)];
        let won = [&one, &two].into_iter().filter(|undo| undo.outcome == Outcome::Ok).count();
        assert_eq!((won, undos_of(&test, &call).len()), (1, 1), "{second:?}: {said:?}");
        let lost = said.iter().find(|said| !said.starts_with("undid")).expect("one lost");
        let is_told = ["undone already", "nothing to undo"];
        assert!(is_told.iter().any(|words| lost.contains(words)), "{lost}");
        assert!(!test.path("d").exists());
    }
}

/// A tool that performs the same undo plan twice.
struct PerformTwice;

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

impl PlannedTool for PerformTwice {
    const NAME: &'static str = "twice";
    const KINDS: EffectKinds = EffectKinds::STATE;
    type Args = NoArguments;
    type Plan = UndoPlan;

    fn plan(
        &self,
        _: NoArguments,
        scene: &PlanContext<'_>,
    ) -> Result<Planned<UndoPlan>, ToolError> {
        let plan = scene.undo_plan(&CheckpointQuery::LastOfSession(scene.session().clone()))?;
        Ok(Planned { effects: Effects::state("undo"), plan })
    }

    async fn call(&self, cx: &Context, plan: UndoPlan) -> Result<Output, ToolError> {
        cx.blocking(move |cx| {
            let undo = cx.undo()?;
            undo.perform(&plan)?;
            undo.perform(&plan)?;
            Ok(Output::text("undid it twice"))
        })
        .await?
    }
}

/// A plan is performed once, also if no file is left to change and no file shows that it was performed.
#[tokio::test]
async fn un_7_undo_plan_for_an_undone_call_is_refused() {
    let test = TestWorkspace::with_builder(&[], |builder| builder.tool(PerformTwice));
    let made = test.call_ok("delta", json!({"changes": [{"path": "d", "to": "directory"}]})).await;
    std::fs::remove_dir(test.path("d")).expect("a person removes it");
    let refused = test.call("twice", json!({})).await;
    let said = text(&refused);
    assert_eq!(refused.outcome, Outcome::Error, "{said}");
    assert!(said.contains("are undone already"), "{said}");
    assert_eq!(undos_of(&test, &made.call).len(), 1);
}

/// A proposal is applied twice, or applied and dropped, at the same time: one side gets it, and the other learns that it is gone.
#[test]
fn un_7_proposal_is_applied_or_dropped_once() {
    let (test, runtime) = (TestWorkspace::new(), runtime());
    let other = second_engine(&test);
    let proposing = test.windlass.proposing(Session::new(test.session.id().clone()));
    let proposing = proposing.expect("proposals");
    for round in 0..ROUNDS {
        let path = format!("d{round}");
        let change = json!({"changes": [{"path": path, "to": "directory"}]});
        let call = windlass::ToolCall::new("delta", change);
        let held = runtime.block_on(test.windlass.call(&proposing, call));
        assert_eq!(held.outcome, Outcome::Ok, "{}", text(&held));
        let open = |engine: &Windlass| engine.proposals(proposing.id()).expect("proposals");
        let (mine, theirs) = (open(&test.windlass), open(&other));
        assert_eq!((mine.list().len(), theirs.list().len()), (1, 1));
        let is_drop = round % 2 == 0;
        let apply = async |engine: &Windlass, proposals: &Arc<windlass::changes::Proposals>| {
            let done = engine.apply(&engine.new_session(), proposals, None).await;
            (done.outcome == Outcome::Ok, text(&done))
        };
        let (one, two) = run_both(
            async || apply(&test.windlass, &mine).await,
            async || {
                if is_drop {
                    let dropped = theirs.drop_paths(None).expect("a list");
                    return (!dropped.is_empty(), format!("{dropped:?}"));
                }
                apply(&other, &theirs).await
            },
        );
        assert!(one.0 != two.0, "{path}: {one:?} {two:?}");
        assert_eq!(test.path(&path).exists(), one.0 || !is_drop, "{one:?} {two:?}");
        assert!(open(&other).list().is_empty());
    }
}
