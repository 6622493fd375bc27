//! Parses the answer of a hook's program: its exit code, or one JSON object in any of the supported forms.
//!
//! An answer that cannot be understood is an error with a reason; the engine decides what that means for a gate.

use serde_json::{Map, Value};
use windlass_core::{
    HookAnswer, HookEvent, HookPoint, HookVerdict, Output, ProcessEnd, plain, quote,
};

use super::runner::ProgramRun;
use super::{HookDefinition, HookShape};

/// Maximum bytes of a program's error output that become a reason.
const MAX_REASON_BYTES: usize = 1 << 10;

/// Reason why the answer of a program cannot be understood.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error("{0}")]
    Ended(ProcessEnd),
    /// The end of the program, and its error output.
    #[error("{0}: {1}")]
    EndedWithErrors(ProcessEnd, String),
    #[error("what it printed is not UTF-8")]
    NotUtf8,
    #[error("what it printed is JSON, but not an object")]
    NotAnObject,
    /// The error of the JSON parser, and the beginning of the output.
    #[error("what it printed is not JSON ({0}): {1}")]
    NotJson(serde_json::Error, String),
    #[error("it wants to change an output, and at {0} there is none")]
    NoOutput(HookPoint),
    #[error("it wants to change arguments, which can be done at pre_tool, not at {0}")]
    NoArguments(HookPoint),
    #[error("there is no decision `{}`", quote::visible(.0))]
    UnknownDecision(String),
    #[error("its decision has no `behavior`")]
    NoBehavior,
    #[error("its decision is not a text")]
    DecisionNotText,
    #[error("`continue` is neither true nor false")]
    ContinueNotBoolean,
    #[error("`{0}` is not a text")]
    FieldNotText(String),
    #[error("`{0}` is not an object")]
    FieldNotObject(String),
    #[error("`{0}` has no `content` that is a text")]
    NoContent(String),
    #[error("`{0}` is neither a text nor an object")]
    FieldNotTextOrObject(String),
}

/// Fields of a JSON object that are not read yet.
type Fields = Map<String, Value>;

/// Returns the answer of a program that has ended.
pub(super) fn parse_answer(
    hook: &HookDefinition,
    event: &HookEvent<'_>,
    ran: &ProgramRun,
) -> Result<HookAnswer, AnswerError> {
    let point = event.what.point();
    match ran.end {
        ProcessEnd::Exited(0) => parse_output(hook, point, &ran.printed),
        ProcessEnd::Exited(2) => Ok(HookAnswer::deny(reason(&ran.errors, "exit code 2"))),
        ProcessEnd::Exited(code) if hook.shape == HookShape::Hygge => {
            Ok(HookAnswer::deny(reason(&ran.errors, &format!("exit code {code}"))))
        }
        end => Err(match reason(&ran.errors, "") {
            said if said.is_empty() => AnswerError::Ended(end),
            said => AnswerError::EndedWithErrors(end, said),
        }),
    }
}

/// Returns the program's error output as displayable text, or `otherwise` if it is empty.
fn reason(errors: &[u8], otherwise: &str) -> String {
    let text = plain(errors);
    let text = text.trim();
    if text.is_empty() {
        return otherwise.to_owned();
    }
    let end = text.floor_char_boundary(MAX_REASON_BYTES);
    text.get(..end).unwrap_or(text).to_owned()
}

/// Parses the standard output of a program that ended with exit code 0.
fn parse_output(
    hook: &HookDefinition,
    point: HookPoint,
    printed: &[u8],
) -> Result<HookAnswer, AnswerError> {
    let text = std::str::from_utf8(printed).map_err(|_| AnswerError::NotUtf8)?;
    let text = text.trim();
    if text.is_empty() {
        return Ok(HookAnswer::go_on());
    }
    let takes_text = matches!(hook.shape, HookShape::Claude | HookShape::Hex);
    if takes_text && !text.starts_with('{') {
        // Claude Code and Hex show such a text to the model at the beginning of a session or prompt, and ignore it at other events.
        return Ok(match point {
            HookPoint::SessionStart | HookPoint::PromptSubmit => {
                HookAnswer::go_on().with_context(text)
            }
            _ => HookAnswer::go_on(),
        });
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(mut fields)) => parse_fields(hook, point, &mut fields),
        Ok(_) => Err(AnswerError::NotAnObject),
        Err(error) => {
            let begin: String = text.chars().take(80).collect();
            Err(AnswerError::NotJson(error, quote::visible(&begin).into_owned()))
        }
    }
}

