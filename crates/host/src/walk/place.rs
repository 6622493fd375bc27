//! A directory in the course of a walk: its name, the directory it is in, and the rules in it.
//!
//! Paths are spelled out only when they are needed, so a million directories that wait to be listed cost a name each, and a tree
//! of any depth costs no more than that.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use crate::kernel::as_path;
use crate::rules::Rules;

pub(super) struct Place {
    parent: Option<Arc<Place>>,
    name: CString,
    /// How deep its entries are: 1 in the root.
    pub(super) depth: usize,
    /// How long its path is from the root of the walk on, with a slash before each name.
    length: usize,
    pub(super) rules: Rules,
}

impl Place {
    pub(super) fn root(rules: Rules) -> Self {
        Self { parent: None, name: CString::default(), depth: 1, length: 0, rules }
    }

    pub(super) fn below(parent: Arc<Place>, name: CString, rules: Rules) -> Self {
        let (depth, length) = (parent.depth + 1, parent.length + 1 + name.as_bytes().len());
        Self { parent: Some(parent), name, depth, length, rules }
    }
}

impl Drop for Place {
    /// One after the other: a tree may be deeper than a stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut place) = next.and_then(Arc::into_inner) {
            next = place.parent.take();
        }
    }
}

/// The absolute path of what is being looked at, spelled out in one buffer.
pub(super) struct Spelling<'r> {
    /// That of the walk's root, such that a slash and a name can follow.
    root: &'r [u8],
    path: Vec<u8>,
    /// The directory that the path begins with. From one directory to the next little changes.
    place: Option<Arc<Place>>,
}

impl<'r> Spelling<'r> {
    pub(super) fn new(root: &'r [u8]) -> Self {
        Self { root, path: root.to_vec(), place: None }
    }

    /// Without a final slash.
    pub(super) fn absolute(&self) -> &[u8] {
        &self.path
    }

    /// From the root of the walk on.
    pub(super) fn relative(&self) -> &Path {
        as_path(self.path.get(self.root.len() + 1..).unwrap_or_default())
    }

    /// Becomes the path of a name in a directory.
    pub(super) fn set(&mut self, place: &Arc<Place>, name: &[u8]) {
        self.set_place(place);
        self.path.push(b'/');
        self.path.extend_from_slice(name);
    }

    /// Becomes the path of a directory.
    pub(super) fn set_place(&mut self, place: &Arc<Place>) {
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

    fn child(parent: &Arc<Place>, name: &str) -> Arc<Place> {
        let name = CString::new(name).unwrap();
        Arc::new(Place::below(Arc::clone(parent), name, Rules::default()))
    }

    #[test]
    fn a_chain_may_be_longer_than_a_stack() {
        let mut place = Arc::new(Place::root(Rules::default()));
        for _ in 0..500_000 {
            place = child(&place, "d");
        }
        assert_eq!(place.length, 1_000_000);
    }

    #[test]
    fn paths_in_any_order() {
        let root = Arc::new(Place::root(Rules::default()));
        let (a, b) = (child(&root, "a"), child(&root, "bb"));
        let (deep, deeper) = (child(&a, "ccc"), child(&child(&b, "d"), "e"));
        let mut spelling = Spelling::new(b"/w");
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
