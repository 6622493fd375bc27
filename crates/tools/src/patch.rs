//! `patch`: changes several files at once, adds, moves and deletes some, all or nothing.
//!
//! The whole patch is first done in memory. Only if every hunk has its place are files written; and if one of them cannot be, those
//! before it are taken back. As with `edit`, no file need have been read before: the lines around a change are proof enough.

mod apply;
mod commit;
mod envelope;
mod explain;
mod hunk;
mod name;
mod parse;
mod place;
mod report;
mod stage;
#[cfg(test)]
mod tests;
mod unified;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    About, Context, Effect, Effects, Kinds, Output, PathPattern, Planned, PlannedTool, Scene,
    ToolError,
};

use self::hunk::{Action, FilePatch};
use self::stage::Stage;
use crate::cut::Cutter;
use crate::format;

/// A longer patch is not taken by one call.
const MAX_BYTES: usize = 10 << 20;

/// Each file is decided on by itself, so that more of them are not taken by one call either.
const MAX_FILES: usize = 1_000;

pub(crate) struct Patch;

/// Change, add, move and delete several files; all changes are made or none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// A unified diff, or `*** Begin Patch` … `*** End Patch`.
    patch: String,
}

impl PlannedTool for Patch {
    const NAME: &'static str = "patch";
    const KINDS: Kinds = Kinds::READ.with(Kinds::WRITE).with(Kinds::DELETE);
    type Args = Args;
    type Plan = Vec<FilePatch>;

    fn about(&self) -> About {
        About::titled("Apply a patch")
    }

    fn plan(&self, args: Args, _: &Scene<'_>) -> Result<Planned<Vec<FilePatch>>, ToolError> {
        let files = parse(&args.patch)?;
        Ok(Planned { effects: effects(&files), plan: files })
    }

    async fn call(&self, cx: &Context, files: Vec<FilePatch>) -> Result<Output, ToolError> {
        cx.blocking(move |cx| patch(cx, &files)).await?
    }

    fn copy_for_trial(&self, files: &Vec<FilePatch>) -> Option<Vec<FilePatch>> {
        Some(files.clone())
    }
}

fn parse(text: &str) -> Result<Vec<FilePatch>, ToolError> {
    if text.len() > MAX_BYTES {
        return Err(ToolError::invalid_args(format!(
            "the patch has {}; it must have at most {}",
            format::size(text.len() as u64),
            format::size(MAX_BYTES as u64)
        ))
        .hint("send it in parts"));
    }
    let files = parse::parse(text).map_err(|error| {
        ToolError::invalid_args(format!("cannot read the patch: {error}"))
            .hint("nothing was changed; correct the patch and send all of it again")
    })?;
    if files.len() > MAX_FILES {
        return Err(ToolError::invalid_args(format!(
            "the patch is about {} files; it must be about at most {MAX_FILES}",
            files.len()
        ))
        .hint("send it in parts"));
    }
    Ok(files)
}

fn effects(files: &[FilePatch]) -> Effects {
    let mut effects = Vec::new();
    for FilePatch { path, action, .. } in files {
        let path = || PathPattern::file(path);
        effects.push(Effect::Read(path()));
        match action {
            Action::Add(_) | Action::Change { to: None, .. } => effects.push(Effect::Write(path())),
            Action::Delete(_) => effects.push(Effect::Delete(path())),
            Action::Change { to: Some(to), .. } => {
                effects.push(Effect::Delete(path()));
                effects.push(Effect::Read(PathPattern::file(to)));
                effects.push(Effect::Write(PathPattern::file(to)));
            }
        }
    }
    effects.into_iter().collect()
}

fn patch(cx: &Context, files: &[FilePatch]) -> Result<Output, ToolError> {
    let mut stage = Stage::prepare(cx, files)?;
    if let Some(refusal) = stage.refusal() {
        return Err(refusal);
    }
    stage.check_taken_out(cx)?;
    commit::commit(cx, &mut stage)?;
    Ok(report::report(&stage, Cutter::of(cx)))
}
