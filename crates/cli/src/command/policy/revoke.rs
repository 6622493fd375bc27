//! `windlass policy revoke`: forgets remembered answers and open questions.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use serde_json::json;
use windlass::people::Book as _;
use windlass::quote;
use windlass::session::ApprovalId;

use super::approvals;
use crate::ids;
use crate::options::Global;
use crate::terminal;

pub(super) fn run(global: &Global, ids: &[String], all: bool) -> Result<ExitCode> {
    let book = approvals::book(global)?;
    let known: Vec<ApprovalId> =
        approvals::all(global, &book)?.into_iter().map(|one| one.id).collect();
    let whole = |id: &String| {
        ids::whole("approval", id, known.iter().map(ToString::to_string)).map(ApprovalId::new)
    };
    let ids: Vec<ApprovalId> =
        if all { known.clone() } else { ids.iter().map(whole).collect::<Result<_>>()? };
    let (mut removed, mut unknown) = (Vec::new(), Vec::new());
    for id in &ids {
        if book.remove(id.as_str()).map_err(|why| anyhow!(why))? {
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
