//! `windlass policy revoke`: forgets remembered answers and open questions.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use serde_json::json;
use windlass::people::{Approval, ApprovalFile, Book as _};
use windlass::quote;
use windlass::session::ApprovalId;
use windlass_hub::{Hub, Recording};

use super::approvals;
use crate::command::block_on;
use crate::options::Global;
use crate::{ids, setup, terminal};

pub(super) fn run(global: &Global, ids: &[String], all: bool) -> Result<ExitCode> {
    let book = approvals::book(global)?;
    let all_known = approvals::all(global, &book)?;
    let known: Vec<ApprovalId> = all_known.iter().map(|one| one.id.clone()).collect();
    let whole = |id: &String| {
        ids::whole("approval", id, known.iter().map(ToString::to_string)).map(ApprovalId::new)
    };
    let ids: Vec<ApprovalId> =
        if all { known.clone() } else { ids.iter().map(whole).collect::<Result<_>>()? };
    let (mut removed, mut unknown) = (Vec::new(), Vec::new());
    for id in &ids {
        let found = all_known.iter().find(|one| one.id == *id);
        if forget(global, &book, id, found)? {
            removed.push(id);
        } else if !all {
            unknown.push(id);
        }
    }
    let code = ExitCode::from(u8::from(!unknown.is_empty()));
    if global.json {
        terminal::print_json(&json!({"forgotten": removed, "unknown": unknown}))?;
        return Ok(code);
    }
    for id in unknown {
        let id = quote::visible(id.as_str());
        terminal::tell(&format!(
            "there is no `{id}`: `windlass policy approvals` lists what there is"
        ));
    }
    terminal::note(global, &format!("{} forgotten", removed.len()));
    Ok(code)
}

/// Forgets one. What a command changed and is held for the answer goes with the question.
fn forget(
    global: &Global,
    book: &ApprovalFile,
    id: &ApprovalId,
    found: Option<&Approval>,
) -> Result<bool> {
    // A question can outlive its workspace.
    let question = found.filter(|one| one.has_run && one.workspace.is_dir());
    let Some(question) = question else {
        return book.remove(id.as_str()).map_err(|why| anyhow!(why));
    };
    let settings = setup::settings(global, Recording::Brief)?;
    block_on(async {
        let windlass = Hub::new(settings).open(&question.workspace)?;
        Ok(windlass.engine().revoke(id).await?)
    })?
}