/// Parses the fields of an answer, including those in `hookSpecificOutput`.
fn parse_fields(
    hook: &HookDefinition,
    point: HookPoint,
    fields: &mut Fields,
) -> Result<HookAnswer, AnswerError> {
    let mut more = match fields.remove("hookSpecificOutput") {
        None => Fields::new(),
        Some(Value::Object(more)) => more,
        Some(_) => return Err(AnswerError::FieldNotObject("hookSpecificOutput".to_owned())),
    };
    more.remove("hookEventName");
    fields.remove("suppressOutput");
    let mut answer =
        HookAnswer { verdict: verdict(hook, fields, &mut more)?, ..HookAnswer::go_on() };
    answer.input =
        object_field(fields, &mut more, &["input", "modified_tool_input", "updatedInput"])?;
    answer.context =
        text_field(fields, &mut more, &["context", "additionalContext", "system_prompt_append"])?;
    answer.text = text_field(fields, &mut more, &["text", "modified_message"])?;
    answer.message = text_field(fields, &mut more, &["message", "systemMessage"])?;
    answer.output = output_field(fields, &mut more)?;
    let unknown: Vec<&str> = fields.keys().chain(more.keys()).map(String::as_str).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join("`, `");
        let note = format!("fields of its answer that are not known: `{unknown}`");
        answer.message =
            Some(answer.message.map_or_else(|| note.clone(), |said| format!("{said}; {note}")));
    }
    if answer.output.is_some() && point != HookPoint::PostTool {
        return Err(AnswerError::NoOutput(point));
    }
    if answer.input.is_some() && point != HookPoint::PreTool {
        return Err(AnswerError::NoArguments(point));
    }
    Ok(answer)
}

/// Returns the strictest of the verdicts that the answer's fields give.
fn verdict(
    hook: &HookDefinition,
    fields: &mut Fields,
    more: &mut Fields,
) -> Result<HookVerdict, AnswerError> {
    let why = text_field(fields, more, &["reason", "permissionDecisionReason"])?;
    let stop_why = text_field(fields, more, &["stopReason"])?;
    let mut strictest = HookVerdict::GoOn;
    let mut said = |word: &str, why: Option<&String>| {
        let why = || why.cloned().unwrap_or_else(|| "it gives no reason".to_owned());
        let verdict = match word {
            "continue" | "modify" => HookVerdict::GoOn,
            // In Hygge's format it only means that the hook does not object.
            "allow" if hook.shape == HookShape::Hygge => HookVerdict::GoOn,
            "allow" | "approve" => HookVerdict::Allow,
            "ask" => HookVerdict::Ask(why()),
            "deny" | "block" => HookVerdict::Deny(why()),
            "stop" => HookVerdict::Stop(why()),
            other => return Err(AnswerError::UnknownDecision(other.to_owned())),
        };
        if strictness(&verdict) > strictness(&strictest) {
            strictest = verdict;
        }
        Ok(())
    };
    for value in
        [fields.remove("decision"), more.remove("permissionDecision"), more.remove("decision")]
    {
        match value {
            None | Some(Value::Null) => {}
            Some(Value::String(word)) => said(&word, why.as_ref())?,
            // The answer to a permission request is an object.
            Some(Value::Object(mut decision)) => {
                let message = text_field(&mut decision, &mut Fields::new(), &["message"])?;
                let ends = decision.remove("interrupt") == Some(Value::Bool(true));
                match decision.remove("behavior") {
                    Some(Value::String(word)) if ends && word == "deny" => {
                        said("stop", message.as_ref())?;
                    }
                    Some(Value::String(word)) => said(&word, message.as_ref())?,
                    _ => return Err(AnswerError::NoBehavior),
                }
                if let Some(input) = decision.remove("updatedInput") {
                    more.insert("updatedInput".into(), input);
                }
            }
            Some(_) => return Err(AnswerError::DecisionNotText),
        }
    }
    match fields.remove("continue") {
        None | Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => said("stop", stop_why.as_ref().or(why.as_ref()))?,
        Some(_) => return Err(AnswerError::ContinueNotBoolean),
    }
    Ok(strictest)
}

