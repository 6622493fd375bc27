//! `windlass undo`: undoes the file changes of calls, and lists the changes that can be undone.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use windlass::changes::{
    ChangeWithoutHistory, Checkpoint, CheckpointQuery, FileState, RecordedChange,
};
use windlass::journal::utc;
use windlass::session::SessionId;
use windlass::{Outcome, Undo, quote};
use windlass_hub::Recording;

use super::{block_on, call, proposals, until_interrupted};
use crate::ids;
use crate::options::Global;
use crate::setup::Setup;
use crate::terminal::{self, Paint};

/// The number of paths of one change that are named.
const MAX_NAMED: usize = 4;

/// `windlass undo`
#[derive(Debug, Args)]
#[command(
    after_help = "Without options, the last change of this workspace that is not undone yet is undone; repeat the \
    command to undo earlier ones. With --session ID, all changes of that session are undone. An undo is a change \
    itself: undo it with --call ID to get the changes back."
)]
pub(crate) struct UndoCommand {
    /// List the changes of this workspace (or of --session ID), newest first.
    #[arg(long)]
    list: bool,
    /// Undo the changes of this call: its id, or a beginning of it that no other id has.
    #[arg(long, value_name = "ID", conflicts_with_all = ["turn", "list"])]
    call: Option<String>,
    /// Undo the changes of this turn: its id, or a beginning of it that no other id has.
    #[arg(long, value_name = "ID", conflicts_with = "list")]
    turn: Option<String>,
    /// Show the changes that an undo would make, and make none.
    #[arg(long)]
    dry_run: bool,
}

/// Undoes changes or lists them, and prints the result.
pub(super) fn run(global: &Global, options: &UndoCommand) -> Result<ExitCode> {
    if options.list {
        return list(global);
    }
    let setup = Setup::for_person(global, Recording::Whole)?;
    let session = named_session(global, &setup)?;
    let what = match (&options.call, &options.turn, session) {
        (Some(call), ..) => Undo::Call(ids::expand_call(&setup.windlass, call)?),
        (_, Some(turn), _) => Undo::Turn(ids::expand_turn(&setup.windlass, turn)?),
        (_, _, Some(session)) => Undo::Session(session),
        (None, None, None) => Undo::Last,
    };
    let is_for_all = matches!(what, Undo::Session(_));
    let result = block_on(until_interrupted(setup.windlass.engine(), &setup.session, async {
        if options.dry_run {
            setup.windlass.undo_preview(&setup.session, what).await
        } else {
            setup.windlass.undo(&setup.session, what).await
        }
    }))??;
    if result.outcome == Outcome::Error || is_for_all {
        note_dropped_history(global, &setup)?;
    }
    let paint = Paint::of(global);
    if global.json || !paint.is_on() {
        return call::print_result(global, &result);
    }
    terminal::print_painted(&format!("{}\n", paint.diff(&result.output.to_text())))?;
    Ok(ExitCode::from(result.outcome.exit_code()))
}

/// Returns the session of `--session`; fails if it neither is on record nor changed files. Its changes are known even after its records
/// were deleted.
fn named_session(global: &Global, setup: &Setup) -> Result<Option<SessionId>> {
    let (Some(session), Some(store)) = (&global.session, setup.windlass.store()) else {
        return Ok(global.session.clone());
    };
    let session = ids::expand_changed_session(&setup.windlass, session)?;
    let changes =
        setup.windlass.history().checkpoints(&CheckpointQuery::Session(session.clone()))?;
    if changes.is_empty() {
        store.session(&session)?;
    }
    Ok(Some(session))
}

/// Prints a note if older changes are no longer kept: a person who misses one should know the reason.
fn note_dropped_history(global: &Global, setup: &Setup) -> Result<()> {
    let Some(history) = setup.windlass.lasting_history() else { return Ok(()) };
    let dropped = history.status()?.dropped;
    if dropped > 0 {
        let message = format!(
            "older changes are not kept any more and cannot be undone, {dropped} in all workspaces; undo_megabytes and undo_days in the configuration say how much is kept"
        );
        terminal::note(global, &message);
    }
    Ok(())
}

