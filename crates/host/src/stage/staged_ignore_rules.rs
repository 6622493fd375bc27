//! Decides whether ignore files hide a directory that is on a stage, in the workspace, or partly in both.
//!
//! The ignore files count that a program on the stage saw: the file on the stage if there is one, otherwise the workspace's, unless it was
//! removed.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use windlass_core::FileKind;

use super::entries::Entries;
use crate::ancestry::{self, without_final_slash};
use crate::ignore_files::{IgnoreFileReader, PresentNames};
use crate::ignore_rules::{AddedRules, IgnoreRules};
use crate::isolate::tree::Tree;
use crate::kernel::Lookup;
use crate::resolver::PathResolver;

/// Ignore files of a workspace with a stage over it, read when they are needed.
pub(super) struct StagedIgnoreRules<'a> {
    upper: &'a Tree,
    lower: &'a Tree,
    known: HashMap<PathBuf, DirectoryIgnoreRules>,
}

/// Ignore rules that apply in a directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectoryIgnoreRules {
    /// Rules for its entries.
    pub(crate) rules: IgnoreRules,
    /// True if the directory itself is ignored, or one above it.
    pub(crate) ignored: bool,
}

impl DirectoryIgnoreRules {
    /// Returns whether a directory directly in this one is ignored. `path` is absolute.
    pub(crate) fn ignores(&self, path: &Path) -> bool {
        self.ignored || self.rules.ignored(path.as_os_str().as_bytes(), FileKind::Directory)
    }
}

impl<'a> StagedIgnoreRules<'a> {
    pub(super) fn new(upper: &'a Tree, lower: &'a Tree) -> Self {
        Self { upper, lower, known: HashMap::new() }
    }

    /// Returns the rules that apply to a directory in its parent. The path is relative to the workspace.
    pub(super) fn around(&mut self, path: &Path) -> DirectoryIgnoreRules {
        self.ignore_rules(path.parent().unwrap_or(Path::new("")))
    }

    /// Returns the rules inside a directory, and reads those that are not known yet.
    fn ignore_rules(&mut self, path: &Path) -> DirectoryIgnoreRules {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let mut unknown: Vec<&Path> =
            path.ancestors().take_while(|above| !self.known.contains_key(*above)).collect();
        let above = unknown.last().and_then(|top| top.parent());
        let mut ignore_rules = match above.and_then(|above| self.known.get(above)) {
            Some(known) => known.clone(),
            None => {
                DirectoryIgnoreRules { rules: above_workspace(&self.lower.path), ignored: false }
            }
        };
        while let Some(path) = unknown.pop() {
            ignore_rules = self.enter(&ignore_rules, path);
            self.known.insert(path.to_owned(), ignore_rules.clone());
        }
        ignore_rules
    }

    /// Reads the rules inside a directory from those of its parent.
    fn enter(&self, above: &DirectoryIgnoreRules, path: &Path) -> DirectoryIgnoreRules {
        let absolute = self.lower.path.join(path);
        let ignored = !path.as_os_str().is_empty() && above.ignores(&absolute);
        let absolute = without_final_slash(&absolute);
        let (mut added, taken) = self.read_upper(path, absolute);
        let lower = read(self.lower, path, absolute, PresentNames::UNKNOWN.without(taken));
        added.repository |= lower.repository;
        added.matchers.extend(lower.matchers);
        DirectoryIgnoreRules { rules: above.rules.with(absolute, added), ignored }
    }

    /// Returns the rules of the stage's ignore files, and the names that hide those of the workspace.
    fn read_upper(&self, path: &Path, absolute: &[u8]) -> (AddedRules, PresentNames) {
        let (mut there, mut taken) = (PresentNames::default(), PresentNames::default());
        let Ok(directory) = self.upper.directory(path) else {
            return (AddedRules::default(), taken);
        };
        let listed = Entries::new().each(directory.as_fd(), |name, kind| {
            let name = name.as_bytes();
            // A repository directory on the stage usually holds only the changes to the workspace's.
            if kind != FileKind::Directory {
                taken.add(name);
            }
            if kind != FileKind::Device {
                there.add(name);
            }
        });
        match listed {
            Ok(()) => (read(self.upper, path, absolute, there), taken),
            Err(_) => (AddedRules::default(), taken),
        }
    }
}

/// Reads the rules from the directories above the workspace.
pub(super) fn above_workspace(workspace: &Path) -> IgnoreRules {
    let Ok(resolver) = PathResolver::open(workspace, Lookup::available()) else {
        return IgnoreRules::default();
    };
    let root = resolver.resolved(resolver.workspace().to_owned(), true);
    let found = ancestry::read(&resolver, &root, true);
    found.map(|found| found.rules.around(&root.path)).unwrap_or_default()
}

/// Reads the rules that one directory adds. Unreadable ignore files hide nothing, which only makes the history record more.
fn read(tree: &Tree, path: &Path, absolute: &[u8], present: PresentNames) -> AddedRules {
    let Ok(directory) = tree.directory(path) else { return AddedRules::default() };
    let mut files = IgnoreFileReader::new(tree.lookup, true);
    files.read(directory.as_fd(), Path::new(""), absolute, present).unwrap_or_default()
}
