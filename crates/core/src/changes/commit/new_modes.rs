//! The modes of files that are made without one being told, as the record needs them: without its mode on record, a file that a person
//! made executable since would look as the call left it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Step, beside};
use crate::{FileError, FileErrorKind, FileState, Files, To};

/// The modes of new files, by their directories.
#[derive(Default)]
pub(super) struct NewModes(HashMap<PathBuf, Option<u32>>);

impl NewModes {
    /// Completes the state that a step leaves, if it is a file that gets its mode from where it is made.
    pub(super) fn tell(&mut self, files: &dyn Files, step: &Step<'_>, after: &mut FileState) {
        let FileState::File { attributes, .. } = after else { return };
        if attributes.mode.is_some() || !matches!(step.to, To::File { .. }) {
            return;
        }
        let Some(directory) = step.path.path.parent() else { return };
        attributes.mode = match self.0.get(directory) {
            Some(known) => *known,
            None => *self.0.entry(directory.to_owned()).or_insert_with(|| find(files, directory)),
        };
        if attributes.mode.is_some() && attributes.extended.is_none() {
            // Nobody has attached anything to it yet.
            attributes.extended = Some(Vec::new());
        }
    }
}

/// Asks the directory, or the nearest above it that is there: one that is made in it hands down the same.
fn find(files: &dyn Files, directory: &Path) -> Option<u32> {
    for directory in directory.ancestors() {
        match files.new_file_mode(&beside(files, directory)) {
            Err(FileError { kind: FileErrorKind::NotFound, .. }) => {}
            answer => return answer.ok().flatten(),
        }
    }
    None
}
