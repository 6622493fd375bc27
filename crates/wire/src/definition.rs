//! Tool definitions in each format.

use serde_json::{Map, Value, json};

use super::{Format, anthropic, gemini, openai};
use windlass_core::{Example, ToolSpec};

/// Makes the definition of one tool for a provider, with the part of its schema that the provider accepts.
///
/// ```
/// use windlass_core::{AnyTool, ToolHandle, testing::MockTool};
/// use windlass_wire::{Format, definition};
/// let spec = AnyTool::spec(&*ToolHandle::from(MockTool::named("deploy")));
/// assert_eq!(definition(Format::OpenAiChat, &spec)["function"]["name"], "deploy");
/// assert_eq!(definition(Format::Gemini, &spec).get("parameters"), None);
/// ```
pub fn definition(format: Format, spec: &ToolSpec) -> Value {
    match format {
        Format::Plain => plain_definition(spec),
        Format::Anthropic => anthropic::definition(spec),
        Format::OpenAiChat => openai::chat_definition(spec),
        Format::OpenAiResponses => openai::responses_definition(spec),
        Format::Gemini => gemini::definition(spec),
    }
}

/// Makes the value of a provider's `tools` parameter from all tools, in the given order.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::{Format, definitions};
/// assert_eq!(definitions(Format::Anthropic, &[]), json!([]));
/// assert_eq!(definitions(Format::Gemini, &[]), json!({"functionDeclarations": []}));
/// ```
pub fn definitions<'s>(format: Format, specs: impl IntoIterator<Item = &'s ToolSpec>) -> Value {
    let list = specs.into_iter().map(|spec| definition(format, spec)).collect();
    match format {
        Format::Gemini => json!({"functionDeclarations": Value::Array(list)}),
        _ => Value::Array(list),
    }
}

/// Makes our own definition, which has everything, with the kinds of effects by name.
fn plain_definition(spec: &ToolSpec) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), spec.name.as_ref().into());
    if let Some(title) = &spec.about.title {
        tool.insert("title".into(), title.as_ref().into());
    }
    tool.insert("description".into(), spec.description.as_str().into());
    tool.insert("input_schema".into(), spec.input_schema.clone());
    tool.insert("effects".into(), spec.kinds.names().into());
    if let Some(schema) = &spec.about.output_schema {
        tool.insert("output_schema".into(), schema.clone());
    }
    if let Some(guidance) = &spec.about.guidance {
        tool.insert("guidance".into(), guidance.as_ref().into());
    }
    if !spec.about.examples.is_empty() {
        tool.insert("examples".into(), spec.about.examples.iter().map(example).collect());
    }
    tool.into()
}

/// Makes the JSON of an example.
fn example(example: &Example) -> Value {
    json!({"description": example.description, "input": example.input})
}

#[cfg(test)]
mod tests;
