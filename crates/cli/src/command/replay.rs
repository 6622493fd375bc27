//! `windlass replay`: runs the calls of a recorded session again in a copy of the workspace, and shows the differences.
//!
//! The copy starts as the workspace was before the session, as far as the undo history knows. Approvals get their recorded answers; calls
//! that would reach beyond the copy are skipped. The journal, the undo history and the workspace itself stay unchanged.

mod compare;
mod copy;
mod name_map;
mod report;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use windlass::changes::{CheckpointQuery, History as _, UndoHistory};
use windlass::effect::Effect;
use windlass::host::Isolation;
use windlass::people::ApprovalRequest;
use windlass::process::SandboxLevel;
use windlass::session::SessionId;
use windlass::{Effects, Outcome, Session, ToolCall, Windlass};
use windlass_hub::{Hub, HubSettings, People, Recording, SessionOptions, Workspace};

use super::recorded::{self, RecordedCall, RecordedDecision};
use super::{block_on, until_interrupted};
use crate::ids;
use crate::options::{Global, parse_session_id};
use crate::scratch::Scratch;
use crate::setup;
use crate::terminal;
use compare::{Difference, Replayed};
use name_map::NameMap;

/// `windlass replay`
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The session's id, or a beginning of it that no other id has.
    #[arg(value_parser = parse_session_id)]
    id: SessionId,
    /// Start with the workspace as it is now, not as it was before the session.
    #[arg(long)]
    as_is: bool,
    /// Do not copy files that `.gitignore` and similar files exclude.
    #[arg(long)]
    without_ignored: bool,
}

/// Makes the copy, replays the calls in it, and removes it. Exit code 1 if something differs.
pub(super) fn run(global: &Global, options: &Replay) -> Result<ExitCode> {
    if global.sandbox == Some(SandboxLevel::Off) {
        bail!(
            "a replay runs programs in the sandbox, so that they stay in the copy: leave out --sandbox off"
        );
    }
    let store = setup::hub(global)?.store()?;
    let id = &ids::expand_session(&store, &options.id)?;
    let calls = recorded::read_calls(&store, id)?;
    let workspace = recorded::workspace_of(global, &store, id)?;
    let history = UndoHistory::open(&setup::state_directory(global)?)?;
    let scratch = Scratch::new("replay")?;
    terminal::note(global, &format!("copying {}", workspace.display()));
    let how = if options.without_ignored { Isolation::CopyWithoutIgnored } else { Isolation::Copy };
    let copy = copy::copy(&scratch, &workspace, how)?;
    for note in copy.notes() {
        terminal::note(global, &format!("not copied: {}: {}", note.path.display(), note.why));
    }
    if !options.as_is {
        let mut changes = history.checkpoints(&CheckpointQuery::Session(id.clone()))?;
        changes.reverse();
        for note in copy::rewind(&history, &changes, &workspace, copy.path()) {
            terminal::note(global, &note);
        }
    }
    let recorded_yes = Arc::default();
    let windlass = open(global, &workspace, copy.path(), &scratch, Arc::clone(&recorded_yes))?;
    let names = NameMap::new(&workspace, copy.path());
    let run = ReplayRun { global, names, history: &history, recorded_yes };
    let code = block_on(run.replay_all(windlass, id, &calls))?;
    copy.remove()?;
    code
}

/// Opens the copy with the options of the command line, its state in the scratch directory, no network, and recorded answers to approvals.
fn open(
    global: &Global,
    workspace: &std::path::Path,
    copy: &std::path::Path,
    scratch: &Scratch,
    recorded_yes: Arc<AtomicBool>,
) -> Result<Workspace> {
    let mut settings = setup::settings(global, Recording::Whole)?;
    settings.overrides.sandbox = Some(global.sandbox.unwrap_or(SandboxLevel::Workspace));
    settings.overrides.net = Some("none".to_owned());
    // The configuration is the workspace's: a person trusts the workspace, not the copy.
    let config = Hub::new(settings.clone()).config(workspace)?;
    let answer = move |_: &ApprovalRequest| recorded_yes.load(Ordering::Relaxed);
    let (state, people) = (scratch.path().join("state"), People::Attendant(Arc::new(answer)));
    let hub = Hub::new(HubSettings { state, has_anchor: false, people, ..settings });
    Ok(hub.open_with(copy, config)?)
}

/// A replay in progress.
struct ReplayRun<'a> {
    global: &'a Global,
    names: NameMap,
    history: &'a UndoHistory,
    /// The answer to approvals of the current call: the recorded one.
    recorded_yes: Arc<AtomicBool>,
}

