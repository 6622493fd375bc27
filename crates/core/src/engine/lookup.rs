//! Stage 1: which tool is meant, among those that this session may call.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::{Call, Shared};
use crate::toolbox::Slot;
use crate::{Loaded, ToolError, Toolset, quote};

/// A toolset that is fetched once, when it is first needed.
pub(super) struct Lazy {
    toolset: Arc<dyn Toolset>,
    loaded: OnceCell<()>,
}

impl Lazy {
    pub(super) fn new(toolset: Arc<dyn Toolset>) -> Self {
        Self { toolset, loaded: OnceCell::new() }
    }
}

pub(super) async fn find(engine: &Shared, call: &Call) -> Result<Arc<Slot>, ToolError> {
    if let Some(slot) = admitted(engine, call) {
        return Ok(slot);
    }
    load_all(engine).await;
    admitted(engine, call).ok_or_else(|| unknown(engine, call))
}

/// Fetches every toolset that was not fetched yet. One that fails is a warning, and stays without tools.
pub(super) async fn load_all(engine: &Shared) {
    for lazy in &engine.toolsets {
        lazy.loaded.get_or_init(|| load(engine, &*lazy.toolset)).await;
    }
}

async fn load(engine: &Shared, toolset: &dyn Toolset) {
    let warn = |message| engine.warn(message);
    let Loaded { tools, warnings } = match toolset.load().await {
        Ok(loaded) => loaded,
        Err(error) => return warn(format!("the tools of {} are missing: {error}", toolset.name())),
    };
    warnings.into_iter().for_each(warn);
    let mut toolbox = engine.toolbox.lock();
    let mut with_more = (**toolbox).clone();
    for tool in tools {
        if let Err(error) = with_more.add(tool) {
            warn(format!("a tool of {} was left out: {error}", toolset.name()));
        }
    }
    *toolbox = Arc::new(with_more);
}

fn admitted(engine: &Shared, call: &Call) -> Option<Arc<Slot>> {
    let toolbox = engine.toolbox();
    let slot = toolbox.slot(&call.name)?;
    call.session
        .predicate()
        .admits(&call.name, slot.tool.kinds(), &call.session)
        .then(|| slot.clone())
}

/// A tool that is there but not for this session is as unknown as one that is not there: the list is what binds.
fn unknown(engine: &Shared, call: &Call) -> ToolError {
    let toolbox = engine.toolbox();
    let name: String = call.name.chars().take(80).collect();
    let error = ToolError::unknown_tool(format!("there is no tool `{}`", quote::visible(&name)));
    if let Some(near) = toolbox.nearest(&call.name, &call.session) {
        return error.hint(format!("did you mean `{near}`?"));
    }
    let names: Vec<&str> = toolbox.admitted(&call.session).map(|slot| slot.tool.name()).collect();
    match names.as_slice() {
        [] => error.hint("no tools are offered here"),
        names => error.hint(format!("the tools are: {}", names.join(", "))),
    }
}
