//! `windlass policy revoke`: forgets remembered answers and open approvals.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use serde_json::json;
use windlass::people::{Approval, ApprovalFile, ApprovalState, InquiryBook as _};
use windlass::quote;
use windlass::session::ApprovalId;
use windlass_hub::{Hub, Recording};

use super::approvals;
use crate::command::block_on;
use crate::options::Global;
use crate::{ids, setup, terminal};

/// Forgets the approvals and prints counts by workspace. Exit code 1 if an id is unknown.
pub(super) fn run(global: &Global, ids: &[String], all: bool) -> Result<ExitCode> {
    let book = approvals::book(global)?;
    let all_known = approvals::read_all(global, &book)?;
    let known: Vec<ApprovalId> = all_known.iter().map(|one| one.id.clone()).collect();
    let expand = |id: &String| {
        ids::expand("approval", id, known.iter().map(ToString::to_string)).map(ApprovalId::new)
    };
    let ids: Vec<ApprovalId> =
        if all { known.clone() } else { ids.iter().map(expand).collect::<Result<_>>()? };
    let (mut removed, mut unknown) = (Vec::new(), Vec::new());
    let (mut dropped, mut forgotten) = (Vec::new(), BTreeMap::<&Path, ForgottenCounts>::new());
    for id in &ids {
        let found = all_known.iter().find(|one| one.id == *id);
        let Some(removal) = forget(global, &book, id, found)? else {
            if !all {
                unknown.push(id);
            }
            continue;
        };
        removed.push(id);
        if removal == Removal::WithChanges {
            dropped.push(id);
        }
        if let Some(one) = found {
            forgotten.entry(&one.workspace).or_default().count(one, removal);
        }
    }
    let code = ExitCode::from(u8::from(!unknown.is_empty()));
    if global.json {
        terminal::print_json(
            &json!({"forgotten": removed, "dropped": dropped, "unknown": unknown}),
        )?;
        return Ok(code);
    }
    for id in unknown {
        let id = quote::visible(id.as_str());
        terminal::print_to_stderr(&format!(
            "there is no `{id}`: `windlass policy approvals` lists what there is"
        ));
    }
    if removed.is_empty() {
        terminal::note(global, "nothing forgotten");
    }
    for (workspace, forgotten) in forgotten {
        terminal::note(global, &format!("in {}: {forgotten}", quote::path(workspace)));
    }
    Ok(code)
}

/// The counts of forgotten approvals of one workspace.
#[derive(Default)]
struct ForgottenCounts {
    answers: usize,
    questions: usize,
    /// Approvals whose held changes are dropped.
    with_changes: usize,
}

impl ForgottenCounts {
    /// Counts a forgotten approval.
    fn count(&mut self, one: &Approval, removal: Removal) {
        let counted = match (removal, &one.settled) {
            (Removal::WithChanges, _) => &mut self.with_changes,
            (Removal::RecordOnly, ApprovalState::Pending) => &mut self.questions,
            (Removal::RecordOnly, _) => &mut self.answers,
        };
        *counted += 1;
    }
}

impl fmt::Display for ForgottenCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.answers, "answer", "answers", "forgotten"),
            (self.questions, "open question", "open questions", "forgotten"),
            (self.with_changes, "command's held changes", "commands' held changes", "dropped"),
        ];
        let counts = counts.iter().filter(|(count, ..)| *count > 0);
        let parts: Vec<String> = counts
            .map(|(count, one, many, verb)| {
                format!("{count} {} {verb}", if *count == 1 { one } else { many })
            })
            .collect();
        f.write_str(&parts.join(", "))
    }
}

/// The extent of a removal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
    /// Only the record of the approval.
    RecordOnly,
    /// The record, and the held changes of its command.
    WithChanges,
}

/// Forgets an approval and drops its held changes; `None` if there is no such approval.
fn forget(
    global: &Global,
    book: &ApprovalFile,
    id: &ApprovalId,
    found: Option<&Approval>,
) -> Result<Option<Removal>> {
    // An approval can outlive its workspace.
    let question = found.filter(|one| one.has_run && one.workspace.is_dir());
    let Some(question) = question else {
        let is_there = book.remove(id.as_str()).map_err(|why| anyhow!(why))?;
        return Ok(is_there.then_some(Removal::RecordOnly));
    };
    let settings = setup::settings(global, Recording::Brief)?;
    block_on(async {
        let windlass = Hub::new(settings).open(&question.workspace)?;
        let engine = windlass.engine();
        let holds = engine.held_changes(id).await?.is_some();
        let removal = if holds { Removal::WithChanges } else { Removal::RecordOnly };
        Ok(engine.revoke(id).await?.then_some(removal))
    })?
}
