//! Stages 5 and 10, and the moment before a person is asked: what hooks have to say about a call.
//!
//! A gate that fails, for whatever reason, has not agreed. Arguments that one hook has replaced are shown to all others, also to
//! those that have seen the old ones: nothing gets past a gate by being changed behind it.

use super::{Call, Ready, Shared, parse, prepare};
use crate::toolbox::Slot;
use crate::{
    Content, Decided, DecidedBy, Decision, Effects, Grant, Happening, Hook, HookAnswer, HookCall,
    HookEvent, HookVerdict, Output, Session, ToolError, Verdict,
};

/// How often each hook is asked about one call before it is clear that two of them will never agree on its arguments.
const ROUNDS: usize = 4;

/// What hooks have said of a call so far.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// For the model.
    context: Vec<String>,
    /// For the record.
    notes: Vec<String>,
    /// Who needs nobody to be asked.
    allowed_by: Option<String>,
    /// Who wants a person to be asked, and why.
    asked_by: Option<DecidedBy>,
}

impl Said {
    /// Adds what a model should know.
    pub(super) fn extend(&mut self, context: impl IntoIterator<Item = String>) {
        self.context.extend(context);
    }
}

/// Asks the hooks before the decision, until all have seen the arguments that it will be about.
pub(super) async fn before<'t>(
    engine: &Shared,
    call: &mut Call,
    slot: &'t Slot,
    mut ready: Ready<'t>,
) -> Result<Ready<'t>, ToolError> {
    let hooks = &engine.hooks;
    let (mut agreed, mut asked) = (0, 0);
    for hook in hooks.iter().cycle() {
        if agreed == hooks.len() {
            break;
        }
        if asked == hooks.len() * ROUNDS {
            return Err(ToolError::denied(format!(
                "not allowed: the hooks do not agree on the arguments; the last to change them is {}",
                hook.name()
            )));
        }
        asked += 1;
        agreed += 1;
        let effects = ready.effects.clone();
        let event = event(engine, &call.session, Happening::PreTool(told(call, &effects)));
        let Some(answer) = ask(engine, &**hook, event).await? else { continue };
        let replaced = answer.input.clone().filter(|input| *input != call.input);
        if let Err(refusal) = take(&mut call.said, &call.session, &**hook, answer) {
            let by = DecidedBy::Hook { name: hook.name().to_owned(), reason: None };
            call.decided = Some(Decided::denied(by));
            return Err(refusal);
        }
        if let Some(input) = replaced {
            call.input = input;
            call.said.allowed_by = None;
            call.said.notes.push(format!("{} changed the arguments", hook.name()));
            parse::weigh(call)?;
            ready = prepare(engine, slot, call)?;
            agreed = 1;
        }
    }
    Ok(ready)
}

/// The verdict with what the hooks want: a person is asked where one of them says so.
pub(super) fn weigh(call: &Call, verdict: Verdict) -> Verdict {
    match &call.said.asked_by {
        Some(by) => verdict.asked_by(by.clone()),
        None => verdict,
    }
}

/// Asks the hooks in place of a person: the right to run if one of them may give it.
pub(super) async fn instead_of_person(
    engine: &Shared,
    call: &mut Call,
    verdict: &Verdict,
) -> Result<Option<Grant>, ToolError> {
    let mut said = std::mem::take(&mut call.said);
    let about = told(call, verdict.effects());
    let granted = before_person(engine, &call.session, about, verdict, &mut said).await;
    call.said = said;
    granted
}

/// The same about what came up while a call ran: the right to go on, if one of them may give it, and what they want the model to
/// know.
pub(crate) async fn about_running(
    engine: &Shared,
    session: &Session,
    call: HookCall<'_>,
    verdict: &Verdict,
) -> Result<(Option<Grant>, Vec<String>), ToolError> {
    let mut said = Said::default();
    let granted = before_person(engine, session, call, verdict, &mut said).await?;
    Ok((granted, said.context))
}

/// Asks the hooks about effects that a running call wants besides those of its plan: before the decision, as about a new call, and in
/// place of a person where it asks. Returns the verdict with what they want, the right to go on if one of them may give it, and what
/// they want the model to know.
pub(crate) async fn about_more(
    engine: &Shared,
    session: &Session,
    call: HookCall<'_>,
    verdict: Verdict,
) -> Result<(Verdict, Option<Grant>, Vec<String>), ToolError> {
    let mut said = Said::default();
    for hook in &engine.hooks {
        let event = event(engine, session, Happening::PreTool(call));
        let Some(answer) = ask(engine, &**hook, event).await? else { continue };
        if answer.input.as_ref().is_some_and(|input| input != call.input) {
            return Err(ToolError::denied(format!(
                "not allowed: the hook {} wants other arguments, and the call already runs",
                hook.name()
            )));
        }
        take(&mut said, session, &**hook, answer)?;
    }
    let verdict = match &said.asked_by {
        Some(by) => verdict.asked_by(by.clone()),
        None => verdict,
    };
    let granted = before_person(engine, session, call, &verdict, &mut said).await?;
    Ok((verdict, granted, said.context))
}

