//! A content of the history that is opened only when it is needed.

use std::{fmt, io};

use super::{ContentHash, History, HistoryError};
use crate::{ContentSource, FileState, KeptContent, OpenedContent};

/// A content of the history. It takes no memory before it is opened.
pub(crate) struct HistoryContent<'a> {
    history: &'a dyn History,
    hash: ContentHash,
    length: u64,
}

impl<'a> HistoryContent<'a> {
    /// Finds the content of a recorded file; `None` if the state is no file. Fails if the history no longer has it, at a time when
    /// no file has been changed yet.
    pub(crate) fn of(
        history: &'a dyn History,
        state: &FileState,
    ) -> Result<Option<Self>, HistoryError> {
        let FileState::File { hash, len: length, .. } = *state else { return Ok(None) };
        history.open(&hash)?;
        Ok(Some(Self { history, hash, length }))
    }

    pub(crate) fn source(&self) -> ContentSource<'_> {
        ContentSource::Kept(self)
    }
}

impl KeptContent for HistoryContent<'_> {
    fn hash(&self) -> ContentHash {
        self.hash
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn open(&self) -> io::Result<OpenedContent> {
        self.history.open(&self.hash).map_err(io::Error::other)
    }
}

impl fmt::Debug for HistoryContent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryContent").field("hash", &self.hash).finish_non_exhaustive()
    }
}
