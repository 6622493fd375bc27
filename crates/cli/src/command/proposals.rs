//! `windlass proposals`: lists, shows, applies and drops file changes that are held as proposals.

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
use windlass::tool::diff::{DiffFormat, FileVersion, render_file};
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
    subcommand: Option<ProposalsSubcommand>,
}

/// The subcommands of `windlass proposals`. They concern the session of --session, or the only session that has proposals.
#[derive(Debug, Subcommand)]
pub(crate) enum ProposalsSubcommand {
    /// List the proposals.
    List,
    /// Show the proposed changes as a diff, word by word.
    Show {
        /// Only these files, and the files below these directories.
        paths: Vec<PathBuf>,
    },
    /// Apply the proposed changes, all or none.
    Apply {
        /// Only these files, and the files below these directories.
        paths: Vec<PathBuf>,
    },
    /// Drop the proposed changes.
    Drop {
        /// Only these files, and the files below these directories.
        paths: Vec<PathBuf>,
    },
}

/// Runs the subcommand; without one, lists the proposals.
pub(super) fn run(global: &Global, command: ProposalsCommand) -> Result<ExitCode> {
    let setup = Setup::for_person(global, Recording::Whole)?;
    let windlass = &setup.windlass;
    let workspace = windlass.path();
    match command.subcommand.unwrap_or(ProposalsSubcommand::List) {
        ProposalsSubcommand::List => list(global, windlass, workspace),
        ProposalsSubcommand::Show { paths } => {
            let proposals = selected_proposals(global, windlass, workspace)?;
            show(global, &proposals, workspace, absolute_paths(workspace, &paths).as_deref())
        }
        ProposalsSubcommand::Apply { paths } => {
            let proposals = selected_proposals(global, windlass, workspace)?;
            let paths = absolute_paths(workspace, &paths);
            let applying = windlass.apply(&setup.session, &proposals, paths.as_deref());
            let result = block_on(until_interrupted(windlass.engine(), &setup.session, applying))??;
            call::print_result(global, &result)
        }
        ProposalsSubcommand::Drop { paths } => {
            let proposals = selected_proposals(global, windlass, workspace)?;
            let dropped = proposals.drop_paths(absolute_paths(workspace, &paths).as_deref())?;
            if dropped.is_empty() {
                bail!("there is no such proposal");
            }
            let names: Vec<_> = dropped.iter().map(|path| display_path(workspace, path)).collect();
            if global.json {
                terminal::print_json(&json!({"dropped": names}))?;
            } else {
                terminal::print(&format!("dropped\n{}", names.join("\n")))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the typed paths as absolute paths, relative ones taken from the workspace; `None` if there are none.
fn absolute_paths(workspace: &Path, paths: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let absolute = |path: &PathBuf| windlass::effect::normalize(&workspace.join(path));
    (!paths.is_empty()).then(|| paths.iter().map(absolute).collect())
}

/// Returns the proposals of the session of `--session`, or of the only session that has some; fails if there are none.
fn selected_proposals(
    global: &Global,
    windlass: &Workspace,
    workspace: &Path,
) -> Result<Arc<Proposals>> {
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

/// Returns the only session that proposes changes in this workspace; fails if there is none or several.
fn only_session(windlass: &Windlass, workspace: &Path) -> Result<SessionId> {
    let mut sessions = proposing_sessions(windlass, workspace)?;
    match (sessions.pop(), sessions.len()) {
        (None, _) => bail!("nothing is proposed in this workspace"),
        (Some((session, _)), 0) => Ok(session),
        (Some(_), _) => bail!("several sessions propose changes here; name one with --session"),
    }
}

/// Returns the sessions with proposals for this workspace, each with these proposals.
fn proposing_sessions(
    windlass: &Windlass,
    workspace: &Path,
) -> Result<Vec<(SessionId, Vec<Proposal>)>> {
    let mut sessions = Vec::new();
    for session in windlass.proposing_sessions()? {
        let mut list = windlass.proposals(&session)?.list();
        list.retain(|proposal| proposal.path.starts_with(workspace));
        if !list.is_empty() {
            sessions.push((session, list));
        }
    }
    Ok(sessions)
}

/// Prints the proposals by session.
fn list(global: &Global, windlass: &Windlass, workspace: &Path) -> Result<ExitCode> {
    let paint = Paint::of(global);
    let mut text = String::new();
    let sessions = proposing_sessions(windlass, workspace)?;
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
            let name = display_path(workspace, &proposal.path);
            let calls = paint.dim(&calls.join(", "));
            writeln!(text, "  {:<11} {name}  {calls}", colored_verb(proposal, paint))?;
        }
    }
    terminal::print_painted(&text)?;
    if sessions.is_empty() {
        terminal::note(global, "nothing is proposed in this workspace");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the kind of change in colour.
fn colored_verb(proposal: &Proposal, paint: Paint) -> String {
    let verb = proposal.verb();
    match verb {
        "delete" => paint.red(verb),
        "create" | "make" => paint.green(verb),
        _ => paint.yellow(verb),
    }
}

/// Returns a proposal as its JSON object.
fn as_json(session: &SessionId, proposal: &Proposal) -> Value {
    json!({
        "session": session, "path": quote::path(&proposal.path), "change": proposal.verb(),
        "base": proposal.base, "then": proposal.then,
        "by": proposal.by.iter().map(|by| json!({"call": by.call, "session": by.session, "tool": by.tool}))
            .collect::<Vec<_>>(),
    })
}

/// Prints the diffs of the proposals below these paths, or of all; fails if a path has none.
fn show(
    global: &Global,
    proposals: &Proposals,
    workspace: &Path,
    paths: Option<&[PathBuf]>,
) -> Result<ExitCode> {
    let paint = Paint::of(global);
    let look = if paint.is_on() { DiffFormat::colour() } else { DiffFormat::plain() }.words(true);
    let is_named =
        |path: &Path| paths.is_none_or(|paths| paths.iter().any(|one| path.starts_with(one)));
    let list = proposals.list();
    if let Some(unknown) = paths
        .into_iter()
        .flatten()
        .find(|one| !list.iter().any(|proposal| proposal.path.starts_with(one)))
    {
        bail!("no change of {} is proposed", display_path(workspace, unknown));
    }
    let mut text = String::new();
    for proposal in list.iter().filter(|one| is_named(&one.path)) {
        let diff = render_diff(proposals, proposal, workspace, &look)?;
        if global.json {
            let mut value = as_json(proposals.session(), proposal);
            value["diff"] = diff.into();
            terminal::print_json(&value)?;
        } else {
            writeln!(text, "{diff}")?;
        }
    }
    terminal::print_painted(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the diff of a proposal.
fn render_diff(
    proposals: &Proposals,
    proposal: &Proposal,
    workspace: &Path,
    look: &DiffFormat,
) -> Result<String> {
    let name = PathBuf::from(display_path(workspace, &proposal.path));
    let before = state_content(proposals, &proposal.base)?;
    let after = state_content(proposals, &proposal.then)?;
    let before = before.as_deref().map(|content| version(&name, &proposal.base, content));
    let after = after.as_deref().map(|content| version(&name, &proposal.then, content));
    Ok(render_file(before.as_ref(), after.as_ref(), look).to_string())
}

/// Returns the content of a file state: a file's bytes, a link's target, nothing for a directory, `None` if absent.
fn state_content(proposals: &Proposals, state: &FileState) -> Result<Option<Vec<u8>>> {
    Ok(match state {
        FileState::Absent => None,
        FileState::File { hash, .. } => Some(proposals.content(hash)?),
        FileState::Symlink { target, .. } => Some(target.as_os_str().as_encoded_bytes().to_vec()),
        FileState::Directory { .. } | FileState::Other => Some(Vec::new()),
    })
}

/// Returns a file state as one side of a diff.
fn version<'a>(path: &'a Path, state: &FileState, content: &'a [u8]) -> FileVersion<'a> {
    let (kind, mode) = match state {
        FileState::File { attributes, .. } => (FileKind::File, attributes.mode),
        FileState::Directory { attributes } => (FileKind::Directory, attributes.mode),
        FileState::Symlink { .. } => (FileKind::Symlink, None),
        FileState::Absent | FileState::Other => (FileKind::Device, None),
    };
    FileVersion { path, kind, mode, content }
}

/// Returns a path for display, relative to the workspace if it is inside.
pub(super) fn display_path(workspace: &Path, path: &Path) -> String {
    match path.strip_prefix(workspace).unwrap_or(path) {
        inside if inside.as_os_str().is_empty() => ".".to_owned(),
        inside => quote::path(inside).into_owned(),
    }
}
