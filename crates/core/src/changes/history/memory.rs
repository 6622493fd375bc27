//! A history in memory, which ends with the process: for embedders that keep no state, and for tests.

use std::collections::{HashMap, HashSet};

use super::{
    ChangeWithoutHistory, Checkpoint, CheckpointQuery, ContentHash, History, HistoryError,
    HistoryLock, NewCheckpoint, PendingCheckpoint, RecordedChange,
};
use crate::sync::Lock;
use crate::{CallId, OpenedContent, Origin};

/// A history in memory. Drops its oldest checkpoints when the contents exceed [`MemoryHistory::MAX_BYTES`].
#[derive(Debug, Default)]
pub struct MemoryHistory {
    kept: Lock<MemoryContents>,
    /// Lock of the undo that is under way.
    undoing: Lock<()>,
}

/// The checkpoints of a history in memory, and their contents.
#[derive(Debug, Default)]
struct MemoryContents {
    checkpoints: Vec<StoredCheckpoint>,
    contents: HashMap<ContentHash, Vec<u8>>,
    bytes: usize,
}

/// A checkpoint without `undone_by`, which is computed from later undos.
#[derive(Debug, Clone)]
struct StoredCheckpoint {
    origin: Origin,
    changes: Vec<RecordedChange>,
    without_history: Vec<ChangeWithoutHistory>,
}

impl MemoryHistory {
    /// Maximum bytes of all contents.
    pub const MAX_BYTES: usize = 256 << 20;
}

impl History for MemoryHistory {
    fn record<'h>(
        &'h self,
        new: &NewCheckpoint<'_>,
    ) -> Result<Box<dyn PendingCheckpoint + 'h>, HistoryError> {
        let contents = read_all(new)?;
        Ok(Box::new(MemoryPending {
            history: self,
            checkpoint: StoredCheckpoint {
                origin: new.origin.clone(),
                changes: new.changes.to_vec(),
                without_history: new.without_history.to_vec(),
            },
            contents,
        }))
    }

    fn checkpoints(&self, query: &CheckpointQuery) -> Result<Vec<Checkpoint>, HistoryError> {
        let kept = self.kept.lock();
        let mut found = Vec::new();
        for one in kept.checkpoints.iter().rev() {
            let StoredCheckpoint { origin, changes, without_history } = one.clone();
            let undone_by = kept.undone_by(&origin);
            let checkpoint = Checkpoint { origin, changes, without_history, undone_by };
            if query.includes(&checkpoint) {
                found.push(checkpoint);
            }
        }
        if query.is_last() {
            let end = found.iter().position(Checkpoint::is_step);
            let newest = found.iter().take(end.map_or(found.len(), |at| at + 1));
            let calls: HashSet<CallId> =
                newest.map(|checkpoint| checkpoint.origin.call.clone()).collect();
            found.retain(|checkpoint| calls.contains(&checkpoint.origin.call));
        }
        Ok(found)
    }

    fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> {
        Ok(HistoryLock::by_guard(self.undoing.lock()))
    }

    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        self.kept.lock().contents.get(hash).cloned().ok_or(HistoryError::Dropped(*hash))
    }
}

impl MemoryContents {
    /// Returns the undo of a call that is in effect: the newest one that covers it, unless another undo took that back.
    fn undone_by(&self, origin: &Origin) -> Option<CallId> {
        let origins = self.checkpoints.iter().rev().map(|one| &one.origin);
        let undo = { origins }.find(|undo| undo.undoes.contains(&origin.call))?;
        self.undone_by(undo).is_none().then(|| undo.call.clone())
    }

    /// Adds a content.
    fn keep(&mut self, hash: ContentHash, bytes: Vec<u8>) {
        let length = bytes.len();
        if self.contents.insert(hash, bytes).is_none() {
            self.bytes += length;
        }
    }

    /// Drops the oldest checkpoints until the rest fits.
    fn make_room(&mut self) {
        while self.bytes > MemoryHistory::MAX_BYTES && self.checkpoints.len() > 1 {
            self.checkpoints.remove(0);
            let named: HashSet<ContentHash> = self
                .checkpoints
                .iter()
                .flat_map(|checkpoint| &checkpoint.changes)
                .flat_map(|change| [change.before.hash(), change.after.hash()])
                .flatten()
                .collect();
            self.contents.retain(|hash, _| named.contains(hash));
            self.bytes = self.contents.values().map(Vec::len).sum();
        }
    }
}

/// A checkpoint whose changes are under way.
struct MemoryPending<'h> {
    history: &'h MemoryHistory,
    checkpoint: StoredCheckpoint,
    contents: HashMap<ContentHash, Vec<u8>>,
}

/// Reads the contents of a checkpoint into memory. Fails if they exceed the capacity of a history in memory.
pub(super) fn read_all(
    new: &NewCheckpoint<'_>,
) -> Result<HashMap<ContentHash, Vec<u8>>, HistoryError> {
    let failed = |error: std::io::Error| HistoryError::Failed(error.to_string());
    let mut bytes: u64 = 0;
    for content in new.contents {
        bytes = bytes.saturating_add(content.source.length().map_err(failed)?);
    }
    if bytes > MemoryHistory::MAX_BYTES as u64 {
        return Err(HistoryError::Failed(format!(
            "what call {} is about to change takes {bytes} bytes, and a history in memory keeps at most {}; \
             give the engine a state directory",
            new.origin.call,
            MemoryHistory::MAX_BYTES
        )));
    }
    let mut contents = HashMap::with_capacity(new.contents.len());
    for content in new.contents {
        contents.insert(content.hash, content.source.read().map_err(failed)?.into_owned());
    }
    Ok(contents)
}

impl PendingCheckpoint for MemoryPending<'_> {
    fn open(&self, hash: &ContentHash) -> Result<OpenedContent, HistoryError> {
        let bytes = self.contents.get(hash).cloned().ok_or(HistoryError::Dropped(*hash))?;
        Ok(OpenedContent::Bytes(bytes))
    }

    fn finish(self: Box<Self>) -> Result<(), HistoryError> {
        let mut kept = self.history.kept.lock();
        for (hash, bytes) in self.contents {
            kept.keep(hash, bytes);
        }
        kept.checkpoints.push(self.checkpoint);
        kept.make_room();
        Ok(())
    }

    fn abandon(self: Box<Self>) -> Result<(), HistoryError> {
        Ok(())
    }

    /// Records the checkpoint, since no later process can repair it.
    fn leave(self: Box<Self>) {
        drop(self.finish());
    }
}
