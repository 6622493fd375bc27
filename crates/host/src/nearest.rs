//! Finds "did you mean ...?" suggestions for paths that do not exist.
//!
//! Suggests only paths inside the workspace that a walk would show: a hint must not name hidden files.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use windlass_core::{Entry, FileKind, Resolved, Visitor, Walk, WalkOptions, likeness};

use crate::resolver::PathResolver;
use crate::walk::walk;

/// Maximum entries of the workspace that one search visits.
const MAX_ENTRIES: usize = 2_000;

/// Minimum likeness of two names in the same directory for one to be taken for a misspelling of the other.
const MIN_LIKENESS: f64 = 0.6;

/// Minimum likeness for a name in another directory, which must be nearly the same.
const MIN_LIKENESS_ELSEWHERE: f64 = 0.85;

/// Returns the existing path, relative to the workspace, that was probably meant.
pub(crate) fn nearest(resolver: &PathResolver, path: &Path) -> Option<PathBuf> {
    let asked = resolver.resolve(path).ok().filter(|found| !found.exists)?.inside?;
    correct_components(resolver, &asked).or_else(|| find_elsewhere(resolver, &asked))
}

/// Replaces each missing component of the path by the most similar name that exists in that directory.
fn correct_components(resolver: &PathResolver, asked: &Path) -> Option<PathBuf> {
    let mut here = PathBuf::new();
    for component in asked.components() {
        let Component::Normal(name) = component else { return None };
        let next = here.join(name);
        here = if resolve_inside(resolver, &next).exists {
            next
        } else {
            here.join(closest_name(resolver, &here, &name.to_string_lossy())?)
        };
    }
    Some(here)
}

/// Returns the entry of a directory whose name is most similar to the wanted one.
fn closest_name(resolver: &PathResolver, directory: &Path, wanted: &str) -> Option<OsString> {
    let directory = resolve_inside(resolver, directory);
    let best = search(resolver, &directory, 1, &|entry| {
        let likeness_score = likeness(wanted, &entry.path.to_string_lossy());
        (likeness_score >= MIN_LIKENESS).then_some(likeness_score)
    })?;
    best.file_name().map(OsString::from)
}

/// Finds a file of nearly the same name elsewhere in the workspace.
fn find_elsewhere(resolver: &PathResolver, asked: &Path) -> Option<PathBuf> {
    let wanted = asked.file_name()?.to_string_lossy();
    let workspace = resolve_inside(resolver, Path::new(""));
    search(resolver, &workspace, usize::MAX, &|entry| {
        if entry.kind != FileKind::File {
            return None;
        }
        let likeness_score = likeness(&wanted, &entry.path.file_name()?.to_string_lossy());
        (likeness_score >= MIN_LIKENESS_ELSEWHERE).then_some(likeness_score)
    })
}

/// Returns the path `inside` the workspace as a resolved path, without following links.
fn resolve_inside(resolver: &PathResolver, inside: &Path) -> Resolved {
    let path = resolver.workspace().join(inside);
    let mut place = resolver.resolved(path, true);
    place.exists = resolver.pin(&place).is_ok();
    place
}

/// Returns the entry with the highest score among the first [`MAX_ENTRIES`] that a walk shows. Of equal scores the shallowest wins,
/// then the first by name.
fn search(
    resolver: &PathResolver,
    root: &Resolved,
    max_depth: usize,
    score: &(dyn Fn(&Entry<'_>) -> Option<f64> + Sync),
) -> Option<PathBuf> {
    let best = Mutex::new(BestMatch { remaining_entries: MAX_ENTRIES, found: None });
    let options = WalkOptions { max_depth, threads: 1, ..WalkOptions::default() };
    walk(resolver, root, &options, &|| Box::new(CandidateVisitor { score, best: &best })).ok()?;
    let best = best.into_inner().unwrap_or_else(PoisonError::into_inner);
    Some(root.inside.as_ref()?.join(best.found?.path))
}

/// Best candidate so far, and the number of entries that may still be visited.
struct BestMatch {
    remaining_entries: usize,
    found: Option<PathCandidate>,
}

/// A path that was possibly meant.
struct PathCandidate {
    likeness_score: f64,
    depth: usize,
    path: PathBuf,
}

/// Visitor that scores entries and keeps the best one.
struct CandidateVisitor<'a> {
    score: &'a (dyn Fn(&Entry<'_>) -> Option<f64> + Sync),
    best: &'a Mutex<BestMatch>,
}

impl Visitor for CandidateVisitor<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        if best.remaining_entries == 0 {
            return Walk::Stop;
        }
        best.remaining_entries -= 1;
        if let Some(likeness_score) = (self.score)(entry)
            && best.found.as_ref().is_none_or(|found| found.is_worse_than(likeness_score, entry))
        {
            let (depth, path) = (entry.depth, entry.path.to_owned());
            best.found = Some(PathCandidate { likeness_score, depth, path });
        }
        Walk::Continue
    }
}

impl PathCandidate {
    /// Returns whether another entry with this score is better.
    fn is_worse_than(&self, likeness_score: f64, entry: &Entry<'_>) -> bool {
        match likeness_score.total_cmp(&self.likeness_score) {
            std::cmp::Ordering::Equal => {
                (entry.depth, entry.path.as_os_str().as_bytes())
                    < (self.depth, self.path.as_os_str().as_bytes())
            }
            order => order.is_gt(),
        }
    }
}
