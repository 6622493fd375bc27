//! Writes the changes of a patch to the files, all or none.

use windlass_core::{
    Attributes, CommitStep, ContentSource, Context, ExpectedState, Fingerprint, Resolved,
    TargetState, ToolError,
};

use super::stage::{FileChange, PatchStage, StagedFile};
use crate::format;

/// Makes all changes, or none, and stores remarks about hard links and writes in place in the stage.
pub(super) fn commit(cx: &Context, stage: &mut PatchStage) -> Result<(), ToolError> {
    let places = stage
        .files
        .iter()
        .map(|file| cx.files().resolve(&file.path))
        .collect::<Result<Vec<Resolved>, _>>()?;
    let changed: Vec<usize> = (0..stage.files.len())
        .filter(|at| stage.file_change(*at) != FileChange::Unchanged)
        .collect();
    let steps = changed
        .iter()
        .filter_map(|at| step_for(stage, &places, *at).transpose())
        .collect::<Result<Vec<CommitStep<'_>>, _>>()?;
    let altered = cx.files().commit(&steps).map_err(|error| {
        error.hint("read the file that could not be changed, and send the whole patch again")
    })?;
    for (at, altered) in changed.into_iter().zip(altered) {
        let is_rewritten = stage.file_change(at) == FileChange::Changed;
        if let Some(file) = stage.files.get_mut(at).filter(|_| is_rewritten) {
            let links = file.before.as_ref().map_or(1, |(_, stat)| stat.links);
            file.how_written = format::how_written(links, altered.in_place);
        }
    }
    Ok(())
}

/// Returns the step that changes one file; `None` if it stays unchanged.
fn step_for<'a>(
    stage: &'a PatchStage,
    places: &'a [Resolved],
    at: usize,
) -> Result<Option<CommitStep<'a>>, ToolError> {
    let (Some(file), Some(place)) = (stage.files.get(at), places.get(at)) else { return Ok(None) };
    Ok(match stage.file_change(at) {
        FileChange::Unchanged => None,
        FileChange::Added | FileChange::Changed => {
            let expect =
                file.fingerprint_when_read().map_or(ExpectedState::Absent, ExpectedState::Same);
            let to = new_content(file, file.attributes.as_ref());
            Some(CommitStep { before: file.bytes(), ..CommitStep::new(place.clone(), expect, to) })
        }
        FileChange::Deleted => {
            let seen = file.fingerprint_when_read().ok_or_else(|| missing_file_error(file))?;
            let step =
                CommitStep::new(place.clone(), ExpectedState::Same(seen), TargetState::Nothing);
            Some(CommitStep { before: file.bytes(), ..step })
        }
        FileChange::Moved(origin) => Some(move_step(stage, places, origin, file, place)?),
    })
}

/// Returns the step that moves a file, and rewrites it if its content changed.
fn move_step<'a>(
    stage: &'a PatchStage,
    places: &'a [Resolved],
    origin: usize,
    file: &'a StagedFile,
    place: &Resolved,
) -> Result<CommitStep<'a>, ToolError> {
    let (Some(old), Some(from)) = (stage.files.get(origin), places.get(origin)) else {
        return Err(ToolError::internal("a file of the patch is not there"));
    };
    let seen = old.fingerprint_when_read().ok_or_else(|| missing_file_error(old))?;
    let is_rewritten = old.bytes() != file.after.as_deref();
    Ok(CommitStep {
        rewrite: is_rewritten.then(|| new_content(file, None)),
        ..CommitStep::new(place.clone(), ExpectedState::Absent, TargetState::Moved { from, seen })
    })
}

/// Returns the new content of a file.
fn new_content<'a>(file: &'a StagedFile, attributes: Option<&'a Attributes>) -> TargetState<'a> {
    let bytes = file.after.as_deref().unwrap_or_default();
    TargetState::File { content: ContentSource::Bytes(bytes), attributes }
}

impl StagedFile {
    /// Returns the fingerprint of the file when it was read.
    fn fingerprint_when_read(&self) -> Option<Fingerprint> {
        self.before.as_ref().map(|(_, stat)| stat.fingerprint)
    }

    /// Returns the bytes of the file when it was read.
    fn bytes(&self) -> Option<&[u8]> {
        self.before.as_ref().map(|(bytes, _)| bytes.as_slice())
    }
}

/// Returns the error for a file that does not exist any more.
fn missing_file_error(file: &StagedFile) -> ToolError {
    ToolError::failed(format!("cannot change {}: it is gone", file.name))
}
