//! Stage 1: which tool is meant, among those that this session may call.

use std::sync::Arc;

use super::{Call, Shared, toolsets};
use crate::toolbox::Slot;
use crate::{ToolError, quote};

/// Finds the tool that a call names. Loads toolsets only if one of them may have it.
pub(super) async fn find(engine: &Arc<Shared>, call: &Call) -> Result<Arc<Slot>, ToolError> {
    if let Some(person) = &call.for_person {
        return person.tool(call);
    }
    let find = || admitted(engine, call);
    let found = if let Some(slot) = find() {
        Some(slot)
    } else {
        toolsets::load_for(engine, &call.session, &call.name, find).await
    };
    match found {
        Some(slot) if let Some(owner) = slot.pinned_by => {
            toolsets::load_pinned(engine, &call.session, owner).await?;
            let loaded = admitted(engine, call).filter(|slot| slot.pinned_by.is_none());
            loaded.ok_or_else(|| unknown(engine, call))
        }
        Some(slot) => Ok(slot),
        None => Err(unknown(engine, call)),
    }
}

fn admitted(engine: &Shared, call: &Call) -> Option<Arc<Slot>> {
    let toolbox = engine.toolbox(&call.session);
    let slot = toolbox.slot(&call.name)?;
    call.session
        .predicate()
        .admits(&call.name, slot.tool.kinds(), &call.session)
        .then(|| slot.clone())
}

/// A tool that is there but not for this session is as unknown as one that is not there: the list is what binds.
fn unknown(engine: &Shared, call: &Call) -> ToolError {
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
