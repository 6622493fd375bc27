//! Owners of tools: replacement while calls run, parallel loading, pinned definitions, tools of one session.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Barrier, Notify};
use windlass_core::testing::MockTool;
use windlass_core::{
    BoxFuture, EffectKinds, Effects, Event, EventKind, LoadedTools, NameClash, Outcome, Output,
    Principal, Session, SessionId, ToolError, ToolHandle, ToolSpec, ToolsChanged, Toolset,
};

use crate::support::{Setup, assert_text, call, says};

/// Loads the tools for a session.
type Load = dyn Fn(&Session) -> BoxFuture<'static, Result<LoadedTools, ToolError>> + Send + Sync;

/// A toolset with the behaviour that a test needs, and a count of its loads.
struct TestToolset {
    name: &'static str,
    load: Box<Load>,
    manifest: Option<Arc<[ToolSpec]>>,
    prefix: &'static str,
    is_per_session: bool,
    loads: AtomicUsize,
}

impl TestToolset {
    fn new<Fut>(name: &'static str, load: impl Fn(&Session) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<LoadedTools, ToolError>> + Send + 'static,
    {
        Self {
            name,
            load: Box::new(move |session| Box::pin(load(session))),
            manifest: None,
            prefix: "",
            is_per_session: false,
            loads: AtomicUsize::new(0),
        }
    }

    /// Makes a toolset whose tools load at once.
    fn of(name: &'static str, tools: impl Fn() -> Vec<ToolHandle> + Send + Sync + 'static) -> Self {
        Self::new(name, move |_| std::future::ready(Ok(LoadedTools::from(tools()))))
    }

    fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }
}

impl Toolset for TestToolset {
    fn name(&self) -> &str {
        self.name
    }

