//! Checks the JSON Schema of a command's arguments.
//!
//! The author of a command relies on it: a `pattern` that excludes `/` is a lock. So a keyword that the check of arguments does not support
//! is refused here instead of ignored there.

use serde_json::Value;

use super::DefinitionError;
use super::node::{Node, NodeEntry, NodeMap};

/// Supported keywords that take a number.
const NUMBER_KEYWORDS: &[&str] = &[
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];
/// Keywords without effect on the check, for models and people.
const ANNOTATION_KEYWORDS: &[&str] = &[
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "format",
    "$schema",
    "$id",
    "$comment",
];

/// Returns the schema as JSON. It must describe an object, which allows no unknown parameters unless the schema says so.
pub(super) fn from_node(node: &Node) -> Result<Value, DefinitionError> {
    check(node)?;
    let Some(entries) = node.map() else { return Err(node.at.error("`schema` must be a map")) };
    if let Some(kind) = entries.get("type").filter(|kind| kind.text() != Some("object")) {
        return Err(kind.at.error("arguments are an object: `type` must be `object`"));
    }
    if let Some(other) =
        entries.iter().find(|entry| matches!(&*entry.key, "anyOf" | "oneOf" | "enum" | "const"))
    {
        let key = &other.key;
        return Err(other.at.error(format!("arguments are one object: `{key}` has no place here")));
    }
    let mut schema = node.to_json();
    if let Value::Object(map) = &mut schema {
        map.entry("type").or_insert("object".into());
        map.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        map.entry("additionalProperties").or_insert(false.into());
    }
    Ok(schema)
}

/// Checks a schema and all schemas in it.
fn check(node: &Node) -> Result<(), DefinitionError> {
    match &node.value {
        super::node::NodeValue::Bool(true) => Ok(()),
        super::node::NodeValue::Map(entries) => {
            entries.iter().try_for_each(|entry| check_keyword(entry, entries))
        }
        _ => Err(node.at.error(format!("a schema is a map, and this is {}", node.kind()))),
    }
}

/// Checks one keyword of a schema; `siblings` are all keywords of the same schema.
fn check_keyword(entry: &NodeEntry, siblings: &NodeMap) -> Result<(), DefinitionError> {
    let (key, value) = (&*entry.key, &entry.value);
    match key {
        "properties" => map_of(value, key)?.iter().try_for_each(|entry| check(&entry.value)),
        "additionalProperties" if value.to_json() == false => Ok(()),
        "items" | "additionalProperties" => check(value),
        "anyOf" | "oneOf" => list_of(value, key)?.iter().try_for_each(check),
        "required" => check_required(value, siblings),
        "type" => check_type(value),
        "enum" => list_of(value, key).map(drop),
        "const" => Ok(()),
        annotation if ANNOTATION_KEYWORDS.contains(&annotation) => Ok(()),
        number if NUMBER_KEYWORDS.contains(&number) => check_number(value, key),
        "$ref" | "$defs" | "definitions" => {
            Err(entry.at.error(format!("`{key}` is not known here: write the schema out")))
        }
        _ => Err(entry.at.error(format!(
            "`{key}` is not checked by this version: leave it out, and check the argument in the command"
        ))),
    }
}

/// Checks that a value is a number.
fn check_number(value: &Node, key: &str) -> Result<(), DefinitionError> {
    if value.to_json().is_number() {
        return Ok(());
    }
    Err(value.at.error(format!("`{key}` is {}; it must be a number", value.kind())))
}

/// Checks that `required` names only known properties.
fn check_required(value: &Node, siblings: &NodeMap) -> Result<(), DefinitionError> {
    let known = siblings.get("properties").and_then(Node::map);
    for name in list_of(value, "required")? {
        let text = name.text().unwrap_or_default();
        if known.and_then(|known| known.get(text)).is_none() {
            return Err(name.at.error("what is required must be one of `properties`"));
        }
    }
    Ok(())
}

/// Checks the types of a schema.
fn check_type(value: &Node) -> Result<(), DefinitionError> {
    const TYPES: &[&str] = &["object", "array", "string", "boolean", "null", "number", "integer"];
    let single = std::slice::from_ref(value);
    for name in value.list().unwrap_or(single) {
        if !name.text().is_some_and(|name| TYPES.contains(&name)) {
            // In YAML, `null` without quotes is no text.
            return Err(name
                .at
                .error(format!("a type is one of {} (`\"null\"` in quotes)", TYPES.join(", "))));
        }
    }
    Ok(())
}

/// Returns the entries of a map, or an error that names the keyword.
fn map_of<'n>(node: &'n Node, key: &str) -> Result<&'n NodeMap, DefinitionError> {
    node.map().ok_or_else(|| node.at.error(format!("`{key}` is {}; it must be a map", node.kind())))
}

/// Returns the items of a list, or an error that names the keyword.
fn list_of<'n>(node: &'n Node, key: &str) -> Result<&'n [Node], DefinitionError> {
    node.list()
        .ok_or_else(|| node.at.error(format!("`{key}` is {}; it must be a list", node.kind())))
}
