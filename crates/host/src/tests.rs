//! Tests of this crate. Those of path lookup run with both ways of lookup, by the kernel and by component.

mod adopt;
mod alter;
mod attributes;
mod backend;
mod batch;
mod build_directories;
mod create;
mod delta;
mod exclusion;
mod inspect;
mod isolate;
mod links;
mod locks;
mod mask_layer;
mod moved;
mod nearest;
mod paths;
mod process;
mod processes;
mod quota;
mod race;
mod remove;
mod replace;
mod scan;
mod session_tmp;
mod special_files;
mod stage;
mod staged;
mod survey;
mod survey_edits;
mod survey_index;
mod torture;
mod trees;
mod walk;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_core::{
    Alteration, Altered, Attributes, ContentSource, ExpectedState, FileError, FileErrorKind, Files,
    Fingerprint, Resolved, TargetState,
};

use crate::kernel::Lookup;
use crate::{Durability, LocalFiles};

pub(crate) const LOOKUPS: [Lookup; 2] = [Lookup::Openat2, Lookup::ByComponent];

/// A temporary directory with a workspace `work` and a directory `outside` in it.
pub(crate) struct TestWorkspace {
    directory: TempDir,
}

impl TestWorkspace {
    pub(crate) fn new() -> Self {
        let ground = Self { directory: TempDir::new().unwrap() };
        fs::create_dir_all(ground.work("")).unwrap();
        fs::create_dir_all(ground.path("outside")).unwrap();
        ground
    }

    /// Creates the workspace with these files; a name that ends in `/` is a directory.
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
        LocalFiles::open_by(&self.work(""), lookup, Durability::Disk).unwrap()
    }

    /// Returns the names of all entries of a directory, sorted.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.path(name))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Resolves and reads a file, as a tool would.
pub(crate) fn read(files: &LocalFiles, path: impl AsRef<Path>) -> Result<String, FileError> {
    let mut text = String::new();
    files.open(&files.resolve(path.as_ref())?)?.file.read_to_string(&mut text).unwrap();
    Ok(text)
}

pub(crate) fn at(files: &LocalFiles, path: impl AsRef<Path>) -> Resolved {
    files.resolve(path.as_ref()).unwrap()
}

/// Returns the path in the workspace without resolving it, so a link is not followed.
pub(crate) fn place(files: &LocalFiles, inside: impl AsRef<Path>) -> Resolved {
    let inside = inside.as_ref().to_owned();
    Resolved { path: files.workspace().join(&inside), inside: Some(inside), exists: true }
}

pub(crate) fn seen(files: &LocalFiles, path: impl AsRef<Path>) -> Fingerprint {
    files.stat(&at(files, path)).unwrap().fingerprint
}

/// Returns the expectation that the path is as it is now, without following a link.
pub(crate) fn expect(files: &LocalFiles, place: &Resolved) -> ExpectedState {
    files
        .inspect(place)
        .unwrap()
        .map_or(ExpectedState::Absent, |found| ExpectedState::Same(found.stat.fingerprint))
}

pub(crate) fn alter(
    files: &LocalFiles,
    path: &Resolved,
    expect: ExpectedState,
    to: TargetState<'_>,
) -> Result<Altered, FileError> {
    files.alter(path, &Alteration { expect, to, temporary: None })
}

/// Resolves and writes a file, as a tool would.
pub(crate) fn write(
    files: &LocalFiles,
    path: impl AsRef<Path>,
    content: impl AsRef<[u8]>,
    expect: ExpectedState,
) -> Result<Altered, FileError> {
    alter(files, &files.resolve(path.as_ref())?, expect, file(content.as_ref(), None))
}

/// Writes over the current content of a file.
pub(crate) fn rewrite(
    files: &LocalFiles,
    path: &str,
    content: impl AsRef<[u8]>,
) -> Result<Altered, FileError> {
    let seen = seen(files, path);
    write(files, path, content, ExpectedState::Same(seen))
}

pub(crate) fn file<'a>(content: &'a [u8], attributes: Option<&'a Attributes>) -> TargetState<'a> {
    TargetState::File { content: ContentSource::Bytes(content), attributes }
}

/// Returns the name of an error's kind, for tables.
pub(crate) fn name(kind: &FileErrorKind) -> String {
    let text = format!("{kind:?}");
    text.split_once('(').map_or(text.clone(), |(name, _)| name.to_owned())
}

pub(crate) fn error<T: std::fmt::Debug>(result: Result<T, FileError>) -> String {
    name(&result.unwrap_err().kind)
}
