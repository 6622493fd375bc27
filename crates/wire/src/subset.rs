//! Reduces a JSON Schema to the keywords that a provider accepts.
//!
//! A provider refuses the whole request for one unknown keyword, so each has a table of accepted keywords. Other keywords are
//! translated if there is an equivalent, and dropped otherwise: this schema only tells the model what to send, and the engine
//! checks the arguments against the full one.

use serde_json::{Map, Value, json};

use super::refs::{inline, map_schemas};
use super::{SchemaKeywords, openapi};

/// Reduces the schema of a tool's arguments to the keywords of a provider. The same schema gives the same bytes.
///
/// ```
/// use serde_json::json;
/// use windlass_wire::{SchemaKeywords, subset};
/// let schema = json!({
///     "type": "object",
///     "properties": {"depth": {"$ref": "#/$defs/Depth"}},
///     "additionalProperties": false,
///     "$defs": {"Depth": {"type": ["integer", "null"], "exclusiveMinimum": 0}},
/// });
/// assert_eq!(subset(&schema, SchemaKeywords::GEMINI), json!({
///     "type": "object",
///     "properties": {"depth": {"type": "integer", "minimum": 1, "nullable": true}},
/// }));
/// ```
pub fn subset(schema: &Value, rules: SchemaKeywords) -> Value {
    let root = match inline(schema) {
        Value::Object(map) => object_root(map),
        _ => object_root(Map::new()),
    };
    let reduced = reduce_schema(root.into(), rules);
    if reduced.get("properties").is_some() {
        return reduced;
    }
    // Below the root, Gemini gets an object without parameters as text; the arguments as a whole must stay an object.
    json!({"type": "object", "properties": {}})
}

/// Turns the root into a plain object. No provider accepts a combination at the root, so alternatives become one object with the
/// parameters of all; required are those that every alternative requires.
fn object_root(root: Map<String, Value>) -> Map<String, Value> {
    let mut root = merge_all_of(root);
    for combination in ["anyOf", "oneOf"] {
        if let Some(Value::Array(options)) = root.shift_remove(combination) {
            unite_alternatives(&mut root, options);
        }
    }
    for keyword in ["enum", "const", "not", "if", "then", "else"] {
        root.shift_remove(keyword);
    }
    root.insert("type".into(), "object".into());
    root.entry("properties").or_insert_with(|| json!({}));
    root
}

/// Joins the alternatives of a combination into the root.
fn unite_alternatives(root: &mut Map<String, Value>, options: Vec<Value>) {
    let mut united = Map::new();
    let mut required: Option<Vec<Value>> = None;
    for option in options {
        let Value::Object(option) = option else { continue };
        let mut option = merge_all_of(option);
        if let Some(Value::Object(properties)) = option.remove("properties") {
            for (name, schema) in properties {
                match united.get_mut(&name) {
                    Some(known) => *known = schema_of_either(known, &schema),
                    None => {
                        united.insert(name, schema);
                    }
                }
            }
        }
        let names = required_names(option.remove("required"));
        required = Some(match required {
            None => names,
            Some(earlier) => earlier.into_iter().filter(|name| names.contains(name)).collect(),
        });
    }
    let more = json!({"properties": united, "required": required.unwrap_or_default()});
    if let Value::Object(more) = more {
        merge_schema(root, more);
    }
}

/// Makes a schema that accepts both; `const` and `enum` values are joined in one list.
fn schema_of_either(one: &Value, other: &Value) -> Value {
    if one == other {
        return one.clone();
    }
    match (tags(one), tags(other)) {
        (Some(mut all), Some(more)) => {
            push_new(&mut all, more);
            let mut map = one.as_object().cloned().unwrap_or_default();
            map.shift_remove("const");
            map.insert("enum".into(), all.into());
            map.into()
        }
        _ => json!({"anyOf": [one, other]}),
    }
}

/// Returns the values of `const` or `enum`.
fn tags(schema: &Value) -> Option<Vec<Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => Some(vec![only.clone()]),
        (None, Some(Value::Array(tags))) => Some(tags.clone()),
        _ => None,
    }
}

/// Merges the branches of `allOf` into the schema.
fn merge_all_of(mut map: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(branches)) = map.shift_remove("allOf") {
        for branch in branches {
            if let Value::Object(branch) = branch {
                merge_schema(&mut map, merge_all_of(branch));
            }
        }
    }
    map
}

