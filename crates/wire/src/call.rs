//! Calls: read from whatever a provider sent, and written in its form.
//!
//! A line is one call, a list of calls, or a whole message (even a whole API response) with calls among text and thinking blocks. A
//! call that is recognised but malformed, for example with arguments that are not JSON, is kept as a [`BadCall`]: the model expects
//! a response to it.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Format, WireError, anthropic, described, described_object, gemini, openai};
use windlass_core::{CallId, CallResult, Outcome, Output, SessionId, ToolCall, ToolError, TurnId};

/// A call as a model requested it, and the format for its response.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::{Format, read_calls};
/// let asked = read_calls(json!({"type": "tool_use", "id": "a", "name": "list", "input": {}})).unwrap().remove(0);
/// assert_eq!(asked.format, Format::Anthropic);
/// assert_eq!(asked.into_call().id.as_deref(), Some("a"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedCall {
    /// Format for the response.
    pub format: Format,
    /// The call, or the reason why it is malformed.
    pub call: Result<ToolCall, BadCall>,
}

/// A malformed call.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::read_calls;
/// let broken = json!({"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{\"path\":"});
/// let bad = read_calls(broken).unwrap().remove(0).call.unwrap_err();
/// assert_eq!((bad.id.as_deref(), bad.name.as_str()), (Some("c1"), "read"));
/// assert_eq!(bad.error().code(), "invalid_args");
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct BadCall {
    /// The model's own id for the call.
    pub id: Option<String>,
    /// Name of the tool; empty if it is missing.
    pub name: String,
    /// The arguments as received, as text.
    pub arguments: String,
    /// Description of the problem.
    pub why: String,
}

impl RequestedCall {
    /// Creates a call from parsed parts; wrong parts make it a [`BadCall`].
    pub(super) fn new(
        format: Format,
        id: Option<Value>,
        name: Option<Value>,
        input: Option<Value>,
    ) -> Self {
        let id = id.and_then(id_text);
        let call = match (name, input.unwrap_or_default()) {
            (Some(Value::String(name)), input) => arguments(id, name, input),
            (_, input) => Err(BadCall {
                id,
                name: String::new(),
                arguments: input.to_string(),
                why: "the call has no `name`".into(),
            }),
        };
        Self { format, call }
    }

    /// Converts to a call for an engine. A malformed one keeps its arguments as received, which the engine refuses as
    /// `invalid_args`: so it has its place in the turn, its record and its response like any other.
    pub fn into_call(self) -> ToolCall {
        match self.call {
            Ok(call) => call,
            Err(bad) => ToolCall { id: bad.id, ..ToolCall::new(bad.name, bad.arguments.into()) },
        }
    }
}

impl BadCall {
    /// Returns the error for the response.
    pub fn error(&self) -> ToolError {
        ToolError::invalid_args(self.why.clone()).hint("send the arguments as one JSON object")
    }

    /// Makes the response, for callers without an engine.
    ///
    /// ```
    /// use windlass_core::{CallId, Outcome, SessionId, TurnId};
    /// use windlass_wire::BadCall;
    /// let bad = BadCall { id: None, name: "read".into(), arguments: "{".into(), why: "not JSON".into() };
    /// let result = bad.result(CallId::new("c1"), SessionId::new("s1"), TurnId::new("t1"));
    /// assert_eq!((result.outcome, result.code), (Outcome::Fault, Some("invalid_args")));
    /// ```
    pub fn result(&self, call: CallId, session: SessionId, turn: TurnId) -> CallResult {
        let error = self.error();
        CallResult {
            call,
            session,
            turn,
            parent_call: None,
            tool_use_id: self.id.clone(),
            tool: self.name.clone(),
            outcome: Outcome::Fault,
            output: Output::error(error.to_string()),
            code: Some(error.code()),
            duration: Duration::ZERO,
        }
    }
}

