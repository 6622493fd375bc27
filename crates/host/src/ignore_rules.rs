//! Decides which paths the ignore files of a directory and of the directories above it hide.
//!
//! The rules are a linked chain that all walks of a directory's children share, so entering a directory without ignore files costs
//! one reference count. The `ignore` crate does the matching; the order of precedence is ripgrep's: every `.rgignore` beats every
//! `.ignore` beats every `.gitignore` beats `.git/info/exclude`, and within one kind the deeper file beats the shallower. A
//! repository's own rules end at the root of the repository. `.aiexclude` is separate: it hides a path whatever the other files
//! say.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::Gitignore;
use windlass_core::FileKind;

use crate::kernel::as_path;

/// Kinds of ignore files. Those after `AiExclude` are in order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoreFileKind {
    AiExclude,
    RgIgnore,
    Ignore,
    GitIgnore,
    GitExclude,
}

impl IgnoreFileKind {
    /// The kinds that may hide a path or show it again, the strongest first.
    const IGNORING: [Self; 4] = [Self::RgIgnore, Self::Ignore, Self::GitIgnore, Self::GitExclude];

    /// Returns whether files of this kind apply only within one repository.
    fn ends_at_repository(self) -> bool {
        matches!(self, Self::GitIgnore | Self::GitExclude)
    }
}

/// Ignore rules of one directory and of all directories above it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct IgnoreRules(Option<Arc<RuleNode>>);

/// Ignore rules that one directory adds.
#[derive(Debug, Default)]
pub(crate) struct AddedRules {
    pub(crate) matchers: Vec<(IgnoreFileKind, Gitignore)>,
    /// True if the directory is the root of a repository.
    pub(crate) repository: bool,
}

/// One directory of the chain of rules.
#[derive(Debug)]
struct RuleNode {
    above: IgnoreRules,
    added: AddedRules,
    /// Length in bytes of this directory's absolute path and the slash after it.
    base: usize,
}

impl IgnoreRules {
    /// Returns the rules inside the directory at `path` (absolute, without a final slash).
    pub(crate) fn with(&self, path: &[u8], added: AddedRules) -> Self {
        if added.matchers.is_empty() && !added.repository {
            return self.clone();
        }
        Self(Some(Arc::new(RuleNode { above: self.clone(), added, base: path.len() + 1 })))
    }

    /// Returns whether there are no rules at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the directory is in a repository, or is the root of one.
    pub(crate) fn are_in_repository(&self) -> bool {
        self.nodes().any(|node| node.added.repository)
    }

    /// Returns these rules for a workspace below their directory, or no rules if they ignore the workspace itself: a repository
    /// does not govern directories that it ignores.
    pub(crate) fn around(self, workspace: &Path) -> Self {
        let is_ignored =
            |path: &Path| self.ignored(path.as_os_str().as_bytes(), FileKind::Directory);
        if workspace.ancestors().any(is_ignored) { Self::default() } else { self }
    }

    /// Returns whether an object directly in this directory is hidden. `path` is absolute.
    pub(crate) fn hide(&self, path: &[u8], kind: FileKind) -> bool {
        self.0.is_some() && (self.excluded(path, kind).is_some() || self.ignored(path, kind))
    }

    /// Returns the directory, as a prefix of `path`, whose `.aiexclude` hides the object.
    pub(crate) fn excluded<'p>(&self, path: &'p [u8], kind: FileKind) -> Option<&'p [u8]> {
        let (node, hidden) = self
            .nodes()
            .find_map(|node| Some((node, node.matches(IgnoreFileKind::AiExclude, path, kind)?)))?;
        path.get(..node.base - 1).filter(|_| hidden)
    }

    /// Returns whether an ignore file other than `.aiexclude` hides the object.
    pub(crate) fn ignored(&self, path: &[u8], kind: FileKind) -> bool {
        IgnoreFileKind::IGNORING
            .into_iter()
            .find_map(|of| self.nodes_for(of).find_map(|node| node.matches(of, path, kind)))
            .unwrap_or(false)
    }

    /// Iterates over the directories whose files of one kind apply here, the deepest first.
    fn nodes_for(&self, of: IgnoreFileKind) -> impl Iterator<Item = &RuleNode> {
        let mut left_repository = false;
        self.nodes().take_while(move |node| {
            let counts = !(left_repository && of.ends_at_repository());
            left_repository |= node.added.repository;
            counts
        })
    }

    /// Iterates over the directories of the chain, the deepest first.
    fn nodes(&self) -> impl Iterator<Item = &RuleNode> {
        std::iter::successors(self.0.as_deref(), |node| node.above.0.as_deref())
    }
}

impl RuleNode {
    /// Matches a path against this directory's file of one kind: hidden, shown, or `None` if no pattern matches.
    fn matches(&self, of: IgnoreFileKind, path: &[u8], kind: FileKind) -> Option<bool> {
        let (_, matcher) = self.added.matchers.iter().find(|(kind, _)| *kind == of)?;
        let relative = as_path(path.get(self.base..)?);
        match matcher.matched(relative, kind == FileKind::Directory) {
            ignore::Match::None => None,
            ignore::Match::Ignore(_) => Some(true),
            ignore::Match::Whitelist(_) => Some(false),
        }
    }
}

impl Drop for RuleNode {
    /// Drops the chain in a loop, because a tree may be deeper than the stack allows for recursion.
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
        let mut rules = IgnoreRules::default();
        for _ in 0..500_000 {
            rules = rules.with(b"/w", AddedRules { matchers: Vec::new(), repository: true });
        }
        assert!(!rules.is_empty());
    }
}
