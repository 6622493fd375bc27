//! Cached answers: only of reads, only while the files that were read are unchanged, and never past the policy.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::testing::MockTool;
use windlass_core::{
    CommandLine, Effect, EffectKinds, Effects, EngineBuilder, Mode, Outcome, Output, Overrides,
    Policy, ToolCall, ToolError,
};

use crate::support::{MapHost, Setup, path_of};

/// Makes tools on the files `a` and `b`; `read` answers with the number of times that it really ran.
fn setup(choose: impl FnOnce(EngineBuilder) -> EngineBuilder) -> (Setup, Arc<MapHost>) {
    let host = Arc::new(MapHost::with(["a", "b"]));
    let runs = Arc::new(AtomicUsize::new(0));
    let read = MockTool::named("read")
        .with_effects(EffectKinds::READ, |input| Effects::read(path_of(input)))
        .answering(move |cx, input| {
            let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                let found = cx.files().stat(&PathBuf::from(path_of(&input)))?;
                match (found, &input["fail"]) {
                    (None, _) => Err(ToolError::failed("no such file")),
                    (_, Value::Bool(true)) => Ok(Output::error(format!("run {run}"))),
                    _ => Ok(Output::text(format!("run {run}"))),
                }
            }
        });
    let changer = host.clone();
    let write = MockTool::named("write")
        .with_effects(EffectKinds::WRITE, |input| Effects::write(path_of(input)))
        .answering(move |_, input| {
            changer.touch(&path_of(&input), 2);
            async { Ok(Output::text("written")) }
        });
    let exec = MockTool::named("exec")
        .with_effects(EffectKinds::EXEC, |_| Effect::Exec(CommandLine::words(["true"])).into());
    let net = MockTool::named("net").with_effects(EffectKinds::READ | EffectKinds::NET, |_| {
        Effects::read("a").and(Effect::Net { origin: "https://a".into(), method: "GET".into() })
    });
    (Setup::on(host.clone(), [read, write, exec, net], choose), host)
}

fn usual() -> (Setup, Arc<MapHost>) {
    setup(|builder| builder)
}

async fn read(setup: &Setup, path: &str) -> String {
    setup.call("read", json!({"path": path})).await.output.to_text()
}

#[tokio::test]
async fn same_read_of_an_unchanged_file_is_served_from_the_cache() {
    let (setup, _) = usual();
    let first = setup.call("read", json!({"path": "a", "x": {"p": 1, "q": 2}})).await;
    let again = setup.call("read", json!({"x": {"q": 2, "p": 1}, "path": "a"})).await;
    assert_eq!(first.output.to_text(), "run 1");
    assert_eq!(again.output.to_text(), "run 1");
    assert!(first.output.metadata.get("cached").is_none());
    assert_eq!(again.output.metadata["cached"], true);
    assert_eq!(
        again.output.metadata["turn"],
        again.turn.as_str(),
        "of this turn, not of the first"
    );
    let stats = setup.engine.cache_stats();
    assert_eq!((stats.hits, stats.misses, stats.entries), (1, 1, 1));
    assert_eq!(setup.recorded(), ["started read", "ok read", "ok read"]);
}

#[tokio::test]
async fn other_arguments_directory_or_session_run_again() {
    let (setup, _) = usual();
    assert_eq!(read(&setup, "a").await, "run 1");
    assert_eq!(read(&setup, "b").await, "run 2");
    let elsewhere = Overrides { work_dir: Some("/w/sub/..".into()), ..Overrides::default() };
    let call = ToolCall::new("read", json!({"path": "a"})).with_overrides(elsewhere);
    assert_eq!(setup.engine.call(&setup.session, call).await.output.to_text(), "run 3");
    let other = setup.engine.new_session();
    let call = ToolCall::new("read", json!({"path": "a"}));
    assert_eq!(setup.engine.call(&other, call).await.output.to_text(), "run 4");
    assert_eq!(read(&setup, "a").await, "run 1");
}

#[tokio::test]
async fn answer_expires_by_change_of_its_file_and_by_age() {
    let (setup, host) = setup(|builder| builder.cache(100, Duration::from_mins(1)));
    assert_eq!(read(&setup, "a").await, "run 1");
    host.touch("b", 2);
    assert_eq!(read(&setup, "a").await, "run 1", "another file changed");
    host.touch("a", 2);
    assert_eq!(read(&setup, "a").await, "run 2", "it changed");
    host.wait(Duration::from_secs(59));
    assert_eq!(read(&setup, "a").await, "run 2");
    host.wait(Duration::from_secs(1));
    assert_eq!(read(&setup, "a").await, "run 3", "too old");
}

#[tokio::test]
async fn answer_about_a_file_that_just_changed_is_not_cached() {
    let (setup, host) = usual();
    host.touch("a", 999_990_000_000);
    assert_eq!(read(&setup, "a").await, "run 1", "10 ms after the change");
    assert_eq!(read(&setup, "a").await, "run 2");
    host.wait(Duration::from_secs(1));
    assert_eq!(read(&setup, "a").await, "run 3");
    assert_eq!(read(&setup, "a").await, "run 3");
}

