//! "Did you mean …?" for paths: what is near a path that leads nowhere.
//!
//! Only inside the workspace, and only what a walk would show: a hint must not name what is hidden.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use windlass_core::{Entry, FileKind, Resolved, Visitor, Walk, WalkOptions, likeness};

use crate::resolver::Resolver;
use crate::walk::walk;

/// How much of the workspace is looked through.
const MAX_ENTRIES: usize = 2_000;

/// Names less alike than this are not the same one mistyped.
const ALIKE: f64 = 0.6;

/// Somewhere else in the tree a name must be nearly the same.
const NEARLY_THE_SAME: f64 = 0.85;

/// An existing path that was probably meant, relative to the workspace.
pub(crate) fn nearest(resolver: &Resolver, path: &Path) -> Option<PathBuf> {
    let asked = resolver.resolve(path).ok().filter(|found| !found.exists)?.inside?;
    mistyped(resolver, &asked).or_else(|| misplaced(resolver, &asked))
}

/// The same path, with the components that do not exist exchanged for the closest ones that do.
fn mistyped(resolver: &Resolver, asked: &Path) -> Option<PathBuf> {
    let mut here = PathBuf::new();
    for component in asked.components() {
        let Component::Normal(name) = component else { return None };
        let next = here.join(name);
        here = if place(resolver, &next).exists {
            next
        } else {
            here.join(closest_name(resolver, &here, &name.to_string_lossy())?)
        };
    }
    Some(here)
}

fn closest_name(resolver: &Resolver, directory: &Path, wanted: &str) -> Option<OsString> {
    let directory = place(resolver, directory);
    let best = search(resolver, &directory, 1, &|entry| {
        let alike = likeness(wanted, &entry.path.to_string_lossy());
        (alike >= ALIKE).then_some(alike)
    })?;
    best.file_name().map(OsString::from)
}

/// A file of the same name elsewhere.
fn misplaced(resolver: &Resolver, asked: &Path) -> Option<PathBuf> {
    let wanted = asked.file_name()?.to_string_lossy();
    let workspace = place(resolver, Path::new(""));
    search(resolver, &workspace, usize::MAX, &|entry| {
        if entry.kind != FileKind::File {
            return None;
        }
        let alike = likeness(&wanted, &entry.path.file_name()?.to_string_lossy());
        (alike >= NEARLY_THE_SAME).then_some(alike)
    })
}

/// The path inside the workspace; no link is followed to it.
fn place(resolver: &Resolver, inside: &Path) -> Resolved {
    let path = resolver.workspace().join(inside);
    let mut place = resolver.resolved(path, true);
    place.exists = resolver.pin(&place).is_ok();
    place
}

/// The best of the first entries that a walk shows; of equals the shallowest, then the first by name.
fn search(
    resolver: &Resolver,
    root: &Resolved,
    max_depth: usize,
    judge: &(dyn Fn(&Entry<'_>) -> Option<f64> + Sync),
) -> Option<PathBuf> {
    let best = Mutex::new(Best { left: MAX_ENTRIES, found: None });
    let options = WalkOptions {
        max_depth,
        ignore_files: true,
        version_control: false,
        threads: 1,
        hidden: &|_| false,
        left_out: &|_, _| {},
        cancelled: &|| false,
    };
    walk(resolver, root, &options, &|| Box::new(Judge { judge, best: &best })).ok()?;
    let best = best.into_inner().unwrap_or_else(PoisonError::into_inner);
    Some(root.inside.as_ref()?.join(best.found?.path))
}

struct Best {
    left: usize,
    found: Option<Candidate>,
}

struct Candidate {
    alike: f64,
    depth: usize,
    path: PathBuf,
}

struct Judge<'a> {
    judge: &'a (dyn Fn(&Entry<'_>) -> Option<f64> + Sync),
    best: &'a Mutex<Best>,
}

impl Visitor for Judge<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        if best.left == 0 {
            return Walk::Stop;
        }
        best.left -= 1;
        if let Some(alike) = (self.judge)(entry)
            && best.found.as_ref().is_none_or(|found| found.is_worse_than(alike, entry))
        {
            let (depth, path) = (entry.depth, entry.path.to_owned());
            best.found = Some(Candidate { alike, depth, path });
        }
        Walk::Continue
    }
}

impl Candidate {
    fn is_worse_than(&self, alike: f64, entry: &Entry<'_>) -> bool {
        match alike.total_cmp(&self.alike) {
            std::cmp::Ordering::Equal => {
                (entry.depth, entry.path.as_os_str().as_bytes())
                    < (self.depth, self.path.as_os_str().as_bytes())
            }
            order => order.is_gt(),
        }
    }
}
