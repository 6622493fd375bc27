//! OpenAI: chat completions, which many servers support, and responses.
//!
//! Neither has a field for a failed call, so an error begins with `Error: `. A successful output that begins the same way gets the
//! prefix `Output: `, so that the two can be distinguished when they are read back.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{Format, RequestedCall, SchemaKeywords, object, subset};
use windlass_core::{CallResult, Content, ToolSpec};

/// Prefix of the text of a failed call.
const ERROR_PREFIX: &str = "Error: ";
/// Prefix of a successful output that begins like an error.
const OUTPUT_PREFIX: &str = "Output: ";
/// Maximum characters of a description: chat completions refuse the whole request if one is longer.
const MAX_CHAT_DESCRIPTION_CHARS: usize = 1024;

/// Takes a call of either API; `None` for anything else.
pub(super) fn take_call(map: &mut Map<String, Value>) -> Option<RequestedCall> {
    let kind = map.get("type").map(|kind| kind.as_str().unwrap_or_default());
    match kind {
        Some("function_call") => Some(RequestedCall::new(
            Format::OpenAiResponses,
            map.remove("call_id").or_else(|| map.remove("id")),
            map.remove("name"),
            map.remove("arguments"),
        )),
        Some("function") | None => {
            let id = map.get("id").cloned();
            let function = inner_call(map)?;
            let (name, arguments) = (function.remove("name"), function.remove("arguments"));
            Some(RequestedCall::new(Format::OpenAiChat, id, name, arguments))
        }
        Some(_) => None,
    }
}

/// Returns the called function. A tool definition looks the same except for its parameters; older messages have one `function_call`
/// instead of `tool_calls`, and Gemini's SDKs write that too, with `args`.
fn inner_call(map: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let is_call = |key: &str, map: &Map<String, Value>| match key {
        "function" => map.get(key).is_some_and(|inner| inner.get("parameters").is_none()),
        _ => map.get(key).is_some_and(|inner| inner.get("arguments").is_some()),
    };
    let key = ["function", "function_call"].into_iter().find(|key| is_call(key, map))?;
    map.get_mut(key)?.as_object_mut()
}

/// Makes a tool call of a chat message.
pub(super) fn chat_call(name: &str, input: &Value) -> Value {
    json!({"type": "function", "function": {"name": name, "arguments": input.to_string()}})
}

/// Makes a `function_call` item of the responses API.
pub(super) fn responses_call(name: &str, input: &Value) -> Value {
    json!({"type": "function_call", "name": name, "arguments": input.to_string()})
}

/// Makes a message with the role `tool`. It can hold text only; images are mentioned in it and follow in a message of their own.
pub(super) fn chat_reply(result: &CallResult, is_error: bool) -> Value {
    let pieces = with_error_mark(&result.output.content, is_error, |_| false);
    let content: Value = match pieces.as_slice() {
        [] => "".into(),
        [only] => only.shown().into(),
        several => several.iter().map(|piece| super::anthropic::text(&piece.shown())).collect(),
    };
    let id = super::reply::id(result);
    object([("role", "tool".into()), ("tool_call_id", id.into()), ("content", content)])
}

/// Makes a user message with the images of a turn: chat completions accept images nowhere else.
pub(super) fn image_message(results: &[CallResult]) -> Option<Value> {
    let mut parts = Vec::new();
    for result in results {
        let images = result.output.content.iter().filter_map(data_url);
        for (at, url) in images.enumerate() {
            if at == 0 {
                let heading = format!("Images of the call {}:", super::reply::id(result));
                parts.push(super::anthropic::text(&heading));
            }
            let image = object([("url", url.into())]);
            parts.push(object([("type", "image_url".into()), ("image_url", image)]));
        }
    }
    (!parts.is_empty()).then(|| object([("role", "user".into()), ("content", parts.into())]))
}

/// Makes a `function_call_output` item.
pub(super) fn responses_reply(result: &CallResult, is_error: bool) -> Value {
    let is_picture = |content: &Content| matches!(content, Content::Image { .. });
    let pieces = with_error_mark(&result.output.content, is_error, is_picture);
    let output: Value = match pieces.as_slice() {
        [] => "".into(),
        [only] if !is_picture(only) => only.shown().into(),
        several => several.iter().map(|piece| input_item(piece)).collect(),
    };
    let id = super::reply::id(result);
    object([("type", "function_call_output".into()), ("call_id", id.into()), ("output", output)])
}