    fn load<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, Result<LoadedTools, ToolError>> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        (self.load)(session)
    }

    fn is_per_session(&self) -> bool {
        self.is_per_session
    }

    fn manifest(&self) -> Option<Arc<[ToolSpec]>> {
        self.manifest.clone()
    }

    fn may_have(&self, tool: &str) -> bool {
        tool.starts_with(self.prefix)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// Returns the definition of a mock tool.
fn spec(name: &str) -> ToolSpec {
    ToolHandle::from(MockTool::named(name)).spec()
}

/// Makes an engine with these toolsets and no other tools.
fn with_toolsets(toolsets: Vec<Arc<TestToolset>>) -> Setup {
    Setup::with(Vec::<MockTool>::new(), |builder| {
        toolsets.into_iter().fold(builder, |builder, toolset| builder.toolset(toolset))
    })
}

/// Returns the changes of tools that were published since the last call.
async fn changes(setup: &mut Setup) -> Vec<ToolsChanged> {
    let change = |event: Event| match event.kind {
        EventKind::Tools(change) => Some((*change).clone()),
        _ => None,
    };
    setup.told().await.into_iter().filter_map(change).collect()
}

/// Returns the warnings that were published since the last call.
async fn warnings(setup: &mut Setup) -> Vec<String> {
    let warning = |event: Event| match event.kind {
        EventKind::Warning { message } => Some(message.to_string()),
        _ => None,
    };
    setup.told().await.into_iter().filter_map(warning).collect()
}

/// Returns the names of the tools that the session is offered.
async fn listed(setup: &Setup) -> Vec<String> {
    let specs = setup.engine.tools(&setup.session).await;
    specs.into_iter().map(|spec| spec.name.into_owned()).collect()
}

#[tokio::test]
async fn owner_replaces_its_tools_and_the_change_is_published() {
    let mut setup = Setup::with([says("read", "local")], |builder| builder);
    assert_eq!(setup.engine.replace_tools("skills", vec![says("review", "1").into()]), 1);
    let tools = vec![says("review", "2").into(), says("deploy", "3").into()];
    assert_eq!(setup.engine.replace_tools("skills", tools), 2);
    assert_text(&setup.call("review", json!({})).await, Outcome::Ok, "2");
    assert_eq!(setup.engine.replace_tools("skills", Vec::new()), 3);
    assert_eq!(setup.engine.replace_tools("skills", Vec::new()), 3, "nothing changed");
    assert_eq!(setup.call("deploy", json!({})).await.code, Some("unknown_tool"));
    assert_eq!(listed(&setup).await, ["read"]);
    let told: Vec<_> = changes(&mut setup)
        .await
        .into_iter()
        .map(|change| (change.generation, change.added, change.removed))
        .collect();
    let name = str::to_owned;
    assert_eq!(
        told,
        [
            (1, vec![name("review")], vec![]),
            (2, vec![name("deploy")], vec![]),
            (3, vec![], vec![name("review"), name("deploy")]),
        ]
    );
}

#[tokio::test]
async fn changed_definition_is_a_change() {
    let mut setup = with_toolsets(Vec::new());
    setup.engine.replace_tools("agents", vec![MockTool::named("task").into()]);
    let other = json!({"type": "object", "properties": {"agent": {"enum": ["explore"]}}});
    setup.engine.replace_tools("agents", vec![MockTool::named("task").with_schema(other).into()]);
    let last = changes(&mut setup).await.pop().expect("a change");
    assert_eq!((last.added.len(), last.removed.len()), (0, 0));
    assert_eq!(last.changed, ["task"]);
    assert_eq!(setup.engine.tool_owner(&setup.session, "task").as_deref(), Some("agents"));
}

#[tokio::test]
async fn running_call_keeps_the_tool_that_it_began_with() {
    let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, awaited) = (began.clone(), go_on.clone());
    let old = MockTool::named("slow").answering(move |_, _| {
        let (told, awaited) = (told.clone(), awaited.clone());
        async move {
            told.notify_one();
            awaited.notified().await;
            Ok(Output::text("old"))
        }
    });
    let setup = with_toolsets(Vec::new());
    setup.engine.replace_tools("plugin", vec![old.into()]);
    let running = setup.spawn(call("slow"));
    began.notified().await;
    setup.engine.replace_tools("plugin", vec![says("slow", "new").into()]);
    assert_text(&setup.call("slow", json!({})).await, Outcome::Ok, "new");
    go_on.notify_one();
    assert_text(&running.await.unwrap(), Outcome::Ok, "old");
}

#[tokio::test]
async fn cached_answer_is_dropped_with_its_tool() {
    let reads = |text: &'static str| {
        says("look", text).with_effects(EffectKinds::READ, |_| Effects::read("a.md"))
    };
    let setup = with_toolsets(Vec::new());
    setup.engine.replace_tools("plugin", vec![reads("old").into()]);
    assert_text(&setup.call("look", json!({})).await, Outcome::Ok, "old");
    setup.engine.replace_tools("plugin", vec![reads("new").into()]);
    assert_text(&setup.call("look", json!({})).await, Outcome::Ok, "new");
}

#[tokio::test]
async fn owner_replaces_the_tool_of_another_only_if_configured() {
    for (merge, answer, warning) in [
        (
            NameClash::KeepFirst,
            "local",
            "a tool of mine was left out: there is a tool `read` already",
        ),
        (NameClash::Replace, "mine", "`read` of mine replaces a tool of the same name"),
    ] {
        let tools = [says("read", "local"), says("write", "local")];
        let mut setup = Setup::with(tools, |builder| builder.merge("mine", merge));
        setup.engine.replace_tools("mine", vec![says("read", "mine").into()]);
        assert_text(&setup.call("read", json!({})).await, Outcome::Ok, answer);
        assert_eq!(listed(&setup).await, ["read", "write"], "the order stays");
        setup.engine.replace_tools("other", vec![says("more", "more").into()]);
        assert_eq!(warnings(&mut setup).await, [warning], "once");
        setup.engine.replace_tools("mine", Vec::new());
        assert_text(&setup.call("read", json!({})).await, Outcome::Ok, "local");
    }
}

