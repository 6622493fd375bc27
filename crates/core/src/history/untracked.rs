//! No history: for changes that are only proposed, which have a list of their own.

use super::{Checkpoint, ContentHash, History, HistoryError, NewCheckpoint, Pending, Query};

/// Keeps nothing.
#[derive(Debug)]
pub(crate) struct Untracked;

impl History for Untracked {
    fn record<'h>(&'h self, _: &NewCheckpoint<'_>) -> Result<Box<dyn Pending + 'h>, HistoryError> {
        Ok(Box::new(Untracked))
    }

    fn checkpoints(&self, _: &Query) -> Result<Vec<Checkpoint>, HistoryError> {
        Ok(Vec::new())
    }

    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        Err(HistoryError::Dropped(*hash))
    }
}

impl Pending for Untracked {
    fn finish(self: Box<Self>) -> Result<(), HistoryError> {
        Ok(())
    }

    fn abandon(self: Box<Self>) -> Result<(), HistoryError> {
        Ok(())
    }
}
