//! `windlass policy approve` and `deny`: answers a question that outlived the program that asked it, and brings its call to an end.
//!
//! The call is made at once, in its session and on the record, so that its model finds a result and need not ask again. The answer is
//! used up by that. If the call is no longer what was asked about (another place behind a path, another sandbox), it is not used.
//!
//! Two calls are not made here: one that holds a secret, whose arguments are not on record, and one that starts a job, which would end with
//! this process. Their answer is kept for the model, which makes the call again.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use windlass::effect::Effect;
use windlass::journal::utc;
use windlass::people::{
    Answer, Approval, ApprovalFile, Book as _, Inquiry as _, InquiryState, Scope, Settled,
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

pub(super) fn run(global: &Global, id: &str, answer: &Answer) -> Result<ExitCode> {
    let book = approvals::book(global)?;
    let question = question(global, &book, id)?;
    check_scope(&question, answer)?;
    // The start of the engine finds out what became of changes that a killed process was making.
    let may_be_made = question.has_run && question.settled == Settled::Allowed;
    if !may_be_made {
        check(global, &book, &question, answer)?;
    }
    let is_open = question.state(SystemTime::now()) == InquiryState::Open;
    let mut settings = setup::settings(global, Recording::Brief)?;
    settings.people = setup::people(global);
    // What was denied where the question was asked stays denied, also for other arguments.
    settings.overrides.deny.extend(question.denies.iter().cloned());
    block_on(async {
        let windlass = Hub::new(settings).open(&question.workspace)?;
        if may_be_made {
            if !is_on_record(&book, &question.id)? {
                return tell_made(global, &question.id, answer);
            }
            check(global, &book, &question, answer)?;
        }
        let session = session_of(global, &windlass, &question)?;
        let is_awaited = book.is_held(question.id.as_str()).map_err(|why| anyhow!(why))?;
        let (engine, id) = (windlass.engine(), &question.id);
        if !is_awaited
            && let Some(why) = why_left_to_model(&windlass, &session, &question, answer).await
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
        take_back_unused(global, &book, &question)?;
        let shown = call::print_result(global, &result)?;
        Ok(if !answer.is_yes() && result.outcome == Outcome::Denied {
            ExitCode::SUCCESS
        } else {
            shown
        })
    })?
}

/// Refuses a scope that the answer cannot have, before anything is kept.
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

/// Returns why a yes to an open question does not make its call here, if it does not.
async fn why_left_to_model(
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
    // What cannot be decided on ends as the call would.
    let verdict = windlass.engine().explain(session, call).await.ok()?;
    let starts_job = answer.is_yes() && verdict.effects().iter().any(is_job);
    starts_job.then_some("a job ends with the process that starts it")
}

/// The session in which a question was asked, for its call alone.
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

/// The call of a question, with these arguments.
pub(super) fn call_of(question: &Approval, input: Value) -> ToolCall {
    let overrides = Overrides { work_dir: question.directory.clone(), ..Overrides::default() };
    ToolCall::new(question.tool.clone(), input).with_overrides(overrides)
}

/// Finds a question by its id, or by a beginning of it that no other has.
pub(super) fn question(global: &Global, book: &ApprovalFile, id: &str) -> Result<Approval> {
    let all = approvals::all(global, book)?;
    let id = ids::expand("approval", id, all.iter().map(|one| one.id.to_string()))?;
    let found = all.into_iter().find(|one| one.id.as_str() == id);
    let id = quote::visible(&id);
    found.ok_or_else(|| {
        anyhow!("there is no question `{id}`: `windlass policy approvals` lists what is open")
    })
}

/// Says that a process which was killed had made the changes that the question was about.
fn tell_made(global: &Global, id: &ApprovalId, answer: &Answer) -> Result<ExitCode> {
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

/// Checks that a question can be answered: it is open, or was answered in the same way by a process that was killed before it made the
/// call.
fn check(global: &Global, book: &ApprovalFile, found: &Approval, answer: &Answer) -> Result<()> {
    let id = quote::visible(found.id.as_str());
    match found.state(SystemTime::now()) {
        InquiryState::Open => Ok(()),
        InquiryState::Answered if is_left_over(book, found, answer)? => {
            terminal::note(
                global,
                &format!("`{id}` is {} already; its call was not made yet", found.settled),
            );
            Ok(())
        }
        InquiryState::Answered => bail!(
            "`{id}` is answered already ({}): `windlass policy revoke {id}` takes that back",
            found.settled
        ),
        InquiryState::Expired => bail!(
            "`{id}` expired at {}: the model has to make the call again",
            utc(found.expires())
        ),
    }
}

/// Returns whether a question has this answer already, and no process makes its call.
fn is_left_over(book: &ApprovalFile, found: &Approval, answer: &Answer) -> Result<bool> {
    let is_same = (found.settled == Settled::Allowed) == answer.is_yes()
        && (answer.input.is_none() || answer.input == found.edited);
    let is_made_now = book.is_held(found.id.as_str()).map_err(|why| anyhow!(why))?;
    Ok(is_same && found.can_be_resumed(SystemTime::now()) && !is_made_now)
}

/// An answer for one call that this call did not use would wait for another one that nobody has looked at.
fn take_back_unused(global: &Global, book: &ApprovalFile, question: &Approval) -> Result<()> {
    // A question that is open again waits for another answer.
    let is_left = |one: &Approval| {
        one.id == question.id && one.scope == Scope::Once && one.settled != Settled::Pending
    };
    let is_left = book.list().map_err(|why| anyhow!(why))?.iter().any(is_left);
    if is_left && remove(book, &question.id)? {
        terminal::note(
            global,
            "the answer was not needed, or not for this call as it is now: it is not kept",
        );
    }
    Ok(())
}

fn is_on_record(book: &ApprovalFile, id: &ApprovalId) -> Result<bool> {
    Ok(book.list().map_err(|why| anyhow!(why))?.iter().any(|one| one.id == *id))
}

fn remove(book: &ApprovalFile, id: &ApprovalId) -> Result<bool> {
    book.remove(id.as_str()).map_err(|why| anyhow!(why))
}
