//! Behind stage 6: a command that searches a tree without a sandbox, and may come upon what no tool may see.
//!
//! In a sandbox the view has nothing that may not be read, so there is nothing to ask about.

use super::{Call, Shared};
use crate::{Decision, Level, Verdict, mask, quote};

/// Makes a search ask, if there is no sandbox and something that it may come upon is hidden from tools.
pub(super) async fn weigh(engine: &Shared, call: &Call, verdict: Verdict) -> Verdict {
    let Some(effect) = mask::search_effect(verdict.effects()).cloned() else { return verdict };
    if has_view(engine)
        || verdict.decision() == Decision::Deny
        || !mask::any_searched_path_exists(call.files.get(), &verdict)
    {
        return verdict;
    }
    let why = match Box::pin(look(engine, call, &verdict)).await {
        Ok(hidden) if hidden.is_empty() => return verdict,
        Ok(hidden) => {
            let workspace = call.files.get().workspace();
            let first = hidden.first().map(|path| path.strip_prefix(workspace).unwrap_or(path));
            let name = first.map(|path| quote::path(path).into_owned()).unwrap_or_default();
            let more = match hidden.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "it may come upon {name}{more}, and without a sandbox nothing keeps that from it"
            )
        }
        Err(why) => {
            format!("{why}, and without a sandbox nothing keeps what no tool may see from it")
        }
    };
    verdict.asked_always(why, Some(&effect))
}

fn has_view(engine: &Shared) -> bool {
    let processes = engine.host.processes();
    processes.is_none_or(|processes| processes.confinement().level != Level::Off)
}

async fn look(
    engine: &Shared,
    call: &Call,
    verdict: &Verdict,
) -> Result<Vec<std::path::PathBuf>, String> {
    let (host, policy) = (engine.host.clone(), engine.policy_of(call));
    let (effects, cancel) = (verdict.effects().clone(), call.cancel.clone());
    let files = call.files.clone();
    let looking = tokio::task::spawn_blocking(move || {
        let withheld = policy.withheld(&effects, files.get(), host.clock().now());
        mask::find_hidden_paths(files.get(), &effects, withheld, &|| cancel.is_cancelled())
    });
    looking.await.unwrap_or_else(|error| Err(format!("it could not be looked through: {error}")))
}
