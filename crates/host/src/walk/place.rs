//! A directory during a walk: its name, its parent, and the rules in it.
//!
//! Paths are built only when they are needed, so a million directories that wait to be listed cost one name each, however deep the
//! tree is.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use crate::ignore_rules::IgnoreRules;
use crate::kernel::as_path;

/// A directory of the tree that is being walked.
pub(super) struct WalkDirectory {
    parent: Option<Arc<WalkDirectory>>,
    name: CString,
    /// Depth of its entries: 1 in the root.
    pub(super) depth: usize,
    /// Length of its path from the root of the walk on, with a slash before each name.
    length: usize,
    pub(super) rules: IgnoreRules,
}

impl WalkDirectory {
    /// Creates the node of the walk's root.
    pub(super) fn root(rules: IgnoreRules) -> Self {
        Self { parent: None, name: CString::default(), depth: 1, length: 0, rules }
    }

    /// Creates the node of a subdirectory.
    pub(super) fn below(parent: Arc<WalkDirectory>, name: CString, rules: IgnoreRules) -> Self {
        let (depth, length) = (parent.depth + 1, parent.length + 1 + name.as_bytes().len());
        Self { parent: Some(parent), name, depth, length, rules }
    }
}

impl Drop for WalkDirectory {
    /// Drops the chain of parents in a loop, because a tree may be deeper than the stack allows for recursion.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut place) = next.and_then(Arc::into_inner) {
            next = place.parent.take();
        }
    }
}

/// Builds the absolute path of the current entry in one reused buffer.
pub(super) struct PathBuffer<'r> {
    /// Path of the walk's root without a final slash, so that a slash and a name can follow.
    root: &'r [u8],
    path: Vec<u8>,
    /// The directory whose path the buffer begins with. Its bytes are reused if the next path is in or below it.
    place: Option<Arc<WalkDirectory>>,
}

impl<'r> PathBuffer<'r> {
    pub(super) fn new(root: &'r [u8]) -> Self {
        Self { root, path: root.to_vec(), place: None }
    }

    /// Returns the absolute path, without a final slash.
    pub(super) fn absolute(&self) -> &[u8] {
        &self.path
    }

    /// Returns the path from the root of the walk on.
    pub(super) fn relative(&self) -> &Path {
        as_path(self.path.get(self.root.len() + 1..).unwrap_or_default())
    }

    /// Sets the path to that of a name in a directory.
    pub(super) fn set(&mut self, place: &Arc<WalkDirectory>, name: &[u8]) {
        self.set_directory(place);
        self.path.push(b'/');
        self.path.extend_from_slice(name);
    }

    /// Sets the path to that of a directory.
    pub(super) fn set_directory(&mut self, place: &Arc<WalkDirectory>) {
        let known = match (&self.place, &place.parent) {
            (Some(here), _) if Arc::ptr_eq(here, place) => place.length,
            (Some(here), Some(parent)) if Arc::ptr_eq(here, parent) => parent.length,
            _ => 0,
        };
        self.path.truncate(self.root.len() + known);
        self.path.resize(self.root.len() + place.length, b'/');
        let mut end = self.path.len();
        let mut at = &**place;
        while let Some(parent) = at.parent.as_deref().filter(|_| at.length > known) {
            let name = at.name.as_bytes();
            if let Some(spot) = self.path.get_mut(end - name.len()..end) {
                spot.copy_from_slice(name);
            }
            end -= name.len() + 1;
            at = parent;
        }
        if !self.place.as_ref().is_some_and(|here| Arc::ptr_eq(here, place)) {
            self.place = Some(Arc::clone(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(parent: &Arc<WalkDirectory>, name: &str) -> Arc<WalkDirectory> {
        let name = CString::new(name).unwrap();
        Arc::new(WalkDirectory::below(Arc::clone(parent), name, IgnoreRules::default()))
    }

    #[test]
    fn a_chain_may_be_longer_than_a_stack() {
        let mut place = Arc::new(WalkDirectory::root(IgnoreRules::default()));
        for _ in 0..500_000 {
            place = child(&place, "d");
        }
        assert_eq!(place.length, 1_000_000);
    }

    #[test]
    fn paths_in_any_order() {
        let root = Arc::new(WalkDirectory::root(IgnoreRules::default()));
        let (a, b) = (child(&root, "a"), child(&root, "bb"));
        let (deep, deeper) = (child(&a, "ccc"), child(&child(&b, "d"), "e"));
        let mut spelling = PathBuffer::new(b"/w");
        for (place, expected) in [
            (&root, "/w/x"),
            (&a, "/w/a/x"),
            (&deep, "/w/a/ccc/x"),
            (&deep, "/w/a/ccc/x"),
            (&deeper, "/w/bb/d/e/x"),
            (&b, "/w/bb/x"),
            (&a, "/w/a/x"),
            (&root, "/w/x"),
        ] {
            spelling.set(place, b"x");
            assert_eq!(spelling.absolute(), expected.as_bytes());
            assert_eq!(spelling.relative().to_str().unwrap(), &expected[3..]);
        }
    }
}