#[tokio::test]
async fn toolsets_load_in_parallel_and_are_listed_in_order() {
    let both = Arc::new(Barrier::new(2));
    let meeting = |name: &'static str, tool: &'static str| {
        let both = both.clone();
        Arc::new(TestToolset::new(name, move |_| {
            let both = both.clone();
            async move {
                both.wait().await;
                Ok(LoadedTools::from(vec![says(tool, tool).into()]))
            }
        }))
    };
    let (first, second) = (meeting("first", "zeta"), meeting("second", "alpha"));
    let setup = with_toolsets(vec![first, second]);
    assert_eq!(listed(&setup).await, ["zeta", "alpha"]);
}

#[tokio::test(start_paused = true)]
async fn hanging_toolset_times_out_and_can_be_loaded_again() {
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    let hanging = TestToolset::new("hanging", move |_| {
        let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if is_first {
                std::future::pending::<()>().await;
            }
            Ok(LoadedTools::from(vec![says("late", "here").into()]))
        }
    });
    let mut setup = with_toolsets(vec![Arc::new(hanging)]);
    assert_eq!(setup.call("late", json!({})).await.code, Some("unknown_tool"));
    assert_eq!(setup.call("late", json!({})).await.code, Some("unknown_tool"), "not tried again");
    assert_eq!(
        warnings(&mut setup).await,
        ["the tools of hanging are missing: they were not loaded within 5 s"]
    );
    setup.engine.load_toolset(&setup.session, "hanging").await.expect("the second try");
    assert_text(&setup.call("late", json!({})).await, Outcome::Ok, "here");
    let unknown = setup.engine.load_toolset(&setup.session, "nope").await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no toolset `nope`");
}

#[tokio::test]
async fn panicking_toolset_is_a_failure() {
    let broken = TestToolset::new("broken", |_| async { panic!("a bug in the plugin") });
    let mut setup = with_toolsets(vec![Arc::new(broken)]);
    assert_eq!(setup.call("late", json!({})).await.code, Some("unknown_tool"));
    let told = warnings(&mut setup).await;
    assert_eq!(told, ["the tools of broken are missing: loading panicked: a bug in the plugin"]);
    let error = setup.engine.load_toolset(&setup.session, "broken").await.unwrap_err();
    assert!(error.to_string().contains("a bug in the plugin"), "{error}");
}

