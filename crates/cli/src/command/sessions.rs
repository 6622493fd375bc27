//! `windlass sessions`: what was done before, session by session.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass::journal::{SessionFilter, SessionRow, utc};
use windlass::people::{Approval, ApprovalFile, Book as _, Scope, Settled};
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
    what: Option<SessionsCommand>,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List them, newest first.
    List,
    /// Show the calls of one.
    Show {
        /// Its id, or a beginning of it that no other one has.
        #[arg(value_parser = parse_session_id)]
        id: SessionId,
    },
    /// Print its records as JSON lines.
    Export {
        /// Its id, or a beginning of it that no other one has.
        #[arg(value_parser = parse_session_id)]
        id: SessionId,
    },
    /// Remove what its calls said and answered; the journal keeps that they happened.
    Delete {
        /// Its id, or a beginning of it that no other one has.
        #[arg(value_parser = parse_session_id)]
        id: SessionId,
    },
}

pub(super) fn run(global: &Global, sessions: Sessions) -> Result<ExitCode> {
    let store = setup::hub(global)?.store()?;
    match sessions.what.unwrap_or(SessionsCommand::List) {
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
                    "what session {id} said and answered is gone; the journal keeps that it was"
                ),
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Forgets the answers that count for a session, with the rules that came with them.
fn forget_answers(global: &Global, id: &SessionId) -> Result<()> {
    let book = ApprovalFile::in_state(&setup::state_directory(global)?);
    let is_of_session = |one: &Approval| {
        one.session == *id && one.scope == Scope::Session && one.settled != Settled::Pending
    };
    for answer in book.list().map_err(|why| anyhow!(why))?.into_iter().filter(is_of_session) {
        book.remove(answer.id.as_str()).map_err(|why| anyhow!(why))?;
    }
    Ok(())
}

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
