//! Inner calls: permits, order, budgets, clocks and ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_core::testing::MockTool;
use windlass_core::{
    Answer, ApprovalRequest, Attendant, AttendantReply, BoxFuture, Budget, EffectKinds, Effects,
    EventKind, Mode, Outcome, Output, Overrides, Policy, Predicate, Session, SessionId, StateScope,
    ToolCall, ToolError,
};

use crate::support::{Setup, writes};

/// A tool that makes the calls of its argument `calls` as one turn, and answers with their answers.
fn outer() -> MockTool {
    MockTool::named("outer").answering(|cx, input| async move {
        let calls = input["calls"].as_array().cloned().unwrap_or_default();
        let call = |call: &Value| {
            ToolCall::new(call["tool"].as_str().expect("a tool"), call["input"].clone())
        };
        let results = cx.turn(calls.iter().map(call).collect()).await;
        let told: Vec<String> = results.iter().map(|result| result.output.to_text()).collect();
        Ok(Output::text(told.join(" ")))
    })
}

/// Arguments for [`outer`] with this many calls of `ping`.
fn pings(calls: usize) -> Value {
    json!({"calls": vec![json!({"tool": "ping", "input": {}}); calls]})
}

#[tokio::test]
async fn nested_turns_end_with_any_number_of_permits() {
    for at_once in 1..=4 {
        let setup =
            Setup::with([outer(), MockTool::named("ping")], |builder| builder.at_once(at_once));
        let calls = (0..10).map(|_| ToolCall::new("outer", pings(10))).collect();
        let results = setup.engine.turn(&setup.session, calls).await;
        for result in results {
            assert_eq!(result.output.to_text(), ["ok"; 10].join(" "));
        }
        assert_eq!(setup.session.spent().calls, 110, "each call is counted once");
    }
}

#[tokio::test]
async fn inner_call_names_its_outer_call() {
    let setup = Setup::of([outer(), MockTool::named("ping")]);
    let mut events = setup.engine.subscribe();
    let result = setup.call("outer", pings(1)).await;
    assert_eq!(result.parent_call, None);
    let parents = events.drain().await.into_iter().filter_map(|event| match &event.kind {
        EventKind::Started(started) => Some((started.tool.clone(), event.parent.clone())),
        EventKind::Finished(done) => Some((done.tool.clone(), event.parent.clone())),
        _ => None,
    });
    for (tool, parent) in parents {
        assert_eq!(parent, (tool == "ping").then(|| result.call.clone()), "{tool}");
    }
    let recorded: Vec<Value> =
        setup.bodies().iter().map(|body| body["parent_call"].clone()).collect();
    let call = json!(result.call);
    assert_eq!(recorded, [Value::Null, call, Value::Null, Value::Null]);
}

#[tokio::test]
async fn inner_call_waits_neither_for_outer_calls_nor_for_waiting_ones() {
    let write = |name: &'static str| writes(MockTool::named(name));
    let around = writes(outer());
    let setup = Setup::of([around, write("write")]);
    let calls = json!({"calls": [{"tool": "write", "input": {}}, {"tool": "write", "input": {}}]});
    // The second outer call and the write wait for the first outer call, whose inner calls go ahead of them.
    let results = setup
        .engine
        .turn(
            &setup.session,
            vec![
                ToolCall::new("outer", calls.clone()),
                ToolCall::new("outer", calls),
                ToolCall::new("write", json!({})),
            ],
        )
        .await;
    assert!(results.iter().all(|result| result.outcome == Outcome::Ok), "{results:?}");
}

#[tokio::test]
async fn deadlock_of_two_nested_calls_is_refused() {
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let crossing = |name: &'static str, own: &'static str, other: &'static str| {
        let barrier = barrier.clone();
        MockTool::named(name)
            .with_effects(EffectKinds::WRITE, move |_| Effects::write(own))
            .answering(move |cx, _| {
                let barrier = barrier.clone();
                async move {
                    barrier.wait().await;
                    let result = cx.call(ToolCall::new(other, json!({}))).await;
                    Ok(Output::text(format!("{:?}", result.code)))
                }
            })
    };
    let plain = |name: &'static str, path: &'static str| {
        MockTool::named(name).with_effects(EffectKinds::WRITE, move |_| Effects::write(path))
    };
    let setup = Setup::of([
        crossing("one", "a", "write_b"),
        crossing("two", "b", "write_a"),
        plain("write_a", "a"),
        plain("write_b", "b"),
    ]);
    let calls = vec![ToolCall::new("one", json!({})), ToolCall::new("two", json!({}))];
    let results = setup.engine.turn(&setup.session, calls).await;
    let mut told: Vec<String> = results.iter().map(|result| result.output.to_text()).collect();
    told.sort();
    assert_eq!(told, ["None", "Some(\"busy\")"], "one of them is refused, and the other goes on");
}

