//! Stage 6: the policy's decision, and a person's where it asks.

use std::sync::Arc;

use super::{Call, Ready, Shared, record, trial};
use crate::policy::{Place, subject};
use crate::protected::unnamed_git_places;
use crate::{
    ApprovalRequest, Asker, Decision, Event, Files, Grant, Host, Overrides, Session, Situation,
    ToolError, Verdict,
};

pub(super) fn decide(engine: &Shared, call: &Call, ready: &Ready<'_>) -> Verdict {
    let (policy, files) = (engine.policy_of(&call.session), call.files.get());
    let harmless = policy.harmless(&ready.effects, files);
    let git_places = unnamed_git_places(&ready.effects, files);
    let situation =
        Situation { harmless, git_places, ..situation(&*engine.host, files, &call.session) };
    let workspace = files.workspace();
    let verdict = policy.decide_in(&call.name, ready.effects.clone(), workspace, &situation);
    if ready.planned.needs_person() { verdict.needing_person() } else { verdict }
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

/// The confinement of a session's programs, in words. An answer that was given for one confinement does not count for another.
pub(crate) fn surroundings(host: &dyn Host, session: &Session) -> String {
    let Some(processes) = host.processes() else { return String::new() };
    session.rights().confine(processes.confinement()).to_string()
}

/// Turns the verdict into the right to run, or into a denial that says what would allow it.
pub(super) async fn settle(
    engine: &Arc<Shared>,
    call: &Call,
    ready: &Ready<'_>,
    verdict: &Verdict,
) -> Result<Grant, ToolError> {
    if let Some(grant) = verdict.grant() {
        return Ok(grant);
    }
    if verdict.decision() == Decision::Deny {
        let error = ToolError::denied(verdict.refusal());
        return Err(match verdict.remedy() {
            Some(remedy) => error.hint(remedy),
            None => error,
        });
    }
    let mut request = request(engine, call, verdict);
    if let Some(answered) = engine.broker.answered(verdict, &request) {
        return answered;
    }
    if engine.broker.is_attended() {
        request.changes = trial::changes(engine, call, ready, verdict).await?;
    }
    let announce =
        |request: &ApprovalRequest| engine.events.publish(&Event::Approval(request.clone().into()));
    let _asking = call.lineage.clock.asking();
    tokio::select! {
        biased;
        () = call.cancel.cancelled() => Err(ToolError::cancelled("the call was stopped before anybody answered")),
        answer = engine.broker.ask(verdict, request, announce) => answer,
    }
}

fn request(engine: &Shared, call: &Call, verdict: &Verdict) -> ApprovalRequest {
    let workspace = call.files.get().workspace();
    let directory = call.overrides.work_dir.as_deref().unwrap_or(workspace);
    let input = record::clean_input(engine, call);
    ApprovalRequest {
        id: engine.broker.next_id(),
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
        is_whole: input == call.input,
        input,
        effects: engine.secrets.redact_effects(verdict.effects()),
        by: engine.secrets.redact_cause(verdict.decided_by()),
        risk: engine.policy_of(&call.session).risk_in(verdict.effects(), call.files.get()),
        asker: asker(&call.session, &call.overrides),
        untrusted: call.session.untrusted(),
        changes: [].into(),
        workspace: workspace.to_owned(),
        directory: call.overrides.work_dir.clone(),
        at: engine.host.clock().now(),
        can_be_remembered: !verdict.is_asked_always(),
    }
}
