//! Stage 6: the policy's decision, and a person's where it asks.

use std::path::Path;
use std::sync::Arc;

use super::schedule::Ticket;
use super::{
    Call, Ready, Shared, effects, for_person, hooks, parse, prepare, record, search, trial,
    unless_stopped,
};
use crate::people::{Broker, Permission, Place, subject};
use crate::policy::offers;
use crate::protected::unnamed_git_places;
use crate::toolbox::Slot;
use crate::{
    Approval, ApprovalRequest, Asker, Decision, Effect, Effects, Files, Grant, Host, Keep, Level,
    Overrides, Session, Settled, Situation, ToolError, Verdict, When,
};

pub(super) fn decide(engine: &Shared, call: &Call, ready: &Ready<'_>) -> Verdict {
    let verdict = decide_on(engine, call, &ready.effects);
    if ready.planned.needs_person() { verdict.needing_person() } else { verdict }
}

/// The policy's decision about effects, resolved, of a call.
fn decide_on(engine: &Shared, call: &Call, effects: &Arc<Effects>) -> Verdict {
    let (policy, files) = (engine.policy_of(call), call.files.get());
    let harmless = policy.harmless(effects, files);
    let git_places = unnamed_git_places(effects, files);
    let situation =
        Situation { harmless, git_places, ..situation(&*engine.host, files, &call.session) };
    let workspace = files.workspace();
    policy.decide_in(&call.name, effects.clone(), workspace, &situation)
}

/// What a decision in this session depends on besides the call and the rules.
pub(crate) fn situation(host: &dyn Host, files: &dyn Files, session: &Session) -> Situation {
    Situation {
        now: Some(host.clock().now()),
        untrusted: session.untrusted(),
        ..Situation::in_session(files)
    }
}

/// Who is behind the calls of a session.
pub(crate) fn asker(session: &Session, overrides: &Overrides) -> Asker {
    Asker {
        agent: session.agent_name().map(str::to_owned),
        parent: session.parent().cloned(),
        depth: overrides.depth.unwrap_or(0),
    }
}

/// The confinement of a session's programs and their shell, in words. An answer that was given for one does not count for another.
pub(crate) fn surroundings(host: &dyn Host, session: &Session) -> String {
    let Some(processes) = host.processes() else { return String::new() };
    let confinement = session.rights().confine(processes.confinement());
    let shell = processes.shell();
    if shell.is_usual() { confinement.to_string() } else { format!("{confinement}, shell {shell}") }
}

/// The confinement of a call's programs, in words. Of a job it says what a yes lets it do.
fn confinement(engine: &Shared, call: &Call, verdict: &Verdict) -> String {
    let words = surroundings(&*engine.host, &call.session);
    let is_job = |effect: &Effect| matches!(effect, Effect::Exec(command) if command.is_job);
    let level = engine
        .host
        .processes()
        .map(|processes| call.session.rights().confine(processes.confinement()).level);
    let is_direct = level == Some(Level::Workspace)
        && !engine.policy_of(call).is_plan()
        && call.session.proposals().is_none();
    if is_direct && verdict.effects().iter().any(is_job) {
        return format!("{words}; the job may write in the workspace, which cannot be undone");
    }
    let changes =
        |effect: &Effect| matches!(effect, Effect::Exec(command) if !command.only_reads());
    if is_direct && verdict.keeps() == Keep::All && verdict.effects().iter().any(changes) {
        return format!("{words}; what it changes in the workspace is kept, and can be undone");
    }
    words
}

/// Plans a call and turns the decision about it into the right to run. A person who approves it with other arguments has these planned
/// and decided on from the beginning: the answer covers what would ask, never what is denied.
pub(super) async fn permit<'t>(
    engine: &Arc<Shared>,
    call: &mut Call,
    slot: &'t Slot,
    ticket: &Ticket,
) -> Result<(Ready<'t>, Grant), ToolError> {
    let cancel = call.cancel.clone();
    if let Some(Approval { id, settled: Settled::Denied(why), .. }) = call.answer.as_deref() {
        return Err(ToolError::denied(format!(
            "not allowed: a person said no before, in {id}: {why}"
        )));
    }
    loop {
        let mut ready = prepare(engine, slot, call)?;
        if !engine.hooks.is_empty() && call.for_person.is_none() {
            let asked = Box::pin(hooks::before(engine, call, slot, ready));
            ready = unless_stopped(&cancel, asked).await?;
        }
        let verdict = hooks::weigh(call, decide(engine, call, &ready));
        let verdict = search::weigh(engine, call, verdict).await;
        call.decided = Some(verdict.decided(None));
        ticket.declare(ready.effects.clone());
        if let Some(grant) = grant_edited(call, &verdict) {
            return Ok((ready, grant));
        }
        if let Some(grant) = for_person::agreed(call, &verdict) {
            return Ok((ready, grant));
        }
        if let Some(grant) = granted_at_once(&verdict) {
            return Ok((ready, grant));
        }
        let asked = Box::pin(hooks::instead_of_person(engine, call, &verdict));
        if let Some(grant) = unless_stopped(&cancel, asked).await? {
            return Ok((ready, grant));
        }
        match Box::pin(settle(engine, call, &ready, &verdict)).await? {
            Permission::Granted(grant, said) => {
                if verdict.decision_to_run() == Decision::Ask {
                    effects::check_again(call, &ready.resolved)?;
                }
                call.said.extend(said);
                return Ok((ready, grant));
            }
            Permission::Edited(approval) => {
                call.input = approval.edited.clone().unwrap_or_default();
                call.answer = Some(approval);
                parse::weigh(call)?;
            }
        }
    }
}

