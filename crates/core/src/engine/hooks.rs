//! Stages 5 and 10, and the step before a person is asked: asks the hooks about a call and applies their answers.
//!
//! A gate that fails, for any reason, has not agreed. When a hook replaces the arguments, all other hooks see the new ones, also those
//! that have seen the old ones: otherwise a gate could be bypassed by a later change.

use super::{Call, ReadyCall, Shared, parse, prepare};
use crate::toolbox::Slot;
use crate::{
    Content, DecidedBy, Decision, Effects, ExplainedDecision, Grant, Hook, HookAnswer, HookCall,
    HookEvent, HookPayload, HookVerdict, Output, Session, ToolError, Verdict,
};

/// Maximum number of times that each hook is asked about one call. After that, the hooks will not agree on its arguments.
const MAX_ROUNDS: usize = 4;

/// Answers of the hooks about a call so far.
#[derive(Debug, Default)]
pub(super) struct HookAnswers {
    /// Texts for the model.
    context: Vec<String>,
    /// Texts for the record.
    notes: Vec<String>,
    /// Hook that allows the call without asking a person.
    allowed_by: Option<String>,
    /// Hook that wants a person to be asked, and its reason.
    asked_by: Option<DecidedBy>,
}

impl HookAnswers {
    /// Adds texts for the model.
    pub(super) fn extend(&mut self, context: impl IntoIterator<Item = String>) {
        self.context.extend(context);
    }
}

/// Asks the hooks before the decision, again after each change of the arguments, until all have seen the final arguments. Returns the
/// call planned with these. Fails if a hook refuses or ends the session, if a gate fails, or if the hooks keep changing the arguments.
pub(super) async fn ask_before_call<'t>(
    engine: &Shared,
    call: &mut Call,
    slot: &'t Slot,
    mut ready: ReadyCall<'t>,
) -> Result<ReadyCall<'t>, ToolError> {
    let hooks = &engine.hooks;
    let (mut agreed, mut asked) = (0, 0);
    for hook in hooks.iter().cycle() {
        if agreed == hooks.len() {
            break;
        }
        if asked == hooks.len() * MAX_ROUNDS {
            return Err(ToolError::denied(format!(
                "not allowed: the hooks do not agree on the arguments; the last to change them is {}",
                hook.name()
            )));
        }
        asked += 1;
        agreed += 1;
        let effects = ready.effects.clone();
        let event = event(engine, &call.session, HookPayload::PreTool(hook_call(call, &effects)));
        let Some(answer) = ask_hook(engine, &**hook, event).await? else { continue };
        let replaced = answer.input.clone().filter(|input| *input != call.input);
        if let Err(refusal) =
            apply_answer_before(&mut call.hook_answers, &call.session, &**hook, answer)
        {
            let by = DecidedBy::Hook { name: hook.name().to_owned(), reason: None };
            call.decided = Some(ExplainedDecision::denied(by));
            return Err(refusal);
        }
        if let Some(input) = replaced {
            call.input = input;
            call.hook_answers.allowed_by = None;
            call.hook_answers.notes.push(format!("{} changed the arguments", hook.name()));
            parse::refuse_oversized(call)?;
            ready = prepare(engine, slot, call)?;
            agreed = 1;
        }
    }
    Ok(ready)
}

/// Makes the verdict ask a person if a hook wants that.
pub(super) fn apply_to_verdict(call: &Call, verdict: Verdict) -> Verdict {
    match &call.hook_answers.asked_by {
        Some(by) => verdict.asked_by(by.clone()),
        None => verdict,
    }
}

/// Asks the hooks in place of a person, if the verdict asks. Returns the grant if one of them allows the call and none wants a person.
pub(super) async fn ask_instead_of_person(
    engine: &Shared,
    call: &mut Call,
    verdict: &Verdict,
) -> Result<Option<Grant>, ToolError> {
    let mut answers = std::mem::take(&mut call.hook_answers);
    let about = hook_call(call, verdict.effects());
    let granted = ask_before_person(engine, &call.session, about, verdict, &mut answers).await;
    call.hook_answers = answers;
    granted
}

