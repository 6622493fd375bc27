//! Scheduling: calls that do not conflict run at the same time, and the result is the same as one after another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use windlass_core::testing::MockTool;
use windlass_core::{
    BoxFuture, CommandLine, Effect, EffectKinds, Effects, Hook, HookAnswer, HookEvent, HookPayload,
    Mode, Outcome, Output, Overrides, PathPattern, Policy, Predicate, Session, SessionId, ToolCall,
    ToolError,
};

use crate::support::{Setup, call, path_of, says};

/// Files in memory, without locks that outlive a statement: only the scheduler separates conflicting calls.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<BTreeMap<String, String>>>);

impl Disk {
    fn read(&self, path: &str) -> String {
        self.0.lock().unwrap().get(path).cloned().unwrap_or_default()
    }

    fn write(&self, path: &str, text: String) {
        self.0.lock().unwrap().insert(path.to_owned(), text);
    }

    fn all(&self) -> BTreeMap<String, String> {
        self.0.lock().unwrap().clone()
    }
}

/// One call of a random turn.
#[derive(Debug, Clone)]
struct Step {
    action: Action,
    /// Duration of the hook before it, and of the tool, in ms.
    delays: [u64; 2],
}

/// The work of one call.
#[derive(Debug, Clone)]
enum Action {
    Read(String),
    /// Reads a file, waits, and writes it with one more mark: loses marks of others unless no other call uses the file meanwhile.
    Append(String),
    /// The same, but fails afterwards.
    AppendAndFail(String),
    Copy(String, String),
    ListAll,
    /// Changes every file, without declaring paths.
    Run,
}

impl Step {
    /// Returns the call of this step; `mark` tells its writes apart.
    fn call(&self, mark: usize) -> ToolCall {
        let (name, from, to) = match &self.action {
            Action::Read(path) => ("read", path.as_str(), ""),
            Action::Append(path) => ("append", path.as_str(), ""),
            Action::AppendAndFail(path) => ("append_and_fail", path.as_str(), ""),
            Action::Copy(from, to) => ("copy", from.as_str(), to.as_str()),
            Action::ListAll => ("list", "", ""),
            Action::Run => ("run", "", ""),
        };
        let [hook, tool] = self.delays;
        let input = json!({"path": from, "to": to, "mark": mark, "hook": hook, "tool": tool});
        ToolCall::new(name, input)
    }
}

/// Generates steps.
fn steps() -> impl Strategy<Value = Step> {
    let path = || proptest::sample::select(vec!["a", "b", "d/e"]).prop_map(str::to_owned);
    let action = prop_oneof![
        4 => path().prop_map(Action::Read),
        4 => path().prop_map(Action::Append),
        1 => path().prop_map(Action::AppendAndFail),
        2 => (path(), path()).prop_map(|(from, to)| Action::Copy(from, to)),
        1 => Just(Action::ListAll),
        1 => Just(Action::Run),
    ];
    (action, proptest::array::uniform2(0u64..4))
        .prop_map(|(action, delays)| Step { action, delays })
}

/// The second half of a tool's work, after a pause.
type Finish = Box<dyn FnOnce(&Disk) -> String + Send>;

/// Makes the tools for all actions on this disk.
fn tools(disk: &Disk) -> Vec<MockTool> {
    let tool = |name: &str, effects: fn(&Value) -> Effects, act: fn(&Disk, &Value) -> Finish| {
        let disk = disk.clone();
        MockTool::named(name).with_effects(EffectKinds::ALL, effects).answering(move |_, input| {
            let disk = disk.clone();
            async move {
                let finish = act(&disk, &input);
                pause(&input["tool"]).await;
                let said = finish(&disk);
                pause(&input["tool"]).await;
                if said.starts_with("failed") {
                    Err(ToolError::failed(said))
                } else {
                    Ok(Output::text(said))
                }
            }
        })
    };
    vec![
        tool(
            "read",
            |input| Effects::read(path_of(input)),
            |_, input| {
                let path = path_of(input);
                Box::new(move |disk| disk.read(&path))
            },
        ),
        tool("append", |input| Effects::write(path_of(input)), append),
        tool(
            "append_and_fail",
            |input| Effects::write(path_of(input)),
            |disk, input| {
                let append = append(disk, input);
                Box::new(move |disk| format!("failed {}", append(disk)))
            },
        ),
        tool(
            "copy",
            |input| {
                let to = input["to"].as_str().expect("a path");
                Effects::read(path_of(input)).and(Effect::Write(PathPattern::file(to)))
            },
            |disk, input| {
                let text = disk.read(&path_of(input));
                let to = input["to"].as_str().expect("a path").to_owned();
                Box::new(move |disk| {
                    disk.write(&to, text);
                    "copied".into()
                })
            },
        ),
        tool(
            "list",
            |_| Effects::read_tree("."),
            |_, _| Box::new(|disk| format!("{:?}", disk.all())),
        ),
        tool(
            "run",
            |_| Effect::Exec(CommandLine::opaque("touch everything", "?")).into(),
            |disk, input| {
                let (all, mark) = (disk.all(), input["mark"].to_string());
                Box::new(move |disk| {
                    for (path, text) in all {
                        disk.write(&path, format!("{text}!{mark}"));
                    }
                    "ran".into()
                })
            },
        ),
    ]
}