/// The right to run with the arguments that a person put in place of the model's. A hook that changed them once more makes it another
/// call, which is asked about anew.
fn grant_edited(call: &mut Call, verdict: &Verdict) -> Option<Grant> {
    let approval = call.answer.take()?;
    if verdict.decision() != Decision::Ask || approval.edited.as_ref() != Some(&call.input) {
        return None;
    }
    let note = "[a person changed the arguments of this call before allowing it]".to_owned();
    call.said.extend([note].into_iter().chain(approval.said()));
    Some(Broker::grant_edited(verdict, &approval))
}

/// Tells whether an earlier answer settles a call that is decided on like this. One that is remembered for a command about whose changes
/// is asked counts before it runs.
fn heeds_answers(verdict: &Verdict) -> bool {
    match verdict.grant() {
        Some(_) => verdict.when() == When::After,
        None => verdict.decision() != Decision::Deny,
    }
}

/// Returns the right to run if neither a hook nor a person has a say about it. Everything else waits, in a box of its own: most calls
/// are granted at once, and each would have to carry the room for the waiting.
fn granted_at_once(verdict: &Verdict) -> Option<Grant> {
    verdict.grant().filter(|_| !heeds_answers(verdict))
}

/// The earlier answer that would settle a call. Nothing is used up.
pub(super) async fn earlier_answer(
    engine: &Shared,
    call: &Call,
    verdict: &Verdict,
) -> Option<Approval> {
    if !heeds_answers(verdict) {
        return None;
    }
    engine.broker.earlier(&request(engine, call, verdict)).await
}

/// Turns the verdict into the right to run, or into a denial that says what would allow it.
async fn settle(
    engine: &Arc<Shared>,
    call: &Call,
    ready: &Ready<'_>,
    verdict: &Verdict,
) -> Result<Permission, ToolError> {
    let request = heeds_answers(verdict).then(|| request(engine, call, verdict));
    if let Some(request) = &request
        && let Some(answered) = engine.broker.answered(verdict, request).await
    {
        return answered;
    }
    if let Some(grant) = verdict.grant() {
        return Ok(Permission::Granted(grant, None));
    }
    let Some(mut request) = request else { return Err(verdict.denial(None)) };
    if engine.broker.is_attended(&call.session) {
        request.changes = trial::changes(engine, call, ready, verdict).await?;
    } else if may_read_all(engine, call, verdict) {
        // Only for its error: a call that fails anyway is not to be told that it needs a yes.
        trial::changes(engine, call, ready, verdict).await?;
    }
    let source = call.source();
    let announce =
        |request: &Arc<ApprovalRequest>| engine.recorder.approval_asked(request, &source);
    let _asking = call.lineage.clock.asking();
    tokio::select! {
        biased;
        () = call.cancel.cancelled() => {
            engine.broker.catch_up().await;
            Err(ToolError::cancelled("the call was stopped before anybody answered"))
        }
        answer = engine.broker.ask(verdict, request, &call.session, announce) => answer,
    }
}

/// Tells whether a call could read all files that it is about without anybody's yes, so that the error of a trial tells it nothing new.
fn may_read_all(engine: &Shared, call: &Call, verdict: &Verdict) -> bool {
    let reads = verdict.effects().iter().filter_map(|effect| match effect {
        Effect::Read(at) | Effect::Write(at) | Effect::Delete(at) => Some(Effect::Read(at.clone())),
        _ => None,
    });
    let reads: Arc<Effects> = Arc::new(reads.collect());
    !reads.is_empty() && decide_on(engine, call, &reads).decision() == Decision::Allow
}

/// Rules that a person can give with a yes: none for what is asked each time.
fn offers_of(engine: &Shared, verdict: &Verdict, workspace: &Path) -> Vec<String> {
    if verdict.is_asked_always() {
        return Vec::new();
    }
    offers(verdict.effects(), &[], workspace, &engine.secrets)
}

fn request(engine: &Shared, call: &Call, verdict: &Verdict) -> ApprovalRequest {
    let workspace = call.files.get().workspace();
    let directory = call.overrides.work_dir.as_deref().unwrap_or(workspace);
    let input = record::clean_input(engine, call);
    ApprovalRequest {
        id: engine.broker.next_approval(),
        call: call.id.clone(),
        session: call.session.id().clone(),
        tool: call.name.clone(),
        subject: subject(
            &call.name,
            &call.input,
            verdict.effects(),
            Place { workspace, directory: &workspace.join(directory) },
            &surroundings(&*engine.host, &call.session),
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
        confinement: confinement(engine, call, verdict),
        offers: offers_of(engine, verdict, workspace),
        workspace: workspace.to_owned(),
        directory: call.overrides.work_dir.clone(),
        at: engine.host.clock().now(),
        can_be_remembered: !verdict.is_asked_always(),
        denies: engine.policy_of(call).deny_rules(),
        rights: call.session.rights().digest(),
        made: call.made.clone(),
        ran: None,
        has_run: false,
        call_subject: None,
        can_wait: true,
    }
}
