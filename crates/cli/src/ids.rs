//! Shortened ids: a beginning that only one id has stands for that id.

use anyhow::{Result, bail};
use windlass::changes::CheckpointQuery;
use windlass::journal::{SessionFilter, Store};
use windlass::quote;
use windlass::session::{CallId, SessionId, TurnId};
use windlass_hub::Workspace;

/// The number of candidates that an error about an ambiguous id names.
const MAX_NAMED_CANDIDATES: usize = 10;

/// Returns the one known id that begins with a text, or an error if there are several. A text that is itself an id, or begins none, is
/// returned as it is: the command then finds it or reports that it does not exist.
pub(crate) fn expand(
    kind: &str,
    given: &str,
    known: impl IntoIterator<Item = String>,
) -> Result<String> {
    let mut found: Vec<String> = known.into_iter().filter(|id| id.starts_with(given)).collect();
    found.sort();
    found.dedup();
    if given.is_empty() || found.is_empty() || found.iter().any(|id| id == given) {
        return Ok(given.to_owned());
    }
    if let [only] = &found[..] {
        return Ok(only.clone());
    }
    let more = found.len().saturating_sub(MAX_NAMED_CANDIDATES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    found.truncate(MAX_NAMED_CANDIDATES);
    bail!(
        "`{}` is the beginning of several {kind} ids: {}{more}",
        quote::visible(given),
        found.join(", ")
    )
}

/// Completes a shortened session id from those in the journal.
pub(crate) fn expand_session(store: &Store, given: &SessionId) -> Result<SessionId> {
    if store.session(given).is_ok() {
        return Ok(given.clone());
    }
    let known = store.sessions(SessionFilter::default())?.into_iter().map(|row| row.id.to_string());
    Ok(SessionId::new(expand("session", given.as_str(), known)?))
}

/// Completes a shortened session id from those in the journal and those that changed files of the workspace.
pub(crate) fn expand_changed_session(
    workspace: &Workspace,
    given: &SessionId,
) -> Result<SessionId> {
    let Some(store) = workspace.store() else { return Ok(given.clone()) };
    let found = expand_session(store, given)?;
    if found != *given {
        return Ok(found);
    }
    let known = checkpoint_origins(workspace)?.map(|origin| origin.session.to_string());
    Ok(SessionId::new(expand("session", given.as_str(), known)?))
}

/// Completes a shortened call id from those that changed files of the workspace.
pub(crate) fn expand_call(workspace: &Workspace, given: &str) -> Result<CallId> {
    let known = checkpoint_origins(workspace)?.map(|origin| origin.call.to_string());
    Ok(CallId::new(expand("call", given, known)?))
}

/// Completes a shortened turn id from those that changed files of the workspace.
pub(crate) fn expand_turn(workspace: &Workspace, given: &str) -> Result<TurnId> {
    let known = checkpoint_origins(workspace)?.map(|origin| origin.turn.to_string());
    Ok(TurnId::new(expand("turn", given, known)?))
}

/// Returns the origins (session, turn, call) of all checkpoints of the workspace.
fn checkpoint_origins(
    workspace: &Workspace,
) -> Result<impl Iterator<Item = windlass::changes::Origin>> {
    let query = CheckpointQuery::Workspace(workspace.path().to_owned());
    Ok(workspace.history().checkpoints(&query)?.into_iter().map(|checkpoint| checkpoint.origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_beginning_stands_for_its_id() {
        let known = ["c1ab", "c1abc", "c1ac", "c2"].map(str::to_owned);
        for (given, wanted) in [
            ("c2", Ok("c2")),
            ("c1ab", Ok("c1ab")),
            ("c1abc", Ok("c1abc")),
            ("c1ac", Ok("c1ac")),
            ("c3", Ok("c3")),
            ("", Ok("")),
            ("c1", Err("c1ab, c1abc, c1ac")),
            ("c", Err("several call ids")),
        ] {
            match (expand("call", given, known.clone()), wanted) {
                (Ok(id), Ok(wanted)) => assert_eq!(id, wanted),
                (Err(error), Err(wanted)) => assert!(error.to_string().contains(wanted), "{error}"),
                (found, wanted) => panic!("{given}: {found:?}, not {wanted:?}"),
            }
        }
        let many = (0..30).map(|number| format!("a{number:02}"));
        assert!(
            expand("call", "a", many).expect_err("many").to_string().ends_with("a09 and 20 more")
        );
    }
}
