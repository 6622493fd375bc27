//! One thread of a walk: lists directories, leaves out hidden entries, and passes the rest to its visitor.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, Scope};

use rustix::fs::RawDir;
use rustix::io::Errno;
use windlass_core::{
    Entry, FileError, FileErrorKind, FileKind, OpenFile, Opener, Stat, Visitor, Walk,
};

use super::crew::WorkDemand;
use super::handles::DirectoryHandle;
use super::listing::EntryBuffer;
use super::place::{PathBuffer, WalkDirectory};
use super::{WalkState, is_version_control, unusable_note};
use crate::ignore_files::{IgnoreFileReader, PresentNames};
use crate::ignore_rules::IgnoreRules;
use crate::kernel::{FOR_READING, as_path, error_kind, open_child, stat, stat_child};

/// Bytes of the buffer for one `getdents64` call. Nearly every directory fits as a whole.
const LISTING_BUFFER_BYTES: usize = 32 * 1024;

/// Entries between two checks for cancellation.
const ENTRIES_PER_CANCEL_CHECK: usize = 64;

/// Minimum remaining entries of a directory that are worth sharing with another thread.
const MIN_SHARED_ENTRIES: usize = 8;

/// A piece of work that any thread can continue.
pub(super) enum Work {
    Directory(UnlistedDirectory),
    Entries(EntryBatch),
}

/// A directory that was found and is not listed yet.
pub(super) struct UnlistedDirectory {
    parent: Arc<WalkDirectory>,
    /// Handle of the parent, if it could be kept open.
    handle: Option<Arc<DirectoryHandle>>,
    name: CString,
}

/// Entries of one directory that were listed but not visited yet.
pub(super) struct EntryBatch {
    place: Arc<WalkDirectory>,
    handle: Option<Arc<DirectoryHandle>>,
    listing: EntryBuffer,
    next: usize,
}

/// One thread of a walk with its visitor and its own work.
pub(super) struct Worker<'s, 'e, 'r, 'a> {
    state: &'e WalkState<'r, 'a>,
    scope: &'s Scope<'s, 'e>,
    visitor: Box<dyn Visitor + 'a>,
    /// Work that this thread found, the newest last. It continues with the newest and shares the oldest.
    found: VecDeque<Work>,
    /// Path of the current directory or entry.
    path: PathBuffer<'r>,
    buffer: Vec<u8>,
    /// Entries visited since this thread last started another one.
    entries: usize,
}

/// Result of visiting one entry of a batch.
enum AfterEntry {
    Proceed,
    Descend(UnlistedDirectory),
    Stop,
}

impl<'s, 'e, 'r, 'a> Worker<'s, 'e, 'r, 'a> {
    pub(super) fn new(state: &'e WalkState<'r, 'a>, scope: &'s Scope<'s, 'e>) -> Self {
        Self {
            state,
            scope,
            visitor: (state.visitors)(),
            found: VecDeque::new(),
            path: PathBuffer::new(state.root_path),
            buffer: Vec::with_capacity(LISTING_BUFFER_BYTES),
            entries: 0,
        }
    }

    /// Begins the walk at its root, and works until its end.
    pub(super) fn walk_from_root(mut self, rules: &IgnoreRules) -> Result<(), Errno> {
        let begun = self.list_root(rules);
        match begun {
            Ok(()) => self.work(),
            // A failure ends the whole walk only at the root.
            Err(_) => self.state.pool.stop(),
        }
        begun
    }

    /// Lists the root of the walk.
    fn list_root(&mut self, rules: &IgnoreRules) -> Result<(), Errno> {
        if self.state.options.max_depth == 0 {
            return Ok(());
        }
        let handle = self.state.handles.open_root()?;
        self.list(&handle, rules, WalkDirectory::root)
    }

    /// Works until no thread has anything left to do.
    fn work(&mut self) {
        while !self.is_over() {
            match self.found.pop_back().or_else(|| self.state.pool.next_work()) {
                Some(Work::Directory(pending)) => self.list_directory(pending),
                Some(Work::Entries(batch)) => self.visit_batch(batch),
                None => return,
            }
        }
    }

    /// Returns whether the walk was stopped or cancelled.
    fn is_over(&self) -> bool {
        if (self.state.options.cancelled)() {
            self.state.pool.stop();
        }
        self.state.pool.is_stopped()
    }

    /// Opens and lists a pending directory. A failure becomes a note.
    fn list_directory(&mut self, pending: UnlistedDirectory) {
        let UnlistedDirectory { parent, handle, name } = pending;
        self.path.set(&parent, name.as_bytes());
        let opened = match handle {
            Some(parent) => self.state.handles.open_child(&parent, &name),
            None => self.state.handles.open_from_root(self.path.relative()),
        };
        let listed = opened.and_then(|handle| {
            let rules = parent.rules.clone();
            self.list(&handle, &rules, |rules| WalkDirectory::below(parent, name, rules))
        });
        match listed {
            // A directory that was removed meanwhile needs no listing and no note.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => self.note(&error_kind(errno).to_string()),
        }
    }

