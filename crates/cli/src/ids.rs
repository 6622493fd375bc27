//! Ids that a person has shortened: a beginning that only one of them has stands for it.

use anyhow::{Result, bail};
use windlass::changes::Query;
use windlass::journal::{SessionFilter, Store};
use windlass::quote;
use windlass::session::{CallId, SessionId, TurnId};
use windlass_hub::Workspace;

/// The candidates that an error about an ambiguous id names.
const MOST_NAMED: usize = 10;

/// Finds the one id that begins with a text. What is an id itself, or the beginning of none, is returned as it is: the command then
/// finds it, or says that there is none.
pub(crate) fn whole(
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
    let more = found.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    found.truncate(MOST_NAMED);
    bail!(
        "`{}` is the beginning of several {kind} ids: {}{more}",
        quote::visible(given),
        found.join(", ")
    )
}

/// The session that a text names, of those in the journal.
pub(crate) fn session(store: &Store, given: &SessionId) -> Result<SessionId> {
    if store.session(given).is_ok() {
        return Ok(given.clone());
    }
    let known = store.sessions(SessionFilter::default())?.into_iter().map(|row| row.id.to_string());
    Ok(SessionId::new(whole("session", given.as_str(), known)?))
}

/// The session that a text names, of those in the journal and of those that changed files.
pub(crate) fn changed_session(workspace: &Workspace, given: &SessionId) -> Result<SessionId> {
    let Some(store) = workspace.store() else { return Ok(given.clone()) };
    let found = session(store, given)?;
    if found != *given {
        return Ok(found);
    }
    let known = checkpoints(workspace)?.map(|origin| origin.session.to_string());
    Ok(SessionId::new(whole("session", given.as_str(), known)?))
}

/// The call that a text names, of those that changed files of the workspace.
pub(crate) fn call(workspace: &Workspace, given: &str) -> Result<CallId> {
    let known = checkpoints(workspace)?.map(|origin| origin.call.to_string());
    Ok(CallId::new(whole("call", given, known)?))
}

/// The turn that a text names, of those that changed files of the workspace.
pub(crate) fn turn(workspace: &Workspace, given: &str) -> Result<TurnId> {
    let known = checkpoints(workspace)?.map(|origin| origin.turn.to_string());
    Ok(TurnId::new(whole("turn", given, known)?))
}

fn checkpoints(workspace: &Workspace) -> Result<impl Iterator<Item = windlass::changes::Origin>> {
    let query = Query::Workspace(workspace.path().to_owned());
    Ok(workspace.history().checkpoints(&query)?.into_iter().map(|checkpoint| checkpoint.origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_that_one_id_has_stands_for_it() {
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
            match (whole("call", given, known.clone()), wanted) {
                (Ok(id), Ok(wanted)) => assert_eq!(id, wanted),
                (Err(error), Err(wanted)) => assert!(error.to_string().contains(wanted), "{error}"),
                (found, wanted) => panic!("{given}: {found:?}, not {wanted:?}"),
            }
        }
        let many = (0..30).map(|number| format!("a{number:02}"));
        assert!(
            whole("call", "a", many).expect_err("many").to_string().ends_with("a09 and 20 more")
        );
    }
}
