//! The build directories that one run changed, and the record of them that survives us.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use windlass_core::Note;

use super::build_merge::BuildMerge;

/// The file on a stage that says that its build directories are being merged.
const RECORD: &str = "built";

/// Build directories whose changes are on a stage.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Built {
    pub(super) workspace: PathBuf,
    /// Relative to the workspace.
    pub(super) directories: Vec<PathBuf>,
}

impl Built {
    /// Writes down, on the stage at `stage`, that the changes are to be kept.
    pub(super) fn record(&self, stage: &Path) -> io::Result<()> {
        let paths = [&self.workspace].into_iter().chain(&self.directories);
        let paths: Vec<&[u8]> = paths.map(|path| path.as_os_str().as_bytes()).collect();
        let temporary = stage.join("built.tmp");
        fs::write(&temporary, paths.join(&0))?;
        fs::rename(temporary, stage.join(RECORD))
    }

    /// The record of a stage that was left behind.
    pub(super) fn recorded(stage: &Path) -> Option<Self> {
        let bytes = fs::read(stage.join(RECORD)).ok()?;
        let mut paths = bytes.split(|byte| *byte == 0).map(|path| OsStr::from_bytes(path).into());
        Some(Self { workspace: paths.next()?, directories: paths.collect() })
    }

    /// Keeps the changes. Returns what could not be kept, and why. Each step can be repeated, so that a failure which passes does not
    /// keep a part only.
    pub(super) fn settle(&self, stage: &Path) -> Vec<Note> {
        let left = self.try_to_settle(stage);
        if left.is_empty() { left } else { self.try_to_settle(stage) }
    }

    fn try_to_settle(&self, stage: &Path) -> Vec<Note> {
        let note = |path: &Path, error: &io::Error| Note {
            path: self.workspace.join(path),
            why: error.to_string(),
        };
        if self.directories.is_empty() {
            return Vec::new();
        }
        match self.merge(stage) {
            Err(error) => self.directories.iter().map(|path| note(path, &error)).collect(),
            Ok(merge) => {
                let kept = self.directories.iter().map(|path| (path, merge.merge(path)));
                kept.filter_map(|(path, kept)| Some(note(path, &kept.err()?))).collect()
            }
        }
    }

    pub(super) fn merge(&self, stage: &Path) -> io::Result<BuildMerge> {
        let id = stage.file_name().unwrap_or_default().to_string_lossy();
        let name = format!(".windlass-{id}.tmp");
        BuildMerge::new(&stage.join("upper"), &self.workspace, &stage.join("trash"), &name)
    }
}
