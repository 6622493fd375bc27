//! Decides on the changes of a program on its stage: rules, hooks and people see the real changes before they are kept.

mod commit;
mod listed;
mod trivial;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::commit::{changed_since, found_indexes, states_before};
pub(crate) use self::listed::listed;
use self::trivial::{is_in_cache, leave_out_trivial};
use super::Context;
use super::approval::unanswered_error;
use super::judge::{ChangeJudgement, JudgeInputs, judge, show_changes};
use super::planted::RemovalNotes;
use crate::engine::{ask_about_running_call, situation, situation_of};
use crate::jobs::{ChangeKind, Job, ProgramChangeReport, ProgramEnd};
use crate::people::Permission;
use crate::policy::{StagedChanges, offers};
use crate::{
    ApprovalRequest, BuiltChange, ChangeWithoutHistory, ChangedTo, ContentHash, Decision, Effect,
    Effects, FailureReason, FileChange, FileError, FileErrorKind, Files, FoundText, HeldChanges,
    HookCall, KeptChanges, NewCheckpoint, PathPattern, ProcessChange, ProcessChanges, Rule,
    SandboxLevel, SkippedPath, StageHold, ToolError, Tracking, Verdict,
};

impl Context {
    /// Applies the changes of a program's stage to the workspace, as far as the rules allow it and a person, if asked, approves.
    pub(super) async fn take_over_changes(
        &self,
        (job, end): (&Arc<Job>, &ProgramEnd),
        changes: ProcessChanges,
        removed: &RemovalNotes,
    ) -> Result<ProgramChangeReport, ToolError> {
        let mut changed = ProgramChangeReport {
            tracking: Some(changes.tracking).filter(|tracking| *tracking != Tracking::Nothing),
            paths: changes.changes.iter().map(path_and_kind).collect(),
            built: changes.built.clone(),
            notes: changes.notes.clone(),
            is_dropped: false,
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
        let (keeps, usual) = (self.kept_changes()?, self.default_decision()?);
        let is_asked = usual != StagedChanges::Decided;
        let mut changes = changes;
        if keeps == KeptChanges::Nothing || is_asked {
            let left_out = self.blocking(move |_| {
                leave_out_trivial(&mut changes);
                changes
            });
            changes = left_out.await?;
            changed.paths = changes.changes.iter().map(path_and_kind).collect();
            changed.built.clone_from(&changes.built);
        }
        let is_empty = changes.changes.is_empty() && changes.built.is_empty();
        if keeps == KeptChanges::Nothing || (is_asked && is_empty) {
            changed.is_dropped = true;
            return Ok(changed);
        }
        let changes = Arc::new(changes);
        if !is_empty {
            changed.notes.extend(self.decide_on_changes((job, end), &changes, usual).await?);
        }
        let made = self.make_real(changes, is_asked).await.map_err(dropped)?;
        changed.built.retain(|path| made.left.iter().all(|note| note.path != *path));
        // These notes come first, since tools pass on only the first ones.
        changed.notes.splice(0..0, made.notes());
        Ok(changed)
    }

    /// Returns which changes of this call's programs are kept.
    fn kept_changes(&self) -> Result<KeptChanges, ToolError> {
        let discards = self.sandbox_level()? == SandboxLevel::Discard;
        Ok(if discards { KeptChanges::Nothing } else { self.0.grant.keeps() })
    }

    /// Returns the decision about changes that no rule covers.
    fn default_decision(&self) -> Result<StagedChanges, ToolError> {
        Ok(match self.0.grant.keeps() {
            _ if self.sandbox_level()? == SandboxLevel::Staged => StagedChanges::Shown,
            KeptChanges::Asked => StagedChanges::Ruled,
            KeptChanges::All | KeptChanges::Nothing => StagedChanges::Decided,
        })
    }

    /// Returns the sandbox level of this call's programs.
    fn sandbox_level(&self) -> Result<SandboxLevel, ToolError> {
        let of_machine = self.machine_processes()?.confinement();
        Ok(self.0.session.rights().confine(of_machine).level)
    }

    /// Applies staged changes to the workspace.
    pub(crate) async fn make_real(
        &self,
        changes: Arc<ProcessChanges>,
        was_asked: bool,
    ) -> Result<Made, ToolError> {
        let made = self.blocking(move |cx| {
            cx.check_build_directories(&changes, was_asked)?;
            // Measures build directories first: afterwards their files are no longer on the stage.
            let built = without_history(&changes);
            if !changes.changes.is_empty() {
                cx.tie_stage(&changes)?;
                cx.commit_changes(&changes, &built)?;
            }
            let left =
                changes.stage.as_ref().map_or_else(Vec::new, |stage| stage.keep_unrecorded());
            let mut made = Made { left, unknown: None };
            if changes.changes.is_empty() {
                let is_kept = |change: &ChangeWithoutHistory| {
                    made.left.iter().all(|note| note.path != change.path())
                };
                let kept: Vec<ChangeWithoutHistory> = built.into_iter().filter(is_kept).collect();
                made.unknown = cx.record_without_history(&kept).err();
            }
            Ok::<_, ToolError>(made)
        });
        made.await?
    }

    /// Records changes of this call that have no history, so that an undo can report them. Blocking.
    pub(super) fn record_without_history(
        &self,
        changes: &[ChangeWithoutHistory],
    ) -> Result<(), ToolError> {
        if changes.is_empty() {
            return Ok(());
        }
        let origin = self.files().origin(Vec::new());
        let new = NewCheckpoint {
            origin: &origin,
            changes: &[],
            contents: &[],
            without_history: changes,
        };
        Ok(self.0.history().record(&new)?.finish()?)
    }

    /// Decides on a command once more, by its changes: rules about files apply to it, and protected paths need an approval unless
    /// the change is inert. Returns texts of hooks for the model.
    async fn decide_on_changes(
        &self,
        ended: (&Arc<Job>, &ProgramEnd),
        changes: &Arc<ProcessChanges>,
        usual: StagedChanges,
    ) -> Result<Vec<String>, ToolError> {
        let inner = &self.0;
        let judged = changes.clone();
        let shows_all = usual != StagedChanges::Decided;
        let judged = self.blocking(move |cx| {
            let homes = cx.0.policy.hard_denies().homes();
            let unseen = JudgeInputs { homes, masked: &judged.masked };
            let judgement = judge(&judged.changes, cx.0.session_files.get(), unseen, shows_all);
            Ok::<_, ToolError>((judgement, cx.denied_in_build_directories(&judged)?))
        });
        let (judgement, denied) = judged.await??;
        let effects = self.effects_of(&changes.changes, &judgement);
        let built = built_effects(changes);
        let denied = denied.iter().map(|path| Effect::Write(PathPattern::entry(path)));
        let effects = Arc::new(built.chain(denied).fold(effects, Effects::and));
        let workspace = inner.session_files.get().workspace();
        let situation = situation(&*inner.host, inner.session_files.get(), &inner.session);
        let protected = |path: &Path| judgement.reason(path);
        let verdict =
            inner.policy.decide_changes(&effects, workspace, usual, &situation, &protected);
        let verdict = verdict.made_by(self.0.grant.effects());
        match verdict.decision() {
            Decision::Allow => Ok(Vec::new()),
            Decision::Deny => Err(dropped(ToolError::denied(verdict.refusal()))),
            Decision::Ask => {
                // The answer is about all changes, even if only some of them need an approval.
                let shown =
                    if shows_all { judgement.shown } else { self.show_all(changes).await? };
                self.ask_about_changes(ended, &verdict, changes, shown, shows_all).await.map_err(|error| {
                    let listed = listed(changes, workspace);
                    if waits_for_answer(&error) {
                        let limit = inner.broker.answer_limit();
                        let text = format!(
                            "the command ran; what it changed is not in the workspace, but held until a person answers, for {limit} at most\n{}\nif a person allows it, it will have\n{listed}",
                            error.message().text
                        );
                        return error.with_text(text);
                    }
                    let text = format!("{}\nit would have\n{listed}", error.message().text);
                    dropped(error.with_text(text))
                })
            }
        }
    }

    /// Returns old and new content of all changes.
    async fn show_all(&self, changes: &Arc<ProcessChanges>) -> Result<Vec<FileChange>, ToolError> {
        let all = changes.clone();
        self.blocking(move |cx| show_changes(&all.changes, &all.masked, cx.0.session_files.get()))
            .await
    }

    /// Asks the hooks, then a person, about effects that came up while the call ran, and shows these diffs. Returns texts of hooks
    /// for the model.
    async fn ask_about_changes(
        &self,
        (job, end): (&Arc<Job>, &ProgramEnd),
        verdict: &Verdict,
        changes: &Arc<ProcessChanges>,
        shown: Vec<FileChange>,
        was_asked: bool,
    ) -> Result<Vec<String>, ToolError> {
        let inner = &self.0;
        let call = HookCall {
            id: &inner.call,
            tool: &inner.tool,
            input: &inner.input,
            effects: verdict.effects(),
        };
        let stopped = &inner.cancel;
        let (granted, mut said) = tokio::select! {
            biased;
            asked = ask_about_running_call(&inner.engine, &inner.session, call, verdict) => asked?,
            () = stopped.cancelled() => return Err(unanswered_error()),
        };
        if granted.is_some() {
            return Ok(said);
        }
        let built = self.built_changes(changes).await?;
        if self.0.broker.is_attended(&self.0.session) {
            self.note_states(changes).await?;
        }
        let request = ApprovalRequest {
            changes: shown.into(),
            offers: self.offers(verdict, &built),
            built,
            // The changes of a program are not known before it has run, so no earlier approval covers them.
            can_be_remembered: false,
            has_run: true,
            call_subject: self.call_subject(verdict),
            ran: self.commands(),
            ended: Some(self.command_end(job, end).await),
            ..self.approval_request(verdict)
        };
        let mut held = HeldWhileAsked(Some(changes.clone()));
        let request =
            ApprovalRequest { can_wait: self.hold_stage(&request, changes).await, ..request };
        let open_again = request.can_wait.then(|| self.0.broker.open_record(&request));
        let mut answer = self.ask_people(verdict, request, stopped).await;
        if let (Ok(_), Some(record)) = (&answer, open_again)
            && let Err(error) = self.check_unchanged(changes, was_asked).await?
        {
            answer = Err(inner.broker.open_again(record, error).await);
        }
        if matches!(&answer, Err(error) if waits_for_answer(error)) {
            held.0 = None;
        }
        drop(held);
        if let Permission::Granted(_, Some(reason)) = answer? {
            said.push(reason);
        }
        Ok(said)
    }

    /// Notes the state before each change, since the answer may take long.
    async fn note_states(&self, changes: &Arc<ProcessChanges>) -> Result<(), ToolError> {
        let changes = changes.clone();
        let noting = self.blocking(move |cx| {
            let files = cx.0.files();
            let states = changes.states.get_or_init(|| states_before(&*files, &changes.changes));
            changes.indexes.get_or_init(|| found_indexes(&*files, &changes.changes, states));
        });
        noting.await
    }

    /// Checks that what the command found is still there, before its changes leave the stage on which they can wait for another answer.
    /// The inner error names what changed.
    async fn check_unchanged(
        &self,
        changes: &Arc<ProcessChanges>,
        was_asked: bool,
    ) -> Result<Result<(), ToolError>, ToolError> {
        let changes = changes.clone();
        let checking = self.blocking(move |cx| {
            cx.check_build_directories(&changes, was_asked)?;
            let (files, states) =
                (cx.0.files(), changes.states.get().map_or(&[][..], Vec::as_slice));
            let indexes = changes.indexes.get().map_or(&[][..], Vec::as_slice);
            let changed = changed_since(&*files, &changes.changes, states, indexes);
            let Some(path) = changed.first() else { return Ok(()) };
            let name = path.strip_prefix(files.workspace()).unwrap_or(path);
            Err(FileError::new("change", name, FileErrorKind::Stale).into())
        });
        checking.await
    }

    /// Returns the commands of this call with secrets redacted, also a command that the tool chose itself.
    fn commands(&self) -> Option<String> {
        let effects = self.0.secrets.redact_effects(&Arc::new(self.0.grant.effects().clone()));
        let text = |effect: &Effect| match effect {
            Effect::Exec(line) => Some(line.text.clone()),
            _ => None,
        };
        let commands: Vec<String> = effects.iter().filter_map(text).collect();
        (!commands.is_empty()).then(|| commands.join("\n"))
    }

    /// Returns the build directories that changed, each with the number and size of the changed files.
    async fn built_changes(
        &self,
        changes: &Arc<ProcessChanges>,
    ) -> Result<Vec<BuiltChange>, ToolError> {
        let changes = changes.clone();
        let counting = self.blocking(move |_| {
            let count = |path: &PathBuf| {
                let (files, bytes) = size_below(&changes, path);
                BuiltChange { path: path.clone(), files, bytes }
            };
            changes.built.iter().map(count).collect()
        });
        counting.await
    }

    /// Returns the subject of this call, if an answer to it would also count for its next run.
    fn call_subject(&self, verdict: &Verdict) -> Option<ContentHash> {
        let (inner, grant) = (&self.0, &self.0.grant);
        let counts =
            inner.is_whole && grant.keeps() == KeptChanges::Asked && !verdict.is_asked_always();
        counts.then(|| self.subject_of(grant.effects()))
    }

    /// Returns rules that the person can add when approving; none for effects that are asked about every time.
    fn offers(&self, verdict: &Verdict, built: &[BuiltChange]) -> Vec<String> {
        if verdict.is_asked_always() || !verdict.decided_by().is_without_rule() {
            return Vec::new();
        }
        let commands = self.0.grant.effects().iter();
        let commands = commands.filter(|effect| matches!(effect, Effect::Exec(_))).cloned();
        let effects = commands.fold((**verdict.effects()).clone(), Effects::and);
        let built: Vec<PathBuf> = built.iter().map(|built| built.path.clone()).collect();
        let (inner, files) = (&self.0, self.0.session_files.get());
        let (workspace, before) = (files.workspace(), inner.grant.effects());
        let situation = situation_of(&inner.policy, &*inner.host, files, &inner.session, before);
        let changes = Some(verdict.effects());
        let suffices = |rules: &[Rule]| {
            inner.policy.allows_run_with(rules, &inner.tool, before, changes, workspace, &situation)
        };
        offers(&effects, &built, workspace, &inner.secrets, &suffices)
    }

    /// Writes a record of the stage to disk, so that an answer can be used after this call, or this process, has ended. Returns
    /// whether that succeeded.
    async fn hold_stage(&self, request: &ApprovalRequest, changes: &Arc<ProcessChanges>) -> bool {
        if changes.stage.is_none() || !self.0.broker.is_attended(&self.0.session) {
            return false;
        }
        let until = self.0.broker.expiry(request.at);
        let held =
            StageHold { approval: request.id.clone(), until, found: found_texts(&request.changes) };
        let changes = changes.clone();
        let holding = self.blocking(move |_| {
            changes.stage.as_ref().is_some_and(|stage| stage.hold(&held, &changes).is_ok())
        });
        holding.await.unwrap_or(false)
    }

    /// Converts the changes to effects, including each hidden or protected file and each file that a rule names.
    fn effects_of(&self, changes: &[ProcessChange], judgement: &ChangeJudgement) -> Effects {
        let inner = &self.0;
        let (policy, now) = (&inner.policy, inner.host.clock().now());
        let workspace = inner.session_files.get().workspace();
        effects_of(changes, &|path| {
            judgement.reason(path).is_some()
                || policy.hard_denies().hidden(path, workspace).is_some()
                || policy.denies_changing(path, workspace, now)
        })
    }

    /// Returns the paths that changed in build directories although a rule denies it. Blocking.
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

    /// Fails if the changes of a build directory could not be kept: the changes of a command are kept or dropped as a whole.
    /// Blocking.
    fn check_build_directories(
        &self,
        changes: &ProcessChanges,
        was_asked: bool,
    ) -> Result<(), ToolError> {
        let stage = changes.stage.as_ref().filter(|_| !changes.built.is_empty());
        let replaced = stage.map_or_else(Vec::new, |stage| {
            let mut replaced = stage.replaced_build_directories();
            if was_asked {
                // An approval can take days, and build directories have no history.
                replaced.extend(stage.build_directories_changed_since());
            }
            replaced
        });
        let workspace = self.0.session_files.get().workspace();
        let name = |path: &PathBuf| {
            crate::quote::path(path.strip_prefix(workspace).unwrap_or(path)).into_owned()
        };
        let names: Vec<String> = replaced.iter().map(name).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(ToolError::failed(format!(
            "stale: another program changed the build directory {} after the command began",
            names.join(", ")
        ))
        .hint("look at what is there now and run the command again")
        .because(FailureReason::Stale))
    }

    /// Records that this call makes the changes. After a kill, this record decides about the rest on the stage. Blocking.
    fn tie_stage(&self, changes: &ProcessChanges) -> Result<(), ToolError> {
        let Some(stage) = &changes.stage else { return Ok(()) };
        stage.tie_to(&self.0.call).map_err(|error| {
            ToolError::host_failed(format!("cannot record which call makes the changes: {error}"))
                .hint("make room in the state directory, or set XDG_STATE_HOME to another one, and run the command again")
        })
    }
}

/// Releases the stage of these changes when it is dropped: with an answer, and also if the call is stopped while it is asked about
/// them. Only a deferred question leaves its stage held.
struct HeldWhileAsked(Option<Arc<ProcessChanges>>);

impl Drop for HeldWhileAsked {
    fn drop(&mut self) {
        if let Some(stage) = self.0.as_ref().and_then(|changes| changes.stage.as_ref()) {
            stage.release();
        }
    }
}

/// Maximum bytes of texts that are saved with held changes: the record is read at every start.
const MAX_FOUND_BYTES: usize = 1 << 20;

/// Returns the texts of changed files as the command found them.
fn found_texts(shown: &[FileChange]) -> Vec<FoundText> {
    let mut room = MAX_FOUND_BYTES;
    let mut found = Vec::new();
    for change in shown {
        let text = change.before.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let Some(text) = text.filter(|text| text.len() <= room) else { continue };
        room -= text.len();
        found.push(FoundText { path: change.path.clone(), text: text.to_owned() });
    }
    found
}

/// Returns the diff between held changes and the states that their command found, and the files that have changed since. Blocking.
pub(crate) fn show_held(held: &HeldChanges, files: &dyn Files) -> (Vec<FileChange>, Vec<PathBuf>) {
    let mut shown = show_changes(&held.changes, &held.masked, files);
    let changed = changed_since(files, &held.changes, &held.states, &held.indexes);
    let stale = shown.iter_mut().filter(|change| changed.contains(&change.path));
    for change in stale.filter(|change| change.before.is_some()) {
        let found = held.held.found.iter().find(|found| found.path == change.path);
        change.before = found.map(|found| found.text.clone().into_bytes());
        if change.before.is_none() {
            // Only the name is known to be right.
            change.after = None;
        }
    }
    (shown, changed)
}

/// Result of applying staged changes.
#[derive(Debug)]
pub(crate) struct Made {
    /// Build directories that could not be kept, and why.
    pub(crate) left: Vec<SkippedPath>,
    /// Error of the undo history, if it could not record the build directories.
    unknown: Option<ToolError>,
}

impl Made {
    /// Returns sentences about the problems.
    pub(crate) fn notes(&self) -> Vec<String> {
        let left = self.left.iter().map(|note| format!("not kept: {}", note.why));
        let unknown = self.unknown.iter().map(|error| {
            format!("an undo will not know of the build directories: {}", error.message().text)
        });
        left.chain(unknown).collect()
    }
}

/// Returns the changed build directories, without caches of tools, whose changes an undo need not report.
fn without_history(changes: &ProcessChanges) -> Vec<ChangeWithoutHistory> {
    let measured = |path: &PathBuf| {
        let (files, bytes) = size_below(changes, path);
        ChangeWithoutHistory::BuildDirectory(BuiltChange { path: path.clone(), files, bytes })
    };
    changes.built.iter().filter(|path| !is_in_cache(path)).map(measured).collect()
}

/// Returns number and bytes of the changed files below a build directory.
fn size_below(changes: &ProcessChanges, path: &Path) -> (u64, u64) {
    changes.stage.as_ref().map_or((0, 0), |stage| stage.size_below(path))
}

/// Converts the changes of a stage to effects.
pub(crate) fn effects_of_changes(changes: &ProcessChanges) -> Effects {
    let effects = effects_of(&changes.changes, &|_| true);
    built_effects(changes).fold(effects, Effects::and)
}

/// Converts changes of build directories to effects. The pattern covers the whole directory, so that the rule `write target/**`
/// matches it.
fn built_effects(changes: &ProcessChanges) -> impl Iterator<Item = Effect> {
    changes.built.iter().map(|path| Effect::Write(PathPattern::tree(path)))
}

/// Returns whether an approval stays open although its call ends.
fn waits_for_answer(error: &ToolError) -> bool {
    matches!(error.reason(), Some(FailureReason::WaitsForApproval(_)))
}

/// Adds to an error that the changes of the program were dropped.
pub(super) fn dropped(error: ToolError) -> ToolError {
    error.with_context("the command ran, but what it changed was dropped")
}

/// Returns path and kind of a change, for the result of the call.
fn path_and_kind(change: &ProcessChange) -> (std::path::PathBuf, ChangeKind) {
    let kind = match (&change.to, change.before) {
        (ChangedTo::Nothing, _) => ChangeKind::Removed,
        (_, None) => ChangeKind::Created,
        (ChangedTo::Attributes(_), _) => ChangeKind::Attributes,
        _ => ChangeKind::Changed,
    };
    (change.path.clone(), kind)
}

/// Converts changes to effects. A removed directory is one effect, with separate ones only for files in it that `is_told` selects.
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
