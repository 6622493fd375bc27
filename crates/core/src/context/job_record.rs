//! The record of what a job changed. A job works on the real directory and ends when its call may have been answered long ago, so
//! that neither a checkpoint nor the record of the call names its changes.

use std::path::PathBuf;

use super::Context;
use crate::engine::job_ended;
use crate::jobs::{ChangeKind, Changed, Job};
use crate::{BODY_VERSION, JobChange, JobEnded, quote};

/// The most files that the record of a job names.
const MOST_RECORDED: usize = 10_000;

impl Context {
    /// Puts on record what a job changed, since its call may have been answered long ago.
    pub(super) async fn record_job(&self, job: &Job, mut changed: Changed) -> Changed {
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
            changed: changed.paths.iter().take(MOST_RECORDED).map(file).collect(),
            changed_count: changed.paths.len(),
            notes: changed.notes.iter().map(clean).collect(),
        };
        let origin = self.files().origin(Vec::new());
        if let Err(error) = job_ended(&self.0.engine, origin, &body).await {
            changed.notes.push(format!("the end of the job could not be put on record: {error}"));
        }
        changed
    }
}
