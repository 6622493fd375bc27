//! Stage 6: the decision of the policy about a call, and the answer of a person if the policy asks.

use std::sync::Arc;

use super::schedule::Ticket;
use super::{
    Call, ReadyCall, Shared, effects, for_person, hidden_search, hooks, parse, prepare, record,
    trial, unless_stopped,
};
use crate::people::{
    Broker, CallLocation, Permission, approval_subject, decided_by, denial_by_answer,
};
use crate::policy::offers;
use crate::protected::unnamed_git_places;
use crate::toolbox::Slot;
use crate::{
    Approval, ApprovalRequest, ApprovalState, AskTime, Decision, DecisionContext, Effect, Effects,
    Files, Grant, Host, KeptChanges, Overrides, Policy, Requester, Rule, SandboxLevel, Session,
    ToolError, Verdict,
};

/// Decides about a planned call by hard denies, the rules, the mode and the session. Asks in any case if the plan says that it needs a
/// person, unless the call is denied.
pub(super) fn decide(engine: &Shared, call: &Call, ready: &ReadyCall<'_>) -> Verdict {
    let verdict = decide_on(engine, call, &ready.effects);
    if ready.planned.needs_person() { verdict.needing_person() } else { verdict }
}

/// Decides about resolved effects of a call.
fn decide_on(engine: &Shared, call: &Call, effects: &Arc<Effects>) -> Verdict {
    let (policy, files) = (engine.policy_of(call), call.files.get());
    let situation = situation_of(&policy, &*engine.host, files, &call.session, effects);
    policy.decide_in(&call.name, effects.clone(), files.workspace(), &situation)
}

/// Returns the facts that a decision about these effects depends on, also those that the files themselves tell.
pub(crate) fn situation_of(
    policy: &Policy,
    host: &dyn Host,
    files: &dyn Files,
    session: &Session,
    effects: &Effects,
) -> DecisionContext {
    let harmless = policy.harmless(effects, files);
    let git_places = unnamed_git_places(effects, files);
    DecisionContext { harmless, git_places, ..situation(host, files, session) }
}

/// Returns the facts about time and session that a decision depends on.
pub(crate) fn situation(host: &dyn Host, files: &dyn Files, session: &Session) -> DecisionContext {
    DecisionContext {
        now: Some(host.clock().now()),
        untrusted: session.untrusted(),
        ..DecisionContext::in_session(files)
    }
}

/// Returns the requester of a session's calls: agent, parent session and depth, for the approval.
pub(crate) fn asker(session: &Session, overrides: &Overrides) -> Requester {
    Requester {
        agent: session.agent_name().map(str::to_owned),
        parent: session.parent().cloned(),
        depth: overrides.depth.unwrap_or(0),
    }
}

/// Describes the confinement of a session's programs and their shell; empty if the machine runs no programs. An answer that was given for
/// one does not count for another.
pub(crate) fn confinement_text(host: &dyn Host, session: &Session) -> String {
    let Some(processes) = host.processes() else { return String::new() };
    let confinement = session.rights().confine(processes.confinement());
    let shell = processes.shell();
    if shell.is_usual() { confinement.to_string() } else { format!("{confinement}, shell {shell}") }
}

/// Describes the confinement of a call's programs for the person who is asked, with a warning about changes that are kept at once.
fn confinement_for_person(engine: &Shared, call: &Call, verdict: &Verdict) -> String {
    let words = confinement_text(&*engine.host, &call.session);
    let is_job = |effect: &Effect| matches!(effect, Effect::Exec(command) if command.is_job);
    let level = engine
        .host
        .processes()
        .map(|processes| call.session.rights().confine(processes.confinement()).level);
    let is_direct = level == Some(SandboxLevel::Workspace)
        && !engine.policy_of(call).is_plan()
        && call.session.proposals().is_none();
    if is_direct && verdict.effects().iter().any(is_job) {
        return format!("{words}; the job may write in the workspace, which cannot be undone");
    }
    let changes =
        |effect: &Effect| matches!(effect, Effect::Exec(command) if !command.only_reads());
    if is_direct && verdict.keeps() == KeptChanges::All && verdict.effects().iter().any(changes) {
        return format!(
            "{words}; what it changes in the workspace is kept, and can be undone except in build directories"
        );
    }
    words
}