#[tokio::test]
async fn any_call_but_a_read_empties_the_cache() {
    for (tool, input, kept) in [
        ("write", json!({"path": "b"}), false),
        ("exec", json!({}), false),
        ("net", json!({}), false),
        ("read", json!({"path": "b"}), true),
    ] {
        let (setup, _) = usual();
        read(&setup, "a").await;
        setup.call(tool, input).await;
        let again = setup.call("read", json!({"path": "a"})).await;
        assert_eq!(again.output.metadata.contains_key("cached"), kept, "{tool}");
    }
}

#[tokio::test]
async fn read_behind_a_write_of_the_same_turn_is_never_stale() {
    let (setup, _) = usual();
    read(&setup, "a").await;
    let read = || ToolCall::new("read", json!({"path": "a"}));
    let write = ToolCall::new("write", json!({"path": "a"}));
    let results = setup.engine.turn(&setup.session, vec![read(), write, read()]).await;
    let texts: Vec<String> = results.iter().map(|result| result.output.to_text()).collect();
    assert_eq!(texts, ["run 1", "written", "run 2"]);
}

#[tokio::test]
async fn failures_and_answers_of_more_than_reads_are_not_cached() {
    let (setup, _) = usual();
    for (tool, input) in [
        ("read", json!({"path": "a", "fail": true})),
        ("read", json!({"path": "nothing"})),
        ("net", json!({})),
    ] {
        for _ in 0..2 {
            let result = setup.call(tool, input.clone()).await;
            assert!(!result.output.metadata.contains_key("cached"), "{tool} {input}");
        }
    }
    assert_eq!(setup.engine.cache_stats().entries, 0);
}

#[tokio::test]
async fn new_policy_is_applied_before_the_cache() {
    let (setup, _) = usual();
    read(&setup, "a").await;
    setup.engine.set_policy(Policy::new(Mode::Auto).deny("read a".parse().unwrap()));
    assert_eq!(setup.call("read", json!({"path": "a"})).await.outcome, Outcome::Denied);
    setup.engine.set_policy(Policy::new(Mode::Auto));
    assert_eq!(read(&setup, "a").await, "run 2", "another policy may let less be seen");
}

#[tokio::test]
async fn least_recently_used_answer_is_evicted() {
    let (setup, _) = setup(|builder| builder.cache(2, Duration::from_mins(1)));
    let ask = async |question: u64| {
        setup.call("read", json!({"path": "a", "question": question})).await.output.to_text()
    };
    assert_eq!([ask(1).await, ask(2).await, ask(1).await], ["run 1", "run 2", "run 1"]);
    assert_eq!(ask(3).await, "run 3");
    assert_eq!(ask(1).await, "run 1");
    assert_eq!(ask(2).await, "run 4");
    let stats = setup.engine.cache_stats();
    assert_eq!((stats.entries, stats.capacity, stats.evictions), (2, 2, 2));
    assert!((stats.hit_rate() - 1.0 / 3.0).abs() < f64::EPSILON, "{stats:?}");
}

#[tokio::test]
async fn cache_can_be_cleared_and_disabled_at_run_time() {
    let (setup, _) = usual();
    let mut answers = vec![read(&setup, "a").await, read(&setup, "a").await];
    setup.engine.clear_cache();
    answers.push(read(&setup, "a").await);
    setup.engine.set_cache_enabled(false);
    answers.extend([read(&setup, "a").await, read(&setup, "a").await]);
    assert_eq!(setup.engine.cache_stats().entries, 0);
    setup.engine.set_cache_enabled(true);
    answers.extend([read(&setup, "a").await, read(&setup, "a").await]);
    assert_eq!(answers, ["run 1", "run 1", "run 2", "run 3", "run 4", "run 5", "run 5"]);
}

#[tokio::test]
async fn cache_without_entries_is_off() {
    let (setup, _) = setup(|builder| builder.cache(0, Duration::from_mins(1)));
    assert_eq!(read(&setup, "a").await, "run 1");
    assert_eq!(read(&setup, "a").await, "run 2");
    assert_eq!(setup.engine.cache_stats(), windlass_core::CacheStats::default());
}

#[tokio::test]
async fn answer_found_under_another_policy_is_not_cached() {
    let (may_end, goes_on) = tokio::sync::oneshot::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(Some(goes_on)));
    let host = Arc::new(MapHost::with(["a"]));
    let read = MockTool::named("read")
        .with_effects(EffectKinds::READ, |input| Effects::read(path_of(input)))
        .answering(move |cx, input| {
            let gate = gate.lock().unwrap().take();
            async move {
                cx.files().stat(&PathBuf::from(path_of(&input)))?;
                if let Some(goes_on) = gate {
                    drop(goes_on.await);
                }
                Ok(Output::text("read"))
            }
        });
    let mut setup = Setup::on(host, [read], |builder| builder);
    let running = setup.spawn(ToolCall::new("read", json!({"path": "a"})));
    setup.started("read").await;
    setup.engine.set_policy(Policy::new(Mode::Auto));
    may_end.send(()).unwrap();
    assert_eq!(running.await.unwrap().outcome, Outcome::Ok);
    assert_eq!(setup.engine.cache_stats().entries, 0);
    // Later answers are cached as usual.
    read_twice(&setup).await;
    assert_eq!(setup.engine.cache_stats().hits, 1);
}

async fn read_twice(setup: &Setup) {
    for _ in 0..2 {
        assert_eq!(read(setup, "a").await, "read");
    }
}