#[tokio::test]
async fn call_by_name_loads_only_toolsets_that_may_have_it() {
    let of = |name, prefix, tool: &'static str| {
        let tools = move || vec![says(tool, tool).into()];
        Arc::new(TestToolset { prefix, ..TestToolset::of(name, tools) })
    };
    let github = of("github", "github__", "github__search");
    let jira = of("jira", "jira__", "jira__search");
    let setup = with_toolsets(vec![github.clone(), jira.clone()]);
    assert_text(&setup.call("jira__search", json!({})).await, Outcome::Ok, "jira__search");
    assert_eq!((github.loads(), jira.loads()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn call_does_not_wait_for_toolsets_behind_the_one_with_its_tool() {
    let fast = TestToolset::of("fast", || vec![says("search", "found").into()]);
    let stuck = TestToolset::new("stuck", |_| std::future::pending());
    let setup = with_toolsets(vec![Arc::new(fast), Arc::new(stuck)]);
    let before = tokio::time::Instant::now();
    assert_text(&setup.call("search", json!({})).await, Outcome::Ok, "found");
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn pinned_toolset_is_listed_without_loading_and_loaded_by_a_call() {
    let manifest = Some(Arc::from([spec("search")]));
    let pinned = TestToolset::of("pinned", || vec![says("search", "found").into()]);
    let pinned = Arc::new(TestToolset { manifest, ..pinned });
    let mut setup = Setup::with([says("read", "local")], |builder| builder.toolset(pinned.clone()));
    assert_eq!(listed(&setup).await, ["read", "search"]);
    assert_eq!(pinned.loads(), 0);
    assert_text(&setup.call("search", json!({})).await, Outcome::Ok, "found");
    assert_text(&setup.call("search", json!({})).await, Outcome::Ok, "found");
    assert_eq!((pinned.loads(), listed(&setup).await.len()), (1, 2));
    assert_eq!(changes(&mut setup).await, [], "the pinned list was already complete");
}

#[tokio::test]
async fn tool_whose_definition_was_not_accepted_is_left_out() {
    let manifest = ["same", "other", "gone"].map(spec);
    let tools = || {
        let other = MockTool::named("other").with_schema(json!({"type": "object"}));
        vec![says("same", "same").into(), other.into(), says("new", "new").into()]
    };
    let pinned =
        TestToolset { manifest: Some(Arc::from(manifest)), ..TestToolset::of("pinned", tools) };
    let mut setup = with_toolsets(vec![Arc::new(pinned)]);
    assert_text(&setup.call("same", json!({})).await, Outcome::Ok, "same");
    for name in ["other", "gone", "new"] {
        assert_eq!(setup.call(name, json!({})).await.code, Some("unknown_tool"), "{name}");
    }
    assert_eq!(
        warnings(&mut setup).await,
        [
            "the tool `other` of pinned was left out: its definition changed since it was accepted",
            "the tool `new` of pinned was left out: it is new, and no person has accepted it",
        ]
    );
}

#[tokio::test]
async fn failed_pinned_toolset_is_loaded_again_by_the_next_call() {
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    let flaky = TestToolset::new("flaky", move |_| {
        let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
        std::future::ready(if is_first {
            Err(ToolError::host_failed("the server did not start"))
        } else {
            Ok(LoadedTools::from(vec![says("search", "found").into()]))
        })
    });
    let manifest = Some(Arc::from([spec("search")]));
    let setup = with_toolsets(vec![Arc::new(TestToolset { manifest, ..flaky })]);
    let failed = setup.call("search", json!({})).await;
    assert_eq!(failed.code, Some("host_failed"));
    let text = failed.output.to_text();
    assert!(text.contains("the tools of flaky are missing: the server did not start"), "{text}");
    assert_text(&setup.call("search", json!({})).await, Outcome::Ok, "found");
}

#[tokio::test]
async fn per_session_toolset_gets_its_session() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let personal = TestToolset::new("personal", move |session| {
        let name = session.principal().to_string().replace("agent ", "");
        noted.lock().unwrap().push(name.clone());
        std::future::ready(Ok(LoadedTools::from(vec![says(&format!("hello_{name}"), "hi").into()])))
    });
    let personal = TestToolset { is_per_session: true, ..personal };
    let mut setup =
        Setup::with([says("read", "local")], |builder| builder.toolset(Arc::new(personal)));
    let session = |name: &str| {
        let session = Session::new(SessionId::new(name));
        Arc::new(session.for_principal(Principal::Agent { name: name.to_owned() }))
    };
    let (ada, bob) = (session("ada"), session("bob"));
    for (session, own, other) in
        [(&ada, "hello_ada", "hello_bob"), (&bob, "hello_bob", "hello_ada")]
    {
        let names: Vec<_> = setup.engine.tools(session).await;
        assert_eq!(names.iter().map(|spec| &*spec.name).collect::<Vec<_>>(), ["read", own]);
        assert_text(&setup.engine.call(session, call(own)).await, Outcome::Ok, "hi");
        assert_eq!(setup.engine.call(session, call(other)).await.code, Some("unknown_tool"));
        assert_eq!(setup.engine.tool_owner(session, own).as_deref(), Some("personal"));
    }
    assert_eq!(*seen.lock().unwrap(), ["ada", "bob"], "once for each");
    let told = changes(&mut setup).await;
    assert_eq!(told[1].session.as_ref(), Some(bob.id()));
}