/// Reads every call of one JSON value: a call, a message with calls in it, or a list of either, which is one turn.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::read_calls;
/// let turn = read_calls(json!([
///     {"type": "text", "text": "I look at both."},
///     {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "a.rs"}},
///     {"functionCall": {"name": "read", "args": {"path": "b.rs"}}},
///     {"tool": "read", "input": {"path": "c.rs"}},
/// ])).unwrap();
/// assert_eq!(turn.len(), 3);
/// ```
pub fn read_calls(value: Value) -> Result<Vec<RequestedCall>, WireError> {
    read_turn(value)?.into_iter().collect()
}

/// Reads one JSON value like [`read_calls`], but returns an error for each list item that is no call, so that the other calls can
/// run. Skips text and thinking blocks next to calls.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::read_turn;
/// let turn = read_turn(json!([{"type": "text", "text": "Both."}, {"tool": "jobs"}, 5])).unwrap();
/// assert!(turn[0].is_ok());
/// assert!(turn[1].as_ref().unwrap_err().to_string().starts_with("item 3 of the list, the number 5, is not a tool call"));
/// ```
pub fn read_turn(value: Value) -> Result<Vec<Result<RequestedCall, WireError>>, WireError> {
    let found = described(&value);
    let mut turn = Vec::new();
    match value {
        Value::Array(items) => {
            for (at, item) in items.into_iter().enumerate() {
                match take_calls(item) {
                    Ok(calls) => turn.extend(calls.into_iter().map(Ok)),
                    Err(NotACallError { found }) => {
                        let found = format!("item {} of the list, {found},", at + 1);
                        turn.push(Err(WireError::NotACall { found }));
                    }
                }
            }
        }
        item => {
            let calls = take_calls(item)
                .map_err(|NotACallError { found }| WireError::NotACall { found })?;
            turn.extend(calls.into_iter().map(Ok));
        }
    }
    if turn.is_empty() { Err(WireError::NoCalls { found }) } else { Ok(turn) }
}

/// Writes a call in the form of its provider: the reverse of [`read_calls`].
///
/// ```
/// use serde_json::json;
/// use windlass_core::ToolCall;
/// use windlass_wire::{Format, write_call};
/// let call = ToolCall::new("read", json!({"path": "a"})).with_id("c1");
/// assert_eq!(
///     write_call(Format::OpenAiResponses, &call),
///     json!({"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{\"path\":\"a\"}"}),
/// );
/// ```
pub fn write_call(format: Format, call: &ToolCall) -> Value {
    let input = if call.input.is_null() { &json!({}) } else { &call.input };
    let mut written = match format {
        Format::Plain => json!({"tool": call.name, "input": input}),
        Format::Anthropic => anthropic::call(&call.name, input),
        Format::OpenAiChat => openai::chat_call(&call.name, input),
        Format::OpenAiResponses => openai::responses_call(&call.name, input),
        Format::Gemini => gemini::call(&call.name, input),
    };
    let (key, place) = match format {
        Format::OpenAiResponses => ("call_id", Some(&mut written)),
        Format::Gemini => ("id", written.get_mut("functionCall")),
        _ => ("id", Some(&mut written)),
    };
    if let (Some(id), Some(Value::Object(map))) = (&call.id, place) {
        map.insert(key.into(), id.as_str().into());
    }
    written
}

/// Error of an item that is neither a call nor text around calls.
#[derive(Debug, thiserror::Error)]
#[error("{found}")]
struct NotACallError {
    /// Description of the item.
    found: String,
}

/// Takes the calls out of one item. Fails for an item that is neither a call nor text around calls.
fn take_calls(item: Value) -> Result<Vec<RequestedCall>, NotACallError> {
    let Value::Object(mut map) = item else {
        return Err(NotACallError { found: described(&item) });
    };
    let mut calls = Vec::new();
    if take(&mut map, &mut calls) || is_text_part(&map) {
        return Ok(calls);
    }
    take_plain_call(&mut map)
        .map(|call| vec![call])
        .ok_or_else(|| NotACallError { found: described_object(&map) })
}

