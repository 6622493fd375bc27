//! Walks a tree by directory handles, on several threads.
//!
//! Not by path strings: a name that was seen in a directory is opened in that very directory, so nothing can slip in under it, and
//! the kernel looks up one component instead of all. What a walk shows is what ripgrep shows (dotfiles included, symlinks not
//! followed, ignore files obeyed, repositories' own directories left out), minus what `.aiexclude` and the caller hide.
//!
//! A tree may be wider and deeper than memory, open files or a stack allow for. So there is no recursion, a directory is read piece
//! by piece, a place knows its name and its parent instead of its path, and beyond a number of open handles a directory is found
//! again from the root.

mod crew;
mod handles;
mod listing;
mod place;
mod worker;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use windlass_core::{
    Entry, FileError, FileKind, Fingerprint, Note, OpenFile, Opener, Resolved, Stat, Visitor,
    WalkOptions, WalkReport, quote,
};

use crate::ancestry::{self, without_final_slash};
use crate::kernel::{Lookup, as_path, failure, stat};
use crate::resolver::Resolver;
use crate::rule_files::Unusable;
use crate::rules::Rules;
use crew::Crew;
use handles::Handles;
use worker::Worker;

/// More notes than this help nobody.
const MAX_NOTES: usize = 200;

/// Directories that belong to a version control system, never to the project.
const VERSION_CONTROL: [&[u8]; 7] = [b".git", b".hg", b".svn", b".jj", b".bzr", b"_darcs", b"CVS"];

/// Makes one visitor for each thread.
pub(crate) type Visitors<'r, 'a> = &'r (dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a);

/// Visits everything below `root`, or the one file that it is.
pub(crate) fn walk<'a>(
    resolver: &Resolver,
    root: &Resolved,
    options: &WalkOptions<'a>,
    visitors: Visitors<'_, 'a>,
) -> Result<WalkReport, FileError> {
    let failed = |errno| failure("list", root, errno);
    let pinned = resolver.pin(root).map_err(failed)?;
    let ancestry = match ancestry::read(resolver, root, options.ignore_files) {
        Ok(ancestry) => ancestry,
        Err(unusable) => return Ok(nothing_because(unusable_note(&unusable))),
    };
    let excluded_by =
        ancestry.excluded_by.clone().or_else(|| ancestry.excluding(&root.path, pinned.stat.kind));
    if let Some(file) = excluded_by {
        return Ok(nothing_because(format!("it is hidden by {}", quote::path(&file))));
    }
    if pinned.stat.kind != FileKind::Directory {
        return Ok(visit_alone(resolver, root, pinned.stat, options, visitors));
    }
    let tour = Tour::new(resolver.lookup(), root, options, visitors, pinned.handle);
    tour.observe_all(ancestry.seen);
    tour.run(&ancestry.rules).map_err(failed)?;
    Ok(tour.report())
}

/// Everything that the threads of one walk share.
struct Tour<'r, 'a> {
    root: &'r Resolved,
    /// The root's absolute path, such that a slash and a name can follow.
    root_path: &'r [u8],
    options: &'r WalkOptions<'a>,
    visitors: Visitors<'r, 'a>,
    lookup: Lookup,
    handles: Handles,
    crew: Crew,
    /// Whether directories of version control are left out: unless the walk began inside one.
    skip_version_control: bool,
    sorted: bool,
    notes: Mutex<Notes>,
    observing: AtomicBool,
    observed: Mutex<Vec<(PathBuf, Fingerprint)>>,
}

#[derive(Default)]
struct Notes {
    kept: Vec<Note>,
    left_out: usize,
}

impl<'r, 'a> Tour<'r, 'a> {
    fn new(
        lookup: Lookup,
        root: &'r Resolved,
        options: &'r WalkOptions<'a>,
        visitors: Visitors<'r, 'a>,
        handle: OwnedFd,
    ) -> Self {
        Self {
            root,
            root_path: without_final_slash(&root.path),
            options,
            visitors,
            lookup,
            handles: Handles::new(handle, lookup),
            crew: Crew::new(options.threads),
            skip_version_control: !options.version_control && !is_in_version_control(&root.path),
            sorted: options.threads == 1,
            notes: Mutex::default(),
            observing: AtomicBool::new(true),
            observed: Mutex::default(),
        }
    }

