//! The search of a tree: every thread of the walk has a searcher that opens the files it visits.

use std::io;
use std::sync::{Mutex, PoisonError};

use windlass_core::{Context, Entry, FileErrorKind, FileKind, Visitor, Walk};

use super::buffer::FileBuffer;
use super::first_hits::FirstHits;
use super::query::Query;
use super::scanner::Scanner;
use crate::format::Notes;

/// The state that all threads of a search share.
pub(super) struct TreeSearch<'a> {
    pub(super) cx: &'a Context,
    pub(super) query: &'a Query,
    pub(super) hits: FirstHits,
    pub(super) tally: Mutex<SearchTally>,
}

/// Counts and notes of a search, besides its hits.
#[derive(Debug, Default)]
pub(super) struct SearchTally {
    /// Number of opened files.
    pub(super) searched: usize,
    /// Number of files without a match that were left out because they contain a NUL.
    pub(super) binary: usize,
    /// Files and directories that could not be searched.
    pub(super) notes: Notes,
}

/// Searches the files that one thread of a walk visits.
pub(super) struct TreeSearcher<'a> {
    search: &'a TreeSearch<'a>,
    scanner: Scanner<'a>,
    buffer: FileBuffer,
    tally: SearchTally,
}

impl<'a> TreeSearcher<'a> {
    pub(super) fn new(search: &'a TreeSearch<'a>) -> Self {
        Self {
            search,
            scanner: Scanner::new(search.cx, search.query),
            buffer: FileBuffer::new(),
            tally: SearchTally::default(),
        }
    }

    /// Searches one file, and adds its hits and notes.
    fn search(&mut self, entry: &Entry<'_>) {
        let hits = match entry.opener.open() {
            Ok(opened) => {
                self.tally.searched += 1;
                let hits = self.scanner.search_file(&opened, &mut self.buffer);
                hits.map_err(|error| explain(&error))
            }
            // The file was removed after the walk found it.
            Err(error) if matches!(error.kind, FileErrorKind::NotFound) => return,
            Err(error) => {
                // Records that the output depends on this file, so that a cached output is not served once the file can be opened.
                drop(entry.opener.stat());
                Err(error.kind.to_string())
            }
        };
        match hits {
            Ok(Some(hits)) if hits.matches > 0 => self.search.hits.add(entry.path, hits),
            Ok(Some(hits)) => self.tally.binary += usize::from(hits.binary.is_some()),
            Ok(None) => {}
            Err(why) => self.tally.notes.add(entry.path, why),
        }
    }
}

impl Visitor for TreeSearcher<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        if self.search.hits.is_beyond(entry.path) {
            return Walk::Skip;
        }
        if entry.kind == FileKind::File && self.search.query.includes_file(entry.path) {
            self.search(entry);
        }
        Walk::Continue
    }
}

impl Drop for TreeSearcher<'_> {
    fn drop(&mut self) {
        let mut all = self.search.tally.lock().unwrap_or_else(PoisonError::into_inner);
        all.searched += self.tally.searched;
        all.binary += self.tally.binary;
        all.notes.merge(std::mem::take(&mut self.tally.notes));
    }
}

/// Returns the reason for which a file could not be searched to its end.
fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(_) => error.to_string(),
        // The error comes from the searcher, not from the operating system.
        None => format!(
            "it has a line, or with `multiline` is itself, longer than {} MiB",
            Scanner::MAX_MEMORY >> 20
        ),
    }
}
