//! Behind stage 6: a command that looks through a tree where nothing can be kept from it, and would come upon what no tool may see.
//!
//! In a sandbox that is covered when the command is started (`context/processes.rs`), since calls before it may still bring
//! something; there only what is too much to be covered asks, and an explanation says so before.

use super::{Call, Shared};
use crate::{Decision, Level, Verdict, cover, quote};

/// The verdict about a call that is going to be run.
pub(super) async fn weigh(engine: &Shared, call: &Call, verdict: Verdict) -> Verdict {
    if can_cover(engine) { verdict } else { foresee(engine, call, verdict).await }
}

/// The same for one that is only talked about.
pub(super) async fn foresee(engine: &Shared, call: &Call, verdict: Verdict) -> Verdict {
    let Some(effect) = cover::searching(verdict.effects()).cloned() else { return verdict };
    if verdict.decision() == Decision::Deny || !cover::is_needed(engine.host.files(), &verdict) {
        return verdict;
    }
    let why = match look(engine, call, &verdict).await {
        Ok(hidden) if can_cover(engine) || hidden.is_empty() => return verdict,
        Ok(hidden) => {
            let workspace = engine.host.files().workspace();
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
        Err(why) => too_much(&why),
    };
    verdict.asked_always(&why, Some(&effect))
}

/// Why what cannot be covered asks.
pub(crate) fn too_much(why: &str) -> String {
    format!("{why}, so that what no tool may see cannot be kept from it")
}

fn can_cover(engine: &Shared) -> bool {
    let processes = engine.host.processes();
    processes.is_none_or(|processes| processes.confinement().level != Level::Off)
}

async fn look(
    engine: &Shared,
    call: &Call,
    verdict: &Verdict,
) -> Result<Vec<std::path::PathBuf>, String> {
    let (host, policy) = (engine.host.clone(), engine.policy());
    let (effects, cancel) = (verdict.effects().clone(), call.cancel.clone());
    let looking = tokio::task::spawn_blocking(move || {
        let files = host.files();
        let withheld = policy.withheld(&effects, files.workspace(), host.clock().now());
        cover::find(files, &effects, withheld, &|| cancel.is_cancelled())
    });
    looking.await.unwrap_or_else(|error| Err(format!("it could not be looked through: {error}")))
}