/// Prints the changes of this workspace, or of a session, newest first.
fn list(global: &Global) -> Result<ExitCode> {
    let setup = Setup::for_person(global, Recording::Whole)?;
    let workspace = setup.windlass.path();
    let query = match named_session(global, &setup)? {
        Some(session) => CheckpointQuery::Session(session),
        None => CheckpointQuery::Workspace(workspace.to_owned()),
    };
    let checkpoints = setup.windlass.history().checkpoints(&query)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if global.json {
        for checkpoint in &checkpoints {
            serde_json::to_writer(&mut out, &as_json(checkpoint))?;
            writeln!(out)?;
        }
    } else {
        let paint = Paint::of(global);
        let mut day = String::new();
        for checkpoint in &checkpoints {
            let at = utc(checkpoint.origin.at);
            let (date, time) = at.split_once('T').unwrap_or(("", &at));
            if date != day {
                date.clone_into(&mut day);
                writeln!(out, "{}", paint.bold(date))?;
            }
            writeln!(out, "{}", line(checkpoint, time, workspace, paint))?;
        }
    }
    out.flush()?;
    if checkpoints.is_empty() {
        terminal::note(global, "nothing was changed here that could be undone");
    }
    note_dropped_history(global, &setup)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a checkpoint as its JSON object.
fn as_json(checkpoint: &Checkpoint) -> Value {
    let origin = &checkpoint.origin;
    let changes: Vec<Value> = checkpoint
        .changes
        .iter()
        .filter(|change| !change.is_directory_time())
        .map(|change| {
            json!({
                "path": quote::path(&change.path),
                "change": verb(change),
                "moved_from": change.moved_from.as_deref().map(quote::path),
            })
        })
        .collect();
    let without_history: Vec<Value> =
        checkpoint.without_history.iter().map(unrecorded_as_json).collect();
    json!({
        "call": origin.call, "session": origin.session, "turn": origin.turn, "tool": origin.tool,
        "at": utc(origin.at), "undoes": origin.undoes, "undone_by": checkpoint.undone_by,
        "changes": changes, "without_history": without_history,
    })
}

/// Returns a change without undo history as its JSON object.
fn unrecorded_as_json(change: &ChangeWithoutHistory) -> Value {
    let path = quote::path(change.path());
    match change {
        ChangeWithoutHistory::BuildDirectory(built) => {
            json!({"path": path, "build_directory": true, "files": built.files, "bytes": built.bytes})
        }
        ChangeWithoutHistory::Direct(_) => json!({"path": path, "build_directory": false}),
        ChangeWithoutHistory::Untracked(_) => {
            json!({"path": path, "build_directory": false, "untracked": true})
        }
    }
}

/// Returns the line of a checkpoint: whether it can be undone, time, call, tool, paths, session.
fn line(checkpoint: &Checkpoint, time: &str, workspace: &Path, paint: Paint) -> String {
    let origin = &checkpoint.origin;
    let time = time.split(['.', 'Z']).next().unwrap_or(time);
    let mark = if checkpoint.can_be_undone() { paint.green("●") } else { paint.dim("○") };
    let what = match origin.undoes.as_slice() {
        [] => paint.bold(&quote::visible(&origin.tool)),
        [one] => format!("{} of {one}", paint.yellow("undo")),
        many => format!("{} of {} calls", paint.yellow("undo"), many.len()),
    };
    let undone = match &checkpoint.undone_by {
        Some(by) if checkpoint.changes.is_empty() => paint.dim(&format!("  (skipped by {by})")),
        Some(by) => paint.dim(&format!("  (undone by {by})")),
        None => String::new(),
    };
    format!(
        "  {mark} {}  {}  {what}  {}{undone}  {}",
        paint.dim(time),
        origin.call,
        changes_text(checkpoint, workspace),
        paint.dim(&format!("session {}", origin.session))
    )
}

/// Returns the changes by kind: `changed src/lib.rs, created a.txt and 3 more`.
fn changes_text(checkpoint: &Checkpoint, workspace: &Path) -> String {
    let mut by_verb: BTreeMap<&str, Vec<&RecordedChange>> = BTreeMap::new();
    let moved = |change: &RecordedChange| {
        checkpoint.changes.iter().any(|other| other.moved_from.as_ref() == Some(&change.path))
    };
    let is_told = |change: &&RecordedChange| !moved(change) && !change.is_directory_time();
    for change in checkpoint.changes.iter().filter(is_told) {
        by_verb.entry(verb(change)).or_default().push(change);
    }
    if by_verb.is_empty() {
        // Only the times of directories changed.
        by_verb.insert("set time of", checkpoint.changes.iter().collect());
    }
    let mut parts = Vec::new();
    for (verb, changes) in by_verb.into_iter().filter(|(_, changes)| !changes.is_empty()) {
        let paths: Vec<&Path> = changes.iter().map(|change| change.path.as_path()).collect();
        parts.push(format!("{verb} {}", some_paths(&paths, workspace)));
    }
    let is_known =
        |change: &&ChangeWithoutHistory| !matches!(change, ChangeWithoutHistory::Untracked(_));
    let known = checkpoint.without_history.iter().filter(is_known);
    let without_history: Vec<&Path> = known.map(ChangeWithoutHistory::path).collect();
    if without_history.len() < checkpoint.without_history.len() {
        parts.push("ran without tracking".to_owned());
    }
    if !without_history.is_empty() {
        parts.push(format!("changed without history {}", some_paths(&without_history, workspace)));
    }
    parts.join(", ")
}

/// Returns the first of these paths, and the number of the others.
fn some_paths(paths: &[&Path], workspace: &Path) -> String {
    let name = |path: &&Path| match *path {
        path if path == workspace => "the workspace directory".to_owned(),
        path => proposals::display_path(workspace, path),
    };
    let named = paths.iter().take(MAX_NAMED).map(name).collect::<Vec<_>>().join(" ");
    let more = paths.len().saturating_sub(MAX_NAMED);
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// Returns the kind of a change as a verb in the past tense.
fn verb(change: &RecordedChange) -> &'static str {
    match (&change.before, &change.after) {
        _ if change.moved_from.is_some() => "moved",
        (_, FileState::Absent) => "deleted",
        (FileState::Absent, FileState::Directory { .. }) => "made",
        (FileState::Absent, _) => "created",
        (FileState::File { hash: a, .. }, FileState::File { hash: b, .. }) if a == b => {
            "set mode of"
        }
        (
            FileState::Directory { attributes: before },
            FileState::Directory { attributes: after },
        ) => {
            if before.mode == after.mode {
                "set time of"
            } else {
                "set mode of"
            }
        }
        _ => "changed",
    }
}
