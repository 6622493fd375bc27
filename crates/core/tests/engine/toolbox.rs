//! Collections of tools: fixed order, valid and unique names, and toolsets that load when they are needed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    BoxFuture, Event, EventKind, LoadedTools, Outcome, Session, SessionId, ToolError, ToolHandle,
    Toolbox, ToolboxError, Toolset,
};

use crate::support::{Setup, assert_text, call, says, toolbox};

fn names(tools: &Toolbox) -> Vec<&str> {
    tools.names().collect()
}

fn named(names: &[&str]) -> Toolbox {
    toolbox(names.iter().map(|name| MockTool::named(*name)))
}

#[test]
fn names_are_valid_for_every_provider() {
    let long = "a".repeat(64);
    for name in ["a", "read", "read_file", "b2", "mcp_github_search", &long] {
        assert_eq!(Toolbox::new().add(MockTool::named(name)), Ok(()), "{name}");
    }
    let longer = "a".repeat(65);
    for name in ["", "Read", "2b", "_a", "a-b", "a b", "a.b", "é", "a\n", &longer] {
        let refused = Toolbox::new().add(MockTool::named(name));
        assert_eq!(refused, Err(ToolboxError::BadName(name.to_owned())), "{name}");
    }
}

#[test]
fn names_are_unique() {
    let mut tools = named(&["read", "write"]);
    let refused = tools.add(MockTool::named("read"));
    assert_eq!(refused, Err(ToolboxError::Duplicate("read".into())));
    assert_eq!(refused.unwrap_err().to_string(), "there is a tool `read` already");
    let refused = tools.merge(named(&["grep", "write"]));
    assert_eq!(refused, Err(ToolboxError::Duplicate("write".into())));
    assert_eq!(names(&tools), ["read", "write"], "either all are added or none");
    assert_eq!(tools.merge(named(&["grep", "glob"])), Ok(()));
    assert_eq!(names(&tools), ["read", "write", "grep", "glob"]);
    assert_eq!(tools.merge(Toolbox::new()), Ok(()));
    assert_eq!(tools.len(), 4);
}

#[test]
fn removed_tool_leaves_the_order_of_the_others() {
    let mut tools = named(&["a", "b", "c", "d"]);
    assert_eq!(tools.remove("b"), Ok(()));
    assert_eq!(tools.remove("b"), Err(ToolboxError::Unknown("b".into())));
    assert_eq!(names(&tools), ["a", "c", "d"]);
    for name in ["a", "c", "d"] {
        assert_eq!(tools.get(name).expect(name).name(), name, "the index moved with it");
    }
    assert_eq!(tools.add(MockTool::named("b")), Ok(()));
    assert_eq!(names(&tools), ["a", "c", "d", "b"]);
}

#[test]
fn description_can_be_replaced() {
    let mut tools = named(&["a", "b"]);
    let copy = tools.clone();
    tools.describe("b", "Another text.").unwrap();
    assert_eq!(tools.spec("b").unwrap().description, "Another text.");
    assert_eq!(tools.spec("a").unwrap().description, "A tool for tests.");
    assert_eq!(copy.spec("b").unwrap().description, "A tool for tests.", "a copy is independent");
    assert_eq!(tools.describe("c", ""), Err(ToolboxError::Unknown("c".into())));
    assert_eq!(names(&tools), ["a", "b"]);
    let session = Session::new(SessionId::new("s"));
    let specs: Vec<_> = tools.specs(&session).iter().map(|spec| &*spec.description).collect();
    assert_eq!(specs, ["A tool for tests.", "Another text."]);
}

#[test]
fn selection_keeps_the_order_and_names_missing_tools() {
    let tools = named(&["a", "b", "c"]);
    for (wanted, selected, missing) in [
        (&["c", "a"][..], &["a", "c"][..], &[][..]),
        (&["b", "x", "b", "y"], &["b"], &["x", "y"]),
        (&[], &[], &[]),
    ] {
        let (found, unknown) = tools.select(wanted.iter().copied());
        assert_eq!((names(&found).as_slice(), unknown.as_slice()), (selected, missing));
        assert!(selected.iter().all(|name| found.get(name).is_some()));
    }
    assert!(named(&[]).is_empty());
}

/// A toolset that loads these tools or fails, and counts its loads.
struct CountingToolset {
    name: &'static str,
    tools: Result<Vec<ToolHandle>, &'static str>,
    loads: AtomicUsize,
}

impl CountingToolset {
    fn new(name: &'static str, tools: Result<Vec<ToolHandle>, &'static str>) -> Arc<Self> {
        Arc::new(Self { name, tools, loads: AtomicUsize::new(0) })
    }

    fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }
}

impl Toolset for CountingToolset {
    fn name(&self) -> &str {
        self.name
    }

