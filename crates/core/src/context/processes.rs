//! The door to programs: each held against the grant, and what it changed taken over like every other change.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::Context;
use super::judge::{Judgement, Unseen, judge, obeyed_paths};
use super::planted::Removed;
use crate::changes::commit;
use crate::engine::{about_running, asker, situation, surroundings};
use crate::jobs::{ChangeKind, Changed, Drained, Job, JobEnd};
use crate::people::{Permission, Place, subject};
use crate::plain::Plain;
use crate::sync::Lock;
use crate::transcript::Transcript;
use crate::{
    Access, ApprovalRequest, ChangedTo, Confinement, Decision, Effect, Effects, Expect, FileChange,
    FileError, FileRights, Files, Fingerprint, HookCall, JobId, Level, PathPattern, ProcessChange,
    ProcessChanges, ProcessRequest, Processes, Resolved, Source, Stdin, Step, To, ToolError,
    Tracking, Verdict,
};

/// The door to programs. A program is started only for an effect that was granted: this very command, or a look at the workspace
/// by a program that can do no more.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{CommandLine, Effect, Kinds, Output, ProcessRequest, Program, testing::MockTool};
/// # use windlass_core::{Engine, Mode, Policy, ToolCall, Toolbox, testing::EchoHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("make")
///     .with_effects(Kinds::EXEC, |_| Effect::Exec(CommandLine::words(["make", "all"])).into())
///     .answering(|cx, _| async move {
///         let directory = cx.files().resolve(".".as_ref())?;
///         let request = ProcessRequest::new(Program::words(["make", "all"]), directory);
///         let (job, end) = cx.processes()?.run(request, None, None).await?;
///         assert!(end.is_some_and(|end| !end.timed_out));
///         assert_eq!(job.command(), "make all");
///         Ok(Output::text(String::from_utf8_lossy(&job.since(0, 100).bytes)))
///     });
/// # let mut tools = Toolbox::new();
/// # tools.add(tool)?;
/// # let engine = Engine::builder(Arc::new(EchoHost::default())).toolbox(tools).policy(Policy::new(Mode::Yolo)).build();
/// // On this machine every program prints its own words.
/// let result = engine.call(&engine.new_session(), ToolCall::new("make", json!({}))).await;
/// assert_eq!(result.output.to_text(), "make all");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct ProcessDoor<'a> {
    pub(super) cx: &'a Context,
    pub(super) processes: &'a dyn Processes,
}

impl std::fmt::Debug for ProcessDoor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessDoor").finish_non_exhaustive()
    }
}

/// A program that a call waits for: it ends with the call, unless it is left to the session.
struct Foreground(Option<Arc<Job>>);

impl Drop for Foreground {
    fn drop(&mut self) {
        if let Some(job) = &self.0 {
            job.process.kill();
        }
    }
}

