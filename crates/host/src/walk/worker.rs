//! One thread of a walk: lists directories, leaves out what is hidden, shows the rest to its visitor.

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

use super::crew::Need;
use super::handles::Handle;
use super::listing::Listing;
use super::place::{Place, Spelling};
use super::{Tour, is_version_control, unusable_note};
use crate::kernel::{FOR_READING, as_path, meaning, open_child, stat, stat_child};
use crate::rule_files::{RuleFiles, Signs};
use crate::rules::Rules;

/// As much as the kernel is asked for at once: the whole of nearly every directory.
const BUFFER: usize = 32 * 1024;

/// How many entries go by between two looks at whether the walk was cancelled.
const ENTRIES_PER_LOOK: usize = 64;

/// Fewer entries than this are not worth giving to another thread.
const WORTH_GIVING: usize = 8;

/// Something that any thread can go on with.
pub(super) enum Work {
    Directory(Pending),
    Entries(Batch),
}

/// A directory that was found and is not listed yet.
pub(super) struct Pending {
    parent: Arc<Place>,
    /// The parent's, if it could be kept open.
    handle: Option<Arc<Handle>>,
    name: CString,
}

/// Entries of one directory that were listed and not looked at yet.
pub(super) struct Batch {
    place: Arc<Place>,
    handle: Option<Arc<Handle>>,
    listing: Listing,
    next: usize,
}

pub(super) struct Worker<'s, 'e, 'r, 'a> {
    tour: &'e Tour<'r, 'a>,
    scope: &'s Scope<'s, 'e>,
    visitor: Box<dyn Visitor + 'a>,
    /// What this thread found, the newest last. It goes on with the newest and gives away the oldest.
    found: VecDeque<Work>,
    path: Spelling<'r>,
    buffer: Vec<u8>,
    entries: usize,
}

/// What to do with the rest of a batch.
enum Next {
    Entry,
    Descend(Pending),
    Stop,
}

impl<'s, 'e, 'r, 'a> Worker<'s, 'e, 'r, 'a> {
    pub(super) fn new(tour: &'e Tour<'r, 'a>, scope: &'s Scope<'s, 'e>) -> Self {
        Self {
            tour,
            scope,
            visitor: (tour.visitors)(),
            found: VecDeque::new(),
            path: Spelling::new(tour.root_path),
            buffer: Vec::with_capacity(BUFFER),
            entries: 0,
        }
    }

    /// Begins the walk at its root, and works until its end.
    pub(super) fn lead(mut self, rules: &Rules) -> Result<(), Errno> {
        let begun = self.list_root(rules);
        match begun {
            Ok(()) => self.work(),
            // Here alone a failure is the walk's.
            Err(_) => self.tour.crew.stop(),
        }
        begun
    }

    fn list_root(&mut self, rules: &Rules) -> Result<(), Errno> {
        if self.tour.options.max_depth == 0 {
            return Ok(());
        }
        let handle = self.tour.handles.open_root()?;
        self.list(&handle, rules, Place::root)
    }

    /// Works until there is nothing left to do for any thread.
    fn work(&mut self) {
        while !self.is_over() {
            match self.found.pop_back().or_else(|| self.tour.crew.take()) {
                Some(Work::Directory(pending)) => self.directory(pending),
                Some(Work::Entries(batch)) => self.batch(batch),
                None => return,
            }
        }
    }

    fn is_over(&self) -> bool {
        if (self.tour.options.cancelled)() {
            self.tour.crew.stop();
        }
        self.tour.crew.is_stopped()
    }

    fn directory(&mut self, pending: Pending) {
        let Pending { parent, handle, name } = pending;
        self.path.set(&parent, name.as_bytes());
        let opened = match handle {
            Some(parent) => self.tour.handles.open_child(&parent, &name),
            None => self.tour.handles.open_from_root(self.path.relative()),
        };
        let listed = opened.and_then(|handle| {
            let rules = parent.rules.clone();
            self.list(&handle, &rules, |rules| Place::below(parent, name, rules))
        });
        match listed {
            // It is gone: then it need not be listed.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => self.note(&meaning(errno).to_string()),
        }
    }