/// Asks the hooks in place of a person about an approval that came up while a call runs. Returns the grant if a hook allows it and none
/// wants a person, and the texts for the model.
pub(crate) async fn ask_about_running_call(
    engine: &Shared,
    session: &Session,
    call: HookCall<'_>,
    verdict: &Verdict,
) -> Result<(Option<Grant>, Vec<String>), ToolError> {
    let mut answers = HookAnswers::default();
    let granted = ask_before_person(engine, session, call, verdict, &mut answers).await?;
    Ok((granted, answers.context))
}

/// Asks the hooks about effects that a running call wants beyond its plan: first as about a new call, then in place of a person if the
/// verdict asks. Returns the verdict after the hooks, the grant if a hook allows it, and the texts for the model.
pub(crate) async fn ask_about_added_effects(
    engine: &Shared,
    session: &Session,
    call: HookCall<'_>,
    verdict: Verdict,
) -> Result<(Verdict, Option<Grant>, Vec<String>), ToolError> {
    let mut answers = HookAnswers::default();
    for hook in &engine.hooks {
        let event = event(engine, session, HookPayload::PreTool(call));
        let Some(answer) = ask_hook(engine, &**hook, event).await? else { continue };
        if answer.input.as_ref().is_some_and(|input| input != call.input) {
            return Err(ToolError::denied(format!(
                "not allowed: the hook {} wants other arguments, and the call already runs",
                hook.name()
            )));
        }
        apply_answer_before(&mut answers, session, &**hook, answer)?;
    }
    let verdict = match &answers.asked_by {
        Some(by) => verdict.asked_by(by.clone()),
        None => verdict,
    };
    let granted = ask_before_person(engine, session, call, &verdict, &mut answers).await?;
    Ok((verdict, granted, answers.context))
}

/// Asks the hooks about an approval request. Returns a grant if the verdict asks, a hook allows it, and no hook wants a person.
async fn ask_before_person(
    engine: &Shared,
    session: &Session,
    call: HookCall<'_>,
    verdict: &Verdict,
    answers: &mut HookAnswers,
) -> Result<Option<Grant>, ToolError> {
    if verdict.decision_to_run() != Decision::Ask {
        return Ok(None);
    }
    for hook in &engine.hooks {
        let what = HookPayload::PermissionRequest { call, by: verdict.decided_by() };
        let event = event(engine, session, what);
        let Some(answer) = ask_hook(engine, &**hook, event).await? else { continue };
        if answer.input.is_some() {
            engine.warn(format!(
                "the hook {} wanted to change the arguments when a person was to be asked; it can do so before, at pre_tool",
                hook.name()
            ));
        }
        apply_answer_before(answers, session, &**hook, answer)?;
    }
    // Of two hooks that disagree, the stricter one counts.
    let allowed_by = answers.allowed_by.as_ref().filter(|_| answers.asked_by.is_none());
    Ok(allowed_by.and_then(|by| verdict.grant_by_hook(by)))
}

/// Shows the output to the hooks, and applies their answers. Fails if a gate fails, so that the output is withheld.
pub(super) async fn ask_after_call(
    engine: &Shared,
    call: &mut Call,
    effects: &Effects,
    output: &mut Output,
) -> Result<(), ToolError> {
    for hook in &engine.hooks {
        let what = HookPayload::PostTool(hook_call(call, effects), output);
        let event = event(engine, &call.session, what);
        let answer = match ask_hook(engine, &**hook, event).await {
            Ok(Some(answer)) => answer,
            Ok(None) => continue,
            Err(error) => {
                let why = format!("{error}\nthe call has run; what it answered is held back");
                return Err(ToolError::denied(why));
            }
        };
        apply_answer_after(call, &**hook, answer, output);
    }
    Ok(())
}