impl ProcessDoor<'_> {
    /// How programs of this session are confined: as the machine's settings say, or stricter where its rights do.
    pub fn confinement(&self) -> Confinement {
        self.cx.0.session.rights().confine(self.processes.confinement())
    }

    /// Runs a program to its end, or for `patience`: then it is left to the session as a job. Whoever listens hears what it prints.
    pub async fn run(
        &self,
        request: ProcessRequest,
        limit: Option<Duration>,
        patience: Option<Duration>,
    ) -> Result<(Arc<Job>, Option<Arc<JobEnd>>), ToolError> {
        let job = self.start(request, limit, true).await?;
        let mut waiting = Foreground(Some(job.clone()));
        *self.cx.0.waits_for.lock() = Some(job.clone());
        let end = match patience {
            None => Some(job.wait().await),
            Some(patience) => tokio::time::timeout(patience, job.wait()).await.ok(),
        };
        if end.is_none() {
            self.cx.0.session.jobs().add(job.clone());
        }
        waiting.0 = None;
        *self.cx.0.waits_for.lock() = None;
        Ok((job, end))
    }

    /// Starts a program that goes on when the call has ended.
    pub async fn start_job(
        &self,
        mut request: ProcessRequest,
        limit: Option<Duration>,
    ) -> Result<Arc<Job>, ToolError> {
        self.cx.0.session.jobs().has_room()?;
        if request.access == Access::Direct && self.stages_jobs() {
            request.access = Access::Staged;
        }
        let job = self.start(request, limit, false).await?;
        self.cx.0.session.jobs().add(job.clone());
        Ok(job)
    }

    /// Tells whether changes of jobs are decided on at their end, so that they cannot work on the real directory.
    fn stages_jobs(self) -> bool {
        let inner = &self.cx.0;
        self.confinement().level == Level::Staged
            || inner.policy.is_plan()
            || inner.session.proposals().is_some()
    }

    async fn start(
        &self,
        mut request: ProcessRequest,
        limit: Option<Duration>,
        is_waited_for: bool,
    ) -> Result<Arc<Job>, ToolError> {
        self.check(&request)?;
        self.check_proposals(&request)?;
        request.is_job = !is_waited_for;
        request.records_build_directories = self.cx.0.session.proposals().is_some();
        request.rights = Some(self.rights());
        request.session = Some(self.cx.0.session.tmp_session().clone());
        request.meter = Some(self.cx.0.session.ledger().clone());
        self.narrow(&mut request)?;
        // What a program looks at is not known, so its answer is good for this once.
        self.cx.forget_observed();
        let typed = typed(&mut request);
        let is_quick = self.cx.machine_processes()?.starts_at_once(&request);
        let job = if is_quick {
            begin(self.cx, &request, limit)?
        } else {
            let begun = self.cx.blocking(move |cx| {
                if request.is_job {
                    request.obeyed = obeyed_paths(cx.0.session_files.get());
                }
                begin(cx, &request, limit)
            });
            begun.await??
        };
        let job = Arc::new(job);
        tokio::spawn(attend(job.clone(), self.cx.clone(), is_waited_for, typed));
        Ok(job)
    }

    /// A program works on what is there, so it would not see what is only proposed.
    fn check_proposals(self, request: &ProcessRequest) -> Result<(), ToolError> {
        let proposals = self.cx.0.session.proposals();
        let held = proposals.map_or(0, |proposals| proposals.list().len());
        // Who only looks at the workspace says so; a command is asked for its own sake.
        let is_look = request.access == Access::Read && !self.is_granted(request);
        if held == 0 || is_look {
            return Ok(());
        }
        Err(ToolError::failed(format!(
            "the command was not run: {held} changes of this session are only proposed, and a command would not see them"
        ))
        .hint("a person can apply or drop them: windlass proposals apply|drop"))
    }

    /// Holds a program to the rights of the session where the machine's settings give it more.
    fn narrow(self, request: &mut ProcessRequest) -> Result<(), ToolError> {
        let (of_machine, narrowed) = (self.processes.confinement(), self.confinement());
        if of_machine.level == Level::Off && narrowed.level != Level::Off {
            return Err(ToolError::denied(format!(
                "not allowed: this session runs programs only in a sandbox ({}), and the sandbox is off here",
                narrowed.level
            )));
        }
        if narrowed.level == Level::ReadOnly {
            request.access = Access::Read;
        } else if narrowed.level == Level::Staged && request.access == Access::Direct {
            request.access = Access::Staged;
        }
        if narrowed.network != of_machine.network {
            request.network = Some(narrowed.network);
        }
        Ok(())
    }

    /// The rights of this call, from which the view of its programs is computed.
    fn rights(self) -> Arc<FileRights> {
        let inner = &self.cx.0;
        let workspace = inner.session_files.get().workspace().to_owned();
        let now = inner.host.clock().now();
        Arc::new(FileRights::new(inner.policy.clone(), workspace, now).granted(&inner.grant))
    }

    /// Holds a program against the grant.
    fn check(self, request: &ProcessRequest) -> Result<(), ToolError> {
        let workspace = self.cx.0.session_files.get().workspace();
        let is_look = request.access == Access::Read && self.cx.0.grant.may_read(workspace);
        if is_look || self.is_granted(request) {
            return Ok(());
        }
        let text = &request.program;
        Err(ToolError::undeclared_effect(format!(
            "the tool tried to run `{text}` without having declared it"
        )))
    }

    /// Whether this very command was granted: to run where it can change nothing, if that is what was decided on.
    fn is_granted(self, request: &ProcessRequest) -> bool {
        let text = request.program.to_string();
        let is_held = request.access == Access::Read || self.confinement().level == Level::Off;
        self.cx.0.grant.effects().iter().any(|effect| {
            matches!(effect, Effect::Exec(command)
                if command.text == text && (is_held || !command.only_reads()))
        })
    }
}

