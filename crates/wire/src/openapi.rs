//! Translates JSON Schema to the part of OpenAPI 3.0 that Gemini accepts.
//!
//! There, a schema has one type, or is a choice of schemas and nothing else; `null` is a property of a type, an `enum` has texts
//! only, an object has properties and an array has `items`. A value that cannot be described so is requested as JSON text, which
//! the engine accepts for an object or an array.

use serde_json::{Map, Value, json};

/// Translates a schema, before those below it, to one type or a choice. Returns true if a choice had only one option, which
/// replaced the schema and must be translated in turn.
pub(super) fn translate_type(map: &mut Map<String, Value>) -> bool {
    if let Some(Value::Array(names)) = map.get("type") {
        let names = names.clone();
        single_type(map, names);
    }
    let options = map.shift_remove("anyOf");
    if let Some(Value::Array(options)) = options
        && make_choice(map, options)
    {
        return true;
    }
    keep_text_enum(map);
    false
}

/// Adds required keywords, after the schemas below are translated.
pub(super) fn add_required_keywords(map: &mut Map<String, Value>) {
    if map.contains_key("anyOf") {
        return;
    }
    let name = known_or_implied_type(map);
    match name.as_str() {
        "object" if !has_properties(map) => request_as_text(map, "a JSON object, as text"),
        "array" => {
            map.insert("type".into(), name.into());
            map.entry("items").or_insert_with(|| json!({"type": "string"}));
        }
        "object" | "string" | "integer" | "number" | "boolean" => {
            keep_known_format(map, &name);
            map.insert("type".into(), name.into());
        }
        "null" => {
            map.insert("type".into(), "string".into());
            map.insert("nullable".into(), true.into());
        }
        _ => request_as_text(map, "any JSON, as text"),
    }
}

/// Replaces a list of types by one type, or by a choice of schemas.
fn single_type(map: &mut Map<String, Value>, mut names: Vec<Value>) {
    let before = names.len();
    names.retain(|name| name != "null");
    if names.len() < before {
        map.insert("nullable".into(), true.into());
    }
    if let [only] = names.as_slice() {
        map.insert("type".into(), only.clone());
        return;
    }
    map.shift_remove("type");
    let options = names.iter().filter_map(|name| option(map, name.as_str()?)).collect();
    map.entry("anyOf").or_insert(Value::Array(options));
}

/// Makes the option for one of several types, with the keywords of that type.
fn option(map: &Map<String, Value>, name: &str) -> Option<Value> {
    let keywords: &[&str] = match name {
        "object" => &["properties", "required"],
        "array" => &["items", "minItems", "maxItems"],
        "string" => &["enum", "pattern", "minLength", "maxLength"],
        "integer" | "number" => &["minimum", "maximum"],
        "boolean" => &[],
        _ => return None,
    };
    let about = map.iter().filter(|(keyword, _)| keywords.contains(&keyword.as_str()));
    let mut option: Map<String, Value> =
        about.map(|(keyword, value)| (keyword.clone(), value.clone())).collect();
    option.insert("type".into(), name.into());
    Some(option.into())
}

/// Makes a choice, which must have no other keywords. If the schema has a type, the choice only narrows it and is dropped;
/// otherwise the other keywords are dropped. Returns true if there was only one option.
fn make_choice(map: &mut Map<String, Value>, mut options: Vec<Value>) -> bool {
    for option in options.iter_mut().filter(|option| !option.is_object()) {
        *option = json!({});
    }
    let before = options.len();
    options.retain(|option| option.get("type").is_none_or(|name| name != "null"));
    if options.len() < before {
        map.insert("nullable".into(), true.into());
    }
    if options.is_empty() || map.contains_key("type") || map.contains_key("properties") {
        return false;
    }
    let (description, nullable) = (map.shift_remove("description"), map.shift_remove("nullable"));
    if let Some(Value::Object(first)) = options.first_mut() {
        for (keyword, value) in [("description", description), ("nullable", nullable)] {
            if let Some(value) = value {
                first.entry(keyword).or_insert(value);
            }
        }
    }
    map.clear();
    if let [Value::Object(only)] = options.as_mut_slice() {
        *map = std::mem::take(only);
        return true;
    }
    map.insert("anyOf".into(), options.into());
    false
}

/// Keeps an `enum` of texts. Lists other values in the description.
fn keep_text_enum(map: &mut Map<String, Value>) {
    let Some(Value::Array(mut values)) = map.shift_remove("enum") else { return };
    let before = values.len();
    values.retain(|value| !value.is_null() && value != "");
    if values.is_empty() {
        return;
    }
    if values.len() < before {
        map.insert("nullable".into(), true.into());
    }
    if values.iter().all(Value::is_string) {
        map.insert("type".into(), "string".into());
        map.insert("enum".into(), values.into());
        return;
    }
    let kind = values.first().map_or("string", type_of);
    map.entry("type").or_insert(kind.into());
    let words: Vec<String> = values.iter().map(ToString::to_string).collect();
    add_hint(map, &format!("one of: {}", words.join(", ")));
}

/// Returns the schema type of a value.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null | Value::String(_) => "string",
    }
}

/// Returns the type, or the one that other keywords imply.
fn known_or_implied_type(map: &Map<String, Value>) -> String {
    let implied = [("properties", "object"), ("items", "array"), ("pattern", "string")];
    match map.get("type").and_then(Value::as_str) {
        Some(name) => name.to_owned(),
        None => implied
            .iter()
            .find(|(keyword, _)| map.contains_key(*keyword))
            .map_or_else(String::new, |(_, name)| (*name).to_owned()),
    }
}

/// Returns whether a schema names at least one property.
fn has_properties(map: &Map<String, Value>) -> bool {
    map.get("properties")
        .and_then(Value::as_object)
        .is_some_and(|properties| !properties.is_empty())
}

/// Removes a `format` that Gemini does not accept for the type.
fn keep_known_format(map: &mut Map<String, Value>, name: &str) {
    let known: &[&str] = match name {
        "string" => &["date-time"],
        "integer" => &["int32", "int64"],
        "number" => &["float", "double"],
        _ => &[],
    };
    let format = map.get("format").and_then(Value::as_str).unwrap_or_default();
    if !known.contains(&format) {
        map.shift_remove("format");
    }
}

/// Makes a schema for the value as text.
fn request_as_text(map: &mut Map<String, Value>, what: &str) {
    map.retain(|keyword, _| keyword == "description" || keyword == "nullable");
    map.insert("type".into(), "string".into());
    add_hint(map, what);
}

/// Adds a hint to the description, for constraints without a keyword.
pub(super) fn add_hint(map: &mut Map<String, Value>, text: &str) {
    let description = match map.get("description").and_then(Value::as_str) {
        Some(description) if !description.is_empty() => format!("{description} ({text})"),
        _ => text.to_owned(),
    };
    map.insert("description".into(), description.into());
}
