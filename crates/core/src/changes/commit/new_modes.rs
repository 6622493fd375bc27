//! The modes of new files for which no mode is given. The undo history needs them: without a recorded mode, a file that a person
//! later made executable would look as the call left it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{CommitStep, recorded_path};
use crate::{FileError, FileErrorKind, FileState, Files, TargetState};

/// Modes of new files, by directory.
#[derive(Default)]
pub(super) struct NewModes(HashMap<PathBuf, Option<u32>>);

impl NewModes {
    /// Completes the recorded state of a new file whose mode depends on its directory.
    pub(super) fn complete(
        &mut self,
        files: &dyn Files,
        step: &CommitStep<'_>,
        after: &mut FileState,
    ) {
        let FileState::File { attributes, .. } = after else { return };
        if attributes.mode.is_some() || !matches!(step.to, TargetState::File { .. }) {
            return;
        }
        let Some(directory) = step.path.path.parent() else { return };
        attributes.mode = match self.0.get(directory) {
            Some(known) => *known,
            None => *self
                .0
                .entry(directory.to_owned())
                .or_insert_with(|| inherited_mode(files, directory)),
        };
        if attributes.mode.is_some() && attributes.extended.is_none() {
            // A new file has no extended attributes.
            attributes.extended = Some(Vec::new());
        }
    }
}

/// Reads the mode from the directory, or from the nearest existing one above it: a directory that is made in it inherits the same
/// rules.
fn inherited_mode(files: &dyn Files, directory: &Path) -> Option<u32> {
    for directory in directory.ancestors() {
        match files.new_file_mode(&recorded_path(files, directory)) {
            Err(FileError { kind: FileErrorKind::NotFound, .. }) => {}
            answer => return answer.ok().flatten(),
        }
    }
    None
}
