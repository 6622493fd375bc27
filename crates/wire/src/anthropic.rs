//! Anthropic messages: `tool_use` and `tool_result` blocks.

use serde_json::{Map, Value, json};

use super::{Format, RequestedCall, object};
use windlass_core::{CallResult, Content, ToolSpec};

/// Takes a `tool_use` block; `None` for anything else.
pub(super) fn take_call(map: &mut Map<String, Value>) -> Option<RequestedCall> {
    (map.get("type")? == "tool_use").then(|| {
        RequestedCall::new(
            Format::Anthropic,
            map.remove("id"),
            map.remove("name"),
            map.remove("input"),
        )
    })
}

/// Makes a `tool_use` block.
pub(super) fn call(name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "name": name, "input": input})
}

/// Makes the block for the API, which refuses blank texts, and anything but text in an error.
pub(super) fn reply(result: &CallResult, is_error: bool) -> Value {
    let blocks = result.output.content.iter().filter(|content| !is_blank(content));
    let blocks = blocks.map(|content| match content {
        Content::Image { .. } if is_error => text(&content.shown()),
        _ => block(content),
    });
    tool_result(result, blocks.collect(), is_error)
}

/// Makes the block for `windlass run`, without the API's restrictions.
pub(super) fn full_reply(result: &CallResult, is_error: bool) -> Value {
    tool_result(result, result.output.content.iter().map(block).collect(), is_error)
}

/// Makes a `tool_result` block.
fn tool_result(result: &CallResult, content: Vec<Value>, is_error: bool) -> Value {
    object([
        ("type", "tool_result".into()),
        ("tool_use_id", super::reply::id(result).into()),
        ("content", content.into()),
        ("is_error", is_error.into()),
    ])
}

/// Returns the images that [`reply`] left out: they may follow the results in the same message.
pub(super) fn image_blocks(result: &CallResult) -> impl Iterator<Item = Value> {
    let is_error = super::reply::is_error(result);
    let left_out = result
        .output
        .content
        .iter()
        .filter(move |content| is_error && matches!(content, Content::Image { .. }));
    left_out.map(block)
}

/// Converts a piece of content to a block.
fn block(content: &Content) -> Value {
    match content {
        Content::Image { media_type, data } => {
            let source = object([
                ("type", "base64".into()),
                ("media_type", media_type.as_str().into()),
                ("data", data.as_str().into()),
            ]);
            object([("type", "image".into()), ("source", source)])
        }
        other => text(&other.shown()),
    }
}

/// Makes a text block.
pub(super) fn text(text: &str) -> Value {
    object([("type", "text".into()), ("text", text.into())])
}

/// Returns whether a content is text without visible characters.
fn is_blank(content: &Content) -> bool {
    content.as_text().is_some_and(|text| text.trim().is_empty())
}

/// Reads the content of a `tool_result` block.
pub(super) fn read_content(content: Value) -> Vec<Content> {
    match content {
        Value::Null => Vec::new(),
        Value::String(text) => vec![Content::text(text)],
        Value::Array(blocks) => blocks.into_iter().map(read_block).collect(),
        other => vec![Content::Json { value: other }],
    }
}

/// Reads one block. A block without an equivalent (documents, search results) is kept as data.
fn read_block(mut block: Value) -> Content {
    if let Some(Value::String(text)) = block.get_mut("text") {
        return Content::Text { text: std::mem::take(text) };
    }
    let source = |key: &str| block.get("source")?.get(key)?.as_str().map(str::to_owned);
    match (source("media_type"), source("data"), source("url")) {
        (Some(media_type), Some(data), _) => Content::Image { media_type, data },
        (media_type, _, Some(uri)) => {
            Content::ResourceLink { uri, name: "image".into(), media_type }
        }
        _ => Content::Json { value: block },
    }
}

/// Makes a tool definition.
pub(super) fn definition(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.name,
        "description": spec.description,
        "input_schema": super::subset(&spec.input_schema, super::SchemaKeywords::ANTHROPIC),
    })
}