    /// Visits everything in the directory at `self.path`. `place` creates the directory's node from the rules in it.
    fn list(
        &mut self,
        handle: &Arc<DirectoryHandle>,
        above: &IgnoreRules,
        place: impl FnOnce(IgnoreRules) -> WalkDirectory,
    ) -> Result<(), Errno> {
        self.state.observe_directory(self.path.absolute(), handle);
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut directory = RawDir::new(handle.as_fd(), buffer.spare_capacity_mut());
        let listed = self.list_from(&mut directory, handle, above, place);
        buffer.clear();
        self.buffer = buffer;
        listed
    }

    /// Reads all entries of an open directory and visits them in batches.
    fn list_from(
        &mut self,
        directory: &mut RawDir<'_, rustix::fd::BorrowedFd<'_>>,
        handle: &Arc<DirectoryHandle>,
        above: &IgnoreRules,
        place: impl FnOnce(IgnoreRules) -> WalkDirectory,
    ) -> Result<(), Errno> {
        let mut listing = EntryBuffer::default();
        listing.read(directory)?;
        let mut more = EntryBuffer::default();
        if self.state.sorted {
            let mut before = 0;
            while listing.len() > before {
                before = listing.len();
                listing.read(directory)?;
            }
            listing.sort();
        } else if !listing.is_empty() {
            more.read(directory)?;
        }
        let Some(rules) = self.read_rules(handle, above, &listing, more.is_empty()) else {
            return Ok(());
        };
        let place = Arc::new(place(rules));
        while !listing.is_empty() && !self.state.pool.is_stopped() {
            let (place, handle) = (Arc::clone(&place), Some(Arc::clone(handle)));
            self.visit_batch(EntryBatch { place, handle, listing, next: 0 });
            listing = std::mem::take(&mut more);
            if !listing.is_empty() {
                more.read(directory)?;
            }
        }
        Ok(())
    }

    /// Returns the rules in a directory; `None` if they cannot be read, so that nothing may be shown. They must be known before the
    /// first entry is shown. If the first buffer held the whole directory, it also says which ignore files exist.
    fn read_rules(
        &mut self,
        handle: &Arc<DirectoryHandle>,
        above: &IgnoreRules,
        listing: &EntryBuffer,
        complete: bool,
    ) -> Option<IgnoreRules> {
        let mut present = if complete { PresentNames::default() } else { PresentNames::UNKNOWN };
        listing.names().for_each(|name| present.add(name));
        if present == PresentNames::default() {
            return Some(above.clone());
        }
        let mut files = IgnoreFileReader::new(self.state.lookup, self.state.options.ignore_files);
        match files.read(handle.as_fd(), Path::new(""), self.path.absolute(), present) {
            Ok(added) => {
                self.state.observe_all(files.fingerprints);
                Some(above.with(self.path.absolute(), added))
            }
            Err(unusable) => {
                self.note(&unusable_note(&unusable));
                None
            }
        }
    }

    /// Visits the entries of a batch, and shares work in between if threads are idle.
    fn visit_batch(&mut self, mut batch: EntryBatch) {
        self.path.set_directory(&batch.place);
        let handle = match batch.handle.take() {
            Some(handle) => handle,
            None => match self.state.handles.open_from_root(self.path.relative()) {
                Ok(handle) => handle,
                Err(errno) => return self.note(&error_kind(errno).to_string()),
            },
        };
        while let Some((name, kind)) = batch.listing.get(batch.next) {
            batch.next += 1;
            self.path.set(&batch.place, name.to_bytes());
            match self.visit_entry(&batch.place, &handle, name, kind) {
                AfterEntry::Proceed => {}
                AfterEntry::Stop => return self.state.pool.stop(),
                AfterEntry::Descend(pending) if self.state.sorted => {
                    return self.enter_before_rest(batch, &handle, pending);
                }
                AfterEntry::Descend(pending) => self.found.push_back(Work::Directory(pending)),
            }
            self.share_work(&mut batch, &handle);
        }
    }

    /// Enters a directory before the entries after it, as a sorted walk must.
    fn enter_before_rest(
        &mut self,
        mut batch: EntryBatch,
        handle: &Arc<DirectoryHandle>,
        pending: UnlistedDirectory,
    ) {
        if batch.next < batch.listing.len() {
            batch.handle = self.state.handles.keep(handle);
            self.found.push_back(Work::Entries(batch));
        }
        // This directory is the next to be listed, so its parent's handle is not kept for long.
        let handle = Some(Arc::clone(handle));
        self.found.push_back(Work::Directory(UnlistedDirectory { handle, ..pending }));
    }

