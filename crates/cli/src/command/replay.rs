//! `windlass replay`: the calls of an earlier session again, in a copy of the workspace, and what differs.
//!
//! The copy begins as the workspace was before the session, as far as the history knows. What a person was asked then is answered as
//! it was then; what would reach beyond the copy is skipped. The journal, the history and the workspace itself stay as they are.

mod compare;
mod copy;
mod names;
mod tell;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use windlass::changes::{History as _, Query, UndoHistory};
use windlass::effect::Effect;
use windlass::host::Isolation;
use windlass::people::ApprovalRequest;
use windlass::process::Level;
use windlass::session::SessionId;
use windlass::{Effects, Outcome, Session, ToolCall, Windlass};
use windlass_hub::{Hub, People, Recording, SessionOptions, Settings, Workspace};

use super::recorded::{self, Recorded, Was};
use super::{block_on, until_interrupted};
use crate::ids;
use crate::options::{Global, parse_session_id};
use crate::scratch::Scratch;
use crate::setup;
use crate::terminal;
use compare::{Difference, Replayed};
use names::Names;

/// `windlass replay`
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The session's id.
    #[arg(value_parser = parse_session_id)]
    id: SessionId,
    /// Begin with the workspace as it is now, not as it was before the session.
    #[arg(long)]
    as_is: bool,
    /// Leave out of the copy what `.gitignore` and the like hide.
    #[arg(long)]
    without_ignored: bool,
}

pub(super) fn run(global: &Global, options: &Replay) -> Result<ExitCode> {
    if global.sandbox == Some(Level::Off) {
        bail!(
            "a replay runs programs in the sandbox, so that they stay in the copy: leave out --sandbox off"
        );
    }
    let store = setup::hub(global)?.store()?;
    let id = &ids::expand_session(&store, &options.id)?;
    let calls = recorded::calls(&store, id)?;
    let workspace = recorded::workspace(global, &store, id)?;
    let history = UndoHistory::open(&setup::state_directory(global)?)?;
    let scratch = Scratch::new("replay")?;
    terminal::note(global, &format!("copying {}", workspace.display()));
    let how = if options.without_ignored { Isolation::CopyWithoutIgnored } else { Isolation::Copy };
    let copy = copy::copy(&scratch, &workspace, how)?;
    for note in copy.notes() {
        terminal::note(global, &format!("not copied: {}: {}", note.path.display(), note.why));
    }
    if !options.as_is {
        let mut changes = history.checkpoints(&Query::Session(id.clone()))?;
        changes.reverse();
        for note in copy::rewind(&history, &changes, &workspace, copy.path()) {
            terminal::note(global, &note);
        }
    }
    let yes = Arc::default();
    let windlass = open(global, &workspace, copy.path(), &scratch, Arc::clone(&yes))?;
    let names = Names::new(&workspace, copy.path());
    let again = Again { global, names, history: &history, yes };
    let code = block_on(again.all(windlass, id, &calls))?;
    copy.remove()?;
    code
}

/// Opens the copy as the options say, but with everything in the scratch directory, and nobody beyond it within reach.
fn open(
    global: &Global,
    workspace: &std::path::Path,
    copy: &std::path::Path,
    scratch: &Scratch,
    yes: Arc<AtomicBool>,
) -> Result<Workspace> {
    let mut settings = setup::settings(global, Recording::Whole)?;
    settings.overrides.sandbox = Some(global.sandbox.unwrap_or(Level::Workspace));
    settings.overrides.net = Some("none".to_owned());
    // What a person trusts is the workspace, not the copy.
    let config = Hub::new(settings.clone()).config(workspace)?;
    let answer = move |_: &ApprovalRequest| yes.load(Ordering::Relaxed);
    let (state, people) = (scratch.path().join("state"), People::Attendant(Arc::new(answer)));
    let hub = Hub::new(Settings { state, has_anchor: false, people, ..settings });
    Ok(hub.open_with(copy, config)?)
}

