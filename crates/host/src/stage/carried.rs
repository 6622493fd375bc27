//! Directories beside the workspace whose changes are kept or dropped together with those of the run: the programs' home and the layers
//! over toolchains.
//!
//! They have no history. A run gets a layer over each of them, on its stage; if its changes are kept, these are moved over by rename.
//! Otherwise nothing of them stays, because files in a home decide what later programs run (`~/.bashrc`, `~/.cargo/bin`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use windlass_core::SkippedPath;

use super::build_merge::BuildMerge;

/// A directory whose changes are in a layer on a stage.
#[derive(Debug)]
pub(crate) struct CarriedDirectory {
    /// The layer with the changes.
    pub(crate) upper: PathBuf,
    /// The directory that gets the changes.
    pub(crate) target: PathBuf,
    pub(crate) kind: CarriedKind,
}

/// Kind of a directory beside the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarriedKind {
    /// The programs' home.
    Home,
    /// An upper layer of overlays, with whiteouts and overlay attributes in it.
    Layer,
}

impl CarriedDirectory {
    /// Moves the changes over. `stage` is the directory of the stage. Returns a note if they could not be moved.
    pub(super) fn keep_changes(&self, stage: &Path) -> Option<SkippedPath> {
        if is_empty(&self.upper) {
            return None;
        }
        let why = self.merge(stage).err()?.to_string();
        Some(SkippedPath { path: self.target.clone(), why })
    }

    /// Moves the changes over, or fails.
    fn merge(&self, stage: &Path) -> io::Result<()> {
        let id = stage.file_name().unwrap_or_default().to_string_lossy();
        let name = format!(".windlass-{id}.tmp");
        let merge = BuildMerge::new(&self.upper, &self.target, &stage.join("trash"), &name)?;
        let merge = if self.kind == CarriedKind::Layer { merge.into_upper_layer() } else { merge };
        merge.merge_all()
    }
}

/// Returns whether a directory can be listed and is empty.
fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}
