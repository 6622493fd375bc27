//! Makes the changes of a patch: all of them, or none.

use windlass_core::{
    Attributes, Context, Expect, Fingerprint, Resolved, Source, Step, To, ToolError,
};

use super::stage::{Fate, Stage, Staged};
use crate::format;

/// Makes every change, or none; with a note for each file that was written in a way worth one.
pub(super) fn commit(cx: &Context, stage: &mut Stage) -> Result<(), ToolError> {
    let places = stage
        .files
        .iter()
        .map(|file| cx.files().resolve(&file.path))
        .collect::<Result<Vec<Resolved>, _>>()?;
    let changed: Vec<usize> =
        (0..stage.files.len()).filter(|at| stage.fate(*at) != Fate::Unchanged).collect();
    let steps = changed
        .iter()
        .filter_map(|at| step(stage, &places, *at).transpose())
        .collect::<Result<Vec<Step<'_>>, _>>()?;
    let altered = cx.files().commit(&steps).map_err(|error| {
        error.hint("read the file that could not be changed, and send the whole patch again")
    })?;
    for (at, altered) in changed.into_iter().zip(altered) {
        let is_rewritten = stage.fate(at) == Fate::Changed;
        if let Some(file) = stage.files.get_mut(at).filter(|_| is_rewritten) {
            let links = file.before.as_ref().map_or(1, |(_, stat)| stat.links);
            file.how_written = format::how_written(links, altered.in_place);
        }
    }
    Ok(())
}

/// What happens to one file.
fn step<'a>(
    stage: &'a Stage,
    places: &'a [Resolved],
    at: usize,
) -> Result<Option<Step<'a>>, ToolError> {
    let (Some(file), Some(place)) = (stage.files.get(at), places.get(at)) else { return Ok(None) };
    Ok(match stage.fate(at) {
        Fate::Unchanged => None,
        Fate::Added | Fate::Changed => {
            let expect = file.seen().map_or(Expect::Absent, Expect::Same);
            let to = content(file, file.attributes.as_ref());
            Some(Step { before: file.bytes(), ..Step::new(place.clone(), expect, to) })
        }
        Fate::Deleted => {
            let seen = file.seen().ok_or_else(|| gone(file))?;
            let step = Step::new(place.clone(), Expect::Same(seen), To::Nothing);
            Some(Step { before: file.bytes(), ..step })
        }
        Fate::Moved(origin) => Some(moved(stage, places, origin, file, place)?),
    })
}

fn moved<'a>(
    stage: &'a Stage,
    places: &'a [Resolved],
    origin: usize,
    file: &'a Staged,
    place: &Resolved,
) -> Result<Step<'a>, ToolError> {
    let (Some(old), Some(from)) = (stage.files.get(origin), places.get(origin)) else {
        return Err(ToolError::internal("a file of the patch is not there"));
    };
    let seen = old.seen().ok_or_else(|| gone(old))?;
    let is_rewritten = old.bytes() != file.after.as_deref();
    Ok(Step {
        rewrite: is_rewritten.then(|| content(file, None)),
        ..Step::new(place.clone(), Expect::Absent, To::Moved { from, seen })
    })
}

fn content<'a>(file: &'a Staged, attributes: Option<&'a Attributes>) -> To<'a> {
    let bytes = file.after.as_deref().unwrap_or_default();
    To::File { content: Source::Bytes(bytes), attributes }
}

impl Staged {
    /// The file as it was when it was read.
    fn seen(&self) -> Option<Fingerprint> {
        self.before.as_ref().map(|(_, stat)| stat.fingerprint)
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.before.as_ref().map(|(bytes, _)| bytes.as_slice())
    }
}

fn gone(file: &Staged) -> ToolError {
    ToolError::failed(format!("cannot change {}: it is gone", file.name))
}