/// Reads a file, and returns the rest of the work: writing it with one more mark.
fn append(disk: &Disk, input: &Value) -> Finish {
    let (path, before) = (path_of(input), disk.read(&path_of(input)));
    let text = format!("{before}+{}", input["mark"]);
    Box::new(move |disk| {
        disk.write(&path, text.clone());
        text
    })
}

/// Waits this many milliseconds, or yields once for 0 and `null`.
async fn pause(millis: &Value) {
    match millis.as_u64() {
        None | Some(0) => tokio::task::yield_now().await,
        Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
    }
}

/// A hook that waits, so that the effects of calls become known in any order.
struct SlowHook;

impl Hook for SlowHook {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
        Box::pin(async move {
            if let HookPayload::PreTool(call) = event.what {
                pause(&call.input["hook"]).await;
            }
            Ok(HookAnswer::go_on())
        })
    }
}

/// Makes an engine with the tools on this disk and this many permits.
fn engine_on(disk: &Disk, at_once: usize) -> Setup {
    Setup::with(tools(disk), |builder| {
        builder.policy(Policy::new(Mode::Yolo)).hook(Arc::new(SlowHook)).at_once(at_once)
    })
}

/// Runs a future on a paused clock, which advances whenever all tasks wait.
fn run_on_paused_clock<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(work)
}

/// The results of the calls in their order, and the files at the end.
type RunResult = (Vec<(Outcome, String)>, BTreeMap<String, String>);

/// Runs all steps as one turn.
fn together(steps: &[Step], at_once: usize) -> RunResult {
    let disk = Disk::default();
    let results = run_on_paused_clock(async {
        let setup = engine_on(&disk, at_once);
        let calls = steps.iter().enumerate().map(|(mark, step)| step.call(mark)).collect();
        setup.engine.turn(&setup.session, calls).await
    });
    let answers = results.iter().map(|result| (result.outcome, result.output.to_text()));
    (answers.collect(), disk.all())
}

/// Runs the steps one after another.
fn one_after_another(steps: &[Step]) -> RunResult {
    let disk = Disk::default();
    let answers = run_on_paused_clock(async {
        let setup = engine_on(&disk, 1);
        let mut answers = Vec::new();
        for (mark, step) in steps.iter().enumerate() {
            let result = setup.engine.call(&setup.session, step.call(mark)).await;
            answers.push((result.outcome, result.output.to_text()));
        }
        answers
    });
    (answers, disk.all())
}

proptest! {
    #[test]
    fn turn_gives_the_same_result_as_one_after_another(
        steps in proptest::collection::vec(steps(), 0..12), at_once in 1usize..5,
    ) {
        prop_assert_eq!(together(&steps, at_once), one_after_another(&steps));
    }

    #[test]
    fn concurrent_turns_lose_no_writes(
        turns in proptest::collection::vec(proptest::collection::vec(steps(), 0..6), 1..4),
        at_once in 1usize..5,
    ) {
        let disk = Disk::default();
        // Copies replace marks on purpose, so they are left out: every mark must survive.
        let keeps = |step: &Step| !matches!(step.action, Action::Copy(..));
        let turns: Vec<Vec<Step>> =
            turns.into_iter().map(|turn| turn.into_iter().filter(keeps).collect()).collect();
        run_on_paused_clock(async {
            let setup = engine_on(&disk, at_once);
            let running = turns.iter().enumerate().map(|(number, turn)| {
                let calls = turn.iter().enumerate().map(|(at, step)| step.call(number * 100 + at));
                setup.engine.turn(&setup.session, calls.collect())
            });
            futures_util::future::join_all(running).await;
        });
        for (number, turn) in turns.iter().enumerate() {
            for path in ["a", "b", "d/e"] {
                let wanted: Vec<String> = turn.iter().enumerate().filter_map(|(at, step)| {
                    let appends = matches!(&step.action,
                        Action::Append(to) | Action::AppendAndFail(to) if to == path);
                    appends.then(|| (number * 100 + at).to_string())
                }).collect();
                let text = disk.read(path);
                let found: Vec<&str> = text
                    .split(['+', '!'])
                    .filter(|mark| wanted.iter().any(|wanted| wanted == mark))
                    .collect();
                // Each mark of this turn is there once, in the order of the turn; marks of other turns may be between them.
                prop_assert_eq!(&found, &wanted, "{} of turn {}: {}", path, number, text);
            }
        }
    }
}