/// Takes a provider's call, or all calls of a provider's message. Returns false if it is neither.
fn take(map: &mut Map<String, Value>, calls: &mut Vec<RequestedCall>) -> bool {
    let readers = [anthropic::take_call, openai::take_call, gemini::take_call];
    match readers.iter().find_map(|read| read(map)) {
        Some(call) => {
            calls.push(call);
            true
        }
        None => take_message(map, calls),
    }
}

/// Keys under which messages hold their parts. Parts other than calls (text, thinking) are skipped.
const PART_KEYS: [&str; 4] = ["tool_calls", "content", "parts", "output"];
/// Keys under which API responses hold the message. Several entries are alternatives, not one turn.
const ALTERNATIVE_KEYS: [&str; 2] = ["choices", "candidates"];

/// Takes the calls of a provider's message or response. Returns false if it is none.
fn take_message(map: &mut Map<String, Value>, calls: &mut Vec<RequestedCall>) -> bool {
    let says = |key: &str, words: &[&str]| match map.get(key) {
        None | Some(Value::Null) => true,
        Some(value) => value.as_str().is_some_and(|word| words.contains(&word)),
    };
    if !says("type", &["message"]) || !says("role", &["assistant", "model"]) {
        return false;
    }
    let mut known = false;
    for key in PART_KEYS.iter().chain(&ALTERNATIVE_KEYS) {
        match map.get_mut(*key) {
            Some(Value::Array(items)) if items.len() < 2 || PART_KEYS.contains(key) => {
                known = true;
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    take(item, calls);
                }
            }
            _ => {}
        }
    }
    for key in ["message", "content"] {
        if let Some(Value::Object(inner)) = map.get_mut(key) {
            known |= take(inner, calls);
        }
    }
    known
}

/// Returns whether an item is text, thinking or a message part that may appear next to calls.
fn is_text_part(map: &Map<String, Value>) -> bool {
    const KINDS: [&str; 7] =
        ["text", "thinking", "redacted_thinking", "reasoning", "message", "output_text", "refusal"];
    match map.get("type") {
        Some(kind) => kind.as_str().is_some_and(|kind| KINDS.contains(&kind)),
        None => map.get("text").is_some_and(Value::is_string),
    }
}

/// Takes a call in our own form. A bare `name` counts only without other keys, since the definition of a tool has a name, too.
fn take_plain_call(map: &mut Map<String, Value>) -> Option<RequestedCall> {
    if map.contains_key("type") {
        return None;
    }
    let input = ["input", "args", "arguments"].into_iter().find(|key| map.contains_key(*key));
    let bare = || map.keys().all(|key| key == "name" || key == "id");
    let name = if map.contains_key("tool") {
        "tool"
    } else if map.contains_key("name") && (input.is_some() || bare()) {
        "name"
    } else {
        return None;
    };
    let input = input.and_then(|key| map.remove(key));
    Some(RequestedCall::new(Format::Plain, map.remove("id"), map.remove(name), input))
}

/// Converts an id to text; `None` if it is empty or neither text nor number.
fn id_text(id: Value) -> Option<String> {
    match id {
        Value::String(text) if !text.is_empty() => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Parses arguments: an object, or the text of one; missing arguments are an empty object.
fn arguments(id: Option<String>, name: String, input: Value) -> Result<ToolCall, BadCall> {
    let input = match input {
        Value::Null => json!({}),
        Value::String(text) if text.trim().is_empty() => json!({}),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let why = format!("the arguments are not JSON: {error}");
                return Err(BadCall { id, name, arguments: text, why });
            }
        },
        value => value,
    };
    Ok(ToolCall { id, ..ToolCall::new(name, input) })
}

#[cfg(test)]
mod tests;
