//! Checks a definition against the rules of its provider: for tests of tools.
//!
//! The rules are those whose violation makes a provider refuse a request. They are written independently of the code that must
//! follow them.

use serde_json::{Map, Value};

use super::{Format, SchemaKeywords};

/// The first rule of its provider that a definition breaks.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::{Format, check_definition};
/// let error = check_definition(Format::Anthropic, &json!([])).unwrap_err();
/// assert_eq!(error.to_string(), "the definition is no object");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{broken}")]
pub struct WireDefinitionError {
    /// Description of the rule and of its place in the definition.
    broken: String,
}

impl WireDefinitionError {
    /// Creates an error with this description.
    fn new(broken: impl Into<String>) -> Self {
        Self { broken: broken.into() }
    }
}

/// Checks a definition. The error describes the first rule that it breaks.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::{Format, check_definition};
/// let definition = json!({"name": "a b", "description": "Does it.", "input_schema": {"type": "object", "properties": {}}});
/// let error = check_definition(Format::Anthropic, &definition).unwrap_err();
/// assert_eq!(error.to_string(), "the name `a b` is ill-formed");
/// ```
pub fn check_definition(format: Format, definition: &Value) -> Result<(), WireDefinitionError> {
    let (function, keys): (_, &[&str]) = match format {
        Format::Plain => (definition, &["name", "title", "description", "input_schema", "effects"]),
        Format::Anthropic => (definition, &["name", "description", "input_schema"]),
        Format::OpenAiChat => (&definition["function"], &["name", "description", "parameters"]),
        Format::OpenAiResponses => {
            (definition, &["type", "name", "description", "parameters", "strict"])
        }
        Format::Gemini => (definition, &["name", "description", "parameters"]),
    };
    let function = function
        .as_object()
        .ok_or_else(|| WireDefinitionError::new("the definition is no object"))?;
    if let Some(unknown) = function.keys().find(|key| !keys.contains(&key.as_str())) {
        return Err(WireDefinitionError::new(format!("`{unknown}` is not known")));
    }
    check_name_and_description(format, function)?;
    match (format, function.get("input_schema").or_else(|| function.get("parameters"))) {
        (Format::Gemini, None) => Ok(()),
        (_, Some(schema)) => check_root(format, schema),
        (_, None) => Err(WireDefinitionError::new("the schema is missing")),
    }
}

/// Checks the characters and length of the name, and the length of the description.
fn check_name_and_description(
    format: Format,
    function: &Map<String, Value>,
) -> Result<(), WireDefinitionError> {
    let word = |key: &str| function.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = word("name");
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    ensure((1..=64).contains(&name.len()) && name.chars().all(fits), || {
        format!("the name `{name}` is ill-formed")
    })?;
    let max_chars = if format == Format::OpenAiChat { 1024 } else { usize::MAX };
    let len = word("description").chars().count();
    ensure((1..=max_chars).contains(&len), || format!("the description has {len} characters"))
}

/// Checks that the root of a schema is a plain object.
fn check_root(format: Format, schema: &Value) -> Result<(), WireDefinitionError> {
    let rules = match format {
        Format::Plain => return Ok(()),
        Format::Anthropic => SchemaKeywords::ANTHROPIC,
        Format::OpenAiChat | Format::OpenAiResponses => SchemaKeywords::OPENAI,
        Format::Gemini => SchemaKeywords::GEMINI,
    };
    for keyword in ["anyOf", "oneOf", "allOf", "enum", "const", "not"] {
        ensure(schema.get(keyword).is_none(), || format!("`{keyword}` is at the root"))?;
    }
    let is_object = schema["type"] == "object" && schema["properties"].is_object();
    ensure(is_object, || "the root is no object with properties".into())?;
    check_schema(schema, rules, "the root")
}

