//! A directory in the course of a walk: its name, the directory it is in, and the rules in it.
//!
//! Paths are spelled out only when they are needed, so a million directories that wait to be listed cost a name each, and a tree
//! of any depth costs no more than that.

use std::ffi::CString;
use std::sync::Arc;

use crate::rules::Rules;

pub(super) struct Place {
    parent: Option<Arc<Place>>,
    name: CString,
    /// How deep its entries are: 1 in the root.
    pub(super) depth: usize,
    /// How long its path is, from the root of the walk, with a slash before each name.
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

    /// Writes the absolute path into `path`, without a final slash. `root` is that of the walk's root.
    pub(super) fn spell(&self, root: &[u8], path: &mut Vec<u8>) {
        path.clear();
        path.extend_from_slice(root);
        path.resize(root.len() + self.length, b'/');
        let mut end = path.len();
        let mut place = self;
        while let Some(parent) = &place.parent {
            let name = place.name.as_bytes();
            if let Some(spot) = path.get_mut(end - name.len()..end) {
                spot.copy_from_slice(name);
            }
            end -= name.len() + 1;
            place = parent;
        }
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