/// Starts a program. Blocking.
fn begin(
    cx: &Context,
    request: &ProcessRequest,
    limit: Option<Duration>,
) -> Result<Job, ToolError> {
    let process = cx.machine_processes()?.start(request)?;
    let host = cx.0.host.clone();
    let transcript = Transcript::with_scratch(move || {
        host.processes().ok_or(io::ErrorKind::Unsupported)?.scratch()
    });
    Ok(Job {
        id: JobId::of_call(cx.call_id()),
        call: cx.call_id().clone(),
        command: request.program.to_string(),
        terminal: request.terminal,
        limit,
        runs_behind: request.is_job,
        is_staged: request.is_job && request.access == Access::Staged,
        started: cx.now(),
        began: Instant::now(),
        process,
        transcript: Lock::new(transcript),
        seen: Lock::default(),
        printed: Notify::new(),
        stopped_by: Lock::default(),
        end: watch::Sender::new(None),
    })
}

/// What is to be typed into a terminal: it stays open, and is not given all at once, since programs throw away what was typed
/// before they asked.
fn typed(request: &mut ProcessRequest) -> Vec<u8> {
    request.terminal.map_or_else(Vec::new, |_| {
        match std::mem::replace(&mut request.stdin, Stdin::Open) {
            Stdin::Bytes(bytes) => bytes,
            Stdin::Closed | Stdin::Open => Vec::new(),
        }
    })
}

/// Goes with a program to its end: types, takes what it prints and then what it changed.
async fn attend(job: Arc<Job>, cx: Context, is_waited_for: bool, typed: Vec<u8>) {
    let mut plain = Plain::default();
    let told = |bytes: &[u8]| {
        if is_waited_for && cx.is_heard() {
            let mut text = String::new();
            plain.push(bytes, &mut text);
            cx.output(&text);
        }
    };
    let stopped = cx.0.session.cancel_token().clone();
    let removed = Removed::default();
    let Drained { how, timed_out, waited_for_input } = {
        let typing = async {
            job.type_in(&typed).await;
            std::future::pending().await
        };
        let drained = async {
            tokio::select! {
                ended = job.drain(told) => ended,
                never = typing => never,
                never = cx.watch_for_planted(&job, &removed), if !is_waited_for => never,
            }
        };
        let mut drained = std::pin::pin!(drained);
        tokio::select! {
            ended = &mut drained => ended,
            () = stopped.cancelled() => {
                job.process.kill();
                drained.await
            }
        }
    };
    let duration = job.began.elapsed();
    let changes = if job.process.are_changes_at_hand() {
        job.process.changes()
    } else {
        let owner = job.clone();
        cx.blocking(move |_| owner.process.changes()).await.and_then(|changes| changes)
    };
    let changed = match changes {
        // Whoever stopped the call was told that it is over.
        Ok(changes) if cx.is_cancelled() && changes.tracking == Tracking::Staged => {
            Err(dropped(ToolError::cancelled("the call was stopped")))
        }
        Ok(changes) => cx.take_over(changes, &removed).await,
        Err(error) => Err(error),
    };
    let changed = match changed {
        Ok(changed) if !is_waited_for => Ok(cx.record_job(&job, changed).await),
        other => other,
    };
    let stopped_by = *job.stopped_by.lock();
    let end = JobEnd { how, timed_out, waited_for_input, stopped_by, duration, changed };
    job.end.send_replace(Some(Arc::new(end)));
    job.printed.notify_waiters();
}

impl Context {
    pub(super) fn machine_processes(&self) -> Result<&dyn Processes, ToolError> {
        self.0.host.processes().ok_or_else(|| {
            ToolError::host_failed("programs cannot be run here: this machine has no door to them")
        })
    }

    /// Makes what a program changed on its stage real, if the rules let it and, where a person is to be asked, they say yes.
    async fn take_over(
        &self,
        changes: ProcessChanges,
        removed: &Removed,
    ) -> Result<Changed, ToolError> {
        let mut changed = Changed {
            tracking: Some(changes.tracking).filter(|tracking| *tracking != Tracking::Nothing),
            paths: changes.changes.iter().map(kind_of).collect(),
            built: changes.built.clone(),
            notes: changes.notes.clone(),
        };
        if changes.tracking != Tracking::Staged {
            for change in &changes.changes {
                self.0.session.forget(&change.path);
            }
            if changes.tracking == Tracking::Scanned {
                self.remove_planted(changes.changes, removed).await;
                changed.notes.append(&mut removed.lock());
            }
            return Ok(changed);
        }
        let changes = Arc::new(changes);
        if !changes.changes.is_empty() || !changes.built.is_empty() {
            changed.notes.extend(self.settle(&changes).await?);
        }
        let left = self.blocking(move |cx| {
            cx.check_build_directories(&changes)?;
            if !changes.changes.is_empty() {
                cx.tie_build_directories(&changes)?;
                cx.commit_changes(&changes)?;
            }
            Ok::<_, ToolError>(changes.stage.as_ref().map_or_else(Vec::new, |stage| stage.settle()))
        });
        let left = left.await??;
        changed.built.retain(|path| left.iter().all(|note| note.path != *path));
        // Tools pass on the first notes only.
        changed.notes.splice(0..0, left.iter().map(|note| format!("not kept: {}", note.why)));
        Ok(changed)
    }

