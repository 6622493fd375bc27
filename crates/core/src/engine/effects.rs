//! Stage 3: the plan of the call, and its effects with each path resolved to the object that it names.

use std::path::PathBuf;

use super::{Call, Shared};
use crate::toolbox::Slot;
use crate::{
    EffectKinds, Effects, PathPattern, PlanContext, Planned, PlannedCall, Reach, Resolved,
    ToolError, context, normalize, quote,
};

/// Plans a call. The decision and the run both use this one plan.
pub(super) fn plan<'t>(
    engine: &Shared,
    slot: &'t Slot,
    call: &Call,
) -> Result<Planned<Box<dyn PlannedCall + 't>>, ToolError> {
    let policy = engine.policy_of(call);
    let scene = PlanContext {
        session: &call.session,
        host: &*engine.host,
        files: call.files.get(),
        history: &*engine.history,
        policy: &policy,
        overrides: &call.overrides,
    };
    slot.tool.plan(call.input.clone(), &scene)
}

/// Resolves the paths of the declared effects. Fails if an effect is of a kind that the tool did not declare.
pub(super) fn resolve(
    slot: &Slot,
    call: &Call,
    declared: Effects,
) -> Result<(Effects, Vec<(PathBuf, Resolved)>), ToolError> {
    if !slot.tool.kinds().contains(declared.kinds()) {
        return Err(ToolError::undeclared_effect(format!(
            "`{}` wants to {declared}, but says that its calls are only of the kinds {}",
            call.name,
            slot.tool.kinds().names().join(", ")
        )));
    }
    // A path that a command names may not resolve: then the command reports it itself, and no file behind it needs protection.
    let is_lenient = declared.kinds().contains(EffectKinds::EXEC);
    let mut resolved: Vec<(PathBuf, Resolved)> = Vec::new();
    let effects = declared.try_map_paths(|pattern: PathPattern, _| {
        let path = if let Some((_, known)) =
            resolved.iter().find(|(declared, _)| *declared == pattern.path)
        {
            known.path.clone()
        } else {
            let resolve = match pattern.reach {
                Reach::Entry => context::resolve_entry,
                Reach::Exact | Reach::Tree => context::resolve,
            };
            let found = match resolve(call.files.get(), &call.overrides, &pattern.path) {
                Ok(found) => found,
                Err(_) if is_lenient => {
                    let path = normalize(&call.files.get().workspace().join(&pattern.path));
                    return Ok(PathPattern { path, reach: pattern.reach });
                }
                Err(error) => return Err(error),
            };
            let path = found.path.clone();
            resolved.push((pattern.path, found));
            path
        };
        Ok::<_, crate::FileError>(PathPattern { path, reach: pattern.reach })
    })?;
    Ok((effects, resolved))
}

/// Fails if a path of a call no longer leads to the object that a person was asked about.
pub(super) fn check_paths_unchanged(
    call: &Call,
    resolved: &[(PathBuf, Resolved)],
) -> Result<(), ToolError> {
    let (files, overrides) = (call.files.get(), &call.overrides);
    for (declared, shown) in resolved {
        let leads_there = [context::resolve, context::resolve_entry].iter().any(|resolve| {
            resolve(files, overrides, declared).is_ok_and(|now| now.path == shown.path)
        });
        if !leads_there {
            return Err(ToolError::denied(format!(
                "not allowed: {} led to {} when a person was asked, and leads elsewhere now",
                quote::path(declared),
                quote::path(&shown.path)
            ))
            .hint("make the call again, to ask about where it leads now"));
        }
    }
    Ok(())
}
