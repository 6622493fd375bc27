//! `windlass policy approve` and `deny`: answers an approval that outlived the program that asked it, and brings its call to an end.
//!
//! The call is made at once, in its session and on the record, so that its model finds a result and need not ask again. That uses up the
//! answer. If the call is no longer the one that was asked about (the path leads elsewhere now, the sandbox differs), the answer is not used.
//!
//! Two kinds of calls are not made here: one that holds a secret, whose arguments are not on record, and one that starts a job, which would
//! end with this process. Their answer is kept for the model, which makes the call again.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use windlass::effect::Effect;
use windlass::journal::utc;
use windlass::people::{
    Answer, Approval, ApprovalFile, ApprovalState, Inquiry as _, InquiryBook as _, InquiryState,
    Scope,
};
use windlass::session::ApprovalId;
use windlass::tool::Overrides;
use windlass::{Outcome, Session, ToolCall, quote};
use windlass_hub::{Hub, Recording, SessionOptions, Workspace};

use super::approvals;
use crate::command::{block_on, call, until_interrupted};
use crate::ids;
use crate::options::Global;
use crate::setup;
use crate::terminal;

/// Answers the approval and makes its call, or keeps the answer for the model. Returns the exit code of the call.
pub(super) fn run(global: &Global, id: &str, answer: &Answer) -> Result<ExitCode> {
    let book = approvals::book(global)?;
    let question = find_approval(global, &book, id)?;
    check_scope(&question, answer)?;
    // Opening the workspace recovers changes that a killed process was committing; only then is it known whether they were made.
    let may_be_committed = question.has_run && question.settled == ApprovalState::Allowed;
    if !may_be_committed {
        check_answerable(global, &book, &question, answer)?;
    }
    let is_open = question.state(SystemTime::now()) == InquiryState::Open;
    let mut settings = setup::settings(global, Recording::Brief)?;
    settings.people = setup::people(global);
    // Rules that denied effects when the approval was asked still deny them, also for other arguments.
    settings.overrides.deny.extend(question.denies.iter().cloned());
    block_on(async {
        let windlass = Hub::new(settings).open(&question.workspace)?;
        if may_be_committed {
            if !is_in_book(&book, &question.id)? {
                return report_committed(global, &question.id, answer);
            }
            check_answerable(global, &book, &question, answer)?;
        }
        let session = session_of(global, &windlass, &question)?;
        let is_awaited = book.is_held(question.id.as_str()).map_err(|why| anyhow!(why))?;
        let (engine, id) = (windlass.engine(), &question.id);
        if !is_awaited
            && let Some(why) =
                reason_to_leave_to_model(&windlass, &session, &question, answer).await
        {
            if answer.input.is_some() {
                bail!(
                    "{why}, so that its arguments cannot be changed here: `windlass policy deny {id} --why TEXT` tells the model what to change"
                );
            }
            if is_open {
                engine
                    .answer(id, answer.clone())
                    .await
                    .map_err(|error| anyhow!("`{id}`: {error}"))?;
            }
            terminal::note(
                global,
                &format!(
                    "the answer is kept; {why}, so that the model has to make it again in session {}",
                    question.session
                ),
            );
            return Ok(ExitCode::SUCCESS);
        }
        let resumed = async {
            if is_open {
                engine.answer_and_resume(&session, id, answer.clone()).await
            } else {
                engine.resume(&session, id).await
            }
        };
        let resumed = until_interrupted(engine, &session, resumed).await??;
        let Some(result) = resumed else {
            terminal::note(
                global,
                &format!("the call that waits in session {} has the answer", question.session),
            );
            return Ok(ExitCode::SUCCESS);
        };
        forget_unused_answer(global, &book, &question)?;
        if answer.is_yes() || result.outcome != Outcome::Denied {
            return call::print_result(global, &result);
        }
        if global.json {
            call::print_result(global, &result)?;
        } else {
            terminal::print(&denied_text(&question, answer.reason.as_deref()))?;
        }
        Ok(ExitCode::SUCCESS)
    })?
}

/// Returns the text for the person whose no ended the call, with the reason that the model gets.
fn denied_text(question: &Approval, reason: Option<&str>) -> String {
    let (id, session) = (quote::visible(question.id.as_str()), &question.session);
    let consequence = if question.has_run {
        format!("what the command of `{id}` changed is dropped")
    } else {
        format!("the call of `{id}` is denied and was not made")
    };
    let reason = reason.map(|reason| format!(": {}", quote::visible(reason))).unwrap_or_default();
    format!("{consequence} (session {session}){reason}\n")
}

/// Fails if the answer cannot be remembered for its scope.
fn check_scope(question: &Approval, answer: &Answer) -> Result<()> {
    if answer.scope == Scope::Once || question.can_remember(answer) {
        return Ok(());
    }
    let (id, scope) = (quote::visible(question.id.as_str()), answer.scope);
    let rules = question.offers.iter().map(|rule| format!("`--allow '{rule}'`"));
    let rules: Vec<String> = rules.collect();
    let rule = if rules.is_empty() { "`--allow RULE`".to_owned() } else { rules.join(" or ") };
    if answer.input.is_some() {
        bail!("a yes with other arguments counts once: leave `--scope {scope}` out");
    }
    if question.has_run && answer.is_yes() {
        bail!(
            "the command of `{id}` has run, and a yes is for what it changed, once: leave `--scope {scope}` out. \
             What is to be kept without a question is a rule: {rule}, or `allow` in the configuration"
        );
    }
    bail!(
        "`{id}` is asked about each time, so that its answer counts once: leave `--scope {scope}` out"
    )
}