/// Plans a call and obtains the grant to run it: from the policy, a hook, an earlier answer or a person. Also keeps the decision in the
/// call and declares its effects to the queue. If a person approves it with other arguments, these are planned and decided on from the
/// beginning: the approval covers effects that ask, never denied ones.
pub(super) async fn permit<'t>(
    engine: &Arc<Shared>,
    call: &mut Call,
    slot: &'t Slot,
    ticket: &Ticket,
) -> Result<(ReadyCall<'t>, Grant), ToolError> {
    let cancel = call.cancel.clone();
    if let Some(Approval { id, settled: ApprovalState::Denied(why), .. }) = call.answer.as_deref() {
        return Err(ToolError::denied(format!(
            "not allowed: a person said no before, in {id}: {why}"
        )));
    }
    loop {
        let mut ready = prepare(engine, slot, call)?;
        if !engine.hooks.is_empty() && call.for_person.is_none() {
            let asked = Box::pin(hooks::ask_before_call(engine, call, slot, ready));
            ready = unless_stopped(&cancel, asked).await?;
        }
        let verdict = hooks::apply_to_verdict(call, decide(engine, call, &ready));
        let verdict = hidden_search::ask_if_hidden_files_in_reach(engine, call, verdict).await;
        call.decided = Some(verdict.decided(None));
        ticket.declare(ready.effects.clone());
        if let Some(grant) = grant_edited(call, &verdict) {
            return Ok((ready, grant));
        }
        if let Some(grant) = for_person::grant_for_person(call, &verdict) {
            return Ok((ready, grant));
        }
        if let Some(grant) = granted_at_once(&verdict) {
            if !engine.broker.has_no_denials() {
                Box::pin(refuse_if_denied_before(engine, call, &verdict)).await?;
            }
            return Ok((ready, grant));
        }
        let asked = Box::pin(hooks::ask_instead_of_person(engine, call, &verdict));
        if let Some(grant) = unless_stopped(&cancel, asked).await? {
            return Ok((ready, grant));
        }
        match Box::pin(obtain_permission(engine, call, &ready, &verdict)).await? {
            Permission::Granted(grant, said) => {
                if verdict.decision_to_run() == Decision::Ask {
                    effects::check_paths_unchanged(call, &ready.resolved)?;
                }
                call.hook_answers.extend(said);
                return Ok((ready, grant));
            }
            Permission::Edited(approval) => {
                call.input = approval.edited.clone().unwrap_or_default();
                call.answer = Some(approval);
                parse::refuse_oversized(call)?;
            }
        }
    }
}

/// Takes the approval in which a person changed the arguments, and returns the grant for these. `None` if there is none, if the call is
/// now allowed or denied anyway, or if a hook changed the arguments again: that call needs a new approval.
fn grant_edited(call: &mut Call, verdict: &Verdict) -> Option<Grant> {
    let approval = call.answer.take()?;
    if verdict.decision() != Decision::Ask || approval.edited.as_ref() != Some(&call.input) {
        return None;
    }
    let note = "[a person changed the arguments of this call before allowing it]".to_owned();
    call.hook_answers.extend([note].into_iter().chain(approval.note_for_model()));
    Some(Broker::grant_edited(verdict, &approval))
}

/// Returns whether an earlier answer can settle a call with this verdict. If the approval is about the changes of a command that runs
/// first, a remembered answer counts before it runs.
fn can_use_earlier_answer(verdict: &Verdict) -> bool {
    match verdict.grant() {
        Some(_) => verdict.when() == AskTime::After,
        None => verdict.decision() != Decision::Deny,
    }
}

/// Returns the grant of a call about which neither a hook nor a person is asked; `None` for the others. Most calls end here; the others
/// wait in a boxed future, so that this one stays small.
fn granted_at_once(verdict: &Verdict) -> Option<Grant> {
    verdict.grant().filter(|_| !can_use_earlier_answer(verdict))
}

/// Fails if a person remembered a no to this very call, which the rules or the mode allow.
async fn refuse_if_denied_before(
    engine: &Shared,
    call: &mut Call,
    verdict: &Verdict,
) -> Result<(), ToolError> {
    let request = approval_request(engine, call, verdict);
    let Some(denied) = engine.broker.find_denial(&request).await else { return Ok(()) };
    let by = decided_by(&denied, Some(denied.scope));
    call.decided = Some(verdict.clone().denied_by(by).decided(None));
    Err(denial_by_answer(verdict, &denied))
}

/// Finds the earlier answer that would settle the call. Does not use it up.
pub(super) async fn earlier_answer(
    engine: &Shared,
    call: &Call,
    verdict: &Verdict,
) -> Option<Approval> {
    if granted_at_once(verdict).is_some() {
        return engine.broker.find_denial(&approval_request(engine, call, verdict)).await;
    }
    if !can_use_earlier_answer(verdict) {
        return None;
    }
    engine.broker.find_earlier_answer(&approval_request(engine, call, verdict)).await
}

