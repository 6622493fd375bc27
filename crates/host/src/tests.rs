//! The tests of this crate: each looks at both ways of looking up a path, by the kernel and by component.

mod change;
mod exclusion;
mod nearest;
mod paths;
mod race;
mod remove;
mod special_files;
mod trees;
mod walk;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_core::{FileError, FileErrorKind, Files};

use crate::LocalFiles;
use crate::kernel::Lookup;

pub(crate) const LOOKUPS: [Lookup; 2] = [Lookup::AtOnce, Lookup::ByComponent];

/// A directory that is gone after the test, with a workspace `work` and a directory `outside` in it.
pub(crate) struct Ground {
    directory: TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let ground = Self { directory: TempDir::new().unwrap() };
        fs::create_dir_all(ground.work("")).unwrap();
        fs::create_dir_all(ground.path("outside")).unwrap();
        ground
    }

    /// With these files in the workspace; a name that ends in `/` is a directory.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let ground = Self::new();
        for (name, content) in files {
            ground.put(&format!("work/{name}"), content);
        }
        ground
    }

    pub(crate) fn put(&self, name: &str, content: &str) {
        let path = self.path(name);
        if name.ends_with('/') {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let real = fs::canonicalize(self.directory.path()).unwrap();
        if name.is_empty() { real } else { real.join(name) }
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.path("work").join(name)
    }

    pub(crate) fn files(&self, lookup: Lookup) -> LocalFiles {
        LocalFiles::open_with(&self.work(""), lookup).unwrap()
    }

    /// Every name below, sorted, with no difference between kinds.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.path(name))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Resolves and reads, as a tool would.
pub(crate) fn read(files: &LocalFiles, path: impl AsRef<Path>) -> Result<String, FileError> {
    let mut text = String::new();
    files.open(&files.resolve(path.as_ref())?)?.file.read_to_string(&mut text).unwrap();
    Ok(text)
}

/// The name of an error's kind, for tables.
pub(crate) fn name(kind: &FileErrorKind) -> String {
    let text = format!("{kind:?}");
    text.split_once('(').map_or(text.clone(), |(name, _)| name.to_owned())
}

pub(crate) fn error<T: std::fmt::Debug>(result: Result<T, FileError>) -> String {
    name(&result.unwrap_err().kind)
}