/// Returns the reason why the call is not made here but left to the model; `None` if it is made here.
async fn reason_to_leave_to_model(
    windlass: &Workspace,
    session: &Arc<Session>,
    question: &Approval,
    answer: &Answer,
) -> Option<&'static str> {
    if question.has_run {
        return None;
    }
    let Some(input) = answer.input.as_ref().or(question.input.as_ref()) else {
        let is_open = question.state(SystemTime::now()) == InquiryState::Open;
        return is_open.then_some("the call holds a secret");
    };
    let call = call_of(question, input.clone());
    let is_job = |effect: &Effect| matches!(effect, Effect::Exec(command) if command.is_job);
    // A call that cannot be decided on is made, and ends with that error.
    let verdict = windlass.engine().explain(session, call).await.ok()?;
    let starts_job = answer.is_yes() && verdict.effects().iter().any(is_job);
    starts_job.then_some("a job ends with the process that starts it")
}

/// Opens the session in which an approval was asked, for its call alone.
pub(super) fn session_of(
    global: &Global,
    windlass: &Workspace,
    question: &Approval,
) -> Result<Arc<Session>> {
    Ok(windlass.session(SessionOptions {
        id: Some(question.session.clone()),
        asker: question.asker.clone(),
        is_for_one_call: true,
        ..setup::session_options(global)
    })?)
}

/// Returns the call of an approval, with these arguments.
pub(super) fn call_of(question: &Approval, input: Value) -> ToolCall {
    let overrides = Overrides { work_dir: question.directory.clone(), ..Overrides::default() };
    ToolCall::new(question.tool.clone(), input).with_overrides(overrides)
}

/// Finds an approval by its id, or by a beginning of it that no other id has.
pub(super) fn find_approval(global: &Global, book: &ApprovalFile, id: &str) -> Result<Approval> {
    let all = approvals::read_all(global, book)?;
    let id = ids::expand("approval", id, all.iter().map(|one| one.id.to_string()))?;
    let approval = all.into_iter().find(|one| one.id.as_str() == id);
    let id = quote::visible(&id);
    approval.ok_or_else(|| {
        anyhow!("there is no question `{id}`: `windlass policy approvals` lists what is open")
    })
}

/// Reports that a killed process had already made the changes that the approval was about. A no is an error then.
fn report_committed(global: &Global, id: &ApprovalId, answer: &Answer) -> Result<ExitCode> {
    if answer.is_yes() {
        let made =
            format!("what the command of {id} changed was kept before its process was killed");
        terminal::note(global, &made);
        return Ok(ExitCode::SUCCESS);
    }
    bail!(
        "`{id}` was allowed before, and what its command changed is kept: `windlass undo` takes it back"
    )
}

/// Checks that an approval can be answered: it is open, or was answered in the same way by a process that was killed before it made the
/// call.
fn check_answerable(
    global: &Global,
    book: &ApprovalFile,
    approval: &Approval,
    answer: &Answer,
) -> Result<()> {
    let id = quote::visible(approval.id.as_str());
    match approval.state(SystemTime::now()) {
        InquiryState::Open => Ok(()),
        InquiryState::Answered if is_interrupted_answer(book, approval, answer)? => {
            terminal::note(
                global,
                &format!("`{id}` is {} already; its call was not made yet", approval.settled),
            );
            Ok(())
        }
        InquiryState::Answered => bail!(
            "`{id}` is answered already ({}): `windlass policy revoke {id}` takes that back",
            approval.settled
        ),
        InquiryState::Expired => bail!(
            "`{id}` expired at {}: the model has to make the call again",
            utc(approval.expires())
        ),
    }
}

/// Returns whether an approval has this answer already, and no process is making its call.
fn is_interrupted_answer(
    book: &ApprovalFile,
    approval: &Approval,
    answer: &Answer,
) -> Result<bool> {
    let is_same = (approval.settled == ApprovalState::Allowed) == answer.is_yes()
        && (answer.input.is_none() || answer.input == approval.edited);
    let is_in_progress = book.is_held(approval.id.as_str()).map_err(|why| anyhow!(why))?;
    Ok(is_same && approval.can_be_resumed(SystemTime::now()) && !is_in_progress)
}

/// Forgets an answer that its call did not use: it would allow a later call that no person has seen.
fn forget_unused_answer(global: &Global, book: &ApprovalFile, question: &Approval) -> Result<()> {
    // An approval that is open again waits for another answer.
    let is_unused = |one: &Approval| {
        one.id == question.id && one.scope == Scope::Once && one.settled != ApprovalState::Pending
    };
    let is_unused = book.list().map_err(|why| anyhow!(why))?.iter().any(is_unused);
    if is_unused && remove(book, &question.id)? {
        terminal::note(
            global,
            "the answer was not needed, or not for this call as it is now: it is not kept",
        );
    }
    Ok(())
}

/// Returns whether the approval file has this approval.
fn is_in_book(book: &ApprovalFile, id: &ApprovalId) -> Result<bool> {
    Ok(book.list().map_err(|why| anyhow!(why))?.iter().any(|one| one.id == *id))
}

/// Removes an approval from the file, and returns whether it was there.
fn remove(book: &ApprovalFile, id: &ApprovalId) -> Result<bool> {
    book.remove(id.as_str()).map_err(|why| anyhow!(why))
}
