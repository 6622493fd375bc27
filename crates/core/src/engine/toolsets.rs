//! Loading of toolsets: in parallel, each once, within its time limit.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use futures_util::future::{Shared as SharedFuture, join_all};

use super::run::panic_message;
use super::{Engine, Shared};
use crate::recorder::EventSource;
use crate::registry::{Rank, Registry};
use crate::sync::Lock;
use crate::{
    BoxFuture, EventKind, LoadedTools, Session, ToolError, ToolHandle, ToolSpec, Toolset, quote,
};

/// A running or finished load of a toolset, shared by all calls that wait for it. The error says why the tools are missing.
type PendingLoad = SharedFuture<BoxFuture<'static, Result<(), Arc<str>>>>;

/// A toolset that is loaded when it is needed, and its loads so far.
pub(super) struct LazyToolset {
    toolset: Arc<dyn Toolset>,
    rank: Rank,
    /// One load for all sessions, or one for each session that needed the tools.
    loads: Lock<Vec<(Weak<Session>, PendingLoad)>>,
}

impl Engine {
    /// Returns the names of all registered tools, also those that no session is offered. Toolsets that are not loaded are not in it.
    pub fn tool_names(&self) -> Vec<String> {
        self.0.registry.shared().names().map(str::to_owned).collect()
    }

    /// Returns the definitions that a model is offered in this session. Loads the toolsets that have no pinned manifest.
    pub async fn tools(&self, session: &Arc<Session>) -> Vec<ToolSpec> {
        load_unpinned(&self.0, session).await;
        self.0.toolbox(session).specs(session).into_iter().cloned().collect()
    }

    /// Replaces all tools of an owner for all sessions, and returns the generation of the tools after it. The tools that the engine was
    /// built with, your own among them, belong to the owner `built-in`. Running calls keep the tool that they began with. A tool whose name
    /// another owner has is left out with a warning, unless [`EngineBuilder::merge`](crate::EngineBuilder::merge) lets this owner replace
    /// it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use windlass_core::{Engine, EventKind, testing::{EmptyHost, MockTool}};
    /// let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
    /// let mut events = engine.subscribe();
    /// engine.replace_tools("skills", vec![MockTool::named("review").into()]);
    /// engine.replace_tools("skills", vec![MockTool::named("deploy").into()]);
    /// assert_eq!(engine.tools_generation(), 2);
    /// let Some(EventKind::Tools(first)) = events.try_next().map(|event| event.kind) else { panic!("it tells") };
    /// assert_eq!((&*first.owner, &*first.added), ("skills", &["review".to_owned()][..]));
    /// ```
    pub fn replace_tools(&self, owner: &str, tools: Vec<ToolHandle>) -> u64 {
        let rank = self.0.registry.rank_of(owner);
        replace_tools_of(&self.0, rank, None, tools);
        self.tools_generation()
    }

    /// Returns the number of changes of the tools on offer so far.
    pub fn tools_generation(&self) -> u64 {
        self.0.registry.generation()
    }

    /// Returns the owner of the tool that a session gets under this name.
    pub fn tool_owner(&self, session: &Session, tool: &str) -> Option<Arc<str>> {
        self.0.registry.owner_of(session, tool)
    }

    /// Loads a toolset, also if it was loaded before or has failed. The error says why it has no tools.
    pub async fn load_toolset(&self, session: &Arc<Session>, name: &str) -> Result<(), ToolError> {
        load_again(&self.0, session, name).await
    }
}

/// Registers toolsets as owners, in their order, with their pinned tools. Returns the toolsets and warnings.
pub(super) fn register(
    registry: &Registry,
    toolsets: Vec<Arc<dyn Toolset>>,
) -> (Vec<Arc<LazyToolset>>, Vec<String>) {
    let mut warnings = Vec::new();
    let register = |toolset: Arc<dyn Toolset>| {
        let (rank, more) = registry.add_owner(toolset.name(), toolset.manifest().as_deref());
        warnings.extend(more);
        Arc::new(LazyToolset { toolset, rank, loads: Lock::default() })
    };
    (toolsets.into_iter().map(register).collect(), warnings)
}

/// Loads the toolsets without a pinned manifest, since their tools cannot be listed otherwise.
pub(super) async fn load_unpinned(engine: &Arc<Shared>, session: &Arc<Session>) {
    let unpinned = engine.toolsets.iter().filter(|lazy| lazy.toolset.manifest().is_none());
    join_all(unpinned.map(|lazy| lazy.load(engine, session))).await;
}

/// Loads all toolsets that may have a tool at the same time, and stops waiting as soon as `find` finds it. Waits in the order of the
/// toolsets, so that the same one wins whichever is faster.
pub(super) async fn load_for<T>(
    engine: &Arc<Shared>,
    session: &Arc<Session>,
    tool: &str,
    find: impl Fn() -> Option<T>,
) -> Option<T> {
    let may_have = |lazy: &&Arc<LazyToolset>| lazy.toolset.may_have(tool);
    let loads: Vec<PendingLoad> =
        engine.toolsets.iter().filter(may_have).map(|lazy| lazy.load(engine, session)).collect();
    for load in loads {
        // A failure was already reported as a warning.
        drop(load.await);
        if let Some(found) = find() {
            return Some(found);
        }
    }
    None
}

