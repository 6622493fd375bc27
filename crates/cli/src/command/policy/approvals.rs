//! `windlass policy approvals`: lists open approvals and remembered answers.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use windlass::journal::utc;
use windlass::people::{
    Approval, ApprovalFile, ApprovalState, CommandEnd, Inquiry as _, InquiryBook as _, InquiryState,
};
use windlass::quote;
use windlass_hub::{Hub, Recording};

use crate::command::block_on;
use crate::options::Global;
use crate::setup;
use crate::terminal::{self, Paint, add};

/// Prints all approvals as a table or as JSON lines.
pub(super) fn run(global: &Global) -> Result<ExitCode> {
    let book = book(global)?;
    let mut approvals = read_all(global, &book)?;
    if recover(global, &book, &approvals)? {
        approvals = read_all(global, &book)?;
    }
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

/// Finishes or takes back what a killed `policy approve` was committing: opening the workspace does that. Returns whether there was such an
/// answer.
fn recover(global: &Global, book: &ApprovalFile, approvals: &[Approval]) -> Result<bool> {
    let mut is_cut_off = false;
    for approval in approvals {
        let may_be_cut_off = approval.has_run && approval.settled == ApprovalState::Allowed;
        if !may_be_cut_off || book.is_held(approval.id.as_str()).map_err(|why| anyhow!(why))? {
            continue;
        }
        is_cut_off = true;
        let settings = setup::settings(global, Recording::Brief)?;
        // A workspace that is not there now is recovered later; the list is shown all the same.
        if let Err(error) =
            block_on(async { Hub::new(settings).open(&approval.workspace).map(drop) })?
        {
            terminal::note(global, &format!("{}: {error}", quote::path(&approval.workspace)));
        }
    }
    Ok(is_cut_off)
}

/// Returns the approval file of the state directory.
pub(super) fn book(global: &Global) -> Result<ApprovalFile> {
    Ok(ApprovalFile::in_state(&setup::state_directory(global)?))
}

/// Reads all valid records of the approval file, and prints a note about each invalid one.
pub(super) fn read_all(global: &Global, book: &ApprovalFile) -> Result<Vec<Approval>> {
    for skipped in book.skipped().map_err(|why| anyhow!(why))? {
        terminal::note(global, &skipped);
    }
    book.list().map_err(|why| anyhow!(why))
}

/// Returns the state of an approval in a word: open, allowed, denied, expired.
fn state(approval: &Approval) -> &'static str {
    if approval.state(SystemTime::now()) == InquiryState::Expired {
        return "expired";
    }
    match approval.settled {
        ApprovalState::Pending => "open",
        ApprovalState::Allowed => "allowed",
        ApprovalState::Denied(_) => "denied",
    }
}

/// Returns an approval as its JSON object.
fn as_json(approval: &Approval) -> Value {
    let why = match &approval.settled {
        ApprovalState::Denied(why) => Some(why),
        ApprovalState::Pending | ApprovalState::Allowed => None,
    };
    json!({
        "id": approval.id, "state": state(approval), "why": why, "scope": approval.scope,
        "tool": approval.tool, "input": approval.input, "call": call_text(approval), "ended": approval.ended, "effects": approval.effects, "rule": approval.rule,
        "session": approval.session, "workspace": quote::path(&approval.workspace), "at": utc(approval.at),
        "expires": utc(approval.expires()), "who": approval.who, "reason": approval.reason, "rules": approval.rules,
    })
}

/// The number of effects of one approval that are listed, each on a line of its own.
const MAX_EFFECTS: usize = 10;

/// Returns the approvals as a table: one line each, and below it a line for each further rule or effect.
fn table(approvals: &[Approval], paint: Paint) -> String {
    let rows: Vec<([String; 7], Vec<String>)> = approvals.iter().map(row).collect();
    let mut widths = [0; 7];
    for (row, _) in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let indent = widths.iter().take(6).map(|width| width + 2).sum::<usize>();
    let mut text = String::new();
    for (row, more) in &rows {
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
        for line in more {
            add(&mut text, format_args!("{:indent$}{line}\n", ""));
        }
    }
    text
}

