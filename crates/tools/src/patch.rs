//! `patch`: changes, adds, moves and deletes several files, all or none.
//!
//! The whole patch is first applied in memory. Files are written only if every hunk matches; if a write fails, the earlier
//! writes are undone. As with `edit`, files need not have been read before: the context lines prove that the model knows them.

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
    Context, Effect, EffectKinds, Effects, Output, PathPattern, PlanContext, Planned, PlannedTool,
    ToolDetails, ToolError,
};

use self::hunk::{Action, FilePatch};
use self::stage::PatchStage;
use crate::cut::Cutter;
use crate::format;

/// Limit of the bytes of a patch.
const MAX_BYTES: usize = 10 << 20;

/// Limit of the files of a patch, because policy decides on each of them.
const MAX_FILES: usize = 1_000;

/// The `patch` tool.
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
    const KINDS: EffectKinds = EffectKinds::READ.with(EffectKinds::WRITE).with(EffectKinds::DELETE);
    type Args = Args;
    type Plan = Vec<FilePatch>;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Apply a patch")
    }

    fn plan(&self, args: Args, _: &PlanContext<'_>) -> Result<Planned<Vec<FilePatch>>, ToolError> {
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

/// Parses the patch and checks its limits.
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

/// Returns the effects on every file of the patch.
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

/// Applies the patch in memory, writes the files, and reports the result.
fn patch(cx: &Context, files: &[FilePatch]) -> Result<Output, ToolError> {
    let mut stage = PatchStage::prepare(cx, files)?;
    if let Some(refusal) = stage.refusal() {
        return Err(refusal);
    }
    stage.check_redaction(cx)?;
    commit::commit(cx, &mut stage)?;
    Ok(report::report(&stage, Cutter::of(cx)))
}