/// Ranks verdicts from no opinion (0) to stop.
fn strictness(verdict: &HookVerdict) -> u8 {
    match verdict {
        HookVerdict::GoOn => 0,
        HookVerdict::Allow => 1,
        HookVerdict::Ask(_) => 2,
        HookVerdict::Deny(_) => 3,
        HookVerdict::Stop(_) => 4,
    }
}

/// Merges two answers: takes the stricter verdict and joins the texts.
pub(super) fn merge(one: HookAnswer, other: HookAnswer) -> HookAnswer {
    let joined = |one: Option<String>, other: Option<String>| match (one, other) {
        (Some(one), Some(other)) if one != other => Some(format!("{one}\n{other}")),
        (one, other) => one.or(other),
    };
    let verdict = match (one.verdict, other.verdict) {
        // An allow for one file does not hold for the next.
        (HookVerdict::GoOn, HookVerdict::Allow) | (HookVerdict::Allow, HookVerdict::GoOn) => {
            HookVerdict::GoOn
        }
        (one, other) if strictness(&one) >= strictness(&other) => one,
        (_, other) => other,
    };
    HookAnswer {
        verdict,
        input: other.input.or(one.input),
        text: other.text.or(one.text),
        output: other.output.or(one.output),
        context: joined(one.context, other.context),
        message: joined(one.message, other.message),
    }
}

/// Takes the first of these fields, which must be a string.
fn text_field(
    fields: &mut Fields,
    more: &mut Fields,
    keys: &[&str],
) -> Result<Option<String>, AnswerError> {
    match take_first(fields, more, keys) {
        None | Some((_, Value::Null)) => Ok(None),
        Some((_, Value::String(text))) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some((key, _)) => Err(AnswerError::FieldNotText(key.to_owned())),
    }
}

/// Takes the first of these fields, which must be an object.
fn object_field(
    fields: &mut Fields,
    more: &mut Fields,
    keys: &[&str],
) -> Result<Option<Value>, AnswerError> {
    match take_first(fields, more, keys) {
        None | Some((_, Value::Null)) => Ok(None),
        Some((_, value @ Value::Object(_))) => Ok(Some(value)),
        Some((key, _)) => Err(AnswerError::FieldNotObject(key.to_owned())),
    }
}

/// Takes the replacement output: a string, or an object in the form in which a hook gets one.
fn output_field(fields: &mut Fields, more: &mut Fields) -> Result<Option<Output>, AnswerError> {
    let keys = ["output", "modified_tool_result", "updatedToolOutput", "updatedMCPToolOutput"];
    match take_first(fields, more, &keys) {
        None | Some((_, Value::Null)) => Ok(None),
        Some((_, Value::String(text))) => Ok(Some(Output::text(text))),
        Some((key, Value::Object(mut output))) => {
            let is_error = output.remove("is_error") == Some(Value::Bool(true));
            match output.remove("content") {
                Some(Value::String(text)) => Ok(Some(Output { is_error, ..Output::text(text) })),
                _ => Err(AnswerError::NoContent(key.to_owned())),
            }
        }
        Some((key, _)) => Err(AnswerError::FieldNotTextOrObject(key.to_owned())),
    }
}

/// Removes all of these fields and returns the first one that exists.
fn take_first<'k>(
    fields: &mut Fields,
    more: &mut Fields,
    keys: &[&'k str],
) -> Option<(&'k str, Value)> {
    let mut found = None;
    for key in keys {
        // Takes out all of them, so that none counts as unknown.
        for place in [&mut *fields, &mut *more] {
            let value = place.remove(*key);
            found = found.or(value.map(|value| (*key, value)));
        }
    }
    found
}