    /// Decides on a command once more, by what it did: rules about files bind it, and protected places ask unless the change is
    /// inert. Returns what hooks want the model to know.
    async fn settle(&self, changes: &Arc<ProcessChanges>) -> Result<Vec<String>, ToolError> {
        let inner = &self.0;
        let judged = changes.clone();
        let judged = self.blocking(move |cx| {
            let homes = cx.0.policy.hard_denies().homes();
            let unseen = Unseen { homes, masked: &judged.masked };
            let judgement = judge(&judged.changes, cx.0.session_files.get(), unseen);
            Ok::<_, ToolError>((judgement, cx.denied_in_build_directories(&judged)?))
        });
        let (judgement, denied) = judged.await??;
        let effects = self.effects_of(&changes.changes, &judgement);
        let built = changes.built.iter().chain(&denied);
        let built = built.map(|path| Effect::Write(PathPattern::entry(path)));
        let effects = Arc::new(built.fold(effects, Effects::and));
        let level = inner.session.rights().confine(self.machine_processes()?.confinement()).level;
        let workspace = inner.session_files.get().workspace();
        let situation = situation(&*inner.host, inner.session_files.get(), &inner.session);
        let is_staged = level == Level::Staged;
        let protected = |path: &Path| judgement.reason(path);
        let verdict =
            inner.policy.decide_changes(&effects, workspace, is_staged, &situation, &protected);
        match verdict.decision() {
            Decision::Allow => Ok(Vec::new()),
            Decision::Deny => Err(dropped(ToolError::denied(verdict.refusal()))),
            Decision::Ask => self.ask(&verdict, judgement.shown.into()).await.map_err(|error| {
                let listed = listed(changes, workspace);
                let text = format!("{}\nit would have\n{listed}", error.message().text);
                dropped(error.with_text(text))
            }),
        }
    }

    /// Asks the hooks, then a person, about what came up while the call ran, and shows these differences. Returns what hooks want
    /// the model to know.
    async fn ask(
        &self,
        verdict: &Verdict,
        changes: Arc<[FileChange]>,
    ) -> Result<Vec<String>, ToolError> {
        let inner = &self.0;
        let call = HookCall {
            id: &inner.call,
            tool: &inner.tool,
            input: &inner.input,
            effects: verdict.effects(),
        };
        let stopped = inner.session.cancel_token();
        let (granted, mut said) = tokio::select! {
            biased;
            asked = about_running(&inner.engine, &inner.session, call, verdict) => asked?,
            () = stopped.cancelled() => return Err(unanswered()),
        };
        if granted.is_some() {
            return Ok(said);
        }
        let workspace = inner.session_files.get().workspace();
        let surroundings = surroundings(&*inner.host, &inner.session);
        let request = ApprovalRequest {
            id: inner.broker.next_approval(),
            call: inner.call.clone(),
            session: inner.session.id().clone(),
            tool: inner.tool.clone(),
            input: inner.input.clone(),
            effects: inner.secrets.redact_effects(verdict.effects()),
            by: inner.secrets.redact_cause(verdict.decided_by()),
            subject: subject(
                &inner.tool,
                &inner.input,
                verdict.effects(),
                Place { workspace, directory: workspace },
                &surroundings,
            ),
            risk: inner.policy.risk_in(verdict.effects(), inner.session_files.get()),
            asker: asker(&inner.session, &inner.overrides),
            untrusted: inner.session.untrusted(),
            changes,
            workspace: workspace.to_owned(),
            directory: inner.overrides.work_dir.clone(),
            at: inner.host.clock().now(),
            // What a program did is not known before it has run, so no earlier answer is about it.
            is_whole: false,
            can_be_remembered: false,
            denies: Vec::new(),
            rights: inner.session.rights().digest(),
            has_run: true,
        };
        let source = self.source();
        let announce =
            |request: &Arc<ApprovalRequest>| inner.recorder.approval_asked(request, &source);
        let _asking = inner.lineage.clock.asking();
        tokio::select! {
            biased;
            () = stopped.cancelled() => Err(unanswered()),
            answer = inner.broker.ask(verdict, request, &inner.session, announce) => {
                if let Permission::Granted(_, Some(reason)) = answer? {
                    said.push(reason);
                }
                Ok(said)
            }
        }
    }