/// Adds the texts of the hooks to the output: those for the model to its content, those for the record to its metadata.
pub(super) fn add_to_output(call: &mut Call, output: &mut Output) {
    let answers = std::mem::take(&mut call.hook_answers);
    output.content.extend(answers.context.into_iter().map(Content::text));
    if !answers.notes.is_empty() {
        output.metadata.insert("hooks".into(), answers.notes.into());
    }
}

/// Asks one hook about one event; `None` if it does not listen to it. A failure or a timeout is an error only if the hook is a gate;
/// otherwise this warns and returns `None`.
pub(super) async fn ask_hook(
    engine: &Shared,
    hook: &dyn Hook,
    event: HookEvent<'_>,
) -> Result<Option<HookAnswer>, ToolError> {
    if !hook.wants(&event) {
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
    let point = event.what.point();
    if hook.is_gate(point) {
        return Err(ToolError::denied(format!(
            "not allowed: the hook {} must agree at {point}, and failed: {failed}",
            hook.name()
        ))
        .hint("the person who configured the hook has to repair or remove it"));
    }
    engine.warn(format!("the hook {} failed at {point}: {failed}", hook.name()));
    Ok(None)
}

/// Makes the event that a hook gets.
pub(super) fn event<'a>(
    engine: &'a Shared,
    session: &'a Session,
    what: HookPayload<'a>,
) -> HookEvent<'a> {
    let workspace = engine.host.files().workspace();
    HookEvent { session, workspace, secrets: &engine.secrets, what }
}

/// Puts a hook's text for a model between brackets with the hook's name, so that it cannot pass for other text.
pub(super) fn quote_hook(hook: &dyn Hook, context: &str) -> String {
    format!("[the hook {} says: {context}]", hook.name())
}

/// Returns the call as hooks see it.
fn hook_call<'a>(call: &'a Call, effects: &'a Effects) -> HookCall<'a> {
    HookCall { id: &call.id, tool: &call.name, input: &call.input, effects }
}

/// Applies the answer of a hook before a call: collects its text and its wish, or fails if it refuses or ends the session, which is
/// cancelled then. A hook that may not allow has no say by allowing.
fn apply_answer_before(
    answers: &mut HookAnswers,
    session: &Session,
    hook: &dyn Hook,
    answer: HookAnswer,
) -> Result<(), ToolError> {
    let name = hook.name();
    if let Some(context) = &answer.context {
        answers.context.push(quote_hook(hook, context));
    }
    match answer.verdict {
        HookVerdict::Allow if hook.may_allow() => answers.allowed_by = Some(name.to_owned()),
        // Hooks outside the person's own configuration may not allow.
        HookVerdict::GoOn | HookVerdict::Allow => {}
        HookVerdict::Ask(why) => {
            answers.asked_by = Some(DecidedBy::Hook { name: name.to_owned(), reason: Some(why) });
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

/// Applies the answer of a hook after a call: its output replaces the present one, which only keeps its further metadata. The call has
/// run, so a refusal only makes its output an error with the reason. Cancels the session if the hook ends it.
fn apply_answer_after(call: &mut Call, hook: &dyn Hook, answer: HookAnswer, output: &mut Output) {
    let name = hook.name();
    if let Some(new) = answer.output {
        let old = std::mem::replace(output, new);
        for (key, value) in old.metadata {
            output.metadata.entry(key).or_insert(value);
        }
        call.hook_answers.notes.push(format!("{name} changed the answer"));
    }
    if let Some(context) = &answer.context {
        call.hook_answers.context.push(quote_hook(hook, context));
    }
    let (HookVerdict::Deny(why) | HookVerdict::Stop(why)) = &answer.verdict else { return };
    output.is_error = true;
    call.hook_answers.context.push(quote_hook(hook, why));
    if matches!(answer.verdict, HookVerdict::Stop(_)) {
        call.session.cancel();
    }
}
