//! `windlass sessions`: lists, shows, exports and deletes recorded sessions.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass::journal::{SessionFilter, SessionRow, utc};
use windlass::people::{Approval, ApprovalFile, ApprovalState, InquiryBook as _, Scope};
use windlass::session::SessionId;

use super::export::{self, ExportFormat};
use super::log::{self, Filter};
use crate::ids;
use crate::options::{Global, parse_session_id};
use crate::setup;
use crate::terminal::{self, Paint};

/// `windlass sessions`
#[derive(Debug, Args)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    subcommand: Option<SessionsCommand>,
}

/// The subcommands of `windlass sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions, newest first.
    List,
    /// Show the records of a session.
    Show {
        /// The session's id, or a beginning of it that no other id has.
        #[arg(value_parser = parse_session_id)]
        id: SessionId,
    },
    /// Print the records of a session as JSON lines.
    Export {
        /// The session's id, or a beginning of it that no other id has.
        #[arg(value_parser = parse_session_id)]
        id: SessionId,
    },
    /// Delete the arguments and results of a session's calls, its undo history and its remembered answers; the journal keeps that the
    /// calls happened.
    Delete {
        /// The session's id, or a beginning of it that no other id has.
        #[arg(value_parser = parse_session_id)]
        id: SessionId,
    },
}

/// Runs the subcommand; without one, lists the sessions.
pub(super) fn run(global: &Global, sessions: Sessions) -> Result<ExitCode> {
    let store = setup::hub(global)?.store()?;
    match sessions.subcommand.unwrap_or(SessionsCommand::List) {
        SessionsCommand::List => list(global, &store.sessions(SessionFilter::default())?)?,
        SessionsCommand::Show { id } => {
            let id = ids::expand_session(&store, &id)?;
            store.session(&id)?;
            log::print_records(global, &store, &Filter::of_session(id), 0)?;
        }
        SessionsCommand::Export { id } => {
            let id = ids::expand_session(&store, &id)?;
            store.session(&id)?;
            return export::run(global, &store, Some(&id), ExportFormat::Jsonl);
        }
        SessionsCommand::Delete { id } => {
            let id = ids::expand_session(&store, &id)?;
            store.delete_session(&id)?;
            windlass::changes::UndoHistory::open(&setup::state_directory(global)?)?
                .forget_session(&id)?;
            forget_answers(global, &id)?;
            if global.json {
                terminal::print_json(&json!({"deleted": id}))?;
                return Ok(ExitCode::SUCCESS);
            }
            terminal::note(
                global,
                &format!(
                    "the arguments and results of session {id} are deleted; the journal keeps that its calls happened"
                ),
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes the answered approvals that hold for this session, with the rules that were given in them. Pending approvals stay.
fn forget_answers(global: &Global, id: &SessionId) -> Result<()> {
    let book = ApprovalFile::in_state(&setup::state_directory(global)?);
    let is_of_session = |one: &Approval| {
        one.session == *id && one.scope == Scope::Session && one.settled != ApprovalState::Pending
    };
    for answer in book.list().map_err(|why| anyhow!(why))?.into_iter().filter(is_of_session) {
        book.remove(answer.id.as_str()).map_err(|why| anyhow!(why))?;
    }
    Ok(())
}

/// Prints sessions, one per line.
fn list(global: &Global, rows: &[SessionRow]) -> Result<()> {
    if global.json {
        for row in rows {
            terminal::print_json(&serde_json::to_value(row).unwrap_or(Value::Null))?;
        }
        return Ok(());
    }
    let paint = Paint::of(global);
    let mut out = std::io::stdout().lock();
    for row in rows {
        let workspace = row.workspace.as_deref().map(windlass::quote::path).unwrap_or_default();
        let running = if row.running > 0 {
            paint.yellow(&format!(" {} running", row.running))
        } else {
            String::new()
        };
        writeln!(
            out,
            "{}  {}  {:>5} {}{running}  {}",
            paint.dim(&utc(row.last)),
            paint.bold(row.id.as_str()),
            row.calls,
            if row.calls == 1 { "call " } else { "calls" },
            paint.dim(&workspace)
        )?;
    }
    Ok(())
}
