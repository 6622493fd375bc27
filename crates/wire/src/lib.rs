//! Wire formats: conversion between the JSON of model providers and ours, for calls, responses and tool definitions.
//!
//! Takes and returns plain [`serde_json::Value`]s; nothing here uses HTTP or knows models. Each call is recognised by its own
//! shape, so a line may mix formats, and each call is answered in its own. Every response has two forms. [`to_api`] is strict,
//! because a provider refuses a request with an unknown key. [`to_line`] is the output of `windlass run`: the same response with
//! our facts added, and with the original content if the format cannot represent it, so that a line never loses anything.

mod anthropic;
mod call;
mod check;
mod definition;
mod gemini;
mod openai;
mod openapi;
mod refs;
mod reply;
mod rules;
mod subset;

use serde_json::{Map, Value};

pub use call::{BadCall, RequestedCall, read_calls, read_turn, write_call};
pub use check::{WireDefinitionError, check_definition};
pub use definition::{definition, definitions};
pub use reply::{CallResponse, answer, read_reply, to_api, to_line};
pub use rules::SchemaKeywords;
pub use subset::subset;

/// The JSON format of a provider.
///
/// ```
/// use windlass_wire::Format;
/// assert_eq!(Format::OpenAiChat.name(), "openai");
/// assert_eq!(Format::ALL.len(), 5);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Our own: `{"tool": NAME, "input": {…}}`, with responses like those of `windlass call --json`.
    #[default]
    Plain,
    /// Anthropic messages: `tool_use` and `tool_result` blocks.
    Anthropic,
    /// OpenAI chat completions and compatible servers: `tool_calls`, and messages with the role `tool`.
    OpenAiChat,
    /// OpenAI responses: `function_call` and `function_call_output` items.
    OpenAiResponses,
    /// Gemini: `functionCall` and `functionResponse` parts.
    Gemini,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 5] =
        [Self::Plain, Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses, Self::Gemini];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "json",
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
        }
    }
}

/// Error of reading a value.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::read_calls;
/// let error = read_calls(json!({"path": "README.md"})).unwrap_err();
/// assert!(error.to_string().starts_with("an object with the key `path` is not a tool call; expected"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The value is no known form of a call.
    #[error(
        "{found} is not a tool call; expected an Anthropic `tool_use`, an OpenAI `tool_calls` message or `function_call` \
         item, a Gemini `functionCall`, or {{\"tool\": NAME, \"input\": {{…}}}}, or an array of them"
    )]
    NotACall {
        /// Description of the value.
        found: String,
    },
    /// The message contains no call.
    #[error("there is no tool call in {found}")]
    NoCalls {
        /// Description of the message.
        found: String,
    },
    /// The value is no known form of a response to a call.
    #[error(
        "{found} is not the answer to a tool call; expected an Anthropic `tool_result`, an OpenAI message of the role `tool` \
         or `function_call_output` item, or a Gemini `functionResponse`"
    )]
    NotAReply {
        /// Description of the value.
        found: String,
    },
}

/// Makes an object of these entries. Unlike `json!` it moves the values: responses can be long.
fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Describes a value for an error message, briefly.
fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a text".into(),
        Value::Array(values) => format!("a list of {}", values.len()),
        Value::Object(map) => described_object(map),
    }
}

/// Describes an object by its first keys, for error messages.
fn described_object(map: &Map<String, Value>) -> String {
    const MAX_KEYS: usize = 5;
    let names: Vec<String> = map
        .keys()
        .take(MAX_KEYS)
        .map(|key| format!("`{}`", shortened(&windlass_core::quote::visible(key))))
        .collect();
    let more = if map.len() > MAX_KEYS { ", …" } else { "" };
    match names.as_slice() {
        [] => "an empty object".into(),
        [only] => format!("an object with the key {only}"),
        _ => format!("an object with the keys {}{more}", names.join(", ")),
    }
}

/// Returns the first 40 characters of a text.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(at, _)| &text[..at])
}
