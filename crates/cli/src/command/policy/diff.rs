//! `windlass policy diff`: every line that the command of an open question changed.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;
use windlass::people::Difference;
use windlass::quote;
use windlass::session::ApprovalId;
use windlass::tool::diff::Look;
use windlass_hub::{Hub, Recording};

use super::{answer, approvals};
use crate::command::block_on;
use crate::options::Global;
use crate::setup;
use crate::terminal::{self, Paint};

pub(super) fn run(global: &Global, id: &str) -> Result<ExitCode> {
    let book = approvals::book(global)?;
    let question = answer::question(global, &book, id)?;
    let settings = setup::settings(global, Recording::Brief)?;
    let held = block_on(async {
        let windlass = Hub::new(settings).open(&question.workspace)?;
        let id = ApprovalId::new(question.id.as_str());
        anyhow::Ok(windlass.engine().held_changes(&id).await?)
    })??;
    let Some((changes, built)) = held else {
        bail!(
            "`{}` is not about what a command changed, or that is not held any more",
            quote::visible(id)
        )
    };
    if global.json {
        let place = question.workspace.as_path();
        let whole =
            Difference::between(&changes, &built, place, &Look::plain().whole(), None).whole;
        let files: Vec<_> = changes
            .iter()
            .map(|one| json!({"path": quote::path(&one.path), "change": one.verb, "detail": one.detail}))
            .collect();
        terminal::print_json(
            &json!({"id": question.id, "files": files, "built": built, "diff": whole}),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let paint = Paint::of(global);
    let look = if paint.is_on() { Look::colour() } else { Look::plain() };
    let look = look.words(paint.is_on()).whole();
    let place = question.workspace.as_path();
    terminal::print_painted(&Difference::between(&changes, &built, place, &look, None).whole)?;
    Ok(ExitCode::SUCCESS)
}