    fn load<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Result<LoadedTools, ToolError>> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        let tools = self.tools.clone().map_err(ToolError::host_failed);
        Box::pin(async {
            tokio::task::yield_now().await;
            tools.map(LoadedTools::from)
        })
    }
}

async fn warnings(setup: &mut Setup) -> Vec<String> {
    let warning = |event: Event| match event.kind {
        EventKind::Warning { message } => Some(message.to_string()),
        _ => None,
    };
    setup.told().await.into_iter().filter_map(warning).collect()
}

#[tokio::test]
async fn toolset_is_loaded_once_when_it_is_first_needed() {
    let remote = CountingToolset::new("github", Ok(vec![says("search", "found").into()]));
    let mut setup = Setup::with([says("read", "local")], |builder| builder.toolset(remote.clone()));
    assert_text(&setup.call("read", json!({})).await, Outcome::Ok, "local");
    assert_eq!(remote.loads(), 0, "no call needed it");
    let results = setup.engine.turn(&setup.session, vec![call("search"); 5]).await;
    assert!(results.iter().all(|result| result.output.to_text() == "found"));
    assert_eq!(setup.call("nope", json!({})).await.code, Some("unknown_tool"));
    let listed = setup.engine.tools(&setup.session).await;
    assert_eq!(listed.iter().map(|spec| &*spec.name).collect::<Vec<_>>(), ["read", "search"]);
    assert_eq!(remote.loads(), 1);
    assert!(warnings(&mut setup).await.is_empty());
}

#[tokio::test]
async fn failing_toolset_is_a_warning_and_the_others_load() {
    let broken = CountingToolset::new("broken", Err("the server did not start"));
    let fine = CountingToolset::new("fine", Ok(vec![says("search", "found").into()]));
    let mut setup = Setup::with([MockTool::named("read")], |builder| {
        builder.toolset(broken.clone()).toolset(fine)
    });
    assert_text(&setup.call("search", json!({})).await, Outcome::Ok, "found");
    assert_text(&setup.call("search", json!({})).await, Outcome::Ok, "found");
    assert_eq!(setup.call("gone", json!({})).await.code, Some("unknown_tool"));
    assert_eq!(
        warnings(&mut setup).await,
        ["the tools of broken are missing: the server did not start"],
        "once"
    );
    assert_eq!(broken.loads(), 1);
}

#[tokio::test]
async fn toolset_cannot_replace_an_existing_tool() {
    let sly = CountingToolset::new(
        "sly",
        Ok(vec![
            says("read", "mine now").into(),
            says("Bad Name", "").into(),
            says("more", "more").into(),
        ]),
    );
    let later = CountingToolset::new("later", Ok(vec![says("more", "no, mine").into()]));
    let mut setup =
        Setup::with([says("read", "local")], |builder| builder.toolset(sly).toolset(later));
    assert_text(&setup.call("more", json!({})).await, Outcome::Ok, "more");
    assert_text(&setup.call("read", json!({})).await, Outcome::Ok, "local");
    assert_eq!(
        warnings(&mut setup).await,
        [
            "a tool of sly was left out: `Bad Name` cannot be the name of a tool: it must be [a-z][a-z0-9_]*, at most 64 characters",
            "a tool of sly was left out: there is a tool `read` already",
            "a tool of later was left out: there is a tool `more` already",
        ]
    );
}

/// A toolset of which one tool cannot be loaded.
struct PartialToolset;

impl Toolset for PartialToolset {
    fn name(&self) -> &'static str {
        "half"
    }

    fn load<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Result<LoadedTools, ToolError>> {
        let tools = vec![says("one", "1").into()];
        Box::pin(async { Ok(LoadedTools { tools, warnings: vec!["two is not there".into()] }) })
    }
}

#[tokio::test]
async fn left_out_tool_is_reported_to_listeners_and_to_the_warning_callback() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let mut setup = Setup::with([says("read", "local")], |builder| {
        let heard = move |message: &str| heard.lock().unwrap().push(message.to_owned());
        builder.toolset(Arc::new(PartialToolset)).on_warning(heard)
    });
    assert_text(&setup.call("one", json!({})).await, Outcome::Ok, "1");
    assert_eq!(warnings(&mut setup).await, ["two is not there"]);
    assert_eq!(*told.lock().unwrap(), ["two is not there"]);
}

/// A toolset whose server never answers.
struct StuckToolset;

impl Toolset for StuckToolset {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn load<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Result<LoadedTools, ToolError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_waits_for_a_toolset_can_be_stopped() {
    let setup =
        Setup::with([says("read", "local")], |builder| builder.toolset(Arc::new(StuckToolset)));
    let running = setup.spawn(call("remote"));
    tokio::task::yield_now().await;
    assert_text(&setup.call("read", json!({})).await, Outcome::Ok, "local");
    setup.session.cancel();
    assert_eq!(running.await.unwrap().outcome, Outcome::Cancelled);
}
