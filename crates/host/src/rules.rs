//! Which ignore files hide what: the rules that hold in one directory, on top of those of the directories above it.
//!
//! A chain of links shared between all walks of a directory's children, so entering a directory without ignore files costs a
//! reference count. Matching is that of the `ignore` crate; the order of precedence is ripgrep's: every `.rgignore` beats every
//! `.ignore` beats every `.gitignore` beats `.git/info/exclude`, and within one kind the deeper file beats the shallower. A
//! repository's own rules end where the repository does. `.aiexclude` stands apart: it hides whatever the others say.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::Gitignore;
use windlass_core::FileKind;

use crate::kernel::as_path;

/// The kinds of ignore files, in order of precedence after `.aiexclude`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    AiExclude,
    RgIgnore,
    Ignore,
    GitIgnore,
    GitExclude,
}

impl Kind {
    /// The kinds that may hide or show, the strongest first.
    const IGNORING: [Self; 4] = [Self::RgIgnore, Self::Ignore, Self::GitIgnore, Self::GitExclude];

    fn ends_at_repository(self) -> bool {
        matches!(self, Self::GitIgnore | Self::GitExclude)
    }
}

/// The rules of one directory and of all above it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules(Option<Arc<Node>>);

/// What one directory adds to the rules.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    pub(crate) matchers: Vec<(Kind, Gitignore)>,
    /// Whether it is the root of a repository.
    pub(crate) repository: bool,
}

#[derive(Debug)]
struct Node {
    above: Rules,
    added: Additions,
    /// How many bytes of an absolute path are this directory's, with the slash after it.
    base: usize,
}

impl Rules {
    /// The rules inside the directory at `path` (absolute, without a final slash).
    pub(crate) fn with(&self, path: &[u8], added: Additions) -> Self {
        if added.matchers.is_empty() && !added.repository {
            return self.clone();
        }
        Self(Some(Arc::new(Node { above: self.clone(), added, base: path.len() + 1 })))
    }

    /// Whether there are no rules at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Tells whether the directory is in a repository, or is the root of one.
    pub(crate) fn are_in_repository(&self) -> bool {
        self.nodes().any(|node| node.added.repository)
    }

    /// These rules for a workspace at a path below them, or none if they ignore the workspace itself: a repository does not govern
    /// what it ignores.
    pub(crate) fn around(self, workspace: &Path) -> Self {
        let is_ignored =
            |path: &Path| self.ignored(path.as_os_str().as_bytes(), FileKind::Directory);
        if workspace.ancestors().any(is_ignored) { Self::default() } else { self }
    }

    /// Whether an object directly in this directory is hidden. `path` is absolute.
    pub(crate) fn hide(&self, path: &[u8], kind: FileKind) -> bool {
        self.0.is_some() && (self.excluded(path, kind).is_some() || self.ignored(path, kind))
    }

    /// The directory, as the first so many bytes of `path`, whose `.aiexclude` hides the object.
    pub(crate) fn excluded<'p>(&self, path: &'p [u8], kind: FileKind) -> Option<&'p [u8]> {
        let (node, hidden) = self
            .nodes()
            .find_map(|node| Some((node, node.answer(Kind::AiExclude, path, kind)?)))?;
        path.get(..node.base - 1).filter(|_| hidden)
    }

    /// Whether an ignore file, other than `.aiexclude`, hides it.
    pub(crate) fn ignored(&self, path: &[u8], kind: FileKind) -> bool {
        Kind::IGNORING
            .into_iter()
            .find_map(|of| self.nodes_for(of).find_map(|node| node.answer(of, path, kind)))
            .unwrap_or(false)
    }

    /// The directories whose files of one kind count here, the deepest first.
    fn nodes_for(&self, of: Kind) -> impl Iterator<Item = &Node> {
        let mut left_repository = false;
        self.nodes().take_while(move |node| {
            let counts = !(left_repository && of.ends_at_repository());
            left_repository |= node.added.repository;
            counts
        })
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(self.0.as_deref(), |node| node.above.0.as_deref())
    }
}

impl Node {
    /// What this directory's file of one kind says: hidden, shown, or nothing.
    fn answer(&self, of: Kind, path: &[u8], kind: FileKind) -> Option<bool> {
        let (_, matcher) = self.added.matchers.iter().find(|(kind, _)| *kind == of)?;
        let relative = as_path(path.get(self.base..)?);
        match matcher.matched(relative, kind == FileKind::Directory) {
            ignore::Match::None => None,
            ignore::Match::Ignore(_) => Some(true),
            ignore::Match::Whitelist(_) => Some(false),
        }
    }
}

impl Drop for Node {
    /// Link by link: a tree may be deeper than a stack.
    fn drop(&mut self) {
        let mut next = self.above.0.take();
        while let Some(mut node) = next.and_then(Arc::into_inner) {
            next = node.above.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_may_be_longer_than_a_stack() {
        let mut rules = Rules::default();
        for _ in 0..500_000 {
            rules = rules.with(b"/w", Additions { matchers: Vec::new(), repository: true });
        }
        assert!(!rules.is_empty());
    }
}
