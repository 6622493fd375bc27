//! `windlass proposals`: changes that are held until a person applies or drops them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass::changes::{FileState, Proposal, Proposals};
use windlass::files::FileKind;
use windlass::session::SessionId;
use windlass::tool::diff::{Look, Version, render_file};
use windlass::{Windlass, quote};
use windlass_hub::{Recording, Workspace};

use super::{block_on, call, until_interrupted};
use crate::ids;
use crate::options::Global;
use crate::setup::Setup;
use crate::terminal::{self, Paint};

/// `windlass proposals`
#[derive(Debug, Args)]
pub(crate) struct ProposalsCommand {
    #[command(subcommand)]
    what: Option<ProposalsWhat>,
}

/// What to do with proposals: those of --session ID, or of the only session that has any.
#[derive(Debug, Subcommand)]
pub(crate) enum ProposalsWhat {
    /// List them.
    List,
    /// Show what would change, word by word.
    Show {
        /// Only these files, or what is below these directories.
        paths: Vec<PathBuf>,
    },
    /// Make the changes, all or none.
    Apply {
        /// Only these files, or what is below these directories.
        paths: Vec<PathBuf>,
    },
    /// Forget them.
    Drop {
        /// Only these files, or what is below these directories.
        paths: Vec<PathBuf>,
    },
}

