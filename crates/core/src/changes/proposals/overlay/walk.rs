//! A walk over files with proposals applied: existing objects, and new ones that are only proposed.
//!
//! A walk by one thread visits objects in the order of their paths, a directory before its contents, and new objects are visited in
//! that order as well. A walk by several threads has no order, and new objects come last.

use std::path::Path;

use super::{Overlay, is_directory};
use crate::changes::commit::recorded_path;
use crate::changes::proposals::Proposal;
use crate::sync::Lock;
use crate::{
    Entry, FileError, FileKind, FileState, Files as _, OpenFile, Opener, Resolved, Stat, Visitor,
    Walk, WalkOptions,
};

/// Proposed objects below the root of a walk that do not exist yet.
pub(super) struct NewObjects<'o> {
    overlay: &'o Overlay<'o>,
    root: &'o Resolved,
    options: &'o WalkOptions<'o>,
    /// Proposals that were not visited yet, last one first.
    left: Lock<Vec<Proposal>>,
}

impl<'o> NewObjects<'o> {
    /// Collects the proposed new objects below the root of a walk.
    pub(super) fn below(
        overlay: &'o Overlay<'o>,
        root: &'o Resolved,
        options: &'o WalkOptions<'o>,
    ) -> Self {
        let held = &overlay.proposals.held.lock().by_path;
        // The walk does not visit a root that is a directory, only its contents.
        let is_itself = |one: &Proposal| one.path == root.path && is_directory(&one.then);
        let is_new = |one: &&Proposal| {
            one.base == FileState::Absent && one.path.starts_with(&root.path) && !is_itself(one)
        };
        let left = held.values().rev().filter(is_new).cloned().collect();
        Self { overlay, root, options, left: Lock::new(left) }
    }

    /// Visits all proposals that were not visited yet.
    pub(super) fn show_rest(&self, visitor: &mut dyn Visitor) {
        self.show_while(visitor, &|_| true);
    }

    /// Visits the proposals whose paths come before a path.
    fn show_before(&self, path: &Path, visitor: &mut dyn Visitor) -> Walk {
        self.show_while(visitor, &|next| next < path)
    }

    /// Visits proposals in order for as long as `is_next` accepts their path.
    fn show_while(&self, visitor: &mut dyn Visitor, is_next: &dyn Fn(&Path) -> bool) -> Walk {
        let next = || self.left.lock().pop_if(|next| is_next(&next.path));
        while let Some(next) = next() {
            let walk = self.show(&next, visitor);
            self.skip_below(walk, &next.path);
            if walk == Walk::Stop {
                return Walk::Stop;
            }
        }
        Walk::Continue
    }

    /// Drops the proposals that the visitor of a path wants to skip.
    fn skip_below(&self, walk: Walk, path: &Path) {
        match walk {
            Walk::Continue => {}
            Walk::Skip => self.left.lock().retain(|one| !one.path.starts_with(path)),
            Walk::Stop => self.left.lock().clear(),
        }
    }

    /// Passes one proposed object to the visitor.
    fn show(&self, proposal: &Proposal, visitor: &mut dyn Visitor) -> Walk {
        let Ok(path) = proposal.path.strip_prefix(&self.root.path) else { return Walk::Continue };
        let depth = path.components().count();
        let kind = match proposal.then {
            FileState::File { .. } => FileKind::File,
            FileState::Symlink { .. } => FileKind::Symlink,
            FileState::Directory { .. } => FileKind::Directory,
            _ => return Walk::Continue,
        };
        if depth > self.options.max_depth || (self.options.hidden)(&proposal.path) {
            return Walk::Continue;
        }
        let opener = ProposalOpener::of(self.overlay, &proposal.path);
        visitor.visit(&Entry { path, kind, depth, opener: &opener })
    }
}

/// Visitor that shows proposed states instead of the real ones to an inner visitor.
pub(super) struct OverlayVisitor<'o, 'v> {
    pub(super) new: &'o NewObjects<'o>,
    pub(super) inner: Box<dyn Visitor + 'v>,
}

impl Visitor for OverlayVisitor<'_, '_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        let Self { new, inner } = self;
        let root = &new.root.path;
        let is_root = entry.path.as_os_str().is_empty();
        let path = if is_root { root.clone() } else { root.join(entry.path) };
        let is_in_order = new.options.threads == 1;
        if is_in_order && new.show_before(&path, &mut **inner) == Walk::Stop {
            return Walk::Stop;
        }
        let walk = Self::visit_one(new, &mut **inner, entry, &path);
        if is_in_order {
            new.skip_below(walk, &path);
        }
        walk
    }
}

impl OverlayVisitor<'_, '_> {
    /// Passes one existing object to the inner visitor, with its proposed state if there is one.
    fn visit_one(
        new: &NewObjects<'_>,
        inner: &mut dyn Visitor,
        entry: &Entry<'_>,
        path: &Path,
    ) -> Walk {
        let kind = match new.overlay.proposed_state(path) {
            None => return inner.visit(entry),
            Some(FileState::Absent | FileState::Other) => return Walk::Skip,
            Some(FileState::File { .. }) => FileKind::File,
            Some(FileState::Symlink { .. }) => FileKind::Symlink,
            Some(FileState::Directory { .. }) => FileKind::Directory,
        };
        let opener = ProposalOpener::of(new.overlay, path);
        inner.visit(&Entry { kind, opener: &opener, ..*entry })
    }
}

/// Opens a proposed file during a walk.
struct ProposalOpener<'o> {
    overlay: &'o Overlay<'o>,
    path: Resolved,
}

impl<'o> ProposalOpener<'o> {
    fn of(overlay: &'o Overlay<'o>, path: &Path) -> Self {
        Self { overlay, path: recorded_path(overlay.inner, path) }
    }
}

impl Opener for ProposalOpener<'_> {
    fn open(&self) -> Result<OpenFile, FileError> {
        self.overlay.open(&self.path)
    }

    fn stat(&self) -> Result<Stat, FileError> {
        self.overlay.stat(&self.path)
    }
}
