//! Walks a tree by directory handles, on several threads.
//!
//! It does not use path strings: a name that was listed in a directory is opened in that very directory, so no link can be swapped
//! in, and the kernel looks up one component instead of all. A walk shows what ripgrep shows (dotfiles included, symlinks not
//! followed, ignore files obeyed, repositories' own directories left out), except for what `.aiexclude` and the caller hide.
//!
//! A tree may be wider and deeper than memory, open files or a stack allow for. So there is no recursion, a directory is read piece
//! by piece, a pending directory stores its name and its parent instead of its path, and beyond a number of open handles a
//! directory is opened again from the root.

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
    Entry, FileError, FileKind, Fingerprint, OpenFile, Opener, Resolved, SkippedPath, Stat,
    Visitor, WalkOptions, WalkReport, quote,
};

use crate::ancestry::{self, without_final_slash};
use crate::ignore_files::UnusableExcludeFile;
use crate::ignore_rules::IgnoreRules;
use crate::kernel::{Lookup, as_path, errno_file_error, stat};
use crate::resolver::PathResolver;
use crew::WorkerPool;
use handles::DirectoryHandles;
use worker::Worker;

/// Maximum notes in a report. More would help no reader.
const MAX_NOTES: usize = 200;

/// Directories that belong to a version control system, never to the project.
const VERSION_CONTROL: [&[u8]; 7] = [b".git", b".hg", b".svn", b".jj", b".bzr", b"_darcs", b"CVS"];

/// Creates one visitor for each thread.
pub(crate) type Visitors<'r, 'a> = &'r (dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a);

/// Visits everything below `root`, or the one file that `root` is.
pub(crate) fn walk<'a>(
    resolver: &PathResolver,
    root: &Resolved,
    options: &WalkOptions<'a>,
    visitors: Visitors<'_, 'a>,
) -> Result<WalkReport, FileError> {
    let failed = |errno| errno_file_error("list", root, errno);
    let pinned = resolver.pin(root).map_err(failed)?;
    let ancestry = match ancestry::read(resolver, root, options.ignore_files) {
        Ok(ancestry) => ancestry,
        Err(unusable) => return Ok(empty_report(unusable_note(&unusable))),
    };
    let excluded_by =
        ancestry.excluded_by.clone().or_else(|| ancestry.excluding(&root.path, pinned.stat.kind));
    if let Some(file) = excluded_by {
        return Ok(empty_report(format!("it is hidden by {}", quote::path(&file))));
    }
    if pinned.stat.kind != FileKind::Directory {
        return Ok(visit_root_file(resolver, root, pinned.stat, options, visitors));
    }
    let state = WalkState::new(resolver.lookup(), root, options, visitors, pinned.handle);
    state.observe_all(ancestry.fingerprints);
    state.run(&ancestry.rules).map_err(failed)?;
    Ok(state.report())
}

/// State that the threads of one walk share.
struct WalkState<'r, 'a> {
    root: &'r Resolved,
    /// Absolute path of the root without a final slash, so that a slash and a name can follow.
    root_path: &'r [u8],
    options: &'r WalkOptions<'a>,
    visitors: Visitors<'r, 'a>,
    lookup: Lookup,
    handles: DirectoryHandles,
    pool: WorkerPool,
    /// True if directories of version control are left out: always, unless the options include them or the walk began inside one.
    skip_version_control: bool,
    /// True if entries are visited in sorted order, which takes a single thread.
    sorted: bool,
    notes: Mutex<Notes>,
    /// True until too many directories and ignore files were observed for the report.
    observing: AtomicBool,
    /// Listed directories and read ignore files, with their fingerprints.
    observed: Mutex<Vec<(PathBuf, Fingerprint)>>,
}

/// Notes about entries that could not be read, at most [`MAX_NOTES`], and the number of those beyond.
#[derive(Default)]
struct Notes {
    kept: Vec<SkippedPath>,
    left_out: usize,
}