    /// Walks on this thread, and on others as soon as there is enough for them to do.
    fn run(&self, rules: &Rules) -> Result<(), Errno> {
        let walked =
            std::thread::scope(|scope| self.guard(|| Worker::new(self, scope).lead(rules)));
        match self.crew.take_panic() {
            // As if there had been no threads: the caller contains panics by call.
            Some(panic) => resume_unwind(panic),
            None => walked.unwrap_or(Ok(())),
        }
    }

    /// Does a thread's part of the walk. If it panics, the others are told to stop: they would wait for it for ever.
    fn guard<T>(&self, part: impl FnOnce() -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(part)).map_err(|panic| self.crew.panicked(panic)).ok()
    }

    fn note(&self, path: &Path, why: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.kept.len() < MAX_NOTES {
            notes.kept.push(Note { path: path.to_owned(), why: why.to_owned() });
        } else {
            notes.left_out += 1;
        }
    }

    fn is_observing(&self) -> bool {
        self.observing.load(Ordering::Relaxed)
    }

    fn observe_all(&self, seen: impl IntoIterator<Item = (PathBuf, Fingerprint)>) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        observed.extend(seen);
        if observed.len() > WalkReport::MAX_OBSERVED {
            self.observing.store(false, Ordering::Relaxed);
            observed.clear();
        }
    }

    fn observe_directory(&self, path: &[u8], handle: impl AsFd) {
        if self.is_observing()
            && let Ok(stat) = stat(handle)
        {
            let path = if path.is_empty() { b"/" } else { path };
            self.observe_all([(as_path(path).to_owned(), stat.fingerprint)]);
        }
    }

    fn report(self) -> WalkReport {
        let observing = self.is_observing();
        let notes = self.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let observed = self.observed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut kept = notes.kept;
        kept.sort_by(|a, b| a.path.cmp(&b.path));
        if notes.left_out > 0 {
            let why = format!("{} more could not be looked at", notes.left_out);
            kept.push(Note { path: PathBuf::new(), why });
        }
        WalkReport { notes: kept, observed: observing.then_some(observed) }
    }
}

/// A report that says why there is nothing in it.
fn nothing_because(why: String) -> WalkReport {
    WalkReport { notes: vec![Note { path: PathBuf::new(), why }], observed: None }
}

fn unusable_note(unusable: &Unusable) -> String {
    let Unusable { path, why } = unusable;
    format!("{} cannot be used ({why}), so nothing that it might hide is shown", quote::path(path))
}

fn is_version_control(name: &[u8]) -> bool {
    VERSION_CONTROL.contains(&name)
}

fn is_in_version_control(path: &Path) -> bool {
    path.components().any(|part| is_version_control(part.as_os_str().as_bytes()))
}

fn visit_alone(
    resolver: &Resolver,
    root: &Resolved,
    stat: Stat,
    options: &WalkOptions<'_>,
    visitors: Visitors<'_, '_>,
) -> WalkReport {
    if !(options.hidden)(&root.path) && !(options.cancelled)() {
        let opener = RootFile { resolver, root };
        let entry = Entry { path: Path::new(""), kind: stat.kind, depth: 0, opener: &opener };
        // There is nothing to go on with, whatever the visitor says.
        let _: windlass_core::Walk = visitors().visit(&entry);
    }
    let observed = vec![(root.path.clone(), stat.fingerprint)];
    WalkReport { notes: Vec::new(), observed: Some(observed) }
}

struct RootFile<'a> {
    resolver: &'a Resolver,
    root: &'a Resolved,
}

impl Opener for RootFile<'_> {
    fn open(&self) -> Result<OpenFile, FileError> {
        self.resolver.read(self.root)
    }

    fn stat(&self) -> Result<Stat, FileError> {
        self.resolver.stat(self.root)
    }
}
