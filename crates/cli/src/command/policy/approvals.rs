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
    Ok(ApprovalFile::in_state(&setup::state_directory(global)?))
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
        "tool": approval.tool, "input": approval.input, "call": call(approval), "effects": approval.effects, "rule": approval.rule,
        "session": approval.session, "workspace": quote::path(&approval.workspace), "at": utc(approval.at),
        "expires": utc(approval.expires()), "who": approval.who, "reason": approval.reason, "rules": approval.rules,
    })
}

/// The most effects of one record that are listed: each has a line of its own.
const MOST_EFFECTS: usize = 10;

/// One line each, and below it a line for each further effect, up to a number.
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

fn row(approval: &Approval) -> ([String; 7], Vec<String>) {
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
    let mut about = about(approval).into_iter();
    let first = about.next().unwrap_or_default();
    let row = [
        approval.id.to_string(),
        state(approval).to_owned(),
        scope,
        quote::visible(&approval.tool).into_owned(),
        utc(approval.at),
        quote::visible(&whose).into_owned(),
        one_line(&format!("{first}{why}")),
    ];
    (row, about.map(|line| one_line(&line)).collect())
}

/// The command or the arguments of a record's call, shortened and without secrets. A record of an earlier version may have neither.
pub(super) fn call(approval: &Approval) -> Option<String> {
    approval.shown.clone().or_else(|| approval.input.as_ref().map(Value::to_string))
}

/// The parts of a record: its call, and the rules that it gives or the effects of the call, and how many there are besides.
fn about(approval: &Approval) -> Vec<String> {
    let call = call(approval);
    if approval.settled == Settled::Allowed && !approval.rules.is_empty() {
        let rules = approval.rules.iter().map(|rule| format!("the rule `{rule}`"));
        return rules.chain(call).collect();
    }
    let mut effects = effects(&approval.effects);
    effects.retain(|effect| call.is_none() || effect.strip_prefix("exec ") != call.as_deref());
    let more = effects.len().saturating_sub(MOST_EFFECTS);
    if more > 0 {
        effects.truncate(MOST_EFFECTS);
        let shown = if approval.has_run {
            format!("`windlass policy diff {}`", approval.id)
        } else {
            "`windlass policy approvals --json`".to_owned()
        };
        effects.push(format!("and {more} more: {shown} has all"));
    }
    call.into_iter().chain(effects).collect()
}

/// The effects of a list as it is kept: separated by commas, each with its kind at the beginning.
fn effects(text: &str) -> Vec<String> {
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

/// All of a text on one line, with nothing in it that acts.
fn one_line(text: &str) -> String {
    quote::visible(text).replace('\n', " ⏎ ").replace('\t', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_told_apart_and_commas_inside_of_them_are_not() {
        for (text, expected) in [
            ("write /w/a, write /w/b", vec!["write /w/a", "write /w/b"]),
            ("exec echo a, b, write /w/a, b", vec!["exec echo a, b", "write /w/a, b"]),
            ("", vec![""]),
        ] {
            assert_eq!(effects(text), expected);
        }
    }
}