pub(super) fn run(global: &Global, command: ProposalsCommand) -> Result<ExitCode> {
    let setup = Setup::for_person(global, Recording::Whole)?;
    let windlass = &setup.windlass;
    let workspace = windlass.path();
    match command.what.unwrap_or(ProposalsWhat::List) {
        ProposalsWhat::List => list(global, windlass, workspace),
        ProposalsWhat::Show { paths } => {
            let proposals = chosen(global, windlass, workspace)?;
            show(global, &proposals, workspace, named(workspace, &paths).as_deref())
        }
        ProposalsWhat::Apply { paths } => {
            let proposals = chosen(global, windlass, workspace)?;
            let paths = named(workspace, &paths);
            let applying = windlass.apply(&setup.session, &proposals, paths.as_deref());
            let result = block_on(until_interrupted(windlass.engine(), &setup.session, applying))??;
            call::print_result(global, &result)
        }
        ProposalsWhat::Drop { paths } => {
            let proposals = chosen(global, windlass, workspace)?;
            let dropped = proposals.drop_paths(named(workspace, &paths).as_deref())?;
            if dropped.is_empty() {
                bail!("there is no such proposal");
            }
            let names: Vec<_> = dropped.iter().map(|path| shown(workspace, path)).collect();
            if global.json {
                terminal::print_json(&json!({"dropped": names}))?;
            } else {
                terminal::print(&format!("dropped\n{}", names.join("\n")))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Paths as they were typed: relative to where the person is.
fn named(workspace: &Path, paths: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let absolute = |path: &PathBuf| windlass::effect::normalize(&workspace.join(path));
    (!paths.is_empty()).then(|| paths.iter().map(absolute).collect())
}

/// The proposals of the session that was named, or of the only one that has any.
fn chosen(global: &Global, windlass: &Workspace, workspace: &Path) -> Result<Arc<Proposals>> {
    let session = match &global.session {
        Some(session) => ids::expand_changed_session(windlass, session)?,
        None => only_session(windlass, workspace)?,
    };
    let proposals = windlass.proposals(&session)?;
    if proposals.list().is_empty() {
        bail!("session {session} proposes nothing");
    }
    Ok(proposals)
}

fn only_session(windlass: &Windlass, workspace: &Path) -> Result<SessionId> {
    let mut here = here(windlass, workspace)?;
    match (here.pop(), here.len()) {
        (None, _) => bail!("nothing is proposed in this workspace"),
        (Some((session, _)), 0) => Ok(session),
        (Some(_), _) => bail!("several sessions propose changes here; name one with --session"),
    }
}

/// The sessions that propose something for this workspace.
fn here(windlass: &Windlass, workspace: &Path) -> Result<Vec<(SessionId, Vec<Proposal>)>> {
    let mut here = Vec::new();
    for session in windlass.proposing_sessions()? {
        let mut list = windlass.proposals(&session)?.list();
        list.retain(|proposal| proposal.path.starts_with(workspace));
        if !list.is_empty() {
            here.push((session, list));
        }
    }
    Ok(here)
}

fn list(global: &Global, windlass: &Windlass, workspace: &Path) -> Result<ExitCode> {
    let paint = Paint::of(global);
    let mut text = String::new();
    let sessions = here(windlass, workspace)?;
    for (session, list) in &sessions {
        if global.session.as_ref().is_some_and(|wanted| wanted != session) {
            continue;
        }
        if global.json {
            for proposal in list {
                terminal::print_json(&as_json(session, proposal))?;
            }
            continue;
        }
        writeln!(text, "{}", paint.bold(&format!("session {session}")))?;
        for proposal in list {
            let calls: Vec<String> =
                proposal.by.iter().map(|by| format!("{} {}", by.tool, by.call)).collect();
            let name = shown(workspace, &proposal.path);
            let calls = paint.dim(&calls.join(", "));
            writeln!(text, "  {:<11} {name}  {calls}", verb(proposal, paint))?;
        }
    }
    terminal::print_painted(&text)?;
    if sessions.is_empty() {
        terminal::note(global, "nothing is proposed in this workspace");
    }
    Ok(ExitCode::SUCCESS)
}

fn verb(proposal: &Proposal, paint: Paint) -> String {
    let verb = proposal.verb();
    match verb {
        "delete" => paint.red(verb),
        "create" | "make" => paint.green(verb),
        _ => paint.yellow(verb),
    }
}

fn as_json(session: &SessionId, proposal: &Proposal) -> Value {
    json!({
        "session": session, "path": quote::path(&proposal.path), "change": proposal.verb(),
        "base": proposal.base, "then": proposal.then,
        "by": proposal.by.iter().map(|by| json!({"call": by.call, "session": by.session, "tool": by.tool}))
            .collect::<Vec<_>>(),
    })
}

fn show(
    global: &Global,
    proposals: &Proposals,
    workspace: &Path,
    paths: Option<&[PathBuf]>,
) -> Result<ExitCode> {
    let paint = Paint::of(global);
    let look = if paint.is_on() { Look::colour() } else { Look::plain() }.words(true);
    let is_named =
        |path: &Path| paths.is_none_or(|paths| paths.iter().any(|one| path.starts_with(one)));
    let list = proposals.list();
    if let Some(unknown) = paths
        .into_iter()
        .flatten()
        .find(|one| !list.iter().any(|proposal| proposal.path.starts_with(one)))
    {
        bail!("no change of {} is proposed", shown(workspace, unknown));
    }
    let mut text = String::new();
    for proposal in list.iter().filter(|one| is_named(&one.path)) {
        let report = report(proposals, proposal, workspace, &look)?;
        if global.json {
            let mut value = as_json(proposals.session(), proposal);
            value["diff"] = report.into();
            terminal::print_json(&value)?;
        } else {
            writeln!(text, "{report}")?;
        }
    }
    terminal::print_painted(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn report(
    proposals: &Proposals,
    proposal: &Proposal,
    workspace: &Path,
    look: &Look,
) -> Result<String> {
    let name = PathBuf::from(shown(workspace, &proposal.path));
    let before = bytes(proposals, &proposal.base)?;
    let after = bytes(proposals, &proposal.then)?;
    let before = before.as_deref().map(|content| version(&name, &proposal.base, content));
    let after = after.as_deref().map(|content| version(&name, &proposal.then, content));
    Ok(render_file(before.as_ref(), after.as_ref(), look).to_string())
}

fn bytes(proposals: &Proposals, state: &FileState) -> Result<Option<Vec<u8>>> {
    Ok(match state {
        FileState::Absent => None,
        FileState::File { hash, .. } => Some(proposals.content(hash)?),
        FileState::Symlink { target, .. } => Some(target.as_os_str().as_encoded_bytes().to_vec()),
        FileState::Directory { .. } | FileState::Other => Some(Vec::new()),
    })
}

fn version<'a>(path: &'a Path, state: &FileState, content: &'a [u8]) -> Version<'a> {
    let (kind, mode) = match state {
        FileState::File { attributes, .. } => (FileKind::File, attributes.mode),
        FileState::Directory { attributes } => (FileKind::Directory, attributes.mode),
        FileState::Symlink { .. } => (FileKind::Symlink, None),
        FileState::Absent | FileState::Other => (FileKind::Device, None),
    };
    Version { path, kind, mode, content }
}

pub(super) fn shown(workspace: &Path, path: &Path) -> String {
    match path.strip_prefix(workspace).unwrap_or(path) {
        inside if inside.as_os_str().is_empty() => ".".to_owned(),
        inside => quote::path(inside).into_owned(),
    }
}
