//! Records the changes of jobs. A job works directly on the workspace and may end long after its call, so the record of the call
//! cannot name its changes. They have no history: the undo history only notes that they were made.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::Context;
use crate::changes::{commit, state};
use crate::engine::record_job_end;
use crate::jobs::{ChangeKind, Job, ProgramChangeReport, WhenStopped};
use crate::{
    BODY_VERSION, ChangeWithoutHistory, CheckpointQuery, FileState, JobChange, JobEnded, ToolError,
    Tracking, quote,
};

/// Maximum number of files that the record of a job names.
const MAX_RECORDED_FILES: usize = 10_000;

impl Context {
    /// Records the changes of a job in the journal, since its call may have ended long ago.
    pub(super) async fn record_job(
        &self,
        job: &Job,
        mut changed: ProgramChangeReport,
    ) -> ProgramChangeReport {
        if changed.paths.is_empty() && changed.notes.is_empty() {
            return changed;
        }
        let workspace = self.0.session_files.get().workspace();
        let file = |(path, kind): &(PathBuf, ChangeKind)| {
            let path = path.strip_prefix(workspace).unwrap_or(path);
            let path = self.0.secrets.redact(&quote::path(path)).into_owned();
            JobChange { path, change: kind.letter().to_string() }
        };
        let clean = |note: &String| self.0.secrets.redact(note).into_owned();
        let body = JobEnded {
            version: BODY_VERSION,
            job: job.id().to_string(),
            call: Some(self.call_id().clone()),
            changed: changed.paths.iter().take(MAX_RECORDED_FILES).map(file).collect(),
            changed_count: changed.paths.len(),
            notes: changed.notes.iter().map(clean).collect(),
        };
        changed.notes.extend(self.put_on_record(&body).await);
        if changed.tracking == Some(Tracking::Scanned) {
            let noted = self.note_direct_changes(&changed).await;
            let told = noted.err().map(|error| {
                format!("an undo will not know of what the job changed: {}", error.message().text)
            });
            changed.notes.extend(told);
        }
        changed
    }

    /// Records in the journal that the changes of a job were dropped, or wait for an answer. Returns the error, with the failure of
    /// the record if that failed.
    pub(super) async fn record_refused_job(&self, job: &Job, error: ToolError) -> ToolError {
        let body = JobEnded {
            version: BODY_VERSION,
            job: job.id().to_string(),
            call: Some(self.call_id().clone()),
            changed: Vec::new(),
            changed_count: 0,
            notes: vec![self.0.secrets.redact(&error.message().text).into_owned()],
        };
        match self.put_on_record(&body).await {
            Some(failed) => {
                let text = format!("{}; {failed}", error.message().text);
                error.with_text(text)
            }
            None => error,
        }
    }

    /// Records the end of a job in the journal. Returns a sentence about the failure if that fails.
    async fn put_on_record(&self, body: &JobEnded) -> Option<String> {
        let recorded = record_job_end(&self.0.engine, self.files().origin(Vec::new()), body).await;
        let error = recorded.err()?;
        Some(format!("the end of the job could not be put on record: {error}"))
    }

    /// Notes in the undo history that a command ran whose changes were not tracked, so that an undo reports it. Skips a command
    /// that can only read, and a job whose changes are known by name.
    pub(super) async fn note_untracked(
        &self,
        job: &Job,
        mut changed: ProgramChangeReport,
    ) -> ProgramChangeReport {
        let is_untracked = match changed.tracking {
            Some(Tracking::Unknown) => true,
            Some(Tracking::Scanned) => !job.is_background && !changed.paths.is_empty(),
            _ => false,
        };
        if !is_untracked || job.when_stopped == WhenStopped::Nothing {
            return changed;
        }
        let noting = self.blocking(move |cx| {
            let workspace = cx.0.session_files.get().workspace().to_owned();
            cx.record_without_history(&[ChangeWithoutHistory::Untracked(workspace)])
        });
        if let Err(error) = noting.await.and_then(|noted| noted) {
            let text = &error.message().text;
            changed.notes.push(format!("an undo will not know of this command: {text}"));
        }
        changed
    }

    /// Notes in the undo history the files that a job changed directly in the workspace, so that an undo reports them.
    async fn note_direct_changes(&self, changed: &ProgramChangeReport) -> Result<(), ToolError> {
        let paths: Vec<PathBuf> =
            changed.paths.iter().take(MAX_RECORDED_FILES).map(|(path, _)| path.clone()).collect();
        let noting = self.blocking(move |cx| {
            let of_calls = cx.left_by_calls(&paths)?;
            let is_of_job = |path: &PathBuf| !of_calls.contains(path);
            let direct: Vec<ChangeWithoutHistory> =
                paths.into_iter().filter(is_of_job).map(ChangeWithoutHistory::Direct).collect();
            cx.record_without_history(&direct)
        });
        noting.await?
    }

    /// Returns the paths that are as a call left them: those changes have a history, even if a job saw them as well. Blocking.
    fn left_by_calls(&self, paths: &[PathBuf]) -> Result<HashSet<PathBuf>, ToolError> {
        let files = self.0.session_files.get();
        let workspace = files.workspace().to_owned();
        let checkpoints = self.0.history().checkpoints(&CheckpointQuery::Workspace(workspace))?;
        let asked: HashSet<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let mut newest: HashMap<&Path, &FileState> = HashMap::new();
        for change in checkpoints.iter().flat_map(|checkpoint| checkpoint.changes.iter().rev()) {
            if asked.contains(change.path.as_path()) {
                newest.entry(&change.path).or_insert(&change.after);
            }
        }
        let is_left = |(path, after): &(&Path, &FileState)| {
            let now = state::inspect(files, &commit::recorded_path(files, path), None);
            now.is_ok_and(|now| state::is_as_left(&now.state, after))
        };
        Ok(newest.into_iter().filter(is_left).map(|(path, _)| path.to_owned()).collect())
    }
}