/// Loads the owner of a pinned tool. A failed load is tried again, because the call names the tool.
pub(super) async fn load_pinned(
    engine: &Arc<Shared>,
    session: &Arc<Session>,
    rank: Rank,
) -> Result<(), ToolError> {
    let Some(lazy) = engine.toolsets.iter().find(|lazy| lazy.rank == rank) else { return Ok(()) };
    lazy.forget_failure(session);
    lazy.load(engine, session).await.map_err(|why| tools_missing(lazy, &why))
}

/// Loads a toolset by name, also if it is loaded.
pub(super) async fn load_again(
    engine: &Arc<Shared>,
    session: &Arc<Session>,
    name: &str,
) -> Result<(), ToolError> {
    let Some(lazy) = engine.toolsets.iter().find(|lazy| lazy.toolset.name() == name) else {
        let name = quote::visible(name);
        return Err(ToolError::invalid_args(format!("there is no toolset `{name}`")));
    };
    lazy.forget(session, |_| true);
    lazy.load(engine, session).await.map_err(|why| tools_missing(lazy, &why))
}

/// Makes the error for a toolset that did not load.
fn tools_missing(lazy: &LazyToolset, why: &str) -> ToolError {
    ToolError::host_failed(format!("the tools of {} are missing: {why}", lazy.toolset.name()))
}

/// Replaces the tools of an owner, and reports warnings and the change to listeners.
pub(super) fn replace_tools_of(
    engine: &Shared,
    rank: Rank,
    session: Option<&Arc<Session>>,
    tools: Vec<ToolHandle>,
) {
    let replacement = engine.registry.replace(rank, session, tools);
    if replacement.has_withdrawn {
        // The cache has answers of removed tools.
        engine.cache.begin_epoch();
    }
    for warning in replacement.warnings {
        engine.warn(warning);
    }
    if let Some(change) = replacement.change {
        let source = EventSource { session: change.session.clone(), ..EventSource::engine() };
        engine.recorder.publish(&source, || EventKind::Tools(Arc::new(change)));
    }
}

impl LazyToolset {
    /// Starts a load unless there is one. The load goes on when the call that needs it is stopped.
    fn load(self: &Arc<Self>, engine: &Arc<Shared>, session: &Arc<Session>) -> PendingLoad {
        let mut loads = self.loads.lock();
        if let Some((_, loading)) = loads.iter().find(|(other, _)| self.is_for(other, session)) {
            return loading.clone();
        }
        let (lazy, engine, needed_by) = (self.clone(), engine.clone(), session.clone());
        let task = tokio::spawn(async move { lazy.load_now(&engine, &needed_by).await });
        let ended = task.map(|ended| ended.unwrap_or_else(|panic| Err(panic.to_string().into())));
        let loading = ended.boxed().shared();
        loads.retain(|(other, _)| !self.toolset.is_per_session() || other.strong_count() > 0);
        loads.push((Arc::downgrade(session), loading.clone()));
        loading
    }

    /// Returns whether a load that was started for the session `other` serves this session.
    fn is_for(&self, other: &Weak<Session>, session: &Arc<Session>) -> bool {
        !self.toolset.is_per_session() || std::ptr::eq(other.as_ptr(), Arc::as_ptr(session))
    }

    /// Forgets the load of this session if it has failed, so that the next call loads again.
    fn forget_failure(&self, session: &Arc<Session>) {
        self.forget(session, |loading| matches!(loading.peek(), Some(Err(_))));
    }

    /// Forgets the loads of this session for which `is_stale` is true.
    fn forget(&self, session: &Arc<Session>, is_stale: impl Fn(&PendingLoad) -> bool) {
        self.loads.lock().retain(|(other, load)| !(self.is_for(other, session) && is_stale(load)));
    }

    /// Loads the tools within the time limit and registers them. A failure or panic becomes a warning and the error.
    async fn load_now(&self, engine: &Shared, session: &Arc<Session>) -> Result<(), Arc<str>> {
        let limit = self.toolset.timeout();
        let loading = async { self.toolset.load(session).await };
        let loading = AssertUnwindSafe(loading).catch_unwind();
        let loaded = match tokio::time::timeout(limit, loading).await {
            Ok(Ok(loaded)) => loaded.map_err(|error| error.to_string()),
            Ok(Err(panic)) => Err(format!("loading panicked: {}", panic_message(&*panic))),
            Err(_) => Err(format!("they were not loaded within {} s", limit.as_secs_f64())),
        };
        let LoadedTools { tools, warnings } = loaded.map_err(|why| {
            engine.warn(format!("the tools of {} are missing: {why}", self.toolset.name()));
            Arc::from(why)
        })?;
        for warning in warnings {
            engine.warn(warning);
        }
        let tools = self.accepted_tools(engine, tools);
        let of_session = self.toolset.is_per_session().then_some(session);
        replace_tools_of(engine, self.rank, of_session, tools);
        Ok(())
    }

    /// Returns the tools whose definitions a person has accepted, or all if the toolset is not pinned. Warns about the others.
    fn accepted_tools(&self, engine: &Shared, mut tools: Vec<ToolHandle>) -> Vec<ToolHandle> {
        let Some(manifest) = self.toolset.manifest() else { return tools };
        tools.retain(|tool| {
            let spec = tool.spec();
            let pinned: Option<&ToolSpec> = manifest.iter().find(|pinned| pinned.name == spec.name);
            let why = match pinned {
                Some(pinned) if *pinned == spec => return true,
                Some(_) => "its definition changed since it was accepted",
                None => "it is new, and no person has accepted it",
            };
            let name = quote::visible(&spec.name);
            let owner = self.toolset.name();
            engine.warn(format!("the tool `{name}` of {owner} was left out: {why}"));
            false
        });
        tools
    }
}
