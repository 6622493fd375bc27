//! Whether ignore files hide a directory that is on a stage, in the workspace, or partly on each.
//!
//! What counts is what a program on the stage saw: the ignore file on the stage if there is one, otherwise the workspace's, unless
//! it was removed.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use windlass_core::FileKind;

use super::entries::Entries;
use crate::ancestry::{self, without_final_slash};
use crate::isolate::tree::Tree;
use crate::kernel::Lookup;
use crate::resolver::Resolver;
use crate::rule_files::{RuleFiles, Signs};
use crate::rules::{Additions, Rules};

/// The ignore files of a workspace with a stage over it, read as they are needed.
pub(super) struct Ignoring<'a> {
    upper: &'a Tree,
    lower: &'a Tree,
    known: HashMap<PathBuf, Standing>,
}

/// How a directory stands to the rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// Those in it, for what is in it.
    pub(crate) rules: Rules,
    /// Whether it is ignored itself, or in something that is.
    pub(crate) ignored: bool,
}

impl Standing {
    /// Whether a directory right in this one is ignored. Its path is absolute.
    pub(crate) fn ignores(&self, path: &Path) -> bool {
        self.ignored || self.rules.ignored(path.as_os_str().as_bytes(), FileKind::Directory)
    }
}

impl<'a> Ignoring<'a> {
    pub(super) fn new(upper: &'a Tree, lower: &'a Tree) -> Self {
        Self { upper, lower, known: HashMap::new() }
    }

    /// The rules around a directory. Its path is relative to the workspace.
    pub(super) fn around(&mut self, path: &Path) -> Standing {
        self.standing(path.parent().unwrap_or(Path::new("")))
    }

    fn standing(&mut self, path: &Path) -> Standing {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let mut unknown: Vec<&Path> =
            path.ancestors().take_while(|above| !self.known.contains_key(*above)).collect();
        let above = unknown.last().and_then(|top| top.parent());
        let mut standing = match above.and_then(|above| self.known.get(above)) {
            Some(known) => known.clone(),
            None => Standing { rules: above_workspace(&self.lower.path), ignored: false },
        };
        while let Some(path) = unknown.pop() {
            standing = self.enter(&standing, path);
            self.known.insert(path.to_owned(), standing.clone());
        }
        standing
    }

    fn enter(&self, above: &Standing, path: &Path) -> Standing {
        let absolute = self.lower.path.join(path);
        let ignored = !path.as_os_str().is_empty() && above.ignores(&absolute);
        let absolute = without_final_slash(&absolute);
        let (mut added, taken) = self.read_upper(path, absolute);
        let lower = read(self.lower, path, absolute, Signs::UNKNOWN.without(taken));
        added.repository |= lower.repository;
        added.matchers.extend(lower.matchers);
        Standing { rules: above.rules.with(absolute, added), ignored }
    }

    /// The rules on the stage, and the names that those below do not have any more.
    fn read_upper(&self, path: &Path, absolute: &[u8]) -> (Additions, Signs) {
        let (mut there, mut taken) = (Signs::default(), Signs::default());
        let Ok(directory) = self.upper.directory(path) else {
            return (Additions::default(), taken);
        };
        let listed = Entries::new().each(directory.as_fd(), |name, kind| {
            let name = name.as_bytes();
            // A repository is mostly below, whatever of it is on the stage.
            if kind != FileKind::Directory {
                taken.see(name);
            }
            if kind != FileKind::Device {
                there.see(name);
            }
        });
        match listed {
            Ok(()) => (read(self.upper, path, absolute, there), taken),
            Err(_) => (Additions::default(), taken),
        }
    }
}

/// The rules that come from the directories above the workspace.
pub(super) fn above_workspace(workspace: &Path) -> Rules {
    let Ok(resolver) = Resolver::open(workspace, Lookup::available()) else {
        return Rules::default();
    };
    let root = resolver.resolved(resolver.workspace().to_owned(), true);
    let found = ancestry::read(&resolver, &root, true);
    found.map(|found| found.rules.around(&root.path)).unwrap_or_default()
}

/// What one directory adds. Rules that cannot be read hide nothing: then more is on the record than need be.
fn read(tree: &Tree, path: &Path, absolute: &[u8], signs: Signs) -> Additions {
    let Ok(directory) = tree.directory(path) else { return Additions::default() };
    let mut files = RuleFiles::new(tree.lookup, true);
    files.read(directory.as_fd(), Path::new(""), absolute, signs).unwrap_or_default()
}
