//! Responses: results of calls in the form of a provider, and read back from it.

use serde_json::{Map, Value, json};

use super::{Format, WireError, anthropic, described, gemini, object, openai};
use windlass_core::{CallResult, Content, Output};

/// Makes the response for the provider's API, with exactly the keys that it accepts.
///
/// Content that a format cannot represent becomes text: data and links in every format, images in OpenAI's chat completions and in
/// Anthropic's errors. [`answer`] adds those images.
///
/// ```
/// # use windlass_core::{CallId, CallResult, Outcome, Output, SessionId, TurnId};
/// # let result = CallResult { call: CallId::new("c"), session: SessionId::new("s"), turn: TurnId::new("t"),
/// #     parent_call: None,
/// #     tool_use_id: Some("toolu_1".into()), tool: "read".into(), outcome: Outcome::Error,
/// #     output: Output::error("no such file"), code: None, duration: std::time::Duration::ZERO };
/// use serde_json::json;
/// use windlass_wire::{Format, to_api};
/// assert_eq!(to_api(Format::Anthropic, &result), json!({
///     "type": "tool_result", "tool_use_id": "toolu_1",
///     "content": [{"type": "text", "text": "no such file"}], "is_error": true,
/// }));
/// assert_eq!(to_api(Format::OpenAiChat, &result), json!({
///     "role": "tool", "tool_call_id": "toolu_1", "content": "Error: no such file",
/// }));
/// ```
pub fn to_api(format: Format, result: &CallResult) -> Value {
    let is_error = is_error(result);
    match format {
        Format::Plain => to_line(format, result),
        Format::Anthropic => anthropic::reply(result, is_error),
        Format::OpenAiChat => openai::chat_reply(result, is_error),
        Format::OpenAiResponses => openai::responses_reply(result, is_error),
        Format::Gemini => gemini::reply(result, is_error),
    }
}

/// Makes a line of `windlass run`: the response in the provider's form, with `outcome`, `metadata`, `call`, `session` and
/// `duration_ms`, and with our own `contents` if the form cannot represent them.
///
/// ```
/// # use windlass_core::{CallId, CallResult, Outcome, Output, SessionId, TurnId};
/// # let result = CallResult { call: CallId::new("c"), session: SessionId::new("s"), turn: TurnId::new("t"),
/// #     parent_call: None,
/// #     tool_use_id: None, tool: "read".into(), outcome: Outcome::Ok,
/// #     output: Output::text("hello"), code: None, duration: std::time::Duration::from_millis(3) };
/// use serde_json::json;
/// use windlass_wire::{Format, to_line};
/// assert_eq!(to_line(Format::Plain, &result), json!({
///     "type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "hello"}], "is_error": false,
///     "outcome": "ok", "metadata": {"turn": "t"}, "call": "c", "session": "s", "duration_ms": 3,
/// }));
/// ```
pub fn to_line(format: Format, result: &CallResult) -> Value {
    let mut line = match format {
        Format::Plain | Format::Anthropic => anthropic::full_reply(result, is_error(result)),
        _ => to_api(format, result),
    };
    if let Value::Object(map) = &mut line {
        add_facts(map, result);
        if !result.output.content.iter().all(|content| can_represent(format, content)) {
            map.insert("contents".into(), json!(result.output.content));
        }
    }
    line
}

/// Makes the messages (or items, or contents) to append to a conversation after a turn, in the order of the calls.
///
/// ```
/// use windlass_wire::{Format, answer};
/// assert_eq!(answer(Format::Gemini, &[])[0]["role"], "user");
/// assert!(answer(Format::OpenAiChat, &[]).is_empty());
/// ```
pub fn answer(format: Format, results: &[CallResult]) -> Vec<Value> {
    let mut answers: Vec<Value> = results.iter().map(|result| to_api(format, result)).collect();
    match format {
        Format::Plain | Format::OpenAiResponses => answers,
        Format::OpenAiChat => {
            answers.extend(openai::image_message(results));
            answers
        }
        Format::Anthropic => {
            answers.extend(results.iter().flat_map(anthropic::image_blocks));
            vec![object([("role", "user".into()), ("content", answers.into())])]
        }
        Format::Gemini => vec![object([("role", "user".into()), ("parts", answers.into())])],
    }
}

/// The response to a call, as read from a transcript.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::{Format, read_reply};
/// let reply = read_reply(json!({"role": "tool", "tool_call_id": "c1", "content": "Error: no such file"})).unwrap();
/// assert_eq!((reply.format, reply.id.as_deref()), (Format::OpenAiChat, Some("c1")));
/// assert!(reply.output.is_error);
/// assert_eq!(reply.output.to_text(), "no such file");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CallResponse {
    /// Format of the response. Our plain form is read as Anthropic's, of which it is a superset.
    pub format: Format,
    /// Id of the call.
    pub id: Option<String>,
    /// Name of the tool, if the format has it.
    pub name: Option<String>,
    /// Output of the call. Only our own lines have its metadata.
    pub output: Output,
}

