//! Trial run of a call before a person is asked: finds the changes that the call would make, without making them.
//!
//! Only tools that say that their calls change files alone are tried, since their doors then lead to proposals. A call that would fail
//! anyway fails here, without an approval.
//!
//! The trial runs on a copy of the plan that the call itself will run on. If it planned again, the files could have changed, and the
//! person would see the changes of one plan and approve another.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use super::{Call, ReadyCall, Shared, run};
use crate::sync::Lock;
use crate::{
    ContentHash, EffectKinds, FileChange, FileState, HistoryError, HistoryLock, Host, Proposal,
    ProposalStore, Proposals, SessionId, ToolError, Verdict,
};

/// A person is waiting for the approval request, so the trial must be short.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a copy of the plan on proposals and returns the changes. Empty if the call changes no files, cannot be tried or takes too long.
/// Fails if the tool fails or refuses the arguments; after any other error, such as a denial, a person can still be asked.
pub(super) async fn try_changes(
    engine: &Arc<Shared>,
    call: &Call,
    ready: &ReadyCall<'_>,
    verdict: &Verdict,
) -> Result<Arc<[FileChange]>, ToolError> {
    let changes_files = EffectKinds::WRITE.with(EffectKinds::DELETE);
    if !verdict.effects().kinds().intersects(changes_files) || call.session.proposals().is_some() {
        return Ok([].into());
    }
    let Some(copy) = ready.planned.copy_for_trial() else { return Ok([].into()) };
    let shelf = Arc::new(TrialShelf { host: engine.host.clone(), kept: Lock::default() });
    let Ok(proposals) = Proposals::open(shelf, call.session.id().clone()) else {
        return Ok([].into());
    };
    let session = Arc::new(call.session.trial(proposals));
    let cx = run::trial_context(engine, call, &session, ready, verdict.trial());
    match tokio::time::timeout(TRIAL_TIMEOUT, copy.run(&cx)).await {
        Ok(Ok(output)) if output.is_error => Err(ToolError::failed(output.to_text())),
        Ok(Err(error @ (ToolError::Failed(_) | ToolError::InvalidArgs(_)))) => Err(error),
        Ok(Ok(_)) => Ok(session.proposals().map_or_else(|| [].into(), |held| file_changes(held))),
        // A call that cannot be tried can still be asked about.
        Ok(Err(_)) | Err(_) => Ok([].into()),
    }
}

/// Returns the proposals as changes of files, with the contents before and after. A content that cannot be read is left out.
fn file_changes(proposals: &Proposals) -> Arc<[FileChange]> {
    let content = |state: &FileState| match state.hash() {
        Some(hash) => proposals.content(&hash).map(Some),
        None => Ok(None),
    };
    let change = |one: Proposal| {
        let contents = content(&one.base).and_then(|before| Ok((before, content(&one.then)?)));
        // With one of two contents, all lines would count as added or removed.
        let (before, after) = contents.unwrap_or_default();
        FileChange { verb: one.verb(), before, after, detail: None, path: one.path }
    };
    proposals.list().into_iter().map(change).collect()
}

/// Keeps the contents of a trial in files without names.
struct TrialShelf {
    host: Arc<dyn Host>,
    kept: Lock<HashMap<ContentHash, File>>,
}

impl ProposalStore for TrialShelf {
    fn keep(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), HistoryError> {
        use std::io::Write as _;
        let failed = |error: std::io::Error| HistoryError::Failed(error.to_string());
        let processes = self.host.processes();
        let processes = processes.ok_or_else(|| HistoryError::Failed("no place for it".into()))?;
        let mut file = processes.scratch().map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        self.kept.lock().insert(*hash, file);
        Ok(())
    }

    fn open(&self, hash: &ContentHash) -> Result<File, HistoryError> {
        let kept = self.kept.lock();
        let file = kept.get(hash).ok_or(HistoryError::Dropped(*hash))?;
        file.try_clone().map_err(|error| HistoryError::Failed(error.to_string()))
    }

    fn load(&self, _: &SessionId) -> Result<Vec<Proposal>, HistoryError> {
        Ok(Vec::new())
    }

    fn save(&self, _: &SessionId, _: &[Proposal]) -> Result<(), HistoryError> {
        Ok(())
    }

    fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> {
        Ok(HistoryLock::unshared())
    }

    fn stamp(&self, _: &SessionId) -> u64 {
        0
    }

    fn sessions(&self) -> Result<Vec<SessionId>, HistoryError> {
        Ok(Vec::new())
    }
}