/// Returns the cells of an approval's line, and the further lines below it.
fn row(approval: &Approval) -> ([String; 7], Vec<String>) {
    // An open approval has no scope yet; its answer goes to the session that asked.
    let (scope, whose) = match (&approval.settled, approval.scope) {
        (ApprovalState::Pending, _) => ("-".to_owned(), format!("session {}", approval.session)),
        (_, scope @ windlass::people::Scope::Project) => {
            (scope.to_string(), format!("in {}", quote::path(&approval.workspace)))
        }
        (_, scope @ windlass::people::Scope::Always) => {
            (scope.to_string(), "everywhere".to_owned())
        }
        (_, scope) => (scope.to_string(), format!("session {}", approval.session)),
    };
    let why = match &approval.settled {
        ApprovalState::Denied(why) if !why.is_empty() => format!("  # {why}"),
        _ => String::new(),
    };
    let mut details = details(approval).into_iter();
    let first = details.next().unwrap_or_default();
    let row = [
        approval.id.to_string(),
        state(approval).to_owned(),
        scope,
        quote::visible(&approval.tool).into_owned(),
        utc(approval.at),
        quote::visible(&whose).into_owned(),
        one_line(&format!("{first}{why}")),
    ];
    (row, details.map(|line| one_line(&line)).collect())
}

/// Returns the command or the arguments of an approval's call, shortened and without secrets. Records of earlier versions may have neither.
pub(super) fn call_text(approval: &Approval) -> Option<String> {
    approval.shown.clone().or_else(|| approval.input.as_ref().map(Value::to_string))
}

/// Returns the texts about an approval: its call, and the rules of its answer or the effects of its call. Effects beyond `MAX_EFFECTS` are
/// counted.
fn details(approval: &Approval) -> Vec<String> {
    let call = call_text(approval);
    if approval.settled == ApprovalState::Allowed && !approval.rules.is_empty() {
        let rules = approval.rules.iter().map(|rule| format!("the rule `{rule}`"));
        return rules.chain(call).collect();
    }
    let mut effects = split_effects(&approval.effects);
    effects.retain(|effect| call.is_none() || effect.strip_prefix("exec ") != call.as_deref());
    let more = effects.len().saturating_sub(MAX_EFFECTS);
    if more > 0 {
        effects.truncate(MAX_EFFECTS);
        let shown = if approval.has_run {
            format!("`windlass policy diff {}`", approval.id)
        } else {
            "`windlass policy approvals --json`".to_owned()
        };
        effects.push(format!("and {more} more: {shown} has all"));
    }
    let failure = approval.ended.as_ref().filter(|end| !end.is_success()).map(CommandEnd::ending);
    call.into_iter().chain(failure).chain(effects).collect()
}

/// Splits the text of an effect list: separated by commas, each effect with its kind at the beginning.
fn split_effects(text: &str) -> Vec<String> {
    const KINDS: [&str; 7] = ["read ", "write ", "delete ", "exec ", "net ", "mcp ", "state "];
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(", ") {
        match parts.last_mut() {
            // A comma inside of a name or of a command separates nothing.
            Some(last) if !KINDS.iter().any(|kind| part.starts_with(kind)) => {
                last.extend([", ", part]);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}

/// Returns a text on one line, with control characters made visible.
fn one_line(text: &str) -> String {
    quote::visible(text).replace('\n', " ⏎ ").replace('\t', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_split_only_at_commas_between_them() {
        for (text, expected) in [
            ("write /w/a, write /w/b", vec!["write /w/a", "write /w/b"]),
            ("exec echo a, b, write /w/a, b", vec!["exec echo a, b", "write /w/a, b"]),
            ("", vec![""]),
        ] {
            assert_eq!(split_effects(text), expected);
        }
    }
}