/// A session that is run again.
struct Again<'a> {
    global: &'a Global,
    names: Names,
    history: &'a UndoHistory,
    /// What a person says who is asked about the call that is being made: what they said then.
    yes: Arc<AtomicBool>,
}

impl Again<'_> {
    async fn all(
        mut self,
        windlass: Workspace,
        id: &SessionId,
        calls: &[Recorded],
    ) -> Result<ExitCode> {
        // Its journal is another one: the session can have its name there as well.
        let id = Some(id.clone());
        let session =
            windlass.session(SessionOptions { id, ..setup::session_options(self.global) })?;
        let mut tally = tell::Tally::default();
        for (at, call) in calls.iter().enumerate() {
            progress(self.global, at + 1, calls.len(), &call.tool);
            self.yes.store(call.outcome != Some(Outcome::Denied), Ordering::Relaxed);
            let replayed = self.one(&windlass, &session, call).await?;
            progress_done(self.global);
            if session.is_interrupted() {
                return Ok(ExitCode::from(Outcome::Cancelled.exit_code()));
            }
            tell::call(self.global, call, &replayed)?;
            tally.count(&replayed);
        }
        tally.tell(self.global)?;
        Ok(ExitCode::from(u8::from(tally.differ > 0)))
    }

    async fn one(
        &mut self,
        windlass: &Windlass,
        session: &Arc<Session>,
        call: &Recorded,
    ) -> Result<Replayed> {
        if let Some(why) = not_repeatable(call) {
            return Ok(Replayed::Skipped(why.to_owned()));
        }
        let input = self.names.there(&call.input);
        let again = || ToolCall::new(call.tool.clone(), input.clone());
        let mut shell = call.shell.clone();
        if let Ok(verdict) = windlass.engine().explain(session, again()).await {
            if let Some(effect) = beyond(verdict.effects(), self.names.copy()) {
                return Ok(Replayed::Skipped(format!("it reaches beyond the copy: {effect}")));
            }
            shell = verdict.effects().shell().map(str::to_owned);
        }
        let result =
            until_interrupted(windlass.engine(), session, windlass.call(session, again())).await?;
        self.names.learn_call(call, &result);
        let was = self.changes(&Query::Call(call.id.clone()))?;
        let now = windlass.history().checkpoints(&Query::Call(result.call.clone()))?;
        let now = compare::changes(&now, self.names.copy());
        let difference = Difference::between(call, &result, shell, &self.names, (was, now));
        Ok(difference.map_or(Replayed::Same, |difference| {
            Replayed::Differs(Box::new(difference.with_contents(self.history, self.names.copy())))
        }))
    }

    fn changes(&self, query: &Query) -> Result<compare::Changes> {
        let checkpoints = self.history.checkpoints(query).context("the history cannot be read")?;
        Ok(compare::changes(&checkpoints, self.names.workspace()))
    }
}

fn not_repeatable(call: &Recorded) -> Option<&'static str> {
    match call.outcome {
        None => Some("it never ended"),
        Some(Outcome::Cancelled) => Some("it was stopped"),
        Some(_) if !call.is_whole() => Some("its arguments held a secret, which is not on record"),
        Some(Outcome::Fault) if call.was() != Was::Undecided => {
            Some("it was broken off by a fault")
        }
        Some(_) => None,
    }
}

/// The first effect that is not confined to the copy. Programs are, by the sandbox.
fn beyond<'e>(effects: &'e Effects, copy: &std::path::Path) -> Option<&'e Effect> {
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

/// Says how far it is, on a line of its own that the next one replaces. That nobody can be told is no reason to stop.
fn progress(global: &Global, at: usize, of: usize, tool: &str) {
    if !global.quiet && std::io::stderr().is_terminal() {
        let tool = windlass::quote::visible(tool);
        drop(write!(std::io::stderr(), "\r\x1b[K{at} of {of}: {tool}"));
    }
}

fn progress_done(global: &Global) {
    if !global.quiet && std::io::stderr().is_terminal() {
        drop(write!(std::io::stderr(), "\r\x1b[K"));
    }
}