    /// Looks at everything in the directory at `self.path`. `place` makes its place from the rules in it.
    fn list(
        &mut self,
        handle: &Arc<Handle>,
        above: &Rules,
        place: impl FnOnce(Rules) -> Place,
    ) -> Result<(), Errno> {
        self.tour.observe_directory(self.path.absolute(), handle);
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut directory = RawDir::new(handle.as_fd(), buffer.spare_capacity_mut());
        let listed = self.list_from(&mut directory, handle, above, place);
        buffer.clear();
        self.buffer = buffer;
        listed
    }

    fn list_from(
        &mut self,
        directory: &mut RawDir<'_, rustix::fd::BorrowedFd<'_>>,
        handle: &Arc<Handle>,
        above: &Rules,
        place: impl FnOnce(Rules) -> Place,
    ) -> Result<(), Errno> {
        let mut listing = Listing::default();
        listing.read(directory)?;
        let mut more = Listing::default();
        if self.tour.sorted {
            let mut before = 0;
            while listing.len() > before {
                before = listing.len();
                listing.read(directory)?;
            }
            listing.sort();
        } else if !listing.is_empty() {
            more.read(directory)?;
        }
        let Some(rules) = self.rules(handle, above, &listing, more.is_empty()) else {
            return Ok(());
        };
        let place = Arc::new(place(rules));
        while !listing.is_empty() && !self.tour.crew.is_stopped() {
            let (place, handle) = (Arc::clone(&place), Some(Arc::clone(handle)));
            self.batch(Batch { place, handle, listing, next: 0 });
            listing = std::mem::take(&mut more);
            if !listing.is_empty() {
                more.read(directory)?;
            }
        }
        Ok(())
    }

    /// The rules in a directory. They must be known before the first entry is shown; if the first buffer held all of the
    /// directory, it also says which ignore files there are.
    fn rules(
        &mut self,
        handle: &Arc<Handle>,
        above: &Rules,
        listing: &Listing,
        complete: bool,
    ) -> Option<Rules> {
        let mut signs = if complete { Signs::default() } else { Signs::UNKNOWN };
        listing.names().for_each(|name| signs.see(name));
        if signs == Signs::default() {
            return Some(above.clone());
        }
        let mut files = RuleFiles::new(self.tour.lookup, self.tour.options.ignore_files);
        match files.read(handle.as_fd(), Path::new(""), self.path.absolute(), signs) {
            Ok(added) => {
                self.tour.observe_all(files.seen);
                Some(above.with(self.path.absolute(), added))
            }
            Err(unusable) => {
                self.note(&unusable_note(&unusable));
                None
            }
        }
    }

    fn batch(&mut self, mut batch: Batch) {
        self.path.set_place(&batch.place);
        let handle = match batch.handle.take() {
            Some(handle) => handle,
            None => match self.tour.handles.open_from_root(self.path.relative()) {
                Ok(handle) => handle,
                Err(errno) => return self.note(&meaning(errno).to_string()),
            },
        };
        while let Some((name, kind)) = batch.listing.get(batch.next) {
            batch.next += 1;
            self.path.set(&batch.place, name.to_bytes());
            match self.entry(&batch.place, &handle, name, kind) {
                Next::Entry => {}
                Next::Stop => return self.tour.crew.stop(),
                Next::Descend(pending) if self.tour.sorted => {
                    return self.interrupt(batch, &handle, pending);
                }
                Next::Descend(pending) => self.found.push_back(Work::Directory(pending)),
            }
            self.share(&mut batch, &handle);
        }
    }

    /// Goes below a directory before the entries after it.
    fn interrupt(&mut self, mut batch: Batch, handle: &Arc<Handle>, pending: Pending) {
        if batch.next < batch.listing.len() {
            batch.handle = self.tour.handles.keep(handle);
            self.found.push_back(Work::Entries(batch));
        }
        // It is the next one, so its parent's handle is not kept for long.
        let handle = Some(Arc::clone(handle));
        self.found.push_back(Work::Directory(Pending { handle, ..pending }));
    }