    /// The changes as effects, with every hidden or protected file, and each that a rule names.
    fn effects_of(&self, changes: &[ProcessChange], judgement: &Judgement) -> Effects {
        let inner = &self.0;
        let (policy, now) = (&inner.policy, inner.host.clock().now());
        let workspace = inner.session_files.get().workspace();
        effects_of(changes, &|path| {
            judgement.reason(path).is_some()
                || policy.hard_denies().hidden(path, workspace).is_some()
                || policy.denies_changing(path, workspace, now)
        })
    }

    /// The paths that changed in build directories although a rule denies it. Blocking.
    fn denied_in_build_directories(
        &self,
        changes: &ProcessChanges,
    ) -> Result<Vec<PathBuf>, ToolError> {
        let (policy, now) = (&self.0.policy, self.0.host.clock().now());
        let workspace = self.0.session_files.get().workspace();
        let Some(stage) = changes.stage.as_ref().filter(|_| policy.has_changes_to_deny(now)) else {
            return Ok(Vec::new());
        };
        let mut changed = stage.changed_in_build_directories().map_err(|error| {
            dropped(ToolError::host_failed(format!(
                "what changed in build directories could not be found out: {error}"
            )))
        })?;
        changed.retain(|path| policy.denies_changing(path, workspace, now));
        Ok(changed)
    }

    /// Drops all changes where those of a build directory could not be kept: a command is kept whole or dropped whole. Blocking.
    fn check_build_directories(&self, changes: &ProcessChanges) -> Result<(), ToolError> {
        let stage = changes.stage.as_ref().filter(|_| !changes.built.is_empty());
        let replaced = stage.map_or_else(Vec::new, |stage| stage.replaced_build_directories());
        let workspace = self.0.session_files.get().workspace();
        let name = |path: &PathBuf| {
            crate::quote::path(path.strip_prefix(workspace).unwrap_or(path)).into_owned()
        };
        let names: Vec<String> = replaced.iter().map(name).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(dropped(
            ToolError::failed(format!(
                "stale: the build directory {} was replaced by another program while the command ran",
                names.join(", ")
            ))
            .hint("look at what is there now and run the command again"),
        ))
    }

    /// Records that the changes of build directories belong to this call, so that a process that is killed after the other changes
    /// does not lose them. Blocking.
    fn tie_build_directories(&self, changes: &ProcessChanges) -> Result<(), ToolError> {
        let Some(stage) = changes.stage.as_ref().filter(|_| !changes.built.is_empty()) else {
            return Ok(());
        };
        stage.tie_to(&self.0.call).map_err(|error| {
            dropped(
                ToolError::host_failed(format!(
                    "cannot record which build directories changed: {error}"
                ))
                .hint("make room in the state directory, or set XDG_STATE_HOME to another one, and run the command again"),
            )
        })
    }

    fn commit_changes(&self, changes: &ProcessChanges) -> Result<(), ToolError> {
        let inner = &self.0;
        let files = inner.files();
        let others = others_of(&*files, &changes.changes)?;
        let steps: Vec<Step<'_>> = changes
            .changes
            .iter()
            .enumerate()
            .map(|(at, change)| {
                step_of(commit::beside(&*files, &change.path), change, others.get(&at))
            })
            .collect();
        let steps = commit::join_moves(&*files, &steps);
        let is_stopped = || inner.session.is_cancelled();
        let origin = self.files().origin(Vec::new());
        let made = commit::commit(&*files, inner.history(), &origin, &steps, &is_stopped);
        made.map_err(|refused| {
            if let Some(stage) = changes.stage.as_ref().filter(|_| refused.is_open) {
                stage.leave();
            }
            dropped(refused.into_error(files.workspace()))
        })?;
        for change in &changes.changes {
            inner.session.forget(&change.path);
        }
        Ok(())
    }
}

fn unanswered() -> ToolError {
    ToolError::cancelled("the session was stopped before anybody answered")
}

