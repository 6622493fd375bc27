//! `windlass policy diff`: shows every line that the call of an open approval has changed or would change.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;
use windlass::people::{Approval, ApprovalState, Difference, HeldDiff};
use windlass::quote;
use windlass::tool::diff::DiffFormat;
use windlass_hub::{Hub, Recording, Workspace};

use super::{answer, approvals};
use crate::command::block_on;
use crate::options::Global;
use crate::person::command_end_text;
use crate::setup;
use crate::terminal::{self, Paint};

/// Returns the changes that an approval is about: the held ones, or those that the call would make. Fails if they are not known.
async fn changes_of_approval(
    global: &Global,
    windlass: &Workspace,
    question: &Approval,
) -> Result<HeldDiff> {
    let id = quote::visible(question.id.as_str());
    if let Some(held) = windlass.engine().held_changes(&question.id).await? {
        return Ok(held);
    }
    if question.has_run || question.settled != ApprovalState::Pending {
        bail!("`{id}` is not open, or what its command changed is not held any more");
    }
    let Some(input) = question.input.clone() else {
        bail!(
            "the arguments of `{id}` hold a secret and are not kept, so its changes cannot be shown"
        );
    };
    let session = answer::session_of(global, windlass, question)?;
    let call = answer::call_of(question, input);
    let changes = windlass.engine().try_changes(&session, call).await?;
    if changes.is_empty() {
        bail!("what `{id}` would change is not known before it runs");
    }
    Ok(HeldDiff { files: changes.to_vec(), ..HeldDiff::default() })
}

/// Prints the diff, and a note for each file that has changed since the command ran.
pub(super) fn run(global: &Global, id: &str) -> Result<ExitCode> {
    let book = approvals::book(global)?;
    let question = answer::find_approval(global, &book, id)?;
    let settings = setup::settings(global, Recording::Brief)?;
    let HeldDiff { files: changes, built, changed_since } = block_on(async {
        let windlass = Hub::new(settings).open(&question.workspace)?;
        changes_of_approval(global, &windlass, &question).await
    })??;
    if global.json {
        let workspace = question.workspace.as_path();
        let whole =
            Difference::between(&changes, &built, workspace, &DiffFormat::plain().whole(), None)
                .whole;
        let files: Vec<_> = changes
            .iter()
            .map(|one| json!({"path": quote::path(&one.path), "change": one.verb, "detail": one.detail}))
            .collect();
        terminal::print_json(
            &json!({"id": question.id, "tool": question.tool, "call": approvals::call_text(&question), "ended": question.ended, "files": files, "built": built, "diff": whole,
            "changed_since": changed_since.iter().map(|path| quote::path(path)).collect::<Vec<_>>()}),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let paint = Paint::of(global);
    let look = if paint.is_on() { DiffFormat::colour() } else { DiffFormat::plain() };
    let look = look.words(paint.is_on()).whole();
    let workspace = question.workspace.as_path();
    let tool = paint.bold(&quote::visible(&question.tool));
    let call = approvals::call_text(&question).unwrap_or_default();
    terminal::print_painted(&format!("{tool} {}\n", quote::undisguised(&quote::visible(&call))))?;
    if let Some(end) = &question.ended {
        terminal::print_painted(&command_end_text(end, paint))?;
    }
    terminal::print_painted(&Difference::between(&changes, &built, workspace, &look, None).whole)?;
    for path in &changed_since {
        let name = quote::path(path.strip_prefix(workspace).unwrap_or(path));
        terminal::note(
            global,
            &format!(
                "{name} changed since the command ran: put it back as the difference shows it before an approval, or deny `{}`",
                question.id
            ),
        );
    }
    Ok(ExitCode::SUCCESS)
}
