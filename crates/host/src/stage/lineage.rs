//! Ignore rules along the current path of a depth-first walk.
//!
//! The caller says which directory the walk is in. The rules of that directory and of those above it are read when they are first needed. A
//! walk that takes its answers from an index reads none.

use std::cell::OnceCell;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::io::Errno;
use windlass_core::FileKind;

use super::staged_ignore_rules::DirectoryIgnoreRules;
use crate::ancestry::{self, without_final_slash};
use crate::ignore_files::{IgnoreFileReader, PresentNames};
use crate::ignore_rules::IgnoreRules;
use crate::inputs::{Input, InputState};
use crate::isolate::tree::Tree;
use crate::kernel::as_path;
use crate::resolver::PathResolver;

/// The directories from the root of a tree down to the one that is being walked.
pub(crate) struct Lineage<'a> {
    tree: &'a Tree,
    above: OnceCell<AboveRoot>,
    levels: Vec<Level>,
}

/// Rules that the root of a tree inherits from the directories above it.
#[derive(Debug, Default)]
pub(crate) struct AboveRoot {
    pub(crate) rules: IgnoreRules,
    /// True if a `.aiexclude` above hides the whole tree, or cannot be read and may hide it.
    pub(crate) hides_all: bool,
    pub(crate) inputs: Vec<Input>,
}

/// One directory of the path.
struct Level {
    /// Length of its path relative to the root, in bytes.
    length: usize,
    present: PresentNames,
    rules: Option<LevelRules>,
}

/// Rules for the entries of one directory.
#[derive(Debug)]
pub(crate) struct LevelRules {
    pub(crate) ignore_rules: DirectoryIgnoreRules,
    /// True if the directory's `.aiexclude` cannot be read, so it may hide every entry.
    pub(crate) unusable: bool,
    /// Files in this directory from which the rules were read.
    pub(crate) inputs: Vec<Input>,
}

impl<'a> Lineage<'a> {
    pub(crate) fn new(tree: &'a Tree) -> Self {
        Self { tree, above: OnceCell::new(), levels: Vec::new() }
    }

    /// Enters a directory: `depth` levels below the root, with a relative path of `length` bytes and ignore files as in `present`.
    pub(crate) fn enter(&mut self, depth: usize, length: usize, present: PresentNames) {
        self.levels.truncate(depth);
        self.levels.push(Level { length, present, rules: None });
    }

    /// Returns the rules from above the root.
    pub(crate) fn above(&self) -> &AboveRoot {
        self.above.get_or_init(|| AboveRoot::read(&self.tree.path))
    }

    /// Returns the rules for the entries of the directory entered last, whose relative path is `path`.
    pub(crate) fn rules(&mut self, path: &[u8]) -> Result<&LevelRules, Errno> {
        let known = self.levels.iter().rposition(|level| level.rules.is_some());
        for at in known.map_or(0, |known| known + 1)..self.levels.len() {
            let rules = self.read(at, path)?;
            if let Some(level) = self.levels.get_mut(at) {
                level.rules = Some(rules);
            }
        }
        // This fails only for a walk that never entered a directory.
        self.levels.last().and_then(|level| level.rules.as_ref()).ok_or(Errno::NOENT)
    }

    /// Reads the rules for the entries of the directory at one level. Its parent's rules are known.
    fn read(&self, at: usize, path: &[u8]) -> Result<LevelRules, Errno> {
        let level = self.levels.get(at).ok_or(Errno::NOENT)?;
        let path = as_path(path.get(..level.length).ok_or(Errno::NOENT)?);
        let absolute = self.tree.path.join(path);
        let parent = at.checked_sub(1).and_then(|at| self.levels.get(at)?.rules.as_ref());
        let (above, ignored) = match parent {
            Some(parent) => (&parent.ignore_rules.rules, parent.ignore_rules.ignores(&absolute)),
            None => (&self.above().rules, false),
        };
        let mut rules = LevelRules {
            ignore_rules: DirectoryIgnoreRules { rules: above.clone(), ignored },
            unusable: false,
            inputs: Vec::new(),
        };
        if level.present != PresentNames::default() {
            self.add_own(&mut rules, path, &absolute, level.present)?;
        }
        Ok(rules)
    }

    /// Adds the rules of the directory's own ignore files.
    fn add_own(
        &self,
        rules: &mut LevelRules,
        path: &Path,
        absolute: &Path,
        present: PresentNames,
    ) -> Result<(), Errno> {
        let directory = self.tree.directory(path)?;
        // In an ignored directory everything is ignored, so only `.aiexclude` can add to that.
        let mut files = IgnoreFileReader::new(self.tree.lookup, !rules.ignore_rules.ignored);
        let absolute = without_final_slash(absolute);
        match files.read(directory.as_fd(), Path::new(""), absolute, present) {
            Ok(added) => rules.ignore_rules.rules = rules.ignore_rules.rules.with(absolute, added),
            Err(_) => rules.unusable = true,
        }
        rules.inputs = files.inputs;
        Ok(())
    }
}

impl AboveRoot {
    /// Reads the rules above a root. If they cannot be read, everything counts as hidden.
    fn read(root: &Path) -> Self {
        let unknown = || Self {
            hides_all: true,
            inputs: vec![Input::new(root.to_owned(), InputState::Unknown)],
            ..Self::default()
        };
        let lookup = crate::kernel::Lookup::available();
        let Ok(resolver) = PathResolver::open(root, lookup) else { return unknown() };
        let place = resolver.resolved(resolver.workspace().to_owned(), true);
        let Ok(found) = ancestry::read(&resolver, &place, true) else { return unknown() };
        let excluding = || found.excluding(&place.path, FileKind::Directory);
        let hides_all = found.excluded_by.is_some() || excluding().is_some();
        Self { rules: found.rules.around(&place.path), hides_all, inputs: found.inputs }
    }
}
