//! Directories beside the workspace whose changes go the way of the run's: the programs' home and the layers over toolchains.
//!
//! They have no history. A run gets a layer over each of them, on its stage; where its changes are kept, so are these, by rename. What
//! a run leaves in its home decides what later programs run (`~/.bashrc`, `~/.cargo/bin`), so nothing of it stays otherwise.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use windlass_core::Note;

use super::build_merge::BuildMerge;

/// A directory whose changes are in a layer on a stage.
#[derive(Debug)]
pub(crate) struct CarriedDirectory {
    /// The layer.
    pub(crate) upper: PathBuf,
    /// The directory that gets the changes.
    pub(crate) target: PathBuf,
    pub(crate) kind: CarriedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarriedKind {
    /// The programs' home.
    Home,
    /// An upper layer of overlays, with whiteouts and other notes of overlayfs in it.
    Layer,
}

impl CarriedDirectory {
    /// Brings the changes over. `stage` is the directory of the stage. Returns what could not be brought over, and why.
    pub(super) fn settle(&self, stage: &Path) -> Option<Note> {
        if is_empty(&self.upper) {
            return None;
        }
        let why = self.try_to_settle(stage).err()?.to_string();
        Some(Note { path: self.target.clone(), why })
    }

    fn try_to_settle(&self, stage: &Path) -> io::Result<()> {
        let id = stage.file_name().unwrap_or_default().to_string_lossy();
        let name = format!(".windlass-{id}.tmp");
        let merge = BuildMerge::new(&self.upper, &self.target, &stage.join("trash"), &name)?;
        let merge = if self.kind == CarriedKind::Layer { merge.into_upper_layer() } else { merge };
        merge.merge_all()
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}