/// Checks a schema and those below it.
fn check_schema(
    schema: &Value,
    rules: SchemaKeywords,
    place: &str,
) -> Result<(), WireDefinitionError> {
    let map = schema
        .as_object()
        .ok_or_else(|| WireDefinitionError::new(format!("{place} is no object")))?;
    if let Some(keyword) = map.keys().find(|keyword| !rules.accepts(keyword)) {
        return Err(WireDefinitionError::new(format!("{place} has `{keyword}`")));
    }
    let empty = Map::new();
    let properties = map.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    for name in array_items(map, "required") {
        let known = name.as_str().is_some_and(|name| properties.contains_key(name));
        ensure(known, || format!("{place} requires {name}, which is no property"))?;
    }
    if rules == SchemaKeywords::GEMINI {
        check_openapi(map, place)?;
    }
    let is_list = map.get("type").is_some_and(|name| name == "array");
    ensure(!is_list || map.contains_key("items"), || format!("{place} is a list of what?"))?;
    for (name, inner) in properties {
        check_schema(inner, rules, &format!("{place}, {name}"))?;
    }
    let options =
        ["anyOf", "oneOf", "allOf", "prefixItems"].iter().flat_map(|key| array_items(map, key));
    for inner in options.chain(map.get("items")) {
        check_schema(inner, rules, &format!("{place}, below"))?;
    }
    Ok(())
}

/// Checks Gemini's rules beyond the keywords.
fn check_openapi(map: &Map<String, Value>, place: &str) -> Result<(), WireDefinitionError> {
    if map.contains_key("anyOf") {
        let is_choice = map.len() == 1 && array_items(map, "anyOf").count() > 1;
        return ensure(is_choice, || format!("{place} is no choice and nothing else"));
    }
    let name = map.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_known = matches!(name, "object" | "array" | "string" | "integer" | "number" | "boolean");
    ensure(is_known, || format!("{place} is of the type `{name}`"))?;
    let properties = map.get("properties").and_then(Value::as_object).map_or(0, Map::len);
    ensure(name != "object" || properties > 0, || format!("{place} has no properties"))?;
    let has_enum = map.contains_key("enum");
    ensure(!has_enum || name == "string", || format!("{place} has an enum of {name}"))?;
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    ensure(array_items(map, "enum").all(is_text), || {
        format!("{place} has an enum of more than texts")
    })
}

/// Returns the items of an array under a key; none if there is no array.
fn array_items<'m>(map: &'m Map<String, Value>, key: &str) -> impl Iterator<Item = &'m Value> {
    map.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Returns an error with the text of `otherwise`, unless a condition holds.
fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), WireDefinitionError> {
    if holds { Ok(()) } else { Err(WireDefinitionError::new(otherwise())) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_broken_rule_is_found() {
        let tool = |schema: Value| json!({"name": "a", "description": "Does it.", "input_schema": schema, "parameters": schema});
        let with = |property: Value| json!({"type": "object", "properties": {"p": property}});
        for (format, schema, broken) in [
            (Format::Anthropic, json!({"type": "object"}), "the root is no object with properties"),
            (Format::Anthropic, json!({"anyOf": []}), "`anyOf` is at the root"),
            (Format::Anthropic, with(json!({"$ref": "#"})), "the root, p has `$ref`"),
            (Format::OpenAiChat, with(json!({"allOf": []})), "the root, p has `allOf`"),
            (Format::OpenAiChat, with(json!({"type": "array"})), "the root, p is a list of what?"),
            (Format::OpenAiResponses, with(json!(true)), "the root, p is no object"),
            (
                Format::OpenAiResponses,
                json!({"type": "object", "properties": {}, "required": ["x"]}),
                "the root requires \"x\", which is no property",
            ),
            (Format::Gemini, with(json!({"const": 1})), "the root, p has `const`"),
            (Format::Gemini, with(json!({})), "the root, p is of the type ``"),
            (Format::Gemini, with(json!({"type": "object"})), "the root, p has no properties"),
            (
                Format::Gemini,
                with(json!({"type": "integer", "enum": [1]})),
                "the root, p has an enum of integer",
            ),
            (
                Format::Gemini,
                with(json!({"type": "string", "enum": [""]})),
                "the root, p has an enum of more than texts",
            ),
            (
                Format::Gemini,
                with(json!({"description": "x", "anyOf": [{}, {}]})),
                "the root, p is no choice and nothing else",
            ),
        ] {
            let mut definition = tool(schema);
            let unused = if format == Format::Anthropic { "parameters" } else { "input_schema" };
            definition.as_object_mut().unwrap().remove(unused);
            if format == Format::OpenAiChat {
                definition = json!({"type": "function", "function": definition});
            }
            assert_eq!(
                check_definition(format, &definition),
                Err(WireDefinitionError::new(broken))
            );
        }
    }
}