/// Adds missing keywords; `properties` and `required` are joined.
fn merge_schema(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (keyword, value) in from {
        match (keyword.as_str(), into.get_mut(&keyword), value) {
            ("properties", Some(Value::Object(known)), Value::Object(more)) => {
                for (name, schema) in more {
                    known.entry(name).or_insert(schema);
                }
            }
            ("required", Some(Value::Array(known)), more @ Value::Array(_)) => {
                push_new(known, required_names(Some(more)));
            }
            (_, None, value) => {
                into.insert(keyword, value);
            }
            _ => {}
        }
    }
}

/// Returns the names in `required`.
fn required_names(required: Option<Value>) -> Vec<Value> {
    match required {
        Some(Value::Array(names)) => names,
        _ => Vec::new(),
    }
}

/// Appends values that are not in the list yet.
fn push_new(list: &mut Vec<Value>, more: Vec<Value>) {
    for value in more {
        if !list.contains(&value) {
            list.push(value);
        }
    }
}

/// Reduces a schema and everything below it.
fn reduce_schema(schema: Value, rules: SchemaKeywords) -> Value {
    let Value::Object(mut map) = schema else { return reduce_schema(json!({}), rules) };
    loop {
        if !rules.accepts("allOf") {
            map = merge_all_of(map);
        }
        translate_keywords(&mut map, rules);
        if !rules.is_openapi() || !openapi::translate_type(&mut map) {
            break;
        }
    }
    map.retain(|keyword, _| rules.accepts(keyword));
    map_schemas(&mut map, &mut |inner| reduce_schema(inner, rules));
    keep_known_required(&mut map);
    if rules.is_openapi() {
        openapi::add_required_keywords(&mut map);
    } else if map.get("type").is_some_and(|name| name == "array") {
        // OpenAI refuses an array without `items`.
        map.entry("items").or_insert_with(|| json!({}));
    }
    map.into()
}

/// Translates keywords that are not accepted to accepted ones.
fn translate_keywords(map: &mut Map<String, Value>, rules: SchemaKeywords) {
    if !rules.accepts("oneOf")
        && let Some(options) = map.shift_remove("oneOf")
    {
        map.entry("anyOf").or_insert(options);
    }
    if !rules.accepts("const")
        && let Some(only) = map.shift_remove("const")
    {
        map.entry("enum").or_insert(json!([only]));
    }
    if !rules.accepts("default")
        && let Some(value) = map.shift_remove("default")
        // A default of null or false needs no mention.
        && !matches!(value, Value::Null | Value::Bool(false))
    {
        openapi::add_hint(map, &format!("default {value}"));
    }
    translate_tuple(map, rules);
    for (exclusive, inclusive, step) in
        [("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)]
    {
        if !rules.accepts(exclusive)
            && let Some(Value::Number(bound)) = map.shift_remove(exclusive)
        {
            let bound = match bound.as_i64().and_then(|bound| bound.checked_add(step)) {
                Some(next) if is_integer(map) => next.into(),
                _ => Value::Number(bound),
            };
            map.entry(inclusive).or_insert(bound);
        }
    }
}

/// Turns a tuple (`prefixItems`, formerly a list of `items`) into an array whose elements match any of its schemas.
fn translate_tuple(map: &mut Map<String, Value>, rules: SchemaKeywords) {
    let old = match map.get("items") {
        Some(Value::Array(_)) => map.shift_remove("items"),
        _ => None,
    };
    let Some(Value::Array(mut places)) = old.or_else(|| map.shift_remove("prefixItems")) else {
        return;
    };
    if rules.accepts("prefixItems") {
        map.insert("prefixItems".into(), places.into());
    } else if let [only] = places.as_mut_slice() {
        map.entry("items").or_insert(only.take());
    } else if !places.is_empty() {
        map.entry("items").or_insert_with(|| json!({"anyOf": places}));
    }
}

/// Returns whether a schema's type is an integer, or an integer or null.
fn is_integer(map: &Map<String, Value>) -> bool {
    match map.get("type") {
        Some(Value::Array(names)) => {
            names.iter().all(|name| name == "integer" || name == "null") && !names.is_empty()
        }
        Some(name) => name == "integer",
        None => false,
    }
}

/// Removes names from `required` that are no properties.
fn keep_known_required(map: &mut Map<String, Value>) {
    let Some(Value::Array(mut names)) = map.get_mut("required").map(Value::take) else {
        map.shift_remove("required");
        return;
    };
    let known = map.get("properties").and_then(Value::as_object);
    names.retain(|name| {
        name.as_str().is_some_and(|name| known.is_some_and(|known| known.contains_key(name)))
    });
    if names.is_empty() {
        map.shift_remove("required");
    } else {
        map.insert("required".into(), names.into());
    }
}

#[cfg(test)]
mod tests;