/// Runs calls that wait for each other at a barrier, and checks that they overlap or not.
async fn check_overlap(effects: Vec<Effects>, overlap: bool) {
    let shown = format!("{effects:?}");
    let barrier = Arc::new(Barrier::new(effects.len()));
    let tools = effects.into_iter().enumerate().map(|(at, effects)| {
        let barrier = barrier.clone();
        MockTool::named(format!("tool{at}"))
            .with_effects(EffectKinds::ALL, move |_| effects.clone())
            .answering(move |_, _| {
                let barrier = barrier.clone();
                async move {
                    barrier.wait().await;
                    Ok(Output::text("met"))
                }
            })
    });
    let tools: Vec<MockTool> = tools.collect();
    let calls = (0..tools.len()).map(|at| call(&format!("tool{at}"))).collect();
    let setup = Setup::with(tools, |builder| {
        builder.policy(Policy::new(Mode::Yolo)).timeout(Duration::from_secs(1))
    });
    let results = setup.engine.turn(&setup.session, calls).await;
    // Without overlap, the first call waits until its time limit.
    let first = if overlap { Outcome::Ok } else { Outcome::TimedOut };
    assert_eq!(results[0].outcome, first, "{shown}");
}

#[tokio::test(start_paused = true)]
async fn calls_overlap_exactly_if_they_do_not_conflict() {
    let net = || Effects::from(Effect::Net { origin: "https://a".into(), method: "GET".into() });
    let run = || Effects::from(Effect::Exec(CommandLine::words(["make"])));
    check_overlap(vec![Effects::read("a"); 10], true).await;
    check_overlap(vec![Effects::none(); 10], true).await;
    check_overlap(vec![Effects::write("a"), Effects::write("b"), Effects::read("c")], true).await;
    check_overlap(vec![Effects::read_tree("a"), Effects::write("b/c")], true).await;
    check_overlap(vec![net(), net(), run()], true).await;
    check_overlap(vec![Effects::state("todo"), Effects::state("memory")], true).await;

    check_overlap(vec![Effects::read("a"), Effects::write("a")], false).await;
    check_overlap(vec![Effects::write("a"), Effects::write("x/../a")], false).await;
    check_overlap(vec![Effects::write("a"), Effects::delete("a")], false).await;
    check_overlap(vec![Effects::read_tree("."), Effects::write("b/c")], false).await;
    check_overlap(vec![run(), Effects::read("a")], false).await;
    check_overlap(vec![run(), run()], false).await;
    check_overlap(vec![Effects::state("todo"), Effects::state("todo")], false).await;
}

#[tokio::test(start_paused = true)]
async fn number_of_concurrent_calls_is_limited() {
    for at_once in [1, 3, 10] {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counter = (now, most.clone());
        let tool = MockTool::named("count").answering(move |_, _| {
            let (now, most) = counter.clone();
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(Output::text("ok"))
            }
        });
        let setup = Setup::with([tool], |builder| builder.at_once(at_once));
        let results = setup.engine.turn(&setup.session, vec![call("count"); 20]).await;
        assert!(results.iter().all(|result| result.outcome == Outcome::Ok));
        assert_eq!(most.load(Ordering::SeqCst), at_once);
    }
}

