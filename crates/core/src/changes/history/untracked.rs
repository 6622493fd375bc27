//! A history that records nothing: for changes that are only proposed, which have a list of their own.

use std::collections::HashMap;

use super::memory::read_all;
use super::{
    Checkpoint, ContentHash, Exclusive, History, HistoryError, NewCheckpoint, Pending, Query,
};
use crate::Opened;

/// A history that keeps no checkpoint.
#[derive(Debug)]
pub(crate) struct Untracked;

impl History for Untracked {
    fn record<'h>(
        &'h self,
        new: &NewCheckpoint<'_>,
    ) -> Result<Box<dyn Pending + 'h>, HistoryError> {
        Ok(Box::new(UntrackedPending(read_all(new)?)))
    }

    fn checkpoints(&self, _: &Query) -> Result<Vec<Checkpoint>, HistoryError> {
        Ok(Vec::new())
    }

    fn exclusive(&self) -> Result<Exclusive<'_>, HistoryError> {
        Ok(Exclusive::unshared())
    }

    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        Err(HistoryError::Dropped(*hash))
    }
}

/// The contents that a rollback needs if the commit fails half-way.
struct UntrackedPending(HashMap<ContentHash, Vec<u8>>);

impl Pending for UntrackedPending {
    fn open(&self, hash: &ContentHash) -> Result<Opened, HistoryError> {
        self.0.get(hash).cloned().map(Opened::Bytes).ok_or(HistoryError::Dropped(*hash))
    }

    fn finish(self: Box<Self>) -> Result<(), HistoryError> {
        Ok(())
    }

    fn abandon(self: Box<Self>) -> Result<(), HistoryError> {
        Ok(())
    }
}