/// Obtains the grant from an earlier answer, from the verdict, or by asking a person, who is shown the changes of a trial run. Fails with
/// a denial that says what would allow the call, with the error of the trial, or if the call is stopped.
async fn obtain_permission(
    engine: &Arc<Shared>,
    call: &Call,
    ready: &ReadyCall<'_>,
    verdict: &Verdict,
) -> Result<Permission, ToolError> {
    let request = can_use_earlier_answer(verdict).then(|| approval_request(engine, call, verdict));
    if let Some(request) = &request
        && let Some(answered) = engine.broker.use_earlier_answer(verdict, request).await
    {
        return answered;
    }
    if let Some(grant) = verdict.grant() {
        return Ok(Permission::Granted(grant, None));
    }
    let Some(mut request) = request else { return Err(verdict.denial(None)) };
    if engine.broker.is_attended(&call.session) {
        request.changes = trial::try_changes(engine, call, ready, verdict).await?;
    } else if may_read_all(engine, call, verdict) {
        // Only for its error: a call that would fail anyway must not be told that it needs an approval.
        trial::try_changes(engine, call, ready, verdict).await?;
    }
    let source = call.source();
    let announce =
        |request: &Arc<ApprovalRequest>| engine.recorder.approval_asked(request, &source);
    let _asking = call.lineage.clock.pause_while_asking();
    tokio::select! {
        biased;
        () = call.cancel.cancelled() => {
            engine.broker.catch_up().await;
            Err(ToolError::cancelled("the call was stopped before a person answered"))
        }
        answer = engine.broker.ask(verdict, request, &call.session, announce) => answer,
    }
}

/// Returns whether the call names files and the rules allow reading all of them, so that the error of a trial tells the model nothing
/// new.
fn may_read_all(engine: &Shared, call: &Call, verdict: &Verdict) -> bool {
    let reads = verdict.effects().iter().filter_map(|effect| match effect {
        Effect::Read(at) | Effect::Write(at) | Effect::Delete(at) => Some(Effect::Read(at.clone())),
        _ => None,
    });
    let reads: Arc<Effects> = Arc::new(reads.collect());
    !reads.is_empty() && decide_on(engine, call, &reads).decision() == Decision::Allow
}

/// Returns the rules that a person can give together with an approval; none if the call asks each time, or is not asked about before it
/// runs.
fn offers_of(engine: &Shared, call: &Call, verdict: &Verdict) -> Vec<String> {
    if verdict.is_asked_always() || verdict.decision_to_run() != Decision::Ask {
        return Vec::new();
    }
    let (policy, files, effects) = (engine.policy_of(call), call.files.get(), verdict.effects());
    let situation = situation_of(&policy, &*engine.host, files, &call.session, effects);
    let workspace = files.workspace();
    let suffices = |rules: &[Rule]| {
        policy.allows_run_with(rules, &call.name, effects, None, workspace, &situation)
    };
    offers(effects, &[], workspace, &engine.secrets, &suffices)
}

/// Makes the approval request for a call, with secrets redacted and without changes to show. Does not send it.
fn approval_request(engine: &Shared, call: &Call, verdict: &Verdict) -> ApprovalRequest {
    let workspace = call.files.get().workspace();
    let directory = call.overrides.work_dir.as_deref().unwrap_or(workspace);
    let input = record::clean_input(engine, call);
    ApprovalRequest {
        id: engine.broker.next_approval(),
        call: call.id.clone(),
        session: call.session.id().clone(),
        tool: call.name.clone(),
        subject: approval_subject(
            &call.name,
            &call.input,
            verdict.effects(),
            CallLocation { workspace, directory: &workspace.join(directory) },
            &confinement_text(&*engine.host, &call.session),
        ),
        is_whole: *input == call.input,
        input: input.into_owned(),
        effects: engine.secrets.redact_effects(verdict.effects()),
        by: engine.secrets.redact_cause(verdict.decided_by()),
        risk: engine.policy_of(call).risk_in(verdict.effects(), call.files.get()),
        asker: asker(&call.session, &call.overrides),
        untrusted: call.session.untrusted(),
        changes: [].into(),
        built: Vec::new(),
        confinement: confinement_for_person(engine, call, verdict),
        offers: offers_of(engine, call, verdict),
        workspace: workspace.to_owned(),
        directory: call.overrides.work_dir.clone(),
        at: engine.host.clock().now(),
        can_be_remembered: !verdict.is_asked_always(),
        denies: engine.policy_of(call).deny_rules(),
        rights: call.session.rights().digest(),
        made: call.made.clone(),
        ran: None,
        ended: None,
        has_run: false,
        call_subject: None,
        can_wait: true,
    }
}
