//! The search of a tree: opens what a walk finds, one of these in every thread.

use std::io;
use std::sync::{Mutex, PoisonError};

use windlass_core::{Context, Entry, FileErrorKind, FileKind, Visitor, Walk};

use super::buffer::Buffer;
use super::found::Found;
use super::query::Query;
use super::scanner::Scanner;
use crate::format::Notes;

/// What all threads of a search share.
pub(super) struct Search<'a> {
    pub(super) cx: &'a Context,
    pub(super) query: &'a Query,
    pub(super) found: Found,
    pub(super) tally: Mutex<Tally>,
}

/// What was done besides finding.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Files that were opened.
    pub(super) searched: usize,
    /// Files that were left out for a NUL in them, without having matched.
    pub(super) binary: usize,
    /// What could not be searched.
    pub(super) notes: Notes,
}

/// Searches what one thread of a walk finds.
pub(super) struct Searching<'a> {
    search: &'a Search<'a>,
    scanner: Scanner<'a>,
    buffer: Buffer,
    tally: Tally,
}

impl<'a> Searching<'a> {
    pub(super) fn new(search: &'a Search<'a>) -> Self {
        Self {
            search,
            scanner: Scanner::new(search.cx, search.query),
            buffer: Buffer::new(),
            tally: Tally::default(),
        }
    }

    fn search(&mut self, entry: &Entry<'_>) {
        let hits = match entry.opener.open() {
            Ok(opened) => {
                self.tally.searched += 1;
                let hits = self.scanner.search_file(&opened, &mut self.buffer);
                hits.map_err(|error| explain(&error))
            }
            // It went away between being found and being opened.
            Err(error) if matches!(error.kind, FileErrorKind::NotFound) => return,
            Err(error) => {
                // A look, so that the answer is no longer served when it could be opened.
                drop(entry.opener.stat());
                Err(error.kind.to_string())
            }
        };
        match hits {
            Ok(Some(hits)) if hits.matches > 0 => self.search.found.add(entry.path, hits),
            Ok(Some(hits)) => self.tally.binary += usize::from(hits.binary.is_some()),
            Ok(None) => {}
            Err(why) => self.tally.notes.add(entry.path, why),
        }
    }
}

impl Visitor for Searching<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        if self.search.found.is_beyond(entry.path) {
            return Walk::Skip;
        }
        if entry.kind == FileKind::File && self.search.query.wants(entry.path) {
            self.search(entry);
        }
        Walk::Continue
    }
}

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        let mut all = self.search.tally.lock().unwrap_or_else(PoisonError::into_inner);
        all.searched += self.tally.searched;
        all.binary += self.tally.binary;
        all.notes.merge(std::mem::take(&mut self.tally.notes));
    }
}

/// Why a file could not be searched to its end.
fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(_) => error.to_string(),
        // Not the machine's word but the searcher's.
        None => format!(
            "it has a line, or with `multiline` is itself, longer than {} MiB",
            Scanner::MOST_MEMORY >> 20
        ),
    }
}
