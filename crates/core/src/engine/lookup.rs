//! Stage 1: finds the tool of a call among those that its session may use.

use std::sync::Arc;

use super::{Call, Shared, toolsets};
use crate::toolbox::Slot;
use crate::{ToolError, quote};

/// Finds the tool that a call names, or fails with the nearest names. Loads toolsets only if one of them may have the tool.
pub(super) async fn find_tool(engine: &Arc<Shared>, call: &Call) -> Result<Arc<Slot>, ToolError> {
    if let Some(person) = &call.for_person {
        return person.tool(call);
    }
    let find = || admitted_tool(engine, call);
    let found = if let Some(slot) = find() {
        Some(slot)
    } else {
        toolsets::load_for(engine, &call.session, &call.name, find).await
    };
    match found {
        Some(slot) if let Some(owner) = slot.pinned_by => {
            toolsets::load_pinned(engine, &call.session, owner).await?;
            let loaded = admitted_tool(engine, call).filter(|slot| slot.pinned_by.is_none());
            loaded.ok_or_else(|| unknown_tool(engine, call))
        }
        Some(slot) => Ok(slot),
        None => Err(unknown_tool(engine, call)),
    }
}

/// Returns the tool of a call if it is registered and the session may use it.
fn admitted_tool(engine: &Shared, call: &Call) -> Option<Arc<Slot>> {
    let toolbox = engine.toolbox(&call.session);
    let slot = toolbox.slot(&call.name)?;
    call.session
        .predicate()
        .admits(&call.name, slot.tool.kinds(), &call.session)
        .then(|| slot.clone())
}

/// Makes the error for an unknown tool. A tool that the session may not use counts as unknown.
fn unknown_tool(engine: &Shared, call: &Call) -> ToolError {
    let toolbox = engine.toolbox(&call.session);
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