    /// Visits one entry, whose path is in `self.path`.
    fn visit_entry(
        &mut self,
        place: &Arc<WalkDirectory>,
        handle: &Arc<DirectoryHandle>,
        name: &CStr,
        kind: Option<FileKind>,
    ) -> AfterEntry {
        self.entries += 1;
        let cancelled = self.entries.is_multiple_of(ENTRIES_PER_CANCEL_CHECK) && self.is_over();
        if cancelled || self.state.pool.is_stopped() {
            return AfterEntry::Stop;
        }
        let Some(kind) = kind.or_else(|| Some(stat_child(handle, name).ok()?.kind)) else {
            return AfterEntry::Proceed;
        };
        if self.is_hidden(place, name, kind) {
            return AfterEntry::Proceed;
        }
        let path = self.path.relative();
        let opener = EntryOpener { state: self.state, handle, name, kind, path };
        let entry = Entry { path, kind, depth: place.depth, opener: &opener };
        match self.visitor.visit(&entry) {
            Walk::Stop => AfterEntry::Stop,
            Walk::Skip => AfterEntry::Proceed,
            Walk::Continue => {
                let below =
                    kind == FileKind::Directory && place.depth < self.state.options.max_depth;
                if !below {
                    return AfterEntry::Proceed;
                }
                AfterEntry::Descend(UnlistedDirectory {
                    parent: Arc::clone(place),
                    handle: self.state.handles.keep(handle),
                    name: name.to_owned(),
                })
            }
        }
    }

    /// Returns whether rules, the caller or version control hide an entry, and reports what rules or the caller hide.
    fn is_hidden(&self, place: &WalkDirectory, name: &CStr, kind: FileKind) -> bool {
        if kind == FileKind::Directory
            && self.state.skip_version_control
            && is_version_control(name.to_bytes())
        {
            return true;
        }
        let path = self.path.absolute();
        let options = self.state.options;
        let is_hidden = place.rules.hide(path, kind) || (options.hidden)(as_path(path));
        if is_hidden {
            (options.left_out)(as_path(path), kind);
        }
        is_hidden
    }

    /// Shares work if another thread needs it: directories before entries, the oldest first.
    fn share_work(&mut self, batch: &mut EntryBatch, handle: &Arc<DirectoryHandle>) {
        let demand = self.state.pool.demand(self.entries);
        if demand == WorkDemand::None {
            return;
        }
        let left = batch.listing.len() - batch.next;
        if !self.found.is_empty() {
            let half = self.found.len().div_ceil(2);
            self.state.pool.push(self.found.drain(..half));
        } else if left >= MIN_SHARED_ENTRIES {
            let listing = batch.listing.split_off(batch.next + left / 2);
            let (place, handle) = (Arc::clone(&batch.place), Some(Arc::clone(handle)));
            self.state.pool.push([Work::Entries(EntryBatch { place, handle, listing, next: 0 })]);
        } else {
            return;
        }
        if demand == WorkDemand::NewThread {
            self.start_thread();
        }
    }

    /// Starts another thread of the walk, unless there are enough.
    fn start_thread(&mut self) {
        let pool = &self.state.pool;
        if !pool.reserve_thread() {
            return;
        }
        // The next thread is started only after as many entries again.
        self.entries = 0;
        let (state, scope) = (self.state, self.scope);
        let thread = Builder::new().name("walk".into()).spawn_scoped(scope, move || {
            state.run_guarded(|| Worker::new(state, scope).work());
        });
        if thread.is_err() {
            pool.release_thread();
        }
    }

    fn note(&self, why: &str) {
        self.state.note(self.path.relative(), why);
    }
}

/// An entry that its visitor may open, by its directory's handle.
struct EntryOpener<'f, 'r, 'a> {
    state: &'f WalkState<'r, 'a>,
    handle: &'f DirectoryHandle,
    name: &'f CStr,
    kind: FileKind,
    path: &'f Path,
}

impl EntryOpener<'_, '_, '_> {
    fn file_error(&self, doing: &'static str, kind: FileErrorKind) -> FileError {
        let root = self.state.root.inside.as_ref().unwrap_or(&self.state.root.path);
        FileError::new(doing, root.join(self.path), kind)
    }

    /// Opens the entry for reading if the listing said that it is a regular file. If it no longer is one, opening it does not
    /// block, and the opened object is checked again.
    fn open_file(&self) -> Result<OpenFile, FileErrorKind> {
        if self.kind != FileKind::File {
            return Err(FileErrorKind::NotRegular(self.kind));
        }
        let name = OsStr::from_bytes(self.name.to_bytes());
        let opened = open_child(self.handle.as_fd(), name, FOR_READING).map_err(error_kind)?;
        let stat = stat(&opened).map_err(error_kind)?;
        match stat.kind {
            FileKind::File => Ok(OpenFile { file: opened.into(), stat }),
            other => Err(FileErrorKind::NotRegular(other)),
        }
    }
}

impl Opener for EntryOpener<'_, '_, '_> {
    fn open(&self) -> Result<OpenFile, FileError> {
        self.open_file().map_err(|kind| self.file_error("read", kind))
    }

    fn stat(&self) -> Result<Stat, FileError> {
        stat_child(self.handle, self.name)
            .map_err(|errno| self.file_error("look at", error_kind(errno)))
    }
}