/// Reads a response: the reverse of [`to_api`] and [`to_line`].
///
/// ```
/// use serde_json::json;
/// use windlass_wire::read_reply;
/// let reply = read_reply(json!({"functionResponse": {"name": "read", "response": {"output": "hello"}}})).unwrap();
/// assert_eq!(reply.output.to_text(), "hello");
/// assert!(read_reply(json!({"role": "user", "content": "hi"})).is_err());
/// ```
pub fn read_reply(value: Value) -> Result<CallResponse, WireError> {
    let found = described(&value);
    let Value::Object(mut map) = value else { return Err(WireError::NotAReply { found }) };
    let mut reply = read_provider_form(&mut map).ok_or(WireError::NotAReply { found })?;
    if let Some(Value::Object(metadata)) = map.remove("metadata") {
        reply.output.metadata = metadata;
    }
    if let Some(contents) = map.remove("contents").and_then(|own| serde_json::from_value(own).ok())
    {
        reply.output.content = contents;
    }
    Ok(reply)
}

/// Reads a response in the form of a provider; `None` if it is none.
fn read_provider_form(map: &mut Map<String, Value>) -> Option<CallResponse> {
    let word = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
    let (format, id_key, content_key) = match (word("type"), word("role")) {
        ("tool_result", _) => (Format::Anthropic, "tool_use_id", "content"),
        ("function_call_output", _) => (Format::OpenAiResponses, "call_id", "output"),
        (_, "tool") => (Format::OpenAiChat, "tool_call_id", "content"),
        _ => return read_gemini(map),
    };
    let content = map.remove(content_key).unwrap_or_default();
    let (content, is_error) = match format {
        Format::Anthropic => {
            let is_error = map.get("is_error").and_then(Value::as_bool).unwrap_or_default();
            (anthropic::read_content(content), is_error)
        }
        _ => openai::read_content(content),
    };
    let output = Output { content, is_error, ..Output::default() };
    Some(CallResponse { format, id: text(map, id_key), name: text(map, "name"), output })
}

/// Reads a Gemini `functionResponse`.
fn read_gemini(map: &mut Map<String, Value>) -> Option<CallResponse> {
    let key =
        ["functionResponse", "function_response"].into_iter().find(|key| map.contains_key(*key))?;
    let function = map.get_mut(key)?.as_object_mut()?;
    let (content, is_error) = gemini::read_response(function);
    let output = Output { content, is_error, ..Output::default() };
    Some(CallResponse {
        format: Format::Gemini,
        id: text(function, "id"),
        name: text(function, "name"),
        output,
    })
}

/// Takes a string field.
fn text(map: &mut Map<String, Value>, key: &str) -> Option<String> {
    match map.remove(key)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Returns the id for the response: the model's own, or ours if the call had none.
pub(super) fn id(result: &CallResult) -> &str {
    result.tool_use_id.as_deref().unwrap_or(result.call.as_str())
}

/// Returns whether a result is an error for the model.
pub(super) fn is_error(result: &CallResult) -> bool {
    result.output.is_error || result.outcome.is_error()
}

/// Adds our facts about the call to a line.
fn add_facts(map: &mut Map<String, Value>, result: &CallResult) {
    let mut metadata = result.output.metadata.clone();
    if let Some(code) = result.code {
        metadata.insert("code".into(), code.into());
    }
    metadata.insert("turn".into(), result.turn.as_str().into());
    let millis = u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX);
    for (key, value) in [
        ("outcome", result.outcome.as_str().into()),
        ("metadata", metadata.into()),
        ("call", result.call.as_str().into()),
        ("session", result.session.as_str().into()),
        ("duration_ms", millis.into()),
    ] {
        map.insert(key.into(), value);
    }
}

/// Returns whether a line in this format preserves the content exactly.
fn can_represent(format: Format, content: &Content) -> bool {
    match (format, content) {
        (_, Content::Json { .. } | Content::Resource(_) | Content::ResourceLink { .. }) => false,
        (_, Content::Audio { .. }) => format == Format::Gemini,
        (Format::Plain | Format::Anthropic, _) => true,
        (_, Content::Text { text }) => !text.is_empty(),
        (_, Content::Image { .. }) => format != Format::OpenAiChat,
    }
}

#[cfg(test)]
mod tests;