#[tokio::test]
async fn endless_recursion_of_calls_is_refused() {
    let itself = MockTool::named("itself").answering(|cx, _| async move {
        Ok(cx.call(ToolCall::new("itself", json!({}))).await.output)
    });
    let setup = Setup::with([itself], |builder| builder.at_once(1));
    let result = setup.call("itself", json!({})).await;
    assert!(result.output.to_text().contains("nested 16 deep"), "{:?}", result.output);
}

#[tokio::test]
async fn inner_calls_are_decided_on_with_the_rights_of_the_session() {
    let session = Session::new(SessionId::new("s")).narrow(Predicate::allow(["outer"]));
    let setup = Setup::of([outer(), MockTool::named("ping")]).in_session(session);
    let result = setup.call("outer", pings(1)).await;
    assert!(result.output.to_text().contains("there is no tool `ping`"), "{:?}", result.output);
    let setup = Setup::with([outer(), writes(MockTool::named("ping"))], |builder| {
        builder.policy(Policy::new(Mode::Plan))
    });
    let result = setup.call("outer", pings(1)).await;
    assert!(result.output.to_text().contains("mode plan"), "{:?}", result.output);
}

#[tokio::test]
async fn stopped_outer_call_stops_its_inner_calls() {
    let stuck = MockTool::named("ping").answering(|_, _| std::future::pending());
    let mut setup = Setup::of([outer(), stuck]);
    let (id, running) = setup.engine.start(&setup.session, ToolCall::new("outer", pings(3)));
    let running = tokio::spawn(running);
    setup.started("ping").await;
    assert!(setup.engine.cancel(&id));
    assert_eq!(running.await.expect("it ends").outcome, Outcome::Cancelled);
    let ended = |line: &&String| *line == "cancelled ping";
    while setup.recorded().iter().filter(ended).count() < 3 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn stopped_outer_call_stops_calls_in_a_session_below() {
    let stuck = MockTool::named("ping").answering(|_, _| std::future::pending());
    let below = MockTool::named("outer").answering(|cx, _| async move {
        let id = SessionId::new("child");
        let child = Arc::new(cx.session().child(id, Predicate::All, &Overrides::default()));
        Ok(cx.call_in(&child, ToolCall::new("ping", json!({}))).await.output)
    });
    let mut setup = Setup::of([below, stuck]);
    let (id, running) = setup.engine.start(&setup.session, ToolCall::new("outer", json!({})));
    let running = tokio::spawn(running);
    setup.started("ping").await;
    assert!(setup.engine.cancel(&id));
    assert_eq!(running.await.expect("it ends").outcome, Outcome::Cancelled);
    while !setup.recorded().iter().any(|line| line == "cancelled ping") {
        tokio::task::yield_now().await;
    }
}

/// An attendant that approves after an hour.
struct SlowApprover;

impl Attendant for SlowApprover {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_hours(1)).await;
            AttendantReply::Answered(Answer::allow())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn outer_clock_is_stopped_while_a_person_is_asked() {
    let setup = Setup::with([outer(), writes(MockTool::named("ping"))], |builder| {
        builder
            .policy(Policy::new(Mode::Ask))
            .attendant(SlowApprover)
            .timeout(Duration::from_secs(5))
    });
    let result = setup.call("outer", pings(2)).await;
    assert_eq!(result.output.to_text(), "ok ok", "{:?}", result.code);
}

#[tokio::test]
async fn time_of_inner_calls_counts_once_and_their_text_only_in_other_sessions() {
    let parent = Arc::new(Session::new(SessionId::new("p")));
    let long = MockTool::named("ping").answering(|_, _| async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        Ok(Output::text("x".repeat(1_000)))
    });
    let quiet = MockTool::named("outer").answering(|cx, _| async move {
        cx.call(ToolCall::new("ping", json!({}))).await;
        let id = SessionId::new("child");
        let child = cx.session().child(id, Predicate::All, &Overrides::default());
        let child = Arc::new(child.with_budget(Budget::default()));
        cx.call_in(&child, ToolCall::new("ping", json!({}))).await;
        let spent = child.spent();
        Ok(Output::text(format!("{} {}", spent.calls, spent.output_bytes)))
    });
    let setup = Setup::of([quiet, long]);
    let result = setup.engine.call(&parent, ToolCall::new("outer", json!({}))).await;
    assert_eq!(result.output.to_text(), "1 1000", "the child pays for its own call");
    let spent = parent.spent();
    assert_eq!((spent.calls, spent.output_bytes), (3, 1_006), "with the text of the child's model");
    assert!(spent.time <= result.duration, "{spent:?} {:?}", result.duration);
}

