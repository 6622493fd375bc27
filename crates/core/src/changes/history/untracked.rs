//! A history that records nothing: for changes that are only proposed, which have a list of their own.

use std::collections::HashMap;

use super::memory::read_all;
use super::{
    Checkpoint, CheckpointQuery, ContentHash, History, HistoryError, HistoryLock, NewCheckpoint,
    PendingCheckpoint,
};
use crate::OpenedContent;

/// A history that keeps no checkpoint.
#[derive(Debug)]
pub(crate) struct Untracked;

impl History for Untracked {
    fn record<'h>(
        &'h self,
        new: &NewCheckpoint<'_>,
    ) -> Result<Box<dyn PendingCheckpoint + 'h>, HistoryError> {
        Ok(Box::new(UntrackedPending(read_all(new)?)))
    }

    fn checkpoints(&self, _: &CheckpointQuery) -> Result<Vec<Checkpoint>, HistoryError> {
        Ok(Vec::new())
    }

    fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> {
        Ok(HistoryLock::unshared())
    }

    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        Err(HistoryError::Dropped(*hash))
    }
}

/// The contents that a rollback needs if the commit fails half-way.
struct UntrackedPending(HashMap<ContentHash, Vec<u8>>);

impl PendingCheckpoint for UntrackedPending {
    fn open(&self, hash: &ContentHash) -> Result<OpenedContent, HistoryError> {
        self.0.get(hash).cloned().map(OpenedContent::Bytes).ok_or(HistoryError::Dropped(*hash))
    }

    fn finish(self: Box<Self>) -> Result<(), HistoryError> {
        Ok(())
    }

    fn abandon(self: Box<Self>) -> Result<(), HistoryError> {
        Ok(())
    }
}