async fn before_person(
    engine: &Shared,
    session: &Session,
    call: HookCall<'_>,
    verdict: &Verdict,
    said: &mut Said,
) -> Result<Option<Grant>, ToolError> {
    if verdict.decision_to_run() != Decision::Ask {
        return Ok(None);
    }
    for hook in &engine.hooks {
        let what = Happening::PermissionRequest { call, by: verdict.decided_by() };
        let event = event(engine, session, what);
        let Some(answer) = ask(engine, &**hook, event).await? else { continue };
        if answer.input.is_some() {
            engine.warn(format!(
                "the hook {} wanted to change the arguments when a person was to be asked; it can do so before, at pre_tool",
                hook.name()
            ));
        }
        take(said, session, &**hook, answer)?;
    }
    // Of two hooks that disagree, the stricter one counts.
    let allowed_by = said.allowed_by.as_ref().filter(|_| said.asked_by.is_none());
    Ok(allowed_by.and_then(|by| verdict.grant_by_hook(by)))
}

/// Shows the hooks the output.
pub(super) async fn after(
    engine: &Shared,
    call: &mut Call,
    effects: &Effects,
    output: &mut Output,
) -> Result<(), ToolError> {
    for hook in &engine.hooks {
        let what = Happening::PostTool(told(call, effects), output);
        let event = event(engine, &call.session, what);
        let answer = match ask(engine, &**hook, event).await {
            Ok(Some(answer)) => answer,
            Ok(None) => continue,
            Err(error) => {
                let why = format!("{error}\nthe call has run; what it answered is held back");
                return Err(ToolError::denied(why));
            }
        };
        take_after(call, &**hook, answer, output);
    }
    Ok(())
}

/// Adds what the hooks want the model and the record to know.
pub(super) fn add_said(call: &mut Call, output: &mut Output) {
    let said = std::mem::take(&mut call.said);
    output.content.extend(said.context.into_iter().map(Content::text));
    if !said.notes.is_empty() {
        output.metadata.insert("hooks".into(), said.notes.into());
    }
}

/// One hook about one event, if it wants to hear of it. The error is that it must have agreed, and could not.
pub(super) async fn ask(
    engine: &Shared,
    hook: &dyn Hook,
    event: HookEvent<'_>,
) -> Result<Option<HookAnswer>, ToolError> {
    if !hook.hears(&event) {
        return Ok(None);
    }
    let limit = hook.time_limit();
    let failed = match tokio::time::timeout(limit, hook.on(event)).await {
        Ok(Ok(answer)) => {
            if let Some(message) = &answer.message {
                engine.warn(format!("the hook {}: {message}", hook.name()));
            }
            return Ok(Some(answer));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it did not answer within {} s", limit.as_secs_f64()),
    };
    let moment = event.what.moment();
    if hook.is_gate(moment) {
        return Err(ToolError::denied(format!(
            "not allowed: the hook {} must agree at {moment}, and failed: {failed}",
            hook.name()
        ))
        .hint("whoever configured the hook has to mend or remove it"));
    }
    engine.warn(format!("the hook {} failed at {moment}: {failed}", hook.name()));
    Ok(None)
}

pub(super) fn event<'a>(
    engine: &'a Shared,
    session: &'a Session,
    what: Happening<'a>,
) -> HookEvent<'a> {
    let workspace = engine.host.files().workspace();
    HookEvent { session, workspace, secrets: &engine.secrets, what }
}

/// What a hook says to a model, so that it cannot pass for anybody else's words.
pub(super) fn marked(hook: &dyn Hook, context: &str) -> String {
    format!("[the hook {} says: {context}]", hook.name())
}

fn told<'a>(call: &'a Call, effects: &'a Effects) -> HookCall<'a> {
    HookCall { id: &call.id, tool: &call.name, input: &call.input, effects }
}

/// Takes over what a hook says before a call.
fn take(
    said: &mut Said,
    session: &Session,
    hook: &dyn Hook,
    answer: HookAnswer,
) -> Result<(), ToolError> {
    let name = hook.name();
    if let Some(context) = &answer.context {
        said.context.push(marked(hook, context));
    }
    match answer.verdict {
        HookVerdict::Allow if hook.may_allow() => said.allowed_by = Some(name.to_owned()),
        // The permission is not its to give.
        HookVerdict::GoOn | HookVerdict::Allow => {}
        HookVerdict::Ask(why) => {
            said.asked_by = Some(DecidedBy::Hook { name: name.to_owned(), reason: Some(why) });
        }
        HookVerdict::Deny(why) => {
            return Err(ToolError::denied(format!("not allowed: the hook {name} says no: {why}")));
        }
        HookVerdict::Stop(why) => {
            session.cancel();
            return Err(ToolError::denied(format!(
                "not allowed: the hook {name} has ended the session: {why}"
            )));
        }
    }
    Ok(())
}

/// Takes over what a hook says after a call. What was done is done: a no makes the answer an error that says why.
fn take_after(call: &mut Call, hook: &dyn Hook, answer: HookAnswer, output: &mut Output) {
    let name = hook.name();
    if let Some(new) = answer.output {
        let old = std::mem::replace(output, new);
        for (key, value) in old.metadata {
            output.metadata.entry(key).or_insert(value);
        }
        call.said.notes.push(format!("{name} changed the answer"));
    }
    if let Some(context) = &answer.context {
        call.said.context.push(marked(hook, context));
    }
    let (HookVerdict::Deny(why) | HookVerdict::Stop(why)) = &answer.verdict else { return };
    output.is_error = true;
    call.said.context.push(marked(hook, why));
    if matches!(answer.verdict, HookVerdict::Stop(_)) {
        call.session.cancel();
    }
}
