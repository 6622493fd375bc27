//! Behind stage 6: commands that search a tree without a sandbox and could read files that are hidden from tools.
//!
//! In a sandbox, hidden files are masked, so there is nothing to ask about.

use super::{Call, Shared};
use crate::{Decision, SandboxLevel, Verdict, mask, quote};

/// Makes the verdict ask if the call searches a tree without a sandbox and hidden files are within its reach.
pub(super) async fn ask_if_hidden_files_in_reach(
    engine: &Shared,
    call: &Call,
    verdict: Verdict,
) -> Verdict {
    let Some(effect) = mask::search_effect(verdict.effects()).cloned() else { return verdict };
    if has_sandbox(engine)
        || verdict.decision() == Decision::Deny
        || !mask::any_searched_path_exists(call.files.get(), &verdict)
    {
        return verdict;
    }
    let why = match Box::pin(find_hidden_in_reach(engine, call, &verdict)).await {
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

/// Returns whether commands run in a sandbox that hides files from them. True if the machine runs no commands at all.
fn has_sandbox(engine: &Shared) -> bool {
    let processes = engine.host.processes();
    processes.is_none_or(|processes| processes.confinement().level != SandboxLevel::Off)
}

/// Finds the hidden files that the search could read. The error says why they could not be listed.
async fn find_hidden_in_reach(
    engine: &Shared,
    call: &Call,
    verdict: &Verdict,
) -> Result<Vec<std::path::PathBuf>, String> {
    let (host, policy) = (engine.host.clone(), engine.policy_of(call));
    let (effects, cancel) = (verdict.effects().clone(), call.cancel.clone());
    let files = call.files.clone();
    let finding = tokio::task::spawn_blocking(move || {
        let withheld = policy.withheld(&effects, files.get(), host.clock().now());
        mask::find_hidden_paths(files.get(), &effects, withheld, &|| cancel.is_cancelled())
    });
    finding.await.unwrap_or_else(|error| Err(format!("it could not be looked through: {error}")))
}
