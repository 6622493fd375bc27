//! `windlass policy approvals`: the questions that are open and the answers that are remembered.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use windlass::journal::utc;
use windlass::people::{Approval, ApprovalFile, Book as _, Inquiry as _, InquiryState, Settled};
use windlass::quote;

use crate::options::Global;
use crate::setup;
use crate::terminal::{self, Paint, add};

pub(super) fn run(global: &Global) -> Result<ExitCode> {
    let approvals = all(global, &book(global)?)?;
    if global.json {
        for approval in &approvals {
            terminal::print_json(&as_json(approval))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if approvals.is_empty() {
        terminal::note(global, "no question is open, and no answer is remembered");
    }
    terminal::print_painted(&table(&approvals, Paint::of(global)))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn book(global: &Global) -> Result<ApprovalFile> {
    Ok(ApprovalFile::in_state(&setup::state(global)?))
}

/// All that can be understood; a person is told of the rest.
pub(super) fn all(global: &Global, book: &ApprovalFile) -> Result<Vec<Approval>> {
    for skipped in book.skipped().map_err(|why| anyhow!(why))? {
        terminal::note(global, &skipped);
    }
    book.list().map_err(|why| anyhow!(why))
}

/// Its state, in a word.
fn state(approval: &Approval) -> &'static str {
    if approval.state(SystemTime::now()) == InquiryState::Expired {
        return "expired";
    }
    match approval.settled {
        Settled::Pending => "open",
        Settled::Allowed => "allowed",
        Settled::Denied(_) => "denied",
    }
}

fn as_json(approval: &Approval) -> Value {
    let why = match &approval.settled {
        Settled::Denied(why) => Some(why),
        Settled::Pending | Settled::Allowed => None,
    };
    json!({
        "id": approval.id, "state": state(approval), "why": why, "scope": approval.scope,
        "tool": approval.tool, "input": approval.input, "effects": approval.effects, "rule": approval.rule,
        "session": approval.session, "workspace": quote::path(&approval.workspace), "at": utc(approval.at),
        "expires": utc(approval.expires()), "who": approval.who, "reason": approval.reason,
    })
}

/// One line each. What it is about comes last, so that it can be as long as it is.
fn table(approvals: &[Approval], paint: Paint) -> String {
    let rows: Vec<[String; 7]> = approvals.iter().map(row).collect();
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            let padding = if at == 6 { 0 } else { width - cell.chars().count() + 2 };
            let shown = match (at, cell.as_str()) {
                (0, _) => paint.bold(cell),
                (1, "open") => paint.yellow(cell),
                (1, "allowed") => paint.green(cell),
                (1, _) => paint.red(cell),
                (4 | 5, _) => paint.dim(cell),
                _ => cell.clone(),
            };
            add(&mut text, format_args!("{shown}{:padding$}", ""));
        }
        text.push('\n');
    }
    text
}

fn row(approval: &Approval) -> [String; 7] {
    // An open question is about one call; who asks is where its answer goes.
    let (scope, whose) = match (&approval.settled, approval.scope) {
        (Settled::Pending, _) => ("-".to_owned(), format!("session {}", approval.session)),
        (_, scope @ windlass::people::Scope::Project) => {
            (scope.to_string(), format!("in {}", quote::path(&approval.workspace)))
        }
        (_, scope @ windlass::people::Scope::Always) => {
            (scope.to_string(), "everywhere".to_owned())
        }
        (_, scope) => (scope.to_string(), format!("session {}", approval.session)),
    };
    let why = match &approval.settled {
        Settled::Denied(why) if !why.is_empty() => format!("  # {why}"),
        _ => String::new(),
    };
    [
        approval.id.to_string(),
        state(approval).to_owned(),
        scope,
        quote::visible(&approval.tool).into_owned(),
        utc(approval.at),
        quote::visible(&whose).into_owned(),
        one_line(&format!("{}{why}", approval.effects)),
    ]
}

/// All of a text on one line, with nothing in it that acts.
fn one_line(text: &str) -> String {
    quote::visible(text).replace('\n', " ⏎ ").replace('\t', " ")
}
