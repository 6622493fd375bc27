//! Settings that may differ for a session or one call: time limit, directory, budget, and the settings that a tool sees.

use std::time::Duration;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    Budget, EffectKinds, Effects, Outcome, Output, Overrides, Predicate, Session, SessionId,
    ToolCall,
};

use crate::support::{Setup, assert_text, call, hangs, path_of};

/// Makes a session with these settings.
fn session(overrides: Overrides) -> Session {
    Session::new(SessionId::new("s")).with_overrides(overrides)
}

/// Makes settings with this time limit.
fn time_limit(seconds: u64) -> Overrides {
    Overrides { timeout: Some(Duration::from_secs(seconds)), ..Overrides::default() }
}

#[tokio::test(start_paused = true)]
async fn most_specific_time_limit_counts() {
    for (of_session, of_call, wanted) in [
        (Overrides::default(), Overrides::default(), 60),
        (time_limit(30), Overrides::default(), 30),
        (Overrides::default(), time_limit(10), 10),
        (time_limit(30), time_limit(10), 10),
        (time_limit(30), time_limit(90), 90),
    ] {
        let setup =
            Setup::with([hangs("hangs")], |builder| builder.timeout(Duration::from_mins(1)))
                .in_session(session(of_session));
        let begun = tokio::time::Instant::now();
        let call = call("hangs").with_overrides(of_call);
        let result = setup.engine.call(&setup.session, call).await;
        assert_eq!(result.outcome, Outcome::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), wanted);
    }
}

#[tokio::test]
async fn relative_paths_start_at_the_most_specific_directory() {
    let place = |path: &str| Overrides { work_dir: Some(path.into()), ..Overrides::default() };
    let tool = MockTool::named("where")
        .with_effects(EffectKinds::READ, |input| Effects::read(path_of(input)))
        .answering(|cx, input| async move {
            let found = cx.files().resolve(path_of(&input).as_ref())?;
            assert!(cx.grant().may_read(&found.path));
            Ok(Output::text(found.path.display().to_string()))
        });
    for (of_session, of_call, path, wanted) in [
        (Overrides::default(), Overrides::default(), "a", "/w/a"),
        (place("/w/sub"), Overrides::default(), "a", "/w/sub/a"),
        (place("/w/sub"), Overrides::default(), "../a", "/w/a"),
        (place("/w/sub"), place("other"), "a", "/w/other/a"),
        (place("/w/sub"), Overrides::default(), "/w/b", "/w/b"),
    ] {
        let setup = Setup::of([tool.clone()]).in_session(session(of_session));
        let call = ToolCall::new("where", json!({"path": path})).with_overrides(of_call);
        let result = setup.engine.call(&setup.session, call).await;
        assert_text(&result, Outcome::Ok, wanted);
    }
}

#[tokio::test]
async fn working_directory_outside_does_not_bypass_the_policy() {
    let tool = MockTool::named("look").with_effects(EffectKinds::READ, |_| Effects::read("hosts"));
    let outside = Overrides { work_dir: Some("/etc".into()), ..Overrides::default() };
    let setup = Setup::of([tool]).in_session(session(outside));
    let result = setup.call("look", json!({})).await;
    assert_text(
        &result,
        Outcome::Denied,
        "not allowed: read /etc/hosts (decided by mode auto): no person is available to ask\nto allow it: --allow 'read /etc/hosts'",
    );
}

#[tokio::test]
async fn session_makes_only_the_calls_that_its_budget_allows() {
    let budget = Budget { calls: Some(3), ..Budget::default() };
    let budgeted = Session::new(SessionId::new("s")).with_budget(budget);
    let setup = Setup::of([MockTool::named("noop")]).in_session(budgeted);
    for _ in 0..5 {
        setup.engine.explain(&setup.session, call("noop")).await.expect("explaining costs nothing");
    }
    let results = setup.engine.turn(&setup.session, vec![call("noop"); 5]).await;
    let outcomes: Vec<Outcome> = results.iter().map(|result| result.outcome).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Ok).count(), 3);
    let last = setup.call("noop", json!({})).await;
    assert_eq!((last.outcome, last.code), (Outcome::Fault, Some("busy")));
    let text = last.output.to_text();
    assert!(text.starts_with("the budget of this session is used up: 3 calls"), "{text}");
    let other = setup.engine.new_session();
    assert_eq!(setup.engine.call(&other, call("noop")).await.outcome, Outcome::Ok);
}

#[tokio::test]
async fn tool_sees_the_settings_of_its_call() {
    let tool = MockTool::named("settings").answering(|cx, _| async move {
        let Overrides { seed, depth, .. } = cx.overrides();
        Ok(Output::text(format!("{seed:?} {depth:?} {}", cx.session().id())))
    });
    let setup = Setup::of([tool]);
    let parent = session(Overrides { seed: Some(7), ..Overrides::default() });
    let child = parent.child(SessionId::new("c"), Predicate::All, &Overrides::default());
    let grandchild = child.child(SessionId::new("g"), Predicate::All, &Overrides::default());
    let of_call = Overrides { seed: Some(8), ..Overrides::default() };
    for (session, overrides, wanted) in [
        (parent, Overrides::default(), "Some(7) None s"),
        (child, of_call, "Some(8) Some(1) c"),
        (grandchild, Overrides::default(), "Some(7) Some(2) g"),
    ] {
        let call = call("settings").with_overrides(overrides);
        assert_text(&setup.engine.call(&session.into(), call).await, Outcome::Ok, wanted);
    }
}