/// What a program would have changed, a line for each object, as far as anybody reads.
fn listed(changes: &ProcessChanges, workspace: &Path) -> String {
    const MOST: usize = 100;
    let name =
        |path: &Path| crate::quote::path(path.strip_prefix(workspace).unwrap_or(path)).into_owned();
    let line = |change: &ProcessChange| {
        let (path, kind) = kind_of(change);
        format!("  {} {}", kind.word(), name(&path))
    };
    let mut lines: Vec<String> = changes.changes.iter().take(MOST).map(line).collect();
    if changes.changes.len() > MOST {
        lines.push(format!("  and changed {} more", changes.changes.len() - MOST));
    }
    let built = |path: &PathBuf| format!("  changed the build directory {}/", name(path));
    lines.extend(changes.built.iter().map(built));
    lines.join("\n")
}

/// Says that what a program did has not happened.
fn dropped(error: ToolError) -> ToolError {
    error.with_context("the command ran, but what it changed was dropped")
}

fn kind_of(change: &ProcessChange) -> (std::path::PathBuf, ChangeKind) {
    let kind = match (&change.to, change.before) {
        (ChangedTo::Nothing, _) => ChangeKind::Removed,
        (_, None) => ChangeKind::Created,
        (ChangedTo::Attributes(_), _) => ChangeKind::Attributes,
        _ => ChangeKind::Changed,
    };
    (change.path.clone(), kind)
}

/// The changes as effects. Of a directory that is gone the directory is enough, but for files in it that `is_told` picks.
fn effects_of(changes: &[ProcessChange], is_told: &dyn Fn(&Path) -> bool) -> Effects {
    let gone: HashSet<&Path> = changes
        .iter()
        .filter(|change| matches!(change.to, ChangedTo::Nothing))
        .map(|change| change.path.as_path())
        .collect();
    let is_gone = |path: &Path| gone.contains(path);
    let effect = |change: &ProcessChange| match change.to {
        ChangedTo::Nothing if change.path.parent().is_some_and(is_gone) => {
            is_told(&change.path).then(|| Effect::Delete(PathPattern::entry(&change.path)))
        }
        ChangedTo::Nothing => Some(Effect::Delete(PathPattern::tree(&change.path))),
        _ => Some(Effect::Write(PathPattern::entry(&change.path))),
    };
    changes.iter().filter_map(effect).collect()
}

/// The files of which changes become more names, by the place of the change among all.
fn others_of(
    files: &dyn Files,
    changes: &[ProcessChange],
) -> Result<HashMap<usize, (Resolved, Fingerprint)>, FileError> {
    let names = changes.iter().enumerate().filter_map(|(at, change)| match &change.to {
        ChangedTo::Linked(with) => Some((at, with)),
        _ => None,
    });
    let mut names = names.peekable();
    if names.peek().is_none() {
        return Ok(HashMap::new());
    }
    let made: HashSet<&Path> = changes.iter().map(|change| change.path.as_path()).collect();
    let other = |(at, with): (usize, &PathBuf)| {
        let place = commit::beside(files, with);
        let is_made = made.contains(with.as_path());
        let seen = if is_made { commit::NOT_YET } else { files.stat(&place)?.fingerprint };
        Ok((at, (place, seen)))
    };
    names.map(other).collect()
}

fn step_of<'s>(
    path: Resolved,
    change: &'s ProcessChange,
    other: Option<&'s (Resolved, Fingerprint)>,
) -> Step<'s> {
    let expect = change.before.map_or(Expect::Absent, Expect::Same);
    let to = match (&change.to, other) {
        (ChangedTo::Linked(_), Some((with, seen))) => To::Linked { with, seen: *seen },
        (ChangedTo::File(content, attributes), _) => {
            To::File { content: Source::At(content), attributes: Some(attributes) }
        }
        (ChangedTo::Attributes(attributes), _) => To::Attributes(attributes),
        (ChangedTo::Symlink(target, _), _) => To::Symlink(target),
        (ChangedTo::Directory(attributes), _) => To::Directory { attributes: Some(attributes) },
        (ChangedTo::Nothing | ChangedTo::Linked(_), _) => To::Nothing,
    };
    let rewrite = match &change.to {
        ChangedTo::Symlink(_, time) if !time.is_empty() => Some(To::Attributes(time)),
        _ => None,
    };
    Step { rewrite, opens_directories: true, ..Step::new(path, expect, to) }
}