/// A tree of calls: the file that each call reads or writes, and its inner calls, made as one turn.
#[derive(Debug, Clone)]
struct Tree {
    path: usize,
    writes: bool,
    /// True if the call fails after its inner calls.
    fails: bool,
    inner: Vec<Tree>,
}

/// Generates trees of calls.
fn trees() -> impl Strategy<Value = Tree> {
    let one = || (0..3usize, any::<bool>(), prop::bool::weighted(0.1));
    let leaf = one().prop_map(|(path, writes, fails)| Tree { path, writes, fails, inner: vec![] });
    leaf.prop_recursive(3, 12, 3, move |inner| {
        (one(), prop::collection::vec(inner, 0..3))
            .prop_map(|((path, writes, fails), inner)| Tree { path, writes, fails, inner })
    })
}

/// Returns the number of calls in a tree.
fn size(tree: &Tree) -> usize {
    1 + tree.inner.iter().map(size).sum::<usize>()
}

/// Returns the arguments for a tree. Every call has a unique number; inner calls have higher ones than their outer call.
fn as_input(tree: &Tree, next: &mut u64) -> Value {
    let number = *next;
    *next += 1;
    let inner: Vec<Value> = tree.inner.iter().map(|tree| as_input(tree, next)).collect();
    json!({
        "number": number, "path": tree.path, "writes": tree.writes, "fails": tree.fails, "inner": inner,
    })
}

/// Values in place of files, and the order in which calls started to work on them.
#[derive(Default)]
struct SharedValues {
    values: Mutex<HashMap<usize, u64>>,
    order: Mutex<Vec<Work>>,
}

/// The work of one call: it reads a value, and replaces it if it writes.
#[derive(Debug, Clone)]
struct Work {
    number: u64,
    path: usize,
    writes: bool,
    saw: u64,
}

/// Returns the value that a call writes: no other call writes the same.
fn written(saw: u64, number: u64) -> u64 {
    saw.wrapping_mul(1_000_003).wrapping_add(number + 1)
}

impl SharedValues {
    /// Works in two steps, so that a conflicting call between them would be noticed.
    async fn work(&self, number: u64, path: usize, writes: bool) -> u64 {
        let saw = {
            let mut order = self.order.lock().unwrap();
            let saw = self.values.lock().unwrap().get(&path).copied().unwrap_or_default();
            order.push(Work { number, path, writes, saw });
            saw
        };
        tokio::task::yield_now().await;
        if writes {
            self.values.lock().unwrap().insert(path, written(saw, number));
        }
        saw
    }

    /// Repeats the work of all calls one after the other. Returns the first call that reads another value then.
    fn first_difference(&self) -> Option<Work> {
        let mut values = HashMap::<usize, u64>::new();
        let order = self.order.lock().unwrap();
        let differs = |work: &&Work| {
            let value = values.entry(work.path).or_default();
            let saw = *value;
            if work.writes {
                *value = written(saw, work.number);
            }
            saw != work.saw
        };
        let found = order.iter().find(differs).cloned();
        found.or_else(|| {
            let now = self.values.lock().unwrap();
            let is_same = |(path, value): (&usize, &u64)| now.get(path).unwrap_or(&0) == value;
            (!values.iter().all(is_same)).then(|| order.last().cloned()).flatten()
        })
    }

    /// Returns two calls of one turn that conflict and did not work in the order of the turn.
    fn out_of_order(&self, turn: &[Value]) -> Option<(u64, u64)> {
        let order = self.order.lock().unwrap();
        let at = |call: &Value| order.iter().position(|work| call["number"] == work.number);
        for (later, second) in turn.iter().enumerate() {
            for first in &turn[..later] {
                let conflict = first["path"] == second["path"]
                    && (first["writes"] == true || second["writes"] == true);
                if let (true, Some(one), Some(two)) = (conflict, at(first), at(second))
                    && one > two
                {
                    return first["number"].as_u64().zip(second["number"].as_u64());
                }
            }
        }
        let inner = turn.iter().filter_map(|call| call["inner"].as_array());
        drop(order);
        inner.into_iter().find_map(|turn| self.out_of_order(turn))
    }
}

