//! Settings that an embedder can read and change while calls run: the cache, the policy, the selection of tools.

use std::time::Duration;

use serde_json::json;
use windlass::engine::CacheStats;
use windlass::policy::Decision;
use windlass::tool::ToolSelection;
use windlass::{EffectKinds, Mode, Outcome, ToolCall, Windlass};

use super::folder;

#[tokio::test]
async fn the_cache_is_counted_cleared_and_switched_off() {
    let folder = folder(&["b.txt", "a.txt"]);
    let builder = Windlass::builder(folder.path()).cache(1, Duration::from_hours(1));
    let windlass = builder.build().expect("a workspace");
    let (engine, session) = (windlass.engine(), windlass.new_session());
    let read = async |name: &str| {
        let call = ToolCall::new("read", json!({"path": name}));
        assert_eq!(windlass.call(&session, call).await.outcome, Outcome::Ok);
        engine.cache_stats()
    };
    assert_eq!(engine.cache_stats().capacity, 1);
    // A file that has just changed is not cached, because its time may not show a change that follows at once.
    let mut misses = 0;
    while read("a.txt").await.hits == 0 {
        misses += 1;
    }
    let counts =
        |stats: CacheStats| (stats.hits, stats.misses - misses, stats.entries, stats.evictions);
    assert_eq!(counts(engine.cache_stats()), (1, 0, 1, 0));
    assert_eq!(counts(read("a.txt").await), (2, 0, 1, 0));
    let (stats, lookups) = (engine.cache_stats(), misses + 2);
    assert!(stats.hit_rate() > 0.0 && stats.hits + stats.misses == lookups, "{stats:?}");
    assert_eq!(counts(read("b.txt").await), (2, 1, 1, 1), "one made room for the other");
    engine.clear_cache();
    assert_eq!(engine.cache_stats().entries, 0);
    assert_eq!(counts(read("b.txt").await), (2, 2, 1, 1));
    engine.set_cache_enabled(false);
    let stats = read("b.txt").await;
    assert_eq!((stats.hits, stats.entries), (2, 0));
    engine.set_cache_enabled(true);
    assert_eq!(read("b.txt").await.entries, 1);
}

#[test]
fn the_policy_can_be_read() {
    let folder = folder(&[]);
    let builder = Windlass::builder(folder.path()).mode(Mode::Plan);
    let windlass = builder.deny("read x".parse().expect("a rule")).build().expect("a workspace");
    let policy = windlass.engine().policy();
    assert_eq!(policy.mode(), Mode::Plan);
    let rules: Vec<_> =
        policy.rules().iter().map(|ruling| (ruling.decision, ruling.rule.to_string())).collect();
    assert_eq!(rules, [(Decision::Deny, "read x".to_owned())]);
}

#[tokio::test]
async fn selection_of_tools_is_saved_and_loaded() {
    let folder = folder(&[]);
    let windlass = Windlass::builder(folder.path()).build().expect("a workspace");
    for (saved, is_offered) in [
        ("{}", [true, true]),
        (r#"{"disabled":["bash"]}"#, [true, false]),
        (r#"{"enabled":["bash"]}"#, [false, true]),
        (r#"{"enabled":[]}"#, [false, false]),
    ] {
        let selection: ToolSelection = serde_json::from_str(saved).expect("a selection");
        assert_eq!(serde_json::to_string(&selection).expect("text"), saved);
        let session = windlass.engine().new_session();
        let predicate = selection.predicate();
        let offered = [("read", EffectKinds::READ), ("bash", EffectKinds::EXEC)]
            .map(|(name, kinds)| predicate.admits(name, kinds, &session));
        assert_eq!(offered, is_offered, "{saved}");
    }
}