/// Makes an input item of the responses API: an image, or text.
fn input_item(content: &Content) -> Value {
    match data_url(content) {
        Some(url) => object([("type", "input_image".into()), ("image_url", url.into())]),
        None => object([("type", "input_text".into()), ("text", content.shown().into())]),
    }
}

/// Returns the data URL of an image.
fn data_url(content: &Content) -> Option<String> {
    match content {
        Content::Image { media_type, data } => Some(format!("data:{media_type};base64,{data}")),
        _ => None,
    }
}

/// Converts the content to text, except pieces for which `stay` is true, and marks errors in the first piece.
fn with_error_mark(
    content: &[Content],
    is_error: bool,
    stay: impl Fn(&Content) -> bool,
) -> Vec<Cow<'_, Content>> {
    let mut pieces: Vec<Cow<'_, Content>> = content
        .iter()
        .filter(|content| content.as_text() != Some(""))
        .map(|content| match content {
            Content::Text { .. } => Cow::Borrowed(content),
            other if stay(other) => Cow::Borrowed(other),
            other => Cow::Owned(Content::text(other.shown())),
        })
        .collect();
    let first = pieces.first().and_then(|piece| piece.as_text());
    let mark = match first {
        _ if is_error => ERROR_PREFIX,
        Some(first) if looks_like_error(first) => OUTPUT_PREFIX,
        _ => return pieces,
    };
    let marked = Content::text(format!("{mark}{}", first.unwrap_or_default()));
    let replaced = usize::from(first.is_some());
    pieces.splice(..replaced, [Cow::Owned(marked)]);
    pieces
}

/// Returns whether a text could be mistaken for one with an error prefix.
fn looks_like_error(text: &str) -> bool {
    let mut rest = text;
    while let Some(inner) = rest.strip_prefix(OUTPUT_PREFIX) {
        rest = inner;
    }
    rest.starts_with(ERROR_PREFIX)
}

/// Reads the content of a response, and whether it is marked as an error.
pub(super) fn read_content(content: Value) -> (Vec<Content>, bool) {
    let mut pieces = match content {
        Value::Null => Vec::new(),
        Value::String(text) => vec![Content::Text { text }],
        Value::Array(items) => items.into_iter().map(read_item).collect(),
        other => vec![Content::Json { value: other }],
    };
    let is_error = match pieces.first_mut() {
        Some(Content::Text { text }) => remove_error_mark(text),
        _ => false,
    };
    if pieces.first().and_then(Content::as_text) == Some("") {
        pieces.remove(0);
    }
    (pieces, is_error)
}

/// Removes the prefix of a text. Returns whether it marks an error.
fn remove_error_mark(text: &mut String) -> bool {
    let is_error = text.starts_with(ERROR_PREFIX);
    if is_error {
        text.drain(..ERROR_PREFIX.len());
    } else if looks_like_error(text) {
        text.drain(..OUTPUT_PREFIX.len());
    }
    is_error
}

/// Reads one item of either API. An item without an equivalent (files) is kept as data.
fn read_item(mut item: Value) -> Content {
    if let Some(Value::String(text)) = item.get_mut("text") {
        return Content::Text { text: std::mem::take(text) };
    }
    let url = item.get("image_url").and_then(|url| url.get("url").unwrap_or(url).as_str());
    match url.map(|url| (url, url.strip_prefix("data:").and_then(|url| url.split_once(";base64,"))))
    {
        Some((_, Some((media_type, data)))) => {
            Content::Image { media_type: media_type.into(), data: data.into() }
        }
        Some((url, None)) => {
            Content::ResourceLink { uri: url.into(), name: "image".into(), media_type: None }
        }
        None => Content::Json { value: item },
    }
}

/// Makes a definition for chat completions, with a shortened description.
pub(super) fn chat_definition(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": spec.name,
            "description": truncate_chars(&spec.description, MAX_CHAT_DESCRIPTION_CHARS),
            "parameters": subset(&spec.input_schema, SchemaKeywords::OPENAI),
        },
    })
}

/// Makes a definition for the responses API. Sets `strict` to false, since strict schemas, the default there, have no optional
/// parameters.
pub(super) fn responses_definition(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": subset(&spec.input_schema, SchemaKeywords::OPENAI),
        "strict": false,
    })
}

/// Shortens a text to this many characters, the last of them `…`.
fn truncate_chars(text: &str, most: usize) -> Cow<'_, str> {
    if text.chars().nth(most).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().take(most - 1).chain(['…']).collect())
}