impl ReplayRun<'_> {
    /// Replays all calls and prints each result and the counts. Returns exit code 1 if a call differs.
    async fn replay_all(
        mut self,
        windlass: Workspace,
        id: &SessionId,
        calls: &[RecordedCall],
    ) -> Result<ExitCode> {
        // The copy has its own journal, so that the session can have its recorded id there.
        let id = Some(id.clone());
        let session =
            windlass.session(SessionOptions { id, ..setup::session_options(self.global) })?;
        let mut tally = report::Tally::default();
        for (at, call) in calls.iter().enumerate() {
            print_progress(self.global, at + 1, calls.len(), &call.tool);
            self.recorded_yes.store(call.outcome != Some(Outcome::Denied), Ordering::Relaxed);
            let replayed = self.replay_call(&windlass, &session, call).await?;
            clear_progress(self.global);
            if session.is_interrupted() {
                return Ok(ExitCode::from(Outcome::Cancelled.exit_code()));
            }
            report::print_call(self.global, call, &replayed)?;
            tally.count(&replayed);
        }
        tally.print(self.global)?;
        Ok(ExitCode::from(u8::from(tally.differ > 0)))
    }

    /// Replays one call and compares the results, or skips it.
    async fn replay_call(
        &mut self,
        windlass: &Windlass,
        session: &Arc<Session>,
        call: &RecordedCall,
    ) -> Result<Replayed> {
        if let Some(why) = reason_not_to_replay(call) {
            return Ok(Replayed::Skipped(why.to_owned()));
        }
        let input = self.names.to_replayed(&call.input);
        let new_call = || ToolCall::new(call.tool.clone(), input.clone());
        let mut shell = call.shell.clone();
        if let Ok(verdict) = windlass.engine().explain(session, new_call()).await {
            if let Some(effect) = effect_beyond(verdict.effects(), self.names.copy()) {
                return Ok(Replayed::Skipped(format!("it reaches beyond the copy: {effect}")));
            }
            shell = verdict.effects().shell().map(str::to_owned);
        }
        let result =
            until_interrupted(windlass.engine(), session, windlass.call(session, new_call()))
                .await?;
        self.names.add_call(call, &result);
        let was = self.recorded_changes(&CheckpointQuery::Call(call.id.clone()))?;
        let now = windlass.history().checkpoints(&CheckpointQuery::Call(result.call.clone()))?;
        let now = compare::file_states(&now, self.names.copy());
        let difference = Difference::between(call, &result, shell, &self.names, (was, now));
        Ok(difference.map_or(Replayed::Same, |difference| {
            Replayed::Differs(Box::new(difference.with_contents(self.history, self.names.copy())))
        }))
    }

    /// Returns the recorded file states after the calls of a query.
    fn recorded_changes(&self, query: &CheckpointQuery) -> Result<compare::FileStates> {
        let checkpoints = self.history.checkpoints(query).context("the history cannot be read")?;
        Ok(compare::file_states(&checkpoints, self.names.workspace()))
    }
}

/// Returns the reason why a call cannot be replayed, or `None`.
fn reason_not_to_replay(call: &RecordedCall) -> Option<&'static str> {
    match call.outcome {
        None => Some("it never ended"),
        Some(Outcome::Cancelled) => Some("it was stopped"),
        Some(_) if !call.is_whole() => Some("its arguments held a secret, which is not on record"),
        Some(Outcome::Fault) if call.recorded_decision() != RecordedDecision::Undecided => {
            Some("it was broken off by a fault")
        }
        Some(_) => None,
    }
}

/// Returns the first effect that reaches beyond the copy. Commands do not, because the sandbox keeps them in it.
fn effect_beyond<'e>(effects: &'e Effects, copy: &std::path::Path) -> Option<&'e Effect> {
    effects.iter().find(|effect| match effect {
        Effect::Read(at) | Effect::Write(at) | Effect::Delete(at) => !at.path.starts_with(copy),
        Effect::Exec(_) | Effect::State(_) => false,
        Effect::Net { .. }
        | Effect::Secret(_)
        | Effect::Ask
        | Effect::Agent(_)
        | Effect::Mcp { .. }
        | Effect::Plugin(_) => true,
    })
}

/// Prints the progress on a line that the next call overwrites, if stderr is a terminal. Write errors are ignored.
fn print_progress(global: &Global, at: usize, of: usize, tool: &str) {
    if !global.quiet && std::io::stderr().is_terminal() {
        let tool = windlass::quote::visible(tool);
        drop(write!(std::io::stderr(), "\r\x1b[K{at} of {of}: {tool}"));
    }
}

/// Clears the progress line.
fn clear_progress(global: &Global) {
    if !global.quiet && std::io::stderr().is_terminal() {
        drop(write!(std::io::stderr(), "\r\x1b[K"));
    }
}