    /// Looks at one entry, whose path is in `self.path`.
    fn entry(
        &mut self,
        place: &Arc<Place>,
        handle: &Arc<Handle>,
        name: &CStr,
        kind: Option<FileKind>,
    ) -> Next {
        self.entries += 1;
        let cancelled = self.entries.is_multiple_of(ENTRIES_PER_LOOK) && self.is_over();
        if cancelled || self.tour.crew.is_stopped() {
            return Next::Stop;
        }
        let Some(kind) = kind.or_else(|| Some(stat_child(handle, name).ok()?.kind)) else {
            return Next::Entry;
        };
        if self.is_hidden(place, name, kind) {
            return Next::Entry;
        }
        let path = self.path.relative();
        let opener = Found { tour: self.tour, handle, name, kind, path };
        let entry = Entry { path, kind, depth: place.depth, opener: &opener };
        match self.visitor.visit(&entry) {
            Walk::Stop => Next::Stop,
            Walk::Skip => Next::Entry,
            Walk::Continue => {
                let below =
                    kind == FileKind::Directory && place.depth < self.tour.options.max_depth;
                if !below {
                    return Next::Entry;
                }
                Next::Descend(Pending {
                    parent: Arc::clone(place),
                    handle: self.tour.handles.keep(handle),
                    name: name.to_owned(),
                })
            }
        }
    }

    fn is_hidden(&self, place: &Place, name: &CStr, kind: FileKind) -> bool {
        if kind == FileKind::Directory
            && self.tour.skip_version_control
            && is_version_control(name.to_bytes())
        {
            return true;
        }
        let path = self.path.absolute();
        let options = self.tour.options;
        let is_hidden = place.rules.hide(path, kind) || (options.hidden)(as_path(path));
        if is_hidden {
            (options.left_out)(as_path(path), kind);
        }
        is_hidden
    }

    /// Gives work away if another thread needs it: directories before entries, the oldest first.
    fn share(&mut self, batch: &mut Batch, handle: &Arc<Handle>) {
        let need = self.tour.crew.need(self.entries);
        if need == Need::None {
            return;
        }
        let left = batch.listing.len() - batch.next;
        if !self.found.is_empty() {
            let half = self.found.len().div_ceil(2);
            self.tour.crew.give(self.found.drain(..half));
        } else if left >= WORTH_GIVING {
            let listing = batch.listing.split_off(batch.next + left / 2);
            let (place, handle) = (Arc::clone(&batch.place), Some(Arc::clone(handle)));
            self.tour.crew.give([Work::Entries(Batch { place, handle, listing, next: 0 })]);
        } else {
            return;
        }
        if need == Need::Thread {
            self.start_another();
        }
    }

    fn start_another(&mut self) {
        let crew = &self.tour.crew;
        if !crew.sign_on() {
            return;
        }
        // The next one comes when there is as much to do again.
        self.entries = 0;
        let (tour, scope) = (self.tour, self.scope);
        let thread = Builder::new().name("walk".into()).spawn_scoped(scope, move || {
            tour.guard(|| Worker::new(tour, scope).work());
        });
        if thread.is_err() {
            crew.sign_off();
        }
    }

    fn note(&self, why: &str) {
        self.tour.note(self.path.relative(), why);
    }
}

/// An entry, by its directory's handle.
struct Found<'f, 'r, 'a> {
    tour: &'f Tour<'r, 'a>,
    handle: &'f Handle,
    name: &'f CStr,
    kind: FileKind,
    path: &'f Path,
}

impl Found<'_, '_, '_> {
    fn refusal(&self, doing: &'static str, kind: FileErrorKind) -> FileError {
        let root = self.tour.root.inside.as_ref().unwrap_or(&self.tour.root.path);
        FileError::new(doing, root.join(self.path), kind)
    }

    /// The listing said that it is a regular file. Should it no longer be one, opening it does not wait, and what was opened
    /// is asked again.
    fn open_file(&self) -> Result<OpenFile, FileErrorKind> {
        if self.kind != FileKind::File {
            return Err(FileErrorKind::NotRegular(self.kind));
        }
        let name = OsStr::from_bytes(self.name.to_bytes());
        let opened = open_child(self.handle.as_fd(), name, FOR_READING).map_err(meaning)?;
        let stat = stat(&opened).map_err(meaning)?;
        match stat.kind {
            FileKind::File => Ok(OpenFile { file: opened.into(), stat }),
            other => Err(FileErrorKind::NotRegular(other)),
        }
    }
}

impl Opener for Found<'_, '_, '_> {
    fn open(&self) -> Result<OpenFile, FileError> {
        self.open_file().map_err(|kind| self.refusal("read", kind))
    }

    fn stat(&self) -> Result<Stat, FileError> {
        stat_child(self.handle, self.name).map_err(|errno| self.refusal("look at", meaning(errno)))
    }
}
