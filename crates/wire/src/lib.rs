//! The providers' JSON and ours, in both directions: calls, their answers, and the definitions of tools.
//!
//! Plain [`serde_json::Value`]s go in and come out; nothing here speaks HTTP or knows a model. A call is recognised by its own
//! shape, one by one, so a line may mix formats and each call is answered in its own. Every answer has two forms. [`to_api`] is
//! strict: a provider refuses a request with one key too many. [`to_line`] is what `windlass run` prints: the same answer with
//! our facts beside it, and where a format cannot carry a piece of content, the content itself, so that a line never loses
//! anything.

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

pub use call::{Asked, BadCall, read_calls, read_turn, write_call};
pub use check::check_definition;
pub use definition::{definition, definitions};
pub use reply::{Reply, answer, read_reply, to_api, to_line};
pub use rules::Rules;
pub use subset::subset;

/// Whose JSON it is.
///
/// ```
/// use windlass_wire::Format;
/// assert_eq!(Format::OpenAiChat.name(), "openai");
/// assert_eq!(Format::ALL.len(), 5);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Our own: `{"tool": NAME, "input": {…}}`, answered as `windlass call --json` does.
    #[default]
    Plain,
    /// Anthropic messages: `tool_use` and `tool_result` blocks.
    Anthropic,
    /// OpenAI chat completions, and all who speak it: `tool_calls`, and messages of the role `tool`.
    OpenAiChat,
    /// OpenAI responses: `function_call` and `function_call_output` items.
    OpenAiResponses,
    /// Gemini: `functionCall` and `functionResponse` parts.
    Gemini,
}

impl Format {
    /// Every format there is.
    pub const ALL: [Self; 5] =
        [Self::Plain, Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses, Self::Gemini];

    /// Its name on the command line.
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

/// Why a value could not be read.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::read_calls;
/// let error = read_calls(json!({"path": "README.md"})).unwrap_err();
/// assert!(error.to_string().starts_with("an object with the key `path` is not a tool call; expected"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Nothing that we know as a call.
    #[error(
        "{found} is not a tool call; expected an Anthropic `tool_use`, an OpenAI `tool_calls` message or `function_call` \
         item, a Gemini `functionCall`, or {{\"tool\": NAME, \"input\": {{…}}}}, or an array of them"
    )]
    NotACall {
        /// What was there instead.
        found: String,
    },
    /// A message without any call in it.
    #[error("there is no tool call in {found}")]
    NoCalls {
        /// What was searched.
        found: String,
    },
    /// Nothing that we know as the answer to a call.
    #[error(
        "{found} is not the answer to a tool call; expected an Anthropic `tool_result`, an OpenAI message of the role `tool` \
         or `function_call_output` item, or a Gemini `functionResponse`"
    )]
    NotAReply {
        /// What was there instead.
        found: String,
    },
}

/// An object of these entries. Unlike `json!` it moves what it is given: answers can be long.
fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A value in a message: enough to recognise it, never a flood.
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

fn described_object(map: &Map<String, Value>) -> String {
    const MOST: usize = 5;
    let names: Vec<String> = map
        .keys()
        .take(MOST)
        .map(|key| format!("`{}`", short(&windlass_core::quote::visible(key))))
        .collect();
    let more = if map.len() > MOST { ", …" } else { "" };
    match names.as_slice() {
        [] => "an empty object".into(),
        [only] => format!("an object with the key {only}"),
        _ => format!("an object with the keys {}{more}", names.join(", ")),
    }
}

fn short(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(at, _)| &text[..at])
}