/// A tool for the calls of a tree. It works first, then makes its inner calls.
fn tree_tool(values: &Arc<SharedValues>) -> MockTool {
    let values = values.clone();
    let effects = |input: &Value| {
        let path = format!("f{}", input["path"]);
        if input["writes"] == true { Effects::write(path) } else { Effects::read(path) }
    };
    MockTool::named("node")
        .with_effects(EffectKinds::READ.with(EffectKinds::WRITE), effects)
        .answering(move |cx, input| {
            let values = values.clone();
            async move {
                let path = usize::try_from(input["path"].as_u64().unwrap()).unwrap();
                let (number, writes) = (input["number"].as_u64().unwrap(), input["writes"] == true);
                let saw = values.work(number, path, writes).await;
                let inner = input["inner"].as_array().cloned().unwrap_or_default();
                let calls = inner.into_iter().map(|input| ToolCall::new("node", input)).collect();
                cx.turn(calls).await;
                if input["fails"] == true {
                    return Err(ToolError::failed("it fails"));
                }
                Ok(Output::text(saw.to_string()))
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Makes random trees of calls with few permits and random failures. All calls must end, read the values that they would read one after
    /// the other, keep the order of their turn, and be counted once.
    #[test]
    fn random_trees_of_calls_end_as_if_run_one_after_the_other(
        trees in prop::collection::vec(trees(), 1..5), permits in 1..5usize, stopped in 0..8usize,
    ) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let values = Arc::new(SharedValues::default());
            // A cached answer would skip the work.
            let setup = Setup::with([tree_tool(&values)], |builder| {
                builder.at_once(permits).cache(0, Duration::ZERO)
            });
            let mut next = 0;
            let inputs: Vec<Value> = trees.iter().map(|tree| as_input(tree, &mut next)).collect();
            let mut running = Vec::new();
            for (at, input) in inputs.iter().enumerate() {
                let call = ToolCall::new("node", input.clone());
                let (id, call) = setup.engine.start(&setup.session, call);
                running.push(tokio::spawn(call));
                if at == stopped {
                    tokio::task::yield_now().await;
                    setup.engine.cancel(&id);
                }
            }
            let all = futures_util::future::join_all(running);
            let ended = tokio::time::timeout(Duration::from_secs(20), all).await;
            prop_assert!(ended.is_ok(), "a call waits forever");
            let is_stopped = stopped < trees.len();
            if !is_stopped {
                prop_assert!(values.first_difference().is_none(), "{:?}", values.first_difference());
                for (result, input) in ended.unwrap().iter().zip(&inputs) {
                    let result = result.as_ref().unwrap();
                    let saw = result.output.to_text();
                    let order = values.order.lock().unwrap();
                    let work = order.iter().find(|work| input["number"] == work.number);
                    let expected = work.map(|work| work.saw.to_string());
                    prop_assert!(result.outcome != Outcome::Ok || Some(saw) == expected);
                }
            }
            for input in &inputs {
                let inner = input["inner"].as_array().unwrap();
                prop_assert_eq!(values.out_of_order(inner), None, "calls of a turn swapped their order");
            }
            let most: usize = trees.iter().map(size).sum();
            let recorded = setup.recorded();
            let finished = recorded.iter().filter(|line| !line.starts_with("started")).count();
            let calls = usize::try_from(setup.session.spent().calls).unwrap();
            prop_assert!(calls <= most, "{calls} of {most}");
            if !is_stopped {
                prop_assert_eq!(finished, calls, "each call has one end");
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn call_cannot_make_calls_in_a_session_that_is_not_below_its_own() {
    let tool = MockTool::named("outer").answering(|cx, _| async move {
        let other = Arc::new(Session::new(SessionId::new("other")));
        let result = cx.call_in(&other, ToolCall::new("ping", json!({}))).await;
        Ok(Output::text(result.outcome.as_str()))
    });
    let setup = Setup::of([tool, MockTool::named("ping")]);
    assert_eq!(setup.call("outer", json!({})).await.output.to_text(), "denied");
}

#[tokio::test]
async fn task_that_outlives_its_call_can_do_nothing_in_its_name() {
    let (send, late) = tokio::sync::oneshot::channel();
    let send = Arc::new(std::sync::Mutex::new(Some(send)));
    let (go, gone) = tokio::sync::watch::channel(false);
    let tool = MockTool::named("outer")
        .with_effects(EffectKinds::STATE, |_| Effects::state("notes"))
        .answering(move |cx, _| {
            let (send, mut gone) = (send.lock().unwrap().take(), gone.clone());
            async move {
                tokio::spawn(async move {
                    gone.wait_for(|gone| *gone).await.unwrap();
                    cx.output("late");
                    let state = cx.state().get(StateScope::Session, "notes").is_err();
                    let inner = cx.call(ToolCall::new("ping", json!({}))).await.outcome;
                    send.unwrap().send((state, inner)).unwrap();
                });
                Ok(Output::text("done"))
            }
        });
    let mut setup = Setup::of([tool, MockTool::named("ping")]);
    setup.call("outer", json!({})).await;
    go.send(true).unwrap();
    assert_eq!(late.await.unwrap(), (true, Outcome::Cancelled));
    let names: Vec<&str> = setup.told().await.iter().map(|event| event.kind.name()).collect();
    assert!(!names.contains(&"output"), "{names:?}");
}