#[tokio::test(start_paused = true)]
async fn results_come_in_the_order_of_the_calls() {
    let tool = MockTool::named("wait").answering(|_, input| async move {
        pause(&input["millis"]).await;
        Ok(Output::text(input["millis"].to_string()))
    });
    let setup = Setup::of([tool]);
    let waits = [30, 0, 20, 10, 5];
    let calls = waits.map(|millis| {
        ToolCall::new("wait", json!({"millis": millis})).with_id(format!("toolu_{millis}"))
    });
    let results = setup.engine.turn(&setup.session, calls.into()).await;
    let texts: Vec<String> = results.iter().map(|result| result.output.to_text()).collect();
    assert_eq!(texts, waits.map(|millis| millis.to_string()));
    let ids: Vec<_> = results.iter().map(|result| result.tool_use_id.clone().unwrap()).collect();
    assert_eq!(ids, waits.map(|millis| format!("toolu_{millis}")));
    assert!(results.iter().all(|result| result.turn == results[0].turn), "one turn");
}

#[tokio::test]
async fn failing_call_does_not_disturb_its_siblings() {
    let write = |tool: MockTool| tool.with_effects(EffectKinds::WRITE, |_| Effects::write("out"));
    let tools = [
        write(says("fine", "done")),
        write(MockTool::named("panics").answering(|_, _| async { panic!("oh no") })),
        write(MockTool::named("fails").answering(|_, _| async { Err(ToolError::failed("no")) })),
        write(MockTool::named("faults").answering(|_, _| async { Err(ToolError::internal("no")) })),
        MockTool::named("mad").with_effects(EffectKinds::NONE, |_| panic!("no effects today")),
    ];
    let setup = Setup::of(tools);
    let order = ["fine", "panics", "fine", "mad", "fails", "nope", "fine", "faults", "fine"];
    let results = setup.engine.turn(&setup.session, order.map(call).into()).await;
    let outcomes: Vec<(&str, Outcome, Option<&str>)> =
        results.iter().map(|result| (result.tool.as_str(), result.outcome, result.code)).collect();
    assert_eq!(
        outcomes,
        [
            ("fine", Outcome::Ok, None),
            ("panics", Outcome::Fault, Some("panicked")),
            ("fine", Outcome::Ok, None),
            ("mad", Outcome::Fault, Some("panicked")),
            ("fails", Outcome::Error, None),
            ("nope", Outcome::Fault, Some("unknown_tool")),
            ("fine", Outcome::Ok, None),
            ("faults", Outcome::Fault, Some("internal")),
            ("fine", Outcome::Ok, None),
        ]
    );
    assert_eq!(results[1].output.to_text(), "the tool panicked: oh no");
}

#[tokio::test]
async fn turn_without_calls_has_no_results() {
    let setup = Setup::of([MockTool::named("noop")]);
    assert!(setup.engine.turn(&setup.session, Vec::new()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_of_turns_holds_on_several_threads() {
    let disk = Disk::default();
    let setup = engine_on(&disk, 10);
    let step = |action| Step { action, delays: [0, 0] };
    let turns = (0..8).map(|turn| {
        let calls = (0..25).map(|at| step(Action::Append("a".into())).call(turn * 100 + at));
        setup.engine.turn(&setup.session, calls.collect())
    });
    futures_util::future::join_all(turns).await;
    let text = disk.read("a");
    let marks: Vec<usize> = text.split('+').skip(1).map(|mark| mark.parse().unwrap()).collect();
    assert_eq!(marks.len(), 200);
    for turn in 0..8 {
        let of_turn = marks.iter().filter(|mark| **mark / 100 == turn).map(|mark| mark % 100);
        assert!(of_turn.eq(0..25), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn session_without_free_permits_delays_no_other() {
    let tools =
        [MockTool::named("stuck").answering(|_, _| std::future::pending()), says("ping", "ok")];
    let mut setup = Setup::with(tools, |builder| builder.at_once(2).at_once_in_all(3));
    let stuck: Vec<_> = (0..20)
        .map(|_| tokio::spawn(setup.engine.start(&setup.session, call("stuck")).1))
        .collect();
    setup.started("stuck").await;
    setup.started("stuck").await;
    let child = Session::child(
        &setup.session,
        SessionId::new("child"),
        Predicate::All,
        &Overrides::default(),
    );
    let child = Arc::new(child);
    let of_child = setup.engine.call(&child, call("ping"));
    let waits = tokio::time::timeout(Duration::from_mins(1), of_child).await;
    assert!(waits.is_err(), "a session below has no permits of its own");
    let other = setup.engine.call(&setup.engine.new_session(), call("ping")).await;
    assert_eq!(other.outcome, Outcome::Ok);
    setup.session.cancel();
    for stuck in stuck {
        assert_eq!(stuck.await.expect("it ends").outcome, Outcome::Cancelled);
    }
}
