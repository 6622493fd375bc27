//! Build directories that one run changed, and the records of them that survive this process.
//!
//! A stage has up to two records. [`TIED_RECORD`] is written before the other changes of a call are committed, and names the call: after a
//! crash, the history tells whether these were committed. A stage that is held for an approval has this record even without build
//! directories. [`RECORD`] is written after the commit, or first if there are no other changes: from then on the changes of the build
//! directories are to be kept in any case.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use windlass_core::{CallId, SkippedPath, quote};

use super::build_merge::BuildMerge;
use super::durable::{sync_name, write_record};

/// Name of the record on a stage whose build directories are being merged.
const RECORD: &str = "built";

/// Name of the record on a stage with the call that commits its changes. Its build directories are merged, and its approval is closed, if
/// the other changes were committed.
const TIED_RECORD: &str = "built.tied";

/// Build directories with changes on a stage.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Built {
    pub(super) workspace: PathBuf,
    /// Paths relative to the workspace.
    pub(super) directories: Vec<PathBuf>,
}

/// Record of a stage that was left behind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BuiltRecord {
    pub(super) built: Built,
    /// `None` if the changes are to be kept in any case.
    pub(super) tie: Option<Tie>,
}

/// The call whose commit decides about the changes of build directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tie {
    pub(super) call: CallId,
    /// State directory whose history knows the call. Stages of several state directories can be in one directory.
    pub(super) state: PathBuf,
}

impl Built {
    /// Records, on the stage at `stage`, that the changes are to be kept.
    pub(super) fn record(&self, stage: &Path) -> io::Result<()> {
        // A command that changed no build directory does not wait for the disk.
        if self.directories.is_empty() {
            return Ok(());
        }
        let fields = self.fields().join(&0);
        // If the other record exists, the stage's name is on the disk already.
        let is_first = !stage.join(TIED_RECORD).exists();
        write_record(stage, RECORD, &fields)?;
        if is_first { sync_name(stage) } else { Ok(()) }
    }

    /// Records, on the stage at `stage`, that the changes are to be kept if those of a call are committed.
    pub(super) fn record_tie(&self, stage: &Path, tie: &Tie) -> io::Result<()> {
        let mut fields = vec![tie.call.as_str().as_bytes(), tie.state.as_os_str().as_bytes()];
        fields.extend(self.fields());
        write_record(stage, TIED_RECORD, &fields.join(&0))?;
        sync_name(stage)
    }

    /// Returns the fields of a record: the workspace and the directories.
    fn fields(&self) -> Vec<&[u8]> {
        let paths = [&self.workspace].into_iter().chain(&self.directories);
        paths.map(|path| path.as_os_str().as_bytes()).collect()
    }

    /// Parses these fields.
    fn parse<'a>(mut fields: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut path = || fields.next().map(|path| PathBuf::from(OsStr::from_bytes(path)));
        Some(Self { workspace: path()?, directories: std::iter::from_fn(path).collect() })
    }

    /// Keeps the changes, and returns the directories that could not be kept, with reasons. Tries twice, so that a passing failure does not
    /// leave a part behind: each step can be repeated.
    pub(super) fn keep_changes(&self, stage: &Path) -> Vec<SkippedPath> {
        let left = self.try_to_keep(stage);
        if left.is_empty() { left } else { self.try_to_keep(stage) }
    }

    /// Merges all build directories once, and returns those that failed.
    fn try_to_keep(&self, stage: &Path) -> Vec<SkippedPath> {
        let note = |path: &Path, error: &io::Error| SkippedPath {
            path: self.workspace.join(path),
            why: error.to_string(),
        };
        if self.directories.is_empty() {
            return Vec::new();
        }
        match self.merge(stage) {
            Err(error) => self.directories.iter().map(|path| note(path, &error)).collect(),
            Ok(merge) => {
                let kept =
                    self.directories.iter().map(|path| (path, merge_unless_replaced(&merge, path)));
                kept.filter_map(|(path, kept)| Some(note(path, &kept.err()?))).collect()
            }
        }
    }

    /// Prepares the merge of the stage into the workspace.
    pub(super) fn merge(&self, stage: &Path) -> io::Result<BuildMerge> {
        let id = stage.file_name().unwrap_or_default().to_string_lossy();
        let name = format!(".windlass-{id}.tmp");
        BuildMerge::new(&stage.join("upper"), &self.workspace, &stage.join("trash"), &name)
    }
}

impl BuiltRecord {
    /// Reads the record of a stage that was left behind; `None` if it has none. After an error it may have one.
    pub(super) fn read(stage: &Path) -> io::Result<Option<Self>> {
        if let Some(bytes) = read(&stage.join(RECORD))? {
            return Ok(Built::parse(fields(&bytes)).map(|built| Self { built, tie: None }));
        }
        let Some(bytes) = read(&stage.join(TIED_RECORD))? else { return Ok(None) };
        let mut fields = fields(&bytes);
        let (Some(call), Some(state)) = (fields.next(), fields.next()) else { return Ok(None) };
        let call = CallId::new(String::from_utf8_lossy(call).into_owned());
        let tie = Tie { call, state: OsStr::from_bytes(state).into() };
        Ok(Built::parse(fields).map(|built| Self { built, tie: Some(tie) }))
    }

    /// Removes the records of a stage, whose changes are then dropped with it.
    pub(super) fn forget(stage: &Path) -> io::Result<()> {
        // The record that counts is removed last: after a crash in between, the next process does the same again.
        for name in [TIED_RECORD, RECORD] {
            match fs::remove_file(stage.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Merges one build directory, unless it was replaced: the stage has only the changes in it.
fn merge_unless_replaced(merge: &BuildMerge, path: &Path) -> io::Result<()> {
    if merge.is_replaced(path) {
        let name = quote::path(path);
        return Err(io::Error::other(format!("{name} was replaced by another program")));
    }
    merge.merge(path)
}

/// Splits a record into its fields.
fn fields(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0)
}

/// Reads a file; `None` if it does not exist.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