impl<'r, 'a> WalkState<'r, 'a> {
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
            handles: DirectoryHandles::new(handle, lookup),
            pool: WorkerPool::new(options.threads),
            skip_version_control: !options.version_control && !is_in_version_control(&root.path),
            sorted: options.threads == 1,
            notes: Mutex::default(),
            observing: AtomicBool::new(true),
            observed: Mutex::default(),
        }
    }

    /// Walks on this thread, and on others as soon as there is enough work for them.
    fn run(&self, rules: &IgnoreRules) -> Result<(), Errno> {
        let walked = std::thread::scope(|scope| {
            self.run_guarded(|| Worker::new(self, scope).walk_from_root(rules))
        });
        match self.pool.take_panic() {
            // The panic continues on the caller's thread, as if there had been no threads: the caller contains panics call by call.
            Some(panic) => resume_unwind(panic),
            None => walked.unwrap_or(Ok(())),
        }
    }

    /// Runs a thread's part of the walk and catches a panic. If it panics, the other threads are stopped: they would wait for it
    /// forever.
    fn run_guarded<T>(&self, part: impl FnOnce() -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(part)).map_err(|panic| self.pool.stop_with_panic(panic)).ok()
    }

    /// Adds a note about a path that could not be read.
    fn note(&self, path: &Path, why: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.kept.len() < MAX_NOTES {
            notes.kept.push(SkippedPath { path: path.to_owned(), why: why.to_owned() });
        } else {
            notes.left_out += 1;
        }
    }

    fn is_observing(&self) -> bool {
        self.observing.load(Ordering::Relaxed)
    }

    /// Adds observed files to the report. Gives up on observing once there are too many.
    fn observe_all(&self, seen: impl IntoIterator<Item = (PathBuf, Fingerprint)>) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        observed.extend(seen);
        if observed.len() > WalkReport::MAX_OBSERVED {
            self.observing.store(false, Ordering::Relaxed);
            observed.clear();
        }
    }

    /// Adds a directory that is about to be listed to the report.
    fn observe_directory(&self, path: &[u8], handle: impl AsFd) {
        if self.is_observing()
            && let Ok(stat) = stat(handle)
        {
            let path = if path.is_empty() { b"/" } else { path };
            self.observe_all([(as_path(path).to_owned(), stat.fingerprint)]);
        }
    }

    /// Builds the report of the walk.
    fn report(self) -> WalkReport {
        let observing = self.is_observing();
        let notes = self.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let observed = self.observed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut kept = notes.kept;
        kept.sort_by(|a, b| a.path.cmp(&b.path));
        if notes.left_out > 0 {
            let why = format!("{} more could not be looked at", notes.left_out);
            kept.push(SkippedPath { path: PathBuf::new(), why });
        }
        WalkReport { notes: kept, observed: observing.then_some(observed) }
    }
}

/// Returns an empty report with a note that says why it is empty.
fn empty_report(why: String) -> WalkReport {
    WalkReport { notes: vec![SkippedPath { path: PathBuf::new(), why }], observed: None }
}

/// Returns the text of a note about an `.aiexclude` that cannot be read.
fn unusable_note(unusable: &UnusableExcludeFile) -> String {
    let UnusableExcludeFile { path, why } = unusable;
    format!("{} cannot be used ({why}), so nothing that it might hide is shown", quote::path(path))
}

fn is_version_control(name: &[u8]) -> bool {
    VERSION_CONTROL.contains(&name)
}

fn is_in_version_control(path: &Path) -> bool {
    path.components().any(|part| is_version_control(part.as_os_str().as_bytes()))
}

/// Visits the root of the walk if it is not a directory.
fn visit_root_file(
    resolver: &PathResolver,
    root: &Resolved,
    stat: Stat,
    options: &WalkOptions<'_>,
    visitors: Visitors<'_, '_>,
) -> WalkReport {
    if !(options.hidden)(&root.path) && !(options.cancelled)() {
        let opener = RootFile { resolver, root };
        let entry = Entry { path: Path::new(""), kind: stat.kind, depth: 0, opener: &opener };
        // The walk has only this one entry, so the visitor's answer does not matter.
        let _: windlass_core::Walk = visitors().visit(&entry);
    }
    let observed = vec![(root.path.clone(), stat.fingerprint)];
    WalkReport { notes: Vec::new(), observed: Some(observed) }
}

/// Opens the root of the walk if it is not a directory.
struct RootFile<'a> {
    resolver: &'a PathResolver,
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
